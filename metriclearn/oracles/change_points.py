"""Exact change-points in near-linear time: pruned dynamic programs and one search over penalties.

With S the cumulative sums of the factors, a segment (s, u] is worth

    f(s,u) = (‖S_u − S_s‖² − κ g(s,u)) / (u−s) + c,

where g(s,u) = Σ_k |(s,u] ∩ C_k|² / |C_k| measures the overlap with the true segments C_k, or

    f(s,u) = ‖S_u − S_s‖² / (u−s) + α·charge(s,u) + c

with the charges of :class:`~metriclearn.problem.losses.KnownLoss`. Every kernel is written once;
numba compiles it for the terms that a signal has, and leaves out those that are None.

For every split t of (s,u]

    f(s,u) ≤ f(s,t) + f(t,u) + slack(t),                                           (*)

with slack(t) = κ − c for true segments, because the difference is −v⊥ᵀ(ZZᵀ − κN)v⊥ − c for a unit
vector v⊥ and N is a projection; with charges only what is known around t counts. (*) is used twice.
Once F(s) + f(s,t) + slack(t) ≤ F(t), the start s can never win again (PELT's rule for κ = 0, c =
−λ; Killick, Fearnhead & Eckley, JASA 107, 2012). And when it still may win, F(s) + f(s,t) bounds
its value at every later u through f(t,u), *the same number for all s*: starts are evaluated at
checkpoints t only, and between two checkpoints just those whose bound beats the incumbent are
looked at, and all that came up since once F(s) + f(s,t) + |x|² of each sample x after t beats it
for one, t = s + 1 or where they were looked at last. Where many starts live on, as without changes,
they are kept in levels, each with a checkpoint and the largest bound of its own: one number then
tells that none of a level is near, and a level is renewed, with all newer ones, once that has cost
as much as renewing it. Levels double in size, so that a start is renewed O(log T) times. The slack
κ − c is much where κ is of the order of −c, and not needed at once: what the loss adds to −c grows
with u − t from 0 on. So bounds hold with the slack −c and a gain that depends on t and u alone, and
its largest value decides about drops.

Inequality (*) concerns f alone, so the bound holds for every ``min_size`` and under every rule for
segments (:class:`~metriclearn.problem.knowledge.SegmentRules`). The drop of s needs t to be a
legal split of (s,u]: t must be an end at all (F(t) > −∞), u ≥ t + min_size, and no region with at
most one change may hold both t and u, u > reach(t). It takes effect from there on.

A change at t may have a penalty p_t of its own, of either sign. With F(t) the best value of the
samples before t *and the change at t paid*, the best last segment of a longer prefix u is still
argmax_s F(s) + f(s,u), as p_u is the same for all s; then F(u) = max_s F(s) + f(s,u) − p_u, and
F(T) has no penalty. A start s is beaten from t on by the same rule as without penalties,

    F(s) + f(s,u) ≤ F(s) + f(s,t) + slack(t) + f(t,u) ≤ F(t) + f(t,u)
    once F(s) + f(s,t) + slack(t) ≤ F(t),

where p_t stands in F(t) and nothing was asked of its sign. The bounds at checkpoints compare
values of f from starts in F, too, and hold unchanged.

Without truth, charges, rules and penalties f(s,u) = max_μ 2μᵀ(S_u − S_s) − |μ|²(u−s) + c, so that
starts compete for every mean μ, once for all later u. With i the best start at u, a = |s−i|, b =
u−s, m means of samples, and g = F(s) + f(s,u) − c − F(u): s is better than u only inside of the
ball |μ − m(s,u)|² ≤ g/b, and than i outside of one around m(i,s) where i < s, or inside of one
around m(s,i). If the first ball lies within the second one, or if the two are disjoint, s is
dropped (_dominated; a test with two rivals as in DUST, arXiv:2507.02467). What it needs is mostly
in F: in a segment only the newer starts stay alive, and those just before a change soon go, too.
A truth takes from a rival at most κ more than from s, so that s has to be worse by that: then where
4κ < −c alone.

One feature without a truth has a program of its own, which drops starts by the means that they are
best for, see best_means.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from metriclearn.problem.forms import LowRankForm, check_squares
from metriclearn.problem.knowledge import PartialPartition, segment_rules
from metriclearn.problem.losses import ChargedForm, charge
from metriclearn.problem.partition import Partition, check_count

# Fractions of the slack below F(u): starts closer than the first are evaluated again at a
# checkpoint, those closer than the second are looked at before all others. Any choice is exact;
# these were the fastest of a few on steps in noise, T = 5 000 and 40 000, with and without a truth.
_EVALUATED, _HOT = 0.7, 0.1
_REDUCTION = {"reassoc", "contract", "nsz"}
# Functions that Python calls, and those that only kernels call: these are compiled with their
# callers, without a way in from Python.
_CALLED: Any = {"nogil": True, "cache": True, "no_cfunc_wrapper": True}
_WITHIN: Any = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_WITHIN["error_model"] = "numpy"
_INTEGER: Any = np.int64
_NEVER = 2**31 - 1
# A level is set aside when it has more starts than the first, its hot ones stay if at most as many
# as the second, and the next checkpoint pays once the work has reached the third.
_LEVEL, _HOT_STARTS, _FRESH = 512, 16, 64
_LEVELS, _LONG = 64, 2**14  # more than twice log₂ T; shorter signals have one level
_INTERVALS = 300  # a step of functional pruning makes at most three of one: 100 may be in use
# features from and samples to which distances are put into a table, and a gap between losses, in
# standard deviations, that tells changes from noise
_WIDE, _SHORT, _CLEAR = 64, 2048, 0.5
_LARGEST = 1e280  # penalty or weight: 2³¹ segments of it can still be added up

# Columns of the table of true segments, see truth_table, and rows of SegmentRules.
_START, _SHARE, _BEFORE, _AFTER, _END, _LACK = range(6)
_ALLOWED, _FLOOR, _CEILING, _REACH = range(4)
# Rows of the table of levels: where their starts and their blocks begin, and how many blocks; the
# checkpoint, the work spent on it since, and what renewing it costs.
_FIRST, _BLOCK, _BLOCKS, _CHECKPOINT, _SPENT, _COST = range(6)


class ChangePoints(BaseEstimator):
    """argmax ⟨A, M⟩ over segmentations for A = ZZᵀ − κN + cI, exactly.

    The number of segments follows from c, or is given. Unknown: one pruned dynamic program.
    Known: the penalty per segment is moved along secants of the concave hull of (K, V(K)) until
    the program returns K segments, and only if K is not on the hull a layered program runs over
    the few positions that the search could not rule out. O(Tr) memory; a handful of microseconds
    per sample. The pruning rule is (*) above.

    Parameters
    ----------
    min_size : int
        Smallest number of samples in a segment; the result stays exact for every value.

    Raises
    ------
    ValueError
        For parameters that cannot be used, or where no segmentation has so many segments.
    TypeError
        For another form than a :class:`LowRankForm`; :class:`SummedArea` takes any.

    References
    ----------
    Killick, Fearnhead & Eckley, Optimal detection of changepoints with a linear computational cost,
    Journal of the American Statistical Association 107, 2012 (PELT, whose rule is generalized
    here).
    """

    def __init__(self, min_size: int = 1) -> None:
        self.min_size = min_size

    def __call__(
        self,
        form: LowRankForm | ChargedForm,
        n_clusters: int | None = None,
        known: PartialPartition | None = None,
    ) -> Partition:
        """Best segmentation, with ``n_clusters`` segments if given.

        Parameters
        ----------
        form : LowRankForm or ChargedForm
        n_clusters : int, optional
        known : PartialPartition, optional
            Only segmentations that agree with it are candidates.

        Raises
        ------
        ValueError
            If T samples cannot hold the segments that are asked for, no segmentation agrees with
            ``known``, or the reference partition of the form is not contiguous.
        """
        check_count(type(self).__name__, form.n_samples, n_clusters, self.min_size)
        problem = PenalizedSegmentation(form, self.min_size, known)
        if n_clusters is None:
            return Partition(ends=problem.solve(-form.shift).ends)
        return Partition(ends=problem.solve_count(n_clusters))


def segmentation_oracle(oracle: Any, min_size: int) -> Any:
    """A copy of an oracle with the smallest segment, where it knows one; ChangePoints for None."""
    if oracle is None:
        return ChangePoints(min_size)
    oracle = clone(oracle, safe=False)
    if hasattr(oracle, "min_size"):
        oracle.min_size = min_size
    return oracle


class ConstrainedChangePoints(ChangePoints):
    """:class:`ChangePoints` under the name of its use with ``known``, a partial segmentation.

    Labeled optimal partitioning (LOPART, Hocking & Srivastava 2020) for A = ZZᵀ − λI and the
    regions "no change" and "exactly one"; here also with known changes and "at least one", for
    many features, inside loss-augmented inference (with −κN, or the charges of
    :class:`~metriclearn.problem.losses.KnownLoss`) and for a given number of segments.

    Every constraint is a condition on single segments (s, u], so that the recursion keeps its
    form and a segmentation without training label errors is found whenever there is one. O(Tr)
    memory and near-linear time.

    Parameters
    ----------
    min_size : int
        Smallest number of samples in a segment.

    Raises
    ------
    ValueError
        For parameters that cannot be used, or where no segmentation has so many segments.
    TypeError
        For another form than a :class:`LowRankForm`; :class:`SummedArea` takes any.

    References
    ----------
    T. D. Hocking and A. Srivastava, Labeled optimal partitioning, arXiv:2006.13967, 2020.
    """


class Vertex(NamedTuple):
    """The best segmentation with its number of segments K: V(K) and the segment ends (K,)."""

    value: float
    ends: NDArray[np.int64]


class Signal(NamedTuple):
    """What the kernels need of a form and of what is known; see the top of this file.

    Attributes
    ----------
    cumulative : array (T+1, r)
        S, or what :meth:`PenalizedSegmentation.tabulate` puts in its place.
    weight : float
        κ of true segments, α of charges, 0 without either.
    truth : array (T+1, 6) or None
        See :func:`truth_table`.
    charges : array (T+1, 11) or None
        See :func:`~metriclearn.problem.losses.charge_table`.
    slack : array (T+1,) or None
        That of the charges, times α.
    rules : int array (4, T+1) or None
        The rows of :class:`~metriclearn.problem.knowledge.SegmentRules`.
    penalties : array (T+1,) or None
        p, 0 at both ends.
    """

    cumulative: NDArray
    weight: float
    truth: NDArray | None
    charges: NDArray | None
    slack: NDArray | None
    rules: NDArray | None
    penalties: NDArray | None


class PenalizedSegmentation:
    """Segmentations of one signal at any penalty per segment.

    V(K) is the best ⟨ZZᵀ − κN, M⟩, or value with charges and penalties of positions, among the
    segmentations into K segments that agree with ``known``, and :meth:`solve` maximizes
    V(K) − λK. Its answers are vertices of the upper concave hull of (K, V(K)).

    Parameters
    ----------
    form : LowRankForm or ChargedForm
        Its ``shift`` is not used: the penalty takes its place.
    min_size : int
        Smallest number of samples in a segment.
    known : PartialPartition, optional

    Raises
    ------
    TypeError
        For any other form.
    ValueError
        If factors are not finite, or ``known`` is of another number of samples.
    """

    def __init__(
        self,
        form: LowRankForm | ChargedForm,
        min_size: int = 1,
        known: PartialPartition | None = None,
    ) -> None:
        if not isinstance(form, (LowRankForm, ChargedForm)):
            raise TypeError(
                f"ChangePoints needs a LowRankForm, got {type(form).__name__}; "
                "use the SummedArea oracle for other forms."
            )
        T = form.n_samples
        if T + min_size >= 2**31:  # positions are 32-bit integers
            raise ValueError(
                f"ChangePoints needs fewer than 2**31 samples, got {T}; divide the sequence."
            )
        if known is not None and known.n_samples != T:
            raise ValueError(
                f"ConstrainedChangePoints needs partial labels for the {T} samples, got some for "
                f"{known.n_samples}."
            )
        sums = np.ascontiguousarray(form.cumulative, dtype=np.float64)
        cumulative = check_squares("ChangePoints", sums)
        weight = 0.0
        truth = table = slack = None
        plain: Any = form
        charges = penalties = None
        if isinstance(form, ChargedForm):
            plain, charges, penalties, weight = form.form, form.charges, form.penalties, form.scale
        if charges is not None:
            table, slack = charges.table, weight * charges.slack
        elif plain.truth is not None and plain.weight:
            weight, truth = float(plain.weight), truth_table(plain.truth.change_points, T)
        if not 0.0 <= weight <= _LARGEST:
            raise ValueError(
                f"ChangePoints needs a weight from 0 to {_LARGEST:g} for the reference partition, "
                f"got {weight:g}; SummedArea takes negative ones."
            )
        rules = None if known is None else np.array(segment_rules(known.constraints, T))
        self.form, self.charges, self.n_samples = plain, charges, T
        self.min_size, self.known = min_size, known
        self.signal = Signal(cumulative, weight, truth, table, slack, rules, penalties)
        self.latest: Any = None, None  # the last penalty, and F at it

    def solve(self, penalty: float) -> Vertex:
        """A maximizer of V(K) − penalty·K.

        Raises
        ------
        ValueError
            If no segmentation agrees with what is known.
        """
        if not abs(penalty) <= _LARGEST:
            raise ValueError(
                f"ChangePoints needs a penalty per segment from -{_LARGEST:g} to {_LARGEST:g}, got "
                f"{penalty:g}; change the unit."
            )
        signal, c, ends = self.signal, -float(penalty), np.empty(0, dtype=np.int64)
        if c < 0.0 and signal.cumulative.shape[1] == 1 and {*map(type, signal[2:])} == {type(None)}:
            prefixes, value, ends = best_means(signal.cumulative, c, self.min_size)
        if not len(ends):
            # shorter signals have none, and compile less
            levels = np.empty((6, _LEVELS), np.int32) if self.n_samples >= _LONG else None
            prefixes, value, ends = best_segmentation(signal, c, self.min_size, levels)
        if prefixes[-1] == -np.inf:
            raise ValueError(
                "ConstrainedChangePoints needs a segmentation with segments of at least "
                f"{self.min_size} samples that agrees with the annotations, but there is none; "
                "lower min_size or remove annotations that lie close together."
            )
        self.latest = penalty, prefixes
        return Vertex(value, ends)

    @cached_property
    def extremes(self) -> tuple[Vertex, Vertex]:
        """The vertices of the smallest and of the largest possible K."""
        positions = np.arange(self.n_samples + 1)
        if self.known is None:
            value = float(segment_values(self.signal, positions[:1], positions[-1:])[0])
            coarsest = Vertex(value, positions[-1:])
            if self.min_size == 1:
                values = segment_values(self.signal, positions[:-1], positions[1:])
                return coarsest, Vertex(float(values.sum()), positions[1:])
        # At a penalty above the range of V the number of segments decides.
        weight = self.signal.weight
        penalty = float(np.sum(np.diff(self.signal.cumulative, axis=0) ** 2))
        if self.charges is not None:  # on a piece, a segment is charged 1 at most
            pieces = self.charges.pieces
            penalty += (
                weight * self.n_samples * (1 + len(pieces.stretches) + 2 * len(pieces.regions))
            )
        elif self.form.truth is not None:
            penalty += weight * self.form.truth.n_clusters
        if self.signal.penalties is not None:
            penalty += float(np.abs(self.signal.penalties).sum())
        penalty = 2.0 * penalty or 1.0
        return coarsest if self.known is None else self.solve(penalty), self.solve(-penalty)

    def tabulate(self, n_segments: int) -> None:
        """Put all ‖S_u − S_s‖² of a wide signal, (T+1, T+1, 1), into a table that stands for S.

        From one product, where it takes no more than twice the memory of S and many programs are to
        be expected: among what single boundaries are worth there is no gap at that number.
        """
        S, *others = self.signal.cumulative, *self.signal[2:]
        wide = S.ndim == 2 and S.shape[1] >= _WIDE and len(S) <= min(_SHORT, 2 * S.shape[1]) + 1
        if not wide or {*map(type, others)} != {type(None)}:
            return
        worths = np.sort(boundary_worths(self.signal, self.extremes[1].ends))
        if np.ptp(worths[-n_segments:][:2]) >= _CLEAR * worths.std():
            return
        table = S @ S.T
        squares = table.diagonal().copy()
        table *= -2.0
        table += squares
        table += squares[:, None]
        self.signal = self.signal._replace(cumulative=table[:, :, None])

    def solve_count(self, n_segments: int) -> NDArray[np.int64]:
        """Segment ends of a maximizer with exactly ``n_segments`` segments.

        All numbers from the smallest to the largest that agree with the annotations occur: the
        constraints bound sums over intervals of positions, an interval (totally unimodular)
        matrix, and so does the number itself.

        Raises
        ------
        ValueError
            If no segmentation into that many segments agrees with what is known.
        """
        low, high = self.extremes
        if not len(low.ends) <= n_segments <= len(high.ends):
            raise ValueError(
                f"ConstrainedChangePoints needs from {len(low.ends)} to {len(high.ends)} segments "
                f"to agree with the annotations, got n_clusters={n_segments}."
            )
        # low and high are vertices of the hull on either side of K. Each round replaces one: by
        # a guess, once for every high, or else by a vertex above the chord. Without one, K lies
        # inside an edge.
        if self.known is None and len(low.ends) < n_segments < len(high.ends):
            self.tabulate(n_segments)
        guessed_from = high
        while len(low.ends) < n_segments < len(high.ends):
            vertex = None
            if high is not guessed_from:
                guessed_from = high
                # If segments of high merged one by one, in the order of what each merger loses, a
                # penalty between two of these losses would leave K: on clear data it hits.
                worths = np.sort(boundary_worths(self.signal, high.ends))
                guess = self.solve(float(np.mean(worths[-n_segments:][:2])))
                vertex = guess if len(low.ends) < len(guess.ends) < len(high.ends) else None
            if vertex is None:
                vertex = self.between(low, high)
            if vertex is None:
                return self.inside_edge(n_segments, low, high)
            low, high = (vertex, high) if len(vertex.ends) <= n_segments else (low, vertex)
        return low.ends if len(low.ends) == n_segments else high.ends

    def between(self, low: Vertex, high: Vertex) -> Vertex | None:
        """A vertex of the hull above the chord of two vertices, if there is one."""
        penalty = slope(low, high)
        vertex = self.solve(penalty)
        gain = (vertex.value - penalty * len(vertex.ends)) - (low.value - penalty * len(low.ends))
        rounding = 1e-12 * (abs(low.value) + abs(high.value) + abs(penalty) * len(high.ends))
        inside = len(low.ends) < len(vertex.ends) < len(high.ends)
        return vertex if gain > rounding and inside else None

    def inside_edge(self, n_segments: int, low: Vertex, high: Vertex) -> NDArray[np.int64]:
        """K strictly inside an edge of the hull: layers over the positions still possible.

        At the penalty of the edge, a segmentation through t is worth at most forward(t) +
        backward(t). The positions where that is largest come first, twice as many each time until
        they hold a segmentation into K; then all where it reaches what that one is worth.
        """
        # Both programs run at the penalty of the edge, so that V(K) − penalty·K of any segmentation
        # through t is at most through[t]; the segments before and after t share no charge, and the
        # penalty of a change at t is paid by the first alone.
        penalty, T = slope(low, high), self.n_samples
        mirrored = self.mirrored().signal
        if self.signal.cumulative.ndim == 3:
            distances = np.ascontiguousarray(self.signal.cumulative[::-1, ::-1])
            mirrored = mirrored._replace(cumulative=distances)
        forward = self.latest[1]
        if penalty != self.latest[0]:
            forward = best_segmentation(self.signal, -penalty, self.min_size, None)[0]
        backward = best_segmentation(mirrored, -penalty, self.min_size, None)[0]
        backward = backward[::-1]  # from t on, where it was up to T − t
        if mirrored.penalties is not None:
            backward = backward + self.signal.penalties
        through = forward + backward
        rounding = 1e-11 * (abs(forward[-1]) + abs(penalty) * n_segments)
        order = np.argsort(-through[1:], kind="stable") + 1
        order = order[through[order] > -np.inf]
        count, floor = 2 * n_segments + 50, -np.inf
        positions = np.union1d(order[:count], [T])
        while True:
            value, ends = best_layers(
                self.signal, -penalty, self.min_size, n_segments, positions, backward, floor
            )
            if value == -np.inf:
                count *= 2
                positions = np.union1d(order[:count], [T])
                continue
            # Positions below the floor lie on no better segmentation into K. If all others were
            # among the candidates, or the value is that of the hull, this one is the best.
            floor = value - rounding
            needed = order[through[order] >= floor]
            if floor >= forward[-1] - 2 * rounding or np.isin(needed, positions).all():
                return ends
            positions = np.union1d(positions, needed)

    def mirrored(self) -> PenalizedSegmentation:
        """The same problem with the samples in reverse order."""
        form, sums, T = self.form, self.form.cumulative, self.n_samples
        turned: Any = LowRankForm(cumulative=sums[-1] - sums[::-1])
        charges, penalties = self.charges, self.signal.penalties
        if charges is None and form.truth is not None and form.weight:
            # Ends of true segments are T minus their starts, turned around.
            ends = T - np.append(form.truth.change_points[-2::-1], 0)
            turned = turned.plus(Partition(ends=ends), form.weight)
        charges = None if charges is None else charges.mirrored()
        penalties = None if penalties is None else penalties[::-1]
        turned = ChargedForm(turned, charges, self.signal.weight, penalties)
        known = None if self.known is None else self.known.mirrored()
        return PenalizedSegmentation(turned, self.min_size, known)


def slope(low: Vertex, high: Vertex) -> float:
    """The penalty at which two vertices are worth the same."""
    return (high.value - low.value) / (len(high.ends) - len(low.ends))


@njit(**_CALLED)
def truth_table(ends: np.ndarray, n_samples: int) -> np.ndarray:
    """What the kernels need of the true segments to have g in O(1), (T+1, 6).

    Row t: the start and 1/size of the segment that holds sample t−1, what the samples before t
    contribute when the segment began earlier, and what those from t on contribute to any end
    beyond the segment that holds sample t: g(s,u) = before(u) + after(s) unless s and u lie in
    one true segment, where g(s,u) = (u−s)²/|C|. Then the end e of the segment that holds sample
    t, and h = (e−t)(1 − (e−t)/|C|), what any (t,u] with u ≥ e lacks at its left end, see
    _largest_gain.
    """
    table = np.empty((n_samples + 1, 6))
    for column in range(6):
        table[0, column] = table[n_samples, column] = 0.0
    start = 0
    for end in ends:
        size = float(end - start)
        for t in range(start, end):
            # Sample t lies in C = (start, end]: row t + 1 is read for ends u = t + 1, row t for
            # starts s = t, of whose true segment end − t samples are left.
            passed, left = float(t + 1 - start), float(end - t)
            table[t + 1, _START], table[t + 1, _SHARE] = start, 1.0 / size
            table[t + 1, _BEFORE] = start + passed * passed / size
            table[t, _AFTER] = left * left / size - end
            table[t, _END], table[t, _LACK] = end, left * (1.0 - left / size)
        start = end
    table[-1, _END] = n_samples
    return table


@njit(**_WITHIN, fastmath=_REDUCTION, forceinline=True)
def _energy(S, s, u):
    """‖S_u − S_s‖²."""
    if S.ndim == 3:  # a table of them
        return S[u, s, 0]
    total = 0.0
    for d in range(S.shape[1]):
        difference = S[u, d] - S[s, d]
        total += difference * difference
    return total


@njit(**_WITHIN, forceinline=True)
def _overlap(truth, s, u):
    """g(s,u): interior true segments count their length, the two end ones their share."""
    if s >= truth[u, _START]:
        return float((u - s) * (u - s)) * truth[u, _SHARE]
    return truth[u, _BEFORE] + truth[s, _AFTER]


@njit(**_WITHIN, forceinline=True)
def segment_value(S, weight, truth, charges, c, s, u):
    """f(s, u)."""
    value = _energy(S, s, u)
    if truth is not None:  # settled at compile time, as below
        value -= weight * _overlap(truth, s, u)
    value = value / (u - s) + c
    if charges is not None:
        value += weight * charge(charges, s, u)
    return value


@njit(**_WITHIN, forceinline=True)
def penalty_at(penalties, t):
    """p_t."""
    return 0.0 if penalties is None else penalties[t]


@njit(**_WITHIN, forceinline=True)
def allowed_starts(rules, u, stop):
    """(low, high): segments (s, u] are allowed for low ≤ s < high, at most ``stop``."""
    if rules is None:
        return 0, stop
    if rules[_ALLOWED, u] == 0:
        return 0, 0
    return rules[_FLOOR, u], min(rules[_CEILING, u], stop)


@njit(**_WITHIN, forceinline=True)
def split_slack(slack, weight, c, t):
    """slack(t) of (*)."""
    return weight - c if slack is None else slack[t] - c


@njit(**_WITHIN, forceinline=True)
def legal_from(rules, t, min_size):
    """The first end u of which t is a legal split, whatever the start."""
    return t + min_size if rules is None else max(t + min_size, rules[_REACH, t] + 1)


@njit(**_WITHIN, forceinline=True)
def _growth(truth, kappa, first, t):
    """At least f(s,u) − f(s,t) − f(t,u) + c per sample after t, in the true segment of t.

    For s ≥ ``first``. With that segment C = (b,e], q = b − s and h(s) of truth_table, the loss has
    κ w (1/(t−s) − 1/(u−s)) ≤ κ w (u−t)/(t−s)² for t < u ≤ e, where w = q − h(s) + q²/|C| if s < b
    and 0 else. On the true segment before, of size a, w = q² (1/a + 1/|C|), and the bound increases
    with q; for q ≥ a that of w ≤ q + q²/|C| has one stationary point, its maximum or a minimum.
    """
    if truth is None or t + 1 == len(truth):
        return 0.0
    begin, share = truth[t + 1, _START], truth[t + 1, _SHARE]
    if first >= begin:
        return 0.0
    q, passed, size = begin - first, t - begin, begin - truth[_INTEGER(begin), _START]
    if q <= size:
        kept = q / (q + passed)  # squares are products: numba takes long to compile **
        return kappa * kept * kept * (1.0 / size + share)
    slope = 1.0 - 2.0 * share * passed  # the bound falls with q once q · slope exceeds passed
    if q * slope > passed:
        q = max(size, passed / slope)
    return kappa * q * (1.0 + share * q) / ((q + passed) * (q + passed))


@njit(**_WITHIN, forceinline=True)
def _gain(truth, kappa, growth, t, u):
    """At least f(s,u) − f(s,t) − f(t,u) + c for every start s that has that growth.

    In the true segment C = (b,e] of t it grows. Beyond, with L = e − s, l = e − t and ρ(s,u) =
    g(s,u)/(u−s), every s has a gain (ρ(s,e) − ρ(e,u)) κv/(L+v) − (ρ(t,e) − ρ(e,u)) κv/(l+v) from
    e to u = e + v, and b the largest, as ρ(s,e) ≤ 1 and, in C, ρ(s,e) = L/|C|.
    """
    if truth is None:
        return 0.0
    end = truth[t, _END]
    if u <= end:
        return growth * (u - t)
    gain, begin = growth * (end - t), _INTEGER(truth[t + 1, _START])
    if begin < t:
        apart = (t - begin) * truth[t + 1, _SHARE] + _overlap(truth, t, u) / (u - t)
        gain += kappa * (apart - _overlap(truth, begin, u) / (u - begin))
    return gain


@njit(**_WITHIN, forceinline=True)
def _largest_gain(truth, kappa, growth, first, t):
    """The largest :func:`_gain` of starts from ``first`` on, at any later u; never above κ.

    In the true segment of t it is largest at its end e. Beyond, that of the earliest start s in
    there is κ[ρ(s,t) + ρ(t,u) − ρ(s,u)], and largest where the true segments fit into (e,u], as
    h(s)/(u−s) − h(t)/(u−t) with h of truth_table, which has one stationary point.
    """
    if truth is None or t + 1 == len(truth):
        return kappa
    end, gain, T = truth[t, _END], 0.0, float(len(truth) - 1)
    s = _INTEGER(truth[t + 1, _START])
    if first < s:
        gain = growth * (end - t) * (t - first) / (end - first)
    s = max(first, s)
    if s < t:
        lack_s, lack_t, u = truth[s, _LACK], truth[t, _LACK], T
        if lack_t < lack_s:
            share = np.sqrt(lack_t / lack_s)
            u = min(T, max(end, (t - share * s) / (1.0 - share)))
        rest = lack_s / (u - s) - lack_t / (u - t)
        gain += kappa * ((t - s) * truth[t + 1, _SHARE] + rest)
    return min(kappa, gain)


@njit(**_CALLED)
def segment_values(signal, starts, ends):
    """f (c = 0) of the segments between starts and ends, less the penalties of their ends, (K,)."""
    S, weight, truth, charges, _, _, penalties = signal
    values = np.empty(len(ends))
    for k in range(len(ends)):
        values[k] = segment_value(S, weight, truth, charges, 0.0, starts[k], ends[k])
        values[k] -= penalty_at(penalties, ends[k])
    return values


def boundary_worths(signal: Signal, ends: NDArray[np.int64]) -> NDArray[np.float64]:
    """Value that is lost when the two segments beside a boundary become one, (K−1,)."""
    starts = np.append(0, ends[:-1])
    apart = segment_values(signal, starts, ends)
    return apart[:-1] + apart[1:] - segment_values(signal, starts[:-1], ends[1:])


@njit(**_CALLED)
def best_segmentation(signal, c, min_size, levels):
    """Maximize Σ f − Σ p over allowed segmentations into segments of at least ``min_size`` samples.

    For T + min_size < 2³¹. O(Tr) memory: that of S, 12T bytes, and about 20 for each live start,
    as pages of the other arrays are never touched. Close to O(Tr) time on data with changes, and
    far below the O(T²r) of plain pruning without.

    Returns
    -------
    F : array (T+1,)
        The best value of every prefix and the change at its end, −inf where there is none.
    value : float
        Σ f − Σ p with c = 0 of the best segmentation of all samples.
    ends : int array (K,)
        Its segment ends.
    """
    S, weight, truth, charges, _, rules, penalties = signal
    T = S.shape[0] - 1
    # One array of each type, as numba compiles np.empty anew for every other: F, the bounds of live
    # starts and the largest of every block; last, live starts, their expiry and where blocks begin.
    values, positions = np.empty((3, T + 1)), np.empty((4, T + 2), dtype=np.int32)
    tops = None if levels is None else np.empty((2, _LEVELS))
    F, last = values[0], positions[0]
    for t in range(T + 1):
        F[t], last[t] = -np.inf, -1
    F[0], values[2, 0] = 0.0, -np.inf
    if levels is not None:
        levels[_FIRST, 0] = levels[_BLOCK, 0] = 0
    # One type for all counts and positions: a literal 0, and positions as they are kept in 32 bits,
    # would each have every kernel below compiled once more.
    n_old = n_blocks = n_levels = _INTEGER(0)  # starts of the newest level, their blocks; others
    checkpoint = fresh = incumbent = cost = _INTEGER(0)
    light = S.ndim == 2 and rules is None and charges is None and weight <= -c
    bound, u = (0.0, 0.0 if light else np.nan, -np.inf), _INTEGER(min_size)
    while u <= T:
        starts, bounds, expiry = positions[1], values[1], positions[2]
        block_max, block_start = values[2], positions[3]
        if levels is not None:
            first, block = _INTEGER(levels[_FIRST, n_levels]), _INTEGER(levels[_BLOCK, n_levels])
            starts, bounds, expiry = starts[first:], bounds[first:], expiry[first:]
            block_max, block_start = block_max[block:], block_start[block:]
        u, n_old, n_blocks, checkpoint, fresh, bound, incumbent, cost, due = _advance(
            signal, c, min_size, u, F, last, starts, bounds, expiry, block_max, block_start, n_old,
            n_blocks, checkpoint, fresh, bound, incumbent, cost, values, positions, levels,
            tops, n_levels,
        )  # fmt: skip
        if levels is not None and u <= T:
            n_levels, n_old, n_blocks, cost = _change_levels(
                signal, c, u, values, positions, levels, tops, due, n_levels, n_old, checkpoint,
                cost, bound[0],
            )  # fmt: skip
    value, ends = _walk_back(S, weight, truth, charges, penalties, last)
    return F, value, ends


@njit(**_WITHIN)
def _advance(
    signal, c, min_size, begin, F, last, starts, bounds, expiry, block_max, block_start, n_old,
    n_blocks, checkpoint, fresh, bound, incumbent, cost, values, positions, levels, tops,
    n_levels,
):  # fmt: skip
    """Solve the prefixes from ``begin`` on until levels change; returns the next one and its state.

    starts: the live ones with a bound; bounds: at least F(s) + f(s,u) − f(checkpoint,u), less the
    gain of that growth, for every later u; expiry: first u from which the start may be dropped.
    For starts from ``fresh`` on, F(s) + f(s,u) is at most top + spread, the
    sum of |x|² since they were looked at, which is NaN where they have no bound.
    """
    S, weight, truth, charges, _, rules, penalties = signal
    growth, spread, top = bound
    work, due, full = _INTEGER(0), n_levels, False  # due: the first level to be renewed
    following = len(F)
    for u in range(begin, len(F)):
        newest = u - min_size
        low, high = allowed_starts(rules, u, newest + 1)
        if low >= high:
            continue
        if full or due < n_levels:  # at an end: what bounds of joined levels hold at is renewed
            following = u
            break
        # The last winner comes first: it often wins again, and a high incumbent spares bounds.
        best = -np.inf
        if low <= incumbent < high:
            best = F[incumbent] + segment_value(S, weight, truth, charges, c, incumbent, u)
        best, incumbent, ripe, spread, top = _look_ahead(
            signal, c, u, newest, low, high, F, fresh, bounds[n_old:], spread, top, best, incumbent
        )
        # F(s) + f(s,u) ≤ bounds[s] + common: whole blocks are left out by their largest bound, then
        # single starts by their own.
        common = segment_value(S, weight, truth, charges, c, checkpoint, u)
        common += _gain(truth, weight, growth, checkpoint, u)
        near = n_blocks if block_max[n_blocks] + common > best else _INTEGER(1)
        best, incumbent, work = _look(
            signal, c, u, low, high, common, F, starts, bounds, block_max, block_start, near, best,
            incumbent, work + ripe,
        )  # fmt: skip
        if levels is not None and n_levels > 0:
            best, incumbent, due = _look_back(
                signal, c, min_size, u, low, high, values, positions, levels, tops, n_levels, best,
                incumbent,
            )  # fmt: skip
        F[u], last[u] = best - penalty_at(penalties, u), incumbent
        # A new checkpoint tightens all bounds; it pays once the work since the last one, looks at
        # blocks and evaluations, exceeds what it costs; joined levels ask for it with a cost of 0.
        wait = 0 if ripe > 0 and spread >= 0.0 else newest + 1 - fresh
        if work >= 1.5 * cost + wait or cost == 0:
            n_old, n_hot, cost, growth = _renew(
                signal, c, min_size, u, low, fresh, ripe > 0, common, F, last, starts, bounds,
                expiry, n_old,
            )  # fmt: skip
            n_blocks = _form_blocks(bounds, n_hot, n_old, block_max, block_start)
            checkpoint, work, fresh, spread, top = u, 0, newest + 1, 0.0 * spread, -np.inf
            full = levels is not None and n_old > _LEVEL and n_levels < _LEVELS - 1
    bound = growth, spread, top
    return following, n_old, n_blocks, checkpoint, fresh, bound, incumbent, cost, due


@njit(**_WITHIN, forceinline=True)
def _look_ahead(signal, c, u, newest, low, high, F, fresh, found, spread, top, best, incumbent):
    """The best of the fresh starts and the incumbent, its start, how many of them were ``found``.

    None while their bound says so; then all, so that it begins anew with their values.
    """
    S, weight, truth, charges, _, _, _ = signal
    ripe = newest + 1 - fresh
    if spread >= 0.0:
        energy = _energy(S, u - 1, u)
        spread += energy
        if newest < u - 1:
            energy = _energy(S, newest, u) / (u - newest)
        top = max(top, F[newest] + (energy + c) - spread)
        if top + spread + 1e-15 * (ripe + 16) * (abs(best) + spread - c) <= best:
            ripe = _INTEGER(0)
        else:
            spread, top = 0.0, -np.inf
    for s in range(max(newest + 1 - ripe, low), high):
        value = F[s] + segment_value(S, weight, truth, charges, c, s, u)
        found[s - fresh], top = value, max(top, value + weight)
        if value > best:
            best, incumbent = value, s
    return best, incumbent, ripe, spread, top


@njit(**_WITHIN, forceinline=True)
def _look(
    signal, c, u, low, high, common, F, starts, bounds, block_max, block_start, n_blocks, best,
    incumbent, work,
):  # fmt: skip
    """The best of the starts in blocks and the incumbent, its start, and the work so far."""
    S, weight, truth, charges, _, _, _ = signal
    for b in range(n_blocks):
        if block_max[b] + common <= best:
            continue
        work += 1
        for j in range(block_start[b], block_start[b + 1]):
            s = _INTEGER(starts[j])
            if bounds[j] + common > best and low <= s < high and s != incumbent:
                work += 1
                value = F[s] + segment_value(S, weight, truth, charges, c, s, u)
                if value > best:
                    best, incumbent = value, s
    return best, incumbent, work


@njit(**_WITHIN, forceinline=True)
def _look_back(
    signal, c, min_size, u, low, high, values, positions, levels, tops, n_levels, best, incumbent
):
    """The best of all levels but the newest, its start, and the first level to be renewed.

    That is one on which enough was spent, or whose starts may all be dropped.
    """
    S, weight, truth, charges, slacks, rules, penalties = signal
    due, slack = n_levels, split_slack(slacks, weight, c, u)
    for k in range(n_levels):
        start = _INTEGER(levels[_CHECKPOINT, k])
        common = segment_value(S, weight, truth, charges, c, start, u)
        common += _gain(truth, weight, tops[1, k], start, u)
        if tops[0, k] + common > best:
            first, block = levels[_FIRST, k], levels[_BLOCK, k]
            best, incumbent, levels[_SPENT, k] = _look(
                signal, c, u, low, high, common, values[0], positions[1][first:],
                values[1][first:], values[2][block:], positions[3][block:], levels[_BLOCKS, k],
                best, incumbent, _INTEGER(levels[_SPENT, k]),
            )  # fmt: skip
        levels[_SPENT, k] += 1
        beaten = tops[0, k] + common + slack <= best - penalty_at(penalties, u)
        if levels[_SPENT, k] >= levels[_COST, k] or (
            beaten and legal_from(rules, u, min_size) <= u + 1
        ):
            due = min(due, k)
    return best, incumbent, due


@njit(**_WITHIN)
def _change_levels(
    signal, c, u, values, positions, levels, tops, due, n_levels, n_old, checkpoint, cost, growth
):
    """Join the levels from ``due`` on with the newest one, or else set that aside.

    Returns how many levels are older than the newest one, its starts, blocks and cost.
    """
    k = due
    if due < n_levels:
        # One level from now on, to be renewed at u at any penalty.
        n_old += _INTEGER(levels[_FIRST, n_levels]) - _INTEGER(levels[_FIRST, due])
        _shift_bounds(signal, c, u, checkpoint, growth, values[1], levels, tops, due, n_levels)
    first, block = _INTEGER(levels[_FIRST, k]), _INTEGER(levels[_BLOCK, k])
    starts, bounds, expiry = positions[1][first:], values[1][first:], positions[2][first:]
    block_max, block_start = values[2][block:], positions[3][block:]
    if due < n_levels:
        n_blocks = _form_blocks(bounds, _INTEGER(0), n_old, block_max, block_start)
        return due, n_old, n_blocks, _INTEGER(0)
    n_old, n_blocks = _set_aside(
        starts, bounds, expiry, block_max, block_start, levels, tops, k, n_old, checkpoint, cost,
        growth,
    )  # fmt: skip
    return k + 1, n_old, n_blocks, _INTEGER(_FRESH)


@njit(**_WITHIN)
def _set_aside(
    starts, bounds, expiry, block_max, block_start, levels, tops, k, n, checkpoint, cost, growth
):
    """Make the newest level, of n starts, level k; the hot ones, if few, begin the next one.

    Returns how many starts that has, and blocks.
    """
    # Cold blocks have more starts than that: a first block so short is the one of the hot.
    n_hot = _INTEGER(block_start[1]) if block_start[1] <= _HOT_STARTS else _INTEGER(0)
    n -= n_hot
    for i in range(n_hot):
        j = n + i
        starts[i], starts[j] = starts[j], starts[i]
        bounds[i], bounds[j] = bounds[j], bounds[i]
        expiry[i], expiry[j] = expiry[j], expiry[i]
    n_blocks = _form_blocks(bounds, _INTEGER(0), n, block_max, block_start)
    tops[0, k], tops[1, k] = -np.inf, growth
    for b in range(n_blocks):
        tops[0, k] = max(tops[0, k], block_max[b])
    levels[_BLOCKS, k], levels[_CHECKPOINT, k] = n_blocks, checkpoint
    levels[_SPENT, k], levels[_COST, k] = 0, cost
    levels[_FIRST, k + 1] = levels[_FIRST, k] + n
    n_blocks += 1
    levels[_BLOCK, k + 1] = levels[_BLOCK, k] + n_blocks
    block_max, block_start = block_max[n_blocks:], block_start[n_blocks:]
    return n_hot, _form_blocks(bounds[n:], n_hot, n_hot, block_max, block_start)


@njit(**_WITHIN)
def _shift_bounds(signal, c, u, checkpoint, growth, bounds, levels, tops, due, n_levels):
    """Have the bounds of the levels from ``due`` on hold at u with the newest one's checkpoint."""
    S, weight, truth, charges, _, _, _ = signal
    common = segment_value(S, weight, truth, charges, c, checkpoint, u)
    common += _gain(truth, weight, growth, checkpoint, u)
    for k in range(due, n_levels):
        start = _INTEGER(levels[_CHECKPOINT, k])
        shift = segment_value(S, weight, truth, charges, c, start, u) - common
        shift += _gain(truth, weight, tops[1, k], start, u)
        for j in range(_INTEGER(levels[_FIRST, k]), _INTEGER(levels[_FIRST, k + 1])):
            bounds[j] += shift


