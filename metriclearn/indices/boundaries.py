"""Compare two segmentations by the positions of their change-points.

A change-point is the index of the first sample after a segment. As in ruptures, a list of
change-points ends with the number of samples n. If ``n_samples`` is given, the list may omit n (and
may be empty). The change-points may be in any order. Repeated or out-of-range change-points raise
ValueError. A contiguous :class:`~metriclearn.problem.partition.Partition` can be passed instead of
a list. ``Partition.from_runs(labels)`` converts labels to such a Partition. Indices of general
partitions apply to segmentations as well, in O(r + s) time for r and s change-points:
``rand_score(Partition.from_change_points(true), Partition.from_change_points(pred))``.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import Real, needs
from metriclearn.running.values import real_array

Annotations = Mapping[Hashable, ArrayLike | Partition]  # by annotator
_TOLERANCE = Real()


class PrecisionRecall(NamedTuple):
    """Precision and recall of predicted change-points.

    Parameters
    ----------
    precision : float in [0, 1]
        Fraction of the predicted change-points that match a true one.
    recall : float in [0, 1]
        Fraction of the true change-points that match a predicted one.

    See Also
    --------
    precision_recall : returns a PrecisionRecall.

    Examples
    --------
    >>> from metriclearn.indices import precision_recall
    >>> precision_recall([50, 80, 100], [48, 100])
    PrecisionRecall(precision=1.0, recall=0.5)
    """

    precision: float
    recall: float


class AnnotationError(NamedTuple):
    """How many annotated regions a segmentation contradicts, as a rate and as counts.

    Parameters
    ----------
    rate : float in [0, 1]
        (false_positives + false_negatives) / n_regions.
    false_positives : int
        Number of regions with too many change-points.
    false_negatives : int
        Number of regions with too few change-points.
    n_regions : int
        Number of annotated regions.

    See Also
    --------
    annotation_error : returns an AnnotationError.

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


@needs
def hausdorff(
    true: ArrayLike | Partition,
    pred: ArrayLike | Partition,
    n_samples: int | None = None,
    *,
    normalized: bool = False,
) -> float:
    """Hausdorff distance between two sets of change-points.

    The distance is the largest one from a change-point of either segmentation to the nearest
    change-point of the other. The distance is in samples, or divided by n if ``normalized=True``.
    Here the end n is not a change-point. The distance is 0 if neither segmentation has a
    change-point, and inf if only one of the two has any. It takes O((r + s) log(r + s)) time and
    O(r + s) memory for r and s change-points.

    Parameters
    ----------
    true, pred : sequence of change-points that ends with n, or Partition
        The two segmentations.
    n_samples : int, optional
        Number of samples n. Required if a list does not end with n.
    normalized : bool
        Whether to divide the distance by n.

    Returns
    -------
    float in [0, ∞]

    Raises
    ------
    ValueError
        If a change-point is repeated or out of range, or if the two segmentations differ in their
        number of samples.

    References
    ----------
    R. Lajugie, S. Arlot and F. Bach, "Large-margin metric learning for partitioning problems",
    arXiv:1303.1280, 2013, section 3.1.
    """
    a, b, n = _change_points(true, pred, n_samples)
    if len(a) == 0 or len(b) == 0:
        return 0.0 if len(a) == len(b) else math.inf
    distance = float(max(distances(a, b).max(), distances(b, a).max()))
    return distance / n if normalized else distance


