"""Streams: memory, speed and delay, compared with the detectors of claspy and river.

    python -m experiments.benchmarks.streaming [--out FOLDER] [--tiny]

Our stream reads a signal of ten features with a change every 1,000 samples, first in chunks of 100
rows and then row by row. Our stream also reads test recordings of HAPT and GazeCom row by row, as
the detectors in ``stream_detectors.json`` do (see :mod:`experiments.benchmarks.stream_detectors`).
Metric and penalty are learned from recordings of other people. A true boundary counts as found if
the detector reports a boundary within the margin, no matter when. For found boundaries, the delay
is the time from the true boundary to the report.
"""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.benchmarks.machine import Report, Row, in_own_process, options_of, peak_mebibytes
from experiments.benchmarks.stream_detectors import Found, scores
from metriclearn import ChangePointMetricLearner, Partition
from metriclearn.datasets import LabeledSequences, load_dataset
from metriclearn.estimators.scores.segment_score import SegmentScore

PEERS = Path(__file__).parent / "stream_detectors.json"
_FEATURES, _SEGMENT, _CHUNK, _BLOCK = 10, 1000, 100, 100_000
# loader, margin in rows, training and test recordings at most, rows a second
DATA: dict[str, tuple[Any, int, int, int, float]] = {
    "HAPT": (partial(load_dataset, "hapt", window=25), 4, 18, 18, 2.0),
    "GazeCom": (partial(load_dataset, "gazecom"), 3, 8, 24, 50.0),
}


def synthetic_learner() -> ChangePointMetricLearner:
    """Make a learner with the Euclidean metric and the penalty 2 P log T for T = 10,000, without a
    fit."""
    learner = ChangePointMetricLearner()
    learner.score_ = SegmentScore(np.eye(_FEATURES), 2.0 * _FEATURES * float(np.log(1e4)))
    learner.n_features_in_ = _FEATURES
    return learner


