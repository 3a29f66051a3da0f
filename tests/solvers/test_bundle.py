"""BundleDual between its bounds: objective ≥ true optimum ≥ lower bound, in every round."""

from __future__ import annotations

import numpy as np
import pytest

from metriclearn import (
    L1,
    BundleDual,
    DiagonalMetric,
    FullMetric,
    Partition,
    SquaredFrobenius,
    Trace,
)
from metriclearn.solvers.iteration import DualBound
from tests.solvers.complete_problem import CompleteProblem

pytest.importorskip("cvxpy", reason="cvxpy is the reference here: pip install cvxpy")

PAIRS = [
    (DiagonalMetric(), SquaredFrobenius),
    (DiagonalMetric(), L1),
    (DiagonalMetric(), Trace),
    (FullMetric(), SquaredFrobenius),
    (FullMetric(), Trace),
]


def minimize(problem: CompleteProblem, **settings):
    solver = BundleDual(**{"tolerance": 1e-4, "max_rounds": 200, **settings})
    return solver.minimize(problem.stated())


@pytest.mark.parametrize("tolerance", [1e-1, 1e-3, 1e-6])
def test_every_tolerance_is_reached(tolerance) -> None:
    problem = CompleteProblem(FullMetric(), SquaredFrobenius(1e-2), "learned", 0)
    solution = minimize(problem, tolerance=tolerance)
    assert solution.converged
    assert 0.0 <= solution.relative_gap <= tolerance
    assert abs(solution.objective - problem.optimum) <= 1.01 * tolerance * solution.scale


def test_tight_gaps_with_a_learned_price_and_a_linear_regularizer() -> None:
    """Strong L1 drives the price to a corner; the bound must stay below the optimum."""
    for metric, kind in PAIRS[1:]:
        problem = CompleteProblem(metric, kind(0.5), "learned", 2)
        solution = minimize(problem, tolerance=1e-5, max_rounds=60)
        assert max(solution.trace.lower_bound) <= problem.optimum + 1e-6 * solution.scale
        assert solution.relative_gap <= 1e-3


@pytest.mark.parametrize(
    ("metric", "kind", "seed"), [(DiagonalMetric(), L1, 0), (FullMetric(), Trace, 1)]
)
def test_long_runs_keep_a_valid_bound(metric, kind, seed) -> None:
    problem = CompleteProblem(metric, kind(1.0), "learned", seed)
    solution = minimize(problem, tolerance=1e-9, max_rounds=80)
    assert max(solution.trace.lower_bound) <= problem.optimum + 1e-6 * solution.scale
    assert 0.0 <= solution.gap <= 1e-4 * solution.scale


@pytest.mark.parametrize("scale", [1.0, 0.1])
@pytest.mark.parametrize("kind", [L1, Trace, SquaredFrobenius])
def test_start_that_is_optimal_already_is_certified(kind, scale) -> None:
    """Noise in which no weight helps: B = 0 and λ = α from the beginning."""
    problem = CompleteProblem(DiagonalMetric(), kind(1e-2), "learned", scale=scale)
    X = np.array([[0.0, 1.0, 0.0], [-2.0, -1.0, 1.0], [-2.0, 0.0, 0.5]])
    Z = np.array([[-2.0, 2.0], [0.0, 1.0], [1.0, 2.0], [-2.0, 2.0], [2.0, 0.0], [-1.0, 1.0]])
    Z = np.column_stack([Z, np.zeros(6)])
    truths = [Partition.from_change_points([3]), Partition.from_change_points([2, 4, 6])]
    object.__setattr__(problem, "data", list(zip([X, Z], truths)))
    assert problem.optimum == pytest.approx(problem.risk()(problem.start).mean, abs=1e-7)
    solution = minimize(problem, max_rounds=60)
    assert solution.converged
    assert solution.lower_bound <= problem.optimum + 1e-7


def test_tolerance_zero_runs_to_the_last_digits() -> None:
    problem = CompleteProblem(DiagonalMetric(), SquaredFrobenius(1e-2), "learned", 0)
    solution = minimize(problem, tolerance=0.0, max_rounds=40)
    assert solution.objective == pytest.approx(problem.optimum, abs=1e-7)
    assert abs(solution.relative_gap) <= 1e-7


@pytest.mark.parametrize("keep_inactive", [1, 3, 1000])
def test_forgetting_cuts_costs_rounds_but_not_the_optimum(keep_inactive) -> None:
    problem = CompleteProblem(FullMetric(), SquaredFrobenius(1e-2), "learned", 6)
    solution = minimize(problem, keep_inactive=keep_inactive)
    assert solution.converged
    assert solution.objective == pytest.approx(problem.optimum, abs=1e-4 * solution.scale)


def test_units_of_the_data_do_not_matter() -> None:
    """X·c with μ·c⁴ (squared Frobenius norm) is the same problem with B/c²."""
    solutions = []
    for c in (1e-2, 1.0, 1e2):
        problem = CompleteProblem(DiagonalMetric(), SquaredFrobenius(1e-2 * c**4), "learned", 0)
        scaled = [(c * X, truth) for X, truth in problem.data]
        object.__setattr__(problem, "data", scaled)
        solutions.append(minimize(problem, tolerance=1e-5))
    assert all(solution.converged for solution in solutions)
    objectives = [solution.objective for solution in solutions]
    np.testing.assert_allclose(objectives, objectives[1], rtol=5e-5)


def test_separable_data_reach_zero_risk() -> None:
    problem = CompleteProblem(DiagonalMetric(), SquaredFrobenius(1e-6), "learned", 0, noise=0.0)
    solution = minimize(problem, tolerance=1e-3)
    assert solution.converged
    assert solution.objective <= 2e-3 * solution.scale
    assert problem.risk()(solution.w).mean <= 2e-3 * solution.scale


@pytest.mark.parametrize("kind", [SquaredFrobenius, L1, Trace])
def test_dual_bound_of_any_minorant_is_below_the_optimum(kind) -> None:
    """Random averages of cuts near the optimum, with the price limit that other cuts imply."""
    rng = np.random.default_rng(0)
    problem = CompleteProblem(DiagonalMetric(), kind(0.05), "learned", 0)
    risk, cone, solution = problem.risk(), problem.cone, minimize(problem)
    bound = DualBound(kind(0.05).terms(cone), cone)
    tightest, price_limit = 0.0, np.inf
    for _ in range(300):
        ws = solution.w * rng.uniform(0.5, 1.5, (4, cone.size)) + rng.exponential(1e-3, cone.size)
        cuts = [risk(w) for w in ws]
        share = rng.dirichlet(np.ones(4))
        offset = sum(s * (c.mean - c.slope @ w) for s, c, w in zip(share, cuts, ws))
        slope = sum(s * c.slope for s, c in zip(share, cuts))
        if slope[-1] > 0:
            left = solution.objective - bound.without_price(offset, slope, solution.objective)
            price_limit = min(price_limit, left / slope[-1])
        value = bound.value(offset, slope, solution.objective, price_limit)
        tightest = max(tightest, value)
    assert 0.5 * problem.optimum < tightest <= problem.optimum + 1e-7
    assert price_limit >= solution.w[-1] - 1e-3
