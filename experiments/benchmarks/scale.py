"""Beyond one machine: workers, rounds, sequences on disk, and one very long sequence.

    python -m experiments.benchmarks.scale [--parts workers rounds samples training long]
        [--out FOLDER] [--data FOLDER] [--repeats 7] [--tiny] [--figure FILE]

* workers: strong and weak scaling from one to two Dask workers, and the overhead of a round.
* rounds: seconds per round against the number of sequences, what a task and a machine add, and
  what follows for 10⁸ sequences on a thousand machines.
* samples: seconds per round against the length of one sequence.
* training: 10⁵ sequences from disk to a gap of 1e-2 with two workers, with the peak memory of
  every process.
* long: change-points of one sequence of 10⁷ samples, with the peak memory of the process.

Every part saves its own tables when it is done. Workers have one thread each.
"""

from __future__ import annotations

import argparse
import json
import pickle
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.benchmarks.machine import (
    Report,
    Timing,
    in_own_process,
    in_turns,
    met,
    options_of,
    peak_mebibytes,
    power_of,
)
from metriclearn import BundleDual, ChangePointMetricLearner
from metriclearn.baselines import RelevantComponents, TunedSegmenter
from metriclearn.datasets import PackedSequences, make_change_points, pack_sequences
from metriclearn.problem.risk import StructuredHinge
from metriclearn.running.executors import DaskExecutor, Executor, ThreadExecutor

_FEATURES = 10
_GROUPS = 100  # functions of the risk, as learners have
_SEQUENCES, _MACHINES = 10**8, 1000  # of the projection


