"""Gaps: rows with missing values are left out or filled, and labels and answers follow the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.problem.partial_labels import PartialPartition
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import OneOf, Whole
from metriclearn.running.values import check_each
from metriclearn.views.plain import PlainView, is_one, leaves_out

Truth = Partition | PartialPartition


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of training recordings, which were read once.

    Attributes
    ----------
    partitions : sequence of Partition or PartialPartition
        The labels as partitions, one per recording.
    codes : list of int arrays (T_i,), optional
        The names of the rows as codes, −1 where unknown. None if the labels are not names.
    classes : array (C,), optional
        The names; the code c stands for ``classes[c]``.
    weights : array (N,), optional
        The weights of the recordings; equal by default.

    See Also
    --------
    Posteriors : a view that is fitted to names.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn import Partition
    >>> from metriclearn.views import Labels
    >>> labels = Labels([Partition.from_runs([0, 0, 1, 1])])
    >>> labels.at([np.array([0, 3])]).partitions[0].change_points.tolist()
    [1, 2]
    """

    partitions: Sequence[Truth]
    codes: Sequence[NDArray[np.int64]] | None = None
    classes: NDArray | None = None
    weights: NDArray[np.float64] | None = None

    def subset(self, places: Sequence[int] | NDArray) -> Labels:
        """Return the labels of the recordings at the given places."""
        codes = None if self.codes is None else [self.codes[i] for i in places]
        weights = None if self.weights is None else self.weights[places]
        return Labels([self.partitions[i] for i in places], codes, self.classes, weights)

    def at(self, kept: Sequence[NDArray[np.int64]]) -> Labels:
        """Return the labels of the kept rows of every recording."""
        codes = None if self.codes is None else [c[k] for c, k in zip(self.codes, kept)]
        partitions = [truth.at(rows) for truth, rows in zip(self.partitions, kept)]
        return Labels(partitions, codes, self.classes, self.weights)


def labels_behind(view: Any, X: Sequence[NDArray], labels: Labels) -> Labels:
    """Return the labels of the rows that a fitted view keeps; the view may be None."""
    return labels.at(view.kept(list(X))) if leaves_out(view) else labels


def labels_for(view: Any, y: Any, arrays: Sequence[NDArray], *, names: bool = False) -> Labels:
    """Return labels of recordings for a view that is fitted to them.

    Raises ValueError for anything else.
    """
    who, lengths = type(view).__name__, list(map(len, arrays))
    if not isinstance(y, Labels):
        raise ValueError(
            f"{who} learns from labels and needs y as Labels, got {type(y).__name__}; pass "
            "metriclearn.views.Labels, or give the view to a learner."
        )
    if names and (y.codes is None or y.classes is None):
        raise ValueError(
            f"{who} needs names of the rows, got labels that are not names; pass Labels with "
            "codes and classes, or take another view."
        )
    check_each(who, "labeling", len(y.partitions), "recordings", len(lengths))
    for truth, length in zip(y.partitions, lengths):
        check_each(who, "label", truth.n_samples, "rows", length)
    return y


