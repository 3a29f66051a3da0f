"""Read and write tables of labelled segments in seconds."""

from __future__ import annotations

import csv
import io
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from metriclearn.datasets.registry import PathLike
from metriclearn.datasets.segments import Segment
from metriclearn.datasets.text_tables import form_of_file, lacks, text_rows
from metriclearn.running.atomic import replacing
from metriclearn.running.notes import note
from metriclearn.running.time_forms import THOUSANDS, number_of
from metriclearn.running.values import text

_COLUMNS = ("recording", "start", "end", "label")
_ANNOTATORS = ("annotator", "coder", "observer", "rater")


def read_segments(path: PathLike, annotator: str | None = None) -> dict[str, list[Segment]]:
    """Read the segments (start, end, label) of every recording from a text table, and sort them.

    Times are in seconds. If the column of labels is missing or empty, all labels are empty.

    Parameters
    ----------
    path : path
        A table with the columns recording, start, end and label. A column annotator, coder,
        observer or rater tells who labeled a segment.
    annotator : str, optional
        Whose segments to read. By default, each recording needs segments of one annotator.

    Returns
    -------
    dict of lists of (start, end, label)
        By the name of the recording.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If a column or value is missing, a time is not a number, an end is not after its start, two
        segments of a recording overlap by more than a millisecond, or a recording has several
        annotators.

    See Also
    --------
    read_labels : reads files of other programs, too.
    save_segments : writes such a table.

    Examples
    --------
    >>> from metriclearn.datasets import read_segments
    >>> read_segments("segments.csv")  # doctest: +SKIP
    {'song': [(0.0, 12.5, 'verse'), (12.5, 30.0, 'refrain')]}
    """
    name, columns = os.fspath(path), ", ".join(_COLUMNS)
    if not Path(path).is_file():
        raise FileNotFoundError(
            f"{name!r} does not exist; write a table with columns {columns}, times in seconds, or "
            "give the name of your table (segments=…, --segments)."
        )
    header, rows = text_rows(path, f"a table with columns {columns}")
    missing = [column for column in _COLUMNS[:3] if column not in header]
    if missing or not rows:
        raise ValueError(
            f"{name!r} needs columns {columns} (label is optional) and at least one row, but lacks "
            f"{missing or 'rows'}; its columns are {header[:8]}."
        )
    used, given = rows_of_annotator(path, header, rows, "recording", annotator), dict(rows)
    labeled, tables = any(cells["label"] for _, cells in used), defaultdict(list)
    spellings, decimal = dict[str, str](), form_of_file(path).decimal
    for line, cells in used:
        recording, label = cells["recording"], cells["label"]
        start, end = (seconds_in(cells[time], decimal) for time in ("start", "end"))
        known = recording and (label or not labeled) and len(given[line]) <= len(header)
        if not known or not 0 <= start < end < np.inf:
            raise ValueError(
                f"{name!r} needs a recording, 0 <= start < end in seconds (without a comma for "
                f"each thousand) and a label in every line, got {given[line]} in line {line}."
            )
        tables[spellings.setdefault(text(recording), recording)].append((start, end, label))
    return disjoint(path, dict(tables))


def rows_of_annotator(
    path: PathLike,
    header: Sequence[str],
    rows: Iterable[tuple[int, Sequence[str]]],
    recording: str,
    annotator: str | None,
) -> list[tuple[int, dict[str, str]]]:
    """Return the rows of a table that are of one annotator, see :func:`of_annotator`.

    Every row comes with its number of line, and its cells by the names of their columns. A cell is
    empty if the column is missing. ``recording`` is the column that names the recording.
    """
    filled = [(line, defaultdict(str, zip(header, row))) for line, row in rows]
    named = (name for one in _ANNOTATORS for name in header if name.lower() == one)
    who = next(named, _ANNOTATORS[0])
    people = [(cells[who], cells[recording]) for _, cells in filled]
    return [filled[i] for i in of_annotator(path, people, annotator)]


