"""The command ``metriclearn``, or ``python -m metriclearn``: learn, segment, compare, inspect.

``--help`` of a command shows the docstring of its function and the annotations of the parameters.
Keyword-only parameters are options.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import nan
from pathlib import Path
from statistics import fmean
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Annotated, Any, Literal

import metriclearn
from metriclearn import datasets, running
from metriclearn.apps.console.segmented_files import files_in, note_times, segment_file, targets_of
from metriclearn.running import FIXABLE, counted, run_program, sentence

if TYPE_CHECKING:
    from metriclearn.datasets import Segment

Files = Annotated[
    list[Path], "recordings, CSV files of features, or folders of them; - for a stream", "FILE"
]
Cache = Annotated[Path | None, "folder to keep computed features in"]
Features = Annotated[
    Literal["audio", "video", "both", "tables"] | None,
    "streams to use; by default audio, or for videos both (video, if the table has no classes); "
    "tables: CSV files named in segments.csv",
]
Rate = Annotated[
    float | None,
    "rows per second; by default 1, or 8 for videos without classes (shots), or for CSV files the "
    "rate of the --time column",
]
Time = Annotated[
    str | None, "column of seconds or time stamps in CSV files, not a feature", "COLUMN"
]
Ignore = Annotated[list[str] | None, "columns of CSV files that are not features", "COLUMN"]
Table = Annotated[str, "table in FOLDER, or files of other programs, such as '*.TextGrid'"]
Formats = Annotated[
    list[Literal["csv", "audacity", "webvtt", "textgrid", "elan", "rttm", "jams", "raven", "wav"]]
    | None,
    "files to write; by default csv audacity webvtt",
]
Label = Annotated[
    str | None,
    "column of labels in CSV files (by default label), or in tables of Raven (Annotation) or BORIS "
    "(Behavior) that --segments names",
    "COLUMN",
]
Likelihood = Annotated[
    float | None, "of DeepLabCut: coordinates below it are missing", "LIKELIHOOD"
]
Fill = Annotated[
    float | None,
    "gaps of a column that last at most so many seconds are interpolated; other rows with missing "
    "values are left out; by default all gaps are interpolated, and rows without values left out",
    "SECONDS",
]
Duplicates = Annotated[
    Literal["mean", "first"] | None, "what stands for rows of one time: their mean, or the first"
]
Annotator = Annotated[
    str | None, "whose segments to use, where a file has those of several people", "NAME"
]
Unknown = Annotated[
    str | None, "label that marks unlabeled time, which is not learned from", "LABEL"
]
Groups = Annotated[
    Path | None,
    "table recording,group outside of FOLDER, if several recordings are of one person, place or "
    "day: a group is left out as a whole",
    "TABLE",
]
Tolerance = Annotated[
    float | None,
    "seconds by which a boundary may be off; by default a tenth of the median true segment, but at "
    "least one row",
]


def main(arguments: Sequence[str] | None = None) -> int:
    """Learn from labeled recordings where segments begin and end, and segment new ones.

    examples:
      metriclearn label songs                             # label recordings in a browser
      metriclearn fit songs --out songs.model             # songs/*.wav and songs/segments.csv
      metriclearn segment new.wav --model songs.model     # new.segments.csv, .txt, .vtt, .png
      metriclearn compare truth.csv new.segments.csv
      metriclearn info songs.model
    """
    commands = (label, fit, segment, compare, info)
    return run_program("metriclearn", main, commands, metriclearn.__version__, arguments)


def fit(
    folder: Annotated[Path, "folder of the recordings or tables"],
    *,
    out: Annotated[Path, "file to write", "MODEL"],
    features: Features = None,
    rate: Rate = None,
    segments: Table = "segments.csv",
    gap: Annotated[str | None, "label for time that the table leaves out", "LABEL"] = None,
    label: Label = None,
    time: Time = None,
    ignore: Ignore = None,
    likelihood: Likelihood = None,
    fill: Fill = None,
    duplicates: Duplicates = None,
    annotator: Annotator = None,
    unknown: Unknown = None,
    quick: Annotated[bool, "learn one family of metrics, in less time"] = False,
    groups: Groups = None,
    tolerance: Tolerance = None,
    cache: Cache = None,
) -> None:
    """learn from a folder

    FOLDER holds recordings (wav, flac, ogg, mp3, mp4, mkv, ...) and a table segments.csv:

      recording,start,end,label
      monday,0.0,12.5,speech
      monday,12.5,47.0,music

    Times are in seconds; monday is the name of a file without its ending. If the table has no
    labels, or if each label occurs only once, only boundaries are learned, as for shots of a video.
    Files of Praat ('*.TextGrid'), ELAN ('*.eaf'), Audacity ('*.txt'), Raven ('*.selections.txt'),
    RTTM, JAMS, BORIS and WAV markers can be used instead of the table, with --segments.

    FOLDER can also hold CSV files, one for each sequence, with a row for each sample. The labels
    are in a column (--label) or in a table segments.csv in FOLDER. All other columns are features.
    Empty cells and NaN are missing values.

    examples:
      metriclearn fit songs --out songs.model
      metriclearn fit shows --out shows.model --features both --rate 2
      metriclearn fit gestures --out gestures.model --label phase --rate 30
      metriclearn fit machines --out machines.model --time stamp --ignore operator --unknown other
      metriclearn fit interviews --out interviews.model --segments '*.eaf' --groups people.csv
    """
    from metriclearn.apps.console.labeled_folder import Options, opened

    running.writable(out)  # before anything is learned
    given = Options(features, rate, segments, gap, label, time, ignore, likelihood)
    given = given._replace(fill=fill, duplicates=duplicates, annotator=annotator)
    data, options = opened(folder, given._replace(unknown=unknown, cache=cache))
    if groups is not None:
        data = replace(data, groups=datasets.read_groups(groups, data.names))
    whitened = {"whitened": [metriclearn.WhitenedMetricLearner(retune=True)]}
    members = whitened if quick else None
    model = metriclearn.Segmenter(members, tolerance=tolerance, **options).fit(data)
    _print(model.summary())
    try:
        model.save(out)
    except OSError:  # such as on a full disk, perhaps after hours
        with suppress(OSError):
            running.note(f"The model is kept as {model.save(Path(mkdtemp()) / out.name)}; move it.")
        raise
    print(f"Model: {out}")


def segment(
    files: Files,
    *,
    model: Annotated[Path, "model file written by fit"],
    out: Annotated[
        Path | None, "folder to write to; by default the folder of each FILE", "FOLDER"
    ] = None,
    formats: Formats = None,
    truth: Annotated[Path | None, "table of true segments to draw above the results"] = None,
    annotator: Annotator = None,
    cache: Cache = None,
    likelihood: Likelihood = None,
    fill: Fill = None,
    duplicates: Duplicates = None,
    rate: Annotated[float | None, "samples per second of raw sound that is streamed"] = None,
    delay: Annotated[float | None, "seconds after which a streamed change is final"] = None,
) -> None:
    """segment recordings

    Writes these files next to every FILE, or into the folder given by --out:

      NAME.segments.csv   table recording,start,end,label with times in seconds
      NAME.labels.txt     label track for Audacity (File, Import, Labels)
      NAME.vtt            WebVTT subtitles for browsers and VLC
      NAME.timeline.png   picture of the segments

    With --formats, other files are written instead of the first three: NAME.TextGrid for Praat,
    NAME.eaf for ELAN, NAME.selections.txt for Raven, NAME.rttm, NAME.jams, or NAME.cues.wav, a copy
    of a WAV file with cue markers.

    For CSV files, times are seconds since the first row, by the column of times that fit read. If a
    FILE cannot be read, the others are still segmented.

    If FILE is -, the standard input is read as long as it lasts. It consists of lines of CSV or,
    with --rate, of raw sound (one channel of signed 16-bit integers). Every segment is written to
    the standard output as a line of JSON, as soon as it is final.

    examples:
      metriclearn segment new.wav --model songs.model
      metriclearn segment show.mp4 --model shows.model --out results --truth show.segments.csv
      metriclearn segment new/*.csv archive --model gestures.model --out results
      metriclearn segment new.wav --model interviews.model --formats elan
      tail -n +1 -f growing.csv | metriclearn segment - --model machines.model
    """
    segmenter = metriclearn.load(model)
    if files == [Path("-")]:
        if (out, formats, truth, cache) != (None, None, None, None):
            raise ValueError(
                "A stream is written to the standard output, so leave out --out, --formats, "
                "--truth and --cache; to keep the segments, add > FILE."
            )
        return _follow_input(segmenter, rate, delay, fill, duplicates)
    if rate is not None or delay is not None or Path("-") in files:
        raise ValueError("-, --rate and --delay are for streams; pass - as the only FILE.")
    paths = files_in(files, _of_recordings(segmenter, model).extractor is None)
    targets = targets_of(paths, out)
    kinds = formats or ["csv", "audacity", "webvtt"]
    true = _truth(truth, [path.stem for path in paths], annotator)
    of_tables = {"likelihood": likelihood or 0.0, "fill": fill, "duplicates": duplicates}
    failed, read = 0, {"cache": cache} if segmenter.extractor is not None else of_tables
    shown = running.progress.bar(zip(paths, targets), "files", len(paths), disable=True)
    for path, target in shown:
        try:
            found, written = segment_file(path, target, kinds, segmenter, true.get(path.stem), read)
        except FIXABLE as error:
            if len(paths) == 1:
                raise
            print(f"Error: {sentence(error)}", file=sys.stderr)
            failed += 1
            continue
        if len(paths) == 1:
            for start, end, label in found:
                print(f"{start:9.2f} {end:9.2f}  {label}".rstrip())
        print(f"{path}: {counted(len(found), 'segment')}")
        print(f"Written: {written[0]}, {', '.join(file.name for file in written[1:])}")
    if failed:
        raise ValueError(f"{failed} of {len(paths)} files were not segmented, see above.")


def label(
    folder: Annotated[Path, "folder of the recordings or tables"],
    *,
    features: Features = None,
    rate: Rate = None,
    label: Annotated[
        str | None,
        "column of labels in CSV files to begin with, if there are no labels yet",
        "COLUMN",
    ] = None,
    time: Time = None,
    duplicates: Duplicates = None,
    ignore: Ignore = None,
    unknown: Unknown = None,
    annotator: Annotator = None,
    port: Annotated[int | None, "port of the address; by default any free port"] = None,
    quiet: Annotated[bool, "do not open a browser"] = False,
    check: Annotated[bool, "request everything on the page once, then exit"] = False,
    cache: Cache = None,
) -> None:
    """label recordings in a browser while the model learns

    Opens a page that only this computer can reach. FOLDER holds recordings, or tables (CSV,
    Parquet, npz) with a row for each sample. Every change is saved at once, in
    FOLDER/metriclearn.json and FOLDER/segments.csv. metriclearn fit learns from these files.

    examples:
      metriclearn label songs
      metriclearn label gestures --rate 50
      metriclearn label machines --time stamp --label state --ignore operator --unknown other
    """
    from metriclearn.apps.label_page.server import open_page, serve

    options: dict[str, Any] = {"features": features, "rate": rate, "time": time, "cache": cache}
    options |= {"duplicates": duplicates, "ignore": ignore}
    begin: dict[str, Any] = {"label": label, "unknown": unknown, "annotator": annotator}
    serve(open_page(folder, **begin, **options), port=port, check=check, browser=not quiet)


def compare(
    truth: Annotated[Path, "table of the true segments, or folder", "TRUTH.csv"],
    predicted: Annotated[Path, "table of predicted segments, or folder", "PREDICTED.csv"],
    *,
    tolerance: Tolerance = None,
    label: Label = None,
    rate: Annotated[float | None, "rows per second of CSV files"] = None,
    time: Time = None,
    duplicates: Duplicates = None,
    annotator: Annotator = None,
) -> None:
    """compare predicted segments with the truth

    Compares two tables recording,start,end,label, or files of the other programs that fit reads.
    A folder stands for all tables NAME.segments.csv in it. With --rate or --time, the folder of the
    truth holds CSV files with a column of labels instead.

    examples:
      metriclearn compare truth.csv new.segments.csv --tolerance 0.5
      metriclearn compare machines found --label state --rate 2
    """
    times: dict[str, running.Times] = {}
    if time is not None and rate is None:
        from metriclearn.apps.console.labeled_folder import times_of

        times, rate = times_of("compare", truth, time, rate, duplicates=duplicates)
    true = _segments_of(truth, label, rate, times, annotator)
    pred = datasets.named_as(_segments_of(predicted), true)
    shared = [recording for recording in true if recording in pred]
    if not shared:
        raise ValueError(
            f"{str(truth)!r} and {str(predicted)!r} need a recording in common, got "
            f"{sorted(true)[:5]} and {sorted(pred)[:5]}."
        )
    if (longest := max(spans[-1][1] for spans in (*true.values(), *pred.values()))) > 1e7:
        raise ValueError(
            f"Only times up to 1e7 s can be compared, got {longest:g}; give times in seconds."
        )
    pairs = _covered([(str(truth), true), (str(predicted), pred)], shared)
    if tolerance is None:
        lengths = [stop - start for spans, _ in pairs for start, stop, _ in spans]
        tolerance = datasets.typical_tolerance(lengths, 1 / rate if rate else 0.0)
    rows = [metriclearn.indices.compare_times(a, b, tolerance) for a, b in pairs]
    labels: tuple[list[str], list[str]] = [], []
    for row, name, pair in zip(rows, shared, pairs):
        if not (true[name][0][2] and pred[name][0][2]):
            row[5:] = [nan] * 5  # no labels to compare
            continue
        for side, spans in zip(labels, pair):
            side += [label for *_, label in spans]
    recur = len(set(labels[0])) < len(labels[0]) and not set(labels[0]).isdisjoint(labels[1])
    means = [fmean(column) for column in zip(*rows)]
    _print_comparison([*zip(shared, rows), ("mean", means)], recur, tolerance)
    if single := sorted(set(true) ^ set(pred)):
        print(f"Left out, as in only one table: {', '.join(single[:10])}.")


def _covered(
    sides: Sequence[tuple[str, Mapping[str, Sequence[datasets.Segment]]]], shared: Sequence[str]
) -> list[list[list[datasets.Segment]]]:
    """Return the segments of each recording by both tables, extended over all of the time."""
    ends = {}
    for name in shared:
        tables = [side[name] for _, side in sides]
        note_times(name, *tables)
        ends[name] = max(table[-1][1] for table in tables)
    full = [datasets.with_background(repr(where), side, ends) for where, side in sides]
    pairs = []
    for name, end in ends.items():
        told = [side[name] if side[name][0][2] else datasets.numbered(side[name]) for side in full]
        pairs.append([datasets.covering(spans, end) for spans in told])
    return pairs


def _print_comparison(rows: list[tuple[str, list[float]]], names: bool, tolerance: float) -> None:
    """Print the table of results. If labels are names, include measures of action segmentation."""
    head, form, note = "", "{:7.2f} {:9.2f} {:6.2f} {:9.2f} {:6.2f} {:7.1%}", "."
    if names:
        head, form = "   edit  F1@10  F1@25  F1@50", form + 4 * " {:6.2f}"
        note = "; edit: order of the names; F1@50: segments of one name that overlap by half."
    print(f"{'recording':24s}    loss    (none)     F1 precision recall  labels{head}")
    for name, row in rows:
        text = form.format(*row).replace("nan%", "   -").replace("nan", "  -")
        print(f"{name:24.24s} {text}")
    print(
        f"loss: ‖M − N‖², 0 for equal segmentations (none: without boundaries); F1, precision, "
        f"recall: boundaries within {tolerance:.3g} s; labels: share of time with the same label"
        + note
    )


def _segments_of(
    path: Path,
    label: str | None = None,
    rate: float | None = None,
    times: Mapping[str, running.Times] | None = None,
    annotator: str | None = None,
) -> dict[str, list[Segment]]:
    """Read the segments of every recording.

    ``path`` is a table or a folder. The folder holds tables NAME.segments.csv or, if ``rate`` is
    given, CSV files in which every run of equal labels is a segment. Their rows have ``times``, or
    follow one another in 1/rate seconds.
    """
    import numpy as np

    if not path.is_dir():
        return _read_labels(path, label, annotator)
    if rate is not None:
        tables = {}
        for file in datasets.sequence_files("compare", path, None, datasets.ENDINGS):
            _, names, _ = datasets.read_labeled(file, label or "label")
            names = times[file.stem].distinct(names) if times else names
            cuts = np.append(0, metriclearn.Partition.from_runs(names).change_points)
            begins = times[file.stem].at(cuts) if times else cuts / rate
            spans = zip(begins[:-1].tolist(), begins[1:].tolist(), cuts.tolist())
            tables[file.stem] = [(start, end, str(names[row])) for start, end, row in spans]
        return tables
    files = sorted(path.glob("*.segments.csv"))
    if not files:
        remedy = (
            "for CSV files with a column of labels pass --label, with --rate or --time, or a "
            f"pattern of other files, such as '{path}/*.TextGrid'"
        )
        if label is not None:
            remedy = f"for the times of rows with a label in column {label!r} pass --time or --rate"
        raise ValueError(
            f"The folder {str(path)!r} holds no tables NAME.segments.csv, as metriclearn segment "
            f"writes them; {remedy}."
        )
    read = (datasets.read_labels(file, annotator=annotator).items() for file in files)
    return dict(pair for pairs in read for pair in pairs)


def _read_labels(path: Path, *options: str | None) -> dict[str, list[Segment]]:
    """Read a table of segments, or files like a pattern."""
    if not (path.exists() or set(path.name) & set("*?[")):
        raise FileNotFoundError(f"{str(path)!r} does not exist; correct the name of this table.")
    return datasets.read_labels(path, *options)


def info(model: Annotated[Path, "model file written by fit"]) -> None:
    """describe a model

    Prints the labels, recordings and features, the validation loss, the members and the features
    with the largest weights.

    example:
      metriclearn info songs.model
    """
    _print(_of_recordings(running.without_classifiers(model), model).summary())


def _of_recordings(fitted: Any, model: Path) -> metriclearn.Segmenter:
    if not isinstance(fitted, metriclearn.Segmenter):
        raise ValueError(
            f"{str(model)!r} is a {type(fitted).__name__}, not a model of recordings; make one "
            "with metriclearn fit."
        )
    return fitted


def _print(lines: Mapping[str, str]) -> None:
    for title, text in lines.items():
        print(f"{title + ':':21} " + text.replace("\n", "\n" + 22 * " "))


def _truth(
    table: Path | None, stems: Sequence[str], annotator: str | None
) -> dict[str, list[Segment]]:
    """Read the true segments of recordings."""
    if table is None:
        return {}
    true = datasets.named_as(_read_labels(table, None, annotator), stems)
    if lacking := [stem for stem in stems if stem not in true]:
        raise ValueError(f"{str(table)!r} has no segments of {', '.join(lacking[:5])}.")
    return true


def _follow_input(segmenter: Any, *options: Any) -> None:
    """Segment the standard input, and print each segment as soon as it is final."""
    from metriclearn.apps.console.live import json_lines

    for line in json_lines(segmenter, sys.stdin, *options):
        print(line, flush=True)
