"""The least deficits of segmentations into a given number of segments, see :mod:`.margins`.

Let F and B be the best values before and after every position, at a penalty λ. Among the
segmentations into K segments with a change at t, none has a value above F(t) + B(t) + p_t + λK. The
deficit of such a segmentation is the amount by which its value falls short of this bound. The
deficit is a sum of one term for each segment, and no term is negative. So we use only segments
whose term is at most a window. For every position t and every number k, the layers store the least
deficit of k segments that cover the samples before t. A stored deficit is exact if it is at most
the window.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from metriclearn.oracles.change_points.segment_values import (
    LIGHT,
    WITHIN,
    allowed_starts,
    called,
    penalty_at,
    segment_value,
    split_slack,
)

STARTS = 16  # number of neighboring starts that are bounded together; exact for any number, too


class Layers(NamedTuple):
    """The least deficit of k segments that cover the samples before t, for every t and k.

    Attributes
    ----------
    rows : int array (T+1, 3)
        For every t, three numbers: the index in ``deficits`` where its deficits begin, the number
        of segments of the first deficit, and how many deficits there are. Each further deficit is
        for one more segment.
    deficits : array
        The deficits of all positions t.
    limits : array (T+1,)
        For every t, a limit. All deficits of t up to the limit are present and exact.
    """

    rows: NDArray
    deficits: NDArray
    limits: NDArray

    def turned(self) -> Layers:
        """Return layers of reversed samples in the order of the samples.

        Row t of the result describes the samples from t on.
        """
        return Layers(self.rows[::-1].copy(), self.deficits, self.limits[::-1].copy())


NO_LAYERS = Layers(np.empty((0, 3), dtype=np.int64), np.empty(0), np.empty(0))


class Sides(NamedTuple):
    """The best values before and after every t, F and B, each (T+1,), and the layers of both.

    ``ahead`` holds the layers of the samples before every t, and ``behind`` the layers of the
    samples from every t on. Both are empty if the number of segments is not given.
    """

    forward: NDArray
    backward: NDArray
    ahead: Layers
    behind: Layers
    n_segments: int


def no_layers(T: int) -> Layers:
    """Make layers with a single deficit: 0, which belongs to 0 segments before position 0."""
    rows = np.zeros((T + 1, 3), dtype=np.int64)
    rows[0, 2] = 1  # no segments before the first sample
    limits = np.full(T + 1, -1.0)
    limits[0] = np.inf
    return Layers(rows, np.zeros(4 * T + 4), limits)


@called
def widened(signal, best, bounds, layers, needs, lost, n_segments):
    """For every position u, add to the layers all deficits that are at most needs[u].

    Segmentations into more than ``n_segments`` segments are left out. The first pass runs backward
    from the positions whose need is larger than their limit. If a segment (s,u] is used, the
    deficits of s must be known up to needs[u] minus the deficit of the segment. So the first pass
    raises needs[s] to this number. The second pass runs forward and fills in the rows.
    """
    rows, deficits, limits = layers.rows.copy(), layers.deficits, layers.limits
    needs, size, T = needs.copy(), len(deficits), len(best) - 1
    near, lacks = np.empty(T + 1, dtype=np.int64), np.empty(T + 1)
    if limits[T] < 0.0:
        size = 1  # no layers so far: all positions need the same
    else:
        for u in range(T, 0, -1):
            if needs[u] > limits[u] and best[u] > -np.inf:
                for i in range(_near(signal, best, bounds, lost, needs[u], u, near, lacks)):
                    needs[near[i]] = max(needs[near[i]], needs[u] - lacks[i])
    # We go forward, so that the rows of all starts are complete when an end reads them.
    for u in range(1, T + 1):
        if needs[u] > limits[u] and best[u] > -np.inf:
            found = _near(signal, best, bounds, lost, needs[u], u, near, lacks)
            deficits, size = _add_row(
                rows, deficits, size, u, near[:found], lacks[:found], n_segments, needs[u]
            )
    return Layers(rows, deficits[:size].copy(), np.maximum(needs, limits))


@called
def start_bounds(signal, best):
    """Bound every start, and every block of ``STARTS`` neighboring starts, for :func:`_near`.

    Let e be the last start of a block. bounds[0, s] is F(s) + f(s,e) + slack(e) for all other
    starts s of the block, and F(e) for e. bounds[1, k] is the largest of these in block k. Starts
    after the last whole block have the bound ∞.

    Claim: F(s) + f(s,u) ≤ bounds[0, s] + f(e,u) for every end u > e. Proof: for s < e, this is (*)
    of :mod:`.bounds` with the split e.
    """
    bounds = np.full((2, len(best)), np.inf)
    for block in range(len(best) // STARTS):
        last = block * STARTS + STARTS - 1
        slack = split_slack(signal.slack, signal.weight, signal.c, last)
        bounds[0, last] = bounds[1, block] = best[last]
        for s in range(block * STARTS, last):
            bounds[0, s] = best[s] + segment_value(signal, s, last) + slack
            bounds[1, block] = max(bounds[1, block], bounds[0, s])
    return bounds


@njit(**{**LIGHT, "forceinline": False})
def _near(signal, best, bounds, lost, need, u, near, lacks):
    """Find the starts s for which the segment (s,u] has a deficit of at most ``need``.

    The starts are written into ``near``, and the deficits of their segments into ``lacks``. Returns
    the number of starts. The ``bounds`` of :func:`start_bounds` exclude single starts and blocks.

    Claim: let e be a start for which F(e) + f(e,u) + slack(e) + p_e has a deficit above ``need``.
    Then all starts s with an allowed segment (s,e] are excluded. Proof: by (*) of :mod:`.bounds`,
    F(s) + f(s,u) ≤ F(s) + f(s,e) + slack(e) + f(e,u), and F(s) + f(s,e) ≤ F(e) + p_e.

    Compared with the best segmentation, one with a change at s loses at least lost[s]. We need only
    segmentations that lose at most lost[u] + need.
    """
    rules, penalties, min_size = signal.rules, signal.penalties, signal.min_size
    low, high = allowed_starts(rules, u, u - min_size + 1)
    top, found = best[u] + penalty_at(penalties, u), 0
    excluded = top - need - 1e-13 * (abs(top) + need)  # allows for rounding of bounds
    for block in range((high - 1) // STARTS, -1, -1):
        last, common = block * STARTS + STARTS - 1, np.inf
        if last < low:
            break
        if last < high:
            common = segment_value(signal, last, u)
            most = best[last] + common + penalty_at(penalties, last)
            if most + split_slack(signal.slack, signal.weight, signal.c, last) < excluded:
                low = max(low, allowed_starts(rules, last, last - min_size + 1)[1])
            if bounds[1, block] + common < excluded:
                continue
        # Bounds of a block that is cut off by the last allowed start do not hold: common is ∞.
        for s in range(min(last, high - 1), max(low, block * STARTS) - 1, -1):
            if bounds[0, s] + common >= excluded and lost[s] <= lost[u] + need:
                value = best[s] + segment_value(signal, s, u)
                if value >= top - need:
                    near[found], lacks[found], found = s, top - value, found + 1
    return found


@njit(**WITHIN)
def _add_row(rows, deficits, size, u, near, lacks, n_segments, window):
    """Extend the row of u by segmentations whose last segment begins at a position in ``near``.

    Returns the array of all deficits, which may be a new and larger one, and their number.
    """
    if size + n_segments > len(deficits):
        more = np.empty(2 * len(deficits) + n_segments)
        for i in range(size):  # numba takes two seconds to compile an assignment of slices
            more[i] = deficits[i]
        deficits = more
    old, first, number = rows[u]
    last = first + number - 1
    if number == 0:
        first, last = n_segments + 1, 0
    for i in range(len(near)):
        if rows[near[i], 2] > 0:
            first = min(first, rows[near[i], 1] + 1)
            last = max(last, min(n_segments, rows[near[i], 1] + rows[near[i], 2]))
    # Write the row anew at the end of the array, because its old place may be too short.
    row = deficits[size : size + max(0, last - first + 1)]
    row[:] = np.inf
    for k in range(number):
        row[rows[u, 1] + k - first] = deficits[old + k]
    for i in range(len(near)):
        begin, fewest, number = rows[near[i]]
        for k in range(min(number, n_segments - fewest)):
            place = fewest + 1 + k - first
            row[place] = min(row[place], deficits[begin + k] + lacks[i])
    # Deficits beyond the window are not exact, so we remove them from the end of the row.
    while last >= first and not row[last - first] <= window:
        last -= 1
    rows[u, 0], rows[u, 1], rows[u, 2] = size, first, max(0, last - first + 1)
    return deficits, size + rows[u, 2]


@njit(**LIGHT)
def least_deficit(ahead, behind, s, u, n_segments):
    """Find the least deficit of ``n_segments`` segments, some before s and the others after u.

    Also returns a limit: the deficit is exact if it does not exceed the limit. If there are no
    layers, the deficit is 0. If the layers hold no deficit for this number of segments, it is
    infinite.
    """
    if len(ahead.limits) == 0:
        return 0.0, np.inf
    begin, fewest, number = ahead.rows[s]
    other, fewest_behind, number_behind = behind.rows[u]
    most, least = n_segments - fewest_behind, np.inf  # before s
    for k in range(max(fewest, most - number_behind + 1), min(fewest + number - 1, most) + 1):
        least = min(least, ahead.deficits[begin + k - fewest] + behind.deficits[other + most - k])
    return least, min(ahead.limits[s], behind.limits[u])


@called
def least_deficits(sides):
    """For every t, find the least deficit of a segmentation with a change at t."""
    least = np.empty(len(sides.forward))
    for t in range(len(least)):
        least[t] = least_deficit(sides.ahead, sides.behind, t, t, sides.n_segments)[0]
    return least
