"""Internal indices against scikit-learn, literal definitions and their edge cases."""

import tracemalloc
from itertools import combinations

import numpy as np
import pytest
import sklearn.metrics as peer
from scipy.spatial.distance import cdist, pdist

import metriclearn.indices as indices
from metriclearn.indices import validity

KINDS = ("original", "simplified", "alternative", "hybrid")


def literal_silhouettes(X: np.ndarray, labels: np.ndarray, kind: str) -> list[float]:
    values = []
    for x, own in zip(X, labels):

        def distance(q: int, x: np.ndarray = x, own: int = own) -> float:
            members = X[labels == q]
            if kind in ("simplified", "hybrid"):
                return float(np.linalg.norm(x - members.mean(axis=0)))
            return np.linalg.norm(members - x, axis=1).sum() / max(1, len(members) - (q == own))

        a, b = distance(own), min(distance(q) for q in set(labels.tolist()) - {own})
        linear = kind in ("original", "simplified")
        value = (b - a) / max(a, b) if linear else b / (a + 1e-6)
        values.append(0.0 if np.sum(labels == own) == 1 else value)
    return values


@pytest.mark.parametrize("kind", KINDS)
def test_silhouettes_are_the_definition(kind: str) -> None:
    rng = np.random.default_rng(1)
    X, labels = rng.normal(size=(30, 2)), np.append(rng.integers(0, 3, 29), 9)
    found = indices.silhouette_samples(X, labels, kind=kind)
    assert found == pytest.approx(literal_silhouettes(X, labels, kind), abs=1e-12)
    assert indices.silhouette_score(X, labels, kind=kind) == pytest.approx(found.mean())


def test_agreement_with_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    blobs = rng.normal(size=(120, 3)), rng.integers(0, 5, 120)
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


def literal_dunn(X: np.ndarray, labels: np.ndarray) -> dict[tuple[str, str], float]:
    groups = [X[labels == label] for label in np.unique(labels)]
    means = [group.mean(axis=0, keepdims=True) for group in groups]
    separations, diameters = [], []
    for p, q in combinations(range(len(groups)), 2):
        D = cdist(groups[p], groups[q])
        crossed = [*cdist(groups[p], means[q]), *cdist(groups[q], means[p])]
        hausdorff = max(D.min(axis=1).max(), D.min(axis=0).max())
        apart = cdist(means[p], means[q]).item()
        separations.append([D.min(), D.max(), D.mean(), apart, np.mean(crossed), hausdorff])
    for group, mean in zip(groups, means):
        within = pdist(group) if len(group) > 1 else np.zeros(1)
        diameters.append([within.max(), within.mean(), 2 * cdist(group, mean).mean()])
    least = dict(zip(validity.SEPARATIONS, np.min(separations, axis=0)))
    most = dict(zip(validity.DIAMETERS, np.max(diameters, axis=0)))
    return {(s, d): least[s] / most[d] for s in least for d in most}


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
