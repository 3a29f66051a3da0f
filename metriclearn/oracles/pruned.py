"""Numba kernels of the exact pruned dynamic program for change-points.

With S the cumulative sums of the factors, a segment (s, u] is worth

    f(s,u) = (‖S_u − S_s‖² − κ g(s,u)) / (u−s) + c,

where g(s,u) = Σ_k |(s,u] ∩ C_k|² / |C_k| measures the overlap with the true segments C_k, or

    f(s,u) = ‖S_u − S_s‖² / (u−s) + α·charge(s,u) + c

with the charges of :class:`~metriclearn.problem.losses.KnownLoss`. Every kernel is written once;
numba compiles it for the terms that a :class:`Signal` has, and leaves out those that are None.

For every split t of (s,u]

    f(s,u) ≤ f(s,t) + f(t,u) + slack(t),                                           (*)

with slack(t) = κ − c for true segments, because the difference is −v⊥ᵀ(ZZᵀ − κN)v⊥ − c for a unit
vector v⊥ and N is a projection; with charges only what is known around t counts. (*) is used
twice. Once F(s) + f(s,t) + slack(t) ≤ F(t), the start s can never win again (PELT's rule for
κ = 0, c = −λ; Killick, Fearnhead & Eckley, JASA 107, 2012). And when it still may win,
F(s) + f(s,t) bounds its value at every later u through f(t,u), *the same number for all s*: starts
are evaluated at checkpoints t only, and between two checkpoints just those whose bound beats the
incumbent are looked at.

Inequality (*) concerns f alone, so the bound holds for every ``min_size`` and under every rule for
segments (:class:`~metriclearn.problem.knowledge.SegmentRules`). The drop of s needs t to be a
legal split of (s,u]: t must be an end at all (F(t) > −∞), u ≥ t + min_size, and no region with at
most one change may hold both t and u, u > reach(t). It takes effect from there on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from metriclearn.problem.losses import charge

__all__ = [
    "Signal",
    "best_layers",
    "best_segmentation",
    "merge_losses",
    "segment_values",
    "truth_table",
]

# Fractions of the slack below F(u): starts closer than the first are evaluated again at a
# checkpoint, those closer than the second are looked at before all others. Any choice is exact;
# these were the fastest of a few on steps in noise, T = 5 000 and 40 000, with and without a truth.
_EVALUATED, _HOT = 0.5, 0.1
_REDUCTION = {"reassoc", "contract", "nsz"}

# Columns of the table of true segments, see truth_table, and rows of SegmentRules.
_START, _SHARE, _BEFORE, _AFTER, _END, _LACK = range(6)
_ALLOWED, _FLOOR, _CEILING, _REACH = range(4)


class Signal(NamedTuple):
    """What the kernels read of a signal; terms that it does not have are None.

    Attributes
    ----------
    cumulative : array (T+1, r)
        S.
    weight : float
        κ with a truth, α with charges, otherwise 0.
    truth : array (T+1, 6), optional
        See :func:`truth_table`.
    charges : array (T+1, 11), optional
        See :func:`~metriclearn.problem.losses.charge_table`.
    slack : array (T+1,), optional
        What charges add to −c in (*).
    rules : int array (4, T+1), optional
        The rows of ``SegmentRules``.
    """

    cumulative: NDArray[np.float64]
    weight: float = 0.0
    truth: NDArray[np.float64] | None = None
    charges: NDArray[np.float64] | None = None
    slack: NDArray[np.float64] | None = None
    rules: NDArray[np.int64] | None = None


@njit(nogil=True, cache=True)
def truth_table(ends: np.ndarray, n_samples: int) -> np.ndarray:
    """What the kernels need of the true segments to have g in O(1), (T+1, 6).

    Row t: the start and 1/size of the segment that holds sample t−1, what the samples before t
    contribute when the segment began earlier, and what those from t on contribute to any end
    beyond the segment that holds sample t: g(s,u) = before(u) + after(s) unless s and u lie in
    one true segment, where g(s,u) = (u−s)²/|C|. Then the end e of the segment that holds sample
    t, and h = (e−t)(1 − (e−t)/|C|), what any (t,u] with u ≥ e lacks at its left end, see
    _truth_slack.
    """
    table = np.zeros((n_samples + 1, 6))
    start = 0
    for end in ends:
        size = float(end - start)
        for t in range(start, end):
            # Sample t lies in C = (start, end]: row t + 1 is read for ends u = t + 1, row t for
            # starts s = t, of whose true segment end − t samples are left.
            left = end - t
            table[t + 1, _START], table[t + 1, _SHARE] = start, 1.0 / size
            table[t + 1, _BEFORE] = start + float(t + 1 - start) ** 2 / size
            table[t, _AFTER] = float(left) ** 2 / size - end
            table[t, _END], table[t, _LACK] = end, left * (1.0 - left / size)
        start = end
    table[-1, _END] = n_samples
    return table


@njit(nogil=True, cache=True, fastmath=_REDUCTION, forceinline=True)
def _energy(S, s, u):
    total = 0.0
    for d in range(S.shape[1]):
        difference = S[u, d] - S[s, d]
        total += difference * difference
    return total


@njit(nogil=True, cache=True, forceinline=True)
def _overlap(truth, s, u):
    """g(s,u): interior true segments count their length, the two end ones their share."""
    if s >= truth[u, _START]:
        return float((u - s) * (u - s)) * truth[u, _SHARE]
    return truth[u, _BEFORE] + truth[s, _AFTER]


@njit(nogil=True, cache=True, forceinline=True)
def _value(S, weight, truth, charges, c, s, u):
    """f(s, u)."""
    value = _energy(S, s, u)
    if truth is not None:  # settled at compile time, as below
        value -= weight * _overlap(truth, s, u)
    value = value / (u - s) + c
    if charges is not None:
        value += weight * charge(charges, s, u)
    return value


@njit(nogil=True, cache=True, forceinline=True)
def _starts(rules, u, stop):
    """(low, high): segments (s, u] are allowed for low ≤ s < high, at most ``stop``."""
    if rules is None:
        return 0, stop
    if rules[_ALLOWED, u] == 0:
        return 0, 0
    return rules[_FLOOR, u], min(rules[_CEILING, u], stop)


@njit(nogil=True, cache=True, forceinline=True)
def _slack(slack, weight, c, t):
    """slack(t) of (*)."""
    return weight - c if slack is None else slack[t] - c


@njit(nogil=True, cache=True, forceinline=True)
def _legal_from(rules, t, min_size):
    """The first end u of which t is a legal split, whatever the start."""
    return t + min_size if rules is None else max(t + min_size, rules[_REACH, t] + 1)


@njit(nogil=True, cache=True, forceinline=True)
def _truth_slack(truth, kappa, c, s, t, T):
    """At least f(s,u) − f(s,t) − f(t,u) for every u ≥ t: what s may gain over t after t.

    κ[ρ(s,t) + max_u (ρ(t,u) − ρ(s,u))] − c with ρ(s,u) = g(s,u)/(u−s) ≤ 1, never above κ − c.
    The maximum is over u = e … T, with e the end of the true segment that holds t: before e the
    difference grows. Beyond, it is largest where the true segments fit into (e,u], as
    h(s)/(u−s) − h(t)/(u−t), which has one stationary point.
    """
    if t == T:
        return kappa - c
    lack_s, lack_t, end = truth[s, _LACK], truth[t, _LACK], truth[t, _END]
    if lack_t >= lack_s:
        u = float(T)
    else:
        share = np.sqrt(lack_t / lack_s)
        u = min(float(T), max(end, (t - share * s) / (1.0 - share)))
    gain = lack_s / (u - s) - lack_t / (u - t)
    return kappa * (_overlap(truth, s, t) / (t - s) + gain) - c


@njit(nogil=True, cache=True)
def segment_values(S, weight, truth, charges, slack, rules, ends):
    """Sum of f (c = 0) over the segments with the given ends."""
    total, s = 0.0, 0
    for u in ends:
        total += _value(S, weight, truth, charges, 0.0, s, u)
        s = u
    return total


@njit(nogil=True, cache=True)
def merge_losses(S, weight, truth, charges, slack, rules, ends):
    """What Σ f (c = 0) loses when segment k is merged with segment k+1, (K−1,)."""
    losses = np.empty(len(ends) - 1)
    s = 0
    for k in range(len(ends) - 1):
        t, u = ends[k], ends[k + 1]
        apart = _value(S, weight, truth, charges, 0.0, s, t) + _value(
            S, weight, truth, charges, 0.0, t, u
        )
        losses[k] = apart - _value(S, weight, truth, charges, 0.0, s, u)
        s = t
    return losses


@njit(nogil=True, cache=True)
def best_segmentation(S, weight, truth, charges, slack, rules, c, min_size):
    """Maximize Σ f over all allowed segmentations with segments of at least ``min_size`` samples.

    For T + min_size < 2³¹. O(Tr) memory: that of S, 12T bytes, and about 20 for each live start,
    as pages of the other arrays are never touched. Close to O(Tr) time on data with changes, and
    far below the O(T²r) of plain pruning without.

    Returns
    -------
    F : array (T+1,)
        The best value of every prefix, −inf where there is none.
    value : float
        Σ f with c = 0 of the best segmentation of all samples.
    ends : int array (K,)
        Its segment ends.
    """
    T = S.shape[0] - 1
    F = np.full(T + 1, -np.inf)
    last = np.full(T + 1, -1, dtype=np.int32)
    F[0] = 0.0
    starts = np.empty(T + 1, dtype=np.int32)  # live starts with a bound
    bounds = np.empty(T + 1)  # at least F(s) + f(s,u) − f(checkpoint,u) for every later u
    expiry = np.empty(T + 1, dtype=np.int32)  # first u from which the start may be dropped
    block_max = np.empty(T + 1)
    block_start = np.empty(T + 2, dtype=np.int32)
    n_old, n_blocks, checkpoint, work, fresh, cost = 0, 0, 0, 0, 0, 0
    incumbent = 0
    for u in range(min_size, T + 1):
        newest = u - min_size
        low, high = _starts(rules, u, newest + 1)
        if low >= high:
            continue
        # The last winner comes first: it often wins again, and a high incumbent spares bounds.
        best = -np.inf
        if low <= incumbent < high:
            best = F[incumbent] + _value(S, weight, truth, charges, c, incumbent, u)
        # Starts that came up after the last checkpoint have no bound yet: all are evaluated.
        for s in range(max(fresh, low), high):
            if F[s] > -np.inf:
                value = F[s] + _value(S, weight, truth, charges, c, s, u)
                if value > best:
                    best, incumbent = value, s
        work += newest + 1 - fresh
        # F(s) + f(s,u) ≤ bounds[s] + f(checkpoint,u): whole blocks are left out by their
        # largest bound, then single starts by their own.
        common = _value(S, weight, truth, charges, c, checkpoint, u)
        for b in range(n_blocks):
            if block_max[b] + common <= best:
                continue
            work += 1
            for j in range(block_start[b], block_start[b + 1]):
                s = starts[j]
                if bounds[j] + common > best and low <= s < high:
                    work += 1
                    value = F[s] + _value(S, weight, truth, charges, c, s, u)
                    if value > best:
                        best, incumbent = value, s
        if best > -np.inf:
            F[u], last[u] = best, incumbent
        # A new checkpoint tightens all bounds; it pays once the work since the last one, looks at
        # blocks and evaluations, has reached what it costs.
        if work >= cost + newest + 1 - fresh:
            n_old = _add(max(fresh, low), newest + 1, F, starts, bounds, expiry, n_old)
            at = _slack(slack, weight, c, u), low, _legal_from(rules, u, min_size), u, common
            live = (starts, bounds, expiry)
            n_old, n_hot, cost = _renew(S, weight, truth, charges, c, at, F, live, n_old)
            n_blocks = _form_blocks(bounds, n_hot, n_old, block_max, block_start)
            checkpoint, work, fresh = u, 0, newest + 1
    ends = _walk_back(last)
    return F, segment_values(S, weight, truth, charges, slack, rules, ends), ends


@njit(nogil=True, cache=True)
def _add(first, stop, F, starts, bounds, expiry, n):
    """Let the starts from ``first`` up to ``stop`` live, with no bound yet; returns how many do."""
    for s in range(first, stop):
        if F[s] > -np.inf:
            starts[n], bounds[n], expiry[n] = s, np.inf, np.iinfo(np.int32).max
            n += 1
    return n


@njit(nogil=True, cache=True)
def _renew(S, weight, truth, charges, c, at, F, live, n):
    """Carry the bounds of live starts over to the checkpoint u and drop starts.

    Those before ``low`` are refused from now on, those beaten at u from ``until`` on. A value
    that stays low is only shifted by ``common``; one that comes within reach of F(u) is computed.
    Returns how many starts live on, how many of them, moved to the front, are hot, and what the
    work cost.
    """
    slack, low, until, u, common = at
    starts, bounds, expiry = live
    tight = weight > 0.1 * slack  # where the smaller slack of true segments can matter
    kept, evaluated = 0, 0
    for j in range(n):
        s, bound, end = starts[j], bounds[j] + common, expiry[j]
        if s < low:
            continue
        if bound + _EVALUATED * slack > F[u] or slack <= 0.0:
            bound = F[s] + _value(S, weight, truth, charges, c, s, u)
            evaluated += 1
        # Now bound = F(s) + f(s,u), or more; by (*) the slack makes it hold for every later end.
        if truth is not None and bound + slack > F[u] and (tight or bound - c <= F[u]):
            bound += _truth_slack(truth, weight, c, s, u, S.shape[0] - 1)
        else:
            bound += slack
        # Beaten at u: from the first end that u may split off, the start u is at least as good.
        if bound <= F[u]:
            end = min(end, until)
        if end > u + 1:
            starts[kept], bounds[kept], expiry[kept] = s, bound, end
            kept += 1
    n_hot = _hot_first(starts, bounds, expiry, kept, F[u] + (1.0 - _HOT) * slack)
    return kept, n_hot, evaluated + n // 4


@njit(nogil=True, cache=True)
def _hot_first(starts, bounds, expiry, n, level):
    """Move the starts whose bound exceeds ``level`` to the front; returns how many they are."""
    hot = 0
    for j in range(n):
        if bounds[j] > level:
            starts[j], starts[hot] = starts[hot], starts[j]
            bounds[j], bounds[hot] = bounds[hot], bounds[j]
            expiry[j], expiry[hot] = expiry[hot], expiry[j]
            hot += 1
    return hot


@njit(nogil=True, cache=True)
def _form_blocks(bounds, n_hot, n, block_max, block_start):
    """One block of hot starts, then blocks of about √n cold ones, each with its largest bound."""
    size = max(16, int(np.sqrt(n)))
    n_blocks, begin = 0, 0
    while begin < n:
        end = n_hot if begin < n_hot else min(n, begin + size)
        largest = -np.inf
        for j in range(begin, end):
            largest = max(largest, bounds[j])
        block_start[n_blocks], block_max[n_blocks] = begin, largest
        n_blocks += 1
        begin = end
    block_start[n_blocks] = n
    return n_blocks


@njit(nogil=True, cache=True)
def _walk_back(last):
    """Segment ends, from the start of the last segment of every prefix."""
    count, t = 0, len(last) - 1
    while t > 0:
        count, t = count + 1, last[t]
    ends = np.empty(count, dtype=np.int64)
    t = len(last) - 1
    while t > 0:
        count -= 1
        ends[count], t = t, last[t]
    return ends


@njit(nogil=True, cache=True)
def best_layers(
    S, weight, truth, charges, slack, rules, c, min_size, n_segments, positions, rest, floor
):
    """Maximize Σ f over allowed segmentations into ``n_segments`` with ends among ``positions``.

    Layer by layer, O(K n²) for n ``positions`` (increasing, the last one T). A prefix is kept
    when its value plus ``rest`` (T+1,) at its end, an upper bound on what follows, reaches
    ``floor``. Returns the value, −inf if there is none, and the segment ends.
    """
    n = len(positions)
    parent = np.full((n_segments, n), -1, dtype=np.int32)
    value = np.full(n, -np.inf)
    for j in range(n):
        low, high = _starts(rules, positions[j], positions[j] - min_size + 1)
        if low <= 0 < high:
            value[j] = _value(S, weight, truth, charges, c, 0, positions[j])
    # value[j]: the best of the samples up to positions[j] in k segments, parent[k, j]: the place of
    # the end before; the first layer has the segments that begin at 0.
    for k in range(1, n_segments):
        following = np.full(n, -np.inf)
        for i in range(n - 1):
            s = positions[i]
            if value[i] == -np.inf or value[i] + rest[s] < floor:
                continue
            for j in range(i + 1, n):
                u = positions[j]
                low, high = _starts(rules, u, u - min_size + 1)
                if low <= s < high:
                    candidate = value[i] + _value(S, weight, truth, charges, c, s, u)
                    if candidate > following[j]:
                        following[j], parent[k, j] = candidate, i
        value = following
    ends = np.empty(n_segments, dtype=np.int64)
    j = n - 1
    if value[j] > -np.inf:
        for k in range(n_segments - 1, -1, -1):
            ends[k] = positions[j]
            j = parent[k, j]
    return value[n - 1], ends