def of_annotator(
    path: PathLike, people: Sequence[tuple[str, str]], annotator: str | None
) -> list[int]:
    """Return which segments of a file to read: the segments of one annotator.

    Parameters
    ----------
    path : path
        The file that error messages name.
    people : sequence of (annotator, recording)
        For each segment, who labeled it (empty if unknown), and the name of its recording.
    annotator : str, optional
        By default, all segments are read, if no recording has several annotators.

    Returns
    -------
    list of int

    Raises
    ------
    ValueError
        If a recording has several annotators, or no segment is of ``annotator``.

    See Also
    --------
    read_segments : reads tables with a column of annotators.

    Examples
    --------
    >>> from metriclearn.datasets.annotations import of_annotator
    >>> of_annotator("a.csv", [("Ann", "a"), ("Bob", "a")], "Bob")
    [1]
    """
    name, who = os.fspath(path), [text(one) for one, _ in people]
    known = list(dict.fromkeys(filter(None, who)))
    if annotator is None:
        for recording in dict.fromkeys(one for _, one in people):
            several = {w for w, (_, one) in zip(who, people) if one == recording and w}
            if len(several) > 1:
                raise ValueError(
                    f"{name!r} has segments of several annotators, {', '.join(known[:20])}; keep "
                    "those of one in the file, or choose one (annotator=…, --annotator NAME)."
                )
        return list(range(len(people)))
    used = [i for i, one in enumerate(who) if one == text(annotator)]
    if not used:
        listed = f"only of {', '.join(known[:20])}" if known else "and names no annotator"
        raise ValueError(
            f"{name!r} has no segments of the annotator {annotator!r}, {listed}; choose another "
            "one, or leave that name out (annotator=…, --annotator)."
        )
    return used


def note_other(path: Path, found: str, *names: str) -> None:
    """Warn if a file has the segments of another recording than that of its own name."""
    if text(found) not in map(text, names):
        note(
            f"{path.name!r} has segments of {found!r}, and they are read as those of {names[0]!r}; "
            "check that it is the file of this recording."
        )


def seconds_in(cell: str, decimal: str = ",") -> float:
    """Read a number with a decimal point or comma; NaN if it is none, or divides thousands."""
    number = None if decimal == "." and THOUSANDS.fullmatch(cell) else number_of(cell)
    return np.nan if number is None else number


def read_groups(path: PathLike, recordings: Sequence[str], fewest: int = 2) -> list[str]:
    """Read the group of every recording from a text table with columns recording and group.

    Parameters
    ----------
    path : path
    recordings : sequence of str
        Names of the recordings.
    fewest : int
        The least number of groups: 2 for training, 1 for data that are only for test.

    Returns
    -------
    list of str
        The group of every recording.

    Raises
    ------
    ValueError
        If a column is missing, a recording has no group or more than one, or there are too few
        groups.

    See Also
    --------
    LabeledSequences : has groups, which a split does not divide.

    Examples
    --------
    >>> from metriclearn.datasets import read_groups
    >>> read_groups("people.csv", ["mon", "tue"])  # doctest: +SKIP
    ['Ann', 'Bob']
    """
    name = os.fspath(path)
    header, rows = text_rows(path, "a table with columns recording, group")
    for column in ("recording", "group"):
        if column not in header:
            raise lacks(path, column, header, "name the columns recording and group")
    filled = [dict(zip(header, row + [""] * len(header))) for _, row in rows]
    pairs = {text((row["recording"], row["group"])) for row in filled}
    groups, recordings = dict(pairs), list(map(text, recordings))
    if lacking := sorted({one for one in recordings if not groups.get(one)}):
        raise ValueError(
            f"{name!r} needs columns recording and group with a line for every recording, but has "
            f"no group of {', '.join(lacking[:5])}."
        )
    if twice := sorted(one for one in set(recordings) if sum(r == one for r, _ in pairs) > 1):
        raise ValueError(f"{name!r} needs one group of each recording, got two of {twice[0]!r}.")
    if len({groups[one] for one in recordings}) < fewest:
        raise ValueError(
            f"{name!r} needs recordings in at least two groups, since each group is "
            "held out once, but all are in one; leave the table out if they are independent."
        )
    return [groups[one] for one in recordings]


def named_as(tables: dict[str, list[Segment]], names: Iterable[str]) -> dict[str, list[Segment]]:
    """Give recordings in a table the names that they have elsewhere, such as names of files.

    Names that people see as equal are equal, see :func:`~metriclearn.running.values.text`.

    Parameters
    ----------
    tables : dict of lists of (start, end, label)
        By the name of the recording.
    names : iterable of str
        The names elsewhere. A recording without such a name keeps its own.

    Returns
    -------
    dict of lists of (start, end, label)

    Raises
    ------
    TypeError
        If a name is not hashable.

    See Also
    --------
    read_segments : reads such tables.

    Examples
    --------
    >>> from metriclearn.datasets import named_as
    >>> named_as({"song ": [(0.0, 2.0, "verse")]}, ["song"])
    {'song': [(0.0, 2.0, 'verse')]}
    """
    known = {text(name): name for name in names}
    named: dict[str, list[Segment]] = {}
    for name, segments in tables.items():
        named.setdefault(known.get(text(name), name), []).extend(segments)
    return named


