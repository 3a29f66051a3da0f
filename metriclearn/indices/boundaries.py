"""Compare two segmentations by the positions of their change-points.

A change-point is the index of the first sample after a segment. As in ruptures, a list ends with
the number of samples n; with ``n_samples`` given, the list may omit it (and may be empty). Order
does not matter; repeated or out-of-range change-points raise ValueError. A contiguous
:class:`~metriclearn.problem.partition.Partition` can replace a list; for labels, pass
``Partition.from_runs(labels)``. The indices of two partitions compare segmentations too, in
O(r + s) for r and s change-points:
``rand_score(Partition.from_change_points(true), Partition.from_change_points(pred))``.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import needs, number

Annotations = Mapping[Hashable, ArrayLike | Partition]  # by annotator


class PrecisionRecall(NamedTuple):
    """Share of predicted change-points that are true, and share of true ones that are predicted.

    Parameters
    ----------
    precision, recall : float
        Both in [0, 1].

    See Also
    --------
    precision_recall : returns it.

    Examples
    --------
    >>> from metriclearn.indices import precision_recall
    >>> precision_recall([50, 80, 100], [48, 100])
    PrecisionRecall(precision=1.0, recall=0.5)
    """

    precision: float
    recall: float


class AnnotationError(NamedTuple):
    """The share and the numbers of annotated regions that a segmentation contradicts.

    Parameters
    ----------
    rate : float in [0, 1]
        (false_positives + false_negatives) / n_regions.
    false_positives, false_negatives : int
        Regions with too many change-points, and regions with too few.
    n_regions : int

    See Also
    --------
    annotation_error : returns it.

    Examples
    --------
    >>> from metriclearn.indices import annotation_error
    >>> annotation_error([50, 100], [(10, 40, 1), (40, 60, 1)])
    AnnotationError(rate=0.5, false_positives=0, false_negatives=1, n_regions=2)
    """

    rate: float
    false_positives: int
    false_negatives: int
    n_regions: int


@needs()
def hausdorff(
    true: ArrayLike | Partition,
    pred: ArrayLike | Partition,
    n_samples: int | None = None,
    *,
    normalized: bool = False,
) -> float:
    """Hausdorff distance of two sets of change-points, O((r + s) log(r + s)) time, O(r + s) memory.

    The largest distance from a change-point of one segmentation to the nearest one of the other, in
    samples, or as a share of n (``normalized=True``). The end n is not a change-point. The distance
    is 0 when neither segmentation has a change-point, and inf when only one has.

    Parameters
    ----------
    true, pred : sequences of change-points, the last one n, or Partition
        The two segmentations.
    n_samples : int, optional
        n, required if the lists do not end with it.
    normalized : bool
        Whether the distance is a share of n.

    Returns
    -------
    float in [0, ∞]

    Raises
    ------
    ValueError
        For change-points that are repeated or outside the samples, or if the two lengths differ.

    References
    ----------
    R. Lajugie, S. Arlot and F. Bach, "Large-margin metric learning for partitioning problems",
    arXiv:1303.1280, 2013, section 3.1.
    """
    a, b, n = _change_points(true, pred, n_samples)
    if len(a) == 0 or len(b) == 0:
        return 0.0 if len(a) == len(b) else math.inf
    distance = float(max(_farthest(a, b), _farthest(b, a)))
    return distance / n if normalized else distance


@needs(margin=number())
def precision_recall(
    true: ArrayLike | Partition,
    pred: ArrayLike | Partition,
    n_samples: int | None = None,
    *,
    margin: float = 10,
) -> PrecisionRecall:
    """Precision and recall of change-points by the largest one-to-one matching, O(r + s).

    A true and a predicted change-point match when they are at most ``margin`` samples apart
    (ruptures: less than). Other packages match greedily and lose pairs: true [50, 55], predicted
    [48, 53] and margin 10 give (1, 1) here. Precision is 1 when no change-point is predicted (no
    false alarm); recall is 1 when there is no true one (none missed). The end n is not a
    change-point. :func:`f_measure` matches greedily.

    Parameters
    ----------
    true, pred : sequences of change-points, the last one n, or Partition
        The two segmentations.
    n_samples : int, optional
        n, required if the lists do not end with it.
    margin : float ≥ 0
        Allowed error, in samples.

    Returns
    -------
    PrecisionRecall
        Two floats in [0, 1].

    Raises
    ------
    ValueError
        For change-points that are repeated or outside the samples, or if the two lengths differ.

    References
    ----------
    Truong, Oudre & Vayatis, Selective review of offline change point detection methods, Signal
    Processing 167, 2020, section 3.
    """
    from metriclearn.indices.kernels import margin_matches

    a, b, _ = _change_points(true, pred, n_samples)
    matches = int(margin_matches(a, b, float(margin)))
    precision = matches / len(b) if len(b) else 1.0
    recall = matches / len(a) if len(a) else 1.0
    return PrecisionRecall(precision, recall)


def covering(
    true: ArrayLike | Partition | Annotations,
    pred: ArrayLike | Partition,
    n_samples: int | None = None,
) -> float:
    """Covering of the true segments by the predicted ones, Σ_k |A_k| max_l J(A_k, B_l) / n.

    J is the Jaccard index |A ∩ B| / |A ∪ B|. It is in (0, 1], and 1 for equal segmentations only.
    It is not symmetric. With several annotators it is the mean over them. O(r + s) after sorting,
    per annotator. A Partition need not be contiguous, so the index also applies to regions of
    images.

    Parameters
    ----------
    true : change-points, Partition, or mapping of annotators to one of these
        The true segmentation, or one per annotator.
    pred : sequence of change-points, or Partition
        The segmentation that covers.
    n_samples : int, optional
        n, required if the lists do not end with it.

    Returns
    -------
    float in (0, 1]

    Raises
    ------
    ValueError
        For change-points that are repeated or outside the samples, or if the two lengths differ.

    References
    ----------
    P. Arbeláez, M. Maire, C. Fowlkes and J. Malik, "Contour detection and hierarchical image
    segmentation", IEEE Transactions on Pattern Analysis and Machine Intelligence 33, 2011.
    G. J. J. van den Burg and C. K. I. Williams, "An evaluation of change point detection
    algorithms", arXiv:2003.06222, 2020.
    """
    covered = []
    for one in _annotations("covering", true):
        segments, predicted = (
            given
            if isinstance(given, Partition)
            else Partition.from_change_points(given, n_samples)
            for given in (one, pred)
        )
        rows, columns, counts = segments.intersections(predicted)
        shares = counts / (segments.sizes[rows] + predicted.sizes[columns] - counts)
        best = np.maximum.reduceat(shares, np.flatnonzero(np.diff(rows, prepend=-1)))
        covered.append(float(segments.sizes @ best) / segments.n_samples)
    return math.fsum(covered) / len(covered)


@needs(margin=number())
def f_measure(
    true: ArrayLike | Partition | Annotations,
    pred: ArrayLike | Partition,
    n_samples: int | None = None,
    *,
    margin: float = 5,
) -> float:
    """F1 of change-points against the true ones of one or several annotators.

    F = 2PR/(P + R). Precision P is the share of predicted change-points that some annotator has
    marked; recall R is the share of an annotator's change-points that are predicted, averaged over
    annotators; both within the margin. As in the Turing benchmark, every segmentation has a
    change-point at 0, so F is in (0, 1], and each true change-point takes the nearest unused
    prediction: a greedy matching, unlike :func:`precision_recall`. O(A (r + s) log s + A s²/64)
    for A annotators.

    Parameters
    ----------
    true : change-points, Partition, or mapping of annotators to one of these
        The true segmentation, or one per annotator.
    pred : sequence of change-points, or Partition
        The predicted segmentation.
    n_samples : int, optional
        n, required if the lists do not end with it.
    margin : float ≥ 0
        Allowed error, in samples.

    Returns
    -------
    float in (0, 1]

    Raises
    ------
    ValueError
        For change-points that are repeated or outside the samples, or if the two lengths differ.

    References
    ----------
    G. J. J. van den Burg and C. K. I. Williams, "An evaluation of change point detection
    algorithms", arXiv:2003.06222, 2020.
    """
    pairs = [_change_points(one, pred, n_samples) for one in _annotations("f_measure", true)]
    marked, predicted = [_starts(ends) for ends, _, _ in pairs], sorted(_starts(pairs[0][1]))
    every: set[int] = set()
    for start in chain(*marked):  # one by one: set.update would order the set differently
        every.add(start)
    precision = _detected(every, predicted, margin) / len(predicted)
    shares = [_detected(one, predicted, margin) / len(one) for one in marked]
    recall = math.fsum(shares) / len(shares)
    return 2.0 * precision * recall / (precision + recall)


def annotation_error(
    change_points: ArrayLike | Partition,
    regions: Iterable[Sequence[int]],
    n_samples: int | None = None,
) -> AnnotationError:
    """Share of annotated regions with too many or too few change-points.

    O((s + m) log s) for s change-points and m regions.

    Parameters
    ----------
    change_points : sequence of integers
        The segmentation.
    regions : sequence of (start, end, changes) or (start, end, at_least, at_most)
        Samples start … end−1 (0-based, end excluded) hold exactly ``changes`` change-points, or
        from ``at_least`` to ``at_most`` (None: any number). A change-point c lies in the region
        when both samples it separates do, start < c < end.
    n_samples : int, optional
        n, required if the change-points do not end with it.

    Returns
    -------
    AnnotationError
        The rate, in [0, 1], and three counts.

    Raises
    ------
    ValueError
        For repeated or out-of-range change-points, or regions outside the samples.

    References
    ----------
    T. D. Hocking, G. Rigaill, J.-P. Vert and F. Bach, "Learning sparse penalties for change-point
    detection using max margin interval regression", ICML 2013.
    """
    ends = _ends(change_points, n_samples)
    listed = isinstance(regions, Iterable) and getattr(regions, "ndim", 1) > 0
    rows: list[Any] = list(regions) if listed else [regions]

    def fits(row: Any) -> bool:
        if not isinstance(row, (Sequence, np.ndarray)) or np.shape(row) not in ((3,), (4,)):
            return False
        whole = [number().accepts(value) and float(value).is_integer() for value in row]
        open_ended = len(row) == 4 and row[3] is None
        return all(whole[: 3 if open_ended else 4]) and row[0] < row[1] <= ends[-1]

    if not all(map(fits, rows)):
        raise ValueError(
            "annotation_error needs regions (start, end, changes) or (start, end, at_least, "
            f"at_most) with 0 <= start < end <= {ends[-1]}; check the regions."
        )
    start, end, least = (np.array([row[i] for row in rows], dtype=np.int64) for i in range(3))
    most = np.array([math.inf if row[-1] is None else row[-1] for row in rows], dtype=float)
    # start < c < end; without the maximum, a one-sample region on a change-point counts −1
    count = np.searchsorted(ends, end, side="left") - np.searchsorted(ends, start, side="right")
    count = np.maximum(count, 0)
    positives, negatives = int(np.sum(count > most)), int(np.sum(count < least))
    rate = (positives + negatives) / len(rows) if rows else 0.0
    return AnnotationError(rate, positives, negatives, len(rows))


def _annotations(who: str, true: Any) -> list[Any]:
    """The change-points of every annotator."""
    marked = list(true.values()) if isinstance(true, Mapping) else [true]
    if not marked:
        raise ValueError(f"{who} needs the change-points of at least one annotator, got none.")
    return marked


def _starts(change_points: NDArray[np.int64]) -> set[int]:
    """First samples of all segments, including 0, from change-points without the end."""
    starts = set(change_points.tolist())
    starts.add(0)
    return starts


def _detected(true: set[int], pred: list[int], margin: float) -> int:
    """Number of true starts that find an unused predicted one, the nearest, within the margin.

    When two true starts are near the same prediction, the first one takes it. "First" is in the
    order of a Python set of integers, as in the benchmark's program.
    """
    left = pred.copy()
    for start in true:
        right = bisect_left(left, start)
        near = [i for i in (right - 1, right) if 0 <= i < len(left)]
        nearest = min(near, key=lambda i: abs(left[i] - start), default=None)
        if nearest is not None and abs(left[nearest] - start) <= margin:
            del left[nearest]
    return len(pred) - len(left)


def _farthest(a: NDArray[np.int64], b: NDArray[np.int64]) -> int:
    """Largest distance from a point of a to the nearest point of b, both sorted."""
    right = np.searchsorted(b, a)
    after = np.abs(b[np.minimum(right, len(b) - 1)] - a)
    before = np.abs(a - b[np.maximum(right - 1, 0)])
    return int(np.max(np.minimum(after, before)))


def _change_points(
    true: ArrayLike | Partition, pred: ArrayLike | Partition, n_samples: int | None
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """The sorted change-points of both without the end, and the end n."""
    a, b = _ends(true, n_samples), _ends(pred, n_samples)
    if a[-1] != b[-1]:
        raise ValueError(
            "Comparing change-points needs two segmentations of the same samples, got last "
            f"change-points {a[-1]} and {b[-1]}; end both lists with n or pass n_samples."
        )
    return a[:-1], b[:-1], int(a[-1])


def _ends(change_points: ArrayLike | Partition, n_samples: int | None) -> NDArray[np.int64]:
    """Sorted segment ends, the last one n."""
    if isinstance(change_points, Partition):
        return change_points.change_points
    return Partition.from_change_points(change_points, n_samples).change_points
