"""Beyond one machine: workers, rounds, sequences on disk, and prediction of very long sequences.

    python -m experiments.benchmarks.scale [--only workers rounds samples training prediction]

* workers: strong and weak scaling from one to two Dask workers.
* rounds: seconds per round against the number of sequences, the cost of an additional task, and an
  estimate for 10⁸ sequences on a thousand machines.
* samples: seconds per round against the length of one sequence.
* training: time and peak memory of a client and two workers that train on 10⁵ sequences from disk,
  to a gap of 1e-2.
* prediction: time of ``predict_change_points`` for sequences of T/100 segments, with ten thousand
  to a million samples in memory, and ten million in a file. Every row runs in a separate process,
  whose peak memory counts interpreter, compiled code and data.

Every part is saved when it is done. Workers have one thread each.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from experiments.benchmarks import machine
from experiments.benchmarks.benchmark import Benchmark, Run
from experiments.benchmarks.machine import Row
from experiments.benchmarks.problems import problem_of
from metriclearn import BundleDual, ChangePointMetricLearner
from metriclearn.baselines import RelevantComponents, TunedSegmenter
from metriclearn.datasets import make_change_points, pack_sequences
from metriclearn.datasets.mapped import LazyArrays
from metriclearn.running.executors import DaskExecutor

BENCH = Benchmark("scale", __doc__)
_COSTS: dict[str, float] = {}  # measured by the tables of rounds
_FEATURES = 10
_GROUPS = 100  # groups of sequences with one cut each, as in learners
_SEQUENCES, _MACHINES = 10**8, 1000  # of the projection


def generated(n_series: int, n_samples: int) -> tuple[LazyArrays, LazyArrays]:
    """Return N sequences of T samples, and their labels. Sequences and labels are generated only
    when they are read.

    Three of 10 features change with the 5 labeled segments. The other features change together at
    other times.
    """
    seeds = np.arange(n_series)
    X, y = (LazyArrays(partial(drawn, n_samples, name), seeds) for name in ("sequences", "labels"))
    return X, y


def drawn(n_samples: int, name: str, seed: int) -> NDArray:
    """Generate the sequence of one seed, or the labels of this sequence."""
    options: dict[str, Any] = {"jump": 1.5, "distractor_group": 7, "random_state": seed}
    data = make_change_points(1, n_samples, _FEATURES, 3, (5, 5), **options)
    return getattr(data, name)[0]


@contextmanager
def workers(count: int) -> Iterator[Any]:
    """Start ``count`` worker processes with one thread each, and yield a client of them."""
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "dashboard_address": None, "memory_limit": 0}
    with LocalCluster(n_workers=count, **options) as cluster, Client(cluster) as client:
        yield client


class WatchedExecutor(DaskExecutor):
    """A Dask executor that remembers the shards it placed."""

    def place(self, shards: Sequence[Any]) -> Any:
        self.shards = super().place(shards)
        return self.shards


def rounds_of(
    client: Any, n_series: int, n_samples: int, repeats: int, shards_per_thread: int = 2
) -> Row:
    """Time rounds of training, after a first round to warm up. Returns the seconds of a round, the
    number of shards, and the bytes that a round sends and receives."""
    executor = WatchedExecutor(client, shards_per_thread=shards_per_thread)
    learner = ChangePointMetricLearner(executor=executor, verbose=False)
    problem = problem_of(learner, *generated(n_series, n_samples))
    w = problem.cone.join(np.where(np.arange(_FEATURES) < 3, 0.02, 0.001), 0.1)
    timing = machine.timed(partial(problem.risk, w), repeats)
    back = executor.each(executor.shards, bytes_back, w)
    return {
        "s per round": timing.median,
        "fastest, s": min(timing.seconds),
        "shards": len(back),
        "bytes sent": len(back) * len(pickle.dumps(w)),
        "bytes back": sum(back),
    }


def bytes_back(shard: Any, w: NDArray) -> int:
    """Return the size in bytes of a shard's result, as it is sent back."""
    return len(pickle.dumps(shard.value_and_slope(w)))


@BENCH.table("One and two workers, T = 2000, P = 10: seconds per round", part="workers")
def two_workers(case: None, run: Run) -> list[Row]:
    """Compare one and two workers. Strong scaling keeps the number of sequences, and weak scaling
    doubles it."""
    N, T = (8, 100) if run.tiny else (200, 2000)
    with workers(1) as client:
        one = rounds_of(client, N, T, run.repeats)
    rows = []
    with workers(2) as client:
        for name, more, gain in (("strong", N, 1), ("weak", 2 * N, 2)):
            two = rounds_of(client, more, T, run.repeats)
            rows.append(
                {
                    "scaling": name,
                    "sequences": f"{N} → {more}",
                    "one worker, s": one["s per round"],
                    "two workers, s": two["s per round"],
                    "speedup": gain * one["s per round"] / two["s per round"],
                    "speedup of the fastest": gain * one["fastest, s"] / two["fastest, s"],
                }
            )
    return rows


