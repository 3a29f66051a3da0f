"""Import and export of segments: tables, Audacity labels, WebVTT, Praat TextGrid and ELAN."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple

from metriclearn.datasets.annotations import (
    Segment,
    read_segments,
    save_audacity,
    save_segments,
    save_webvtt,
)
from metriclearn.running.atomic import reading
from metriclearn.running.extras import optional

_TIER = "segments"
_CLOCK = re.compile(r"(?:(\d+):)?(\d\d):(\d\d[.,]\d+)")


class Format(NamedTuple):
    """Writes segments of one recording to a file, and reads them back."""

    title: str
    ending: str
    write: Callable[[str, Sequence[Segment], Path], Any]
    read: Callable[[str, Path], list[Segment]]


def _read_csv(name: str, path: Path) -> list[Segment]:
    tables = read_segments(path)
    if name not in tables:
        raise ValueError(f"The table has no segments of {name!r}, only of {sorted(tables)[:5]}.")
    return tables[name]


def _read_audacity(name: str, path: Path) -> list[Segment]:
    segments = []
    for line in path.read_text("utf-8-sig").splitlines():
        if line.strip() and not line.startswith("\\"):  # such lines hold frequencies
            start, end, *label = line.split("\t", 2)
            segments.append((float(start), float(end), "".join(label).strip()))
    return segments


def _read_webvtt(name: str, path: Path) -> list[Segment]:
    segments = []
    for cue in re.split(r"\n\s*\n", path.read_text("utf-8-sig").replace("\r\n", "\n")):
        timing, _, text = cue[max(cue.find("\n", 0, cue.find("-->")) + 1, 0) :].partition("\n")
        times = _CLOCK.findall(timing)
        if "-->" in timing and len(times) > 1:
            start, end = (
                3600 * int(hours or 0) + 60 * int(minutes) + float(seconds.replace(",", "."))
                for hours, minutes, seconds in times[:2]
            )
            segments.append((start, end, unescape(" ".join(text.split()))))
    return segments


def _write_textgrid(name: str, segments: Sequence[Segment], path: Path) -> None:
    grid = optional("pympi", "label").TextGrid(xmax=segments[-1][1])
    tier = grid.add_tier(_TIER)
    for i, (start, end, label) in enumerate(segments):
        tier.add_interval(start, end, label or str(i + 1))
    grid.to_file(str(path))


def _read_textgrid(name: str, path: Path) -> list[Segment]:
    grid = optional("pympi", "label").TextGrid(str(path))
    tiers = [tier for tier in grid.get_tiers() if tier.tier_type == "IntervalTier"]
    return [segment for segment in tiers[0].get_intervals() if segment[2].strip()]


def _write_elan(name: str, segments: Sequence[Segment], path: Path) -> None:
    document = optional("pympi", "label").Elan.Eaf()
    document.add_tier(_TIER)
    document.remove_tier("default")
    for i, (start, end, label) in enumerate(segments):
        text = label or str(i + 1)
        document.add_annotation(_TIER, round(1000 * start), round(1000 * end), text)
    document.to_file(str(path))


def _read_elan(name: str, path: Path) -> list[Segment]:
    document = optional("pympi", "label").Elan.Eaf(str(path))
    tiers = [
        tier for tier in document.get_tier_names() if document.get_annotation_data_for_tier(tier)
    ]
    cues = document.get_annotation_data_for_tier(tiers[0])
    return sorted((cue[0] / 1000, cue[1] / 1000, cue[2].strip()) for cue in cues)


FORMATS = {
    "csv": Format(
        "Table (CSV)", ".segments.csv", lambda n, s, p: save_segments({n: s}, p), _read_csv
    ),
    "audacity": Format(
        "Audacity labels", ".labels.txt", lambda n, s, p: save_audacity(s, p), _read_audacity
    ),
    "webvtt": Format("WebVTT", ".vtt", lambda n, s, p: save_webvtt(s, p), _read_webvtt),
    "textgrid": Format("Praat TextGrid", ".TextGrid", _write_textgrid, _read_textgrid),
    "elan": Format("ELAN", ".eaf", _write_elan, _read_elan),
}


def read_file(kind: str, name: str, path: Path) -> list[Segment]:
    """Segments of a recording from a file of one of the formats.

    Raises
    ------
    ValueError
        If it cannot be read, or holds no segments of that recording.
    """
    title = FORMATS[kind].title
    try:
        with reading(path, title, Exception):  # three libraries raise what they like
            segments = FORMATS[kind].read(name, path)
            if not segments:
                raise ValueError("it has no segments")
    except ValueError as error:  # the temporary path means nothing to the user
        raise ValueError(str(error).replace(repr(str(path)), f"The file ({title})")) from error
    return segments
