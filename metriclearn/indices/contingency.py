"""Contingency tables: the counts n_kl = |A_k ∩ B_l| from which external indices are computed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from metriclearn.problem.partition import Partition, label_array
from metriclearn.running.values import check_each, real_array, shown

Labels = Iterable[Hashable] | Partition
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, eq=False)
class ContingencyTable:
    """The non-empty cells of a contingency table, and its row and column sums.

    Attributes
    ----------
    rows, columns, counts : int64 arrays, one entry per non-empty cell, ordered by (row, column)
        The row k, the column l and the count n_kl > 0 of every cell.
    row_sizes, column_sizes : int64 arrays, shapes (K,) and (K′,)
        Cluster sizes a_k and b_l, all positive.
    n_samples : int
        Number of samples n.

    See Also
    --------
    contingency_table : returns a ContingencyTable.

    Examples
    --------
    >>> from metriclearn.indices import contingency_table
    >>> table = contingency_table([0, 0, 1, 1], [0, 1, 1, 1])
    >>> table.n_samples, table.row_sizes.tolist(), table.column_sizes.tolist()
    (4, [2, 2], [1, 3])
    """

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    counts: NDArray[np.int64]
    row_sizes: NDArray[np.int64]
    column_sizes: NDArray[np.int64]
    n_samples: int

    @classmethod
    def from_array(cls, table: Any) -> ContingencyTable:
        """Make a table from a dense or sparse (K, K′) array of counts.

        Empty rows and columns are dropped.
        """
        if hasattr(table, "tocsr"):
            from scipy.sparse import csr_array

            sparse = csr_array(table, copy=True)
            sparse.sum_duplicates()  # and sorts the cells of every row
            sparse.data = _counts(sparse.data)
            sparse.eliminate_zeros()
            rows, columns = (codes.astype(np.int64) for codes in sparse.nonzero())
            return cls._of_cells(rows, columns, sparse.data, sparse.sum(axis=1), sparse.sum(axis=0))
        return cls._of_array(_counts(real_array("A contingency table", "contingency", table)))

    @classmethod
    def from_codes(cls, a: NDArray[np.int64], b: NDArray[np.int64]) -> ContingencyTable:
        """Make the table of two labelings whose labels are integers ≥ 0.

        Rows and columns are in increasing order of the labels. Integers that do not occur get no
        row or column.
        """
        n_rows, n_columns = int(a.max()) + 1, int(b.max()) + 1
        cells = a * n_columns
        cells += b
        # counting into all K K′ cells is faster than sorting unless they far outnumber the samples
        if n_rows * n_columns <= 8 * len(a) + 65536:
            table = np.bincount(cells, minlength=n_rows * n_columns)
            return cls._of_array(table.reshape(n_rows, n_columns))
        cells, counts = np.unique(cells, return_counts=True)
        rows = cells // n_columns
        columns = cells - rows * n_columns
        return cls._of_cells(rows, columns, counts, np.bincount(a), np.bincount(b))

    @classmethod
    def _of_array(cls, table: NDArray[np.int64]) -> ContingencyTable:
        filled = np.flatnonzero(table != 0)  # ten times faster on booleans
        rows = filled // table.shape[1]
        columns = filled - rows * table.shape[1]
        counts = table.ravel()[filled]
        return cls._of_cells(rows, columns, counts, table.sum(axis=1), table.sum(axis=0))

    @classmethod
    def _of_cells(
        cls,
        rows: NDArray[np.int64],
        columns: NDArray[np.int64],
        counts: NDArray[np.int64],
        row_sizes: NDArray[np.int64],
        column_sizes: NDArray[np.int64],
    ) -> ContingencyTable:
        """Make a table from cells sorted by (row, column), without empty rows and columns."""
        if not (row_sizes.all() and column_sizes.all()):
            rows = (np.cumsum(row_sizes > 0) - 1)[rows]
            columns = (np.cumsum(column_sizes > 0) - 1)[columns]
            row_sizes, column_sizes = row_sizes[row_sizes > 0], column_sizes[column_sizes > 0]
        return cls(rows, columns, counts, row_sizes, column_sizes, int(row_sizes.sum()))

    def to_array(self) -> NDArray[np.int64]:
        """Convert the table to a dense array of shape (K, K′)."""
        table = np.zeros((len(self.row_sizes), len(self.column_sizes)), dtype=np.int64)
        table[self.rows, self.columns] = self.counts
        return table

    def to_labels(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Make two labelings that have this contingency table, as arrays of shape (n,)."""
        return np.repeat(self.rows, self.counts), np.repeat(self.columns, self.counts)

    @property
    def equal(self) -> bool:
        """Whether the partitions are equal: every row and every column has one non-empty cell."""
        return len(self.counts) == len(self.row_sizes) == len(self.column_sizes)