def growth(rows: list[Row], column: str = "s per round", words: str = "Seconds grow") -> str:
    """State how the seconds of a column grow with the first column."""
    sizes = [row[next(iter(row))] for row in rows]
    return f"{words} as {next(iter(rows[0]))} to {machine.power_of(sizes, _of(rows, column)):.2f}."


def _of(rows: list[Row], column: str) -> list[float]:
    return [row[column] for row in rows]


@BENCH.table(
    "Two workers, T = 200, P = 10",
    note=partial(growth, column="fastest, s", words="Seconds of the fastest grow"),
    part="rounds",
)
def rounds(case: None, run: Run) -> list[Row]:
    """Measure the seconds per round against N."""
    sizes = (10, 20, 40) if run.tiny else (1000, 10_000, 100_000)
    with workers(2) as client:
        rows = [{"N": N, **rounds_of(client, N, 200, run.repeats)} for N in sizes]
    _COSTS["per sequence"] = 2 * rows[-1]["fastest, s"] / sizes[-1]
    return rows


def per_task(rows: list[Row]) -> str:
    """State the cost of an additional task, and the fixed cost of a round."""
    slope, fixed = np.polyfit(_of(rows, "shards"), _of(rows, "ms"), 1)
    _COSTS.update({"per task": slope / 1e3, "fixed": max(fixed / 1e3, 0.0)})
    return f"{slope:.2f} ms per shard and {fixed:.1f} ms in any case."


