"""Run the recursion while samples arrive, find final changes, and forget old positions.

**Final segments.** F(u) depends only on samples before u. Whatever samples follow, the segment that
contains the next sample begins at one of the *live* starts. The live starts are the starts that the
recursion still keeps, and the newest positions. For each live start, there is a best segmentation
of the samples before it. Suppose that all of these segmentations share a change c. Then, whatever
samples follow, the best segmentation has the same changes up to c.

**What may be forgotten.** Once a change c is final, the recursion compares only values F(s) +
f(s,u) of starts s whose best segmentation has the change c. Each of these values includes F(c), and
no segment before c is evaluated again. So c takes the place of position 0, with F(c) = 0.

**Offsets do not matter.** If a is subtracted from every sample, a segment of n samples with the sum
S has the value ‖S − na‖²/n = ‖S‖²/n − 2⟨S, a⟩ + n‖a‖². The last two terms add up to −2⟨S_T, a⟩ +
T‖a‖² over the segments of any segmentation, so the best segmentation is the same for every a. A
whole sequence is centered by its mean, which a stream cannot know in advance. Instead, an offset
near the data is subtracted before samples are summed, because large sums would cost digits.
Whenever positions are forgotten, the sums are centered again. Values computed in a stream differ
from values computed on the whole sequence by rounding, about 1e-15 of the sum of squares. So if two
segmentations have the same value up to this error, a stream may return one of them, while a run on
the whole sequence returns the other.

From time to time the recursion checks whether one more change is final. The times of these checks
depend only on the numbers of samples and starts. So the division of the samples into chunks does
not change a single bit of the results.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from metriclearn.oracles.change_points.bounds import (
    Fresh,
    Incumbent,
    no_fresh,
    renew,
)
from metriclearn.oracles.change_points.recursion import advance, walk_back
from metriclearn.oracles.change_points.segment_values import (
    INTEGER,
    LIGHT,
    called,
    energy,
    n_between,
    penalty_at,
    segment_value,
)

# Fields of Progress.clock: the number of samples so far, the latest final change, the times of the
# next check for a final change and of the next centering, the first fresh start, the number of
# fresh starts that were tried, and the start of the last incumbent.
NOW, BASE, CHECK, CENTER, FIRST, LOOKED, WINNER, N_CLOCK = range(8)
_SPREAD, _TOP, _VALUE, N_BOUNDS = range(4)
# The next check comes one sample later for every _SHARE starts or positions that this one visits.
_SHARE = 16
_FIRST_CENTER = 16  # samples after which sums are centered for the first time
_NEVER = 2**31 - 1


class Progress(NamedTuple):
    """The numbers that the recursion needs to continue, in addition to its program.

    The functions of this file change these numbers in place.

    Attributes
    ----------
    clock : int array (N_CLOCK,)
        Counts and positions. The constants ``NOW`` to ``WINNER`` are the indices of its entries.
    bounds : array (N_BOUNDS,)
        ``spread`` and ``top`` of the fresh starts, and the value of the last incumbent.
    center : array (r,)
        The mean that is subtracted from samples before they are summed.
    needed : bool array
        Working memory: a mark for every position.
    """

    clock: NDArray
    bounds: NDArray
    center: NDArray
    needed: NDArray


@called
def projected(rows, offset, components):
    """Compute (X − offset)·componentsᵀ, (n, r), for ``rows`` X.

    Rows are computed one by one, so that the division of samples into chunks changes no bit.
    """
    result = np.zeros((len(rows), len(components)))
    for t in range(len(rows)):
        for k in range(len(components)):
            for p in range(len(offset)):
                result[t, k] += (rows[t, p] - offset[p]) * components[k, p]
    return result


@called
def follow(signal, program, progress, rows, scores, penalties):
    """Append samples, but stop once one more change is final or sums must be centered again.

    Parameters
    ----------
    signal, program, progress
        The state of the recursion. Its arrays must have room for the new samples.
    rows : array (n, r)
        New samples.
    scores : array (n, C)
        The scores of names in these samples, at most 0; C = 0 without names.
    penalties : array (n,) or (0,)
        Penalty of a change after each of these samples.

    Returns
    -------
    int
        The number of samples that were appended.
    int
        The position of the latest final change.
    """
    clock, bounds, center = progress.clock, progress.bounds, progress.center
    min_size = signal.min_size
    more = rows, scores, penalties
    fresh = Fresh(clock[FIRST], bounds[_SPREAD], bounds[_TOP], clock[LOOKED])
    best = Incumbent(bounds[_VALUE], clock[WINNER])
    used, u, change = INTEGER(0), clock[NOW], clock[BASE]
    while used < len(rows) and change == clock[BASE] and u < clock[CENTER]:
        stop = min(clock[CHECK], clock[CENTER], u + len(rows) - used)
        for t in range(u + 1, stop + 1):
            row = used + t - u - 1
            _append(signal.cumulative, signal.emissions, signal.penalties, center, more, row, t)
            program.F[t], program.last[t] = -np.inf, -1
        best, fresh = advance(signal, program, max(u + 1, min_size), stop, fresh, best)
        used, u = used + stop - u, stop
        if u == clock[CHECK]:
            looked = INTEGER(0)
            if u >= min_size:
                levels = program.levels
                _discard(signal, program, u)
                renew(signal, program, u, 0, fresh, 0)
                fresh = no_fresh(signal, u - min_size + 1)
                change, looked = _shared_change(
                    program, progress.needed, clock[BASE], fresh.first, u
                )
                looked += levels.first[levels.number[0]] + min_size
            clock[CHECK] = u + 1 + looked // _SHARE
    clock[NOW] = u
    clock[FIRST], clock[LOOKED], clock[WINNER] = fresh.first, fresh.looked, best.start
    bounds[_SPREAD], bounds[_TOP], bounds[_VALUE] = fresh.spread, fresh.top, best.value
    return used, change


@njit(**LIGHT)
def _append(S, E, penalties, center, more, row, t):
    """Compute the sums and the penalty at position t from row ``row`` of the arrays ``more``."""
    rows, scores, of_changes = more
    for d in range(S.shape[1]):
        S[t, d] = S[t - 1, d] + (rows[row, d] - center[d])
    if E is not None:
        for c in range(E.shape[1]):
            E[t, c] = E[t - 1, c] + scores[row, c]
    if len(penalties):
        penalties[t] = of_changes[row]


@njit(**LIGHT)
def _discard(signal, program, u):
    """Drop live starts that will never beat both u and c, where c is the best start at u.

    Such a start expires. Claim: let a start s be best for a later end, and let the segment from s
    to this end have the mean μ and the name k. The start s is better than a start t > s only if μ
    lies in a ball around the mean m of the samples from s to t,

        |μ − m|² < (F(s) + f_k(s,t) + λ − F(t)) / (t − s),

    because the sum of 2⟨μ, z⟩ − |μ|² over the samples z from s to t, plus their score for the name
    k, must exceed F(t) − F(s). Here f_k is the value of a segment with the name k. This value
    includes the penalty λ of a segment, and + λ removes it. A start s > c is better than c only if
    μ lies outside the ball of c and s. So s < c never wins if, for all names, the ball of s and u
    does not meet the ball of s and c. And s > c never wins if, for all names, the ball of s and u
    lies inside the ball of c and s. With (*) of :mod:`.bounds` alone, starts near c would stay live
    until the next change. This is functional pruning (Maidstone et al., Statistics and Computing
    27, 2017).
    """
    F, last, live, levels = program
    best = INTEGER(last[u])
    for j in range(levels.first[levels.number[0]]):
        s = INTEGER(live.starts[j])
        if s == best or live.expiry[j] <= u + signal.min_size:
            continue
        k, n_names = 0, _number(signal.emissions)
        while k < n_names and _never_wins(signal, F, s, best, u, k):
            k += 1
        if k == n_names:
            live.expiry[j] = u + signal.min_size


@njit(**LIGHT)
def _number(E):
    """Return the number of names, or 1 without names."""
    return 1 if E is None else E.shape[1]


@njit(**LIGHT)
def _name_score(E, s, t, k):
    """Return the score of the name k in (s,t]."""
    return 0.0 if E is None else E[t, k] - E[s, k]


@njit(**LIGHT)
def _ball(signal, F, s, t, k):
    """Compute the squared radius of the ball of s and t; see :func:`_discard`.

    Also returns the rounding error of the squared radius, and the number of samples in (s,t].
    """
    length = n_between(signal.head, s, t)
    value = energy(signal.cumulative, s, t) / length + _name_score(signal.emissions, s, t, k)
    rounding = 1e-12 * (abs(value) + abs(F[s]) + abs(F[t]))
    return (F[s] + value - F[t]) / length, rounding / length, length


@njit(**LIGHT)
def _never_wins(signal, F, s, best, u, k):
    """Return whether s never beats both u and ``best`` if the segment has the name k."""
    S = signal.cumulative
    square, error, n = _ball(signal, F, s, u, k)
    if square + error <= 0.0:
        return True
    radius, a, b = np.sqrt(square + error), min(s, best), max(s, best)
    square, error, m = _ball(signal, F, a, b, k)
    distance = 0.0
    for d in range(S.shape[1]):
        difference = (S[u, d] - S[s, d]) / n - (S[b, d] - S[a, d]) / m
        distance += difference * difference
    distance = np.sqrt(distance)
    if s < best:  # whether the balls are disjoint
        return square + error <= 0.0 or distance > (1 + 1e-9) * (radius + np.sqrt(square + error))
    inner = square - error
    return inner > 0.0 and (1 + 1e-9) * (distance + radius) < np.sqrt(inner)


@njit(**LIGHT)
def _mark(program, needed, base, first_fresh, u):
    """Mark the live starts. Returns their number, and whether ``base`` is one of them."""
    starts, n_live = program.live.starts, INTEGER(program.levels.first[program.levels.number[0]])
    count, has_base = 0, first_fresh <= base
    for t in range(base, u + 1):
        needed[t] = t >= first_fresh
        count += needed[t]
    for j in range(n_live):
        has_base = has_base or starts[j] == base
        count += not needed[starts[j]]
        needed[starts[j]] = True
    return count, has_base


@njit(**LIGHT)
def _shared_change(program, needed, base, first_fresh, u):
    """Find the latest change that is shared by the best segmentations of all live starts.

    Also returns the number of positions that were visited. We begin with the set of all live
    starts. Again and again, we replace the largest position of the set by the start of the segment
    that ends there. Once a single position remains, all segmentations share it.
    """
    starts, n_live = program.live.starts, INTEGER(program.levels.first[program.levels.number[0]])
    for j in range(n_live):  # mostly one of the first: the oldest starts are in the first block
        if starts[j] == base:
            return base, j
    count, _ = _mark(program, needed, base, first_fresh, u)
    t = u
    while t > base and (count > 1 or not needed[t]):
        if needed[t]:
            before = INTEGER(program.last[t])
            if before < 0:  # too few samples for a segment: only base can come before
                before = base
            count -= needed[before]
            needed[before] = True
        t -= 1
    return t, u - base


@called
def compact(signal, program, progress, base, first):
    """Forget all positions before ``first`` except ``base``, and center the sums again.

    ``signal`` must already have its new ``head``. For the remaining positions, F is computed anew
    from their segments, so that rounding errors do not add up over the stream.

    Returns
    -------
    bool
        Whether the function forgot a start that might still have won. If it did, results may not be
        exact.
    """
    clock, needed, center = progress.clock, progress.needed, progress.center
    (F, last, live, levels), S, u = program, signal.cumulative, clock[NOW]
    shift = first - 1
    _mark(program, needed, base, clock[FIRST], u)
    for t in range(u, first - 1, -1):
        if needed[t] and last[t] >= first:
            needed[last[t]] = True
    _move_sums(S, signal.emissions, signal.penalties, center, base, shift, signal.head, u)
    F[0], last[0], lost = 0.0, -1, False
    for t in range(first, u + 1):
        before, value, start = INTEGER(last[t]), -np.inf, INTEGER(-1)
        if needed[t] and F[t] > -np.inf:
            start = INTEGER(0) if before == base else before - shift
            if start < 0 or (start == 0 and before != base) or F[start] == -np.inf:
                lost, start = True, INTEGER(-1)
            else:
                value = F[start] + segment_value(signal, start, t - shift)
                value -= penalty_at(signal.penalties, t - shift)
        F[t - shift], last[t - shift] = value, start
    n_kept = INTEGER(0)
    for j in range(levels.first[levels.number[0]]):
        s = INTEGER(0) if live.starts[j] == base else INTEGER(live.starts[j]) - shift
        if s < 0 or (s == 0 and live.starts[j] != base) or F[s] == -np.inf:
            lost = True
            continue
        expiry = live.expiry[j]
        live.starts[n_kept] = s
        live.expiry[n_kept], n_kept = expiry if expiry == _NEVER else expiry - shift, n_kept + 1
    levels.number[0], levels.first[0], levels.first[1] = 1, 0, n_kept
    clock[WINNER] = 0 if clock[WINNER] <= base else max(0, clock[WINNER] - shift)
    clock[FIRST], clock[LOOKED] = max(0, clock[FIRST] - shift), 0
    u -= shift
    clock[NOW], clock[BASE], clock[CHECK] = u, 0, clock[CHECK] - shift
    clock[CENTER] = max(_FIRST_CENTER, 4 * u)
    fresh = no_fresh(signal, clock[FIRST])
    if F[u] > -np.inf:
        renew(signal, program, u, 0, fresh, 0)
        clock[FIRST] = max(0, u - signal.min_size + 1)
    progress.bounds[_SPREAD], progress.bounds[_TOP] = fresh.spread, fresh.top
    return lost


@njit(**LIGHT)
def _move_sums(S, E, penalties, center, base, shift, head, u):
    """Move the sums and penalties ``shift`` positions to the left, and center the sums S.

    Position ``base`` becomes position 0.
    """
    length = u - shift + head
    for d in range(S.shape[1]):
        origin = S[base, d]
        mean = (S[u, d] - origin) / length if length > 0 else 0.0
        center[d] += mean
        S[0, d] = 0.0
        for t in range(shift + 1, u + 1):
            S[t - shift, d] = (S[t, d] - origin) - (t - shift + head) * mean
    if E is not None:
        for c in range(E.shape[1]):
            origin, E[0, c] = E[base, c], 0.0
            for t in range(shift + 1, u + 1):
                E[t - shift, c] = E[t, c] - origin
    if len(penalties):
        for t in range(shift + 1, u + 1):
            penalties[t - shift] = penalties[t]


@called
def changes(last, stop, base):
    """Return the changes after ``base`` in the best segmentation of the samples before ``stop``.

    The last entry is ``stop`` itself.
    """
    return walk_back(last, stop, base)
