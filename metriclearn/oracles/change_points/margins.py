"""How sure every change-point is, exactly: max-marginals of the program that finds them.

With F(t) the best value of the samples before t and B(t) that of the samples from t on, both less
the penalty p_t of a change at t where there is one, the best segmentation with a change at t is worth
F(t) + B(t) + p_t, and the best one without any from t−δ to t+δ

    W(t) = max F(s) + f(s,u) + B(u)    over segments (s, u] with s < t − δ or s = 0, and so for u,

f being the value of a segment, see :mod:`metriclearn.oracles.change_points`. One program runs
forward and one backward.

With a given number K of segments, F and B are those of a penalty λ that is added again K times: no
segmentation into K segments is worth more than F(t) + B(t) + p_t + λK. What one is worth less, its
deficit, is a sum over its segments, each at least 0. So only the few segments are kept that lack at
most a window, and layers for only those numbers of segments that do; a deficit that is found within
the window is the least of all. λ is the penalty at which K − 1 segments are as good as K: a change
elsewhere mostly replaces the weakest one, and then lacks nothing, so that a narrow window will do.
Where more is lacking, a wider one is looked at among the positions alone that can be in it: a
segmentation with a change at v has at most F(v) + B(v) + p_v.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numba import njit
from numpy.typing import NDArray

from metriclearn.oracles.change_points.recursion import best_segmentation
from metriclearn.oracles.change_points.search import PenalizedSegmentation, slope
from metriclearn.oracles.change_points.segment_values import (
    CALLED,
    INTEGER,
    WITHIN,
    Signal,
    allowed_starts,
    boundary_worths,
    legal_from,
    penalty_at,
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

# Given a count, shares of the penalty: the narrow window, what a wide one has more, and a gap that is
# small enough; how fast and how far windows grow before they hold everything; the fraction of the
# slack within which starts are looked at before all others. Any choice is exact.
_NARROW, _WIDE, _GAP, _WIDER, _LIMIT, _HOT = 0.1, 0.3, 0.05, 2.6, 10.0, 0.1
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
        """Small beside most changes and beside one change more, 0 without any change.

        A tenth of the median of the finite losses, at most half of what a change at the median
        position costs: for the cost of one change more, every change could move anywhere.
        """
        finite = self.losses[np.isfinite(self.losses)]
        if not len(finite):
            return 0.0
        costs = -self.gains[np.isfinite(self.gains) & (self.gains < 0)]
        elsewhere = 0.5 * float(np.median(costs)) if len(costs) else np.inf
        return min(0.1 * float(np.median(finite)), elsewhere)

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

    Without ``n_clusters`` little more than two pruned programs; with it two more in a narrow
    window, and wider ones for what they leave open: O(T²(r + K)) time and O(TK) memory at worst, as
    where all segmentations are as good.

    Parameters
    ----------
    form : LowRankForm or ChargedForm
        A, whose shift is minus the penalty of a segment.
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
    problem = PenalizedSegmentation(form, min_size, known)
    signal, turned = problem.signal, problem.mirrored().signal
    if n_clusters is None:
        penalty = -form.shift
        forward, _, ends = best_segmentation(signal, -penalty, min_size, None)
        if forward[-1] == -np.inf:
            problem.solve(penalty)  # says why
        backward = best_segmentation(turned, -penalty, min_size, None)[0][::-1]
        through = forward + backward
        without, exact = np.empty(len(ends) - 1), np.zeros(len(ends) - 1, dtype=np.bool_)
        options = forward, backward, None, ends[:-1], tolerance, without, exact
        _without(signal, -penalty, min_size, *options)
    else:
        ends = problem.solve_count(n_clusters)
        through, without = _given_count(signal, turned, min_size, ends, tolerance)
    if signal.penalties is not None:  # which both sides have paid
        through += signal.penalties
    best = through[-1]
    gains = np.minimum(through[:-1] - best, 0.0)
    gains[0] = gains[ends[:-1]] = 0.0  # up to the rounding of both sums
    return BoundaryMargins(ends, np.maximum(best - without, 0.0), gains)


def _given_count(
    signal: Signal, turned: Signal, min_size: int, ends: NDArray[np.int64], tolerance: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The best with a change at every t, and W of every boundary, with as many segments as ends.

    At any penalty λ no segmentation into K segments is worth more than λK and the best into any
    number. What they lack, their deficits, are exact up to a window, which grows where it has to.
    """
    n = len(ends)
    if n == 1:  # there is no change
        through = np.full(len(signal.cumulative), -np.inf)
        through[-1] = 0.0  # best of all
        return through, np.empty(0)
    worth, exact = np.empty(n - 1), np.zeros(n - 1, dtype=np.bool_)
    penalty, window, found = _tight_penalty(signal, min_size, ends)
    wide, largest = (window + share * abs(penalty) for share in (_WIDE, _LIMIT))
    while True:
        windows = np.full(len(signal.cumulative), window)
        options = -penalty, min_size, n, window
        forward, *ahead = found or _near_best(signal, *options)
        backward, *behind = _near_best(turned, *options)
        through, found = forward + backward[::-1], None
        lost = forward[-1] - through - (0.0 if signal.penalties is None else signal.penalties)
        needs, need, limits = windows.copy(), max(window, wide), (windows, windows[::-1])
        while True:
            layers = (*ahead, behind[0][::-1], behind[1], *limits)
            lacking = _least_deficits(layers, n)
            unknown = (lacking > np.minimum(*limits)) & (through > -np.inf)
            if need >= largest or not unknown.any():
                break
            # A sum of deficits beyond the window is that of some segmentation, and so wide enough.
            enough = (lacking < np.inf) & (limits[0] > window)
            needs[unknown] = np.where(enough, 1.01 * lacking, need)[unknown]
            most, need = np.max((lost + needs)[unknown]) + window, _WIDER * need
            *ahead, first = _widened(signal, *options, forward, *ahead, needs, lost, most)
            mirror = needs[::-1].copy(), lost[::-1].copy(), most
            *behind, second = _widened(turned, *options, backward, *behind, *mirror)
            limits = first, second[::-1]
        if not unknown.any():
            sides = forward, backward[::-1], layers, ends[:-1], tolerance, worth, exact
            _without(signal, -penalty, min_size, *sides)
            if exact.all():
                return through - lacking + penalty * n, worth + penalty * n
        window = max(_WIDER * window, wide)
        if window >= largest:
            window = np.inf