@njit(**_CALLED)
def best_means(S, c, min_size):
    """:func:`best_segmentation` of one feature without a truth, for c < 0, by functional pruning.

    f(s,u) = max_μ 2μ(S_u − S_s) − μ²(u−s) + c, so that starts compete for every mean μ, once for
    all u: s beats t > s where (μ − m)² ≤ (F(s) + (t−s)m² − F(t))/(t−s), m the mean of (s,t].
    Kept are the starts that are best for some mean, with the intervals of these means (Maidstone,
    Hocking, Rigaill & Fearnhead, On optimal multiple changepoint algorithms for large data,
    Statistics and Computing 27, 2017). Intervals are widened by more than rounding, so that F is
    that of all starts to the last bit. O(T) memory, O(T) time times the number of intervals.

    Returns
    -------
    F, value, ends
        As of best_segmentation; no ends where there are too many intervals, as where rounding
        hides the penalty of a segment.
    """
    T = S.shape[0] - 1
    F, last = np.empty(T + 1), np.zeros(T + 1, dtype=np.int32)
    lowest, highest, energy = np.inf, -np.inf, 0.0
    for t in range(T):
        x = S[t + 1, 0] - S[t, 0]
        lowest, highest, energy = min(lowest, x), max(highest, x), energy + x * x
    edge, rounding = 1e-12 * max(abs(lowest), abs(highest)), 1e-14 * (energy - c)
    # Intervals from left to right, and in the other row those that come out of them.
    starts, bounds = np.zeros((2, _INTERVALS), np.int64), np.empty((2, _INTERVALS, 2))
    bounds[0, 0, 0], bounds[0, 0, 1] = lowest - edge, highest + edge
    F[:min_size], F[0], n, row, incumbent = -np.inf, 0.0, 1, 0, _INTEGER(0)
    for u in range(min_size, min(2 * min_size, T + 1)):
        F[u] = segment_value(S, 0.0, None, None, c, 0, u)
    for u in range(2 * min_size, T + 1):
        n, F[u], incumbent = _divide(
            S, c, F, u - min_size, u, rounding, starts, bounds, row, n, incumbent
        )
        last[u], row = incumbent, 1 - row
        if 3 * n > _INTERVALS:
            return F, 0.0, np.empty(0, dtype=np.int64)
    value, ends = _walk_back(S, 0.0, None, None, None, last)
    return F, value, ends


