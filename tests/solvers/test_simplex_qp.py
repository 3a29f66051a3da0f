"""The interior point for quadratic programs over simplices against cvxpy."""

from __future__ import annotations

import numpy as np
import pytest

from metriclearn.solvers.dual_master import simplex_qp

cp = pytest.importorskip("cvxpy", reason="cvxpy is the reference here: pip install cvxpy")


def problem(rng: np.random.Generator, n: int, m: int, rank: int):
    groups = np.concatenate([np.arange(m), rng.integers(0, m, n - m)])
    R = rng.normal(size=(n, rank))
    masses = rng.uniform(0.1, 2.0, m)
    return R @ R.T, rng.normal(size=n), groups, masses


def value(H, c, y) -> float:
    return float(0.5 * y @ H @ y - c @ y)


@pytest.mark.parametrize(
    ("n", "m", "rank"), [(1, 1, 1), (5, 1, 5), (5, 5, 3), (20, 3, 2), (40, 7, 60), (30, 1, 1)]
)
def test_optimum_of_cvxpy(n, m, rank) -> None:
    rng = np.random.default_rng(n + m)
    for _ in range(3):
        H, c, groups, masses = problem(rng, n, m, rank)
        y = simplex_qp(H, c, groups, masses, 1e-10)
        assert np.min(y) >= 0.0
        np.testing.assert_allclose(np.bincount(groups, weights=y), masses, rtol=1e-7)
        v = cp.Variable(n, nonneg=True)
        sums = np.equal.outer(np.arange(m), groups).astype(float)
        root = np.linalg.cholesky(H + 1e-12 * np.eye(n))
        objective = 0.5 * cp.sum_squares(root.T @ v) - c @ v
        cp.Problem(cp.Minimize(objective), [sums @ v == masses]).solve(solver="CLARABEL")
        assert value(H, c, y) == pytest.approx(value(H, c, v.value), abs=1e-6)


def test_linear_program_puts_each_mass_on_its_best_row() -> None:
    c = np.array([1.0, 3.0, 2.0, -1.0, -5.0])
    y = simplex_qp(np.zeros((5, 5)), c, np.array([0, 0, 0, 1, 1]), np.array([2.0, 0.5]), 1e-10)
    np.testing.assert_allclose(y, [0.0, 2.0, 0.0, 0.5, 0.0], atol=1e-8)


def test_tolerance_bounds_the_suboptimality() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        arguments = problem(rng, 25, 4, 6)
        best = value(*arguments[:2], simplex_qp(*arguments, 1e-9))
        for tolerance in (1e-1, 1e-3, 1e-6):
            y = simplex_qp(*arguments, tolerance)
            assert value(*arguments[:2], y) <= best + 2 * tolerance


@pytest.mark.parametrize("tolerance", [1e-11, 1e-14, 0.0])
def test_tolerance_below_rounding_still_returns_the_best(tolerance) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        arguments = problem(rng, 25, 4, 6)
        best = value(*arguments[:2], simplex_qp(*arguments, 1e-9))
        y = simplex_qp(*arguments, tolerance)
        assert value(*arguments[:2], y) <= best + 1e-8


@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1e3, 1e8])
def test_scales(scale) -> None:
    """The problem in other units has the same solution."""
    H, c, groups, masses = problem(np.random.default_rng(1), 15, 3, 4)
    expected = simplex_qp(H, c, groups, masses, 1e-11)
    found = simplex_qp(scale * H, scale * c, groups, masses, scale * 1e-11)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_duplicated_rows_and_vanishing_masses() -> None:
    rng = np.random.default_rng(2)
    R = np.repeat(rng.normal(size=(5, 3)), 2, axis=0)
    c = np.repeat(rng.normal(size=5), 2)
    groups, masses = np.repeat([0, 1, 1, 0, 0], 2), np.array([1.0, 1e-12])
    y = simplex_qp(R @ R.T, c, groups, masses, 1e-10)
    assert np.all(np.isfinite(y))
    np.testing.assert_allclose(np.bincount(groups, weights=y), masses, atol=1e-9)
