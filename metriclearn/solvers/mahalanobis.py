"""Write Mahalanobis metrics B ⪰ 0 in coordinates that keep the Frobenius inner product.

The dot product of the coordinates of two metrics is their Frobenius inner product. Solvers see a
flat vector w. Only this module splits w into a matrix and the last entry, which is the penalty of a
cluster. Each metric family offers its cone, the projection onto the cone, and a factor L with B =
LLᵀ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol, runtime_checkable

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

Jacobian = Callable[..., NDArray]
# Least number of features for which factoring matrices of low rank pays off.
SKETCHED = 64
# Relative to the largest eigenvalue or weight; smaller ones give no component.
_NEGLIGIBLE = 1e-12


@runtime_checkable
class Metric(Protocol):
    """A family of positive semidefinite matrices, each given by a vector of coordinates."""

    @property
    def polyhedral(self) -> bool:
        """Whether the cone consists of all w whose coordinates are nonnegative.

        In this case, a linear regularizer makes the master problem a linear program.
        """

    def coordinates(self, R: NDArray) -> NDArray:
        """Return the coordinates (n,) of the matrix in the family nearest to RᵀR, for R (k, P)."""

    def matrix(self, w: NDArray) -> NDArray:
        """Return the matrix B with coordinates w, (P, P)."""

    def components(self, w: NDArray) -> NDArray:
        """Return the matrix Lᵀ with B = LLᵀ, (r, P), where r is the rank of B."""

    def linearize(self, v: NDArray) -> tuple[NDArray, Jacobian]:
        """Return the projection of v onto the cone, and its generalized Jacobian J at v.

        J is returned as a function. The arguments of this function are a matrix with n columns, and
        the indices of k rows of the matrix. Let G hold these k rows. The function returns G J Gᵀ
        (k, k). A third argument may hold low-rank factors of all rows.
        """

    def least(self, v: NDArray) -> float:
        """Return the least ⟨v, B⟩ of all B in the cone with Tr B = 1."""

    def identity(self, n_features: int) -> NDArray:
        """Return the coordinates of I, whose dot product with the coordinates of B is Tr B."""


class DiagonalMetric(BaseEstimator):
    """Diagonal metrics B = Diag(b) with one weight b ≥ 0 per feature. A projection takes O(P).

    References
    ----------
    Lajugie, Arlot & Bach, Large-Margin Metric Learning for Partitioning Problems,
    arXiv:1303.1280, section 4.3.
    """

    polyhedral = True

    def coordinates(self, R: NDArray) -> NDArray:
        return np.einsum("kp,kp->p", R, R)

    def matrix(self, w: NDArray) -> NDArray:
        return np.diag(w)

    def components(self, w: NDArray) -> NDArray:
        kept = np.flatnonzero(w > _NEGLIGIBLE * max(0.0, float(np.max(w, initial=0.0))))
        components = np.zeros((len(kept), len(w)))
        components[np.arange(len(kept)), kept] = np.sqrt(w[kept])
        return components

    def linearize(self, v: NDArray) -> tuple[NDArray, Jacobian]:
        positive = v > 0

        def jacobian(rows: NDArray, chosen: NDArray, factors: NDArray | None = None) -> NDArray:
            seen = rows[chosen][:, positive]
            return seen @ seen.T

        return np.where(positive, v, 0.0), jacobian

    def least(self, v: NDArray) -> float:
        return float(np.min(v))

    def identity(self, n_features: int) -> NDArray:
        return np.ones(n_features)


class FullMetric(BaseEstimator):
    """All positive semidefinite matrices B. A projection takes an eigendecomposition, in O(P³).

    The coordinates are the P(P+1)/2 entries of the upper triangle. Off-diagonal entries are
    multiplied by √2.

    References
    ----------
    Lajugie, Arlot & Bach, Large-Margin Metric Learning for Partitioning Problems,
    arXiv:1303.1280, section 4.3.
    """

    polyhedral = False

    def coordinates(self, R: NDArray) -> NDArray:
        rows, columns, scale = _triangle(R.shape[1])
        return (R.T @ R)[rows, columns] * scale

    def matrix(self, w: NDArray) -> NDArray:
        P = int((np.sqrt(8 * len(w) + 1) - 1) / 2 + 0.5)
        return (w / _triangle(P)[2])[_positions(P)].reshape(P, P)

    def components(self, w: NDArray) -> NDArray:
        values, vectors = scipy.linalg.eigh(self.matrix(w), driver="evd")
        kept = values > _NEGLIGIBLE * max(0.0, values[-1])
        return (vectors[:, kept] * np.sqrt(values[kept])).T[::-1]

    def linearize(self, v: NDArray) -> tuple[NDArray, Jacobian]:
        values, vectors = scipy.linalg.eigh(self.matrix(v), driver="evd")
        positive = values > 0
        kept = vectors[:, positive] * np.sqrt(values[positive])

        def jacobian(rows: NDArray, chosen: NDArray, factors: NDArray | None = None) -> NDArray:
            if 2 * np.count_nonzero(positive) <= len(values):
                root = _psd_root(rows, chosen, factors, values, vectors)
                return root @ root.T
            # v = Π(v) − Π(−v), so J(v) = I − J(−v). The one of smaller rank is cheaper.
            rest, seen = _psd_root(rows, chosen, factors, -values, vectors), rows[chosen]
            return seen @ seen.T - rest @ rest.T

        return self.coordinates(kept.T), jacobian

    def factors(self, rows: NDArray) -> NDArray:
        """Find the eigenvectors and eigenvalues of low-rank matrices. Each matrix takes O(P³/8).

        If the rank of a matrix is below ⌊P/8⌋, its products with ⌊P/8⌋ random vectors span its
        range.

        Parameters
        ----------
        rows : array (k, n)
            The coordinates of k matrices.

        Returns
        -------
        structured array (k,) with the fields
            ``vectors`` (q, P), with q = ⌊P/8⌋ orthonormal rows; and ``values`` (q,), sorted by
            decreasing absolute value. Values beyond the rank are 0. If the rank of a matrix is q or
            more, both fields of its record are 0.
        """
        P = self.matrix(rows[0]).shape[0]
        q = P // 8
        factors = np.zeros(len(rows), [("vectors", float, (q, P)), ("values", float, (q,))])
        probes = np.random.default_rng(0).standard_normal((P, q))
        for k, row in enumerate(rows if q else ()):
            matrix = self.matrix(row)
            basis = np.linalg.qr(matrix @ probes)[0]
            values, turned = np.linalg.eigh(basis.T @ matrix @ basis)
            order = np.argsort(-np.abs(values))
            values = values[order]
            if abs(values[-1]) <= _NEGLIGIBLE * abs(values[0]):
                kept = np.abs(values) > 1e-2 * _NEGLIGIBLE * abs(values[0])
                factors["values"][k] = np.where(kept, values, 0.0)
                factors["vectors"][k] = (basis @ turned[:, order]).T
        return factors

    def least(self, v: NDArray) -> float:
        smallest = scipy.linalg.eigh(
            self.matrix(v), eigvals_only=True, subset_by_index=[0, 0], driver="evr"
        )
        return float(smallest[0])

    def identity(self, n_features: int) -> NDArray:
        rows, columns, _ = _triangle(n_features)
        return (rows == columns).astype(np.float64)


@dataclass
class PenalizedMetric:
    """Pairs (B, v): B is a metric of another family, and v are q nonnegative weights.

    The last q coordinates are the weights v.

    Parameters
    ----------
    metric : Metric
        The family of B.
    n_weights : int
        The number q of weights.
    """

    metric: Metric
    n_weights: int

    @property
    def polyhedral(self) -> bool:
        """Whether the cone of B is polyhedral. The weights v do not change this."""
        return self.metric.polyhedral

    def split(self, w: NDArray) -> tuple[NDArray, NDArray]:
        """Split w into the coordinates of B and the weights v."""
        return w[: len(w) - self.n_weights], w[len(w) - self.n_weights :]

    def coordinates(self, R: NDArray) -> NDArray:
        return np.append(self.metric.coordinates(R), np.zeros(self.n_weights))

    def matrix(self, w: NDArray) -> NDArray:
        return self.metric.matrix(self.split(w)[0])

    def components(self, w: NDArray) -> NDArray:
        return self.metric.components(self.split(w)[0])

    def linearize(self, v: NDArray) -> tuple[NDArray, Jacobian]:
        if self.metric.polyhedral:
            return self.metric.linearize(v)
        cut = len(v) - self.n_weights
        weights, (point, jacobian) = v[cut:], self.metric.linearize(v[:cut])
        positive = weights > 0

        def penalized(rows: NDArray, chosen: NDArray, factors: NDArray | None = None) -> NDArray:
            seen = rows[chosen, cut:][:, positive]
            return jacobian(rows[:, :cut], chosen, factors) + seen @ seen.T

        return np.append(point, np.where(positive, weights, 0.0)), penalized

    def least(self, v: NDArray) -> float:
        of_metric, weights = self.split(v)
        return min(self.metric.least(of_metric), float(np.min(weights, initial=np.inf)))

    def identity(self, n_features: int) -> NDArray:
        return np.append(self.metric.identity(n_features), np.ones(self.n_weights))


@lru_cache(maxsize=16)
def _triangle(n_features: int) -> tuple[NDArray, NDArray, NDArray]:
    rows, columns = np.triu_indices(n_features)
    return rows, columns, np.where(rows == columns, 1.0, np.sqrt(2.0))


@lru_cache(maxsize=16)
def _positions(n_features: int) -> NDArray:
    """Map every entry of a symmetric matrix to its index in the upper triangle, (P²,)."""
    rows, columns, _ = _triangle(n_features)
    positions = np.empty((n_features, n_features), dtype=np.intp)
    positions[rows, columns] = positions[columns, rows] = np.arange(len(rows))
    return positions.ravel()


def _psd_root(
    rows: NDArray, chosen: NDArray, factors: NDArray | None, values: NDArray, vectors: NDArray
) -> NDArray:
    """Return R with RRᵀ = G J Gᵀ, where J is the Jacobian of the projection on the PSD cone.

    G holds the ``chosen`` rows. In the eigenbasis, J multiplies entry (i, j) by 1 if both
    eigenvalues λ_i and λ_j are positive, by λ_i/(λ_i − λ_j) if only λ_i is positive, and by 0 if
    neither is positive (Löwner's divided differences). The time is O(P²r) for each row, where r is
    the rank of the projection, or O(P²q) for a row with factors of rank q.
    """
    # If only one eigenvalue is positive, (i, j) and (j, i) are one column, times √2. If both are
    # positive, they are two columns.
    positive, P = values > 0, len(values)
    up, down = vectors[:, positive], vectors[:, ~positive]
    rank = up.shape[1]
    mixed = values[positive][:, None] / (values[positive][:, None] - values[~positive][None, :])
    basis = np.concatenate([up, down], axis=1)
    # Coordinates off the diagonal are entries times √2. We multiply the diagonal by √2, too, and
    # divide by √2 here.
    weights = np.concatenate([np.full((rank, rank), np.sqrt(0.5)), np.sqrt(mixed)], axis=1)
    root, up = np.empty((len(chosen), rank, P)), np.ascontiguousarray(up.T)
    if rank == 0:
        return root.reshape(len(chosen), 0)
    ranks = np.zeros(len(chosen), dtype=int)
    if factors is not None:
        ranks = np.count_nonzero(factors["values"][chosen], axis=1)
        few = np.flatnonzero(ranks)
        for begin in range(0, len(few), 32):
            places = few[begin : begin + 32]
            known, q = chosen[places], np.max(ranks[places])
            turned = factors["vectors"][known, :q].reshape(-1, P) @ basis
            turned = turned.reshape(-1, q, P)
            scaled = turned[:, :, :rank] * (np.sqrt(2.0) * factors["values"][known, :q, None])
            root[places] = weights * (scaled.transpose(0, 2, 1) @ turned)
    many = np.flatnonzero(ranks == 0)
    # Take a few rows at a time, because each triangle unpacks to P² numbers.
    step = max(1, 2**16 // P**2)
    for begin in range(0, len(many), step):
        places = many[begin : begin + step]
        matrices = np.take(rows[chosen[places]], _positions(P), axis=1, mode="clip")
        matrices[:, :: P + 1] *= np.sqrt(2.0)
        half = up @ matrices.reshape(-1, P, P)
        root[places] = weights * (half.reshape(-1, P) @ basis).reshape(-1, rank, P)
    return root.reshape(len(chosen), -1)


@dataclass(frozen=True)
class MetricCone:
    """The feasible set of w: the metric's cone, and λ ≥ 0 if the penalty of a cluster is learned.

    Parameters
    ----------
    metric : Metric
    n_features : int
        P.
    learns_penalty : bool
        Whether w has λ as its last coordinate.
    unit : float
        The number by which the data were divided. The vector w holds the coordinates of B·unit²,
        where B is the metric of the data as they were given. Regularizers apply to B.
    """

    metric: Metric
    n_features: int
    learns_penalty: bool
    unit: float = 1.0

    @cached_property
    def n_metric(self) -> int:
        """Number of coordinates that belong to the metric."""
        return len(self.metric.identity(self.n_features))

    @property
    def size(self) -> int:
        """The length of w."""
        return self.n_metric + int(self.learns_penalty)

    def split(self, w: NDArray) -> tuple[NDArray, float]:
        """Split w into metric coordinates and penalty, which is NaN if w does not contain it."""
        return w[: self.n_metric], float(w[-1]) if self.learns_penalty else float("nan")

    def join(self, w_metric: NDArray, penalty: float) -> NDArray:
        """Join metric coordinates and penalty into w, as the inverse of :meth:`split`."""
        return np.append(w_metric, penalty) if self.learns_penalty else w_metric

    def project(self, v: NDArray) -> NDArray:
        """Return the point of the cone that is nearest to v, (n,) -> (n,)."""
        return self.linearize(v)[0]

    def linearize(self, v: NDArray) -> tuple[NDArray, Jacobian]:
        """Return the projection of v and its Jacobian, see :meth:`Metric.linearize`."""
        # The penalty is one more nonnegative weight, and a polyhedral metric has only such weights.
        whole = self.metric.polyhedral or not self.learns_penalty
        return (self.metric if whole else PenalizedMetric(self.metric, 1)).linearize(v)
