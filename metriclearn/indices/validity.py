"""Internal validity: Davies–Bouldin, Calinski–Harabasz, 18 indices of Dunn and four silhouettes.

These indices judge a clustering by its points, without a true clustering. All of them raise
ValueError for fewer than two clusters. With ``metric=``, distances are computed under a learned
metric: a matrix B, its diagonal, or a fitted learner. Unlike the indices of scikit-learn, these
indices give exact values for degenerate clusters, and are accurate for points far from the origin.
Distances are computed in blocks to limit memory.

References
----------
L. Vendramin, R. J. G. B. Campello and E. R. Hruschka, "Relative clustering validity criteria: a
comparative overview", Statistical Analysis and Data Mining 3, 2010, define all these indices. Each
function cites the origin of its index.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from metriclearn.indices.contingency import Labels, label_codes
from metriclearn.running.parameters import OneOf, needs
from metriclearn.running.values import check_each, check_scale, metric_factor, real_array

_BLOCK_ENTRIES = 4_000_000  # distances held at once, 32 MB
SEPARATIONS = ("single", "complete", "average", "centroid", "average_to_centroids", "hausdorff")
DIAMETERS = ("complete", "average", "centroid")
SilhouetteKind = Literal["original", "simplified", "alternative", "hybrid"]


@dataclass(frozen=True, slots=True, eq=False)
class ClusteredPoints:
    """The points of a clustering, sorted by cluster.

    Attributes
    ----------
    points : float array, shape (n, d)
        The sorted points. If a metric is given, the points are transformed so that their Euclidean
        distances equal the distances under the metric.
    order : int array, shape (n,)
        The sorted point i is point ``order[i]`` of X.
    starts : int array, shape (K,)
        Index of the first sorted point of every cluster.
    sizes : int array, shape (K,)
        Number of points of every cluster.
    centroids : float array, shape (K, d)
        Mean of every cluster.
    """

    points: NDArray[np.float64]
    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    centroids: NDArray[np.float64]

    @property
    def squared_spreads(self) -> NDArray[np.float64]:
        """Squared distance of every sorted point to the centroid of its cluster, (n,) array."""
        offsets = _relative(self.points, self.centroids, self.sizes)
        return np.einsum("ij,ij->i", offsets, offsets)

    def distances_to(self, targets: NDArray) -> Iterator[tuple[int, slice, NDArray[np.float64]]]:
        """Compute the distances from all points to ``targets``, in blocks of points.

        The points of a block are in the same cluster. The method yields three things for every
        block: the cluster, the slice of the sorted points that are in the block, and the distances
        of these points to all targets, an array (points, targets). A block takes at most 32 MB,
        unless the distances of a single point take more. The time is O(n d) per target.
        """
        step = max(1, _BLOCK_ENTRIES // len(targets))
        for k, stop in enumerate(np.cumsum(self.sizes).tolist()):
            for first in range(int(self.starts[k]), stop, step):
                rows = slice(first, min(first + step, stop))
                yield k, rows, cdist(self.points[rows], targets)


def clustered_points(X: ArrayLike, labels: Labels, metric: Any = None) -> ClusteredPoints:
    """Check the points and sort them by cluster. Raises ValueError for fewer than two clusters.

    Parameters
    ----------
    X : array of shape (n, d)
    labels : n labels
    metric : None, (d, d) matrix B, (d,) weights, or a learner
        The Euclidean distance by default. B gives the distance √((x−y)ᵀB(x−y)), and weights are the
        diagonal of B. A learner with ``transform`` transforms the points. If a learner has no
        ``transform``, its ``get_mahalanobis_matrix`` gives B.
    """
    points = real_array("An internal index", "X", X)
    if hasattr(metric, "transform") and not hasattr(metric, "iloc"):  # data frames have both
        points = np.asarray(metric.transform(points), dtype=np.float64)
    elif metric is not None:
        points = points @ metric_factor("An internal index", metric, points.shape[1])
    check_scale("An internal index", points)
    codes = label_codes(labels)
    check_each("An internal index", "label", len(codes), "points", len(points))
    narrow = codes.astype(np.uint16) if codes.max() < 2**16 else codes  # numpy sorts it by radix
    order = np.argsort(narrow, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    if len(starts) < 2:
        raise ValueError("An internal index needs at least two clusters, got one.")
    points = points.take(order, axis=0)
    sizes = np.diff(starts, append=len(points))
    # relative to a point of the cluster, so that equal points have exactly zero spread
    origin = points[starts]
    offsets = np.add.reduceat(_relative(points, origin, sizes), starts, axis=0)
    return ClusteredPoints(points, order, starts, sizes, origin + offsets / sizes[:, None])


def _relative(points: NDArray, origins: NDArray, sizes: NDArray) -> NDArray[np.float64]:
    """Subtract row k of ``origins`` from all sorted points of cluster k."""
    result = np.repeat(origins, sizes, axis=0)
    return np.subtract(points, result, out=result)


def davies_bouldin_score(X: ArrayLike, labels: Labels, *, metric: Any = None) -> float:
    """Davies–Bouldin index (1/K) Σ_i max_{j≠i} (s_i + s_j) / ‖c_i − c_j‖. Small values are good.

    s_i is the mean distance from the points of cluster i to its centroid c_i. If two centroids
    coincide, the index is inf (scikit-learn drops such pairs). It takes O(n d + K² d) time.

    Parameters
    ----------
    X : array (n, d)
        The points, all finite.
    labels : n hashables
        The cluster of every point. There must be at least two clusters.
    metric : array (d, d) or (d,), or fitted learner, optional
        A Mahalanobis matrix or its diagonal, or an object with ``transform`` or
        ``get_mahalanobis_matrix``. By default, distances are Euclidean.

    Returns
    -------
    float in [0, ∞]

    Raises
    ------
    ValueError
        If X is not finite, if there is not one label per point, or if there is only one cluster.

    References
    ----------
    D. L. Davies and D. W. Bouldin, "A cluster separation measure", IEEE Transactions on Pattern
    Analysis and Machine Intelligence 1, 1979.
    """
    clusters = clustered_points(X, labels, metric)
    spreads = np.add.reduceat(np.sqrt(clusters.squared_spreads), clusters.starts) / clusters.sizes
    worst = np.empty(len(spreads))
    for i, centroid in enumerate(clusters.centroids):
        apart = cdist(centroid[None], clusters.centroids)[0]
        ratio = np.full(len(apart), np.inf)
        np.divide(spreads[i] + spreads, apart, out=ratio, where=apart > 0)
        worst[i] = np.delete(ratio, i).max()
    return float(worst.mean())


def calinski_harabasz_score(X: ArrayLike, labels: Labels, *, metric: Any = None) -> float:
    """Variance ratio criterion (tr B / tr W) · (n − K) / (K − 1). Large values are good.

    B is the scatter matrix between the clusters, and W is the scatter matrix within the clusters.
    If W = 0, the value is inf (1 in scikit-learn). It takes O(n d) time.

    Parameters
    ----------
    X : array (n, d)
        The points, all finite.
    labels : n hashables
        The cluster of every point. There must be at least two clusters.
    metric : array (d, d) or (d,), or fitted learner, optional
        A Mahalanobis matrix or its diagonal, or an object with ``transform`` or
        ``get_mahalanobis_matrix``. By default, distances are Euclidean.

    Returns
    -------
    float in [0, ∞]

    Raises
    ------
    ValueError
        If X is not finite, if there is not one label per point, or if there is only one cluster.
        Also raised if every cluster is a single point, because then n = K and W = 0.

    References
    ----------
    T. Caliński and J. Harabasz, "A dendrite method for cluster analysis", Communications in
    Statistics 3, 1974.
    """
    clusters = clustered_points(X, labels, metric)
    n, K = len(clusters.points), len(clusters.sizes)
    if n == K:
        raise ValueError(
            "calinski_harabasz_score needs fewer clusters than points, got one cluster per point."
        )
    within = clusters.squared_spreads.sum()
    origin = clusters.points[0]  # sums of offsets from it keep more digits when X is far from 0
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
    """Mean silhouette of all points. Large values are good.

    Parameters
    ----------
    X, labels, kind, metric, epsilon : see :func:`silhouette_samples`

    Returns
    -------
    float
        The range depends on ``kind``.

    Raises
    ------
    ValueError
        If X is not finite, if there is not one label per point, or if there is only one cluster.

    See Also
    --------
    silhouette_samples : computes the value of every point, and gives the reference.
    """
    samples = silhouette_samples(X, labels, kind=kind, metric=metric, epsilon=epsilon)
    return float(samples.mean())


@needs
def silhouette_samples(
    X: ArrayLike,
    labels: Labels,
    *,
    kind: SilhouetteKind = "original",
    metric: Any = None,
    epsilon: float = 1e-6,
) -> NDArray[np.float64]:
    """Silhouette of every point.

    The silhouette compares the distance a from the point to its own cluster with the distance b
    from the point to the nearest other cluster:

    ============= ============================ ================= ==================
    kind          distance to a cluster        value             range, cost
    ============= ============================ ================= ==================
    "original"    mean over its (other) points (b−a)/max(a,b)    [−1, 1], O(n² d)
    "simplified"  to its centroid              (b−a)/max(a,b)    [−1, 1], O(n K d)
    "alternative" mean over its (other) points b/(a+ε)           [0, b/ε], O(n² d)
    "hybrid"      to its centroid              b/(a+ε)           [0, b/ε], O(n K d)
    ============= ============================ ================= ==================

    A point that is alone in its cluster has the value 0, and so has a point with a = b = 0. If all
    points are alone (K = n), all values are 0 (scikit-learn raises an error). Because the distances
    are computed in blocks, they take about 100 MB of memory, or O(n) if that is more.

    Parameters
    ----------
    X : array (n, d)
        The points, all finite.
    labels : n hashables
        The cluster of every point. There must be at least two clusters.
    kind : str
        One of the kinds in the table.
    metric : array (d, d) or (d,), or fitted learner, optional
        A Mahalanobis matrix or its diagonal, or an object with ``transform`` or
        ``get_mahalanobis_matrix``. By default, distances are Euclidean.
    epsilon : float > 0
        The number ε of "alternative" and "hybrid", in the unit of the distances.

    Returns
    -------
    float array (n,)

    Raises
    ------
    ValueError
        If X is not finite, if there is not one label per point, or if there is only one cluster.

    References
    ----------
    P. J. Rousseeuw, "Silhouettes: a graphical aid to the interpretation and validation of cluster
    analysis", Journal of Computational and Applied Mathematics 20, 1987 (the original); Vendramin,
    Campello and Hruschka 2010 (the others).
    """
    clusters = clustered_points(X, labels, metric)
    sizes, by_centroids = clusters.sizes, kind in ("simplified", "hybrid")
    values = np.zeros(len(clusters.points))
    targets = clusters.centroids if by_centroids else clusters.points
    for k, rows, distances in clusters.distances_to(targets):
        if sizes[k] == 1:
            continue
        if not by_centroids:  # means over the (other) points of every cluster
            counts = sizes - (np.arange(len(sizes)) == k)
            distances = np.add.reduceat(distances, clusters.starts, axis=1) / np.maximum(counts, 1)
        a = distances[:, k].copy()
        distances[:, k] = np.inf
        b = distances.min(axis=1)
        if kind in ("original", "simplified"):
            larger = np.maximum(a, b)
            values[rows] = np.divide(b - a, larger, out=np.zeros_like(a), where=larger > 0)
        else:
            values[rows] = b / (a + epsilon)
    result = np.empty_like(values)
    result[clusters.order] = values
    return result


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
