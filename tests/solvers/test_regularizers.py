"""Regularizers: values, gradients and what they refuse."""

import numpy as np
import pytest

import metriclearn as ml
from metriclearn.datasets import make_change_points
from metriclearn.solvers.mahalanobis import MetricCone

CASES = [
    (ml.SquaredFrobenius(0.3), ml.DiagonalMetric(), lambda B: 0.15 * np.sum(B**2)),
    (ml.SquaredFrobenius(0.3), ml.FullMetric(), lambda B: 0.15 * np.sum(B**2)),
    (
        ml.SquaredFrobenius(0.3, 2.0),
        ml.DiagonalMetric(),
        lambda B: 0.15 * np.sum((np.diag(B) - 2.0) ** 2),
    ),
    (
        ml.SquaredFrobenius(0.3, 2.0),
        ml.FullMetric(),
        lambda B: 0.15 * np.sum((B - 2 * np.eye(4)) ** 2),
    ),
    (ml.L1(0.3), ml.DiagonalMetric(), lambda B: 0.3 * np.sum(np.abs(B))),
    (ml.Trace(0.3), ml.DiagonalMetric(), lambda B: 0.3 * np.trace(B)),
    (ml.Trace(0.3), ml.FullMetric(), lambda B: 0.3 * np.trace(B)),
]


@pytest.mark.parametrize("penalized", [False, True])
@pytest.mark.parametrize(("regularizer", "metric", "formula"), CASES)
def test_value_and_gradient_on_the_cone(regularizer, metric, formula, penalized) -> None:
    cone = MetricCone(metric, 4, penalized)
    terms = regularizer.terms(cone)
    rng = np.random.default_rng(0)
    for _ in range(5):
        w = cone.join(metric.coordinates(rng.normal(size=(4, 4))), 7.0)
        assert terms(w) == pytest.approx(formula(metric.matrix(w[: cone.n_metric])), rel=1e-12)
        gradient, h = terms.gradient(w), 1e-6
        assert len(gradient) == cone.size
        for k, e in enumerate(np.eye(cone.size)):
            slope = (terms(w + h * e) - terms(w - h * e)) / (2 * h)
            assert gradient[k] == pytest.approx(slope, abs=1e-7)
    assert terms(cone.join(np.zeros(cone.n_metric), 7.0)) == terms.offset


@pytest.mark.parametrize("metric", [ml.DiagonalMetric(), ml.FullMetric()])
def test_solvers_agree_on_a_center_and_certify_it(metric) -> None:
    pytest.importorskip("cvxpy")
    data = make_change_points(4, 60, 3, 2, (3, 4), feature_seed=0, random_state=1)
    solvers = ml.BundleDual(1e-6, max_rounds=300), ml.CuttingPlane(tolerance=1e-4, max_rounds=300)
    learner, solutions = ml.ChangePointMetricLearner(metric, ml.SquaredFrobenius(0.02, 0.5)), []
    for solver in solvers:
        learner.set_params(solver=solver).fit(data.sequences, data.labels)
        assert learner.solution_.converged
        solutions.append(learner.solution_)
    bundle, cvxpy = solutions
    assert cvxpy.objective == pytest.approx(bundle.objective, rel=1e-3)
    assert cvxpy.objective >= bundle.lower_bound > 0.0
