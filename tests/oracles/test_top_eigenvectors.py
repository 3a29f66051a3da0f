"""Lanczos against full decompositions."""

from __future__ import annotations

import numpy as np
import pytest

from metriclearn import DenseForm
from metriclearn.oracles.spectral import TopEigenvectors


def symmetric(T: int, seed: int = 0) -> DenseForm:
    A = np.random.default_rng(seed).normal(size=(T, T))
    return DenseForm(A + A.T)


@pytest.mark.parametrize("T", [5, 40, 170, 300])
@pytest.mark.parametrize("K", [1, 3])
def test_leading_pairs(T: int, K: int) -> None:
    form = symmetric(T)
    values, vectors = TopEigenvectors().pairs(form, K)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(form.matrix)[::-1][:K], atol=1e-8)
    np.testing.assert_allclose(form.matvec(vectors), vectors * values, atol=1e-5)
    best = TopEigenvectors()(form, K)
    assert best.n_clusters == K
    np.testing.assert_allclose(
        vectors.T @ best.vectors @ best.vectors.T @ vectors, np.eye(K), atol=1e-8
    )


@pytest.mark.parametrize("T", [170, 341])
def test_counts_up_to_the_number_of_samples(T: int) -> None:
    """Where the basis nearly fills the space there is room for no further block."""
    form = symmetric(T)
    expected = np.linalg.eigvalsh(form.matrix)[::-1]
    for count in [*range(T // 8, T // 2, T // 20), T - 1, T]:
        values, vectors = TopEigenvectors().pairs(form, count)
        np.testing.assert_allclose(values, expected[:count], atol=1e-7)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(count), atol=1e-8)


def test_few_different_eigenvalues() -> None:
    """The Krylov space is exhausted after two blocks; random directions go on."""
    signs = np.where(np.arange(300) < 7, 1.0, -1.0)
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(300, 300)))[0]
    form = DenseForm((basis * signs) @ basis.T)
    for count in (2, 7, 9):
        values, vectors = TopEigenvectors().pairs(form, count)
        np.testing.assert_allclose(values, np.sort(signs)[::-1][:count], atol=1e-9)
        np.testing.assert_allclose(form.matvec(vectors), vectors * values, atol=1e-7)


def test_a_good_start_needs_fewer_products() -> None:
    class Counted:
        n_samples = 300

        def __init__(self, matrix: np.ndarray) -> None:
            self.matrix, self.products = matrix, 0

        def matvec(self, V: np.ndarray) -> np.ndarray:
            self.products += 1
            return self.matrix @ V

    A = symmetric(300).matrix
    cold = Counted(A)
    vectors = TopEigenvectors()(cold, 2).vectors
    change = 1e-4 * symmetric(300, 1).matrix
    near_cold, near_warm = Counted(A + change), Counted(A + change)
    values = TopEigenvectors().pairs(near_cold, 2)[0]
    warm = TopEigenvectors().pairs(near_warm, 2, vectors)[0]
    np.testing.assert_allclose(warm, values, rtol=1e-9)
    assert near_warm.products < near_cold.products


def test_what_cannot_be_answered_is_named() -> None:
    with pytest.raises(ValueError, match="needs the number of clusters"):
        TopEigenvectors()(symmetric(5))
    with pytest.raises(ValueError, match="got 5"):
        TopEigenvectors()(symmetric(5), 6)
