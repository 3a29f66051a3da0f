"""Store partitions of T samples as clusters, and never as T×T matrices.

Let Y be the assignment matrix of a partition. In every formula of this package, the rescaled
equivalence matrix M = Y(YᵀY)⁻¹Yᵀ stands for the partition. This matrix is an orthogonal projection,
and Tr M is the number of clusters.

Throughout the package, "Lajugie, Arlot & Bach" refers to R. Lajugie, S. Arlot and F. Bach,
Large-margin metric learning for partitioning problems, arXiv:1303.1280, 2013. Section 2.2 of this
paper defines M. A shorter version of the paper is in the proceedings of ICML 2014.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.problem.regions import Pieces
from metriclearn.running.parameters import OneOf, Whole
from metriclearn.running.values import check_each, real_array, shown

_SIZE = Whole(1)
_SAMPLES = OneOf(None, Whole(1, 2**63 - 1))


class Partition:
    """A partition of samples 0 … T-1 into K non-empty clusters.

    Make a partition with :meth:`from_labels`, :meth:`from_runs` or :meth:`from_change_points`.
    Clusters are numbered by first appearance. So two objects are equal exactly if they are the same
    partition, whatever names the labels had. Contiguous partitions (segmentations) store only their
    K segment ends.

    Parameters
    ----------
    ends : int array (K,), optional
        Segment ends, of which the last is T; see :meth:`from_change_points`.
    labels : int array (T,), optional
        Cluster of every sample; see :meth:`from_labels`.

    Attributes
    ----------
    n_samples, n_clusters : int
        T and K.
    sizes : int array (K,)
        Cluster sizes |C_k|.
    contiguous : bool
        Whether every cluster is one segment.
    ends : int array (K,) or None
        Ends of the segments of a contiguous partition, see :attr:`change_points`.

    Raises
    ------
    ValueError
        For change-points or labels that do not describe a partition of the samples.

    References
    ----------
    Lajugie, Arlot & Bach, Large-Margin Metric Learning for Partitioning Problems,
    arXiv:1303.1280, section 2.2.

    Examples
    --------
    >>> from metriclearn import Partition
    >>> Partition.from_labels([0, 0, 1, 1]) == Partition.from_change_points([2, 4])
    True
    """

    __slots__ = ("_labels", "contiguous", "ends", "n_clusters", "n_samples", "sizes")
    # A partition answers what partial labels answer: none of its labels is unknown.
    is_whole = True
    partial_labels: Any = None
    share: Any = None

    def __init__(
        self,
        *,
        ends: NDArray | None = None,
        labels: NDArray | None = None,
    ) -> None:
        """Store copies of ends or labels. The ``from_…`` constructors check them."""
        self.ends: NDArray[np.int64] | None = None
        self._labels: NDArray[np.int64] | None = None
        self.contiguous = ends is not None
        if ends is not None:
            self.ends = np.array(ends, dtype=np.int64)
            self.n_samples, self.n_clusters = int(self.ends[-1]), len(self.ends)
            self.sizes = self.ends.copy()
            self.sizes[1:] -= self.ends[:-1]
            self.ends.setflags(write=False)
        elif labels is not None:
            self._labels = np.array(labels, dtype=np.int64)
            self.sizes = np.bincount(self._labels)
            self.n_samples, self.n_clusters = len(self._labels), len(self.sizes)
        else:
            raise ValueError("Partition needs either ends or labels; call a from_… constructor.")
        self.sizes.setflags(write=False)

    @classmethod
    def from_labels(cls, labels: Iterable[Hashable]) -> Partition:
        """Make the partition into sets of samples with equal labels, in O(T log T).

        Labels may be any hashable values.
        """
        codes = factorize(label_values(labels))
        ends = np.append(np.flatnonzero(np.diff(codes)) + 1, len(codes))
        if len(ends) == int(codes.max()) + 1:
            return cls(ends=ends)
        return cls(labels=codes)

    @classmethod
    def from_runs(cls, labels: Iterable[Hashable]) -> Partition:
        """Make the segmentation into maximal runs of equal labels. A label may recur."""
        values = label_values(labels)
        changes = np.flatnonzero(values[1:] != values[:-1]) + 1
        return cls(ends=np.append(changes, len(values)))

    @classmethod
    def from_change_points(
        cls, change_points: ArrayLike | Sequence[int], n_samples: int | None = None
    ) -> Partition:
        """Make the segmentation with the given segment ends.

        Parameters
        ----------
        change_points : sequence of int
            For each segment, the index of the first sample after it, in any order. As in ruptures,
            the last end is T. If ``n_samples`` is given, T may be left out.
        n_samples : int, optional
            The number T. No change-point may be larger than T.

        Raises
        ------
        ValueError
            If a change-point is repeated, not an integer, below 1 or above ``n_samples``.
        """
        _SAMPLES.check("Partition", "n_samples", n_samples)
        given: Any = change_points
        if isinstance(given, (list, tuple)) and set(map(type, given)) == {int}:
            # Most lists are short, and the checks of other types take longer than all else.
            given = np.array(given)
        if type(given) is not np.ndarray or given.dtype.kind not in "iu":
            given = _whole_numbers(change_points)
        if given.ndim != 1:
            raise ValueError(
                f"Partition needs a flat sequence of change_points, got {given.ndim} dimensions."
            )
        # Sorting takes linear time if the change-points are sorted already.
        ends = np.sort(given.astype(np.int64), kind="stable")
        if n_samples is not None and (ends.size == 0 or ends[-1] < n_samples):
            ends = np.append(ends, n_samples)
        if ends.size == 0:
            raise ValueError("Partition needs at least one change-point, or n_samples.")
        if ends[0] < 1 or (n_samples is not None and ends[-1] > n_samples):
            limits = "of at least 1" if n_samples is None else f"from 1 to n_samples={n_samples}"
            raise ValueError(
                f"Partition needs change-points {limits}, got {ends[0]} to {ends[-1]}; labels are "
                "segmented by Partition.from_runs."
            )
        if np.any(np.diff(ends) == 0):
            repeated = ends[1:][np.diff(ends) == 0][0]
            raise ValueError(
                f"Partition needs distinct change-points, got {repeated} twice; labels are "
                "segmented by Partition.from_runs."
            )
        return cls(ends=ends)

    @property
    def _key(self) -> tuple[bool, bytes]:
        """A key of the partition. Two partitions have the same key exactly if they are equal."""
        numbers = self.labels if self.ends is None else self.ends
        return self.contiguous, numbers.tobytes()

    @property
    def labels(self) -> NDArray[np.int64]:
        """The cluster of every sample, (T,). Clusters are numbered by first appearance."""
        if self._labels is not None:
            return self._labels.copy()
        return np.repeat(np.arange(self.n_clusters), self.sizes)

    @property
    def change_points(self) -> NDArray[np.int64]:
        """The segment ends, (K,). The last end is T.

        Raises
        ------
        ValueError
            If the partition is not contiguous.
        """
        if self.ends is None:
            raise ValueError(
                "Partition needs contiguous clusters to have change-points, but a label recurs "
                "after another one; use Partition.from_runs to make each run a segment."
            )
        return self.ends.copy()

    @property
    def pieces(self) -> Pieces:
        """The knowledge about changes, as for partial labels: a single stretch from 0 to T."""
        return Pieces([(0, self.change_points)], [])

    def at(self, kept: NDArray[np.int64]) -> Partition:
        """Return the partition of the kept rows."""
        return Partition.from_labels(self.labels[kept])

    def pool(self, X: NDArray) -> NDArray:
        """Compute YᵀX, the sums of rows over clusters, (T, …) -> (K, …), in linear time.

        Raises
        ------
        ValueError
            If X does not have one row for each sample.
        """
        from scipy.sparse import csr_array

        check_each("Partition", "row", len(X), "samples", self.n_samples)
        if self.ends is not None:
            return np.add.reduceat(X, self.ends - self.sizes, axis=0)
        rows = np.asarray(X).reshape(len(X), -1)
        # YᵀX as a sparse product reads the rows of X once, in order. Ones have the type of sums in
        # numpy, which is wider than bools and short integers.
        ones, ends = (
            np.ones(len(rows), dtype=np.add.reduce(rows[:0]).dtype),
            np.arange(len(rows) + 1),
        )
        shape = (len(rows), self.n_clusters)
        sums = csr_array((ones, self.labels, ends), shape=shape).T @ rows
        return sums.reshape(self.n_clusters, *np.shape(X)[1:])

    def root(self, X: NDArray) -> NDArray:
        """Return the matrix R = (YᵀY)^(-1/2) YᵀX with RᵀR = XᵀMX, (T, P) -> (K, P)."""
        return self.pool(X) / np.sqrt(self.sizes)[:, None]

    @property
    def factor(self) -> NDArray[np.float64]:
        """The dense matrix U = Y(YᵀY)^(-1/2), (T, K), with M = UUᵀ."""
        factor = np.zeros((self.n_samples, self.n_clusters))
        factor[np.arange(self.n_samples), self.labels] = 1.0 / np.sqrt(self.sizes[self.labels])
        return factor

    def project(self, X: NDArray) -> NDArray:
        """Return M X, (T, P) -> (T, P), in O(TP). Row t is the mean of X over the cluster of t."""
        means = self.pool(X) / self.sizes.reshape(-1, *([1] * (X.ndim - 1)))
        return np.repeat(means, self.sizes, axis=0) if self.contiguous else means[self.labels]

    def intersections(
        self, other: Partition
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the nonempty cells of the contingency table, as arrays k, l and |A_k ∩ B_l|.

        The time is O(K+K′) if both partitions are contiguous, and O(T log T) otherwise.

        Raises
        ------
        ValueError
            If the two partitions do not have the same number of samples.
        """
        check_each("Partition", "label", other.n_samples, "samples", self.n_samples)
        if self.ends is not None and other.ends is not None:
            # Merge the sorted ends. Each piece between neighbors lies in one cell (k, l), where k
            # and l count how many ends of either partition come before the end of the piece.
            both = np.concatenate([self.ends, other.ends])
            # Timsort takes linear time on two sorted runs.
            order = np.argsort(both, kind="stable")
            mine = order < self.n_clusters
            k: NDArray = np.cumsum(mine) - mine
            l: NDArray = np.cumsum(~mine) - ~mine  # noqa: E741
            counts = np.diff(both[order], prepend=0)
            keep = counts > 0
            return k[keep], l[keep], counts[keep]
        # the cell (k, l) as one number, so that one sort counts all cells
        cells = self.labels * other.n_clusters + other.labels
        cells, counts = np.unique(cells, return_counts=True)
        return cells // other.n_clusters, cells % other.n_clusters, counts

    def inner(self, other: Partition) -> float:
        """Return Tr MN = Σ_kl |A_k ∩ B_l|² / (|A_k||B_l|) for clusters A_k of M and B_l of N."""
        rows, columns, counts = self.intersections(other)
        counts = counts.astype(np.float64)
        return float(np.sum(counts / self.sizes[rows] * (counts / other.sizes[columns])))

    def to_array(self) -> NDArray[np.float64]:
        """Return M as a dense (T, T) array, in O(T²) memory, for tests and small examples."""
        same = self.labels[:, None] == self.labels[None, :]
        return same / self.sizes[self.labels].astype(np.float64)

    def __eq__(self, other: Any) -> bool:
        return self._key == other._key if isinstance(other, Partition) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        kind = "segments" if self.contiguous else "clusters"
        return f"Partition({self.n_samples} samples, {self.n_clusters} {kind})"


