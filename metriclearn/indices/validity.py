"""Internal validity: Davies–Bouldin, Calinski–Harabasz and four silhouettes.

These indices judge a clustering by its points, without a true clustering. All of them raise
ValueError for fewer than two clusters. With ``metric=``, distances are computed under a learned
metric: a matrix B, its diagonal, or a fitted learner. Unlike the indices of scikit-learn, these
indices give exact values for degenerate clusters, and are accurate for points far from the origin.

References
----------
L. Vendramin, R. J. G. B. Campello and E. R. Hruschka, "Relative clustering validity criteria: a
comparative overview", Statistical Analysis and Data Mining 3, 2010, define all these indices. Each
function cites the origin of its index.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.indices.contingency import Labels
from metriclearn.indices.distances import clustered_points
from metriclearn.running.parameters import OneOf, needs

SilhouetteKind = Literal["original", "simplified", "alternative", "hybrid"]


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
    from scipy.spatial.distance import cdist

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
    kind: Annotated[
        SilhouetteKind, OneOf("original", "simplified", "alternative", "hybrid")
    ] = "original",
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
    return clusters.unsorted(values)
