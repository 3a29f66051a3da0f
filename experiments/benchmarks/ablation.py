"""How much time each speed-up of the search for change-points saves.

    python -m experiments.benchmarks.ablation [--repeats 7] [--tiny]

A speed-up skips work without changing the result, and it can be switched off. A ratio is the
processor time without one speed-up, divided by the time with all of them. A call is run several
times, and the least time counts. Each speed-up is switched off in a separate process, because numba
compiles the switches into its kernels. The processes of one row of the table run one after another.
Their objectives must agree to a relative 1e-9.
"""

from __future__ import annotations

import atexit
import importlib
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from typing import Any

import numpy as np

import metriclearn as ml
from experiments.benchmarks.benchmark import Benchmark, Run
from experiments.benchmarks.change_points import NOISY, TINY, Signal, make_signal, off_hull, steps
from experiments.benchmarks.machine import Row as Cells
from experiments.benchmarks.machine import Timing
from metriclearn.datasets import load_dataset

Row = Callable[[], float]
BENCH = Benchmark("ablation", __doc__)
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
    "blocks of starts of margins": ("deficits", "STARTS", _MOST),
}
# Ratios of speed-ups that have been removed since, measured on a program that still had them.
REMOVED = [
    {"speed-up": "bounds carried over at checkpoints", "largest": 1.16, "least": 0.83},
    {"speed-up": "functional pruning of one feature", "largest": 1.44, "least": 0.72},
]
_LARGEST: dict[str, float] = {}  # of the ratios of every speed-up so far


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
    for name in ("HAPT", "mocap6"):
        for kind in ("augmented", "counted", "margins"):
            rows[f"{name}, {kind}"] = partial(_recordings, name.lower(), kind)
    return rows


def _penalized(signal: Callable[..., Signal], *size: float) -> Row:
    return _best((signal(*size).form, None))


def _augmented(T: int, P: int, K: int, ratio: float) -> Row:
    signal = make_signal(T, P, K).scaled(ratio)
    return _best((signal.form.shifted(1.0).plus(signal.truth, 2.0), None))


def _counted(T: int, P: int, K: int, jump: float, count: int | None = None) -> Row:
    signal = make_signal(T, P, K, jump)
    return _best((ml.problem.LowRankForm(signal.Z), count or off_hull(signal)))


def _best(*searches: tuple[Any, int | None]) -> Row:
    """Return a call that adds up the values of optima. A search is a form, and the number of
    segments or None."""
    oracle = ml.oracles.ChangePoints()
    return lambda: float(sum(form.at(oracle(form, count)) for form, count in searches))


def _margins(T: int, P: int, K: int, count: int | None, annotated: bool = False) -> Row:
    signal, known = make_signal(T, P, K), None
    if annotated:  # every other change is known up to nine samples, more than the tolerance
        ends = signal.truth.change_points[:-1:2].tolist()
        known = ml.PartialPartition(
            T,
            regions=[(t - 10, t + 10, ml.problem.AT_LEAST_ONE) for t in ends if 10 <= t <= T - 10],
        )
    form = signal.form
    return lambda: _total(ml.oracles.boundary_margins(form, count, known, tolerance=2))


def _total(margins: ml.oracles.BoundaryMargins) -> float:
    return sum(float(a[np.isfinite(a)].sum()) for a in (margins.losses, margins.gains))


def _recordings(name: str, kind: str) -> Row:
    """Return a call that segments the first twelve recordings of a data set, with a metric learned
    from these recordings.

    ``kind`` chooses the program to time: loss-augmented inference, inference with the true number
    of segments, or boundary margins.
    """
    data = load_dataset(name)
    data = data.select(range(min(12, len(data))))
    learner = ml.ChangePointMetricLearner().fit(data.sequences, data.labels)
    truths = [ml.Partition.from_runs(labels) for labels in data.labels]
    penalty = learner.penalty_ or 0.0
    forms = [ml.problem.LowRankForm(Z, shift=-penalty) for Z in learner.transform(data.sequences)]
    if kind == "augmented":
        return _best(*((f.plus(truth, 2.0).shifted(1.0), None) for f, truth in zip(forms, truths)))
    pairs = [(form, truth.n_clusters) for form, truth in zip(forms, truths)]
    if kind == "counted":
        return _best(*pairs)
    return lambda: float(sum(_total(ml.oracles.boundary_margins(form, K)) for form, K in pairs))


def switch_off(speed_up: str | None) -> None:
    """Switch one speed-up off in this process, before its kernels are compiled."""
    if speed_up is not None:
        module, name, value = SPEED_UPS[speed_up]
        setattr(importlib.import_module(_HOME + module), name, value)


@cache
def processes() -> dict[str | None, ProcessPoolExecutor]:
    """Start a process without each of the speed-ups, and one with all of them. Each has a separate
    cache of compiled kernels.

    The folder of the cache is set before a process starts, because numba reads it when it is
    imported.
    """
    folder, pools = tempfile.mkdtemp(), {}
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for speed_up in (None, *SPEED_UPS):
        os.environ["NUMBA_CACHE_DIR"] = os.path.join(folder, str(speed_up))
        context = multiprocessing.get_context("spawn")
        pools[speed_up] = ProcessPoolExecutor(1, context, switch_off, (speed_up,))
        pools[speed_up].submit(os.getpid).result()
    return pools


def measure(row: str, tiny: bool, repeats: int) -> tuple[float, float]:
    """Time a row in this process. Returns the least processor seconds and the result of the
    call."""
    call, timing = rows_of(tiny)[row](), Timing()
    timing.run(call)  # compiles
    value, seconds = timing.result, []
    for _ in range(1 if timing.processor[0] > 60.0 else repeats):
        seconds.append(Timing().run(call).processor[0])
    return min(seconds), value


@BENCH.table(
    "Time without one speed-up, divided by the time with all of them", lambda run: rows_of(run.tiny)
)
def ratios(row: str, run: Run) -> Cells:
    """Divide the time of the process without each speed-up by the time of the process with all.

    Rows to which a speed-up does not apply have ratios that show the size of the noise.
    """
    answers = {
        speed_up: pool.submit(measure, row, run.tiny, run.repeats).result()
        for speed_up, pool in processes().items()
    }
    (least, expected), cells = answers.pop(None), {}
    for speed_up, (seconds, value) in answers.items():
        if abs(value - expected) > 1e-9 * (1.0 + abs(expected)):
            raise RuntimeError(f"{row} has another objective without {speed_up}.")
        cells[str(speed_up)] = round(seconds / least, 2)
        _LARGEST[str(speed_up)] = max(cells[str(speed_up)], _LARGEST.get(str(speed_up), 0.0))
    return {"row": row, "all, ms": round(1e3 * least, 3), **cells}


@BENCH.table("Largest ratio of every speed-up", SPEED_UPS)
def largest(speed_up: str, run: Run) -> Cells:
    """Return the largest ratio in the table above."""
    return {"speed-up": speed_up, "largest": _LARGEST[speed_up]}


@BENCH.table("Speed-ups that were removed", REMOVED)
def removed(row: Cells, run: Run) -> Cells:
    """Return what was measured before.

    Ratios of single programs, measured before removal on rows of the change-points page and on
    recordings, the least of 2 to 15 runs. Left out are rows that a fixed cost per call dominates.
    Below 1 the program is faster without the speed-up.
    """
    return row


if __name__ == "__main__":
    BENCH.main()
