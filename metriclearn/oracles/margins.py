"""How sure every change-point is, exactly: max-marginals of the program that finds them.

With F(t) the best value of the samples before t and B(t) that of the samples from t on, both less
the price p_t of a change at t where there is one, the best segmentation with a change at t is worth
F(t) + B(t) + p_t, and the best one without any from t−δ to t+δ

    W(t) = max F(s) + f(s,u) + B(u)    over segments (s, u] with s < t − δ or s = 0, and so for u,

f being the value of a segment, see :mod:`metriclearn.oracles.change_points`. One program runs
forward and one backward; with a given number of segments, both have a layer for every number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numba import njit
from numpy.typing import NDArray

from metriclearn.oracles.change_points import (
    PricedSegmentation,
    allowed_starts,
    best_segmentation,
    price_at,
    segment_value,
    split_slack,
)
from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.knowledge import PartialPartition
from metriclearn.problem.losses import ChargedForm
from metriclearn.problem.partition import check_count
from metriclearn.running.parameters import component, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TOLERANCE = number(0, whole=True)
_FORM = component((LowRankForm, ChargedForm), "LowRankForm(Z)")
_KNOWN = component(PartialPartition, "PartialPartition(T, labels)", optional=True)


@dataclass(frozen=True, eq=False)
class BoundaryMargins:
    """The best segmentation of T samples, and how sure its changes are.

    Scores are values ⟨A, M⟩ of segmentations, in units of squared distance as the penalty is.

    Attributes
    ----------
    change_points : int array (K,)
        Segment ends, the last one T.
    losses : array (K−1,)
        What the score loses without any change within the tolerance of each change-point, at least
        0; inf where there is no such segmentation.
    gains : array (T,)
        What the best segmentation with a change between the samples t−1 and t gains over the best
        of all: 0 at its change-points, negative elsewhere, −inf where none may be; 0 at t = 0.
    probabilities : array (K−1,) or None
        That there is a true change within the tolerance, after ``calibrate``.

    See Also
    --------
    boundary_margins : what makes it.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn import LowRankForm, boundary_margins
    >>> margins = boundary_margins(LowRankForm(np.repeat([[0.0], [2.0]], 5, axis=0)).shifted(-1.0))
    >>> margins.change_points.tolist(), margins.losses.round(1).tolist()
    ([5, 10], [3.0])
    """

    change_points: NDArray[np.int64]
    losses: NDArray[np.float64]
    gains: NDArray[np.float64]
    probabilities: NDArray[np.float64] | None = None

    def intervals(self, score: float) -> NDArray[np.int64]:
        """First and last position to which each change-point can move for at most that score.

        Parameters
        ----------
        score : float ≥ 0
            In units of squared distance; the penalty is what an additional segment must bring.

        Returns
        -------
        int array (K−1, 2)
            All positions from the first to the last have gains of at least −score.
        """
        if not score >= 0:
            raise ValueError(f"BoundaryMargins needs a score of at least 0, got {score}.")
        inside = self.gains >= -score
        inside[0] = False
        outside = np.append(np.flatnonzero(~inside), len(inside))
        after = np.searchsorted(outside, self.change_points[:-1])
        return np.column_stack([outside[after - 1] + 1, outside[after] - 1])

    @property
    def typical_score(self) -> float:
        """A tenth of the median of the finite losses, 0 without any: small beside most changes."""
        finite = self.losses[np.isfinite(self.losses)]
        return 0.1 * float(np.median(finite)) if len(finite) else 0.0

    def plot(self, score: float | None = None) -> Figure:
        """Picture of the change-points, where they may move for ``score``, and all gains.

        Parameters
        ----------
        score : float, optional
            See :meth:`intervals`; by default ``typical_score``.
        """
        from metriclearn.plots import plot_margins

        score = self.typical_score if score is None else score
        known, words = self.probabilities, "loss" if self.probabilities is None else "probability"
        confidences = self.losses if known is None else known
        ends, ranges = self.change_points, self.intervals(score)
        return plot_margins(ends, confidences, self.gains, ranges, words=words)


def boundary_margins(
    form: LowRankForm | ChargedForm,
    n_clusters: int | None = None,
    known: PartialPartition | None = None,
    *,
    min_size: int = 1,
    tolerance: int = 0,
) -> BoundaryMargins:
    """The best segmentation, and what changes elsewhere, or not there, cost.

    Without ``n_clusters`` little more than two pruned programs; with it O(T²(r + K)) time and
    O(TK) memory.

    Parameters
    ----------
    form : LowRankForm or ChargedForm
        A, whose shift is minus the price of a segment.
    n_clusters : int, optional
        Number of segments of all segmentations that are compared.
    known : PartialPartition, optional
        Only segmentations that agree with it are compared.
    min_size : int
        Smallest number of samples in a segment.
    tolerance : int ≥ 0
        δ, in samples: a change so near is still the same.

    Returns
    -------
    BoundaryMargins

    Raises
    ------
    ValueError
        As :class:`~metriclearn.oracles.change_points.ChangePoints` does.

    References
    ----------
    Rigaill, Lebarbier & Robin, Exact posterior distributions and model selection criteria for
    multiple change-point detection problems, Statistics and Computing 22, 2012, with sums in place
    of maxima.
    """
    who = "boundary_margins"
    _TOLERANCE.check(who, "tolerance", tolerance)
    _FORM.check(who, "form", form)
    _KNOWN.check(who, "known", known)
    check_count(who, form.n_samples, n_clusters, min_size)
    problem = PricedSegmentation(form, min_size, known)
    signal, turned = problem.signal, problem.mirrored().signal
    if n_clusters is None:
        price = -form.shift
        forward, _, ends = best_segmentation(signal, -price, min_size)
        if forward[-1] == -np.inf:
            problem.solve(price)  # says why
        backward = best_segmentation(turned, -price, min_size)[0][::-1]
        through = forward + backward
        without = _without(signal, -price, min_size, forward, backward, ends[:-1], tolerance)
    else:
        ends = problem.solve_count(n_clusters)
        layers = _layers(signal, min_size, n_clusters)
        rest = _layers(turned, min_size, n_clusters)[::-1]  # of the samples from t on
        through = np.max(layers + rest[:, ::-1], axis=1)
        without = _layers_without(signal, min_size, layers, rest, ends[:-1], tolerance)
    if signal.prices is not None:  # which both sides have paid
        through += signal.prices
    best = through[-1]
    gains = np.minimum(through[:-1] - best, 0.0)
    gains[0] = gains[ends[:-1]] = 0.0  # up to the rounding of both sums
    return BoundaryMargins(ends, np.maximum(best - without, 0.0), gains)


@njit(nogil=True, cache=True)
def _without(signal, c, min_size, forward, backward, boundaries, tolerance):
    """W of every boundary, the price being −c."""
    T, n = len(forward) - 1, len(boundaries)
    worth = np.full(n, -np.inf)
    room = np.empty((2, T + 1)), np.empty((2, 64)), np.empty(T + 1, dtype=np.int64)
    for k in range(n):
        # where no change is; the ends of the samples are none
        first, last = max(1, boundaries[k] - tolerance), min(T - 1, boundaries[k] + tolerance)
        i = j = k
        while i >= 0 and boundaries[i] >= first:
            i -= 1
        while j < n and boundaries[j] <= last:
            j += 1
        before, after = boundaries[i] if i >= 0 else 0, boundaries[j] if j < n else T
        # One end of the new segment is mostly a neighboring boundary, which gives a first answer.
        best = -np.inf
        for u in range(last + 1, after + 1):
            value = _pair(signal, c, min_size, forward, backward, before, u)
            best = max(best, value if before < first else -np.inf)
        for s in range(before, first if after > last else 0):
            best = max(best, _pair(signal, c, min_size, forward, backward, s, after))
        worth[k] = _improve(
            signal, c, min_size, forward, backward, boundaries[k], first, last, best, room
        )
    return worth


@njit(nogil=True, cache=True, forceinline=True)
def _pair(signal, c, min_size, forward, backward, s, u):
    """F(s) + f(s,u) + B(u), −inf if the segment (s,u] is not allowed."""
    S, weight, truth, charges, _, rules, _ = signal
    low, high = allowed_starts(rules, u, u - min_size + 1)
    if not low <= s < high:
        return -np.inf
    return forward[s] + segment_value(S, weight, truth, charges, c, s, u) + backward[u]


@njit(nogil=True, cache=True)
def _improve(signal, c, min_size, forward, backward, t, first, last, best, room):
    """The largest F(s) + f(s,u) + B(u) with s < first and last < u, where some pair has ``best``.

    By (*) of the change-points a pair has at most left(s) + right(u) with left(s) = F(s) + f(s,t)
    and right(u) = slack(t) + f(t,u) + B(u), and, split at the first end e of a block of ends, at
    most F(s) + f(s,e) + slack(e) + beyond(u) with beyond(u) = f(e,u) + B(u). Blocks double with
    the distance from t, and most are left out as a whole. Starts before s, and ends behind u, have
    no more than the pair of s and u itself, the slack at it and its price, because their segments
    may be split there and do not pay it: once a start is too far below, all before it are, and a
    pair that is by both slacks rules out all that lie around it.
    """
    S, weight, truth, charges, slacks, rules, prices = signal
    free = rules is None  # under rules not every split is allowed
    (right, beyond), largest, ceiling = room
    most_left = forward[t] + price_at(prices, t)
    for s in range(max(0, t - min_size + 1), t):  # too near t for a segment of the program
        value = segment_value(S, weight, truth, charges, c, s, t)
        most_left = max(most_left, forward[s] + value)
    stop, most_right, n_blocks = _end_blocks(
        signal, c, min_size, backward, t, last, best - most_left, right, beyond, largest
    )
    lowest, s = 0, first
    while s > lowest:
        s -= 1
        # what starts at least min_size farther right have ruled out
        if s + min_size < first:
            stop = min(stop, ceiling[s + min_size])
        ceiling[s] = stop
        if forward[s] == -np.inf:
            continue
        left = forward[s] + segment_value(S, weight, truth, charges, c, s, t)
        at_start = split_slack(slacks, weight, c, s) + price_at(prices, s)
        if free and left + at_start + most_right <= best:
            lowest = max(lowest, s - min_size + 1)
        for block in range(n_blocks):
            begin = last + (1 << block)
            if begin > stop:
                break
            if left + largest[0, block] <= best:
                continue
            value = forward[s] + segment_value(S, weight, truth, charges, c, s, begin)
            low, high = allowed_starts(rules, begin, begin - min_size + 1)
            if low <= s < high:
                best = max(best, value + backward[begin])
            at_end = split_slack(slacks, weight, c, begin)
            pair = value + backward[begin] + at_start + at_end + price_at(prices, begin)
            if free and backward[begin] > -np.inf and pair <= best:
                ceiling[s] = min(ceiling[s], begin + min_size - 1)
            if value + at_end + largest[1, block] <= best:
                continue
            for u in range(begin + 1, min(stop, last + (2 << block) - 1) + 1):
                if left + right[u] > best and value + at_end + beyond[u] > best:
                    other = _pair(signal, c, min_size, forward, backward, s, u)
                    best = max(best, other)
    return best


@njit(nogil=True, cache=True)
def _end_blocks(signal, c, min_size, backward, t, last, needed, right, beyond, largest):
    """Fill right(u) and beyond(u) of the ends behind ``last``, and the largest of every block.

    Ends from the first one on that cannot reach ``needed`` are left out. Returns the last end, the
    largest right(u) and the number of blocks.
    """
    S, weight, truth, charges, slacks, rules, prices = signal
    stop, u, slack = S.shape[0] - 1, last, split_slack(slacks, weight, c, t)
    most_right = backward[t] + slack + price_at(prices, t)
    while u < stop:
        u += 1
        right[u] = segment_value(S, weight, truth, charges, c, t, u) + backward[u] + slack
        most_right = max(most_right, right[u])
        most = right[u] + split_slack(slacks, weight, c, u) + price_at(prices, u)
        if rules is None and most <= needed and backward[u] > -np.inf:
            stop = min(stop, u + min_size - 1)
    n_blocks, begin = 0, last + 1
    while begin <= stop:
        end = min(stop + 1, last + 2 * (begin - last))
        largest[0, n_blocks], largest[1, n_blocks] = right[begin], -np.inf
        for u in range(begin + 1, end):
            beyond[u] = segment_value(S, weight, truth, charges, c, begin, u) + backward[u]
            largest[0, n_blocks] = max(largest[0, n_blocks], right[u])
            largest[1, n_blocks] = max(largest[1, n_blocks], beyond[u])
        n_blocks, begin = n_blocks + 1, end
    return stop, most_right, n_blocks


@njit(nogil=True, cache=True)
def _layers(signal, min_size, n_segments):
    """Best value of the samples before every t in 0 … K segments, (T+1, K+1), O(T²(r + K))."""
    S, weight, truth, charges, _, rules, prices = signal
    T = S.shape[0] - 1
    best = np.full((T + 1, n_segments + 1), -np.inf)
    best[0, 0] = 0.0
    for u in range(min_size, T + 1):
        low, high = allowed_starts(rules, u, u - min_size + 1)
        for s in range(low, high):
            value = segment_value(S, weight, truth, charges, 0.0, s, u)
            for k in range(n_segments):
                best[u, k + 1] = max(best[u, k + 1], best[s, k] + value)
        best[u] -= price_at(prices, u)
    return best


@njit(nogil=True, cache=True)
def _layers_without(signal, min_size, layers, rest, boundaries, tolerance):
    """W of every boundary among segmentations into K segments, O(T²(r + K))."""
    S, weight, truth, charges, _, rules, _ = signal
    T, n_segments = S.shape[0] - 1, layers.shape[1] - 1
    worth = np.full(len(boundaries), -np.inf)
    stop = 0
    for u in range(min_size, T + 1):
        while stop < len(boundaries) and min(T - 1, boundaries[stop] + tolerance) < u:
            stop += 1
        low, high = allowed_starts(rules, u, u - min_size + 1)
        first = 0
        for s in range(low, high):
            while first < stop and max(1, boundaries[first] - tolerance) <= s:
                first += 1
            if first == stop:  # no boundary is well inside, nor for later starts
                break
            best = -np.inf
            for k in range(n_segments):
                best = max(best, layers[s, k] + rest[u, n_segments - 1 - k])
            best += segment_value(S, weight, truth, charges, 0.0, s, u)
            for i in range(first, stop):
                worth[i] = max(worth[i], best)
    return worth
