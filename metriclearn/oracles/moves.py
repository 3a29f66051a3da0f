"""Numba kernel of the local search; imported where used, so that importing oracles stays light.

A cluster C is worth (‖Σ_C z‖² − κ Σ_d |C∩D_d|²/|D_d|)/|C| + c. The kernels keep of every cluster
its sum of factors, its counts |C∩D_d|, its size, and the two squares in its worth.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["improve"]

_RISE = 1e-10  # of the cluster values involved: smaller rises of ⟨A, M⟩ are rounding


@njit(nogil=True, cache=True)
def improve(Z, labels, truth, truth_sizes, n_clusters, weight, shift, free, max_passes):
    """Move samples one at a time while ⟨ZZᵀ − κN + cI, M⟩ rises; ``labels`` is changed in place.

    Each candidate move is O(r), so a sample is O(Kr). With ``free`` a sample may leave to a
    cluster of its own, and a cluster may lose its last sample.

    Returns whether the last pass changed nothing.
    """
    room = min(len(Z), 2 * n_clusters + 16) if free else n_clusters
    sums, counts = np.zeros((room, Z.shape[1])), np.zeros((room, len(truth_sizes)))
    sizes, squares, overlap = np.zeros(room), np.zeros(room), np.zeros(room)
    for i in range(len(Z)):
        _shift(Z[i], labels[i], truth[i], 1.0, sums, counts, sizes)
    for k in range(n_clusters):
        _refresh(k, sums, counts, truth_sizes, squares, overlap)
    used = n_clusters
    for _ in range(max_passes):
        changed = False
        for i in range(len(Z)):
            a, d = labels[i], truth[i]
            if sizes[a] == 1.0 and not free:
                continue
            share = 1.0 / truth_sizes[d]
            target = _best_target(
                Z[i], a, d, share, sums, counts, sizes, squares, overlap, used, weight, shift, free
            )
            if target == a:
                continue
            changed = True
            if target == -1:
                target = _vacant(sizes, used)
                used = max(used, target + 1)
                if used > len(sums):
                    sums, counts = _grown(sums), _grown(counts)
                    sizes, squares, overlap = _longer(sizes), _longer(squares), _longer(overlap)
            _shift(Z[i], a, d, -1.0, sums, counts, sizes)
            _shift(Z[i], target, d, 1.0, sums, counts, sizes)
            labels[i] = target
            _refresh(a, sums, counts, truth_sizes, squares, overlap)
            _refresh(target, sums, counts, truth_sizes, squares, overlap)
        if not changed:
            return True
    return False


@njit(nogil=True, cache=True)
def _best_target(z, a, d, share, sums, counts, sizes, squares, overlap, used, weight, shift, free):
    """The cluster that z of cluster a, with label d, should join; a itself, or −1 for a new one."""
    norm, inner = _dot(z, z), _dot(sums[a], z)
    before = (squares[a] - weight * overlap[a]) / sizes[a] + shift
    rest = 0.0
    if sizes[a] > 1.0:
        left = overlap[a] - (2.0 * counts[a, d] - 1.0) * share
        rest = (squares[a] - 2.0 * inner + norm - weight * left) / (sizes[a] - 1.0) + shift
    best, target, scale = 0.0, a, abs(before) + abs(rest)
    if free and sizes[a] > 1.0:
        alone = norm - weight * share + shift
        if rest + alone - before > _RISE * (scale + abs(alone)):
            best, target = rest + alone - before, -1
    for b in range(used):
        if b == a or sizes[b] == 0.0:
            continue
        old = (squares[b] - weight * overlap[b]) / sizes[b] + shift
        joined = overlap[b] + (2.0 * counts[b, d] + 1.0) * share
        new = squares[b] + 2.0 * _dot(sums[b], z) + norm - weight * joined
        new = new / (sizes[b] + 1.0) + shift
        rise = rest + new - before - old
        if rise > best and rise > _RISE * (scale + abs(old) + abs(new)):
            best, target = rise, b
    return target


@njit(nogil=True, cache=True)
def _dot(x, y):
    total = 0.0
    for j in range(len(x)):
        total += x[j] * y[j]
    return total


@njit(nogil=True, cache=True)
def _shift(z, k, d, sign, sums, counts, sizes):
    """Add a sample with label d to cluster k (sign 1), or take it out (−1)."""
    sizes[k] += sign
    counts[k, d] += sign
    for j in range(len(z)):
        sums[k, j] += sign * z[j]


@njit(nogil=True, cache=True)
def _refresh(k, sums, counts, truth_sizes, squares, overlap):
    squares[k], overlap[k] = _dot(sums[k], sums[k]), 0.0
    for d in range(len(truth_sizes)):
        overlap[k] += counts[k, d] * counts[k, d] / truth_sizes[d]


@njit(nogil=True, cache=True)
def _vacant(sizes, used):
    """The first empty cluster."""
    for k in range(used):
        if sizes[k] == 0.0:
            return k
    return used


@njit(nogil=True, cache=True)
def _grown(rows):
    longer = np.zeros((2 * len(rows), rows.shape[1]))
    longer[: len(rows)] = rows
    return longer


@njit(nogil=True, cache=True)
def _longer(row):
    longer = np.zeros(2 * len(row))
    longer[: len(row)] = row
    return longer
