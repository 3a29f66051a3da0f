"""Alternation for clusterings of which some labels are known."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris

from metriclearn import (
    BundleDual,
    DiagonalMetric,
    FrobeniusLoss,
    LowRankForm,
    PartialPartition,
    Partition,
    SquaredFrobenius,
)
from metriclearn.estimators.alternation import Alternation, KnownStart, PrincipalStart, alternate
from metriclearn.estimators.clustering import ClusteringMetricLearner
from metriclearn.oracles.completion import ConstrainedKMeans
from metriclearn.oracles.spectral import TopEigenvectors
from metriclearn.problem.joint_features import LinearFeatures, Samples
from metriclearn.problem.risk import HingeTerms, StructuredHinge
from metriclearn.solvers.base import Problem
from metriclearn.solvers.mahalanobis import MetricCone


def test_alternation_learns_to_cluster_from_a_few_labels() -> None:
    """Two relevant features of eight, a fifth of the labels: nearly all samples come right."""
    rng = np.random.default_rng(3)
    samples, truths, classes = [], [], []
    features = LinearFeatures(DiagonalMetric())
    for _ in range(3):
        y = np.repeat([0, 1, 2], 30)
        X = rng.normal(size=(90, 8))
        X[:, :2] += 4.0 * np.array([[0, 0], [1, 0], [0, 1]])[y]
        X[:, 2:] *= 3.0
        known = PartialPartition(90, np.where(rng.random(90) < 0.2, y, -1))
        samples.append(Samples(X))
        first = ConstrainedKMeans()(LowRankForm(X), 3, known)
        truths.append(first.completing(known))
        classes.append(Partition.from_labels(y))
    cone = MetricCone(DiagonalMetric(), 8, False)
    terms = HingeTerms(
        features,
        FrobeniusLoss(),
        TopEigenvectors(),
        cone,
        count_known=True,
        completion=ConstrainedKMeans(),
    )
    hinge = StructuredHinge(terms, samples, truths)
    regularizer = SquaredFrobenius(1e-2)
    solver, start = BundleDual(tolerance=1e-3, max_rounds=100), np.full(8, 1e-2)
    problem = Problem(hinge, regularizer, cone, start)
    solution, hinge, trace = alternate(problem, solver.minimize, Alternation())
    steps = [f for pair in zip(trace.completed, trace.learned) for f in pair]
    assert np.all(np.diff(steps) <= 1e-12)
    assert all(truth.known.allows_clusters(truth) for truth in hinge.truths)
    loss = FrobeniusLoss()
    before = np.mean([loss(a, b) for a, b in zip(truths, classes)])
    after = np.mean([loss(a, b) for a, b in zip(hinge.truths, classes)])
    assert after < 0.5 * before
    assert solution.w[:2].min() > 3 * solution.w[2:].max()


def few_labels(y: np.ndarray, share: float, seed: int = 0) -> np.ndarray:
    return np.where(np.random.default_rng(seed).random(len(y)) < share, y, -1)


@pytest.mark.parametrize(
    ("start", "share"), [(KnownStart(), 0.4), (PrincipalStart(3), 1.0)], ids=["known", "principal"]
)
def test_learner_takes_a_few_labels(start, share) -> None:
    """Iris with a fifth of the labels: better than none; far better from the known samples."""
    X, y = load_iris(return_X_y=True)
    known = few_labels(y, 0.2)
    alternation = Alternation(start=start)
    strong = SquaredFrobenius(100.0)  # 30 labels
    learner = ClusteringMetricLearner(
        regularizer=strong, random_state=0, verbose=False, alternation=alternation
    )
    trace = learner.fit(X, known).alternation_
    steps = [f for pair in zip(trace.completed, trace.learned) for f in pair]
    assert np.all(np.diff(steps) <= 1e-12)
    completed = Partition.from_labels(learner.completions_[0])
    assert PartialPartition(150, known).allows_clusters(completed)
    euclidean = KMeans(3, n_init=10, random_state=0).fit_predict(X / X.std(axis=0))
    plain = FrobeniusLoss()(Partition.from_labels(euclidean), Partition.from_labels(y))
    assert -learner.score(X, y) < share * plain
    assert FrobeniusLoss()(completed, Partition.from_labels(y)) < share * plain
    rows = known >= 0
    found = Partition.from_labels(learner.predict(X)[rows])
    expected = FrobeniusLoss()(found, Partition.from_labels(known[rows]))
    assert learner.score(X, known) == pytest.approx(-expected)
    full = ClusteringMetricLearner(random_state=0, verbose=False).fit(X, y)
    assert full.alternation_ is None
    everything = ClusteringMetricLearner(random_state=0, verbose=False)
    everything.fit(X, PartialPartition(150, y))
    np.testing.assert_array_equal(everything.components_, full.components_)


def test_learner_errors() -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="cover no sample of data set 1"):
        ClusteringMetricLearner().fit([X, X], [y, np.full(150, -1)])
    with pytest.raises(ValueError, match='n_clusters="given"'):
        ClusteringMetricLearner(n_clusters=None).fit(X, few_labels(y, 0.2))
