"""Complete partial labels to a clustering, by K-means that keeps the given labels and spans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_random_state

from metriclearn.oracles.rounding import fill_empty
from metriclearn.oracles.spectral import TopEigenvectors
from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.partial_labels import PartialPartition
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import RandomState


@dataclass(eq=False, repr=False)
class ConstrainedKMeans(BaseEstimator):
    """Find a clustering with large ⟨ZZᵀ + cI, M⟩ that agrees with labels and ``same`` spans.

    Samples with the same label, or in one span, form a group and move together (must-link). Groups
    with different labels never share a cluster. Every label has its own cluster, and the initial
    center of this cluster is the mean of the label's group (Constrained-KMeans of Basu, Banerjee &
    Mooney 2002). Lloyd's iterations move the groups, which are weighted by their sizes, until the
    value reaches a local maximum. If the number of clusters is unknown, the search begins with one
    cluster for each label, and adds clusters one at a time while the value grows.

    For each number of clusters, the time is O(n_init · iterations · T r K).

    Parameters
    ----------
    n_init : int
        Number of starts. The best result of all starts is returned. In each start, k-means++
        chooses the initial centers of the clusters without a label.
    max_iterations : int
    random_state : int, RandomState instance or None

    References
    ----------
    S. Basu, A. Banerjee and R. Mooney, Semi-supervised clustering by seeding, ICML 2002.
    """

    n_init: int = 10
    max_iterations: int = 100
    random_state: RandomState = 0

    def __call__(
        self,
        form: LowRankForm,
        n_clusters: int | None = None,
        known: PartialPartition | None = None,
    ) -> Partition:
        """Complete ``known`` to a clustering, with ``n_clusters`` clusters if this number is given.

        Raises
        ------
        ValueError
            If there are more labels than clusters, or more clusters than groups.
        """
        known = PartialPartition(form.n_samples) if known is None else known
        members, n_labels = groups_of(known)
        fewest, n_groups = max(n_labels, 1), int(members.max()) + 1
        if n_clusters is not None and not fewest <= n_clusters <= n_groups:
            raise ValueError(
                f"ConstrainedKMeans needs from {fewest} clusters (one for each label) to "
                f"{n_groups} (samples that must not be parted count once), got {n_clusters}."
            )
        grouped = Partition(labels=members)
        means = grouped.pool(form.centered) / grouped.sizes[:, None]
        sizes = grouped.sizes.astype(np.float64)
        rng = check_random_state(self.random_state)
        best, value = Partition.from_labels(members), -np.inf
        for count in range(fewest, n_groups + 1) if n_clusters is None else [n_clusters]:
            runs = []
            for _ in range(self.n_init if count > n_labels else 1):
                centers = _first_centers(means, sizes, n_labels, count, rng)
                runs.append(_lloyd(means, sizes, n_labels, centers, self.max_iterations))
            labels, _ = min(runs, key=lambda run: run[1])  # the least inertia
            candidate = Partition.from_labels(labels[members])
            if (reached := form.at(candidate)) <= value:
                break
            best, value = candidate, reached
        return best


def spectral_completion(form: Any, n_clusters: int | None, known: PartialPartition) -> Partition:
    """Complete ``known`` to a clustering, for any form A with ``matvec``, such as a similarity.

    The method is spectral clustering that keeps the labels. The K leading eigenvectors of A solve
    the relaxed problem. Then :class:`ConstrainedKMeans` clusters the samples by their entries in
    these eigenvectors. The number of clusters must be given.

    Raises
    ------
    ValueError
        If the number of clusters is not given or does not fit the labels.
    """
    leading = TopEigenvectors()(form, n_clusters)
    return ConstrainedKMeans()(LowRankForm(leading.vectors), n_clusters, known)


def groups_of(known: PartialPartition) -> tuple[NDArray[np.int64], int]:
    """Divide the samples into groups that stay together, and number the groups.

    Returns the group of every sample, (T,), and the number of labels, n_labels. The groups 0 …
    n_labels − 1 have labels, and the others have none.
    """
    T, labels = known.n_samples, known.labels
    labeled = np.flatnonzero(labels >= 0)
    firsts = labeled[np.unique(labels[labeled], return_index=True)[1]]  # a sample of each label
    spans = [np.arange(start, stop) for start, stop in known.same]
    members = np.concatenate([labeled, *spans])
    leaders = np.concatenate(
        [firsts[labels[labeled]], *[np.full(len(span), span[0]) for span in spans]]
    )
    # In this graph a labeled sample is linked to the first sample with its label, and a sample of a
    # span to the first sample of the span. So the groups are the components of the graph.
    graph = coo_array((np.ones(len(members)), (members, leaders)), shape=(T, T))
    _, components = connected_components(graph, directed=False)
    # Partitions number clusters by first appearance, so we put the labeled samples first.
    ordered = Partition.from_labels(np.concatenate([components[firsts], components]))
    return ordered.labels[len(firsts) :], len(firsts)


def _first_centers(
    means: NDArray, sizes: NDArray, n_labels: int, n_clusters: int, rng: np.random.RandomState
) -> NDArray:
    """Return first centers (K, r): the means of the labeled groups, and more by k-means++.

    Groups of samples that stay together have ``means`` (G, r) and ``sizes`` (G,). The first
    ``n_labels`` groups have a label, and the others have none.
    """
    chosen = list(range(n_labels)) or [int(rng.choice(len(means), p=sizes / sizes.sum()))]
    while len(chosen) < n_clusters:
        # A group of n samples counts as n samples in the draw of k-means++.
        weights = sizes * np.min(euclidean_distances(means, means[chosen], squared=True), axis=1)
        weights[chosen] = 0.0
        free = np.setdiff1d(np.arange(len(means)), chosen)
        # If all groups coincide with centers, any free group will do.
        total = weights.sum()
        following = rng.choice(len(means), p=weights / total) if total > 0 else rng.choice(free)
        chosen.append(int(following))
    return means[chosen]


def _lloyd(
    means: NDArray, sizes: NDArray, n_labels: int, centers: NDArray, max_iterations: int
) -> tuple[NDArray, float]:
    """Run Lloyd's iterations, and return the cluster of every group and the inertia.

    Groups with labels stay in their clusters, and no cluster is empty.
    """
    K, labels = len(centers), np.full(len(means), -1)
    for _ in range(max_iterations):
        distances = euclidean_distances(means, centers, squared=True)
        # Labeled groups come first, one for each label, and their clusters have the same numbers.
        distances[:n_labels] = np.inf
        distances[np.arange(n_labels), np.arange(n_labels)] = 0.0
        new = np.argmin(distances, axis=1)
        costs = sizes * distances[np.arange(len(means)), new]
        # A negative cost keeps a labeled group from being moved to an empty cluster.
        costs[:n_labels] = -1.0
        new = fill_empty(new, costs, K)
        if np.array_equal(new, labels):
            break
        labels = new
        clusters = Partition(labels=labels)
        centers = clusters.pool(sizes[:, None] * means) / clusters.pool(sizes[:, None])
    inertia = float(np.sum(sizes * np.sum((means - centers[labels]) ** 2, axis=1)))
    return labels, inertia