@njit(**_WITHIN, forceinline=True)
def _divide(S, c, F, t, u, rounding, starts, bounds, row, n, incumbent):
    """Divide n intervals between their starts and t, into the other row: how many, F(u) and its s.

    As in best_segmentation, the last winner wins where several are worth the same.
    """
    new, count, mine = 1 - row, 0, -1  # mine: the last interval of t
    best = F[incumbent] + segment_value(S, 0.0, None, None, c, incumbent, u)
    for j in range(n):
        s, low, high = starts[row, j], bounds[row, j, 0], bounds[row, j, 1]
        value = F[s] + segment_value(S, 0.0, None, None, c, s, u)
        if value > best:
            best, incumbent = value, s
        size, rise, lead = float(t - s), S[t, 0] - S[s, 0], F[s] - F[t]
        # Most stay as they are: the lead of s over t is concave in μ and positive at both ends.
        least = min(low * (2.0 * rise - low * size), high * (2.0 * rise - high * size))
        if lead + least > rounding:
            starts[new, count], bounds[new, count, 0], bounds[new, count, 1] = s, low, high
            count += 1
            continue
        share = 1.0 / size
        mean, slack = rise * share, rounding * share
        room = (lead + rise * mean) * share
        # t takes what is outside of the inner width, s keeps what is inside of the outer one.
        outer, inner = np.sqrt(max(0.0, room + slack)), np.sqrt(max(0.0, room - slack))
        if low <= mean - inner:
            if mine < 0 or low > bounds[new, mine, 1]:
                starts[new, count], bounds[new, count, 0], mine = t, low, count
                bounds[new, count, 1], count = low, count + 1
            bounds[new, mine, 1] = max(bounds[new, mine, 1], min(high, mean - inner))
        if room + slack >= 0.0 and low <= mean + outer and mean - outer <= high:
            starts[new, count], bounds[new, count, 0] = s, max(low, mean - outer)
            bounds[new, count, 1], count = min(high, mean + outer), count + 1
        if mean + inner <= high:
            if mine < 0 or max(low, mean + inner) > bounds[new, mine, 1]:
                starts[new, count], bounds[new, count, 0], mine = t, max(low, mean + inner), count
                bounds[new, count, 1], count = high, count + 1
            bounds[new, mine, 1] = max(bounds[new, mine, 1], high)
    value = F[t] + segment_value(S, 0.0, None, None, c, t, u)
    return (count, value, t) if mine >= 0 and value > best else (count, best, incumbent)


