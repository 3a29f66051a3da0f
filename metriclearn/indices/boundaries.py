"""Comparing segmentations through the places of their change-points.

A change-point is the index of the first sample after a segment. As in ruptures a list ends with
the number of samples n; with ``n_samples`` given, the list may leave it out (and may be empty).
Order does not matter; repeated or out-of-range change-points raise ValueError. A contiguous
:class:`~metriclearn.problem.partition.Partition` may stand in place of a list. The indices of two
partitions compare segmentations too, in O(r + s) for r and s change-points:
``rand_score(Partition.from_change_points(true), Partition.from_change_points(pred))``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.problem.partition import Partition


class PrecisionRecall(NamedTuple):
    """Share of predicted change-points that are true, and of true ones that are predicted."""

    precision: float
    recall: float


class AnnotationError(NamedTuple):
    """Annotated regions that a segmentation contradicts.

    ``rate`` is (false_positives + false_negatives) / n_regions.
    """

    rate: float
    false_positives: int
    false_negatives: int
    n_regions: int


def hausdorff(
    true: ArrayLike | Partition,
    pred: ArrayLike | Partition,
    n_samples: int | None = None,
    *,
    normalized: bool = False,
) -> float:
    """Hausdorff distance of two sets of change-points, O((r + s) log(r + s)) time, O(r + s) memory.

    The largest distance from a change-point of one segmentation to the nearest of the other, in
    samples, or as a share of n (``normalized=True``). The end n is no change-point. In [0, ∞]: 0
    when neither has one, inf when only one does.

    References
    ----------
    R. Lajugie, S. Arlot and F. Bach, "Large-margin metric learning for partitioning problems",
    2013 (ICML 2014), section 3.
    """
    a, b, n = _change_points(true, pred, n_samples)
    if len(a) == 0 or len(b) == 0:
        return 0.0 if len(a) == len(b) else math.inf
    distance = float(max(_farthest(a, b), _farthest(b, a)))
    return distance / n if normalized else distance


def precision_recall(
    true: ArrayLike | Partition,
    pred: ArrayLike | Partition,
    n_samples: int | None = None,
    *,
    margin: float = 10,
) -> PrecisionRecall:
    """Precision and recall of change-points by the largest one-to-one matching, O(r + s).

    A true and a predicted change-point match when they are at most ``margin`` samples apart
    (ruptures: less than). Peers match greedily and lose pairs: true [50, 55], predicted [48, 53],
    margin 10 give (1, 1) here. Nothing predicted has precision 1 (no false alarm), nothing true
    has recall 1 (nothing missed). The end n is no change-point.

    Parameters
    ----------
    margin : float ≥ 0
        Allowed error, in samples.
    """
    from metriclearn.indices.kernels import margin_matches

    if not margin >= 0:
        raise ValueError(f"precision_recall needs a margin of at least 0 samples, got {margin}.")
    a, b, _ = _change_points(true, pred, n_samples)
    matches = int(margin_matches(a, b, float(margin)))
    precision = matches / len(b) if len(b) else 1.0
    recall = matches / len(a) if len(a) else 1.0
    return PrecisionRecall(precision, recall)


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

    References
    ----------
    T. D. Hocking, G. Rigaill, J.-P. Vert and F. Bach, "Learning sparse penalties for change-point
    detection using max margin interval regression", ICML 2013.
    """
    ends = _ends(change_points, n_samples)
    rows = [tuple(region) for region in regions]
    if any(len(row) not in (3, 4) or not 0 <= row[0] < row[1] <= ends[-1] for row in rows):
        raise ValueError(
            "annotation_error needs regions (start, end, changes) or (start, end, at_least, "
            f"at_most) with 0 <= start < end <= {ends[-1]}; check the regions."
        )
    start, end, least = (np.array([row[i] for row in rows], dtype=np.int64) for i in range(3))
    most = np.array([math.inf if row[-1] is None else row[-1] for row in rows], dtype=float)
    # start < c < end; a one-sample region on a change-point would count −1
    count = np.searchsorted(ends, end, side="left") - np.searchsorted(ends, start, side="right")
    count = np.maximum(count, 0)
    positives, negatives = int(np.sum(count > most)), int(np.sum(count < least))
    rate = (positives + negatives) / len(rows) if rows else 0.0
    return AnnotationError(rate, positives, negatives, len(rows))


def _farthest(a: NDArray[np.int64], b: NDArray[np.int64]) -> int:
    """Largest distance from a point of a to its nearest in b, both sorted."""
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
