"""Clusterers beside scikit-learn: seconds per pass, what they find, and peak memory.

    python -m experiments.benchmarks.clusterers [--out FOLDER] [--samples N] [--accumulated N]

``DP-means``: N samples of 10 features around 100 centers; passes from one cluster until the labels
settle, beside scikit-learn's KMeans from the same number of random samples (its n_iter_ counts
its passes). ``evidence accumulation``: 50 K-means runs on samples of two spirals and three blobs,
beside scikit-learn's AgglomerativeClustering by single link. Every measure runs in its own
process with one thread, so that its peak memory is its own.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"], "1"))

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import AgglomerativeClustering, KMeans

from experiments.benchmarks.machine import Report, options_of
from metriclearn.clusterers import DPMeans, EvidenceAccumulation, GibbsDPMixture
from metriclearn.indices import adjusted_rand_score

_CENTERS, _FEATURES = 100, 10
_SPREAD = 12.0  # of the centers, in standard deviations within a cluster
_PENALTY = 200.0  # squared: no two samples of a cluster are as far apart, no two centers nearer


def blobs(n: int) -> tuple[NDArray, NDArray]:
    """n samples around 100 centers in 10 dimensions."""
    random = np.random.default_rng(0)
    labels = random.integers(0, _CENTERS, n)
    centers = _SPREAD * random.normal(size=(_CENTERS, _FEATURES))
    return centers[labels] + random.normal(size=(n, _FEATURES)), labels


def shapes(n: int) -> tuple[NDArray, NDArray]:
    """Two spirals, which no K-means with K = 5 finds, and three blobs beside them."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 5, n)
    angle = 1.5 * np.pi * np.sqrt(random.uniform(0.05, 1.0, n)) + np.pi * labels
    spiral = np.stack([np.cos(angle), np.sin(angle)], axis=1) * (angle - np.pi * labels)[:, None]
    beside = np.array([[9.0, 0.0], [9.0, 4.0], [9.0, -4.0]])[np.maximum(labels - 2, 0)]
    X = np.where((labels < 2)[:, None], spiral, beside)
    return X + random.normal(scale=0.12, size=(n, 2)), labels


