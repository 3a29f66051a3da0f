"""Indices of information theory: entropy, mutual information, variation of information.

A random sample is in true cluster k with probability a_k / n, in predicted cluster l with
probability b_l / n, and in both with probability n_kl / n. Logarithms are natural unless a ``base``
is given. Every index compares two labelings or partitions, or takes their table as
``contingency=``. Samples labeled ``ignore_label`` are left out. An index takes O(n) time for
labels, O(cells) for a table and O(K + K′) for two segmentations.

References
----------
M. Meilă, "Comparing clusterings: an information based distance", Journal of Multivariate Analysis
98, 2007. N. X. Vinh, J. Epps and J. Bailey, "Information theoretic measures for clusterings
comparison", Journal of Machine Learning Research 11, 2010. Equations (1)–(7) of Z. Hussain and
M. Meilă, "Graph-sensitive indices for comparing clusterings", arXiv:1411.7582, 2014, collect the
definitions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.indices.contingency import ContingencyTable, Labels, contingency_table
from metriclearn.indices.registered import index
from metriclearn.running.parameters import Needs, OneOf, Real
from metriclearn.running.values import real_array

_NORMALIZERS: dict[str, Callable[[float, float, float], float]] = {
    "arithmetic": lambda h, g, joint: (h + g) / 2.0,
    "joint": lambda h, g, joint: joint,
    "sum": lambda h, g, joint: h + g,
    "geometric": lambda h, g, joint: math.sqrt(h * g),
    "min": lambda h, g, joint: min(h, g),
    "max": lambda h, g, joint: max(h, g),
}
_BASE = Needs("a logarithm {name} above 1", lambda base: Real(1.0).accepts(base) and base != 1)
_ROUNDING = 1e-12  # relative rounding error of a difference of entropies


def entropy(
    labels_true: Labels | None = None,
    labels_pred: Labels | None = None,
    *,
    base: float | None = None,
    contingency: Any = None,
    ignore_label: Hashable = None,
) -> float:
    """Entropy H(C) = −Σ_k (a_k/n) ln(a_k/n) of one labeling, or joint entropy H(C, C′) of two.

    The entropy is in [0, ln K]. The joint entropy is at most H(C) + H(C′). See Hussain & Meilă
    2014, Eq. (4).

    Parameters
    ----------
    labels_true, labels_pred, contingency, ignore_label : see :func:`contingency_table`
    base : float, optional
        Base of the logarithm, above 1. By default it is e, and the value is in nats.

    Returns
    -------
    float ≥ 0

    Raises
    ------
    ValueError
        See :func:`contingency_table`. Also raised if the base is not above 1.
    """
    if labels_pred is None and contingency is None:  # the cells of (C, C) are the clusters of C
        labels_pred = labels_true
    table = contingency_table(
        labels_true, labels_pred, contingency=contingency, ignore_label=ignore_label
    )
    return entropy_of(table.counts) / log_base(base)


@index(perfect=None)
def mutual_info_score(table: ContingencyTable, *, base: float | None = None) -> float:
    """Mutual information I = Σ_kl (n_kl/n) ln(n n_kl / (a_k b_l)), Hussain & Meilă 2014, Eq. (5).

    Mutual information is symmetric and in [0, min(H, H′)], where H and H′ are the entropies of the
    two partitions. It is 0 if the partitions are independent.

    Parameters
    ----------
    labels_true, labels_pred, contingency, ignore_label : see :func:`contingency_table`
    base : float, optional
        Base of the logarithm, above 1. By default it is e, and the value is in nats.

    Returns
    -------
    float ≥ 0

    Raises
    ------
    ValueError
        See :func:`contingency_table`. Also raised if the base is not above 1.
    """
    return _information(table) / log_base(base)


@index(perfect=1.0)
def normalized_mutual_info_score(
    table: ContingencyTable, *, average_method: str = "arithmetic"
) -> float:
    """Mutual information I divided by a normalizer. The default is 2 I / (H + H′).

    The index is symmetric, and in [0, 1] (in [0, 1/2] with ``"sum"``). If the normalizer is 0, the
    value is 1 for equal partitions and 0 otherwise. Vinh, Epps & Bailey 2010 list the normalizers.
    scikit-learn does not have "joint" and "sum".

    Parameters
    ----------
    labels_true, labels_pred, contingency, ignore_label : see :func:`contingency_table`
    average_method : "arithmetic", "joint", "sum", "geometric", "min" or "max"
        The normalizer is (H + H′)/2, H(C, C′), H + H′, √(H H′), min(H, H′) or max(H, H′),
        respectively.

    Returns
    -------
    float in [0, 1]

    Raises
    ------
    ValueError
        See :func:`contingency_table`. Also raised for an unknown ``average_method``.
    """
    normalizer = _normalizer(table, average_method)
    if normalizer == 0.0:
        return 1.0 if table.equal else 0.0
    return _information(table) / normalizer


@index(perfect=1.0)
def adjusted_mutual_info_score(
    table: ContingencyTable, *, average_method: str = "arithmetic"
) -> float:
    """Mutual information corrected for chance, (I − E[I]) / (normalizer − E[I]).

    The index is symmetric. For random labels with the same cluster sizes, it is 0 on average. For
    equal partitions, it is 1 (except with "sum"). See Vinh, Epps & Bailey 2010. If the normalizer
    equals E[I], the ratio is 0/0, and the value is 1 for equal partitions and 0 for others. The
    time is O(n + d d′ w), see :func:`expected_mutual_information`. Here d and d′ are the numbers of
    distinct cluster sizes of the two partitions, and w is the number of counts that are summed for
    a pair of cluster sizes.

    Parameters
    ----------
    labels_true, labels_pred, contingency, ignore_label : see :func:`contingency_table`
    average_method : see :func:`normalized_mutual_info_score`

    Returns
    -------
    float, at most 1

    Raises
    ------
    ValueError
        See :func:`contingency_table`. Also raised for an unknown ``average_method``.
    """
    normalizer = _normalizer(table, average_method)
    if table.equal and average_method != "sum":
        return 1.0
    expected = expected_mutual_information(table.row_sizes, table.column_sizes)
    room = normalizer - expected
    if abs(room) <= _ROUNDING * max(1.0, normalizer):
        return 1.0 if table.equal else 0.0
    return (_information(table) - expected) / room


@index(perfect=0.0)
def variation_of_information(table: ContingencyTable, *, base: float | None = None) -> float:
    """Variation of information H(C|C′) + H(C′|C) = H + H′ − 2I, a metric on partitions.

    The value is in [0, ln n], and at most 2 ln max(K, K′). For equal partitions, it is exactly 0.
    See Meilă 2007, and Hussain & Meilă 2014, Eqs. (6) and (7). In their Eq. (6), the second H(C)
    must read H(C′), and their table in section 5.2 uses base 10.

    Parameters
    ----------
    labels_true, labels_pred, contingency, ignore_label : see :func:`contingency_table`
    base : float, optional
        Base of the logarithm, above 1. By default it is e, and the value is in nats.

    Returns
    -------
    float ≥ 0

    Raises
    ------
    ValueError
        See :func:`contingency_table`. Also raised if the base is not above 1.
    """
    return _variation(table) / log_base(base)


@index(perfect=0.0)
def normalized_variation_of_information(
    table: ContingencyTable, *, average_method: str = "joint"
) -> float:
    """Variation of information VI divided by a normalizer. The default is VI / H(C, C′).

    The index is symmetric, and 0 for equal partitions. With the default "joint" it equals 1 − I /
    H(C, C′), see Vinh, Epps & Bailey 2010. With "joint" or "log_n", the index is a metric. With
    "joint", "log_n" or "sum", the index is in [0, 1]. With the other normalizers, it can be 2 or
    more.

    Parameters
    ----------
    labels_true, labels_pred, contingency, ignore_label : see :func:`contingency_table`
    average_method : as in :func:`normalized_mutual_info_score`, or "log_n"
        "log_n" divides by ln n, the largest possible VI.

    Returns
    -------
    float ≥ 0

    Raises
    ------
    ValueError
        See :func:`contingency_table`. Also raised for an unknown ``average_method``.
    """
    log_n = isinstance(average_method, str) and average_method == "log_n"
    normalizer = math.log(table.n_samples) if log_n else _normalizer(table, average_method)
    if table.equal:
        return 0.0
    return _variation(table) / normalizer if normalizer else math.inf


def expected_mutual_information(row_sizes: NDArray, column_sizes: NDArray) -> float:
    """Compute the expected mutual information E[I] of random labelings with given cluster sizes.

    The value is in [0, min(H, H′)]; see Vinh, Epps & Bailey 2010, Eq. (24a). The count in a cell of
    the random table has a hypergeometric distribution. The probabilities of the counts are computed
    by recurrence from the mode and divided by their sum. This computation needs no factorials, and
    its absolute error is about 1e-16 for any n. If the partitions have d and d′ distinct cluster
    sizes, the time is O(d d′ w), where w ≤ 2e5 is the number of counts that are summed for a pair
    of sizes. If more counts would have to be summed, a series is evaluated instead.

    Parameters
    ----------
    row_sizes, column_sizes : arrays (K,) and (K′,)
        The cluster sizes of the two partitions: positive whole numbers with equal sums.

    Returns
    -------
    float ≥ 0

    Raises
    ------
    ValueError
        If a size is not a positive whole number, or if the two sums differ.
    """
    from metriclearn.indices.kernels import expected_information

    who = "expected_mutual_information"
    rows = real_array(who, "row_sizes", row_sizes, 1)
    columns = real_array(who, "column_sizes", column_sizes, 1)
    both = np.concatenate([rows, columns])
    n_samples = int(rows.sum())
    if n_samples != int(columns.sum()) or both.min() < 1 or np.any(both != np.round(both)):
        raise ValueError(
            f"{who} needs positive whole cluster sizes with equal sums, got sums "
            f"{rows.sum():g} and {columns.sum():g}."
        )
    a, a_times = np.unique(rows.astype(np.int64), return_counts=True)
    b, b_times = np.unique(columns.astype(np.int64), return_counts=True)
    return float(expected_information(a, a_times, b, b_times, n_samples))


def log_base(base: float | None) -> float:
    """Return the divisor that converts nats to the base: ln(base), or 1 if ``base`` is None."""
    if base is None:
        return 1.0
    _BASE.check("An entropy", "base", base)
    return math.log(base)


def entropy_of(counts: NDArray[np.int64]) -> float:
    """Compute the entropy, in nats, of a partition into clusters of the given positive sizes."""
    n = counts.sum()
    return float(np.sum(counts * np.log(n / counts)) / n)


def _information(table: ContingencyTable) -> float:
    # (n_kl/a_k)(n/b_l) is exactly n/b_l in pure rows, so equal partitions give I = H to the bit
    lift = table.counts / table.row_sizes[table.rows]
    lift *= table.n_samples / table.column_sizes[table.columns]
    return max(0.0, float(np.sum(table.counts * np.log(lift)) / table.n_samples))


def _variation(table: ContingencyTable) -> float:
    # H(C|C′) + H(C′|C) term by term: nothing cancels, and equal partitions give exactly 0
    rows = table.row_sizes[table.rows] / table.counts
    columns = table.column_sizes[table.columns] / table.counts
    return float(np.sum(table.counts * (np.log(rows) + np.log(columns))) / table.n_samples)


def _normalizer(table: ContingencyTable, average_method: str) -> float:
    OneOf(*_NORMALIZERS).check("An index of information", "average_method", average_method)
    h, g = entropy_of(table.row_sizes), entropy_of(table.column_sizes)
    return _NORMALIZERS[average_method](h, g, entropy_of(table.counts))
