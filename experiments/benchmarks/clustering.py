"""Time and memory of loss-augmented clustering, from ten thousand to a million samples.

    python -m experiments.benchmarks.clustering [--out FOLDER] [--repeats 7] [--figure FILE]

T samples, 16 features, 26 clusters, as in Letter Recognition. Three calls: the relaxation of a
form that nothing is known of (its QR decomposition included), the same within a round of a learner
(which has decomposed the data once), and the local search. Every size runs in a process of its
own, whose peak memory counts everything: interpreter, compiled code and data. Then a full metric
is learned from Letters, or from a synthetic table of that size where the file is absent.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"], "1"))

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from experiments.benchmarks.machine import Report, Timing, in_turns, options_of
from metriclearn.estimators.clustering import ClusteringMetricLearner
from metriclearn.oracles.local_search import LocalSearch
from metriclearn.oracles.spectral import SpectralRelaxation
from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.joint_features import TableSamples
from metriclearn.problem.partition import Partition
from metriclearn.solvers.bundle import BundleDual

SIZES = (10**4, 2 * 10**4, 10**5, 3 * 10**5, 10**6)
_LETTERS, _FEATURES, _CLUSTERS = 2 * 10**4, 16, 26
_SECONDS, _BYTES = 0.5, 200e6  # required of one call at the size of Letters, data included
_LEARNING_SECONDS, _GAP, _LEARNING_BYTES = 120.0, 1e-2, 2**30


def table(n_samples: int) -> tuple[NDArray, NDArray]:
    """Gaussian clusters of unit variance around centers as far apart as those of letters."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(n_samples) % _CLUSTERS)
    X = rng.standard_normal((n_samples, _FEATURES))
    X += rng.normal(scale=0.8, size=(_CLUSTERS, _FEATURES))[y]
    return X, y


def measure(n_samples: int, repeats: int) -> dict[str, Any]:
    """Seconds of every call and run, and peak bytes of this process before and after each."""
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

    def found() -> tuple[float, float]:
        bounds = search.bounds(LowRankForm(factors).plus(truth, 2.0), _CLUSTERS)
        return bounds.lower, bounds.upper

    before = _peak_bytes()
    timings, peaks = {}, {}
    calls = {"fresh": fresh, "round": in_a_round, "search": found}
    for name, call in calls.items():
        timings[name] = in_turns({name: call}, repeats)[name]
        peaks[name] = _peak_bytes()
    return {
        "before": before,
        "peaks": peaks,
        "seconds": {name: timing.seconds for name, timing in timings.items()},
        "processor": {name: timing.processor for name, timing in timings.items()},
        "bounds": timings["search"].result,
    }


def learn(folder: str | None) -> dict[str, Any]:
    """A full metric with a certified gap from Letters: seconds and peak bytes, prediction aside."""
    file = Path(folder or "") / "letter" / "letter.csv.gz"
    name, (X, y) = "synthetic", table(_LETTERS)
    if file.exists():
        import pandas as pd

        frame = pd.read_csv(file)
        name, X, y = "Letters", frame.iloc[:, 1:].to_numpy(float), frame.iloc[:, 0].to_numpy()
    timing = Timing()
    timing.run(lambda: ClusteringMetricLearner(solver=BundleDual(_GAP)).fit(X, y))
    solution = timing.result.solution_
    return {
        "data": name,
        "seconds": timing.seconds,
        "processor": timing.processor,
        "peak": _peak_bytes(),
        "gap": solution.relative_gap,
        "rounds": len(solution.trace),
    }


def _peak_bytes() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def in_own_process(*arguments: str) -> dict[str, Any]:
    """What this program prints for ``arguments``, from a fresh interpreter."""
    command = [sys.executable, "-m", "experiments.benchmarks.clustering", *arguments]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def main() -> None:
    """Measure all sizes and the learning run; print, save and draw."""
    parser = options_of(__doc__)
    parser.add_argument("--figure", type=Path, default=Path("docs/images/scaling_clustering.png"))
    parser.add_argument("--measure", type=int, metavar="T", help="only this size, as JSON")
    parser.add_argument("--learn", action="store_true", help="only the learning run, as JSON")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of samples")
    options = parser.parse_args()
    with threadpool_limits(1):
        if options.measure is not None:
            print(json.dumps(measure(options.measure, options.repeats)))
            return
        if options.learn:
            print(json.dumps(learn(os.environ.get("METRICLEARN_DATA"))))
            return
    report = Report("clustering", threads=1, repeats=options.repeats)
    repeats = str(options.repeats)
    records = {
        size: in_own_process("--measure", str(size), "--repeats", repeats) for size in options.sizes
    }
    _tabulate(report, records)
    _tabulate_learning(report, in_own_process("--learn"))
    report.save(options.out)
    draw(records, options.figure)


