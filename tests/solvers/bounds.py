"""Lower bounds of Ω against optima by cvxpy, on random cuts."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from metriclearn.solvers.mahalanobis import MetricCone
from metriclearn.solvers.regularizers import Omega

N_CUTS = 6


def assert_bounds(cone: MetricCone, omega: Omega, expression: Callable[[Any], Any]) -> None:
    """1,000 mixtures of cuts prove no bound above the optimum, and those of cvxpy prove it.

    The risk is max(0, cuts). Its cuts have a slope of the penalty, which bounds ignore.
    """
    cp = pytest.importorskip("cvxpy", reason="cvxpy is the reference here: pip install cvxpy")
    rng, P, metric = np.random.default_rng(0), cone.n_features, cone.metric
    B = cp.diag(cp.Variable(P, nonneg=True)) if metric.polyhedral else cp.Variable((P, P), PSD=True)
    offsets, planes = cp.Parameter(N_CUTS), cp.Parameter((N_CUTS, P * P))
    risk = cp.Variable(nonneg=True)
    cuts = risk >= offsets + planes @ cp.vec(B, order="C")
    program = cp.Problem(cp.Minimize(risk + expression(B)), [cuts])
    for _ in range(20):
        slopes, offsets.value = rng.normal(size=(N_CUTS, cone.size)), rng.normal(size=N_CUTS) + 0.5
        matrices = [metric.matrix(slope[: cone.n_metric]).ravel() for slope in slopes]
        planes.value = np.array(matrices)
        optimum = program.solve(solver="CLARABEL")
        best = optimum * (1.0 + rng.exponential())
        shares = rng.uniform(size=(50, 1)) ** 0.2 * rng.dirichlet(np.full(N_CUTS, 0.3), size=50)
        for share in [*shares, cuts.dual_value]:
            bound = share @ offsets.value + omega.minimum(share @ slopes, best)
            assert bound <= optimum + 1e-6
        assert bound >= optimum - 1e-5  # by the multipliers of cvxpy
