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

import json
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.benchmarks.machine import Report, Timing, in_turns, options_of
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


def rounds_with(client: Any, n_series: int, n_samples: int, repeats: int) -> list[float]:
    """Seconds of rounds with the client's workers, after one that warms up."""
    executor = DaskExecutor(client)
    risk, w = hinge(n_series, n_samples, executor)
    return in_turns({"round": partial(risk, w)}, repeats)["round"].seconds


def scaling(report: Report, tiny: bool, repeats: int) -> None:
    """Strong: the same sequences; weak: as many more sequences as workers. Then the overhead."""
    N, T = (8, 100) if tiny else (200, 2000)
    found: dict[tuple[int, int], list[float]] = {}
    empty: dict[int, list[float]] = {}
    for count in (1, 2):
        with workers(count) as client:
            for size in {N, N * count}:
                found[count, size] = rounds_with(client, size, T, repeats)
            empty[count] = rounds_with(client, 8 * count, 10, 3 * repeats)
    middle = {key: float(np.median(seconds)) for key, seconds in found.items()}
    rows = [
        {
            "scaling": name,
            "sequences": f"{N} → {more}",
            "one worker, s": middle[1, N],
            "two workers, s": middle[2, more],
            "speedup": gain * middle[1, N] / middle[2, more],
            "speedup of the fastest": gain * min(found[1, N]) / min(found[2, more]),
        }
        for name, more, gain in (("strong", N, 1), ("weak", 2 * N, 2))
    ]
    report.table(f"One and two workers, T = {T}, P = {_FEATURES}: seconds per round", rows)
    here, w = hinge(16, 10, ThreadExecutor())
    bare = float(np.median(in_turns({"here": lambda: here(w)}, 3 * repeats)["here"].seconds))
    table = [
        {
            "workers": count,
            "round with Dask, ms": 1e3 * float(np.median(seconds)),
            "fastest, ms": 1e3 * min(seconds),
            "round here, ms": 1e3 * bare,
        }
        for count, seconds in empty.items()
    ]
    report.table("Overhead: rounds over next to no data", table)


def rounds(report: Report, tiny: bool, repeats: int) -> None:
    """Seconds per round against N, and what a further task costs."""
    sizes = (10, 20, 40) if tiny else (1000, 10_000, 100_000)
    rows, seconds = [], []
    with workers(2) as client:
        for size in sizes:
            executor = DaskExecutor(client)
            risk, w = hinge(size, 200, executor)
            risk(w)  # reads the sequences
            timing = Timing()
            for _ in range(repeats):
                timing.run(partial(risk, w))
            seconds.append(min(timing.seconds))  # the others met more of the machine's load
            sent, back = traffic(risk, w, executor)
            rows.append({
                "N": size,
                "s per round": seconds[-1],
                "ms per sequence and worker": 2e3 * seconds[-1] / size,
                "shards": executor.count(size),
                "bytes sent": sent,
                "bytes back": back,
            })  # fmt: skip
        power = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
        report.table(
            f"Two workers, T = 200, P = {_FEATURES}: fastest round",
            rows,
            f"Seconds grow as N to {power:.2f}.",
        )
        shards = (4, 8, 16) if tiny else (8, 64, 512)
        costs = [task_seconds(client, count, repeats) for count in shards]
    per_task, fixed = np.polyfit(shards, costs, 1)
    report.table(
        "The fastest round over next to no data, by number of shards",
        [{"shards": n, "ms": 1e3 * cost} for n, cost in zip(shards, costs)],
        f"{1e3 * per_task:.2f} ms per shard and {1e3 * fixed:.1f} ms in any case.",
    )
    report.table(*projection(2 * seconds[-1] / sizes[-1], float(per_task), max(fixed, 0.0)))


