"""Normalized cuts against definitions over samples and enumeration."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from metriclearn.oracles.rounding import Rounding
from metriclearn.similarities import GaussianSimilarity, Nodes
from metriclearn.similarities.normalized_cut import (
    Discretization,
    KMeansRounding,
    NormalizedCut,
    ThresholdCut,
)
from tests.exhaustive import all_partitions
from tests.similarities.problems import dense_similarity, expanded

ROUNDINGS = [ThresholdCut(), KMeansRounding(), Discretization()]
NAMES = ["threshold", "kmeans", "discretization"]


def cut_of(nodes: Nodes, scale: float = 1.0) -> NormalizedCut:
    components = np.sqrt(scale) * np.eye(nodes.features.shape[1])
    return NormalizedCut(GaussianSimilarity().operator(nodes, components))


def clusters(sizes: tuple[int, ...], seed: int = 0) -> tuple[Nodes, NDArray]:
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    X = 4.0 * np.column_stack([labels, labels**2]) + 0.3 * random.normal(size=(len(labels), 2))
    return Nodes(X, random.integers(1, 9, len(labels)).astype(float)), labels


def value_over_samples(W: NDArray, labels: NDArray) -> float:
    """Σ_k cut(A_k, rest)/vol(A_k), from its definition."""
    degrees = W.sum(axis=1)
    return sum(
        W[np.ix_(labels == k, labels != k)].sum() / degrees[labels == k].sum()
        for k in np.unique(labels)
    )


def test_eigenpairs_are_those_over_samples() -> None:
    problem = expanded(1)
    values, vectors = cut_of(problem.nodes).eigenpairs(4)
    W = dense_similarity(problem.X, np.eye(3))
    root = 1.0 / np.sqrt(W.sum(axis=1))
    expected = np.linalg.eigvalsh(root[:, None] * W * root)[::-1][:4]
    np.testing.assert_allclose(values, expected, atol=1e-8)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(4), atol=1e-8)


def test_values_are_those_over_samples() -> None:
    problem, random = expanded(2), np.random.default_rng(0)
    indicators = random.integers(0, 2, (12, 5)).astype(float)
    indicators[0], indicators[1] = 0.0, 1.0
    W = dense_similarity(problem.X, np.eye(3))
    found = cut_of(problem.nodes).values(indicators)
    expected = [value_over_samples(W, column[problem.owners]) for column in indicators.T]
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("rounding", ROUNDINGS, ids=NAMES)
@pytest.mark.parametrize("sizes", [(9,), (7, 12), (10, 4, 8), (6, 6, 9, 5, 8)])
def test_clear_clusters_are_found(rounding: Rounding, sizes: tuple[int, ...]) -> None:
    nodes, labels = clusters(sizes)
    found = rounding(cut_of(nodes, 0.3), len(sizes))
    assert len(set(zip(found, labels))) == len(sizes) == len(set(found))


@pytest.mark.parametrize("seed", range(4))
def test_threshold_is_the_best_one(seed: int) -> None:
    problem = expanded(seed, n_clusters=2)
    cut = cut_of(problem.nodes)
    second = cut.eigenpairs(2)[1][:, 1] / np.sqrt(cut.volumes)
    values = [cut.values((second > t)[:, None].astype(float))[0] for t in np.sort(second)[:-1]]
    labels = ThresholdCut()(cut, 2)
    assert cut.values(labels[:, None].astype(float))[0] == pytest.approx(min(values), abs=1e-12)


@pytest.mark.parametrize("K", [2, 3])
def test_no_cut_beats_the_relaxation(K: int) -> None:
    """K − Σ of the K leading eigenvalues bounds every cut of 7 nodes, and roundings come close."""
    random = np.random.default_rng(5)
    nodes = Nodes(random.normal(size=(7, 2)), np.ones(7))
    W = dense_similarity(nodes.features, np.eye(2))
    cut = cut_of(nodes)
    bound = K - cut.eigenpairs(K)[0].sum()
    values = [value_over_samples(W, np.array(p)) for p in all_partitions(7, K)]
    assert bound <= min(values) + 1e-9
    for rounding in ROUNDINGS:
        labels = rounding(cut, K)
        if len(np.unique(labels)) == K:
            assert min(values) - 1e-9 <= value_over_samples(W, labels) <= 1.6 * min(values)


def test_sizes_count_as_so_many_samples() -> None:
    problem = expanded(3, n_clusters=2)
    singles = Nodes(problem.X, np.ones(len(problem.owners)))
    for rounding in ROUNDINGS:
        nodes, samples = rounding(cut_of(problem.nodes), 2), rounding(cut_of(singles), 2)
        assert len(set(zip(nodes[problem.owners], samples))) == 2


def test_every_way_to_ask_for_one_cluster() -> None:
    nodes, _ = clusters((5, 5))
    for rounding, scale in product(ROUNDINGS, (1e-6, 1.0)):
        assert set(rounding(cut_of(nodes, scale), 1)) == {0}