class LabeledPartition(Partition):
    """A segmentation whose segments have labels of any type, as people give them.

    Two neighboring segments may have the same label, which labels of samples cannot tell.

    Parameters
    ----------
    ends : int array (K,)
        Segment ends. The last end is T.
    values : array (K,)
        The label of every segment.

    Examples
    --------
    >>> import numpy as np
    >>> LabeledPartition(np.array([1, 3]), np.array(["a", "a"])).sample_labels.tolist()
    ['a', 'a', 'a']
    """

    __slots__ = ("values",)

    def __init__(self, ends: NDArray, values: NDArray) -> None:
        super().__init__(ends=ends)
        self.values = np.array(values)
        self.values.setflags(write=False)

    @property
    def sample_labels(self) -> NDArray:
        """The label of every sample, (T,)."""
        return np.repeat(self.values, self.sizes)

    @property
    def _key(self) -> tuple[Any, ...]:
        return (*super()._key, tuple(self.values.tolist()))


def check_count(who: str, n_samples: int, n_clusters: int | None, min_size: int) -> tuple[Any, int]:
    """Return K and ``min_size`` as ints, whatever their types.

    Raises
    ------
    ValueError
        Unless T samples can hold K clusters of at least ``min_size`` samples.
    """
    _SIZE.check(who, "min_size", min_size)
    _SAMPLES.check(who, "n_clusters", n_clusters)
    n_clusters, min_size = None if n_clusters is None else int(n_clusters), int(min_size)
    wanted = 1 if n_clusters is None else n_clusters
    if wanted * min_size > n_samples:
        raise ValueError(
            f"{who} needs {wanted * min_size} samples for {wanted} segment(s) of at least "
            f"{min_size}, got {n_samples}; ask for fewer, or lower min_size."
        )
    return n_clusters, min_size


