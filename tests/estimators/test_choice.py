"""What Segmenter(combine="best") chooses, and by which data."""

from typing import Any, ClassVar, Self

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import metriclearn as ml
from metriclearn.datasets import make_change_points
from metriclearn.estimators import Member, Viterbi
from metriclearn.problem import FrobeniusLoss
from tests.estimators.test_feature_penalty import XS, YS

QUICK = {"solver": ml.BundleDual(tolerance=1e-2, max_rounds=60), "verbose": False}
STRONG = ml.L1(1e4)
FEW = {
    "diagonal": [
        ml.ChangePointMetricLearner(regularizer=ml.L1(1e-3), **QUICK),
        ml.ChangePointMetricLearner(regularizer=STRONG, **QUICK),
    ],
    "full": [ml.ChangePointMetricLearner(ml.FullMetric(), ml.Trace(1e-3), **QUICK)],
}


def chosen(X, y, groups=None, members=FEW, n_folds=4, **options):
    segmenter = ml.Segmenter(members, combine="best", n_folds=n_folds, verbose=False, **options)
    return segmenter.fit(X, y, groups)


def test_the_simplest_of_equals_and_the_better_strength() -> None:
    """Three of fifteen features matter, each on its own: a full metric is no better."""
    data = make_change_points(6, 150, 15, 3, (3, 5), random_state=0)
    segmenter = chosen(data.sequences, data.labels)
    choice, learner = segmenter.choice_, segmenter.learner_
    assert choice.names[choice.chosen].startswith("diagonal strength 0.001")
    assert choice.losses.shape == (len(choice.names), 6)
    best = choice.losses[choice.chosen].mean()
    worst = choice.losses[["strength 10000" in name for name in choice.names]].mean()
    assert best < 0.5 * worst
    assert choice.late == []
    (marked,) = (line for line in str(choice).splitlines() if "→" in line)
    assert marked.endswith(choice.names[choice.chosen])
    shortest = min(np.diff(ends, prepend=0).min() for ends in data.change_points)
    assert any(f"min_size {shortest // 2}" in name for name in choice.names)
    assert np.count_nonzero(np.abs(learner.components_).sum(axis=0)) < 10
    for X in data.sequences:
        found = segmenter.predict_change_points(X)
        np.testing.assert_array_equal(found, learner.predict_change_points(X))
    assert segmenter.validation_.loss == pytest.approx(best)


def test_two_groups_need_more_than_one_standard_error_of_theirs() -> None:
    """The full metric is better by 1.2 standard errors: Student asks for 1.8 of two values."""
    data = make_change_points(2, 120, 6, 2, (3, 5), random_state=15)
    turned = np.linalg.qr(np.random.RandomState(15).randn(6, 6))[0]
    full = ml.ChangePointMetricLearner(ml.FullMetric(), ml.Trace(1e-2), **QUICK)
    members = {"diagonal": [ml.ChangePointMetricLearner(regularizer=ml.L1(1e-3), **QUICK)]}
    arrays = [X @ turned for X in data.sequences]
    choice = chosen(arrays, data.labels, members=members | {"full": [full]}).choice_
    losses = {name: row for name, row in zip(choice.names, choice.losses)}
    best = {
        family: min((row for name, row in losses.items() if name.startswith(family)), key=np.mean)
        for family in ("diagonal, penalty tuned on training recordings in", "full, penalty tuned")
    }
    excess = np.subtract(*best.values())
    error = np.std(excess, ddof=1) / np.sqrt(2)
    assert 1.1 < excess.mean() / error < 1.7
    assert choice.names[choice.chosen].startswith("diagonal")


class Watched(ml.ChangePointMetricLearner):
    """Keeps the time limits of its fits."""

    limits: ClassVar[list[float]] = []

    def fit_among(self, *data: Any, **options: Any) -> Self:
        self.limits.append(self.callbacks[-1].seconds)
        return super().fit_among(*data, **options)


