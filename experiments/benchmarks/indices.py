"""Time our indices and the indices of other packages (peers), in one run.

    python -m experiments.benchmarks.indices [--repeats 7] [--tiny]

Peers that are not installed are left out. Peers that compute the same number must agree before they
are timed. A call of more than ten seconds is timed once. The time to build clusim's clusterings and
the matrix of distances for validclust does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

import metriclearn.indices as indices
from experiments.benchmarks.benchmark import Benchmark, Run
from experiments.benchmarks.machine import Row, side_by_side
from experiments.benchmarks.peers import installed
from experiments.benchmarks.problems import clusters
from metriclearn import Partition

BENCH = Benchmark("indices", __doc__)
SCIKIT_LEARN = "sklearn.metrics"
RUPTURES = "ruptures.metrics"


@dataclass(frozen=True)
class Case:
    """One row of a table: the call of our index, and the call of a peer.

    Attributes
    ----------
    peer : (module, function), optional
    theirs : arguments of the peer, or a function that makes them; by default as for our call
    same : bool
        Whether the peer computes the same number.
    """

    name: str
    function: Callable[..., Any]
    arguments: Any
    peer: tuple[str, str] | None = None
    theirs: Any = None
    same: bool = True

    def row(self, repeats: int) -> Row:
        """Time our call and the peer's, and return one line of the table."""
        calls = {"ours": partial(self.function, *self.arguments)}
        module = installed(self.peer[0]) if self.peer else None
        if self.peer and module is not None:
            theirs = self.theirs() if callable(self.theirs) else self.theirs or self.arguments
            calls["peer"] = partial(getattr(module, self.peer[1]), *theirs)
        cells = side_by_side(calls, repeats, np.allclose if self.same else None)
        which = {"peer": "", **cells, "which": self.peer[0] if self.peer else ""}
        return {"": self.name, "ours": cells["ours"], **which}


def external_cases(scale: int) -> Iterator[Case]:
    """Yield the indices that compare two labelings. The labelings agree on about half of the
    samples, with n = 1e6 and K = 1000."""
    rng, n, K = np.random.default_rng(0), 10**6 // scale, 1000
    a = rng.integers(0, K, n)
    pair = a, np.where(rng.random(n) < 0.5, a, rng.integers(0, K, n))
    size = f"n={n:.0e}, K={K}"
    for name in (
        "rand_score",
        "adjusted_rand_score",
        "fowlkes_mallows_score",
        "mutual_info_score",
        "normalized_mutual_info_score",
        "adjusted_mutual_info_score",
    ):
        yield Case(f"{name}, {size}", getattr(indices, name), pair, (SCIKIT_LEARN, name))

    def clusterings() -> list[Any]:
        make = installed("clusim.clustering").Clustering
        return [make().from_membership_list(labels.tolist()) for labels in pair]

    # in bits where ours is in nats
    information, peer = indices.variation_of_information, ("clusim.sim", "vi")
    yield Case(f"variation_of_information, {size}", information, pair, peer, clusterings, False)
    yield Case(f"misclassification_error, {size}", indices.misclassification_error, pair)
    yield Case(f"compare (all 11), {size}", indices.compare, pair)


def change_point_cases(scale: int) -> Iterator[Case]:
    """Yield the indices that compare two segmentations. Each segmentation has 1e5 change-points.
    ruptures accepts only lists."""
    rng, n, K = np.random.default_rng(0), 10**6 // scale, 10**5 // scale
    drawn = [np.sort(rng.choice(np.arange(1, n), K - 1, replace=False)) for _ in range(2)]
    arrays = [np.append(ends, n) for ends in drawn]
    lists = [ends.tolist() for ends in arrays]
    pair = [Partition.from_change_points(ends) for ends in arrays]
    size, peer = f"{K:.0e} change-points", (RUPTURES, "randindex")
    yield Case(f"rand_score, {size}", indices.rand_score, pair, peer, lists)

    def from_lists(*ends: list[int]) -> float:
        return indices.rand_score(*map(Partition.from_change_points, ends))

    yield Case("the same from lists", from_lists, lists, peer)
    yield Case(f"hausdorff, {size}", indices.hausdorff, arrays)
    few = [[*ends[: 3000 // scale], n] for ends in lists]
    peer = (RUPTURES, "hausdorff")
    yield Case(f"hausdorff, {len(few[0]) - 1}", indices.hausdorff, few, peer)
    for function in (
        indices.adjusted_rand_score,
        indices.variation_of_information,
        indices.misclassification_error,
        indices.partition_loss,
        indices.precision_recall,
    ):
        yield Case(f"{function.__name__}, {size}", function, pair)


def points(n: int) -> tuple[NDArray, NDArray]:
    """Draw ten clusters of points in ten dimensions. Returns the points and their labels."""
    return clusters(n, 10, 10, 5.0)


def internal_cases(scale: int) -> Iterator[Case]:
    """Yield the internal indices, which compare a clustering with its points."""
    X, labels = few = points(10**4 // scale)
    many = points(10**6 // scale)
    size, larger = f"n={len(X):.0e}", f"n={len(many[0]):.0e}"

    def distances() -> tuple[NDArray, NDArray]:
        from sklearn.metrics import pairwise_distances

        return pairwise_distances(X), labels

    name, peer = f"dunn_scores (all 18; validclust one), {size}, d=10", ("validclust", "dunn")
    yield Case(name, indices.dunn_scores, few, peer, distances, False)
    peer = (SCIKIT_LEARN, "silhouette_score")
    yield Case(f"silhouette_score, {size}", indices.silhouette_score, few, peer)
    simplified = partial(indices.silhouette_score, kind="simplified")
    yield Case(f"silhouette_score simplified, {larger}", simplified, many)
    for name in ("davies_bouldin_score", "calinski_harabasz_score"):
        yield Case(f"{name}, {larger}", getattr(indices, name), many, (SCIKIT_LEARN, name))
    x = X[:, 0]
    pair = (x, x + np.random.default_rng(1).normal(size=len(x)))
    yield Case(f"weighted_goodman_kruskal, {size}", indices.weighted_goodman_kruskal, pair)


def graph_cases(scale: int) -> Iterator[Case]:
    """Yield the indices that use a graph. The graph is random, with n = 1e6 nodes and 2e7 non-zero
    entries."""
    rng, n, n_edges = np.random.default_rng(0), 10**6 // scale, 10**7 // scale
    ends = rng.integers(0, n, (2, n_edges))
    A = coo_array((np.ones(n_edges), tuple(ends)), shape=(n, n)).tocsr()
    A = (A + A.T).tocsr()
    for n_clusters in (10, 1000):
        a = rng.integers(0, n_clusters, n)
        b = np.where(rng.random(n) < 0.9, a, rng.integers(0, n_clusters, n))
        size = f"n={n:.0e}, nnz={2 * n_edges:.0e}, K={n_clusters}"
        for function in (indices.vi_with_neighbors, indices.random_walk_index):
            yield Case(f"{function.__name__}, {size}", function, (A, a, b))


def _scaled(cases: Callable[[int], Iterator[Case]], run: Run) -> Iterator[Case]:
    return cases(100 if run.tiny else 1)


for _title, _cases in (
    ("Change-points", change_point_cases),
    ("Labels", external_cases),
    ("Points", internal_cases),
    ("Graphs", graph_cases),
):
    BENCH.table(_title, partial(_scaled, _cases))(lambda case, run: case.row(run.repeats))

if __name__ == "__main__":
    BENCH.main()
