"""Convert Label Studio's regions (JSON) of sound and time series to segments, and back."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import isnan
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs, unquote, urlparse

import pandas as pd

from metriclearn import running
from metriclearn.apps.label_studio.interface import Clock, Interface
from metriclearn.datasets import Segment, disjoint, read_text_table
from metriclearn.running import Positive, needs, note

PathLike = str | os.PathLike[str]
_KINDS = {"timeserieslabels", "timeseries", "labels", "audio"}  # results that have times


@needs
def read_tasks(
    tasks: PathLike | Sequence[Mapping[str, Any]],
    config: str | None = None,
    *,
    folder: PathLike | None = None,
    rate: Annotated[float, Positive()] = 1.0,
    annotator: Any = None,
    predictions: bool = False,
    channel: int | None = None,
) -> dict[str, list[Segment]]:
    """Read the segments of every recording from tasks that Label Studio exported as JSON.

    If a task has several annotations, the one marked as ground truth is read, else the newest.
    Skipped and empty annotations are left out, and so are results without times, such as relations
    and texts. If all regions are instants, they are boundaries. A recording has the name of its
    file, without the ending and without the prefix of an upload.

    Parameters
    ----------
    tasks : path of the export, or its content
    config : str, optional
        The labeling configuration (XML). Tasks with time series need it.
    folder : path, optional
        Folder of the tables of time series. The time of the first row is read from each table.
    rate : float
        Rows per second of tables without a time column.
    annotator : optional
        Number or e-mail address of an annotator. Only this annotator's annotations are read.
    predictions : bool
        Read the newest prediction instead of an annotation.
    channel : int, optional
        Read only regions of this channel of the sound.

    Returns
    -------
    dict of lists of (start, end, label)
        The segments of every recording, by its name. Times are in seconds. Recordings without
        segments are left out.

    Raises
    ------
    ValueError
        If the file is not such an export, if files of two annotated tasks have the same name, or if
        regions overlap or have times that cannot be read.

    See Also
    --------
    write_tasks : makes tasks of segments.

    Examples
    --------
    >>> value = {"start": 0.5, "end": 2.0, "labels": ["speech"]}
    >>> result = [{"type": "labels", "from_name": "label", "to_name": "audio", "value": value}]
    >>> read_tasks([{"data": {"audio": "/d/monday.wav"}, "annotations": [{"result": result}]}])
    {'monday': [(0.5, 2.0, 'speech')]}
    """
    interface = None if config is None else Interface.read(config)
    tables: dict[str, list[Segment]] = {}
    for place, task in enumerate(_listed(tasks)):
        where = f"Task {task.get('id', place + 1)}" if isinstance(task, Mapping) else "A task"
        if not isinstance(task, Mapping) or not isinstance(task.get("data"), Mapping):
            raise ValueError(f"{where} needs data; export from Label Studio as JSON.")
        name = recording_name(task, interface)
        results = _results(task, where, annotator, predictions)
        if not results:
            continue
        clock = _clock(interface, folder, task, name, rate)
        regions = list(_regions(results, where, interface, channel))
        segments = _segments(where, regions, clock)
        if segments and name in tables:
            raise ValueError(
                f"{where} has annotations of {name!r}, as another task has; remove one of them, or "
                "rename its file."
            )
        if segments:
            tables |= disjoint(where, {name: segments})
    return tables


@needs
def write_tasks(
    tables: Mapping[str, Sequence[Segment]],
    config: str,
    *,
    folder: PathLike | None = None,
    rate: Annotated[float, Positive()] = 1.0,
    data: Mapping[str, Any] | None = None,
    scores: Mapping[str, Sequence[float]] | None = None,
    predictions: bool = False,
) -> list[dict[str, Any]]:
    """Make tasks for Label Studio's import, with the segments as annotations or predictions.

    In a time series, segments without labels become instants where they touch. In sound, and with
    gaps between them, such segments become regions with the only label of the configuration.

    Parameters
    ----------
    tables : dict
        The segments of every recording, by its name. Times are in seconds.
    config : str
        The labeling configuration (XML).
    folder, rate
        As for :func:`read_tasks`.
    data : dict, optional
        For every recording, by its name, the data of its task. By default the data of a task hold
        only the name of the recording, under the key that the configuration uses.
    scores : dict, optional
        The scores of the segments of every recording.
    predictions : bool
        Write predictions instead of annotations.

    Returns
    -------
    list of dict
        The tasks, for ``json.dump``.

    Raises
    ------
    ValueError
        If the configuration lacks a label of the segments, segments have no labels and the
        configuration has several, or only some segments have labels.

    See Also
    --------
    read_tasks : reads segments from tasks.

    Examples
    --------
    >>> config = '''<View><Labels name="l" toName="a"><Label value="speech"/></Labels>
    ... <Audio name="a" value="$audio"/></View>'''
    >>> (task,) = write_tasks({"monday": [(0.5, 2.0, "speech")]}, config)
    >>> task["annotations"][0]["result"][0]["value"]["end"]
    2.0
    """
    interface = Interface.read(config)
    tasks = []
    for name, segments in tables.items():
        task: dict[str, Any] = {"data": (data or {}).get(name, {interface.key: name})}
        clock = _clock(interface, folder, task, name, rate)
        some = None if scores is None else scores[name]
        result = {"result": regions_of(segments, interface, clock, some)}
        task["predictions" if predictions else "annotations"] = [result]
        tasks.append(task)
    return tasks


def regions_of(
    segments: Sequence[Segment],
    interface: Interface,
    clock: Clock,
    scores: Sequence[float] | None = None,
) -> list[dict[str, Any]]:
    """Convert segments to regions, as in the ``result`` of an annotation or a prediction.

    Raises
    ------
    ValueError
        If the configuration lacks a label of the segments, segments have no labels and the
        configuration has several, or only some segments have labels.
    """
    wanted = {label for *_, label in segments if label}
    if wanted and (bare := [(start, end) for start, end, label in segments if not label]):
        raise ValueError(
            f"Regions need a label for every segment or for none, got none from {bare[0][0]:g} to "
            f"{bare[0][1]:g} s; label or remove {running.counted(len(bare), 'segment')}."
        )
    if missing := sorted(wanted - set(interface.labels)):
        raise ValueError(
            f"The labeling configuration needs the labels {missing[:5]}, got "
            f"{list(interface.labels)[:10]}; add or rename labels."
        )
    plain = "" if wanted else interface.boundary_label()
    kind = "labels" if interface.is_sound else "timeserieslabels"
    touch = all(before[1] == after[0] for before, after in pairwise(segments))
    is_instant = not wanted and not interface.is_sound and touch
    spans = [(b[0], b[0], "") for b in segments[1:]] if is_instant else segments
    regions = []
    for i, (start, end, label) in enumerate(spans):
        value: dict[str, Any] = {
            "start": clock.written(start, interface),
            "end": clock.written(end, interface),
            **({"channel": 0} if interface.is_sound else {"instant": is_instant}),
            kind: [label or plain],
        }
        region: dict[str, Any] = {"id": f"segment{i + 1}", "type": kind, "value": value}
        region |= {"from_name": interface.from_name, "to_name": interface.to_name}
        score = {} if scores is None else {"score": float(scores[i + is_instant])}
        regions.append({**region, "origin": "prediction" if score else "manual", **score})
    return regions


def recording_name(task: Mapping[str, Any], interface: Interface | None) -> str:
    """Return the name of a task's file without its ending, or "task ID" if the task has no file."""
    values = dict(task["data"])
    if interface is not None and interface.key in values:
        values = {interface.key: values[interface.key]}
    paths = [text for text in values.values() if isinstance(text, str) and text.strip()]
    named = [text for text in paths if re.search(r"\.\w{2,5}($|[?&#])", text)] or paths
    if not named:
        return f"task {task.get('id', 'without an id')}"
    address = urlparse(named[0])
    place = parse_qs(address.query).get("d", [unquote(address.path)])[0]  # local files have ?d=PATH
    file = Path(place.replace("\\", "/")).name
    if "/upload/" in address.path:  # Label Studio has put eight letters before the name
        file = re.sub(r"^[0-9a-f]{8}-", "", file)
    return file.rpartition(".")[0] or file