@BENCH.table(
    "The fastest round over next to no data, by number of shards", note=per_task, part="rounds"
)
def tasks(case: None, run: Run) -> list[Row]:
    """Measure rounds of almost no work."""
    shards = (4, 8, 16) if run.tiny else (8, 64, 512)
    with workers(2) as client:
        costs = [rounds_of(client, n, 10, run.repeats, max(1, n // 2)) for n in shards]
    return [{"shards": n, "ms": 1e3 * cost["fastest, s"]} for n, cost in zip(shards, costs)]


@BENCH.table(
    f"Projection: {_SEQUENCES} sequences on {_MACHINES} machines",
    ((1, 2), (1, 1), (16, 1)),
    part="rounds",
)
def project(case: tuple[int, int], run: Run) -> Row:
    """Estimate seconds and bytes of a round over 10⁸ sequences on 1000 machines from measured
    costs.

    On paper, T = 200, P = 10: measured seconds per sequence and thread, and per task of the
    scheduler, extrapolated linearly; the network is taken as loopback.
    """
    (threads, per_thread), n, depth = case, _FEATURES + 1, 3  # numbers in w; 16³ > 1000 machines
    tasks = per_thread * threads * _MACHINES
    work = _SEQUENCES * _COSTS["per sequence"] / (_MACHINES * threads)
    scheduling = _COSTS["per task"] * tasks * 17 / 16  # including the tasks of the tree
    latency = (1 + depth) * _COSTS["fixed"]
    return {
        "threads per machine": threads,
        "shards": tasks,
        "s of oracles": work,
        "s of scheduling": scheduling,
        "s of latency": latency,
        "s per round": work + scheduling + latency,
        "kB sent": tasks * 8 * n / 1e3,
        "kB back to the client": 16 * _GROUPS * 8 * (n + 2) / 1e3,
    }


@BENCH.table(
    "One sequence, one thread, P = 10, T / 100 segments: loss-augmented round",
    lambda run: (1000, 3000) if run.tiny else (10**4, 10**5, 10**6, 10**7),
    growth,
    part="samples",
    apart=True,
)
def one_round(n_samples: int, run: Run) -> Row:
    """Time rounds over one sequence of a given length."""
    count = n_samples // 100
    data = make_change_points(1, n_samples, _FEATURES, 3, (count, count), random_state=0)
    problem = problem_of(ChangePointMetricLearner(verbose=False), data.sequences, data.labels)
    w = problem.cone.join(np.full(_FEATURES, 0.3 / n_samples * count), 0.5)
    seconds = machine.timed(partial(problem.risk, w), run.repeats).median
    return {"T": n_samples, "s per round": seconds, "µs per sample": 1e6 * seconds / n_samples}


@BENCH.table("From disk to a gap of 1e-2", part="training")
def training(case: None, run: Run) -> Row:
    """Train on sequences from disk with two workers, to a gap of 1e-2.

    Two workers, P = 10, T = 200, float64 on disk; the client runs the scheduler, too. Peaks count
    the pages of the mapped file that were read.
    """
    N = 60 if run.tiny else 100_000
    with tempfile.TemporaryDirectory() as folder, workers(2) as client:
        stored = pack_sequences(*generated(N, 200), Path(folder))
        learner = ChangePointMetricLearner(
            solver=BundleDual(1e-2), executor=DaskExecutor(client), verbose=False
        )
        timing = machine.Timing().run(lambda: learner.fit(stored.sequences, stored.labels))
        peaks = client.run(machine.peak_mebibytes).values()
    solution = learner.solution_
    return {
        "N": N,
        "minutes": timing.median / 60,
        "rounds": len(solution.trace),
        "s per round, after the first": float(np.median(np.diff(solution.trace.seconds))),
        "relative gap": solution.relative_gap,
        "reason": solution.reason,
        "peak MiB, client": machine.peak_mebibytes(),
        "peak MiB, largest worker": max(peaks),
    }


def lengths(run: Run) -> list[tuple[int, str]]:
    """List the lengths of sequences, and the types of numbers of those that lie in a file."""
    T = (1000, 3000) if run.tiny else (10**4, 3 * 10**4, 10**5, 3 * 10**5, 10**6)
    long = 20_000 if run.tiny else 10**7
    return [*((n, "") for n in T), (long, "float32"), (long, "float64")]


def in_memory(rows: list[Row]) -> str:
    """State how the time of a prediction grows."""
    some = [row for row in rows if row["data"] == "in memory"]
    seconds = [row["predict_change_points"].median for row in some]
    return f"Log-log slope in memory: {machine.power_of(_of(some, 'T'), seconds):.3f}."


@BENCH.table(
    "predict_change_points, P = 10, full metric, T / 100 segments",
    lengths,
    in_memory,
    part="prediction",
    apart=True,
)
def predict(case: tuple[int, str], run: Run) -> Row:
    """Learn a metric and a penalty from a sequence of ten thousand samples. Then time a prediction
    for another sequence."""
    (n_samples, kind), small = case, one_sequence(10**4, 0)
    segmenter = TunedSegmenter(RelevantComponents()).fit(small.sequences, small.labels)
    with tempfile.TemporaryDirectory() as folder:
        if kind:
            write_long(Path(folder, "long.npy"), n_samples, np.dtype(kind))
            X = np.load(Path(folder, "long.npy"), mmap_mode="r")
        else:
            X = one_sequence(n_samples, 1).sequences[0]
        before = machine.peak_mebibytes()
        repeats = 1 if kind else run.repeats
        timing = machine.timed(partial(segmenter.predict_change_points, X), repeats)
    return {
        "T": n_samples,
        "data": f"{kind}, mapped" if kind else "in memory",
        "predict_change_points": timing,
        "processor ms": 1e3 * timing.processor_median,
        "µs per sample": 1e6 * timing.median / n_samples,
        "MiB with the data, before": before,
        "segments": n_samples // 100,
        "predicted": len(timing.result),
    }


def write_long(file: Path, n_samples: int, kind: np.dtype) -> None:
    """Write a file of T samples in segments of about 100 samples, one block at a time."""
    rows = np.lib.format.open_memmap(file, mode="w+", dtype=kind, shape=(n_samples, _FEATURES))
    for start in range(0, n_samples, 10_000):
        rows[start : start + 10_000] = 5 + one_sequence(10_000, start).sequences[0]
    rows.flush()


def one_sequence(n_samples: int, seed: int) -> Any:
    """Generate one sequence whose features all change together."""
    count = n_samples // 100
    return make_change_points(
        1, n_samples, _FEATURES, _FEATURES, (count, count), jump=2.0, random_state=seed
    )


def draw_first(size: str, column: str, words: str, record: Mapping[str, Any]) -> Figure:
    """Plot a column of the first table against sizes, without data in files."""
    rows = [row for row in record["tables"][0]["rows"] if row.get("data") in (None, "in memory")]
    return machine.draw_scaling(rows, size, [column], xlabel=words)


draw_rounds = partial(draw_first, "N", "s per round", "number of sequences N")
draw_samples = partial(draw_first, "T", "s per round", "samples in one sequence T")
draw_prediction = partial(draw_first, "T", "predict_change_points", "number of samples T")

if __name__ == "__main__":
    BENCH.main()