def borders(kept: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions (n−1,) of changes between kept rows: the middle of each gap."""
    return (kept[:-1] + kept[1:] + 1) // 2


def placed(ends: NDArray[np.int64], kept: NDArray[np.int64], n_rows: int) -> NDArray[np.int64]:
    """Convert ends of segments of the kept rows, (K,), to ends of segments of all T rows, (K,)."""
    return np.append(borders(kept)[ends[:-1] - 1], n_rows)


@dataclass(eq=False, repr=False)
class LeaveOut(PlainView):
    """Keep only the rows without a NaN, or interpolate the rows that have a number.

    A change in a gap is placed in the middle of the gap, see :func:`placed`. Rows on the two sides
    of a gap become neighbors, so in a :class:`~metriclearn.views.Chain` no view that reads
    neighbors may follow.

    Parameters
    ----------
    fill : bool, optional
        Whether to interpolate the NaN of rows that have a number, as :class:`Fill` does, and to
        leave out only rows without any number.

    Raises
    ------
    ValueError
        If a recording has no row without a NaN or, with ``fill``, no number in a column.

    See Also
    --------
    Fill : interpolates each column instead.

    References
    ----------
    Little & Rubin, Statistical Analysis with Missing Data, 3rd edition, 2019, section 3.2
    (complete cases).

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.views import LeaveOut
    >>> X = [np.array([[0.0], [np.nan], [2.0]])]
    >>> LeaveOut().fit_transform(X)[0].tolist(), LeaveOut().kept(X)[0].tolist()
    ([[0.0], [2.0]], [0, 2])
    >>> X = [np.array([[0.0, 5.0], [np.nan, 6.0], [np.nan, np.nan], [3.0, 7.0]])]
    >>> LeaveOut(fill=True).fit_transform(X)[0].tolist()
    [[0.0, 5.0], [1.0, 6.0], [3.0, 7.0]]
    """

    missing = True
    keeps_all = False

    fill: bool = False

    @property
    def reach(self) -> tuple[int, int] | None:
        """No other rows; with ``fill`` None, because gaps have any length."""
        return None if self.fill else (0, 0)

    def kept(self, X: Any) -> Any:
        """Return the numbers of the rows that are kept, for every recording."""
        rows = [np.flatnonzero(self._has_values(array)) for array in self.read(X)]
        return rows[0] if is_one(X) else rows

    def rows(self, X: NDArray) -> NDArray[np.float64]:
        """Return the rows that are kept."""
        return (Fill().rows(X) if self.fill else X)[self._has_values(X)]

    def _has_values(self, X: NDArray) -> NDArray[np.bool_]:
        known = ~np.isnan(X)
        return known.any(axis=1) if self.fill else known.all(axis=1)

    def read(self, X: Any, *, fitting: bool = False) -> list[NDArray[np.float64]]:
        """Return the recordings; each needs a row, or a number in each column, to keep."""
        arrays = super().read(X, fitting=fitting)
        for i, array in enumerate(arrays):
            never = np.flatnonzero(np.isnan(array).all(axis=0))
            if len(never) if self.fill else not self._has_values(array).any():
                what = f"column {never[0]} is NaN in every row" if len(never) else "each has a NaN"
                remedy = "drop this column" if len(never) else "take Fill"
                raise ValueError(
                    f"LeaveOut needs a row without NaN, but in recording {i} {what}; {remedy}, or "
                    "leave the recording out."
                )
        return arrays


@dataclass(eq=False, repr=False)
class Fill(PlainView):
    """Interpolate each column linearly between the numbers before and after a gap.

    Before the first number of a column, and after its last one, the nearest number is repeated.

    Parameters
    ----------
    longest : int, optional
        The longest gap that is filled, in rows. Longer gaps are refused. With this limit a row
        depends only on so many rows before and after it, so a stream can be filled, too.

    Raises
    ------
    ValueError
        If a column of a recording has no number, or a gap is longer than ``longest``.

    See Also
    --------
    LeaveOut : leaves rows out instead.
    metriclearn.regular : cuts recordings at long gaps.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.views import Fill
    >>> Fill().fit_transform([np.array([[np.nan], [0.0], [np.nan], [2.0]])])[0][:, 0].tolist()
    [0.0, 0.0, 1.0, 2.0]
    """

    missing = True

    longest: Annotated[int | None, OneOf(None, Whole(1))] = None

    @property
    def reach(self) -> tuple[int, int] | None:
        """The longest gap, on both sides."""
        return None if self.longest is None else (self.longest, self.longest)

    def rows(self, X: NDArray) -> NDArray[np.float64]:
        """Fill one recording."""
        filled, unknown = X.copy(), np.isnan(X)
        for p in np.flatnonzero(unknown.any(axis=0)):
            gap = np.flatnonzero(unknown[:, p])
            known = np.flatnonzero(~unknown[:, p])
            # Halves, because the difference of two numbers may be too large.
            filled[gap, p] = 2.0 * np.interp(gap, known, X[known, p] / 2.0)
        return filled

    def read(self, X: Any, *, fitting: bool = False) -> list[NDArray[np.float64]]:
        """Return the recordings; each needs a number in every column, and no gap too long."""
        arrays = super().read(X, fitting=fitting)
        for i, array in enumerate(arrays):
            unknown = np.isnan(array)
            if (never := np.flatnonzero(unknown.all(axis=0))).size:
                raise ValueError(
                    f"Fill needs a number in every column, but column {never[0]} of recording {i} "
                    "has none; drop this column, or leave the recording out."
                )
            steps = np.diff(unknown.T.astype(np.int8), axis=1, prepend=0, append=0)
            runs = np.nonzero(steps == -1)[1] - np.nonzero(steps == 1)[1]  # their lengths
            longest = int(np.max(runs, initial=0))
            if self.longest is not None and longest > self.longest:
                raise ValueError(
                    f"Fill needs gaps of at most longest={self.longest} rows, got one of {longest} "
                    f"in recording {i}; raise longest, or cut the recording at the gap."
                )
        return arrays
