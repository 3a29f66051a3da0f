"""ProjectedSubgradient: averages and step rules."""

import pytest

from metriclearn import FullMetric, SquaredFrobenius
from metriclearn.solvers import ProjectedSubgradient
from metriclearn.solvers.subgradient import ConstantStep, DecreasingStep, PolyakStep, Situation
from tests.solvers.complete_problem import CompleteProblem


def test_averaging_helps_a_constant_step() -> None:
    """Constant steps oscillate; the average of the iterates does not."""
    gains = []
    for seed in range(3):
        problem = CompleteProblem(FullMetric(), SquaredFrobenius(1e-2), "learned", seed)
        alone, averaged = (
            ProjectedSubgradient(ConstantStep(1.0), average, max_rounds=150)
            .minimize(problem.stated())
            .objective
            for average in (False, True)
        )
        gains.append(alone - averaged)
    assert min(gains) >= -1e-3
    assert max(gains) > 1e-4


def test_step_rules_by_their_formulas() -> None:
    now = Situation(round=4, value=3.0, best=2.0, lower_bound=1.0, norm=0.5, scale=10.0)
    assert ConstantStep(0.7)(now) == 0.7
    assert DecreasingStep(2.0)(now) == pytest.approx(2.0 * 10.0 / (0.25 * 2.0))
    target = 2.0 - 0.5 * 0.5 * (2.0 - 1.0)
    assert PolyakStep(0.5)(now) == pytest.approx(0.5 * (3.0 - target) / 0.25)