def test_every_fit_is_stopped_after_a_twentieth_of_the_seconds() -> None:
    """The first member is fitted even if there is no time; the others are named."""
    chosen(XS[:4], YS[:4], members={"watched": [Watched(**QUICK)]}, seconds=900, n_folds=2)
    assert set(Watched.limits) == {45.0}
    with pytest.warns(UserWarning, match="members of 4 of 4 families are left out.*no time"):
        hurried = chosen(XS[:4], YS[:4], seconds=1e-9, n_folds=2)
    assert hurried.learner_.solution_.reason == "callback"
    assert list(hurried.learner_.callbacks) == []
    assert {name.partition(",")[0] for name in hurried.choice_.names} == {"diagonal"}
    assert "full" in hurried.choice_.late
    assert "diagonal with penalties of the boundary" in hurried.choice_.late


def test_penalties_are_taken_where_they_help_and_files_keep_the_choice(tmp_path) -> None:
    """Noise of two levels: the penalty has to follow it."""
    groups = np.repeat(np.arange(4), 2)
    squared = ml.ChangePointMetricLearner(regularizer=ml.SquaredFrobenius(1e-3), **QUICK)
    segmenter = chosen(XS, YS, groups, {"diagonal": [squared]})
    assert segmenter.choice_.losses.shape[1] == 4
    assert any("penalties of the boundary" in name for name in segmenter.choice_.names)
    loaded = ml.load(ml.save(segmenter, tmp_path / "best.npz"))
    assert str(loaded.choice_) == str(segmenter.choice_)


def lone_recording() -> tuple[np.ndarray, np.ndarray]:
    """Segments of 20 rows with three levels, named in turn."""
    names = np.repeat(list("abcabcabc"), 20)
    levels = {"a": 0.0, "b": 4.0, "c": -4.0}
    noise = np.random.default_rng(0).normal(size=(180, 2))
    return noise + np.array([[levels[name], 0.0] for name in names]), names


@pytest.mark.parametrize("groups", [None, np.zeros(len(XS))])
def test_a_single_group_is_divided_and_says_so(groups) -> None:
    """A single recording by its labels, several ones of a group by recordings."""
    X, y, where = (*lone_recording(), "parts") if groups is None else (XS, YS, "recordings")
    members = {"metric": [ml.ChangePointMetricLearner()]}
    with pytest.warns(UserWarning, match=f"of one group, so it is checked on other {where}"):
        found = ml.Segmenter(members, n_folds=3, verbose=False).fit(X, y, groups)
    if groups is None:  # midway between the boundaries at 40 and 60, and at 100 and 120
        stretches = [truth.pieces.stretches for truth in found.cross_fit_.given.truths]
        assert [start for ((start, _),) in stretches] == [0, 50, 110]
    assert np.isfinite(found.cross_fit_.losses).all()
    assert len(found.cross_fit_.parts.left_out) == 3
    new = X if groups is None else X[0]
    assert found.predict_change_points(new)[-1] == len(new)
    rates = found.boundary_probabilities(new, tolerance=2)
    assert len(rates) == len(found.predict_change_points(new)) - 1
    assert np.all((rates >= 0) & (rates <= 1))


def test_members_keep_their_views_where_nothing_is_left_out() -> None:
    y = np.repeat(list("ab"), 40)
    X = np.random.default_rng(0).normal(size=(80, 2)) + np.where(y == "a", 0.0, 4.0)[:, None]
    names = Viterbi(None, classes=np.array(["a", "b"]))
    member = Member("trees", names, ml.views.Posteriors(n_folds=1, context=0))
    with pytest.warns(UserWarning, match="of one group, so it is checked on nothing"):
        alone = ml.Segmenter({"trees": [member]}, names=True, verbose=False).fit([X], [y])
    assert alone.predict_change_points(X).tolist() == [40, 80]
    assert alone.classes_.tolist() == ["a", "b"]