def task_seconds(client: Any, count: int, repeats: int) -> float:
    """Seconds of the fastest round over as many tiny shards."""
    executor = DaskExecutor(client, shards_per_thread=max(1, count // 2))
    risk, w = hinge(count, 10, executor)
    return min(in_turns({"round": partial(risk, w)}, repeats)["round"].seconds)


def traffic(risk: StructuredHinge, w: NDArray, executor: Executor) -> tuple[int, int]:
    """Bytes of w to all shards, and of sums from them, in one round."""
    shards = executor.count(len(risk.truths))
    return shards * len(pickle.dumps(w)), sum(executor.each(risk._shards, _bytes_back, w))


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
        rows.append({
            "threads per machine": threads,
            "shards": tasks,
            "s of oracles": work,
            "s of scheduling": scheduling,
            "s of latency": latency,
            "s per round": work + scheduling + latency,
            "kB sent": tasks * 8 * n / 1e3,
            "kB back to the client": 16 * _GROUPS * 8 * (n + 2) / 1e3,
        })  # fmt: skip
    note = (
        f"On paper, T = 200, P = {_FEATURES}: measured seconds per sequence and thread, and per "
        "task of the scheduler, extrapolated linearly; the network is taken as loopback."
    )
    return f"Projection: {_SEQUENCES} sequences on {_MACHINES} machines", rows, note


def samples(report: Report, tiny: bool, repeats: int) -> None:
    """Seconds per round against T, one sequence, in processes of their own."""
    sizes = (1000, 3000) if tiny else (10**4, 10**5, 10**6, 10**7)
    records = [in_own_process("--round", T, repeats) for T in sizes]
    times = [record["seconds"] for record in records]
    power = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
    rows = [
        {"T": T, "s per round": r["seconds"], "µs per sample": 1e6 * r["seconds"] / T,
         "peak MiB": r["peak"]}
        for T, r in zip(sizes, records)
    ]  # fmt: skip
    report.table(
        f"One sequence, one thread, P = {_FEATURES}, T / 100 segments: loss-augmented round",
        rows,
        f"Seconds grow as T to {power:.2f}.",
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


def training(report: Report, tiny: bool, folder: Path) -> None:
    """Sequences from disk to a gap of 1e-2 with two workers."""
    N = 60 if tiny else 100_000
    place = folder / f"packed-{N}"
    if not (place / "ends.npy").exists():
        pack_sequences(Generated(N, 200, 0), Generated(N, 200, 1), place)
    stored = PackedSequences(place)
    with workers(2) as client:
        learner = ChangePointMetricLearner(
            solver=BundleDual(1e-2), executor=DaskExecutor(client), verbose=False
        )
        started = time.perf_counter()
        learner.fit(stored.sequences, stored.labels)
        seconds = time.perf_counter() - started
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
        "required": "yes" if seconds < 900 and max(peaks.values()) < 4096 else "NO",
    }
    note = (
        "Two workers, P = 10, T = 200, float64 on disk; the client runs the scheduler, too. Peaks "
        "count the pages of the mapped file that were read. Required: converged to 1e-2 within 15 "
        "minutes and 4 GiB per process."
    )
    report.table("From disk to a gap of 1e-2", [row], note)


def long(report: Report, tiny: bool, folder: Path) -> None:
    """Change-points of one very long sequence, in processes of their own."""
    T, P = (20_000 if tiny else 10**7), 8
    rows = []
    for kind in ("float32", "float64"):
        file = folder / f"long-{T}-{kind}.npy"
        if not file.exists():
            write_long(file, T, P, np.dtype(kind))
        record = in_own_process("--predict", file, 1)
        good = record["seconds"] < 60 and record["peak"] < 2048
        rows.append({
            "T": T, "on disk": f"{kind}, mapped", "s": record["seconds"],
            "processor s": record["processor"], "peak MiB": record["peak"],
            "segments": T // 100, "found": record["found"], "required": "yes" if good else "NO",
        })  # fmt: skip
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


def predict(file: Path) -> dict[str, Any]:
    """Seconds, processor seconds and peak memory of one prediction."""
    P = np.load(file, mmap_mode="r").shape[1]
    data = make_change_points(1, 10**4, P, P, (100, 100), random_state=0)
    segmenter = TunedSegmenter(RelevantComponents()).fit(data.sequences, data.labels)
    X = np.load(file, mmap_mode="r")
    timing = in_turns({"p": lambda: segmenter.predict_change_points(X)}, 1)["p"]
    found = len(timing.result)
    record = {"seconds": timing.median, "processor": float(np.median(timing.processor))}
    return {**record, "peak": peak_mebibytes(), "found": found}


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


def peak_mebibytes() -> float:
    """Most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_own_process(option: str, value: Any, repeats: int) -> dict[str, Any]:
    """What this module prints in a fresh interpreter."""
    command = [sys.executable, "-m", "experiments.benchmarks.scale", option, str(value)]
    command += ["--repeats", str(repeats)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def main() -> None:
    """Measure the parts; print and save each when it is done."""
    parser = options_of(__doc__)
    names = ["workers", "rounds", "samples", "training", "long"]
    parser.add_argument("--parts", nargs="+", choices=names, default=names)
    parser.add_argument("--data", type=Path, help="where generated files stay; else a temporary")
    parser.add_argument("--figure", type=Path, help="draw rounds and samples from --out; no timing")
    parser.add_argument("--tiny", action="store_true", help="seconds, to see that it works")
    parser.add_argument("--round", type=int, metavar="T", help="only this round, as JSON")
    parser.add_argument("--predict", type=Path, metavar="FILE", help="only this file, as JSON")
    options = parser.parse_args()
    if options.figure is not None:
        draw(options.out, options.figure)
        return
    if options.round is not None:
        print(json.dumps(one_round(options.round, options.repeats)))
        return
    if options.predict is not None:
        print(json.dumps(predict(options.predict)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.data or Path(temporary)
        parts: dict[str, Callable[[Report], None]] = {
            "workers": lambda report: scaling(report, options.tiny, options.repeats),
            "rounds": lambda report: rounds(report, options.tiny, options.repeats),
            "samples": lambda report: samples(report, options.tiny, options.repeats),
            "training": lambda report: training(report, options.tiny, folder),
            "long": lambda report: long(report, options.tiny, folder),
        }
        for name in options.parts:
            report = Report(f"scale_{name}", repeats=options.repeats)
            parts[name](report)
            report.save(options.out)


if __name__ == "__main__":
    main()
