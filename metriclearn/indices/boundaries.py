"""Comparing segmentations through their change-points.

A change-point is the index of the first sample after a segment. As in ruptures a list ends with
the number of samples n; with ``n_samples`` given, the list may leave it out (and may be empty).
Order does not matter; repeated or out-of-range change-points raise ValueError. All integer types
work: the arithmetic is exact for every n below 2⁶³.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.indices.contingency import ContingencyTable
from metriclearn.indices.information import variation_of_information
from metriclearn.indices.pairs import adjusted_rand_score, partition_loss
from metriclearn.problem.partition import Partition

__all__ = [
    "AnnotationError",
    "PrecisionRecall",
    "adjusted_rand_score_change_points",
    "annotation_error",
    "contingency_change_points",
    "hausdorff",
    "misclassification_error_change_points",
    "partition_loss_change_points",
    "precision_recall",
    "rand_score_change_points",
    "variation_of_information_change_points",
]

_NARROW = 4_000_000_000  # n(n−1)/2 disagreements still fit in 63 bits


class PrecisionRecall(NamedTuple):
    """Share of predicted change-points that are true, and of true ones that are found."""

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


def rand_score_change_points(
    true: ArrayLike, pred: ArrayLike, n_samples: int | None = None
) -> float:
    """Rand index of two segmentations, O(r + s) time and O(1) memory beyond the sorted input.

    1 − Σ_ij n_ij |c_{i+1} − c*_{j+1}| / C(n, 2), Theorem 3.1 and Algorithm 1 of seed 000, in
    integers of 64 or 128 bits, divided once. (In the paper begj has to start at 1, and in the last
    step of the proof |A_x| counts the disagreements.) In [0, 1], 1 for equal segmentations only,
    and when n = 1. Symmetric.

    Parameters
    ----------
    true, pred : sequences of integers
        Change-points of the two segmentations.
    n_samples : int, optional
        n; by default the last change-point, which must then be the same in both.
    """
    from metriclearn.indices.kernels import disagreements, disagreements_wide

    a, b, n = _both(true, pred, n_samples)
    if n <= _NARROW:
        different = int(disagreements(a, b))
    else:
        high, low = disagreements_wide(a, b)
        different = (int(high) << 64) | int(low)
    pairs = n * (n - 1) // 2
    return (pairs - different) / pairs if pairs else 1.0


def contingency_change_points(
    true: ArrayLike, pred: ArrayLike, n_samples: int | None = None
) -> ContingencyTable:
    """Contingency table of two segmentations, O(r + s): every index takes it as ``contingency=``.

    Its at most r + s + 1 cells are the pieces between neighboring change-points of either side.
    """
    a, b, _ = _both(true, pred, n_samples)
    return ContingencyTable.from_partitions(Partition(ends=a), Partition(ends=b))


def adjusted_rand_score_change_points(
    true: ArrayLike, pred: ArrayLike, n_samples: int | None = None
) -> float:
    """Adjusted Rand index of two segmentations, in [−1/2, 1], O(r + s).

    By the merge of seed 000; see :func:`adjusted_rand_score`.
    """
    return adjusted_rand_score(contingency=contingency_change_points(true, pred, n_samples))


def variation_of_information_change_points(
    true: ArrayLike,
    pred: ArrayLike,
    n_samples: int | None = None,
    *,
    base: float | None = None,
) -> float:
    """Variation of information of two segmentations, in [0, ln n], O(r + s).

    By the merge of seed 000; see :func:`variation_of_information`.
    """
    table = contingency_change_points(true, pred, n_samples)
    return variation_of_information(contingency=table, base=base)


def misclassification_error_change_points(
    true: ArrayLike, pred: ArrayLike, n_samples: int | None = None
) -> float:
    """Misclassification error of two segmentations, O(r + s) by dynamic programming.

    The overlaps of two segmentations form a staircase, whose heaviest one-to-one matching needs no
    Hungarian algorithm; see :func:`misclassification_error` for the definition.
    """
    from metriclearn.indices.kernels import chain_matching

    table = contingency_change_points(true, pred, n_samples)
    matched = int(chain_matching(table.rows, table.columns, table.counts))
    return (table.n_samples - matched) / table.n_samples


def partition_loss_change_points(
    true: ArrayLike,
    pred: ArrayLike,
    n_samples: int | None = None,
    *,
    normalized: bool = True,
) -> float:
    """Loss ℓ of two segmentations (or ‖M − N‖²_F with ``normalized=False``), O(r + s).

    In [0, (K + K′ − 2)/n]; section 3 of seed 003, by the merge of seed 000.
    """
    table = contingency_change_points(true, pred, n_samples)
    return partition_loss(contingency=table, normalized=normalized)


def hausdorff(
    true: ArrayLike,
    pred: ArrayLike,
    n_samples: int | None = None,
    *,
    normalized: bool = False,
) -> float:
    """Hausdorff distance of two sets of change-points, O((r + s) log(r + s)) time, O(r + s) memory.

    The largest distance from a change-point of one segmentation to the nearest of the other, in
    samples, or as a share of n (``normalized=True``), as in section 3 of seed 003. The end n is no
    change-point. In [0, ∞]: 0 when neither has one, inf when only one does.
    """
    a, b, n = _both(true, pred, n_samples)
    a, b = a[:-1], b[:-1]
    if len(a) == 0 or len(b) == 0:
        return 0.0 if len(a) == len(b) else math.inf
    distance = float(max(_farthest(a, b), _farthest(b, a)))
    return distance / n if normalized else distance


def precision_recall(
    true: ArrayLike,
    pred: ArrayLike,
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
    a, b, _ = _both(true, pred, n_samples)
    matches = int(margin_matches(a[:-1], b[:-1], float(margin)))
    return PrecisionRecall(
        matches / (len(b) - 1) if len(b) > 1 else 1.0,
        matches / (len(a) - 1) if len(a) > 1 else 1.0,
    )


def annotation_error(
    change_points: ArrayLike,
    regions: Iterable[Sequence[int]],
    n_samples: int | None = None,
) -> AnnotationError:
    """Share of annotated regions with too many or too few change-points (Hocking et al. 2013).

    O((s + m) log s) for s change-points and m regions.

    Parameters
    ----------
    change_points : sequence of integers
        The segmentation.
    regions : sequence of (start, end, changes) or (start, end, at_least, at_most)
        Samples start … end−1 (0-based, end excluded) hold exactly ``changes`` change-points, or
        from ``at_least`` to ``at_most`` (None: any number). A change-point c lies in the region
        when both samples it separates do, start < c < end.
    """
    a = _ends(change_points, n_samples)
    rows = [tuple(region) for region in regions]
    if any(len(row) not in (3, 4) or not 0 <= row[0] < row[1] <= a[-1] for row in rows):
        raise ValueError(
            "annotation_error needs regions (start, end, changes) or (start, end, at_least, "
            f"at_most) with 0 <= start < end <= {a[-1]}; check the regions."
        )
    start, end = (np.array([row[side] for row in rows], dtype=np.int64) for side in (0, 1))
    found = np.searchsorted(a, end, side="left") - np.searchsorted(a, start, side="right")
    found = np.maximum(found, 0)  # a one-sample region on a change-point
    most = np.array([math.inf if row[-1] is None else row[-1] for row in rows], dtype=float)
    positives = int(np.sum(found > most))
    negatives = int(np.sum(found < np.array([row[2] for row in rows], dtype=float)))
    rate = (positives + negatives) / len(rows) if rows else 0.0
    return AnnotationError(rate, positives, negatives, len(rows))


def _farthest(a: NDArray[np.int64], b: NDArray[np.int64]) -> int:
    """Largest distance from a point of a to its nearest in b, both sorted."""
    right = np.searchsorted(b, a)
    after = np.abs(b[np.minimum(right, len(b) - 1)] - a)
    before = np.abs(a - b[np.maximum(right - 1, 0)])
    return int(np.max(np.minimum(after, before)))


def _both(
    true: ArrayLike, pred: ArrayLike, n_samples: int | None
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    a, b = _ends(true, n_samples), _ends(pred, n_samples)
    if a[-1] != b[-1]:
        raise ValueError(
            "Comparing change-points needs two segmentations of the same samples, got last "
            f"change-points {a[-1]} and {b[-1]}; end both lists with n or pass n_samples."
        )
    return a, b, int(a[-1])


def _ends(change_points: ArrayLike, n_samples: int | None) -> NDArray[np.int64]:
    """Sorted segment ends, the last one n."""
    given = np.asarray(change_points)
    if given.ndim != 1 or given.dtype.kind not in "iuf" or not np.all(np.isfinite(given)):
        raise ValueError(
            "Comparing change-points needs a flat sequence of integers, got "
            f"{type(change_points).__name__} of {given.dtype}; pass the ends of the segments."
        )
    if given.size and float(given.max()) >= 2.0**63:
        raise ValueError("Comparing change-points needs positions below 2**63.")
    ends = given.astype(np.int64)
    complete = ends.size > 0 and ends[0] >= 1 and n_samples in (None, ends[-1])
    if complete and np.array_equal(ends, given) and np.all(ends[1:] > ends[:-1]):
        return ends  # as ruptures gives them: nothing to sort or to complain about
    return Partition.from_change_points(given, n_samples).change_points