def disjoint(path: PathLike, tables: dict[str, list[Segment]]) -> dict[str, list[Segment]]:
    """Sort the segments of every recording by time, in place, and check that they do not overlap.

    Parameters
    ----------
    path : path
        The file that error messages name.
    tables : dict of lists of (start, end, label)
        By the name of the recording. Times are in seconds.

    Returns
    -------
    dict
        The same tables, in which labels that people see as equal are equal.

    Raises
    ------
    ValueError
        If a recording has no segments, a segment has no duration, or two segments overlap by more
        than a millisecond. The message names the file ``path``.

    See Also
    --------
    read_segments : reads such tables.

    Examples
    --------
    >>> from metriclearn.datasets import disjoint
    >>> disjoint("notes.txt", {"a": [(2.0, 3.0, "y"), (0.0, 2.0, "x")]})
    {'a': [(0.0, 2.0, 'x'), (2.0, 3.0, 'y')]}
    """
    name = os.fspath(path)
    for recording, segments in tables.items():
        segments[:] = sorted((start, end, text(label)) for start, end, label in segments)
        if not segments:
            raise ValueError(f"{name!r} has no segments of {recording!r}; label some.")
        for start, end, label in segments:
            if not 0 <= start < end < np.inf:
                raise ValueError(
                    f"{name!r} needs 0 <= start < end in seconds, got {label!r} of {recording!r} "
                    f"from {start:g} to {end:g} s; correct or remove it."
                )
        for (_, last, before), (first, _, after) in pairwise(segments):
            if first < last - 1e-3:
                raise ValueError(
                    f"{name!r} needs disjoint segments, but in {recording!r} {after!r} starts at "
                    f"{first} s, before {before!r} ends at {last} s; correct these times."
                )
    return tables


def seconds_text(seconds: float) -> str:
    """Convert a time in seconds to text with three to nine decimals, as many as it needs."""
    text = f"{seconds:.9f}"
    return text[:-6] + text[-6:].rstrip("0")


def save_segments(tables: Mapping[str, Sequence[Segment]], path: PathLike) -> Path:
    """Write a table recording, start, end, label, which :func:`read_segments` reads.

    Parameters
    ----------
    tables : mapping of str to sequences of (start, end, label)
        By the name of the recording. Times are in seconds.
    path : path

    Returns
    -------
    Path

    Raises
    ------
    OSError
        If the file cannot be written. An old file then stays as it is.

    See Also
    --------
    read_segments : reads the table.
    write_file : writes files for other programs.

    Examples
    --------
    >>> from metriclearn.datasets import save_segments
    >>> save_segments({"song": [(0.0, 12.5, "verse")]}, "segments.csv")  # doctest: +SKIP
    PosixPath('segments.csv')
    """
    with replacing(path) as stream:
        stream.write(segments_text(tables).encode())
    return Path(path)


def segments_text(tables: Mapping[str, Sequence[Segment]]) -> str:
    """Return the segments as the text of a table, as :func:`save_segments` writes it.

    If no segment has a label, the table has no column of labels.

    Parameters
    ----------
    tables : mapping of str to sequences of (start, end, label)
        By the name of the recording. Times are in seconds.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If a segment does not consist of three values.

    See Also
    --------
    save_segments : writes the text to a file.

    Examples
    --------
    >>> from metriclearn.datasets import segments_text
    >>> print(segments_text({"song": [(0.0, 12.5, "verse")]}))
    recording,start,end,label
    song,0.000,12.500,verse
    <BLANKLINE>
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    width = 4 if any(label for segments in tables.values() for _, _, label in segments) else 3
    writer.writerow(_COLUMNS[:width])
    for recording, segments in tables.items():
        rows = [(recording, seconds_text(a), seconds_text(b), label) for a, b, label in segments]
        writer.writerows(row[:width] for row in rows)
    return text.getvalue()