class Generated(Sequence[NDArray]):
    """N sequences of T samples made when they are asked for: 5 segments, 3 of 10 features shift.

    Parameters
    ----------
    n_series, n_samples : int
    part : int
        0 for features, 1 for labels.
    """

    def __init__(self, n_series: int, n_samples: int, part: int) -> None:
        self.n_series, self.n_samples, self.part = n_series, n_samples, part

    def __len__(self) -> int:
        return self.n_series

    def __getitem__(self, i: Any) -> Any:
        if i >= self.n_series:
            raise IndexError(i)
        rng, T = np.random.default_rng(i), self.n_samples
        ends = np.sort(rng.choice(np.arange(T // 20, T - T // 20), 4, replace=False))
        labels = np.searchsorted(ends, np.arange(T), side="right")
        if self.part == 1:
            return labels
        means = np.zeros((5, _FEATURES))
        means[:, :3] = 1.5 * rng.normal(size=(5, 3))
        return means[labels] + rng.normal(size=(T, _FEATURES))


def hinge(n_series: int, n_samples: int, executor: Executor) -> tuple[StructuredHinge, NDArray]:
    """The risk over generated sequences, read where they are asked, and a typical w."""
    learner = ChangePointMetricLearner(executor=executor, verbose=False)
    X, y = Generated(n_series, n_samples, 0), Generated(n_series, n_samples, 1)
    problem = learner._problem(X, y)
    weights = np.where(np.arange(_FEATURES) < 3, 0.02, 0.001)
    return problem.risk, problem.cone.join(weights, 0.1)


@contextmanager
def workers(count: int) -> Iterator[Any]:
    """A client of so many worker processes of one thread."""
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "dashboard_address": None, "memory_limit": 0}
    with LocalCluster(n_workers=count, **options) as cluster, Client(cluster) as client:
        yield client


@dataclass(frozen=True)
class Rounds:
    """Seconds of rounds over generated sequences after one that warms up, and what one sends."""

    seconds: list[float]
    shards: int
    sent: int
    back: int

    @classmethod
    def run(
        cls, client: Any, n_series: int, n_samples: int, repeats: int, shards_per_thread: int = 2
    ) -> Rounds:
        """With the client's workers."""
        executor = DaskExecutor(client, shards_per_thread=shards_per_thread)
        risk, w = hinge(n_series, n_samples, executor)
        seconds = in_turns({"round": partial(risk, w)}, repeats)["round"].seconds
        shards = executor.count(n_series)
        back = sum(executor.each(risk._shards, _bytes_back, w))
        return cls(seconds, shards, shards * len(pickle.dumps(w)), back)

    @property
    def median(self) -> float:
        """Of the seconds."""
        return float(np.median(self.seconds))

    @property
    def fastest(self) -> float:
        """The seconds that met least of the machine's other load."""
        return min(self.seconds)


def scaling(report: Report, options: argparse.Namespace, folder: Path) -> None:
    """Strong: the same sequences; weak: as many more sequences as workers. Then the overhead."""
    (N, T), repeats = (8, 100) if options.tiny else (200, 2000), options.repeats
    runs: dict[tuple[int, int], Rounds] = {}
    empty: dict[int, Rounds] = {}
    for count in (1, 2):
        with workers(count) as client:
            for size in {N, N * count}:
                runs[count, size] = Rounds.run(client, size, T, repeats)
            empty[count] = Rounds.run(client, 8 * count, 10, 3 * repeats)
    rows = [
        {
            "scaling": name,
            "sequences": f"{N} → {more}",
            "one worker, s": runs[1, N].median,
            "two workers, s": runs[2, more].median,
            "speedup": gain * runs[1, N].median / runs[2, more].median,
            "speedup of the fastest": gain * runs[1, N].fastest / runs[2, more].fastest,
        }
        for name, more, gain in (("strong", N, 1), ("weak", 2 * N, 2))
    ]
    report.table(f"One and two workers, T = {T}, P = {_FEATURES}: seconds per round", rows)
    here, w = hinge(16, 10, ThreadExecutor())
    bare = in_turns({"here": partial(here, w)}, 3 * repeats)["here"].median
    table = [
        {
            "workers": count,
            "round with Dask, ms": 1e3 * run.median,
            "fastest, ms": 1e3 * run.fastest,
            "round here, ms": 1e3 * bare,
        }
        for count, run in empty.items()
    ]
    report.table("Overhead: rounds over next to no data", table)


def rounds(report: Report, options: argparse.Namespace, folder: Path) -> None:
    """Seconds per round against N, and what a further task costs."""
    sizes = (10, 20, 40) if options.tiny else (1000, 10_000, 100_000)
    shards = (4, 8, 16) if options.tiny else (8, 64, 512)
    with workers(2) as client:
        runs = [Rounds.run(client, size, 200, options.repeats) for size in sizes]
        costs = [Rounds.run(client, n, 10, options.repeats, max(1, n // 2)) for n in shards]
    rows = [
        {
            "N": size,
            "s per round": run.fastest,
            "ms per sequence and worker": 2e3 * run.fastest / size,
            "shards": run.shards,
            "bytes sent": run.sent,
            "bytes back": run.back,
        }
        for size, run in zip(sizes, runs)
    ]
    report.table(
        f"Two workers, T = 200, P = {_FEATURES}: fastest round",
        rows,
        f"Seconds grow as N to {power_of(sizes, [run.fastest for run in runs]):.2f}.",
    )
    per_task, fixed = np.polyfit(shards, [run.fastest for run in costs], 1)
    report.table(
        "The fastest round over next to no data, by number of shards",
        [{"shards": n, "ms": 1e3 * run.fastest} for n, run in zip(shards, costs)],
        f"{1e3 * per_task:.2f} ms per shard and {1e3 * fixed:.1f} ms in any case.",
    )
    per_sequence = 2 * runs[-1].fastest / sizes[-1]
    report.table(*projection(per_sequence, float(per_task), max(fixed, 0.0)))


def _bytes_back(shard: Any, w: NDArray) -> int:
    return len(pickle.dumps(shard(w)))


def projection(
    per_sequence: float, per_task: float, fixed: float
) -> tuple[str, list[dict[str, Any]], str]:
    """Seconds and bytes of a round over 10⁸ sequences on 1000 machines, from measured costs."""
    n, depth = _FEATURES + 1, 3  # coordinates of w; 16³ > 1000 machines
    rows = []
    for threads, per_thread in ((1, 2), (1, 1), (16, 1)):
        tasks = per_thread * threads * _MACHINES
        work = _SEQUENCES * per_sequence / (_MACHINES * threads)
        scheduling = per_task * tasks * 17 / 16  # with those of the tree
        latency = (1 + depth) * fixed
        rows.append(
            {
                "threads per machine": threads,
                "shards": tasks,
                "s of oracles": work,
                "s of scheduling": scheduling,
                "s of latency": latency,
                "s per round": work + scheduling + latency,
                "kB sent": tasks * 8 * n / 1e3,
                "kB back to the client": 16 * _GROUPS * 8 * (n + 2) / 1e3,
            }
        )
    note = (
        f"On paper, T = 200, P = {_FEATURES}: measured seconds per sequence and thread, and per "
        "task of the scheduler, extrapolated linearly; the network is taken as loopback."
    )
    return f"Projection: {_SEQUENCES} sequences on {_MACHINES} machines", rows, note


def samples(report: Report, options: argparse.Namespace, folder: Path) -> None:
    """Seconds per round against T, one sequence, in processes of their own."""
    sizes = (1000, 3000) if options.tiny else (10**4, 10**5, 10**6, 10**7)
    records = [in_own_process(one_round, T, options.repeats) for T in sizes]
    times = [record["seconds"] for record in records]
    rows = [
        {
            "T": T,
            "s per round": record["seconds"],
            "µs per sample": 1e6 * record["seconds"] / T,
            "peak MiB": record["peak"],
        }
        for T, record in zip(sizes, records)
    ]
    report.table(
        f"One sequence, one thread, P = {_FEATURES}, T / 100 segments: loss-augmented round",
        rows,
        f"Seconds grow as T to {power_of(sizes, times):.2f}.",
    )


def one_round(n_samples: int, repeats: int) -> dict[str, Any]:
    """Seconds and peak memory of rounds over one sequence."""
    count = n_samples // 100
    data = make_change_points(1, n_samples, _FEATURES, 3, (count, count), random_state=0)
    learner = ChangePointMetricLearner(verbose=False)
    problem = learner._problem(data.sequences, data.labels)
    w = problem.cone.join(np.full(_FEATURES, 0.3 / n_samples * count), 0.5)
    problem.risk(w)
    timing = in_turns({"round": lambda: problem.risk(w)}, repeats)["round"]
    return {"seconds": timing.median, "peak": peak_mebibytes()}


def training(report: Report, options: argparse.Namespace, folder: Path) -> None:
    """Sequences from disk to a gap of 1e-2 with two workers."""
    N = 60 if options.tiny else 100_000
    place = folder / f"packed-{N}"
    if not (place / "ends.npy").exists():
        pack_sequences(Generated(N, 200, 0), Generated(N, 200, 1), place)
    stored = PackedSequences(place)
    with workers(2) as client:
        learner = ChangePointMetricLearner(
            solver=BundleDual(1e-2), executor=DaskExecutor(client), verbose=False
        )
        seconds = Timing.of(lambda: learner.fit(stored.sequences, stored.labels)).median
        peaks = {"client": peak_mebibytes(), **client.run(peak_mebibytes)}
    solution = learner.solution_
    row = {
        "N": N,
        "minutes": seconds / 60,
        "rounds": len(solution.trace),
        "s per round, after the first": float(np.median(np.diff(solution.trace.seconds))),
        "relative gap": solution.relative_gap,
        "reason": solution.reason,
        "peak MiB, client": peaks.pop("client"),
        "peak MiB, largest worker": max(peaks.values()),
        "required": met(seconds < 900 and max(peaks.values()) < 4096),
    }
    note = (
        "Two workers, P = 10, T = 200, float64 on disk; the client runs the scheduler, too. Peaks "
        "count the pages of the mapped file that were read. Required: converged to 1e-2 within 15 "
        "minutes and 4 GiB per process."
    )
    report.table("From disk to a gap of 1e-2", [row], note)


def long(report: Report, options: argparse.Namespace, folder: Path) -> None:
    """Change-points of one very long sequence, in processes of their own."""
    T, P = (20_000 if options.tiny else 10**7), 8
    rows = []
    for kind in ("float32", "float64"):
        file = folder / f"long-{T}-{kind}.npy"
        if not file.exists():
            write_long(file, T, P, np.dtype(kind))
        record = in_own_process(predict, str(file))
        good = record["s"] < 60 and record["peak MiB"] < 2048
        row = {"T": T, "on disk": f"{kind}, mapped", **record, "segments": T // 100}
        rows.append(row | {"required": met(good)})
    note = f"P = {P}, full metric of rank {P}, one thread. Required: < 60 s and < 2 GiB."
    report.table("One very long sequence: predict_change_points", rows, note)


def write_long(file: Path, T: int, P: int, kind: np.dtype) -> None:
    """T samples in segments of 100, in blocks."""
    rows = np.lib.format.open_memmap(file, mode="w+", dtype=kind, shape=(T, P))
    rng = np.random.default_rng(0)
    for start in range(0, T, 10_000):
        means = np.repeat(2 * rng.normal(size=(100, P)), 100, axis=0)
        rows[start : start + 10_000] = 5 + means + rng.normal(size=(10_000, P))
    rows.flush()


def predict(file: str) -> dict[str, Any]:
    """Seconds, processor seconds and peak memory of one prediction."""
    X = np.load(file, mmap_mode="r")
    P = X.shape[1]
    data = make_change_points(1, 10**4, P, P, (100, 100), random_state=0)
    segmenter = TunedSegmenter(RelevantComponents()).fit(data.sequences, data.labels)
    timing = in_turns({"p": partial(segmenter.predict_change_points, X)}, 1)["p"]
    return {
        "s": timing.median,
        "processor s": timing.processor_median,
        "peak MiB": peak_mebibytes(),
        "found": len(timing.result),
    }


def draw(folder: Path, path: Path) -> None:
    """Seconds per round against N and against T, from the saved tables of both parts."""
    from matplotlib.figure import Figure

    from metriclearn.plots import plot_scaling

    axes = Figure(figsize=(10.5, 3.8), layout="constrained").subplots(1, 2)
    for ax, part, letter, what in (
        (axes[0], "rounds", "N", "number of sequences N"),
        (axes[1], "samples", "T", "samples in one sequence T"),
    ):
        saved = json.loads((folder / f"scale_{part}.json").read_text(encoding="utf-8"))
        rows = saved["tables"][0]["rows"]
        sizes, seconds = ([row[name] for row in rows] for name in (letter, "s per round"))
        plot_scaling(sizes, seconds, slope=1.0, ax=ax, label="one round", xlabel=what)
    path.parent.mkdir(parents=True, exist_ok=True)
    axes[0].figure.savefig(path, dpi=150)
    print(f"Saved {path}")


PARTS = {
    "workers": scaling,
    "rounds": rounds,
    "samples": samples,
    "training": training,
    "long": long,
}


def main() -> None:
    """Measure the parts; print and save each when it is done."""
    parser = options_of(__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--data", type=Path, help="where generated files stay; else a temporary")
    parser.add_argument("--figure", type=Path, help="draw rounds and samples from --out; no timing")
    options = parser.parse_args()
    if options.figure is not None:
        draw(options.out, options.figure)
        return
    with tempfile.TemporaryDirectory() as temporary:
        for name in options.parts:
            report = Report(f"scale_{name}", repeats=options.repeats)
            PARTS[name](report, options, options.data or Path(temporary))
            report.save(options.out)


if __name__ == "__main__":
    main()
