"""The command ``metriclearn``: learn from labelled recordings, segment new ones, compare, inspect.

Exit status: 0 done, 1 for an error of the input in one sentence, 2 for a wrong command line, 130
when interrupted.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metriclearn.datasets.annotations import Segment

__all__ = ["main"]

_EXAMPLES = """examples:
  metriclearn fit songs --out songs.model             # songs/*.wav and songs/segments.csv
  metriclearn segment new.wav --model songs.model     # new.segments.csv, .txt, .vtt, .png
  metriclearn compare truth.csv new.segments.csv
  metriclearn info songs.model
"""
_FIT = """FOLDER holds recordings (wav, flac, ogg, mp3, mp4, mkv, ...) and a table segments.csv:

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
_SEGMENT = """Writes beside FILE, or to --out FOLDER:

  NAME.segments.csv   recording,start,end,label in seconds
  NAME.labels.txt     label track: in Audacity File, Import, Labels
  NAME.vtt            WebVTT: subtitles for browsers and VLC
  NAME.timeline.png   the picture

examples:
  metriclearn segment new.wav --model songs.model
  metriclearn segment show.mp4 --model shows.model --out results --truth show.segments.csv
  metriclearn segment new.csv --model gestures.model
"""
_COMPARE = """Compares two tables recording,start,end,label, the first one the truth.

example:
  metriclearn compare truth.csv new.segments.csv --tolerance 0.5
"""
_INFO = """Prints labels, recordings, features, validation loss, rank, price and largest weights.

example:
  metriclearn info songs.model
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parsed = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        parsed.run(parsed)
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


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="metriclearn",
        description="Learn where people put the boundaries in recordings, and put them there.",
        epilog=_EXAMPLES,
        formatter_class=raw,
    )
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    fit = commands.add_parser("fit", help="learn from a folder", epilog=_FIT, formatter_class=raw)
    fit.add_argument("folder", type=Path, metavar="FOLDER")
    fit.add_argument("--out", type=Path, required=True, metavar="MODEL", help="file to write")
    fit.add_argument(
        "--features", choices=sorted(_EXTRACTORS), default=None,
        help="streams to use; by default audio, or both where all files are videos",
    )  # fmt: skip
    fit.add_argument("--rate", type=_positive, default=1.0, help="rows per second (default 1)")
    fit.add_argument("--segments", default="segments.csv", help="name of the table in FOLDER")
    fit.add_argument("--label", default="label", help="column of the labels, for CSV files")
    fit.add_argument("--gap", default=None, help="label of time that the table leaves out")
    fit.add_argument("--cache", type=Path, default=None, help="folder for computed features")
    fit.set_defaults(run=_fit)

    segment = commands.add_parser(
        "segment", help="segment a recording", epilog=_SEGMENT, formatter_class=raw
    )
    segment.add_argument("file", type=Path, metavar="FILE")
    segment.add_argument("--model", type=Path, required=True, metavar="MODEL")
    segment.add_argument("--out", type=Path, default=None, metavar="FOLDER")
    segment.add_argument("--truth", type=Path, default=None, help="table to draw above the result")
    segment.add_argument("--cache", type=Path, default=None, help="folder for computed features")
    segment.set_defaults(run=_segment)

    compare = commands.add_parser(
        "compare", help="compare two tables", epilog=_COMPARE, formatter_class=raw
    )
    compare.add_argument("truth", type=Path, metavar="TRUTH.csv")
    compare.add_argument("found", type=Path, metavar="FOUND.csv")
    compare.add_argument(
        "--tolerance", type=_positive, default=1.0, help="seconds for a boundary (default 1)"
    )
    compare.set_defaults(run=_compare)

    info = commands.add_parser("info", help="what a model is", epilog=_INFO, formatter_class=raw)
    info.add_argument("model", type=Path, metavar="MODEL")
    info.set_defaults(run=_info)
    return parser


def _version() -> str:
    import metriclearn

    return f"metriclearn {metriclearn.__version__}"


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"needs a positive number, got {text}")
    return value


def _audio(rate: float) -> Any:
    from metriclearn.features.audio import AudioFeatures

    return AudioFeatures(rate, flatness=True, contrast=True)


def _video(rate: float) -> Any:
    from metriclearn.features.gist import Gist
    from metriclearn.features.video import ColorHistogram, VideoFeatures

    gist = Gist((4, 4, 4, 4), blocks=2, size=64)
    return VideoFeatures(rate, (gist, ColorHistogram(4, 2)), (64, 64))


def _both(rate: float) -> Any:
    from metriclearn.features.per_recording import JoinedFeatures

    return JoinedFeatures([_audio(rate), _video(rate)])


_EXTRACTORS = {"audio": _audio, "video": _video, "both": _both}


def _fit(options: argparse.Namespace) -> None:
    from metriclearn.datasets.files import load_files
    from metriclearn.datasets.recordings import load_recordings, recording_files
    from metriclearn.estimators.recordings import RecordingSegmenter
    from metriclearn.features.media import VIDEO_SUFFIXES

    folder: Path = options.folder
    if not folder.is_dir():
        raise FileNotFoundError(f"{str(folder)!r} is no folder; pass that of your recordings.")
    if not options.out.absolute().parent.is_dir():
        raise FileNotFoundError(
            f"{str(options.out)!r} cannot be written: there is no folder "
            f"{str(options.out.absolute().parent)!r}; make it first."
        )
    extractor = None
    files = recording_files(folder)
    if files:
        all_videos = all(file.suffix.lower() in VIDEO_SUFFIXES for file in files.values())
        kind = options.features or ("both" if all_videos else "audio")
        extractor = _EXTRACTORS[kind](options.rate)
        data = load_recordings(
            folder, extractor, options.segments, gap=options.gap, cache=options.cache
        )
    else:
        data = load_files(folder, options.label, "*.csv")
    model = RecordingSegmenter(extractor, rate=options.rate).fit(data)
    model.save(options.out)
    print(_summary(model))
    print(f"Model: {options.out}")


def _segment(options: argparse.Namespace) -> None:
    from metriclearn.datasets.annotations import (
        read_segments,
        save_audacity,
        save_segments,
        save_webvtt,
    )

    model = _recordings_model(options.model)
    path: Path = options.file
    folder: Path = options.out or path.absolute().parent
    folder.mkdir(parents=True, exist_ok=True)
    if model.extractor is None:
        found = model.segment_features(_rows(path, model.feature_names_))
    else:
        found = model.segment(path, options.cache)
    name = path.stem
    written = [
        save_segments({name: found}, folder / f"{name}.segments.csv"),
        save_audacity(found, folder / f"{name}.labels.txt"),
        save_webvtt(found, folder / f"{name}.vtt"),
        folder / f"{name}.timeline.png",
    ]
    strips: dict[str, list[Segment]] = {}
    if options.truth is not None:
        tables = read_segments(options.truth)
        if name not in tables:
            raise ValueError(f"{str(options.truth)!r} has no segments of {name!r}.")
        strips["truth"] = tables[name]
    strips["predicted"] = found
    _draw(path, model, strips, written[-1])
    for start, end, label in found:
        print(f"{start:9.2f} {end:9.2f}  {label}")
    for file in written:
        print(f"Written: {file}")


def _draw(path: Path, model: Any, strips: dict[str, list[Segment]], picture: Path) -> None:
    """The time-line, with sound and pictures where the model uses them."""
    import numpy as np

    from metriclearn.features.media import audio_blocks, duration, video_frames
    from metriclearn.plots.timeline import plot_timeline
    from metriclearn.running.atomic import replacing

    names = {type(part).__name__ for part in getattr(model.extractor, "extractors", ())}
    names.add(type(model.extractor).__name__)
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


def _compare(options: argparse.Namespace) -> None:
    import numpy as np

    from metriclearn.datasets.annotations import read_segments

    truth, found = read_segments(options.truth), read_segments(options.found)
    shared = [recording for recording in truth if recording in found]
    if not shared:
        raise ValueError(
            f"{str(options.truth)!r} and {str(options.found)!r} need a recording in common, got "
            f"{sorted(truth)[:5]} and {sorted(found)[:5]}."
        )
    header = (
        f"{'recording':24s} {'loss':>7s} {'F1':>6s} {'precision':>9s} {'recall':>6s} {'labels':>7s}"
    )
    print(header)
    rows = [_compared(truth[name], found[name], options.tolerance) for name in shared]
    for name, row in zip([*shared, "mean"], [*rows, np.mean(rows, axis=0)]):
        loss, f1, precision, recall, agreement = row
        print(
            f"{name:24.24s} {loss:7.2f} {f1:6.2f} {precision:9.2f} {recall:6.2f} "
            f"{100 * agreement:6.1f}%"
        )
    print(
        f"loss: ‖M − N‖² in steps of 0.1 s, 0 for equal segmentations; F1, precision, recall: "
        f"boundaries within {options.tolerance:g} s; labels: time with the same label."
    )
    if left_out := sorted(set(truth) ^ set(found)):
        print(f"In one table only, left out: {', '.join(left_out[:10])}.")


def _compared(
    truth: list[Segment], found: list[Segment], tolerance: float
) -> tuple[float, float, float, float, float]:
    """Loss, F1, precision and recall of boundaries, share of time with the same label."""
    import numpy as np

    from metriclearn.datasets.annotations import row_labels
    from metriclearn.indices import partition_loss, precision_recall
    from metriclearn.problem.partition import Partition

    rate = 10.0
    n_rows = max(1, round(rate * max(truth[-1][1], found[-1][1])))
    a, b = row_labels(truth, n_rows, rate), row_labels(found, n_rows, rate)
    true, pred = map(Partition.from_runs, (a, b))
    loss = partition_loss(true, pred, normalized=False)
    scores = precision_recall(true, pred, margin=round(tolerance * rate))
    both = scores.precision + scores.recall
    f1 = 2 * scores.precision * scores.recall / both if both else 0.0
    return loss, f1, scores.precision, scores.recall, float(np.mean(a == b))


def _info(options: argparse.Namespace) -> None:
    import metriclearn
    from metriclearn.estimators.recordings import RecordingSegmenter

    model = metriclearn.load(options.model)
    if isinstance(model, RecordingSegmenter):
        print(_summary(model))
        return
    print(f"{type(model).__name__} of {model.n_features_in_} features")
    print(f"rank of the metric: {len(model.components_)}")
    if getattr(model, "penalty_", None) is not None:
        print(f"price of a segment: {model.penalty_:.4g}")


def _summary(model: Any) -> str:
    import numpy as np

    learner = model.learner_
    kind = "tables" if model.extractor is None else type(model.extractor).__name__
    weights = np.sqrt((learner.components_**2).sum(axis=0))
    names = [model.feature_names_[i] for i in np.argsort(-weights, kind="stable")[:5]]
    trained = ", ".join(model.trained_on_[:8]) + (" ..." if len(model.trained_on_) > 8 else "")
    held_out = (
        "not known, one recording only"
        if model.validation_loss_ is None
        else f"{model.validation_loss_:.2f} (mean ‖M − N‖² of held-out recordings)"
    )
    return "\n".join(
        [
            f"labels:             {', '.join(model.labels_)}",
            f"trained on:         {len(model.trained_on_)} recordings: {trained}",
            f"features:           {kind}, {len(model.feature_names_)} columns, "
            f"{model.rows_per_second:g} rows per second",
            f"validation loss:    {held_out}",
            f"metric:             rank {len(learner.components_)}, price of a segment "
            f"{learner.penalty_:.4g}, certified gap {learner.solution_.relative_gap:.1e}",
            f"most weight per unit: {', '.join(names)}",
        ]
    )


def _recordings_model(path: Path) -> Any:
    import metriclearn
    from metriclearn.estimators.recordings import RecordingSegmenter

    model = metriclearn.load(path)
    if not isinstance(model, RecordingSegmenter):
        raise ValueError(
            f"{str(path)!r} is a {type(model).__name__}, not a model of recordings; make one by "
            "metriclearn fit."
        )
    return model


def _rows(path: Path, names: list[str]) -> Any:
    """The feature columns of a CSV file, finite, in the model's order."""
    import numpy as np
    import pandas as pd

    if path.suffix.lower() != ".csv":
        raise ValueError(f"{str(path)!r} needs to be a CSV file: the model was made from tables.")
    try:
        table = pd.read_csv(path)
    except ValueError as error:
        raise ValueError(f"{str(path)!r} cannot be read as CSV ({error}).") from error
    missing = [name for name in names if name not in table.columns]
    if missing or table.empty:
        raise ValueError(f"{str(path)!r} needs rows and the columns {names[:8]}, lacks {missing}.")
    X = table[names].apply(pd.to_numeric, errors="coerce").to_numpy(dtype=np.float64)
    if not np.isfinite(X).all():
        row, column = np.argwhere(~np.isfinite(X))[0]
        raise ValueError(
            f"{str(path)!r} needs finite numbers, got another value in row {row + 1} of column "
            f"{names[column]!r}."
        )
    return X


if __name__ == "__main__":
    sys.exit(main())