def _whole_numbers(change_points: Any) -> NDArray[np.float64]:
    """Check that change-points are whole numbers, and return them as floats."""
    try:
        ends = real_array("Partition", "change_points", change_points, None, allow=("empty",))
    except ValueError as error:
        remedy = "for labels, use Partition.from_runs(labels)"
        raise ValueError(f"{str(error)[:-1]}; {remedy}.") from error
    truths = np.asarray(change_points).dtype.kind == "b"
    if truths or np.any(np.abs(ends) > 2.0**53) or not np.array_equal(ends, np.round(ends)):
        raise ValueError(
            f"Partition needs integer change-points below 2**53, got {shown(change_points)}; pass "
            "the ends of the segments, or use Partition.from_runs(labels)."
        )
    return ends


def label_array(labels: Iterable[Hashable] | Partition) -> NDArray:
    """Return the labels as an array in which different labels stay different.

    NumPy would turn [1, "1"] into strings and [2**63, -1] into floats. This function turns such
    lists of mixed types into arrays of objects instead.
    """
    if isinstance(labels, Partition):
        return labels.labels
    if isinstance(labels, np.ma.MaskedArray):
        raise ValueError(
            "Partition needs labels without a mask, got a masked array; pass labels.filled(-1), "
            "and ignore_label=-1 to an index of two partitions."
        )
    ordered = isinstance(labels, Iterable) and not isinstance(labels, (Mapping, Set, type))
    array = None
    if hasattr(labels, "__array__") and not isinstance(labels, type):
        try:
            array = np.asarray(labels)
        except Exception as error:  # a foreign object may raise any error
            raise ValueError(
                f"Partition needs labels that numpy can read, got {shown(labels)} "
                f"({shown(str(error))}); pass a list, or detach() a tensor."
            ) from error
    if array is not None and array.ndim > 0:
        return array
    if array is not None or not ordered or hasattr(labels, "toarray"):
        raise ValueError(f"Partition needs one label per sample, got {shown(labels)}; pass a list.")
    # As dictionary keys, tensors without dimensions equal only themselves, so take their values.
    given: list[Any] = list(labels)
    items = [one.item() if getattr(one, "ndim", None) == 0 else one for one in given]
    types = set(map(type, items))
    if types in ({int}, {float}, {bool}, {str}):
        values = np.asarray(items)
        if values.dtype.kind == np.dtype(type(items[0])).kind:
            return values
    return np.fromiter(items, dtype=object, count=len(items))


