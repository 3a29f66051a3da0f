"""Read a folder of recordings or tables with labels, as ``metriclearn fit`` does."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import metriclearn
from metriclearn import datasets, running
from metriclearn.apps.console.missing import interpolated, left_out, prepared
from metriclearn.apps.label_page.annotation import Clock
from metriclearn.apps.label_page.page_settings import PageSettings, page_settings
from metriclearn.apps.label_page.project import read_project
from metriclearn.apps.models import WITHOUT_RATE, extractor_of
from metriclearn.datasets import UNKNOWN
from metriclearn.running import note

_CSV = "*.[cC][sS][vV]"


class Options(NamedTuple):
    """The options of ``metriclearn fit`` that tell how a folder is read."""

    features: Any = None
    rate: float | None = None
    segments: str = "segments.csv"
    gap: str | None = None
    label: str | None = None
    time: str | None = None
    ignore: Sequence[str] | None = None
    likelihood: float | None = None
    fill: float | None = None
    duplicates: Any = None
    annotator: str | None = None
    unknown: str | None = None
    cache: Path | None = None


def opened(folder: Path, given: Options) -> tuple[datasets.LabeledSequences, dict[str, Any]]:
    """Read a folder of recordings or tables with labels. Settings of the label page count, too.

    The second result has parameters of a Segmenter: the extractor of recordings, the rows per
    second and the column of times of tables, and a view that leaves out rows with missing values.
    """
    page = page_settings(folder, given.segments, given.features)
    time, rate = given.time, given.rate
    if rate is None and time in (None, page.time):
        time, rate = page.time, page.rate
    elif rate is None and page.segments is not None:
        rate = page.rate
    by_page = (time, rate) == (page.time, page.rate)
    features, ignore = given.features or page.features, given.ignore or page.ignore
    recorded = features != "tables" and _holds_recordings(folder, given.segments)
    duplicates, used = given.duplicates or page.duplicates, None
    if not recorded and (rate is None or by_page):
        used = time
    elif not recorded and time and given.rate:
        note(
            f"Rows count as {1 / given.rate:.6g} s each by --rate, so the times in column {time!r} "
            "are not used; leave --rate out to use them."
        )
    times, found = times_of("fit", folder, used, rate, given.segments, duplicates)
    rate = rate or found
    labeled: dict[str, Any] = {"segments": given.segments, "gap": given.gap}
    labeled |= {"label": given.label, "annotator": given.annotator}
    if page.segments is not None and not (given.label or given.annotator):
        clock = Clock(times, page.rate) if by_page and page.rate else Clock()
        labeled |= {"segments": clock.in_files(page.segments), "gap": page.unknown}
    extractor: Any = None
    if recorded:
        of_tables = {"time": time, "ignore": ignore, "likelihood": given.likelihood}
        of_tables |= {"fill": given.fill, "duplicates": duplicates}
        _refuse("a folder of CSV files", folder, **of_tables)
        extractor, data = _recorded(folder, features, rate, given.cache, labeled)
    else:
        aside = [*(ignore or []), *([time] if time else [])]
        given = given._replace(features=features, rate=rate)
        data = _tables(folder, given, times, aside, labeled)
    data = prepared(data, times, given.fill, rate or 1.0, _unknown(data, given, page))
    gaps = np.concatenate([np.isnan(rows).any(axis=1) for rows in data.sequences])
    view = None
    if gaps.any():
        who = repr(str(folder)), int(gaps.sum()), len(gaps)
        note(interpolated(*who) if given.fill is None else left_out(*who))
        view = metriclearn.views.LeaveOut(fill=given.fill is None)
    return data, {"extractor": extractor, "rate": rate, "time": used, "view": view}


def _unknown(data: datasets.LabeledSequences, given: Options, page: PageSettings) -> str | None:
    """Return the label that marks unlabeled rows."""
    if given.unknown:
        return given.unknown
    names = sorted({str(name) for y in data.labels for name in datasets.runs(y)})
    if page.unknown is not None:
        return page.unknown if page.unknown in names else None
    # a name such as "?" or "-" may stand for no label, too
    for name in [one for one in names if one == UNKNOWN or not re.search(r"\w", one or "_")]:
        gap = f", and --gap {UNKNOWN} for time that a table leaves out" if name == UNKNOWN else ""
        note(
            f"The label {name!r} is learned as a class; if nobody has labeled this time, pass "
            f"--unknown {shlex.quote(name)}{gap}."
        )
    return None


def times_of(
    who: str,
    folder: Path,
    time: str | None,
    rate: float | None,
    segments: str = "segments.csv",
    duplicates: str | None = None,
) -> tuple[dict[str, running.Times], float | None]:
    """Read the times of every table in a folder from the column ``time``, and their rate.

    Without such a column there are no times, and the rate is the given one.
    """
    if time is None:
        return {}, rate
    files = datasets.sequence_files(who, folder, None, datasets.ENDINGS)
    times = {
        file.stem: datasets.file_times(file, time, duplicates=duplicates)
        for file in files
        if file.name != segments
    }
    return times, running.rate_of(list(times.values()), time)


def _refuse(kind: str, folder: Path, **options: Any) -> None:
    """Raise an error if an option is given that does not apply to this kind of folder."""
    if given := [f"--{name}" for name, value in options.items() if value is not None]:
        raise ValueError(
            f"{', '.join(given)} cannot be used with {str(folder)!r}, only with {kind}; leave "
            f"{'it' if len(given) == 1 else 'them'} out."
        )


def _holds_recordings(folder: Path, segments: str) -> bool:
    """Return whether a folder holds recordings or a table of their segments.

    The result is also True if ``segments`` names another table than segments.csv. For a folder of
    CSV files with labels, the result is False. If the folder holds none of these, an error is
    raised.
    """
    of = metriclearn.features
    kinds = {file.suffix.lower() for file in datasets.recording_files(folder).values()}
    if kinds & {*of.AUDIO_SUFFIXES, *of.VIDEO_SUFFIXES} or (folder / segments).is_file():
        return True
    tables = (file for file in folder.iterdir() if file.suffix.lower() in datasets.ENDINGS)
    if segments == "segments.csv" and not any(tables):
        raise FileNotFoundError(
            f"{str(folder)!r} holds neither recordings nor CSV files; add CSV files, or recordings "
            f"with a table {segments}."
        )
    return segments != "segments.csv"


def _tables(
    folder: Path,
    given: Options,
    times: Mapping[str, running.Times],
    left_out: Sequence[str],
    labeled: dict[str, Any],
) -> Any:
    """Read a folder of tables, with their labels in a column or in a table of segments."""
    if given.rate is None:
        note(WITHOUT_RATE)
    if given.features == "tables":
        columns: dict[str, Any] = {"ignore": left_out, "likelihood": given.likelihood or 0.0}
        return datasets.load_tables(folder, given.rate or 1.0, times=times, **labeled, **columns)
    _refuse(
        "a folder of recordings", folder, features=given.features, gap=given.gap, cache=given.cache
    )
    of_segments = {"likelihood": given.likelihood, "annotator": given.annotator}
    _refuse("tables of DeepLabCut and a table of segments", folder, **of_segments)
    partly = given.unknown == ""
    pattern = _CSV if any(folder.glob(_CSV)) else None
    return datasets.load_files(folder, given.label or "label", pattern, None, left_out, partly)


def _recorded(
    folder: Path,
    features: str | None,
    rate: float | None,
    cache: Path | None,
    labeled: dict[str, Any],
) -> tuple[Any, Any]:
    """Read a folder of recordings, and return the feature extractor and the data.

    Unless the kind of features and the rate are given, they are chosen to suit the recordings.
    """
    spans, options = labeled["segments"], (labeled["label"], labeled["annotator"])
    if isinstance(spans, str):
        spans = datasets.read_labels(folder / spans, *options)
    classes = datasets.name_classes([[name for *_, name in table] for table in spans.values()])
    files = datasets.recording_files(folder)
    kinds = {file.suffix.lower() for file in files.values()}
    if features is None and not kinds <= {*metriclearn.features.VIDEO_SUFFIXES}:
        features = "audio"
    features = features or ("both" if classes else "video")
    # shots may be shorter than a second
    extractor = extractor_of(features, rate or (1.0 if classes or features == "audio" else 8.0))
    # labels from the page may name tables, too
    named = sorted(set(spans) & set(files)) if read_project(folder) else None
    given: dict[str, Any] = {"recordings": named, "cache": cache, **labeled}
    return extractor, datasets.load_recordings(folder, extractor, **given)
