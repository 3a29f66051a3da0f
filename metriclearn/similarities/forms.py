"""The form A − κN + cI of a similarity operator, with N known through node labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metriclearn.problem.forms import Compressed
from metriclearn.problem.projector import Projector
from metriclearn.similarities.nodes import NodeLabels
from metriclearn.similarities.operators import Operator

__all__ = ["FactoredForm", "SimilarityForm"]


class SimilarityForm:
    """A − κRRᵀ + cI, known through products: what loss-augmented inference maximizes.

    Parameters
    ----------
    operator : Operator
        A, (S, S).
    truth : array (S, K), optional
        R, see :attr:`NodeLabels.root`.
    weight, shift : float
        κ and c.
    """

    def __init__(
        self,
        operator: Operator,
        truth: NDArray | None = None,
        weight: float = 0.0,
        shift: float = 0.0,
    ) -> None:
        self.operator, self.truth = operator, truth
        self.weight, self.shift = weight, shift
        self.n_samples = len(operator.root)

    def matvec(self, V: NDArray) -> NDArray:
        """(A − κRRᵀ + cI) V."""
        product = self.operator.matvec(V) + self.shift * V
        if self.truth is not None:
            product -= self.weight * (self.truth @ (self.truth.T @ V))
        return product

    def at(self, M: Projector) -> float:
        """⟨A − κRRᵀ + cI, M⟩."""
        U = M.vectors * np.sqrt(M.weights)
        return float(np.sum(U * self.matvec(U)))

    def shifted(self, shift: float) -> SimilarityForm:
        """The form plus shift·I."""
        return type(self)(self.operator, self.truth, self.weight, self.shift + shift)

    def plus(self, truth: NodeLabels, weight: float) -> SimilarityForm:
        """The form minus weight·N."""
        return type(self)(self.operator, truth.root, self.weight + weight, self.shift)


class FactoredForm(SimilarityForm):
    """ΨΨᵀ − κRRᵀ + cI, which the low-rank spectral oracle takes as it is."""

    def compressed(self) -> Compressed:
        """A − κRRᵀ in the span of [Ψ, R], by one QR decomposition of S×(D + K)."""
        factors: NDArray = self.operator.factors  # type: ignore[attr-defined]
        signs = np.ones(factors.shape[1])
        if self.truth is not None:
            factors = np.hstack([factors, self.truth])
            signs = np.append(signs, np.full(self.truth.shape[1], -self.weight))
        basis, triangle = np.linalg.qr(factors)
        matrix = (triangle * signs) @ triangle.T
        return Compressed(matrix, _Span(basis), self.shift)  # type: ignore[arg-type]


class _Span:
    """The orthonormal basis Q of a subspace."""

    def __init__(self, basis: NDArray) -> None:
        self.basis, self.n_samples, self.dimension = basis, *basis.shape

    def lift(self, V: NDArray) -> NDArray:
        return self.basis @ V
