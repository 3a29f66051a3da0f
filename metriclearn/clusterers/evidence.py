"""Cluster by evidence accumulation: many K-means partitions vote on which samples are together.

The co-association of two samples is the fraction of R partitions in which they are together.
Single-link clustering with this similarity gives the clusters (Fred & Jain, Combining multiple
clusterings using evidence accumulation, IEEE Transactions on Pattern Analysis and Machine
Intelligence 27(6), 2005). The signature of a sample holds its labels in all runs. Single link needs
only a minimum spanning tree of the Hamming distances between distinct signatures, so there is no
n×n array.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state

from metriclearn.clusterers.checks import read_rows
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import LIST, OneOf, RandomState, Real, Whole, needs
from metriclearn.running.values import check_each

Labelings = Sequence[Iterable[Hashable]] | NDArray
_THRESHOLD = OneOf(None, Real(0, 1))


@needs
def coassociation(labelings: Annotated[Labelings, LIST]) -> NDArray[np.float64]:
    """Return the fraction of labelings in which samples i and j are together, shape (n, n).

    Use this function for small n, since it takes O(Rn²) time. The clusterer never forms this
    matrix.

    Parameters
    ----------
    labelings : R sequences of n hashables

    Returns
    -------
    float array (n, n)
        Numbers from 0 to 1. The diagonal is 1.

    Raises
    ------
    ValueError
        If there is no labeling, or if labelings differ in length.

    See Also
    --------
    evidence_accumulation : Finds clusters from the co-association matrix.
    EvidenceAccumulation : Clusters by many runs of K-means, and cites the reference.
    """
    codes = _codes(labelings)
    return sum(run[:, None] == run for run in codes) / len(codes)


@needs
def evidence_accumulation(
    labelings: Annotated[Labelings, LIST],
    threshold: Annotated[float | None, _THRESHOLD] = 0.5,
    *,
    strict: bool = True,
) -> NDArray[np.int64]:
    """Cluster samples by single link on the co-association matrix of given labelings.

    With u distinct signatures (columns of ``labelings``), this takes O(Rn log n + Ru²/2) time and
    O(R(n+u)) memory.

    Parameters
    ----------
    labelings : R sequences of n hashables
    threshold : float in [0, 1], or None
        Two samples are linked if their co-association is above the threshold. With 0.5, two samples
        are linked if they are together in more than half of the runs. With None, the number of
        clusters with the longest lifetime is chosen. The lifetime of a number of clusters is the
        width of the range of thresholds in [0, 1] that lead to this number. On ties the smallest
        number is chosen. The range for a single cluster begins at 0, and the range for one cluster
        per sample ends at 1.
    strict : bool
        If False, samples whose co-association equals the threshold are linked as well. With
        ``threshold=None``, ``strict`` has no effect.

    Returns
    -------
    int array (n,)
        Labels, numbered by first appearance.

    Raises
    ------
    ValueError
        If there is no labeling, if labelings differ in length, or if the threshold is outside [0,
        1].

    See Also
    --------
    EvidenceAccumulation : Makes the labelings, too, and cites the reference.
    """
    from metriclearn.clusterers.similarity_kernels import hamming_tree

    codes = _codes(labelings)
    n_runs, n_samples = codes.shape
    # A column of codes is a signature. Seen as one value of bytes, signatures can be sorted.
    rows = np.ascontiguousarray(codes.T)
    columns = rows.view(np.dtype((np.void, rows.itemsize * n_runs))).ravel()
    _, first, signature = np.unique(columns, return_index=True, return_inverse=True)
    start, end, distance = hamming_tree(np.ascontiguousarray(codes[:, first]))
    if threshold is None:
        # The number of clusters with the longest lifetime, the fewest of several.
        merges = np.concatenate([[0] if len(first) < n_samples else [], distance]).astype(np.int64)
        levels = np.unique(np.append(merges, n_runs))
        lifetimes = np.diff(levels, prepend=0)  # before each level; the fewest clusters come last
        last = len(lifetimes) - 1 - int(np.argmax(lifetimes[::-1]))
        reach = int(levels[last - 1]) if last > 0 else -1
    else:
        votes = (n_runs - np.arange(n_runs + 1)) / n_runs  # at Hamming distance 0, 1, …, R
        linked = votes > threshold if strict else votes >= threshold
        reach = int(linked.sum()) - 1
    if reach < 0:  # no samples are linked, not even equal signatures
        return np.arange(n_samples)
    kept = distance <= reach
    edges = (np.ones(kept.sum(), dtype=bool), (start[kept], end[kept]))
    forest = coo_array(edges, shape=(len(first), len(first)))
    components = connected_components(forest, directed=False)[1]
    return Partition.from_labels(components[signature]).labels


@dataclass(eq=False, repr=False)
class EvidenceAccumulation(ClusterMixin, BaseEstimator):
    """Cluster by the votes of many K-means partitions with random K (Fred & Jain 2005).

    The method finds the number of clusters, and clusters of any shape that chains of compact pieces
    can cover. In addition to the K-means runs, the method takes O(Ru²/2) time for u ≤ n distinct
    signatures. The memory is O(Rn), with one or two bytes per label.

    Parameters
    ----------
    n_runs : int
        Number R of K-means runs. Each run starts from random distinct samples as centers.
    min_clusters, max_clusters : int, optional
        Each run draws K uniformly from all whole numbers from ``min_clusters`` to ``max_clusters``.
        The defaults are √n/2 and √n, rounded up. K is never more than the number of distinct
        samples.
    threshold : float in [0, 1], or None
        Samples are linked if their co-association is above the threshold. With None, the number of
        clusters with the longest lifetime is chosen, see :func:`evidence_accumulation`.
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : (n,) numbered by first appearance
    n_clusters_ : int
    labelings_ : (R, n) the labels of every run

    Raises
    ------
    ValueError
        If parameters or data are unusable.
    """

    n_runs: Annotated[int, Whole(1)] = 50
    _: KW_ONLY
    min_clusters: Annotated[int | None, OneOf(None, Whole(1))] = None
    max_clusters: Annotated[int | None, OneOf(None, Whole(1))] = None
    threshold: Annotated[float | None, _THRESHOLD] = 0.5
    random_state: RandomState = None

    def fit(self, X: ArrayLike, y: Any = None) -> EvidenceAccumulation:
        """Cluster the rows of X, shape (n, d).

        Raises
        ------
        ValueError
            If a parameter is out of range, or squared distances overflow.
        """
        from sklearn.cluster import KMeans

        X = read_rows(self, X)
        root = np.sqrt(len(X))
        low = int(np.ceil(root / 2)) if self.min_clusters is None else self.min_clusters
        high = max(int(np.ceil(root)), low) if self.max_clusters is None else self.max_clusters
        if low > high:
            raise ValueError(
                "EvidenceAccumulation needs min_clusters <= max_clusters, got "
                f"{low} and {high}; swap them."
            )
        distinct = np.unique(X, axis=0)  # so that no two centers start equal
        low, high = min(low, len(distinct)), min(high, len(distinct))
        random = check_random_state(self.random_state)
        labelings = np.empty((self.n_runs, len(X)), dtype=np.min_scalar_type(high))
        for run in range(self.n_runs):
            k = random.randint(low, high + 1)
            centers = distinct[random.choice(len(distinct), k, replace=False)]
            labelings[run] = KMeans(k, init=centers, n_init=1, random_state=random).fit(X).labels_
        self.labels_ = evidence_accumulation(labelings, self.threshold)
        self.n_clusters_ = int(self.labels_.max()) + 1
        self.labelings_ = labelings
        return self


def _codes(labelings: Labelings) -> NDArray:
    """Return the labels of all runs as small integers, shape (R, n)."""
    runs = [Partition.from_labels(run) for run in labelings]
    for run in runs:
        check_each("evidence accumulation", "label", run.n_samples, "samples", runs[0].n_samples)
    dtype = np.min_scalar_type(max(run.n_clusters for run in runs))
    return np.array([run.labels.astype(dtype) for run in runs])
