"""Skip work in the recursion without changing its result.

The recursion computes the best value of the samples before u, F(u) = max_s F(s) + f(s,u). To try a
start s at an end u means to compute F(s) + f(s,u). Some starts need not be tried at u, and others
can be dropped for good. Both savings follow from one inequality, which holds for every split t of
(s,u]:

    f(s,u) ≤ f(s,t) + f(t,u) + slack(t).                                           (*)

If the form has true segments, slack(t) = κ − c. See :mod:`.segment_values` for f, κ and c. Proof:
f(s,u) − f(s,t) − f(t,u) = −vᵀ(ZZᵀ − κN)v − c. Here v is the unit vector with the sum 0 that has one
value on (s,t], another value on (t,u], and 0 elsewhere. N is a projection, so vᵀNv ≤ 1. If the form
has charges, slack(t) is −c plus α times the number of labeled pieces around t.

Each function below states its claim and proves it. The inequality (*) depends neither on
``min_size`` nor on the rules for segments, so the claims hold for all of them. The claims also hold
if a change at t has a penalty p_t, positive or negative. In this case F(t) is the best value of the
samples before t *minus p_t*. The last segment of the best segmentation of the samples before u
still begins at argmax_s F(s) + f(s,u).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from metriclearn.oracles.change_points.segment_values import (
    END,
    INTEGER,
    LACK,
    LIGHT,
    ONCE,
    SHARE,
    START,
    WITHIN,
    energy,
    is_given,
    legal_from,
    overlap,
    penalty_at,
    segment_value,
    split_slack,
)

# The result is exact for any choice. experiments/benchmarks/ablation.py uses these constants to
# switch off one speed-up at a time.
LOOK_AHEAD = True  # bound fresh starts together
GAIN = True  # let bounds grow with the loss
DOMINANCE = True  # drop starts that lose against one of two others, whatever follows
HOT = 0.1  # a start is hot if it is below the best value by less than this fraction of the slack
BLOCK = 16  # number of cold starts that share one comparison
LEVEL = 128  # with more cold starts, a level is closed, and the hot starts begin the next one
MOST_LEVELS = 40  # more than log₂ T suffice, because levels double in size
_FRESH = 64  # cost of renewing a level that begins with hot starts only
_NEVER = 2**31 - 1
_SURE = 1.0 - 1e-6  # allowance for rounding where square roots are compared


class Incumbent(NamedTuple):
    """The best value F(s) + f(s,u) that was found so far for an end u, and its start s."""

    value: float
    start: int


class Fresh(NamedTuple):
    """The newest starts, from ``first`` on, which share one bound.

    At the current end u, every fresh start s satisfies F(s) + f(s,u) ≤ top + spread. If ``spread``
    is NaN, fresh starts have no bound. ``looked`` is the number of fresh starts that were tried at
    u.
    """

    first: int
    spread: float
    top: float
    looked: int


class Live(NamedTuple):
    """The starts that may still win, sorted by level; see :class:`Levels`.

    Attributes
    ----------
    starts : int32 array
    bounds : array
        Let t be the checkpoint of the level of a start s. The bound of s is at least F(s) + f(s,u)
        − f(t,u) − gain(t,u) for every later end u. The entries after the last level store the
        values F(s) + f(s,u) of the fresh starts.
    expiry : int32 array
        The first end at which the start is no longer needed.
    """

    starts: NDArray
    bounds: NDArray
    expiry: NDArray


class Levels(NamedTuple):
    """Groups of live starts. The oldest group comes first.

    The bounds of a level were computed at one end, its checkpoint. A start is hot if its value at
    the checkpoint was close to the best value there. Other starts are cold. ``number[0]`` is the
    number of levels in use. In the arrays of :class:`Live`, the cold starts of level k begin at
    index first[k], in blocks of ``BLOCK`` starts. The hot starts of level k begin at index hot[k],
    and level k + 1 begins at index first[k + 1]. ``largest`` is the largest bound of the cold
    starts. ``growth`` is an argument of :func:`gain`. ``spent`` is the work on the level since its
    checkpoint, and ``cost`` is the work of renewing the level.
    """

    number: NDArray
    first: NDArray
    hot: NDArray
    checkpoint: NDArray
    spent: NDArray
    cost: NDArray
    largest: NDArray
    growth: NDArray


@njit(**WITHIN)
def new_levels():
    """Make the levels of a new program. Only the first is in use, and it has no starts."""
    # np.empty is compiled for the arrays of the program anyhow; np.zeros would be one more function
    # to compile. _set_level fills in the other levels before they are read.
    whole, real = np.empty((6, MOST_LEVELS), dtype=np.int32), np.empty((2, MOST_LEVELS))
    for row in range(6):
        whole[row, 0] = 0
    whole[0, 0] = 1
    whole[1, 1] = 0
    real[0, 0] = -np.inf
    real[1, 0] = 0.0
    return Levels(whole[0], whole[1], whole[2], whole[3], whole[4], whole[5], real[0], real[1])


@njit(**LIGHT)
def no_fresh(signal, first):
    """Make a new :class:`Fresh`: its starts begin at ``first``, and none has been tried."""
    bound = LOOK_AHEAD and signal.cumulative.ndim == 2 and signal.weight <= -signal.c
    light = bound and not is_given(signal.rules) and not is_given(signal.charges)
    return Fresh(first, 0.0 if light else np.nan, -np.inf, INTEGER(0))


@njit(**ONCE)
def try_fresh(signal, F, u, allowed, fresh, values, n_live, best):
    """Try the fresh starts at the end u, unless their joint bound shows that none of them can win.

    Every value F(s) + f(s,u) that is computed here is stored in ``values``.

    Claim: f(s,u) ≤ f(s,t) + κ + Σ|x|², with the sum over the samples x from t to u. If f(s,t) was
    computed without its loss term, this also holds without κ. Proof: if a is a sum of m samples and
    b a sum of n samples, |a+b|²/(m+n) ≤ |a|²/m + |b|²/n. The loss term −κ g/(u−s) lies between −κ
    and 0. Scores of names are normalized: in each sample the best name has the score 0. So more
    samples never raise the score of a segment.

    Therefore ``spread`` is the sum of |x|² over the samples since the fresh starts were last tried.
    Let t be the end at which f(s,t) was last computed for the start s, and let spread(t) be the
    value of ``spread`` then. ``top`` is the largest of the numbers F(s) + f(s,t) − spread(t), plus
    κ where the claim needs it.
    """
    newest = u - signal.min_size
    looked, spread, top = newest + 1 - fresh.first, fresh.spread, fresh.top
    if spread >= 0.0:
        value = energy(signal.cumulative, u - 1, u)
        spread += value
        # The newest start is the only one without a value so far, so its f(s,u) is computed here.
        if newest < u - 1:
            value = energy(signal.cumulative, newest, u) / signal.min_size
        top = max(top, F[newest] + (value + signal.c) - spread)
        rounding = 1e-15 * (looked + 16) * (abs(best.value) + spread - signal.c)
        if top + spread + rounding <= best.value:
            looked = INTEGER(0)
        else:
            spread, top = 0.0, -np.inf
    for s in range(max(newest + 1 - looked, allowed[0]), allowed[1]):
        value = F[s] + segment_value(signal, s, u)
        values[n_live + s - fresh.first], top = value, max(top, value + signal.weight)
        if value > best.value:
            best = Incumbent(value, s)
    return best, Fresh(fresh.first, spread, top, looked)


@njit(**ONCE)
def try_levels(signal, F, u, allowed, live, levels, best):
    """Try the live starts whose bound at the end u exceeds the incumbent's value.

    Claim: F(s) + f(s,u) ≤ bound(s) + f(t,u) + gain(t,u), where t is the checkpoint of the level of
    s. The claim follows from the inequality (*). f(t,u) is *the same number for all starts s* of a
    level. So one comparison can exclude all cold starts of a level, or a block of them. Hot starts
    often win, so they are tried first.

    Also returns the index of the oldest level that is due for renewal. :func:`renew` renews this
    level and all newer levels. A level is due once the work on it reaches the cost of renewing it.
    It is also due once none of its starts can win at a later end. A level lasts for about as many
    ends as it has starts, so levels double in size, and each start is renewed O(log T) times.
    """
    n_levels = INTEGER(levels.number[0])
    due, slack = n_levels, split_slack(signal.slack, signal.weight, signal.c, u)
    # Newest levels first: their starts win most often, and a high incumbent excludes older levels.
    for k in range(n_levels - 1, -1, -1):
        t, work = INTEGER(levels.checkpoint[k]), INTEGER(0)
        common = segment_value(signal, t, u)
        common += gain(signal.truth, signal.weight, levels.growth[k], t, u)
        block, hot = INTEGER(levels.first[k]), INTEGER(levels.hot[k])
        begin, stop = hot, INTEGER(levels.first[k + 1])
        while True:
            best, tried = _try_starts(signal, F, u, allowed, live, (begin, stop), common, best)
            work += tried
            if levels.largest[k] + common <= best.value:
                break
            # All hot starts were tried. A block of cold starts follows.
            begin = _next_block(live.bounds, block, hot, common, best.value)
            if begin >= hot:
                break
            block = stop = min(begin + BLOCK, hot)
            work += 1
        if k < n_levels - 1:
            work += 1
            beaten = levels.largest[k] + common + slack <= best.value - penalty_at(
                signal.penalties, u
            )
            beaten = beaten and legal_from(signal.rules, u, signal.min_size) <= u + 1
            due = k if beaten else due
        levels.spent[k] += work
        due = k if k < n_levels - 1 and levels.spent[k] >= levels.cost[k] else due
    return best, due


@njit(**ONCE)
def _try_starts(signal, F, u, allowed, live, span, common, best):
    """Try the live starts in ``span`` whose bound at u exceeds the value of the incumbent.

    Returns the new incumbent, and the number of starts that were tried.
    """
    tried = INTEGER(0)
    for j in range(span[0], span[1]):
        if live.bounds[j] + common > best.value:
            s = INTEGER(live.starts[j])
            if allowed[0] <= s < allowed[1] and s != best.start:
                tried += 1
                value = F[s] + segment_value(signal, s, u)
                # This is an if, and not a choice of two incumbents, so that it becomes a jump.
                # Otherwise the next comparisons would wait until this value is divided.
                if value > best.value:
                    best = Incumbent(value, s)
    return best, tried


@njit(**ONCE)
def _next_block(bounds, block, stop, common, value):
    """Return the index of the first block of cold starts, from ``block`` on, that must be tried.

    If there is no such block, the index is at least ``stop``.

    Claim: if the largest bound of a block plus ``common`` is at most the incumbent's ``value``, no
    start of the block beats the incumbent. Proof: by the claim of :func:`try_levels`, F(s) + f(s,u)
    ≤ bound(s) + common. The first bound of a block is its largest; see :func:`_form_blocks`.
    """
    while block < stop and bounds[block] + common <= value:
        block += BLOCK
    return block


@njit(**LIGHT)
def renew(signal, program, u, low, fresh, due):
    """Merge level ``due``, all newer levels and the fresh starts, and set their checkpoint to u.

    A start s is dropped once it cannot win. Claim: if F(s) + f(s,u) + slack(u) ≤ F(u), then u is at
    least as good as s at every end v where (s,v] may be split at u. Proof: by (*), F(s) + f(s,v) ≤
    F(s) + f(s,u) + slack(u) + f(u,v) ≤ F(u) + f(u,v). For κ = 0 and c = −λ, this claim is PELT's
    rule (Killick, Fearnhead & Eckley, JASA 107, 2012). Starts before ``low`` are no longer allowed,
    so they are dropped, too. The same holds for the starts that :func:`_is_dominated` excludes.
    """
    F, last, live, levels = program
    slacks, rules, min_size, c = signal.slack, signal.rules, signal.min_size, signal.c
    begin, n = INTEGER(levels.first[due]), INTEGER(levels.first[levels.number[0]])
    # Fresh starts join the live ones. Starts without a segmentation before them never win.
    old = n
    for s in range(max(fresh.first, low), u - min_size + 1):
        if F[s] > -np.inf:
            live.starts[n], live.expiry[n], n = s, _NEVER, n + 1
    first = u
    if len(signal.truth):  # only the gain depends on the first start
        for j in range(begin, n):
            first = min(first, INTEGER(live.starts[j]))
    # Bounds begin with the slack at u and grow with the gain. The test that drops a start has to
    # allow for the largest gain.
    at_once, growth, most = loss_slack(signal.truth, signal.weight, first, u)
    near, slack = split_slack(slacks, at_once, c, u), split_slack(slacks, most, c, u)
    rounding = 1e-14 * abs(F[u])  # without noise there are ties, and their last bits decide
    until, kept, dominance = legal_from(rules, u, min_size), begin, _has_dominance(signal)
    # try_fresh stored the values of the fresh starts after the bounds of the old starts. Kept
    # starts only move toward the front, so no value is overwritten before it is read.
    known = n if fresh.looked == 0 or is_given(rules) else old
    for j in range(begin, n):
        s, end = INTEGER(live.starts[j]), live.expiry[j]
        value = live.bounds[max(j, old + s - fresh.first)]
        if j < known:
            value = F[s] + segment_value(signal, s, u)
        beaten = value + slack <= F[u]
        if beaten or (dominance and _is_dominated(signal, F, last, s, u, value)):
            end = min(end, until)
        # A start that expires at the next end would not be tried again.
        if s >= low and end > u + 1:
            live.starts[kept], live.expiry[kept] = s, end
            live.bounds[kept], kept = value + near + rounding, kept + 1
    levels.cost[due] = 5 + known - begin + (n - begin) // 4
    best = F[u] + penalty_at(signal.penalties, u)
    _set_level(due, u, kept, best + (1.0 - HOT) * near, growth, live, levels)


@njit(**LIGHT)
def _has_dominance(signal):
    """Whether the claim of :func:`_is_dominated` holds for a signal.

    It holds without loss, rules, names and penalties of positions. Streams have a similar test,
    which also covers names; see :mod:`.streaming`.
    """
    if signal.rules is not None or signal.emissions is not None or signal.head is not None:
        return False
    return DOMINANCE and signal.weight == 0.0 and len(signal.penalties) == 0 and signal.c < 0.0


@njit(**LIGHT)
def _is_dominated(signal, F, last, s, u, value):
    """Whether s loses against u or the best start i at u, at every end v with an allowed (u,v].

    ``value`` is F(s) + f(s,u).

    Claim: let e(s,v) = f(s,v) − c. If s wins at v, the mean μ of the samples in (s,v] satisfies

        |μ − mean of (s,u]|² ≤ [F(s) + e(s,u) − F(u)] / (u−s)    and
        |μ − mean of (s,i]|² ≤ [F(s) + e(s,i) − F(i)] / (i−s)    if s < i, or
        |μ − mean of (i,s]|² ≥ [F(i) + e(i,s) − F(s)] / (s−i)    if i < s.

    So s never wins if the first ball and the second are disjoint, or if the first lies inside the
    third. Proof: for every other start r, e(r,v) is the largest 2μ·(S_v − S_r) − |μ|²(v−r) of all
    μ. The mean of (s,v] attains e(s,v). If s wins, u and i have at most as much as s for this μ,
    too. The samples between s and r make the difference, which is a squared distance from their
    mean plus a constant. DUST (arXiv:2507.02467) also has a test with two other starts.
    """
    i, c = INTEGER(last[u]), signal.c
    if s == i:
        return False
    a, b, rise, lead = float(abs(s - i)), float(u - s), F[s] - F[i], value - c - F[u]
    # Most starts fail here, which saves time. If s follows i in the segmentation with the value
    # F(s), the full test needs lead·(√(a+b) + √a)² < −cb, and 4a + b is less than this square.
    # Other starts that fail here are kept, although they might pass the full test.
    if lead * (4.0 * a + b) >= -c * b:
        return False
    between = rise - c  # if s follows i in the segmentation with the value F(s)
    if last[s] != i:
        between = energy(signal.cumulative, i, s) / a
    # Compute squared radii and the squared distance of centers, all times ab. The distance follows
    # from e(x,y) + e(y,z) − e(x,z), the squared distance of the means of (x,y] and (y,z] times
    # mn / (m+n), where m and n are the numbers of samples.
    more, rounding = lead + c - rise, 1e-13 * (abs(F[u]) - c)  # more is e(s,u) − e(i,u)
    first = max(0.0, lead + rounding) * a
    if s < i:  # the distance has to exceed the sum of the radii
        other = max(0.0, between + rise + rounding) * b
        largest = (between - more - rounding) * (b - a)
    else:  # the radius of the third ball has to exceed the first radius plus the distance
        other = max(0.0, between + more + rounding) * (a + b)
        largest = (between - rise - rounding) * b
    # Compare square roots: √largest > √first + √other.
    rest = _SURE * largest - first - other
    return rest > 0.0 and rest * rest > 4.0 * first * other


@njit(**LIGHT)
def _set_level(k, u, stop, hot_from, growth, live, levels):
    """Put the live starts with the indices first[k] … ``stop`` − 1 into level k, the newest level.

    Starts whose bound exceeds ``hot_from`` are hot. If there are many cold starts, level k contains
    only the cold starts, and the hot starts form level k + 1.
    """
    begin, hot = INTEGER(levels.first[k]), stop
    # Few starts are hot, so these move to the end, and most cold starts stay where they are.
    for j in range(stop - 1, begin - 1, -1):
        if live.bounds[j] > hot_from:
            hot -= 1
            _swap(live, j, hot)
    levels.hot[k], levels.largest[k] = hot, _form_blocks(live, begin, hot)
    # The next level begins with the hot starts and the same checkpoint: no bound changes.
    last = k
    if hot - begin > LEVEL and k + 2 < len(levels.first):
        last = k + 1
        levels.first[last] = levels.hot[last] = hot
        levels.largest[last], levels.cost[last] = -np.inf, _FRESH
    for level in range(k, last + 1):
        levels.checkpoint[level], levels.growth[level], levels.spent[level] = u, growth, 0
    levels.first[last + 1], levels.number[0] = stop, last + 1


@njit(**ONCE)
def _form_blocks(live, begin, stop):
    """Divide the cold starts from index ``begin`` to ``stop`` into blocks of ``BLOCK`` starts.

    In each block, the start with the largest bound comes first. Returns the largest bound of all
    these starts.
    """
    largest = -np.inf
    for front in range(begin, stop, BLOCK):
        top = front
        for j in range(front + 1, min(front + BLOCK, stop)):
            top = j if live.bounds[j] > live.bounds[top] else top
        _swap(live, front, top)
        largest = max(largest, live.bounds[front])
    return largest


@njit(**LIGHT)
def _swap(live, i, j):
    """Exchange two live starts."""
    starts, bounds, expiry = live
    starts[i], starts[j] = starts[j], starts[i]
    bounds[i], bounds[j] = bounds[j], bounds[i]
    expiry[i], expiry[j] = expiry[j], expiry[i]


@njit(**LIGHT)
def loss_slack(truth, weight, first, t):
    """Compute how much the loss adds to the slack at t, for starts s ≥ ``first`` and ends u > t.

    Returns three numbers: the amount that the loss adds right after t, the growth of this amount
    with each sample, and its largest value. If κ = −c, the slack κ − c of (*) is twice as large as
    −c. But the loss adds 0 at u = t, and its share grows only with u − t. So bounds use the slack
    −c plus a :func:`gain`, which depends on t and u alone. The largest gain decides which starts
    are dropped. Without true segments, the three numbers are ``weight``, 0 and ``weight``.
    """
    if len(truth) == 0 or not GAIN:
        return weight, 0.0, weight
    growth = _growth(truth, weight, first, t)
    return 0.0, growth, _largest_gain(truth, weight, growth, first, t)


@njit(**LIGHT)
def _growth(truth, kappa, first, t):
    """Return an upper bound of [f(s,u) − f(s,t) − f(t,u) + c] / (u − t) for starts s ≥ ``first``.

    The bound holds for ends u in the true segment C = (b,e] of sample t. Claim: let q = b − s, and
    let h(s) be the number of truth_table. The squared sums in the brackets add up to at most 0. The
    terms of the loss add up to κ w (1/(t−s) − 1/(u−s)) ≤ κ w (u−t)/(t−s)² for t < u ≤ e, where w =
    q − h(s) + q²/|C| if s < b, and w = 0 otherwise. If s lies in the true segment before C, and a
    is the size of that segment, then w = q² (1/a + 1/|C|), and the bound increases with q. For q ≥
    a we use w ≤ q + q²/|C|. With p = t − b the bound becomes κ (q + q²/|C|) / (q+p)². Its
    derivative has the sign of p − q (1 − 2p/|C|). So this bound increases up to q = p / (1 −
    2p/|C|) and then decreases. If 2p ≥ |C|, it increases throughout.
    """
    if t + 1 == len(truth):
        return 0.0
    begin, share = truth[t + 1, START], truth[t + 1, SHARE]
    if first >= begin:
        return 0.0
    q, passed, size = begin - first, t - begin, begin - truth[INTEGER(begin), START]
    if q <= size:  # within the true segment before
        kept = q / (q + passed)  # squares are products: numba takes long to compile **
        return kappa * kept * kept * (1.0 / size + share)
    slope = 1.0 - 2.0 * share * passed  # the bound falls with q once q · slope exceeds passed
    if q * slope > passed:
        q = max(size, passed / slope)
    return kappa * q * (1.0 + share * q) / ((q + passed) * (q + passed))


@njit(**LIGHT)
def gain(truth, kappa, growth, t, u):
    """Return an upper bound of f(s,u) − f(s,t) − f(t,u) + c for every start s ≥ ``first``.

    ``growth`` is ``_growth(truth, kappa, first, t)``. Claim: let C = (b,e] be the true segment of
    sample t. For u ≤ e, growth · (u − t) is a bound by :func:`_growth`. For u = e + v, let L = e −
    s, l = e − t and ρ(s,u) = g(s,u)/(u−s). When the end moves from e to u, the loss raises the
    difference by (ρ(s,e) − ρ(e,u)) κv/(L+v) − (ρ(t,e) − ρ(e,u)) κv/(l+v). Only the first term
    depends on s. For b ≤ s ≤ t, ρ(s,e) = L/|C|, and the term increases with L. For s < b, L > |C|
    and ρ(s,e) ≤ 1, so the term is at most its value at s = b. So this rise is largest for s = b.
    For s = b = t the rise is 0.
    """
    if len(truth) == 0 or not GAIN:
        return 0.0
    end = truth[t, END]
    if u <= end:
        return growth * (u - t)
    total, begin = growth * (end - t), INTEGER(truth[t + 1, START])
    if begin < t:
        apart = (t - begin) * truth[t + 1, SHARE] + overlap(truth, t, u) / (u - t)
        total += kappa * (apart - overlap(truth, begin, u) / (u - begin))
    return total


@njit(**LIGHT)
def _largest_gain(truth, kappa, growth, first, t):
    """Return an upper bound of f(s,u) − f(s,t) − f(t,u) + c for all u and all starts s ≥ ``first``.

    The bound is never above κ. Claim: let C = (b,e] be the true segment of sample t. When the end
    moves from t to e, the loss raises this expression for a start s < b by at most κ w (e−t) /
    ((t−s) (e−s)), with w as in :func:`_growth`. This rise is at most growth · (e−t) (t−first) /
    (e−first). When the end moves on from e to u, the loss raises the expression most for the
    earliest start s in C, namely by κ[ρ(s,t) + ρ(t,u) − ρ(s,u)]. This number is largest if true
    segments fill (e,u] exactly. For such u, ρ(t,u) − ρ(s,u) = h(s)/(u−s) − h(t)/(u−t), with h as in
    truth_table. As a function of u, the right-hand side has one maximum if h(t) < h(s), and
    increases otherwise.
    """
    if t + 1 == len(truth):
        return kappa
    end, largest, T = truth[t, END], 0.0, float(len(truth) - 1)
    s = INTEGER(truth[t + 1, START])
    if first < s:
        largest = growth * (end - t) * (t - first) / (end - first)
    s = max(first, s)
    if s < t:
        lack_s, lack_t, u = truth[s, LACK], truth[t, LACK], T
        if lack_t < lack_s:
            share = np.sqrt(lack_t / lack_s)
            u = min(T, max(end, (t - share * s) / (1.0 - share)))
        rest = lack_s / (u - s) - lack_t / (u - t)
        largest += kappa * ((t - s) * truth[t + 1, SHARE] + rest)
    return min(kappa, largest)