@njit(**_WITHIN)
def _renew(
    signal, c, min_size, u, low, fresh, known, common, F, last, starts, bounds, expiry, n
):  # fmt: skip
    """Carry the bounds of n live starts over to the checkpoint u, add the fresh, and drop starts.

    Those before ``low`` are refused from now on, those beaten at u from the first end on of which
    u is a legal split. A value that stays low is only shifted by ``common``; one that comes within
    reach of F(u) is computed, unless ``known`` as those of fresh starts may be. Returns how
    many starts live on, how many of them, moved to the front, are hot, what the work cost, and
    their growth.
    """
    S, weight, truth, charges, slacks, rules, penalties = signal
    free = charges is None and rules is None and penalties is None and 4.0 * weight < -c
    free = free and S.ndim == 2  # distances in a table are worth no test
    known, old, best = known and rules is None, n, _INTEGER(last[u])
    most, margin = c - _share(truth, weight, best, u), 1e-13 * (abs(F[u]) + weight - c)
    for s in range(max(fresh, low), u - min_size + 1):
        if F[s] > -np.inf:
            starts[n], expiry[n] = s, _NEVER
            bounds[n], n = bounds[old - fresh + s] if known else np.inf, n + 1
    slack, growth, rounding, first = split_slack(slacks, weight, c, u), 0.0, 0.0, u
    near, until = slack, legal_from(rules, u, min_size)
    if truth is not None:
        for j in range(n):
            first = min(first, _INTEGER(starts[j]))
        growth = _growth(truth, weight, first, u)
        near, slack = -c, _largest_gain(truth, weight, growth, first, u) - c
        rounding = 1e-14 * abs(F[u])  # without noise there are ties, and their last bits decide
    level, kept, evaluated = F[u] - _EVALUATED * slack, _INTEGER(0), 0
    for j in range(n):
        s, value, end = _INTEGER(starts[j]), bounds[j], expiry[j]
        if s < low:
            continue
        value += common if j < old else 0.0
        if (j < old or not known) and (value > level or slack <= 0.0):
            value = F[s] + segment_value(S, weight, truth, charges, c, s, u)
            evaluated += 1
        # Now value = F(s) + f(s,u), or more; by (*) the slack makes it hold for every later end.
        # Beaten from the first end that u may split off: u is at least as good, or the best start.
        beaten, ahead, b = value + slack <= F[u], s - best, u - s
        gain = value - c - F[u] + (_share(truth, weight, s, u) if free else 0.0)
        if free and ahead != 0 and gain * (4 * ahead + b) < -c * b:  # else not dominated
            rise = F[s] - F[best]
            apart = rise - c + (_share(truth, weight, best, s) if ahead > 0 else 0.0)
            if ahead < 0 or last[s] != best:
                apart = _energy(S, best, s) / abs(ahead)
            beaten = beaten or _dominated(weight, most, rise, apart, gain, ahead, b, margin)
        if beaten:
            end = min(end, until)
        if end > u + 1:  # the gain makes up for what this bound lacks
            starts[kept], bounds[kept], expiry[kept] = s, value + near + rounding, end
            kept += 1
    n_hot = _hot_first(starts, bounds, expiry, kept, F[u] + (1.0 - _HOT) * near)
    return kept, n_hot, 1 + evaluated + (n + 16) // 4, growth


