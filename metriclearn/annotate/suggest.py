"""Which stretches of recordings to ask for next, so that few labels are enough.

A change-point is worth asking for where the learned metric nearly decided otherwise (margin:
uncertainty sampling), or where metrics learned on resampled annotations disagree (query by
committee), and more so if the recording is unlike the labeled ones (diversity: the farthest first).
A metric learned from few labels does not know where it is wrong. So some stretches are chosen at
random; otherwise it would learn only about its own doubts.

References: B. Settles, Active Learning, Morgan & Claypool 2012; T. Gonzalez, Clustering to minimize
the maximum intercluster distance, Theoretical Computer Science 38, 1985.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import maximum_filter1d
from sklearn.base import clone
from sklearn.metrics import pairwise_distances_argmin_min

from metriclearn.estimators.inputs import DataSets, read_data_sets, read_labelings
from metriclearn.estimators.learners.change_points import ChangePointMetricLearner
from metriclearn.problem.forms import center
from metriclearn.problem.knowledge import PartialPartition, pieces_of
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import component, either, needs, number

_N_METRICS = 5  # of a committee
_STARTS = 4  # of candidates, within a length
_PRECISION = 8  # changes this part of a length apart are the same
# what is multiplied for a gain
_PARTS = {
    "combined": ("margin", "diversity"),
    "margin": ("margin",),
    "disagreement": ("disagreement",),
    "diversity": ("diversity",),
    "random": (),
}


class Suggestion(NamedTuple):
    """The samples X[start:stop] of a recording, and what their labels are worth.

    Attributes
    ----------
    recording, start, stop : int
    gain : float
        From 0 to 1, relative to the first of an answer; 0 for "leftmost" and "longest".

    See Also
    --------
    suggest : what makes it.

    Examples
    --------
    >>> from metriclearn.annotate import Suggestion
    >>> Suggestion(recording=0, start=100, stop=150, gain=1.0).start
    100
    """

    recording: int
    start: int
    stop: int
    gain: float


class _Told(NamedTuple):
    """Recordings, and the stretches of them whose segmentation is known."""

    data: DataSets
    stretches: list[tuple[int, int, NDArray[np.int64]]]  # recording, start, segment ends

    @classmethod
    def read(cls, who: str, Xs: Any, known: Any) -> _Told:
        """Both checked."""
        data = read_data_sets(who, Xs)
        if known is None:
            unknown = [PartialPartition(length) for length in data.lengths]
            known = unknown[0] if data.single else unknown
        stretches: list[tuple[int, int, NDArray[np.int64]]] = []
        for i, truth in enumerate(read_labelings(who, known, data, segments=True, partial=True)):
            if isinstance(truth, Partition):
                stretches.append((i, 0, truth.change_points))
            else:
                stretches += [(i, start, ends) for start, ends in pieces_of(truth).stretches]
        return cls(data, stretches)

    @property
    def pieces(self) -> tuple[list[NDArray], list[Partition]]:
        """The stretches as separate recordings."""
        arrays = [self.data.arrays[i][start : ends[-1]] for i, start, ends in self.stretches]
        return arrays, [Partition(ends=ends - start) for _, start, ends in self.stretches]

    def gaps(self) -> Iterator[tuple[int, int, int]]:
        """Recording, start and stop of what lies between the stretches, two samples or more."""
        ends = [(i, int(length), int(length)) for i, length in enumerate(self.data.lengths)]
        known = [(i, start, int(ends[-1])) for i, start, ends in self.stretches]
        before = {i: 0 for i, _, _ in ends}
        for i, start, stop in sorted([*ends, *known]):
            if start - before[i] >= 2:
                yield i, before[i], start
            before[i] = stop


def labeled_stretches(Xs: Any, known: Any) -> tuple[list[NDArray], list[Partition]]:
    """Fully labeled stretches, as separate recordings with their segmentations.

    A change-point learner learns from them in milliseconds, while the rest stays out; see
    ``fit`` with partial labels for what learns from the rest, too.

    Parameters
    ----------
    Xs : sequence of (T_i, P) arrays, or one
    known : labels with −1 where unknown, PartialPartition … of each

    Returns
    -------
    arrays : list of arrays (t_i, P)
        The stretches, without unlabeled samples.
    truths : list of Partition

    Raises
    ------
    ValueError
        For recordings or labels that cannot be used, in one sentence.

    See Also
    --------
    suggest : which to label next.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.annotate import labeled_stretches
    >>> X, y = np.zeros((10, 2)), np.array([0, 0, 0, 1, 1, -1, -1, -1, -1, -1])
    >>> arrays, truths = labeled_stretches([X], [y])
    >>> arrays[0].shape, truths[0].change_points.tolist()
    ((5, 2), [3, 5])
    """
    return _Told.read("labeled_stretches", Xs, known).pieces


@needs(
    n=number(1, whole=True),
    length=number(2, whole=True),
    learner=component("boundary_margins", "ChangePointMetricLearner()", optional=True),
    strategy=either(*_PARTS, "leftmost", "longest"),
)
def suggest(
    Xs: Any,
    known: Any = None,
    *,
    length: int,
    n: int = 1,
    learner: Any = None,
    strategy: str = "combined",
    random_state: int | np.random.Generator | None = 0,
) -> list[Suggestion]:
    """Stretches of recordings that are worth labeling, the best first.

    They overlap neither each other nor labeled stretches. With a fitted learner "margin" costs two
    pruned programs, "diversity" O(P) for every candidate (four for each ``length``) and known
    stretch, "disagreement" five fits to the known stretches, and as many predictions.

    Parameters
    ----------
    Xs : sequence of (T_i, P) arrays, or one
        The recordings.
    known : labels with −1 where unknown, PartialPartition … of each, optional
        As the ``y`` of a fit with partial labels; by default nothing is known.
    length : int ≥ 2
        Most samples of a stretch: what a person can judge at a time.
    n : int
        How many stretches; fewer are returned where no more are open.
    learner : estimator with ``boundary_margins``, optional
        Whose metric and penalty are asked. One that is not fitted, by default
        ``ChangePointMetricLearner()``, is fitted to the known stretches.
    strategy : str
        "margin": over the changes that are predicted, and those that nearly are, the sum of
        1 − m / penalty with m what the score loses by deciding otherwise, where that is positive.
        "disagreement": how metrics learned on resampled stretches differ in their boundaries.
        "diversity": the distance in means and deviations of the features to the nearest stretch
        that is known or suggested. "combined": the square of the margin times the diversity
        under the learned metric, and every second stretch at random. Without labeled changes there
        is no metric, so all of these but "diversity" are "random". And without looking at the data,
        to compare with: "random", "leftmost" (from the first recording on) and "longest" (the
        middle of the longest gap).
    random_state : int, Generator or None

    Returns
    -------
    list of Suggestion
        The best first; (recording, start, stop, gain) each.

    Raises
    ------
    ValueError
        For recordings, labels or parameters that cannot be used, in one sentence.

    References
    ----------
    Settles, Active learning literature survey, University of Wisconsin, 2009; Seung, Opper &
    Sompolinsky, Query by committee, COLT 1992 (disagreement).

    Examples
    --------
    >>> from metriclearn.annotate import suggest
    >>> from metriclearn.datasets import make_change_points
    >>> recordings = make_change_points(random_state=0).sequences
    >>> [stretch.stop - stretch.start for stretch in suggest(recordings, length=40, n=3)]
    [40, 40, 40]
    """
    random = np.random.default_rng(random_state)
    told = _Told.read("suggest", Xs, known)
    gaps = [*told.gaps()]
    if not gaps or strategy in ("leftmost", "longest"):
        return _cut_from(gaps, n, length, strategy == "longest")
    places = random.permutation(_candidates(gaps, length))  # so that equals are in no order
    parts = _PARTS[strategy]
    worth = np.ones(len(places))
    if "margin" in parts or "disagreement" in parts:
        if not hasattr(learner, "components_"):
            learner = _fitted(learner or ChangePointMetricLearner(), *told.pieces)
        if learner is None or not len(learner.components_):  # nothing to ask
            parts = ()
        else:
            rate = _doubts if "margin" in parts else _disputes
            sums = [
                np.append(0.0, np.cumsum(values)) for values in rate(learner, told, length, random)
            ]
            worth = np.array([sums[i][stop] - sums[i][start + 1] for i, start, stop in places])
    described = None
    explored = "margin" in parts and "diversity" in parts
    if "diversity" in parts:
        known_places = [
            (i, start, min(start + length, int(ends[-1])))
            for i, first, ends in told.stretches
            for start in range(first, int(ends[-1]), length)
        ]
        if explored:
            arrays = [X @ learner.components_.T for X in told.data.arrays]
            worth, scale = worth**2, np.ones(len(learner.components_))
        else:
            arrays, scale = list(told.data.arrays), told.data.pooled_deviation("suggest")
        described = [_describe(arrays, each, scale) for each in (places, known_places)]
    return _greatest(places, worth, described, n, explored)


def _candidates(gaps: Sequence[tuple[int, int, int]], length: int) -> NDArray[np.int64]:
    """Recording, start and stop of stretches that may be asked for, (n, 3)."""
    rows = []
    for i, first, stop in gaps:
        last = max(first, stop - length)
        steps = np.arange(_STARTS * (last - first) // length + 1) * length // _STARTS
        for start in np.unique(np.append(first + steps, last)):
            rows.append((i, start, min(start + length, stop)))
    return np.array(rows)


def _cut_from(
    gaps: list[tuple[int, int, int]], n: int, length: int, longest: bool
) -> list[Suggestion]:
    """From the middle of the longest gap, or from the left of the first."""
    suggestions: list[Suggestion] = []
    while gaps and len(suggestions) < n:
        sizes = [stop - first for _, first, stop in gaps]
        place = int(np.argmax(sizes)) if longest else 0
        i, first, stop = gaps[place]
        size = min(length, stop - first)
        start = first + (stop - first - size) // 2 if longest else first
        suggestions.append(Suggestion(i, start, start + size, 0.0))
        rest = [(i, first, start), (i, start + size, stop)]
        gaps[place : place + 1] = [gap for gap in rest if gap[2] - gap[1] >= 2]
    return suggestions


def _fitted(learner: Any, pieces: Sequence[NDArray], partitions: Sequence[Partition]) -> Any:
    """A copy of the learner, fitted to the pieces; None where they hold no change."""
    if all(partition.n_clusters == 1 for partition in partitions):
        return None
    model = clone(learner)
    if "min_size" in model.get_params():
        model.set_params(min_size=1)  # the borders of a stretch cut segments
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few labels may leave little to learn
        return model.fit(pieces, partitions)


def _doubts(learner: Any, told: _Told, length: int, *_: Any) -> list[NDArray]:
    """How nearly each change, predicted or not, was decided otherwise, at its position (T_i,)."""
    radius, doubts = length // _PRECISION, []
    penalty = max(learner.penalty_ or 0.0, 1e-300)
    for margins in learner.boundary_margins(list(told.data.arrays), tolerance=radius):
        gains, values = margins.gains.copy(), np.zeros(len(margins.gains))
        gains[0] = -np.inf  # the start is no change
        peaks = (gains == maximum_filter1d(gains, 2 * radius + 1)) & np.isfinite(gains)
        peaks[1:] &= ~peaks[:-1]  # one of a plateau
        values[peaks] = np.maximum(0.0, 1.0 + gains[peaks] / penalty)
        values[margins.change_points[:-1]] = np.maximum(0.0, 1.0 - margins.losses / penalty)
        doubts.append(values)
    return doubts


def _disputes(learner: Any, told: _Told, length: int, random: np.random.Generator) -> list[NDArray]:
    """Variance of the votes of a committee for a change near each position (T_i,)."""
    radius, pieces = length // _PRECISION, list(zip(*told.pieces))
    votes = [np.zeros(len(X)) for X in told.data.arrays]
    for _ in range(_N_METRICS):
        resampled = [pieces[i] for i in random.integers(len(pieces), size=len(pieces))]
        model = _fitted(learner, *map(list, zip(*resampled)))
        predicted = [] if model is None else model.predict_change_points(list(told.data.arrays))
        for vote, ends in zip(votes, predicted):
            changes = np.zeros(len(vote))
            changes[ends[:-1]] = 1.0
            vote += maximum_filter1d(changes, 2 * radius + 1) / _N_METRICS
    # a change in dispute counts once, however far around it votes go
    return [vote * (1.0 - vote) / (2 * radius + 1) for vote in votes]


def _describe(arrays: Sequence[NDArray], listed: ArrayLike, scale: NDArray) -> NDArray:
    """Means and standard deviations of the features in stretches, (n, 2P)."""
    places = np.reshape(listed, (-1, 3)).astype(np.int64)
    rows = np.zeros((len(places), 2 * len(scale)))
    for i, X in enumerate(arrays):
        mine = np.flatnonzero(places[:, 0] == i)
        starts, stops = places[mine, 1], places[mine, 2]
        Z = center(X) / scale
        sums = np.vstack([np.zeros(2 * len(scale)), np.cumsum(np.hstack([Z, Z * Z]), axis=0)])
        means, squares = np.split((sums[stops] - sums[starts]) / (stops - starts)[:, None], 2, 1)
        rows[mine] = np.hstack([means, np.sqrt(np.maximum(squares - means**2, 0.0))])
    return rows


def _greatest(
    places: NDArray, worth: NDArray, described: list[NDArray] | None, n: int, explored: bool
) -> list[Suggestion]:
    """One after the other the place of greatest worth times distance to what is known by then.

    Where it is explored, too, every second one is the first that is open, which is any.
    """
    suggestions: list[Suggestion] = []
    novelty, is_open = np.full(len(places), 1.0), np.ones(len(places), dtype=bool)
    top = 1e-300
    if described is not None and len(described[1]):
        _, novelty = pairwise_distances_argmin_min(*described)
    while is_open.any() and len(suggestions) < n:
        gains = np.where(is_open, worth * novelty, -1.0)
        best = int(np.argmax(is_open if explored and len(suggestions) % 2 else gains))
        i, start, stop = places[best]
        top = max(top, gains[best])
        suggestions.append(Suggestion(int(i), int(start), int(stop), float(gains[best] / top)))
        is_open &= (places[:, 0] != i) | (places[:, 1] >= stop) | (places[:, 2] <= start)
        if described is not None:
            away = np.linalg.norm(described[0] - described[0][best], axis=1)
            first = not len(described[1]) and len(suggestions) == 1
            novelty = away if first else np.minimum(novelty, away)
    return sorted(suggestions, key=lambda one: -one.gain)
