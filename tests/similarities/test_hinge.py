"""The hinge of normalized cuts against dense references over samples; full and partial labels."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from metriclearn import DiagonalMetric, FullMetric
from metriclearn.similarities import FourierSimilarity, GaussianSimilarity, Neighborhood, NodeLabels
from metriclearn.solvers.mahalanobis import Metric
from tests.similarities.problems import completed, dense_similarity, expanded, hidden, hinge_of

METRICS = pytest.mark.parametrize(
    "metric", [DiagonalMetric(), FullMetric()], ids=["diagonal", "full"]
)
PROBLEMS = [expanded(seed, n_clusters=K) for seed, K in ((0, 2), (1, 3), (2, 2))]
HIDDEN = [hidden(problem, seed=i) for i, problem in enumerate(PROBLEMS)]
COMPLETED = [completed(known) for _, known in HIDDEN]
TRUTHS = pytest.mark.parametrize("truths", [None, COMPLETED], ids=["full labels", "partial labels"])
Truths = list[NodeLabels] | None
WEIGHTS = np.array([1.0, 2.0, 1.0])


def point(metric: Metric, seed: int = 0) -> NDArray:
    return metric.coordinates(np.random.default_rng(seed).normal(size=(4, 3)))


@TRUTHS
@METRICS
def test_values_are_those_over_samples(metric: Metric, truths: Truths) -> None:
    """max_M ⟨W/T, M⟩ + α‖D(M − H)‖² − ⟨W/T, H⟩, by a full decomposition over the samples."""
    w, alpha = point(metric), 0.07
    hinge = hinge_of(PROBLEMS, metric, truths=truths, loss_scale=alpha, weights=WEIGHTS)
    found = hinge(w)
    for i, (value, problem) in enumerate(zip(found.values, PROBLEMS)):
        labels = HIDDEN[i][0] if truths else problem.truth.labels
        D, H = problem.matrices(labels, COMPLETED[i])
        W = dense_similarity(problem.X, metric.matrix(w)) / len(labels)
        A = problem.E.T @ (W + alpha * (D - D @ H - H @ D)) @ problem.E
        leading = np.linalg.eigvalsh(A)[::-1][: hinge.truths[i].n_clusters]
        expected = leading.sum() + alpha * np.trace(D @ H) - np.sum(W * H)
        assert value == pytest.approx(expected, abs=1e-10)
    np.testing.assert_allclose(found.weights, [0.25, 0.5, 0.25])


@TRUTHS
@METRICS
@pytest.mark.parametrize(
    "similarity",
    [GaussianSimilarity(), GaussianSimilarity(Neighborhood(1.5)), FourierSimilarity(60)],
    ids=["all pairs", "neighbors", "fourier"],
)
@pytest.mark.parametrize("normalized", [False, True], ids=["", "normalized"])
@pytest.mark.parametrize("ramp", [False, True], ids=["hinge", "ramp"])
def test_slopes_agree_with_finite_differences(metric, similarity, truths, normalized, ramp) -> None:
    settings: Any = {"loss_scale": 0.05, "normalized": normalized, "ramp": ramp}
    hinge = hinge_of(PROBLEMS, metric, similarity, truths=truths, **settings)
    w, step = point(metric), 1e-5
    slope = hinge(w).slope
    for place, direction in enumerate(np.eye(len(w))):
        up, down = hinge(w + step * direction).mean, hinge(w - step * direction).mean
        tolerance = 1e-6 * max(1.0, np.abs(slope).max())
        assert slope[place] == pytest.approx((up - down) / (2 * step), abs=tolerance)


@TRUTHS
@METRICS
@pytest.mark.parametrize("loss_scale", [1e-3, 0.1, 1.0])
def test_never_negative(metric: Metric, loss_scale: float, truths: Truths) -> None:
    hinge = hinge_of(PROBLEMS, metric, truths=truths, loss_scale=loss_scale)
    for seed in range(5):
        for size in (1e-3, 1.0, 1e3):
            assert hinge(size * point(metric, seed)).values.min() >= -1e-12


@TRUTHS
@METRICS
def test_majorant_touches_and_stays_above(metric: Metric, truths: Truths) -> None:
    hinge = hinge_of(PROBLEMS, metric, truths=truths, loss_scale=0.05)
    w = point(metric)
    majorant = hinge.linearized(w)
    np.testing.assert_allclose(majorant(w).values, hinge(w).values, atol=1e-13)
    np.testing.assert_allclose(majorant(w).slopes, hinge(w).slopes, atol=1e-12)
    for seed in range(1, 6):
        other = point(metric, seed)
        assert np.all(majorant(other).values >= hinge(other).values - 1e-12)
    chosen = majorant(w, np.array([2]))
    np.testing.assert_allclose(chosen.values, hinge(w).values[2:], atol=1e-13)


def test_all_labels_known_sample_by_sample_give_the_ordinary_hinge() -> None:
    known = [NodeLabels.from_labels(p.truth.labels, p.owners) for p in PROBLEMS]
    partial = hinge_of(PROBLEMS, FullMetric(), truths=[completed(own) for own in known])
    ordinary = hinge_of(PROBLEMS, FullMetric())
    for seed in range(3):
        w = point(FullMetric(), seed)
        np.testing.assert_allclose(partial(w).values, ordinary(w).values, atol=1e-12)
        np.testing.assert_allclose(partial(w).slopes, ordinary(w).slopes, atol=1e-11)
