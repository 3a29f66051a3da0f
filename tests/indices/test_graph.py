"""Graph-sensitive indices against literal references, and the helpers that build graphs."""

import math
from collections import Counter

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array, csr_matrix

import metriclearn.indices as indices


def random_graph(rng: np.random.Generator, n: int, *, weighted: bool = False) -> np.ndarray:
    A = np.triu(rng.random((n, n)) < 0.4, 1) * (rng.random((n, n)) if weighted else 1.0)
    A[0, 1] = 1.0
    return A + A.T + np.diag(rng.random(n) < 0.3)


def literal_vin(A: np.ndarray, a: list, b: list) -> float:
    def types(labels: list) -> list:
        neighbors = [np.flatnonzero(row) for row in A * (1 - np.eye(len(a)))]
        around = [Counter(labels[j] for j in near) for near in neighbors]
        return [(label, frozenset(near.items())) for label, near in zip(labels, around)]

    return indices.variation_of_information(types(a), types(b))


def literal_rwi(S: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """Sums over Eqs. (8)–(12), one probability at a time."""
    pi = S.sum(axis=1) / S.sum()
    T = S / np.where(S.sum(axis=1) > 0, S.sum(axis=1), 1)[:, None]
    total = 0.0
    for x, y in ((a, b), (b, a)):
        for k in set(x):
            for m in set(y):
                to_m = np.sum((pi[:, None] * T)[np.ix_(x == k, y == m)])
                for l in set(x):  # noqa: E741
                    to_both = np.sum((pi[:, None] * T)[np.ix_(x == k, (x == l) & (y == m))])
                    if to_both > 0:
                        total -= to_both * math.log(to_both / to_m)
    return total


@pytest.mark.parametrize("weighted", [False, True])
def test_against_literal_references(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        n = int(rng.integers(2, 16))
        A, (a, b) = random_graph(rng, n, weighted=weighted), rng.integers(0, 4, (2, n))
        vin, rwi = literal_vin(A, a.tolist(), b.tolist()), literal_rwi(A, a, b)
        for form in (A, csr_matrix(A), coo_array(A), csr_array(A.astype(np.float32))):
            assert indices.vi_with_neighbors(form, a, b) == pytest.approx(vin, abs=1e-12)
            assert indices.random_walk_index(form, a, b) == pytest.approx(rwi, abs=1e-6)
        assert indices.random_walk_index(A, a, b) == pytest.approx(rwi, abs=1e-12)
        assert indices.random_walk_index(csr_array(A), a, b) == pytest.approx(rwi, abs=1e-12)


PATH3, PATH4, CHAIN = (np.eye(n, k=1) + np.eye(n, k=-1) for n in (3, 4, 10))
A, B = np.random.default_rng(3).integers(0, 4, (2, 20))
VI = indices.variation_of_information(A, B)


@pytest.mark.parametrize("index", [indices.vi_with_neighbors, indices.random_walk_index])
def test_chain_of_the_paper_prefers_the_end_to_the_middle(index) -> None:
    one, middle, end = np.zeros(10, int), np.eye(10, dtype=int)[4], np.eye(10, dtype=int)[9]
    assert index(CHAIN, one, end) < index(CHAIN, one, middle)


def test_graphs_of_points() -> None:
    X = np.array([[0.0], [1.0], [2.5], [9.0]])
    expected = [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    assert indices.epsilon_graph(X, 1.5).toarray().tolist() == expected
    expected = [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]]
    assert indices.knn_graph(X, 1).toarray().tolist() == expected


def test_graph_of_an_image() -> None:
    graph = indices.grid_graph((4, 5), reach=1, weighted=True).toarray()
    points = np.argwhere(np.ones((4, 5)))
    steps = points[:, None] - points[None, :]
    near = (np.abs(steps).max(axis=2) == 1) * np.exp(-(steps**2).sum(axis=2).astype(float))
    assert np.allclose(graph, near, atol=1e-15)
    assert indices.grid_graph((7, 7)).sum(axis=1).max() == 24  # the 5×5 neighborhood
    assert indices.grid_graph((3,), reach=5).toarray().tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 0]]


def test_relabeled_points_of_the_paper() -> None:
    """Section 5.2 of "Graph-sensitive indices", base 10: the outermost or the innermost of 100
    points is relabeled. The paper has the same means of VI and VIN, and others of RWI (.0355 and
    .1362), which do not follow from its definition."""
    values = np.empty((100, 2, 3))
    for seed, distances in enumerate(values):
        X = np.random.default_rng(seed).normal(size=(100, 2))
        radius = np.linalg.norm(X - X.mean(axis=0), axis=1)
        graph, S = indices.epsilon_graph(X, 0.5), np.exp(-np.sum((X[:, None] - X) ** 2, axis=2))
        A = np.zeros(100, dtype=int)
        for row, place in zip(distances, (radius.argmax(), radius.argmin())):
            B = (np.arange(100) == place).astype(int)
            row[0] = indices.variation_of_information(A, B, base=10)
            row[1] = indices.random_walk_index(S, A, B, base=10)
            row[2] = indices.vi_with_neighbors(graph, A, B, base=10)
    expected = [[0.0243, 0.0025, 0.0142], [0.0243, 0.0357, 0.0782]]
    assert np.all(np.abs(values.mean(axis=0) - expected) <= [5e-5, 2e-3, 5e-3])
    assert (values[:, 0] >= values[:, 1]).sum(axis=0).tolist() == [100, 0, 0]
