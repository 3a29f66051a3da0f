"""Exact change-points of many sequences at once, on any device that torch has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.partition import Partition, check_count

__all__ = ["TorchChangePoints"]


class TorchChangePoints(BaseEstimator):
    """argmax ⟨A, M⟩ over segmentations for A = ZZᵀ − κN + cI, exactly, in torch operations.

    The recursion F(u) = max_s F(s) + f(s,u) of Algorithm 1, for all starts s and all sequences of
    a batch in one operation per end u, without pruning: O(T²r) for each sequence, O(KT²) more
    where the number of segments is given. It has never been measured on a GPU; on a processor
    :class:`~metriclearn.oracles.change_points.ChangePoints` is faster by orders of magnitude, and
    no estimator uses this oracle unless it is passed to it.

    Parameters
    ----------
    device : str
        "cuda", "cuda:1", "cpu" or another torch device with double precision.
    min_size : int
        Smallest number of samples in a segment.

    References
    ----------
    Lajugie, Arlot & Bach, Large-Margin Metric Learning for Partitioning Problems, Algorithm 1.
    """

    def __init__(self, device: str = "cuda", min_size: int = 1) -> None:
        self.device = device
        self.min_size = min_size

    def __call__(self, form: LowRankForm, n_clusters: int | None = None) -> Partition:
        """Best segmentation, with ``n_clusters`` segments if given."""
        return self.many([form], [n_clusters])[0]

    def many(
        self, forms: Sequence[LowRankForm], n_clusters: Sequence[int | None] | None = None
    ) -> list[Partition]:
        """Best segmentations of several forms, padded to the longest and done together.

        Parameters
        ----------
        forms : sequence of LowRankForm
        n_clusters : sequence of int or None, optional
            Numbers of segments, one for each form.

        Raises
        ------
        ValueError
            If T samples cannot hold the segments that are asked for, or a reference partition is
            not contiguous.
        """
        import torch

        counts = [None] * len(forms) if n_clusters is None else list(n_clusters)
        for form, count in zip(forms, counts, strict=True):
            check_count(type(self).__name__, form.n_samples, count, self.min_size)
        batch = _Batch(forms, self.device)
        most = max(count or 0 for count in counts)
        # value[i, j, t]: the best of the first t samples in any number of segments (j = 0), or in
        # j − 1 segments; last[i, j, t]: the start of its last segment in any number, or in j.
        shape = (len(forms), most + 2, batch.n_positions)
        value = torch.full(shape, -torch.inf, dtype=torch.float64, device=batch.device)
        value[:, :2, 0] = 0.0
        last = torch.zeros(shape, dtype=torch.int64, device=batch.device)[:, :-1]
        for u in range(self.min_size, batch.n_positions):
            stop = u - self.min_size + 1
            reached = value[:, :-1, :stop] + batch.worth(u, stop)[:, None]
            best, last[:, :, u] = reached.max(2)
            value[:, 0, u], value[:, 2:, u] = best[:, 0], best[:, 1:]
        starts = last.cpu().numpy()
        return [
            Partition(ends=_ends(starts[i], form.n_samples, count))
            for i, (form, count) in enumerate(zip(forms, counts))
        ]


class _Batch:
    """f(s, u) of several forms: cumulative sums (n, T+1, r) and tables of true segments."""

    def __init__(self, forms: Sequence[LowRankForm], device: str) -> None:
        import torch

        from metriclearn.oracles.change_points import truth_table

        self.n_positions = 1 + max(form.n_samples for form in forms)
        rank = max(form.cumulative.shape[1] for form in forms)
        sums = np.zeros((len(forms), self.n_positions, rank))
        tables = np.zeros((4, len(forms), self.n_positions))
        for i, form in enumerate(forms):
            sums[i, : form.n_samples + 1, : form.cumulative.shape[1]] = form.cumulative
            if form.truth is not None and form.weight:
                table = truth_table(form.truth.change_points, form.n_samples)
                tables[:, i, : form.n_samples + 1] = table[:, :4].T
        self.device = torch.device(device)
        self._sums, self._tables, self._weights, self._shifts = (
            torch.as_tensor(values, dtype=torch.float64, device=self.device)
            for values in (
                sums,
                tables,
                [[form.weight] for form in forms],
                [[form.shift] for form in forms],
            )
        )
        self._positions = torch.arange(self.n_positions, dtype=torch.float64, device=self.device)

    def worth(self, u: int, stop: int) -> Any:
        """f(s, u) of every form for s = 0 … stop − 1, (n, stop)."""
        lengths = u - self._positions[:stop]
        energies = ((self._sums[:, u, None] - self._sums[:, :stop]) ** 2).sum(2)
        start, share, before, after = self._tables  # as in truth_table
        inside = self._positions[:stop] >= start[:, u, None]
        overlap = (before[:, u, None] + after[:, :stop]).where(
            ~inside, lengths**2 * share[:, u, None]
        )
        return (energies - self._weights * overlap) / lengths + self._shifts


def _ends(last: NDArray, n_samples: int, count: int | None) -> NDArray[np.int64]:
    """Segment ends, from the last starts in any number of segments, 1, 2, … of them, (K+1, T+1)."""
    ends, k = [n_samples], count or 0
    while start := int(last[k, ends[-1]]):
        ends.append(start)
        k -= count is not None
    return np.array(ends[::-1])
