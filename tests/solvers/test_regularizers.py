"""Regularizers: values, gradients, bounds and expressions, in any unit of the data."""

from dataclasses import replace

import numpy as np
import pytest

import metriclearn as ml
from metriclearn.solvers.base import Problem
from metriclearn.solvers.mahalanobis import MetricCone
from metriclearn.solvers.regularizers import Norm, Quadratic
from tests.solvers.bounds import assert_bounds
from tests.solvers.complete_problem import CompleteProblem

cp = pytest.importorskip("cvxpy", reason="cvxpy is the reference here: pip install cvxpy")

DIAGONAL, FULL = ml.DiagonalMetric(), ml.FullMetric()
UNEVEN = np.array([[5.0, 0.5, -0.1], [0.5, 0.3, 0.0], [-0.1, 0.0, 0.2]])


class Given:
    """A regularizer of the given terms."""

    def __init__(self, kind, *arguments) -> None:
        self.kind, self.arguments = kind, arguments

    def terms(self, cone):
        return self.kind(cone, *self.arguments)


# The norm 0.2 ‖b‖.
LENGTH = Given(
    Norm,
    lambda w: 0.2 * np.linalg.norm(w),
    lambda w: 0.2 * w / np.linalg.norm(w),
    lambda v: 5.0 * np.linalg.norm(np.maximum(v, 0.0)),
)
CASES = [
    (ml.SquaredFrobenius(0.3), DIAGONAL, lambda B: 0.15 * cp.sum_squares(B)),
    (ml.SquaredFrobenius(0.3), FULL, lambda B: 0.15 * cp.sum_squares(B)),
    (ml.SquaredFrobenius(0.3, 2.0), DIAGONAL, lambda B: 0.15 * cp.sum_squares(B - 2 * np.eye(3))),
    (ml.SquaredFrobenius(0.3, 2.0), FULL, lambda B: 0.15 * cp.sum_squares(B - 2 * np.eye(3))),
    (ml.L1(0.3), DIAGONAL, lambda B: 0.3 * cp.sum(cp.abs(B))),
    (ml.Trace(0.3), DIAGONAL, lambda B: 0.3 * cp.trace(B)),
    (ml.Trace(0.3), FULL, lambda B: 0.3 * cp.trace(B)),
    (Given(Quadratic, 0.0, np.diag(UNEVEN)), DIAGONAL, lambda B: cp.trace(UNEVEN @ B)),
    (
        Given(Quadratic, 0.0, FULL.coordinates(np.linalg.cholesky(UNEVEN).T)),
        FULL,
        lambda B: cp.trace(UNEVEN @ B),
    ),
    (LENGTH, DIAGONAL, lambda B: 0.2 * cp.norm(B, "fro")),
]
every_case = pytest.mark.parametrize(("regularizer", "metric", "formula"), CASES)


@pytest.mark.parametrize("unit", [1.0, 3.0])
@pytest.mark.parametrize("penalized", [False, True])
@every_case
def test_value_and_gradient_on_the_cone(regularizer, metric, formula, penalized, unit) -> None:
    """The metric of data that were divided by their unit is B unit²."""
    cone = MetricCone(metric, 3, penalized, unit)
    omega = Problem(None, regularizer, cone, np.zeros(cone.size)).terms
    rng = np.random.default_rng(0)
    for _ in range(5):
        w = cone.join(metric.coordinates(rng.normal(size=(3, 3))), 7.0)
        B = metric.matrix(w[: cone.n_metric]) / unit**2
        assert omega(w) == pytest.approx(formula(cp.Constant(B)).value, rel=1e-9)
        gradient, h = omega.gradient(w), 1e-6
        assert len(gradient) == cone.size
        for k, e in enumerate(np.eye(cone.size)):
            slope = (omega(w + h * e) - omega(w - h * e)) / (2 * h)
            assert gradient[k] == pytest.approx(slope, abs=1e-7)


@pytest.mark.parametrize("unit", [1.0, 3.0])
@every_case
def test_bounds_are_below_the_optimum_and_reach_it(regularizer, metric, formula, unit) -> None:
    cone = MetricCone(metric, 3, True, unit)
    omega = Problem(None, regularizer, cone, np.zeros(cone.size)).terms
    assert_bounds(cone, omega, lambda B: formula(B / unit**2))


def test_least_value_has_a_known_place() -> None:
    """Of weights, one feature has all of Ω; of a length, the metric points along −g."""
    cone, rng, weights = MetricCone(DIAGONAL, 3, False), np.random.default_rng(0), [50.0, 1.0, 2.0]
    weighted, length = Quadratic(cone, 0.0, np.array(weights)), LENGTH.terms(cone)
    for _ in range(50):
        g, best = 30.0 * rng.normal(size=3), 10.0 * rng.exponential()
        along = np.maximum(-g, 1e-9)
        for omega, places in ((weighted, np.eye(3)), (length, [along])):
            lowest = min(best * (1.0 + g @ w / omega(w)) for w in places)
            assert omega.minimum(g, best) == pytest.approx(min(0.0, lowest))


def test_a_strong_pull_to_a_center_keeps_its_digits() -> None:
    cone = MetricCone(FULL, 3, learns_penalty=False)
    terms = ml.SquaredFrobenius(1e6, center=2.0).terms(cone)
    near = 2.0 * FULL.identity(3)
    near[0] += 1e-6
    assert terms(near) == pytest.approx(0.5e-6, rel=1e-9)
    assert terms.minimum(np.zeros(cone.n_metric), np.inf) < 1e-20


def test_a_strength_out_of_range_is_refused() -> None:
    """In the unit of the data; a weight of 0 leaves a feature free."""
    for omega in (ml.L1(1e61), Given(Quadratic, 0.0, np.array([1.0, 0.0, 1.0])), LENGTH):
        problem = CompleteProblem(DIAGONAL, omega, "learned").stated()
        if omega is LENGTH:
            problem = replace(problem, cone=MetricCone(DIAGONAL, 3, True, 1e31))
        with pytest.raises(ValueError, match="needs a strength from 1e-60 to 1e60"):
            ml.solvers.ProjectedSubgradient().minimize(problem)
