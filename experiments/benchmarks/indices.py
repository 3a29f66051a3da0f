"""The indices side by side with their peers, in one run: medians, ratios, and what was required.

    python -m experiments.benchmarks.indices [--repeats 7] [--only ami]

Peers that are not installed are left out. A call of more than ten seconds is timed once.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import platform
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import metriclearn.indices as indices
from metriclearn.problem.partition import Partition

_PATIENCE = 10.0  # seconds


@dataclass(frozen=True)
class Case:
    """One row: our call, a peer's call, and the requirement on their ratio or on our seconds."""

    name: str
    ours: Callable[[], Any]
    peer: Callable[[], Any] | None = None
    peer_name: str = ""
    at_least: float | None = None  # times faster than the peer
    below: float | None = None  # seconds


def median_seconds(call: Callable[[], Any], repeats: int) -> float:
    """Median wall time after one call to warm up (compiled kernels, caches)."""
    times = [_seconds(call)]
    if times[0] > _PATIENCE:
        return times[0]
    return float(np.median([_seconds(call) for _ in range(repeats)]))


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def peer(module: str, name: str) -> Callable[..., Any] | None:
    """A peer's function, None when it is not installed."""
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError:
        return None


def _bound(function: Callable[..., Any] | None, *args: Any) -> Callable[[], Any] | None:
    return None if function is None else lambda: function(*args)


def labelings(n: int, n_clusters: int) -> tuple[np.ndarray, np.ndarray]:
    """Two labelings that agree on half of the samples."""
    rng = np.random.default_rng(0)
    a = rng.integers(0, n_clusters, n)
    return a, np.where(rng.random(n) < 0.5, a, rng.integers(0, n_clusters, n))


def external_cases() -> Iterator[Case]:
    """Labels, n = 1e6, K = 1000."""
    a, b = labelings(10**6, 1000)
    for name, times in [
        ("rand_score", 10.0),
        ("adjusted_rand_score", 10.0),
        ("fowlkes_mallows_score", None),
        ("mutual_info_score", None),
        ("normalized_mutual_info_score", None),
        ("adjusted_mutual_info_score", 500.0),
    ]:
        theirs = _bound(peer("sklearn.metrics", name), a, b)
        ours = _bound(getattr(indices, name), a, b)
        assert ours is not None
        yield Case(f"{name}, n=1e6, K=1000", ours, theirs, "scikit-learn", times)
    yield Case(
        "variation_of_information, n=1e6, K=1000",
        lambda: indices.variation_of_information(a, b),
        _clusim_call(a, b),
        "clusim",
        50.0,
    )
    yield Case(
        "misclassification_error, n=1e6, K=1000", lambda: indices.misclassification_error(a, b)
    )
    yield Case("compare (all 11), n=1e6, K=1000", lambda: indices.compare(a, b))


def _clusim_call(a: np.ndarray, b: np.ndarray) -> Callable[[], Any] | None:
    """clusim's VI; building its clusterings is not timed."""
    clustering = peer("clusim.clustering", "Clustering")
    if clustering is None:
        return None
    built = [clustering().from_membership_list(labels.tolist()) for labels in (a, b)]
    return _bound(peer("clusim.sim", "vi"), *built)


def change_point_cases() -> Iterator[Case]:
    """1e5 change-points on each side (ruptures takes lists only)."""
    rng = np.random.default_rng(0)
    n = 10**6
    a, b = (
        np.append(np.sort(rng.choice(np.arange(1, n), 10**5 - 1, replace=False)), n)
        for _ in range(2)
    )
    lists = a.tolist(), b.tolist()
    theirs = _bound(peer("ruptures.metrics", "randindex"), *lists)
    true, pred = map(Partition.from_change_points, (a, b))
    yield Case("rand_score, 1e5 change-points", lambda: indices.rand_score(true, pred), theirs,
               "ruptures", 100.0)  # fmt: skip
    yield Case("the same from lists",
               lambda: indices.rand_score(*map(Partition.from_change_points, lists)), theirs,
               "ruptures")  # fmt: skip
    yield Case("hausdorff, 1e5", lambda: indices.hausdorff(a, b), below=0.1)
    small = [*a[:3000].tolist(), n], [*b[:3000].tolist(), n]
    yield Case("hausdorff, 3e3", lambda: indices.hausdorff(*small),
               _bound(peer("ruptures.metrics", "hausdorff"), *small), "ruptures")  # fmt: skip
    for function in (
        indices.adjusted_rand_score,
        indices.variation_of_information,
        indices.misclassification_error,
        indices.partition_loss,
        indices.precision_recall,
    ):
        yield Case(f"{function.__name__}, 1e5 change-points", partial(function, true, pred))


