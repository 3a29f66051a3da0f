"""The command ``metriclearn``: learn from labelled recordings, segment new ones, compare, inspect.

Exit status: 0 done, 1 for an error of the input in one sentence, 2 for a wrong command line, 130
when interrupted. What a command's ``--help`` shows are its docstring and its annotated parameters,
of which those that are passed by name only are options.
"""

from __future__ import annotations

import argparse
import inspect
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

if TYPE_CHECKING:
    from metriclearn.datasets.annotations import Segment

Cache = Annotated[Path | None, "folder for computed features"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Learn where people put the boundaries in recordings, and put them there.

    examples:
      metriclearn fit songs --out songs.model             # songs/*.wav and songs/segments.csv
      metriclearn segment new.wav --model songs.model     # new.segments.csv, .txt, .vtt, .png
      metriclearn compare truth.csv new.segments.csv
      metriclearn info songs.model
    """
    options = vars(_parser().parse_args(arguments))
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        options.pop("run")(**options)
    except (ValueError, TypeError, OSError, ImportError) as error:
        text = str(error)
        if isinstance(error, OSError) and error.filename is not None and error.strerror:
            text = f"{error.filename} cannot be used: {error.strerror}."
        print(f"Error: {' '.join(text.split())}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted; nothing was written half.", file=sys.stderr)
        return 130
    return 0


def fit(
    folder: Annotated[Path, "where the recordings or tables are"],
    *,
    out: Annotated[Path, "file to write", "MODEL"],
    features: Annotated[
        Literal["audio", "video", "both"] | None,
        "streams to use; by default audio, or both where all files are videos",
    ] = None,
    rate: Annotated[float, "rows per second (default 1)"] = 1.0,
    segments: Annotated[str, "name of the table in FOLDER"] = "segments.csv",
    label: Annotated[str, "column of the labels, for CSV files"] = "label",
    gap: Annotated[str | None, "label of time that the table leaves out"] = None,
    cache: Cache = None,
) -> None:
    """learn from a folder

    FOLDER holds recordings (wav, flac, ogg, mp3, mp4, mkv, ...) and a table segments.csv:

      recording,start,end,label
      monday,0.0,12.5,speech
      monday,12.5,47.0,music

    with times in seconds; monday is the name of the file without its ending. Or FOLDER holds one
    CSV file per sequence, a row per sample, with a column of labels (--label).

    examples:
      metriclearn fit songs --out songs.model
      metriclearn fit shows --out shows.model --features both --rate 2
      metriclearn fit gestures --out gestures.model --label phase --rate 30
    """
    from metriclearn.datasets.files import load_files
    from metriclearn.datasets.recordings import load_recordings, recording_files
    from metriclearn.estimators.recordings import RecordingSegmenter
    from metriclearn.features.media import VIDEO_SUFFIXES

    if not folder.is_dir():
        raise FileNotFoundError(f"{str(folder)!r} is no folder; pass that of your recordings.")
    parent = out.absolute().parent
    if not parent.is_dir():
        raise FileNotFoundError(
            f"{str(out)!r} cannot be written: there is no folder {str(parent)!r}; make it first."
        )
    extractor = None
    if files := recording_files(folder):
        all_videos = all(file.suffix.lower() in VIDEO_SUFFIXES for file in files.values())
        extractor = _extractor(features or ("both" if all_videos else "audio"), rate)
        data = load_recordings(folder, extractor, segments, gap=gap, cache=cache)
    else:
        data = load_files(folder, label, "*.csv")
    model = RecordingSegmenter(extractor, rate=rate).fit(data)
    model.save(out)
    _print_summary(model)
    print(f"Model: {out}")


def segment(
    file: Annotated[Path, "the recording, or a CSV file of features"],
    *,
    model: Annotated[Path, "file that fit has written"],
    out: Annotated[Path | None, "folder to write to", "FOLDER"] = None,
    truth: Annotated[Path | None, "table to draw above the result"] = None,
    cache: Cache = None,
) -> None:
    """segment a recording

    Writes beside FILE, or to --out FOLDER:

      NAME.segments.csv   recording,start,end,label in seconds
      NAME.labels.txt     label track: in Audacity File, Import, Labels
      NAME.vtt            WebVTT: subtitles for browsers and VLC
      NAME.timeline.png   the picture

    examples:
      metriclearn segment new.wav --model songs.model
      metriclearn segment show.mp4 --model shows.model --out results --truth show.segments.csv
      metriclearn segment new.csv --model gestures.model
    """
    import metriclearn
    from metriclearn.datasets import annotations

    segmenter = metriclearn.load(model)
    if not isinstance(segmenter, metriclearn.RecordingSegmenter):
        raise ValueError(
            f"{str(model)!r} is a {type(segmenter).__name__}, not a model of recordings; make one "
            "by metriclearn fit."
        )
    folder, name = out or file.absolute().parent, file.stem
    folder.mkdir(parents=True, exist_ok=True)
    if segmenter.extractor is None:
        segments = segmenter.segment_features(_rows(file, segmenter.feature_names_))
    else:
        segments = segmenter.segment(file, cache)
    written = [
        annotations.save_segments({name: segments}, folder / f"{name}.segments.csv"),
        annotations.save_audacity(segments, folder / f"{name}.labels.txt"),
        annotations.save_webvtt(segments, folder / f"{name}.vtt"),
        folder / f"{name}.timeline.png",
    ]
    strips: dict[str, list[Segment]] = {}
    if truth is not None:
        tables = annotations.read_segments(truth)
        if name not in tables:
            raise ValueError(f"{str(truth)!r} has no segments of {name!r}.")
        strips["truth"] = tables[name]
    strips["predicted"] = segments
    _draw(file, segmenter.extractor, strips, written[-1])
    for start, end, label in segments:
        print(f"{start:9.2f} {end:9.2f}  {label}")
    for path in written:
        print(f"Written: {path}")


def compare(
    truth: Annotated[Path, "table of the true segments", "TRUTH.csv"],
    predicted: Annotated[Path, "table to compare with it", "PREDICTED.csv"],
    *,
    tolerance: Annotated[float, "seconds for a boundary (default 1)"] = 1.0,
) -> None:
    """compare two tables

    Compares two tables recording,start,end,label, the first one the truth.

    example:
      metriclearn compare truth.csv new.segments.csv --tolerance 0.5
    """
    import numpy as np

    from metriclearn.datasets.annotations import read_segments, row_labels
    from metriclearn.indices import partition_loss, precision_recall
    from metriclearn.problem.partition import Partition

    true, pred = read_segments(truth), read_segments(predicted)
    shared = [recording for recording in true if recording in pred]
    if not shared:
        raise ValueError(
            f"{str(truth)!r} and {str(predicted)!r} need a recording in common, got "
            f"{sorted(true)[:5]} and {sorted(pred)[:5]}."
        )
    rows, rate = [], 10.0  # steps per second
    for name in shared:
        tables = true[name], pred[name]
        n_rows = max(1, round(rate * max(table[-1][1] for table in tables)))
        labels = [row_labels(table, n_rows, rate) for table in tables]
        M, N = map(Partition.from_runs, labels)
        margin = round(tolerance * rate)
        precision, recall = precision_recall(M.change_points, N.change_points, margin=margin)
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        loss = partition_loss(M, N, normalized=False)
        rows.append((loss, f1, precision, recall, float(np.mean(labels[0] == labels[1]))))
    print(f"{'recording':24s}    loss     F1 precision recall  labels")
    for name, row in zip([*shared, "mean"], [*rows, np.mean(rows, axis=0)]):
        print(f"{name:24.24s} {{:7.2f}} {{:6.2f}} {{:9.2f}} {{:6.2f}} {{:7.1%}}".format(*row))
    print(
        f"loss: ‖M − N‖² in steps of 0.1 s, 0 for equal segmentations; F1, precision, recall: "
        f"boundaries within {tolerance:g} s; labels: time with the same label."
    )
    if left_out := sorted(set(true) ^ set(pred)):
        print(f"In one table only, left out: {', '.join(left_out[:10])}.")


def info(model: Annotated[Path, "file that fit has written"]) -> None:
    """what a model is

    Prints labels, recordings, features, validation loss, rank, price and largest weights.

    example:
      metriclearn info songs.model
    """
    import metriclearn

    fitted = metriclearn.load(model)
    if isinstance(fitted, metriclearn.RecordingSegmenter) and hasattr(fitted, "learner_"):
        _print_summary(fitted)
        return
    parts = [part for _, part in getattr(fitted, "steps", [("", fitted)])]
    names = " → ".join(type(part).__name__ for part in parts)
    if not hasattr(parts[-1], "components_"):
        parameters = " ".join(str(fitted).split())
        print(f"{names} without a metric: it learns none or is not fitted; {parameters}")
        return
    print(f"{names} of {parts[0].n_features_in_} features")
    print(f"rank of the metric: {len(parts[-1].components_)}")
    if getattr(parts[-1], "penalty_", None) is not None:
        print(f"price of a segment: {parts[-1].penalty_:.4g}")


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"needs a positive number, got {text}")
    return value


def _parser() -> argparse.ArgumentParser:
    import metriclearn

    def texts(function: Any) -> tuple[str, dict[str, Any]]:
        """First line of a docstring, and the rest as what stands below the options."""
        title, _, rest = (inspect.getdoc(function) or "").partition("\n\n")
        raw = argparse.RawDescriptionHelpFormatter
        return title, {"epilog": rest, "formatter_class": raw}

    title, below = texts(main)
    parser = argparse.ArgumentParser("metriclearn", description=title, **below)
    version = f"metriclearn {metriclearn.__version__}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in (fit, segment, compare, info):
        title, below = texts(command)
        added = commands.add_parser(command.__name__, help=title, **below)
        added.set_defaults(run=command)
        for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
            flag, settings = _argument(name, parameter)
            added.add_argument(flag, **settings)
    return parser


def _argument(name: str, parameter: inspect.Parameter) -> tuple[str, dict[str, Any]]:
    """What argparse is told of a command's parameter: its flag and the keywords that go with it.

    The parameter is annotated by ``Annotated[kind, help]``. The kind is float, str, Path or a
    Literal with the choices, each also as ``kind | None``. A third entry is what the help shows
    in the place of a value, if not the parameter's name.
    """
    kind, text, *shown = get_args(parameter.annotation)
    optional = type(None) in get_args(kind)
    plain = get_args(kind)[0] if optional else kind
    settings: dict[str, Any] = {"help": text, "type": str}
    if shown or parameter.kind is not parameter.KEYWORD_ONLY:
        settings["metavar"] = shown[0] if shown else name.upper()
    if plain is float:
        settings["type"] = _positive
    elif plain is Path:
        settings["type"] = Path
    elif get_origin(plain) is Literal:
        settings["choices"] = get_args(plain)
    if parameter.kind is not parameter.KEYWORD_ONLY:
        return name, settings
    if parameter.default is parameter.empty:
        return f"--{name}", {**settings, "required": True}
    return f"--{name}", {**settings, "default": parameter.default}


def _extractor(kind: str, rate: float) -> Any:
    """Features of the sound ("audio"), of the pictures ("video") or "both", in rows per second."""
    from metriclearn.features.audio import AudioFeatures
    from metriclearn.features.gist import Gist
    from metriclearn.features.per_recording import JoinedFeatures
    from metriclearn.features.video import ColorHistogram, VideoFeatures

    sound = AudioFeatures(rate, flatness=True, contrast=True)
    gist = Gist((4, 4, 4, 4), blocks=2, size=64)
    pictures = VideoFeatures(rate, (gist, ColorHistogram(4, 2)), (64, 64))
    return {"audio": sound, "video": pictures, "both": JoinedFeatures([sound, pictures])}[kind]


def _draw(path: Path, extractor: Any, strips: dict[str, list[Segment]], picture: Path) -> None:
    """The time-line, with sound and pictures where the model uses them."""
    import numpy as np

    from metriclearn.features.media import audio_blocks, duration, video_frames
    from metriclearn.plots.timeline import plot_timeline
    from metriclearn.running.files import replacing

    parts = [extractor, *getattr(extractor, "extractors", ())]
    names = {type(part).__name__ for part in parts}
    waveform = thumbnails = None
    if "AudioFeatures" in names:
        # the loudest of every 50 ms: memory does not grow with the length
        blocks = (np.abs(block) for block in audio_blocks(path, 8000))
        loudest = [np.maximum.reduceat(b, np.arange(0, len(b), 400)) for b in blocks]
        waveform = np.concatenate(loudest)
    if "VideoFeatures" in names:
        length = duration(path) or strips["predicted"][-1][1]
        thumbnails = list(video_frames(path, 12.0 / length, (72, 96)))
    figure = plot_timeline(strips, waveform, thumbnails)
    with replacing(picture) as stream:
        figure.savefig(stream, format="png", dpi=140)


def _print_summary(model: Any) -> None:
    import numpy as np

    learner, names, recordings = model.learner_, model.feature_names_, model.trained_on_
    weights = np.sqrt((learner.components_**2).sum(axis=0))
    heaviest = [names[i] for i in np.argsort(-weights, kind="stable")[:5]]
    kind = "tables" if model.extractor is None else type(model.extractor).__name__
    held_out = "not known, one recording only"
    if model.validation_loss_ is not None:
        held_out = f"{model.validation_loss_:.2f} (mean ‖M − N‖² of held-out recordings)"
    more = " ..." if len(recordings) > 8 else ""
    lines = {
        "labels": ", ".join(model.labels_),
        "trained on": f"{len(recordings)} recordings: {', '.join(recordings[:8])}{more}",
        "features": f"{kind}, {len(names)} columns, {model.rows_per_second:g} rows per second",
        "validation loss": held_out,
        "metric": f"rank {len(learner.components_)}, price of a segment {learner.penalty_:.4g}, "
        f"certified gap {learner.solution_.relative_gap:.1e}",
        "most weight per unit": ", ".join(heaviest),
    }
    for title, text in lines.items():
        print(f"{title + ':':19} {text}")


def _rows(path: Path, names: list[str]) -> Any:
    """The feature columns of a CSV file, finite, in the model's order, (T, P)."""
    import pandas as pd

    from metriclearn.datasets.files import finite_values
    from metriclearn.running.files import reading

    if path.suffix.lower() != ".csv":
        raise ValueError(f"{str(path)!r} needs to be a CSV file: the model was made from tables.")
    with reading(path, "a table as csv"):
        table = pd.read_csv(path)
    missing = [name for name in names if name not in table.columns]
    if missing or table.empty:
        raise ValueError(
            f"{str(path)!r} needs rows with the columns of the model, {names[:8]}, but it lacks "
            f"{missing[:8] or 'rows'}."
        )
    return finite_values(table[names], path)


if __name__ == "__main__":
    sys.exit(main())
