"""Similarity matrices as operators: dense, in blocks under a memory budget, sparse, low rank.

Every operator stands for A = Diag(r) W Diag(r), with r the square roots of the nodes' shares of
the samples: the S×S matrix whose partitions are valued as those of the T×T matrix W/T.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from metriclearn.similarities.engines import Engine

__all__ = ["GaussianOperator", "NeighborhoodOperator", "Operator", "Scaled", "SumOperator"]

_SMALLEST_BLOCK = 16  # rows: fewer would take more time than memory
_PAIRS = 1 << 16  # at a time


class Operator(Protocol):
    """A symmetric, nonnegative similarity matrix scaled by ``root`` on both sides."""

    root: NDArray

    def matvec(self, V: NDArray) -> NDArray:
        """A V, (S, k) -> (S, k)."""
        ...

    def slope(self, factors: NDArray, signs: NDArray) -> NDArray:
        """d⟨A, F Diag(signs) Fᵀ⟩/dB, a symmetric (P, P) matrix, or (n,) weights' derivatives."""
        ...

    def rescaled(self, root: NDArray) -> Self:
        """The same similarities scaled by another root."""
        ...

    def restricted(self, kept: NDArray) -> Self:
        """The similarities among some of the nodes."""
        ...


class Scaled:
    """What all operators do with ``root``; subclasses have its value and a ``_similarity``."""

    root: NDArray

    def rescaled(self, root: NDArray) -> Self:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.root = root
        return other

    @property
    def n_samples(self) -> int:
        """S."""
        return len(self.root)


class GaussianOperator(Scaled):
    """W_ij = exp(−(x_i − x_j)ᵀB(x_i − x_j)) over all pairs, O(S²(r + k)) a product.

    W is kept when it takes at most half of ``memory``, and otherwise computed again, in blocks of
    rows, whenever it is needed.

    Parameters
    ----------
    X : array (S, P)
    components : array (r, P)
        Lᵀ with B = LLᵀ.
    root : array (S,)
    engine : Engine
    memory : float
        Bytes for similarities and what is computed from a block of them.
    """

    def __init__(
        self, X: NDArray, components: NDArray, root: NDArray, engine: Engine, memory: float
    ) -> None:
        self.root, self.engine, self.memory = root, engine, memory
        self._X, self._Z = engine.array(X), engine.array(X @ components.T)

    @property
    def _keeps(self) -> bool:
        return 2.0 * self.engine.itemsize * self.n_samples**2 <= self.memory

    @cached_property
    def _kernel(self) -> Any:
        rows = [self.engine.gaussian(self._Z[block], self._Z) for block in self._rows()]
        return self.engine.stack(rows)

    def _rows(self) -> Iterator[slice]:
        """Blocks small enough that three arrays of their size fit beside what is kept."""
        budget = 0.5 * self.memory if self._keeps else self.memory
        fitting = int(budget / (3.5 * self.engine.itemsize * self.n_samples))
        step = max(_SMALLEST_BLOCK, min(fitting, 4096))
        return (slice(begin, begin + step) for begin in range(0, self.n_samples, step))

    def _blocks(self) -> Iterator[tuple[slice, slice, Any]]:
        """Rows, the columns from the first of these rows on, and their similarities."""
        for rows in self._rows():
            columns = slice(rows.start, self.n_samples)
            if self._keeps:
                yield rows, columns, self._kernel[rows, columns]
            else:
                yield rows, columns, self.engine.gaussian(self._Z[rows], self._Z[columns])

    def matvec(self, V: NDArray) -> NDArray:
        flat = V.reshape(len(V), -1)
        scaled = self.engine.array(self.root[:, None] * flat)
        if self._keeps:
            product = self._kernel @ scaled
        else:
            product = self.engine.array(np.zeros(flat.shape))
            for rows, columns, block in self._blocks():
                height = len(block)
                product[rows] += block @ scaled[columns]
                product[rows.start + height :] += block[:, height:].T @ scaled[rows]
        return (self.root[:, None] * self.engine.numpy(product)).reshape(V.shape)

    def slope(self, factors: NDArray, signs: NDArray) -> NDArray:
        """−Σ_ij G_ij (x_i − x_j)(x_i − x_j)ᵀ with G = H∘A, from its upper half."""
        F = self.engine.array(self.root[:, None] * factors)
        signed = self.engine.array(self.root[:, None] * factors * signs)
        total = self.engine.array(np.zeros((self._X.shape[1],) * 2))
        for rows, columns, block in self._blocks():
            G = signed[rows] @ F[columns].T
            G *= block
            G[:, len(block) :] *= 2.0  # stands for its mirror image too
            X, others = self._X[rows], self._X[columns]
            cross = X.T @ (G @ others)
            total += X.T @ (G.sum(1)[:, None] * X) - cross - cross.T
            total += others.T @ (G.sum(0)[:, None] * others)
        return -self.engine.numpy(total)

    def restricted(self, kept: NDArray) -> Self:
        other = object.__new__(type(self))
        other.root, other.engine, other.memory = self.root[kept], self.engine, self.memory
        other._X, other._Z = self._X[kept], self._Z[kept]
        return other


