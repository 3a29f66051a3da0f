"""Unusual data that are fine, and bad input that is refused in one sentence each."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from metriclearn import (
    L1,
    ChangePointMetricLearner,
    DiagonalMetric,
    FullMetric,
    SquaredFrobenius,
    Trace,
)
from tests.training import PAIRS, XS, YS, learn


def test_one_sequence_and_a_list_of_one() -> None:
    alone = learn(XS[0], YS[0])
    listed = learn([XS[0]], [YS[0]])
    np.testing.assert_array_equal(alone.components_, listed.components_)
    assert alone.predict(XS[1]).shape == (120,)
    assert alone.predict_change_points(XS[1])[-1] == 120
    assert isinstance(alone.predict([XS[1]]), list)


def test_three_dimensional_array() -> None:
    stacked = learn(np.stack(XS), np.stack(YS))
    listed = learn()
    np.testing.assert_array_equal(stacked.components_, listed.components_)
    assert len(stacked.predict(np.stack(XS))) == 5


def test_lengths_may_differ_and_short_sequences_are_predicted() -> None:
    cuts = (120, 100, 90, 110, 60)
    learner = learn(
        [X[:T] for X, T in zip(XS, cuts)], [y[:T] for y, T in zip(YS, cuts)], min_size=3
    )
    assert [len(labels) for labels in learner.predict([X[:T] for X, T in zip(XS, cuts)])] == list(
        cuts
    )
    assert learner.predict_change_points(XS[0][:1]).tolist() == [1]
    assert learner.predict_change_points(XS[0][:2]).tolist() == [2]


def test_labels_that_return_start_new_segments() -> None:
    returning = [np.asarray(y) % 2 for y in YS]
    np.testing.assert_array_equal(learn(y=returning).components_, learn().components_)


def test_a_metric_that_learned_nothing_still_predicts() -> None:
    """A huge strength leaves B = 0: no components, one segment, distances 0."""
    for metric, kind in ((DiagonalMetric(), L1), (FullMetric(), Trace)):
        learner = learn(metric=metric, regularizer=kind(1e6))
        assert learner.components_.shape == (0, 6)
        assert learner.transform(XS[0]).shape == (120, 0)
        np.testing.assert_array_equal(learner.get_mahalanobis_matrix(), np.zeros((6, 6)))
        np.testing.assert_array_equal(learner.pair_distance(np.ones((2, 2, 6))), [0.0, 0.0])
        assert learner.predict_change_points(XS[0]).tolist() == [120]
        assert len(learner.predict_change_points(XS[0], n_segments=4)) == 4


def test_labels_without_any_change() -> None:
    whole = [np.zeros(120)] * 5
    for metric, regularizer in PAIRS:
        learner = learn(y=whole, metric=metric, regularizer=regularizer)
        assert learner.solution_.converged
        assert learner.score(XS, whole) == 0.0


def test_labels_that_change_at_every_sample() -> None:
    every = [np.arange(120)] * 5
    learner = learn(y=every)
    assert learner.solution_.converged
    assert learner.score(XS, every) == 0.0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"penalty": -1.0}, r'needs penalty="learned" or a number of at least 0, got -1.0'),
        ({"penalty": "learn"}, r'needs penalty="learned" or a number of at least 0, got .learn.'),
        ({"penalty": np.nan}, r'needs penalty="learned" or a number of at least 0, got nan'),
        ({"penalty": np.inf}, r'needs penalty="learned" or a .*number of at least 0'),
        ({"penalty": None}, r'needs penalty="learned" or a .*number of at least 0'),
        ({"loss_scale": 0.0}, "needs a positive loss_scale, got 0.0"),
        ({"loss_scale": -2.0}, "needs a positive loss_scale, got -2.0"),
        ({"loss_scale": np.inf}, "needs a positive loss_scale, got inf"),
        ({"loss_scale": np.nan}, "needs a positive loss_scale, got nan"),
        ({"loss_scale": None}, "needs a positive loss_scale, got None"),
        ({"n_segments": 5}, r'needs n_segments=None or "given", got 5; a number of segments is'),
        ({"n_segments": "known"}, r'needs n_segments=None or "given", got .known.'),
        ({"min_size": 0}, "needs a whole min_size of at least 1, got 0"),
        ({"min_size": 200}, "needs labeled segments of at least min_size=200 samples, but data"),
        ({"min_size": 1.5}, "needs .*min_size.* got 1.5"),
        ({"min_size": None}, "needs .*min_size.* got None"),
        ({"regularizer": L1(0.0)}, "L1 needs a positive strength, got 0.0"),
        ({"regularizer": SquaredFrobenius(-1.0)}, "SquaredFrobenius needs a positive strength"),
        ({"regularizer": Trace(np.nan)}, "Trace needs a positive strength, got nan"),
        ({"regularizer": L1(), "metric": FullMetric()}, "L1 needs a DiagonalMetric"),
        ({"regularizer": "l1"}, "ChangePointMetricLearner needs .*regularizer.*got 'l1'"),
        ({"regularizer": SquaredFrobenius}, "ChangePointMetricLearner needs .*regulari"),
        ({"regularizer": L1("a")}, "L1 needs a positive strength, got 'a'"),
        ({"metric": "full"}, "ChangePointMetricLearner needs .*metric.*got 'full'"),
        ({"solver": "bundle"}, "ChangePointMetricLearner needs .*solver.*got 'bundle'"),
    ],
)
def test_bad_parameters(parameters, message) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        ChangePointMetricLearner(**parameters).fit(XS, YS)
    one_sentence(caught.value)


def one_sentence(error: BaseException) -> None:
    text = str(error)
    assert "\n" not in text
    assert text.endswith(".")
    assert len(text) < 300


def changed(i: int, change) -> list[np.ndarray]:
    return [change(X.copy()) if j == i else X for j, X in enumerate(XS)]


def with_nan(X: np.ndarray) -> np.ndarray:
    X[7, 3] = np.nan
    return X


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (changed(2, with_nan), YS, "finite numbers, got NaN at row 7, feature 3 of data set 2"),
        (changed(1, lambda X: X[:-1]), YS, "got 120 labels for the 119 samples of data set 1"),
        (changed(1, lambda X: X[:, :5]), YS, "same features in every data set, got 6 .* and 5"),
        (XS[:4], YS, r"one labeling per data set, got 4 data set\(s\) and 5 labeling"),
        (XS, None, "requires y to be passed, but the target y is None"),
        (changed(0, lambda X: X[:1]), [YS[0][:1], *YS[1:]], "at least 2 samples in .*data set 0"),
        (changed(0, lambda X: X[:0]), [[], *YS[1:]], r"found array with 0 sample\(s\)"),
        (XS, [np.full(120, -1)] * len(YS), "nothing is known of any data set"),
        ([X * [1, 1, 0, 1, 0, 1] for X in XS], YS, r"but 2 are constant in each \(2, 4\); remove"),
    ],
)
def test_bad_data(X, y, message) -> None:
    with pytest.raises(ValueError, match=f"ChangePointMetricLearner.*{message}") as caught:
        ChangePointMetricLearner().fit(X, y)
    one_sentence(caught.value)


def test_bad_data_leave_an_earlier_fit_untouched() -> None:
    learner = learn()
    components, penalty = learner.components_, learner.penalty_
    for X, y in ((changed(2, with_nan), YS), (XS[:4], YS), (XS, [np.full(120, -1)] * len(XS))):
        with pytest.raises(ValueError, match="ChangePointMetricLearner"):
            learner.fit(X, y)
    assert learner.components_ is components
    assert learner.penalty_ == penalty
    learner.predict(XS)


@pytest.mark.parametrize(
    ("n_segments", "message"),
    [
        (121, "a whole n_segments from 1 to 120 for the 120 samples of data set 0, got 121"),
        (0, "a whole n_segments from 1 to 120 for the 120 samples of data set 0, got 0"),
        ([3, 3, -1, 3, 3], "n_segments from 1 to 120 .* of data set 2, got -1"),
        (2.7, "needs a whole n_segments from 1 to 120 .* got 2.7"),
        ("three", "needs a whole n_segments from 1 to 120 .* got .three."),
        ([3, 3], "one n_segments for each of the 5 data sets, or one for all, got 2"),
    ],
)
def test_bad_numbers_of_segments(n_segments, message) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        learn().predict(XS, n_segments=n_segments)
    one_sentence(caught.value)


def test_bad_input_after_fitting() -> None:
    learner = learn()
    for method in (learner.predict, learner.predict_change_points, learner.transform):
        with pytest.raises(ValueError, match=r"X has 5 features, but .* is expecting 6 features"):
            method(XS[0][:, :5])
        with pytest.raises(ValueError, match="finite numbers, got NaN at row 7, feature 3"):
            method(with_nan(XS[0].copy()))
    with pytest.raises(ValueError, match="got 119 labels for the 120 samples of the data set"):
        learner.score(XS[0], YS[0][:-1])
    for shape in ((3, 2, 5), (3, 6), (3, 1, 6)):
        with pytest.raises(ValueError, match=r"needs pairs of shape \(n, 2, 6\), got"):
            learner.pair_distance(np.zeros(shape))


def test_distances_of_bad_pairs() -> None:
    pairs = np.zeros((3, 2, 6))
    pairs[1, 0, 2] = np.nan
    with pytest.raises(ValueError, match="finite"):
        learn().pair_distance(pairs)


def test_nothing_works_before_fitting() -> None:
    learner = ChangePointMetricLearner()
    for call in (
        lambda: learner.predict(XS),
        lambda: learner.predict_change_points(XS),
        lambda: learner.transform(XS),
        lambda: learner.score(XS, YS),
        lambda: learner.pair_distance(np.zeros((1, 2, 6))),
        learner.get_mahalanobis_matrix,
    ):
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            call()
