"""CuttingPlane: one slack or many, stabilized or plain, regularizers of the user's own."""

from __future__ import annotations

import numpy as np
import pytest

from metriclearn import (
    L1,
    BundleDual,
    ChangePointMetricLearner,
    CuttingPlane,
    DiagonalMetric,
    FullMetric,
    SquaredFrobenius,
    Trace,
)
from metriclearn.solvers.base import Problem
from tests.solvers.complete_problem import CompleteProblem
from tests.training import XS, YS

cp = pytest.importorskip("cvxpy", reason="cvxpy solves the master problem: pip install cvxpy")


class Nuclear:
    """Ω = 0.02 Tr B, as a user would write it."""

    def expression(self, B):
        return 0.02 * cp.normNuc(B)


class Spread:
    """Ω = 0.1 (largest entry)² + 0.05 ‖B‖_F, neither linear nor a square."""

    def expression(self, B):
        return 0.1 * cp.square(cp.max(cp.abs(B))) + 0.05 * cp.norm(B, "fro")


def minimize(problem: CompleteProblem, **settings):
    solver = CuttingPlane(**{"tolerance": 1e-5, "max_rounds": 300, **settings})
    return solver.minimize(problem.stated())


def test_more_slacks_need_fewer_rounds() -> None:
    problem = CompleteProblem(FullMetric(), SquaredFrobenius(1e-2), "learned", 0)
    many, one = minimize(problem), minimize(problem, n_slack=False)
    assert len(many.trace) < len(one.trace)


def test_a_regularizer_in_cvxpy_equals_the_same_one_in_numbers() -> None:
    problem = CompleteProblem(FullMetric(), Trace(0.02), "learned", 2)
    own = CuttingPlane(tolerance=1e-4).minimize(
        Problem(problem.risk(), Nuclear(), problem.cone, problem.start)
    )
    assert own.converged
    assert own.objective == pytest.approx(problem.optimum, abs=2e-4 * own.scale)
    assert own.lower_bound <= problem.optimum + 1e-6 * own.scale


@pytest.mark.parametrize("metric", [DiagonalMetric(), FullMetric()])
def test_any_convex_regularizer(metric) -> None:
    learner = ChangePointMetricLearner(metric, Spread(), CuttingPlane(tolerance=1e-3))
    learner.fit(XS, YS)
    assert learner.solution_.converged
    problem = learner._problem(XS, YS)
    B = learner.solution_.w
    rng = np.random.default_rng(0)
    for _ in range(30):  # no point near by is better than the bound allows
        v = problem.cone.project(B + 0.1 * rng.normal(size=len(B)))
        matrix = metric.matrix(v[:-1])
        omega = 0.1 * np.abs(matrix).max() ** 2 + 0.05 * np.linalg.norm(matrix)
        assert problem.risk(v).mean + omega >= learner.solution_.lower_bound


def test_other_solvers_say_that_they_need_terms() -> None:
    with pytest.raises(
        ValueError, match=r"BundleDual needs a regularizer with terms.*CuttingPlane"
    ):
        ChangePointMetricLearner(regularizer=Spread()).fit(XS, YS)
    with pytest.raises(ValueError, match="needs a regularizer such as"):
        ChangePointMetricLearner(regularizer="l1", solver=CuttingPlane()).fit(XS, YS)


@pytest.mark.parametrize("stabilization", [-0.1, 1.0, np.nan])
def test_stabilization_is_a_share(stabilization) -> None:
    problem = CompleteProblem(DiagonalMetric(), L1(1e-2), "fixed", 0)
    with pytest.raises(ValueError, match="needs a stabilization of at least 0 and below 1"):
        minimize(problem, stabilization=stabilization)


def test_a_solver_of_choice_and_its_failure() -> None:
    problem = CompleteProblem(FullMetric(), Trace(1e-2), "learned", 0)
    other = minimize(problem, cvxpy_solver="SCS", tolerance=1e-2)
    exact = BundleDual(1e-6).minimize(problem.stated())
    assert other.objective - exact.objective <= other.gap
    assert other.lower_bound <= exact.objective
    with pytest.raises(ValueError, match="needs a cvxpy_solver that is installed, one of"):
        minimize(problem, cvxpy_solver="NO SUCH SOLVER")