def _tight_penalty(
    signal: Signal, min_size: int, ends: NDArray[np.int64]
) -> tuple[float, float, tuple[NDArray, ...] | None]:
    """A penalty at which K = len(ends) segments are about best, a window, and what is within it.

    It is the largest such penalty or close to it, the worth of the weakest change: one anywhere else
    mostly takes the place of that one. The window is more than what they lack, with rounding.
    """
    value = float(segment_values(signal, np.append(0, ends[:-1]), ends).sum())
    penalty = float(np.min(boundary_worths(signal, ends)))
    low = high = Vertex(value, ends)
    window, tried = _NARROW * abs(penalty), {len(ends)}
    found = _near_best(signal, -penalty, min_size, len(ends), window)

    def lacking(most: float) -> float:
        rounding = 1e-11 * (abs(most) + abs(penalty) * len(ends))
        return max(0.0, most - (value - penalty * len(ends))) + rounding

    if lacking(float(found[0][-1])) < 0.5 * window:
        return penalty, window, found
    while True:
        prefixes, best, other = best_segmentation(signal, -penalty, min_size, None)
        gap = lacking(float(prefixes[-1]))
        if len(other) in tried or gap <= _GAP * abs(penalty):
            return penalty, gap + _NARROW * abs(penalty), None
        tried.add(len(other))
        if len(other) < len(ends):
            low = Vertex(best, other)
        else:
            high = Vertex(best, other)
        penalty = slope(low, high)


