"""Spectral relaxation against dense eigendecompositions and enumeration."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metriclearn.oracles.averaged import Averaged
from metriclearn.oracles.rounding import PivotedRounding, RowKMeans
from metriclearn.oracles.spectral import SpectralRelaxation, TopEigenvectors
from metriclearn.problem.forms import DenseForm, LowRankForm
from metriclearn.problem.joint_features import Samples
from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.problem.partition import Partition
from tests.exhaustive import dense_form


def eigenprojection(A: np.ndarray, count: int | None) -> tuple[float, np.ndarray]:
    """(max ⟨A, M⟩, M*) over {0 ⪯ M ⪯ I, Tr M = count}, ties shared, by a full decomposition."""
    values, vectors = np.linalg.eigh(A)
    tie = 1e-9 * np.abs(values).max()
    cut = 0.0 if count is None else np.sort(values)[::-1][count - 1]
    above, tied = values > cut + tie, np.abs(values - cut) <= tie
    share = 0.0 if count is None else (count - above.sum()) / tied.sum()
    weights = above + share * tied
    return float(weights @ values), (vectors * weights) @ vectors.T


def constrained_projection(A: np.ndarray, count: int | None) -> float:
    """The same maximum with M1 = 1, in an explicit basis of the complement of 1."""
    T = len(A)
    constant = np.full((T, 1), T**-0.5)
    basis = np.linalg.qr(np.column_stack([constant, np.eye(T)[:, 1:]]))[0][:, 1:]
    values = np.sort(np.linalg.eigvalsh(basis.T @ A @ basis))[::-1]
    rest = values[values > 0] if count is None else values[: count - 1]
    return float(rest.sum() + (constant.T @ A @ constant).item())


class Case(NamedTuple):
    """A form, the same as a dense matrix, and how many clusters are asked for."""

    samples: Samples
    truth: Partition
    form: LowRankForm
    A: np.ndarray
    count: int | None


@st.composite
def problems(draw, most: int = 60) -> Case:
    """All the cases of the oracle."""
    T = draw(st.integers(2, most))
    P, seed = draw(st.integers(1, 7)), draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(T, P)) * 10.0 ** draw(st.integers(-2, 2)) + draw(st.sampled_from([0, 50]))
    if draw(st.booleans()):
        X[:, -1] = X[:, 0]  # less than full rank
    truth = Partition.from_labels(rng.integers(0, draw(st.integers(1, min(T, 6))), T))
    components = rng.normal(size=(draw(st.integers(0, P)), P))
    if len(components) == 0:
        components = np.zeros((1, P))
    weight = draw(st.sampled_from([0.0, 1.0, 5.0]))
    shift = draw(st.sampled_from([-3.0, -0.5, 0.0, 0.25, 2.0]))
    count = draw(st.one_of(st.none(), st.integers(1, T)))
    samples = Samples(X, truth=truth)
    form = samples.form(components).plus(truth, weight).shifted(shift)
    A = dense_form(samples.centered @ components.T, truth.labels, weight, shift)
    return Case(samples, truth, form, A, count)


@settings(max_examples=150, deadline=None)
@given(problems())
def test_equals_the_dense_eigendecomposition(case) -> None:
    """Value and projection; the latter where the eigenvalues near the cut determine it."""
    value, M = eigenprojection(case.A, case.count)
    values = np.linalg.eigvalsh(case.A)
    size, largest = 1.0 + float(np.abs(values).sum()), np.abs(values).max()
    plain = LowRankForm(case.form.factors, case.form.truth, case.form.weight, case.form.shift)
    for form in (case.form, plain, DenseForm(case.A)):
        found = SpectralRelaxation()(form, case.count)
        assert form.at(found) == pytest.approx(value, abs=1e-9 * size)
        dense = found.to_array()
        assert np.trace(dense) == pytest.approx(found.n_clusters, abs=1e-9)
        weights = np.linalg.eigvalsh(dense)
        assert weights[0] > -1e-7
        assert weights[-1] < 1 + 1e-7
        assert case.count is None or found.n_clusters == pytest.approx(case.count, abs=1e-9)
    cut = 0.0 if case.count is None else values[-case.count]
    distances = np.abs(values - cut)
    close = (distances > 1e-10 * largest) & (distances < 1e-3 * largest)
    if not (close.any() or largest == 0 or (case.count is None and distances.min() < 1e-9)):
        X = case.samples.centered
        root = case.samples.pooled(SpectralRelaxation()(case.form, case.count))
        tolerance = 1e-9 * (1 + np.abs(X.T @ X).max())
        np.testing.assert_allclose(root.T @ root, X.T @ M @ X, atol=tolerance)


@settings(max_examples=100, deadline=None)
@given(problems())
def test_constant_kept_is_the_exact_maximum_under_that_constraint(case) -> None:
    size = 1.0 + float(np.abs(np.linalg.eigvalsh(case.A)).sum())
    expected = constrained_projection(case.A, case.count)
    for form in (case.form, DenseForm(case.A)):
        found = SpectralRelaxation(keep_constant=True)(form, case.count)
        assert form.at(found) == pytest.approx(expected, abs=1e-9 * size)
        np.testing.assert_allclose(found.project(np.ones((len(case.A), 1))), 1.0, atol=1e-7)


@settings(max_examples=100, deadline=None)
@given(problems())
def test_subgradient_inner_product_and_value_are_those_of_its_matrix(case) -> None:
    samples, truth, form, _, count = case
    X = samples.centered
    for keep in (False, True):
        found = SpectralRelaxation(keep)(form, count)
        M = found.to_array()
        root = samples.pooled(found)
        size = np.abs(X.T @ X).max()
        np.testing.assert_allclose(root.T @ root, X.T @ M @ X, atol=1e-9 * size)
        np.testing.assert_allclose(found.project(X), M @ X, atol=1e-9 * size**0.5 * len(X))
        assert found.inner(truth) == pytest.approx(np.sum(M * truth.to_array()), abs=1e-8)
        other = Partition.from_labels(np.arange(len(X)) % 2)
        assert found.inner(other) == pytest.approx(np.sum(M * other.to_array()), abs=1e-8)
        foreign = np.sin(np.arange(2.0 * len(X))).reshape(-1, 2)
        root = found.root(foreign)
        np.testing.assert_allclose(root.T @ root, foreign.T @ M @ foreign, atol=1e-7)
        loss = (found.n_clusters + truth.n_clusters - 2 * np.sum(M * truth.to_array())) / len(X)
        assert FrobeniusLoss()(found, truth) == pytest.approx(loss, abs=1e-8)


@pytest.mark.parametrize("count", [5, None])
def test_lanczos_finds_the_same_as_a_full_decomposition(count) -> None:
    rng = np.random.default_rng(0)
    vectors = np.linalg.qr(rng.normal(size=(600, 600)))[0]
    positive = 30 if count is None else 600
    values = np.where(np.arange(600) < positive, 1.0, -1.0) * np.linspace(9.0, 1.0, 600)
    A = (vectors * values) @ vectors.T
    form = DenseForm((A + A.T) / 2)
    found = SpectralRelaxation()(form, count)
    kept = vectors[:, : count or positive]
    np.testing.assert_allclose(found.to_array(), kept @ kept.T, atol=1e-9)


@pytest.mark.parametrize("rounding", [PivotedRounding(), RowKMeans()])
def test_rounding_returns_a_partition_unchanged(rounding) -> None:
    rng = np.random.default_rng(3)
    for K in (1, 2, 5):
        truth = Partition.from_labels(np.append(np.arange(K), rng.integers(0, K, 40)))
        indicators = (truth.labels[:, None] == np.arange(K)) / np.sqrt(truth.sizes)
        form = LowRankForm(indicators @ np.linalg.qr(rng.normal(size=(K, K)))[0])
        projector = SpectralRelaxation()(form, K)
        assert rounding(projector, K) == truth
        assert rounding(projector) == truth


@pytest.mark.parametrize("rounding", [PivotedRounding(), RowKMeans()])
def test_rounding_gives_exactly_the_number_of_clusters(rounding) -> None:
    form = LowRankForm(np.linspace(-1, 1, 9)[:, None])
    for K in range(1, 10):
        assert rounding(SpectralRelaxation()(form, K), K).n_clusters == K


@pytest.mark.parametrize("share", [0, 0.25, 1])
def test_average_lies_between_its_parts(share) -> None:
    rng = np.random.default_rng(5)
    truth = Partition.from_labels(rng.integers(0, 3, 25))
    form = LowRankForm(rng.normal(size=(25, 2))).plus(truth, 2.0)
    oracle = Averaged(share=share)
    found = oracle(form, 3)
    bounds = oracle.search.bounds(form, 3)
    assert bounds.lower < bounds.upper
    assert form.at(found) == pytest.approx((1 - share) * bounds.upper + share * bounds.lower)
    M = found.project(np.eye(25))
    assert found.n_clusters == pytest.approx(3) == pytest.approx(np.trace(M))
    assert found.inner(truth) == pytest.approx(np.sum(M * truth.to_array()))


@pytest.mark.parametrize("count", [None, 1, 3, 30])
@pytest.mark.parametrize("keep_constant", [False, True])
def test_a_large_form_without_a_leading_direction(count, keep_constant) -> None:
    """Lanczos iterations find nothing in a zero form, and not which of equal vectors to take."""
    zero = SpectralRelaxation(keep_constant)(DenseForm(np.zeros((520, 520))), count)
    assert zero.n_clusters == pytest.approx(count or float(keep_constant), abs=1e-9)
    if count and not keep_constant:
        equal = SpectralRelaxation()(DenseForm(np.eye(520)), count)
        np.testing.assert_allclose(equal.weights, count / 520, rtol=1e-9)


def symmetric(T: int, seed: int = 0) -> DenseForm:
    A = np.random.default_rng(seed).normal(size=(T, T))
    return DenseForm(A + A.T)


@pytest.mark.parametrize("T", [5, 40, 170, 300, 341])
def test_leading_pairs(T: int) -> None:
    """Up to all of them: where the basis nearly fills the space no further block has room."""
    form = symmetric(T)
    expected = np.linalg.eigvalsh(form.matrix)[::-1]
    for K in {1, 3, *np.linspace(T // 8 + 1, T // 2, 5, dtype=int).tolist(), T - 1, T}:
        values, vectors = TopEigenvectors().pairs(form, K)
        np.testing.assert_allclose(values, expected[:K], atol=1e-7)
        np.testing.assert_allclose(form.matvec(vectors), vectors * values, atol=1e-5)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(K), atol=1e-8)
    best = TopEigenvectors()(form, 3)
    assert best.n_clusters == 3
    assert form.at(best) == pytest.approx(expected[:3].sum())


def test_few_different_eigenvalues() -> None:
    """The Krylov space is exhausted after two blocks; random directions follow."""
    signs = np.where(np.arange(500) < 7, 1.0, -1.0)
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(500, 500)))[0]
    form = DenseForm((basis * signs) @ basis.T)
    for count in (2, 7, 9):
        values, vectors = TopEigenvectors().pairs(form, count)
        np.testing.assert_allclose(values, np.sort(signs)[::-1][:count], atol=1e-9)
        np.testing.assert_allclose(form.matvec(vectors), vectors * values, atol=1e-7)


def test_a_good_start_needs_fewer_products() -> None:
    class Counted:
        n_samples = 500

        def __init__(self, matrix: np.ndarray) -> None:
            self.matrix, self.products = matrix, 0

        def matvec(self, V: np.ndarray) -> np.ndarray:
            self.products += 1
            return self.matrix @ V

    A = symmetric(500).matrix
    cold = Counted(A)
    vectors = TopEigenvectors()(cold, 2).vectors
    change = 1e-4 * symmetric(500, 1).matrix
    near_cold, near_warm = Counted(A + change), Counted(A + change)
    values = TopEigenvectors().pairs(near_cold, 2)[0]
    warm = TopEigenvectors().pairs(near_warm, 2, vectors)[0]
    np.testing.assert_allclose(warm, values, rtol=1e-9)
    assert near_warm.products < near_cold.products