@njit(**_WITHIN, forceinline=True)
def _share(truth, weight, s, u):
    """What a truth takes from f(s,u)."""
    return 0.0 if truth is None else weight * _overlap(truth, s, u) / (u - s)


@njit(**_WITHIN, forceinline=True)
def _dominated(weight, c, rise, apart, gain, ahead, b, rounding):
    """Whether the best start i at u, or u itself, is better than s = i + ahead at every later end.

    See the top of this file. rise = F(s) − F(i), apart = ‖S_s − S_i‖²/a, gain ≥ g without a truth,
    c that of (i,u] with it: as that may take from a rival up to ``weight`` more than from s, s has
    to be worse by as much. With x and y the squares of what has to be exceeded, as √x + √y, times
    ab: of radii, and of the distance of the centers where one ball has to lie within the other.
    """
    g = max(0.0, gain) + rounding
    x, y = (apart + rise + weight + rounding) * b, (g + weight) * abs(ahead)
    most = (apart + rise - g - c) * (b + ahead)
    if ahead > 0:
        x, most = (g + apart - rise + c) * (ahead + b), (apart - rise - weight - rounding) * b
    rest = 0.999999 * most - x - y
    return rest > 0.0 and rest * rest > 4.0 * x * y


@njit(**_WITHIN, inline="always")
def _hot_first(starts, bounds, expiry, n, level):
    """Move the starts whose bound exceeds ``level`` to the front; returns how many they are."""
    hot = 0
    for j in range(n):
        if bounds[j] > level:
            starts[j], starts[hot] = starts[hot], starts[j]
            bounds[j], bounds[hot] = bounds[hot], bounds[j]
            expiry[j], expiry[hot] = expiry[hot], expiry[j]
            hot += 1
    return hot


