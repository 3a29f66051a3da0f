"""Points sorted by cluster, and their distances, computed in blocks to limit memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.indices.contingency import Labels, label_codes
from metriclearn.running.parameters import check_scale, metric_factor, real_array

_BLOCK_ENTRIES = 4_000_000  # distances held at once, 32 MB


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
        from scipy.spatial.distance import cdist

        step = max(1, _BLOCK_ENTRIES // len(targets))
        for k, stop in enumerate(np.cumsum(self.sizes).tolist()):
            for first in range(int(self.starts[k]), stop, step):
                rows = slice(first, min(first + step, stop))
                yield k, rows, cdist(self.points[rows], targets)

    def unsorted(self, values: NDArray) -> NDArray:
        """Reorder values of the sorted points to the order of X."""
        result = np.empty_like(values)
        result[self.order] = values
        return result


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
    points = _transformed(real_array("An internal index", "X", X), metric)
    check_scale("An internal index", points)
    codes = label_codes(labels)
    if len(codes) != len(points):
        raise ValueError(
            f"An internal index needs one label per point, got {len(codes)} labels for "
            f"{len(points)} points."
        )
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


def _transformed(points: NDArray[np.float64], metric: Any) -> NDArray[np.float64]:
    if metric is None:
        return points
    if hasattr(metric, "transform") and not hasattr(metric, "iloc"):  # data frames have both
        return np.asarray(metric.transform(points), dtype=np.float64)
    return points @ metric_factor("An internal index", metric, points.shape[1])
