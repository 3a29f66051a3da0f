"""What must not change the learned metric."""

from __future__ import annotations

import numpy as np
import pytest

from metriclearn import (
    L1,
    ChangePointMetricLearner,
    FullMetric,
    Partition,
)
from tests.training import NAMES, PAIRS, XS, YS, assert_same, learn, sequences


@pytest.mark.parametrize(("metric", "regularizer"), PAIRS[::3], ids=NAMES[::3])
class TestInvariance:
    def test_names_of_labels(self, metric, regularizer) -> None:
        renamed = [[f"state {9 - label}" for label in y] for y in YS]
        mine = learn(metric=metric, regularizer=regularizer)
        theirs = learn(y=renamed, metric=metric, regularizer=regularizer)
        np.testing.assert_array_equal(mine.components_, theirs.components_)
        assert mine.penalty_ == theirs.penalty_

    def test_labels_as_partitions(self, metric, regularizer) -> None:
        partitions = [Partition.from_runs(y) for y in YS]
        mine = learn(metric=metric, regularizer=regularizer)
        theirs = learn(y=partitions, metric=metric, regularizer=regularizer)
        np.testing.assert_array_equal(mine.components_, theirs.components_)

    def test_shift_of_every_sequence(self, metric, regularizer) -> None:
        rounded = [np.round(X * 2**12) / 2**12 for X in XS]
        shifted = [X + np.arange(6) * 1e6 * (i + 1) for i, X in enumerate(rounded)]
        mine = learn(rounded, metric=metric, regularizer=regularizer)
        theirs = learn(shifted, metric=metric, regularizer=regularizer)
        assert_same(mine, theirs)
        for X, Z in zip(rounded, shifted):
            np.testing.assert_array_equal(
                mine.predict_change_points(X), mine.predict_change_points(Z)
            )

    def test_units_of_features(self, metric, regularizer) -> None:
        c = np.array([1e-3, 1.0, 1e3, 10.0, 0.1, 7.0])
        mine = learn(metric=metric, regularizer=regularizer)
        theirs = learn([X * c for X in XS], metric=metric, regularizer=regularizer)
        assert_same(mine, theirs, lambda B: B * np.outer(c, c))
        np.testing.assert_array_equal(mine.predict(XS[0]), theirs.predict(XS[0] * c))

    def test_order_of_sequences(self, metric, regularizer) -> None:
        assert_same(
            learn(metric=metric, regularizer=regularizer),
            learn(XS[::-1], YS[::-1], metric=metric, regularizer=regularizer),
        )

    def test_order_of_features(self, metric, regularizer) -> None:
        order = [3, 1, 5, 0, 2, 4]
        theirs = learn([X[:, order] for X in XS], metric=metric, regularizer=regularizer)
        mine = learn(metric=metric, regularizer=regularizer)
        assert_same(mine, theirs, lambda B: B[np.ix_(np.argsort(order), np.argsort(order))])

    def test_direction_of_time(self, metric, regularizer) -> None:
        assert_same(
            learn(metric=metric, regularizer=regularizer),
            learn(
                [X[::-1] for X in XS], [y[::-1] for y in YS], metric=metric, regularizer=regularizer
            ),
        )

    def test_every_sequence_twice(self, metric, regularizer) -> None:
        assert_same(
            learn(metric=metric, regularizer=regularizer),
            learn(XS + XS, YS + YS, metric=metric, regularizer=regularizer),
        )

    def test_scale_of_the_weights(self, metric, regularizer) -> None:
        weights = np.array([1.0, 2.0, 3.0, 1.0, 0.5])
        mine = learn(sample_weight=weights, metric=metric, regularizer=regularizer)
        theirs = learn(sample_weight=40.0 * weights, metric=metric, regularizer=regularizer)
        assert_same(mine, theirs)
        different = learn(metric=metric, regularizer=regularizer)
        assert different.penalty_ != pytest.approx(mine.penalty_, rel=1e-4)

    def test_number_of_threads(self, metric, regularizer) -> None:
        mine = learn(metric=metric, regularizer=regularizer, n_jobs=1)
        theirs = learn(metric=metric, regularizer=regularizer, n_jobs=2)
        np.testing.assert_array_equal(mine.components_, theirs.components_)
        assert mine.penalty_ == theirs.penalty_

    def test_earlier_fits(self, metric, regularizer) -> None:
        learner = ChangePointMetricLearner(metric, regularizer)
        other = sequences(9, n=2)
        learner.fit([X[:, :4] for X in other[0]], other[1]).fit(XS, YS)
        fresh = ChangePointMetricLearner(metric, regularizer).fit(XS, YS)
        np.testing.assert_array_equal(learner.components_, fresh.components_)
        assert learner.solution_.trace.objective == fresh.solution_.trace.objective

    def test_types_and_layouts(self, metric, regularizer) -> None:
        rounded = [np.round(X * 64) / 64 for X in XS]
        mine = learn(rounded, metric=metric, regularizer=regularizer)
        for change in (
            lambda X: X.astype(np.float32),
            np.asfortranarray,
            lambda X: np.repeat(X, 2, axis=0)[::2],
            lambda X: X.tolist(),
        ):
            theirs = learn([change(X) for X in rounded], metric=metric, regularizer=regularizer)
            assert_same(mine, theirs)


@pytest.mark.parametrize("standardize", [True, False])
def test_weight_zero_is_dropping_the_sequence(standardize) -> None:
    kept = [0, 1, 3, 4]
    mine = learn(sample_weight=[2, 1, 0, 1, 1], standardize=standardize)
    theirs = learn(
        [XS[i] for i in kept],
        [YS[i] for i in kept],
        sample_weight=[2, 1, 1, 1],
        standardize=standardize,
    )
    assert_same(mine, theirs)


@pytest.mark.parametrize("standardize", [True, False])
def test_weight_two_is_having_the_sequence_twice(standardize) -> None:
    mine = learn(sample_weight=[1, 2, 1, 1, 1], standardize=standardize)
    theirs = learn([*XS, XS[1]], [*YS, YS[1]], standardize=standardize)
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


@pytest.mark.parametrize("offset", [1e6, 1e8])
def test_predictions_of_data_with_a_large_offset(offset) -> None:
    learner = learn()
    for X in XS:
        rounded = np.round(X * 2**12) / 2**12
        np.testing.assert_array_equal(
            learner.predict_change_points(rounded + offset),
            learner.predict_change_points(rounded),
        )
