"""Folders of recordings with a table of labelled segments."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metriclearn.datasets.annotations import disjoint, named_as
from metriclearn.datasets.feature_cache import Extractor, cached_features
from metriclearn.datasets.files import ENDINGS, read_features
from metriclearn.datasets.formats import read_labels
from metriclearn.datasets.registry import PathLike, files_by_name
from metriclearn.datasets.segment_labels import name_classes
from metriclearn.datasets.segments import (
    UNKNOWN,
    Segment,
    numbered,
    row_labels,
    untold_starts,
    with_background,
)
from metriclearn.datasets.sequence_folders import feature_columns, sequence_files
from metriclearn.datasets.sequences import LabeledSequences, of_parts
from metriclearn.running.notes import note
from metriclearn.running.progress import bar
from metriclearn.running.row_times import Times
from metriclearn.running.values import text

# other files next to recordings: tables, texts, pictures, projects of labeling programs
_OTHER = {".csv", ".tsv", ".txt", ".md", ".json", ".yaml", ".vtt", ".srt", ".npz", ".model"}
_OTHER |= {".png", ".jpg", ".jpeg", ".gif", ".svg", ".pdf", ".html", ".xml", ".docx", ".xlsx"}
_OTHER |= {".ods", ".db", ".ini", ".zip", ".parquet", ".aup", ".aup3", ".eaf", ".textgrid", ".rttm"}
_OTHER |= {".jams", ".pfsx", ".etf"}
_COPIES = ".cues.wav"  # copies of recordings, with their segments as markers
# what to do if the time between segments is no background
_NO_EVENTS = (
    "check that times are in seconds (not in minutes), or label gaps (gap=…, --gap), with "
    "'unknown' if nobody has labeled this time"
)


def load_recordings(
    root: PathLike,
    extractor: Extractor,
    segments: str | Mapping[str, Sequence[Segment]] = "segments.csv",
    *,
    recordings: Sequence[str] | None = None,
    gap: str | None = None,
    groups: dict[str, str] | None = None,
    cache: PathLike | None = None,
    **options: str | None,
) -> LabeledSequences:
    """Compute the features of recordings, and label each row from a table of segments.

    The table has the columns recording, start, end (seconds) and label. The recordings are files
    RECORDING.suffix in ``root``, ``root/audio`` or ``root/video``.

    Parameters
    ----------
    root : path
        Folder of the table and the recordings.
    extractor : Extractor
        Computes the features, and determines the number of rows per second.
    segments : str or mapping of str to lists of (start, end, label)
        File name of the table. Files of other programs, with one recording each, can be given by a
        pattern such as ``"*.TextGrid"``: see :func:`~metriclearn.datasets.formats.read_labels`. Or
        the segments that such a file would have.
    recordings : sequence of str, optional
        Names of the recordings to load, in this order. By default all recordings in the table are
        loaded, sorted by name.
    gap : str, optional
        Label of rows that are in no segment. A label other than "unknown" is possible only if the
        labels of segments name classes, see
        :func:`~metriclearn.datasets.segment_labels.name_classes`, or if all are equal. By default,
        such a row gets the label of the nearest segment in time; but if most segments are events,
        see :func:`~metriclearn.datasets.segments.with_background`.
    groups : dict, optional
        Group of every recording, by its name. By default each recording is a separate group.
    cache : path, optional
        Folder in which computed features are kept, see :func:`cached_features`.
    **options
        ``label`` and ``annotator`` of :func:`~metriclearn.datasets.formats.read_labels`.

    Returns
    -------
    LabeledSequences
        ``sequences`` of shape (T_i, P), ``labels`` (T_i,), ``groups``, ``names``.

    Raises
    ------
    FileNotFoundError
        If the table or a recording in it is missing.
    ValueError
        If the table or a recording is damaged, if a name in ``recordings`` is missing from the
        table, if ``gap`` is given although labels do not name classes, or if a segment starts after
        the end of its recording.

    Warns
    -----
    UserWarning
        If the last segment of a recording ends after the recording, if a segment is too short for a
        row, or if a segment touches one with the same label before it. Without ``gap``, there is
        also a warning if the last segment ends before the middle of the recording, if more than 2 %
        of all time is in no segment, or if time between segments is called "background".

    See Also
    --------
    load_tables : does the same for tables.
    metriclearn.features.media.audio.AudioFeatures, metriclearn.features.media.video.VideoFeatures

    Examples
    --------
    >>> from metriclearn.datasets import load_recordings
    >>> from metriclearn.features.media.audio import AudioFeatures
    >>> data = load_recordings("shows", AudioFeatures(rate=2))  # doctest: +SKIP
    """
    folder = Path(root)
    files = recording_files(folder)
    table, tables = _segments_in(folder, segments, options)
    tables = named_as(tables, files)
    chosen = sorted(tables)
    if recordings is not None:
        forms = {text(name): name for name in tables}
        chosen = [forms.get(text(name), name) for name in recordings]
    if unknown := sorted(set(chosen) - set(tables)):
        raise ValueError(
            f"{os.fspath(table)!r} has segments of {sorted(tables)[:10]}, but not of {unknown[:5]}."
        )
    _need(folder, table, chosen, files, "a file of sound or pictures")
    shown = bar(chosen, "features", len(chosen), disable=None, unit="file", delay=2.0)
    features = {name: cached_features(files[name], extractor, cache) for name in shown}
    return of_parts(
        folder.resolve().name,
        _labeled(table, tables, features, float(extractor.rate), gap),
        list(extractor.get_feature_names_out()),
        [(groups or {}).get(recording, recording) for recording in chosen],
    )


def load_tables(
    root: PathLike,
    rate: float,
    segments: str | Mapping[str, Sequence[Segment]] = "segments.csv",
    *,
    ignore: Sequence[str] = (),
    gap: str | None = None,
    times: Mapping[str, Times] | None = None,
    likelihood: float = 0.0,
    **options: str | None,
) -> LabeledSequences:
    """Read features from tables (CSV, TSV, Parquet, npz), and label each row from a table of
    segments.

    Parameters
    ----------
    root : path
        Folder that holds the table of segments, see :func:`load_recordings`, and for every
        recording a file RECORDING.suffix with one row per sample.
    rate : float
        Rows per second.
    segments, gap, **options
        As in :func:`load_recordings`.
    ignore : sequence of str
        Columns that are not features. The column ``label`` is always left out.
    times : dict, optional
        The times of the rows of every recording, see :func:`file_times`. Rows of one time become
        one. By default, rows follow one another in 1/rate seconds.
    likelihood : float
        See :func:`read_features`.

    Returns
    -------
    LabeledSequences
        ``sequences`` of shape (T_i, P), ``labels`` (T_i,), ``groups``, ``names``.

    Raises
    ------
    FileNotFoundError
        If a recording of the table of segments has no file.
    ValueError
        If a table is damaged or has other columns than the first, or a segment starts after the
        end of its table.

    Warns
    -----
    UserWarning
        As in :func:`load_recordings`.

    See Also
    --------
    load_recordings : does the same for sound and video.
    load_files : reads labels from the tables themselves.

    Examples
    --------
    >>> from metriclearn.datasets import load_tables
    >>> data = load_tables("features")  # doctest: +SKIP
    """
    folder = Path(root)
    table, tables = _segments_in(folder, segments, options)
    inside = sequence_files("load_tables", folder, None, ENDINGS)
    files = files_by_name("recording", [file for file in inside if file.name != table.name])
    tables = named_as(tables, [*files, *recording_files(folder)])
    # the label page may have saved segments of sound and video in the same table
    chosen = sorted(set(tables) - (set(recording_files(folder)) - set(files)))
    _need(folder, table, chosen or sorted(tables), files, "a table")
    frames = {name: read_features(files[name], ignore, None, likelihood) for name in chosen}
    columns = feature_columns([files[name] for name in chosen], list(frames.values()))
    features = {name: frame[columns].to_numpy() for name, frame in frames.items()}
    read_times = {name: (times or {}).get(files[name].stem) for name in chosen}
    _note_origins(table, tables, read_times)
    for name, read in read_times.items():
        if read is None:
            continue
        features[name] = read.distinct(features[name])
        # seconds at an even rate, without holes
        rows = read.rows([span[:2] for span in tables[name]]) / rate
        tables[name] = [(a, b, span[2]) for (a, b), span in zip(rows.tolist(), tables[name])]
    parts = _labeled(table, tables, features, rate, gap)
    return of_parts(folder.resolve().name, parts, columns)


def _note_origins(
    table: Path, tables: Mapping[str, Sequence[Segment]], times: Mapping[str, Times | None]
) -> None:
    """Warn if segments may have the times of a column that does not begin at 0."""
    origins = {
        name: 0.0 if read is None else float(read.origin) / read.form.per_second
        for name, read in times.items()
    }
    if all(1.0 < origin <= tables[name][0][0] for name, origin in origins.items()):
        name = next(iter(origins))
        note(
            f"Segments in {os.fspath(table)!r} count seconds from the first row of each table. If "
            f"they have the times of the rows, which begin at {origins[name]:g} s in {name!r}, "
            "subtract this time from them."
        )


def _segments_in(
    folder: Path, segments: str | Mapping[str, Sequence[Segment]], options: Mapping[str, str | None]
) -> tuple[Path, dict[str, list[Segment]]]:
    """Return the file of segments for error messages, and the segments of every recording."""
    if isinstance(segments, str):
        return folder / segments, read_labels(folder / segments, **options)
    table = folder / "segments.csv"
    return table, disjoint(table, {name: list(rows) for name, rows in segments.items()})


def _need(
    folder: Path, table: Path, chosen: Sequence[str], files: Mapping[str, Path], what: str
) -> None:
    """Raise an error if a chosen recording has no file."""
    if missing := [recording for recording in chosen if recording not in files]:
        raise FileNotFoundError(
            f"{os.fspath(folder)!r} needs {what} for every recording in {table.name}, but has none "
            f"for {missing[:5]}; add the files, or remove these recordings from the table, or "
            "write their names without endings."
        )


def _labeled(
    table: Path,
    tables: Mapping[str, Sequence[Segment]],
    features: Mapping[str, NDArray],
    rate: float,
    gap: str | None,
) -> dict[str, tuple[NDArray, ...]]:
    """Label the rows of every recording, after checking the times of its segments.

    The result maps the name of every recording to its features, its row labels, and the first rows
    of segments with the label of the segment before.
    """
    n_spans = sum(len(tables[recording]) for recording in features)
    if gap is None:
        ends = {recording: len(X) / rate for recording, X in features.items()}
        tables = with_background(repr(os.fspath(table)), tables, ends, 2 / rate, _NO_EVENTS)
    labelings = [[name for *_, name in tables[one] if name != UNKNOWN] for one in features]
    # with one label, every boundary of the table counts
    known = {*chain(*labelings)}
    one = len(known) == 1
    if gap not in (None, UNKNOWN):
        if not name_classes(labelings) and (not one or known == {""}):
            raise ValueError(
                f"{os.fspath(table)!r} needs labels that recur if gaps get the label {gap!r}; "
                "label the segments, or leave gap out."
            )
        one = False
    outside, length = 0.0, 0.0
    parts: dict[str, tuple[NDArray, ...]] = {}
    short: dict[str, int] = {}
    equal: dict[str, int] = {}
    for recording, X in features.items():
        spans, end = tables[recording], len(X) / rate
        _check_times(table, recording, spans, end, rate, gap)
        length += end
        outside += end - sum(max(0.0, min(b, end) - a) for a, b, _ in spans)
        told = {i: span for i, span in enumerate(spans, 1) if span[2] != UNKNOWN}
        seen = set(row_labels(numbered(spans), len(X), rate).tolist())
        short[recording] = sum(str(i) not in seen for i in told)
        if one:
            every = enumerate(spans, 1)
            spans = [(a, b, f"{recording} {i}" if i in told else UNKNOWN) for i, (a, b, _) in every]
        labels = row_labels(spans, len(X), rate, gap)
        starts = untold_starts(spans, len(X), rate)
        parts[recording] = X, labels, starts
        known = labels != UNKNOWN
        equal[recording] = int(np.sum(known[starts] & known[starts - 1]))
    if gap is None and outside > 0.02 * length:
        note(
            f"{outside:.0f} of {length:.0f} s are in no segment of {os.fspath(table)!r} and get "
            "the label of the nearest segment; add segments there, or label gaps (gap=…, --gap)."
        )
    _note_spans(short, equal, n_spans, rate)
    return parts


def _note_spans(
    short: Mapping[str, int], equal: Mapping[str, int], n_spans: int, rate: float
) -> None:
    """Warn of segments without a row, and of those that touch one with the same label."""
    too_short = f"too short for a row at {rate:g} rows per second are lost"
    rate_up = "raise the rate (rate=…, --rate), or check that times are in seconds"
    divided = "that touch one with the same label are kept apart"
    for counts, which, remedy in (
        (short, too_short, rate_up),
        (equal, divided, "join them if nothing changes there"),
    ):
        if total := sum(counts.values()):
            where = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
            note(
                f"Segments {which}: {total} of {n_spans} "
                f"({where[:80]}{'…' if len(where) > 80 else ''}); {remedy}."
            )


def _check_times(
    table: Path,
    recording: str,
    spans: Sequence[Segment],
    length: float,
    rate: float,
    gap: str | None,
) -> None:
    """Check that all segments start before the recording ends. Warn if times are probably wrong."""
    slack = max(1.0, 3.0 / rate)  # tracks of a file differ by some rows
    start, last = spans[-1][0], spans[-1][1]
    message = (
        f"{os.fspath(table)!r} has a segment of {recording!r} from {start:g} to {last:g} s, but "
        f"the recording ends at {length:.1f} s; "
    )
    if start > length + slack:
        raise ValueError(
            f"{message}give times in seconds (not in milliseconds or frames), or cut it."
        )
    if last > length + slack:
        note(f"{message}the rest is ignored: check that times are in seconds.")
    if gap is None and last + slack < length / 2:
        note(
            f"{message}all that follows gets the label of this last segment: check that times are "
            "in seconds (not in minutes), or cut the recording, or label gaps (gap=…, --gap)."
        )


def recording_files(folder: PathLike) -> dict[str, Path]:
    """Find the recordings in a folder and in its subfolders ``audio`` and ``video``.

    Parameters
    ----------
    folder : path

    Returns
    -------
    dict of str to Path
        The file of every recording, by the name of the recording: the name of the file without its
        ending.

    Raises
    ------
    ValueError
        If two files differ only by their ending.

    See Also
    --------
    load_recordings : computes their features.

    Examples
    --------
    >>> from metriclearn.datasets import recording_files
    >>> recording_files("shows")  # doctest: +SKIP
    {'monday': PosixPath('shows/audio/monday.flac')}
    """
    places = (Path(folder), Path(folder) / "audio", Path(folder) / "video")
    files = [file for place in places for file in sorted(place.glob("[!.]*")) if file.is_file()]
    known = [file for file in files if file.suffix.lower() not in _OTHER]
    known = [file for file in known if not file.name.lower().endswith(_COPIES)]
    return files_by_name("recording", known)
