"""Exact change-points under partial knowledge: the pruned program with rules for segments."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from metriclearn.oracles.change_points import ChangePoints, PricedSegmentation
from metriclearn.oracles.feasibility import check_count
from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.knowledge import PartialPartition
from metriclearn.problem.known_loss import ChargedForm, Charges
from metriclearn.problem.partition import Partition

__all__ = ["ConstrainedChangePoints", "ConstrainedSegmentation"]


class ConstrainedChangePoints:
    """argmax ⟨A, M⟩ over the segmentations that agree with a partial one, exactly.

    Labeled optimal partitioning (LOPART, Hocking & Srivastava 2020) for A = ZZᵀ − λI and the
    regions "no change" and "exactly one"; here also with known changes and "at least one", for
    many features, inside loss-augmented inference (with −κN, or the charges of
    :class:`~metriclearn.problem.known_loss.KnownLoss`) and for a given number of segments.

    Every constraint is a condition on single segments (s, u], so that the recursion keeps its
    form and a segmentation without training label errors is found whenever there is one. O(Tr)
    memory and near-linear time, see :mod:`metriclearn.oracles.constrained_kernels`.

    Parameters
    ----------
    min_size : int
        Smallest number of samples in a segment.

    References
    ----------
    T. D. Hocking and A. Srivastava, Labeled optimal partitioning, arXiv:2006.13967, 2020.
    """

    def __init__(self, min_size: int = 1) -> None:
        self.min_size = min_size

    def __call__(
        self,
        form: LowRankForm | ChargedForm,
        n_clusters: int | None = None,
        known: PartialPartition | None = None,
    ) -> Partition:
        """Best segmentation that agrees with ``known``, with ``n_clusters`` segments if given.

        Raises
        ------
        ValueError
            If no segmentation with segments of ``min_size`` samples, or into ``n_clusters``, does.
        """
        check_count(type(self).__name__, form.n_samples, n_clusters, self.min_size)
        if known is None and isinstance(form, LowRankForm):
            return ChangePoints(self.min_size)(form, n_clusters)
        problem = ConstrainedSegmentation(form, known, self.min_size)
        if n_clusters is None:
            return Partition(ends=problem.solve(-form.shift)[1])
        return Partition(ends=problem.solve_count(n_clusters))


@dataclass(frozen=True)
class _Arrays:
    """What the kernels read: one signal, in one direction of time."""

    cumulative: NDArray
    table: NDArray | None
    slack: NDArray
    rules: NDArray


class ConstrainedSegmentation(PricedSegmentation):
    """Segmentations of one signal that agree with ``known``, at any price per segment.

    Parameters
    ----------
    form : LowRankForm or ChargedForm
        Its ``shift`` is not used: the price takes its place.
    known : PartialPartition, optional
    min_size : int
    """

    def __init__(
        self,
        form: LowRankForm | ChargedForm,
        known: PartialPartition | None = None,
        min_size: int = 1,
    ) -> None:
        from metriclearn.oracles import constrained_kernels

        self._kernels = constrained_kernels
        charged = ChargedForm.from_low_rank(form) if isinstance(form, LowRankForm) else form
        known = PartialPartition(form.n_samples) if known is None else known
        if known.n_samples != form.n_samples:
            raise ValueError(
                f"ConstrainedChangePoints needs partial labels for the {form.n_samples} samples, "
                f"got some for {known.n_samples}."
            )
        self.n_samples, self.min_size, self.scale = form.n_samples, min_size, charged.scale
        self.known = known
        cumulative = np.ascontiguousarray(charged.cumulative, dtype=np.float64)
        if not np.all(np.isfinite(cumulative)):
            raise ValueError("ConstrainedChangePoints needs finite factors; remove NaN, infinity.")
        self._charges = charged.charges
        rules = np.array(known.rules())
        self._arrays = _Arrays(cumulative, *self._charged(self._charges), rules)

    def solve(self, price: float) -> tuple[float, NDArray[np.int64]]:
        """(V(K), segment ends) of a maximizer of V(K) − price·K.

        Raises
        ------
        ValueError
            If no segmentation agrees.
        """
        forward, last = self._forward(self._arrays, price)
        if forward[-1] == -np.inf:
            raise ValueError(
                "ConstrainedChangePoints needs a segmentation with segments of at least "
                f"{self.min_size} samples that agrees with the annotations, but there is none; "
                "lower min_size or remove annotations that lie close together."
            )
        ends = [self.n_samples]
        while last[ends[-1]] > 0:
            ends.append(int(last[ends[-1]]))
        return self._with_value(np.array(ends[::-1], dtype=np.int64))

    def finest(self) -> tuple[float, NDArray[np.int64]]:
        """(V(K), segment ends) for the largest K that agrees."""
        return self._extremes[1]

    def coarsest(self) -> tuple[float, NDArray[np.int64]]:
        """(V(K), segment ends) for the smallest K that agrees."""
        return self._extremes[0]

    @cached_property
    def _extremes(self) -> tuple[tuple[float, NDArray], tuple[float, NDArray]]:
        beyond = self._beyond()
        return self.solve(beyond), self.solve(-beyond)

    def solve_count(self, n_segments: int) -> NDArray[np.int64]:
        """Segment ends of a maximizer with exactly ``n_segments`` segments.

        All numbers from the smallest to the largest that agree with the annotations occur: the
        constraints bound sums over intervals of positions, an interval (totally unimodular)
        matrix, and so does the number itself.
        """
        fewest, most = len(self.coarsest()[1]), len(self.finest()[1])
        if not fewest <= n_segments <= most:
            raise ValueError(
                f"ConstrainedChangePoints needs from {fewest} to {most} segments to agree with "
                f"the annotations, got n_clusters={n_segments}."
            )
        return super().solve_count(n_segments)

    def _beyond(self) -> float:
        """A price above the range of V."""
        steps = np.diff(self._arrays.cumulative, axis=0)
        charged = 0.0
        if self._arrays.table is not None:
            magnitude = float(np.max(np.abs(self._arrays.table[:, [1, 5, 11]])))
            charged = self.scale * self.n_samples * (4.0 * magnitude + 2.0)
        return 2.0 * (float(np.sum(steps * steps)) + charged) + 1e-300

    def _forward(self, arrays: _Arrays, price: float) -> tuple[NDArray, NDArray]:
        return self._kernels.best_allowed(
            arrays.cumulative,
            arrays.table,
            self.scale,
            -float(price),
            arrays.slack + price,
            arrays.rules,
            self.min_size,
        )

    def _with_value(self, ends: NDArray[np.int64]) -> tuple[float, NDArray[np.int64]]:
        arrays = self._arrays
        value = self._kernels.charged_values(arrays.cumulative, arrays.table, self.scale, ends)
        return float(value), ends

    def _merge_price(self, finer: tuple[float, NDArray], n_segments: int) -> float:
        arrays = self._arrays
        merges = self._kernels.charged_merges
        losses = np.sort(merges(arrays.cumulative, arrays.table, self.scale, finer[1]))
        position = len(finer[1]) - n_segments
        return float(np.mean(losses[position - 1 : position + 1]))

    def _off_hull(
        self, n_segments: int, low: tuple[float, NDArray], high: tuple[float, NDArray]
    ) -> NDArray[np.int64]:
        """K strictly inside an edge of the hull: layers over the positions still possible.

        The positions whose best priced segmentation is best come first, twice as many each time
        until they hold a segmentation into K; then all that its value could not rule out.
        """
        price = (high[0] - low[0]) / (len(high[1]) - len(low[1]))
        forward, _ = self._forward(self._arrays, price)
        backward = self._forward(self._mirrored(), price)[0][::-1]
        through = forward + backward
        bound = float(forward[-1])
        rounding = 1e-11 * (abs(bound) + abs(price) * n_segments)
        order = np.argsort(-through[1:], kind="stable") + 1
        order = order[through[order] > -np.inf]
        count, floor = min(len(order), 2 * n_segments + 50), -np.inf
        positions = np.unique(np.append(order[:count], self.n_samples))
        arrays = self._arrays
        while True:
            value, ends = self._kernels.allowed_layers(
                arrays.cumulative,
                arrays.table,
                self.scale,
                price,
                arrays.rules,
                self.min_size,
                n_segments,
                positions,
                backward,
                floor,
            )
            if value > -np.inf:
                floor = value - rounding
                needed = order[through[order] >= floor]
                if np.isin(needed, positions).all():
                    return ends
                positions = np.unique(np.append(needed, positions))
            else:
                count = min(len(order), 2 * count)
                positions = np.unique(np.append(order[:count], self.n_samples))

    def _mirrored(self) -> _Arrays:
        """The same with time reversed."""
        sums = self._arrays.cumulative
        cumulative = np.ascontiguousarray(sums[-1] - sums[::-1])
        rules = np.array(self.known.mirrored().rules())
        return _Arrays(cumulative, *self._charged(self._charges.mirrored()), rules)

    def _charged(self, charges: Charges) -> tuple[NDArray | None, NDArray]:
        return (charges.table if self.scale else None), self.scale * charges.slack
