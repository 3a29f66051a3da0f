"""Labelled segments in seconds: segments.csv, Audacity label tracks and WebVTT, in and out."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metriclearn.running.atomic import replacing

Segment = tuple[float, float, str]
PathLike = str | os.PathLike[str]
_COLUMNS = ("recording", "start", "end", "label")


def read_segments(path: PathLike) -> dict[str, list[Segment]]:
    """Recording -> its (start, end, label) in seconds, in order, from a CSV file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If a column or value is missing, a time is no number, an end not after its start, or two
        segments of a recording overlap; the sentence names the line.
    """
    name = os.fspath(path)
    if not Path(path).is_file():
        raise FileNotFoundError(
            f"A table of segments with columns {', '.join(_COLUMNS)} is needed, but {name!r} does "
            "not exist; write one, times in seconds."
        )
    tables: dict[str, list[Segment]] = {}
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name!r} needs to be UTF-8 text; export it as CSV again.") from error
    reader = csv.DictReader(io.StringIO(text))
    missing = [column for column in _COLUMNS if column not in (reader.fieldnames or ())]
    if missing:
        raise ValueError(f"{name!r} needs columns {', '.join(_COLUMNS)}, it lacks {missing}.")
    for line, row in enumerate(reader, start=2):
        recording, label = (str(row[column] or "").strip() for column in ("recording", "label"))
        try:
            start, end = float(row["start"] or "nan"), float(row["end"] or "nan")
        except ValueError:
            start = end = math.nan
        if not recording or not label or not 0 <= start < end < math.inf:
            raise ValueError(
                f"{name!r} needs a recording, 0 <= start < end in seconds and a label in every "
                f"line, got {[row.get(column) for column in _COLUMNS]} in line {line}."
            )
        tables.setdefault(recording, []).append((start, end, label))
    if not tables:
        raise ValueError(f"{name!r} needs one segment or more, it has none.")
    for recording, segments in tables.items():
        segments.sort()
        for before, after in pairwise(segments):
            if after[0] < before[1] - 1e-3:
                raise ValueError(
                    f"{name!r} needs segments without overlap, but in {recording!r} {after[2]!r} "
                    f"starts at {after[0]} s, before {before[2]!r} ends at {before[1]} s; cut them."
                )
    return tables


def row_labels(
    segments: Sequence[Segment], n_rows: int, rate: float, gap: str | None = None
) -> NDArray[np.str_]:
    """Label of every row t: that of the segment which holds the second (t + ½)/rate.

    Parameters
    ----------
    gap : str, optional
        Label of rows in no segment; by default they get that of the segment nearest in time.
    """
    middles = (np.arange(n_rows) + 0.5) / rate
    starts, ends = (np.array([segment[i] for segment in segments]) for i in (0, 1))
    names = np.array([segment[2] for segment in segments])
    place = np.clip(np.searchsorted(starts, middles, side="right") - 1, 0, None)
    outside = (middles < starts[place]) | (middles >= ends[place])
    following = np.minimum(place + 1, len(segments) - 1)
    nearer = np.abs(starts[following] - middles) < np.abs(middles - ends[place])
    place = np.where(outside & nearer, following, place)
    if gap is None:
        return names[place]
    return np.where(outside, np.array(gap), names[place])


def runs(labels: Sequence[object] | NDArray, rate: float) -> list[Segment]:
    """Maximal runs of equal labels of rows as (start, end, label) in seconds."""
    values = np.asarray(labels)
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    ends = np.append(starts[1:], len(values))
    return [(a / rate, b / rate, str(values[a])) for a, b in zip(starts, ends)]


def save_segments(tables: Mapping[str, Sequence[Segment]], path: PathLike) -> Path:
    """Write ``recording,start,end,label``, which :func:`read_segments` reads; one step."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for recording, segments in tables.items():
        writer.writerows([recording, f"{a:.3f}", f"{b:.3f}", label] for a, b, label in segments)
    return _write(path, text.getvalue())


def save_audacity(segments: Sequence[Segment], path: PathLike) -> Path:
    """Write a label track for Audacity (File, Import, Labels): start, end, label by tabs."""
    lines = [f"{a:.6f}\t{b:.6f}\t{' '.join(label.split())}\n" for a, b, label in segments]
    return _write(path, "".join(lines))


def save_webvtt(segments: Sequence[Segment], path: PathLike) -> Path:
    """Write WebVTT cues, which browsers and VLC show over the video."""
    lines = [(a, b, escape(" ".join(label.split()), quote=False)) for a, b, label in segments]
    cues = [f"{_clock(a)} --> {_clock(b)}\n{label}\n" for a, b, label in lines]
    return _write(path, "\n".join(["WEBVTT\n", *cues]))


def _clock(seconds: float) -> str:
    """Time as hh:mm:ss.mmm."""
    minutes, milliseconds = divmod(round(1000 * seconds), 60000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{milliseconds / 1000:06.3f}"


def _write(path: PathLike, text: str) -> Path:
    with replacing(path) as stream:
        stream.write(text.encode())
    return Path(path)
