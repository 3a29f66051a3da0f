"""FactorDescent against certified optima of convex, smooth problems."""

import numpy as np
import pytest
from numpy.typing import NDArray

from metriclearn import DiagonalMetric, FullMetric, SquaredFrobenius, Trace
from metriclearn.solvers import FactorDescent
from metriclearn.solvers.base import Cuts, Problem
from metriclearn.solvers.mahalanobis import Metric, MetricCone


class Distance:
    """½‖w − target‖²: the regularized minimum over the cone is a projection."""

    weights = np.array([0.25, 0.75])

    def __init__(self, target: NDArray) -> None:
        self.target = target

    def __call__(self, w: NDArray, chosen: NDArray | None = None) -> Cuts:
        away = w - self.target
        return Cuts(np.full(2, 0.5 * away @ away), np.array([away, away]), self.weights)


@pytest.mark.parametrize("metric", [DiagonalMetric(), FullMetric()], ids=["diagonal", "full"])
@pytest.mark.parametrize("learns_penalty", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_projects_on_the_cone(metric: Metric, learns_penalty: bool, seed: int) -> None:
    cone = MetricCone(metric, 4, learns_penalty)
    target = np.random.default_rng(seed).normal(size=cone.size)
    strength = 0.5
    shrunk = target.copy()
    shrunk[: cone.n_metric] /= 1.0 + strength
    expected = cone.project(shrunk)
    start = cone.join(metric.identity(4), 1.0)
    solver = FactorDescent(max_rounds=2000, tolerance=1e-15)
    solution = solver.minimize(Problem(Distance(target), SquaredFrobenius(strength), cone, start))
    np.testing.assert_allclose(solution.w, expected, atol=2e-3)
    assert solution.converged
    assert solution.trace.oracle_calls[-1] == 2 * (len(solution.trace) + 1)
    assert np.all(np.diff(solution.trace.objective) <= 0)


def test_stays_diagonal_and_grows_from_nearly_nothing() -> None:
    cone, target = MetricCone(DiagonalMetric(), 3, False), np.array([2.0, 0.5, -1.0])
    start = np.array([0.0, 1.0, 1.0])  # 0 would be stationary for the factor
    solution = FactorDescent(500, 1e-14).minimize(
        Problem(Distance(target), Trace(1e-9), cone, start)
    )
    np.testing.assert_allclose(solution.w, [2.0, 0.5, 0.0], atol=1e-3)