@needs
def precision_recall(
    true: ArrayLike | Partition,
    pred: ArrayLike | Partition,
    n_samples: int | None = None,
    *,
    margin: Annotated[float, Real()] = 10,
) -> PrecisionRecall:
    """Precision and recall of change-points, from the largest one-to-one matching.

    A true and a predicted change-point can be matched if they are at most ``margin`` samples apart
    (in ruptures, they must be less than the margin apart). Other packages match greedily and can
    miss pairs. Here, true [50, 55], predicted [48, 53] and margin 10 give precision and recall 1.
    Precision is 1 if no change-point is predicted, because there is no false alarm. Recall is 1 if
    there is no true change-point, because none is missed. The end n is not a change-point. It
    takes O(r + s) time for r and s sorted change-points. Unlike this function, :func:`f_measure`
    matches greedily.

    Parameters
    ----------
    true, pred : sequence of change-points that ends with n, or Partition
        The two segmentations.
    n_samples : int, optional
        Number of samples n. Required if a list does not end with n.
    margin : float ≥ 0
        Largest distance between matched change-points, in samples.

    Returns
    -------
    PrecisionRecall
        The two numbers, both in [0, 1].

    Raises
    ------
    ValueError
        If a change-point is repeated or out of range, or if the two segmentations differ in their
        number of samples.

    References
    ----------
    Truong, Oudre & Vayatis, Selective review of offline change point detection methods, Signal
    Processing 167, 2020, section 3.
    """
    a, b, _ = _change_points(true, pred, n_samples)
    matches = len(match(a, b, margin))
    precision = matches / len(b) if len(b) else 1.0
    recall = matches / len(a) if len(a) else 1.0
    return PrecisionRecall(precision, recall)


def covering(
    true: ArrayLike | Partition | Annotations,
    pred: ArrayLike | Partition,
    n_samples: int | None = None,
) -> float:
    """Covering of the true segments by the predicted ones, Σ_k |A_k| max_l J(A_k, B_l) / n.

    J is the Jaccard index |A ∩ B| / |A ∪ B| of a true segment A and a predicted segment B. The
    covering is in (0, 1], and 1 for equal segmentations only. The covering is not symmetric. With
    several annotators, their coverings are averaged. The time is O(r + s) for each annotator, for r
    and s sorted change-points. A Partition need not be contiguous, so the index also applies to
    regions of images.

    Parameters
    ----------
    true : change-points, Partition, or mapping from annotators to these
        The true segmentation, or the segmentation by every annotator.
    pred : sequence of change-points, or Partition
        The predicted segmentation.
    n_samples : int, optional
        Number of samples n. Required if a list does not end with n.

    Returns
    -------
    float in (0, 1]

    Raises
    ------
    ValueError
        If a change-point is repeated or out of range, or if the two segmentations differ in their
        number of samples.

    References
    ----------
    P. Arbeláez, M. Maire, C. Fowlkes and J. Malik, "Contour detection and hierarchical image
    segmentation", IEEE Transactions on Pattern Analysis and Machine Intelligence 33, 2011.
    G. J. J. van den Burg and C. K. I. Williams, "An evaluation of change point detection
    algorithms", arXiv:2003.06222, 2020.
    """
    covered = []
    for one in _annotations("covering", true):
        segments, predicted = (_partition(given, n_samples) for given in (one, pred))
        rows, columns, counts = segments.intersections(predicted)
        shares = counts / (segments.sizes[rows] + predicted.sizes[columns] - counts)
        best = np.maximum.reduceat(shares, np.flatnonzero(np.diff(rows, prepend=-1)))
        covered.append(float(segments.sizes @ best) / segments.n_samples)
    return math.fsum(covered) / len(covered)


