"""CuttingPlane: one slack or many, stabilized or plain, regularizers of the user's own."""

from dataclasses import replace

import numpy as np
import pytest

import metriclearn as ml
from metriclearn.solvers.mahalanobis import MetricCone
from metriclearn.solvers.regularizers import Norm
from tests.solvers.complete_problem import CompleteProblem
from tests.training import XS, YS

cp = pytest.importorskip("cvxpy", reason="cvxpy solves the master problem: pip install cvxpy")


class CvxpyTrace:
    """μ Tr B − shift, as a user would write it."""

    def __init__(self, strength: float, shift: float = 0.0) -> None:
        self.strength, self.shift = strength, shift

    def expression(self, B):
        return self.strength * cp.trace(B) - self.shift


class Spread:
    """Ω = 0.1 (largest entry)² + 0.05 ‖B‖_F, neither linear nor a square."""

    def expression(self, B):
        return 0.1 * cp.square(cp.max(cp.abs(B))) + 0.05 * cp.norm(B, "fro")


def minimize(problem: CompleteProblem, **settings):
    solver = ml.solvers.CuttingPlane(**{"tolerance": 1e-5, "max_rounds": 300, **settings})
    return solver.minimize(problem.stated())


@pytest.mark.parametrize("metric", [ml.DiagonalMetric(), ml.FullMetric()])
@pytest.mark.parametrize("omega", [CvxpyTrace(0.02), CvxpyTrace(0.02, 5.0), Spread()])
def test_any_convex_regularizer(omega, metric) -> None:
    """Below zero, too."""
    problem = CompleteProblem(metric, omega, "learned", 2)
    solution = minimize(problem, tolerance=1e-4)
    problem.check(solution)
    assert solution.converged
    assert solution.objective - problem.optimum <= 2e-4 * solution.scale


def test_an_expression_reads_the_metric_in_the_unit_of_the_data() -> None:
    problem = CompleteProblem(ml.DiagonalMetric(), CvxpyTrace(0.02), "learned", 2)
    cone = MetricCone(ml.DiagonalMetric(), 3, True, unit=2.0)
    stated = replace(problem.stated(), cone=cone, regularizer=CvxpyTrace(0.08))
    solution = ml.solvers.CuttingPlane(tolerance=1e-4).minimize(stated)
    assert solution.converged
    assert solution.objective == pytest.approx(problem.optimum, abs=2e-4 * solution.scale)


def test_a_norm_without_an_expression_is_refused() -> None:
    class Length:
        def terms(self, cone):
            return Norm(cone, np.linalg.norm, np.sign, np.linalg.norm)

    problem = CompleteProblem(ml.DiagonalMetric(), Length(), "learned")
    with pytest.raises(ValueError, match=r"needs a regularizer with a method expression.*Length"):
        minimize(problem)


def test_regularizer_infinite_at_no_metric() -> None:
    class LogDet:
        def expression(self, B):
            return 0.01 * (cp.trace(B) - cp.log_det(B))

    with pytest.raises(ValueError, match="needs an objective that is finite at the start"):
        ml.solvers.CuttingPlane().minimize(
            CompleteProblem(ml.FullMetric(), LogDet(), "learned").stated()
        )


def test_other_solvers_say_that_they_need_terms() -> None:
    with pytest.raises(ValueError, match=r"BundleDual needs a regularizer with"):
        ml.ChangePointMetricLearner(regularizer=Spread()).fit(XS, YS)
    with pytest.raises(ValueError, match="needs a regularizer such as"):
        ml.ChangePointMetricLearner(regularizer="l1", solver=ml.solvers.CuttingPlane()).fit(XS, YS)


def test_a_solver_of_choice_and_its_failure() -> None:
    problem = CompleteProblem(ml.FullMetric(), ml.Trace(1e-2), "learned", 0)
    if "SCS" not in cp.installed_solvers():
        pytest.skip("SCS is not installed")
    other = minimize(problem, cvxpy_solver="SCS", max_rounds=20)  # rough, and so proves less
    exact = ml.BundleDual(1e-6).minimize(problem.stated())
    assert other.objective - exact.objective <= other.gap
    assert other.lower_bound <= exact.objective
    with pytest.raises(ValueError, match="needs a cvxpy_solver that is installed, one of"):
        minimize(problem, cvxpy_solver="NO SUCH SOLVER")
