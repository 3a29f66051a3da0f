"""How the page read a folder of recordings and their labels, for ``metriclearn fit``."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from metriclearn import datasets
from metriclearn.apps.label_page.annotation import Clock, known_segments, read_annotations
from metriclearn.apps.label_page.project import (
    FILE,
    TABLE,
    TABLE_BEFORE,
    Project,
    digest,
    file_of,
    read_project,
    reading_annotations,
)
from metriclearn.datasets import UNKNOWN, Segment, disjoint, read_segments, segments_text
from metriclearn.running import note


class PageSettings(NamedTuple):
    """How the page read the recordings of a folder, and their labels. ``fit`` reads them in the
    same way.

    Attributes
    ----------
    features : str or None
        One of audio, video, both and tables.
    rate : float or None
        Rows per second.
    ignore : list of str or None
        Columns that are not features.
    time, duplicates : str or None
        The column of times, and what stands for rows of one time.
    unknown : str or None
        The label of unlabeled rows.
    segments : dict of lists of (start, end, label), or None
        The rows of :func:`exported` by the name of the recording. None if another program has
        written the table.
    """

    features: str | None = None
    rate: float | None = None
    ignore: list[str] | None = None
    time: str | None = None
    duplicates: Any = None
    unknown: str | None = None
    segments: dict[str, list[Segment]] | None = None


def page_settings(folder: Path, segments: str, features: str | None) -> PageSettings:
    """Return how the page read the recordings of a folder, and their labels.

    If a labeled recording is a sound or video file, the settings for sound and pictures are
    returned, unless ``features`` is "tables". Otherwise the settings for tables are returned.
    """
    tier = segments.removesuffix(TABLE).removesuffix(".")
    is_page = segments == file_of(folder, tier, TABLE).name
    project = read_project(folder, tier) if is_page else {}
    if not project:
        listed = [file.name for file in folder.iterdir() if file.suffix.lower() in datasets.ENDINGS]
        others = [name for name in listed if not name.endswith(TABLE) and name != segments]
        has_table = segments != TABLE or (folder / segments).is_file()
        tables = others and has_table and not datasets.recording_files(folder)
        return PageSettings("tables" if tables else None)
    known = _labeled_in(folder, tier, project)
    spans = known if known is not None else read_segments(folder / segments)
    files = datasets.recording_files(folder)
    if features == "tables" or not set(datasets.named_as(spans, files)) & set(files):
        names = "rate", "ignore", "time", "duplicates"
        given = {name: project.get(name) for name in names}
        return PageSettings("tables", **given, unknown=UNKNOWN, segments=known)
    rate, features = project.get("media_rate"), project.get("features")
    return PageSettings(features, rate, unknown=UNKNOWN, segments=known)


def _labeled_in(
    folder: Path, tier: str, project: Mapping[str, Any]
) -> dict[str, list[Segment]] | None:
    """Return the labels of the page, or None if another program has written the table.

    Annotations from which ``fit`` does not learn are noted.
    """
    file, table = (file_of(folder, tier, name) for name in (FILE, TABLE))
    with reading_annotations(file):
        every = {
            name: read_annotations(given, math.inf) for name, given in project["recordings"].items()
        }
    annotations = {name: many for name, many in every.items() if many}
    found = read_segments(table) if table.is_file() else {}
    clock = _clock(folder, annotations, project)
    rows = clock.on_page(found)
    seconds = {
        name: rows[name][-1][1] if name in rows else many[-1].end + 1.0
        for name, many in annotations.items()
    }
    ours = Project(folder, seconds, annotations=annotations, clock=clock).tables()
    is_ours = segments_text(disjoint(table, ours)) == segments_text(found)
    is_old = table.is_file() and digest(table.read_bytes()) == project.get(TABLE_BEFORE)
    if found and not (is_ours or is_old):
        note(
            f"{str(table)!r} was not written by the page, so fit learns from this table and not "
            f"from {file.name}; remove the table to learn what is labeled on the page."
        )
        return None
    kinds = Counter(one.kind for many in annotations.values() for one in many)
    learned = "change", "segment" if kinds["segment"] else "no change"
    if lost := [f"{kind!r} ({count})" for kind, count in kinds.items() if kind not in learned]:
        note(
            f"{str(file)!r} has annotations from which fit does not learn: {', '.join(lost)}; "
            "label these stretches, or set boundaries."
        )
    return known_segments(annotations, seconds)


def _clock(folder: Path, names: Collection[str], project: Mapping[str, Any]) -> Clock:
    """Return how seconds of the page are converted to those of its table."""
    time, rate = project.get("time"), project.get("rate")
    if not (time and rate):
        return Clock()
    files = [file for file in folder.iterdir() if file.suffix.lower() in datasets.ENDINGS]
    times = {
        file.stem: datasets.file_times(file, time, rate, project.get("duplicates"))
        for file in files
        if file.stem in names
    }
    return Clock.of(times, rate)
