"""Read data sets that are folders with a file per recording: sound, or tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from metriclearn.datasets.annotations import read_groups
from metriclearn.datasets.feature_cache import Extractor
from metriclearn.datasets.recordings import load_recordings
from metriclearn.datasets.registry import PathLike, existing
from metriclearn.datasets.sequence_folders import load_files
from metriclearn.datasets.sequences import LabeledSequences


def recordings(
    name: str,
    root: PathLike | None,
    *,
    extractor: Extractor,
    segments: str = "segments.csv",
    **options: Any,
) -> LabeledSequences:
    """Compute the features of recordings, and label their rows; see load_recordings."""
    folder = existing(name, segments, root).parent
    data = load_recordings(folder, extractor, segments, **options)
    return replace(data, name=name)


def tables(name: str, root: PathLike | None, *, label: str) -> LabeledSequences:
    """Read a table per recording with times and labels, and a table of groups; see load_files."""
    groups, folder = existing(name, "groups.csv", root), existing(name, "recordings", root)
    data = load_files(folder, label, ignore=["time"])
    return replace(data, name=name, groups=read_groups(groups, data.names))
