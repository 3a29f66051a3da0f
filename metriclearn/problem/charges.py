"""Compute charges of segments, whose sum is the loss against partial labels (plus a constant).

The loss is :class:`~metriclearn.problem.losses.KnownLoss`. A table gives each charge in O(1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from metriclearn.problem.regions import Pieces

# Columns of charge_table. A segment (s, u] reads those with U in the row of its end u, and those
# with S in the row of its start s.
# Start of the true segment of sample u−1.
_TRUE_START_U = 0
# 2/|C| of that segment.
_SHARE_U = 1
# Two addends of 2·(overlap) if s and u lie in different true segments.
_BEFORE_U, _AFTER_S = 2, 3
# Start of the known stretch of sample u−1, T+1 outside of stretches.
_STRETCH_U = 4
# Two addends of the charge of all stretches if s and u lie in different stretches.
_UNTIL_U, _SINCE_S = 5, 6
# The numbers of regions with a needed change that end at or before u, and that begin before s.
_ENDED_U, _BEGUN_S = 7, 8
# The same numbers for regions with at most one change, in the opposite order.
_BEGUN_SINGLE_S, _ENDED_SINGLE_U = 9, 10
_N_COLUMNS = 11


class Charges(NamedTuple):
    """A table from which the charges of segments are computed; see :func:`charge_table`.

    Attributes
    ----------
    table : array (T+1, 11)
        The table from which :func:`charge` computes the charge of any segment (s,u].
    slack : array (T+1,)
        For every position t, an upper bound of charge(s,u) − charge(s,t) − charge(t,u) over all s
        and u.
    pieces : Pieces
        The labeled pieces.
    n_segments : int
        Total number of segments in the known stretches.
    """

    table: NDArray[np.float64]
    slack: NDArray[np.float64]
    pieces: Pieces
    n_segments: int

    @property
    def rise(self) -> float:
        """The most that one more change can add to the loss, at least 1.

        It is 1 in a stretch, and 1 in each region with at most one change; these may overlap.
        """
        added = np.zeros(len(self.slack))
        for start, ends in self.pieces.stretches:
            added[start + 1 : ends[-1]] = 1.0
        for region in self.pieces.regions:
            added[region.start + 1 : region.stop] += region.kind.most == 1
        return max(1.0, float(added.max()))

    def mirrored(self) -> Charges:
        """Return the same charges for the samples in reverse order."""
        T = len(self.slack) - 1
        return charge_table(self.pieces.mirrored(T), T)


@njit(nogil=True, cache=True, forceinline=True)
def charge(table: NDArray, s: int, u: int) -> float:
    """Compute the charge of the segment (s, u] from the table of :func:`charge_table`."""
    # Both ends lie in one known stretch.
    if s >= table[u, _STRETCH_U]:
        if s >= table[u, _TRUE_START_U]:
            total = 1.0 - (u - s) * table[u, _SHARE_U]
        else:
            total = 1.0 - (table[u, _BEFORE_U] + table[s, _AFTER_S]) / (u - s)
    else:
        total = table[u, _UNTIL_U] + table[s, _SINCE_S]
    # Regions that should hold a change, but lie inside the segment.
    total += max(0.0, table[u, _ENDED_U] - table[s, _BEGUN_S])
    return total + max(0.0, table[s, _BEGUN_SINGLE_S] - table[u, _ENDED_SINGLE_U])


@njit(nogil=True, cache=True)
def total_charge(table: NDArray, ends: NDArray) -> float:
    """Return the sum of the charges of the segments with the given ends (K,)."""
    total, s = 0.0, 0
    for u in ends:
        total += charge(table, s, u)
        s = u
    return total


def charge_table(pieces: Pieces, n_samples: int) -> Charges:
    """Make the table from which the charges of segments are computed.

    The loss ‖M|piece − N‖² of the segmentation M on a labeled piece with the truth N becomes a sum
    of charges of single segments. The sum of all charges is T ℓ(M, known) − (number of known
    segments). The time is O(T) for each piece.

    A stretch with the true segments C_k charges 1 − 2ρ(s,u) to every segment that overlaps the
    stretch. Here ρ(s,u) = Σ_k |(s,u] ∩ C_k|² / (|C_k| |(s,u] ∩ stretch|). Proof: ‖M − N‖² = Tr M −
    2 Tr MN + Tr N, the last term is constant, and the other two terms are sums over segments. A
    region charges 1 for every missing or superfluous change.
    """
    table, slack = np.zeros((n_samples + 1, _N_COLUMNS)), np.zeros(n_samples + 1)
    table[:, _STRETCH_U] = n_samples + 1
    # A segment that begins and ends in different stretches is charged until[u] + since[s]. The
    # stretches in between end after s and before u, and charge 1 − 2 each.
    whole, n_segments = np.zeros(n_samples + 1), 0
    for start, ends in pieces.stretches:
        n_segments += len(ends)
        _fill_stretch(table, start, ends)
        # A stretch inside the segment charges 1 − 2.
        whole[ends[-1] :] -= 1.0
        slack[start + 1 : ends[-1]] = 1.0
    table[:, _UNTIL_U] += whole
    table[:, _SINCE_S] -= whole
    for region in pieces.regions:
        if region.kind.fewest == 1:
            slack[region.start + 1 : region.stop] += 1.0
            table[region.stop :, _ENDED_U] += 1.0
            table[region.start + 1 :, _BEGUN_S] += 1.0
        if region.kind.most == 1:
            table[region.start + 1 :, _BEGUN_SINGLE_S] += 1.0
            table[region.stop :, _ENDED_SINGLE_U] += 1.0
    return Charges(table, slack, pieces, n_segments)


def _fill_stretch(table: NDArray, start: int, ends: NDArray) -> None:
    """In the rows of one stretch, fill in the columns that describe true segments and stretches."""
    stop = int(ends[-1])
    sizes = np.diff(ends, prepend=start)
    first, last = np.repeat(ends - sizes, sizes), np.repeat(ends, sizes)
    size, u = np.repeat(sizes, sizes), np.arange(start + 1, stop + 1)
    s = u - 1
    table[u, _TRUE_START_U] = first
    table[u, _SHARE_U] = 2.0 / size
    table[u, _STRETCH_U] = start
    # A whole true segment adds its length, and one that u cuts adds less: (start, u] holds all
    # samples before ``first``, and u − first of the |C| samples of the true segment at u. The same
    # holds for (s, stop]. This is the overlap of (start, u] with the true segments.
    before = first - start + (u - first) ** 2 / size
    # Overlap of (s, stop], less stop − start.
    after = (last - s) ** 2 / size - (last - start)
    table[u, _BEFORE_U], table[s, _AFTER_S] = 2.0 * before, 2.0 * after
    # For segments that reach beyond the stretch: an end u adds the charge of (start, u]. A start s
    # adds the charge of (s, stop], less the −1 that ``whole`` contains for this stretch.
    inner_u, inner_s = u[:-1], s[1:]
    table[inner_u, _UNTIL_U] = 1.0 - 2.0 * before[:-1] / (inner_u - start)
    left = (after[1:] + stop - start) / (stop - inner_s)
    table[inner_s, _SINCE_S] = 1.0 - 2.0 * left + 1.0
