"""The times of the rows of a table, and their rate."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.running.notes import note
from metriclearn.running.time_forms import FORMS, Form

_HOLE = 2.0  # a longer step, in medians, is a hole
_NEAR = 1e-6  # rows


@dataclass(frozen=True, eq=False)
class Times:
    """The times of the rows of a table.

    Attributes
    ----------
    seconds : (T,) float64 array
        Seconds since the first row. They increase.
    form : Form
        How the times are written.
    origin : float
        The time of the first row, in units of the form.
    who : str
        The function or the file that has these times.
    starts : (T,) int array, optional
        The first of the rows of each time, if several rows of the table may have the same time.
    duplicates : str, optional
        Which row stands for several of the same time: the "first" one, or the "mean" of all.
    """

    seconds: NDArray[np.float64]
    form: Form
    origin: float = 0
    who: str = "The table"
    starts: NDArray[np.intp] | None = None
    duplicates: str | None = None

    def distinct(self, rows: NDArray) -> NDArray:
        """Return one row of a table for each time. Labels come from the first row of each time."""
        if self.starts is None:
            return rows
        if self.duplicates == "mean" and rows.dtype.kind == "f":
            return mean_rows(rows, self.starts)
        return rows[self.starts]

    @property
    def holes(self) -> NDArray[np.intp]:
        """The rows after a hole, that is, after a step of more than twice the median."""
        steps = np.diff(self.seconds)
        return np.flatnonzero(steps > _HOLE * (np.median(steps) if len(steps) else 0.0)) + 1

    @property
    def steps(self) -> NDArray[np.float64]:
        """The seconds between successive rows, without holes."""
        return np.delete(np.diff(self.seconds), self.holes - 1)

    @property
    def rate(self) -> float:
        """Rows per second: the number of steps by the time that they take; NaN for one row.

        It has nine digits, because times are rounded, too.
        """
        steps = self.steps
        return float(f"{len(steps) / steps.sum():.9g}") if len(steps) else float("nan")

    def at(self, rows: ArrayLike) -> NDArray[np.float64]:
        """Return the seconds at which rows begin. Row T begins a step after the last one.

        Rows may have fractions.
        """
        places = np.asarray(rows, dtype=np.float64)
        row = np.clip(places.astype(np.int64), 0, len(self.seconds) - 1)
        return self.seconds[row] + (places - row) * self._widths[row]

    def rows(self, seconds: ArrayLike) -> NDArray[np.float64]:
        """Return the places of times in rows, with fractions: the inverse of :meth:`at`.

        A time in a hole belongs to the end of the row before it.
        """
        given, widths = np.asarray(seconds, dtype=np.float64), self._widths
        row = np.maximum(np.searchsorted(self.seconds, given, side="right") - 1, 0)
        part = (given - self.seconds[row]) / widths[row]
        return row + np.where(row < len(self.seconds) - 1, np.minimum(part, 1.0), part)

    @property
    def _widths(self) -> NDArray[np.float64]:
        """The seconds that each row lasts; one before a hole, and the last one, last a step."""
        step = 1 / self.rate if len(self.seconds) > 1 else 1.0
        widths = np.append(np.diff(self.seconds), step)
        widths[self.holes - 1] = step
        return widths

    def nearer_rate(self, needed: float) -> float:
        """Return the rate as a whole, or the usual one, as some rows may be lost."""
        usual = 1 / float(np.median(np.diff(self.seconds)))
        return min(self.rate, usual, key=lambda one: max(one / needed, needed / one))

    def matches(self, needed: float) -> bool:
        """Tell whether rows come at the rate of a model, up to a tenth, as a whole or usually.

        Raises
        ------
        ValueError
            If they come more slowly.

        Warns
        -----
        UserWarning
            If they come faster: the caller has to average them.
        """
        if len(self.seconds) < 2:
            return True
        rate = self.nearer_rate(needed)
        if rate < needed / 1.1:
            raise ValueError(
                f"{self.who} has {rate:.6g} rows per second, but the model needs {needed:.6g} rows "
                "per second; interpolate the rows (metriclearn.regular), or learn from tables of "
                "this rate."
            )
        if rate > 1.1 * needed:
            note(
                f"{self.who} has {rate:.6g} rows per second and the model {needed:.6g}, so rows "
                "are averaged."
            )
            return False
        return True

    def firsts(self, rate: float) -> NDArray[np.intp]:
        """Return the first row in each time of 1/rate seconds. Times without a row are left out."""
        ticks = np.floor(self.seconds * rate + _NEAR)
        return np.flatnonzero(np.diff(ticks, prepend=-1))


def mean_rows(rows: NDArray[np.float64], starts: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the mean of the known values in each group of rows; NaN where none is known.

    Parameters
    ----------
    rows : array (T, P)
    starts : int array (G,)
        The first row of each group.
    """
    known = ~np.isnan(rows)
    sums = np.add.reduceat(np.where(known, rows, 0.0), starts, axis=0)
    counts = np.add.reduceat(known.astype(np.int64), starts, axis=0)
    return np.where(counts, sums / np.maximum(counts, 1), np.nan)


def tick(seconds: float, rate: float) -> int:
    """Return the number of 1/rate seconds before a row, see :meth:`Times.firsts`."""
    return floor(seconds * rate + _NEAR)


def evenly(n_rows: int, rate: float) -> Times:
    """Return the times of rows that follow one another in 1/rate seconds."""
    return Times(np.arange(n_rows) / rate, FORMS[0])
