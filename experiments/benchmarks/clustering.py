"""Time and memory of loss-augmented clustering, from ten thousand to a million samples.

    python -m experiments.benchmarks.clustering [--out FOLDER] [--repeats 7] [--tiny]

T samples, 16 features, 26 clusters, as in Letter Recognition. Three calls: the relaxation of a
form that nothing is known of (its QR decomposition included), the same within a round of a learner
(which has decomposed the data once), and the local search. Every size runs in a process of its
own, whose peak memory counts everything: interpreter, compiled code and data. Then a full metric
is learned from Letters, or from a synthetic table of that size where the file is absent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.benchmarks.machine import (
    Report,
    Timing,
    draw_scaling,
    in_own_process,
    in_turns,
    options_of,
    peak_mebibytes,
    power_of,
)
from experiments.benchmarks.problems import clusters
from metriclearn import (
    BundleDual,
    ClusteringMetricLearner,
    LocalSearch,
    LowRankForm,
    Partition,
    SpectralRelaxation,
)
from metriclearn.datasets import load_letters
from metriclearn.problem.forms import TableSamples

SIZES = (10**4, 2 * 10**4, 10**5, 3 * 10**5, 10**6)
_LETTERS = 2 * 10**4
_SHAPE = (16, 26, 0.8)  # features, clusters, spread of the centers: those of Letters


def row(n_samples: int, repeats: int) -> dict[str, Any]:
    """Times of every call, and peak MiB of this process before and after."""
    X, y = clusters(n_samples, *_SHAPE)
    P, K, _ = _SHAPE
    truth, components = Partition.from_labels(y), np.eye(P) / np.sqrt(n_samples / 100)
    samples, relaxation, search = TableSamples(X, truth), SpectralRelaxation(), LocalSearch()
    factors = samples.centered @ components.T

    def fresh() -> float:
        return relaxation(LowRankForm(factors).plus(truth, 2.0), K).n_clusters

    def in_a_round() -> float:
        form = samples.form(components).plus(truth, 2.0)
        return float(np.sum(samples.pooled(relaxation(form, K)) ** 2))

    before = peak_mebibytes()
    timings = in_turns({"relaxation": fresh, "in a round": in_a_round}, repeats)
    between = peak_mebibytes()
    local = in_turns(
        {"local search": lambda: search.bounds(LowRankForm(factors).plus(truth, 2.0), K)}, repeats
    )
    bounds = local["local search"].result
    return {
        "T": n_samples,
        **timings,
        **local,
        "MiB before": before,
        "MiB relaxation": between,
        "MiB search": peak_mebibytes(),
        "partition / relaxation": bounds.lower / bounds.upper,
    }


def learn(tiny: bool) -> dict[str, Any]:
    """A full metric with a certified gap from Letters: seconds and peak MiB, prediction aside."""
    try:
        letters = load_letters()
        name, X, y = "Letters", letters.X, letters.y
    except FileNotFoundError:
        name, (X, y) = "synthetic", clusters(_LETTERS, *_SHAPE)
    if tiny:
        X, y = X[:500], y[:500]
    timing = Timing().run(lambda: ClusteringMetricLearner(solver=BundleDual(1e-2)).fit(X, y))
    solution = timing.result.solution_
    return {
        "data": name,
        **timing.cells,
        "rounds": len(solution.trace),
        "relative gap": solution.relative_gap,
        "peak MiB": peak_mebibytes(),
    }


def main() -> None:
    """Measure all sizes and the learning run; print, save and draw."""
    parser = options_of(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of samples")
    options = parser.parse_args()
    report = Report("clustering", options)
    sizes = [500, 1000] if options.tiny else options.sizes
    rows = [in_own_process(row, size, options.repeats) for size in sizes]
    curves = {
        name: [row[name].processor_median for row in rows]
        for name in ("local search", "relaxation")
    }
    power = power_of(sizes, curves["relaxation"])
    report.table(
        "P = {} features, K = {} clusters".format(*_SHAPE),
        rows,
        f"Log-log slope of the relaxation's processor time: {power:.2f}. At T = {_LETTERS} a T×T "
        f"array takes {8 * _LETTERS**2 / 1e9:.1f} GB.",
    )
    learned = in_own_process(learn, options.tiny)
    report.table("Learning a full metric from Letters to a gap of 1e-2", [learned])
    report.save()
    title = "Loss-augmented clustering is linear in the number of samples"
    report.picture(draw_scaling(sizes, curves, title=title), "scaling_clustering")


if __name__ == "__main__":
    main()
