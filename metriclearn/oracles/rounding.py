"""Round a relaxed projection to a partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans

from metriclearn.problem.partition import Partition
from metriclearn.problem.projector import Projector
from metriclearn.running.parameters import RandomState


@runtime_checkable
class Rounding(Protocol):
    """Rounds a relaxation, such as a projection or the spectrum of a graph, to clusters."""

    def __call__(self, relaxed: Any, n_clusters: Any = None, /) -> Any:
        """Return a clustering into ``n_clusters`` clusters.

        Some roundings allow ``n_clusters`` to be left out. Then the clustering has about as many
        clusters as there are eigenvectors.
        """
        ...


class PivotedRounding(BaseEstimator):
    """Find clusters by a pivoted QR decomposition of the eigenvectors, without random starts.

    The eigenvectors form a matrix (T, k) with one row for each sample. The pivots select k rows
    that are nearly orthogonal. These rows are the prototypes of the clusters. The orthogonal matrix
    nearest to these rows (their polar factor) rotates the eigenvectors so that column c becomes an
    indicator of cluster c. Every sample joins the cluster with its largest indicator. The time is
    O(Tk²).

    References
    ----------
    Damle, Minden & Ying, "Simple, direct and efficient multi-way spectral clustering",
    Information and Inference 8(1), 2019.
    """

    def __call__(self, projector: Projector, n_clusters: int | None = None) -> Partition:
        rows = _rows(projector)
        k = rows.shape[1] if n_clusters is None else min(n_clusters, rows.shape[1])
        rows = rows[:, ::-1][:, :k]  # the leading ones
        pivots = scipy.linalg.qr(rows.T, mode="r", pivoting=True)[1][:k]
        left, _, right = scipy.linalg.svd(rows[pivots].T)
        labels = np.argmax(np.abs(rows @ (left @ right)), axis=1)
        return with_clusters(labels, rows, n_clusters)


@dataclass(eq=False, repr=False)
class RowKMeans(BaseEstimator):
    """Find clusters by K-means on the rows of the k eigenvectors. An iteration takes O(Tk²).

    Parameters
    ----------
    n_init : int
        Number of random starts. The best result of all starts is returned.
    random_state : int, RandomState or None
    """

    n_init: int = 1
    random_state: RandomState = 0

    def __call__(self, projector: Projector, n_clusters: int | None = None) -> Partition:
        rows = _rows(projector)
        k = rows.shape[1] if n_clusters is None else n_clusters
        means = KMeans(k, n_init=self.n_init, random_state=self.random_state)
        return with_clusters(means.fit_predict(rows), rows, n_clusters)


def _rows(projector: Projector) -> NDArray:
    """Return the eigenvectors (T, k) times the roots of their weights, or zeros (T, 1) if k = 0."""
    rows = projector.vectors * np.sqrt(projector.weights)
    return rows if rows.shape[1] else np.zeros((projector.n_samples, 1))


def with_clusters(labels: NDArray, rows: NDArray, n_clusters: int | None) -> Partition:
    """Make the clustering with these labels, and add clusters until there are at least K.

    Each added cluster is a single sample, whose row is far from the mean of its old cluster.

    Parameters
    ----------
    labels : array (T,)
    rows : array (T, k)
        The row of every sample. Distances are computed between rows.
    n_clusters : int or None
        The number K. If K is None, no cluster is added.
    """
    partition = Partition.from_labels(labels)
    if n_clusters is None or partition.n_clusters >= n_clusters:
        return partition
    distances = np.sum((rows - partition.project(rows)) ** 2, axis=1)
    return Partition.from_labels(fill_empty(partition.labels.copy(), distances, n_clusters))


def fill_empty(labels: NDArray, costs: NDArray, n_clusters: int) -> NDArray:
    """Move one sample into every empty cluster.

    Among the samples that are not alone in their cluster, the sample with the largest cost is
    moved.

    Parameters
    ----------
    labels : int array (T,)
        Clusters 0 … K−1 of the samples; changed in place, like ``costs``.
    costs : array (T,)
        The cost of every sample in its cluster. Samples that must stay have a negative cost.
    n_clusters : int
        K.
    """
    for empty in np.flatnonzero(np.bincount(labels, minlength=n_clusters) == 0):
        shared = np.bincount(labels)[labels] > 1
        chosen = int(np.argmax(np.where(shared, costs, -np.inf)))
        labels[chosen], costs[chosen] = empty, 0.0
    return labels
