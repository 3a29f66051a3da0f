"""CuttingPlane: one slack or many, stabilized or plain, regularizers of the user's own."""

from dataclasses import replace

import numpy as np
import pytest

import metriclearn as ml
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
    solver = ml.CuttingPlane(**{"tolerance": 1e-5, "max_rounds": 300, **settings})
    return solver.minimize(problem.stated())


def test_more_slacks_need_fewer_rounds() -> None:
    problem = CompleteProblem(ml.FullMetric(), ml.SquaredFrobenius(1e-2), "learned", 0)
    many, one = (minimize(problem, n_slack=n, tolerance=1e-3) for n in (True, False))
    assert len(many.trace) < len(one.trace)


@pytest.mark.parametrize("shift", [0.0, 5.0])
def test_a_regularizer_in_cvxpy_equals_the_same_one_in_numbers(shift) -> None:
    """Below zero, too."""
    problem = CompleteProblem(ml.FullMetric(), ml.Trace(0.02), "learned", 2)
    stated = replace(problem.stated(), regularizer=CvxpyTrace(0.02, shift))
    solution = ml.CuttingPlane(tolerance=1e-4).minimize(stated)
    assert solution.converged
    assert solution.objective == pytest.approx(problem.optimum - shift, abs=2e-4 * solution.scale)
    assert solution.lower_bound <= problem.optimum - shift + 1e-6 * solution.scale


@pytest.mark.parametrize("metric", [ml.DiagonalMetric(), ml.FullMetric()])
def test_any_convex_regularizer(metric) -> None:
    problem = CompleteProblem(metric, Spread(), "learned", 1)
    solution = ml.CuttingPlane(tolerance=1e-3).minimize(problem.stated())
    assert solution.converged
    rng, risk = np.random.default_rng(0), problem.risk()
    for _ in range(30):  # no point near by is better than the bound allows
        v = problem.cone.project(solution.w + 0.1 * rng.normal(size=len(solution.w)))
        B = metric.matrix(v[:-1])
        omega = 0.1 * np.abs(B).max() ** 2 + 0.05 * np.linalg.norm(B)
        assert risk(v).mean + omega >= solution.lower_bound


def test_checkpoint_of_another_regularizer_of_the_users_own(tmp_path) -> None:
    solver = ml.CuttingPlane(tolerance=1e-2, checkpoint=str(tmp_path / "state.npz"))
    stated = CompleteProblem(ml.DiagonalMetric(), CvxpyTrace(1.0), "learned").stated()
    solver.minimize(stated)
    with pytest.raises(ValueError, match="belongs to other data, settings or"):
        solver.minimize(replace(stated, regularizer=CvxpyTrace(1e-3)))


def test_regularizer_infinite_at_no_metric() -> None:
    class LogDet:
        def expression(self, B):
            return 0.01 * (cp.trace(B) - cp.log_det(B))

    with pytest.raises(ValueError, match="needs an objective that is finite at the start"):
        ml.CuttingPlane().minimize(CompleteProblem(ml.FullMetric(), LogDet(), "learned").stated())


def test_other_solvers_say_that_they_need_terms() -> None:
    with pytest.raises(
        ValueError, match=r"BundleDual needs a regularizer with terms.*CuttingPlane"
    ):
        ml.ChangePointMetricLearner(regularizer=Spread()).fit(XS, YS)
    with pytest.raises(ValueError, match="needs a regularizer such as"):
        ml.ChangePointMetricLearner(regularizer="l1", solver=ml.CuttingPlane()).fit(XS, YS)


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
