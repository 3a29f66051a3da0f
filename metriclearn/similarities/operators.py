"""Apply similarity matrices to vectors (dense, in blocks, sparse or of low rank), and make forms.

Every operator stands for A = Diag(r) W Diag(r). Here W_ij is the similarity of nodes i and j, and
r_s² is the fraction of all samples that are in node s. For a partition M of the nodes, ⟨A, M⟩ with
these S×S matrices equals ⟨W/T, M⟩ with the T×T matrices of the samples.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from metriclearn.problem.forms import Compressed
from metriclearn.problem.projector import Basis, Projector
from metriclearn.similarities.nodes import NodeLabels
from metriclearn.views.fourier import fourier_features

_SMALLEST_BLOCK = 32  # rows: with fewer, products with many vectors take longer
_CACHED = 1 << 16  # entries of a block that stays in the cache
_PAIRS = 1 << 16  # number of pairs at a time
_FLOOR = 1e-8  # least eigenvalue over the largest: B^(1/2) has no derivative at eigenvalue 0


class Operator(ABC):
    """A symmetric, nonnegative similarity matrix A = Diag(r) W Diag(r). ``root`` holds r."""

    root: NDArray
    shares: NDArray | None = None  # r² in the sums for degrees, if the root depends on degrees

    @abstractmethod
    def product(self, V: NDArray) -> NDArray:
        """Return the product W V of the unscaled similarity, (S, k) -> (S, k)."""

    @abstractmethod
    def unscaled_slope(self, F: NDArray) -> NDArray:
        """Return the derivative d⟨W, FFᵀ⟩/dB of the unscaled similarity."""

    def matvec(self, V: NDArray) -> NDArray:
        """Return the product A V, which has the shape of V, (S,) or (S, k)."""
        product = self.product(self.root[:, None] * V.reshape(len(V), -1))
        return (self.root[:, None] * product).reshape(V.shape)

    def slope(self, factor: NDArray) -> NDArray:
        """Return the derivative d⟨A, FFᵀ⟩/dB, a symmetric (P, P) matrix.

        For given similarities, this matrix is diagonal and holds the derivatives with respect to
        the weights of the similarities.
        """
        slope = self.unscaled_slope(self.root[:, None] * factor)
        if self.shares is None:
            return slope
        # If the degree d_i = Σ_j W_ij r_j² rises by some share, the root falls by half that share.
        # This adds −Σ_ij q_i r_j² dW_ij to the derivative, with q_i = (FFᵀA)_ii / d_i. As a
        # difference of squares the product q r² is ((q + r²)² − (q − r²)²)/4.
        q = np.sum(factor * self.matvec(factor), axis=1) * self.root**2 / self.shares
        plus, minus = (q + self.shares)[:, None], (q - self.shares)[:, None]
        return slope - 0.25 * (self.unscaled_slope(plus) - self.unscaled_slope(minus))

    def rescaled(self, root: NDArray) -> Self:
        """Return the operator with the same similarities and another root r.

        The slope of the new operator treats the root as a constant.
        """
        other = copy.copy(self)
        other.root, other.shares = root, None
        return other

    def normalized(self) -> Self:
        """Return the normalized similarity, in which D^(-1/2) W D^(-1/2) replaces W.

        The degrees are d = W r², so the new root is r/√d, which depends on W. If a node has no
        similarity, not even to itself, its row is empty, so its degree may have any value.
        """
        degrees = self.matvec(self.root) / self.root
        other = copy.copy(self)
        other.root = self.root / np.sqrt(np.where(degrees > 0, degrees, 1.0))
        other.shares = self.root**2
        return other

    @abstractmethod
    def restricted(self, kept: NDArray) -> Self:
        """Return the operator of the similarities between the nodes ``kept``."""


class GaussianOperator(Operator):
    """The Gaussian similarity W_ij = exp(−(x_i − x_j)ᵀB(x_i − x_j)) for all pairs of nodes.

    A product with k vectors takes O(S²(r + k)) for a metric of rank r. Everything is computed from
    the upper half of W, in blocks of rows that fit into the cache. The blocks are stored if they
    take at most half of ``memory``. If the blocks take more, they are computed again for every
    product.

    Parameters
    ----------
    X : array (S, P)
    components : array (r, P)
        Lᵀ with B = LLᵀ.
    root : array (S,)
    memory : float
        Memory in bytes for the similarities and the intermediate arrays of a block.
    """

    def __init__(self, X: NDArray, components: NDArray, root: NDArray, memory: float) -> None:
        self.root, self.memory = root, memory
        self._kept: list[tuple[slice, NDArray]] = []
        self._X, self._components = X, components
        Z, ones = X @ components.T, np.ones((len(X), 1))
        squares = -np.einsum("ir,ir->i", Z, Z)[:, None]
        # −‖z_i − z_j‖² as one product: [2z_i, −‖z_i‖², 1]·[z_j, 1, −‖z_j‖²]
        self._left, self._right = np.hstack([2.0 * Z, squares, ones]), np.hstack([Z, ones, squares])

    def _blocks(self) -> Iterator[tuple[slice, NDArray]]:
        """Yield the upper half of W in blocks: a slice of rows, and the entries of these rows.

        If a block begins at row i, it holds the columns from i on. The entries of a block that lie
        right of the square on the diagonal occur in W once more, transposed.
        """
        yield from self._kept
        n, kept = len(self.root), []
        size = max(_SMALLEST_BLOCK, _CACHED // n)
        for rows in () if self._kept else gen_batches(n, size):
            block = self._left[rows] @ self._right[rows.start :].T
            np.minimum(block, 0.0, out=block)  # rounding must not make a similarity exceed 1
            np.exp(block, out=block)
            if 8.0 * n**2 <= self.memory:
                kept.append((rows, block))
            yield rows, block
        self._kept = kept or self._kept

    def product(self, V: NDArray) -> NDArray:
        product = np.zeros(V.shape)
        for rows, block in self._blocks():
            product[rows] += block @ V[rows.start :]
            product[rows.stop :] += block[:, len(block) :].T @ V[rows]
        return product

    def pull(self, F: NDArray) -> NDArray:
        """Compute GX − Diag(G1)X with G = FFᵀ∘W, (S, P). Row i is Σ_j G_ij (x_j − x_i)."""
        X = np.hstack([self._X, np.ones((len(self._X), 1))])
        product = np.zeros(X.shape)  # G[X, 1]
        for rows, block in self._blocks():
            G = F[rows] @ F[rows.start :].T
            G *= block
            product[rows] += G @ X[rows.start :]
            product[rows.stop :] += G[:, len(G) :].T @ X[rows]
        return product[:, :-1] - product[:, -1:] * self._X

    def unscaled_slope(self, F: NDArray) -> NDArray:
        """Return −Σ_ij G_ij (x_i − x_j)(x_i − x_j)ᵀ = 2Xᵀ(GX − Diag(G1)X) with G = FFᵀ∘W."""
        half = self._X.T @ self.pull(F)
        return half + half.T

    def restricted(self, kept: NDArray) -> Self:
        return type(self)(self._X[kept], self._components, self.root[kept], self.memory)


class NeighborhoodOperator(Operator):
    """The Gaussian similarity of E given pairs, with 1 on the diagonal and 0 for all other pairs.

    A product with k vectors takes O(Ek) time. The operator takes at most ``BYTES_PER_PAIR`` bytes
    of memory for every pair.

    Parameters
    ----------
    X, components, root
        As for :class:`GaussianOperator`.
    pairs : array (E, 2)
        The pairs i < j.
    """

    BYTES_PER_PAIR = 96.0  # indices, similarity, and the sparse matrix while it is made

    def __init__(self, X: NDArray, components: NDArray, root: NDArray, pairs: NDArray) -> None:
        self.root, self._pairs = root, pairs
        self._X, self._components = X, components
        i, j = pairs.T
        Z = X @ components.T
        self._kernel = np.empty(len(pairs))
        for block in gen_batches(len(pairs), _PAIRS):
            self._kernel[block] = np.exp(-np.sum((Z[i[block]] - Z[j[block]]) ** 2, axis=1))

    @cached_property
    def _matrix(self) -> scipy.sparse.csr_array:
        (i, j), n = self._pairs.T, len(self._X)
        half = scipy.sparse.coo_array((self._kernel, (i, j)), shape=(n, n))
        return (half + half.T + scipy.sparse.eye_array(n)).tocsr()

    def product(self, V: NDArray) -> NDArray:
        return self._matrix @ V

    def unscaled_slope(self, F: NDArray) -> NDArray:
        """Return −2 Σ_pairs (FFᵀ)_ij W_ij (x_i − x_j)(x_i − x_j)ᵀ, computed in blocks of pairs."""
        total = np.zeros((self._X.shape[1],) * 2)
        for block in gen_batches(len(self._pairs), _PAIRS):
            i, j = self._pairs[block].T
            difference = self._X[i] - self._X[j]
            weight = np.einsum("ek,ek->e", F[i], F[j]) * self._kernel[block]
            total += (difference * weight[:, None]).T @ difference
        return -2.0 * total

    def restricted(self, kept: NDArray) -> Self:
        place = np.full(len(self._X), -1)
        place[kept] = np.arange(len(kept))
        pairs = place[self._pairs]
        inside = pairs[(pairs >= 0).all(axis=1)]
        return type(self)(self._X[kept], self._components, self.root[kept], inside)


class FourierOperator(Operator):
    """The similarity A = ΨΨᵀ: Ψ = Diag(r)Φ, Φ = [cos XΩᵀ, sin XΩᵀ]/√(D/2), Ω = √2 Ω₀B^(1/2).

    Parameters
    ----------
    X : array (S, P)
    components : array (r, P)
        Lᵀ with B = LLᵀ.
    root : array (S,)
    directions : array (D/2, P)
        The matrix Ω₀, with standard normal entries.
    """

    def __init__(self, X: NDArray, components: NDArray, root: NDArray, directions: NDArray) -> None:
        self.root = root
        self._X, self._directions = X, directions
        values, self._vectors = np.linalg.eigh(components.T @ components)
        floor = _FLOOR * max(float(values[-1]), 1e-300) ** 0.5
        self._values = np.maximum(np.sqrt(np.maximum(values, 0.0)), floor)
        square_root = (self._vectors * self._values) @ self._vectors.T
        omega = np.sqrt(2.0) * directions @ square_root
        phase = np.repeat([0.0, -0.5 * np.pi], len(omega))
        self._features = fourier_features(X, np.vstack([omega, omega]), phase)

    @property
    def factors(self) -> NDArray:
        """The matrix Ψ, (S, D)."""
        return self.root[:, None] * self._features

    def restricted(self, kept: NDArray) -> Self:
        other = self.rescaled(self.root[kept])
        other._X, other._features = self._X[kept], self._features[kept]
        return other

    def product(self, V: NDArray) -> NDArray:
        return self._features @ (self._features.T @ V)

    def unscaled_slope(self, F: NDArray) -> NDArray:
        """Return the derivative d⟨W, FFᵀ⟩/dB by the chain rule.

        ⟨W, FFᵀ⟩ = Σ_c ‖Φᵀf_c‖² depends on the angles XΩᵀ, and these angles depend on B^(1/2).
        """
        sums, half = self._features.T @ F, len(self._directions)
        cosine, sine = self._features[:, :half], self._features[:, half:]
        by_angle = 2.0 * (cosine * (F @ sums[half:].T) - sine * (F @ sums[:half].T))
        by_root = np.sqrt(2.0) * (self._X.T @ by_angle) @ self._directions
        # B = S² gives dB = S dS + dS S, which we solve for dS in the eigenbasis of S.
        inner = self._vectors.T @ (0.5 * (by_root + by_root.T)) @ self._vectors
        inner /= self._values[:, None] + self._values
        return self._vectors @ inner @ self._vectors.T


class SumOperator(Operator):
    """The sum W = Σ_k w_k W_k of n given symmetric matrices, computed once in O(nS²)."""

    def __init__(self, matrices: NDArray, weights: NDArray, root: NDArray) -> None:
        self.root, self._matrices, self._weights = root, matrices, weights
        self._sum = np.tensordot(weights, matrices, axes=1)

    def product(self, V: NDArray) -> NDArray:
        return self._sum @ V

    def unscaled_slope(self, F: NDArray) -> NDArray:
        return np.diag([float(np.sum((W @ F) * F)) for W in self._matrices])

    def restricted(self, kept: NDArray) -> Self:
        inside = self._matrices[:, kept[:, None], kept]
        return type(self)(inside, self._weights, self.root[kept])


@dataclass(eq=False)
class SimilarityForm:
    """The form A − κN + cI with a similarity A, which loss-augmented inference maximizes.

    Parameters
    ----------
    operator : Operator
        The similarity A, (S, S).
    truth : NodeLabels, optional
        The labels N.
    weight, shift : float
        The numbers κ and c.
    """

    operator: Operator
    truth: NodeLabels | None = None
    weight: float = 0.0
    shift: float = 0.0

    def __post_init__(self) -> None:
        self.n_samples = len(self.operator.root)

    def at(self, partition: Projector | NodeLabels) -> float:
        """Return ⟨A − κN + cI, M⟩."""
        U = partition.factor
        return float(np.sum(U * self.matvec(U)))

    def matvec(self, V: NDArray) -> NDArray:
        """Return (A − κN + cI) V, (S, k) -> (S, k)."""
        product = self.operator.matvec(V) + self.shift * V
        if self.truth is not None:
            product -= self.weight * self.truth.project(V)
        return product

    def shifted(self, shift: float) -> SimilarityForm:
        """Return this form plus shift·I."""
        return replace(self, shift=self.shift + shift)

    def plus(self, truth: NodeLabels, weight: float) -> SimilarityForm:
        """Return this form minus weight·N, where N are the labels ``truth``."""
        return replace(self, truth=truth, weight=self.weight + weight)

    def compressed(self) -> Compressed:
        """Write A − κN + cI as a matrix on the span of [Ψ, R] plus cI, for A = ΨΨᵀ and N = RRᵀ.

        The computation takes one QR decomposition of the S×(D + K) matrix [Ψ, R].
        """
        factors: NDArray = self.operator.factors  # type: ignore[attr-defined]
        signs = np.ones(factors.shape[1])
        if self.truth is not None:
            factors = np.hstack([factors, self.truth.factor])
            signs = np.append(signs, np.full(self.truth.n_clusters, -self.weight))
        basis, triangle = np.linalg.qr(factors)
        matrix = (triangle * signs) @ triangle.T
        return Compressed(matrix, Basis(basis), self.shift)