def label_values(labels: Iterable[Hashable] | Partition) -> NDArray:
    """Return one label per sample, (T,). Numbers and strings stay as they are.

    Other labels become objects.

    Raises
    ------
    ValueError
        If there are no labels, if they have no order (as in a set), or if a label is None, NaN, NA
        or not hashable.
    """
    values = label_array(labels)
    if len(values) == 0:
        raise ValueError("Partition needs at least one label, got none.")
    if values.ndim == 1 and values.dtype != object:
        missing = bool(np.any(values != values))
    else:
        items, missing = values, False
        values = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):
            if not isinstance(item, Hashable):
                raise ValueError(
                    f"Partition needs one hashable label per sample, got a {type(item).__name__}; "
                    "pass a one-dimensional sequence."
                )
            missing = missing or _is_missing(item)
            values[i] = item.item() if isinstance(item, np.generic) else item
    if missing:
        raise ValueError(
            "Partition needs labels without None or NaN; label every sample, or pass an estimator "
            "−1 for unlabeled samples."
        )
    return values


def _is_missing(item: Hashable) -> bool:
    """Return whether a label is None, NaN or the NA of pandas."""
    try:
        return item is None or bool(item != item)
    except TypeError:  # NA has no truth value
        return True


def codes_of_known(labels: Iterable[Hashable]) -> NDArray[np.int64]:
    """Return codes of labels as :func:`factorize` does, except that −1 has the code −1."""
    values = label_values(labels)
    codes, known = np.full(len(values), -1), values != -1
    codes[known] = factorize(values[known])
    return codes


def numbered(labels: Iterable[Hashable]) -> NDArray[np.int64]:
    """Number labels from 0 on, in sorted order, or objects by first appearance."""
    values = label_values(labels)
    values = factorize(values) if values.dtype == object else values
    return np.unique(values, return_inverse=True)[1]


def factorize(values: NDArray) -> NDArray[np.int64]:
    """Return integer codes of labels (from :func:`label_values`), in order of first appearance."""
    if values.dtype == object:
        names: dict[Hashable, int] = {}
        return np.array([names.setdefault(v, len(names)) for v in values], dtype=np.int64)
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[inverse]
