"""Dunn's index and its variants, with six kinds of separation and three kinds of diameter."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.indices.contingency import Labels
from metriclearn.indices.distances import ClusteredPoints, clustered_points
from metriclearn.running.parameters import OneOf, needs

SEPARATIONS = ("single", "complete", "average", "centroid", "average_to_centroids", "hausdorff")
DIAMETERS = ("complete", "average", "centroid")


@needs
def dunn_score(
    X: ArrayLike,
    labels: Labels,
    *,
    separation: Annotated[str, OneOf(*SEPARATIONS)] = "single",
    diameter: Annotated[str, OneOf(*DIAMETERS)] = "complete",
    metric: Any = None,
) -> float:
    """Dunn's index min_{p≠q} δ(p, q) / max_l Δ(l). Large values are good.

    There are 6 kinds of separation δ of two clusters, and 3 kinds of diameter Δ of a cluster. This
    gives 18 indices: Dunn's own and the 17 variants that Vendramin, Campello and Hruschka compare.
    The value is inf if every diameter is 0. The time is O(n² d), or O(n K d) if both kinds use only
    distances to centroids. :func:`dunn_scores` computes all 18 indices at once.

    Parameters
    ----------
    X : array (n, d)
        The points, all finite.
    labels : n hashables
        The cluster of every point. There must be at least two clusters.
    separation : str
        The separation δ of two clusters. "single", "complete" and "average" are the smallest, the
        largest and the mean distance from a point of one cluster to a point of the other.
        "hausdorff" is the Hausdorff distance of the clusters. "centroid" is the distance between
        their centroids. "average_to_centroids" is the mean distance from a point of either cluster
        to the centroid of the other cluster.
    diameter : str
        The diameter Δ of a cluster. "complete" and "average" are the largest and the mean distance
        between two of its points (0 for a single point). "centroid" is twice the mean distance from
        its points to its centroid.
    metric : see :func:`~metriclearn.indices.davies_bouldin_score`

    Returns
    -------
    float in [0, ∞]

    Raises
    ------
    ValueError
        If X is not finite, if there is not one label per point, or if there is only one cluster.

    References
    ----------
    J. C. Dunn, "Well-separated clusters and optimal fuzzy partitions", Journal of Cybernetics 4,
    1974. J. C. Bezdek and N. R. Pal, "Some new indexes of cluster validity", IEEE Transactions on
    Systems, Man and Cybernetics B 28, 1998. L. Vendramin, R. J. G. B. Campello and E. R. Hruschka,
    "Relative clustering validity criteria: a comparative overview", Statistical Analysis and Data
    Mining 3, 2010.
    """
    clusters = clustered_points(X, labels, metric)
    separations, diameters = _by_centroids(clusters)
    if separation not in separations or diameter not in diameters:
        separations, diameters = _all(clusters)
    return _ratio(separations[separation], diameters[diameter])


def dunn_scores(
    X: ArrayLike, labels: Labels, *, metric: Any = None
) -> dict[tuple[str, str], float]:
    """Compute all 18 indices of :func:`dunn_score` in one pass over the distances.

    The time is O(n² d). The n × n distances are computed in blocks of at most 32 MB. The function
    needs O(K²) memory in addition.

    Parameters
    ----------
    X : array (n, d)
        The points, all finite.
    labels : n hashables
        The cluster of every point. There must be at least two clusters.
    metric : see :func:`~metriclearn.indices.davies_bouldin_score`

    Returns
    -------
    dict of (str, str) to float
        The index for every pair (separation, diameter).

    Raises
    ------
    ValueError
        If X is not finite, if there is not one label per point, or if there is only one cluster.

    See Also
    --------
    dunn_score : computes one of these indices, and gives the references.
    """
    separations, diameters = _all(clustered_points(X, labels, metric))
    return {
        (separation, diameter): _ratio(separations[separation], diameters[diameter])
        for separation in SEPARATIONS
        for diameter in DIAMETERS
    }


def _ratio(separation: float, diameter: float) -> float:
    return separation / diameter if diameter > 0 else float("inf")


def _by_centroids(clusters: ClusteredPoints) -> tuple[dict[str, float], dict[str, float]]:
    """Compute the separations and diameters that need no distances between two points.

    Returns the smallest separation of each kind, and the largest diameter of each kind.
    """
    from scipy.spatial.distance import cdist

    sizes = clusters.sizes
    sums = np.zeros((len(sizes), len(sizes)))  # distances from the points of p to centroid q
    for p, _, distances in clusters.distances_to(clusters.centroids):
        sums[p] += distances.sum(axis=0)
    separations = {
        "centroid": _smallest(cdist(clusters.centroids, clusters.centroids)),
        "average_to_centroids": _smallest((sums + sums.T) / np.add.outer(sizes, sizes)),
    }
    return separations, {"centroid": float((2.0 * np.diag(sums) / sizes).max())}


def _all(clusters: ClusteredPoints) -> tuple[dict[str, float], dict[str, float]]:
    """Compute the smallest separation of each kind, and the largest diameter of each kind."""
    sizes, starts = clusters.sizes, clusters.starts
    shape = len(sizes), len(sizes)
    # entry (p, q) is over distances from points of p to points of q; nearest is max_i min_j
    low = np.full(shape, np.inf)
    high = np.zeros(shape)
    total = np.zeros(shape)
    nearest = np.zeros(shape)
    for p, _, distances in clusters.distances_to(clusters.points):
        # a row for every point of the block, a column for every cluster q
        closest = np.minimum.reduceat(distances, starts, axis=1)
        farthest = np.maximum.reduceat(distances, starts, axis=1)
        sums = np.add.reduceat(distances, starts, axis=1)
        low[p] = np.minimum(low[p], closest.min(axis=0))
        nearest[p] = np.maximum(nearest[p], closest.max(axis=0))
        high[p] = np.maximum(high[p], farthest.max(axis=0))
        total[p] += sums.sum(axis=0)
    separations, diameters = _by_centroids(clusters)
    separations |= {
        "single": _smallest(low),
        "complete": _smallest(high),
        "average": _smallest(total / np.multiply.outer(sizes, sizes)),
        "hausdorff": _smallest(np.maximum(nearest, nearest.T)),
    }
    pairs = np.maximum(sizes * (sizes - 1), 1)
    diameters |= {"complete": np.diag(high).max(), "average": (np.diag(total) / pairs).max()}
    return separations, diameters


def _smallest(values: NDArray) -> float:
    """Return the smallest off-diagonal entry of a square matrix."""
    off = values.copy()
    np.fill_diagonal(off, np.inf)
    return float(off.min())
