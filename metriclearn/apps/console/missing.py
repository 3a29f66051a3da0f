"""Missing values of tables on the console: all are interpolated, or those of short gaps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from math import floor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import metriclearn
from metriclearn import datasets
from metriclearn.running import Times, note

_REMEDY = "interpolate short gaps (--fill SECONDS)"
# What a table needs, and how to get it: without a longest gap that is interpolated, and with one.
_NEEDS = {
    False: ("a value in every column", "leave columns out (--ignore COLUMN)"),
    True: ("a row without a missing value", "interpolate longer gaps (--fill SECONDS)"),
}


def rows_in(seconds: float | None, rate: float) -> int:
    """Return how many rows a time lasts."""
    return floor((seconds or 0.0) * rate + 1e-6)


def filled(X: NDArray[np.float64], longest: float) -> NDArray[np.float64]:
    """Interpolate each column of X (T, P) in gaps of at most so many rows; others stay NaN."""
    unknown = np.isnan(X)
    some = ~unknown.all(axis=0)
    if not longest or not unknown[:, some].any():
        return X
    result = X.copy()
    result[:, some] = metriclearn.views.Fill().fit_transform([X[:, some]])[0]
    for column, gaps in zip(result.T, unknown.T):
        ends = metriclearn.Partition.from_runs(gaps).change_points
        sizes = np.diff(ends, prepend=0)
        column[gaps & (np.repeat(sizes, sizes) > longest)] = np.nan
    return result


def prepared(
    data: datasets.LabeledSequences,
    times: Mapping[str, Times],
    fill: float | None,
    rate: float,
    unknown: str | None,
) -> datasets.LabeledSequences:
    """Prepare tables for learning, and omit tables of which nothing can be learned.

    Without ``fill``, these are tables with a column without any value, otherwise those in which
    every row has missing values.

    Parameters
    ----------
    data : LabeledSequences
    times : mapping
        The times of the rows by the name of the recording. Rows of one time become one.
    fill : float, optional
        Gaps of at most so many seconds are interpolated. By default all are, by a view.
    rate : float
        Rows per second.
    unknown : str, optional
        The label of unlabeled rows. If they are at most half of all rows, they are omitted, unless
        a boundary is near.

    Raises
    ------
    ValueError
        If nothing can be learned of any table, or no row has the label ``unknown``.
    """
    X, y = list(data.sequences), list(data.labels)
    for i, name in enumerate(data.names):
        if name in times and len(times[name].seconds) < len(X[i]):
            X[i], y[i] = times[name].distinct(X[i]), times[name].distinct(y[i])
        X[i] = filled(X[i], rows_in(fill, rate))
    data = replace(data, sequences=X, labels=y)
    data = data if unknown is None else data.with_unlabeled(unknown)
    wanted, remedy = _NEEDS[fill is not None]
    known = [i for i, rows in enumerate(data.sequences) if _is_usable(rows, fill)]
    if not known:
        raise ValueError(f"No table of {data.name!r} has {wanted}; {remedy}.")
    if len(known) < len(data):
        names = [data.names[i] for i in range(len(data)) if i not in known]
        note(
            f"{', '.join(dict.fromkeys(names))}, or a stretch of it, does not have {wanted} and is "
            f"left out; {remedy}."
        )
    return data.select(known) if len(known) < len(data) else data


def _is_usable(X: NDArray, fill: float | None) -> bool:
    """Return whether every column has a value or, where gaps are left out, a row has all."""
    unknown = np.isnan(X)
    return not (unknown.all(axis=0).any() if fill is None else unknown.any(axis=1).all())


def segments_of_table(
    path: Path,
    segmenter: Any,
    likelihood: float,
    fill: float | None,
    duplicates: str | None,
) -> list[datasets.Segment]:
    """Segment a table of features; rows of one time become one, and gaps are interpolated.

    With ``fill``, only short gaps are. A model that leaves rows with missing values out does so.
    """
    names, time, rate = segmenter.feature_names_in_, segmenter.time, segmenter.rows_per_second
    X = datasets.read_features(path, names=names, likelihood=likelihood).to_numpy()
    times = None
    if time:
        times = datasets.file_times(path, time, rate, duplicates)
        X, rate = times.distinct(X), times.rate if len(times.seconds) > 1 else rate
    X = filled(X, rows_in(fill, rate))
    view, leave_out = segmenter.view_, metriclearn.views.LeaveOut
    if fill is None and isinstance(view, leave_out) and not view.fill:
        fill = 0.0
    gaps = int(np.isnan(X).any(axis=1).sum())
    if gaps == len(X) and fill is not None:
        wanted, remedy = _NEEDS[True]
        raise ValueError(f"{str(path)!r} needs {wanted}, but has none; {remedy}.")
    if gaps and not isinstance(view, metriclearn.views.Fill):
        who = repr(str(path))
        note(left_out(who, gaps, len(X)) if fill is not None else interpolated(who, gaps, len(X)))
        if view is None or isinstance(view, leave_out):
            segmenter = segmenter.behind(leave_out(fill=fill is None).fit([X]))
    return segmenter.segments(X, times)


def left_out(who: str, count: int, total: int) -> str:
    """Return the note on rows that are left out."""
    return f"{count} of {total} rows of {who} have missing values and are left out; {_REMEDY}."


def interpolated(who: str, count: int, total: int) -> str:
    """Return the note on rows that are interpolated."""
    return (
        f"{count} of {total} rows of {who} have missing values, which are interpolated, or left "
        "out if no column has a value; to fill only short gaps, pass --fill SECONDS."
    )


def filled_stream(
    chunks: Iterable[NDArray[np.float64]], longest: float
) -> Iterator[NDArray[np.float64]]:
    """Interpolate short gaps of rows as they arrive, see :func:`filled`.

    Rows wait while a gap after them may still be short.
    """
    kept, done, run = np.zeros((0, 0)), 0, np.zeros(1)  # rows, and how many of them were given
    for row in chain.from_iterable(chunks):
        kept = np.vstack([kept.reshape(-1, len(row)), row])
        run = np.where(np.isnan(row), run + 1, 0)
        is_open = (run > 0) & (run <= longest)
        ready = len(kept) - int(run[is_open].max(initial=0))
        if ready > done:
            yield filled(kept, longest)[done:ready]
            first = ready - int(min(longest + 1, ready))
            kept, done = kept[first:], ready - first
    if len(kept) > done:
        yield filled(kept, longest)[done:]


class KnownRows:
    """The rows of a stream without missing values, and where each of them was."""

    def __init__(self, who: str) -> None:
        self.who, self.count, self._n_known, self._first = who, 0, 0, 0
        self._places: list[int] = []  # place of each known row from ``_first`` on

    def of(self, chunks: Iterable[NDArray]) -> Iterator[NDArray]:
        """Yield the rows without missing values. Others are left out, with two notes."""
        for rows in chunks:
            known = ~np.isnan(rows).any(axis=1)
            if not known.all() and self._n_known == self.count:
                note(
                    f"Row {self.count + int(np.argmin(known)) + 1} of {self.who} has missing "
                    f"values; such rows are left out; {_REMEDY}."
                )
            self._places += (self.count + np.flatnonzero(known)).tolist()
            self.count, self._n_known = self.count + len(rows), self._n_known + int(known.sum())
            if known.any():
                yield rows[known]
        if self._n_known < self.count:
            lacking = self.count - self._n_known
            note(left_out(self.who, lacking, self.count))

    def place(self, end: int) -> int:
        """Return the row of a change before the known row ``end``: in the middle of a gap.

        The places of rows before it are forgotten.
        """
        del self._places[: end - 1 - self._first]
        self._first = max(end - 1, self._first)
        if len(self._places) < 2:
            return self.count
        return (self._places[0] + self._places[1] + 1) // 2
