"""Read the times of rows: numbers, time stamps, clock times and durations.

Every reader of times in the package calls :func:`read_times`, so that a column means the same
everywhere. Texts are read by a :class:`Form`, one for the whole column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metriclearn.running.extras import optional
from metriclearn.running.notes import note
from metriclearn.running.row_times import Times
from metriclearn.running.time_forms import FORMS, THOUSANDS, Form, duration_of, number_of, numbers

_SAMPLE = 20  # texts of a column that choose its form
_FIRST = 10  # rows of a stream that choose the form and the rate
_REMEDY = "drop one of them, or average these rows"
_FIELDS = ((0, 60), (0, 60), (0, 24), (1, 32), (1, 13))  # seconds to months
MISSING = {"", "nan", "nat", "none", "null", "na", "<na>", "n/a"}  # texts, in lower case
_UNITS = {"ms": 1e3, "µs": 1e6, "ns": 1e9}  # per second
_NAMED = re.compile(
    r"(?:^|[\s_.([/-])(?:(m(?:illi)?s(?:ec(?:ond)?s?)?|millis)|((?:u|µ|μ|micro)s(?:ec(?:ond)?s?)?"
    r"|micros)|(n(?:ano)?s(?:ec(?:ond)?s?)?|nanos))[])]?$",
    re.IGNORECASE,
)


def rate_of(tables: Sequence[Times], column: str) -> float:
    """Return the rows per second of several tables: their steps by the time that these take.

    Holes are left out, and so are tables whose steps are far from the median of all.

    Parameters
    ----------
    tables : sequence of Times
    column : str
        Name of the column of the times, for messages.

    Raises
    ------
    ValueError
        If no table has two rows.

    Warns
    -----
    UserWarning
        If rows are not evenly spaced.
    """
    long = [times for times in tables if len(times.seconds) > 1]
    if not long:
        raise ValueError(
            f"Files of one row have no rate in column {column!r}; pass the rate (rate=…, --rate)."
        )
    every = np.concatenate([np.diff(times.seconds) for times in long])
    step, middles = float(np.median(every)), [float(np.median(times.steps)) for times in long]
    if np.ptp(every) > step or np.ptp(middles) > 0.1 * step:
        note(
            f"Rows are {every.min():g} to {every.max():g} s apart by column {column!r}, and models "
            f"count each as {step:g} s; results have the times of the column."
        )
    near = [times for times, middle in zip(long, middles) if step / 1.5 < middle < 1.5 * step]
    steps = np.concatenate([times.steps for times in near or long])
    return float(f"{len(steps) / steps.sum():.9g}")


def without_times(who: str, column: str, rate: float) -> str:
    """Return the note on a table that lacks the column of times."""
    return (
        f"{who} has no column {column!r} of times, so its rows count as {1 / rate:.6g} s each, as "
        "in the training."
    )


def read_times(
    who: str,
    values: Any,
    column: str | None = None,
    form: Form | None = None,
    first_row: int = 0,
    dated: bool = False,
    duplicates: str | None = None,
    remedy: str = _REMEDY,
) -> Times:
    """Read the times of the rows of a table.

    Parameters
    ----------
    who : str
        The function or the file that needs times, for error messages.
    values : array-like (T,), T ≥ 1
        Numbers (seconds, or a unit that follows from the name of the column or the size of the
        numbers), time stamps, clock times or durations, as texts or as such types of NumPy, pandas
        or Python.
    column : str, optional
        The name of the column.
    form : Form, optional
        How to read texts. By default, the column tells it.
    first_row : int
        The number of the first row in error messages.
    dated : bool
        Whether dates matter, and not only the seconds between them.
    duplicates : "mean" or "first", optional
        Successive rows may have the same time, see :meth:`Times.distinct`. By default, this is an
        error.
    remedy : str
        What helps against equal times, for the error message.

    Returns
    -------
    Times

    Raises
    ------
    ValueError
        If there is no row, a value is missing or not a time, times do not increase, texts can be
        read in two ways that are equally even, or numbers are dates or clock times without marks.
        The message names the first such row.

    Warns
    -----
    UserWarning
        If numbers count, or may count, milliseconds, microseconds or nanoseconds, and if texts can
        be read in two ways, of which one has even steps.
    """
    column_words = "" if column is None else f" in column {column!r}"
    place = _Place(who, column_words, first_row, duplicates is not None, remedy)
    read = _read(place, _plain(values), column, form, dated)
    if duplicates is None:
        return read
    starts = np.flatnonzero(np.diff(read.seconds, prepend=-1.0))
    return replace(read, seconds=read.seconds[starts], starts=starts, duplicates=duplicates)


def _read(
    place: _Place, array: NDArray, column: str | None, form: Form | None, dated: bool
) -> Times:
    """Read the times of rows, some of which may be equal."""
    who, column_words, *_ = place
    if not len(array):
        raise ValueError(f"{who} needs times{column_words}, but there are no rows; add rows.")
    if array.dtype.kind in "mM":
        place.complete(np.isnat(array))
        unit, stamp = np.datetime_data(array.dtype)[0], array.dtype.kind == "M"
        if unit in ("Y", "M"):  # which have no fixed length
            if not stamp:
                raise place.unreadable(0, str(array[0]), "durations of a fixed length")
            array = array.astype("M8[s]")
        second = np.timedelta64(10**9, "ns") if unit == "as" else np.timedelta64(1, "s")
        seconds = (array - array[0]) / second
        place.increasing(seconds, array, stamp)
        return Times(seconds, Form("time stamps" if stamp else "durations", duration_of), who=who)
    if array.dtype.kind in "iuf" and form is None:
        place.complete(np.isnan(array))
        return _read_numbers(place, array, column)
    texts = [str(value).strip() for value in array.tolist()]
    place.complete(np.array([text.lower() in MISSING for text in texts]))
    commas = [text for text in texts if "," in text]
    if form is None and commas and all(map(THOUSANDS.fullmatch, commas)):
        raise ValueError(
            f"{who} has times such as {commas[0]!r}{column_words}; write numbers without a comma "
            "for each thousand, and decimals with a point."
        )
    read = [number_of(text) for text in texts] if form is None else [None]
    if None not in read:
        return _read_numbers(place, np.array(read, dtype=object), column)
    return _read_texts(place, texts, [form] if form else _likely(texts), dated)


class _Place(NamedTuple):
    """Says in error messages where times are wrong."""

    who: str
    column: str
    first_row: int
    may_repeat: bool
    remedy: str

    def complete(self, missing: NDArray[np.bool_]) -> None:
        if missing.any():
            raise ValueError(
                f"{self.who} needs a time for every row{self.column}, but row "
                f"{missing.argmax() + self.first_row} has none ({missing.sum()} such rows); drop "
                "these rows."
            )

    def unreadable(self, row: int, text: str, forms: str) -> ValueError:
        return ValueError(
            f"{self.who} needs {forms}{self.column}, but row {row + self.first_row} has "
            f"{text[:40]!r}; correct or drop this row."
        )

    def ambiguous(self, text: str, first: Form, second: Form, rest: str = "") -> ValueError:
        return ValueError(
            f"{self.who} has times such as {text!r}{self.column} that can be read as "
            f"{first.title} or as {second.title}; write them in full, as 2026-03-31{rest}."
        )

    def note_chosen(self, text: str, first: Form, second: Form) -> None:
        note(
            f"Times such as {text!r}{self.column} are read as {first.title}, because rows are "
            f"evenly spaced then, and not as {second.title}."
        )

    def rises(self, seconds: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return after which steps the times are in order."""
        steps = np.diff(seconds)
        return steps >= 0 if self.may_repeat else steps > 0

    def increasing(self, seconds: NDArray[np.float64], values: Any, local: bool) -> None:
        """Check that times are finite and increase. ``local``: they may have been put back."""
        finite = np.isfinite(seconds)
        if not finite.all():
            row = int(np.argmin(finite))
            raise self.unreadable(row, str(values[row]), "finite times")
        steps, rises = np.diff(seconds), self.rises(seconds)
        if rises.all():
            return
        row = int(np.argmin(rises)) + 1
        number, step = row + self.first_row, steps[row - 1]
        found, remedy = f"rows {number - 1} and {number} both have {values[row]}", self.remedy
        if step < 0:
            found = f"row {number} has {values[row]} after {values[row - 1]}"
            remedy = "sort the rows by time"
        if local and -3600 <= step < -1700:
            remedy = "if clocks were put back there, write times with their zones, else " + remedy
        raise ValueError(
            f"{self.who} needs times that increase{self.column}, but {found}; {remedy}."
        )


