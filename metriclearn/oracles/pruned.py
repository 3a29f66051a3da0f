"""Numba kernels of the exact pruned dynamic program for change-points.

A segment (s, u] is worth f(s,u) = (‖S_u − S_s‖² − κ g(s,u)) / (u−s) + c, where S are cumulative
sums of the factors and g(s,u) = Σ_k |(s,u] ∩ C_k|² / |C_k| measures the overlap with the true
segments. For every split t of (s,u]

    f(s,u) ≤ f(s,t) + f(t,u) + κ − c,                                              (*)

because the difference is −v⊥ᵀ(ZZᵀ − κN)v⊥ − c for a unit vector v⊥ and N is a projection. It is
used twice. Once F(s) + f(s,t) + κ − c ≤ F(t), the start s can never win again (PELT's rule for
κ = 0, c = −λ). And when it still may win, F(s) + f(s,t) bounds its value at every later u through
f(t,u), *the same number for all s*: starts are evaluated at checkpoints t only, and between two
checkpoints just those whose bound beats the incumbent are looked at. Inequality (*) concerns f
alone, so the bound holds for every ``min_size``; the drop needs t to be a legal split of (s,u],
that is u ≥ t + min_size, and takes effect then.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["best_segmentation", "merge_losses", "segment_value", "segment_values", "truth_table"]

_SHIFT_ONLY, _HOT = 0.5, 0.1  # fractions of κ − c below F(u), tuned for speed; any is exact
_REDUCTION = {"reassoc", "contract", "nsz"}


@njit(nogil=True, cache=True)
def truth_table(ends: np.ndarray, n_samples: int) -> np.ndarray:
    """What the kernels need of the true segments to have g in O(1), (T+1, 6).

    Row t: the start and 1/size of the segment that holds sample t−1, what the samples before t
    contribute when the segment began earlier, and what those from t on contribute to any end
    beyond the segment that holds sample t: g(s,u) = before(u) + after(s) unless s and u lie in
    one true segment, where g(s,u) = (u−s)²/|C|. Then the end e of the segment that holds sample
    t, and h = (e−t)(1 − (e−t)/|C|), what any (t,u] with u ≥ e lacks at its left end, see _slack.
    """
    table = np.zeros((n_samples + 1, 6))
    start = 0
    for end in ends:
        size = float(end - start)
        for t in range(start, end):
            left = end - t
            table[t + 1, 0], table[t + 1, 1] = start, 1.0 / size
            table[t + 1, 2] = start + float(t + 1 - start) ** 2 / size
            table[t, 3] = float(left) ** 2 / size - end
            table[t, 4], table[t, 5] = end, left * (1.0 - left / size)
        start = end
    table[-1, 4] = n_samples
    return table


@njit(nogil=True, cache=True, fastmath=_REDUCTION, forceinline=True)
def _energy(S, s, u):
    total = 0.0
    for d in range(S.shape[1]):
        difference = S[u, d] - S[s, d]
        total += difference * difference
    return total


@njit(nogil=True, cache=True, forceinline=True)
def _overlap(table, s, u):
    """g(s,u): interior true segments count their length, the two end ones their share."""
    if s >= table[u, 0]:
        return float((u - s) * (u - s)) * table[u, 1]
    return table[u, 2] + table[s, 3]


@njit(nogil=True, cache=True, forceinline=True)
def segment_value(S, table, kappa, c, s, u):
    """f(s, u); ``table`` is None when κ = 0."""
    value = _energy(S, s, u)
    if table is not None:  # settled at compile time
        value -= kappa * _overlap(table, s, u)
    return value / (u - s) + c


@njit(nogil=True, cache=True, forceinline=True)
def _slack(table, kappa, c, s, t, T):
    """At least f(s,u) − f(s,t) − f(t,u) for every u ≥ t: what s may gain over t after t.

    κ[ρ(s,t) + max_u (ρ(t,u) − ρ(s,u))] − c with ρ(s,u) = g(s,u)/(u−s) ≤ 1, never above κ − c.
    The maximum is over u = e … T, with e the end of the true segment that holds t: before e the
    difference grows. Beyond, it is largest where the true segments fit into (e,u], as
    h(s)/(u−s) − h(t)/(u−t), which has one stationary point.
    """
    if t == T:
        return kappa - c
    missing_s, missing_t, end = table[s, 5], table[t, 5], table[t, 4]
    if missing_t >= missing_s:
        u = float(T)
    else:
        share = np.sqrt(missing_t / missing_s)
        u = min(float(T), max(end, (t - share * s) / (1.0 - share)))
    gain = missing_s / (u - s) - missing_t / (u - t)
    return kappa * (_overlap(table, s, t) / (t - s) + gain) - c


@njit(nogil=True, cache=True)
def segment_values(S, table, kappa, c, ends):
    """Sum of f over the segments with the given ends."""
    total, s = 0.0, 0
    for u in ends:
        total += segment_value(S, table, kappa, c, s, u)
        s = u
    return total


@njit(nogil=True, cache=True)
def merge_losses(S, table, kappa, ends):
    """What Σ f (c = 0) loses when segment k is merged with segment k+1, (K−1,)."""
    losses = np.empty(len(ends) - 1)
    s = 0
    for k in range(len(ends) - 1):
        t, u = ends[k], ends[k + 1]
        losses[k] = (
            segment_value(S, table, kappa, 0.0, s, t)
            + segment_value(S, table, kappa, 0.0, t, u)
            - segment_value(S, table, kappa, 0.0, s, u)
        )
        s = t
    return losses


@njit(nogil=True, cache=True)
def best_segmentation(S, table, kappa, c, min_size):
    """Maximize Σ f over all segmentations with segments of at least ``min_size`` samples.

    Returns F (T+1,), the best value of every prefix (−inf where there is none), and the start of
    its last segment (T+1,), for T + min_size < 2³¹. O(Tr) memory: that of S, 12T bytes, and about
    20 for each live start, as pages of the other arrays are never touched. Close to O(Tr) time on
    data with changes, and far below the O(T²r) of plain pruning without any.
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
    slack = kappa - c
    for u in range(min_size, T + 1):
        newest = u - min_size
        best = F[incumbent] + segment_value(S, table, kappa, c, incumbent, u)
        for s in range(fresh, newest + 1):
            if F[s] > -np.inf:
                value = F[s] + segment_value(S, table, kappa, c, s, u)
                if value > best:
                    best, incumbent = value, s
        work += newest + 1 - fresh
        common = 0.0
        if n_old > 0:
            common = segment_value(S, table, kappa, c, checkpoint, u)
            for b in range(n_blocks):
                if block_max[b] + common <= best:
                    continue
                work += 1
                for j in range(block_start[b], block_start[b + 1]):
                    if bounds[j] + common > best:
                        work += 1
                        s = starts[j]
                        value = F[s] + segment_value(S, table, kappa, c, s, u)
                        if value > best:
                            best, incumbent = value, s
        F[u], last[u] = best, incumbent
        if work >= cost + newest + 1 - fresh:
            for s in range(fresh, newest + 1):
                if F[s] > -np.inf:
                    starts[n_old], bounds[n_old] = s, np.inf
                    expiry[n_old] = T + min_size
                    n_old += 1
            n_old, cost = _renew(
                S, table, kappa, c, min_size, u, common, F, starts, bounds, expiry, n_old
            )
            n_hot = _hot_first(starts, bounds, expiry, n_old, F[u] + (1.0 - _HOT) * slack)
            n_blocks = _form_blocks(bounds, n_hot, n_old, block_max, block_start)
            checkpoint, work, fresh = u, 0, newest + 1
    return F, last


@njit(nogil=True, cache=True)
def _renew(S, table, kappa, c, min_size, u, common, F, starts, bounds, expiry, n):
    """Carry the bounds of live starts over to the checkpoint u and drop beaten starts.

    A value that stays low is only shifted by ``common``; one that comes within reach of F(u) is
    computed. κ − c is added to it, or the smaller :func:`_slack` where that can matter. Returns
    how many starts live on and what the work cost.
    """
    slack = kappa - c
    tight = kappa > 0.1 * slack
    kept, evaluated = 0, 0
    for j in range(n):
        s, bound, until = starts[j], bounds[j] + common, expiry[j]
        if bound + _SHIFT_ONLY * slack > F[u] or slack <= 0.0:
            bound = F[s] + segment_value(S, table, kappa, c, s, u)
            evaluated += 1
        if table is not None and bound + slack > F[u] and (tight or bound - c <= F[u]):
            bound += _slack(table, kappa, c, s, u, S.shape[0] - 1)
        else:
            bound += slack
        if bound <= F[u]:
            until = min(until, u + min_size)
        if until > u + 1:
            starts[kept], bounds[kept], expiry[kept] = s, bound, until
            kept += 1
    return kept, evaluated + n // 4


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
