"""Numba kernels of the exact pruned dynamic program under constraints and partial losses.

A segment (s, u] is worth f(s,u) = ‖S_u − S_s‖²/(u−s) + α·charge(s,u) + c, and is allowed only
where the rules of :class:`~metriclearn.problem.knowledge.SegmentRules` say so. Charges come from
known stretches and annotated regions, see :mod:`metriclearn.problem.known_loss`. For every split t

    f(s,u) ≤ f(s,t) + f(t,u) + slack(t),                                             (*)

where only what is known around t counts: −c outside of it. As (*) is about f alone, the bounds
of :mod:`metriclearn.oracles.pruned` hold under every constraint. The drop of a start s beaten at
t does not: t must be a legal split of (s,u]. It is one when t can be an end at all (F(t) > −∞),
u ≥ t + min_size, and no region with at most one change holds both t and u, u > reach(t).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from metriclearn.oracles.pruned import _energy, _form_blocks, _hot_first

__all__ = ["allowed_layers", "best_allowed", "charged_merges", "charged_values"]

_SHIFT_ONLY, _HOT = 0.5, 0.1  # as in pruned
_ALLOWED, _FLOOR, _CEILING, _REACH = 0, 1, 2, 3


@njit(nogil=True, cache=True, forceinline=True)
def _charge(table, s, u):
    """Charge of (s, u] for α = 1, O(1); the columns are those of ``charge_table``."""
    if s >= table[u, 4]:  # inside one known stretch
        if s >= table[u, 0]:
            total = table[u, 11] - (u - s) * table[u, 1]
        else:
            total = table[u, 11] - (table[u, 2] + table[s, 3]) / (u - s)
    else:
        total = table[u, 5] + table[s, 6]
    return total + max(0.0, table[u, 7] - table[s, 8]) + max(0.0, table[s, 9] - table[u, 10])


@njit(nogil=True, cache=True, forceinline=True)
def _worth(S, table, scale, c, s, u):
    """f(s, u); ``table`` is None when nothing is charged."""
    value = _energy(S, s, u) / (u - s) + c
    if table is not None:  # settled at compile time
        value += scale * _charge(table, s, u)
    return value


@njit(nogil=True, cache=True)
def charged_values(S, table, scale, ends):
    """Sum of f (c = 0) over the segments with the given ends."""
    total, s = 0.0, 0
    for u in ends:
        total += _worth(S, table, scale, 0.0, s, u)
        s = u
    return total


@njit(nogil=True, cache=True)
def charged_merges(S, table, scale, ends):
    """What Σ f (c = 0) loses when segment k is merged with segment k+1, (K−1,)."""
    losses = np.empty(len(ends) - 1)
    s = 0
    for k in range(len(ends) - 1):
        t, u = ends[k], ends[k + 1]
        apart = _worth(S, table, scale, 0.0, s, t) + _worth(S, table, scale, 0.0, t, u)
        losses[k] = apart - _worth(S, table, scale, 0.0, s, u)
        s = t
    return losses


@njit(nogil=True, cache=True, forceinline=True)
def _scan_fresh(S, table, scale, c, allowed, u, F, best, incumbent):
    """The best value of a last segment (s, u], and its s, over ``allowed`` starts and a first."""
    for s in range(allowed[0], allowed[1]):
        if F[s] > -np.inf:
            value = F[s] + _worth(S, table, scale, c, s, u)
            if value > best:
                best, incumbent = value, s
    return best, incumbent


@njit(nogil=True, cache=True, forceinline=True)
def _scan_old(S, table, scale, c, allowed, u, common, F, starts, bounds, blocks, best, incumbent):
    """The same over the starts of all blocks whose bounds leave a chance; and the work done."""
    block_max, block_start, n_blocks = blocks
    work = 0
    for b in range(n_blocks):
        if block_max[b] + common <= best:
            continue
        work += 1
        for j in range(block_start[b], block_start[b + 1]):
            s = starts[j]
            if bounds[j] + common > best and allowed[0] <= s < allowed[1]:
                work += 1
                value = F[s] + _worth(S, table, scale, c, s, u)
                if value > best:
                    best, incumbent = value, s
    return best, incumbent, work


@njit(nogil=True, cache=True)
def best_allowed(S, table, scale, c, slack, rules, min_size):
    """Maximize Σ f over all allowed segmentations with segments of at least ``min_size``.

    Parameters
    ----------
    slack : array (T+1,)
        Of (*), at every position.
    rules : int array (4, T+1)
        The rows of ``SegmentRules``.

    Returns
    -------
    F : array (T+1,)
        Best value of every prefix, −inf where none is allowed.
    last : int array (T+1,)
        The start of its last segment.
    """
    T = S.shape[0] - 1
    F = np.full(T + 1, -np.inf)
    last = np.full(T + 1, -1)
    F[0] = 0.0
    starts = np.empty(T + 1, dtype=np.int64)
    bounds = np.empty(T + 1)  # at least F(s) + f(s,u) − f(checkpoint,u) for every later u
    expiry = np.empty(T + 1, dtype=np.int64)
    block_max = np.empty(T + 1)
    block_start = np.empty(T + 2, dtype=np.int64)
    n_old, n_blocks, checkpoint, work, fresh, cost = 0, 0, 0, 0, 0, 0
    incumbent = 0
    for u in range(min_size, T + 1):
        if rules[_ALLOWED, u] == 0:
            continue
        newest = u - min_size
        low, high = rules[_FLOOR, u], min(rules[_CEILING, u], newest + 1)
        best = -np.inf
        if low <= incumbent < high:
            best = F[incumbent] + _worth(S, table, scale, c, incumbent, u)
        best, incumbent = _scan_fresh(
            S, table, scale, c, (max(fresh, low), high), u, F, best, incumbent
        )
        work += newest + 1 - fresh
        common = 0.0
        if n_old > 0:
            common = _worth(S, table, scale, c, checkpoint, u)
            blocks = (block_max, block_start, n_blocks)
            best, incumbent, done = _scan_old(
                S,
                table,
                scale,
                c,
                (low, high),
                u,
                common,
                F,
                starts,
                bounds,
                blocks,
                best,
                incumbent,
            )
            work += done
        if best > -np.inf:
            F[u], last[u] = best, incumbent
        if work >= cost + newest + 1 - fresh:
            for s in range(max(fresh, low), newest + 1):
                if F[s] > -np.inf:
                    starts[n_old], bounds[n_old], expiry[n_old] = s, np.inf, T + min_size
                    n_old += 1
            until = max(u + min_size, rules[_REACH, u] + 1)
            state = (starts, bounds, expiry)
            n_old, cost = _renew(
                S, table, scale, c, slack[u], low, until, u, common, F, state, n_old
            )
            n_hot = _hot_first(starts, bounds, expiry, n_old, F[u] + (1.0 - _HOT) * slack[u])
            n_blocks = _form_blocks(bounds, n_hot, n_old, block_max, block_start)
            checkpoint, work, fresh = u, 0, newest + 1
    return F, last


@njit(nogil=True, cache=True)
def _renew(S, table, scale, c, slack, low, until, u, common, F, state, n):
    """Carry the bounds of live starts over to the checkpoint u and drop starts.

    Those before ``low`` are refused from now on, those beaten from ``until`` on.
    """
    starts, bounds, expiry = state
    kept, evaluated = 0, 0
    for j in range(n):
        s, bound, end = starts[j], bounds[j] + common, expiry[j]
        if s < low:
            continue
        if bound + _SHIFT_ONLY * slack > F[u] or slack <= 0.0:
            bound = F[s] + _worth(S, table, scale, c, s, u)
            evaluated += 1
        bound += slack
        if bound <= F[u]:
            end = min(end, until)
        if end > u + 1:
            starts[kept], bounds[kept], expiry[kept] = s, bound, end
            kept += 1
    return kept, evaluated + n // 4


@njit(nogil=True, cache=True)
def allowed_layers(S, table, scale, price, rules, min_size, n_segments, positions, rest, floor):
    """Maximize Σ f (c = −price) over allowed segmentations into ``n_segments``, ends given.

    Layer by layer, O(K n²) for n ``positions`` (increasing, the last one T). A prefix is kept
    when its value plus ``rest`` at its end, an upper bound on what follows, reaches ``floor``.
    Returns the value, −inf if there is none, and the segment ends.
    """
    n = len(positions)
    parent = np.full((n_segments, n), -1, dtype=np.int32)
    value = np.full(n, -np.inf)
    for j in range(n):
        u = positions[j]
        if u >= min_size and rules[_FLOOR, u] <= 0 < rules[_CEILING, u]:
            value[j] = _worth(S, table, scale, -price, 0, u)
    for k in range(1, n_segments):
        following = np.full(n, -np.inf)
        for i in range(n - 1):
            s = positions[i]
            if value[i] + rest[s] < floor or value[i] == -np.inf:
                continue
            for j in range(i + 1, n):
                u = positions[j]
                if u - s >= min_size and rules[_FLOOR, u] <= s < rules[_CEILING, u]:
                    candidate = value[i] + _worth(S, table, scale, -price, s, u)
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
