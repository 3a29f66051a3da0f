"""Dunn's index and its variants: six separations of clusters times three diameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.indices.contingency import Labels
from metriclearn.indices.distances import ClusteredPoints, clustered_points

__all__ = ["DIAMETERS", "SEPARATIONS", "dunn_score", "dunn_scores"]

SEPARATIONS = ("single", "complete", "average", "centroid", "average_to_centroids", "hausdorff")
DIAMETERS = ("complete", "average", "centroid")


def dunn_score(
    X: ArrayLike,
    labels: Labels,
    *,
    separation: str = "single",
    diameter: str = "complete",
    metric: Any = None,
) -> float:
    """Dunn's index min_{p≠q} δ(p, q) / max_l Δ(l); large is good.

    Seed 002, "Dunn's Index" and its variants (Bezdek & Pal 1998): 6 × 3 = 18 indices, the original
    and 17 variants. The slide's i ≠ j *across* clusters is dropped. In [0, ∞]: inf when every
    diameter is 0. O(n² d) time, O(n K d) for centroid-only choices; see :func:`dunn_scores`.

    Parameters
    ----------
    separation : str
        δ: "single" (min), "complete" (max), "average" or "hausdorff" over the distances of points
        across; "centroid" for the distance of centroids; "average_to_centroids" for the mean
        distance of the points of both to the centroid of the other.
    diameter : str
        Δ: "complete" (max) or "average" (mean over pairs; 0 for a single point) distance inside,
        or "centroid", twice the mean distance to the centroid.
    metric : see :func:`~metriclearn.indices.davies_bouldin_score`
    """
    if separation not in SEPARATIONS or diameter not in DIAMETERS:
        raise ValueError(
            f"dunn_score needs separation among {', '.join(SEPARATIONS)} and diameter among "
            f"{', '.join(DIAMETERS)}, got {separation!r} and {diameter!r}."
        )
    clusters = clustered_points(X, labels, metric)
    if "centroid" in separation and diameter == "centroid":
        separations, diameters = _by_centroids(clusters)
    else:
        separations, diameters = _all(clusters)
    return _ratio(separations[separation], diameters[diameter])


def dunn_scores(
    X: ArrayLike, labels: Labels, *, metric: Any = None
) -> dict[tuple[str, str], float]:
    """All 18 indices by (separation, diameter), from one pass over the distances.

    O(n² d) time; O(block + K²) memory, the n × n distances are never held.
    """
    separations, diameters = _all(clustered_points(X, labels, metric))
    return {
        (separation, diameter): _ratio(separations[separation], diameters[diameter])
        for separation in SEPARATIONS
        for diameter in DIAMETERS
    }


def _ratio(separation: float, diameter: float) -> float:
    return separation / diameter if diameter > 0 else float("inf")


def _all(clusters: ClusteredPoints) -> tuple[dict[str, float], dict[str, float]]:
    """Smallest separation and largest diameter of every kind."""
    separations, diameters = _by_centroids(clusters)
    lows, highs, sums, nearest = _set_distances(clusters)
    sizes = clusters.sizes
    separations |= {
        "single": _smallest(lows),
        "complete": _smallest(highs),
        "average": _smallest(sums / np.multiply.outer(sizes, sizes)),
        "hausdorff": _smallest(np.maximum(nearest, nearest.T)),
    }
    pairs = np.maximum(sizes * (sizes - 1), 1)
    diameters |= {
        "complete": float(np.diag(highs).max()),
        "average": float((np.diag(sums) / pairs).max()),
    }
    return separations, diameters


def _by_centroids(clusters: ClusteredPoints) -> tuple[dict[str, float], dict[str, float]]:
    from scipy.spatial.distance import cdist

    sizes = clusters.sizes
    sums = np.zeros((len(sizes), len(sizes)))  # of distances from the points of p to centroid q
    for rows, distances in clusters.to_centroids():
        present, starts = _clusters_in(clusters, rows)
        sums[present] += np.add.reduceat(distances, starts, axis=0)
    separations = {
        "centroid": _smallest(cdist(clusters.centroids, clusters.centroids)),
        "average_to_centroids": _smallest((sums + sums.T) / np.add.outer(sizes, sizes)),
    }
    return separations, {"centroid": float((2.0 * np.diag(sums) / sizes).max())}


def _set_distances(clusters: ClusteredPoints) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Min, max and sum of the distances from p to q, and max_i min_j (one-sided Hausdorff)."""
    shape = (len(clusters.sizes),) * 2
    lows, highs = np.full(shape, np.inf), np.zeros(shape)
    sums, nearest = np.zeros(shape), np.zeros(shape)
    for rows, distances in clusters.to_points():
        present, starts = _clusters_in(clusters, rows)
        low = np.minimum.reduceat(distances, clusters.starts, axis=1)
        high = np.maximum.reduceat(distances, clusters.starts, axis=1)
        total = np.add.reduceat(distances, clusters.starts, axis=1)
        lows[present] = np.minimum(lows[present], np.minimum.reduceat(low, starts, axis=0))
        highs[present] = np.maximum(highs[present], np.maximum.reduceat(high, starts, axis=0))
        sums[present] += np.add.reduceat(total, starts, axis=0)
        nearest[present] = np.maximum(nearest[present], np.maximum.reduceat(low, starts, axis=0))
    return lows, highs, sums, nearest


def _clusters_in(clusters: ClusteredPoints, rows: slice) -> tuple[NDArray, NDArray]:
    """Clusters that have points among the sorted rows, and where each starts in the block."""
    first = np.searchsorted(clusters.starts, rows.start, side="right") - 1
    last = np.searchsorted(clusters.starts, rows.stop, side="left")
    starts = np.maximum(clusters.starts[first:last] - rows.start, 0)
    return np.arange(first, last), starts


def _smallest(values: NDArray) -> float:
    """Smallest entry off the diagonal."""
    off = values.copy()
    np.fill_diagonal(off, np.inf)
    return float(off.min())
