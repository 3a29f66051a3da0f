"""Compute how certain each change-point is, by exact max-marginals of the program that finds it.

Let f(s,u) be the value of the segment (s,u], F(t) the best value of the samples before t, and B(t)
the best value of the samples from t on. F(t) and B(t) both subtract the penalty p_t of a change at
t. The best segmentation with a change at t has the value F(t) + B(t) + p_t. The best segmentation
without any change from t−δ to t+δ has the value

    W(t) = max F(s) + f(s,u) + B(u) over segments (s,u] with s < t − δ or s = 0,
    and with u > t + δ or u = T.

One program runs forward and computes F. Another runs backward and computes B.

If the number K of segments is given, we compute F and B at a penalty λ. The value of a segmentation
into K segments is then a bound minus a deficit, see :mod:`.deficits`, and deficits are exact up to
a window. We choose λ such that K − 1 segments are about as good as K. At this λ, if we force a
change at a t where the optimum has none, the best segmentation usually drops the weakest change of
the optimum instead. The new segmentation then has K segments and almost reaches the bound, so a
narrow window suffices. If a deficit exceeds the window, we widen the window. Then we keep only
positions whose deficit can lie within the wider window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numba import njit
from numpy.typing import NDArray

from metriclearn.oracles.change_points.deficits import (
    NO_LAYERS,
    Sides,
    least_deficit,
    least_deficits,
    no_layers,
    start_bounds,
    widened,
)
from metriclearn.oracles.change_points.search import PenalizedSegmentation, slope
from metriclearn.oracles.change_points.segment_values import (
    LIGHT,
    WITHIN,
    allowed_starts,
    boundary_worths,
    called,
    is_given,
    penalty_at,
    segment_value,
    split_slack,
)
from metriclearn.oracles.change_points.transitions import best_named
from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.losses import ChargedForm
from metriclearn.problem.partial_labels import PartialPartition
from metriclearn.problem.partition import check_count
from metriclearn.problem.regions import segment_rules
from metriclearn.running.parameters import Of, Whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Settings for a given number of segments. As fractions of the penalty: the narrow window, what a
# wide window adds to it, and a gap that is small enough. Then the factor by which a window grows,
# and the multiple of the penalty beyond which it becomes infinite. The result is exact for any
# choice.
NARROW, _WIDE, _GAP, _WIDER, _LIMIT = 0.1, 0.3, 0.05, 2.6, 10.0
BLOCKS = True  # bound the ends of a block together (without this, the result is exact, too)
_TOLERANCE = Whole(0)
_FORM = Of((LowRankForm, ChargedForm), "LowRankForm(Z)")
_KNOWN = Of(PartialPartition, "PartialPartition(T, labels)", optional=True)


@dataclass(frozen=True, eq=False)
class BoundaryMargins:
    """The best segmentation of T samples, and how certain its changes are.

    The score of a segmentation is its value ⟨A, M⟩. Scores have the unit of the penalty, squared
    distance.

    Attributes
    ----------
    change_points : int array (K,)
        Segment ends, the last one T.
    losses : array (K−1,)
        For each change-point, how much lower the best score is if no change may lie within the
        tolerance of this point. A loss is at least 0. It is inf if no segmentation meets this
        condition.
    gains : array (T,)
        For each t, the score of the best segmentation with a change between the samples t−1 and t,
        minus the best score of all segmentations. Gains are 0 at the change-points and at t = 0, at
        most 0 elsewhere, and −inf where no change is allowed.
    probabilities : array (K−1,) or None
        For each change-point, the probability that a true change lies within the tolerance. None
        unless the learner is calibrated (see its method ``calibrate``).

    See Also
    --------
    boundary_margins : Computes these margins.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.oracles import boundary_margins
    >>> from metriclearn.problem import LowRankForm
    >>> margins = boundary_margins(LowRankForm(np.repeat([[0.0], [2.0]], 5, axis=0)).shifted(-1.0))
    >>> margins.change_points.tolist(), margins.losses.round(1).tolist()
    ([5, 10], [3.0])
    """

    change_points: NDArray[np.int64]
    losses: NDArray[np.float64]
    gains: NDArray[np.float64]
    probabilities: NDArray[np.float64] | None = None

    def intervals(self, score: float) -> NDArray[np.int64]:
        """Find how far each change-point can move if the score may fall by at most ``score``.

        Parameters
        ----------
        score : float ≥ 0
            How much the score may fall. It has the same unit as the penalty of a segment.

        Returns
        -------
        int array (K−1, 2)
            The first and the last position to which each change-point can move. These two
            positions, and all positions between them, have gains of at least −score.
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
        """A score that is far smaller than most losses; 0 if there are no changes.

        The typical score is a tenth of the median finite loss, and at most half the median cost
        (−gain) of a change at other positions. If the score could fall by this whole cost, changes
        could move almost anywhere.
        """
        finite = self.losses[np.isfinite(self.losses)]
        if not len(finite):
            return 0.0
        costs = -self.gains[np.isfinite(self.gains) & (self.gains < 0)]
        elsewhere = 0.5 * float(np.median(costs)) if len(costs) else np.inf
        return min(0.1 * float(np.median(finite)), elsewhere)

    def plot(self, score: float | None = None) -> Figure:
        """Draw all gains, the change-points, and the positions to which each of them can move.

        Parameters
        ----------
        score : float, optional
            How much the score may fall if a change-point moves; by default ``typical_score``.
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
    """Find the best segmentation, and compute how certain each of its changes is.

    For each of its changes, the result tells how much lower the score is without this change. For
    every other position, it tells how much lower the score is with a change there.

    Without ``n_clusters``, this takes little more time than two pruned programs. With
    ``n_clusters``, two more programs run in a narrow window. Where this window is too narrow, they
    run again in wider windows. In the worst case, all segmentations are equally good. Then the
    function takes O(T²(r + K)) time and O(TK) memory.

    Parameters
    ----------
    form : LowRankForm or ChargedForm
        The form A. Its shift is minus the penalty of a segment.
    n_clusters : int, optional
        Only segmentations into this number of segments are compared.
    known : PartialPartition, optional
        Only segmentations that agree with it are compared.
    min_size : int
        Smallest number of samples in a segment.
    tolerance : int ≥ 0
        The tolerance δ in samples. Changes at most δ apart count as the same.

    Returns
    -------
    BoundaryMargins

    Raises
    ------
    ValueError
        In the same cases as :class:`~metriclearn.oracles.change_points.ChangePoints`, or if
        ``n_clusters`` is given although transitions of names have costs.

    References
    ----------
    Rigaill, Lebarbier & Robin, Exact posterior distributions and model selection criteria for
    multiple change-point detection problems, Statistics and Computing 22, 2012. They sum over all
    segmentations, and we take the maximum over them.
    """
    who = "boundary_margins"
    _TOLERANCE.check(who, "tolerance", tolerance)
    _FORM.check(who, "form", form)
    _KNOWN.check(who, "known", known)
    n_clusters, min_size = check_count(who, form.n_samples, n_clusters, min_size)
    tolerance = int(tolerance)
    problem = PenalizedSegmentation(form, min_size, known)
    if problem.has_states:
        if n_clusters is not None:
            raise ValueError(
                f"{who} needs an unknown number of segments where transitions of names have costs, "
                f"got n_clusters={n_clusters}; leave it out."
            )
        ends = problem.solve(-form.shift).ends
        through, without = _with_states(problem, -form.shift, ends[:-1], tolerance)
    elif n_clusters is None:
        ends = problem.solve(-form.shift).ends
        turned = problem.mirrored().best(-form.shift)[0]
        forward, backward = problem.best(-form.shift)[0], turned[::-1]
        through = forward + backward
        sides = Sides(forward, np.ascontiguousarray(backward), NO_LAYERS, NO_LAYERS, 0)
        signal = problem.signal._replace(c=float(form.shift))
        without, _ = _without(signal, sides, ends[:-1], tolerance)
    else:
        ends = problem.solve_count(n_clusters)
        through, without = _given_count(problem, ends, tolerance)
    if not problem.has_states and problem.penalties is not None:  # both sides subtract them
        through += problem.penalties
    best = through[-1]
    gains = np.minimum(through[:-1] - best, 0.0)
    gains[0] = gains[ends[:-1]] = 0.0  # as computed, they differ from 0 by rounding
    return BoundaryMargins(ends, np.maximum(best - without, 0.0), gains)


def _with_states(
    problem: PenalizedSegmentation, penalty: float, boundaries: NDArray[np.int64], tolerance: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute the best value with a change at t for every t, and W(t) for every boundary t.

    A separate run of the program finds W(t) for each boundary.
    """
    T, without = problem.n_samples, np.full(len(boundaries), -np.inf)
    signal = problem.signal._replace(c=-penalty)
    rules = np.array(segment_rules((), T)) if problem.known is None else np.array(signal.rules)
    for k, t in enumerate(boundaries.tolist()):
        fewer = rules.copy()
        fewer[0, max(1, t - tolerance) : min(T - 1, t + tolerance) + 1] = 0  # no change there
        F = best_named(signal._replace(rules=fewer), problem.names)[0]
        without[k] = F[-1].max()
    return problem.through(penalty)[2], without


