"""Rows left out: the weighted objective by enumeration, and fits without the rows."""

from collections.abc import Iterator
from itertools import combinations, product

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone

import metriclearn as ml
from metriclearn.estimators.reading.data_sets import read_data_sets
from metriclearn.estimators.reading.labels import read_labelings
from metriclearn.estimators.scores.segment_score import SegmentScore
from metriclearn.problem.regions import AT_LEAST_ONE, AT_MOST_ONE, KINDS, ChangeCount
from metriclearn.views.gaps import placed
from tests.exhaustive import all_segmentations, labels_of
from tests.training import XS, YS

PLAIN = ml.ChangePointMetricLearner(regularizer=ml.SquaredFrobenius(0.1), verbose=False)
BEHIND = clone(PLAIN).set_params(view=ml.views.LeaveOut())


def with_gaps(X: NDArray, seed: int, share: float = 0.2) -> NDArray:
    """Some values lost, one by one."""
    lost = np.random.default_rng(seed).random(X.shape) < share / X.shape[1]
    return np.where(lost, np.nan, X)


GAPPED = [with_gaps(X, i) for i, X in enumerate(XS)]
KNOWN = [~np.isnan(X).any(axis=1) for X in GAPPED]


@pytest.fixture(scope="module")
def fitted() -> ml.ChangePointMetricLearner:
    return clone(BEHIND).fit(GAPPED, YS)


def weighted_value(Z: NDArray, w: NDArray, ends: tuple[int, ...], penalty: float) -> float:
    """Σ ‖Σ w z‖² / Σ w − λ over the segments, 0 − λ for those without a known sample."""
    total = 0.0
    for start, end in zip((0, *ends[:-1]), ends):
        weights = w[start:end]
        squares = np.square(weights @ Z[start:end]).sum()
        total += squares / max(weights.sum(), 1) - penalty
    return total


@pytest.mark.filterwarnings("ignore::UserWarning")  # segments of single samples
def test_predictions_are_the_best_of_the_weighted_objective(fitted) -> None:
    """All segmentations of eight samples of which any subset is known."""
    segmenter = clone(fitted).fit([X[:, :2] for X in GAPPED], YS)
    rng = np.random.default_rng(0)
    for w in map(np.array, product([0, 1], repeat=8)):
        if not w.any():
            continue
        X = np.where(w[:, None], rng.normal(size=(8, 2)), 0.0)
        score = SegmentScore(rng.normal(size=(2, 2)), rng.uniform(0.1, 4.0))
        segmenter.score_ = score.through(segmenter.score_.view)
        ends = segmenter.predict_change_points(np.where(w[:, None], X, np.nan))
        Z = X @ score.components.T
        values = [weighted_value(Z, w, e, score.penalty) for e in all_segmentations(8)]
        found = weighted_value(Z, w, tuple(ends.tolist()), score.penalty)
        assert found == pytest.approx(max(values), abs=1e-9)
        labels = segmenter.predict(np.where(w[:, None], X, np.nan))
        np.testing.assert_array_equal(labels, labels_of(ends))


def test_a_segmenter_leaves_rows_out_and_says_so() -> None:
    """Its answers are those of the members for the rows that are left, moved to all rows."""
    members = {"one": [PLAIN], "euclidean": [ml.baselines.TunedSegmenter()]}
    with pytest.warns(UserWarning, match=r"\d+ of \d+ rows have missing values and are left out"):
        gapped = ml.Segmenter(members, n_folds=2, verbose=False).fit(GAPPED, YS)
    known = [X[k] for X, k in zip(GAPPED, KNOWN)], [y[k] for y, k in zip(YS, KNOWN)]
    rows = ml.Segmenter(members, n_folds=2, verbose=False).fit(*known)
    np.testing.assert_array_equal(gapped.cross_fit_.losses, rows.cross_fit_.losses)
    for X, Z, k in zip(GAPPED, known[0], KNOWN):
        ends = placed(rows.predict_change_points(Z), np.flatnonzero(k), len(X))
        np.testing.assert_array_equal(gapped.predict_change_points(X), ends)
        assert len(gapped.boundary_shares(X)) == len(ends) - 1
        fact = np.full(len(X), -1)
        fact[20:40] = 0
        inside = gapped.predict_change_points(X, known=fact)
        assert not np.any((inside > 20) & (inside < 40))
    assert gapped.score(GAPPED, YS) > -0.1
    filled = ml.Segmenter(members, view=ml.views.Fill(), n_folds=2, verbose=False)
    assert filled.fit(GAPPED, YS).score(GAPPED, YS) > -0.1
    assert filled.calibrate(GAPPED, YS).boundary_probabilities(GAPPED[0]).min() >= 0