@njit(**CALLED)
def _without(signal, c, min_size, forward, backward, layers, boundaries, tolerance, worth, exact):
    """Fill W of every boundary, the penalty being −c, and whether it is exact, unless it is already.

    With ``layers`` among segmentations into one segment more than there are boundaries; W is not
    exact, but at least that, where its deficit is above the limit.
    """
    T, n = len(forward) - 1, len(boundaries)
    room = np.empty((2, T + 1)), np.empty((2, 64)), np.empty(T + 1, dtype=np.int64)
    for k in range(n):
        if exact[k]:
            continue
        # where no change is; the ends of the samples are none
        first, last = max(1, boundaries[k] - tolerance), min(T - 1, boundaries[k] + tolerance)
        i = j = k
        while i >= 0 and boundaries[i] >= first:
            i -= 1
        while j < n and boundaries[j] <= last:
            j += 1
        before, after = boundaries[i] if i >= 0 else 0, boundaries[j] if j < n else T
        # One end of the new segment is mostly a neighboring boundary, which gives a first answer.
        best = -np.inf, not exact[k]  # a literal True would have kernels compiled twice
        for u in range(last + 1, after + 1 if before < first else 0):
            value = _pair(signal, c, min_size, forward, backward, before, u)
            best = _better(best, value, layers, n, before, u)
        for s in range(before, first if after > last else 0):
            value = _pair(signal, c, min_size, forward, backward, s, after)
            best = _better(best, value, layers, n, s, after)
        worth[k], exact[k] = _improve(
            signal, c, min_size, forward, backward, layers, n,
            boundaries[k], first, last, best, room,
        )  # fmt: skip


@njit(**WITHIN, forceinline=True)
def _pair(signal, c, min_size, forward, backward, s, u):
    """F(s) + f(s,u) + B(u), −inf if the segment (s,u] is not allowed."""
    S, weight, truth, charges, _, rules, _ = signal
    low, high = allowed_starts(rules, u, u - min_size + 1)
    if not low <= s < high:
        return -np.inf
    return forward[s] + segment_value(S, weight, truth, charges, c, s, u) + backward[u]


@njit(**WITHIN, forceinline=True)
def _better(best, value, layers, n_others, s, u):
    """The larger one of ``best`` and the value of the pair of s and u, less its deficit."""
    if value <= best[0]:
        return best
    if layers is None:
        return value, True
    deficit = _least_deficit(layers, s, u, n_others)
    limit = min(layers[4][s], layers[5][u])
    value -= min(deficit, limit)
    return (value, deficit <= limit) if value > best[0] else best


