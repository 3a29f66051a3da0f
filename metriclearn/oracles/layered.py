"""Exact segmentation into K segments when no price per segment leads to K (numba kernel)."""

from __future__ import annotations

import numpy as np
from numba import njit

from metriclearn.oracles.pruned import segment_value

__all__ = ["layered_segmentation"]


@njit(nogil=True, cache=True)
def layered_segmentation(S, table, kappa, min_size, n_segments, positions, rest, floor):
    """Maximize Σ f over segmentations into ``n_segments`` with ends among ``positions``.

    One layer per number of segments. A prefix of k segments that ends at t survives when its
    value plus ``rest[k, t]``-style bound ``rest[t] + price·(k)`` reaches ``floor``; here the
    price is folded in by the caller: ``rest[t]`` bounds the best continuation from t *at that
    price* and segments are priced the same way, so a state is kept when
    G_k(t) + rest[t] ≥ floor.

    Parameters
    ----------
    positions : int array (n,)
        Admissible ends in increasing order, the last one T.
    rest : array (2, T+1)
        Row 0: upper bound on the priced value of what follows t; row 1, entry 0: the price.
    floor : float
        Priced value of a known segmentation into ``n_segments`` (a lower bound).

    Returns
    -------
    value : float
        Priced best value, −inf if nothing reaches ``floor``.
    ends : int array (n_segments,)
    """
    n = len(positions)
    price = rest[1, 0]
    value = np.full(n, -np.inf)
    parent = np.full((n_segments, n), -1, dtype=np.int32)
    for j in range(n):
        if positions[j] >= min_size:
            value[j] = segment_value(S, table, kappa, -price, 0, positions[j])
    alive = np.empty(n, dtype=np.int32)
    for k in range(1, n_segments):
        n_alive = 0
        for j in range(n - 1):
            if value[j] + rest[0, positions[j]] >= floor:
                alive[n_alive] = j
                n_alive += 1
        value = _next_layer(
            S, table, kappa, price, min_size, positions, value, alive[:n_alive], parent[k]
        )
    ends = np.empty(n_segments, dtype=np.int64)
    best, j = value[n - 1], n - 1
    if best > -np.inf:
        for k in range(n_segments - 1, -1, -1):
            ends[k] = positions[j]
            j = parent[k, j]
    return best, ends


@njit(nogil=True, cache=True)
def _next_layer(S, table, kappa, price, min_size, positions, value, alive, parent):
    n = len(positions)
    following = np.full(n, -np.inf)
    for i in alive:
        s, before = positions[i], value[i]
        for j in range(i + 1, n):
            u = positions[j]
            if u - s >= min_size:
                candidate = before + segment_value(S, table, kappa, -price, s, u)
                if candidate > following[j]:
                    following[j], parent[j] = candidate, i
    return following