@needs
def f_measure(
    true: ArrayLike | Partition | Annotations,
    pred: ArrayLike | Partition,
    n_samples: int | None = None,
    *,
    margin: Annotated[float, Real()] = 5,
) -> float:
    """F1 score F = 2PR/(P + R) of change-points, for one or several annotators.

    Precision P is the fraction of the predicted change-points that match a change-point of any
    annotator. Recall R is the fraction of an annotator's change-points that match a predicted one,
    averaged over annotators. Matched change-points are at most ``margin`` samples apart. As in the
    Turing benchmark, every segmentation also has a change-point at 0, so F is in (0, 1]. Unlike
    :func:`precision_recall`, this function matches greedily: each true change-point is matched with
    the nearest predicted one that is not matched yet. For A annotators with r change-points each
    and s predicted change-points, the index takes O(A (r + s) log s + A s²/64) time.

    Parameters
    ----------
    true : change-points, Partition, or mapping from annotators to these
        The true segmentation, or the segmentation by every annotator.
    pred : sequence of change-points, or Partition
        The predicted segmentation.
    n_samples : int, optional
        Number of samples n. Required if a list does not end with n.
    margin : float ≥ 0
        Largest distance between matched change-points, in samples.

    Returns
    -------
    float in (0, 1]

    Raises
    ------
    ValueError
        If a change-point is repeated or out of range, or if the two segmentations differ in their
        number of samples.

    References
    ----------
    G. J. J. van den Burg and C. K. I. Williams, "An evaluation of change point detection
    algorithms", arXiv:2003.06222, 2020.
    """
    pairs = [_change_points(one, pred, n_samples) for one in _annotations("f_measure", true)]
    # every segmentation also begins with a change-point, at 0
    marked, predicted = [{*a.tolist(), 0} for a, _, _ in pairs], [0, *pairs[0][1].tolist()]
    # one by one: set.update would order the set differently
    every = {start for start in chain(*marked)}
    precision = _detected(every, predicted, margin) / len(predicted)
    shares = [_detected(one, predicted, margin) / len(one) for one in marked]
    recall = math.fsum(shares) / len(shares)
    return 2.0 * precision * recall / (precision + recall)


def annotation_error(
    change_points: ArrayLike | Partition,
    regions: Iterable[Sequence[int]],
    n_samples: int | None = None,
) -> AnnotationError:
    """Compute the fraction of the annotated regions that have too many or too few change-points.

    It takes O((s + m) log s) time for s change-points and m regions.

    Parameters
    ----------
    change_points : sequence of integers, or Partition
        The segmentation.
    regions : sequence of (start, end, changes) or (start, end, at_least, at_most)
        Each region gives the number of change-points between its samples start … end−1 (0-based,
        end excluded): exactly ``changes``, or from ``at_least`` to ``at_most``. If ``at_most`` is
        None, there is no upper limit. A change-point c is in the region if both samples that it
        separates are in the region, that is, if start < c < end.
    n_samples : int, optional
        Number of samples n. Required if the change-points do not end with n.

    Returns
    -------
    AnnotationError
        The rate, in [0, 1], and the three counts from which it is computed.

    Raises
    ------
    ValueError
        If a change-point is repeated or out of range, or a region is not within the samples.

    References
    ----------
    T. D. Hocking, G. Rigaill, J.-P. Vert and F. Bach, "Learning sparse penalties for change-point
    detection using max margin interval regression", ICML 2013.
    """
    ends = _partition(change_points, n_samples).change_points
    listed = isinstance(regions, Iterable) and getattr(regions, "ndim", 1) > 0
    rows: list[Any] = list(regions) if listed else [regions]

    def fits(row: Any) -> bool:
        if not isinstance(row, (Sequence, np.ndarray)) or np.shape(row) not in ((3,), (4,)):
            return False
        whole = [Real().accepts(value) and float(value).is_integer() for value in row]
        open_ended = len(row) == 4 and row[3] is None
        possible = all(whole[: 3 if open_ended else 4]) and row[0] < row[1] <= ends[-1]
        return possible and (open_ended or row[2] <= row[-1])

    if not all(map(fits, rows)):
        raise ValueError(
            "annotation_error needs regions (start, end, changes) or (start, end, at_least, "
            f"at_most) with 0 <= start < end <= {ends[-1]} and at_least <= at_most; check the "
            "regions."
        )
    start, end, least = (np.array([row[i] for row in rows], dtype=np.int64) for i in range(3))
    most = np.array([math.inf if row[-1] is None else row[-1] for row in rows], dtype=float)
    # start < c < end
    count = np.searchsorted(ends, end, side="left") - np.searchsorted(ends, start, side="right")
    positives, negatives = int(np.sum(count > most)), int(np.sum(count < least))
    rate = (positives + negatives) / len(rows) if rows else 0.0
    return AnnotationError(rate, positives, negatives, len(rows))


