"""Numba kernel of the local search; imported where used, so that importing oracles stays light."""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["improve"]

_RISE = 1e-10  # of the cluster values involved: smaller rises of ⟨A, M⟩ are rounding


@njit(nogil=True, cache=True)
def improve(Z, labels, truth, truth_sizes, n_clusters, weight, shift, free, max_passes):
    """Move samples one at a time while ⟨ZZᵀ − κN + cI, M⟩ rises; ``labels`` is changed in place.

    A cluster C is worth (‖Σ_C z‖² − κ Σ_l |C∩D_l|²/|D_l|)/|C| + c; with its sums and counts kept,
    each candidate move is O(r), so a sample is O(Kr). With ``free`` a sample may leave to a
    cluster of its own, and a cluster may lose its last sample.

    Returns (number of passes, whether the last one changed nothing).
    """
    T, r = Z.shape
    room = T if free else n_clusters
    sums = np.zeros((min(room, 2 * n_clusters + 16), r))
    counts = np.zeros((len(sums), len(truth_sizes)))
    sizes, overlap = np.zeros(len(sums)), np.zeros(len(sums))
    for i in range(T):
        k = labels[i]
        sizes[k] += 1.0
        counts[k, truth[i]] += 1.0
        for j in range(r):
            sums[k, j] += Z[i, j]
    squares = np.zeros(len(sums))
    for k in range(n_clusters):
        _refresh(k, sums, counts, truth_sizes, squares, overlap)
    used = n_clusters
    for sweep in range(max_passes):
        changed = False
        for i in range(T):
            a, d = labels[i], truth[i]
            if sizes[a] == 1.0 and not free:
                continue
            inverse = 1.0 / truth_sizes[d]
            norm = 0.0
            inner = 0.0
            for j in range(r):
                norm += Z[i, j] * Z[i, j]
                inner += sums[a, j] * Z[i, j]
            before = (squares[a] - weight * overlap[a]) / sizes[a] + shift
            rest = 0.0
            if sizes[a] > 1.0:
                left = squares[a] - 2.0 * inner + norm
                left -= weight * (overlap[a] - (2.0 * counts[a, d] - 1.0) * inverse)
                rest = left / (sizes[a] - 1.0) + shift
            alone = norm - weight * inverse + shift
            best, target = 0.0, a
            size_of_best = abs(before) + abs(rest)
            if free and sizes[a] > 1.0:
                rise = rest + alone - before
                if rise > _RISE * (size_of_best + abs(alone)):
                    best, target = rise, -1
            for b in range(used):
                if b == a or sizes[b] == 0.0:
                    continue
                inner = 0.0
                for j in range(r):
                    inner += sums[b, j] * Z[i, j]
                old = (squares[b] - weight * overlap[b]) / sizes[b] + shift
                new = squares[b] + 2.0 * inner + norm
                new -= weight * (overlap[b] + (2.0 * counts[b, d] + 1.0) * inverse)
                new = new / (sizes[b] + 1.0) + shift
                rise = rest + new - before - old
                if rise > best and rise > _RISE * (size_of_best + abs(old) + abs(new)):
                    best, target = rise, b
            if target == a:
                continue
            changed = True
            if target == -1:
                target = 0
                while target < used and sizes[target] > 0.0:
                    target += 1
                if target == used:
                    used += 1
                if used > len(sums):
                    sums, counts = _grown(sums), _grown(counts)
                    sizes, squares, overlap = _longer(sizes), _longer(squares), _longer(overlap)
            sizes[a] -= 1.0
            sizes[target] += 1.0
            counts[a, d] -= 1.0
            counts[target, d] += 1.0
            for j in range(r):
                sums[a, j] -= Z[i, j]
                sums[target, j] += Z[i, j]
            labels[i] = target
            _refresh(a, sums, counts, truth_sizes, squares, overlap)
            _refresh(target, sums, counts, truth_sizes, squares, overlap)
        if not changed:
            return sweep + 1, True
    return max_passes, False


@njit(nogil=True, cache=True)
def _refresh(k, sums, counts, truth_sizes, squares, overlap):
    squares[k] = 0.0
    for j in range(sums.shape[1]):
        squares[k] += sums[k, j] * sums[k, j]
    overlap[k] = 0.0
    for l in range(len(truth_sizes)):  # noqa: E741
        overlap[k] += counts[k, l] * counts[k, l] / truth_sizes[l]


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
