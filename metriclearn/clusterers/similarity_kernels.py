"""Numba kernels of the clusterers.

The kernels are imported only where they are used, so that importing the clusterers is fast.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@njit(nogil=True, cache=True)
def hamming_tree(signatures: NDArray) -> tuple[Ints, Ints, Ints]:
    """Find the minimum spanning tree of columns under the Hamming distance, by Prim's algorithm.

    Returns the two columns of every edge and its length, in three arrays (u − 1,).

    ``signatures`` (R × u) is overwritten. When a column joins the tree, the last remaining column
    takes its position. So the remaining columns stay contiguous, and numba vectorizes the loop over
    them. The algorithm takes O(Ru²/2) time and O(u) extra memory.
    """
    n_runs, u = signatures.shape
    names = np.arange(u)
    parents = np.zeros(u, np.int64)
    nearest = np.full(u, n_runs + 1, np.int32)
    distance = np.empty(u, np.int32)
    edges = np.empty((3, max(u - 1, 0)), np.int64)
    pick = 0
    for remaining in range(u - 1, 0, -1):
        joined = names[pick]
        column = signatures[:, pick].copy()
        for r in range(n_runs):  # numba takes two seconds to compile it as an assignment of slices
            signatures[r, pick] = signatures[r, remaining]
        names[pick] = names[remaining]
        parents[pick] = parents[remaining]
        nearest[pick] = nearest[remaining]
        _hamming(signatures, column, distance[:remaining])
        pick = 0
        for j in range(remaining):  # Prim's step over the points that are not joined yet
            if distance[j] < nearest[j]:
                nearest[j] = distance[j]
                parents[j] = joined
            if nearest[j] < nearest[pick]:
                pick = j
        edge = remaining - 1  # edges are filled from the back
        edges[0, edge] = parents[pick]
        edges[1, edge] = names[pick]
        edges[2, edge] = nearest[pick]
    return edges[0], edges[1], edges[2]


@njit(nogil=True, cache=True)
def _hamming(signatures: NDArray, column: NDArray, distance: NDArray[np.int32]) -> None:
    distance[:] = 0
    for r in range(len(column)):
        row, label = signatures[r], column[r]
        for j in range(len(distance)):
            distance[j] += row[j] != label
