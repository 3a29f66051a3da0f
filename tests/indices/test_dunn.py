"""The eighteen Dunn indices against their literal definitions."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import metriclearn.indices as indices
from metriclearn.indices import dunn


def literal(X: np.ndarray, labels: np.ndarray) -> dict[tuple[str, str], float]:
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
        expected = literal(X, labels)
        found = indices.dunn_scores(X, labels)
        assert len(found) == 18
        assert found == pytest.approx(expected, rel=1e-12)
        for (separation, diameter), value in expected.items():
            one = indices.dunn_score(X, labels, separation=separation, diameter=diameter)
            assert one == pytest.approx(value, rel=1e-12)


def test_memory_stays_below_all_distances() -> None:
    import tracemalloc

    rng = np.random.default_rng(1)
    X, labels = rng.normal(size=(6000, 2)), rng.integers(0, 8, 6000)
    tracemalloc.start()
    indices.dunn_scores(X, labels)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 80e6  # all distances: 288 MB
