"""Exact change-points of many sequences at once, on any device that torch has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.base import BaseEstimator

from metriclearn.oracles.change_points import truth_table
from metriclearn.problem.forms import LowRankForm, check_squares
from metriclearn.problem.partition import Partition, check_count
from metriclearn.running.extras import optional


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

    Raises
    ------
    ValueError
        For parameters that cannot be used, or where no segmentation has so many segments.
    ImportError
        If torch is not installed.

    References
    ----------
    Lajugie, Arlot & Bach, Large-Margin Metric Learning for Partitioning Problems, Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn import LowRankForm, TorchChangePoints
    >>> form = LowRankForm(np.repeat([[0.0], [2.0]], 5, axis=0)).shifted(-1.0)
    >>> TorchChangePoints("cpu")(form).change_points.tolist()
    [5, 10]
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
        torch = optional("torch", "gpu")

        counts = [None] * len(forms) if n_clusters is None else list(n_clusters)
        for form, count in zip(forms, counts, strict=True):
            check_count(type(self).__name__, form.n_samples, count, self.min_size)
            check_squares(type(self).__name__, form.cumulative)
        n, most = len(forms), max(count or 0 for count in counts)
        n_positions = 1 + max(form.n_samples for form in forms)
        sums = np.zeros((n, n_positions, max(form.cumulative.shape[1] for form in forms)))
        tables = np.zeros((4, n, n_positions))
        for i, form in enumerate(forms):
            sums[i, : form.n_samples + 1, : form.cumulative.shape[1]] = form.cumulative
            if form.truth is not None and form.weight:
                table = truth_table(form.truth.change_points, form.n_samples)
                tables[:, i, : form.n_samples + 1] = table[:, :4].T
        scalars = np.array([[[form.weight], [form.shift]] for form in forms], dtype=np.float64)
        S, (true_start, share, before, after), (weight, shift), places = (
            torch.as_tensor(array, device=self.device)
            for array in (sums, tables, scalars.swapaxes(0, 1), np.arange(float(n_positions)))
        )
        # value[i, j, t]: the best of the first t samples in any number of segments (j = 0), or in
        # j − 1 segments; last[i, j, t]: the start of its last segment in any number, or in j.
        value = torch.full((n, most + 2, n_positions), -torch.inf, dtype=S.dtype, device=S.device)
        value[:, :2, 0] = 0.0
        last = torch.zeros((n, most + 1, n_positions), dtype=torch.int64, device=S.device)
        for u in range(self.min_size, n_positions):
            s = slice(u - self.min_size + 1)
            lengths = u - places[s]
            inside = lengths**2 * share[:, u, None]
            overlap = inside.where(
                places[s] >= true_start[:, u, None], before[:, u, None] + after[:, s]
            )
            energy = ((S[:, u, None] - S[:, s]) ** 2).sum(2)
            worth = (energy - weight * overlap) / lengths + shift
            best, last[:, :, u] = (value[:, :-1, s] + worth[:, None]).max(2)
            value[:, 0, u], value[:, 2:, u] = best[:, 0], best[:, 1:]
        partitions = []
        for form, count, starts in zip(forms, counts, last.cpu().numpy()):
            ends, k = [form.n_samples], count or 0
            while start := int(starts[k, ends[-1]]):
                ends.append(start)
                k -= count is not None
            partitions.append(Partition(ends=np.array(ends[::-1])))
        return partitions
