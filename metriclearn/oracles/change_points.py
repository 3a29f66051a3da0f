"""Exact change-points in near-linear time: pruned dynamic programs and one search over prices."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from metriclearn.oracles import pruned
from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.knowledge import PartialPartition
from metriclearn.problem.losses import ChargedForm
from metriclearn.problem.partition import Partition, check_count

__all__ = ["ChangePoints", "ConstrainedChangePoints", "PricedSegmentation", "Vertex"]


class ChangePoints(BaseEstimator):
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

    def __call__(
        self,
        form: LowRankForm | ChargedForm,
        n_clusters: int | None = None,
        known: PartialPartition | None = None,
    ) -> Partition:
        """Best segmentation, with ``n_clusters`` segments if given.

        Parameters
        ----------
        form : LowRankForm or ChargedForm
        n_clusters : int, optional
        known : PartialPartition, optional
            Only segmentations that agree with it are candidates.

        Raises
        ------
        ValueError
            If T samples cannot hold the segments that are asked for, no segmentation agrees with
            ``known``, or the reference partition of the form is not contiguous.
        """
        check_count(type(self).__name__, form.n_samples, n_clusters, self.min_size)
        problem = PricedSegmentation(form, self.min_size, known)
        if n_clusters is None:
            return Partition(ends=problem.solve(-form.shift).ends)
        return Partition(ends=problem.solve_count(n_clusters))


class ConstrainedChangePoints(ChangePoints):
    """:class:`ChangePoints` under the name of its use with ``known``, a partial segmentation.

    Labeled optimal partitioning (LOPART, Hocking & Srivastava 2020) for A = ZZᵀ − λI and the
    regions "no change" and "exactly one"; here also with known changes and "at least one", for
    many features, inside loss-augmented inference (with −κN, or the charges of
    :class:`~metriclearn.problem.losses.KnownLoss`) and for a given number of segments.

    Every constraint is a condition on single segments (s, u], so that the recursion keeps its
    form and a segmentation without training label errors is found whenever there is one. O(Tr)
    memory and near-linear time.

    Parameters
    ----------
    min_size : int
        Smallest number of samples in a segment.

    References
    ----------
    T. D. Hocking and A. Srivastava, Labeled optimal partitioning, arXiv:2006.13967, 2020.
    """


class Vertex(NamedTuple):
    """The best segmentation with its number of segments K: V(K) and the segment ends (K,)."""

    value: float
    ends: NDArray[np.int64]


class PricedSegmentation:
    """Segmentations of one signal at any price per segment.

    V(K) is the best ⟨ZZᵀ − κN, M⟩, or value with charges, among the segmentations into K segments
    that agree with ``known``, and :meth:`solve` maximizes V(K) − λK. Its answers are vertices of
    the upper concave hull of (K, V(K)).

    Parameters
    ----------
    form : LowRankForm or ChargedForm
        Its ``shift`` is not used: the price takes its place.
    min_size : int
        Smallest number of samples in a segment.
    known : PartialPartition, optional

    Raises
    ------
    TypeError
        For any other form.
    ValueError
        If factors are not finite, or ``known`` is of another number of samples.
    """

    def __init__(
        self,
        form: LowRankForm | ChargedForm,
        min_size: int = 1,
        known: PartialPartition | None = None,
    ) -> None:
        if not isinstance(form, (LowRankForm, ChargedForm)):
            raise TypeError(
                f"ChangePoints needs a LowRankForm, got {type(form).__name__}; "
                "use the SummedArea oracle for other forms."
            )
        if form.n_samples + min_size >= 2**31:  # positions are 32-bit integers
            raise ValueError(
                f"ChangePoints needs fewer than 2**31 samples, got {form.n_samples}; divide the "
                "sequence."
            )
        if known is not None and known.n_samples != form.n_samples:
            raise ValueError(
                f"ConstrainedChangePoints needs partial labels for the {form.n_samples} samples, "
                f"got some for {known.n_samples}."
            )
        self.form, self.min_size, self.known = form, min_size, known
        self.n_samples = form.n_samples
        self._signal = self._read()
        if not np.all(np.isfinite(self._signal.cumulative[-1])):  # NaN and infinity stay in sums
            raise ValueError("ChangePoints needs finite factors, got NaN or infinity; remove them.")

    def solve(self, price: float) -> Vertex:
        """A maximizer of V(K) − price·K.

        Raises
        ------
        ValueError
            If no segmentation agrees with what is known.
        """
        arguments = (*self._signal, -float(price), self.min_size)
        prefixes, value, ends = pruned.best_segmentation(*arguments)
        if prefixes[-1] == -np.inf:
            raise ValueError(
                "ConstrainedChangePoints needs a segmentation with segments of at least "
                f"{self.min_size} samples that agrees with the annotations, but there is none; "
                "lower min_size or remove annotations that lie close together."
            )
        return Vertex(value, ends)

    @cached_property
    def coarsest(self) -> Vertex:
        """The vertex of the smallest possible K."""
        if self.known is None:
            return self._vertex(np.array([self.n_samples]))
        return self.solve(self._extreme_price())

    @cached_property
    def finest(self) -> Vertex:
        """The vertex of the largest possible K."""
        if self.known is None and self.min_size == 1:
            return self._vertex(np.arange(1, self.n_samples + 1))
        return self.solve(-self._extreme_price())

    def solve_count(self, n_segments: int) -> NDArray[np.int64]:
        """Segment ends of a maximizer with exactly ``n_segments`` segments.

        All numbers from the smallest to the largest that agree with the annotations occur: the
        constraints bound sums over intervals of positions, an interval (totally unimodular)
        matrix, and so does the number itself.

        Raises
        ------
        ValueError
            If no segmentation into that many segments agrees with what is known.
        """
        low, high = self.coarsest, self.finest
        if not len(low.ends) <= n_segments <= len(high.ends):
            raise ValueError(
                f"ConstrainedChangePoints needs from {len(low.ends)} to {len(high.ends)} segments "
                f"to agree with the annotations, got n_clusters={n_segments}."
            )
        # low and high are vertices of the hull on either side of K. Each round replaces one: by
        # a guess from the losses of merging segments of high, once for every high, or else by a
        # vertex above the chord. Without one, K lies inside an edge.
        guessed_from = high
        while len(low.ends) < n_segments < len(high.ends):
            vertex = None
            if high is not guessed_from:
                guessed_from = high
                guess = self.solve(self._merge_price(high, n_segments))
                vertex = guess if len(low.ends) < len(guess.ends) < len(high.ends) else None
            if vertex is None:
                vertex = self.between(low, high)
            if vertex is None:
                return self.inside_edge(n_segments, low, high)
            low, high = (vertex, high) if len(vertex.ends) <= n_segments else (low, vertex)
        return low.ends if len(low.ends) == n_segments else high.ends

    def between(self, low: Vertex, high: Vertex) -> Vertex | None:
        """A vertex of the hull above the chord of two vertices, if there is one."""
        price = _slope(low, high)
        vertex = self.solve(price)
        gain = (vertex.value - price * len(vertex.ends)) - (low.value - price * len(low.ends))
        rounding = 1e-12 * (abs(low.value) + abs(high.value) + abs(price) * len(high.ends))
        inside = len(low.ends) < len(vertex.ends) < len(high.ends)
        return vertex if gain > rounding and inside else None

    def _vertex(self, ends: NDArray[np.int64]) -> Vertex:
        return Vertex(pruned.segment_values(*self._signal, ends), ends)

    def _merge_price(self, finer: Vertex, n_segments: int) -> float:
        """A price that would leave ``n_segments`` if segments merged one by one.

        It lies between two of the sorted losses of merging neighbors: a guess, which on clear
        data hits, and otherwise still gives a vertex of the hull.
        """
        losses = np.sort(pruned.merge_losses(*self._signal, finer.ends))
        position = len(finer.ends) - n_segments
        return float(np.mean(losses[position - 1 : position + 1]))

    def inside_edge(self, n_segments: int, low: Vertex, high: Vertex) -> NDArray[np.int64]:
        """K strictly inside an edge of the hull: layers over the positions still possible.

        At the price of the edge, a segmentation through t is worth at most forward(t) +
        backward(t). The positions where that is largest come first, twice as many each time until
        they hold a segmentation into K; then all where it reaches what that one is worth.
        """
        # Both programs run at the price of the edge, so that V(K) − price·K of any segmentation
        # through t is at most through[t]; the segments before and after t share no charge.
        price, T = _slope(low, high), self.n_samples
        mirrored = self._read(mirrored=True)
        forward = pruned.best_segmentation(*self._signal, -price, self.min_size)[0]
        backward = pruned.best_segmentation(*mirrored, -price, self.min_size)[0]
        backward = backward[::-1]  # from t on, where it was up to T − t
        through = forward + backward
        rounding = 1e-11 * (abs(forward[-1]) + abs(price) * n_segments)
        order = np.argsort(-through[1:], kind="stable") + 1
        order = order[through[order] > -np.inf]
        count, floor = 2 * n_segments + 50, -np.inf
        positions = np.union1d(order[:count], [T])
        while True:
            value, ends = pruned.best_layers(
                *self._signal, -price, self.min_size, n_segments, positions, backward, floor
            )
            if value == -np.inf:
                count *= 2
                positions = np.union1d(order[:count], [T])
                continue
            # Positions below the floor lie on no better segmentation into K. If all others were
            # among the candidates, or the value is that of the hull, this one is the best.
            floor = value - rounding
            needed = order[through[order] >= floor]
            if floor >= forward[-1] - 2 * rounding or np.isin(needed, positions).all():
                return ends
            positions = np.union1d(positions, needed)

    def _extreme_price(self) -> float:
        """A price above the range of V."""
        signal = self._signal
        largest = float(np.sum(np.diff(signal.cumulative, axis=0) ** 2))
        if isinstance(self.form, ChargedForm):  # on a piece, a segment is charged 1 at most
            pieces = self.form.charges.pieces
            number = 1 + len(pieces.stretches) + 2 * len(pieces.regions)
            largest += self.form.scale * self.n_samples * number
        elif self.form.truth is not None:
            largest += self.form.weight * self.form.truth.n_clusters
        return 2.0 * largest or 1.0

    def _read(self, mirrored: bool = False) -> pruned.Signal:
        """What the kernels read of the signal, or of its samples in reverse order."""
        form, known, T = self.form, self.known, self.n_samples
        cumulative = np.ascontiguousarray(form.cumulative, dtype=np.float64)
        if mirrored:
            cumulative = np.ascontiguousarray(cumulative[-1] - cumulative[::-1])
        weight, truth, charges, slack, rules = 0.0, None, None, None, None
        if isinstance(form, ChargedForm):
            if form.scale:
                charged = form.charges.mirrored() if mirrored else form.charges
                weight, charges, slack = form.scale, charged.table, form.scale * charged.slack
        elif form.truth is not None and form.weight:
            ends = form.truth.change_points
            # A segment (s, u] becomes (T − u, T − s]: ends are T minus the starts, turned around.
            ends = T - np.append(ends[-2::-1], 0) if mirrored else ends
            weight, truth = float(form.weight), pruned.truth_table(ends, T)
        if known is not None:
            rules = np.array((known.mirrored() if mirrored else known).rules())
        return pruned.Signal(cumulative, weight, truth, charges, slack, rules)


def _slope(low: Vertex, high: Vertex) -> float:
    """The price at which two vertices are worth the same."""
    return (high.value - low.value) / (len(high.ends) - len(low.ends))
