"""Lower bounds of Ω against optima by cvxpy, on random cuts."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from metriclearn.solvers.mahalanobis import MetricCone
from metriclearn.solvers.regularizers import Omega

N_CUTS = 6


def assert_bounds(cone: MetricCone, omega: Omega, expression: Callable[[Any], Any]) -> None:
    """No least value of a slope is above that by cvxpy, and those of mixtures of cuts prove optima.

    The risk is max(0, cuts). Its cuts have a slope of the penalty, which bounds ignore.
    """
    cp = pytest.importorskip("cvxpy", reason="cvxpy is the reference here: pip install cvxpy")
    rng, P, metric = np.random.default_rng(0), cone.n_features, cone.metric
    B = cp.diag(cp.Variable(P, nonneg=True)) if metric.polyhedral else cp.Variable((P, P), PSD=True)
    offsets, planes = cp.Parameter(N_CUTS), cp.Parameter((N_CUTS, P * P))
    risk = cp.Variable(nonneg=True)
    cuts = risk >= offsets + planes @ cp.vec(B, order="C")
    program = cp.Problem(cp.Minimize(risk + expression(B)), [cuts])
    plane, most = cp.Parameter(P * P), cp.Parameter()
    least = cp.Minimize(plane @ cp.vec(B, order="C") + expression(B))
    definition = cp.Problem(least, [expression(B) <= most])
    for _ in range(20):
        slopes, offsets.value = rng.normal(size=(N_CUTS, cone.size)), rng.normal(size=N_CUTS) + 0.5
        matrices = [metric.matrix(slope[: cone.n_metric]).ravel() for slope in slopes]
        planes.value = np.array(matrices)
        optimum = program.solve(solver="CLARABEL")
        most.value = optimum * (1.0 + rng.exponential())
        for slope, plane.value in list(zip(slopes, planes.value))[3:]:
            value = definition.solve(solver="CLARABEL")
            assert omega.minimum(slope, most.value) <= value + 1e-6 * (1.0 + abs(value))
        share = cuts.dual_value  # proves the optimum
        bound = share @ offsets.value + omega.minimum(share @ slopes, most.value)
        assert optimum - 1e-5 <= bound <= optimum + 1e-6
