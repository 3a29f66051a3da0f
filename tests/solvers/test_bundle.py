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
from metriclearn.solvers.base import Cuts
from metriclearn.solvers.iteration import DualBound
from tests.solvers.complete_problem import CompleteProblem, watched_by

pytest.importorskip("cvxpy", reason="cvxpy is the reference here: pip install cvxpy")

PAIRS = [
    (DiagonalMetric(), SquaredFrobenius),
    (DiagonalMetric(), L1),
    (DiagonalMetric(), Trace),
    (FullMetric(), SquaredFrobenius),
    (FullMetric(), Trace),
]
MODES = ["learned", "fixed", "known"]


def minimize(problem: CompleteProblem, monitor=None, **settings):
    solver = BundleDual(**{"tolerance": 1e-4, "max_rounds": 200, **settings})
    return solver.minimize(problem.stated(callbacks=watched_by(monitor)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("metric", "kind"), PAIRS, ids=[f"{type(m).__name__}-{k.__name__}" for m, k in PAIRS]
)
def test_bounds_bracket_the_optimum_of_the_complete_problem(metric, kind, mode) -> None:
    """cvxpy on the cuts of all segmentations is the truth; four problems for each combination."""
    for strength, seed, noise in ((1e-2, 0, 1.0), (1e-1, 1, 1.0), (1e-2, 2, 0.0), (1e-3, 3, 1.0)):
        problem = CompleteProblem(metric, kind(strength), mode, seed, noise)
        solution = minimize(problem)
        optimum, rounding = problem.optimum, 1e-6 * solution.scale
        trace = solution.trace
        assert solution.converged
        assert solution.gap <= 1e-4 * solution.scale
        assert solution.gap == solution.objective - solution.lower_bound
        assert max(trace.lower_bound) <= optimum + rounding
        assert min(trace.objective) >= optimum - rounding
        assert np.all(np.diff(trace.objective) <= 0.0)
        assert np.all(np.diff(trace.lower_bound) >= 0.0)
        assert np.all(np.diff(trace.seconds) >= 0.0)
        assert trace.objective[-1] == solution.objective
        assert trace.lower_bound[-1] == solution.lower_bound


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("metric", "kind"), [PAIRS[0], PAIRS[1], PAIRS[3]])
def test_objective_is_that_of_the_returned_point(metric, kind, mode) -> None:
    problem = CompleteProblem(metric, kind(3e-2), mode, 5)
    solution = minimize(problem)
    terms = problem.regularizer.terms(problem.cone)
    value = problem.risk()(solution.w).mean + terms(solution.w)
    assert solution.objective == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(problem.cone.project(solution.w), solution.w, atol=1e-12)
    assert solution.scale == pytest.approx(problem.risk()(problem.start).mean)


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


@pytest.mark.parametrize("mode", MODES)
def test_budget_of_rounds_is_kept_and_reported(mode) -> None:
    problem = CompleteProblem(FullMetric(), SquaredFrobenius(1e-3), mode, 1)
    solution = minimize(problem, max_rounds=3, tolerance=1e-12)
    assert (solution.reason, solution.converged, len(solution.trace)) == ("max_rounds", False, 3)
    assert solution.lower_bound <= problem.optimum + 1e-6
    assert solution.objective >= problem.optimum - 1e-6


@pytest.mark.parametrize("tolerance", [-1e-3, np.nan])
def test_tolerance_must_be_at_least_zero(tolerance) -> None:
    problem = CompleteProblem(DiagonalMetric(), SquaredFrobenius(1e-2), "fixed", 0)
    with pytest.raises(ValueError, match="BundleDual needs a tolerance of at least 0, got"):
        minimize(problem, tolerance=tolerance)


def test_tolerance_zero_runs_to_the_last_digits() -> None:
    problem = CompleteProblem(DiagonalMetric(), SquaredFrobenius(1e-2), "learned", 0)
    solution = minimize(problem, tolerance=0.0, max_rounds=40)
    assert solution.objective == pytest.approx(problem.optimum, abs=1e-7)
    assert abs(solution.relative_gap) <= 1e-7


def test_monitor_sees_every_round() -> None:
    seen = []
    problem = CompleteProblem(DiagonalMetric(), SquaredFrobenius(1e-2), "fixed", 0)
    solution = minimize(problem, monitor=seen.append)
    assert [progress.round for progress in seen] == list(range(1, len(solution.trace) + 1))
    assert [progress.objective for progress in seen] == solution.trace.objective
    assert seen[-1].relative_gap == pytest.approx(solution.relative_gap)
    np.testing.assert_array_equal(seen[-1].w, solution.w)


@pytest.mark.parametrize("mode", MODES)
def test_interruption_by_the_monitor_keeps_the_best_iterate(mode) -> None:
    def interrupt(progress) -> None:
        if progress.round == 4:
            raise KeyboardInterrupt

    problem = CompleteProblem(FullMetric(), SquaredFrobenius(1e-3), mode, 0)
    solution = minimize(problem, monitor=interrupt, tolerance=1e-12)
    uninterrupted = minimize(problem, max_rounds=4, tolerance=1e-12)
    assert solution.reason == "interrupted"
    assert len(solution.trace) == 4
    np.testing.assert_array_equal(solution.w, uninterrupted.w)
    assert solution.objective == uninterrupted.objective
    assert solution.lower_bound == uninterrupted.lower_bound


@pytest.mark.parametrize("calls", [2, 3, 5])
def test_interruption_inside_the_risk_keeps_the_best_iterate(calls) -> None:
    problem = CompleteProblem(DiagonalMetric(), SquaredFrobenius(1e-3), "learned", 0)
    risk, count = problem.risk(), 0

    def interrupted(w: np.ndarray) -> Cuts:
        nonlocal count
        count += 1
        if count > calls:
            raise KeyboardInterrupt
        return risk(w)

    solver = BundleDual(tolerance=1e-12)
    solution = solver.minimize(problem.stated(interrupted))
    assert solution.reason == "interrupted"
    assert len(solution.trace) == calls - 1  # the first call is for the start
    value = risk(solution.w).mean + problem.regularizer.terms(problem.cone)(solution.w)
    assert solution.objective == pytest.approx(value)
    assert solution.objective <= solution.scale
    assert solution.lower_bound <= problem.optimum + 1e-6


def test_interruption_before_any_result_goes_through() -> None:
    problem = CompleteProblem(DiagonalMetric(), SquaredFrobenius(1e-3), "learned", 0)

    def never(w: np.ndarray) -> Cuts:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        BundleDual().minimize(problem.stated(never))


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
