"""Objectives are what they say, and learned metrics the same in every unit of the data."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import metriclearn as ml
from metriclearn.solvers.mahalanobis import MetricCone
from tests.exhaustive import all_segmentations, equivalence_matrix, labels_of

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
FULL, DIAGONAL = ml.FullMetric(), ml.DiagonalMetric()
PAIRS = [(FULL, ml.SquaredFrobenius), (FULL, ml.Trace), (DIAGONAL, ml.L1)]


@cache
def _projections(T: int) -> list[np.ndarray]:
    return [equivalence_matrix(labels_of(ends)) for ends in all_segmentations(T)]


def objective_of(learner: Any, X: np.ndarray, labels: np.ndarray) -> float:
    """The hinge by all segmentations of a few samples, plus Ω of B."""
    N = equivalence_matrix(labels)
    penalty = learner.penalty_ or 0.0
    centered = X - X.mean(axis=0)
    Z = (centered - centered.mean(axis=0)) @ learner.components_.T

    def score(M: np.ndarray) -> float:
        return float(np.sum((M @ Z) * Z) - penalty * np.trace(M))

    hinge = max(np.sum((M - N) ** 2) + score(M) for M in _projections(len(X))) - score(N)
    B = learner.get_mahalanobis_matrix()
    B = B if not learner.standardize else B * np.outer(learner.scale_, learner.scale_)
    regularizer = learner.regularizer
    if isinstance(regularizer, ml.SquaredFrobenius):
        return hinge / len(X) + 0.5 * regularizer.strength * float(np.sum(B**2))
    return hinge / len(X) + regularizer.strength * float(np.trace(B))


def test_objectives_and_bounds_are_true_in_any_unit() -> None:
    """Few samples of many features, collinear and shifted."""
    random = np.random.default_rng(0)
    for _ in range(50):
        T, P = int(random.integers(2, 7)), int(random.integers(1, 6))
        unit = 10.0 ** random.uniform(-3, 4)
        X = unit * (random.normal(size=(T, P)) + random.choice([0.0, 1e3]))
        X[:, -1] = X[:, 0] if random.random() < 0.2 else X[:, -1]
        labels = np.sort(random.integers(0, 4, T))
        metric, kind = PAIRS[random.integers(3)]
        power = 4 if kind is ml.SquaredFrobenius else 2
        strength = 10.0 ** random.uniform(-6, 1) * unit**power
        learner = ml.ChangePointMetricLearner(
            metric,
            kind(strength),
            standardize=bool(random.random() < 0.3),
            penalty=["learned", 0.0, 1.0][random.integers(3)],
            verbose=False,
        ).fit(X, labels)
        solution, value = learner.solution_, objective_of(learner, X, labels)
        assert solution.objective >= 0.0
        assert solution.lower_bound <= solution.objective + 1e-12
        assert solution.objective == pytest.approx(value, rel=1e-6, abs=1e-9)


def test_nothing_converges_on_rounding() -> None:
    """A strength that is nothing beside the unit, and more features than samples."""
    X = np.random.default_rng(0).normal(size=(4, 5)) * 1e7
    unscaled = {"standardize": False, "penalty": 0.0, "verbose": False}
    few = ml.BundleDual(max_rounds=20)
    learner = ml.ChangePointMetricLearner(FULL, ml.Trace(1e-3), few, **unscaled)
    learner.fit(X, [0, 1, 1, 2])
    solution = learner.solution_
    assert solution.objective == pytest.approx(objective_of(learner, X, np.array([0, 1, 1, 2])))
    assert solution.lower_bound <= solution.objective
    assert not solution.converged


@pytest.mark.parametrize(("metric", "kind"), PAIRS, ids=["squared", "trace", "l1"])
def test_a_power_of_two_changes_no_digit(metric: Any, kind: Any) -> None:
    random = np.random.default_rng(1)
    labels = np.repeat(np.arange(4), 10)
    data = [random.normal(size=(40, 4)) + random.normal(size=(4, 4))[labels] for _ in range(3)]
    matrices = []
    for unit in (1.0, 2.0**20):
        strength = 1e-6 * unit ** (4 if kind is ml.SquaredFrobenius else 2)
        learner = ml.ChangePointMetricLearner(
            metric, kind(strength), ml.CuttingPlane(), standardize=False, verbose=False
        ).fit([unit * X for X in data], [labels] * 3)
        matrices.append(learner.get_mahalanobis_matrix() * unit**2)
    np.testing.assert_array_equal(*matrices)


def test_a_strong_pull_to_a_center_keeps_its_digits() -> None:
    cone = MetricCone(ml.FullMetric(), 3, learns_penalty=False)
    terms = ml.SquaredFrobenius(1e6, center=2.0).terms(cone)
    near = 2.0 * ml.FullMetric().identity(3)
    near[0] += 1e-6
    assert terms(near) == pytest.approx(0.5e-6, rel=1e-9)
    assert terms.minimum(np.zeros(cone.n_metric), cone, np.inf) < 1e-20
