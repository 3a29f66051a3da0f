"""Folders of recordings with a table of labelled segments, and four such data sets."""

from __future__ import annotations

import hashlib
import logging
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from metriclearn.datasets.annotations import Segment, numbered, read_segments, row_labels
from metriclearn.datasets.files import ENDINGS, read_features, sequence_files
from metriclearn.datasets.registry import PathLike, existing, files_by_name
from metriclearn.datasets.sequences import LabeledSequences, name_classes, of_parts
from metriclearn.running.atomic import replacing

_LOGGER = logging.getLogger(__name__)
_VERSION = 1  # of the cached features; raised when an extractor's results change
# other files next to recordings: tables, texts, pictures, projects of labeling programs
_OTHER = {".csv", ".tsv", ".txt", ".md", ".json", ".yaml", ".vtt", ".srt", ".npz", ".model"}
_OTHER |= {".png", ".jpg", ".jpeg", ".gif", ".svg", ".pdf", ".html", ".xml", ".docx", ".xlsx"}
_OTHER |= {".ods", ".db", ".ini", ".zip", ".parquet", ".aup", ".aup3", ".eaf", ".textgrid", ".rttm"}


class Extractor(Protocol):
    """What turns a file into features: ``AudioFeatures``, ``VideoFeatures``, ``JoinedFeatures``."""

    @property
    def rate(self) -> float:
        """Rows per second."""
        ...

    def extract(self, path: PathLike, /) -> NDArray[np.float64]:
        """Features of one file, (T, P)."""
        ...

    def get_feature_names_out(self) -> NDArray:
        """Names of the P columns."""
        ...

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters, which with the file decide the result."""
        ...


def load_recordings(
    root: PathLike,
    extractor: Extractor,
    segments: str = "segments.csv",
    *,
    recordings: Sequence[str] | None = None,
    gap: str | None = None,
    groups: dict[str, str] | None = None,
    cache: PathLike | None = None,
    name: str | None = None,
) -> LabeledSequences:
    """Features and labels of every recording that the table names.

    ``root`` holds the table, with columns recording, start, end (seconds) and label, and the
    recordings, one file RECORDING.suffix each, beside it or in a folder ``audio`` or ``video``.

    Parameters
    ----------
    root : path
    extractor : Extractor
        Decides features and rows per second.
    segments : str
        File name of the table.
    recordings : sequence of str, optional
        Only these, in this order; by default all of the table, by name.
    gap : str, optional
        Label of time in no segment; by default the label of the segment nearest in time. A table
        with labels that name no classes (:func:`~metriclearn.datasets.sequences.name_classes`) has
        none.
    groups : dict, optional
        Group of every recording; by default each is its own.
    cache : path, optional
        Folder of computed features, see :func:`cached_features`.
    name : str, optional
        Name of the data set; by default that of the folder.

    Returns
    -------
    LabeledSequences
        ``sequences`` of shape (T_i, P), ``labels`` (T_i,), ``groups``, ``names``.

    Raises
    ------
    FileNotFoundError
        If the table, or a recording that it names, is missing.
    ValueError
        If the table is not as it should be, a segment starts after the end of its recording, or a
        recording is damaged.

    Warns
    -----
    UserWarning
        If segments end after their recording or before half of it, leave much time out, are too
        short for a row, or touch one of the same label, with what to do.

    See Also
    --------
    load_tables : of tables.
    metriclearn.features.media.audio.AudioFeatures, metriclearn.features.media.video.VideoFeatures

    Examples
    --------
    >>> from metriclearn.datasets import load_recordings
    >>> from metriclearn.features.media.audio import AudioFeatures
    >>> data = load_recordings("shows", AudioFeatures(rate=2))  # doctest: +SKIP
    """
    folder = Path(root)
    tables = read_segments(folder / segments)
    chosen = sorted(tables) if recordings is None else list(recordings)
    if unknown := sorted(set(chosen) - set(tables)):
        raise ValueError(
            f"{os.fspath(folder / segments)!r} has no segments of {unknown[:5]}; it has those of "
            f"{sorted(tables)[:10]}."
        )
    files = recording_files(folder)
    if missing := [recording for recording in chosen if recording not in files]:
        raise FileNotFoundError(
            f"{os.fspath(folder)!r} needs a file of sound or pictures for every recording of "
            f"{segments}, but has none for {missing[:5]}; add them, take their lines out, or write "
            "names without endings."
        )
    shown = tqdm(chosen, "features", disable=None, unit="file", delay=2.0)
    features = ((one, cached_features(files[one], extractor, cache)) for one in shown)
    parts = _labeled(folder / segments, tables, chosen, features, float(extractor.rate), gap)
    return of_parts(
        name or folder.resolve().name,
        parts,
        list(extractor.get_feature_names_out()),
        [(groups or {}).get(recording, recording) for recording in chosen],
    )


def load_tables(
    root: PathLike,
    rate: float,
    segments: str = "segments.csv",
    *,
    ignore: Sequence[str] = (),
    gap: str | None = None,
) -> LabeledSequences:
    """Features and labels of every table (CSV, TSV, Parquet, npz) that a table of segments names.

    Parameters
    ----------
    root : path
        Holds the table of segments, see :func:`load_recordings`, and one file RECORDING.suffix
        with a row per sample each.
    rate : float
        Rows per second.
    segments, gap
        As in :func:`load_recordings`.
    ignore : sequence of str
        Columns that are no features; ``label`` is none.

    Returns
    -------
    LabeledSequences
        ``sequences`` of shape (T_i, P), ``labels`` (T_i,), ``groups``, ``names``.

    Raises
    ------
    FileNotFoundError
        If a recording of the table of segments has no file.
    ValueError
        If a table is damaged, or has other columns than the first, or a segment starts after its
        end.

    Warns
    -----
    UserWarning
        As :func:`load_recordings` does.

    See Also
    --------
    load_recordings : of sound and video.
    load_files : labels in the tables themselves.

    Examples
    --------
    >>> from metriclearn.datasets import load_tables
    >>> data = load_tables("features")  # doctest: +SKIP
    """
    folder = Path(root)
    tables = read_segments(folder / segments)
    inside = sequence_files("load_tables", folder, None, ENDINGS)
    files = files_by_name("recording", [file for file in inside if file.name != segments])
    present = {**files, **recording_files(folder)}  # a page may have saved both
    if missing := [name for name in sorted(tables) if name not in present]:
        raise FileNotFoundError(
            f"{os.fspath(folder)!r} needs a table for every recording of {segments}, but has none "
            f"for {missing[:5]}; add them, take their lines out, or write names without endings."
        )
    frames = {name: read_features(files[name], ignore) for name in sorted(tables) if name in files}
    if not frames:
        raise FileNotFoundError(
            f"{os.fspath(folder)!r} needs a table for the recordings of {segments}, but has none "
            f"for {sorted(tables)[:5]}."
        )
    columns = list(next(iter(frames.values())).columns)
    for name, frame in frames.items():
        if list(frame.columns) != columns:
            raise ValueError(
                f"{os.fspath(files[name])!r} needs the columns {columns[:8]} of the first table, "
                f"got {list(frame.columns)[:8]}; leave out what not all have (ignore=…, --ignore)."
            )
    features = ((name, frame.to_numpy()) for name, frame in frames.items())
    parts = _labeled(folder / segments, tables, list(frames), features, rate, gap)
    return of_parts(folder.resolve().name, parts, [str(column) for column in columns])


def _labeled(
    table: Path,
    tables: Mapping[str, Sequence[Segment]],
    chosen: Sequence[str],
    features: Iterable[tuple[str, NDArray]],
    rate: float,
    gap: str | None,
) -> dict[str, tuple[NDArray, NDArray]]:
    """Features of the chosen recordings with a label for each row, times checked."""
    labelings = [[label for *_, label in tables[recording]] for recording in chosen]
    one = len(set(chain(*labelings))) == 1  # for all: each boundary of the table is one
    if gap is not None and not name_classes(labelings):
        raise ValueError(
            f"{os.fspath(table)!r} needs labels that come back where gaps have one, {gap!r}; label "
            "the segments, or leave gap out."
        )
    parts, outside, length = {}, 0.0, 0.0
    for recording, X in features:
        spans = tables[recording]
        length += (end := len(X) / rate)
        outside += end - sum(max(0.0, min(b, end) - a) for a, b, _ in spans)
        _check_times(table, recording, spans, len(X), rate, gap)
        names = [(start, end, f"{recording} {i}") for start, end, i in numbered(spans)]
        parts[recording] = X, row_labels(names if one else spans, len(X), rate, gap)
    if gap is None and outside > 0.02 * length:
        warnings.warn(
            f"{outside:.0f} of {length:.0f} s are in no segment of {os.fspath(table)!r} and count "
            "as the one nearest in time; give what is between segments lines of its own, or a "
            "label (gap=…, --gap).",
            stacklevel=3,
        )
    lengths = {recording: len(X) for recording, (X, _) in parts.items()}
    _note_losses({recording: tables[recording] for recording in chosen}, lengths, rate, one)
    return parts


def _check_times(
    table: Path,
    recording: str,
    spans: Sequence[Segment],
    n_rows: int,
    rate: float,
    gap: str | None,
) -> None:
    """An error for a segment that starts after the recording, a warning for one that ends there,
    and for a table that is about less than half of the recording.
    """
    length, slack = n_rows / rate, max(1.0, 3.0 / rate)  # tracks of a file differ by some rows
    start, last = spans[-1][0], spans[-1][1]
    told = f"{os.fspath(table)!r} has a segment of {recording!r} from {start:g} to {last:g} s, but "
    told += f"the recording ends at {length:.1f} s; "
    if start > length + slack:
        raise ValueError(f"{told}give times in seconds (not in milliseconds or frames), or cut it.")
    if last > length + slack:
        warnings.warn(
            f"{told}what is beyond is left out: check that times are in seconds.", stacklevel=4
        )
    if gap is None and last + slack < length / 2:
        warnings.warn(
            f"{os.fspath(table)!r} has segments of {recording!r} up to {last:g} s only of "
            f"{length:.1f} s; what follows counts as the last one: check that times are in seconds "
            "(not in minutes), or cut the recording, or label gaps (gap=…, --gap).",
            stacklevel=4,
        )


def _note_losses(
    tables: Mapping[str, Sequence[Segment]], lengths: Mapping[str, int], rate: float, one: bool
) -> None:
    """A warning for segments without a row, and, if labels differ, for neighbors with one label."""
    short, equal = {}, {}
    for recording, spans in tables.items():
        seen = row_labels(numbered(spans), lengths[recording], rate)
        short[recording] = len(spans) - len(set(seen.tolist()))
        touching = sum(a[1:] == (b[0], b[2]) for a, b in pairwise(spans))
        equal[recording] = 0 if one else touching
    for counts, which, remedy in (
        (
            short,
            f"without a row at {rate:g} per second are lost",
            "take a higher rate (--rate), or check that times are in seconds",
        ),
        (
            equal,
            "with the label of the one before are read as one with it",
            "to learn such boundaries, leave the labels out",
        ),
    ):
        if any(counts.values()):
            where = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
            warnings.warn(
                f"Segments {which}: {sum(counts.values())} of {sum(map(len, tables.values()))} "
                f"({where[:80]}{'…' if len(where) > 80 else ''}); {remedy}.",
                stacklevel=4,
            )


def recording_files(folder: PathLike) -> dict[str, Path]:
    """Name without its ending -> file, for a folder and ``audio`` and ``video`` in it.

    Raises
    ------
    ValueError
        If two files differ only by their ending.
    """
    places = (Path(folder), Path(folder) / "audio", Path(folder) / "video")
    files = [file for place in places for file in sorted(place.glob("[!.]*")) if file.is_file()]
    known = (file for file in files if file.suffix.lower() not in _OTHER)
    return files_by_name("recording", known)


def files_to_segment(files: Sequence[Path], tables: bool) -> list[Path]:
    """The files, and those in folders among them: CSV files, or recordings."""
    listed: list[Path] = []
    for file in files:
        if not file.is_dir():
            inside = [file]
        elif tables:
            inside = sequence_files("segment", file, None, [".csv"])
        else:
            inside = list(recording_files(file).values())
        if not inside:
            raise FileNotFoundError(f"{str(file)!r} holds no recording to segment.")
        listed += inside
    return listed


def cached_features(
    path: PathLike, extractor: Extractor, cache: PathLike | None = None
) -> NDArray[np.float64]:
    """Features of a file, computed once for its content and the extractor's parameters.

    Entries are named by a hash of both, written in one step, and safe to delete; one that is
    damaged, or a folder that cannot be written, costs only the computation.

    Parameters
    ----------
    cache : path, optional
        By default a folder in the cache of the current user (``METRICLEARN_CACHE`` if set).
    """
    import joblib
    import pooch

    named = os.environ.get("METRICLEARN_CACHE") or pooch.os_cache("metriclearn")
    folder = Path(cache) if cache is not None else Path(named).expanduser() / "features"
    with open(path, "rb") as stream:
        content = hashlib.file_digest(stream, "sha256").hexdigest()
    parameters = extractor.get_params(deep=False)
    key = joblib.hash([_VERSION, content, type(extractor).__name__, parameters])
    entry = folder / f"{key}.npz"
    try:
        with np.load(entry, allow_pickle=False) as file:
            return np.asarray(file["X"], dtype=np.float64)
    except FileNotFoundError:
        pass
    except Exception as error:  # a damaged archive can fail in any of many ways
        _LOGGER.info("%s is damaged (%s) and made again", entry, error)
    X = extractor.extract(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(entry) as stream:
            np.savez_compressed(stream, X=X)
    except OSError as error:
        _LOGGER.warning("features of %s are not kept: %s", path, error)
    return X


def load_jamendo_singing(
    extractor: Extractor, root: PathLike | None = None, **options: Any
) -> LabeledSequences:
    """Six songs, singing against instrumental passages; options as in :func:`load_recordings`.

    Durand, Stoller & Ewert, ICASSP 2023 (JamendoLyrics MultiLang).

    Parameters
    ----------
    extractor : Extractor
        Features of a file, such as ``AudioFeatures()``.
    root : path, optional
        See :func:`data_folder`.
    **options
        Those of :func:`load_recordings`.

    Returns
    -------
    LabeledSequences
        ``sequences`` of shape (T_i, P), ``labels`` (T_i,), ``groups``, ``names``.

    Raises
    ------
    FileNotFoundError, ValueError
        As of :func:`load_recordings`.

    Examples
    --------
    >>> from metriclearn.datasets import load_jamendo_singing
    >>> from metriclearn.features.media.audio import AudioFeatures
    >>> data = load_jamendo_singing(AudioFeatures(rate=2))  # doctest: +SKIP
    """
    return _load("jamendo_singing", extractor, root, **options)


def load_ami_turns(
    extractor: Extractor, root: PathLike | None = None, **options: Any
) -> LabeledSequences:
    """Nine excerpts of meetings with turns of speakers; groups are their sets of speakers.

    Test data of pyannote.audio, from the AMI Meeting Corpus (Carletta et al. 2005).

    Parameters
    ----------
    extractor : Extractor
        Features of a file, such as ``AudioFeatures()``.
    root : path, optional
        See :func:`data_folder`.
    **options
        Those of :func:`load_recordings`.

    Returns
    -------
    LabeledSequences
        ``sequences`` of shape (T_i, P), ``labels`` (T_i,), ``groups``, ``names``.

    Raises
    ------
    FileNotFoundError, ValueError
        As of :func:`load_recordings`.

    Examples
    --------
    >>> from metriclearn.datasets import load_ami_turns
    >>> from metriclearn.features.media.audio import AudioFeatures
    >>> data = load_ami_turns(AudioFeatures(rate=2))  # doctest: +SKIP
    """
    groups = {f"trn{i:02d}": "trn00-03" if i < 4 else "trn04-06" for i in range(7)}
    groups |= {"dev00": "dev00-01", "dev01": "dev00-01"}
    return _load("ami_turns", extractor, root, **{"groups": groups, **options})


def load_musanmix(
    extractor: Extractor, root: PathLike | None = None, **options: Any
) -> LabeledSequences:
    """One recording of music, noise and speech; labels by inaSpeechSegmenter, not by hand.

    Parameters
    ----------
    extractor : Extractor
        Features of a file, such as ``AudioFeatures()``.
    root : path, optional
        See :func:`data_folder`.
    **options
        Those of :func:`load_recordings`.

    Returns
    -------
    LabeledSequences
        ``sequences`` of shape (T_i, P), ``labels`` (T_i,), ``groups``, ``names``.

    Raises
    ------
    FileNotFoundError, ValueError
        As of :func:`load_recordings`.

    References
    ----------
    Doukhan et al., An open-source speaker gender detection framework for monitoring gender
    equality, ICASSP 2018 (inaSpeechSegmenter).

    Examples
    --------
    >>> from metriclearn.datasets import load_musanmix
    >>> from metriclearn.features.media.audio import AudioFeatures
    >>> data = load_musanmix(AudioFeatures(rate=2))  # doctest: +SKIP
    """
    return _load("musanmix", extractor, root, **{"segments": "segments_smn.csv", **options})


def load_speech_segments(
    extractor: Extractor, root: PathLike | None = None, **options: Any
) -> LabeledSequences:
    """Two short recordings, a speaker counting and four speakers in turn (pyAudioAnalysis).

    Parameters
    ----------
    extractor : Extractor
        Features of a file, such as ``AudioFeatures()``.
    root : path, optional
        See :func:`data_folder`.
    **options
        Those of :func:`load_recordings`.

    Returns
    -------
    LabeledSequences
        ``sequences`` of shape (T_i, P), ``labels`` (T_i,), ``groups``, ``names``.

    Raises
    ------
    FileNotFoundError, ValueError
        As of :func:`load_recordings`.

    References
    ----------
    Giannakopoulos, pyAudioAnalysis: an open-source Python library for audio signal analysis, PLOS
    ONE 10, 2015.

    Examples
    --------
    >>> from metriclearn.datasets import load_speech_segments
    >>> from metriclearn.features.media.audio import AudioFeatures
    >>> data = load_speech_segments(AudioFeatures(rate=2))  # doctest: +SKIP
    """
    return _load("speech_segments", extractor, root, **options)


def _load(
    name: str, extractor: Extractor, root: PathLike | None, **options: Any
) -> LabeledSequences:
    table = existing(name, options.get("segments", "segments.csv"), root)
    return load_recordings(table.parent, extractor, name=name, **options)