def _plain(values: Any) -> NDArray:
    """Convert times to a NumPy array of numbers, datetime64, timedelta64 or objects."""
    if type(values).__module__.startswith("pandas."):
        values = plain_index(optional("pandas", "tables").Index(values))
        if getattr(values.dtype, "tz", None) is not None:
            values = values.tz_convert("UTC").tz_localize(None)
    array = np.asarray(values)
    return array if array.dtype.kind in "iufmM" else array.astype(object)


def plain_index(index: Any) -> Any:
    """Return a pandas index in which periods are their starts; all types that can be are NumPy's.

    Categories, types of Arrow, and objects such as time stamps are converted.
    """
    if hasattr(index.dtype, "tz") or (isinstance(index.dtype, np.dtype) and index.dtype != object):
        return index
    plain = optional("pandas", "tables").Index(index.tolist(), name=index.name)
    return plain.to_timestamp() if plain.inferred_type == "period" else plain


def index_times(index: Any) -> Any:
    """Return the time stamps or durations in the index of a data frame, or one of its levels.

    They may be of any type, also texts. Returns None if the index counts or names rows.
    """
    for level in range(getattr(index, "nlevels", 0)):
        values = plain_index(index.get_level_values(level))
        texts = values[:1].tolist() if values.inferred_type == "string" else []
        if any(form.is_stamp and form.read(one) is not None for form in FORMS for one in texts):
            return values
        if values.inferred_type in ("datetime64", "datetime", "date", "timedelta64", "timedelta"):
            return values
    return None


