"""Clusterers against scikit-learn: seconds per pass, the clusters found, and peak memory.

    python -m experiments.benchmarks.clusterers [--out FOLDER] [--samples N] [--accumulated N]

``DP-means``: N samples of 10 features around 100 centers; passes from one cluster until the labels
settle, against scikit-learn's KMeans from the same number of random samples (its n_iter_ counts its
passes), and a Gibbs sampler, the parent of DP-means, on few samples. ``evidence accumulation``: 50
K-means runs on samples of two spirals and three blobs, against scikit-learn's
AgglomerativeClustering by single link. Every measure runs in its own process with one thread, so
that its peak memory is its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import AgglomerativeClustering, KMeans

from experiments.benchmarks import machine
from experiments.benchmarks.problems import clusters
from metriclearn.clusterers import DPMeans, EvidenceAccumulation, GibbsDPMixture
from metriclearn.indices import adjusted_rand_score

_CENTERS, _FEATURES = 100, 10
_SPREAD = 12.0  # spread of the centers, in standard deviations within a cluster
_PENALTY = 200.0  # squared: no two samples of a cluster are as far apart, no two centers nearer

PASSES: dict[str, Any] = {
    "DPMeans, order given": DPMeans(_PENALTY, order="given"),
    "DPMeans, order farthest-first": DPMeans(_PENALTY, order="farthest-first"),
    "scikit-learn KMeans, K = 100": KMeans(
        _CENTERS, init="random", n_init=1, random_state=0, algorithm="lloyd"
    ),
    "GibbsDPMixture, 10 sweeps": GibbsDPMixture(
        _PENALTY, variance=1.0, prior_variance=_SPREAD**2, n_sweeps=10, random_state=0
    ),
}
ACCUMULATION: dict[str, Any] = {
    "EvidenceAccumulation, threshold 0.5": EvidenceAccumulation(50, threshold=0.5, random_state=0),
    "EvidenceAccumulation, longest lifetime": EvidenceAccumulation(50, random_state=0),
    "scikit-learn AgglomerativeClustering, single link, K = 5": AgglomerativeClustering(
        5, linkage="single"
    ),
}


def shapes(n: int) -> tuple[NDArray, NDArray]:
    """Two spirals, which no K-means with K = 5 finds, and three blobs."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 5, n)
    angle = 1.5 * np.pi * np.sqrt(random.uniform(0.05, 1.0, n)) + np.pi * labels
    spiral = np.stack([np.cos(angle), np.sin(angle)], axis=1) * (angle - np.pi * labels)[:, None]
    beside = np.array([[9.0, 0.0], [9.0, 4.0], [9.0, -4.0]])[np.maximum(labels - 2, 0)]
    X = np.where((labels < 2)[:, None], spiral, beside)
    return X + random.normal(scale=0.12, size=(n, 2)), labels


def row(name: str, n: int) -> dict[str, Any]:
    """One fit in this process, after one to a few samples that compiles."""
    model = (PASSES | ACCUMULATION)[name]
    X, y = clusters(n, _FEATURES, _CENTERS, _SPREAD) if name in PASSES else shapes(n)
    model.fit(X[:200])
    before = machine.peak_mebibytes()
    timing = machine.Timing().run(lambda: model.fit(X))
    cells: dict[str, Any] = {
        "clusterer": name,
        "samples": n,
        "clusters": len(np.unique(model.labels_)),
        "adjusted Rand index": round(float(adjusted_rand_score(y, model.labels_)), 4),
        **timing.cells,
        "memory for it, MiB": machine.peak_mebibytes() - before,
    }
    if name in PASSES:
        passes = getattr(model, "n_iter_", 10)
        cells |= {"passes": passes, "processor s per pass": timing.processor_median / passes}
    return cells


def main() -> None:
    """Measure everything; print and save."""
    parser = machine.options_of(__doc__)
    parser.add_argument("--samples", type=int, default=1_000_000, help="for DP-means")
    parser.add_argument("--accumulated", type=int, default=20_000, help="for the accumulation")
    options = parser.parse_args()
    n, n_linked = (2000, 500) if options.tiny else (options.samples, options.accumulated)
    report = machine.Report("clusterers", options)
    report.table(
        f"DP-means, {_FEATURES} features, {_CENTERS} centers",
        [
            machine.in_own_process(row, name, min(n, 2000) if "Gibbs" in name else n)
            for name in PASSES
        ],
        f"Squared distance λ = {_PENALTY:g}.",
    )
    report.table(
        "Evidence accumulation, 50 runs of K-means",
        [machine.in_own_process(row, name, n_linked) for name in ACCUMULATION],
        f"An n×n matrix would take {n_linked**2 * 8 / 2**30:.1f} GiB.",
    )
    report.save()


if __name__ == "__main__":
    main()
