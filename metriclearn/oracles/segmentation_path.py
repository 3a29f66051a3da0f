"""Find all segmentations that are optimal in a range of penalties (CROPS), and the best penalty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.oracles.change_points import PenalizedSegmentation, Vertex, slope
from metriclearn.problem.forms import LowRankForm, center
from metriclearn.problem.losses import ChargedForm, FrobeniusLoss, KnownLoss, Loss
from metriclearn.problem.partial_labels import Labeled, PartialPartition, labeled_part
from metriclearn.problem.partition import Partition, check_count
from metriclearn.running.parameters import (
    Needs,
    Of,
    OneOf,
    Whole,
    check_each,
    check_weights,
    needs,
    real_array,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RANGE = Needs(
    "0 <= low <= high in {name}",
    lambda given: given is None or (np.shape(given) == (2,) and 0 <= given[0] <= given[1]),
)

_KNOWN = KnownLoss()
_STEP = 2.0  # in the logarithm of a penalty, until there are more and fewer changes
_WIDEST = 25.0  # in the logarithm: below, rounding errors cause the changes
_CLOSE = 1.005  # the search ends at this ratio of two penalties
# A search that is not exact: where sequences have more segments, neighboring penalties have at most
# the first ratio, and the second around the best penalty.
_MANY, _APART, _NEAR = 256, 1.7, 1.01


def _list_of(kinds: tuple[type, ...], words: str) -> Needs:
    """Require a list, because a set has no order, and forms and truths are paired in order."""

    def accepts(values: Any) -> bool:
        listed = isinstance(values, (list, tuple, np.ndarray)) and len(values) > 0
        return listed and all(isinstance(value, kinds) for value in values)

    return Needs(words, accepts)


_FORMS = _list_of((LowRankForm, ChargedForm), "a list of LowRankForm as {name}")
_TRUTHS = _list_of(
    (Partition, PartialPartition), "a list of Partition or PartialPartition as {name}"
)


@dataclass(frozen=True)
class SegmentationPath:
    """Segmentations that are optimal at some penalty, from few segments to many.

    Attributes
    ----------
    change_points : list of int arrays
        Segment ends of each segmentation, in the format of ruptures.
    n_segments : int array (m,)
        Number of segments of each segmentation.
    costs : array (m,)
        Residual ‖Z − MZ‖² of each segmentation.
    penalties : array (m, 2)
        For each segmentation, the lowest and the highest penalty λ at which it is optimal.
    """

    change_points: list[NDArray[np.int64]]
    n_segments: NDArray[np.int64]
    costs: NDArray[np.float64]
    penalties: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.change_points)

    def at(self, penalty: float) -> NDArray[np.int64]:
        """Return the segment ends of the segmentation that is optimal at ``penalty``.

        Raises
        ------
        ValueError
            If the path does not cover this penalty.
        """
        if not self.penalties[-1, 0] <= penalty <= self.penalties[0, 1]:
            raise ValueError(
                f"SegmentationPath needs a penalty from {self.penalties[-1, 0]:.6g} to "
                f"{self.penalties[0, 1]:.6g}, got {penalty:.6g}; compute a wider path."
            )
        return self.change_points[int(self.positions(penalty))]

    def positions(self, penalties: ArrayLike) -> NDArray[np.int64]:
        """Return for every penalty the index of the segmentation that is optimal at this penalty.

        For penalties below the range of the path, the result is the last index.

        Parameters
        ----------
        penalties : array of any shape, in units of squared distance

        Returns
        -------
        int array of the same shape
        """
        # The low ends decrease along the path. Negated, they increase, as the bisection needs.
        places = np.searchsorted(-self.penalties[:, 0], -np.asarray(penalties), side="left")
        return np.minimum(places, len(self.penalties) - 1)

    def elbow(self) -> int:
        """Return the index of the elbow, which is optimal in the widest range of penalties.

        The width of a range is the ratio of its ends. Ranges that reach 0 or infinity are left out.
        If no other range exists, the index is 0.
        """
        low, high = self.penalties[:, 0], self.penalties[:, 1]
        bounded = (low > 0) & np.isfinite(high)
        if not bounded.any():
            return 0
        ratios = np.where(bounded, high / np.where(bounded, low, 1.0), 0.0)
        return int(np.argmax(ratios))

    def plot(self, chosen: int | None = None, ax: Any = None) -> Figure:
        """Plot cost against number of segments, and mark the index ``chosen`` or the elbow."""
        from metriclearn.plots import plot_elbow

        position = self.elbow() if chosen is None else chosen
        return plot_elbow(
            self.n_segments, self.costs, self.penalties, int(self.n_segments[position]), ax=ax
        )


@needs
def segmentation_path(
    X: ArrayLike,
    penalty_range: Annotated[tuple[float, float] | None, _RANGE] = None,
    *,
    components: ArrayLike | None = None,
    min_size: int = 1,
    max_segments: Annotated[int | None, OneOf(None, Whole(1))] = None,
) -> SegmentationPath:
    """Find every segmentation that is optimal for some penalty in a range, exactly.

    With Z = XL, the penalized problem is min ‖Z − MZ‖² + penalty · (number of segments), Eq. (4).
    For two optimal segmentations, we solve this problem at the penalty at which both cost the same.
    Either the solution is a new segmentation, or there is none between the two (Haynes, Eckley &
    Fearnhead 2017, CROPS). Each segmentation of the path takes at most two runs of the pruned
    dynamic program.

    Parameters
    ----------
    X : array (T, P), or (T,) for one feature
    penalty_range : (low, high), optional
        Both numbers are at least 0. By default, ``low`` is roughly the variance within segments,
        for the segmentation whose penalty is the variance of all samples. ``high`` is infinite by
        default, so the path begins with a single segment.
    components : array (r, P), optional
        Lᵀ of a metric, such as a learner's ``components_``.
    min_size : int
        Smallest number of samples in a segment.
    max_segments : int, optional
        If two neighboring segmentations both have at least this many segments, no segmentation
        between them is searched for.

    Returns
    -------
    SegmentationPath
        ``change_points``, ``costs`` and ``penalties`` of every segmentation. The segmentation with
        the fewest segments comes first.

    Raises
    ------
    ValueError
        If the range is not 0 ≤ low ≤ high, or if the data cannot be used.
    """
    Z = center(real_array("segmentation_path", "X", X, signals=True))
    if components is not None:
        L = real_array("segmentation_path", "components", components)
        if L.shape[1] != Z.shape[1]:
            raise ValueError(
                f"segmentation_path needs components of shape (r, {Z.shape[1]}), got {L.shape}."
            )
        Z = Z @ L.T
    _, min_size = check_count("segmentation_path", len(Z), None, min_size)
    problem = PenalizedSegmentation(LowRankForm(Z), min_size)
    low, high = problem.extremes
    if penalty_range is not None:
        cheap, dear = map(float, penalty_range)
        low = low if np.isinf(dear) else problem.solve(dear)
        high = problem.solve(cheap)
    else:
        # With a large ``min_size``, more segments can be worse, but no penalty is below 0.
        high = problem.solve(0.0) if min_size > 1 else high
        # The penalty is the mean residual of a sample: first around the mean of all samples, then
        # around the segment means of the optimum at that penalty.
        cheap, dear, last = 0.0, np.inf, low
        for _ in range(2):
            if len(high.ends) > len(last.ends):
                penalty, vertex = slope(last, high), problem.between(last, high)
                last, cheap = (last, cheap) if vertex is None else (vertex, penalty)
        high = last if len(last.ends) > 1 else high
    total = float(np.sum(Z * Z))
    return path_between(problem, low, high, int(max_segments or len(Z)), total, (cheap, dear))


def path_between(
    problem: PenalizedSegmentation,
    low: Vertex,
    high: Vertex,
    most: int,
    total: float = 0.0,
    penalty_range: tuple[float, float] = (0.0, np.inf),
) -> SegmentationPath:
    """Find the segmentations that are optimal at some penalty, from ``low`` to ``high``.

    Parameters
    ----------
    problem : PenalizedSegmentation
    low, high : Vertex
        The segmentations with the fewest and with the most segments. Both segmentations must be
        vertices of the upper hull of the points (K, V(K)).
    most : int
        If two neighboring segmentations both have at least this many segments, no segmentation
        between them is searched for.
    total : float
        ‖Z‖². An entry of ``costs`` is ‖Z‖² minus the value of a segmentation.
    penalty_range : (float, float)
        The lowest and the highest penalty of the path. At the lowest penalty, the segmentation with
        the most segments is optimal. At the highest penalty, the segmentation with the fewest
        segments is optimal.
    """
    hull = _Hull(problem, [low, high])
    hull.refine(most)
    return hull.path(total, penalty_range)


@dataclass
class _Hull:
    """The upper hull of the points (K, V(K)) of a sequence, as far as it is known.

    Attributes
    ----------
    problem : PenalizedSegmentation
    vertices : list of Vertex
        From few segments to many.
    apart : float
        Vertices whose penalties differ by no more than this ratio need not be told apart.
    edges : set of (int, int)
        Numbers of segments of neighboring vertices that have no vertex between them.
    """

    problem: PenalizedSegmentation
    vertices: list[Vertex]
    apart: float = 1.0
    edges: set[tuple[int, int]] = field(default_factory=set)

    @property
    def counts(self) -> NDArray[np.int64]:
        """The numbers of segments of the vertices."""
        return np.array([len(one.ends) for one in self.vertices])

    @property
    def slopes(self) -> NDArray[np.float64]:
        """The penalties at which neighboring vertices have the same value, (m − 1,)."""
        return np.diff([one.value for one in self.vertices]) / np.diff(self.counts)

    def is_open(self, apart: float | None = None) -> NDArray[np.bool_]:
        """Tell where there may be vertices between neighboring vertices, (m − 1,).

        The hull is concave, so the penalties of such vertices lie between the neighboring slopes.
        """
        ratio = self.apart if apart is None else apart
        pairs = pairwise(self.counts.tolist())
        possible = np.array([b - a > 1 and (a, b) not in self.edges for a, b in pairs], dtype=bool)
        if ratio > 1.0:
            slopes = np.concatenate([[np.inf], self.slopes, [0.0]])
            possible &= slopes[:-2] > ratio * slopes[2:]
        return possible

    def refine(self, most: int) -> None:
        """Find all vertices, but none between two that both have at least ``most`` segments."""
        j = 0
        while j < len(self.vertices) - 1:
            left, right = (len(one.ends) for one in self.vertices[j : j + 2])
            if right <= left:  # a single segmentation is possible
                self.vertices.pop(j + 1)
                continue
            may_split = (
                right - left > 1 and left < most and (self.apart == 1.0 or self.is_open()[j])
            )
            if not may_split or not self.split(j):
                j += 1

    def split(self, j: int) -> bool:
        """Look for a vertex between the vertices j and j + 1. Tells whether there is one."""
        left, right = self.vertices[j : j + 2]
        middle = self.problem.between(left, right)
        if middle is None:
            self.edges.add((len(left.ends), len(right.ends)))
        else:
            self.vertices.insert(j + 1, middle)
        return middle is not None

    def look_around(self, j: int, apart: float | None = None) -> bool:
        """Look for a vertex on either side of the vertex j. Tells whether it has looked."""
        is_open = self.is_open(apart)
        sides = [k for k in (j, j - 1) if 0 <= k < len(is_open) and is_open[k]]
        for k in sides:
            self.split(k)
        return bool(sides)

    def path(
        self, total: float = 0.0, penalty_range: tuple[float, float] = (0.0, np.inf)
    ) -> SegmentationPath:
        """Return the path of the known vertices, see :func:`path_between`."""
        values, ends = zip(*self.vertices)
        # At the slope of an edge of the hull both its vertices have the same value. Above this
        # penalty the one with fewer segments is optimal, and below it the one with more.
        slopes = self.slopes
        penalties = np.column_stack(
            [np.append(slopes, penalty_range[0]), np.append(penalty_range[1], slopes)]
        )
        penalties = np.clip(penalties, *penalty_range)
        return SegmentationPath([*ends], self.counts, total - np.array(values), penalties)


def widest_run(good: NDArray, low: NDArray, high: NDArray) -> tuple[int, int]:
    """Find the widest run of neighboring intervals that are all good.

    Returns the indices of the first and the last interval of the run.

    Parameters
    ----------
    good : bool array (m,)
        For every interval, whether it is good.
    low, high : arrays (m,)
        The ends of the intervals. The highest interval comes first. A run of the intervals i to j
        extends from low[j] to high[i].
    """
    starts = np.flatnonzero(good & ~np.append(False, good[:-1]))
    stops = np.flatnonzero(good & ~np.append(good[1:], False))
    tops, bottoms = high[starts], low[stops]
    with np.errstate(invalid="ignore"):  # both ends may be −∞
        widest = int(np.argmax(np.where(tops > bottoms, tops - bottoms, 0.0)))
    return int(starts[widest]), int(stops[widest])


@needs
def best_penalty(
    forms: Annotated[Sequence[LowRankForm | ChargedForm], _FORMS],
    truths: Annotated[Sequence[Partition | PartialPartition], _TRUTHS],
    weights: NDArray | None = None,
    min_size: Annotated[int, Whole(1)] = 1,
    loss: Annotated[Loss, Of("__call__", "FrobeniusLoss()")] = _KNOWN,
) -> tuple[float, float]:
    """Find the penalty with the least mean loss ℓ on labeled sequences.

    The optimal segmentation of every sequence is piecewise constant in the penalty. So the mean
    loss is piecewise constant, too, and its minimum over all penalties is found without a grid. If
    several intervals of penalties are equally good, we take the interval with the largest ratio of
    its ends, and return the geometric mean of these ends.

    If the truth N of a sequence has K* segments, a segmentation M into K segments has
    ‖M − N‖² ≥ |K − K*|. So the path of a sequence is only computed at penalties where this bound
    does not exceed the least mean loss. Losses other than ‖M − N‖² have no such bound. For these
    losses we compare only the penalties at which no sequence has more than 4K* + 10 segments.

    With partial labels, K* is an estimate. It assumes that changes are as frequent in unlabeled
    parts as in labeled parts. Paths are first computed up to 4K* + 10 segments. In place of
    K − K*, the bound uses the surplus of changes in labeled parts. This surplus mostly grows as the
    penalty falls, but not always. So in rare cases a penalty that was not tried would be better.

    Parameters
    ----------
    forms : sequence of LowRankForm or ChargedForm
        The form ZZᵀ of every sequence. A ChargedForm adds penalties of positions.
    truths : sequence of Partition or PartialPartition
    weights : array (N,), optional
        The weight of every sequence in the mean loss. By default all weights are equal.
    min_size : int
        Smallest number of samples in a segment.
    loss : Loss
        The loss ℓ, a function of a segmentation and its truth; by default ‖M − N‖²/T on the labeled
        parts.

    Returns
    -------
    penalty, loss : float
        The best penalty λ > 0, and the mean loss at this penalty.

    Raises
    ------
    ValueError
        If there are no sequences, if there is not one truth for each sequence, or if lengths
        differ.

    See Also
    --------
    segmentation_path : Computes the path of one sequence.
    """
    check_each("best_penalty", "truth", len(truths), "forms", len(forms))
    if weights is not None:
        weights = check_weights("best_penalty", "weights", weights, "forms", len(forms))
    return PenaltySearch(forms, truths, int(min_size), loss).best(weights)


class PenaltySearch:
    """Searches for penalties of labeled sequences that share the paths of these sequences.

    Parameters are those of :func:`best_penalty`, and ``exact``. If labels have nothing to do with
    the rows, all penalties have about the same loss, and the exact search needs all segmentations.
    Their number grows with the length of a sequence. If ``exact`` is false, the search skips
    segmentations where there are more than 256 segments, or, with partial labels, where more are
    possible. A skipped segmentation is optimal at penalties that lie between those of two known
    ones, and these differ by a factor of at most 1.7, or 1.01 around the best penalty.
    """

    def __init__(
        self,
        forms: Sequence[Any],
        truths: Sequence[Any],
        min_size: int,
        loss: Loss = _KNOWN,
        exact: bool = True,
    ) -> None:
        problems = [PenalizedSegmentation(form, min_size) for form in forms]
        possible = np.array([form.n_samples // min_size for form in forms])
        labels = [truth.partial_labels or truth for truth in truths]
        parts = list(map(labeled_part, labels))
        likely = np.array(list(map(attrgetter("likely"), parts)))
        complete = all(isinstance(one, Partition) for one in labels)
        self._bounded = isinstance(loss, KnownLoss) or (
            complete and isinstance(loss, FrobeniusLoss)
        )
        whole = np.array([isinstance(one, Partition) or one.is_whole for one in labels])
        few = np.where(whole, likely, possible) <= _MANY
        apart = np.where(few | exact, 1.0, _APART).tolist()
        self._hulls = [_Hull(one, list(one.extremes), r) for one, r in zip(problems, apart)]
        mosts = np.minimum(possible, np.where(whole & self._bounded, 0, 4 * likely + 10))
        for hull, most in zip(self._hulls, mosts.tolist()):
            hull.refine(most)
        self._tasks: list[Any] = [(*one, {}, loss) for one in zip(self._hulls, parts, truths)]
        self._rows = [_losses(*task) for task in self._tasks]

    def best(
        self, weights: NDArray | None = None, units: NDArray | None = None
    ) -> tuple[float, float]:
        """Find the best penalty, see :func:`best_penalty`.

        Parameters
        ----------
        weights : array (N,), optional
        units : array (N,), optional
            The unit of the penalty in each sequence, by default 1.
        """
        unit = np.ones(len(self._rows)) if units is None else units
        while True:
            paths, bounds, unsure = zip(*self._rows)
            # Between these penalties, from high to low, no sequence changes its segmentation.
            lowest = [path.penalties[:, 0] / one for path, one in zip(paths, unit)]
            penalties = np.unique(np.concatenate(lowest))[::-1]
            penalties = penalties[penalties > 1e-12 * float(penalties[0])]
            ends = [2.0 * penalties[:1], penalties, 1e-3 * penalties[-1:]]
            penalties = np.concatenate(ends) if len(penalties) else np.array([2.0, 1.0])
            # Between two neighbors the losses are constant, so one penalty in every interval is
            # enough.
            middles = np.sqrt(penalties[:-1] * penalties[1:])
            places = [path.positions(middles * one) for path, one in zip(paths, unit)]
            mean = np.average([one[at] for one, at in zip(bounds, places)], axis=0, weights=weights)
            is_open = np.any([one[at] for one, at in zip(unsure, places)], axis=0)
            mean[is_open & (not self._bounded)] = np.inf
            least = np.min(mean[~is_open], initial=np.inf)
            if not self._bounded:
                break
            # Once no lower bound is below the least loss, look for skipped vertices around it.
            certain = not is_open[mean <= least + 1e-12].any()
            j = int(np.argmin(mean if certain else np.where(is_open, mean, np.inf)))
            looked = [
                (hull.apart > 1.0 or not certain)
                and hull.look_around(int(at[j]), _NEAR if certain else None)
                for hull, at in zip(self._hulls, places)
            ]
            for i in np.flatnonzero(looked):
                self._rows[i] = _losses(*self._tasks[i])
            if not any(looked):
                break
        logs = np.log(penalties)
        first, last = widest_run(mean <= np.min(mean) + 1e-12, logs[1:], logs[:-1])
        return float(np.sqrt(penalties[last + 1] * penalties[first])), float(np.min(mean))


def _losses(
    hull: _Hull, part: Labeled, truth: Any, found: dict[int, tuple[float, int]], loss: Loss
) -> tuple[SegmentationPath, NDArray[np.float64], NDArray[np.bool_]]:
    """Return the path of the known vertices, their losses, and where these are lower bounds only.

    At a penalty at which a vertex is the best known one, the best segmentation lies between the
    neighbors of this vertex, which bounds its number of changes. ``found`` keeps losses and
    surplus changes by the number of segments.
    """
    path = hull.path()
    for ends in path.change_points:
        if len(ends) not in found:
            surplus = int(np.count_nonzero(part.known[ends[:-1]])) - part.fewest
            found[len(ends)] = loss(Partition(ends=ends), truth), surplus
    losses, surplus = np.array([found[count] for count in path.n_segments.tolist()]).T
    right = np.append(hull.is_open(), False)
    left = np.roll(right, 1)
    least = np.where(left, np.roll(surplus, 1), surplus)
    most = np.where(right, np.roll(surplus, -1), surplus)
    bounds = np.maximum(np.maximum(least, -most), 0) / hull.problem.n_samples
    return path, np.where(left | right, bounds, losses), left | right


def matched_penalty(
    forms: Sequence[Any],
    hidden: Sequence[NDArray[np.bool_]],
    changes: float,
    min_size: int = 1,
    units: NDArray | None = None,
) -> float | None:
    """Find the penalty at which about ``changes`` changes are found at hidden positions.

    Between penalties of neighboring segmentations nothing changes, so this is the geometric mean of
    the penalties at which the number of changes falls below ``changes + ½`` and ``changes − ½``.
    Both are found by bisection, since the number mostly falls as the penalty rises. If the number
    jumps past ``changes``, fewer are found. If no smaller penalty finds more, this is half the
    largest one that finds ``changes``.

    Parameters
    ----------
    forms : sequence of LowRankForm or ChargedForm
    hidden : sequence of bool arrays (T_i + 1,)
        For every position 0, …, T_i of each recording, whether a change there counts.
    changes : float
        The number of changes in all recordings together.
    min_size : int
        Smallest number of samples in a segment.
    units : array (N,), optional
        The unit of the penalty in each sequence, by default 1.

    Returns
    -------
    float > 0, or None if there are not that many changes at any penalty, as where rows are constant
    """
    problems = [PenalizedSegmentation(form, min_size) for form in forms]
    scale = np.ones(len(problems)) if units is None else units
    extremes = [(*problem.extremes, unit) for problem, unit in zip(problems, scale)]
    slopes = [
        slope(low, high) / unit for low, high, unit in extremes if len(high.ends) > len(low.ends)
    ]
    if not slopes or max(slopes) <= 0.0:  # all rows are equal
        return None

    @cache
    def found(penalty: float) -> int:
        each = zip(problems, np.exp(penalty) * scale)
        ends = [problem.solve(float(one)).ends[:-1] for problem, one in each]
        return sum(int(np.count_nonzero(some[at])) for some, at in zip(hidden, ends))

    def falls_below(threshold: float) -> float:
        low = high = float(np.log(max(slopes)))
        while found(low) < threshold and low > np.log(max(slopes)) - _WIDEST:
            low -= _STEP
        while found(high) >= threshold:
            high += _STEP
        while high - low > np.log(_CLOSE):
            middle = (low + high) / 2
            low, high = (middle, high) if found(middle) >= threshold else (low, middle)
        return high

    count, most = round(changes), found(float(np.log(max(slopes))) - _WIDEST)
    if most < count:
        return None
    if count == 0:
        return float(2.0**0.5 * np.exp(falls_below(0.5)))
    high = falls_below(count - 0.5)
    low = falls_below(count + 0.5) if count < most else high - 2 * np.log(2.0)
    return float(np.exp((low + high) / 2))