@njit(**_WITHIN, inline="always")
def _form_blocks(bounds, n_hot, n, block_max, block_start):
    """A block of hot starts, about √n of cold ones: their largest bounds, then that of all cold."""
    size = 16 if n < 289 else int(np.sqrt(n))
    n_blocks, begin, rest = 0, 0, -np.inf
    while begin < n:
        end = n_hot if begin < n_hot else min(n, begin + size)
        largest = -np.inf
        for j in range(begin, end):
            largest = max(largest, bounds[j])
        block_start[n_blocks], block_max[n_blocks] = begin, largest
        rest = max(rest, largest) if n_blocks > 0 else rest
        n_blocks += 1
        begin = end
    block_start[n_blocks], block_max[n_blocks] = n, rest
    return n_blocks


@njit(**_WITHIN)
def _walk_back(S, weight, truth, charges, penalties, last):
    """Σ f − Σ p with c = 0 and the ends, from the start of the last segment of every prefix."""
    T = S.shape[0] - 1
    n_segments, t = 1, _INTEGER(last[T])
    while t > 0:
        n_segments, t = n_segments + 1, _INTEGER(last[t])
    ends, t, value, s = np.empty(n_segments, dtype=np.int64), T, 0.0, _INTEGER(0)
    for k in range(n_segments - 1, -1, -1):
        ends[k], t = t, _INTEGER(last[t])
    for u in ends:
        value += segment_value(S, weight, truth, charges, 0.0, s, u) - penalty_at(penalties, u)
        s = u
    return value, ends


