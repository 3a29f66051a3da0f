"""Clusterers beside scikit-learn: seconds per pass, what they find, and peak memory.

    python -m experiments.benchmarks.clusterers [--out FOLDER] [--samples N] [--accumulated N]

``DP-means``: N samples of 10 features around 100 centers; passes from one cluster until the labels
settle, beside scikit-learn's KMeans from the same number of random samples (its n_iter_ counts
its passes). ``evidence accumulation``: 50 K-means runs on samples of two spirals and three blobs,
beside scikit-learn's AgglomerativeClustering by single link. Every measure runs in its own
process with one thread, so that its peak memory is its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.cluster import AgglomerativeClustering, KMeans

from experiments.benchmarks.machine import (
    Report,
    Timing,
    in_own_process,
    met,
    options_of,
    peak_mebibytes,
)
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


def _measured(
    name: str, model: BaseEstimator, data: tuple[NDArray, NDArray], compiled: bool = True
) -> tuple[dict[str, Any], Timing]:
    """One fit in this process, after one to a few samples that compiles."""
    X, y = data
    if compiled:
        type(model)(2).fit(X[:1000])
    before = peak_mebibytes()
    timing = Timing.of(lambda: model.fit(X))
    labels = timing.result.labels_
    row = {
        "clusterer": name,
        "samples": len(X),
        "clusters": len(np.unique(labels)),
        "adjusted Rand index": round(float(adjusted_rand_score(y, labels)), 4),
        "memory for it, MiB": round(peak_mebibytes() - before),
    }
    return row, timing


def passes(name: str, n: int, argument: Any) -> dict[str, Any]:
    """Passes of DPMeans in an order, of scikit-learn's Lloyd iterations, or of the Gibbs sampler.

    K-means starts from random samples; the sampler, the parent of DP-means, is for few samples.
    """
    models: dict[str, Callable[[], Any]] = {
        "DPMeans": lambda: DPMeans(_PENALTY, order=argument),
        "scikit-learn KMeans": lambda: KMeans(
            argument, init="random", n_init=1, random_state=0, algorithm="lloyd"
        ),
        "GibbsDPMixture": lambda: GibbsDPMixture(
            _PENALTY, variance=1.0, prior_variance=_SPREAD**2, n_sweeps=argument, random_state=0
        ),
    }
    model = models[name]()
    row, timing = _measured(f"{name}, {argument}", model, blobs(n), name != "GibbsDPMixture")
    count = getattr(model, "n_iter_", argument)
    return row | {
        "passes": count,
        "s per pass": round(timing.median / count, 2),
        "processor s per pass": round(timing.processor_median / count, 2),
        "processor s": round(timing.processor_median, 1),
    }


def accumulation(n: int, threshold: float | None) -> dict[str, Any]:
    """50 K-means runs and their votes."""
    words = "longest lifetime" if threshold is None else f"threshold {threshold}"
    model = EvidenceAccumulation(50, threshold=threshold, random_state=0)
    return _link(f"EvidenceAccumulation, {words}", model, n)


def single_link(n: int) -> dict[str, Any]:
    """scikit-learn's single link on the distances, K given."""
    name = "scikit-learn AgglomerativeClustering, single link, K = 5"
    return _link(name, AgglomerativeClustering(5, linkage="single"), n)


def _link(name: str, model: BaseEstimator, n: int) -> dict[str, Any]:
    row, timing = _measured(name, model, shapes(n))
    return row | {
        "seconds": round(timing.median, 1),
        "processor seconds": round(timing.processor_median, 1),
        "peak MiB": round(peak_mebibytes()),
    }


def main() -> None:
    """Measure everything; print and save."""
    parser = options_of(__doc__, timed=False)
    parser.add_argument("--samples", type=int, default=1_000_000, help="for DP-means")
    parser.add_argument("--accumulated", type=int, default=20_000, help="for the accumulation")
    options = parser.parse_args()
    n, n_linked = (2000, 500) if options.tiny else (options.samples, options.accumulated)
    report = Report("clusterers", threads=1)
    orders = ("given", "farthest-first")
    rows = [in_own_process(passes, "DPMeans", n, order) for order in orders]
    rows.append(in_own_process(passes, "scikit-learn KMeans", n, rows[0]["clusters"]))
    rows.append(in_own_process(passes, "GibbsDPMixture", min(n, 2000), 10))
    report.table(
        f"DP-means, {_FEATURES} features, {_CENTERS} centers",
        rows,
        f"Behind a name its order, number of clusters or of sweeps. Squared distance λ = "
        f"{_PENALTY:g}. A pass of DP-means under 10 processor s: "
        f"{met(rows[0]['processor s per pass'] < 10)}.",
    )
    rows = [in_own_process(accumulation, n_linked, threshold) for threshold in (0.5, None)]
    rows.append(in_own_process(single_link, n_linked))
    good = rows[0]["processor seconds"] < 60 and rows[0]["peak MiB"] < 1024
    report.table(
        "Evidence accumulation, 50 runs of K-means",
        rows,
        f"An n×n matrix would take {n_linked**2 * 8 / 2**30:.1f} GiB. Under 60 processor s and "
        f"1 GiB: {met(good)}.",
    )
    report.save(options.out)


if __name__ == "__main__":
    main()
