"""Seeded K-means against enumeration, and what it must keep."""

import numpy as np
import pytest

from metriclearn import PartialPartition, Partition
from metriclearn.oracles.completion import ConstrainedKMeans, spectral_completion
from metriclearn.problem import DenseForm, LowRankForm
from tests.exhaustive import all_partitions, allows_clusters


def draw(rng: np.random.Generator) -> tuple[LowRankForm, PartialPartition, int]:
    T = int(rng.integers(4, 7))
    classes = rng.integers(0, 3, T)
    labels = np.where(rng.random(T) < 0.5, classes, -1)
    start = int(rng.integers(0, T - 1))
    alike = len(set(classes[start : start + 2])) == 1
    known = PartialPartition(T, labels, same=[(start, start + 2)] if alike else [])
    return LowRankForm(rng.normal(size=(T, 2)) + 2 * classes[:, None]), known, T


def test_near_the_best_that_agrees() -> None:
    """30 cases with T ≤ 6: always agrees, never above the optimum, and mostly equal to it."""
    rng, hits, cases = np.random.default_rng(0), 0, 0
    for _ in range(30):
        form, known, T = draw(rng)
        n_labels = len(set(known.labels[known.labels >= 0]))
        for K in range(max(n_labels, 1), min(T, 4) + 1):
            agreeing = [
                partition
                for labels in all_partitions(T, K)
                if allows_clusters(known, partition := Partition.from_labels(labels))
            ]
            if not agreeing:
                with pytest.raises(ValueError, match="clusters"):
                    ConstrainedKMeans()(form, K, known)
                continue
            found = ConstrainedKMeans(n_init=20)(form, K, known)
            assert allows_clusters(known, found)
            assert found.n_clusters == K
            best = max(form.at(partition) for partition in agreeing)
            assert form.at(found) <= best + 1e-9
            assert form.at(found) >= 0.8 * best
            hits += form.at(found) >= best - 1e-9
            cases += 1
    assert hits >= 0.85 * cases


def test_unknown_number_of_clusters() -> None:
    """Four clear groups of which two are labeled; the penalty decides about the other two."""
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1, 2, 3], 20)
    Z = 10.0 * np.array([[0, 0], [1, 0], [0, 1], [1, 1]])[y] + 0.1 * rng.normal(size=(80, 2))
    known = PartialPartition(80, np.where((y < 2) & (rng.random(80) < 0.3), y, -1))
    found = ConstrainedKMeans()(LowRankForm(Z, shift=-50.0), None, known)
    assert found == Partition.from_labels(y)
    assert ConstrainedKMeans()(LowRankForm(Z, shift=-1e5), None, known).n_clusters == 2


def test_spectral_completion_of_a_similarity() -> None:
    """Two rings, which no K-means parts: their similarity and two labels on each do."""
    rng = np.random.default_rng(4)
    angle = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    y = np.repeat([0, 1], 60)
    X = np.where(y, 4.0, 1.0)[:, None] * np.tile(
        np.column_stack([np.cos(angle), np.sin(angle)]), (2, 1)
    )
    X += 0.05 * rng.normal(size=X.shape)
    W = np.exp(-4.0 * np.sum((X[:, None] - X[None]) ** 2, axis=2))
    degree = np.sqrt(W.sum(axis=0))
    labels = np.full(120, -1)
    labels[[0, 30, 60, 90]] = y[[0, 30, 60, 90]]
    known = PartialPartition(120, labels)
    assert spectral_completion(
        DenseForm(W / np.outer(degree, degree)), 2, known
    ) == Partition.from_labels(y)
