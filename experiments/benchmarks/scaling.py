"""Time and memory of prediction from ten thousand to a million samples.

    python -m experiments.benchmarks.scaling [--out FOLDER] [--repeats 7] [--figure FILE] [--tiny]

T samples, 10 features, T/100 segments; the call is ``predict_change_points`` of a fitted
segmenter, checks of the input and the product with the metric included. Every size runs in a
process of its own, whose peak memory counts everything: interpreter, compiled code and data.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.benchmarks.machine import (
    Report,
    Timing,
    draw_scaling,
    in_own_process,
    in_turns,
    met,
    options_of,
    peak_mebibytes,
    power_of,
)
from metriclearn import Partition
from metriclearn.baselines import RelevantComponents, TunedSegmenter
from metriclearn.datasets import make_change_points

SIZES = (10**4, 3 * 10**4, 10**5, 3 * 10**5, 10**6)
_FEATURES = 10
_SECONDS, _MEBIBYTES, _SLOPE = 5.0, 1024, 1.1  # required at the largest size, and of the slope


def measure(n_samples: int, repeats: int) -> dict[str, Any]:
    """Seconds of every run, peak MiB of this process before and after, and what was found.

    The metric and its penalty are from a sequence of ten thousand samples.
    """
    small = make_change_points(1, 10**4, _FEATURES, _FEATURES, (100, 100), random_state=0)
    segmenter = TunedSegmenter(RelevantComponents()).fit(small.sequences, small.labels)
    count = n_samples // 100
    data = make_change_points(1, n_samples, _FEATURES, _FEATURES, (count, count), random_state=1)
    before = peak_mebibytes()
    predict = partial(segmenter.predict_change_points, data.sequences[0])
    timing = in_turns({"ours": predict}, repeats)["ours"]
    exact = np.isin(Partition.from_runs(data.labels[0]).change_points, timing.result)
    return {
        "timing": timing.numbers,
        "peak": peak_mebibytes(),
        "before": before,
        "found": len(timing.result),
        "exact": int(exact.sum()),
    }


def row(size: int, record: dict[str, Any], timing: Timing) -> dict[str, Any]:
    """One size."""
    return {
        "T": size,
        "segments": size // 100,
        "predict_change_points": timing,
        "processor ms": 1e3 * timing.processor_median,
        "µs per sample": 1e6 * timing.median / size,
        "peak MiB": round(record["peak"]),
        "MiB with the data, before": round(record["before"]),
        "found": record["found"],
        "of them exact": record["exact"],
    }


def main() -> None:
    """Measure all sizes; print, save and draw."""
    parser = options_of(__doc__)
    parser.add_argument(
        "--figure", type=Path, default=Path("docs/images/scaling.png"), help="the picture"
    )
    options = parser.parse_args()
    sizes = (3000,) if options.tiny else SIZES
    report = Report("scaling", threads=1, repeats=options.repeats)
    records = [in_own_process(measure, size, options.repeats) for size in sizes]
    timings = [Timing(**record["timing"]) for record in records]
    medians = [timing.median for timing in timings]
    slope = power_of(sizes, medians)
    processor = power_of(sizes, [timing.processor_median for timing in timings])
    quick = medians[-1] < _SECONDS and slope <= _SLOPE
    note = (
        f"Log-log slope {slope:.3f} (of processor time {processor:.3f}). Required: slope <= "
        f"{_SLOPE}, and at T = {sizes[-1]} less than {_SECONDS:g} s and {_MEBIBYTES} MiB: "
        f"{met(quick and records[-1]['peak'] < _MEBIBYTES)}."
    )
    rows = [row(*item) for item in zip(sizes, records, timings)]
    report.table(f"P = {_FEATURES}, T / 100 segments", rows, note)
    report.save(options.out)
    draw_scaling(options.figure, sizes, {"predict_change_points": medians})


if __name__ == "__main__":
    main()
