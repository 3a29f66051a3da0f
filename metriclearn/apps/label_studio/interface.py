"""The object that a labeling configuration of Label Studio describes, and its times."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import nan
from typing import Any, NamedTuple, Self
from xml.etree import ElementTree

import pandas as pd

from metriclearn import running

_OBJECTS = {"TimeSeries": "TimeSeriesLabels", "Audio": "Labels", "AudioPlus": "Labels"}
_UNIX = {"%s": 1.0, "%Q": 1e3}  # d3's seconds and milliseconds since 1970, per second


@dataclass(frozen=True)
class Interface:
    """The object that is labeled, as a labeling configuration describes it.

    Attributes
    ----------
    from_name, to_name : str
        The name of the tag that holds the labels, and the name of the tag of the object.
    is_sound : bool
        True if the object is an Audio, False if it is a TimeSeries.
    key : str
        Key of the object in the data of a task.
    labels, channels : tuple of str
        The labels, and the columns of a time series. For an Audio, ``channels`` is empty.
    time_column, time_format : str or None
        Column of the times, and their format.
    """

    from_name: str
    to_name: str
    is_sound: bool
    key: str
    labels: tuple[str, ...]
    channels: tuple[str, ...] = ()
    time_column: str | None = None
    time_format: str | None = None

    @classmethod
    def read(cls, config: str) -> Self:
        """Read the XML of a labeling configuration.

        Raises
        ------
        ValueError
            If the configuration has no labels for an Audio or a TimeSeries.
        """
        try:
            tags = list(ElementTree.fromstring(config).iter())
        except ElementTree.ParseError as error:
            raise ValueError(f"The labeling configuration is not XML ({error}); copy it.") from None
        for one in tags:
            kind, name = _OBJECTS.get(one.tag), one.get("name")
            for control in tags:
                if control.tag == kind and control.get("toName") == name:
                    labels = tuple(str(label.get("value")) for label in control.iter("Label"))
                    return cls(
                        str(control.get("name")),
                        str(one.get("name")),
                        one.tag != "TimeSeries",
                        str(one.get("value", "")).removeprefix("$"),
                        labels,
                        tuple(str(channel.get("column")) for channel in one.iter("Channel")),
                        one.get("timeColumn"),
                        one.get("timeFormat"),
                    )
        raise ValueError(
            "The labeling configuration needs TimeSeriesLabels of a TimeSeries, or Labels of an "
            f"Audio, got the tags {sorted({tag.tag for tag in tags})}; add them."
        )

    def boundary_label(self) -> str:
        """Return the only label. It is written into regions that only mark boundaries.

        Raises
        ------
        ValueError
            If there is no label, or more than one.
        """
        if len(self.labels) != 1:
            raise ValueError(
                "The labeling configuration needs one label, for boundaries, because all regions "
                f"are instants or have no label, got {list(self.labels)[:10]}; give every region "
                "a start, an end and a label, or keep a single label."
            )
        return self.labels[0]


class Clock(NamedTuple):
    """Converts Label Studio's times of a task to seconds since the first row, and back.

    Attributes
    ----------
    form : Form
        How times are written.
    origin : float
        The time of the first row, in units of the form.
    length : float, optional
        Length of the table in seconds.
    times : Times, optional
        The times of the rows, if the table has a column of times.
    """

    form: running.Form = running.numbers()
    origin: float = 0
    length: float | None = None
    times: running.Times | None = None

    @classmethod
    def of(cls, interface: Interface, table: pd.DataFrame | None, rate: float, name: str) -> Self:
        """Make the clock for the times of a time series: values of a column, or row numbers."""
        given, column = interface.time_format, interface.time_column
        if column is None:
            return cls(running.numbers(rate), length=None if table is None else len(table) / rate)
        form = running.numbers(_UNIX[given]) if given in _UNIX else None
        if given and form is None:
            form = running.formatted(given.replace("%L", "%f").replace("%Z", "%z"))
        if table is None:
            return cls(form or running.numbers())
        if column not in table.columns:
            raise ValueError(
                f"The table needs the time column {column!r} of the labeling configuration, got "
                f"{list(table.columns)[:8]}."
            )
        times = running.read_times(repr(name), table[column], column, form, first_row=1)
        return cls(times.form, times.origin, float(times.at(len(table))), times)

    def seconds(self, time: Any, where: str) -> float:
        """Convert a time to seconds since the first row. It is NaN if Label Studio wrote 0NaN."""
        if "nan" in str(time).lower() or time is None:
            return nan
        value = self.form.read(str(time).strip())
        if value is None or not abs(value) < 1e300:
            raise ValueError(
                f"{where} needs times of regions that are {self.form.title}, got "
                f"{str(time)[:40]!r}; pass the labeling configuration, whose timeFormat tells how "
                "to read them."
            )
        if self.form.turn and value < self.origin:  # after midnight
            value += self.form.turn
        return (value - self.origin) / self.form.per_second

    def written(self, seconds: float, interface: Interface) -> Any:
        """Convert seconds since the first row to a time as Label Studio writes it."""
        if self.form.title == "numbers":
            time = self.origin + seconds * self.form.per_second
            return str(time) if interface.time_format in _UNIX else time
        if interface.time_format is None:
            raise ValueError(
                f"The labeling configuration needs a timeFormat, because the times are "
                f"{self.form.title}; add it to its TimeSeries."
            )
        stamp = datetime(1970, 1, 1, tzinfo=UTC)
        stamp += timedelta(microseconds=round((self.origin + seconds * 1e9) / 1000))
        form = interface.time_format.replace("%L", f"{stamp.microsecond // 1000:03d}")
        return stamp.strftime(form.replace("%Z", "%z"))
