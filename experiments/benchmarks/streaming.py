"""Streams: memory, speed and delay, compared with the detectors of claspy and river.

    python -m experiments.benchmarks.streaming [--tiny]

Our stream reads a signal of ten features with a change every 1,000 samples, first in chunks of 100
rows and then row by row. Our stream also reads test recordings of HAPT and GazeCom row by row, as
the detectors in ``stream_detectors.json`` do (see :mod:`experiments.benchmarks.detectors`).
Metric and penalty are learned from recordings of other people. A true boundary counts as found if
the detector reports a boundary within the margin, no matter when. For found boundaries, the delay
is the time from the true boundary to the report.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.benchmarks.benchmark import Benchmark, Run
from experiments.benchmarks.detectors import Found, scores
from experiments.benchmarks.machine import Row, Timing
from metriclearn import ChangePointMetricLearner
from metriclearn.datasets import LabeledSequences, load_dataset
from metriclearn.estimators.scores.segment_score import SegmentScore

BENCH = Benchmark("streaming", __doc__)
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


@BENCH.table(
    "Ten features with a change every thousand samples, in chunks of a hundred",
    lambda run: (100_000, 200_000) if run.tiny else (1_000_000, 10_000_000),
    apart=True,
)
def in_chunks(n_samples: int, run: Run) -> Row:
    """Push samples in chunks of 100, and return one row with peak memory and speed.

    Memory of the whole process, at its peak.
    """
    stream, timing, n_found = synthetic_learner().stream(), Timing(), 0
    stream.push(block(0)[:_CHUNK])  # compiles

    def push(X: NDArray) -> int:
        return sum(len(stream.push(X[i : i + _CHUNK]).ends) for i in range(0, _BLOCK, _CHUNK))

    for number in range(n_samples // _BLOCK):
        n_found += timing.run(partial(push, block(number + 1))).result
    return {
        "samples": n_samples,
        "changes told": n_found,
        "samples a second": round(n_samples / sum(timing.seconds)),
        "samples a processor second": round(n_samples / sum(timing.processor)),
    }


@BENCH.table("The same, one row at a time", apart=True)
def row_by_row(case: None, run: Run) -> Row:
    """Push one sample at a time. Returns one row: the microseconds per sample, and after how many
    samples a change becomes final."""
    stream, X = synthetic_learner().stream(), block(1)[: 2000 if run.tiny else 50_000]
    stream.push(X[:1])
    microseconds, delays = [], []
    for t in range(1, len(X)):
        begin = time.perf_counter()
        ends = stream.push(X[t : t + 1]).ends
        microseconds.append(1e6 * (time.perf_counter() - begin))
        delays += [t + 1 - end for end in ends.tolist()]
    return {
        "rows": len(X),
        "µs a push, median": round(float(np.median(microseconds)), 1),
        "90 %": round(float(np.quantile(microseconds, 0.9)), 1),
        "99 %": round(float(np.quantile(microseconds, 0.99)), 1),
        "delay of a change in samples, median": float(np.median(delays)),
        "largest": max(delays),
    }


def divided(data: LabeledSequences, *counts: int) -> list[LabeledSequences]:
    """Choose training recordings from the first half of the people, and test recordings from the
    other half."""
    people = sorted(set(data.groups))
    half = len(people) // 2
    parts = zip(data.split_by_group(groups=[people[:half], people[half:]]), counts)
    # spread over the people
    return [part.select(range(0, len(part), max(1, len(part) // n))[:n]) for part, n in parts]


def case(name: str, tiny: bool) -> dict[str, Any]:
    """Prepare a data set: a fitted learner, the test sequences with their true change-points, and
    the signals that the detectors read."""
    loader, margin, n_train, n_test, rate = DATA[name]
    train, test = divided(loader(), *((3, 2) if tiny else (n_train, n_test)))
    learner = ChangePointMetricLearner().fit(train.sequences, train.labels)
    rows = np.vstack(train.sequences)
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(deviation > 0, deviation, 1.0)
    leading = np.linalg.svd((rows - mean) / scale, full_matrices=False)[2][0] / scale
    learned = np.linalg.svd((rows - mean) @ learner.components_.T, full_matrices=False)[2][0]
    directions = {"principal": leading, "learned": learned @ learner.components_}
    parts: dict[str, Any] = {}
    for part, data in (("train", train), ("test", test)):
        parts[part] = {"truths": [ends[:-1] for ends in data.change_points]}
        for kind, direction in directions.items():
            spread = ((rows - mean) @ direction).std() or 1.0
            parts[part][kind] = [(X - mean) @ direction / spread for X in data.sequences]
    return {"learner": learner, "X": test.sequences, "margin": margin, "rate": rate, "parts": parts}


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
    return {
        **scores(found, one["parts"]["test"]["truths"], one["margin"]),
        "samples a second": round(rate),
    }


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


def boundaries(name: str, run: Run) -> Iterator[Row]:
    """Yield a row for our stream, and one for each detector of another package."""
    one = case(name, run.tiny)
    peers = json.loads(PEERS.read_text(encoding="utf-8"))
    for detector, result in {"ours": ours(one), **peers[name]}.items():
        settings = result.get("parameters", {"the metric": "and the penalty"})
        delay = result["delay"] / one["rate"]
        yield {
            "detector": detector,
            "F1": round(result["f1"], 3),
            "median delay in s": "–" if np.isnan(delay) else round(delay, 2),
            "samples a second": result["samples a second"],
            "chosen in training": ", ".join(f"{k} {v}" for k, v in settings.items()),
        }


for _name, (_, _margin, _, _n_test, _rate) in DATA.items():
    BENCH.table(
        f"Boundaries of {_name}, row by row",
        [_name],
        f"Boundaries within {_margin / _rate:g} s, on {_n_test} recordings of other people.",
    )(boundaries)
BENCH.option("--write", type=Path, help="write the streams for the detectors and end")

if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        write(Path(sys.argv[2]))
    else:
        BENCH.main()
