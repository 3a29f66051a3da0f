"""Find the penalty of a segment with the least loss on labeled sequences, or with a given number of
changes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from operator import attrgetter
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.oracles.change_points import PenalizedSegmentation, slope
from metriclearn.oracles.segmentation_path import Hull, SegmentationPath
from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.losses import ChargedForm, FrobeniusLoss, KnownLoss, Loss
from metriclearn.problem.partial_labels import Labeled, PartialPartition, labeled_part
from metriclearn.problem.partition import Partition
from metriclearn.running.executors import in_threads
from metriclearn.running.parameters import Needs, Of, Whole, needs
from metriclearn.running.values import check_each, check_weights

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
        self._hulls = [Hull(one, list(one.extremes), r) for one, r in zip(problems, apart)]
        mosts = np.minimum(possible, np.where(whole & self._bounded, 0, 4 * likely + 10))
        in_threads(Hull.refine, self._hulls, mosts.tolist())
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
            nearest = [int(at[j]) for at in places]
            looked = in_threads(partial(_looked, certain), self._hulls, nearest)
            for i in np.flatnonzero(looked):
                self._rows[i] = _losses(*self._tasks[i])
            if not any(looked):
                break
        logs = np.log(penalties)
        first, last = widest_run(mean <= np.min(mean) + 1e-12, logs[1:], logs[:-1])
        return float(np.sqrt(penalties[last + 1] * penalties[first])), float(np.min(mean))


def _looked(certain: bool, hull: Hull, j: int) -> bool:
    """Look for vertices around vertex j, or for those that were skipped if the loss is certain."""
    if certain and hull.apart == 1.0:
        return False
    return hull.look_around(j, _NEAR if certain else None)


def _losses(
    hull: Hull, part: Labeled, truth: Any, found: dict[int, tuple[float, int]], loss: Loss
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
        found = in_threads(lambda problem, one: problem.solve(float(one)).ends[:-1], *zip(*each))
        return sum(int(np.count_nonzero(some[at])) for some, at in zip(hidden, found))

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