def _tabulate(report: Report, records: dict[int, dict[str, Any]]) -> None:
    rows = []
    for size, record in records.items():
        seconds, processor = record["seconds"], record["processor"]
        rows.append(
            {
                "T": size,
                "relaxation": Timing(seconds["fresh"], processor["fresh"]),
                "processor ms": 1e3 * float(np.median(processor["fresh"])),
                "in a round": Timing(seconds["round"], processor["round"]),
                "local search": Timing(seconds["search"], processor["search"]),
                "MB before": round(record["before"] / 1e6),
                "MB relaxation": round(record["peaks"]["fresh"] / 1e6),
                "MB search": round(record["peaks"]["search"] / 1e6),
                "partition / relaxation": record["bounds"][0] / record["bounds"][1],
            }
        )
    note = f"Log-log slope of the relaxation's processor time: {_power(records):.2f}."
    if _LETTERS in records:
        record = records[_LETTERS]
        quick = float(np.median(record["processor"]["fresh"])) < _SECONDS
        small = record["peaks"]["fresh"] - record["before"] < _BYTES
        note += (
            f" Required at T = {_LETTERS}: one call in less than {_SECONDS:g} s and "
            f"{_BYTES / 1e6:g} MB: {'yes' if quick and small else 'NO'}. A T×T array takes "
            f"{8 * _LETTERS**2 / 1e9:.1f} GB there."
        )
    report.table(f"P = {_FEATURES} features, K = {_CLUSTERS} clusters", rows, note)


def _tabulate_learning(report: Report, record: dict[str, Any]) -> None:
    row = {
        "data": record["data"],
        "fit": Timing(record["seconds"], record["processor"]),
        "processor s": record["processor"][0],
        "rounds": record["rounds"],
        "relative gap": record["gap"],
        "peak MiB": round(record["peak"] / 2**20),
    }
    good = record["processor"][0] < _LEARNING_SECONDS and record["gap"] <= _GAP
    good &= record["peak"] < _LEARNING_BYTES
    note = (
        f"Required: a certified relative gap of {_GAP:g} in less than {_LEARNING_SECONDS:g} s and "
        f"{_LEARNING_BYTES // 2**20} MiB: {'yes' if good else 'NO'}."
    )
    report.table(f"Learning a full metric, T = {_LETTERS}", [row], note)


def _power(records: dict[int, dict[str, Any]]) -> float:
    """Slope of log seconds over log samples, by least squares."""
    if len(records) < 2:
        return float("nan")
    seconds = [np.median(record["processor"]["fresh"]) for record in records.values()]
    return float(np.polyfit(np.log(list(records)), np.log(seconds), 1)[0])


def draw(records: dict[int, dict[str, Any]], path: Path) -> None:
    """Seconds against samples, relaxation and local search, with a line of slope one."""
    if len(records) < 2:
        return
    from metriclearn.plots import plot_scaling

    path.parent.mkdir(parents=True, exist_ok=True)
    sizes = list(records)
    medians = {
        name: [float(np.median(record["processor"][name])) for record in records.values()]
        for name in ("fresh", "search")
    }
    figure = plot_scaling(
        sizes,
        medians["search"],
        label="local search",
        title="Loss-augmented clustering is linear in the number of samples",
    )
    plot_scaling(
        sizes,
        medians["fresh"],
        slope=1.0,
        ax=figure.axes[0],
        label="spectral relaxation",
        title="Loss-augmented clustering is linear in the number of samples",
    )
    figure.savefig(path, dpi=150, bbox_inches="tight")
    print(f"Saved {path}")


if __name__ == "__main__":
    main()
