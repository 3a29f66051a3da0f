"""What must not change the learned metric."""

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.base import clone

from metriclearn import (
    L1,
    BundleDual,
    ChangePointMetricLearner,
    FullMetric,
    WhitenedMetricLearner,
)
from metriclearn.datasets import make_change_points
from metriclearn.estimators import WhitenedClusteringLearner
from metriclearn.oracles import SpectralRelaxation
from tests.training import NAMES, PAIRS, XS, YS, assert_same, learn

ROUNDED = [np.round(X * 2**12) / 2**12 for X in XS]
UNITS = np.array([1e-3, 1.0, 1e3, 10.0, 0.1, 7.0])
ORDER = [3, 1, 5, 0, 2, 4]
BACK = np.ix_(np.argsort(ORDER), np.argsort(ORDER))


def same(B: np.ndarray) -> np.ndarray:
    return B


@pytest.fixture(scope="module", params=PAIRS[::3], ids=NAMES[::3])
def learner(request) -> ChangePointMetricLearner:
    metric, regularizer = request.param
    return learn(ROUNDED, metric=metric, regularizer=regularizer)


def again(learner: ChangePointMetricLearner, X=ROUNDED, y=YS, **parameters):
    pair = {"metric": learner.metric, "regularizer": learner.regularizer}
    return learn(X, y, **pair, **parameters)


# From data and labels that say the same, the same matrix after undoing what was done to it
CHANGES: dict[str, tuple[list, list, Callable]] = {
    "shift": ([X + np.arange(6) * 1e6 * (i + 1) for i, X in enumerate(ROUNDED)], YS, same),
    "units": ([X * UNITS for X in ROUNDED], YS, lambda B: B * np.outer(UNITS, UNITS)),
    "order of features": ([X[:, ORDER] for X in ROUNDED], YS, lambda B: B[BACK]),
    "direction of time": ([X[::-1] for X in ROUNDED], [y[::-1] for y in YS], same),
    "every sequence twice": (ROUNDED * 2, YS * 2, same),
}


@pytest.mark.parametrize("name", CHANGES)
def test_data_that_say_the_same(learner, name) -> None:
    X, y, undo = CHANGES[name]
    theirs = again(learner, X, y)
    assert_same(learner, theirs, undo)
    if name in ("shift", "units"):
        for one, other in zip(ROUNDED, X):
            np.testing.assert_array_equal(learner.predict(one), theirs.predict(other))


@pytest.mark.parametrize("standardize", [True, False])
def test_weights_drop_sequences_and_repeat_them(standardize) -> None:
    kept = [0, 0, 1, 3, 4]
    mine = learn(sample_weight=[2, 1, 0, 1, 1], standardize=standardize)
    repeated = [XS[i] for i in kept], [YS[i] for i in kept]
    assert_same(mine, learn(*repeated, standardize=standardize))


@pytest.mark.parametrize(
    "learner",
    [
        ChangePointMetricLearner(retune=True),
        WhitenedMetricLearner(toward=1.0),
        WhitenedClusteringLearner(toward=1.0, oracle=SpectralRelaxation()),
    ],
    ids=lambda one: type(one).__name__,
)
def test_weights_count_where_something_is_tuned_before_or_after(learner) -> None:
    data = make_change_points(5, 100, 4, 2, (3, 5), noise=1.2, random_state=3)
    places = np.repeat(range(5), [3, 1, 1, 2, 0])
    mine = clone(learner).fit(data.sequences, data.labels, sample_weight=[3, 1, 1, 2, 0])
    theirs = learner.fit([data.sequences[i] for i in places], [data.labels[i] for i in places])
    assert (mine.penalty_ or 1.0) == pytest.approx(theirs.penalty_ or 1.0, rel=1e-3)
    assert mine.solution_.objective == pytest.approx(theirs.solution_.objective, rel=1e-3)


def test_weights_count_in_the_first_completion_of_partial_labels() -> None:
    data = make_change_points(6, 120, 4, 2, (3, 5), random_state=0)
    y = [np.where(np.arange(120) < 80, labels, -1) for labels in data.labels]
    weights = [1, 0, 2, 1, 1, 3]
    places = np.repeat(range(6), weights)
    learner = ChangePointMetricLearner(solver=BundleDual(1e-6))
    theirs = clone(learner).fit([data.sequences[i] for i in places], [y[i] for i in places])
    mine = learner.fit(data.sequences, y, sample_weight=weights)
    assert mine.penalty_ == pytest.approx(theirs.penalty_, rel=1e-3)
    assert_same(mine, theirs)


def test_rotation_of_the_features_of_a_full_metric() -> None:
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    mine = learn(metric=FullMetric(), standardize=False)
    theirs = learn([X @ Q for X in XS], metric=FullMetric(), standardize=False)
    assert_same(mine, theirs, lambda B: Q @ B @ Q.T)


def test_loss_scale_rescales_the_solution() -> None:
    """α times the hinge of (B/α, λ/α): strength α·μ at scale α gives α·B and α·λ."""
    mine = learn(regularizer=L1(1e-2), loss_scale=1.0)
    theirs = learn(regularizer=L1(1e-2), loss_scale=4.0)
    np.testing.assert_allclose(
        4.0 * mine.get_mahalanobis_matrix(), theirs.get_mahalanobis_matrix(), atol=1e-4
    )
    assert theirs.penalty_ == pytest.approx(4.0 * mine.penalty_, rel=1e-3)
