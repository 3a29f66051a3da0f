"""The master problem's dual against cvxpy on the primal."""

from __future__ import annotations

import numpy as np
import pytest

from metriclearn import DiagonalMetric, FullMetric
from metriclearn.solvers.dual_master import DualMaster
from metriclearn.solvers.mahalanobis import MetricCone

cp = pytest.importorskip("cvxpy", reason="cvxpy is the reference here: pip install cvxpy")

FAMILIES = [DiagonalMetric(), FullMetric()]


def draw(rng: np.random.Generator, cone: MetricCone, m: int, per_group: int) -> DualMaster:
    J = m * per_group
    return DualMaster(
        rows=rng.normal(size=(J, cone.size)),
        offsets=rng.normal(size=J),
        groups=np.tile(np.arange(m), per_group),
        masses=rng.uniform(0.2, 1.0, m),
        shift=rng.choice([0.0, 1.0]) * rng.normal(size=cone.size),
        curvature=float(rng.choice([0.1, 1.0, 10.0])),
        cone=cone,
    )


def primal_value(master: DualMaster, x: np.ndarray) -> float:
    cuts = master.offsets + master.rows @ x
    worst = np.array([cuts[master.groups == g].max() for g in range(len(master.masses))])
    return float(master.masses @ worst + 0.5 * master.curvature * x @ x - master.shift @ x)


def reference(master: DualMaster) -> float:
    cone, P = master.cone, master.cone.n_features
    n = cone.n_metric
    if isinstance(cone.metric, FullMetric):
        B = cp.Variable((P, P), PSD=True)
        i, j = np.triu_indices(P)
        scale = np.where(i == j, 1.0, np.sqrt(2.0))
        metric = cp.multiply(scale, cp.hstack([B[a, b] for a, b in zip(i, j)]))
    else:
        metric = cp.Variable(n, nonneg=True)
    x = cp.hstack([metric, cp.Variable(1, nonneg=True)]) if cone.priced else metric
    slack = cp.Variable(len(master.masses))
    constraints = [slack[master.groups] >= master.offsets + master.rows @ x]
    objective = master.masses @ slack + 0.5 * master.curvature * cp.sum_squares(x)
    problem = cp.Problem(cp.Minimize(objective - master.shift @ x), constraints)
    return problem.solve(solver="CLARABEL")


def dual_value(master: DualMaster, a: np.ndarray) -> float:
    x = master.cone.project(master.shift - a @ master.rows) / master.curvature
    return float(a @ master.offsets - 0.5 * master.curvature * x @ x)


def start(master: DualMaster) -> np.ndarray:
    return (master.masses / np.bincount(master.groups))[master.groups]


@pytest.mark.parametrize("priced", [False, True])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: type(f).__name__)
def test_optimum_of_cvxpy_and_its_certificate(family, priced) -> None:
    rng = np.random.default_rng(0)
    for m, per_group in ((1, 1), (1, 8), (4, 3), (5, 6)):
        master = draw(rng, MetricCone(family, 3, priced), m, per_group)
        a, x, gap = master.solve(start(master), 1e-9)
        assert gap <= 1e-9
        assert np.min(a) >= 0.0
        np.testing.assert_allclose(np.bincount(master.groups, weights=a), master.masses, rtol=1e-7)
        np.testing.assert_allclose(master.cone.project(x), x, atol=1e-10)
        optimum = reference(master)
        assert primal_value(master, x) == pytest.approx(optimum, abs=2e-6)
        assert dual_value(master, a) == pytest.approx(optimum, abs=2e-6)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: type(f).__name__)
def test_reported_gap_is_primal_minus_dual(family) -> None:
    rng = np.random.default_rng(1)
    for _ in range(10):
        master = draw(rng, MetricCone(family, 4, True), 3, 5)
        for tolerance in (1.0, 1e-2, 1e-6):
            a, x, gap = master.solve(start(master), tolerance)
            assert gap <= tolerance
            difference = primal_value(master, x) - dual_value(master, a)
            assert gap == pytest.approx(difference, abs=1e-9)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: type(f).__name__)
def test_warm_start_from_the_solution_stays(family) -> None:
    master = draw(np.random.default_rng(2), MetricCone(family, 4, False), 3, 5)
    a, x, _ = master.solve(start(master), 1e-9)
    again, x_again, _ = master.solve(a, 1e-8)
    np.testing.assert_array_equal(again, a)
    np.testing.assert_allclose(x_again, x, rtol=1e-12)


def test_many_rows_in_few_steps() -> None:
    """200 cuts of a 10×10 matrix to 1e-6 within the default number of Newton steps."""
    master = draw(np.random.default_rng(3), MetricCone(FullMetric(), 10, True), 10, 20)
    _, _, gap = master.solve(start(master), 1e-6)
    assert gap <= 1e-6