def _given_count(
    problem: PenalizedSegmentation, ends: NDArray[np.int64], tolerance: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute the best value with a change at t for every t, and W(t) for every boundary t.

    Only segmentations into K = len(ends) segments are considered. At any penalty λ, the value of
    such a segmentation is at most λK plus the best penalized value of segmentations into any number
    of segments. Deficits are exact up to a window, which grows where needed.
    """
    n, T = len(ends), problem.n_samples
    if n == 1:  # there is no change
        through = np.full(T + 1, -np.inf)
        through[-1] = 0.0  # the caller takes the last entry as the best value
        return through, np.empty(0)
    # Both sides and all deficits are computed at one penalty, at which K segments are nearly best.
    penalty, window = _tight_penalty(problem, ends)
    reverse = problem.mirrored()
    signal, turned = (p.signal._replace(c=-penalty) for p in (problem, reverse))
    forward, turned_best = problem.best(penalty)[0], reverse.best(penalty)[0]
    bounds, turned_bounds = start_bounds(signal, forward), start_bounds(turned, turned_best)
    backward = turned_best[::-1].copy()
    through = forward + backward
    lost = forward[-1] - through - (0.0 if problem.penalties is None else problem.penalties)
    wide, largest = (window + share * abs(penalty) for share in (_WIDE, _LIMIT))
    while True:
        windows = np.full(T + 1, window)
        mirrored = windows, lost[::-1].copy()
        ahead = widened(signal, forward, bounds, no_layers(T), windows, lost, n)
        behind = widened(turned, turned_best, turned_bounds, no_layers(T), *mirrored, n)
        needs, need = windows, max(window, wide)
        while True:
            sides = Sides(forward, backward, ahead, behind.turned(), n)
            lacking = least_deficits(sides)
            limits = np.minimum(ahead.limits, behind.limits[::-1])
            unknown = (lacking > limits) & (through > -np.inf)
            if need >= largest or not unknown.any():
                break
            # A finite deficit beyond the window may not be the least one, but it belongs to some
            # segmentation. So the least deficit is not larger, and a window of this size suffices.
            enough = (lacking < np.inf) & (ahead.limits > window)
            # Widen only where the least deficit is uncertain.
            more = np.where(enough, 1.01 * lacking, need)
            needs = np.where(unknown, np.maximum(needs, more), needs)
            most, need = np.max((lost + needs)[unknown]) + window, _WIDER * need
            near = np.where(lost <= most, lost, np.inf)  # positions that lose more are useless
            ahead = widened(signal, forward, bounds, ahead, needs, near, n)
            mirrored = needs[::-1].copy(), near[::-1].copy()
            behind = widened(turned, turned_best, turned_bounds, behind, *mirrored, n)
        if not unknown.any():
            without, exact = _without(signal, sides, ends[:-1], tolerance)
            if exact.all():  # otherwise some boundary needs a wider window
                return through - lacking + penalty * n, without + penalty * n
        window = max(_WIDER * window, wide)
        if window >= largest:
            window = np.inf


def _tight_penalty(problem: PenalizedSegmentation, ends: NDArray[np.int64]) -> tuple[float, float]:
    """Find a penalty at which K = len(ends) segments are nearly best.

    Also returns a window that is larger than the deficit of these K segments. We look for the
    largest penalty of this kind, which is about the value of the weakest change. At this penalty,
    if we force a change at another position, the best segmentation usually drops the weakest change
    instead.
    """
    given = low = high = problem.vertex(ends)
    penalty, tried = float(np.min(boundary_worths(problem.signal, ends))), {len(ends)}
    while True:
        vertex = problem.solve(penalty)
        gap = vertex.value - given.value - penalty * (len(vertex.ends) - len(ends))
        gap = max(0.0, gap) + 1e-11 * (abs(vertex.value) + 2.0 * abs(penalty) * len(ends))
        if len(vertex.ends) in tried or gap <= _GAP * abs(penalty):
            return penalty, gap + NARROW * abs(penalty)
        tried.add(len(vertex.ends))
        low, high = (vertex, high) if len(vertex.ends) < len(ends) else (low, vertex)
        penalty = slope(low, high)


@called
def _without(signal, sides, boundaries, tolerance):
    """Compute W(t) for every boundary t, and whether each of these values is exact.

    If there are layers, only segmentations into K segments are considered. If a deficit exceeds the
    limit of the layers, the limit replaces the deficit. Then the returned value is an upper bound
    of W(t), and not exact.
    """
    T, n = len(sides.forward) - 1, len(boundaries)
    worth, exact = np.empty(n), np.zeros(n, dtype=np.bool_)
    room = np.empty((2, T + 1)), np.empty((2, 64)), np.empty(T + 1, dtype=np.int64)
    for k in range(n):
        # No change may lie from first to last. The positions 0 and T are not changes.
        first, last = max(1, boundaries[k] - tolerance), min(T - 1, boundaries[k] + tolerance)
        # The boundaries before and after this gap. Others within the tolerance count as the same.
        i = j = k
        while i >= 0 and boundaries[i] >= first:
            i -= 1
        while j < n and boundaries[j] <= last:
            j += 1
        before, after = boundaries[i] if i >= 0 else 0, boundaries[j] if j < n else T
        # Usually one end of the new segment is a neighboring boundary. Try those segments first.
        best = -np.inf, not exact[k]  # a literal True would have kernels compiled twice
        for u in range(last + 1, after + 1 if before < first else 0):
            best = _better(best, _pair(signal, sides, before, u), sides, before, u)
        for s in range(before, first if after > last else 0):
            best = _better(best, _pair(signal, sides, s, after), sides, s, after)
        worth[k], exact[k] = _improve(signal, sides, boundaries[k], first, last, best, room)
    return worth, exact


@njit(**LIGHT)
def _pair(signal, sides, s, u):
    """Return the value F(s) + f(s,u) + B(u) of a pair (s, u), or −inf if (s,u] is not allowed."""
    low, high = allowed_starts(signal.rules, u, u - signal.min_size + 1)
    if not low <= s < high:
        return -np.inf
    return sides.forward[s] + segment_value(signal, s, u) + sides.backward[u]


@njit(**LIGHT)
def _better(best, value, sides, s, u):
    """Return the larger of ``best`` and the value of the pair (s, u) minus its deficit.

    ``best`` and the result are tuples: a value, and whether this value is exact.
    """
    if value <= best[0]:
        return best
    deficit, limit = least_deficit(sides.ahead, sides.behind, s, u, sides.n_segments - 1)
    value -= min(deficit, limit)
    return (value, deficit <= limit) if value > best[0] else best


@njit(**WITHIN)
def _improve(signal, sides, t, first, last, best, room):
    """Find the largest value F(s) + f(s,u) + B(u) of a pair (s, u) with s < first and last < u.

    ``best`` holds the value of the best pair so far, and whether this value is exact. If no pair is
    better, ``best`` is returned.

    Claim: by (*) of :mod:`.bounds`, the value of a pair is at most left(s) + right(u) with left(s)
    = F(s) + f(s,t) and right(u) = slack(t) + f(t,u) + B(u). For a second bound, the ends u are
    divided into blocks, whose lengths double with the distance from t. Let e be the first end of
    the block of u. If the segment is split at e, (*) shows that the value is at most F(s) + f(s,e)
    + slack(e) + beyond(u) with beyond(u) = f(e,u) + B(u). With the largest right(u) or the largest
    beyond(u) of a block, these bounds can exclude all ends of the block at once.

    Now let a pair start at least min_size before s, and end at least min_size after u. If we split
    its segment at s and at u, its value falls by at most the slacks and penalties at these two
    positions. So the value of the outer pair is at most the value of (s, u) plus these slacks and
    penalties. If this bound does not exceed ``best``, all such pairs are excluded. In the same way,
    all starts at least min_size before s are excluded if the sum of left(s), the slack at s, the
    penalty at s and the largest right(u) does not exceed ``best``.
    """
    weight, slacks, rules, penalties = signal.weight, signal.slack, signal.rules, signal.penalties
    min_size, c = signal.min_size, signal.c
    forward, backward = sides.forward, sides.backward
    free = not is_given(rules)  # under rules not every split is allowed
    (right, beyond), largest, ceiling = room
    most_left = forward[t] + penalty_at(penalties, t)
    for s in range(max(0, t - min_size + 1), t):  # (s,t] is shorter than min_size
        value = segment_value(signal, s, t)
        most_left = max(most_left, forward[s] + value)
    stop, most_right, n_blocks = _end_blocks(
        signal, backward, t, last, best[0] - most_left, right, beyond, largest
    )
    lowest, s = 0, first
    while s > lowest:
        s -= 1
        # Starts at least min_size farther right may have excluded some ends.
        if s + min_size < first:
            stop = min(stop, ceiling[s + min_size])
        ceiling[s] = stop
        if forward[s] == -np.inf:
            continue
        left = forward[s] + segment_value(signal, s, t)
        at_start = split_slack(slacks, weight, c, s) + penalty_at(penalties, s)
        if free and left + at_start + most_right <= best[0]:
            lowest = max(lowest, s - min_size + 1)
        for block in range(n_blocks):
            begin = last + (1 << block)
            if begin > stop:
                break
            if BLOCKS and left + largest[0, block] <= best[0]:
                continue
            value = forward[s] + segment_value(signal, s, begin)
            low, high = allowed_starts(rules, begin, begin - min_size + 1)
            if low <= s < high:
                other = value + backward[begin]
                best = _better(best, other, sides, s, begin)
            at_end = split_slack(slacks, weight, c, begin)
            pair = value + backward[begin] + at_start + at_end + penalty_at(penalties, begin)
            if free and backward[begin] > -np.inf and pair <= best[0]:
                ceiling[s] = min(ceiling[s], begin + min_size - 1)
            if BLOCKS and value + at_end + largest[1, block] <= best[0]:
                continue
            for u in range(begin + 1, min(stop, last + (2 << block) - 1) + 1):
                if left + right[u] > best[0] and value + at_end + beyond[u] > best[0]:
                    best = _better(best, _pair(signal, sides, s, u), sides, s, u)
    return best


@njit(**WITHIN)
def _end_blocks(signal, backward, t, last, needed, right, beyond, largest):
    """Compute right(u) and beyond(u), as in _improve, for every end u after ``last``.

    The largest right(u) and the largest beyond(u) of each block are written into ``largest``. If
    the sum of right(u), the slack at u and the penalty at u does not exceed ``needed``, the ends
    from u + min_size on are excluded. Returns the last end that remains, the largest right(u) of
    all, and the number of blocks.
    """
    weight, slacks, rules, penalties = signal.weight, signal.slack, signal.rules, signal.penalties
    min_size, c = signal.min_size, signal.c
    stop, u, slack = len(backward) - 1, last, split_slack(slacks, weight, c, t)
    most_right = backward[t] + slack + penalty_at(penalties, t)
    while u < stop:
        u += 1
        right[u] = segment_value(signal, t, u) + backward[u] + slack
        most_right = max(most_right, right[u])
        most = right[u] + split_slack(slacks, weight, c, u) + penalty_at(penalties, u)
        if not is_given(rules) and most <= needed and backward[u] > -np.inf:
            stop = min(stop, u + min_size - 1)
    n_blocks, begin = 0, last + 1
    while begin <= stop:
        end = min(stop + 1, last + 2 * (begin - last))
        largest[0, n_blocks], largest[1, n_blocks] = right[begin], -np.inf
        for u in range(begin + 1, end):
            beyond[u] = segment_value(signal, begin, u) + backward[u]
            largest[0, n_blocks] = max(largest[0, n_blocks], right[u])
            largest[1, n_blocks] = max(largest[1, n_blocks], beyond[u])
        n_blocks, begin = n_blocks + 1, end
    return stop, most_right, n_blocks