def timed(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """Result, wall and processor seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    result = call()
    return result, time.perf_counter() - wall, time.process_time() - processor


def dp_means(n: int, order: str) -> dict[str, Any]:
    """Passes over n samples, one run."""
    X, y = blobs(n)
    DPMeans(_PENALTY).fit(X[:1000])  # compiles
    before = _peak()
    model = DPMeans(_PENALTY, order=order)  # type: ignore[arg-type]
    _, wall, processor = timed(lambda: model.fit(X))
    name = f"DPMeans, order {order}"
    return _row(name, X, y, model, wall, processor, model.n_iter_, before)


def k_means(n: int, n_clusters: int) -> dict[str, Any]:
    """scikit-learn's Lloyd iterations from random samples."""
    X, y = blobs(n)
    KMeans(2, n_init=1).fit(X[:1000])
    before = _peak()
    model = KMeans(n_clusters, init="random", n_init=1, random_state=0, algorithm="lloyd")
    _, wall, processor = timed(lambda: model.fit(X))
    name = f"scikit-learn KMeans, K = {n_clusters}"
    return _row(name, X, y, model, wall, processor, model.n_iter_, before)


def gibbs(n: int) -> dict[str, Any]:
    """The small reference estimator on few samples: its parent, ten sweeps."""
    X, y = blobs(n)
    before = _peak()
    prior = {"variance": 1.0, "prior_variance": _SPREAD**2}
    model = GibbsDPMixture(_PENALTY, **prior, n_sweeps=10, random_state=0)
    _, wall, processor = timed(lambda: model.fit(X))
    return _row(f"GibbsDPMixture, {n} samples", X, y, model, wall, processor, 10, before)


def _row(
    name: str,
    X: NDArray,
    y: NDArray,
    model: Any,
    wall: float,
    processor: float,
    passes: int,
    before: int,
) -> dict[str, Any]:
    return {
        "clusterer": name,
        "samples": len(X),
        "clusters": len(np.unique(model.labels_)),
        "adjusted Rand index": round(float(adjusted_rand_score(y, model.labels_)), 4),
        "passes": passes,
        "s per pass": round(wall / passes, 2),
        "processor s per pass": round(processor / passes, 2),
        "processor s": round(processor, 1),
        "memory for it, MiB": _peak() - before,
    }


def accumulation(n: int, threshold: float | None) -> dict[str, Any]:
    """50 K-means runs and their votes."""
    X, y = shapes(n)
    EvidenceAccumulation(2, random_state=0).fit(X[:200])
    before = _peak()
    model = EvidenceAccumulation(50, threshold=threshold, random_state=0)
    _, wall, processor = timed(lambda: model.fit(X))
    words = "longest lifetime" if threshold is None else f"threshold {threshold}"
    return _accumulated(f"EvidenceAccumulation, {words}", n, y, model, wall, processor, before)


def single_link(n: int) -> dict[str, Any]:
    """scikit-learn's single link on the distances, K given."""
    X, y = shapes(n)
    before = _peak()
    model = AgglomerativeClustering(5, linkage="single")
    _, wall, processor = timed(lambda: model.fit(X))
    name = "scikit-learn AgglomerativeClustering, single link, K = 5"
    return _accumulated(name, n, y, model, wall, processor, before)


def _accumulated(
    name: str, n: int, y: NDArray, model: Any, wall: float, processor: float, before: int
) -> dict[str, Any]:
    return {
        "clusterer": name,
        "samples": n,
        "clusters": len(np.unique(model.labels_)),
        "adjusted Rand index": round(float(adjusted_rand_score(y, model.labels_)), 3),
        "seconds": round(wall, 1),
        "processor seconds": round(processor, 1),
        "memory for it, MiB": _peak() - before,
        "peak MiB": _peak(),
    }


def _peak() -> int:
    """Peak memory of this process in MiB."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


_MEASURES: dict[str, Callable[..., dict[str, Any]]] = {
    "dp_means": dp_means,
    "k_means": k_means,
    "gibbs": gibbs,
    "accumulation": accumulation,
    "single_link": single_link,
}


def in_own_process(name: str, *arguments: Any) -> dict[str, Any]:
    """One measure in a fresh interpreter."""
    command = [sys.executable, "-m", "experiments.benchmarks.clusterers", "--measure"]
    done = subprocess.run(
        [*command, json.dumps([name, *arguments])], check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout)


def main() -> None:
    """Measure everything; print and save."""
    parser = options_of(__doc__, timed=False)
    parser.add_argument("--samples", type=int, default=1_000_000, help="for DP-means")
    parser.add_argument("--accumulated", type=int, default=20_000, help="for the accumulation")
    parser.add_argument("--measure", type=json.loads, help="one measure's name and arguments")
    options = parser.parse_args()
    if options.measure is not None:
        name, *arguments = options.measure
        print(json.dumps(_MEASURES[name](*arguments)))
        return
    report = Report("clusterers", threads=1)
    n = options.samples
    rows = [in_own_process("dp_means", n, order) for order in ("given", "farthest-first")]
    rows.append(in_own_process("k_means", n, rows[0]["clusters"]))
    rows.append(in_own_process("gibbs", min(n, 2000)))
    within = "yes" if rows[0]["processor s per pass"] < 10 else "NO"
    report.table(
        f"DP-means, {_FEATURES} features, {_CENTERS} centers",
        rows,
        f"Squared distance λ = {_PENALTY:g}. A pass of DP-means under 10 processor s: {within}.",
    )
    n = options.accumulated
    rows = [in_own_process("accumulation", n, threshold) for threshold in (0.5, None)]
    rows.append(in_own_process("single_link", n))
    within = "yes" if rows[0]["processor seconds"] < 60 and rows[0]["peak MiB"] < 1024 else "NO"
    report.table(
        "Evidence accumulation, 50 runs of K-means",
        rows,
        f"An n×n matrix would take {n * n * 8 / 2**30:.1f} GiB. Under 60 processor s and 1 GiB: "
        f"{within}.",
    )
    report.save(options.out)


if __name__ == "__main__":
    main()