def _read_numbers(place: _Place, values: NDArray, column: str | None) -> Times:
    """Read numbers. Differences are exact: they are never taken in a type of small integers."""
    exact = values.dtype == object or (values.dtype.kind in "iu" and values.dtype.itemsize == 8)
    wide = np.array(values.tolist(), dtype=object) if exact else values.astype(np.float64)
    if _is_compact(wide.astype(np.float64)):
        raise ValueError(
            f"{place.who} has times such as {values[0]:.0f}{place.column} that look like clock "
            "times or dates without marks; write 10:00:30 or 2026-03-10, or pass the rate."
        )
    passed = np.asarray(wide - wide[0], dtype=np.float64)
    place.increasing(passed, values, local=False)
    unit = _unit(float(wide[0]), passed, column)
    return Times(passed / unit, numbers(unit), wide[0], place.who)


def _is_compact(values: NDArray[np.float64]) -> bool:
    """Tell whether numbers are clock times HHMMSS, dates YYYYMMDD, or stamps of both in a row."""
    least, most = float(values.min()), float(values.max())
    scale = next((n for n in (1, 100, 10**6) if 19e12 <= least * n <= most * n < 21e12), 0)
    if not scale and not 0 <= least <= most < 24e4:
        return False
    fields = [values * (scale or 1) // 100**i % 100 for i in range(5 if scale else 3)]
    if not all(((low <= x) & (x < high)).all() for x, (low, high) in zip(fields, _FIELDS)):
        return False
    if scale:
        return scale < 10**6 or len(values) > 2
    seconds = fields[0] + 60 * fields[1] + 3600 * fields[2] + values % 1
    seconds += 86_400 * np.cumsum(np.diff(seconds, prepend=0.0) < 0)  # after midnight
    clearly = 1.5 if most >= 1e4 else 4.0  # small numbers may well be seconds with holes
    return clearly * _unevenness(seconds) < _unevenness(values) - 1e-9


def _unit(first: float, passed: NDArray[np.float64], column: str | None) -> float:
    """Return the units in a second: 1, unless the name or the size of numbers tells otherwise."""
    where, s = (f"Column {column!r}", "s") if column is not None else ("The times", "")
    if column is not None and (named := _NAMED.search(column)):
        unit = list(_UNITS)[named.lastindex - 1]  # type: ignore[operator]
        why = "by its name; rename it if it does not"
    elif recent := [unit for unit, n in _UNITS.items() if 9.46e8 * n <= first <= 4.1e9 * n]:
        unit, why = recent[0], "since 1970, by the size of the numbers"
    else:
        step = _middle(np.diff(passed))
        if 4 <= step <= 1e10 and step % 60:  # minutes and hours are usual
            unit = "ms" if step <= 1e3 else "µs" if step <= 1e6 else "ns"
            note(
                f"{where} may count {_words(unit)}: rows are {step:g} apart and count as "
                f"{step:g} s; if so, let the name of the column end in _{unit.replace('µ', 'u')}, "
                f"or pass the rate, {_UNITS[unit] / step:.6g} rows per second."
            )
        return 1.0
    note(f"{where} count{s} {_words(unit)} ({unit}), {why}.")
    return _UNITS[unit]


def _words(unit: str) -> str:
    return {"m": "milli", "µ": "micro", "n": "nano"}[unit[0]] + "seconds"


def _likely(texts: Sequence[str]) -> list[Form]:
    """Return the forms that read the most texts of a sample, or no form if none reads one."""
    sample = texts[:: max(1, len(texts) // _SAMPLE)]
    counts = [sum(form.read(text) is not None for text in sample) for form in FORMS]
    most = max(counts)
    return [form for form, count in zip(FORMS, counts) if count == most > 0]


def _read_texts(place: _Place, texts: list[str], forms: list[Form], dated: bool) -> Times:
    """Read texts by the form that reads all, and of several such forms by the one of even steps."""
    if not forms:
        needed = "numbers, time stamps, clock times or durations"
        raise place.unreadable(0, texts[0], needed)
    columns = [(form, [form.read(text) for text in texts]) for form in forms]
    read = [_Reading.of(form, values) for form, values in columns if None not in values]
    if not read:
        form, values = max(columns, key=lambda pair: sum(v is not None for v in pair[1]))
        raise place.unreadable(values.index(None), texts[values.index(None)], form.title)
    # Days before months, if they are read as years, have longer steps, which are more even.
    usual = min([np.ptp(one.seconds) for one in read if not one.form.is_rare], default=np.inf)
    read = [one for one in read if not one.form.is_rare or np.ptp(one.seconds) < usual]
    rising = [one for one in read if place.rises(one.seconds).all()]
    if not rising:
        place.increasing(read[0].seconds, texts, read[0].form.is_stamp)
    ranked = [(_unevenness(one.seconds), one) for one in rising]
    ranked.sort(key=lambda pair: 2 * pair[0] + 1e-6 if pair[1].form.is_rare else pair[0])
    (least, best), *others = ranked
    for uneven, other in others:
        if other.form.is_rare or (other.agrees(best) and (not dated or other.first == best.first)):
            continue
        if uneven <= 2 * least + 1e-6:
            rest = " or 12:30:00" if dated else " or 12:30:00, or pass the rate"
            raise place.ambiguous(texts[0], best.form, other.form, rest)
        place.note_chosen(texts[-1], best.form, other.form)
        break
    return Times(best.seconds, best.form, best.first, place.who)


class _Reading(NamedTuple):
    """What a form reads: the first and the last time in its units, and seconds since the first."""

    form: Form
    first: float
    last: float
    seconds: NDArray[np.float64]

    @classmethod
    def of(cls, form: Form, values: list[Any]) -> _Reading:
        """Read times in units of the form."""
        unrolled = values[:1]
        for value in values[1:]:
            unrolled.append(form.after(unrolled[-1], value))
        passed = np.array([value - values[0] for value in unrolled], dtype=np.float64)
        return cls(form, values[0], unrolled[-1], passed / form.per_second)

    def agrees(self, other: _Reading) -> bool:
        """Tell whether both read the same seconds."""
        return np.allclose(self.seconds, other.seconds, atol=1e-9)

    def then(self, text: str) -> _Reading | None:
        """Read the next time of a stream, or return None."""
        value = self.form.read(text)
        return None if value is None else self._replace(last=self.form.after(self.last, value))

    @property
    def passed(self) -> float:
        """The seconds from the first time to the last one."""
        return (self.last - self.first) / self.form.per_second


def _unevenness(seconds: NDArray[np.float64]) -> float:
    steps = np.diff(seconds)
    steps = steps[steps != 0]  # times may repeat
    middle = _middle(steps)
    return float(np.abs(steps - middle).mean()) / middle if middle else 0.0


def _middle(steps: NDArray[np.float64]) -> float:
    """Return the median of the steps between different times, or 0 without one."""
    steps = steps[steps != 0]
    return float(np.median(steps)) if len(steps) else 0.0


def timed_rows(
    who: str,
    rows: Iterable[tuple[str, Any]],
    column: str,
    may_repeat: bool = False,
    remedy: str = _REMEDY,
) -> tuple[Times, Iterator[tuple[float, Any]]]:
    """Read the times of a stream, in the form of its first rows.

    If several forms give the first rows the same seconds, such as days before months and months
    before days, then the first row where they differ chooses the form whose step is most even.

    Parameters
    ----------
    who, column : str
        As for :func:`read_times`.
    rows : iterable of (time, row)
        At least one.
    may_repeat : bool
        Whether successive rows may have the same time.
    remedy : str
        As for :func:`read_times`.

    Returns
    -------
    Times
        Times of the first rows.
    iterator of (seconds, row)
        All rows, with the seconds since the first one.

    Raises
    ------
    ValueError
        As for :func:`read_times`, and if a later row can be read in two ways, whose steps are
        equally even.
    """
    given = iter(rows)
    first = list(islice(given, _FIRST))
    texts = [text.strip() for text, _ in first]
    duplicates = "first" if may_repeat else None
    times = read_times(who, texts, column, None, 1, duplicates=duplicates, remedy=remedy)
    place = _Place(who, f" in column {column!r}", 1, may_repeat, remedy)
    forms = [times.form]
    if times.form in FORMS[1:]:
        forms += [form for form in _likely(texts) if form != times.form]
    columns = [(form, [form.read(text) for text in texts]) for form in forms]
    read = [_Reading.of(form, values) for form, values in columns if None not in values]
    readings, seconds = [one for one in read if one.agrees(read[0])], read[0].seconds
    after = len(first), texts[-1], _middle(np.diff(seconds))
    return times, chain(
        zip(seconds.tolist(), [row for _, row in first]), _following(place, readings, given, after)
    )


def _following(
    place: _Place,
    readings: list[_Reading],
    rows: Iterator[tuple[str, Any]],
    after: tuple[int, str, float],
) -> Iterator[tuple[float, Any]]:
    """Read the times of a stream after its first rows: so many, the text of the last, a step."""
    count, former, step = after
    for number, (text, row) in enumerate(rows, count):
        here, before = place._replace(first_row=number), readings[0]
        later = [one for reading in readings if (one := reading.then(text.strip()))]
        if not later:
            raise here.unreadable(1, text, before.form.title)
        steps = [one.passed - before.passed for one in later]
        uneven = [abs(one - step) if one > 0 else np.inf for one in steps]
        best = int(np.argmin(uneven))
        others = [i for i, one in enumerate(steps) if abs(one - steps[best]) > 1e-9]
        if others:
            other = min(others, key=uneven.__getitem__)
            forms = later[best].form, later[other].form
            if uneven[other] <= 2 * uneven[best] + 1e-6:
                raise place.ambiguous(text, *forms)
            place.note_chosen(text, *forms)
        later = [one for i, one in enumerate(later) if i not in others]
        here.increasing(np.array([0.0, steps[best]]), [former, text], later[0].form.is_stamp)
        readings, former = later, text
        yield readings[0].passed, row
