"""The files that ``metriclearn segment`` reads, and those that it writes for each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import metriclearn
from metriclearn import datasets, running
from metriclearn.running import install, note

if TYPE_CHECKING:
    from metriclearn.datasets import Segment


def targets_of(paths: Sequence[Path], out: Path | None) -> list[Path]:
    """For every input file, return the path of its results without the endings."""
    if out is not None and out.suffix and not out.is_dir():
        raise ValueError(
            f"metriclearn segment needs --out FOLDER, got {str(out)!r}, which looks like a file; "
            f"every result has the name of its recording, so pass a folder, --out '{out.parent}'."
        )
    targets = [(out or path.absolute().parent) / path.stem for path in paths]
    if twice := [path for path, target in zip(paths, targets) if targets.count(target) > 1]:
        raise ValueError(
            f"{', '.join(map(str, twice[:4]))} would be written to files of the same name; segment "
            "them with different folders --out, or rename one."
        )
    return targets


def files_in(files: Sequence[Path], of_tables: bool) -> list[Path]:
    """Replace every folder by the tables in it (if ``of_tables``) or by the recordings in it."""
    listed: list[Path] = []
    for file in files:
        if not file.is_dir():
            listed.append(file)
        elif of_tables:
            tables = datasets.sequence_files("segment", file, None, datasets.ENDINGS)
            listed += [table for table in tables if table.name != "segments.csv"]
        elif recordings := datasets.recording_files(file):
            listed += recordings.values()
        else:
            raise FileNotFoundError(f"{str(file)!r} holds no recording to segment.")
    if not listed:
        raise FileNotFoundError(f"{str(files[0])!r} holds no table to segment.")
    return listed


def note_times(recording: str, true: Sequence[Segment], found: Sequence[Segment]) -> None:
    """Warn if one of two segmentations of a recording is more than twice as long as the other."""
    ends = true[-1][1], found[-1][1]
    if max(ends) > 2 * min(ends):
        note(
            f"{recording!r} ends at {ends[0]:g} s in the truth and at {ends[1]:g} s in the other "
            "table; check that both are in seconds."
        )


def segment_file(
    path: Path,
    target: Path,
    kinds: Sequence[str],
    segmenter: Any,
    true: list[Segment] | None,
    read: Mapping[str, Any],
) -> tuple[list[Segment], list[Path]]:
    """Segment a file and write the results, such as TARGET.segments.csv.

    ``read`` are options of ``segments_of_table``, or of ``segments`` if the model has an extractor.
    Returns the segments and the files that were written.
    """
    from metriclearn.apps.console.missing import segments_of_table

    target.parent.mkdir(parents=True, exist_ok=True)
    if segmenter.extractor is None:
        found = segments_of_table(path, segmenter, **read)
    else:
        found = segmenter.segments(path, **read)
    written = []
    for kind in dict.fromkeys(kinds):
        place = target.with_name(target.name + datasets.FORMATS[kind].ending)
        written.append(datasets.write_file(kind, path.stem, found, place, path))
    strips = {"predicted": found}
    if true is not None:
        note_times(path.stem, true, found)
        blank = [(start, end, "") for start, end, _ in true]
        strips = {"truth": true if segmenter.labels_ else blank, **strips}
    if find_spec("matplotlib") is None:
        note(f"no timeline is drawn, as matplotlib is not installed: {install('plots')}")
        return found, written
    picture = target.with_name(f"{target.name}.timeline.png")
    _draw(path, segmenter.extractor, strips, picture)
    return found, [*written, picture]


def _draw(path: Path, extractor: Any, strips: dict[str, list[Segment]], picture: Path) -> None:
    """Draw a timeline of the segments, with sound and pictures if the model uses them."""
    import numpy as np

    parts = [extractor, *getattr(extractor, "extractors", ())]
    names = {type(part).__name__ for part in parts}
    waveform = thumbnails = None
    if "AudioFeatures" in names:
        # only the loudest sample of every 50 ms, as a whole recording may not fit into memory
        blocks = (np.abs(block) for block in metriclearn.features.audio_blocks(path, 8000))
        loudest = [np.maximum.reduceat(b, np.arange(0, len(b), 400)) for b in blocks]
        waveform = np.concatenate(loudest)
    if "VideoFeatures" in names:
        length = metriclearn.features.duration(path) or strips["predicted"][-1][1]
        thumbnails = list(metriclearn.features.video_frames(path, 12.0 / length, (72, 96)))
    figure = metriclearn.plots.plot_timeline(strips, waveform, thumbnails)
    with running.replacing(picture) as stream:
        figure.savefig(stream, format="png", dpi=140)
