"""Exact change-points in near-linear time: pruned dynamic programming and search over prices."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
from numpy.typing import NDArray

from metriclearn.oracles.feasibility import check_count
from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.partition import Partition

__all__ = ["ChangePoints", "CountSearch", "PricedSegmentation"]

CountSearch = Generator[float, tuple[float, NDArray[np.int64]], NDArray[np.int64]]


class ChangePoints:
    """argmax ⟨A, M⟩ over segmentations for A = ZZᵀ − κN + cI, exactly.

    The number of segments follows from c, or is given. Unknown: one pruned dynamic program.
    Known: the price per segment is moved along secants of the concave hull of (K, V(K)) until
    the program returns K segments, and only if K is not on the hull a layered program runs over
    the few positions that the search could not rule out. O(Tr) memory; a handful of microseconds
    per sample. See :mod:`metriclearn.oracles.pruned` for the pruning rule.

    Parameters
    ----------
    min_size : int
        Smallest number of samples in a segment; the result stays exact for every value.
    """

    def __init__(self, min_size: int = 1) -> None:
        self.min_size = min_size

    def __call__(self, form: LowRankForm, n_clusters: int | None = None) -> Partition:
        """Best segmentation, with ``n_clusters`` segments if given.

        Raises
        ------
        ValueError
            If T samples cannot hold the segments that are asked for, or the reference partition
            of the form is not contiguous.
        """
        check_count(type(self).__name__, form.n_samples, n_clusters, self.min_size)
        problem = PricedSegmentation(form, self.min_size)
        if n_clusters is None:
            return Partition(ends=problem.solve(-form.shift)[1])
        return Partition(ends=problem.solve_count(n_clusters))


class PricedSegmentation:
    """Segmentations of one signal at any price per segment.

    V(K) is the best ⟨ZZᵀ − κN, M⟩ with K segments, and :meth:`solve` maximizes V(K) − λK.

    Parameters
    ----------
    form : LowRankForm
        Its ``shift`` is not used: the price takes its place.
    min_size : int
        Smallest number of samples in a segment.
    """

    def __init__(self, form: LowRankForm, min_size: int = 1) -> None:
        if not isinstance(form, LowRankForm):
            raise TypeError(
                f"ChangePoints needs a LowRankForm, got {type(form).__name__}; "
                "use the SummedArea oracle for other forms."
            )
        from metriclearn.oracles import pruned

        self._pruned = pruned
        self.n_samples, self.min_size = form.n_samples, min_size
        if form.n_samples + min_size >= 2**31:
            raise ValueError(
                f"ChangePoints needs fewer than 2**31 samples, got {form.n_samples}; divide the "
                "sequence."
            )
        self.cumulative = np.ascontiguousarray(form.cumulative, dtype=np.float64)
        if not np.all(np.isfinite(self.cumulative[-1])):  # no sum recovers from NaN or infinity
            raise ValueError("ChangePoints needs finite factors, got NaN or infinity; remove them.")
        self.weight = float(form.weight) if form.truth is not None else 0.0
        self.truth: NDArray | None = None
        self.table: NDArray | None = None
        if form.truth is not None and self.weight:
            self.truth = form.truth.change_points
            self.table = pruned.truth_table(self.truth, form.n_samples)

    def solve(self, price: float) -> tuple[float, NDArray[np.int64]]:
        """(V(K), segment ends) of a maximizer of V(K) − price·K."""
        _, last = self._pruned.best_segmentation(
            self.cumulative, self.table, self.weight, -float(price), self.min_size
        )
        ends = [self.n_samples]
        while last[ends[-1]] > 0:
            ends.append(int(last[ends[-1]]))
        return self._with_value(np.array(ends[::-1], dtype=np.int64))

    def finest(self) -> tuple[float, NDArray[np.int64]]:
        """(V(K), segment ends) for the largest possible K."""
        if self.min_size == 1:
            return self._with_value(np.arange(1, self.n_samples + 1))
        every = np.arange(1, self.n_samples + 1)
        energy = self._pruned.segment_values(self.cumulative, None, 0.0, 0.0, every)
        overlap = self.weight * (0 if self.truth is None else len(self.truth))
        most = float(energy) + overlap  # at least the range of V
        return self.solve(-2.0 * most if most > 0 else -1.0)

    def coarsest(self) -> tuple[float, NDArray[np.int64]]:
        """(V(1), segment ends)."""
        return self._with_value(np.array([self.n_samples]))

    def solve_count(self, n_segments: int) -> NDArray[np.int64]:
        """Segment ends of a maximizer with exactly ``n_segments`` segments."""
        search = self.search(n_segments)
        try:
            price = next(search)
            while True:
                price = search.send(self.solve(price))
        except StopIteration as found:
            return found.value

    def search(self, n_segments: int) -> CountSearch:
        """:meth:`solve_count` as a generator: prices out, what :meth:`solve` finds there in.

        So that several searches can be answered together.
        """
        low, high = self.coarsest(), self.finest()
        guessed = high
        while len(low[1]) < n_segments < len(high[1]):
            found = None
            if high is not guessed:
                guessed = high
                found = self._inside(low, high, *(yield self._merge_price(high, n_segments)))
            if found is None:
                price = self._chord(low, high)
                found = self._above(low, high, price, *(yield price))
            if found is None:
                return self._off_hull(n_segments, low, high)
            low, high = (found, high) if len(found[1]) <= n_segments else (low, found)
        return low[1] if len(low[1]) == n_segments else high[1]

    def _merge_price(self, finer: tuple[float, NDArray], n_segments: int) -> float:
        """A price that would leave ``n_segments`` if segments merged one by one.

        It lies between two of the sorted losses of merging neighbors: a guess, which on clear
        data hits, and otherwise still gives a vertex of the hull.
        """
        losses = np.sort(
            self._pruned.merge_losses(self.cumulative, self.table, self.weight, finer[1])
        )
        position = len(finer[1]) - n_segments
        return float(np.mean(losses[position - 1 : position + 1]))

    def between(
        self, low: tuple[float, NDArray], high: tuple[float, NDArray]
    ) -> tuple[float, NDArray] | None:
        """A vertex of the hull of (K, V(K)) above the chord of two vertices, if there is one."""
        price = self._chord(low, high)
        return self._above(low, high, price, *self.solve(price))

    @staticmethod
    def _chord(low: tuple[float, NDArray], high: tuple[float, NDArray]) -> float:
        return (high[0] - low[0]) / (len(high[1]) - len(low[1]))

    def _above(
        self,
        low: tuple[float, NDArray],
        high: tuple[float, NDArray],
        price: float,
        value: float,
        ends: NDArray,
    ) -> tuple[float, NDArray] | None:
        """What the price of the chord found, where it is a vertex above the chord."""
        gain = (value - price * len(ends)) - (low[0] - price * len(low[1]))
        rounding = 1e-12 * (abs(low[0]) + abs(high[0]) + abs(price) * len(high[1]))
        return self._inside(low, high, value, ends) if gain > rounding else None

    @staticmethod
    def _inside(
        low: tuple[float, NDArray], high: tuple[float, NDArray], value: float, ends: NDArray
    ) -> tuple[float, NDArray] | None:
        return (value, ends) if len(low[1]) < len(ends) < len(high[1]) else None

    def _with_value(self, ends: NDArray[np.int64]) -> tuple[float, NDArray[np.int64]]:
        value = self._pruned.segment_values(self.cumulative, self.table, self.weight, 0.0, ends)
        return float(value), ends

    def _off_hull(
        self, n_segments: int, low: tuple[float, NDArray], high: tuple[float, NDArray]
    ) -> NDArray[np.int64]:
        """K strictly inside an edge of the hull: layers over the positions still possible.

        At the price of the edge, a segmentation through t is worth at most forward(t) +
        backward(t); positions where that misses a known segmentation into K are out.
        """
        from metriclearn.oracles.layered import layered_segmentation

        price = self._chord(low, high)
        forward, backward = self._through(price)
        rest = np.zeros((2, self.n_samples + 1))
        rest[0], rest[1, 0] = backward, price
        through = forward + backward
        bound = float(forward[-1])
        rounding = 1e-11 * (abs(bound) + abs(price) * n_segments)
        positions = self._plausible(n_segments, low[1], high[1], through)
        floor = -np.inf
        while True:
            value, ends = layered_segmentation(
                self.cumulative,
                self.table,
                self.weight,
                self.min_size,
                n_segments,
                positions,
                rest,
                floor,
            )
            floor = value - rounding
            needed = np.flatnonzero(through[1:] >= floor) + 1
            if floor >= bound - 2 * rounding or np.isin(needed, positions).all():
                return ends
            positions = needed

    def _plausible(
        self, n_segments: int, low: NDArray, high: NDArray, through: NDArray
    ) -> NDArray[np.int64]:
        """A few hundred good positions that surely hold a segmentation into K segments."""
        count = min(self.n_samples, 2 * n_segments + 50)
        best = np.argpartition(through[1:], -count)[-count:] + 1
        grid = np.arange(1, n_segments + 1) * self.min_size
        grid[-1] = self.n_samples
        chosen = [best, low, grid] + ([high] if len(high) <= 2 * count else [])
        return np.unique(np.concatenate(chosen))

    def _through(self, price: float) -> tuple[NDArray, NDArray]:
        """Best priced value of every prefix and of every suffix."""
        solve = self._pruned.best_segmentation
        forward, _ = solve(self.cumulative, self.table, self.weight, -price, self.min_size)
        mirrored = np.ascontiguousarray(self.cumulative[-1] - self.cumulative[::-1])
        table = None
        if self.truth is not None:
            ends = np.append(self.n_samples - self.truth[-2::-1], self.n_samples)
            table = self._pruned.truth_table(ends, self.n_samples)
        backward, _ = solve(mirrored, table, self.weight, -price, self.min_size)
        return forward, backward[::-1]
