"""Numba kernels of the indices.

The kernels are imported only inside the functions that call them, so that the package imports fast.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]
_NEGLIGIBLE = 1e-20  # smallest hypergeometric weight that counts, relative to their sum
_WIDE = 1e8  # variance above which two terms of a series are exact to rounding


@njit(nogil=True, cache=True)
def expected_information(a: Ints, a_times: Ints, b: Ints, b_times: Ints, n: int) -> float:
    """Compute the expected mutual information of random labelings, in nats.

    The result is the sum of E[(m/n) ln(n m / (a b))] over all pairs of clusters, where the count m
    is hypergeometric. ``a`` and ``b`` are the distinct cluster sizes of the labelings, and
    ``a_times`` and ``b_times`` tell how many clusters have each size.
    """
    total = 0.0
    for i in range(len(a)):
        for j in range(len(b)):
            times = float(a_times[i]) * float(b_times[j])
            total += times * _expected_cell(a[i], b[j], n)
    return max(total, 0.0)


@njit(nogil=True, cache=True)
def _expected_cell(a: int, b: int, n: int) -> float:
    mean = a / n * b
    variance = mean * ((n - a) / n) * ((n - b) / max(n - 1.0, 1.0))
    if variance > _WIDE:  # Taylor series of m ln(m / mean): terms shrink by a factor of 1/mean
        skewed = variance * ((n - 2.0 * a) / n) * ((n - 2.0 * b) / (n - 2.0))
        rest = (variance / mean) ** 2 / 4.0 - skewed / mean / 6.0
        return (variance / 2.0 + rest) / mean / n
    low, high = max(0, a + b - n), min(a, b)
    mode = int((a + 1.0) * (b + 1.0) / (n + 2.0))
    mode = min(max(mode, low), high)
    scale = n / a / b
    value = mode / n * np.log(scale * mode) if mode > 0 else 0.0
    mass = 1.0
    for step in (1, -1):
        m, weight = mode, 1.0
        while low <= m + step <= high and weight >= _NEGLIGIBLE * mass:
            upper = max(m, m + step)  # w(m) / w(m−1) = (a−m+1)(b−m+1) / (m (n−a−b+m))
            grown = (a - upper + 1.0) * (b - upper + 1.0)
            shrunk = upper * (n - a - b + float(upper))
            weight *= grown / shrunk if step > 0 else shrunk / grown
            m += step
            mass += weight
            if m > 0:
                value += weight * (m / n) * np.log(scale * m)
    return value / mass


@njit(nogil=True, cache=True)
def disagreements(a: Ints, b: Ints) -> tuple[np.uint64, np.uint64]:
    """Count the pairs of samples that are in the same segment in only one of two segmentations.

    The number is returned as two 64-bit words, (high, low). ``a`` and ``b`` are the sorted ends of
    the segments. The last end is the number of samples, below 2⁶³. This is Algorithm 1 of L.
    Prates, "A more efficient algorithm to compute the Rand index for change-point problems", arXiv,
    2021. It takes O(r + s) time and O(1) memory for r and s segments.
    """
    high, low = np.uint64(0), np.uint64(0)
    i = j = start = 0
    while i < len(a):
        end = min(a[i], b[j])
        product_high, product_low = _multiply(np.uint64(end - start), np.uint64(abs(a[i] - b[j])))
        low += product_low
        high += product_high + np.uint64(low < product_low)  # the carry
        start = end
        i, j = i + (a[i] == end), j + (b[j] == end)
    return high, low


@njit(nogil=True, cache=True)
def _multiply(x: np.uint64, y: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the product x·y as two 64-bit words (high, low), computed from 32-bit halves."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    x1, x0, y1, y0 = x >> half, x & mask, y >> half, y & mask
    bottom = x0 * y0
    middle = x1 * y0 + (bottom >> half)
    other = x0 * y1 + (middle & mask)
    return x1 * y1 + (middle >> half) + (other >> half), (other << half) | (bottom & mask)


@njit(nogil=True, cache=True)
def chain_matching(rows: Ints, columns: Ints, counts: Ints) -> np.int64:
    """Count the samples in the best one-to-one matching between the segments of two segmentations.

    A cell is the overlap of a segment of one segmentation (its row) and a segment of the other (its
    column). The cells are sorted by row, and because segments are intervals, also by column. So the
    earlier cells in the row or the column of cell t form a block that ends just before cell t. The
    best matching of the first t + 1 cells therefore either omits cell t, or adds it to the best
    matching of the cells before this block. It takes O(cells) time.
    """
    best = np.zeros(len(counts) + 1, dtype=np.int64)
    row_start = column_start = 0
    for t in range(len(counts)):
        if rows[t] != rows[t - 1]:
            row_start = t
        if columns[t] != columns[t - 1]:
            column_start = t
        best[t + 1] = max(best[t], counts[t] + best[min(row_start, column_start)])
    return best[-1]


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def weighted_concordance(a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[float, float]:
    """Return Σ ŵ and Σ |ŵ| over all pairs i < j, except pairs that are tied in both a and b.

    |ŵ| is the smaller of |a_i − a_j| and |b_i − b_j|, divided by the larger. ŵ is positive if a and
    b order the pair in the same way, and negative if they order it in opposite ways.
    """
    value = weight = 0.0
    for i in range(len(a)):
        part, size = 0.0, 0.0
        for j in range(i + 1, len(a)):
            x, y = a[i] - a[j], b[i] - b[j]
            low, high = min(abs(x), abs(y)), max(abs(x), abs(y))
            ratio = low / high if high > 0.0 else 0.0
            size += ratio
            part += ratio if (x > 0.0) == (y > 0.0) else -ratio
        value += part
        weight += size
    return value, weight


@njit(nogil=True, cache=True)
def matched(a: NDArray, b: NDArray, tolerance: float) -> Ints:
    """Match sorted points one to one, the first two that are at most ``tolerance`` apart first."""
    pairs = np.empty((min(len(a), len(b)), 2), dtype=np.int64)
    n = j = 0
    for i in range(len(a)):
        while j < len(b) and b[j] < a[i] - tolerance:
            j += 1
        if j < len(b) and abs(b[j] - a[i]) <= tolerance:
            pairs[n] = i, j
            n, j = n + 1, j + 1
    return pairs[:n]
