"""Time and memory of loss-augmented clustering, from ten thousand to a million samples.

    python -m experiments.benchmarks.clustering [--repeats 7] [--tiny]

The data have T samples, and 16 features and 26 clusters like Letter Recognition ("Letters"). Three
calls are timed. The first call is the relaxation of a new form, including its QR decomposition. The
second call is the relaxation within a round of a learner, which has decomposed the data once. The
third call is the local search. Every size runs in a separate process, whose peak memory counts
everything: interpreter, compiled code and data. Then a full metric is learned from Letters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import metriclearn as ml
from experiments.benchmarks import machine
from experiments.benchmarks.benchmark import Benchmark, Run
from experiments.benchmarks.problems import clusters
from metriclearn.datasets import load_dataset
from metriclearn.problem.joint_features import Samples

SIZES = (10**4, 2 * 10**4, 10**5, 3 * 10**5, 10**6)
BENCH = Benchmark("clustering", __doc__)
_SHAPE = (16, 26, 0.8)  # features, clusters, spread of the centers, as in Letters


def slope(rows: list[machine.Row]) -> str:
    """State how the time of the relaxation grows."""
    power = machine.power_of([row["T"] for row in rows], [row["relaxation"].median for row in rows])
    text = f"Log-log slope of the relaxation's time: {power:.2f}. At T = 20000 a T×T "
    return f"{text}array takes 3.2 GB."


@BENCH.table(
    "P = 16 features, K = 26 clusters",
    lambda run: (500, 1000) if run.tiny else SIZES,
    slope,
    apart=True,
)
def row(n_samples: int, run: Run) -> machine.Row:
    """Time the three calls that the top of this module describes, and return one row. The row also
    has the peak memory of this process in MiB before these calls and after the relaxation."""
    X, y = clusters(n_samples, *_SHAPE)
    P, K, _ = _SHAPE
    truth, components = ml.Partition.from_labels(y), np.eye(P) / np.sqrt(n_samples / 100)
    samples = Samples(X, truth=truth)
    relaxation, search = ml.oracles.SpectralRelaxation(), ml.oracles.LocalSearch()
    factors = samples.centered @ components.T

    def fresh() -> float:
        return relaxation(ml.problem.LowRankForm(factors).plus(truth, 2.0), K).n_clusters

    def in_a_round() -> float:
        form = samples.form(components).plus(truth, 2.0)
        return float(np.sum(samples.pooled(relaxation(form, K)) ** 2))

    before = machine.peak_mebibytes()
    timings = machine.in_turns({"relaxation": fresh, "in a round": in_a_round}, run.repeats)
    between = machine.peak_mebibytes()
    augmented = ml.problem.LowRankForm(factors).plus(truth, 2.0)
    local = machine.timed(lambda: search.bounds(augmented, K), run.repeats)
    bounds = local.result
    return {
        "T": n_samples,
        **timings,
        "local search": local,
        "MiB before": before,
        "MiB relaxation": between,
        "partition / relaxation": bounds.lower / bounds.upper,
    }


@BENCH.table("Learning a full metric from Letters to a gap of 1e-2", apart=True)
def learn(case: None, run: Run) -> machine.Row:
    """Learn a full metric from Letters to a certified gap, and return one row with the time."""
    letters = load_dataset("letter")
    X, y = (part[: 500 if run.tiny else None] for part in (letters.X, letters.y))
    learner = ml.ClusteringMetricLearner(solver=ml.BundleDual(1e-2))
    timing = machine.Timing().run(lambda: learner.fit(X, y))
    solution = learner.solution_
    return {
        "data": "Letters",
        **timing.cells,
        "rounds": len(solution.trace),
        "relative gap": solution.relative_gap,
    }


def draw(record: Mapping[str, Any]) -> Figure:
    """Plot the seconds of the local search and of the relaxation against the number of samples."""
    rows = record["tables"][0]["rows"]
    power = machine.power_of(
        [row["T"] for row in rows], [row["relaxation"]["median"] for row in rows]
    )
    title = f"The relaxation's time grows as T to the power {power:.2f}"
    return machine.draw_scaling(rows, "T", ["local search", "relaxation"], title=title)


if __name__ == "__main__":
    BENCH.main()