def block(number: int) -> NDArray[np.float64]:
    """Draw 100,000 samples with a change every 1,000."""
    rng = np.random.default_rng(number)
    levels = rng.normal(size=(_BLOCK // _SEGMENT, _FEATURES))
    return np.repeat(levels, _SEGMENT, axis=0) + rng.normal(size=(_BLOCK, _FEATURES))


def in_chunks(n_samples: int) -> Row:
    """Push samples in chunks of 100, and return one row with peak memory and speed."""
    stream, seconds, processor, n_found = synthetic_learner().stream(), 0.0, 0.0, 0
    stream.push(block(0)[:_CHUNK])  # compiles
    for number in range(n_samples // _BLOCK):
        X = block(number + 1)
        begin, begin_processor = time.perf_counter(), time.process_time()
        for i in range(0, _BLOCK, _CHUNK):
            n_found += len(stream.push(X[i : i + _CHUNK]).ends)
        seconds += time.perf_counter() - begin
        processor += time.process_time() - begin_processor
    return {
        "samples": n_samples,
        "changes told": n_found,
        "samples a second": round(n_samples / seconds),
        "samples a processor second": round(n_samples / processor),
        "peak MiB": peak_mebibytes(),
    }


def row_by_row(n_samples: int) -> Row:
    """Push one sample at a time. Returns one row: the microseconds per sample, and after how many
    samples a change becomes final."""
    stream, X = synthetic_learner().stream(), block(1)[:n_samples]
    stream.push(X[:1])
    microseconds, delays = [], []
    for t in range(1, len(X)):
        begin = time.perf_counter()
        ends = stream.push(X[t : t + 1]).ends
        microseconds.append(1e6 * (time.perf_counter() - begin))
        delays += [t + 1 - end for end in ends.tolist()]
    return {
        "rows": n_samples,
        "µs a push, median": round(float(np.median(microseconds)), 1),
        "90 %": round(float(np.quantile(microseconds, 0.9)), 1),
        "99 %": round(float(np.quantile(microseconds, 0.99)), 1),
        "delay of a change in samples, median": float(np.median(delays)),
        "largest": max(delays),
    }


def divided(data: LabeledSequences, n_train: int, n_test: int) -> tuple[list[int], list[int]]:
    """Choose training recordings from the first half of the people, and test recordings from the
    other half."""
    people = sorted(set(data.groups))
    first = set(people[: len(people) // 2])
    train = [i for i, group in enumerate(data.groups) if group in first]
    test = [i for i, group in enumerate(data.groups) if group not in first]
    # spread over the people
    train, test = train[:: max(1, len(train) // n_train)], test[:: max(1, len(test) // n_test)]
    return train[:n_train], test[:n_test]


def case(name: str, tiny: bool) -> dict[str, Any]:
    """Prepare a data set: a fitted learner, the test sequences with their true change-points, and
    the signals that the detectors read."""
    loader, margin, n_train, n_test, rate = DATA[name]
    data = loader()
    train, test = divided(data, *((3, 2) if tiny else (n_train, n_test)))
    truths = [Partition.from_runs(labels).change_points[:-1] for labels in data.labels]
    learner = ChangePointMetricLearner()
    learner.fit([data.sequences[i] for i in train], [data.labels[i] for i in train])
    rows = np.vstack([data.sequences[i] for i in train])
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(deviation > 0, deviation, 1.0)
    leading = np.linalg.svd((rows - mean) / scale, full_matrices=False)[2][0] / scale
    learned = np.linalg.svd((rows - mean) @ learner.components_.T, full_matrices=False)[2][0]
    directions = {"principal": leading, "learned": learned @ learner.components_}
    signals = {}
    for kind, direction in directions.items():
        spread = ((rows - mean) @ direction).std() or 1.0
        signals[kind] = [(X - mean) @ direction / spread for X in data.sequences]
    return {
        "learner": learner,
        "X": [data.sequences[i] for i in test],
        "truths": [truths[i].tolist() for i in test],
        "margin": margin,
        "rate": rate,
        "parts": {
            part: {
                "truths": [truths[i] for i in places],
                **{kind: [some[i] for i in places] for kind, some in signals.items()},
            }
            for part, places in (("train", train), ("test", test))
        },
    }


def ours(one: dict[str, Any]) -> Row:
    """Measure F1, delay and speed of our stream, which gets one row at a time."""
    found: list[Found] = []
    seconds = 0.0
    for X in one["X"]:
        changes: Found = []
        stream, begin = one["learner"].stream(), time.process_time()
        for t in range(len(X)):
            changes += [(end, t + 1) for end in stream.push(X[t : t + 1]).ends.tolist()]
        rest = stream.finish().ends[:-1].tolist()
        seconds += time.process_time() - begin
        found.append(changes + [(end, len(X)) for end in rest])
    rate = sum(map(len, one["X"])) / seconds
    return {**scores(found, one["truths"], one["margin"]), "samples a second": round(rate)}


def write(path: Path) -> None:
    """Store signals and true change-points for the detectors of other packages."""
    arrays: dict[str, Any] = {}
    for name in DATA:
        one = case(name, False)
        arrays[f"{name}/margin"] = one["margin"]
        for part, kinds in one["parts"].items():
            for kind, signals in kinds.items():
                for i, signal in enumerate(signals):
                    arrays[f"{name}/{part}/{kind}/{i}"] = signal
    np.savez_compressed(path, **arrays)


def main() -> None:
    """Measure everything, print and save."""
    parser = options_of(__doc__)
    parser.add_argument("--write", type=Path, help="write the streams for stream_detectors and end")
    options = parser.parse_args()
    if options.write:
        write(options.write)
        return
    report = Report("streaming", options)
    sizes = (100_000, 200_000) if options.tiny else (1_000_000, 10_000_000)
    report.table(
        "Ten features with a change every thousand samples, in chunks of a hundred",
        [in_own_process(in_chunks, size) for size in sizes],
        "Memory of the whole process, at its peak.",
    )
    one_by_one = [in_own_process(row_by_row, 2000 if options.tiny else 50_000)]
    report.table("The same, one row at a time", one_by_one)
    peers = json.loads(PEERS.read_text(encoding="utf-8")) if PEERS.exists() else {}
    for name in DATA:
        one = case(name, options.tiny)
        results = {"ours": ours(one), **peers.get(name, {})}
        rows = []
        for detector, result in results.items():
            settings = result.get("parameters", {"the metric": "and the penalty"})
            delay = result["delay"] / one["rate"]
            rows.append(
                {
                    "detector": detector,
                    "F1": round(result["f1"], 3),
                    "median delay in s": "–" if np.isnan(delay) else round(delay, 2),
                    "samples a second": result["samples a second"],
                    "chosen in training": ", ".join(f"{k} {v}" for k, v in settings.items()),
                }
            )
        margin = one["margin"] / one["rate"]
        note = f"Boundaries within {margin:g} s, on {len(one['X'])} recordings of other people."
        report.table(f"Boundaries of {name}, row by row", rows, note)
    report.save()


if __name__ == "__main__":
    main()