def contingency_table(
    labels_true: Labels | None = None,
    labels_pred: Labels | None = None,
    *,
    contingency: Any = None,
    ignore_label: Hashable = None,
) -> ContingencyTable:
    """Make the contingency table of two labelings, or of a given array of counts.

    The time is O(n) for integer labels, O(n log n) for other labels, and O(K + K′) for two
    contiguous :class:`~metriclearn.problem.partition.Partition` objects.

    Parameters
    ----------
    labels_true, labels_pred : sequences of n hashable labels, or Partition
        The two partitions. Only equality of labels matters, not their names. For segmentations, it
        is fastest to pass ``Partition.from_change_points(ends)``. The time then does not depend on
        n.
    contingency : ContingencyTable or dense or sparse (K, K′) array of counts, optional
        The table itself, instead of the labels.
    ignore_label : hashable, optional
        Samples that have this label in either labeling are left out (e.g. −1 for noise).

    Returns
    -------
    ContingencyTable

    Raises
    ------
    ValueError
        If there are no samples, the labelings differ in length, or a label is None or NaN.

    References
    ----------
    Pearson, On the theory of contingency and its relation to association and normal correlation,
    1904.
    """
    labelings = [labels for labels in (labels_true, labels_pred) if labels is not None]
    both = len(labelings) == 2 and contingency is None
    table_only = not labelings and contingency is not None and ignore_label is None
    if not (both or table_only):
        raise ValueError(
            "Comparing partitions needs either labels_true and labels_pred or contingency= without "
            "labels or ignore_label; pass both labelings or one table."
        )
    if contingency is not None:
        counted = isinstance(contingency, ContingencyTable)
        return contingency if counted else ContingencyTable.from_array(contingency)
    if isinstance(labels_true, Partition) and isinstance(labels_pred, Partition):
        ignores_nothing(ignore_label)
        rows, columns, counts = labels_true.intersections(labels_pred)
        return ContingencyTable(
            rows, columns, counts, labels_true.sizes, labels_pred.sizes, labels_true.n_samples
        )
    true, pred = label_arrays(labels_true, labels_pred)  # type: ignore[arg-type]
    if ignore_label is not None:
        keep = differs(true, ignore_label) & differs(pred, ignore_label)
        true, pred = true[keep], pred[keep]
    if len(true) == 0:
        raise ValueError("Comparing partitions needs at least one labeled sample, got none.")
    return ContingencyTable.from_codes(label_codes(true), label_codes(pred))


def of_partitions(index: Callable[..., Value]) -> Callable[..., Value]:
    """Let an index take the arguments of :func:`contingency_table` instead of a table.

    ``index(table, *, options)`` becomes ``index(labels_true, labels_pred, *, options, contingency,
    ignore_label)``. ``help`` and ``inspect`` show this new signature. Arguments of ``index`` that
    precede ``table`` stay first.
    """
    shared = signature(contingency_table).parameters
    true, pred, *rest = shared.values()
    parameters = list(signature(index).parameters.values())
    place = [parameter.name for parameter in parameters].index("table")
    parameters[place : place + 1] = [true, pred]
    form = signature(index).replace(parameters=[*parameters, *rest])

    @wraps(index)
    def of_labels(*args: Any, **kwargs: Any) -> Value:
        given = form.bind(*args, **kwargs).arguments
        table = contingency_table(**{name: given.pop(name) for name in shared if name in given})
        return index(**given, table=table)

    of_labels.__signature__ = form  # type: ignore[attr-defined]
    return of_labels


def ignores_nothing(ignore_label: Hashable) -> None:
    """Raise ValueError if samples of a partition without labels are to be ignored."""
    if ignore_label is not None:
        raise ValueError(
            "Comparing partitions needs labels, not Partition objects, to know which samples or "
            "segments to ignore; pass the two labelings."
        )


def label_codes(labels: Labels) -> NDArray[np.int64]:
    """Encode labels as integers ≥ 0, in O(n) time if the labels are integers in a small range."""
    values = label_array(labels)
    if values.ndim == 1 and values.size and values.dtype.kind in "biu":
        low, high = int(values.min()), int(values.max())
        if high < min(2**63, low + 4 * values.size + 1024):
            codes = values.astype(np.int64, copy=False)
            return codes - low if low else codes
    return Partition.from_labels(values).labels


def label_arrays(labels_true: Labels, labels_pred: Labels) -> tuple[NDArray, NDArray]:
    """Return both labelings as arrays. Raises ValueError if they differ in length."""
    true, pred = label_array(labels_true), label_array(labels_pred)
    check_each("Comparing partitions", "predicted label", len(pred), "true labels", len(true))
    return true, pred


def differs(values: NDArray, label: Hashable) -> NDArray[np.bool_]:
    """Return a mask of the values that differ from the label. NaN does not differ from NaN."""
    if not isinstance(label, Hashable) or isinstance(label, type) or hasattr(label, "__array__"):
        raise ValueError(
            f"Comparing partitions needs a label to ignore, got ignore_label={shown(label)}."
        )
    if label != label:  # NaN, the only label that differs from itself
        return values == values
    return np.broadcast_to(np.asarray(values != label, dtype=bool), values.shape)


def _counts(values: NDArray) -> NDArray[np.int64]:
    whole = values.dtype.kind in "biuf" and bool(np.all(values >= 0))  # NaN is not
    total = values.sum(dtype=np.float64) if whole else 0.0
    if not (whole and np.array_equal(values, np.floor(values)) and 0 < total < 2.0**62):
        raise ValueError(
            "A contingency table needs finite, whole, non-negative counts, at least one of them "
            "positive and fewer than 2**62 samples in all; pass the number of samples per cell, "
            "not shares, and 0 for missing ones."
        )
    return values.astype(np.int64)
