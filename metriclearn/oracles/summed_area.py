"""Find change-points for any symmetric matrix, by a summed-area table: the paper's Algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from metriclearn.problem.forms import Form, center
from metriclearn.problem.partition import Partition, check_count
from metriclearn.running.parameters import Whole
from metriclearn.running.values import real_array


@dataclass(eq=False, repr=False)
class SummedArea(BaseEstimator):
    """Maximize ⟨A, M⟩ over segmentations, for any form, in O(T²) time and memory (Algorithm 1).

    This oracle is a readable reference for
    :class:`~metriclearn.oracles.change_points.ChangePoints`. ``SummedArea`` also takes arbitrary
    matrices, such as kernels. If K is given, the time is O(KT²). The indices in the paper's listing
    are inconsistent. The correct recursion is C(u) = max_s C(s) + block(s+1..u)/(u−s), where
    block(s+1..u) is the sum of A over the rows and columns s+1 … u.

    Parameters
    ----------
    min_size : int
        Smallest number of samples in a segment.

    Raises
    ------
    ValueError
        If parameters cannot be used, or if no segmentation has the given number of segments.
    """

    min_size: Annotated[int, Whole(1)] = 1

    def __call__(self, form: Form, n_clusters: int | None = None) -> Partition:
        """Find the best segmentation, with ``n_clusters`` segments if this number is given.

        Raises
        ------
        ValueError
            If T samples cannot hold ``n_clusters`` segments.
        """
        who = type(self).__name__
        n_clusters, _ = check_count(who, form.n_samples, n_clusters, self.min_size)
        worth, best, starts = self._segment_worth(form), np.full(form.n_samples + 1, -np.inf), []
        best[0] = 0.0
        if n_clusters is None:
            start = np.zeros(len(best), dtype=int)
            for u in range(1, len(best)):
                values = best[:u] + worth[:u, u]
                start[u] = np.argmax(values)
                best[u] = values[start[u]]
            return Partition.from_change_points(followed(start[None]))
        for _ in range(n_clusters):
            values = best[:, None] + worth
            starts.append(np.argmax(values, axis=0))
            best = np.max(values, axis=0)
        return Partition.from_change_points(followed(np.array(starts)))

    def _segment_worth(self, form: Form) -> NDArray:
        """Compute block(s+1..u)/(u−s) for all s and u, (T+1, T+1), and −inf for short segments."""
        # M1 = 1 for every partition. So the values of A and CAC, C = I − 11ᵀ/T, differ by a
        # constant. Sums of CAC keep their digits if the data have an offset.
        T = form.n_samples
        if hasattr(form, "recentered"):
            form = form.recentered()
        with np.errstate(over="ignore", invalid="ignore"):  # a clear error is raised below
            centered = center(form.matvec(np.eye(T) - 1.0 / T))
        area = np.zeros((T + 1, T + 1))
        sums = np.cumsum(np.cumsum(centered, axis=0), axis=1)
        area[1:, 1:] = real_array("SummedArea", "sums of the form", sums)
        corner = np.diag(area)
        s, u = np.arange(T + 1)[:, None], np.arange(T + 1)[None, :]
        blocks = corner[:, None] + corner[None, :] - area - area.T
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(u - s >= self.min_size, blocks / (u - s), -np.inf)


def followed(back: NDArray) -> NDArray[np.int64]:
    """Follow back-pointers from the last position, and return the ends of the best segments.

    ``back`` holds for every end u the start of the last segment of the best segmentation up to u.
    If it has a row for every number of segments, each step back also moves up one row.
    """
    u, k, ends = back.shape[1] - 1, len(back) - 1, []
    while u > 0:
        ends.append(u)
        u, k = int(back[k if len(back) > 1 else 0, u]), k - 1
    return np.array(ends[::-1], dtype=np.int64)
