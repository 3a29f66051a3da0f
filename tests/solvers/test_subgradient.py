"""ProjectedSubgradient: the same optimum within its own, honest, gap."""

import pytest

from metriclearn import (
    DiagonalMetric,
    FullMetric,
    ProjectedSubgradient,
    SquaredFrobenius,
)
from metriclearn.solvers.subgradient import ConstantStep, DecreasingStep, PolyakStep, Situation
from tests.solvers.complete_problem import CompleteProblem

pytest.importorskip("cvxpy", reason="cvxpy is the reference here: pip install cvxpy")


def minimize(problem: CompleteProblem, **settings):
    solver = ProjectedSubgradient(**{"tolerance": 1e-3, "max_rounds": 300, **settings})
    return solver.minimize(problem.stated())


def test_convergence_means_the_gap() -> None:
    problem = CompleteProblem(DiagonalMetric(), SquaredFrobenius(1e-1), "fixed", 1)
    solution = minimize(problem, step_rule=DecreasingStep(), tolerance=2e-2, max_rounds=2000)
    assert solution.converged
    assert 0.0 <= solution.relative_gap <= 2e-2
    assert solution.objective - problem.optimum <= 2e-2 * solution.scale


def test_averaging_helps_a_constant_step() -> None:
    """Constant steps oscillate; the average of the iterates does not."""
    gains = []
    for seed in range(3):
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
