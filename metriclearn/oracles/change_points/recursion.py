"""Find the best segmentation by the recursion F(u) = max_s F(s) + f(s,u) − p_u.

F(u) is the best value of the samples before u minus p_u. f(s,u) is the value of the segment (s,u],
and p_u is the penalty of a change at u. F(u) depends only on samples before u. So one loop serves
both whole sequences (in this file) and samples that arrive over time (in :mod:`.streaming`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from metriclearn.oracles.change_points.bounds import (
    Incumbent,
    Levels,
    Live,
    new_levels,
    no_fresh,
    renew,
    try_fresh,
    try_levels,
)
from metriclearn.oracles.change_points.segment_values import (
    INTEGER,
    LIGHT,
    WITHIN,
    allowed_starts,
    called,
    penalty_at,
    segment_value,
)

_PAYS = 1.5  # a new checkpoint pays if the work since the last one exceeds this times its cost


class Program(NamedTuple):
    """The state of the recursion after it has processed an end.

    Attributes
    ----------
    F : array
        For every position t, the best value of a segmentation of the samples before t, minus p_t;
        −inf if there is no such segmentation.
    last : int32 array
        For every position t, the start of the last segment of the best segmentation before t; −1 if
        there is no such segmentation.
    live : Live
    levels : Levels
    """

    F: NDArray
    last: NDArray
    live: Live
    levels: Levels


@njit(**WITHIN)
def new_program(T):
    """Make a new program for T samples, which has not processed any end yet."""
    # One array for each type of number, because numba compiles np.empty anew for every array type.
    values, positions = np.empty((2, T + 1)), np.empty((3, T + 1), dtype=np.int32)
    F, last = values[0], positions[0]
    for t in range(T + 1):
        F[t], last[t] = -np.inf, -1
    F[0] = 0.0
    return Program(F, last, Live(positions[1], values[1], positions[2]), new_levels())


@njit(**{**LIGHT, "forceinline": False})
def advance(signal, program, begin, stop, fresh, best):
    """Continue the recursion of a program: compute F at all ends from ``begin`` to ``stop``.

    Returns the incumbent of the last end, and the fresh starts. The next call needs both.
    """
    (F, last, live, levels), min_size = program, signal.min_size
    for u in range(begin, stop + 1):
        allowed = allowed_starts(signal.rules, u, u - min_size + 1)
        if allowed[0] >= allowed[1]:
            continue
        # Try the last winner first. It often wins again, and a high incumbent excludes others.
        s, best = best.start, Incumbent(-np.inf, best.start)
        if allowed[0] <= s < allowed[1]:
            best = Incumbent(F[s] + segment_value(signal, s, u), s)
        n_live = INTEGER(levels.first[levels.number[0]])
        # Try fresh starts before live ones. Both compare bounds with the incumbent, so the order
        # affects only speed.
        best, fresh = try_fresh(signal, F, u, allowed, fresh, live.bounds, n_live, best)
        best, due = try_levels(signal, F, u, allowed, live, levels, best)
        F[u], last[u] = best.value - penalty_at(signal.penalties, u), best.start
        # A new checkpoint tightens all bounds. It pays once the work since the last one exceeds its
        # cost. Fresh starts that were tried one by one have to wait, or they would be tried again.
        newest, n_fresh = levels.number[0] - 1, u - min_size + 1 - fresh.first
        levels.spent[newest] += fresh.looked
        wait = 0 if fresh.looked > 0 and fresh.spread >= 0.0 else n_fresh
        if levels.spent[newest] >= _PAYS * levels.cost[newest] + wait:
            due = min(due, INTEGER(newest))
        if due <= newest:
            renew(signal, program, u, allowed[0], fresh, due)
            fresh = no_fresh(signal, u - min_size + 1)
    return best, fresh


@called
def best_segmentation(signal):
    """Maximize Σ f − Σ p over allowed segmentations into segments of at least ``min_size`` samples.

    Requires T + min_size < 2³¹. The memory is O(Tr): S takes 8r bytes per sample, F and the
    back-pointers take 12 bytes per sample, and each live start takes 16 bytes. The arrays for live
    starts have T + 1 entries, but the memory of unused entries is never touched. The time is close
    to O(Tr) on data with changes. On data without changes, the time is far below the O(T²r) of
    PELT's rule alone.

    Returns
    -------
    F : array (T+1,)
        For every position t, the best value of a segmentation of the samples before t, minus p_t;
        −inf if there is no such segmentation.
    ends : int array (K,)
        The segment ends of the best segmentation of all samples; empty if there is none.
    """
    T, program = signal.cumulative.shape[0] - 1, new_program(signal.cumulative.shape[0] - 1)
    fresh, best = no_fresh(signal, INTEGER(0)), Incumbent(-np.inf, INTEGER(0))
    advance(signal, program, signal.min_size, T, fresh, best)
    return program.F, walk_back(program.last, T, INTEGER(0))


@njit(**WITHIN)
def walk_back(last, stop, base):
    """Return the segment ends after ``base``, up to and including ``stop``.

    The segment that ends at t starts at last[t].
    """
    t, n_segments = INTEGER(stop), 0
    while t > base:
        t, n_segments = INTEGER(last[t]), n_segments + 1
    ends, t = np.empty(n_segments, dtype=np.int64), INTEGER(stop)
    # From the last segment to the first.
    for k in range(n_segments - 1, -1, -1):
        ends[k], t = t, INTEGER(last[t])
    return ends
