"""Time and memory of loss-augmented clustering, from ten thousand to a million samples.

    python -m experiments.benchmarks.clustering [--out FOLDER] [--repeats 7] [--tiny]

T samples, 16 features, 26 clusters, as in Letter Recognition. Three calls: the relaxation of a
form that nothing is known of (its QR decomposition included), the same within a round of a learner
(which has decomposed the data once), and the local search. Every size runs in a process of its
own, whose peak memory counts everything: interpreter, compiled code and data. Then a full metric
is learned from Letters, or from a synthetic table of that size where the file is absent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from metriclearn import (
    BundleDual,
    ClusteringMetricLearner,
    LocalSearch,
    LowRankForm,
    Partition,
    SpectralRelaxation,
)
from metriclearn.datasets import load_letters
from metriclearn.problem.joint_features import TableSamples

SIZES = (10**4, 2 * 10**4, 10**5, 3 * 10**5, 10**6)
_LETTERS, _FEATURES, _CLUSTERS = 2 * 10**4, 16, 26
_SECONDS, _MEBIBYTES = 0.5, 191  # required of one call at the size of Letters, data included
_LEARNING_SECONDS, _GAP, _LEARNING_MEBIBYTES = 120.0, 1e-2, 1024


def table(n_samples: int) -> tuple[NDArray, NDArray]:
    """Gaussian clusters of unit variance around centers as far apart as those of letters."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(n_samples) % _CLUSTERS)
    X = rng.standard_normal((n_samples, _FEATURES))
    X += rng.normal(scale=0.8, size=(_CLUSTERS, _FEATURES))[y]
    return X, y


def measure(n_samples: int, repeats: int) -> dict[str, Any]:
    """Seconds of every call and run, and peak MiB of this process before and after each."""
    X, y = table(n_samples)
    truth, components = Partition.from_labels(y), np.eye(_FEATURES) / np.sqrt(n_samples / 100)
    samples, relaxation, search = TableSamples(X, truth), SpectralRelaxation(), LocalSearch()
    factors = samples.centered @ components.T

    def fresh() -> float:
        form = LowRankForm(factors).plus(truth, 2.0)
        return relaxation(form, _CLUSTERS).n_clusters

    def in_a_round() -> float:
        form = samples.form(components).plus(truth, 2.0)
        return float(np.sum(samples.pooled(relaxation(form, _CLUSTERS)) ** 2))

    def bounds_of() -> tuple[float, float]:
        bounds = search.bounds(LowRankForm(factors).plus(truth, 2.0), _CLUSTERS)
        return bounds.lower, bounds.upper

    before = peak_mebibytes()
    timings, peaks = {}, {}
    calls = {"fresh": fresh, "round": in_a_round, "search": bounds_of}
    for name, call in calls.items():
        timings[name] = in_turns({name: call}, repeats)[name]
        peaks[name] = peak_mebibytes()
    return {
        "before": before,
        "peaks": peaks,
        "timings": {name: timing.numbers for name, timing in timings.items()},
        "bounds": timings["search"].result,
    }


def learn(tiny: bool) -> dict[str, Any]:
    """A full metric with a certified gap from Letters: seconds and peak MiB, prediction aside."""
    try:
        letters = load_letters()
        name, X, y = "Letters", letters.X, letters.y
    except FileNotFoundError:
        name, (X, y) = "synthetic", table(_LETTERS)
    if tiny:
        X, y = X[:500], y[:500]
    timing = Timing.of(lambda: ClusteringMetricLearner(solver=BundleDual(_GAP)).fit(X, y))
    solution = timing.result.solution_
    return {
        "data": name,
        "timing": timing.numbers,
        "peak": peak_mebibytes(),
        "gap": solution.relative_gap,
        "rounds": len(solution.trace),
    }


def row(size: int, record: dict[str, Any], timings: dict[str, Timing]) -> dict[str, Any]:
    """One size."""
    return {
        "T": size,
        "relaxation": timings["fresh"],
        "processor ms": 1e3 * timings["fresh"].processor_median,
        "in a round": timings["round"],
        "local search": timings["search"],
        "MiB before": round(record["before"]),
        "MiB relaxation": round(record["peaks"]["fresh"]),
        "MiB search": round(record["peaks"]["search"]),
        "partition / relaxation": record["bounds"][0] / record["bounds"][1],
    }


def learning_row(record: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The learning run, and what is required of it."""
    timing = Timing(**record["timing"])
    good = timing.processor_median < _LEARNING_SECONDS and record["gap"] <= _GAP
    note = (
        f"Required: a certified relative gap of {_GAP:g} in less than {_LEARNING_SECONDS:g} s and "
        f"{_LEARNING_MEBIBYTES} MiB: {met(good and record['peak'] < _LEARNING_MEBIBYTES)}."
    )
    cells = {
        "data": record["data"],
        "fit": timing,
        "processor s": timing.processor_median,
        "rounds": record["rounds"],
        "relative gap": record["gap"],
        "peak MiB": round(record["peak"]),
    }
    return cells, note


def main() -> None:
    """Measure all sizes and the learning run; print, save and draw."""
    parser = options_of(__doc__)
    parser.add_argument("--figure", type=Path, default=Path("docs/images/scaling_clustering.png"))
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of samples")
    options = parser.parse_args()
    report = Report("clustering", threads=1, repeats=options.repeats)
    sizes = [500] if options.tiny else options.sizes
    records = {size: in_own_process(measure, size, options.repeats) for size in sizes}
    timings = {
        size: {name: Timing(**numbers) for name, numbers in record["timings"].items()}
        for size, record in records.items()
    }
    medians = {
        label: [timings[size][name].processor_median for size in sizes]
        for label, name in (("local search", "search"), ("spectral relaxation", "fresh"))
    }
    power = power_of(sizes, medians["spectral relaxation"])
    note = f"Log-log slope of the relaxation's processor time: {power:.2f}."
    if _LETTERS in records:
        record = records[_LETTERS]
        good = timings[_LETTERS]["fresh"].processor_median < _SECONDS
        good &= record["peaks"]["fresh"] - record["before"] < _MEBIBYTES
        note += (
            f" Required at T = {_LETTERS}: one call in less than {_SECONDS:g} s and "
            f"{_MEBIBYTES} MiB: {met(good)}. A T×T array takes {8 * _LETTERS**2 / 1e9:.1f} GB "
            "there."
        )
    rows = [row(size, records[size], timings[size]) for size in sizes]
    report.table(f"P = {_FEATURES} features, K = {_CLUSTERS} clusters", rows, note)
    cells, note = learning_row(in_own_process(learn, options.tiny))
    report.table(f"Learning a full metric, T = {_LETTERS}", [cells], note)
    report.save(options.out)
    title = "Loss-augmented clustering is linear in the number of samples"
    draw_scaling(options.figure, sizes, medians, title=title)


if __name__ == "__main__":
    main()
