"""Symmetric T×T forms A, never stored unless the user brings one, and ⟨A, M⟩."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from metriclearn.problem.partition import Partition
from metriclearn.problem.projector import Basis, Projector, Subspace

__all__ = ["Compressed", "DenseForm", "Factors", "Form", "LowRankForm"]


class Compressed(NamedTuple):
    """A = Q·matrix·Qᵀ + shift·I: a (q, q) matrix, its subspace (None: all T dimensions), c."""

    matrix: NDArray
    subspace: Subspace | Basis | None
    shift: float


class Form(Protocol):
    """A symmetric T×T matrix A known through its action and its value on partitions.

    Forms that a loss can be added to have a method ``plus(truth, weight)``, too: A − weight·N.
    """

    n_samples: int

    def at(self, partition: Any) -> float:
        """⟨A, M⟩ = Tr AM."""
        ...

    def matvec(self, V: NDArray) -> NDArray:
        """A V, (T, k) -> (T, k)."""
        ...

    def shifted(self, shift: float) -> Form:
        """A + shift·I: every cluster is worth that much more."""
        ...


class Factors:
    """The factors Z = X·componentsᵀ of a form ZZᵀ, made of what is given when they are asked for.

    Parameters
    ----------
    X : array (T, P), optional
        The observations, or
    sums : array (T+1, P), optional
        their cumulative sums, first row 0, of centered observations.
    components : array (r, P), optional
        Lᵀ with B = LLᵀ; the identity by default.
    subspace : Subspace, optional
        Of the observations X and the labels, where one has been made.
    """

    def __init__(
        self,
        X: NDArray | None = None,
        sums: NDArray | None = None,
        components: NDArray | None = None,
        subspace: Subspace | None = None,
    ) -> None:
        self.X, self.sums, self.components, self.subspace = X, sums, components, subspace
        self.n_samples = len(X) if X is not None else len(sums) - 1  # type: ignore[arg-type]

    @cached_property
    def values(self) -> NDArray:
        """Z, the observations under the metric, (T, r)."""
        if self.X is None:
            return np.diff(self.cumulative, axis=0)
        return self.X if self.components is None else self.X @ self.components.T

    @cached_property
    def cumulative(self) -> NDArray:
        """Cumulative sums of the centered factors, (T+1, r); centering keeps them accurate."""
        if self.sums is None:
            return cumulative_sums(self.values)
        components = self.components
        if components is None:
            return self.sums
        if np.count_nonzero(components) == len(components):  # every one weighs a single feature
            features = np.argmax(components != 0, axis=1)
            return self.sums[:, features] * components[np.arange(len(components)), features]
        return self.sums @ components.T

    @cached_property
    def offset(self) -> float:
        """⟨ZZᵀ, M⟩ minus the same for centered factors: T‖mean‖², whatever the partition."""
        if self.X is None:
            return 0.0
        mean = np.mean(self.values, axis=0)
        return float(self.n_samples * np.dot(mean, mean))

    def inside(self, truth: Partition | None) -> tuple[Subspace, NDArray]:
        """A subspace Q that holds the factors and the clusters of ``truth``, and QᵀZ."""
        if self.subspace is not None and truth in (None, self.subspace.truth):
            return self.subspace, self.subspace.rows @ self.components.T  # type: ignore[union-attr]
        subspace = Subspace(self.values, truth or Partition(ends=np.array([self.n_samples])))
        return subspace, subspace.rows


class LowRankForm:
    """A = ZZᵀ − κN + cI from factors Z, a reference partition N and two numbers.

    ``at`` costs O(Tr) for general partitions and O(Kr) for contiguous ones, ``matvec`` O(Trk);
    memory is that of Z.

    Parameters
    ----------
    factors : array (T, r)
        Z = XL, the observations under the metric B = LLᵀ.
    truth : Partition, optional
        The reference partition N.
    weight : float
        κ; the loss-augmented problem of Lajugie, Arlot & Bach, section 4.2, has κ = 2α.
    shift : float
        c; α − λ when the number of clusters is unknown.
    """

    def __init__(
        self,
        factors: NDArray | Factors,
        truth: Partition | None = None,
        weight: float = 0.0,
        shift: float = 0.0,
    ) -> None:
        if not isinstance(factors, Factors):
            if np.ndim(factors) != 2 or np.size(factors) == 0:
                raise ValueError(
                    f"LowRankForm needs factors of shape (T, r), got {np.shape(factors)}; "
                    "use .reshape(-1, 1) for a single feature."
                )
            factors = Factors(np.asarray(factors))
        if truth is None and weight:
            raise ValueError(
                f"LowRankForm needs the truth that has the weight, got weight={weight!r} and no "
                "truth; pass both or neither."
            )
        self._factors = factors
        self.n_samples = factors.n_samples
        self.truth, self.weight, self.shift = truth, weight, shift

    @classmethod
    def from_cumulative(
        cls, cumulative: NDArray, components: NDArray | None = None, shift: float = 0.0
    ) -> LowRankForm:
        """The form of centered factors given by their cumulative sums (T+1, r), first row 0.

        With ``components`` (r, P) the factors are X·componentsᵀ and the sums those of the
        centered X, (T+1, P); the factors' own are made when they are asked for.
        """
        return cls(Factors(sums=cumulative, components=components), shift=shift)

    @classmethod
    def from_subspace(cls, subspace: Subspace, components: NDArray) -> LowRankForm:
        """The form of factors X·componentsᵀ, (T, r), for the X of a subspace and N its truth."""
        factors = Factors(subspace.X, components=components, subspace=subspace)
        return cls(factors, subspace.truth)

    @property
    def factors(self) -> NDArray:
        """Z, the observations under the metric, (T, r)."""
        return self._factors.values

    @property
    def cumulative(self) -> NDArray:
        """Cumulative sums of the centered factors, (T+1, r)."""
        return self._factors.cumulative

    def at(self, partition: Partition | Projector) -> float:
        if isinstance(partition, Partition) and partition.contiguous:
            pooled = np.diff(self.cumulative[partition.change_points], axis=0, prepend=0.0)
            value = self._factors.offset
            value += float(np.sum(np.einsum("kr,kr->k", pooled, pooled) / partition.sizes))
        else:
            value = float(np.sum(partition.root(self.factors) ** 2))
        if self.truth is not None and self.weight:
            value -= self.weight * partition.inner(self.truth)
        return value + self.shift * partition.n_clusters

    def matvec(self, V: NDArray) -> NDArray:
        result = self.factors @ (self.factors.T @ V) + self.shift * V
        if self.truth is not None and self.weight:
            result -= self.weight * self.truth.project(V)
        return result

    def compressed(self) -> Compressed:
        """A − cI in the at most r + K dimensions outside which it is zero.

        O((P+K)²r) where the form was made :meth:`from_subspace`, O(Tr²) otherwise.
        """
        subspace, rows = self._factors.inside(self.truth if self.weight else None)
        matrix = rows @ rows.T
        if self.weight:  # the first K dimensions are the clusters of the truth
            np.einsum("kk->k", matrix)[: subspace.truth.n_clusters] -= self.weight
        return Compressed(matrix, subspace, self.shift)

    def shifted(self, shift: float) -> LowRankForm:
        """A + shift·I, sharing the factors of A."""
        return LowRankForm(self._factors, self.truth, self.weight, self.shift + shift)

    def plus(self, truth: Partition, weight: float) -> LowRankForm:
        """A − weight·N with N the matrix of ``truth``, sharing the factors of A.

        Raises
        ------
        ValueError
            If the form has another reference partition already.
        """
        if self.truth is not None and self.truth != truth:
            raise ValueError(
                "LowRankForm holds one reference partition, got a second, different one; "
                "use DenseForm for several."
            )
        return LowRankForm(self._factors, truth, self.weight + weight, self.shift)


class DenseForm:
    """Any symmetric T×T matrix, kernels included; O(T²) memory.

    Parameters
    ----------
    matrix : array (T, T)
        A, symmetric to 1e-8 of its largest entry and finite.

    Raises
    ------
    ValueError
        If the matrix is not square, finite and symmetric.
    """

    def __init__(self, matrix: ArrayLike) -> None:
        A = np.asarray(matrix, dtype=np.float64)
        if A.ndim != 2 or A.shape[0] != A.shape[1] or A.size == 0:
            raise ValueError(f"DenseForm needs a square matrix, got shape {A.shape}.")
        if not np.all(np.isfinite(A)):
            raise ValueError("DenseForm needs finite entries, got NaN or infinity; remove them.")
        asymmetry = float(np.max(np.abs(A - A.T)))
        if asymmetry > 1e-8 * max(1.0, float(np.max(np.abs(A)))):
            raise ValueError(
                f"DenseForm needs a symmetric matrix, got |A - A.T| up to {asymmetry:.3g}; "
                "pass (A + A.T) / 2."
            )
        self.matrix = A
        self.n_samples = len(A)

    def at(self, partition: Partition | Projector) -> float:
        return float(np.trace(partition.project(self.matrix)))

    def matvec(self, V: NDArray) -> NDArray:
        return self.matrix @ V

    def compressed(self) -> Compressed:
        """A itself: nothing is known of its rank."""
        return Compressed(self.matrix, None, 0.0)

    def shifted(self, shift: float) -> DenseForm:
        """A + shift·I, as a new dense matrix."""
        return DenseForm(self.matrix + shift * np.eye(self.n_samples))

    def plus(self, truth: Partition, weight: float) -> DenseForm:
        """A − weight·N with N the matrix of ``truth``, as a new dense matrix."""
        return DenseForm(self.matrix - weight * truth.to_array())


def center(X: NDArray) -> NDArray:
    """X minus its column means, in two passes so that an offset of 1e8 leaves no residue."""
    X = X - np.mean(X, axis=0)
    return X - np.mean(X, axis=0)


@np.errstate(invalid="ignore")  # sums of infinity are NaN, which oracles refuse in a sentence
def cumulative_sums(
    X: NDArray, components: NDArray | None = None, block: int = 2**16
) -> NDArray[np.float64]:
    """Cumulative sums of the centered rows of X, or of X·componentsᵀ, in blocks of rows.

    X may be mapped from a file, in single or double precision; a block of it is in memory at a
    time, in double precision. Sums are in double precision too, of centered rows: the mean is
    taken in two passes, so that they stay as small as the data allow and end at zero. A single
    precision sum has an error of 6e-8 times its size, which after 10⁷ samples is larger than what
    tells neighboring segments apart; a double precision one of 1e-16 times its size, so that
    nothing has to be compensated. Memory 8(T+1)r bytes and that of a block.

    Parameters
    ----------
    X : array (T, P)
    components : array (r, P), optional
        The identity by default; a column of zeros stands for none, r = 0.
    block : int
        Rows at a time.

    Returns
    -------
    array (T+1, r) or (T+1, P), first row 0
    """
    mean = np.zeros(X.shape[1])
    for _ in range(2):  # a second time for what rounding left of the first mean
        total = np.zeros((1, X.shape[1]))
        for begin in range(0, len(X), block):
            part = np.ascontiguousarray(X[begin : begin + block], dtype=np.float64)
            _add_rows(part, mean, total)
        mean += total[0] / len(X)
    width = X.shape[1] if components is None else len(components)
    rest = mean if components is None else np.zeros(width)  # to be taken from rows under a metric
    sums = np.zeros((len(X) + 1, max(1, width)))
    for begin in range(0, len(X) if width else 0, block):
        part = np.ascontiguousarray(X[begin : begin + block], dtype=np.float64)
        if components is not None:
            part = (part - mean) @ components.T
        _add_rows(part, rest, sums[begin : begin + block + 1])
    return sums


@njit(nogil=True, cache=True)
def _add_rows(rows: NDArray, mean: NDArray, sums: NDArray) -> None:
    """Add rows less a mean to sums[0], or cumulatively into the rows of sums after it.

    For few columns ten times numpy's speed.
    """
    if len(sums) == 1:
        for t in range(len(rows)):
            for p in range(rows.shape[1]):
                sums[0, p] += rows[t, p] - mean[p]
    else:
        for t in range(len(rows)):
            for p in range(rows.shape[1]):
                sums[t + 1, p] = sums[t, p] + (rows[t, p] - mean[p])
