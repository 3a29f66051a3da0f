"""Similarity operators against dense references and finite differences, at T ≤ 60."""

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from metriclearn import DiagonalMetric
from metriclearn.problem.projector import Projector
from metriclearn.similarities import (
    FourierSimilarity,
    GaussianSimilarity,
    GivenSimilarities,
    Neighborhood,
    Nodes,
    Similarity,
    SimilarityFeatures,
)
from metriclearn.similarities.operators import GaussianOperator, Operator
from tests.similarities.problems import dense_similarity, expanded, random_metric

FAMILIES: dict[str, Callable[[], Similarity]] = {
    "all pairs": GaussianSimilarity,
    "neighbors": lambda: GaussianSimilarity(Neighborhood(1.5)),
    "fourier": lambda: FourierSimilarity(40, random_state=1),
}


def components_of(B: NDArray) -> NDArray:
    return np.linalg.cholesky(B).T


def test_products_are_those_over_samples() -> None:
    problem, B = expanded(0), random_metric(1)
    operator = GaussianSimilarity().operator(problem.nodes, components_of(B))
    expected = problem.E.T @ dense_similarity(problem.X, B) @ problem.E / len(problem.owners)
    found = operator.matvec(np.eye(problem.nodes.n_samples))
    np.testing.assert_allclose(found, expected, atol=1e-14)
    assert np.trace(found) == pytest.approx(1.0)


def test_weights_of_given_similarities() -> None:
    random = np.random.default_rng(0)
    stack = random.uniform(size=(3, 8, 8))
    stack += stack.transpose(0, 2, 1)
    nodes, w = Nodes(stack, np.ones(8)), np.array([0.5, 2.0, 0.0])
    features = SimilarityFeatures(GivenSimilarities(), DiagonalMetric())
    form = features.at(w)(nodes)
    expected = np.tensordot(w, stack, axes=1) / 8
    np.testing.assert_allclose(form.matvec(np.eye(8)), expected, atol=1e-14)
    F = random.normal(size=(8, 2))
    gradient = features.gradient(nodes, form, Projector(F))
    direct = [np.sum(F * (W @ F)) / 8 for W in stack]
    np.testing.assert_allclose(gradient, direct, atol=1e-13)


@pytest.mark.parametrize("memory", [1.0, 1e9], ids=["computed again", "kept"])
def test_blocks_are_those_of_a_dense_similarity(memory: float) -> None:
    random, n = np.random.default_rng(0), 601
    X, root, F = random.normal(size=(n, 3)), np.full(n, n**-0.5), random.normal(size=(n, 2))
    L = 0.7 * np.eye(3) + 0.2
    operator = GaussianOperator(X, L.T, root, memory)
    apart = X[:, None] - X
    W = np.exp(-np.sum((apart @ L) ** 2, axis=2)) / n
    np.testing.assert_allclose(operator.matvec(F), W @ F, atol=1e-14)
    expected = -np.einsum("ij,ijp,ijq->pq", W * (F @ F.T), apart, apart, optimize=True)
    np.testing.assert_allclose(operator.slope(F), expected, rtol=1e-11, atol=1e-12)


def peak_of(operator: Operator) -> float:
    """Most bytes that one product and one slope take."""
    F = np.random.default_rng(1).normal(size=(len(operator.root), 2))
    tracemalloc.start()
    operator.matvec(F)
    operator.slope(F)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("n", [1000, 3000], ids=["kept", "computed again"])
def test_memory_stays_within_the_budget(n: int) -> None:
    random, budget = np.random.default_rng(0), 2.0**23
    X, root = random.normal(size=(n, 3)), np.full(n, n**-0.5)
    peak = peak_of(GaussianOperator(X, np.eye(3), root, budget))
    assert peak < 0.5 * budget + 2.0**21  # W: 8 and 69 MiB


def test_parts_and_other_roots() -> None:
    problem, B = expanded(4), random_metric(4)
    kept = np.array([0, 3, 5, 8])
    for family in FAMILIES.values():
        operator = family().operator(problem.nodes, components_of(B))
        whole = operator.matvec(np.eye(12))
        part = operator.restricted(kept).matvec(np.eye(4))
        np.testing.assert_allclose(part, whole[np.ix_(kept, kept)], atol=1e-15)
        scaled = operator.rescaled(2.0 * operator.root).matvec(np.eye(12))
        np.testing.assert_allclose(scaled, 4.0 * whole, atol=1e-14)


def test_offsets_are_steps_between_nodes() -> None:
    positions = np.array([[x, y] for y in range(3) for x in range(4)], dtype=float)
    found = Neighborhood(offsets=[(1, 0), (0, -2)]).pairs(positions)
    across = [(i, i + 1) for i in range(12) if i % 4 < 3]
    assert {tuple(pair) for pair in found.tolist()} == {*across, *((i, i + 8) for i in range(4))}
    within = Neighborhood(2.0).pairs(positions)
    disk = [(x, y) for x in range(-2, 3) for y in range(-2, 3) if 0 < x * x + y * y <= 4]
    same = Neighborhood(offsets=disk).pairs(positions + 0.1)
    np.testing.assert_array_equal(same, np.unique(within, axis=0))


def test_neighborhoods_keep_to_the_memory_budget() -> None:
    positions = np.array([[x, y] for y in range(60) for x in range(60)], dtype=float)
    random, n = np.random.default_rng(0), len(positions)
    nodes = Nodes(random.normal(size=(n, 3)), np.ones(n), positions)
    with pytest.raises(ValueError, match=r"radius 20 pixels holds \d+ pairs, more than the 10923"):
        GaussianSimilarity(Neighborhood(20), memory=2.0**20).operator(nodes, np.eye(3))
    operator = GaussianSimilarity(Neighborhood(8.0), memory=2.0**25).operator(nodes, np.eye(3))
    assert peak_of(operator) < 2.0**25 + 2.0**20 + 2.0**16 * 100
