"""Internal validity: Davies–Bouldin, Calinski–Harabasz and four silhouettes.

They judge a clustering by the points alone. All raise ValueError for fewer than two clusters and
take ``metric=``: None, a learned matrix B or its diagonal, or anything with ``transform``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.indices.contingency import Labels
from metriclearn.indices.distances import ClusteredPoints, clustered_points

__all__ = [
    "calinski_harabasz_score",
    "davies_bouldin_score",
    "silhouette_samples",
    "silhouette_score",
]

SilhouetteKind = Literal["original", "simplified", "alternative", "hybrid"]


def davies_bouldin_score(X: ArrayLike, labels: Labels, *, metric: Any = None) -> float:
    """Davies–Bouldin index (1/K) Σ_i max_{j≠i} (s_i + s_j) / ‖c_i − c_j‖; small is good.

    s_i is the mean distance to the centroid c_i (seed 002). In [0, ∞]: inf when two centroids
    coincide (scikit-learn drops such pairs and returns 0). O(n d + K² d).
    """
    from scipy.spatial.distance import cdist

    clusters = clustered_points(X, labels, metric)
    spreads = np.add.reduceat(np.sqrt(clusters.squared_spreads), clusters.starts) / clusters.sizes
    worst = np.zeros(len(spreads))
    step = max(1, 4_000_000 // len(spreads))
    for first in range(0, len(spreads), step):
        rows = np.arange(first, min(first + step, len(spreads)))
        apart = cdist(clusters.centroids[rows], clusters.centroids)
        ratio = np.full(apart.shape, np.inf)
        np.divide(spreads[rows, None] + spreads, apart, out=ratio, where=apart > 0)
        ratio[np.arange(len(rows)), rows] = -np.inf
        worst[rows] = ratio.max(axis=1)
    return float(worst.mean())


def calinski_harabasz_score(X: ArrayLike, labels: Labels, *, metric: Any = None) -> float:
    """Variance ratio criterion (tr B / tr W) · (n − K) / (K − 1); large is good. O(n d).

    Seed 002, "Calinski-Harabasz Index (VRC)". In [0, ∞]: inf when W = 0 (scikit-learn: 1).

    Raises
    ------
    ValueError
        Also when every point is its own cluster, where the ratio is 0/0.
    """
    clusters = clustered_points(X, labels, metric)
    n, K = len(clusters.points), len(clusters.sizes)
    if n == K:
        raise ValueError(
            "calinski_harabasz_score needs fewer clusters than points, got one cluster per point."
        )
    within = clusters.squared_spreads.sum()
    origin = clusters.points[0]  # far from 0, sums of offsets keep more digits
    mean = origin + clusters.sizes @ (clusters.centroids - origin) / n
    between = np.sum(clusters.sizes[:, None] * (clusters.centroids - mean) ** 2)
    return float(between / within * (n - K) / (K - 1)) if within > 0 else float("inf")


def silhouette_score(
    X: ArrayLike,
    labels: Labels,
    *,
    kind: SilhouetteKind = "original",
    metric: Any = None,
    epsilon: float = 1e-6,
) -> float:
    """Mean silhouette of all points, seed 002; large is good.

    Kinds, ranges and costs: see :func:`silhouette_samples`.
    """
    samples = silhouette_samples(X, labels, kind=kind, metric=metric, epsilon=epsilon)
    return float(samples.mean())


def silhouette_samples(
    X: ArrayLike,
    labels: Labels,
    *,
    kind: SilhouetteKind = "original",
    metric: Any = None,
    epsilon: float = 1e-6,
) -> NDArray[np.float64]:
    """Silhouette of every point: distance a to its own cluster against b to the nearest other.

    Seed 002, "Silhouette Width Criterion" and "Silhouette Variations" (b is over *other* clusters).

    ============= ============================ ================= ==================
    kind          distance to a cluster        value             range, cost
    ============= ============================ ================= ==================
    "original"    mean over its (other) points (b−a)/max(a,b)    [−1, 1], O(n² d)
    "simplified"  to its centroid              (b−a)/max(a,b)    [−1, 1], O(n K d)
    "alternative" mean over its (other) points b/(a+ε)           [0, b/ε], O(n² d)
    "hybrid"      to its centroid              b/(a+ε)           [0, b/ε], O(n K d)
    ============= ============================ ================= ==================

    Points alone in their cluster score 0 (so all do when K = n, where scikit-learn raises), and
    so do points with a = b = 0. Memory beyond X: about 100 MB, or O(n) if larger.

    Parameters
    ----------
    epsilon : float > 0
        ε of "alternative" and "hybrid", in the unit of the distances.
    """
    if kind not in ("original", "simplified", "alternative", "hybrid"):
        raise ValueError(
            "silhouette_samples needs kind original, simplified, alternative or hybrid, got "
            f"{kind!r}."
        )
    clusters = clustered_points(X, labels, metric)
    centroids = kind in ("simplified", "hybrid")
    blocks = clusters.to_centroids() if centroids else _mean_distances(clusters)
    a, b = _own_and_nearest(clusters, blocks)
    if kind in ("original", "simplified"):
        larger = np.maximum(a, b)
        values = np.divide(b - a, larger, out=np.zeros_like(a), where=larger > 0)
    else:
        values = b / (a + epsilon)
    values[clusters.sizes[clusters.owners] == 1] = 0.0
    return clusters.unsorted(values)


def _mean_distances(clusters: ClusteredPoints) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Mean distance of every point to the (other) points of each cluster, in blocks."""
    owners = clusters.owners
    for rows, distances in clusters.to_points():
        sums = np.add.reduceat(distances, clusters.starts, axis=1)
        counts = np.broadcast_to(clusters.sizes, sums.shape).copy()
        own = (np.arange(len(sums)), owners[rows])
        counts[own] = np.maximum(counts[own] - 1, 1)
        yield rows, sums / counts


def _own_and_nearest(
    clusters: ClusteredPoints, blocks: Iterator[tuple[slice, NDArray[np.float64]]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """a and b of every sorted point, from its distances to all clusters."""
    owners = clusters.owners
    a, b = np.empty(len(owners)), np.empty(len(owners))
    for rows, distances in blocks:
        own = (np.arange(len(distances)), owners[rows])
        a[rows] = distances[own]
        distances[own] = np.inf
        b[rows] = distances.min(axis=1)
    return a, b
