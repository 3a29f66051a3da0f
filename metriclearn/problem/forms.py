"""Forms, which are symmetric T×T matrices A, and the centered sums from which most are made.

A form computes its value ⟨A, M⟩ on a partition M, and the product of A with vectors. The matrix A
is stored only if the user passes a matrix. Most forms are XBXᵀ for a data set X and a metric B, see
:mod:`.joint_features`.
"""

from __future__ import annotations

import copy
import numbers
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from metriclearn.problem.partition import Partition
from metriclearn.problem.projector import Basis, Projector, Subspace
from metriclearn.running.values import real_array, shown, symmetric

_NUMBER: Any = (float, int, numbers.Real, type(None))  # the first are found at once


class Compressed(NamedTuple):
    """A form, written as A = Q·matrix·Qᵀ + shift·I.

    ``matrix`` has the shape (q, q), and Q is the basis of ``subspace``. If ``subspace`` is None, Q
    is the identity.
    """

    matrix: NDArray
    subspace: Subspace | Basis | None
    shift: float


class Form(Protocol):
    """A symmetric T×T matrix A, given by its action on vectors and its value on partitions.

    Some forms also have a method ``plus(truth, weight)``, which returns the form A − weight·N. N is
    the matrix of ``truth``. The loss ‖M − N‖² can be added to these forms.
    """

    n_samples: int

    def at(self, partition: Any) -> float:
        """Return the value ⟨A, M⟩ = Tr AM."""

    def matvec(self, V: NDArray) -> NDArray:
        """Return the product A V, (T, k) -> (T, k)."""

    def shifted(self, shift: float) -> Form:
        """Return the form A + shift·I. The shift adds ``shift`` to the value for every cluster."""


