"""Objectives and bounds against the enumeration of all segmentations."""

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metriclearn as ml
from tests.adversarial.outcome import CASES, in_ci, watched
from tests.exhaustive import all_segmentations, equivalence_matrix, labels_of

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


@in_ci(120)
@given(
    st.sampled_from(PAIRS),
    st.integers(0, 2**32),
    st.floats(-3.0, 3.0),
    st.floats(-6.0, 1.0),
    st.sampled_from([0.0, 1.0, 1e4]),
)
def test_objectives(pair, seed, unit, strength, offset) -> None:
    """Objectives are not negative, not below their bound, and equal to the enumeration."""
    CASES["objectives"] += 1
    random = np.random.default_rng(seed)
    T, P = int(random.integers(3, 7)), int(random.integers(1, 6))
    size = 10.0**unit
    X = size * (random.normal(size=(T, P)) + offset)
    X[:, -1] = X[:, 0] if random.random() < 0.2 else X[:, -1]
    labels = np.sort(random.integers(0, 4, T))
    labels[-1] = labels[0] + 1 if labels[0] == labels[-1] else labels[-1]
    metric, kind = pair
    power = 4 if kind is ml.SquaredFrobenius else 2
    learner = ml.ChangePointMetricLearner(
        metric,
        kind(10.0**strength * size**power),
        ml.BundleDual(max_rounds=30),
        standardize=bool(random.random() < 0.3),
        penalty=["learned", 0.0, 1.0][random.integers(3)],
        verbose=False,
    )
    with watched(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solution = learner.fit(X, labels).solution_
    value = objective_of(learner, X, labels)
    assert solution.objective >= 0.0
    assert solution.lower_bound <= solution.objective + 1e-12
    assert solution.objective == pytest.approx(value, rel=1e-6, abs=1e-9)
