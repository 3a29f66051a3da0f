"""Rows left out: what labels say of the rest, and fits without the rows."""

import contextlib
import copy
import warnings
from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import FillBetweenPolyCollection
from numpy.typing import NDArray
from sklearn.base import clone

import metriclearn as ml
from metriclearn.problem.regions import KINDS, ChangeCount
from metriclearn.views.gaps import placed
from tests.exhaustive import all_segmentations
from tests.sentences import assert_warned
from tests.training import XS, YS

PLAIN = ml.ChangePointMetricLearner(regularizer=ml.SquaredFrobenius(0.1), verbose=False)


def with_gaps(X: NDArray, seed: int, share: float = 0.2) -> NDArray:
    """Some values lost, one by one."""
    lost = np.random.default_rng(seed).random(X.shape) < share / X.shape[1]
    return np.where(lost, np.nan, X)


GAPPED = [with_gaps(X, i) for i, X in enumerate(XS)]
KNOWN = [~np.isnan(X).any(axis=1) for X in GAPPED]


@pytest.mark.parametrize(("value", "rows"), [(-9999.0, 50), (1e5, 1)])
def test_values_far_from_all_others_are_noted(value: float, rows: int) -> None:
    """In training and new recordings. Rare events and long tails are not far."""
    wrong = XS[0].copy()
    wrong[:rows, 2] = value
    segmenter = ml.Segmenter({"one": [PLAIN]}, n_folds=2, verbose=False)
    with assert_warned(rf"^Segmenter .*: {value:.6g} in {rows} row\(s\) of column 2\. If"):
        segmenter.fit([wrong, *XS[1:]], YS)
    with assert_warned(rf"{value:.6g} in {rows} row\(s\) of column 2\."):
        segmenter.predict(wrong)
    rng = np.random.default_rng(0)
    tails = rng.laplace(size=wrong.shape)
    tails[:, 0], tails[:, 1] = rng.random(len(wrong)) < 0.02, rng.lognormal(size=len(wrong))
    with warnings.catch_warnings(action="error"):
        segmenter.predict([*XS, tails, wrong[:20]])


@pytest.mark.parametrize("view", [ml.views.LeaveOut(), None], ids=["left out", "filled"])
def test_a_segmenter_answers_for_the_rows_that_are_left_moved_to_all_rows(view: Any) -> None:
    """By default gaps are filled, with a note, but for rows without any value."""
    members = {"one": [PLAIN], "euclidean": [ml.baselines.TunedSegmenter()]}
    empty = [np.where(np.arange(len(X))[:, None] // 6 == 8, np.nan, X) for X in GAPPED]
    mend = ml.views.LeaveOut(fill=view is None)
    left, kept = mend.fit_transform(empty), mend.kept(empty)
    rows = ml.Segmenter(members, n_folds=2, verbose=False)
    rows.fit(left, [y[k] for y, k in zip(YS, kept)])
    gapped = ml.Segmenter(members, view=view, n_folds=2, verbose=False)
    said = r"\d+ of 600 rows have missing values, which are interp|30 of 600 rows have no value"
    with contextlib.nullcontext([1, 2]) if view else pytest.warns(UserWarning, match=said) as told:
        gapped.fit(empty, YS)
    assert len(told) == 2
    np.testing.assert_array_equal(gapped.cross_fit_.losses, rows.cross_fit_.losses)
    plain = rows.behind(mend) if view else rows  # those of complete rows fill gaps by themselves
    with contextlib.nullcontext() if view else pytest.warns(UserWarning, match="interpol|no value"):
        other = copy.copy(plain).calibrate(empty, YS).boundary_probabilities(empty)
        for X, Z, k in zip(empty, left, kept):
            ends = placed(rows.predict_change_points(Z), k, len(X))
            np.testing.assert_array_equal(gapped.predict_change_points(X), ends)
            np.testing.assert_array_equal(plain.predict_change_points(X), ends)
            assert len(gapped.boundary_shares(X)) == len(ends) - 1
            fact = np.full(len(X), -1)
            fact[20:40] = 0
            inside = gapped.predict_change_points(X, known=fact)
            assert not np.any((inside > 20) & (inside < 40))
            same = plain.predict(X, known=fact), gapped.predict(X, known=fact)
            np.testing.assert_array_equal(*same)
    assert gapped.score(empty, YS) > -0.1
    for one, same in zip(other, gapped.calibrate(empty, YS).boundary_probabilities(empty)):
        np.testing.assert_array_equal(one, same)


def test_a_learner_that_reads_gaps_draws_them() -> None:
    model = clone(PLAIN).set_params(view=ml.views.LeaveOut()).fit(GAPPED, YS)
    (ax,) = model.plot(GAPPED[0], YS[0]).axes
    lanes = [drawn for drawn in ax.collections if isinstance(drawn, FillBetweenPolyCollection)]
    assert len(lanes) == 3
    assert all(len(lane.get_paths()) > 1 for lane in lanes)  # pieces between gaps


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


def test_a_change_in_a_gap_is_in_its_middle() -> None:
    """Of m unknown rows ⌊m/2⌋ are before it; rows at the ends belong to the segment there."""
    x = np.repeat([0.0, 9.0], [5, 7])[:, None] + 0.01 * np.arange(12)[:, None]
    learner = ml.ChangePointMetricLearner(view=ml.views.LeaveOut(), verbose=False)
    segmenter = learner.fit([x, x], [[5, 12]] * 2)
    x[[3, 4, 5]] = np.nan
    assert segmenter.predict_change_points(x).tolist() == [4, 12]
    x[[0, 11]] = np.nan
    assert segmenter.predict(x, n_segments=2).tolist() == [0] * 4 + [1] * 8
