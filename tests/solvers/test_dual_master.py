"""The master problem's dual against cvxpy on the primal."""

import numpy as np
import pytest

from metriclearn import DiagonalMetric, FullMetric
from metriclearn.solvers.dual_master import DualMaster, simplex_qp
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
    P = master.cone.n_features
    if isinstance(master.cone.metric, FullMetric):
        B = cp.Variable((P, P), PSD=True)
        scale = np.sqrt(2.0 - np.eye(P))
        metric = cp.hstack([scale[i, j] * B[i, j] for i, j in zip(*np.triu_indices(P))])
    else:
        metric = cp.Variable(P, nonneg=True)
    penalties = [cp.Variable(1, nonneg=True)] if master.cone.learns_penalty else []
    x, slack = cp.hstack([metric, *penalties]), cp.Variable(len(master.masses))
    objective = master.masses @ slack + 0.5 * master.curvature * cp.sum_squares(x)
    constraints = [slack[master.groups] >= master.offsets + master.rows @ x]
    program = cp.Problem(cp.Minimize(objective - master.shift @ x), constraints)
    return program.solve(solver="CLARABEL")


def dual_value(master: DualMaster, a: np.ndarray) -> float:
    x = master.cone.project(master.shift - a @ master.rows) / master.curvature
    return float(a @ master.offsets - 0.5 * master.curvature * x @ x)


def start(master: DualMaster) -> np.ndarray:
    return (master.masses / np.bincount(master.groups))[master.groups]


@pytest.mark.parametrize("penalized", [False, True])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: type(f).__name__)
def test_optimum_of_cvxpy_and_its_certificate(family, penalized) -> None:
    """The gap reported is primal less dual value, at any tolerance."""
    rng = np.random.default_rng(0)
    for m, per_group in ((1, 1), (1, 8), (4, 3), (5, 6)):
        master = draw(rng, MetricCone(family, 3, penalized), m, per_group)
        for tolerance in (1.0, 1e-2, 1e-9):
            a, x, gap = master.solve(start(master), tolerance)
            primal, dual = primal_value(master, x), dual_value(master, a)
            assert gap <= tolerance
            assert gap == pytest.approx(primal - dual, abs=1e-9)
            assert np.min(a) >= 0.0
            masses = np.bincount(master.groups, weights=a)
            np.testing.assert_allclose(masses, master.masses, rtol=1e-7)
            np.testing.assert_allclose(master.cone.project(x), x, atol=1e-10)
        assert primal == pytest.approx(reference(master), abs=2e-6)


def program(rng: np.random.Generator, n: int, m: int, rank: int):
    groups = np.concatenate([np.arange(m), rng.integers(0, m, n - m)])
    R = rng.normal(size=(n, rank))
    masses = rng.uniform(0.1, 2.0, m)
    return R @ R.T, rng.normal(size=n), groups, masses


@pytest.mark.parametrize(
    ("n", "m", "rank"), [(1, 1, 1), (5, 1, 5), (5, 5, 3), (20, 3, 2), (40, 7, 60), (30, 1, 1)]
)
def test_program_has_the_optimum_of_cvxpy(n, m, rank) -> None:
    rng = np.random.default_rng(n + m)
    for _ in range(3):
        H, c, groups, masses = program(rng, n, m, rank)
        y = simplex_qp(H, c, groups, masses, 1e-10)
        assert np.min(y) >= 0.0
        np.testing.assert_allclose(np.bincount(groups, weights=y), masses, rtol=1e-7)
        v, sums = cp.Variable(n, nonneg=True), np.equal.outer(np.arange(m), groups).astype(float)
        root = np.linalg.cholesky(H + 1e-12 * np.eye(n))
        objective = cp.Minimize(0.5 * cp.sum_squares(root.T @ v) - c @ v)
        optimum = cp.Problem(objective, [sums @ v == masses]).solve(solver="CLARABEL")
        assert 0.5 * y @ H @ y - c @ y == pytest.approx(optimum, abs=1e-6)


def test_duplicated_rows_and_vanishing_masses() -> None:
    rng = np.random.default_rng(2)
    R = np.repeat(rng.normal(size=(5, 3)), 2, axis=0)
    c = np.repeat(rng.normal(size=5), 2)
    groups, masses = np.repeat([0, 1, 1, 0, 0], 2), np.array([1.0, 1e-12])
    y = simplex_qp(R @ R.T, c, groups, masses, 1e-10)
    assert np.all(np.isfinite(y))
    np.testing.assert_allclose(np.bincount(groups, weights=y), masses, atol=1e-9)
