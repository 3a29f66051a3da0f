"""Tables of events of other programs: selections of Raven, and events of BORIS."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path
from typing import NamedTuple

from metriclearn.datasets.annotations import (
    note_other,
    rows_of_annotator,
    seconds_in,
    seconds_text,
)
from metriclearn.datasets.segments import Segment, with_boundaries
from metriclearn.datasets.text_tables import lacks, text_rows
from metriclearn.running.notes import note
from metriclearn.running.values import text

_TIMES = ("Begin Time (s)", "End Time (s)")
_RAVEN = ("Selection", "View", "Channel", *_TIMES, "Low Freq (Hz)", "High Freq (Hz)", "Annotation")
_LENGTHS = ("observation duration", "media duration (s)", "total duration", "total length")


def write_raven(name: str, segments: Sequence[Segment], path: Path) -> None:
    """Write a selection table of Raven. Selections reach from 0 to 20 kHz, as Raven needs a range.

    Parameters
    ----------
    name : str
        Name of the recording.
    segments : sequence of (start, end, label)
        Times are in seconds.
    path : Path

    Raises
    ------
    OSError
        If the file cannot be written.

    See Also
    --------
    read_raven : reads the table.
    """
    rows: list[Sequence[str]] = [_RAVEN]
    for i, (start, end, label) in enumerate(segments, 1):
        times = (seconds_text(start), seconds_text(end))
        rows.append((str(i), "Spectrogram 1", "1", *times, "0.0", "20000.0", label))
    path.write_bytes("".join("\t".join(row) + "\n" for row in rows).encode())


def read_raven(
    name: str, path: Path, label: str | None = None, annotator: str | None = None
) -> list[Segment]:
    """Read a selection table of Raven. A selection that several views show is read once.

    Parameters
    ----------
    name : str
        Name of the recording.
    path : Path
    label : str, optional
        The column of the labels; by default "Annotation", if there is one.
    annotator : str, optional
        Whose selections to read, see :func:`~metriclearn.datasets.annotations.of_annotator`.

    Returns
    -------
    list of (start, end, label)

    Raises
    ------
    ValueError
        If a column or a value is missing, or the table has selections of several files.

    Warns
    -----
    UserWarning
        If there is no column "Annotation".

    See Also
    --------
    write_raven : writes such a table.
    """
    # Raven does not quote cells, so a label may hold a quotation mark
    lines = [line.split("\t") for line in path.read_text("utf-8-sig").split("\n")]
    header = list(map(text, lines[0]))
    wanted = text(label or "Annotation")
    _check_columns(path, header, _TIMES, wanted if label else None)
    if wanted not in header:
        note(
            f"{path.name!r} has no column {wanted!r}, so its segments have no labels; name one of "
            f"its columns {header[:20]} (label=…, --label)."
        )
    cells = ((number, list(map(str.strip, line))) for number, line in enumerate(lines[1:], 2))
    filled = ((number, row) for number, row in cells if any(row))
    rows = rows_of_annotator(path, header, filled, "Begin File", annotator)
    if len(files := sorted({row["Begin File"] for _, row in rows})) > 1:
        raise ValueError(
            f"{os.fspath(path)!r} needs selections of one recording, got {files[:5]}; save a table "
            "for each."
        )
    note_other(path, Path(*files).stem, name, "")
    found = set()
    for number, row in rows:
        start, end = (seconds_in(row[time]) for time in _TIMES)
        if not 0 <= start <= end < inf:
            raise _wrong(path, "times that increase", number)
        found.add((start, end, row[wanted]))
    return sorted(found)


def _check_columns(
    path: Path, header: Sequence[str], needed: Sequence[str], label: str | None
) -> None:
    """Raise a ValueError if a table lacks a column that a reader needs, or the column of labels."""
    if lacking := [column for column in needed if column not in header]:
        raise lacks(path, lacking[0], header, "export all columns")
    if label is not None and label not in header:
        raise lacks(path, label, header, "name one of its columns (label=…, --label)")


def is_boris(header: Sequence[str]) -> bool:
    """Tell tables of BORIS by the names of their columns in lower case."""
    return {"observation id", "behavior"} <= set(header)


def read_boris(
    path: Path, label: str | None = None, annotator: str | None = None
) -> dict[str, list[Segment]]:
    """Read the events of BORIS, as they are coded ("tabular") or paired ("aggregated").

    A state is a segment with the name of its behavior, from START to STOP. A point event is a
    boundary.

    Parameters
    ----------
    path : Path
    label : str, optional
        The column of the labels; by default "Behavior".
    annotator : str, optional
        Whose events to read, see :func:`~metriclearn.datasets.annotations.of_annotator`.

    Returns
    -------
    dict of lists of (start, end, label)
        By the name of the observation, see
        :func:`~metriclearn.datasets.segments.with_boundaries`.

    Raises
    ------
    ValueError
        If a column or a value is missing, a state starts or stops twice, or the length of an
        observation is needed and missing.

    See Also
    --------
    read_raven : reads selections of Raven.
    """
    spans: dict[str, list[Segment]] = defaultdict(list)
    points: dict[str, list[float]] = defaultdict(list)
    ends: dict[str, float] = defaultdict(float)
    begun: dict[tuple[str, ...], _Event] = {}
    for one in _events(path, label, annotator):
        name = one.key[0]
        ends[name] = max(ends[name], one.length)
        if one.kind in ("START", "STOP") and (one.kind == "START") == (one.key in begun):
            raise _wrong(path, f"one START before each STOP of {one.key[2]!r}", one.line)
        if one.kind == "START":
            begun[one.key] = one
        elif one.kind == "STOP":
            first = begun.pop(one.key)
            spans[name].append((first.start, one.stop, first.label))
        elif one.start == one.stop:
            points[name].append(one.start)
        else:
            spans[name].append((one.start, one.stop, one.label))
    for one in begun.values():
        raise _wrong(path, f"a STOP of {one.key[2]!r}", one.line)
    for name, many in points.items():
        if not ends[name] >= max(many):
            raise ValueError(
                f"{os.fspath(path)!r} needs the length of {name!r}, since point events divide it; "
                f"export a column such as {_LENGTHS[1]!r}."
            )
    return {name: with_boundaries(spans[name], points[name], end) for name, end in ends.items()}


class _Event(NamedTuple):
    """A row of a table of BORIS; the key is observation, subject and behavior."""

    line: int
    key: tuple[str, str, str]
    kind: str
    start: float
    stop: float
    label: str
    length: float


def _events(path: Path, label: str | None, annotator: str | None) -> Iterator[_Event]:
    header, lines = text_rows(path, "a table of events")
    rows = rows_of_annotator(path, header, lines, "observation id", annotator)
    wanted, is_paired = text(label or "Behavior").lower(), "start (s)" in header
    first, last = ("start (s)", "stop (s)") if is_paired else ("time", "time")
    coded = "status" if "status" in header else "behavior type"  # as in versions before 8
    _check_columns(path, header, (first, last, *([] if is_paired else [coded])), wanted)
    for line, cells in rows:
        key = cells["observation id"], cells["subject"], cells["behavior"]
        kind, start = cells[coded].upper(), seconds_in(cells[first])
        stop = start if kind == "POINT" else seconds_in(cells[last])
        known = all((key[0], cells[wanted], is_paired or kind in ("START", "STOP", "POINT")))
        if not (known and 0 <= start <= stop < inf):
            raise _wrong(path, "an observation, a label, a type and times that increase", line)
        lengths = (seconds_in(cells[column]) for column in _LENGTHS if column in cells)
        length = next((one for one in lengths if one < inf), 0.0)
        yield _Event(line, key, "" if is_paired else kind, start, stop, cells[wanted], length)


def _wrong(path: Path, needed: str, line: int) -> ValueError:
    return ValueError(f"{os.fspath(path)!r} needs {needed}, see line {line}; correct the events.")
