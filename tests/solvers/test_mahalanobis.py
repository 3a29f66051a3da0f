"""Coordinates, projections, their derivatives and factors of the metric families."""

import numpy as np
import pytest

from metriclearn import DiagonalMetric, FullMetric
from metriclearn.solvers.mahalanobis import Metric, MetricCone, PenalizedMetric

FAMILIES = [DiagonalMetric(), FullMetric()]


def named(family: Metric) -> str:
    return type(family).__name__


def coordinates_of(family: Metric, B: np.ndarray) -> np.ndarray:
    """Coordinates of any symmetric matrix, as the difference of two positive definite ones."""
    shift = 1.0 + np.abs(np.linalg.eigvalsh(B)).max()
    root = np.linalg.cholesky(B + shift * np.eye(len(B))).T
    return family.coordinates(root) - shift * family.identity(len(B))


def symmetric(rng: np.random.Generator, P: int) -> np.ndarray:
    A = rng.normal(size=(P, P))
    return A + A.T


@pytest.mark.parametrize("P", [1, 2, 5])
@pytest.mark.parametrize("family", FAMILIES, ids=named)
def test_dot_product_of_coordinates_is_the_frobenius_inner_product(family, P) -> None:
    rng = np.random.default_rng(P)
    for _ in range(10):
        R, w = rng.normal(size=(3, P)), rng.normal(size=len(family.identity(P)))
        B = family.matrix(w)
        assert B.shape == (P, P)
        np.testing.assert_array_equal(B, B.T)
        assert family.coordinates(R) @ w == pytest.approx(np.sum(R.T @ R * B), rel=1e-12)
        assert w @ w == pytest.approx(np.sum(B * B), rel=1e-12)
        assert family.identity(P) @ w == pytest.approx(np.trace(B), rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("family", FAMILIES, ids=named)
def test_components_factor_the_matrix(family) -> None:
    rng = np.random.default_rng(1)
    for rank in (0, 1, 3, 6):
        R = rng.normal(size=(rank, 6))
        if named(family) == "DiagonalMetric":
            R = np.diag(np.append(rng.uniform(1, 2, rank), np.zeros(6 - rank)))
        w = family.coordinates(R)
        components = family.components(w)
        assert components.shape == (rank, 6)
        np.testing.assert_allclose(components.T @ components, family.matrix(w), atol=1e-12)
        if named(family) == "FullMetric":  # by decreasing eigenvalue
            lengths = np.sum(components**2, axis=1)
            expected = np.linalg.eigvalsh(R.T @ R)[::-1][:rank]
            np.testing.assert_allclose(lengths, expected, rtol=1e-9)


@pytest.mark.parametrize("P", [1, 4, 12])
@pytest.mark.parametrize("family", FAMILIES, ids=named)
def test_projection_is_the_nearest_point_of_the_cone(family, P) -> None:
    """In the cone, and the residual is orthogonal to the point and in the polar cone."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        v = rng.normal(size=len(family.identity(P)))
        point, _ = family.linearize(v)
        assert np.linalg.eigvalsh(family.matrix(point))[0] >= -1e-10
        np.testing.assert_allclose(family.linearize(point)[0], point, atol=1e-12)
        assert (v - point) @ point == pytest.approx(0.0, abs=1e-10)
        inside = family.coordinates(rng.normal(size=(P, P)))
        assert (v - point) @ inside <= 1e-9


@pytest.mark.parametrize("kind", ["mixed", "positive", "negative", "one positive"])
@pytest.mark.parametrize("penalty", [None, -0.7, 0.7])
@pytest.mark.parametrize("family", FAMILIES, ids=named)
def test_jacobian_of_the_projection(family, penalty, kind) -> None:
    """G J Gᵀ with J by central differences."""
    rng = np.random.default_rng(4)
    spectrum = {
        "mixed": [-2.0, -0.5, 0.3, 1.0, 2.5],
        "positive": [0.2, 0.5, 1.0, 2.0, 4.0],
        "negative": [-0.2, -0.5, -1.0, -2.0, -4.0],
        "one positive": [-3.0, -1.0, -0.7, -0.1, 1.0],
    }[kind]
    Q = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    A = Q @ np.diag(spectrum) @ Q.T if named(family) == "FullMetric" else np.diag(spectrum)
    cone = MetricCone(family, 5, penalty is not None)
    v, h = cone.join(coordinates_of(family, A), penalty), 1e-6
    J = np.column_stack(
        [(cone.project(v + h * e) - cone.project(v - h * e)) / (2 * h) for e in np.eye(cone.size)]
    )
    G = rng.normal(size=(40, cone.size))  # more rows than are unpacked at a time
    np.testing.assert_allclose(
        cone.linearize(v)[1](G, np.arange(len(G))), G @ J @ G.T, atol=2e-7 * np.abs(G @ G.T).max()
    )


@pytest.mark.parametrize("family", FAMILIES, ids=named)
def test_least_is_the_minimum_over_matrices_of_trace_one(family) -> None:
    rng = np.random.default_rng(5)
    v = rng.normal(size=len(family.identity(4)))
    matrix = family.matrix(v)
    expected = np.linalg.eigvalsh(matrix)[0] if named(family) == "FullMetric" else np.min(v)
    assert family.least(v) == pytest.approx(expected)
    for _ in range(50):
        inside = family.coordinates(rng.normal(size=(2, 4)))
        inside /= family.identity(4) @ inside
        assert v @ inside >= family.least(v) - 1e-12


def test_factors_of_matrices_of_low_rank_give_the_same_jacobian() -> None:
    """The ranks are 2, 6, 0, 7 and 63; the last one is too large."""
    metric, rng = FullMetric(), np.random.default_rng(8)
    roots = [rng.normal(size=(rank, 64)) for rank in (3, 7, 0, 8, 64)]
    rows = np.array([metric.coordinates(root) - metric.coordinates(root[:1]) for root in roots])
    factors = metric.factors(rows)
    assert np.count_nonzero(factors["values"], axis=1).tolist() == [2, 6, 0, 7, 0]
    for row, (vectors, values) in zip(rows[[0, 1, 3]], factors[[0, 1, 3]]):
        rebuilt = vectors.T @ (values[:, None] * vectors)
        np.testing.assert_allclose(rebuilt, metric.matrix(row), atol=1e-12)
    every = np.arange(5)
    for shift in (-6.0, 0.0, 6.0):  # few, half and most eigenvalues are positive
        noise = rng.normal(size=(64, 64))
        v = coordinates_of(metric, noise + noise.T + shift * np.eye(64))
        _, jacobian = metric.linearize(v)
        dense = jacobian(rows, every)
        atol = 1e-12 * np.abs(dense).max()
        np.testing.assert_allclose(jacobian(rows, every, factors), dense, atol=atol)
    assert metric.factors(rows[:, :10])["values"].shape == (5, 0)


@pytest.mark.parametrize("weights", [[-9.0, 1.0], [3.0, 9.0]])
@pytest.mark.parametrize("penalized", [False, True])
@pytest.mark.parametrize("family", FAMILIES, ids=named)
def test_weights_and_a_penalty_are_further_nonnegative_numbers(family, penalized, weights) -> None:
    more, rng = PenalizedMetric(family, 2), np.random.default_rng(6)
    cone, n = MetricCone(more, 3, penalized), len(family.identity(3))
    assert (cone.n_metric, cone.size) == (n + 2, n + 2 + penalized)
    assert more.polyhedral == family.polyhedral
    v = rng.normal(size=n)
    both = np.append(v, weights)
    assert more.least(both) == min(family.least(v), *weights)
    for last in (-1.5, 2.5):
        w = cone.join(both, last)
        metric, penalty = cone.split(w)
        np.testing.assert_array_equal(metric, both)
        assert penalty == last if penalized else np.isnan(penalty)
        expected = cone.join([*family.linearize(v)[0], *np.maximum(weights, 0.0)], max(last, 0.0))
        np.testing.assert_allclose(cone.project(w), expected)
