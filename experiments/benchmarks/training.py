"""Seconds and memory of training to a certified gap.

    python -m experiments.benchmarks.training [--out FOLDER] [--repeats 7] [--only METRIC]

``main`` is the synthetic main job: 10 sequences of 600 samples and 300 features, 10 of them
relevant, 6 to 9 segments. ``television`` has the size of the paper's TV shows: four sequences of
5400 samples, 200 features (20 relevant), 60 to 120 segments. ``matrix`` is for full metrics, whose
20 100 numbers are the load: 20 sequences of 1000 samples, 200 features (20 relevant), 10 to 20
segments. Each row is trained in a process of its own to a relative gap of 1e-3 (objective minus
certified lower bound, over the objective at the start), with the default strength of the
regularizer and a tenth of it. Peak memory counts everything: interpreter, compiled code and data.
Linear algebra has one thread. What is required of seconds is asked of the processor's, which other
work on the machine does not change; with ``--threads`` above one, of the wall clock's.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from experiments.benchmarks.machine import (
    Report,
    Timing,
    in_own_process,
    in_turns,
    met,
    options_of,
    peak_mebibytes,
)
from metriclearn import (
    L1,
    BundleDual,
    ChangePointMetricLearner,
    DiagonalMetric,
    FullMetric,
    SquaredFrobenius,
    Trace,
)
from metriclearn.datasets import SyntheticSequences, make_change_points
from metriclearn.solvers.base import Progress, Solution
from metriclearn.solvers.mahalanobis import Metric

LEARNERS: dict[str, tuple[Metric, Callable[..., Any]]] = {
    "diagonal l2": (DiagonalMetric(), SquaredFrobenius),
    "diagonal l1": (DiagonalMetric(), L1),
    "full l2": (FullMetric(), SquaredFrobenius),
    "full trace": (FullMetric(), Trace),
}
_MEBIBYTES, _GAP = 1024, 1e-3


@dataclass(frozen=True)
class Job:
    """Training data, the seconds required, and who trains on them."""

    make: Callable[..., SyntheticSequences]
    seconds: float
    learners: tuple[str, ...] = tuple(LEARNERS)


JOBS = {
    "tiny": Job(partial(make_change_points, 3, 100, 10, 3, (3, 4)), 10.0),
    "main": Job(make_change_points, 10.0),
    "television": Job(partial(make_change_points, 4, 5400, 200, 20, (60, 120)), 60.0),
    "matrix": Job(
        partial(make_change_points, 20, 1000, 200, 20, (10, 20)), 120.0, ("full l2", "full trace")
    ),
}


class Clock:
    """A callback that remembers when every gap of the last run was reached.

    Parameters
    ----------
    clock : callable () -> float
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock

    def begin(self) -> None:
        """Before a run."""
        self.times, self.gaps = [self.clock()], [float("inf")]

    def on_round(self, progress: Progress) -> None:
        """Read the clock."""
        self.times.append(self.clock())
        self.gaps.append(progress.relative_gap)

    def on_end(self, solution: Solution) -> None:
        """Nothing is left to do."""

    def gap_after(self, seconds: float) -> float:
        """Relative gap reached within that time (infinite before the first round)."""
        return self.gaps[int(np.searchsorted(self.times, self.times[0] + seconds, "right")) - 1]


def strengths(name: str) -> tuple[float, float]:
    """The regularizer's default strength and a tenth of it."""
    default = LEARNERS[name][1]().strength
    return default, default / 10


def measure(job: str, name: str, strength: float, n_jobs: int, repeats: int) -> dict[str, Any]:
    """Train; seconds of every run, the certificate, peak MiB of this process."""
    data = JOBS[job].make(random_state=0)
    metric, regularizer = LEARNERS[name]
    clock = Clock(time.process_time if n_jobs == 1 else time.perf_counter)
    learner = ChangePointMetricLearner(
        metric,
        regularizer(strength),
        BundleDual(tolerance=_GAP),
        n_jobs=n_jobs,
        callbacks=[clock],
        verbose=False,
    )

    def fit() -> None:
        clock.begin()
        learner.fit(data.sequences, data.labels)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        run = in_turns({"fit": fit}, repeats)["fit"]
    solution = learner.solution_
    test = JOBS[job].make(random_state=2)
    return {
        "timing": run.numbers,
        "rounds": len(solution.trace),
        "gap": solution.relative_gap,
        "reason": solution.reason,
        "gap_after": clock.gap_after(JOBS[job].seconds),
        "peak": peak_mebibytes(),
        "rank": len(learner.components_),
        "test": -learner.score(test.sequences, test.labels) * len(test.sequences[0]),
    }


def row(job: str, name: str, strength: float, n_jobs: int, repeats: int) -> dict[str, Any]:
    """One trained learner."""
    record = in_own_process(measure, job, name, strength, n_jobs, repeats)
    timing, limit = Timing(**record["timing"]), JOBS[job].seconds
    counted = timing.processor_median if n_jobs == 1 else timing.median
    good = record["gap"] <= _GAP and counted < limit and record["peak"] < _MEBIBYTES
    return {
        "metric": name,
        "strength": strength,
        "seconds": round(timing.median, 2),
        "slowest": round(max(timing.seconds), 2),
        "processor seconds": round(timing.processor_median, 2),
        "rounds": record["rounds"],
        "relative gap": f"{record['gap']:.1e}",
        f"gap after {limit:g} s": f"{record['gap_after']:.1e}",
        "peak MiB": round(record["peak"]),
        f"1e-3 in {limit:g} s and 1 GiB": met(good),
        "rank": record["rank"],
        "test loss": round(record["test"], 2),
    }


def main() -> None:
    """Train everything; print and save."""
    parser = options_of(__doc__)
    parser.add_argument("--only", choices=LEARNERS, help="only this metric and regularizer")
    parser.add_argument("--job", choices=JOBS, help="only this job")
    parser.add_argument("--threads", type=int, default=1, help="threads over sequences")
    options = parser.parse_args()
    report = Report("training", threads=options.threads, repeats=options.repeats, tolerance=_GAP)
    jobs = ("tiny",) if options.tiny else ("main", "television", "matrix")
    for job in jobs if options.job is None else (options.job,):
        rows = [
            row(job, name, strength, options.threads, options.repeats)
            for name in JOBS[job].learners
            if options.only in (None, name)
            for strength in strengths(name)
        ]
        report.table(job, rows, "A run of more than 10 s is not repeated.")
    report.save(options.out)


if __name__ == "__main__":
    main()
