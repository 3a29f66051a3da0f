"""Read and write segments: tables, Audacity, Praat, ELAN, Raven, WAV markers and others."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from decimal import Decimal
from html import escape, unescape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from metriclearn.datasets.annotations import (
    disjoint,
    named_as,
    note_other,
    of_annotator,
    read_segments,
    save_segments,
    seconds_text,
)
from metriclearn.datasets.programs.cue_markers import read_cues, write_cues
from metriclearn.datasets.programs.events import is_boris, read_boris, read_raven, write_raven
from metriclearn.datasets.registry import PathLike
from metriclearn.datasets.segments import Segment, numbered
from metriclearn.datasets.text_tables import text_rows
from metriclearn.running.atomic import reading, replacing
from metriclearn.running.extras import optional
from metriclearn.running.notes import note

_TIER = "segments"
_EXACT = "exact seconds"  # property of an ELAN document
_PRAAT = re.compile(r'"(?P<text>(?:[^"]|"")*)"|![^\n]*|(?<!\S)(?P<number>[-+]?\d[\d.eE+-]*)(?!\S)')
_OPTIONS = re.compile(r"(, or [^,;]*)? \((\w+=…, )?--[^()]*\)")  # in error messages
_CLOCK = re.compile(r"(?:(\d+):)?(\d\d):(\d\d[.,]\d+)")


class Format(NamedTuple):
    """A file format, with functions that write and read the segments of one recording.

    Attributes
    ----------
    title, ending : str
        Name of the format for users, and the ending of its files.
    write : callable
        ``write(name, segments, path)`` writes the segments of the recording ``name``.
    read : callable
        ``read(name, path)`` returns the segments of the recording ``name``. The function for Raven
        also takes a column ``label``, and some functions take an ``annotator``.
    precision : float
        Largest change of a time, in seconds, when it is written and read back.
    is_sound : bool
        Whether ``path`` is a copy of the recording, into which ``write`` writes.

    See Also
    --------
    write_file : checks what a format keeps.

    Examples
    --------
    >>> from metriclearn.datasets import FORMATS
    >>> FORMATS["elan"].title, FORMATS["elan"].ending
    ('ELAN', '.eaf')
    """

    title: str
    ending: str
    write: Callable[[str, Sequence[Segment], Path], Any]
    read: Callable[..., list[Segment]]
    precision: float = 1e-6  # a fifth of a sample at 192 kHz
    is_sound: bool = False


def _write_csv(name: str, segments: Sequence[Segment], path: Path) -> None:
    save_segments({name: segments}, path)


def _read_csv(name: str, path: Path) -> list[Segment]:
    tables = named_as(read_segments(path), [name])
    if name not in tables:
        raise ValueError(
            f"{str(path)!r} has segments only of {', '.join(map(repr, sorted(tables)[:5]))}, none "
            f"of {name!r}; choose one of these recordings, or correct the names in the file."
        )
    return tables[name]


def _write_audacity(name: str, segments: Sequence[Segment], path: Path) -> None:
    path.write_bytes("".join(f"{a:.6f}\t{b:.6f}\t{label}\n" for a, b, label in segments).encode())


def _read_audacity(name: str, path: Path) -> list[Segment]:
    segments = []
    for line in path.read_text("utf-8-sig").split("\n"):
        if line.strip() and not line.startswith("\\"):  # such lines hold frequencies
            start, end, *label = line.split("\t", 2)
            segments.append((float(start), float(end), "".join(label).strip()))
    return segments


def _write_webvtt(name: str, segments: Sequence[Segment], path: Path) -> None:
    cues = [
        f"{_clock(a)} --> {_clock(b)}\n{escape(label, quote=False)}\n" for a, b, label in segments
    ]
    path.write_bytes("\n".join(["WEBVTT\n", *cues]).encode())


def _clock(seconds: float) -> str:
    """Write a time as hh:mm:ss.mmm."""
    minutes, milliseconds = divmod(round(1000 * seconds), 60000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{milliseconds / 1000:06.3f}"


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
            label = unescape(" ".join(map(str.strip, text.split("\n")))).strip()
            segments.append((start, end, label))
    return segments


def _write_textgrid(name: str, segments: Sequence[Segment], path: Path) -> None:
    grid = optional("pympi", "label").TextGrid(xmax=segments[-1][1])
    tier = grid.add_tier(_TIER)
    for start, end, label in segments:
        tier.add_interval(start, end, label)
    grid.to_file(str(path))


def _read_textgrid(name: str, path: Path, annotator: str | None = None) -> list[Segment]:
    """Read a TextGrid in Praat's long, short or chronological form.

    Praat reads texts in quotes and numbers between blanks, and takes all else for comments.
    """
    content = path.read_bytes()
    wide = content[:2] in (b"\xff\xfe", b"\xfe\xff")  # UTF-16, for rare letters
    parts = _PRAAT.finditer(content.decode("utf-16" if wide else "utf-8-sig"))
    values = iter([m["number"] or m["text"].replace('""', '"') for m in parts if m.lastgroup])

    def take(count: int) -> list[str]:
        return [next(values) for _ in range(count)]

    def keep(kind: str, tier: list[Segment]) -> None:
        start, end = take(2)
        if kind == "IntervalTier" and (text := take(1)[0].strip()):  # a point has a time and a text
            tier.append((float(start), float(end), text))

    tiers: list[tuple[str, list[Segment]]] = []
    if take(1)[0].startswith("Praat chronological"):
        kinds = [take(4)[:2] for _ in range(int(take(3)[2]))]
        tiers = [(title, []) for _, title in kinds]
        for place in values:
            keep(kinds[int(place) - 1][0], tiers[int(place) - 1][1])
        return _one_tier(path, tiers, annotator)
    for _ in range(int(take(4)[3])):
        kind, title, _, _, size = take(5)
        tiers.append((title, []))
        for _ in range(int(size)):
            keep(kind, tiers[-1][1])
    return _one_tier(path, tiers, annotator)


def _write_elan(name: str, segments: Sequence[Segment], path: Path) -> None:
    """Write an ELAN file.

    ELAN stores times in whole milliseconds, so exact times are kept in a property of the document.
    """
    document = optional("pympi", "label").Elan.Eaf()
    document.add_tier(_TIER)
    document.remove_tier("default")
    for start, end, label in segments:
        document.add_annotation(_TIER, _milliseconds(start), _milliseconds(end), label)
    times = sorted({time for start, end, _ in segments for time in (start, end)})
    if finer := [time for time in times if abs(time - _milliseconds(time) / 1000) > 1e-9]:
        document.add_property(_EXACT, " ".join(map(seconds_text, finer)))
    document.to_file(str(path))


def _read_elan(name: str, path: Path, annotator: str | None = None) -> list[Segment]:
    document = optional("pympi", "label").Elan.Eaf(str(path))
    properties = dict(document.get_properties())
    # exact times by their milliseconds; a time that was moved in ELAN is not among them
    finer = {_milliseconds(time): time for time in map(float, properties.get(_EXACT, "").split())}
    media = document.get_linked_files()
    origin = int(media[0].get("TIME_ORIGIN") or 0) / 1000 if media else 0.0  # in the sound
    tiers, people = [], []
    for tier in document.get_tier_names():
        cues = document.get_annotation_data_for_tier(tier)
        spans = [[finer.get(time, time / 1000) + origin for time in cue[:2]] for cue in cues]
        texts = [cue[2].strip() for cue in cues]
        tiers.append((tier, sorted((a, b, text) for (a, b), text in zip(spans, texts))))
        people.append(document.get_parameters_for_tier(tier).get("ANNOTATOR") or "")
    return _one_tier(path, tiers, annotator, people)


def _milliseconds(seconds: float) -> int:
    """Round to milliseconds, halves up, so that two times that are 1 ms apart never become
    equal."""
    return int(1000 * seconds + 0.5)


def _one_tier(
    path: Path,
    tiers: Sequence[tuple[str, list[Segment]]],
    annotator: str | None = None,
    people: Sequence[str] = (),
) -> list[Segment]:
    """Return the segments of the tier named "segments", or else of the first non-empty tier.

    ``people`` are the annotators of the tiers. Where none is named, tiers are named after them.
    """
    by = people if any(people) else [name if annotator else "" for name, _ in tiers]
    whose = [(who, tier) for who, tier in zip(by, tiers) if tier[1]]
    if not whose:
        raise ValueError("it has no tier with labeled intervals")
    used = of_annotator(path, [(who, "") for who, _ in whose], annotator)
    filled = [whose[i][1] for i in used]
    name, segments = next((tier for tier in filled if tier[0] == _TIER), filled[0])
    if others := [other for other, _ in filled if other != name]:
        note(
            f"{path.name!r} has several tiers; {name!r} is read, {', '.join(others[:5])} left out. "
            f"To use another one, name it (annotator=…, --annotator), or rename it to {_TIER!r}."
        )
    return segments


def _write_rttm(name: str, segments: Sequence[Segment], path: Path) -> None:
    lines, name = [], "_".join(name.split())
    for start, end, label in segments:
        first, last = (Decimal(seconds_text(time)) for time in (start, end))
        lines.append(f"SPEAKER {name} 1 {first} {last - first} <NA> <NA> {label} <NA> <NA>\n")
    path.write_bytes("".join(lines).encode())


def _read_rttm(name: str, path: Path) -> list[Segment]:
    tables: dict[str, list[Segment]] = {}
    for line in path.read_text("utf-8-sig").split("\n"):
        fields = line.split()
        if fields and fields[0] == "SPEAKER":
            start, length = Decimal(fields[3]), Decimal(fields[4])
            segment = float(start), float(start + length), fields[7]
            tables.setdefault(fields[1], []).append(segment)
    if name not in tables and len(tables) != 1:
        raise ValueError(f"it has no segments of {name!r}, only of {sorted(tables)[:5]}")
    found = name if name in tables else next(iter(tables))
    note_other(path, found, name, "_".join(name.split()))
    return sorted(tables[found])


def _write_jams(name: str, segments: Sequence[Segment], path: Path) -> None:
    length = segments[-1][1]
    data = [
        {"time": start, "duration": end - start, "value": label, "confidence": None}
        for start, end, label in segments
    ]
    annotation = {"namespace": "segment_open", "data": data, "time": 0, "duration": length}
    annotation |= {"annotation_metadata": {"data_source": "metriclearn"}, "sandbox": {}}
    about = {"title": name, "duration": length, "identifiers": {}, "jams_version": "0.3.4"}
    content = {"file_metadata": about, "annotations": [annotation], "sandbox": {}}
    path.write_bytes(json.dumps(content, indent=1).encode())


def _read_jams(name: str, path: Path, annotator: str | None = None) -> list[Segment]:
    tiers, people = [], []
    for one in json.loads(path.read_text("utf-8-sig"))["annotations"]:
        if re.match("segment|tag", one["namespace"]):
            cues = [(o["time"], o["time"] + o["duration"], str(o["value"])) for o in one["data"]]
            tiers.append((one["namespace"], sorted(cues)))
            about = (one.get("annotation_metadata") or {}).get("annotator") or {}
            people.append(str(about.get("name") or ""))
    return _one_tier(path, tiers, annotator, people)


FORMATS = {
    "csv": Format("Table (CSV)", ".segments.csv", _write_csv, _read_csv),
    "audacity": Format("Audacity labels", ".labels.txt", _write_audacity, _read_audacity),
    "webvtt": Format("WebVTT", ".vtt", _write_webvtt, _read_webvtt, 5.1e-4),
    "textgrid": Format("Praat TextGrid", ".TextGrid", _write_textgrid, _read_textgrid),
    "elan": Format("ELAN", ".eaf", _write_elan, _read_elan),
    "rttm": Format("RTTM", ".rttm", _write_rttm, _read_rttm),
    "jams": Format("JAMS", ".jams", _write_jams, _read_jams),
    "raven": Format("Raven selections", ".selections.txt", write_raven, read_raven),
    "wav": Format("WAV cue markers", ".cues.wav", write_cues, read_cues, 5.1e-4, is_sound=True),
}


_WITH_ANNOTATORS = ("textgrid", "elan", "jams", "raven")


def write_file(
    kind: str,
    name: str,
    segments: Sequence[Segment],
    path: PathLike,
    recording: PathLike | None = None,
) -> Path:
    """Write the segments of a recording in one of the formats.

    The function checks that the segments can be read back.

    All formats except CSV require labels. If no segment has a label, the numbers of the segments
    are written as labels. Times are accurate to a microsecond, in WebVTT to a millisecond, in WAV
    to a sample.

    Parameters
    ----------
    kind : str
        A key of ``FORMATS``: csv, audacity, webvtt, textgrid, elan, rttm, jams, raven
        or wav.
    name : str
        Name of the recording.
    segments : sequence of (start, end, label)
        Times are in seconds.
    path : path
    recording : path, optional
        The WAV file of which the format "wav" makes a copy.

    Returns
    -------
    Path
        The written file.

    Raises
    ------
    ValueError
        If segments overlap, or the format cannot hold a label or a time. Then no file is written.

    See Also
    --------
    read_labels : reads the files.

    Examples
    --------
    >>> from metriclearn.datasets import write_file
    >>> write_file("audacity", "a", [(0.0, 1.5, "speech")], "a.labels.txt")  # doctest: +SKIP
    PosixPath('a.labels.txt')
    """
    form, target = FORMATS[kind], Path(path)
    given = disjoint(path, {name: [(start, end, label) for start, end, label in segments]})[name]
    plain = not any(label for *_, label in given)
    expected = numbered(given) if plain and kind != "csv" else given
    remedy = (
        "rename the label, lengthen the segment, or choose another format "
        f"({', '.join(other for other in FORMATS if other != kind)})"
    )
    with TemporaryDirectory() as folder:
        written = Path(folder) / f"{name}{form.ending}"
        if form.is_sound:
            source = Path(recording or "")
            if source.suffix.lower() != ".wav":
                raise ValueError(
                    f"{form.title} are written into a copy of a .wav file, but {name!r} is not "
                    f"one; {remedy}."
                )
            shutil.copyfile(source, written)
        try:
            form.write(name, expected, written)
            back = form.read(name, written)
        except ImportError:
            raise
        except Exception as error:
            why = " ".join(str(error).replace(str(written), "file").split()).rstrip(".")
            raise ValueError(
                f"{form.title} cannot hold the segments of {name!r} ({why}); {remedy}."
            ) from error
        for i, (start, end, label) in enumerate(expected):
            again = back[i] if len(back) == len(expected) else (-1.0, -1.0, "")
            near = max(abs(again[0] - start), abs(again[1] - end)) <= form.precision
            if not near or again[2] != label or again[0] >= again[1]:
                raise ValueError(
                    f"{form.title} cannot hold the segment {label!r} of {name!r} from {start:g} to "
                    f"{end:g} s exactly; {remedy}."
                )
        with replacing(target) as stream, written.open("rb") as content:
            shutil.copyfileobj(content, stream)
    return target


def read_file(kind: str, name: str, path: Path) -> list[Segment]:
    """Read the segments of the recording ``name`` from a file in one of the formats.

    Parameters
    ----------
    kind : str
        A key of ``FORMATS``.
    name : str
        Name of the recording.
    path : Path

    Returns
    -------
    list of (start, end, label)
        Times are in seconds.

    Raises
    ------
    ValueError
        If the file cannot be read, or holds no segments of that recording. Messages name the
        format in place of the path, and no options.

    See Also
    --------
    read_labels : reads files of people.
    write_file : writes such a file.

    Examples
    --------
    >>> from metriclearn.datasets import read_file
    >>> read_file("webvtt", "talk", "talk.vtt")  # doctest: +SKIP
    [(0.0, 1.5, 'Ann')]
    """
    title = FORMATS[kind].title
    try:
        with reading(path, title, Exception):  # the three libraries raise errors of any type
            segments = FORMATS[kind].read(name, path)
            if not segments:
                raise ValueError("it has no segments")
    except ValueError as error:  # the path is temporary, and a page has no options
        words = _OPTIONS.sub("", str(error).replace(repr(str(path)), f"The file ({title})"))
        raise ValueError(words) from error
    return segments


def read_labels(
    path: PathLike, label: str | None = None, annotator: str | None = None
) -> dict[str, list[Segment]]:
    """Read the segments of every recording from a table (CSV), or from files of other programs.

    The ending determines the format: ``.labels.txt`` and ``.txt`` (Audacity), ``.vtt``,
    ``.TextGrid``, ``.eaf`` (ELAN), ``.rttm``, ``.jams``, ``.selections.txt`` (Raven), ``.wav`` (cue
    markers); all others are tables, also of events of BORIS. A table names its recordings, BORIS
    calls them observations. In all other formats, the name of the file without its ending is the
    name of the recording.

    Parameters
    ----------
    path : path
        A file, or a pattern of files such as ``"songs/*.TextGrid"``.
    label : str, optional
        The column of the labels in a table of Raven or BORIS.
    annotator : str, optional
        Whose segments to read: a value of the column annotator, coder, observer or rater of a
        table, an annotator in ELAN and JAMS, or else the name of a tier.

    Returns
    -------
    dict of lists of (start, end, label)
        The segments of every recording, by its name. Times are in seconds.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If a file is damaged, its segments overlap or have no duration, or a recording has segments
        of several annotators.

    See Also
    --------
    write_file : writes the files.

    Examples
    --------
    >>> from metriclearn.datasets import read_labels
    >>> read_labels("a.labels.txt")  # doctest: +SKIP
    {'a': [(0.0, 1.5, 'speech')]}
    """
    given = Path(path)
    if given.is_file() or not set(given.name) & set("*?["):
        return _read_one(given, label, annotator)
    files = sorted(file for file in given.parent.glob(given.name) if file.is_file())
    if not files:
        raise FileNotFoundError(f"No file of {str(given.parent)!r} is like {given.name!r}.")
    tables: dict[str, list[Segment]] = {}
    for file in files:
        for name, segments in _read_one(file, label, annotator).items():
            if name in tables:
                raise ValueError(f"{os.fspath(given)!r} has {name!r} twice; remove a file.")
            tables[name] = segments
    return tables


def _read_one(path: Path, label: str | None, annotator: str | None) -> dict[str, list[Segment]]:
    endings = {form.ending.lower(): kind for kind, form in FORMATS.items() if kind != "csv"}
    endings |= {".txt": "audacity", ".wav": "wav"}
    ending = next(filter(path.name.lower().endswith, endings), "") if path.is_file() else ""
    kind, is_table = endings.get(ending), not ending and path.is_file()
    beside = [] if path.is_file() else sorted(path.parent.glob("[!.]*"))
    for other in beside:
        if other.suffix.lower() in (".textgrid", ".eaf", ".rttm", ".jams"):  # of other programs
            raise FileNotFoundError(
                f"{str(path)!r} does not exist; to use {other.name} and files like it, pass "
                f"'*{other.suffix}' in its place (segments=…, --segments)."
            )
    of_events = is_table and is_boris(text_rows(path, "a table of segments or events")[0])
    if label and kind != "raven" and not of_events:
        raise ValueError(
            f"{os.fspath(path)!r} needs to be a table of Raven or BORIS to have its labels in a "
            f"column {label!r}; leave that name out (label=…, --label)."
        )
    if kind is None:
        if of_events:
            return disjoint(path, read_boris(path, label, annotator))
        return read_segments(path, annotator)
    if annotator and kind not in _WITH_ANNOTATORS:
        raise ValueError(
            f"{os.fspath(path)!r} names no annotators; leave that name out (annotator=…, "
            "--annotator)."
        )
    name = path.name[: -len(ending)]
    if kind == "raven":
        name = re.sub(r"\.Table\.\d+$", "", name)  # Raven adds the number of the table
    options = {"label": label, "annotator": annotator}
    with reading(path, FORMATS[kind].title, Exception):
        segments = FORMATS[kind].read(name, path, **{k: v for k, v in options.items() if v})
    return disjoint(path, {name: segments})
