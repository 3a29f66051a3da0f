"""Find the exactly best segmentation for a given penalty or a given number of segments.

For a given penalty, one pruned dynamic program
(:mod:`~metriclearn.oracles.change_points.recursion`) finds the best segmentation. It also decides
the number of segments. If the number of segments is given, we search for a penalty that leads to
this number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from metriclearn.oracles.change_points.given_count import best_layers
from metriclearn.oracles.change_points.recursion import best_segmentation
from metriclearn.oracles.change_points.segment_values import (
    Signal,
    boundary_worths,
    segment_values,
    truth_table,
)
from metriclearn.oracles.change_points.transitions import best_named, best_named_layers
from metriclearn.problem.forms import LowRankForm, check_squares
from metriclearn.problem.losses import ChargedForm
from metriclearn.problem.named_segments import NamedPartition
from metriclearn.problem.partial_labels import PartialPartition
from metriclearn.problem.partition import Partition, check_count
from metriclearn.problem.regions import segment_rules
from metriclearn.running.parameters import Whole
from metriclearn.running.values import check_each

_LARGEST = 1e280  # largest penalty or weight: a sum over 2³¹ segments is still finite
# Distances are tabulated for at least WIDE features and at most _SHORT samples, unless a gap of
# _CLEAR standard deviations separates the boundaries to keep from the others.
WIDE, _SHORT, _CLEAR = 64, 2048, 0.5
GUESS = True  # try a penalty between the costs of two boundaries


@dataclass(eq=False, repr=False)
class ChangePoints(BaseEstimator):
    """Find the segmentation M that exactly maximizes ⟨A, M⟩ for A = ZZᵀ − κN + cI.

    If the number of segments is not given, c decides it, and one pruned dynamic program finds the
    best segmentation. If K segments are wanted, the program runs at several penalties, until it
    returns K segments. Let V(k) be the best value of k segments. A penalty is the slope of a secant
    of the concave hull of the points (k, V(k)), or a guess from the values of single boundaries. If
    (K, V(K)) lies below the hull, a layered program runs over the few positions that the search
    could not exclude. The memory is O(Tr). One run of the program usually takes a fraction of a
    microsecond per sample.

    Parameters
    ----------
    min_size : int
        Smallest number of samples in a segment. The result is exact for every value.

    Raises
    ------
    ValueError
        For parameters that cannot be used, or if no segmentation has the given number of segments.
    TypeError
        For a form that is neither a :class:`LowRankForm` nor a ``ChargedForm``. The oracle
        :class:`SummedArea` takes any form.

    References
    ----------
    Killick, Fearnhead & Eckley, Optimal detection of changepoints with a linear computational cost,
    Journal of the American Statistical Association 107, 2012 (PELT, whose rule is generalized
    here).
    """

    min_size: Annotated[int, Whole(1)] = 1

    def __call__(
        self,
        form: LowRankForm | ChargedForm,
        n_clusters: int | None = None,
        known: PartialPartition | None = None,
    ) -> Partition:
        """Find the best segmentation, with ``n_clusters`` segments if this number is given.

        Parameters
        ----------
        form : LowRankForm or ChargedForm
        n_clusters : int, optional
        known : PartialPartition, optional
            Only segmentations that agree with it are candidates.

        Raises
        ------
        ValueError
            If T samples cannot hold ``n_clusters`` segments, no segmentation agrees with ``known``,
            or the reference partition of the form is not contiguous.
        """
        who = type(self).__name__
        count, min_size = check_count(who, form.n_samples, n_clusters, self.min_size)
        problem = PenalizedSegmentation(form, min_size, known)
        ends = problem.best(-form.shift)[1] if count is None else problem.solve_count(count)
        if problem.names is not None:
            return NamedPartition(ends, problem.names.names_of(ends))
        return Partition(ends=ends)


def segmentation_oracle(oracle: Any, min_size: int) -> Any:
    """Copy the oracle, and set the parameter ``min_size`` of the copy if it has one.

    If the oracle is None, the result is a :class:`ChangePoints`.
    """
    if oracle is None:
        return ChangePoints(min_size)
    oracle = clone(oracle, safe=False)
    if hasattr(oracle, "min_size"):
        oracle.min_size = min_size
    return oracle


class ConstrainedChangePoints(ChangePoints):
    """The oracle :class:`ChangePoints` under the name that stands for the use of partial labels.

    For A = ZZᵀ − λI and the regions "no change" and "exactly one", this oracle solves labeled
    optimal partitioning (LOPART, Hocking & Srivastava 2020). This class also allows known changes,
    regions with "at most one" or "at least one", many features, a given number of segments, and the
    forms of loss-augmented inference (with −κN, or the charges of
    :class:`~metriclearn.problem.losses.KnownLoss`).

    Every constraint is a condition on single segments (s,u], so the recursion keeps its form. The
    result agrees with all annotations, so it has no label errors. The memory is O(Tr), and the time
    is near-linear.

    Parameters
    ----------
    min_size : int
        Smallest number of samples in a segment.

    Raises
    ------
    ValueError
        For parameters that cannot be used, or if no segmentation has the given number of segments
        and agrees with the annotations.
    TypeError
        For a form that is neither a :class:`LowRankForm` nor a ``ChargedForm``. The oracle
        :class:`SummedArea` takes any form.

    References
    ----------
    T. D. Hocking and A. Srivastava, Labeled optimal partitioning, arXiv:2006.13967, 2020.
    """


class Vertex(NamedTuple):
    """The best segmentation into K segments: its value V(K) and its segment ends (K,)."""

    value: float
    ends: NDArray[np.int64]


class PenalizedSegmentation:
    """Find the best segmentations of one signal for different penalties λ of a segment.

    V(K) is the largest value of a segmentation into K segments that agrees with ``known``. The
    value of a segmentation M is ⟨ZZᵀ − κN, M⟩, plus charges and penalties of positions if the form
    has them. :meth:`solve` maximizes V(K) − λK, so its results are vertices of the upper concave
    hull of the points (K, V(K)).

    Parameters
    ----------
    form : LowRankForm or ChargedForm
        Its ``shift`` is ignored, because each method is passed a penalty.
    min_size : int
        Smallest number of samples in a segment.
    known : PartialPartition, optional

    Raises
    ------
    TypeError
        For any other form.
    ValueError
        If factors are not finite, or ``known`` and ``form`` differ in the number of samples.
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
        T, min_size = form.n_samples, int(min_size)
        if T + min_size >= 2**31:  # positions are 32-bit integers
            raise ValueError(
                f"ChangePoints needs fewer than 2**31 samples, got {T}; divide the sequence."
            )
        if known is not None:
            check_each("ConstrainedChangePoints", "partial label", known.n_samples, "samples", T)
        sums = np.ascontiguousarray(form.cumulative, dtype=np.float64)
        cumulative = check_squares("ChangePoints", sums)
        plain: Any = form
        charges, weight, penalties, names = None, 0.0, None, None
        if isinstance(form, ChargedForm):
            plain, charges, weight = form.form, form.charges, form.scale
            penalties, names = form.penalties, form.names
        if charges is None and plain.truth is not None:
            weight = float(plain.weight)
        if not 0.0 <= weight <= _LARGEST:
            raise ValueError(
                f"ChangePoints needs a weight from 0 to {_LARGEST:g} for the reference partition, "
                f"got {weight:g}; SummedArea takes negative ones."
            )
        self.form, self.charges, self.n_samples = plain, charges, T
        self.min_size, self.known = min_size, known
        self.names: Any = None if names is None else names.normalized(getattr(known, "names", None))
        # Names with costs of transitions need a recursion with states. It takes them separately, so
        # the signal has no names.
        self.has_states = names is not None and names.transitions is not None
        self.penalties, self.signal = penalties, Signal(cumulative, weight, min_size)
        if charges is None and weight:
            self.signal = self.signal._replace(truth=truth_table(plain.truth.change_points, T))
        if penalties is not None:
            self.signal = self.signal._replace(penalties=penalties)
        if charges is not None or known is not None or self.has_states:
            rules = None if known is None else segment_rules(known.constraints, T)
            self.signal = self.signal.constrained(charges, rules)
        if self.names is not None and not self.has_states:
            self.signal = self.signal.named(self.names)
        self._latest: Any = (None,)  # the last penalty, with its F and segment ends

    def best(self, penalty: float) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Compute F, as :func:`best_segmentation` does, and the ends of the best segmentation.

        The result for the latest penalty is stored.

        Raises
        ------
        ValueError
            If no segmentation agrees with the constraints.
        """
        if not abs(penalty) <= _LARGEST:
            raise ValueError(
                f"ChangePoints needs a penalty per segment from -{_LARGEST:g} to {_LARGEST:g}, got "
                f"{penalty:g}; change the unit."
            )
        if self._latest[0] != penalty:
            signal = self.signal._replace(c=-float(penalty))
            if self.has_states:
                states = best_named(signal, self.names)
                self._latest = penalty, states[0].max(axis=1), states[2]
            else:
                self._latest = penalty, *best_segmentation(signal)
        prefixes, ends = self._latest[1:]
        if prefixes[-1] == -np.inf:
            raise ValueError(
                "ConstrainedChangePoints needs a segmentation with segments of at least "
                f"{self.min_size} samples that agrees with the annotations, but there is none; "
                "lower min_size or remove annotations that lie close together."
            )
        return prefixes, ends

    def solve(self, penalty: float) -> Vertex:
        """Find the vertex that maximizes V(K) − penalty·K."""
        return self.vertex(self.best(penalty)[1])

    def vertex(self, ends: NDArray[np.int64]) -> Vertex:
        """Return the segmentation with these ends, and its value without penalties of segments."""
        starts = np.append(0, ends[:-1])
        value = float(segment_values(self.signal, starts, ends).sum())
        if self.has_states:
            value += self.names.at(Partition(ends=ends))
        return Vertex(value, ends)

    @cached_property
    def extremes(self) -> tuple[Vertex, Vertex]:
        """The best segmentations into the smallest and into the largest possible number of
        segments."""
        positions = np.arange(1, self.n_samples + 1)
        if self.known is None and self.min_size == 1 and not self.has_states:
            return self.vertex(positions[-1:]), self.vertex(positions)
        # At a penalty above the range of V, the number of segments alone decides.
        weight = self.signal.weight
        penalty = float(np.sum(np.diff(self.signal.cumulative, axis=0) ** 2))
        if self.charges is not None:  # a piece charges each segment at most 1
            pieces = self.charges.pieces
            n_pieces = len(pieces.stretches) + 2 * len(pieces.regions)
            penalty += weight * self.n_samples * (1 + n_pieces)
        elif self.form.truth is not None:
            penalty += weight * self.form.truth.n_clusters
        if self.penalties is not None:
            penalty += float(np.abs(self.penalties).sum())
        if self.names is not None:
            penalty -= float(np.diff(self.names.emissions, axis=0).min(axis=1).sum())
        if self.has_states:
            costs = self.names.transitions
            penalty += self.n_samples * float(np.abs(costs[np.isfinite(costs)]).max(initial=0.0))
        penalty = 2.0 * penalty or 1.0
        coarsest = self.vertex(positions[-1:]) if self.known is None else self.solve(penalty)
        return coarsest, self.solve(-penalty)

    def tabulate(self, n_segments: int) -> None:
        """Replace S by a table of all ‖S_u − S_s‖² if many features make this worthwhile.

        The table (T+1, T+1, 1) takes one matrix product, and at most about twice the memory of S.
        The table pays off only if the program will run many times. Many runs are likely if no clear
        gap separates the ``n_segments`` − 1 most valuable boundaries from the others.
        """
        S = self.signal.cumulative
        wide = S.ndim == 2 and S.shape[1] >= WIDE and len(S) <= min(_SHORT, 2 * S.shape[1]) + 1
        # The table holds only energies, so it cannot be used if another term needs S.
        if not wide or not self.signal.is_plain:
            return
        worths = np.sort(boundary_worths(self.signal, self.extremes[1].ends))
        if np.ptp(worths[-n_segments:][:2]) >= _CLEAR * worths.std():
            return
        # ‖S_u‖² + ‖S_s‖² − 2⟨S_u, S_s⟩, in place.
        table = S @ S.T
        squares = table.diagonal().copy()
        table *= -2.0
        table += squares
        table += squares[:, None]
        self.signal = self.signal._replace(cumulative=table[:, :, None])

    def solve_count(self, n_segments: int) -> NDArray[np.int64]:
        """Return the segment ends of the best segmentation into exactly ``n_segments`` segments.

        For every number of segments between the smallest and the largest possible number, a
        segmentation exists, unless transitions between names are forbidden. Proof: describe a
        segmentation by a vector that is 1 at changes and 0 elsewhere. All constraints, and the
        number of changes, are bounds on sums of this vector over intervals of positions. The matrix
        of such intervals is totally unimodular. So if a vector with entries from 0 to 1 satisfies
        integer bounds, some vector of zeros and ones satisfies them, too. Weighted means of the
        vectors of the two extreme segmentations satisfy the constraints. The sums of these means
        reach every number in between.

        Raises
        ------
        ValueError
            If no segmentation into that many segments agrees with the constraints.
        """
        low, high = self.extremes
        if not len(low.ends) <= n_segments <= len(high.ends):
            raise ValueError(
                f"ConstrainedChangePoints needs from {len(low.ends)} to {len(high.ends)} segments "
                f"to agree with the annotations, got {n_segments}."
            )
        # low and high are vertices of the hull on either side of K. Each round replaces one of
        # them: by a guess, once for every high, or else by a vertex above the chord. If there is no
        # such vertex, K lies inside an edge.
        if self.known is None and len(low.ends) < n_segments < len(high.ends):
            self.tabulate(n_segments)
        guessed_from = high
        while len(low.ends) < n_segments < len(high.ends):
            vertex = None
            if GUESS and high is not guessed_from:
                # If a boundary is removed from ``high``, two segments are merged, and the value
                # that is lost is the cost of the boundary. The K − 1 most costly boundaries should
                # stay. A penalty between the smallest cost of these and the largest of the others
                # leads to K segments if removing a boundary does not change the other costs.
                guessed_from, worths = high, np.sort(boundary_worths(self.signal, high.ends))
                guess = self.solve(float(np.mean(worths[-n_segments:][:2])))
                vertex = guess if len(low.ends) < len(guess.ends) < len(high.ends) else None
            if vertex is None:
                vertex = self.between(low, high)
            if vertex is None:
                return self._inside_edge(n_segments, low, high)
            low, high = (vertex, high) if len(vertex.ends) <= n_segments else (low, vertex)
        return low.ends if len(low.ends) == n_segments else high.ends

    def between(self, low: Vertex, high: Vertex) -> Vertex | None:
        """Find a vertex of the hull above the chord between two vertices, or return None."""
        penalty = slope(low, high)
        vertex = self.solve(penalty)
        gain = (vertex.value - penalty * len(vertex.ends)) - (low.value - penalty * len(low.ends))
        # Gains that small are rounding: the vertex lies on the chord.
        rounding = 1e-12 * (abs(low.value) + abs(high.value) + abs(penalty) * len(high.ends))
        inside = len(low.ends) < len(vertex.ends) < len(high.ends)
        return vertex if gain > rounding and inside else None

    def _inside_edge(self, n_segments: int, low: Vertex, high: Vertex) -> NDArray[np.int64]:
        """Find the best segmentation into K segments if K lies strictly inside an edge of the hull.

        Returns the segment ends. A layered program over few positions finds them. At the penalty of
        the edge, a segmentation with a change at t has at most the value through[t]. We begin with
        the positions with the largest through[t], and double their number until they allow a
        segmentation into K segments. Then we add all positions whose through[t] reaches the value
        of that segmentation.
        """
        penalty, T = slope(low, high), self.n_samples
        best, rest, through = self.through(penalty)
        rounding = 1e-11 * (abs(best) + abs(penalty) * n_segments)
        order = np.argsort(-through[1:], kind="stable") + 1
        order = order[through[order] > -np.inf]
        signal, count, floor = self.signal._replace(c=-penalty), 2 * n_segments + 50, -np.inf
        layers: Any = partial(best_layers, signal)
        if self.has_states:
            layers = partial(best_named_layers, signal, self.names)
        positions = np.union1d(order[:count], [T])
        while True:
            value, ends = layers(n_segments, positions, rest, floor)
            if value == -np.inf:  # too few positions for K segments
                if count >= len(order):
                    raise ValueError(
                        f"ConstrainedChangePoints needs names for {n_segments} segments that agree "
                        "with the given names and may follow each other, but there are none; pass "
                        "another number of segments."
                    )
                count *= 2
                positions = np.union1d(order[:count], [T])
                continue
            # A better segmentation into K segments has no change t with through[t] below the floor.
            # If all other positions were candidates, or the value is on the hull, this segmentation
            # is the best.
            floor = value - rounding
            needed = order[through[order] >= floor]
            if floor >= best - 2 * rounding or np.isin(needed, positions).all():
                return ends
            positions = np.union1d(positions, needed)

    def through(self, penalty: float) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        """Compute the best value of all segmentations, and two best values for every position t.

        Returns three results. The first is the best value of all segmentations. The second result,
        (T+1,), holds the best value of the samples from t on, without the penalty of a change at t.
        If transitions of names have costs, the second result has the shape (T+1, C), with one
        column for every name of the segment that begins at t. The third result, (T+1,), holds the
        best value of a segmentation with a change at t.
        """
        turned = self.mirrored()
        if self.has_states:
            F, H, _ = best_named(self.signal._replace(c=-penalty), self.names)
            rest = best_named(turned.signal._replace(c=-penalty), turned.names)[0][::-1].copy()
        else:
            F, rest = self.best(penalty)[0], turned.best(penalty)[0][::-1].copy()
        # The segments before and after t share no charge. Only the value before t includes p_t.
        if self.penalties is not None:
            rest += self.penalties.reshape(-1, *[1] * (rest.ndim - 1))
        if not self.has_states:
            return float(F[-1]), rest, F + rest
        through = np.max(H + self.names.emissions + rest, axis=1)
        through[-1] = F[-1].max()
        return float(through[-1]), rest, through

    def mirrored(self) -> PenalizedSegmentation:
        """Return the same problem with the samples in reverse order."""
        form, sums, T = self.form, self.form.cumulative, self.n_samples
        turned: Any = LowRankForm(cumulative=sums[-1] - sums[::-1])
        charges, penalties = self.charges, self.penalties
        if charges is None and form.truth is not None and form.weight:
            # The new ends of the true segments are T minus their starts, in reverse order.
            ends = T - np.append(form.truth.change_points[-2::-1], 0)
            turned = turned.plus(Partition(ends=ends), form.weight)
        # A change at t is a change at T − t of the reversed samples.
        charges = None if charges is None else charges.mirrored()
        penalties = None if penalties is None else penalties[::-1]
        turned = ChargedForm(turned, charges, self.signal.weight, penalties)
        known = None if self.known is None else self.known.mirrored()
        problem = PenalizedSegmentation(turned, self.min_size, known)
        if self.names is not None:
            codes = getattr(self.known, "names", None)
            problem.names = self.names.normalized(codes, backward=True)
            problem.has_states = self.has_states
            if not self.has_states:
                problem.signal = problem.signal.named(problem.names)
            elif problem.signal.rules is None:
                problem.signal = problem.signal.constrained(None, None)
        if self.signal.cumulative.ndim == 3:
            table = np.ascontiguousarray(self.signal.cumulative[::-1, ::-1])
            problem.signal = problem.signal._replace(cumulative=table)
        return problem


def slope(low: Vertex, high: Vertex) -> float:
    """Return the penalty λ at which V(K) − λK is the same for two vertices."""
    return (high.value - low.value) / (len(high.ends) - len(low.ends))