@njit(**WITHIN)
def _improve(signal, c, min_size, forward, backward, layers, n_others, t, first, last, best, room):
    """The largest F(s) + f(s,u) + B(u) with s < first and last < u, where some pair has ``best``.

    By (*) of the change-points a pair has at most left(s) + right(u) with left(s) = F(s) + f(s,t)
    and right(u) = slack(t) + f(t,u) + B(u), and, split at the first end e of a block of ends, at
    most F(s) + f(s,e) + slack(e) + beyond(u) with beyond(u) = f(e,u) + B(u). Blocks double with
    the distance from t, and most are left out as a whole. Starts before s, and ends behind u, have
    no more than the pair of s and u itself, the slack at it and its penalty, because their segments
    may be split there and do not pay it: once a start is too far below, all before it are, and a
    pair that is by both slacks rules out all that lie around it.
    """
    S, weight, truth, charges, slacks, rules, penalties = signal
    free = rules is None  # under rules not every split is allowed
    (right, beyond), largest, ceiling = room
    most_left = forward[t] + penalty_at(penalties, t)
    for s in range(max(0, t - min_size + 1), t):  # too near t for a segment of the program
        value = segment_value(S, weight, truth, charges, c, s, t)
        most_left = max(most_left, forward[s] + value)
    stop, most_right, n_blocks = _end_blocks(
        signal, c, min_size, backward, t, last, best[0] - most_left, right, beyond, largest
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
        at_start = split_slack(slacks, weight, c, s) + penalty_at(penalties, s)
        if free and left + at_start + most_right <= best[0]:
            lowest = max(lowest, s - min_size + 1)
        for block in range(n_blocks):
            begin = last + (1 << block)
            if begin > stop:
                break
            if left + largest[0, block] <= best[0]:
                continue
            value = forward[s] + segment_value(S, weight, truth, charges, c, s, begin)
            low, high = allowed_starts(rules, begin, begin - min_size + 1)
            if low <= s < high:
                other = value + backward[begin]
                best = _better(best, other, layers, n_others, s, begin)
            at_end = split_slack(slacks, weight, c, begin)
            pair = value + backward[begin] + at_start + at_end + penalty_at(penalties, begin)
            if free and backward[begin] > -np.inf and pair <= best[0]:
                ceiling[s] = min(ceiling[s], begin + min_size - 1)
            if value + at_end + largest[1, block] <= best[0]:
                continue
            for u in range(begin + 1, min(stop, last + (2 << block) - 1) + 1):
                if left + right[u] > best[0] and value + at_end + beyond[u] > best[0]:
                    other = _pair(signal, c, min_size, forward, backward, s, u)
                    best = _better(best, other, layers, n_others, s, u)
    return best


@njit(**WITHIN)
def _end_blocks(signal, c, min_size, backward, t, last, needed, right, beyond, largest):
    """Fill right(u) and beyond(u) of the ends behind ``last``, and the largest of every block.

    Ends from the first one on that cannot reach ``needed`` are left out. Returns the last end, the
    largest right(u) and the number of blocks.
    """
    S, weight, truth, charges, slacks, rules, penalties = signal
    stop, u, slack = S.shape[0] - 1, last, split_slack(slacks, weight, c, t)
    most_right = backward[t] + slack + penalty_at(penalties, t)
    while u < stop:
        u += 1
        right[u] = segment_value(S, weight, truth, charges, c, t, u) + backward[u] + slack
        most_right = max(most_right, right[u])
        most = right[u] + split_slack(slacks, weight, c, u) + penalty_at(penalties, u)
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


@njit(**CALLED)
def _near_best(signal, c, min_size, n_segments, window):
    """F at the penalty −c, and deficits up to a window of samples before every t in k ≤ K segments.

    The deficit of a prefix is what it is worth less than F: the sum of F(u) + p_u − F(s) − f(s,u)
    ≥ 0 over its segments, so that none of them may have more. They are found as in
    :func:`~metriclearn.oracles.change_points.best_segmentation`, by bounds at checkpoints; starts
    behind the last one have at most F(s) + c and the squares of the samples from s on.

    Returns
    -------
    best : array (T+1,)
        F, −inf where there is no segmentation.
    rows : int array (T+1, 3)
        Where the deficits of t begin, for how many segments the first one is, and their number.
    deficits : array
    """
    S, weight, truth, charges, slacks, rules, penalties = signal
    T = S.shape[0] - 1
    rows, deficits = np.zeros((T + 1, 3), dtype=np.int64), np.zeros(4 * T + 4)
    rows[0, 2] = 1  # no segments before the first sample
    live, bounds = np.empty((2, T + 1), dtype=np.int64), np.empty((2, T + 1))
    best, values, squares = np.full(T + 1, -np.inf), np.empty(T + 1), np.zeros(T + 1)
    best[0], near = 0.0, np.empty(T + 1, dtype=np.int64)
    for t in range(T):
        squares[t + 1] = squares[t] + segment_value(S, 0.0, None, None, 0.0, t, t + 1)
    size = INTEGER(1)  # as in best_segmentation, no literals
    n_live = n_hot = checkpoint = fresh = winner = rival = cost = work = INTEGER(0)
    highest = coldest = -np.inf  # bounds of fresh starts and of those that are not hot
    for u in range(min_size, T + 1):
        highest = max(highest, best[u - min_size] - squares[u - min_size])
        low, high = allowed_starts(rules, u, u - min_size + 1)
        if low >= high:
            continue
        found, top, known, others = INTEGER(0), -np.inf, -np.inf, (rival, winner)
        for i, s in enumerate(others):
            if low <= s < high and (i == 0 or s != rival):
                value = best[s] + segment_value(S, weight, truth, charges, c, s, u)
                near[found], values[found], found = s, value, found + 1
                known = value if i == 0 else known
                if value > top:
                    top, winner = value, s
        common = segment_value(S, weight, truth, charges, c, checkpoint, u) if n_live else 0.0
        n_looked = n_live if coldest + common > known else n_hot
        if charges is None and highest + squares[u] + c < top - window:
            high = min(high, fresh)
        found, top, winner, evaluated = _look(
            signal, c, u, window, best, live, bounds, n_looked, common, known, max(fresh, low),
            low, high, others, near, values, found, top, winner,
        )  # fmt: skip
        work += evaluated + n_looked // 4
        best[u] = top - penalty_at(penalties, u)
        deficits, size = _add_row(
            rows, deficits, size, u, near[:found], values, top, n_segments, window
        )
        if work >= cost + u - min_size + 1 - fresh:
            n_live, cost = _renew(
                signal, c, min_size, best, window, fresh, u, common, live, bounds[0], n_live
            )
            rival = winner  # which a start of use at a later end improves on
            for j in range(n_live):
                bounds[1, j] = bounds[0, j] + _use(rows, deficits, live[0, j], rival, window)
            level = best[u] + (1.0 - _HOT) * split_slack(slacks, weight, c, u)
            n_hot, coldest = _hot_first(live, bounds, n_live, level)
            checkpoint, work, fresh, highest = u, 0, u - min_size + 1, -np.inf
    return best, rows, deficits


@njit(**WITHIN)
def _look(
    signal, c, u, window, best, live, bounds, n_looked, common, known, fresh, low, high, others,
    near, values, found, top, winner,
):  # fmt: skip
    """Evaluate live starts by their bounds, and the fresh ones, but no ``others``, at u."""
    S, weight, truth, charges, _, _, _ = signal
    evaluated = 0
    for j in range(n_looked + max(0, high - fresh)):
        s = live[0, j] if j < n_looked else fresh + j - n_looked
        if s == others[0] or s == others[1] or not low <= s < high:
            continue
        if j < n_looked and (
            bounds[0, j] + common < top - window or bounds[1, j] + common <= known
        ):
            continue
        evaluated += 1
        value = best[s] + segment_value(S, weight, truth, charges, c, s, u)
        if value > -np.inf and value >= top - window:
            near[found], values[found], found = s, value, found + 1
            if value > top:
                top, winner = value, s
    return found, top, winner, evaluated


@njit(**WITHIN, forceinline=True)
def _use(rows, deficits, s, winner, window):
    """How much lower than another start, s may be for a segment and still improve on a deficit."""
    begin, fewest, number = rows[s]
    other, first, count = rows[winner]
    most = -np.inf
    for k in range(fewest, fewest + number):
        deficit, place = deficits[begin + k - fewest], k - first
        least = window if not 0 <= place < count else deficits[other + place]
        most = max(most, least - deficit)
    return max(0.0, most)


@njit(**WITHIN)
def _renew(signal, c, min_size, best, window, fresh, t, common, live, bounds, n):
    """Carry the bounds of n live starts to the checkpoint t, and let the fresh ones live.

    A start that is worth less than t by more than the window is dropped from the first end on of
    which t is a legal split. Returns how many live on, and what the work cost.
    """
    S, weight, truth, charges, slacks, rules, _ = signal
    slack, kept, evaluated = split_slack(slacks, weight, c, t), 0, 0
    until, floor = legal_from(rules, t, min_size), best[t] - window
    for j in range(n + t - min_size + 1 - fresh):
        s, end, bound = fresh + j - n, len(best), np.inf
        if j < n:
            s, end, bound = live[0, j], live[1, j], bounds[j] + common
        if best[s] == -np.inf or end <= t + 1:
            continue
        if bound + 0.5 * slack > floor or slack <= 0.0:
            bound = best[s] + segment_value(S, weight, truth, charges, c, s, t)
            evaluated += 1
        bound += slack
        if bound < floor:
            end = min(end, until)
        if end > t + 1:
            live[0, kept], live[1, kept], bounds[kept] = s, end, bound
            kept += 1
    return kept, evaluated + n // 4


@njit(**WITHIN)
def _hot_first(live, bounds, n, level):
    """Move the starts with at least that bound to the front; how many, and the most of others."""
    hot, most = 0, -np.inf
    for j in range(n):
        if bounds[1, j] >= level:
            for row in range(2):
                live[row, j], live[row, hot] = live[row, hot], live[row, j]
                bounds[row, j], bounds[row, hot] = bounds[row, hot], bounds[row, j]
            hot += 1
    for j in range(hot, n):
        most = max(most, bounds[1, j])
    return hot, most


@njit(**CALLED)
def _widened(signal, c, min_size, n_segments, window, best, rows, deficits, needs, lost, most):
    """Rows and deficits of :func:`_near_best` up to what is needed, where that is more.

    Only among positions where no more than ``most`` is lost, for each end no more than there and by
    what it needs: backward from the ends that need it, a start needs what its segment leaves of it,
    and then forward. Returns the needs of all, too.
    """
    S, weight, truth, charges, slacks, rules, penalties = signal
    rows, size, needs = rows.copy(), len(deficits), needs.copy()
    positions = np.flatnonzero(lost <= most)
    begin, found, i = np.zeros(len(best) + 1, dtype=np.int64), 0, len(positions)
    near, values = np.empty(len(best), dtype=np.int64), np.empty(len(best))
    for u in range(len(best) - 1, -1, -1):
        while i > 0 and positions[i - 1] >= u:
            i -= 1
        begin[u] = found
        if needs[u] <= window or best[u] == -np.inf:
            continue
        if found + i > len(near):
            near = np.append(near, np.empty_like(near))
            values = np.append(values, np.empty_like(values))
        low, high = allowed_starts(rules, u, u - min_size + 1)
        top, lowest = best[u] + penalty_at(penalties, u), low
        for s in positions[:i][::-1]:
            if s < lowest:
                break
            if s >= high or lost[s] > lost[u] + needs[u]:
                continue
            value = best[s] + segment_value(S, weight, truth, charges, c, s, u)
            if value >= top - needs[u]:
                near[found], values[found], found = s, value, found + 1
                needs[s] = max(needs[s], needs[u] - (top - value))
            elif rules is None:  # starts before s are no better than itself, split at it
                value += split_slack(slacks, weight, c, s) + penalty_at(penalties, s)
                lowest = max(lowest, s - min_size + 1) if value < top - needs[u] else lowest
    for u in range(1, len(best)):
        if needs[u] > window and best[u] > -np.inf:
            top = best[u] + penalty_at(penalties, u)
            edges = slice(begin[u], begin[u - 1])
            deficits, size = _add_row(
                rows, deficits, size, u, near[edges], values[edges], top, n_segments, needs[u]
            )
    return rows, deficits, needs


@njit(**WITHIN)
def _add_row(rows, deficits, size, u, near, values, top, n_segments, window):
    """Deficits of the samples before u whose last segment is one from ``near``; the new size.

    Deficits are returned, too, as they may need more room.
    """
    if size + n_segments > len(deficits):
        more = np.empty(2 * len(deficits) + n_segments)
        for i in range(size):  # numba takes two seconds to compile it as an assignment of slices
            more[i] = deficits[i]
        deficits = more
    known, first, number = rows[u]  # what is known of it
    last = first + number - 1
    if number == 0:
        first, last = n_segments + 1, 0
    for i in range(len(near)):
        if rows[near[i], 2] > 0 and values[i] >= top - window:
            first = min(first, rows[near[i], 1] + 1)
            last = max(last, min(n_segments, rows[near[i], 1] + rows[near[i], 2]))
    row = deficits[size : size + max(0, last - first + 1)]
    row[:] = np.inf
    for k in range(number):
        row[rows[u, 1] + k - first] = deficits[known + k]
    for i in range(len(near)):
        begin, fewest, number = rows[near[i]]
        if values[i] >= top - window:
            for k in range(min(number, n_segments - fewest)):
                place = fewest + 1 + k - first
                row[place] = min(row[place], deficits[begin + k] + (top - values[i]))
    while last >= first and not row[last - first] <= window:
        last -= 1
    rows[u, 0], rows[u, 1], rows[u, 2] = size, first, max(0, last - first + 1)
    return deficits, size + rows[u, 2]


@njit(**WITHIN, forceinline=True)
def _least_deficit(layers, s, u, n_segments):
    """Of n segments, some before s and the others behind u; inf where none is in the windows."""
    rows, deficits, others, other_deficits, _, _ = layers
    begin, fewest, number = rows[s]
    other, most = others[u, 0], n_segments - others[u, 1]  # before s
    least = np.inf
    for k in range(max(fewest, most - others[u, 2] + 1), min(fewest + number - 1, most) + 1):
        least = min(least, deficits[begin + k - fewest] + other_deficits[other + most - k])
    return least


@njit(**CALLED)
def _least_deficits(layers, n_segments):
    """Of n segments with a change at every t."""
    least = np.empty(len(layers[0]))
    for t in range(len(least)):
        least[t] = _least_deficit(layers, t, t, n_segments)
    return least
