"""ProjectedSubgradient: the same optimum within its own, honest, gap."""

from __future__ import annotations

import numpy as np
import pytest

from metriclearn import (
    L1,
    BundleDual,
    DiagonalMetric,
    FullMetric,
    ProjectedSubgradient,
    SquaredFrobenius,
    Trace,
)
from metriclearn.solvers.base import Cuts
from metriclearn.solvers.subgradient import ConstantStep, DecreasingStep, PolyakStep, Situation
from tests.solvers.complete_problem import CompleteProblem, watched_by

pytest.importorskip("cvxpy", reason="cvxpy is the reference here: pip install cvxpy")

PAIRS = [
    (DiagonalMetric(), SquaredFrobenius),
    (DiagonalMetric(), L1),
    (FullMetric(), SquaredFrobenius),
    (FullMetric(), Trace),
]
# what 300 rounds reach on every problem below, relative to the objective at the start
RULES = [(PolyakStep(), 1e-1), (DecreasingStep(), 1e-2), (ConstantStep(0.1), 1e-1)]


def minimize(problem: CompleteProblem, monitor=None, **settings):
    solver = ProjectedSubgradient(**{"tolerance": 1e-3, "max_rounds": 300, **settings})
    return solver.minimize(problem.stated(callbacks=watched_by(monitor)))


@pytest.mark.parametrize("mode", ["learned", "fixed", "known"])
@pytest.mark.parametrize(("rule", "reach"), RULES, ids=[type(r).__name__ for r, _ in RULES])
def test_optimum_of_the_complete_problem(rule, reach, mode) -> None:
    for i, (metric, kind) in enumerate(PAIRS):
        problem = CompleteProblem(metric, kind(1e-2), mode, i)
        solution = minimize(problem, step_rule=rule)
        rounding = 1e-6 * solution.scale
        trace = solution.trace
        assert max(trace.lower_bound) <= problem.optimum + rounding
        assert min(trace.objective) >= problem.optimum - rounding
        excess = solution.objective - problem.optimum
        assert excess <= solution.gap + rounding
        assert excess <= reach * solution.scale
        assert np.all(np.diff(trace.objective) <= 0.0)
        assert np.all(np.diff(trace.lower_bound) >= 0.0)
        np.testing.assert_allclose(problem.cone.project(solution.w), solution.w, atol=1e-12)
        terms = problem.regularizer.terms(problem.cone)
        value = problem.risk()(solution.w).mean + terms(solution.w)
        assert solution.objective == pytest.approx(value, rel=1e-10)


@pytest.mark.parametrize("mode", ["learned", "fixed", "known"])
def test_both_solvers_agree(mode) -> None:
    for metric, kind in PAIRS:
        problem = CompleteProblem(metric, kind(3e-2), mode, 8)
        exact = BundleDual(tolerance=1e-6).minimize(problem.stated())
        solution = minimize(problem, step_rule=DecreasingStep(), max_rounds=600)
        assert exact.lower_bound <= solution.objective + 1e-9
        assert solution.lower_bound <= exact.objective + 1e-9
        assert solution.objective == pytest.approx(exact.objective, abs=1e-2 * exact.scale)


def test_convergence_means_the_gap() -> None:
    problem = CompleteProblem(DiagonalMetric(), SquaredFrobenius(1e-1), "fixed", 1)
    solution = minimize(problem, step_rule=DecreasingStep(), tolerance=2e-2, max_rounds=2000)
    assert solution.converged
    assert 0.0 <= solution.relative_gap <= 2e-2
    assert solution.objective - problem.optimum <= 2e-2 * solution.scale


def test_averaging_helps_a_constant_step() -> None:
    """Constant steps oscillate; the average of the iterates does not."""
    gains = []
    for seed in range(6):
        problem = CompleteProblem(FullMetric(), SquaredFrobenius(1e-2), "learned", seed)
        settings = {"step_rule": ConstantStep(1.0), "max_rounds": 150}
        averaged = minimize(problem, average=True, **settings).objective
        alone = minimize(problem, average=False, **settings).objective
        gains.append(alone - averaged)
    assert min(gains) >= -1e-3
    assert max(gains) > 1e-4


def test_step_rules_by_their_formulas() -> None:
    now = Situation(round=4, value=3.0, best=2.0, lower_bound=1.0, norm=0.5, scale=10.0)
    assert ConstantStep(0.7)(now) == 0.7
    assert DecreasingStep(2.0)(now) == pytest.approx(2.0 * 10.0 / (0.25 * 2.0))
    target = 2.0 - 0.5 * 0.5 * (2.0 - 1.0)
    assert PolyakStep(0.5)(now) == pytest.approx(0.5 * (3.0 - target) / 0.25)


@pytest.mark.parametrize("calls", [1, 4, 25])
def test_interruption_inside_the_risk_keeps_the_best_iterate(calls) -> None:
    problem = CompleteProblem(DiagonalMetric(), SquaredFrobenius(1e-3), "learned", 0)
    risk, count, values = problem.risk(), 0, []
    terms = problem.regularizer.terms(problem.cone)

    def interrupted(w: np.ndarray) -> Cuts:
        nonlocal count
        count += 1
        if count > calls:
            raise KeyboardInterrupt
        values.append(risk(w).mean + terms(w))
        return risk(w)

    solution = ProjectedSubgradient().minimize(problem.stated(interrupted))
    assert solution.reason == "interrupted"
    assert solution.objective == min(values)
    assert risk(solution.w).mean + terms(solution.w) == min(values)
    assert solution.lower_bound <= problem.optimum + 1e-6


def test_interruption_by_the_monitor_and_budget() -> None:
    def interrupt(progress) -> None:
        if progress.round == 7:
            raise KeyboardInterrupt

    problem = CompleteProblem(FullMetric(), Trace(1e-2), "learned", 0)
    stopped = minimize(problem, monitor=interrupt)
    budget = minimize(problem, max_rounds=7)
    assert (stopped.reason, budget.reason) == ("interrupted", "max_rounds")
    np.testing.assert_array_equal(stopped.w, budget.w)
    assert len(stopped.trace) == len(budget.trace) == 7
