"""Put time-stamped tables on a regular grid, and find the times of change-points."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.problem.partition import Partition
from metriclearn.running.extras import optional
from metriclearn.running.parameters import Needs, Positive, needs
from metriclearn.running.row_times import Times
from metriclearn.running.times import plain_index, read_times
from metriclearn.running.values import dimensions, shown

if TYPE_CHECKING:
    import pandas as pd

_NEAR = 1e-6  # steps; times that differ by less are equal
_NAMES = Needs(
    '{name}=["label"] as a list of columns',
    lambda v: isinstance(v, (list, tuple)) and all(isinstance(name, str) for name in v),
)


@needs
def regular(
    frame: Any,
    rate: Annotated[float, Positive()],
    longest_gap: Annotated[float, Positive()],
    *,
    time: str | None = None,
    held: Annotated[Sequence[str], _NAMES] = (),
) -> list[pd.DataFrame]:
    """Put a time-stamped table on a regular grid, and cut it into pieces at long gaps.

    The grid t_0 + i/rate starts at the first time. Columns of numbers are interpolated linearly at
    the times of the grid, between the last known number and the next one. In all other columns, a
    row has the last value that is known at its time. If two successive known numbers of a column
    are more than ``longest_gap`` seconds apart, there is a long gap between them. No piece has rows
    in a long gap, and a new piece begins after it. Nothing is extrapolated.

    Interpolation uses only the two samples next to a time of the grid. If ``rate`` is far below the
    rate of the data, average first (``frame.resample`` in pandas). The cost is O(rows of the table
    and of the pieces) for each column.

    Parameters
    ----------
    frame : pandas data frame or series, or a frame of polars
        The table. NaN, None and null mean that a value is unknown.
    rate : float
        Rows per second.
    longest_gap : float
        The longest gap that is interpolated, in seconds. This limit must be at least the usual time
        between two rows.
    time : str, optional
        The column of the times. By default the times are the index. Times are numbers, time stamps,
        clock times or durations, also as texts. Numbers are seconds, unless their name ends in
        ``_ms``, ``_us`` or ``_ns``, or their size tells that they count such units since 1970.
    held : sequence of str
        Columns of numbers that are not interpolated, such as codes of labels. These columns keep
        the last known value.

    Returns
    -------
    list of pandas data frames
        The pieces in order of time. A piece is indexed by time and has no column of times.

    Raises
    ------
    ValueError
        If times are missing, repeated or do not increase, no column has numbers, or there is no
        time at which all columns can be interpolated.

    See Also
    --------
    change_times : gives the times of change-points.
    metriclearn.views.LeaveOut : leaves out rows that are unknown.

    Examples
    --------
    >>> import pandas as pd
    >>> from metriclearn import regular
    >>> walk = pd.DataFrame({"speed": [0.0, 1.0, 3.0, 8.0]}, index=[0.0, 1.1, 2.9, 9.0])
    >>> first, second = regular(walk, rate=1, longest_gap=2)
    >>> first["speed"].round(2).tolist(), second.index.tolist()
    ([0.0, 0.91, 2.0], [9.0])
    """
    pd = optional("pandas", "tables")
    table, times, read = _read("regular", frame, time, held)
    steps = read.seconds * rate
    if len(steps) > 1 and np.median(np.diff(steps)) > longest_gap * rate * (1 + _NEAR):
        raise ValueError(
            f"regular needs longest_gap of at least {np.median(np.diff(steps)) / rate:.3g} s, the "
            f"usual time between two rows, got {longest_gap:g}; times count in seconds."
        )
    grid = _grid(steps, longest_gap * rate)
    columns: dict[Any, Any] = {}
    covered, any_number = np.ones(len(grid), dtype=bool), False
    for name, column in table.items():
        kind = column.dtype
        numeric = pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_bool_dtype(kind)
        if not numeric or name in held:
            held_rows = column.set_axis(steps).dropna()
            columns[name] = held_rows.reindex(grid + _NEAR, method="ffill").array
            continue
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        known = ~np.isnan(values)
        if not known.any() or np.isinf(values).any():
            raise ValueError(
                f"regular needs finite numbers in column {name!r}, or NaN where they are unknown, "
                f"got {'no number' if not known.any() else 'inf'}; drop this column, or correct it."
            )
        any_number = True
        columns[name] = np.interp(grid, steps[known], values[known])
        covered &= _covered(grid, steps[known], longest_gap * rate)
    if not any_number:
        raise ValueError(
            f"regular needs a column of numbers, got {shown(list(table.columns))}; convert one, or "
            f"take it out of held={list(held)}."
        )
    if not covered.any():
        raise ValueError(
            f"regular needs a time at which all columns have numbers at most {longest_gap:g} s "
            "away, but there is none; raise longest_gap, or drop columns that are mostly unknown."
        )
    whole = pd.DataFrame(columns, index=_moved(times[:1], grid / rate, read))
    rows = np.flatnonzero(covered)
    pieces = np.split(rows, np.flatnonzero(np.diff(grid[rows]) > 1) + 1)
    return [whole.iloc[piece[0] : piece[-1] + 1] for piece in pieces]


def change_times(frame: Any, ends: ArrayLike, *, time: str | None = None) -> pd.Index:
    """Return the times of change-points: seconds, time stamps or durations, as in the frame.

    A change-point has the time of the first row after it. The last change-point, T, gets the time
    of the last row plus the median step, because that is where the next row would be.

    Parameters
    ----------
    frame : data frame or series with T rows, or (T,) times
    ends : sequence of int
        Change-points as ``predict_change_points`` returns them. The last one, T, may be left out.
    time : str, optional
        The column of the times. By default the times are the index.

    Returns
    -------
    pandas index (K,)

    Raises
    ------
    ValueError
        If times are missing or do not increase, or ``ends`` are not change-points of T samples.

    See Also
    --------
    regular : puts a time-stamped table on a grid.

    Examples
    --------
    >>> import pandas as pd
    >>> from metriclearn import change_times
    >>> hours = pd.date_range("2026-01-01", periods=4, freq="h")
    >>> change_times(hours, [3, 4]).strftime("%H:%M").tolist()
    ['03:00', '04:00']
    """
    _, times, read = _read("change_times", frame, time)
    partition = Partition.from_change_points(ends, len(times))
    step = np.median(np.diff(read.seconds)) if len(times) > 1 else 0.0
    return times.append(_moved(times[-1:], np.array([step]), read))[partition.change_points]


def _read(
    who: str, frame: Any, time: str | None, held: Sequence[Any] = ()
) -> tuple[pd.DataFrame, pd.Index, Times]:
    """Return a table without its column of times, the times, and what they mean.

    Times that are texts become time stamps or durations. Raises ValueError unless there is a time
    for every row, times increase and columns are ``held`` that are there.
    """
    pd = optional("pandas", "tables")
    if hasattr(frame, "iloc"):
        table = pd.DataFrame(frame)
    elif hasattr(frame, "columns"):  # a polars data frame
        table = pd.DataFrame({name: frame[name].to_numpy() for name in frame.columns})
    elif dimensions(frame) == 1:
        table = pd.DataFrame(index=pd.Index(frame))
    else:
        raise ValueError(
            f"{who} needs a data frame, or the times of its rows as a 1-D array, got "
            f"{shown(frame)}."
        )
    if time is not None and not (isinstance(time, Hashable) and time in table.columns):
        raise ValueError(
            f"{who} needs time as the name of a column, one of {shown(list(table.columns))}, got "
            f"{time!r}; leave it out if times are the index."
        )
    if unknown := [name for name in held if name not in table.columns]:
        raise ValueError(
            f"{who} needs held as names of columns, some of {shown(list(table.columns))}, got "
            f"{unknown[0]!r}; correct it."
        )
    if not table.columns.is_unique:
        raise ValueError(
            f"{who} needs columns of different names, got {shown(list(table.columns))}."
        )
    times = pd.Index(table.index if time is None else table.pop(time))
    times = plain_index(times)
    if isinstance(times, pd.RangeIndex):
        raise ValueError(
            f"{who} needs a time for every row, but the index only counts them; name the column "
            'of times (time="…"), or make them the index (frame.set_index).'
        )
    read = read_times(who, times, None if times.name is None else str(times.name), dated=True)
    try:
        stamps = _of_texts(times, read) if times.dtype.kind not in "Mmiuf" else times
        if stamps.dtype.kind in "Mm":
            stamps[[0, -1]].as_unit("ns")  # type: ignore[union-attr]
    except (pd.errors.OutOfBoundsDatetime, pd.errors.OutOfBoundsTimedelta, OverflowError):
        raise ValueError(
            f"{who} needs times in the years 1678 to 2261, got {times[0]} to {times[-1]}; correct "
            "the years."
        ) from None
    return table, stamps, read


def _of_texts(times: pd.Index, read: Times) -> pd.Index:
    """Convert times that were read from texts or objects to numbers, stamps or durations."""
    pd = optional("pandas", "tables")
    if read.form.title == "numbers":
        first = float(read.origin)
    elif read.form.is_stamp:
        first = pd.Timestamp(int(read.origin), tz="UTC" if "zone" in read.form.title else None)
    else:
        first = pd.Timedelta(int(read.origin), "ns")
    return _moved(pd.Index([first], name=times.name), read.seconds, read)


def _moved(times: pd.Index, seconds: NDArray, read: Times) -> pd.Index:
    """Return the times that are ``seconds`` after the first of ``times``."""
    pd = optional("pandas", "tables")
    if times.dtype.kind in "Mm":
        nanoseconds = np.rint(seconds * 1e9).astype(np.int64)
        return (times[0] + pd.to_timedelta(nanoseconds, unit="ns")).rename(times.name)
    return pd.Index(times[0] + seconds * read.form.per_second, name=times.name)


def _grid(steps: NDArray, longest: float) -> NDArray[np.int64]:
    """Return the row numbers i of the grid, from the first time to the last.

    Rows in long gaps are left out, because such gaps may last months.
    """
    stretches = np.split(steps, np.flatnonzero(np.diff(steps) > longest + _NEAR) + 1)
    firsts = [int(np.ceil(part[0] - _NEAR)) for part in stretches]
    lasts = [int(part[-1] + _NEAR) for part in stretches]
    return np.concatenate([np.arange(a, b + 1) for a, b in zip(firsts, lasts)])


def _covered(grid: NDArray, known: NDArray, longest: float) -> NDArray[np.bool_]:
    """Return a mask of the grid's rows that lie at a known number, or between two close ones.

    Two successive known numbers are close if they are at most ``longest`` apart.
    """
    before = np.searchsorted(known, grid + _NEAR, side="right") - 1
    after = np.searchsorted(known, grid - _NEAR)
    inside = (before >= 0) & (after < len(known))
    gap = known[np.minimum(after, len(known) - 1)] - known[np.maximum(before, 0)]
    return inside & (gap <= longest + _NEAR)
