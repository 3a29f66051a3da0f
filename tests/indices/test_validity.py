"""Internal indices against scikit-learn, literal definitions and their edge cases."""

import math
import tracemalloc
from itertools import combinations

import numpy as np
import pytest
import sklearn.metrics as peer
from scipy.spatial.distance import cdist

import metriclearn.indices as indices
from metriclearn.indices import dunn

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
    for name in ("silhouette_samples", "davies_bouldin_score", "calinski_harabasz_score"):
        theirs = getattr(peer, name)(*blobs)
        assert getattr(indices, name)(*blobs) == pytest.approx(theirs, abs=1e-9), name


def test_blocks_do_not_change_the_result() -> None:
    rng = np.random.default_rng(6)  # 2,500 points: two blocks of distances
    X, labels = rng.normal(size=(2500, 2)), rng.integers(0, 2, 2500)
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


def literal_dunn(X: np.ndarray, labels: np.ndarray) -> dict[tuple[str, str], float]:
    groups = [X[labels == label] for label in np.unique(labels)]
    means = [group.mean(axis=0) for group in groups]

    def norms(points: np.ndarray, center: np.ndarray) -> np.ndarray:
        return np.linalg.norm(points - center, axis=1)

    separation = {kind: math.inf for kind in dunn.SEPARATIONS}
    for p, q in combinations(range(len(groups)), 2):
        D = cdist(groups[p], groups[q])
        crossed = norms(groups[p], means[q]).sum() + norms(groups[q], means[p]).sum()
        values = {
            "single": D.min(),
            "complete": D.max(),
            "average": D.mean(),
            "centroid": np.linalg.norm(means[p] - means[q]),
            "average_to_centroids": crossed / (len(groups[p]) + len(groups[q])),
            "hausdorff": max(D.min(axis=1).max(), D.min(axis=0).max()),
        }
        separation = {kind: min(separation[kind], values[kind]) for kind in separation}
    diameter = {kind: 0.0 for kind in dunn.DIAMETERS}
    for group, mean in zip(groups, means):
        pairs = [np.linalg.norm(x - y) for x, y in combinations(group, 2)] or [0.0]
        values = {
            "complete": max(pairs),
            "average": np.mean(pairs),
            "centroid": 2 * norms(group, mean).mean(),
        }
        diameter = {kind: max(diameter[kind], values[kind]) for kind in diameter}
    return {(s, d): separation[s] / diameter[d] for s in separation for d in diameter}


def test_all_eighteen() -> None:
    rng = np.random.default_rng(0)
    for _ in range(10):
        X, labels = rng.normal(size=(25, 3)), np.append(rng.integers(0, 4, 24), 8)
        expected = literal_dunn(X, labels)
        found = indices.dunn_scores(X, labels)
        assert len(found) == 18
        assert found == pytest.approx(expected, rel=1e-12)
        for (separation, diameter), value in expected.items():
            one = indices.dunn_score(X, labels, separation=separation, diameter=diameter)
            assert one == pytest.approx(value, rel=1e-12)


def test_memory_stays_below_all_distances() -> None:
    rng = np.random.default_rng(1)
    X, labels = rng.normal(size=(4500, 2)), rng.integers(0, 8, 4500)
    tracemalloc.start()
    indices.dunn_scores(X, labels)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 80e6  # all distances: 162 MB
