"""The forms of times that are texts: numbers, stamps, clock times and durations."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import NamedTuple

from metriclearn.running.extras import optional

_NS = 10**9
_DAY, _HOUR = 86_400 * _NS, 3_600 * _NS
_CLOCK = r"(\d{1,2}):(\d\d)(?::(\d\d)([.,]\d+)?)?\s*([AaPp]\.?[Mm]\.?)?"
_STAMP = re.compile(
    r"(?:(\d{4})([-/.]?)(\d\d?)\2(\d\d?)|(\d\d?)([-/.])(\d\d?)\6(\d{4}|\d\d))"
    rf"(?:(?:\s+|T){_CLOCK})?\s*(Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?",
    re.IGNORECASE,
)
THOUSANDS = re.compile(r"[1-9]\d{0,2}(,\d{3})+(\.\d*)?")  # numbers with a comma for each
_PARTS = re.compile(r"([+-]?)(\d+):(\d\d)([.,]\d+)?")
_TIME = re.compile(
    r"(?:(-?\d+)\s*days?,?\s*\+?)?(-?)(\d+):(\d\d):(\d\d)([.,]\d+)?\s*([AaPp]\.?[Mm]\.?)?"
)
_LENGTH = re.compile(r"(\d+(?:[.,]\d+)?)\s*([a-zµμ]+)\s*", re.IGNORECASE)
_LENGTHS = {
    **dict.fromkeys(("ns", "nanoseconds"), 1),
    **dict.fromkeys(("us", "µs", "μs", "microseconds"), 10**3),
    **dict.fromkeys(("ms", "milliseconds"), 10**6),
    **dict.fromkeys(("s", "sec", "second", "seconds"), _NS),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60 * _NS),
    **dict.fromkeys(("h", "hour", "hours"), _HOUR),
    **dict.fromkeys(("d", "day", "days"), _DAY),
}


class Form(NamedTuple):
    """One way to read times that are texts.

    Attributes
    ----------
    title : str
        Its name, for notes and errors.
    read : callable
        Converts a text to a number, or returns None if the text has another form.
    per_second : float
        How many units of this number are a second.
    turn : int
        The number after which times begin at 0 again, or 0 if they never do.
    """

    title: str
    read: Callable[[str], int | float | None]
    per_second: float = 1e9
    turn: int = 0

    @property
    def is_stamp(self) -> bool:
        """Whether times have dates."""
        return self.title.startswith(("time stamps", "dates"))

    @property
    def is_rare(self) -> bool:
        """Whether times begin with a year of two digits."""
        return "year first" in self.title

    def after(self, before: float, value: float) -> float:
        """Return a time after ``before``: clocks begin again, after at most a quarter of a turn."""
        turns = -(-(before - value) // self.turn) if self.turn and value < before else 0
        later = value + turns * self.turn
        return later if later - before < self.turn / 4 else value


def numbers(per_second: float = 1.0) -> Form:
    """Return the form of numbers, of which ``per_second`` are a second."""
    return Form("numbers", number_of, per_second)


def formatted(form: str) -> Form:
    """Return the form of time stamps that a format of ``strftime`` describes."""
    is_zoned = "%z" in form

    def read(text: str) -> int | None:
        if is_zoned:  # a zone may be written as +01
            text = re.sub(r"([+-]\d\d)$", r"\g<1>00", text) if text.count(":") else text
        try:
            stamp = datetime.strptime(text, form)
        except ValueError:
            return None
        since = stamp.replace(tzinfo=stamp.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        return since // timedelta(microseconds=1) * 1000

    return Form(f"time stamps of the format {form!r}", read)


def number_of(text: str) -> int | float | None:
    """Read a number, with a decimal point or a decimal comma."""
    if re.fullmatch(r"[+-]?\d+", text):
        return int(text)
    if re.fullmatch(r"[+-]?(\d+[.,]?\d*|[.,]\d+)(e[+-]?\d+)?", text, re.IGNORECASE):
        return float(text.replace(",", "."))
    return None


def _fraction(text: str | None) -> int:
    """Convert a decimal fraction of a second, such as ``.25``, to nanoseconds."""
    return int(text[1:10].ljust(9, "0")) if text else 0


def _of_day(hour: int, half: str | None) -> int | None:
    """Return the hour from 0 to 23, if ``half`` says am or pm, else the hour as it is."""
    if not half:
        return hour
    return hour % 12 + 12 * (half[0] in "pP") if 1 <= hour <= 12 else None


def _stamp(first: str, zone: str, text: str) -> int | None:
    """Read a time stamp, as nanoseconds since 1970.

    The first part is the year, the day, the month, or the last two digits of the year (short year).
    """
    if first == "short year":
        text = f"20{text}" if re.match(r"\d\d([-/.])\d\d?\1\d\d(?!\d)", text) else ""
    found = _STAMP.fullmatch(text)
    is_by_year = first not in ("day", "month")
    if not found or bool(found[14]) != bool(zone) or (found[1] is not None) != is_by_year:
        return None
    year, month, day = found[1], found[3], found[4]
    if year is None:
        day, month = (found[5], found[7]) if first == "day" else (found[7], found[5])
        year = found[8] if len(found[8]) == 4 else f"20{found[8]}"
    hour = _of_day(int(found[9] or 0), found[13])
    minute, second = int(found[10] or 0), int(found[11] or 0)
    try:
        days = date(int(year), int(month), int(day)).toordinal() - 719_163  # 1970-01-01
    except ValueError:
        return None
    if hour is None or hour > 24 or minute > 59 or second > 60:
        return None
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second - _offset(found[14] or "Z")
    return seconds * _NS + _fraction(found[12])


def _offset(zone: str) -> int:
    """Return the seconds by which a zone is before UTC."""
    if zone[0] not in "+-":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    return (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * (-1 if zone[0] == "-" else 1)


def _in_words(text: str) -> int | None:
    """Read a date with the name of a month, or 20260310T100000, as nanoseconds since 1970."""
    if not re.search(r"[a-z]{3}.*\d{4}|\d{4}.*[a-z]{3}|^\d{8}T\d", text, re.IGNORECASE):
        return None
    pd = optional("pandas", "tables")
    try:
        stamp = pd.Timestamp(text)
        return (stamp if stamp.tzinfo else stamp.tz_localize("UTC")).as_unit("ns").value
    except (ValueError, TypeError, OverflowError):
        return None


def _time(text: str) -> int | None:
    """Read hours:minutes:seconds, after days if there are any, as nanoseconds."""
    found = _TIME.fullmatch(text)
    hour = _of_day(int(found[3]), found[7]) if found else None
    if found is None or hour is None or int(found[4]) > 59 or int(found[5]) > 60:
        return None
    seconds = hour * 3600 + int(found[4]) * 60 + int(found[5])
    sign = -1 if found[2] else 1
    return int(found[1] or 0) * _DAY + sign * (seconds * _NS + _fraction(found[6]))


def _two_parts(unit: int, text: str) -> int | None:
    """Read hours:minutes (a ``unit`` of an hour) or minutes:seconds, as nanoseconds."""
    found = _PARTS.fullmatch(text)
    hours = unit == _HOUR
    if not found or int(found[3]) > 59 or (hours and (found[4] or int(found[2]) > 24)):
        return None
    total = int(found[2]) * unit + int(found[3]) * (unit // 60) + _fraction(found[4])
    return -total if found[1] == "-" else total


def duration_of(text: str) -> int | None:
    """Read lengths with their units, such as ``1 min 2.5 s`` or ``PT1M2.5S``, as nanoseconds."""
    iso = re.fullmatch(r"P(?:(\d+)D)?T(.*)", text, re.IGNORECASE)
    text = (f"{iso[1]}d" if iso[1] else "") + iso[2] if iso else text
    total, place = 0, 0
    while place < len(text) and (found := _LENGTH.match(text, place)):
        unit = _LENGTHS.get(found[2] if found[2] in _LENGTHS else found[2].lower())
        if unit is None:
            return None
        total += round(float(found[1].replace(",", ".")) * unit)
        place = found.end()
    return total if text and place == len(text) else None


FORMS = (  # among equally even forms, the first one counts
    numbers(),
    *(
        Form(f"time stamps{order}{zone}", partial(_stamp, first, zone))
        for first, order in (
            ("year", ""),
            ("day", " with the day first"),
            ("month", " with the month first"),
            ("short year", " with the year first"),
        )
        for zone in ("", " with zones")
    ),
    Form("hours:minutes:seconds", _time, turn=_DAY),
    Form("hours:minutes", partial(_two_parts, _HOUR), turn=_DAY),
    Form("minutes:seconds", partial(_two_parts, 60 * _NS), turn=_HOUR),
    Form("durations with units", duration_of),
    Form("dates with names of months", _in_words),
)
