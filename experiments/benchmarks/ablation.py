"""How much time each speed-up of the search for change-points saves.

    python -m experiments.benchmarks.ablation [--out FOLDER] [--repeats 7] [--tiny]

A speed-up skips work without changing the result, and it can be switched off. A ratio is the
processor time without one speed-up, divided by the time with all of them. A call is run several
times, and the least time counts. Each speed-up is switched off in a separate process, because numba
compiles the switches into its kernels. The processes of one row of the table run one after another.
Their objectives must agree to a relative 1e-9.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np

import metriclearn as ml
from experiments.benchmarks.change_points import NOISY, TINY, Signal, make_signal, off_hull, steps
from experiments.benchmarks.machine import Report, Timing, options_of
from metriclearn.datasets import load_dataset

Row = Callable[[], float]
_HOME = "metriclearn.oracles.change_points."
_MOST = 2**31 - 1
# speed-up: the constant that switches it, and its value without the speed-up
SPEED_UPS: dict[str, tuple[str, str, Any]] = {
    "bound of fresh starts": ("bounds", "LOOK_AHEAD", False),
    "dominance by two rivals": ("bounds", "DOMINANCE", False),
    "gain of the loss": ("bounds", "GAIN", False),
    "hot starts": ("bounds", "HOT", -1.0),
    "blocks of cold starts": ("bounds", "BLOCK", _MOST),
    "levels": ("bounds", "LEVEL", _MOST),
    "table of distances": ("search", "WIDE", _MOST),
    "guessed penalty": ("search", "GUESS", False),
    "windows of margins": ("margins", "NARROW", np.inf),
    "blocks of ends of margins": ("margins", "BLOCKS", False),
    "blocks of starts of margins": ("margins", "STARTS", _MOST),
}
# Ratios of speed-ups that have been removed since, measured on a program that still had them.
REMOVED = [
    {"speed-up": "bounds carried over at checkpoints", "largest": 1.16, "least": 0.83},
    {"speed-up": "functional pruning of one feature", "largest": 1.44, "least": 0.72},
]
_NOTE = "Rows to which a speed-up does not apply have ratios that show the size of the noise."
_REMOVED_NOTE = (
    "Ratios of single programs, measured before removal on rows of the change-points page and "
    "on recordings, the least of 2 to 15 runs. Left out are rows that a fixed cost per call "
    "dominates. Below 1 the program is faster without the speed-up."
)


def rows_of(tiny: bool) -> dict[str, Callable[[], Row]]:
    """Return for each row of the table a function, which prepares the data and returns the call to
    time."""
    if tiny:
        return {
            "penalized": partial(_penalized, make_signal, *TINY),
            "noisy": partial(_penalized, make_signal, *TINY, 0.3),
            "augmented": partial(_augmented, *TINY, 3.0),
            "counted": partial(_counted, *TINY, 1.0, 4),
            "margins": partial(_margins, *TINY, 4),
        }
    rows: dict[str, Callable[[], Row]] = {}
    for size in [(2000, 20, 40), (20000, 10, 200), (20000, 10, 1)]:
        rows[f"penalized {size}"] = partial(_penalized, make_signal, *size)
        rows[f"augmented {size}, penalty / α = 3"] = partial(_augmented, *size, 3.0)
    for T in (10000, 20000):
        noisy = (T, 10, 100, 0.3)
        rows[f"penalized {noisy}"] = partial(_penalized, make_signal, *noisy)
    for T, K in ((10**5, 1), (10**5, 1000), (10**6, 1)):
        rows[f"penalized, T = {T}, P = 8, {K} segments"] = partial(_penalized, steps, T, 8, K)
    for noisy in NOISY:
        rows[f"counted {noisy}, off the hull"] = partial(_counted, *noisy)
    rows["counted (20000, 10, 200, 1)"] = partial(_counted, 20000, 10, 200, 1.0, 200)
    for count in (None, 30, 40):
        rows[f"margins (2000, 20, 40), count {count}"] = partial(_margins, 2000, 20, 40, count)
    rows["margins (2000, 20, 40), annotated"] = partial(_margins, 2000, 20, 40, None, True)
    for name, load in (
        ("HAPT", partial(load_dataset, "hapt")),
        ("mocap6", partial(load_dataset, "mocap6")),
    ):
        for kind in ("augmented", "counted", "margins"):
            rows[f"{name}, {kind}"] = partial(_recordings, load, kind)
    return rows


def _penalized(signal: Callable[..., Signal], *size: float) -> Row:
    drawn = signal(*size)
    form = ml.LowRankForm(drawn.Z, shift=-drawn.penalty)
    return lambda: form.at(ml.ChangePoints()(form))


def _augmented(T: int, P: int, K: int, ratio: float) -> Row:
    signal = make_signal(T, P, K)
    Z = signal.Z * np.sqrt(ratio / signal.penalty)
    form = ml.LowRankForm(Z, shift=1.0 - ratio).plus(signal.truth, 2.0)
    return lambda: form.at(ml.ChangePoints()(form))


def _counted(T: int, P: int, K: int, jump: float, count: int | None = None) -> Row:
    signal = make_signal(T, P, K, jump)
    form, count = ml.LowRankForm(signal.Z), count or off_hull(signal)
    return lambda: form.at(ml.ChangePoints()(form, count))


def _margins(T: int, P: int, K: int, count: int | None, annotated: bool = False) -> Row:
    signal, known = make_signal(T, P, K), None
    if annotated:  # every other change is known up to nine samples, more than the tolerance
        ends = signal.truth.change_points[:-1:2].tolist()
        known = ml.PartialPartition(
            T, regions=[(t - 10, t + 10, ml.AT_LEAST_ONE) for t in ends if 10 <= t <= T - 10]
        )
    form = ml.LowRankForm(signal.Z, shift=-signal.penalty)
    return lambda: _total(ml.boundary_margins(form, count, known, tolerance=2))


def _total(margins: ml.BoundaryMargins) -> float:
    return sum(float(a[np.isfinite(a)].sum()) for a in (margins.losses, margins.gains))


def _recordings(load: Callable[..., Any], kind: str) -> Row:
    """Return a call that segments the first twelve recordings of a data set, with a metric learned
    from these recordings.

    ``kind`` chooses what is timed: loss-augmented inference, inference with the true number of
    segments, or boundary margins.
    """
    data = load()
    data = data.select(range(min(12, len(data))))
    learner = ml.ChangePointMetricLearner().fit(data.sequences, data.labels)
    truths = [ml.Partition.from_runs(labels) for labels in data.labels]
    penalty = learner.penalty_ or 0.0
    forms = [ml.LowRankForm(Z, shift=-penalty) for Z in learner.transform(data.sequences)]
    oracle = ml.ChangePoints()
    if kind == "augmented":
        worse = [form.plus(truth, 2.0).shifted(1.0) for form, truth in zip(forms, truths)]
        return lambda: float(sum(form.at(oracle(form)) for form in worse))
    pairs = [(form, truth.n_clusters) for form, truth in zip(forms, truths)]
    if kind == "counted":
        return lambda: float(sum(form.at(oracle(form, K)) for form, K in pairs))
    return lambda: float(sum(_total(ml.boundary_margins(form, K)) for form, K in pairs))


def switch_off(speed_up: str | None) -> None:
    """Switch one speed-up off in this process, before its kernels are compiled."""
    if speed_up is not None:
        module, name, value = SPEED_UPS[speed_up]
        setattr(importlib.import_module(_HOME + module), name, value)


def process_without(speed_up: str | None, folder: str) -> ProcessPoolExecutor:
    """Start a process without one speed-up and with a separate cache of compiled kernels.

    The folder of the cache is set before the process starts, because numba reads it when it is
    imported.
    """
    os.environ["NUMBA_CACHE_DIR"] = os.path.join(folder, str(speed_up))
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(1, context, switch_off, (speed_up,))
    pool.submit(os.getpid).result()
    return pool


def measure(row: str, tiny: bool, repeats: int) -> tuple[float, float]:
    """Time a row in this process. Returns the least processor seconds and the result of the
    call."""
    call, timing = rows_of(tiny)[row](), Timing()
    timing.run(call)  # compiles
    value, seconds = timing.result, []
    for _ in range(1 if timing.processor[0] > 60.0 else repeats):
        seconds.append(Timing().run(call).processor[0])
    return min(seconds), value


def ratios(row: str, pools: Mapping[str | None, Any], options: Any) -> dict[str, Any]:
    """Make one line of the table. For every speed-up, the line has the time of the process without
    this speed-up, divided by the time of the process with all speed-ups."""
    answers = {
        speed_up: pool.submit(measure, row, options.tiny, options.repeats).result()
        for speed_up, pool in pools.items()
    }
    (least, expected), cells = answers.pop(None), {}
    for speed_up, (seconds, value) in answers.items():
        if abs(value - expected) > 1e-9 * (1.0 + abs(expected)):
            raise RuntimeError(f"{row} has another objective without {speed_up}.")
        cells[str(speed_up)] = round(seconds / least, 2)
    print(row, cells, flush=True)
    return {"row": row, "all, ms": round(1e3 * least, 3), **cells}


def main() -> None:
    """Print and save the ratios."""
    options = options_of(__doc__).parse_args()
    report = Report("ablation", options, repeats=options.repeats)
    with tempfile.TemporaryDirectory() as folder:
        pools = {speed_up: process_without(speed_up, folder) for speed_up in (None, *SPEED_UPS)}
        table = [ratios(row, pools, options) for row in rows_of(options.tiny)]
        for pool in pools.values():
            pool.shutdown()
    largest = [
        {"speed-up": speed_up, "largest": max(row[speed_up] for row in table)}
        for speed_up in SPEED_UPS
    ]
    report.table("Time without one speed-up, divided by the time with all of them", table, _NOTE)
    report.table("Largest ratio of every speed-up", largest)
    report.table("Speed-ups that were removed", REMOVED, _REMOVED_NOTE)
    report.save()


if __name__ == "__main__":
    main()
