"""Store projections M that relax partitions by their coordinates in a small subspace."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from metriclearn.problem.partition import Partition

# So many rows are read at a time.
_BLOCK = 1 << 13
# Directions below this fraction of the largest singular value are dropped.
_NEGLIGIBLE = 1e-13


class Subspace:
    """The span of [Y, X], with an orthonormal basis Q that is never stored.

    The dimension is q ≤ K + P. The first K directions of Q are the normalized clusters
    Y(YᵀY)^(-1/2) of a reference partition. The other directions are (X − NX)·``mixing``. One QR
    decomposition, in O(TP²), gives the matrix ``mixing`` (P, q − K). After that, the time of
    computations inside the span does not depend on the number of samples.

    Parameters
    ----------
    X : array (T, P)
        Observations. The array is not copied.
    truth : Partition
        The reference partition N, with the assignment matrix Y.
    """

    def __init__(self, X: NDArray, truth: Partition) -> None:
        self.X, self.truth = X, truth
        self.n_samples = len(X)
        # We need R of the QR decomposition of X − NX. R of [R; block] is R of all rows so far, so
        # blocks that fit into the cache are enough.
        means, labels = truth.pool(X) / truth.sizes[:, None], truth.labels
        triangle = np.zeros((0, X.shape[1]))
        for begin in range(0, len(X), _BLOCK):
            block = slice(begin, begin + _BLOCK)
            rows = np.vstack([triangle, X[block] - means[labels[block]]])
            triangle = np.asarray(np.linalg.qr(rows, mode="r"))
        # X − NX = QR and R = W·Diag(values)·rows, so (X − NX)·rowsᵀ/values = QW is orthonormal
        _, values, rows = scipy.linalg.svd(triangle, full_matrices=False)
        largest = max(float(values[0]), _NEGLIGIBLE * float(np.linalg.norm(X)))
        kept = values > len(values) * _NEGLIGIBLE * largest
        self.mixing = rows[kept].T / values[kept]
        self.rows = np.vstack([truth.root(X), values[kept][:, None] * rows[kept]])
        self.dimension = len(self.rows)

    @property
    def constant(self) -> NDArray:
        """The coordinates Qᵀ1/√T of the constant unit vector, (q,)."""
        # The vector 1 is the sum of the cluster indicators.
        constant = np.zeros(self.dimension)
        constant[: self.truth.n_clusters] = np.sqrt(self.truth.sizes / self.n_samples)
        return constant

    def reduced(self, X: NDArray) -> NDArray:
        """Return QᵀX, (T, k) -> (q, k), in O(Tqk). For the X of the subspace, QᵀX is stored."""
        if X is self.X:
            return self.rows
        residual = self.X - self.truth.project(self.X)
        return np.vstack([self.truth.root(X), self.mixing.T @ (residual.T @ X)])

    def lift(self, V: NDArray) -> NDArray:
        """Return Q V, (q, k) -> (T, k)."""
        K = self.truth.n_clusters
        lifted = (self.X - self.truth.project(self.X)) @ (self.mixing @ V[K:])
        lifted += (V[:K] / np.sqrt(self.truth.sizes)[:, None])[self.truth.labels]
        return lifted


class Basis:
    """A subspace given by an orthonormal basis Q, an array (T, q)."""

    # A basis of unknown origin has no truth.
    X = truth = None

    def __init__(self, vectors: NDArray) -> None:
        self.vectors, self.n_samples, self.dimension = vectors, *vectors.shape

    @property
    def constant(self) -> NDArray:
        """The coordinates Qᵀ1/√T of the constant unit vector, (q,)."""
        return self.reduced(np.full((self.n_samples, 1), self.n_samples**-0.5))[:, 0]

    def reduced(self, X: NDArray) -> NDArray:
        """Return QᵀX, (T, k) -> (q, k)."""
        return self.vectors.T @ X

    def lift(self, V: NDArray) -> NDArray:
        """Return Q V, (q, k) -> (T, k)."""
        return self.vectors @ V


class Projector:
    """The matrix M = U Diag(s) Uᵀ + f·(I − QQᵀ) with U = QV and 0 ⪯ M ⪯ I.

    Spectral relaxations return a projector instead of a partition. Losses, joint features and risks
    treat it like a partition, because they need only its trace, ⟨M, N⟩ and a root of XᵀMX. The
    weights s and the filling f are 0 or 1, unless the smallest chosen eigenvalue equals the next
    eigenvalue. Then all eigenvectors with this eigenvalue get equal weights, so that M does not
    depend on an arbitrary choice among these eigenvectors.

    Parameters
    ----------
    vectors : array (q, k)
        The coordinates V of the directions, with orthonormal columns.
    subspace : Subspace, optional
        The subspace with the basis Q. Without a subspace, ``vectors`` have T rows and are the basis
        themselves.
    weights : array (k,), optional
        The weights s, ones by default.
    filling : float
        The filling f, the weight of the dimensions outside the subspace.

    Attributes
    ----------
    n_clusters : float
        Tr M.
    """

    contiguous = False

    def __init__(
        self,
        vectors: NDArray,
        subspace: Subspace | Basis | None = None,
        weights: NDArray | None = None,
        filling: float = 0.0,
    ) -> None:
        self.weights = np.ones(vectors.shape[1]) if weights is None else weights
        outside = 0 if subspace is None else subspace.n_samples - len(vectors)
        if subspace is None:
            self.vectors, subspace = vectors, Basis(vectors)
            vectors = np.eye(subspace.dimension)
        self.subspace, self._inside, self.n_samples = subspace, vectors, subspace.n_samples
        self.filling = filling if outside else 0.0
        self.n_clusters = float(np.sum(self.weights)) + self.filling * outside

    @cached_property
    def vectors(self) -> NDArray:
        """The directions U as vectors over the samples, (T, k)."""
        return self.subspace.lift(self._inside)

    @property
    def factor(self) -> NDArray:
        """A matrix F with M = FFᵀ, of shape (T, k), or (T, k + T) if the filling is not 0."""
        factor = self.vectors * np.sqrt(self.weights)
        if not self.filling:
            return factor
        Q = self.subspace.lift(np.eye(self.subspace.dimension))
        # A projection equals its square root.
        outside = np.eye(self.n_samples) - Q @ Q.T
        return np.hstack([factor, np.sqrt(self.filling) * outside])

    def root(self, X: NDArray) -> NDArray:
        """Return a matrix R with RᵀR = XᵀMX, (T, P) -> (k or k + P, P)."""
        inside = self.subspace.reduced(X)
        root = np.sqrt(self.weights)[:, None] * (self._inside.T @ inside)
        if not self.filling or X is self.subspace.X:
            return root
        outside = np.linalg.qr(X - self.subspace.lift(inside), mode="r")
        return np.vstack([root, np.sqrt(self.filling) * outside])

    def inner(self, truth: Partition) -> float:
        """Return ⟨M, N⟩, in O(Kk) for the partition of the subspace, and in O(Tk) for any other."""
        subspace = self.subspace
        if subspace.truth is not None and subspace.truth == truth:
            # The first directions of Q are the clusters.
            rows = self._inside[: truth.n_clusters]
            return float(np.sum(self.weights * rows**2))
        value = float(np.sum(self.weights * truth.root(self.vectors) ** 2))
        if self.filling:
            basis = subspace.lift(np.eye(subspace.dimension))
            value += self.filling * (truth.n_clusters - float(np.sum(truth.root(basis) ** 2)))
        return value

    def project(self, X: NDArray) -> NDArray:
        """Return M X, (T, P) -> (T, P), in O(TqP)."""
        inside = self.subspace.reduced(X)
        shares = self._inside @ (self.weights[:, None] * (self._inside.T @ inside))
        projected = self.subspace.lift(shares - self.filling * inside)
        return projected + self.filling * X if self.filling else projected

    def to_array(self) -> NDArray[np.float64]:
        """Return M as a dense (T, T) array, in O(T²) memory, for tests and small examples."""
        return self.project(np.eye(self.n_samples))

    def __repr__(self) -> str:
        return f"Projector({self.n_samples} samples, trace {self.n_clusters:g})"
