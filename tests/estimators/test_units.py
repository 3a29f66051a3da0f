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


def test_a_strong_pull_to_a_center_keeps_its_digits() -> None:
    cone = MetricCone(ml.FullMetric(), 3, learns_penalty=False)
    terms = ml.SquaredFrobenius(1e6, center=2.0).terms(cone)
    near = 2.0 * ml.FullMetric().identity(3)
    near[0] += 1e-6
    assert terms(near) == pytest.approx(0.5e-6, rel=1e-9)
    assert terms.minimum(np.zeros(cone.n_metric), np.inf) < 1e-20