def _listed(tasks: PathLike | Sequence[Mapping[str, Any]]) -> Sequence[Any]:
    content: Any = tasks
    if isinstance(tasks, (str, os.PathLike)):
        try:
            content = json.loads(Path(tasks).read_text("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"{os.fspath(tasks)!r} is not JSON ({error}); export it from Label Studio again."
            ) from None
    if isinstance(content, Mapping):
        content = [content]
    if not isinstance(content, Sequence):
        raise ValueError("Tasks need to be a list; export from Label Studio as JSON.")
    return content


def _results(
    task: Mapping[str, Any], where: str, annotator: Any, predictions: bool
) -> list[Mapping[str, Any]]:
    """Return the regions of the annotation that is read (see read_tasks), or of the newest
    prediction."""
    given = task.get("predictions" if predictions else "annotations")
    if given is None:  # earlier versions of Label Studio have completions
        given = [] if predictions else task.get("completions", [])
    if not isinstance(given, list) or not all(
        isinstance(one, Mapping) and isinstance(one.get("result", []), list) for one in given
    ):
        raise ValueError(f"{where} needs annotations with lists of results; export it as JSON.")
    ready = [one for one in given if one.get("result") and not one.get("was_cancelled")]
    if annotator is not None:
        ready = [one for one in ready if annotator in _names(one.get("completed_by"))]
    ready.sort(key=lambda one: str(one.get("updated_at") or one.get("created_at") or ""))
    ready.sort(key=lambda one: bool(one.get("ground_truth")))
    if len(ready) > 1 and not predictions and not ready[-1].get("ground_truth"):
        note(f"{where} has {len(ready)} annotations; the newest is read (annotator=… chooses).")
    return list(ready[-1]["result"]) if ready else []


def _names(annotator: Any) -> tuple[Any, ...]:
    """Return the number and the e-mail address of an annotator, where they are known."""
    if isinstance(annotator, Mapping):
        return annotator.get("id"), str(annotator.get("id")), annotator.get("email")
    return (annotator, str(annotator))


def table_of(
    interface: Interface, folder: PathLike | None, task: Mapping[str, Any], name: str
) -> pd.DataFrame | None:
    """Return the table of a time series, from the task itself or from the folder, or None."""
    inline = task["data"].get(interface.key)
    if isinstance(inline, Mapping):
        return pd.DataFrame(dict(inline))
    found = file_of([] if folder is None else sorted(Path(folder).glob("*.[ct]sv")), name)
    return None if found is None else read_text_table(found)


def file_of(files: Iterable[Path], name: str) -> Path | None:
    """Return the file of a task, or None.

    Label Studio writes _ for blanks in the names of uploads, and leaves most other signs out.
    """
    listed = list(files)
    if same := [file for file in listed if file.stem == name]:
        return same[0]
    alike = [f for f in listed if re.sub(r"[^-\w.]", "", f.stem.replace(" ", "_")) == name]
    return alike[0] if len(alike) == 1 else None


def _clock(
    interface: Interface | None,
    folder: PathLike | None,
    task: Mapping[str, Any],
    name: str,
    rate: float,
) -> Clock:
    """Make the clock for the times of a task, from its table if it has one."""
    if interface is None or interface.is_sound:
        return Clock()
    table = table_of(interface, folder, task, name)
    if table is None and interface.time_format is not None:
        raise ValueError(
            f"{name!r} has no table (.csv, .tsv) in {str(folder)!r}, so its first time is unknown; "
            "pass the folder of the tables."
        )
    return Clock.of(interface, table, rate, name)


def _regions(
    results: Sequence[Mapping[str, Any]],
    where: str,
    interface: Interface | None,
    channel: int | None,
) -> Iterator[tuple[Any, Any, str]]:
    """Yield the start, the end and the label of every result that has times."""
    seen, channels = set(), set()

    def of_another(one: Mapping[str, Any], key: str) -> bool:
        wanted = getattr(interface, key, None)
        return wanted is not None and one.get(key, wanted) != wanted

    for one in results:
        value = one.get("value") if isinstance(one, Mapping) else None
        if not isinstance(value, Mapping) or str(one.get("type")).lower() not in _KINDS:
            continue  # a relation, a choice, a text
        if "text" in value or of_another(one, "to_name"):
            continue  # words of a text have starts and ends, too
        if channel is not None and value.get("channel", channel) != channel:
            continue
        place = value.get("channel") or 0
        if not isinstance(place, (int, float)):
            raise ValueError(f"{where} has a region of the channel {place!r}; name it by a number.")
        channels.add(place)
        if "start" not in value:
            raise ValueError(f"{where} has a region without a start; remove it.")
        labels = value.get("timeserieslabels") or value.get("labels") or []
        if not isinstance(labels, list) or len(labels) > 1:
            raise ValueError(
                f"{where} has a region with the labels {labels!r}; keep one of them, in a list."
            )
        if labels and of_another(one, "from_name"):
            continue
        if labels:
            seen.add(str(one.get("from_name")))
        yield value["start"], value.get("end", value["start"]), str(labels[0]) if labels else ""
    if len(channels) > 1:
        raise ValueError(f"{where} has regions of the channels {sorted(channels)}; pass channel=0.")
    if len(seen) > 1:
        raise ValueError(
            f"{where} has labels of {sorted(seen)}; pass the labeling configuration with "
            "the one to be read."
        )


def _segments(where: str, regions: Sequence[tuple[Any, Any, str]], clock: Clock) -> list[Segment]:
    """Convert regions to segments in seconds. If all regions are instants, they are boundaries."""
    timed, left_out, turned = [], [], 0
    for a, b, label in regions:
        start, end = clock.seconds(a, where), clock.seconds(b, where)
        if isnan(start + end):
            left_out.append(f"a region from {a!r} to {b!r}")
            continue
        turned += end < start
        timed.append((min(start, end), max(start, end), label))
    timed.sort()
    if turned:
        note(f"{where}: {turned} regions end before they start; turned.")
    points = sorted({start for start, end, _ in timed if start == end})
    spans = [one for one in timed if one[0] < one[1]]
    if points and not spans:
        if clock.length is None:
            raise ValueError(
                f"{where} has instants only, and the length of the recording is unknown; pass the "
                "labeling configuration and the folder of the tables."
            )
        cuts = sorted({0.0, clock.length, *points})
        return [(start, end, "") for start, end in pairwise(cuts)]
    plain = [one for one in spans if not one[2]]
    left_out += [f"{len(points)} instants"] * bool(points)
    if plain and len(plain) < len(spans):
        spans = [one for one in spans if one[2]]
        left_out.append(f"{len(plain)} regions without a label")
    if left_out:
        note(f"{where}: {' and '.join(left_out)} left out.")
    return spans
