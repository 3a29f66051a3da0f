"""Contingency tables: the counts n_kl = |A_k ∩ B_l| behind every external index."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.problem.partition import Partition

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ContingencyTable", "Labels", "contingency_table", "label_codes", "plot_contingency"]

Labels = Iterable[Hashable] | Partition
_DRAWN_CELLS = 4_000_000
_EXACT_INTEGER = 2**53  # beyond it, NumPy may have merged different Python integers as floats


@dataclass(frozen=True, slots=True, eq=False)
class ContingencyTable:
    """The non-empty cells of a contingency table and its margins, O(number of cells) memory.

    Attributes
    ----------
    rows, columns, counts : int64 arrays, one entry per non-empty cell, ordered by (row, column)
        k, l and n_kl > 0.
    row_sizes, column_sizes : int64 arrays, shapes (K,) and (K′,)
        Cluster sizes a_k and b_l, all positive.
    n_samples : int
        n.
    """

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    counts: NDArray[np.int64]
    row_sizes: NDArray[np.int64]
    column_sizes: NDArray[np.int64]
    n_samples: int

    @classmethod
    def from_labels(
        cls, labels_true: Labels, labels_pred: Labels, ignore_label: Hashable = None
    ) -> ContingencyTable:
        """Count two labelings in one pass, O(n) for integer labels and O(n log n) otherwise.

        Two contiguous :class:`~metriclearn.problem.partition.Partition` objects take O(K + K′).
        """
        if isinstance(labels_true, Partition) and isinstance(labels_pred, Partition):
            if ignore_label is None:
                return cls.from_partitions(labels_true, labels_pred)
            raise ValueError(
                "ContingencyTable needs labels, not Partition objects, to know which samples to "
                "ignore; pass the two labelings."
            )
        true, pred = _as_array(labels_true), _as_array(labels_pred)
        if len(true) != len(pred):
            raise ValueError(
                "Comparing partitions needs two labels for every sample, got "
                f"{len(true)} and {len(pred)} labels; pass labelings of the same samples."
            )
        if ignore_label is not None:
            keep = _differs(true, ignore_label) & _differs(pred, ignore_label)
            true, pred = true[keep], pred[keep]
        if len(true) == 0:
            raise ValueError("Comparing partitions needs at least one labeled sample, got none.")
        return cls.from_codes(label_codes(true), label_codes(pred))

    @classmethod
    def from_partitions(cls, true: Partition, pred: Partition) -> ContingencyTable:
        """Table of two partitions, O(K + K′) when both are contiguous."""
        rows, columns, counts = true.intersections(pred)
        return cls(rows, columns, counts, true.sizes, pred.sizes, true.n_samples)

    @classmethod
    def from_array(cls, table: Any) -> ContingencyTable:
        """Table from a dense or sparse (K, K′) array of counts; empty rows and columns drop out."""
        if hasattr(table, "tocoo"):
            sparse = table.tocsr().tocoo()
            (rows, columns), counts = sparse.coords, _counts(sparse.data)
            keep = counts > 0
            return cls._from_cells(rows[keep], columns[keep], counts[keep], sparse.shape)
        dense = np.asarray(table)
        if dense.ndim != 2:
            raise ValueError(
                f"A contingency table needs two dimensions, got {dense.ndim}; pass counts of shape "
                "(clusters in the truth, clusters in the prediction)."
            )
        return cls._from_dense(_counts(dense))

    @classmethod
    def from_codes(cls, a: NDArray[np.int64], b: NDArray[np.int64]) -> ContingencyTable:
        """Table of two arrays of codes ≥ 0, rows and columns in the order of the codes."""
        n_rows, n_columns = int(a.max()) + 1, int(b.max()) + 1
        cells = a * n_columns
        cells += b
        if n_rows * n_columns <= 8 * len(a) + 65536:
            table = np.bincount(cells, minlength=n_rows * n_columns)
            return cls._from_dense(table.reshape(n_rows, n_columns))
        cells, counts = np.unique(cells, return_counts=True)
        rows = cells // n_columns
        return cls._from_cells(rows, cells - rows * n_columns, counts, (n_rows, n_columns))

    @classmethod
    def _from_dense(cls, table: NDArray[np.int64]) -> ContingencyTable:
        row_sizes, column_sizes = table.sum(axis=1), table.sum(axis=0)
        if not (row_sizes.all() and column_sizes.all()):
            table = table[row_sizes > 0][:, column_sizes > 0]
            row_sizes, column_sizes = row_sizes[row_sizes > 0], column_sizes[column_sizes > 0]
        filled = np.flatnonzero(table != 0)  # ten times faster on booleans
        rows = filled // max(len(column_sizes), 1)
        columns = filled - rows * len(column_sizes)
        n_samples = _positive(int(row_sizes.sum()))
        return cls(rows, columns, table.ravel()[filled], row_sizes, column_sizes, n_samples)

    @classmethod
    def _from_cells(
        cls, rows: NDArray, columns: NDArray, counts: NDArray, shape: tuple[int, int]
    ) -> ContingencyTable:
        n_samples = _positive(int(counts.sum()))
        rows, row_sizes = _compress(rows, counts, shape[0])
        columns, column_sizes = _compress(columns, counts, shape[1])
        return cls(rows, columns, counts, row_sizes, column_sizes, n_samples)

    def to_array(self) -> NDArray[np.int64]:
        """Dense table of shape (K, K′)."""
        table = np.zeros((len(self.row_sizes), len(self.column_sizes)), dtype=np.int64)
        table[self.rows, self.columns] = self.counts
        return table

    def to_labels(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """One pair of labelings with this table, two arrays of shape (n,)."""
        return np.repeat(self.rows, self.counts), np.repeat(self.columns, self.counts)

    @property
    def equal(self) -> bool:
        """Whether the two partitions are the same: every cell is a whole row and column."""
        return len(self.counts) == len(self.row_sizes) == len(self.column_sizes)


def contingency_table(
    labels_true: Labels | None = None,
    labels_pred: Labels | None = None,
    *,
    contingency: Any = None,
    ignore_label: Hashable = None,
) -> ContingencyTable:
    """Contingency table of two labelings, or the one given; O(n).

    Parameters
    ----------
    labels_true, labels_pred : sequences of n hashable labels, or Partition
        The two partitions; the names of the labels do not matter.
    contingency : ContingencyTable or dense or sparse (K, K′) array of counts, optional
        The table itself, instead of the labels.
    ignore_label : hashable, optional
        Samples with this label in either labeling are left out (e.g. −1 for noise).

    Raises
    ------
    ValueError
        If there are no samples, the lengths differ, or a label is None or NaN.
    """
    if contingency is None:
        if labels_true is None or labels_pred is None:
            raise ValueError(
                "Comparing partitions needs labels_true and labels_pred, or contingency=; "
                "pass either both labelings or one table."
            )
        return ContingencyTable.from_labels(labels_true, labels_pred, ignore_label)
    if labels_true is not None or labels_pred is not None or ignore_label is not None:
        raise ValueError(
            "Comparing partitions needs either labels or contingency=, got both; a table has no "
            "labels left to compare or to ignore."
        )
    if isinstance(contingency, ContingencyTable):
        return contingency
    return ContingencyTable.from_array(contingency)


def label_codes(labels: Labels) -> NDArray[np.int64]:
    """Integers ≥ 0, equal exactly where the labels are: O(n) for integers in a small range."""
    values = _as_array(labels)
    if values.ndim == 1 and values.size and values.dtype.kind in "biu":
        low, high = int(values.min()), int(values.max())
        if high - low < 4 * values.size + 1024:
            if values.dtype.kind == "u":
                return (values - values.dtype.type(low)).astype(np.int64)
            codes = values.astype(np.int64, copy=False)
            return codes - low if low else codes
    if values.dtype.kind in "cmM" and np.any(values != values):
        raise ValueError("Comparing partitions needs labels without NaN or NaT; remove them.")
    return Partition.from_labels(values).labels


def plot_contingency(
    labels_true: Labels | None = None,
    labels_pred: Labels | None = None,
    *,
    contingency: Any = None,
    ignore_label: Hashable = None,
) -> Figure:
    """Heat map of the table, ordered by the best matching so that agreement is on the diagonal.

    Shades are shares of the true cluster; counts are written in while the table is small.
    Returns a matplotlib figure that belongs to no window. O(K³) at worst; at most 4 million cells.
    """
    from matplotlib.figure import Figure

    from metriclearn.indices.matching import matched_order

    table = contingency_table(
        labels_true, labels_pred, contingency=contingency, ignore_label=ignore_label
    )
    if len(table.row_sizes) * len(table.column_sizes) > _DRAWN_CELLS:
        raise ValueError(
            f"plot_contingency draws at most {_DRAWN_CELLS} cells, got {len(table.row_sizes)} × "
            f"{len(table.column_sizes)} clusters; merge or leave out small ones."
        )
    rows, columns = matched_order(table)
    counts = table.to_array()[np.ix_(rows, columns)]
    shares = counts / table.row_sizes[rows, None]
    height, width = 1.4 + 0.32 * min(len(counts), 20), 2.6 + 0.36 * min(len(columns), 20)
    figure = Figure(figsize=(max(width, 4.2), max(height, 2.6)), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    if counts.size <= 150:
        for (k, l), count in np.ndenumerate(counts):  # noqa: E741
            color = "white" if shares[k, l] > 0.55 else "#1f2328"
            if count:
                axes.text(l, k, f"{count:,}", ha="center", va="center", fontsize=8, color=color)
        axes.set(xticks=range(len(columns)), xticklabels=columns)
        axes.set(yticks=range(len(rows)), yticklabels=rows)
    matched = int(np.trace(counts))
    axes.set(xlabel="predicted cluster", ylabel="true cluster")
    axes.set_title(
        f"{matched / table.n_samples:.0%} of {table.n_samples:,} samples on the diagonal",
        loc="left",
        fontsize=10,
        fontweight="bold",
    )
    figure.colorbar(image, ax=axes, label="share of the true cluster", shrink=0.9)
    return figure


def _as_array(labels: Labels) -> NDArray:
    if isinstance(labels, Partition):
        return labels.labels
    if isinstance(labels, np.ma.MaskedArray):
        raise ValueError(
            "Comparing partitions needs arrays without a mask; pass labels.filled(-1) and "
            "ignore_label=-1."
        )
    if isinstance(labels, np.ndarray):
        return labels if labels.ndim else _no_sequence(labels)
    if not isinstance(labels, Iterable):
        return _no_sequence(labels)
    if not hasattr(labels, "__array__"):
        labels = labels if isinstance(labels, list | tuple) else list(labels)
        return _faithful(labels)
    return np.asarray(labels)


def _no_sequence(labels: Any) -> NDArray:
    raise ValueError(
        f"Comparing partitions needs a sequence of labels, got {labels!r}; pass one per sample."
    )


def _faithful(labels: list | tuple) -> NDArray:
    """The labels as an array in which no two different labels became equal.

    NumPy turns [1, "1"] into strings and [2**63, -1] into floats; such lists stay objects.
    """
    try:
        values = np.asarray(labels)
    except (ValueError, OverflowError):  # ragged tuples
        values = np.empty((len(labels), 0))
    kind = values.dtype.kind
    if values.ndim == 1 and (
        kind in "biu"
        or (kind in "US" and all(isinstance(label, str | bytes) for label in labels))
        or (kind == "f" and not any(_huge_integer(label) for label in labels))
    ):
        return values
    values = np.empty(len(labels), dtype=object)
    values[:] = labels
    return values


def _huge_integer(label: Hashable) -> bool:
    return isinstance(label, int) and abs(label) > _EXACT_INTEGER


def _differs(values: NDArray, label: Hashable) -> NDArray[np.bool_]:
    if label != label:  # NaN, the only label that differs from itself
        return values == values
    return np.broadcast_to(np.asarray(values != label, dtype=bool), values.shape)


def _counts(values: NDArray) -> NDArray[np.int64]:
    if values.dtype.kind not in "biuf" or not np.all(np.isfinite(values)):
        raise ValueError("A contingency table needs finite counts; replace missing ones by 0.")
    if np.any(values < 0) or np.any(values != np.floor(values)):
        raise ValueError(
            "A contingency table needs whole, non-negative counts, got others; pass the number of "
            "samples per cell, not shares."
        )
    if values.sum(dtype=np.float64) >= 2.0**62:
        raise ValueError("A contingency table needs fewer than 2**62 samples in all.")
    return values.astype(np.int64)


def _positive(n_samples: int) -> int:
    if n_samples == 0:
        raise ValueError("A contingency table needs at least one positive count, got none.")
    return n_samples


def _compress(
    codes: NDArray, counts: NDArray, n_codes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Codes renumbered without gaps, and the total count of each."""
    used = np.zeros(n_codes, dtype=bool)
    used[codes] = True
    if not used.all():
        codes = (np.cumsum(used) - 1)[codes]
    sizes = np.zeros(int(used.sum()), dtype=np.int64)
    np.add.at(sizes, codes, counts)
    return codes.astype(np.int64, copy=False), sizes
