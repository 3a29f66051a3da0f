"""Suggest which stretches of recordings to label next, so that few labels are enough.

Labels help most in two places: where the predicted segmentation is uncertain (its margins are
small), and where a stretch is far from all labeled stretches (diversity). A metric that is learned
from few labels may be wrong even if its margins are large. Some stretches are therefore chosen at
random.

References: B. Settles, Active Learning, Morgan & Claypool 2012; T. Gonzalez, Clustering to minimize
the maximum intercluster distance, Theoretical Computer Science 38, 1985.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import maximum_filter1d
from sklearn.base import clone
from sklearn.metrics import pairwise_distances_argmin_min

from metriclearn.estimators.learners.change_points import ChangePointMetricLearner
from metriclearn.estimators.reading.data_sets import DataSets, read_data_sets
from metriclearn.estimators.reading.labels import read_labelings
from metriclearn.problem.forms import center
from metriclearn.problem.partial_labels import PartialPartition
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import Of, OneOf, RandomState, Whole, needs
from metriclearn.views.plain import reads_missing

_STARTS = 4  # candidates that start within a length
_PRECISION = 8  # changes closer than this part of a length are the same
# the factors of a gain
_PARTS = {
    "combined": ("margin", "diversity"),
    "margin": ("margin",),
    "diversity": ("diversity",),
    "random": (),
}


class Suggestion(NamedTuple):
    """A stretch of a recording to label next, and how much its labels would help.

    Attributes
    ----------
    recording : int
        Index of the recording.
    start, stop : int
        The stretch consists of the samples ``X[start:stop]``.
    gain : float
        The expected benefit of labels for this stretch, as a fraction of the benefit of the best
        suggestion. With the strategy "leftmost" the gain is 0.

    See Also
    --------
    suggest : returns suggestions.

    Examples
    --------
    >>> from metriclearn.estimators import Suggestion
    >>> Suggestion(recording=0, start=100, stop=150, gain=1.0).start
    100
    """

    recording: int
    start: int
    stop: int
    gain: float


def labeled_stretches(Xs: Any, known: Any) -> tuple[list[NDArray], list[Partition]]:
    """Cut out the completely labeled stretches of recordings.

    Fitting a change-point learner to these stretches takes milliseconds. Call ``fit`` with the
    whole recordings and their partial labels to learn from unlabeled samples, too.

    Parameters
    ----------
    Xs : sequence of (T_i, P) arrays, or one
        The recordings.
    known : sequence of labels or PartialPartition
        The labels of each recording, with −1 for unlabeled samples.

    Returns
    -------
    arrays : list of arrays (t_i, P)
        The samples of each stretch.
    truths : list of Partition
        The segmentation of each stretch.

    Raises
    ------
    ValueError
        If recordings or labels are invalid.

    See Also
    --------
    suggest : tells which stretches to label next.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.estimators import labeled_stretches
    >>> X, y = np.zeros((10, 2)), np.array([0, 0, 0, 1, 1, -1, -1, -1, -1, -1])
    >>> arrays, truths = labeled_stretches([X], [y])
    >>> arrays[0].shape, truths[0].change_points.tolist()
    ((5, 2), [3, 5])
    """
    arrays, truths = _pieces(*_read("labeled_stretches", Xs, known))
    return [array.copy() for array in arrays], truths


@needs
def suggest(
    Xs: Any,
    known: Any = None,
    *,
    length: Annotated[int, Whole(2)],
    n: Annotated[int, Whole(1)] = 1,
    learner: Annotated[
        Any, Of("boundary_margins", "ChangePointMetricLearner()", optional=True)
    ] = None,
    strategy: Annotated[str, OneOf(*_PARTS, "leftmost")] = "combined",
    random_state: RandomState = 0,
) -> list[Suggestion]:
    """Suggest stretches of recordings to label, the best first.

    Suggested stretches overlap neither each other nor labeled stretches. There are about four
    candidate stretches for every ``length`` samples. With a fitted learner, the strategy "margin"
    takes about as long as segmenting all recordings twice. The strategy "diversity" takes O(P) time
    for every pair of a candidate and a labeled stretch.

    Parameters
    ----------
    Xs : sequence of (T_i, P) arrays, or one
        The recordings.
    known : sequence of labels or PartialPartition, optional
        The labels of each recording, as for ``fit``. The label −1 means that a sample is unlabeled.
        By default all samples are unlabeled.
    length : int ≥ 2
        Largest number of samples in a stretch. A person should be able to judge a stretch at once.
    n : int
        Number of stretches. If too few samples are unlabeled, fewer stretches are returned.
    learner : estimator with ``boundary_margins``, optional
        The strategies "margin" and "combined" use the metric and the penalty of the learner. A
        learner that is not fitted is first fitted to the boundaries in the labeled stretches, so
        pass a learner of names fitted. The default is ``ChangePointMetricLearner()``. Behind a view
        ``Fill()``, recordings may have NaN, except with "diversity".
    strategy : str
        How stretches are chosen. "margin" prefers uncertain stretches. Each predicted or nearly
        predicted change in a stretch adds max(0, 1 − m / penalty) to the gain. For a predicted
        change, m is how much the score falls if the change is removed. For a nearly predicted
        change, m is how much the score falls if the change is added. "diversity" prefers stretches
        that differ from all labeled and suggested stretches. A stretch is described by the means
        and standard deviations of the features. The gain is the distance to the nearest description
        of a labeled or suggested stretch. "combined" multiplies the square of the gain of "margin"
        by the distance of "diversity" under the learned metric. Every second stretch of "combined"
        is chosen at random. Without labeled changes there is no metric, so "margin" and "combined"
        choose at random. "random" and "leftmost" (from the start of the first recording) are
        baselines that ignore the data.
    random_state : int, Generator or None
        Seed of the random choices.

    Returns
    -------
    list of Suggestion
        The stretches (recording, start, stop, gain), the best first.

    Raises
    ------
    ValueError
        If recordings, labels or parameters are invalid.

    References
    ----------
    Settles, Active learning literature survey, University of Wisconsin, 2009.

    Examples
    --------
    >>> from metriclearn import suggest
    >>> from metriclearn.datasets import make_change_points
    >>> recordings = make_change_points(random_state=0).sequences
    >>> [stretch.stop - stretch.start for stretch in suggest(recordings, length=40, n=3)]
    [40, 40, 40]
    """
    random = np.random.default_rng(random_state)
    missing = strategy != "diversity" and reads_missing(getattr(learner, "view", None))
    data, stretches = _read("suggest", Xs, known, missing)
    gaps = _gaps(data, stretches)
    if not gaps or strategy == "leftmost":
        # The first stretches of the gaps, from the start of the first gap, of two samples and more.
        starts = [(i, s, stop) for i, first, stop in gaps for s in range(first, stop - 1, length)]
        return [Suggestion(i, s, min(s + length, stop), 0.0) for i, s, stop in starts[:n]]
    places = random.permutation(_candidates(gaps, length))  # breaks ties at random
    parts = _PARTS[strategy]
    worth = np.ones(len(places))
    if "margin" in parts:
        if not hasattr(learner, "components_"):
            learner = _fitted(learner or ChangePointMetricLearner(), *_pieces(data, stretches))
        if learner is None or not len(learner.components_):  # no metric to use
            parts = ()
        else:
            doubts = _doubts(learner, data.arrays, length)
            sums = [np.append(0.0, np.cumsum(one)) for one in doubts]
            worth = np.array([sums[i][stop] - sums[i][start + 1] for i, start, stop in places])
    described = None
    explored = "margin" in parts and "diversity" in parts
    if "diversity" in parts:
        known_places = [
            (i, start, min(start + length, int(ends[-1])))
            for i, first, ends in stretches
            for start in range(first, int(ends[-1]), length)
        ]
        if explored:
            rows = learner.rows_of(data) if hasattr(learner, "rows_of") else data.arrays
            arrays = [X @ learner.components_.T for X in rows]
            worth, scale = worth**2, np.ones(len(learner.components_))
        else:
            arrays = list(data.arrays)
            scale = data.measures.pooled_deviation("suggest")
        described = [_describe(arrays, each, scale) for each in (places, known_places)]
    return _greatest(places, worth, described, n, explored)


def _read(who: str, Xs: Any, known: Any, missing: bool = False) -> tuple[DataSets, list[Any]]:
    """Check recordings and labels that a user has passed, and find the labeled stretches.

    A stretch consists of the index of its recording, its first sample, and its segment ends.
    """
    data = read_data_sets(who, Xs, missing=missing)
    if known is None:
        known = data.as_passed([PartialPartition(length) for length in data.lengths])
    truths = read_labelings(who, known, data, segments=True, partial=True)
    return data, [(i, *one) for i, truth in enumerate(truths) for one in truth.pieces.stretches]


def _pieces(data: DataSets, stretches: list[Any]) -> tuple[list[NDArray], list[Partition]]:
    """Return the labeled stretches as separate arrays, and the segmentation of each stretch."""
    arrays = [data.arrays[i][start : ends[-1]] for i, start, ends in stretches]
    return arrays, [Partition(ends=ends - start) for _, start, ends in stretches]


def _gaps(data: DataSets, stretches: list[Any]) -> list[tuple[int, int, int]]:
    """List the gaps between labeled stretches, (recording, start, stop), of two samples or more."""
    gaps, borders = [], [(i, T, T) for i, T in enumerate(data.lengths.tolist())]
    before = {i: 0 for i, _, _ in borders}
    for i, start, stop in sorted([*borders, *((i, s, int(ends[-1])) for i, s, ends in stretches)]):
        if start - before[i] >= 2:
            gaps.append((i, before[i], start))
        before[i] = stop
    return gaps


def _candidates(gaps: Sequence[tuple[int, int, int]], length: int) -> NDArray[np.int64]:
    """Return the candidate stretches, an (n, 3) array of recordings, starts and stops."""
    rows = []
    for i, first, stop in gaps:
        last = max(first, stop - length)
        steps = np.arange(_STARTS * (last - first) // length + 1) * length // _STARTS
        for start in np.unique(np.append(first + steps, last)):
            rows.append((i, start, min(start + length, stop)))
    return np.array(rows)


def _fitted(learner: Any, pieces: Sequence[NDArray], partitions: Sequence[Partition]) -> Any:
    """Fit a copy of the learner to the pieces, or return None if they contain no change."""
    if all(partition.n_clusters == 1 for partition in partitions):
        return None
    model = clone(learner)
    if "min_size" in model.get_params():
        model.set_params(min_size=1)  # stretches begin and end inside of segments
    with warnings.catch_warnings(action="ignore"):  # few labels may leave little to learn
        return model.fit(pieces, partitions)


def _doubts(learner: Any, arrays: Sequence[NDArray], length: int) -> list[NDArray]:
    """Compute the uncertainty at each position, an array (T_i,) for every recording.

    The uncertainty is 1 if the score is the same with and without a change at the position. The
    uncertainty is 0 if the position is neither a predicted change nor the best position for a
    further change within a small radius.
    """
    radius, doubts = length // _PRECISION, []
    if not hasattr(learner, "penalty_"):
        raise ValueError(
            "suggest needs a learner with one penalty for all recordings, such as "
            f"ChangePointMetricLearner(), got {learner!r}."
        )
    penalty = max(learner.penalty_ or 0.0, 1e-300)
    for margins in learner.boundary_margins(list(arrays), tolerance=radius):
        gains, values = margins.gains.copy(), np.zeros(len(margins.gains))
        gains[0] = -np.inf  # the start is not a change
        peaks = (gains == maximum_filter1d(gains, 2 * radius + 1)) & np.isfinite(gains)
        peaks[1:] &= ~peaks[:-1]  # only one position of a plateau
        values[peaks] = np.maximum(0.0, 1.0 + gains[peaks] / penalty)
        values[margins.change_points[:-1]] = np.maximum(0.0, 1.0 - margins.losses / penalty)
        doubts.append(values)
    return doubts


def _describe(arrays: Sequence[NDArray], listed: ArrayLike, scale: NDArray) -> NDArray:
    """Compute the means and standard deviations of the features in every stretch, (n, 2P)."""
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
    """Choose n stretches one by one, and return them by decreasing gain.

    ``places`` holds the candidates in random order. The gain of a candidate is its ``worth`` or, if
    ``described`` is given, its ``worth`` times the distance to the nearest labeled or chosen
    stretch. Each step chooses the candidate with the largest gain. If ``explored`` is true, every
    second step instead chooses the first candidate that overlaps no chosen stretch.
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