@njit(**_CALLED)
def best_layers(signal, c, min_size, n_segments, positions, rest, floor):
    """Maximize Σ f − Σ p over segmentations into ``n_segments`` with ends among ``positions``.

    Layer by layer, O(K n²) for n ``positions`` (increasing, the last one T). A prefix is kept
    when its value plus ``rest`` (T+1,) at its end, an upper bound on what follows, reaches
    ``floor``. Returns the value, −inf if there is none, and the segment ends.
    """
    S, weight, truth, charges, _, rules, penalties = signal
    n = len(positions)
    parent = np.full((n_segments, n), -1, dtype=np.int32)
    value = np.full(n, -np.inf)
    for j in range(n):
        low, high = allowed_starts(rules, positions[j], positions[j] - min_size + 1)
        if low <= 0 < high:
            value[j] = segment_value(S, weight, truth, charges, c, 0, positions[j])
            value[j] -= penalty_at(penalties, positions[j])
    # value[j]: the best of the samples up to positions[j] in k segments, parent[k, j]: the place of
    # the end before; the first layer has the segments that begin at 0.
    for k in range(1, n_segments):
        following = np.full(n, -np.inf)
        for i in range(n - 1):
            s = positions[i]
            if value[i] == -np.inf or value[i] + rest[s] < floor:
                continue
            for j in range(i + 1, n):
                u = positions[j]
                low, high = allowed_starts(rules, u, u - min_size + 1)
                if low <= s < high:
                    candidate = value[i] + segment_value(S, weight, truth, charges, c, s, u)
                    candidate -= penalty_at(penalties, u)
                    if candidate > following[j]:
                        following[j], parent[k, j] = candidate, i
        value = following
    ends = np.empty(n_segments, dtype=np.int64)
    j = n - 1
    if value[j] > -np.inf:
        for k in range(n_segments - 1, -1, -1):
            ends[k] = positions[j]
            j = parent[k, j]
    return value[n - 1], ends