class NeighborhoodOperator(Scaled):
    """The Gaussian similarity of given pairs only, and 1 on the diagonal: O(E(r + k)).

    Takes at most ``BYTES_PER_PAIR`` of memory for every pair.

    Parameters
    ----------
    X, components, root
        As for :class:`GaussianOperator`.
    pairs : array (E, 2)
        Pairs i < j.
    """

    BYTES_PER_PAIR = 96.0  # indices, similarity, and the sparse matrix while it is made

    def __init__(self, X: NDArray, components: NDArray, root: NDArray, pairs: NDArray) -> None:
        self.root, self._X, self._pairs, self._components = root, X, pairs, components
        i, j = pairs.T
        Z = X @ components.T
        self._kernel = np.empty(len(pairs))
        for begin in range(0, len(pairs), _PAIRS):
            block = slice(begin, begin + _PAIRS)
            self._kernel[block] = np.exp(-np.sum((Z[i[block]] - Z[j[block]]) ** 2, axis=1))

    @cached_property
    def _matrix(self) -> scipy.sparse.csr_array:
        (i, j), n = self._pairs.T, len(self._X)
        half = scipy.sparse.coo_array((self._kernel, (i, j)), shape=(n, n))
        return (half + half.T + scipy.sparse.eye_array(n)).tocsr()

    def matvec(self, V: NDArray) -> NDArray:
        flat = V.reshape(len(V), -1)
        product = self.root[:, None] * (self._matrix @ (self.root[:, None] * flat))
        return product.reshape(V.shape)

    def slope(self, factors: NDArray, signs: NDArray) -> NDArray:
        """−2 Σ_pairs H_ij A_ij (x_i − x_j)(x_i − x_j)ᵀ, some pairs at a time."""
        F, P = self.root[:, None] * factors, self._X.shape[1]
        total = np.zeros((P, P))
        for begin in range(0, len(self._pairs), _PAIRS):
            i, j = self._pairs[begin : begin + _PAIRS].T
            H = np.einsum("ek,k,ek->e", F[i], signs, F[j])
            difference = self._X[i] - self._X[j]
            weight = H * self._kernel[begin : begin + _PAIRS]
            total += (difference * weight[:, None]).T @ difference
        return -2.0 * total

    def restricted(self, kept: NDArray) -> Self:
        place = np.full(len(self._X), -1)
        place[kept] = np.arange(len(kept))
        pairs = place[self._pairs]
        inside = pairs[(pairs >= 0).all(axis=1)]
        return type(self)(self._X[kept], self._components, self.root[kept], inside)


class SumOperator(Scaled):
    """W = Σ_k w_k W_k for given symmetric matrices, O(nS²) once and O(S²k) a product."""

    def __init__(self, matrices: NDArray, weights: NDArray, root: NDArray) -> None:
        self.root, self._matrices, self._weights = root, matrices, weights
        self._sum = np.tensordot(weights, matrices, axes=1)

    def matvec(self, V: NDArray) -> NDArray:
        flat = V.reshape(len(V), -1)
        return (self.root[:, None] * (self._sum @ (self.root[:, None] * flat))).reshape(V.shape)

    def slope(self, factors: NDArray, signs: NDArray) -> NDArray:
        F = self.root[:, None] * factors
        return np.diag([float(np.sum((W @ F) * F * signs)) for W in self._matrices])

    def restricted(self, kept: NDArray) -> Self:
        inside = self._matrices[:, kept[:, None], kept]
        return type(self)(inside, self._weights, self.root[kept])
