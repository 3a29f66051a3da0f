"""The indices side by side with their peers, in one run: medians, ratios, and what was required.

    python -m experiments.benchmarks.indices [--out FOLDER] [--repeats 7] [--only ami] [--tiny]

Peers that are not installed are left out. A call of more than ten seconds is timed once; building
clusim's clusterings and distances for validclust is not timed.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import metriclearn.indices as indices
from experiments.benchmarks.machine import Report, in_turns, met, options_of
from experiments.benchmarks.peers import installed
from metriclearn import Partition


@dataclass(frozen=True)
class Case:
    """One row: our call, a peer's, and the requirement on their ratio or on our seconds.

    Attributes
    ----------
    peer : (module, function, name), optional
    theirs : arguments of the peer, or a call that makes them; those of ours by default
    at_least : times faster than the peer
    below : seconds
    """

    name: str
    function: Callable[..., Any]
    arguments: Sequence[Any]
    peer: tuple[str, str, str] | None = None
    theirs: Any = None
    at_least: float | None = None
    below: float | None = None

    def row(self, repeats: int) -> dict[str, Any]:
        """One line of the table, measured."""
        calls = {"ours": partial(self.function, *self.arguments)}
        module = installed(self.peer[0]) if self.peer else None
        if self.peer and module is not None:
            theirs = self.theirs() if callable(self.theirs) else self.theirs or self.arguments
            calls[self.peer[2]] = partial(getattr(module, self.peer[1]), *theirs)
        timings = in_turns(calls, repeats)
        ours, *others = (timing.median for timing in timings.values())
        required, good = "", ""
        if self.at_least is not None:
            required = f">= {self.at_least:g}x"
            good = met(others[0] >= self.at_least * ours) if others else ""
        if self.below is not None:
            required, good = f"< {self.below:g} s", met(ours < self.below)
        return {
            "": self.name,
            "ours, ms": 1e3 * ours,
            "peer, ms": f"{1e3 * others[0]:.2f} {self.peer[2]}" if others and self.peer else "",
            "faster": f"{others[0] / ours:.1f}x" if others else "",
            "required": required,
            "met": good,
        }


def _of_scikit_learn(name: str) -> tuple[str, str, str]:
    return "sklearn.metrics", name, "scikit-learn"


def external_cases(scale: int) -> Iterator[Case]:
    """Two labelings that agree on half of the samples, n = 1e6, K = 1000."""
    rng, n, K = np.random.default_rng(0), 10**6 // scale, 1000
    a = rng.integers(0, K, n)
    b = np.where(rng.random(n) < 0.5, a, rng.integers(0, K, n))
    size = f"n={n:.0e}, K={K}"
    for name, times in [
        ("rand_score", 10.0),
        ("adjusted_rand_score", 10.0),
        ("fowlkes_mallows_score", None),
        ("mutual_info_score", None),
        ("normalized_mutual_info_score", None),
        ("adjusted_mutual_info_score", 500.0),
    ]:
        function, peer = getattr(indices, name), _of_scikit_learn(name)
        yield Case(f"{name}, {size}", function, (a, b), peer, at_least=times)

    def clusterings() -> list[Any]:
        make = installed("clusim.clustering").Clustering
        return [make().from_membership_list(labels.tolist()) for labels in (a, b)]

    name, function = "variation_of_information", indices.variation_of_information
    peer = ("clusim.sim", "vi", "clusim")
    yield Case(f"{name}, {size}", function, (a, b), peer, clusterings, 50.0)
    yield Case(f"misclassification_error, {size}", indices.misclassification_error, (a, b))
    yield Case(f"compare (all 11), {size}", indices.compare, (a, b))


def change_point_cases(scale: int) -> Iterator[Case]:
    """1e5 change-points on each side (ruptures takes lists only)."""
    rng, n, K = np.random.default_rng(0), 10**6 // scale, 10**5 // scale
    drawn = [np.sort(rng.choice(np.arange(1, n), K - 1, replace=False)) for _ in range(2)]
    arrays = [np.append(ends, n) for ends in drawn]
    lists = [ends.tolist() for ends in arrays]
    pair = [Partition.from_change_points(ends) for ends in arrays]
    peer = ("ruptures.metrics", "randindex", "ruptures")
    size = f"{K:.0e} change-points"
    yield Case(f"rand_score, {size}", indices.rand_score, pair, peer, lists, 100.0)

    def from_lists(*ends: list[int]) -> float:
        return indices.rand_score(*map(Partition.from_change_points, ends))

    yield Case("the same from lists", from_lists, lists, peer)
    yield Case(f"hausdorff, {size}", indices.hausdorff, arrays, below=0.1)
    few = [[*ends[: 3000 // scale], n] for ends in lists]
    peer = ("ruptures.metrics", "hausdorff", "ruptures")
    yield Case(f"hausdorff, {len(few[0]) - 1}", indices.hausdorff, few, peer)
    for function in (
        indices.adjusted_rand_score,
        indices.variation_of_information,
        indices.misclassification_error,
        indices.partition_loss,
        indices.precision_recall,
    ):
        yield Case(f"{function.__name__}, {size}", function, pair)


def _points(n: int) -> tuple[NDArray, NDArray]:
    """Ten clusters in ten dimensions."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, n)
    return rng.normal(size=(n, 10)) + 3 * labels[:, None], labels


