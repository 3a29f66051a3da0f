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

__all__ = ["best_segmentation", "segment_value", "segment_values", "truth_table"]

_REDUCTION = {"reassoc", "contract", "nsz"}


def truth_table(ends: np.ndarray, n_samples: int) -> np.ndarray:
    """What the kernels need of the true segments at every position, (T+1, 4).

    Columns at position t: start of the segment that holds sample t−1, its share
    (t − start)²/|C| seen from the left, and the end of the segment that holds sample t with its
    share (end − t)²/|C|, so that g is O(1).
    """
    sizes = np.diff(ends, prepend=0)
    starts = ends - sizes
    owner = np.repeat(np.arange(len(ends)), sizes)
    table = np.zeros((n_samples + 1, 4))
    positions = np.arange(n_samples + 1, dtype=np.float64)
    table[1:, 0] = starts[owner]
    table[:-1, 2] = ends[owner]
    table[-1, 2] = n_samples
    table[1:, 1] = (positions[1:] - table[1:, 0]) ** 2 / sizes[owner]
    table[:-1, 3] = (table[:-1, 2] - positions[:-1]) ** 2 / sizes[owner]
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
    if table[u, 0] <= s:  # both ends in one true segment, whose size is (end − start)
        return float(u - s) ** 2 / (table[s, 2] - table[u, 0])
    return table[s, 3] + (table[u, 0] - table[s, 2]) + table[u, 1]


@njit(nogil=True, cache=True, forceinline=True)
def segment_value(S, table, kappa, c, s, u):
    """f(s, u)."""
    value = _energy(S, s, u)
    if kappa != 0.0:
        value -= kappa * _overlap(table, s, u)
    return value / (u - s) + c


@njit(nogil=True, cache=True)
def segment_values(S, table, kappa, c, ends):
    """Sum of f over the segments with the given ends."""
    total, s = 0.0, 0
    for u in ends:
        total += segment_value(S, table, kappa, c, s, u)
        s = u
    return total


@njit(nogil=True, cache=True)
def best_segmentation(S, table, kappa, c, min_size):
    """Maximize Σ f over all segmentations with segments of at least ``min_size`` samples.

    Returns F (T+1,), the best value of every prefix (−inf where there is none), and the start of
    its last segment (T+1,). O(Tr) memory; close to O(Tr) time on data with changes, and without
    any change about O(T^1.5 r) where plain pruning needs O(T² r).
    """
    T = S.shape[0] - 1
    F = np.full(T + 1, -np.inf)
    last = np.full(T + 1, -1)
    F[0] = 0.0
    starts = np.empty(T + 1, dtype=np.int64)  # live starts evaluated at the checkpoint
    bounds = np.empty(T + 1)  # F(s) + f(s, checkpoint)
    expiry = np.empty(T + 1, dtype=np.int64)  # first u from which the start may be dropped
    block_max = np.empty(T + 1)
    n_old, n_blocks, block, checkpoint, work, fresh = 0, 0, 16, 0, 0, 0
    incumbent = 0
    for u in range(min_size, T + 1):
        newest = u - min_size
        best = F[incumbent] + segment_value(S, table, kappa, c, incumbent, u)
        for s in range(fresh, newest + 1):
            if F[s] > -np.inf:
                value = F[s] + segment_value(S, table, kappa, c, s, u)
                if value > best:
                    best, incumbent = value, s
        work += newest + 1 - fresh
        if n_old > 0:
            common = segment_value(S, table, kappa, c, checkpoint, u) + kappa - c
            for b in range(n_blocks):
                if block_max[b] + common <= best:
                    continue
                for j in range(b * block, min(n_old, (b + 1) * block)):
                    if bounds[j] + common > best:
                        work += 1
                        s = starts[j]
                        value = F[s] + segment_value(S, table, kappa, c, s, u)
                        if value > best:
                            best, incumbent = value, s
        F[u], last[u] = best, incumbent
        if work >= n_old + newest + 1 - fresh:
            n_old, n_blocks, block = _checkpoint(
                S, table, kappa, c, min_size, u, fresh, F, starts, bounds, expiry, block_max, n_old
            )
            checkpoint, work, fresh = u, 0, newest + 1
    return F, last


@njit(nogil=True, cache=True)
def _checkpoint(S, table, kappa, c, min_size, u, fresh, F, starts, bounds, expiry, block_max, n):
    """Evaluate every live start at u, drop the beaten ones, and renew the bounds per block."""
    never = S.shape[0] + min_size
    for s in range(fresh, u - min_size + 1):
        if F[s] > -np.inf:
            starts[n], expiry[n] = s, never
            n += 1
    slack = kappa - c
    kept = 0
    for j in range(n):
        s = starts[j]
        value = F[s] + segment_value(S, table, kappa, c, s, u)
        until = expiry[j]
        if value + slack <= F[u]:
            until = min(until, u + min_size)
        if until > u + 1:
            starts[kept], bounds[kept], expiry[kept] = s, value, until
            kept += 1
    block = max(16, int(np.sqrt(kept)))
    n_blocks = (kept + block - 1) // block
    for b in range(n_blocks):
        largest = -np.inf
        for j in range(b * block, min(kept, (b + 1) * block)):
            largest = max(largest, bounds[j])
        block_max[b] = largest
    return kept, n_blocks, block
