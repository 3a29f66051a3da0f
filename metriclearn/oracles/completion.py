"""Completing a clustering: K-means that keeps what is known."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from metriclearn.oracles.spectral import TopEigenvectors
from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.knowledge import PartialPartition
from metriclearn.problem.partition import Partition

__all__ = ["ConstrainedKMeans", "ConstrainedSpectral", "groups_of"]


class ConstrainedKMeans(BaseEstimator):
    """A good ⟨ZZᵀ + cI, M⟩ over the clusterings that agree with labels and same spans.

    Samples with one label, and those of a same span, are one group and move as one (must-link by
    label); groups with different labels never share a cluster, each has one of its own and seeds
    it (constrained seeded K-means, Basu, Banerjee & Mooney 2002). Lloyd's iterations over group
    means weighted by size, from several starts; the value grows with every iteration, to a local
    maximum. With the number of clusters unknown, clusters are added one at a time from the
    seeded ones on while the value grows.

    O(n_init · iterations · T r K).

    Parameters
    ----------
    n_init : int
        Starts (k-means++ for clusters without a label); the best result counts.
    max_iterations : int
    random_state : int, RandomState instance or None

    References
    ----------
    S. Basu, A. Banerjee and R. Mooney, Semi-supervised clustering by seeding, ICML 2002.
    """

    def __init__(
        self,
        n_init: int = 10,
        max_iterations: int = 100,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.n_init = n_init
        self.max_iterations = max_iterations
        self.random_state = random_state

    def __call__(
        self,
        form: LowRankForm,
        n_clusters: int | None = None,
        known: PartialPartition | None = None,
    ) -> Partition:
        """A completion of ``known`` into ``n_clusters`` clusters, if given.

        Raises
        ------
        ValueError
            If there are more labels than clusters, or more clusters than groups.
        """
        T = form.n_samples
        known = PartialPartition(T) if known is None else known
        groups, n_seeds = groups_of(known)
        n_groups = int(groups.max()) + 1
        if n_clusters is not None and not max(n_seeds, 1) <= n_clusters <= n_groups:
            raise ValueError(
                f"ConstrainedKMeans needs from {max(n_seeds, 1)} clusters (one for each label) to "
                f"{n_groups} (samples that must not be parted count once), got {n_clusters}."
            )
        sizes = np.bincount(groups).astype(np.float64)
        factors = form.factors - np.mean(form.factors, axis=0)
        means = np.zeros((n_groups, factors.shape[1]))
        np.add.at(means, groups, factors)
        means /= sizes[:, None]
        rng = check_random_state(self.random_state)
        if n_clusters is not None:
            return Partition.from_labels(self._best(means, sizes, n_seeds, n_clusters, rng)[groups])
        found, value = None, -np.inf
        for count in range(max(n_seeds, 1), n_groups + 1):
            candidate = Partition.from_labels(self._best(means, sizes, n_seeds, count, rng)[groups])
            if (reached := form.at(candidate)) <= value:
                break
            found, value = candidate, reached
        assert found is not None
        return found

    def _best(
        self,
        means: NDArray,
        sizes: NDArray,
        n_seeds: int,
        n_clusters: int,
        rng: np.random.RandomState,
    ) -> NDArray[np.int64]:
        """The labels of groups with the least inertia of several starts."""
        runs = []
        for _ in range(self.n_init if n_clusters > n_seeds else 1):
            centers = _first_centers(means, sizes, n_seeds, n_clusters, rng)
            runs.append(_lloyd(means, sizes, n_seeds, centers, self.max_iterations))
        return min(runs, key=lambda run: run[1])[0]


class ConstrainedSpectral(BaseEstimator):
    """A completion under any form that can be multiplied by, such as a similarity.

    Spectral clustering that keeps what is known: :class:`ConstrainedKMeans` on the K leading
    eigenvectors of A, the relaxed maximizer of ⟨A, M⟩.

    Parameters
    ----------
    rounding : ConstrainedKMeans
    """

    def __init__(self, rounding: ConstrainedKMeans = ConstrainedKMeans()) -> None:  # noqa: B008
        self.rounding = rounding

    def __call__(
        self, form: Any, n_clusters: int | None = None, known: PartialPartition | None = None
    ) -> Partition:
        """A completion of ``known`` into ``n_clusters`` clusters, which must be given.

        Raises
        ------
        ValueError
            If the number of clusters is not given or does not suit the labels.
        """
        leading = TopEigenvectors()(form, n_clusters)
        return self.rounding(LowRankForm(leading.vectors), n_clusters, known)


def groups_of(known: PartialPartition) -> tuple[NDArray[np.int64], int]:
    """Group of every sample, those with labels first (0 … n_seeds−1), and n_seeds."""
    T, labels = known.n_samples, known.labels
    labeled = np.flatnonzero(labels >= 0)
    firsts = np.array([np.flatnonzero(labels == c)[0] for c in range(labels.max(initial=-1) + 1)])
    pairs = [np.column_stack([labeled, firsts[labels[labeled]]])] if len(labeled) else []
    pairs += [
        np.column_stack([np.arange(start, stop), np.full(stop - start, start)])
        for start, stop in known.same
    ]
    links = np.concatenate(pairs) if pairs else np.zeros((0, 2), dtype=np.int64)
    graph = coo_array((np.ones(len(links)), (links[:, 0], links[:, 1])), shape=(T, T))
    _, components = connected_components(graph, directed=False)
    order = np.concatenate([components[firsts] if len(firsts) else [], components]).astype(int)
    _, first = np.unique(order, return_index=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[components], len(firsts)


def _distances(means: NDArray, centers: NDArray) -> NDArray:
    """Squared distances, (G, K)."""
    squares = np.sum(means**2, axis=1)[:, None] - 2.0 * means @ centers.T
    return np.maximum(squares + np.sum(centers**2, axis=1), 0.0)


def _first_centers(
    means: NDArray, sizes: NDArray, n_seeds: int, n_clusters: int, rng: np.random.RandomState
) -> NDArray:
    """Means of the labeled groups, then k-means++ among the others."""
    chosen = list(range(n_seeds)) or [int(rng.choice(len(means), p=sizes / sizes.sum()))]
    while len(chosen) < n_clusters:
        weights = sizes * np.min(_distances(means, means[chosen]), axis=1)
        weights[chosen] = 0.0
        free = np.setdiff1d(np.arange(len(means)), chosen)
        total = weights.sum()
        following = rng.choice(len(means), p=weights / total) if total > 0 else rng.choice(free)
        chosen.append(int(following))
    return means[chosen]


def _lloyd(
    means: NDArray, sizes: NDArray, n_seeds: int, centers: NDArray, max_iterations: int
) -> tuple[NDArray[np.int64], float]:
    """Labels of groups and their inertia; seeds stay in their clusters, no cluster is empty."""
    K, labels = len(centers), np.full(len(means), -1)
    for _ in range(max_iterations):
        distances = _distances(means, centers)
        distances[:n_seeds] = np.inf
        distances[np.arange(n_seeds), np.arange(n_seeds)] = 0.0
        new = np.argmin(distances, axis=1)
        new = _fill_empty(new, sizes * distances[np.arange(len(means)), new], n_seeds, K)
        if np.array_equal(new, labels):
            break
        labels = new
        mass = np.bincount(labels, weights=sizes, minlength=K)
        centers = np.zeros_like(centers)
        np.add.at(centers, labels, sizes[:, None] * means)
        centers /= mass[:, None]
    inertia = float(np.sum(sizes * np.sum((means - centers[labels]) ** 2, axis=1)))
    return labels, inertia


def _fill_empty(labels: NDArray, costs: NDArray, n_seeds: int, K: int) -> NDArray[np.int64]:
    """Give every empty cluster the costliest free group of a cluster that keeps another."""
    for empty in np.flatnonzero(np.bincount(labels, minlength=K) == 0):
        counts = np.bincount(labels, minlength=K)
        movable = (counts[labels] > 1) & (np.arange(len(labels)) >= n_seeds)
        group = int(np.argmax(np.where(movable, costs, -1.0)))
        labels[group], costs[group] = empty, 0.0
    return labels