class LowRankForm:
    """The form A = ZZᵀ − κN + cI, made from factors Z, a reference partition N and numbers κ, c.

    Factors are centered before they are summed, so that an offset of the data costs no precision.
    The offset only adds T‖mean‖² to the value of every partition. ``at`` takes O(Tr) time for
    general partitions and O(Kr) time for contiguous partitions. ``matvec`` takes O(Trk) time. The
    form takes about as much memory as Z. Z is given in one of three ways: as ``factors``, as
    ``cumulative``, or as ``subspace`` with ``components``.

    Parameters
    ----------
    factors : array (T, r), optional
        Z = XL, the observations under the metric B = LLᵀ. The form keeps a copy, unless they are a
        ``numpy.memmap``.
    truth : Partition, optional
        The reference partition N.
    weight : float
        The number κ. The loss-augmented problem of Lajugie, Arlot & Bach, section 4.2, has κ = 2α.
    shift : float
        The number c. In the loss-augmented problem with an unknown number of clusters, c = α − λ.
    cumulative : array (T+1, r), optional
        Cumulative sums of the centered factors. The first row is 0.
    subspace : Subspace, optional
        The span of the centered observations X and the clusters of a partition. The subspace must
        be passed together with ``components``.
    components : array (r, P), optional
        Lᵀ. The factors are then X·componentsᵀ.

    Raises
    ------
    ValueError
        If factors are not finite numbers of shape (T, r), or are too large or too small to be
        squared.

    References
    ----------
    Lajugie, Arlot & Bach, Large-Margin Metric Learning for Partitioning Problems,
    arXiv:1303.1280, section 4.2.
    """

    def __init__(
        self,
        factors: NDArray | None = None,
        truth: Partition | None = None,
        weight: float = 0.0,
        shift: float = 0.0,
        *,
        cumulative: NDArray | None = None,
        subspace: Subspace | None = None,
        components: NDArray | None = None,
    ) -> None:
        given = truth is None or isinstance(truth, Partition)
        if not (given and isinstance(weight, _NUMBER) and isinstance(shift, _NUMBER)):
            raise ValueError(
                "LowRankForm needs a Partition as truth and numbers as weight and shift, got "
                f"{shown(truth)}, {shown(weight)} and {shown(shift)}."
            )
        if truth is None and weight:
            raise ValueError(
                f"LowRankForm needs the truth that has the weight, got weight={weight!r} and no "
                "truth; pass both or neither."
            )
        self.truth, self.weight = truth, weight
        self.shift = shift
        self.subspace, self.components = subspace, components
        self._has_mean = factors is not None
        if factors is not None:
            self.factors = real_array("LowRankForm", "factors", factors, single_precision=True)
            if not isinstance(factors, np.memmap):
                self.factors = np.array(self.factors)
            self.n_samples = len(self.factors)
        elif cumulative is not None:
            self.cumulative = cumulative
            self.n_samples = len(cumulative) - 1
        elif subspace is not None:
            self.n_samples = subspace.n_samples

    @cached_property
    def factors(self) -> NDArray:
        """The factors Z (T, r), which are the observations under the metric."""
        if self.subspace is not None and self.components is not None:
            return self.subspace.X @ self.components.T
        return np.diff(self.cumulative, axis=0)

    @cached_property
    def centered(self) -> NDArray:
        """Z minus its mean, (T, r)."""
        factors = center(self.factors.astype(np.float64)) if self._has_mean else self.factors
        return check_squares("LowRankForm", factors)

    @cached_property
    def cumulative(self) -> NDArray:
        """Cumulative sums of the centered factors, (T+1, r)."""
        return cumulative_sums(self.factors)

    @cached_property
    def mean(self) -> NDArray:
        """The mean of Z, (r,). If the factors were already centered, the mean is a single 0."""
        return np.mean(self.factors, axis=0, dtype=float) if self._has_mean else np.zeros(1)

    def at(self, partition: Partition | Projector) -> float:
        # M is a projector, so M1 may differ from 1.
        if not isinstance(partition, Partition):
            value = float(np.sum(partition.root(self.factors) ** 2))
        else:
            if partition.contiguous:
                # Tr ZᵀMZ = Σ_k ‖S_end − S_start‖² / |C_k|, from cumulative sums.
                sums = np.diff(self.cumulative[partition.ends], axis=0, prepend=0.0)
                value = float(np.sum(np.einsum("kr,kr->k", sums, sums) / partition.sizes))
            else:
                value = float(np.sum(partition.root(self.centered) ** 2))
            if self._has_mean:
                value += self.n_samples * float(self.mean @ self.mean)
        if self.truth is not None and self.weight:
            value -= self.weight * partition.inner(self.truth)
        return value + self.shift * partition.n_clusters

    def matvec(self, V: NDArray) -> NDArray:
        mean = self.mean[:, None]
        # Z = centered + 1 meanᵀ, so ZᵀV and Z(ZᵀV) are sums of two parts each.
        left = self.centered.T @ V + mean * V.sum(axis=0)
        result = self.centered @ left + np.sum(mean * left, axis=0) + self.shift * V
        if self.truth is not None and self.weight:
            result -= self.weight * self.truth.project(V)
        return result

    def compressed(self) -> Compressed:
        """Compute the matrix of A − cI in a subspace. Outside this subspace A − cI is zero.

        If the form was made from a subspace, the time is O((P+K)²r). For other forms, the subspace
        has at most r + K dimensions, and the time is O(Tr²).
        """
        subspace, truth = self.subspace, self.truth if self.weight else None
        if subspace is not None and self.components is not None and truth in (None, subspace.truth):
            rows = subspace.rows @ self.components.T
        else:
            whole = Partition(ends=np.array([self.n_samples]))
            subspace = Subspace(self.centered, truth or whole)
            rows = subspace.rows + np.outer(subspace.constant, self.mean * self.n_samples**0.5)
        matrix = rows @ rows.T
        # The first K dimensions are the clusters of the truth.
        if self.weight:
            np.einsum("kk->k", matrix)[: subspace.truth.n_clusters] -= self.weight
        return Compressed(matrix, subspace, self.shift)

    def recentered(self) -> LowRankForm:
        """Return the form of the centered factors, whose values are lower by T‖mean‖²."""
        if not self.mean.any():
            return self
        form = copy.copy(self)
        form.factors, form.mean = self.centered, np.zeros(1)
        return form

    def shifted(self, shift: float) -> LowRankForm:
        """Return A + shift·I. The form shares the factors of A and arrays computed from them."""
        form = copy.copy(self)
        form.shift += shift
        return form

    def part(self, start: int, stop: int) -> LowRankForm:
        """Return the form of the samples start … stop − 1, without a reference partition.

        Its factors have the mean of all samples as origin.
        """
        sums = self.cumulative[start : stop + 1]
        return LowRankForm(cumulative=sums - sums[0], shift=self.shift)

    def plus(self, truth: Partition, weight: float) -> LowRankForm:
        """Return A − weight·N with the matrix N of ``truth``. The form shares the factors of A.

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
        form = copy.copy(self)
        form.truth, form.weight = truth, self.weight + weight
        return form


class DenseForm:
    """The form of any symmetric T×T matrix, such as a kernel, which takes O(T²) memory.

    Parameters
    ----------
    matrix : array (T, T)
        The matrix A. A must be finite, and symmetric up to 1e-8 times its largest entry (or times 1
        if that is larger).

    Raises
    ------
    ValueError
        If the matrix is not square, finite and symmetric.

    See Also
    --------
    SummedArea : The oracle for such matrices.
    LowRankForm : The form that is made from data.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.oracles import SummedArea
    >>> from metriclearn.problem import DenseForm
    >>> kernel = np.kron(np.eye(2), np.ones((3, 3))) - 0.5 * np.eye(6)
    >>> SummedArea()(DenseForm(kernel), 2).change_points.tolist()
    [3, 6]
    """

    def __init__(self, matrix: ArrayLike) -> None:
        self.matrix = np.array(symmetric("DenseForm", "matrix", matrix))
        self.n_samples = len(self.matrix)

    def at(self, partition: Partition | Projector) -> float:
        return float(np.trace(partition.project(self.matrix)))

    def matvec(self, V: NDArray) -> NDArray:
        return self.matrix @ V

    def compressed(self) -> Compressed:
        """Return the whole matrix A, with the identity as basis: the rank of A is unknown."""
        return Compressed(self.matrix, None, 0.0)

    def shifted(self, shift: float) -> DenseForm:
        """Return the form A + shift·I, as a new dense matrix."""
        return DenseForm(self.matrix + shift * np.eye(self.n_samples))

    def plus(self, truth: Partition, weight: float) -> DenseForm:
        """Return A − weight·N, where N is the matrix of ``truth``, as a new dense matrix."""
        return DenseForm(self.matrix - weight * truth.to_array())


@np.errstate(invalid="ignore", over="ignore")
def check_squares(who: str, values: NDArray) -> NDArray:
    """Check that squares of ``values`` can be added and compared, and return ``values``.

    ``values`` are centered factors or sums of centered factors.

    Raises
    ------
    ValueError
        For NaN and infinity, and for numbers whose squares overflow or underflow to 0.
    """
    flat = values.ravel()
    # NaN and infinity carry over to the sum, so one pass finds them.
    total = float(flat @ flat)
    if not 1e-240 <= total <= 1e240 and not (total == 0.0 and not flat.any()):
        largest = float(np.abs(flat).max())
        if not np.isfinite(largest):
            raise ValueError(f"{who} needs finite factors, got NaN or infinity; remove them.")
        raise ValueError(
            f"{who} needs factors between 1e-120 and 1e120, whose squares can be added, got "
            f"{largest:.3g}; change the unit."
        )
    return values


# check_squares raises a clear error for overflow and NaN.
@np.errstate(invalid="ignore", over="ignore")
def center(X: NDArray) -> NDArray:
    """Subtract column means from X, in two passes so that an offset of 1e8 leaves no residue."""
    X = X - np.mean(X, axis=0)
    return X - np.mean(X, axis=0)


# check_squares raises a clear error for overflow and NaN.
@np.errstate(invalid="ignore", over="ignore")
def cumulative_sums(
    X: NDArray, components: NDArray | None = None, block: int = 2**16
) -> NDArray[np.float64]:
    """Compute cumulative sums of the centered rows of X, or of X·componentsᵀ, in blocks of rows.

    X may be mapped from a file, in single or double precision. Only one block at a time is in
    memory. Blocks and sums are in double precision. In single precision a sum would have a relative
    error of 6e-8. After 10⁷ samples, this error exceeds the difference between neighboring
    segments. In double precision an addition has a relative error of 1e-16, so compensated
    summation is not needed. Rows are centered before they are summed, so that sums stay as small as
    the data allow. If rounding left a part of a large mean, rows are centered a second time. The
    sums take 8(T+1)r bytes.

    Parameters
    ----------
    X : array (T, P)
    components : array (r, P), optional
        The identity by default. If r = 0, the result is one column of zeros.
    block : int
        Number of rows in a block.

    Returns
    -------
    array (T+1, r) or (T+1, P)
        The first row is 0.
    """
    width = X.shape[1] if components is None else len(components)
    sums = np.empty((len(X) + 1, max(1, width)))
    total = np.zeros((1, X.shape[1]))
    for begin in range(0, len(X), block):
        part = np.ascontiguousarray(X[begin : begin + block], dtype=np.float64)
        add_rows(part, total[0], total)
    mean = total[0] / len(X)
    # Under a metric, blocks are centered before the product.
    rest = mean if components is None else np.zeros(width)
    sums[: 1 if width else None] = 0.0
    for _ in range(2 if width else 0):
        for begin in range(0, len(X), block):
            part = np.ascontiguousarray(X[begin : begin + block], dtype=np.float64)
            if components is not None:
                part = (part - mean) @ components.T
            centered = add_rows(part, rest, sums[begin : begin + block + 1])
        if centered:
            break
        rest = rest + sums[-1] / len(X)
    return sums


@njit(nogil=True, cache=True, error_model="numpy")
def add_rows(rows: NDArray, mean: NDArray, sums: NDArray) -> bool:
    """Subtract the mean from all rows, add the rows up, and write the sums into ``sums``.

    If ``sums`` has a single row, all rows are added to this row. If ``sums`` has more rows, sums[t
    + 1] becomes sums[0] plus the sum of the centered rows 0 … t. For few columns this function is
    ten times as fast as numpy. Returns whether the last row of ``sums`` is almost zero. An almost
    zero row means that rounding left no part of the mean.
    """
    T, P = rows.shape
    if len(sums) == 1:
        # Add four rows at a time, because every addition waits for the one before.
        for t in range(0, T - 3, 4):
            for p in range(P):
                sums[0, p] += (rows[t, p] + rows[t + 1, p]) + (rows[t + 2, p] + rows[t + 3, p])
        for t in range(T - T % 4, T):
            for p in range(P):
                sums[0, p] += rows[t, p]
    elif P < 4:  # column by column, so that the running sum stays in a register
        for p in range(P):
            total = sums[0, p]
            for t in range(T):
                total += rows[t, p] - mean[p]
                sums[t + 1, p] = total
    else:  # the running sums stay in the cache, apart from the large array
        totals = sums[0].copy()
        for t in range(T):
            for p in range(P):
                totals[p] += rows[t, p] - mean[p]
                sums[t + 1, p] = totals[p]
    largest = last = 0.0
    for p in range(P):
        last = max(last, abs(sums[-1, p]))
        for t in range(0, len(sums), 1 + len(sums) // 64):
            largest = max(largest, abs(sums[t, p]))
    return last <= 1e-9 * largest