def internal_cases(scale: int) -> Iterator[Case]:
    """Points."""
    X, labels = few = _points(10**4 // scale)
    many = _points(10**6 // scale)
    size, larger = f"n={len(X):.0e}", f"n={len(many[0]):.0e}"

    def distances() -> tuple[NDArray, NDArray]:
        from sklearn.metrics import pairwise_distances

        return pairwise_distances(X), labels

    peer = ("validclust", "dunn", "validclust (one)")
    name = f"dunn_scores (all 18), {size}, d=10"
    yield Case(name, indices.dunn_scores, few, peer, distances, below=2.0)
    peer = _of_scikit_learn("silhouette_score")
    yield Case(f"silhouette_score, {size}", indices.silhouette_score, few, peer)
    simplified = partial(indices.silhouette_score, kind="simplified")
    yield Case(f"silhouette_score simplified, {larger}", simplified, many, below=3.0)
    for name in ("davies_bouldin_score", "calinski_harabasz_score"):
        yield Case(f"{name}, {larger}", getattr(indices, name), many, _of_scikit_learn(name))
    x = X[:, 0]
    pair = (x, x + np.random.default_rng(1).normal(size=len(x)))
    yield Case(f"weighted_goodman_kruskal, {size}", indices.weighted_goodman_kruskal, pair)


def graph_cases(scale: int) -> Iterator[Case]:
    """Random graph, n = 1e6 nodes, 2e7 non-zero entries."""
    from scipy.sparse import coo_array

    rng, n, n_edges = np.random.default_rng(0), 10**6 // scale, 10**7 // scale
    ends = rng.integers(0, n, (2, n_edges))
    A = coo_array((np.ones(n_edges), tuple(ends)), shape=(n, n)).tocsr()
    A = (A + A.T).tocsr()
    for n_clusters, limit in ((10, 6.0), (1000, 30.0)):
        a = rng.integers(0, n_clusters, n)
        b = np.where(rng.random(n) < 0.9, a, rng.integers(0, n_clusters, n))
        size, arguments = f"n={n:.0e}, nnz={2 * n_edges:.0e}, K={n_clusters}", (A, a, b)
        yield Case(f"vi_with_neighbors, {size}", indices.vi_with_neighbors, arguments, below=6.0)
        yield Case(f"random_walk_index, {size}", indices.random_walk_index, arguments, below=limit)


def dunn_megabytes(scale: int) -> float:
    """Peak memory of all 18 Dunn indices beyond their input (all distances: 800 MB)."""
    points = _points(10**4 // scale)
    tracemalloc.start()
    indices.dunn_scores(*points)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def main() -> None:
    """Print the tables and save them."""
    parser = options_of(__doc__)
    parser.add_argument("--only", default="", help="run the rows whose name contains this")
    options = parser.parse_args()
    scale = 100 if options.tiny else 1
    report = Report("indices", threads=1, repeats=options.repeats)
    memory = f"dunn_scores, n=1e4: {dunn_megabytes(scale):.0f} MB beyond its input."
    for title, cases, note in (
        ("Change-points", change_point_cases, ""),
        ("Labels", external_cases, ""),
        ("Points", internal_cases, memory),
        ("Graphs", graph_cases, ""),
    ):
        chosen = [case for case in cases(scale) if options.only in case.name]
        if chosen:
            report.table(title, [case.row(options.repeats) for case in chosen], note)
    report.save(options.out)


if __name__ == "__main__":
    main()
