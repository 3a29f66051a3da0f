"""Evidence accumulation: many K-means partitions vote on which samples belong together (seed 002).

Fred & Jain 2005: single link on the co-association votes_ij / R. Here samples that no run tells
apart are one signature, and single link is the minimum spanning tree of the Hamming distances
between signatures: nothing of size n×n exists.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from metriclearn.clusterers.checks import check_scale, check_whole, is_number
from metriclearn.problem.partition import Partition

__all__ = ["EvidenceAccumulation", "coassociation", "evidence_accumulation"]

Labelings = Sequence[Iterable[Hashable]] | NDArray


def coassociation(labelings: Labelings) -> NDArray[np.float64]:
    """Share of the labelings that put i and j together, shape (n, n): for small n, O(Rn²).

    The clusterer never forms this matrix.

    Parameters
    ----------
    labelings : R sequences of n hashables

    Raises
    ------
    ValueError
        If there is no labeling, or their lengths differ.
    """
    codes = _codes(labelings)
    votes = np.zeros((codes.shape[1], codes.shape[1]), dtype=np.int64)
    for run in codes:
        votes += run[:, None] == run[None, :]
    return votes / len(codes)


def evidence_accumulation(
    labelings: Labelings, threshold: float | None = 0.5, *, strict: bool = True
) -> NDArray[np.int64]:
    """Labels of the single-link clusters of the co-association matrix of given labelings.

    Time O(Rn log n + Ru²/2) for u distinct signatures (columns of ``labelings``), memory O(R(n+u)).

    Parameters
    ----------
    labelings : R sequences of n hashables
    threshold : float in [0, 1], or None
        Samples are linked when their co-association is above it (0.5: in most of the runs). None:
        cut where the number of clusters has the longest lifetime, the range of thresholds in
        [0, 1] that give it; the fewest clusters on ties. A single cluster counts, from the last
        merge to co-association 0, and so does one cluster per sample, from co-association 1 on.
    strict : bool
        False links at the threshold as well. Without effect on the longest lifetime.

    Returns
    -------
    (n,) labels, numbered by first appearance

    Raises
    ------
    ValueError
        If there is no labeling, their lengths differ, or the threshold is outside [0, 1].
    """
    _check_threshold("evidence_accumulation", threshold)
    codes = _codes(labelings)
    tree = _signature_tree(codes)
    distances = np.arange(len(codes) + 1)
    if threshold is None:
        return _cut(tree, distances <= _longest_lifetime(tree, len(codes)))
    votes = (len(codes) - distances) / len(codes)
    return _cut(tree, votes > threshold if strict else votes >= threshold)


class EvidenceAccumulation(ClusterMixin, BaseEstimator):
    """K-means partitions with random K, combined by their votes (seed 002; Fred & Jain 2005).

    Finds clusters of any shape that a chain of compact pieces covers, and their number. Time: the
    K-means runs, then O(Ru²/2) for u distinct signatures, u ≤ n; memory O(Rn), one or two bytes
    per label.

    Parameters
    ----------
    n_runs : int
        R, K-means runs, each from random distinct samples as centers.
    min_clusters, max_clusters : int, optional
        Each run draws K uniformly in this interval, ends included; by default from √n/2 to √n.
        At most the number of distinct samples is used.
    threshold : float in [0, 1], or None
        Link samples with a co-association above it; None: cut at the longest lifetime (see
        :func:`evidence_accumulation`).
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : (n,) numbered by first appearance
    n_clusters_ : int
    labelings_ : (R, n) the labels of every run
    """

    def __init__(
        self,
        n_runs: int = 50,
        *,
        min_clusters: int | None = None,
        max_clusters: int | None = None,
        threshold: float | None = 0.5,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_runs = n_runs
        self.min_clusters = min_clusters
        self.max_clusters = max_clusters
        self.threshold = threshold
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: Any = None) -> EvidenceAccumulation:
        """Cluster the rows of X, shape (n, d).

        Raises
        ------
        ValueError
            If a parameter is out of range, or squared distances overflow.
        """
        from sklearn.cluster import KMeans

        X = np.asarray(validate_data(self, X, dtype=np.float64))
        _check_threshold("EvidenceAccumulation", self.threshold)
        check_scale("EvidenceAccumulation", X)
        distinct = np.unique(X, axis=0)  # so that no two centers start equal
        low, high = np.minimum(self._interval(len(X)), len(distinct))
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

    def _interval(self, n_samples: int) -> tuple[int, int]:
        """Smallest and largest K, checked."""
        who, root = "EvidenceAccumulation", np.sqrt(n_samples)
        check_whole(who, "n_runs", self.n_runs)
        for name in ("min_clusters", "max_clusters"):
            if getattr(self, name) is not None:
                check_whole(who, name, getattr(self, name))
        low = int(np.ceil(root / 2)) if self.min_clusters is None else self.min_clusters
        high = max(int(np.ceil(root)), low) if self.max_clusters is None else self.max_clusters
        if low > high:
            raise ValueError(f"{who} needs min_clusters <= max_clusters, got {low} and {high}.")
        return low, high


def _check_threshold(who: str, threshold: Any) -> None:
    if threshold is not None and not (is_number(threshold) and 0 <= threshold <= 1):
        raise ValueError(f"{who} needs a threshold in [0, 1] or None, got {threshold!r}.")


def _codes(labelings: Labelings) -> NDArray:
    """Labels of every run as small integers, shape (R, n)."""
    runs = [Partition.from_labels(run) for run in labelings]
    lengths = sorted({run.n_samples for run in runs})
    if len(lengths) != 1:
        raise ValueError(
            "evidence accumulation needs one or more labelings of the same samples, got "
            f"{len(runs)} labelings of lengths {lengths}."
        )
    dtype = np.min_scalar_type(max(run.n_clusters for run in runs))
    return np.array([run.labels.astype(dtype) for run in runs])


class _SignatureTree(NamedTuple):
    """Minimum spanning tree of the distinct columns of the labelings."""

    signature: NDArray[np.int64]  # (n,) number of every sample's signature
    start: NDArray[np.int64]  # (u−1,) edges
    end: NDArray[np.int64]
    distance: NDArray[np.int64]  # Hamming, 1 … R


def _signature_tree(codes: NDArray) -> _SignatureTree:
    from metriclearn.clusterers.kernels import hamming_tree

    rows = np.ascontiguousarray(codes.T)
    whole = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    _, first, signature = np.unique(whole, return_index=True, return_inverse=True)
    return _SignatureTree(signature, *hamming_tree(np.ascontiguousarray(codes[:, first])))


def _longest_lifetime(tree: _SignatureTree, n_runs: int) -> int:
    """Largest Hamming distance to link across; −1 to link nothing, not even equal signatures."""
    repeated = len(tree.signature) > len(tree.distance) + 1
    merges = np.concatenate([[0] if repeated else [], tree.distance]).astype(np.int64)
    levels = np.unique(np.append(merges, n_runs))
    lifetimes = np.diff(levels, prepend=0)  # before each level; the fewest clusters come last
    last = len(lifetimes) - 1 - int(np.argmax(lifetimes[::-1]))
    return int(levels[last - 1]) if last > 0 else -1


def _cut(tree: _SignatureTree, linked: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Components of the edges whose Hamming distance is linked, numbered by first appearance."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if not linked[0]:  # not even samples that are together in every run
        return np.arange(len(tree.signature))
    kept = linked[tree.distance]
    u = len(tree.distance) + 1
    edges = (np.ones(kept.sum(), dtype=bool), (tree.start[kept], tree.end[kept]))
    components = connected_components(coo_array(edges, shape=(u, u)), directed=False)[1]
    return Partition.from_labels(components[tree.signature]).labels
