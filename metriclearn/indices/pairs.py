"""Indices that count pairs of samples: Rand, Jaccard, Fowlkes–Mallows and the paper's loss ℓ.

All pair counts are exact integers of any size; the one division at the end is correctly rounded.
Every function takes labels or ``contingency=``, and ``ignore_label=``; see
:func:`~metriclearn.indices.contingency_table`. Each costs O(n) for labels, O(cells) for a table.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metriclearn.indices.contingency import ContingencyTable, Labels, contingency_table

__all__ = [
    "PairCounts",
    "adjusted_rand_score",
    "fowlkes_mallows_score",
    "jaccard_score",
    "pair_confusion_matrix",
    "pair_counts",
    "partition_loss",
    "rand_score",
]

_SAFE_SIZE = 3_000_000_000  # largest n whose square fits in 64 bits


class PairCounts(NamedTuple):
    """Unordered pairs that are together in both, in the truth only, in the prediction only, never.

    Python integers, exact for any number of samples; n11 + n10 + n01 + n00 = n(n−1)/2.
    """

    n11: int
    n10: int
    n01: int
    n00: int


def pair_counts(
    labels_true: Labels | None = None,
    labels_pred: Labels | None = None,
    *,
    contingency: Any = None,
    ignore_label: Hashable = None,
) -> PairCounts:
    """Pairs of samples by whether the two partitions put them together (N11, N10, N01, N00).

    O(n), or O(cells) for a table. Each is at least 0; they sum to C(n, 2).
    Σ_kl C(n_kl, 2) and the same of the margins (seed 004, "Rand, Jaccard and Fowlkes–Mallows";
    seed 002, a, b, c, d).
    """
    table = contingency_table(
        labels_true, labels_pred, contingency=contingency, ignore_label=ignore_label
    )
    return _pair_counts(table)


def pair_confusion_matrix(
    labels_true: Labels | None = None,
    labels_pred: Labels | None = None,
    *,
    contingency: Any = None,
    ignore_label: Hashable = None,
) -> NDArray[np.int64]:
    """Ordered pairs [[2 N00, 2 N01], [2 N10, 2 N11]], laid out as in scikit-learn.

    O(n), or O(cells) for a table. Seed 002, "Adjusted Rand Index (5)–(6)". Sums to n(n − 1).
    Shape (2, 2); integers of 64 bits while they fit, exact Python integers (dtype object) beyond.
    """
    n11, n10, n01, n00 = pair_counts(
        labels_true, labels_pred, contingency=contingency, ignore_label=ignore_label
    )
    entries = [[2 * n00, 2 * n01], [2 * n10, 2 * n11]]
    fits = 2 * max(n11, n10, n01, n00) < 2**63
    return np.array(entries, dtype=np.int64 if fits else object)


def rand_score(
    labels_true: Labels | None = None,
    labels_pred: Labels | None = None,
    *,
    contingency: Any = None,
    ignore_label: Hashable = None,
) -> float:
    """Rand index (N11 + N00) / C(n, 2), the share of pairs on which two partitions agree.

    In [0, 1], 1 for equal partitions only; 1 when there are no pairs (n = 1). Symmetric.
    Seed 000, Eq. (1); seed 002, "Adjusted Rand Index (7)". Not corrected for chance.
    O(n), or O(cells) for a table.
    """
    n11, n10, n01, n00 = pair_counts(
        labels_true, labels_pred, contingency=contingency, ignore_label=ignore_label
    )
    total = n11 + n10 + n01 + n00
    return (n11 + n00) / total if total else 1.0


def adjusted_rand_score(
    labels_true: Labels | None = None,
    labels_pred: Labels | None = None,
    *,
    contingency: Any = None,
    ignore_label: Hashable = None,
) -> float:
    """Rand index corrected for chance: 0 on average for random labels of given sizes, 1 if equal.

    2(N11 N00 − N10 N01) / ((N11+N10)(N10+N00) + (N11+N01)(N01+N00)), in [−1/2, 1]. Symmetric.
    Hubert & Arabie 1985; seed 002, "Adjusted Rand Index (9)". 1 when there are no pairs.
    O(n), or O(cells) for a table.
    """
    n11, n10, n01, n00 = pair_counts(
        labels_true, labels_pred, contingency=contingency, ignore_label=ignore_label
    )
    if n10 == 0 and n01 == 0:
        return 1.0
    chance = (n11 + n10) * (n10 + n00) + (n11 + n01) * (n01 + n00)
    return 2 * (n11 * n00 - n10 * n01) / chance


def jaccard_score(
    labels_true: Labels | None = None,
    labels_pred: Labels | None = None,
    *,
    contingency: Any = None,
    ignore_label: Hashable = None,
) -> float:
    """Jaccard index of the pairs put together, N11 / (N11 + N10 + N01), in [0, 1]. Symmetric.

    Seed 004 (its slide divides by all pairs, which is not the Jaccard index: corrected here).
    1 when both partitions are all singletons, where the formula is 0/0. O(n), or O(cells) for a
    table.
    """
    n11, n10, n01, _ = pair_counts(
        labels_true, labels_pred, contingency=contingency, ignore_label=ignore_label
    )
    total = n11 + n10 + n01
    return n11 / total if total else 1.0


def fowlkes_mallows_score(
    labels_true: Labels | None = None,
    labels_pred: Labels | None = None,
    *,
    contingency: Any = None,
    ignore_label: Hashable = None,
) -> float:
    """Geometric mean of pair precision and recall, N11 / √((N11+N10)(N11+N01)), in [0, 1].

    Symmetric. Seed 002, "Adjusted Rand Index (8)"; seed 004 omits the root: corrected here.
    1 when both partitions are all singletons (scikit-learn: 0), 0 when only one is.
    O(n), or O(cells) for a table.
    """
    n11, n10, n01, _ = pair_counts(
        labels_true, labels_pred, contingency=contingency, ignore_label=ignore_label
    )
    if n10 == 0 and n01 == 0:
        return 1.0
    if n11 == 0:
        return 0.0
    return math.sqrt(n11 / (n11 + n10)) * math.sqrt(n11 / (n11 + n01))


def partition_loss(
    labels_true: Labels | None = None,
    labels_pred: Labels | None = None,
    *,
    normalized: bool = True,
    contingency: Any = None,
    ignore_label: Hashable = None,
) -> float:
    """The loss ℓ = ‖M − N‖²_F / n of the metric-learning paper, or ‖M − N‖²_F itself.

    M = Y(YᵀY)⁻¹Yᵀ, and ‖M − N‖² = K + K′ − 2 Σ_kl n_kl² / (a_k b_l) (seed 003, Eq. (8)).
    Symmetric, a squared metric, 0 for equal partitions only, at most (K + K′ − 2) / n.
    O(n), or O(cells) for a table.

    Parameters
    ----------
    normalized : bool
        True for ℓ; False for n ℓ = ‖M − N‖²_F, which the tables of the paper report.
    """
    table = contingency_table(
        labels_true, labels_pred, contingency=contingency, ignore_label=ignore_label
    )
    row_share = table.counts / table.row_sizes[table.rows]
    column_share = table.counts / table.column_sizes[table.columns]
    # K + K′ − 2 Σ pq, summed so that equal partitions give exactly 0 and nothing cancels
    squared = float(np.sum(row_share * (1.0 - column_share) + column_share * (1.0 - row_share)))
    return squared / table.n_samples if normalized else squared


def _pair_counts(table: ContingencyTable) -> PairCounts:
    together = _sum_of_squares(table.counts, table.n_samples)
    true = _sum_of_squares(table.row_sizes, table.n_samples)
    pred = _sum_of_squares(table.column_sizes, table.n_samples)
    n = table.n_samples
    n11 = (together - n) // 2
    n10 = (true - together) // 2
    n01 = (pred - together) // 2
    return PairCounts(n11, n10, n01, n * (n - 1) // 2 - n11 - n10 - n01)


def _sum_of_squares(counts: NDArray[np.int64], n_samples: int) -> int:
    if n_samples > _SAFE_SIZE:
        return sum(count * count for count in counts.tolist())
    return int(counts @ counts)
