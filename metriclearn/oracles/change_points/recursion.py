"""The recursion of optimal partitioning, F(u) = max_s F(s) + f(s,u) − p_u, in one loop."""

from __future__ import annotations

import numpy as np
from numba import njit

from metriclearn.oracles.change_points.bounds import (
    Incumbent,
    Live,
    new_levels,
    no_fresh,
    renew,
    try_fresh,
    try_levels,
)
from metriclearn.oracles.change_points.segment_values import (
    INTEGER,
    WITHIN,
    allowed_starts,
    called,
    penalty_at,
    segment_value,
)

_PAYS = 1.5  # work since the last checkpoint, in units of its cost, that makes a new one pay


@called
def best_segmentation(signal):
    """Maximize Σ f − Σ p over allowed segmentations into segments of at least ``min_size`` samples.

    For T + min_size < 2³¹. O(Tr) memory: S, 12T bytes, and 16 for each live start, as pages of the
    other arrays are never touched. Close to O(Tr) time on data with changes, and far below the
    O(T²r) of plain pruning without.

    Returns
    -------
    F : array (T+1,)
        The best value of every prefix, a change at its end paid, −inf where there is none.
    ends : int array (K,)
        The segment ends of the best segmentation of all samples; none if there is none.
    """
    T, min_size = signal.cumulative.shape[0] - 1, signal.min_size
    # One array of each type, as numba compiles np.empty anew for every other.
    values, positions = np.empty((2, T + 1)), np.empty((3, T + 1), dtype=np.int32)
    F, last = values[0], positions[0]
    for t in range(T + 1):
        F[t], last[t] = -np.inf, -1
    F[0] = 0.0
    # last[u] is the start of the segment that ends in u; bounds and starts share these arrays.
    live, levels = Live(positions[1], values[1], positions[2]), new_levels()
    fresh, best = no_fresh(signal, INTEGER(0)), Incumbent(-np.inf, INTEGER(0))
    for u in range(min_size, T + 1):
        allowed = allowed_starts(signal.rules, u, u - min_size + 1)
        if allowed[0] >= allowed[1]:
            continue
        # The last winner comes first: it often wins again, and a high incumbent spares bounds.
        s, best = best.start, Incumbent(-np.inf, best.start)
        if allowed[0] <= s < allowed[1]:
            best = Incumbent(F[s] + segment_value(signal, s, u), s)
        n_live = INTEGER(levels.first[levels.number[0]])
        # Fresh starts, then live ones: both compare bounds with the incumbent, so order is speed.
        best, fresh = try_fresh(signal, F, u, allowed, fresh, live.bounds, n_live, best)
        best, due = try_levels(signal, F, u, allowed, live, levels, best)
        F[u], last[u] = best.value - penalty_at(signal.penalties, u), best.start
        # A new checkpoint tightens all bounds. It pays once the work since the last one exceeds its
        # cost. Fresh starts that were tried one by one would be tried again: they have to wait.
        newest, n_fresh = levels.number[0] - 1, u - min_size + 1 - fresh.first
        levels.spent[newest] += fresh.looked
        wait = 0 if fresh.looked > 0 and fresh.spread >= 0.0 else n_fresh
        if levels.spent[newest] >= _PAYS * levels.cost[newest] + wait:
            due = min(due, INTEGER(newest))
        if due <= newest:
            renew(signal, F, u, allowed[0], fresh, live, levels, due)
            fresh = no_fresh(signal, u - min_size + 1)
    return F, _walk_back(last)


@njit(**WITHIN)
def _walk_back(last):
    """Segment ends from the start of the last segment of every prefix."""
    t, n_segments = INTEGER(len(last) - 1), 0
    while t > 0:
        t, n_segments = INTEGER(last[t]), n_segments + 1
    ends, t = np.empty(n_segments, dtype=np.int64), INTEGER(len(last) - 1)
    # From the last segment to the first.
    for k in range(n_segments - 1, -1, -1):
        ends[k], t = t, INTEGER(last[t])
    return ends
