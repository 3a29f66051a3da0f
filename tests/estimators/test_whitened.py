"""Learning after a linear map: whitened sequences and tables, and learning towards a reference."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris

import metriclearn as ml
from metriclearn.baselines import (
    ClosedFormMetric,
    Euclidean,
    PrincipalComponents,
    RelevantComponents,
    TunedSegmenter,
)
from metriclearn.datasets import make_change_points
from metriclearn.views import Metric, Whiten

IRIS, SPECIES = load_iris(return_X_y=True)


def mixed(seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Sequences whose features are strongly correlated mixtures."""
    data = make_change_points(5, 150, 12, 3, (4, 5), jump=2.0, feature_seed=0, random_state=seed)
    mixing = np.random.default_rng(0).normal(size=(12, 12)) * np.geomspace(1, 50, 12)
    return [X @ mixing for X in data.sequences], data.labels


def drawn(reference, strength: float) -> ml.WhitenedMetricLearner:
    """A learner of a full metric that is drawn toward a reference."""
    solver = ml.BundleDual(tolerance=1e-3, max_rounds=200)
    return ml.WhitenedMetricLearner(
        ml.FullMetric(), solver=solver, view=Metric(reference), toward=strength, retune=True
    )


def clustering_learner(
    strength: float = 1.0, shrinkage: float = 0.0
) -> ml.estimators.WhitenedClusteringLearner:
    return ml.estimators.WhitenedClusteringLearner(
        regularizer=ml.SquaredFrobenius(strength),
        oracle=ml.oracles.SpectralRelaxation(),
        view=Whiten(shrinkage),
        verbose=False,
        random_state=0,
    )


@pytest.mark.parametrize(
    "reference", [PrincipalComponents(4), Euclidean(), RelevantComponents(3, shrinkage=0.1)]
)
def test_a_large_strength_is_the_reference(reference) -> None:
    X, y = mixed(1)
    baseline = TunedSegmenter(reference).fit(X, y)
    learner = drawn(reference, 1e4).set_params(solver__tolerance=1e-8).fit(X, y)
    B, B0 = learner.get_mahalanobis_matrix(), baseline.get_mahalanobis_matrix()
    scale = np.trace(B @ B0) / np.trace(B0 @ B0)
    assert np.linalg.norm(B - scale * B0) < 1e-3 * np.linalg.norm(B)
    assert learner.penalty_ / scale == pytest.approx(baseline.penalty_, rel=0.05)
    assert learner.score(X, y) >= baseline.score(X, y) - 1e-12


def matrix(X, y, strength: float = 1.0, shrinkage: float = 0.0, weights=None) -> np.ndarray:
    model = clustering_learner(strength, shrinkage).fit(X, y, weights)
    return model.get_mahalanobis_matrix()


def test_any_linear_map_of_the_features_leaves_distances_as_they_are() -> None:
    mixing = np.random.default_rng(0).normal(size=(4, 4))
    B = matrix(IRIS, SPECIES)
    again = mixing @ matrix(IRIS @ mixing, SPECIES) @ mixing.T
    assert_allclose(again, B, rtol=1e-2, atol=1e-2 * np.abs(B).max())


def test_shrinkage_1_is_the_learner_that_scales_within_clusters() -> None:
    inner = ml.ClusteringMetricLearner(regularizer=ml.SquaredFrobenius(1.0), verbose=False)
    B = inner.fit(IRIS, SPECIES).get_mahalanobis_matrix()
    whitened = matrix(IRIS, SPECIES, shrinkage=1.0)
    assert_allclose(whitened, B, rtol=2e-2, atol=2e-2 * np.abs(B).max())


def test_weights_are_repetitions_and_a_data_set_of_weight_0_is_not_there() -> None:
    other = IRIS * [1, 5, 0.2, 3] + np.random.default_rng(0).standard_normal(IRIS.shape)
    both, labels = [IRIS, other], [SPECIES, SPECIES]
    alone = matrix([IRIS], [SPECIES], 10.0, 0.1)
    assert_allclose(matrix(both, labels, 10.0, 0.1, [1, 0]), alone, rtol=1e-9)
    repeated = matrix([IRIS, *both], [SPECIES] * 3, 10.0, 0.1)
    weighted = matrix(both, labels, 10.0, 0.1, [2, 1])
    assert_allclose(weighted, repeated, atol=1e-3 * np.abs(repeated).max())


def toward(strength: float, reference, X=IRIS, y=SPECIES) -> np.ndarray:
    view = Whiten() if reference is None else Metric(reference)
    learner = ml.estimators.WhitenedClusteringLearner(view=view, toward=strength)
    learner.set_params(solver__tolerance=1e-4)
    return learner.fit(X, y).get_mahalanobis_matrix()


@pytest.mark.parametrize("reference", [None, ClosedFormMetric(0.1)], ids=["RCA", "closed form"])
def test_neither_units_nor_the_number_of_samples_change_what_a_strength_means(reference) -> None:
    B = toward(0.1, reference)
    other_unit = toward(0.1, reference, 1e3 * IRIS)
    twice = toward(0.1, reference, np.repeat(IRIS, 2, axis=0), np.repeat(SPECIES, 2))
    for again in (other_unit, twice):
        assert_allclose(again / np.trace(again), B / np.trace(B), rtol=0, atol=5e-3)
