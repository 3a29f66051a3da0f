"""Indices that count pairs of samples: Rand, Jaccard, Fowlkes–Mallows and the paper's loss ℓ.

Pairs are counted exactly, whatever the number of samples. Every index compares two labelings or
partitions, or takes their table as ``contingency=``. Samples labeled ``ignore_label`` are left out;
see :func:`~metriclearn.indices.contingency_table`. An index takes O(n) time for labels, O(cells)
for a table and O(K + K′) for two segmentations.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metriclearn.indices.contingency import ContingencyTable, Labels, of_partitions
from metriclearn.indices.registered import index
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import needs

_SAFE_SIZE = 3_000_000_000  # largest n whose square fits in 64 bits


class PairCounts(NamedTuple):
    """Counts of the pairs of samples that are together in both partitions, in one, or in neither.

    A pair is together in a partition if both samples are in the same cluster. The numbers are
    Python integers, which are exact for any number of samples. The four numbers sum to n(n−1)/2.

    Parameters
    ----------
    n11 : int
        Number of pairs in the same cluster of both partitions.
    n10 : int
        Number of pairs in the same true cluster, but in different predicted clusters.
    n01 : int
        Number of pairs in the same predicted cluster, but in different true clusters.
    n00 : int
        Number of pairs in different clusters of both partitions.

    See Also
    --------
    pair_counts : returns a PairCounts.

    Examples
    --------
    >>> from metriclearn.indices import pair_counts
    >>> pair_counts([0, 0, 1, 1], [0, 1, 1, 1])
    PairCounts(n11=1, n10=1, n01=2, n00=2)
    """

    n11: int
    n10: int
    n01: int
    n00: int


@of_partitions
def pair_counts(table: ContingencyTable) -> PairCounts:
    """Count the pairs of samples that are together in both partitions, in only one, or in neither.

    A pair is together in a partition if both samples are in the same cluster. The four counts sum
    to C(n, 2) = n(n−1)/2, the number of all pairs. The counts are computed from the table by N11 =
    Σ_kl C(n_kl, 2), N11 + N10 = Σ_k C(a_k, 2) and N11 + N01 = Σ_l C(b_l, 2).

    Parameters
    ----------
    labels_true, labels_pred, contingency, ignore_label : see :func:`contingency_table`

    Returns
    -------
    PairCounts
        The counts N11, N10, N01 and N00.

    Raises
    ------
    ValueError
        See :func:`contingency_table`.

    References
    ----------
    L. Hubert and P. Arabie, "Comparing partitions", Journal of Classification 2, 1985.
    """
    n = table.n_samples
    together, true, pred = (
        _sum_of_squares(counts, n) for counts in (table.counts, table.row_sizes, table.column_sizes)
    )
    n11, n10, n01 = (together - n) // 2, (true - together) // 2, (pred - together) // 2
    return PairCounts(n11, n10, n01, n * (n - 1) // 2 - n11 - n10 - n01)


@of_partitions
def pair_confusion_matrix(table: ContingencyTable) -> NDArray[np.int64]:
    """Count the ordered pairs, [[2 N00, 2 N01], [2 N10, 2 N11]], laid out as in scikit-learn.

    The entries sum to n(n − 1). The entries are 64-bit integers if all of them fit, and exact
    Python integers (dtype object) if not. In scikit-learn, large entries overflow.

    Parameters
    ----------
    labels_true, labels_pred, contingency, ignore_label : see :func:`contingency_table`

    Returns
    -------
    int array (2, 2)

    Raises
    ------
    ValueError
        See :func:`contingency_table`.

    References
    ----------
    L. Hubert and P. Arabie, "Comparing partitions", Journal of Classification 2, 1985.
    """
    n11, n10, n01, n00 = pair_counts(contingency=table)
    fits = 2 * max(n11, n10, n01, n00) < 2**63
    dtype = np.int64 if fits else object
    return np.array([[2 * n00, 2 * n01], [2 * n10, 2 * n11]], dtype=dtype)


@index(perfect=1.0)
def rand_score(
    labels_true: Labels | None = None,
    labels_pred: Labels | None = None,
    *,
    contingency: Any = None,
    ignore_label: Hashable = None,
) -> float:
    """Rand index (N11 + N00) / C(n, 2), the fraction of pairs on which two partitions agree.

    The index is symmetric, in [0, 1], and 1 for equal partitions only. For n = 1, where there are
    no pairs, the index is 1. The index is not corrected for chance. For two contiguous
    :class:`~metriclearn.problem.partition.Partition` objects with segment ends c and c*, it is 1 −
    Σ_ij n_ij |c_{i+1} − c*_{j+1}| / C(n, 2). In this case, the sum is computed exactly, in 128-bit
    integers, by merging the two lists of ends in O(K + K′) time and O(1) memory.

    Parameters
    ----------
    labels_true, labels_pred, contingency, ignore_label : see :func:`contingency_table`

    Returns
    -------
    float in [0, 1]

    Raises
    ------
    ValueError
        See :func:`contingency_table`.

    References
    ----------
    W. M. Rand, "Objective criteria for the evaluation of clustering methods", Journal of the
    American Statistical Association 66, 1971. L. Prates, "A more efficient algorithm to compute
    the Rand index for change-point problems", arXiv, 2021: Eq. (1), Theorem 3.1 and Algorithm 1
    (where begj must start at 1, and |A_x| in the last step of the proof counts disagreements).
    """
    pair = labels_true, labels_pred
    if contingency is None and ignore_label is None and all(map(_is_segmentation, pair)):
        from metriclearn.indices.kernels import disagreements

        ends = [partition.change_points for partition in pair]  # type: ignore[union-attr]
        n = int(ends[0][-1])
        if n == int(ends[1][-1]):  # otherwise the table below raises the error
            high, low = disagreements(*ends)
            total = n * (n - 1) // 2
            return (total - (int(high) << 64) - int(low)) / total if total else 1.0
    counts = pair_counts(*pair, contingency=contingency, ignore_label=ignore_label)
    return (counts.n11 + counts.n00) / sum(counts) if sum(counts) else 1.0


@index(perfect=1.0)
def adjusted_rand_score(table: ContingencyTable) -> float:
    """Rand index corrected for chance: 0 on average for random labels, 1 for equal partitions.

    The formula is 2(N11 N00 − N10 N01) / ((N11+N10)(N10+N00) + (N11+N01)(N01+N00)). The index is
    symmetric and in [−1/2, 1]. Random labels here have the same cluster sizes as the given labels.
    For n = 1, where there are no pairs, the value is 1.

    Parameters
    ----------
    labels_true, labels_pred, contingency, ignore_label : see :func:`contingency_table`

    Returns
    -------
    float in [−1/2, 1]

    Raises
    ------
    ValueError
        See :func:`contingency_table`.

    References
    ----------
    L. Hubert and P. Arabie, "Comparing partitions", Journal of Classification 2, 1985, Eq. (5).
    """
    return corrected_for_chance(*pair_counts(contingency=table))


def corrected_for_chance(n11: int, n10: int, n01: int, n00: int) -> float:
    """Compute the adjusted Rand index from the four pair counts."""
    if n10 == 0 and n01 == 0:
        return 1.0
    chance = (n11 + n10) * (n10 + n00) + (n11 + n01) * (n01 + n00)
    return 2 * (n11 * n00 - n10 * n01) / chance


@index(perfect=1.0)
def jaccard_score(table: ContingencyTable) -> float:
    """Jaccard index N11 / (N11 + N10 + N01) of the pairs of samples in the same cluster.

    The index is symmetric and in [0, 1]. Pairs that both partitions put into different clusters
    (N00) are not counted. If all clusters of both partitions are single samples, the formula is
    0/0, and the value is 1. Dividing N11 by the number of all pairs, C(n, 2), would give the index
    of Russell and Rao.

    Parameters
    ----------
    labels_true, labels_pred, contingency, ignore_label : see :func:`contingency_table`

    Returns
    -------
    float in [0, 1]

    Raises
    ------
    ValueError
        See :func:`contingency_table`.

    References
    ----------
    A. Ben-Hur, A. Elisseeff and I. Guyon, "A stability based method for discovering structure in
    clustered data", Pacific Symposium on Biocomputing, 2002. P. F. Russell and T. R. Rao, "On
    habitat and association of species of anopheline larvae in south-eastern Madras", Journal of
    the Malaria Institute of India 3, 1940.
    """
    n11, n10, n01, _ = pair_counts(contingency=table)
    total = n11 + n10 + n01
    return n11 / total if total else 1.0


@index(perfect=1.0)
def fowlkes_mallows_score(table: ContingencyTable) -> float:
    """Fowlkes–Mallows index N11 / √((N11+N10)(N11+N01)), in [0, 1].

    The index is the geometric mean of precision and recall of the pairs in the same cluster. It is
    symmetric. If all clusters of both partitions are single samples, the index is 1 (0 in
    scikit-learn). If all clusters of only one partition are single samples, the index is 0.

    Parameters
    ----------
    labels_true, labels_pred, contingency, ignore_label : see :func:`contingency_table`

    Returns
    -------
    float in [0, 1]

    Raises
    ------
    ValueError
        See :func:`contingency_table`.

    References
    ----------
    E. B. Fowlkes and C. L. Mallows, "A method for comparing two hierarchical clusterings",
    Journal of the American Statistical Association 78, 1983.
    """
    n11, n10, n01, _ = pair_counts(contingency=table)
    if n10 == 0 and n01 == 0:
        return 1.0
    if n11 == 0:
        return 0.0
    return math.sqrt(n11 / (n11 + n10)) * math.sqrt(n11 / (n11 + n01))


@index(perfect=0.0)
@needs
def partition_loss(table: ContingencyTable, *, normalized: bool = True) -> float:
    """The loss ℓ = ‖M − N‖²_F / n of the metric-learning paper, or ‖M − N‖²_F itself.

    M = Y(YᵀY)⁻¹Yᵀ represents a partition with the assignment matrix Y, and N represents the other
    partition in the same way. The loss is computed from ‖M − N‖²_F = K + K′ − 2 Σ_kl n_kl² / (a_k
    b_l). The loss ℓ is symmetric, 0 for equal partitions only, and at most (K + K′ − 2) / n. The
    loss is the square of a metric.

    Parameters
    ----------
    labels_true, labels_pred, contingency, ignore_label : see :func:`contingency_table`
    normalized : bool
        If True, return ℓ. If False, return n ℓ = ‖M − N‖²_F, as in the tables of the paper.

    Returns
    -------
    float ≥ 0

    Raises
    ------
    ValueError
        See :func:`contingency_table`.

    References
    ----------
    R. Lajugie, S. Arlot and F. Bach, "Large-margin metric learning for partitioning problems",
    arXiv:1303.1280, 2013, Eq. (8).
    """
    row_share = table.counts / table.row_sizes[table.rows]
    column_share = table.counts / table.column_sizes[table.columns]
    # K + K′ − 2 Σ pq, summed so that equal partitions give exactly 0 and nothing cancels
    squared = float(np.sum(row_share * (1.0 - column_share) + column_share * (1.0 - row_share)))
    return squared / table.n_samples if normalized else squared


def _is_segmentation(labels: Labels | None) -> bool:
    return isinstance(labels, Partition) and labels.contiguous


def _sum_of_squares(counts: NDArray[np.int64], n_samples: int) -> int:
    if n_samples > _SAFE_SIZE:
        return sum(count * count for count in counts.tolist())
    return int(counts @ counts)