def test_a_change_in_a_gap_is_in_its_middle() -> None:
    """Of m unknown rows ⌊m/2⌋ are before it; rows at the ends belong to the segment there."""
    x = np.repeat([0.0, 9.0], [5, 7])[:, None] + 0.01 * np.arange(12)[:, None]
    learner = ml.ChangePointMetricLearner(view=ml.views.LeaveOut(), verbose=False)
    segmenter = learner.fit([x, x], [[5, 12]] * 2)
    x[[3, 4, 5]] = np.nan
    assert segmenter.predict_change_points(x).tolist() == [4, 12]
    x[[0, 11]] = np.nan
    assert segmenter.predict(x, n_segments=2).tolist() == [0] * 4 + [1] * 8


# Labels


@pytest.mark.parametrize("kind", KINDS.values(), ids=repr)
def test_an_annotation_rules_out_exactly_what_no_segmentation_with_gaps_can_be(kind) -> None:
    """Every region of six samples, and any of them known."""
    T = 6
    every = [ml.Partition(ends=np.array(ends)) for ends in all_segmentations(T)]
    for w in product([False, True], repeat=T):
        kept = np.flatnonzero(w)
        if not len(kept):
            continue
        small = [ml.Partition(ends=np.array(ends)) for ends in all_segmentations(len(kept))]
        shadows = [ml.Partition.from_runs(one.labels[kept]) for one in every]
        for start, stop in combinations(range(T + 1), 2):
            if stop - start > 1:
                truth = ml.PartialPartition(T, regions=[ml.Region(start, stop, kind)])
                labels = truth.at(kept)
                possible = {seen for one, seen in zip(every, shadows) if truth.allows(one)}
                assert {one for one in small if labels.allows(one)} == possible


def test_two_annotations_together_say_all_that_regions_of_kept_rows_can() -> None:
    """No region that holds for all segmentations with these annotations excludes any other."""
    T = 4
    every = [ml.Partition(ends=np.array(ends)) for ends in all_segmentations(T)]
    places = [(a, b) for a, b in combinations(range(T + 1), 2) if b - a > 1]
    pairs = list(combinations([ml.Region(*one) for one in regions_at(places)], 2))
    for w in product([False, True], repeat=T):
        kept = np.flatnonzero(w)
        if not 2 <= len(kept) < T:
            continue
        small = [ml.Partition(ends=np.array(ends)) for ends in all_segmentations(len(kept))]
        fits = [(a, b) for a, b in places if b <= len(kept)]
        said = [
            {x for x in small if ml.Region(*r).allows(x.change_points[:-1])}
            for r in regions_at(fits)
        ]
        shadows = [ml.Partition.from_runs(one.labels[kept]) for one in every]
        for regions in pairs:
            possible = {
                seen
                for one, seen in zip(every, shadows)
                if all(region.allows(one.change_points[:-1]) for region in regions)
            }
            if possible:
                labels = ml.PartialPartition(T, regions=regions).at(kept)
                strongest = set(small).intersection(*(s for s in said if possible <= s))
                assert {one for one in small if labels.allows(one)} == strongest


def regions_at(places: list[tuple[int, int]]) -> Iterator[tuple[int, int, ChangeCount]]:
    """The contents of all regions at these places."""
    return ((*place, kind) for place in places for kind in KINDS.values())


def test_labels_of_several_kinds_say_what_they_can() -> None:
    X = np.zeros((8, 6))
    X[[2, 3, 6]] = np.nan
    data = read_data_sets("a test", X, missing=True)

    def left(y) -> list[int]:
        (truth,) = read_labelings("a test", y, data, segments=True, partial=True)
        truth = truth.at(np.array([0, 1, 4, 5, 7]))
        assert truth.n_samples == 5
        return truth.change_points.tolist() if isinstance(truth, ml.Partition) else truth

    assert left([0, 0, 0, 1, 1, 1, 1, 1]) == [2, 5]  # known rows 0 1 4 5 7
    assert left([3, 8]) == [2, 5]
    assert left(list("aabbaaac")) == [2, 4, 5]  # what lies between the two "a" is lost
    assert left(ml.Partition.from_change_points([6, 8])) == [4, 5]
    unknown = left([0, 0, -1, -1, 0, 0, 0, 0])
    assert unknown.allows(ml.Partition.from_change_points([2, 5]))
    assert not unknown.allows(ml.Partition.from_change_points([1, 5]))
    # that the only change is not at row 3 must not hide that there is one change at most
    one = ml.PartialPartition(4, regions=[(0, 4, AT_MOST_ONE), (0, 3, AT_LEAST_ONE)])
    assert not one.at(np.array([0, 1, 3])).allows(ml.Partition(ends=np.array([1, 2, 3])))


# Names, frames, files


# Errors


def test_errors_say_what_to_do(fitted) -> None:
    crossed = np.where(np.eye(6, dtype=bool), np.nan, np.ones((6, 6)))
    with pytest.raises(ValueError, match="each has a NaN; leave this recording"):
        fitted.predict(crossed)
    with pytest.raises(ValueError, match="got inf"):
        fitted.predict(np.where(KNOWN[0][:, None], XS[0], np.inf))
    with pytest.raises(ValueError, match="one label per sample, got 96 labels"):
        clone(BEHIND).fit(GAPPED, [y[:96] for y in YS])