def internal_cases() -> Iterator[Case]:
    """Points: ten clusters in ten dimensions."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 10**4)
    X = rng.normal(size=(10**4, 10)) + 3 * labels[:, None]
    yield Case("dunn_scores (all 18), n=1e4, d=10", lambda: indices.dunn_scores(X, labels),
               _bound(peer("validclust", "dunn"), *_validclust_input(X, labels)),
               "validclust (one)", below=2.0)  # fmt: skip
    theirs = _bound(peer("sklearn.metrics", "silhouette_score"), X, labels)
    yield Case("silhouette_score, n=1e4", lambda: indices.silhouette_score(X, labels), theirs,
               "scikit-learn")  # fmt: skip
    many = rng.integers(0, 10, 10**6)
    points = rng.normal(size=(10**6, 10)) + 3 * many[:, None]
    yield Case("silhouette_score simplified, n=1e6",
               lambda: indices.silhouette_score(points, many, kind="simplified"),
               below=3.0)  # fmt: skip
    for name in ("davies_bouldin_score", "calinski_harabasz_score"):
        ours = _bound(getattr(indices, name), points, many)
        assert ours is not None
        yield Case(f"{name}, n=1e6", ours, _bound(peer("sklearn.metrics", name), points, many),
                   "scikit-learn")  # fmt: skip
    x = rng.normal(size=10**4)
    y = x + rng.normal(size=10**4)
    yield Case("weighted_goodman_kruskal, n=1e4", lambda: indices.weighted_goodman_kruskal(x, y))


def _validclust_input(X: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.metrics import pairwise_distances

    installed = peer("validclust", "dunn") is not None
    return (pairwise_distances(X) if installed else X), labels


def graph_cases() -> Iterator[Case]:
    """Random graph, n = 1e6 nodes, 2e7 non-zero entries."""
    from scipy.sparse import coo_array

    rng, n = np.random.default_rng(0), 10**6
    ends = rng.integers(0, n, (2, 10**7))
    A = coo_array((np.ones(10**7), tuple(ends)), shape=(n, n)).tocsr()
    A = (A + A.T).tocsr()
    for n_clusters, limit in ((10, 6.0), (1000, 30.0)):
        a = rng.integers(0, n_clusters, n)
        b = np.where(rng.random(n) < 0.9, a, rng.integers(0, n_clusters, n))
        size = f"n=1e6, nnz=2e7, K={n_clusters}"
        yield Case(f"vi_with_neighbors, {size}",
                   partial(indices.vi_with_neighbors, A, a, b), below=6.0)  # fmt: skip
        yield Case(f"random_walk_index, {size}",
                   partial(indices.random_walk_index, A, a, b), below=limit)  # fmt: skip


def dunn_megabytes() -> float:
    """Peak memory of all 18 Dunn indices beyond their input (all distances: 800 MB)."""
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(10**4, 10)), rng.integers(0, 10, 10**4)
    tracemalloc.start()
    indices.dunn_scores(X, labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def machine() -> str:
    """Processor, cores and the versions that matter."""
    processor = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        names = [line for line in information.read_text().splitlines() if "model name" in line]
        processor = f"{len(names)} × {names[0].split(':')[1].strip()}" if names else processor
    packages = ("numpy", "scipy", "scikit-learn", "numba", "ruptures")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    return f"{processor}; Python {platform.python_version()}, {versions}"


def row(case: Case, repeats: int) -> str:
    """One line of the table, measured."""
    ours = median_seconds(case.ours, repeats)
    theirs = median_seconds(case.peer, repeats) if case.peer else None
    ratio = theirs / ours if theirs else None
    required, met = "", ""
    if case.at_least is not None:
        required = f">= {case.at_least:g}x"
        met = "" if ratio is None else ("yes" if ratio >= case.at_least else "NO")
    if case.below is not None:
        required, met = f"< {case.below:g} s", "yes" if ours < case.below else "NO"
    times = "" if theirs is None else f"{1e3 * theirs:12.2f} {case.peer_name}"
    faster = "" if ratio is None else f"{ratio:.1f}x"
    return f"{case.name:48s} {1e3 * ours:10.2f}  {times:30s} {faster:>9s}  {required:9s} {met}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", default="", help="run the rows whose name contains this")
    options = parser.parse_args()
    print(machine())
    print(f"median of {options.repeats}, milliseconds\n")
    print(f"{'':48s} {'ours':>10s}  {'peer':30s} {'faster':>9s}  {'required':9s} met")
    for cases in (change_point_cases, external_cases, internal_cases, graph_cases):
        for case in cases():
            if options.only in case.name:
                print(row(case, options.repeats), flush=True)
    print(f"\ndunn_scores, n=1e4: {dunn_megabytes():.0f} MB beyond its input")


if __name__ == "__main__":
    main()
