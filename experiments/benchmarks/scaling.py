"""Time and memory of prediction from ten thousand to a million samples.

    python -m experiments.benchmarks.scaling [--out FOLDER] [--repeats 7] [--figure FILE]

T samples, 10 features, T/100 segments; the call is ``predict_change_points`` of a fitted
segmenter, checks of the input and the product with the metric included. Every size runs in a
process of its own, whose peak memory counts everything: interpreter, compiled code and data.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"], "1"))

import json
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from experiments.benchmarks.machine import Report, Timing, in_turns, options_of
from metriclearn.baselines import RelevantComponents, TunedSegmenter
from metriclearn.datasets import make_change_points
from metriclearn.problem.partition import Partition

SIZES = (10**4, 3 * 10**4, 10**5, 3 * 10**5, 10**6)
_FEATURES = 10
_SECONDS, _BYTES, _SLOPE = 5.0, 2**30, 1.1  # required at the largest size, and of the slope


def measure(n_samples: int, repeats: int) -> dict[str, Any]:
    """Seconds of every run, peak bytes of this process before and after, and what was found."""
    segmenter = _fitted()
    count = n_samples // 100
    data = make_change_points(1, n_samples, _FEATURES, _FEATURES, (count, count), random_state=1)
    before = _peak_bytes()
    predict = partial(segmenter.predict_change_points, data.sequences[0])
    timing = in_turns({"ours": predict}, repeats)["ours"]
    found = Partition(ends=timing.result)
    truth = Partition.from_runs(data.labels[0])
    return {
        "seconds": timing.seconds,
        "processor": timing.processor,
        "peak": _peak_bytes(),
        "before": before,
        "found": found.n_clusters,
        "matched": int(np.isin(truth.change_points, found.change_points).sum()),
    }


def _fitted() -> TunedSegmenter:
    """A full metric and its penalty from a sequence of ten thousand samples."""
    data = make_change_points(1, 10**4, _FEATURES, _FEATURES, (100, 100), random_state=0)
    return TunedSegmenter(RelevantComponents()).fit(data.sequences, data.labels)


def _peak_bytes() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def in_own_process(n_samples: int, repeats: int) -> dict[str, Any]:
    """:func:`measure` in a fresh interpreter."""
    command = [sys.executable, "-m", "experiments.benchmarks.scaling"]
    command += ["--measure", str(n_samples), "--repeats", str(repeats)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def main() -> None:
    """Measure all sizes; print, save and draw."""
    parser = options_of(__doc__)
    parser.add_argument(
        "--figure", type=Path, default=Path("docs/images/scaling.png"), help="the picture"
    )
    parser.add_argument("--measure", type=int, metavar="T", help="only this size, as JSON")
    options = parser.parse_args()
    with threadpool_limits(1):
        if options.measure is not None:
            print(json.dumps(measure(options.measure, options.repeats)))
            return
    report = Report("scaling", threads=1, repeats=options.repeats)
    records = [in_own_process(size, options.repeats) for size in SIZES]
    medians = [float(np.median(record["seconds"])) for record in records]
    slope = power_of(medians)
    processor = power_of([float(np.median(record["processor"])) for record in records])
    rows = [
        {
            "T": size,
            "segments": size // 100,
            "predict_change_points": Timing(record["seconds"], record["processor"]),
            "processor ms": 1e3 * float(np.median(record["processor"])),
            "µs per sample": 1e6 * median / size,
            "peak MiB": round(record["peak"] / 2**20),
            "MiB with the data, before": round(record["before"] / 2**20),
            "found": record["found"],
            "of them exact": record["matched"],
        }
        for size, median, record in zip(SIZES, medians, records)
    ]
    good = medians[-1] < _SECONDS and records[-1]["peak"] < _BYTES and slope <= _SLOPE
    note = (
        f"Log-log slope {slope:.3f} (of processor time {processor:.3f}). Required: slope <= "
        f"{_SLOPE}, and at T = {SIZES[-1]} less than {_SECONDS:g} s and 1024 MiB: "
        f"{'yes' if good else 'NO'}."
    )
    report.table(f"P = {_FEATURES}, T / 100 segments", rows, note)
    report.save(options.out)
    draw(SIZES, medians, options.figure)


def power_of(seconds: list[float]) -> float:
    """Slope of log seconds over log samples, by least squares."""
    return float(np.polyfit(np.log(SIZES), np.log(seconds), 1)[0])


def draw(sizes: tuple[int, ...], seconds: list[float], path: Path) -> None:
    """Seconds against samples, with a line of slope one."""
    from metriclearn.plots import plot_scaling

    path.parent.mkdir(parents=True, exist_ok=True)
    figure = plot_scaling(sizes, seconds, slope=1.0, label="predict_change_points")
    figure.savefig(path, dpi=150, bbox_inches="tight")
    print(f"Saved {path}")


if __name__ == "__main__":
    main()