def steps(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Segments of 20 rows with one relevant column, and four with more noise; the truth."""
    rng, truth = np.random.default_rng(seed), np.arange(n) // 20
    X = rng.normal(size=(n, 5)) * [1.0, 3.0, 3.0, 3.0, 3.0]
    return X + np.outer(truth % 2, [4.0, 0.0, 0.0, 0.0, 0.0]), truth


@pytest.mark.parametrize("labeled", [80, 40])
def test_a_recording_with_few_boundaries_does_not_divide_others_everywhere(labeled: int) -> None:
    """With two boundaries and more, parts of its labels are left out; with one, the rate helps."""
    X, truth = steps(200, 0)
    new, expected = steps(200, 1)
    y = np.where(np.arange(200) < labeled, truth, -1)
    alone = ml.Segmenter(verbose=False).fit([X], [y])
    assert (alone.cross_fit_ is None) == (labeled == 40)
    found = ml.Partition(ends=alone.predict_change_points(new))
    loss = FrobeniusLoss().squared_norm(found, ml.Partition.from_runs(expected))
    assert loss <= (9.0 if labeled == 40 else 5.0)  # one segment has 9


def test_few_boundaries_have_one_whitened_metric_and_say_so() -> None:
    rng, y = np.random.default_rng(0), np.repeat([0, 1], 20)
    X, other = (rng.normal(size=(n, 1)) + 9.0 * (np.arange(n) // 20 % 2)[:, None] for n in (40, 80))
    for data in ((X, y), ([X], [y], [0])):
        with pytest.warns(UserWarning, match="of one group, so it is checked on nothing"):
            alone = ml.Segmenter(verbose=False).fit(*data)
        assert isinstance(alone.learner_, ml.WhitenedMetricLearner)
        assert alone.cross_fit_ is None
        assert alone.predict_change_points(other).tolist() == [20, 40, 60, 80]
        with pytest.raises(ValueError, match="call calibrate with labeled recordings"):
            alone.boundary_probabilities(other)
        truth = [np.arange(80) // 20]
        rates = alone.calibrate([other], truth).boundary_probabilities(other, tolerance=3)
        assert len(rates) == 3


METRIC = {"metric": [ml.ChangePointMetricLearner()]}


def test_a_single_recording_is_divided_also_by_regions_without_any_stretch() -> None:
    X, _ = lone_recording()
    regions = [(t - 5, t + 5, ml.problem.AT_LEAST_ONE) for t in range(20, 180, 20)]
    found = ml.Segmenter(METRIC, n_folds=3, verbose=False)
    found.fit(X, ml.PartialPartition(180, regions=regions))
    kept = [truth.constraints for truth in found.cross_fit_.given.truths]
    assert list(map(len, kept)) == [2, 3, 3]
    assert sorted(found.left_out_) == [0, 1, 2]
    assert found.validation_ is None  # no stretch is labeled


def test_no_boundary_beside_a_segment_of_one_row_is_lost_by_the_division() -> None:
    X, _ = lone_recording()
    y = np.repeat(np.arange(10), [40, 1, 1, *[20] * 6, 18])
    found = ml.Segmenter(METRIC, n_folds=3, verbose=False).fit(X, y)
    boundaries = [
        ends[:-1] for one in found.cross_fit_.given.truths for _, ends in one.pieces.stretches
    ]
    assert np.concatenate(boundaries).tolist() == [40, 41, *range(42, 180, 20)]


def test_labels_of_a_single_recording_are_names_although_parts_may_share_none() -> None:
    frames = Viterbi(ml.views.Posteriors(LogisticRegression(), 0), penalty=2.0)
    found = ml.Segmenter(frames, n_folds=5, verbose=False).fit(*lone_recording())
    assert found.classes_.tolist() == ["a", "b", "c"]


def test_no_penalty_learned_from_every_fourth_row_is_chosen() -> None:
    """It is about a fourth of the penalty that all rows need."""
    member = ml.estimators.Member("metric", ml.ChangePointMetricLearner(**QUICK), every=4)
    thinned = chosen(XS, YS, members={"metric": [member]}, n_folds=2, for_streams=True)
    own = [name for name in thinned.choice_.names if name.startswith("metric, ")]
    assert own == ["metric, penalty tuned on training recordings"]