def match(a: NDArray, b: NDArray, tolerance: float) -> NDArray[np.int64]:
    """Match points of two sorted arrays one to one, as many as possible, and list the pairs (i, j).

    The points a[i] and b[j] may be matched if they are at most ``tolerance`` apart. To match the
    first two points that may be matched is optimal, because the tolerance is the same for all
    points. It takes O(r + s) time for r and s points.

    Parameters
    ----------
    a, b : sorted arrays (r,) and (s,)
    tolerance : float

    Returns
    -------
    int array (n, 2)

    Raises
    ------
    ValueError
        If a point is not a number, or the tolerance is below 0.

    See Also
    --------
    precision_recall : counts the points that are matched.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.indices import match
    >>> match(np.array([50, 55]), np.array([48, 53]), 10).tolist()
    [[0, 0], [1, 1]]
    """
    from metriclearn.indices.kernels import matched

    _TOLERANCE.check("match", "tolerance", tolerance)
    return matched(_places("match", "a", a), _places("match", "b", b), float(tolerance))


def near(places: NDArray, others: NDArray, tolerance: float) -> NDArray[np.bool_]:
    """Tell for each place whether another is at most ``tolerance`` away.

    Parameters
    ----------
    places : array (r,)
    others : sorted array (s,)
    tolerance : float

    Returns
    -------
    bool array (r,)

    Raises
    ------
    ValueError
        If a place is not a number, or the tolerance is below 0.

    See Also
    --------
    match : matches one to one.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.indices import near
    >>> near(np.array([50, 70]), np.array([48, 53]), 10).tolist()
    [True, False]
    """
    _TOLERANCE.check("near", "tolerance", tolerance)
    found = distances(_places("near", "places", places), _places("near", "others", others))
    return found <= tolerance


def _places(who: str, name: str, values: NDArray) -> NDArray[np.float64]:
    """Read positions, of which there may be none."""
    return real_array(who, name, values, 1, allow=("empty",))


def distances(places: NDArray, others: NDArray) -> NDArray:
    """Return the distance from each place to the nearest of ``others``, which are sorted.

    The distance is infinite if there are no others. It takes O(r log s) time.
    """
    if len(others) == 0:
        return np.full(len(places), np.inf)
    right = np.searchsorted(others, places)
    after = np.abs(others[np.minimum(right, len(others) - 1)] - places)
    before = np.abs(places - others[np.maximum(right - 1, 0)])
    return np.minimum(after, before)


def _annotations(who: str, true: Any) -> list[Any]:
    """List the segmentations by all annotators.

    A single segmentation becomes a list of length 1.
    """
    marked = list(true.values()) if isinstance(true, Mapping) else [true]
    if not marked:
        raise ValueError(f"{who} needs the change-points of at least one annotator, got none.")
    return marked


def _detected(true: set[int], pred: list[int], margin: float) -> int:
    """Match true with predicted change-points greedily, and return the number of matches.

    Each true change-point is matched with the nearest predicted one that is not matched yet, if the
    two are at most ``margin`` apart. The true change-points are visited in the order in which
    Python iterates over their set, as in the program of the Turing benchmark.
    """
    left = pred.copy()
    for start in true:
        right = bisect_left(left, start)
        near = [i for i in (right - 1, right) if 0 <= i < len(left)]
        nearest = min(near, key=lambda i: abs(left[i] - start), default=None)
        if nearest is not None and abs(left[nearest] - start) <= margin:
            del left[nearest]
    return len(pred) - len(left)


def _change_points(
    true: ArrayLike | Partition, pred: ArrayLike | Partition, n_samples: int | None
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return the sorted change-points of each segmentation without n, and the number n."""
    a, b = (_partition(given, n_samples).change_points for given in (true, pred))
    if a[-1] != b[-1]:
        raise ValueError(
            "Comparing change-points needs two segmentations of the same samples, got last "
            f"change-points {a[-1]} and {b[-1]}; end both lists with n or pass n_samples."
        )
    return a[:-1], b[:-1], int(a[-1])


def _partition(given: ArrayLike | Partition, n_samples: int | None) -> Partition:
    """Return a segmentation that is given by its change-points or as a Partition."""
    return given if isinstance(given, Partition) else Partition.from_change_points(given, n_samples)
