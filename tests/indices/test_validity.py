"""Internal indices against scikit-learn, literal definitions and their edge cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sklearn.metrics as peer
from scipy.spatial.distance import cdist

import metriclearn.indices as indices

KINDS = ("original", "simplified", "alternative", "hybrid")
INTERNAL = [
    indices.davies_bouldin_score,
    indices.calinski_harabasz_score,
    indices.silhouette_score,
    indices.dunn_score,
]


@pytest.fixture
def blobs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, 120)
    return rng.normal(size=(120, 3)) + 2 * labels[:, None], labels


def literal_silhouettes(X: np.ndarray, labels: np.ndarray, kind: str) -> list[float]:
    values = []
    for i, own in enumerate(labels):

        def distance(q: int, i: int = i) -> float:
            members = [j for j in np.flatnonzero(labels == q) if j != i]
            if kind in ("simplified", "hybrid"):
                return float(np.linalg.norm(X[i] - X[labels == q].mean(axis=0)))
            return float(np.mean([np.linalg.norm(X[i] - X[j]) for j in members]))

        if np.sum(labels == own) == 1:
            values.append(0.0)
            continue
        a, b = distance(own), min(distance(q) for q in set(labels.tolist()) - {own})
        linear = kind in ("original", "simplified")
        values.append((b - a) / max(a, b) if linear else b / (a + 1e-6))
    return values


@pytest.mark.parametrize("kind", KINDS)
def test_silhouettes_are_the_definition(kind: str) -> None:
    rng = np.random.default_rng(1)
    X, labels = rng.normal(size=(30, 2)), np.append(rng.integers(0, 3, 29), 9)
    found = indices.silhouette_samples(X, labels, kind=kind)
    assert found == pytest.approx(literal_silhouettes(X, labels, kind), abs=1e-12)
    assert indices.silhouette_score(X, labels, kind=kind) == pytest.approx(found.mean())


def test_agreement_with_scikit_learn(blobs) -> None:
    X, labels = blobs
    assert indices.silhouette_samples(X, labels) == pytest.approx(
        peer.silhouette_samples(X, labels), abs=1e-9
    )
    assert indices.davies_bouldin_score(X, labels) == pytest.approx(
        peer.davies_bouldin_score(X, labels)
    )
    assert indices.calinski_harabasz_score(X, labels) == pytest.approx(
        peer.calinski_harabasz_score(X, labels)
    )


def test_blocks_do_not_change_the_result() -> None:
    rng = np.random.default_rng(6)  # 3,000 points: three blocks of distances per cluster
    X, labels = rng.normal(size=(3000, 2)), rng.integers(0, 2, 3000)
    D = cdist(X, X)
    inside = labels[:, None] == labels
    a, b = (D * inside).sum(1) / (inside.sum(1) - 1), (D * ~inside).sum(1) / (~inside).sum(1)
    expected = (b - a) / np.maximum(a, b)
    assert indices.silhouette_samples(X, labels) == pytest.approx(expected, abs=1e-12)
    scores = indices.dunn_scores(X, labels)
    assert scores["single", "complete"] == D[~inside].min() / D[inside].max()
    assert scores["average", "complete"] == pytest.approx(D[~inside].mean() / D[inside].max())


@pytest.mark.parametrize("index", INTERNAL)
def test_names_and_order_do_not_matter_and_distances_are_invariant(index, blobs) -> None:
    X, labels = blobs
    value = index(X, labels)
    order = np.random.default_rng(2).permutation(len(X))
    assert index(X[order], [f"c{label}" for label in labels[order]]) == pytest.approx(value)
    rotation, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))
    assert index(7 * X @ rotation + 100, labels) == pytest.approx(value)


@pytest.mark.parametrize("index", INTERNAL)
def test_learned_metrics(index, blobs) -> None:
    X, labels = blobs
    L = np.random.default_rng(4).normal(size=(3, 2))
    expected = index(X @ L, labels)
    assert index(X, labels, metric=L @ L.T) == pytest.approx(expected)

    class Learner:
        def transform(self, X: np.ndarray) -> np.ndarray:
            return X @ L

    assert index(X, labels, metric=Learner()) == pytest.approx(expected)
    weights = np.array([4.0, 0.0, 1.0])
    assert index(X, labels, metric=weights) == pytest.approx(index(X * np.sqrt(weights), labels))


def test_degenerate_clusters() -> None:
    points = np.array([[0.1], [0.1], [0.1], [0.7], [0.7], [0.7]])
    assert indices.calinski_harabasz_score(points, [0, 0, 0, 1, 1, 1]) == math.inf
    assert indices.davies_bouldin_score(points, [0, 0, 0, 1, 1, 1]) == 0.0
    assert indices.davies_bouldin_score(points, [0, 1, 1, 2, 2, 2]) == math.inf
    assert indices.dunn_score(points, [0, 0, 0, 1, 1, 1]) == math.inf
    assert indices.silhouette_score(points, [0, 0, 0, 1, 1, 1]) == 1.0
    assert np.array_equal(indices.silhouette_samples(points, range(6)), np.zeros(6))


def test_far_from_the_origin_nothing_cancels(blobs) -> None:
    X, labels = blobs
    X = np.round(X * 2**20) / 2**20  # so that the shift below is exact
    for index in INTERNAL:
        assert index(X + 2.0**20, labels) == pytest.approx(index(X, labels), rel=1e-9)
