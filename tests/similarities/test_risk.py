"""The hinge of similarities against dense references over samples, and its majorant."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from metriclearn import DiagonalMetric, FullMetric
from metriclearn.similarities import (
    FourierSimilarity,
    GaussianSimilarity,
    Neighborhood,
    Similarity,
    SimilarityFeatures,
)
from metriclearn.similarities.risk import SimilarityHinge
from metriclearn.solvers.mahalanobis import Metric, MetricCone
from tests.similarities.problems import dense_similarity, expanded

METRICS = [DiagonalMetric(), FullMetric()]
PROBLEMS = [expanded(seed, n_clusters=K) for seed, K in ((0, 2), (1, 3), (2, 2))]


def hinge_of(
    metric: Metric, similarity: Similarity | None = None, **options: object
) -> SimilarityHinge:
    return SimilarityHinge(
        SimilarityFeatures(similarity or GaussianSimilarity(), metric),
        MetricCone(metric, 3, priced=False),
        [problem.nodes for problem in PROBLEMS],
        [problem.labels for problem in PROBLEMS],
        np.array([1.0, 2.0, 1.0]),
        **options,  # type: ignore[arg-type]
    )


def point(metric: Metric, seed: int = 0) -> NDArray:
    return metric.coordinates(np.random.default_rng(seed).normal(size=(4, 3)))


@pytest.mark.parametrize("metric", METRICS, ids=["diagonal", "full"])
def test_values_are_those_over_samples(metric: Metric) -> None:
    """max over all projections of T×T that are constant in nodes, by a full decomposition."""
    w, alpha = point(metric), 0.07
    found = hinge_of(metric, loss_scale=alpha)(w)
    for value, problem in zip(found.values, PROBLEMS):
        T, K = len(problem.owners), problem.truth.n_clusters
        W, N = dense_similarity(problem.X, metric.matrix(w)) / T, problem.truth.to_array()
        E = (problem.owners[:, None] == np.arange(problem.nodes.n_samples)).astype(float)
        E /= np.sqrt(problem.nodes.sizes)
        leading = np.linalg.eigvalsh(E.T @ (W - 2 * alpha * N) @ E)[::-1][:K]
        expected = leading.sum() + 2 * alpha * K - np.sum(W * N)
        assert value == pytest.approx(expected, abs=1e-10)
    np.testing.assert_allclose(found.weights, [0.25, 0.5, 0.25])


@pytest.mark.parametrize("metric", METRICS, ids=["diagonal", "full"])
@pytest.mark.parametrize(
    "similarity",
    [GaussianSimilarity(), GaussianSimilarity(Neighborhood(1.5)), FourierSimilarity(60)],
    ids=["all pairs", "neighbors", "fourier"],
)
def test_slopes_agree_with_finite_differences(metric: Metric, similarity: Similarity) -> None:
    hinge, w, step = hinge_of(metric, similarity, loss_scale=0.05), point(metric), 1e-5
    slope = hinge(w).slope
    for place, direction in enumerate(np.eye(len(w))):
        up, down = hinge(w + step * direction).mean, hinge(w - step * direction).mean
        tolerance = 1e-6 * max(1.0, np.abs(slope).max())
        assert slope[place] == pytest.approx((up - down) / (2 * step), abs=tolerance)


@pytest.mark.parametrize("metric", METRICS, ids=["diagonal", "full"])
@pytest.mark.parametrize("loss_scale", [1e-3, 0.1, 1.0])
def test_never_negative(metric: Metric, loss_scale: float) -> None:
    hinge = hinge_of(metric, loss_scale=loss_scale)
    for seed in range(5):
        for size in (1e-3, 1.0, 1e3):
            assert hinge(size * point(metric, seed)).values.min() >= -1e-12


@pytest.mark.parametrize("metric", METRICS, ids=["diagonal", "full"])
def test_majorant_touches_and_stays_above(metric: Metric) -> None:
    hinge, w = hinge_of(metric, loss_scale=0.05), point(metric)
    majorant = hinge.linearized(w)
    np.testing.assert_allclose(majorant(w).values, hinge(w).values, atol=1e-13)
    np.testing.assert_allclose(majorant(w).slopes, hinge(w).slopes, atol=1e-12)
    for seed in range(1, 6):
        other = point(metric, seed)
        assert np.all(majorant(other).values >= hinge(other).values - 1e-12)
    chosen = majorant(w, np.array([2]))
    np.testing.assert_allclose(chosen.values, hinge(w).values[2:], atol=1e-13)


def test_normalized_similarity_has_one_as_its_largest_eigenvalue() -> None:
    """With α = 0 the hinge is Σ of the K largest eigenvalues of W̃ less ⟨W̃, N⟩."""
    hinge, w = hinge_of(FullMetric(), loss_scale=1e-12, normalized=True), point(FullMetric())
    problem = PROBLEMS[1]
    W = dense_similarity(problem.X, FullMetric().matrix(w))
    root = 1.0 / np.sqrt(W.sum(axis=1))
    W = root[:, None] * W * root
    leading = np.linalg.eigvalsh(W)[::-1][:3]
    assert leading[0] == pytest.approx(1.0)
    expected = leading.sum() - np.sum(W * problem.truth.to_array())
    assert hinge(w).values[1] == pytest.approx(expected, abs=1e-9)
    assert hinge.linearized(w)(w).values[1] == pytest.approx(expected, abs=1e-9)


def test_objective_of_random_features_converges_like_one_over_the_root() -> None:
    metric, w = DiagonalMetric(), np.full(3, 0.5)
    exact = hinge_of(metric, loss_scale=0.05)(w).mean

    def error(count: int) -> float:
        found = [
            hinge_of(metric, FourierSimilarity(count, seed), loss_scale=0.05)(w).mean
            for seed in range(30)
        ]
        return float(np.sqrt(np.mean((np.array(found) - exact) ** 2)))

    assert error(100) / error(1600) == pytest.approx(4.0, rel=0.4)
    assert error(1600) < 0.05 * exact
