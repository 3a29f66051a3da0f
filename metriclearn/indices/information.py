"""Indices of information theory: entropy, mutual information, variation of information.

A random sample is in true cluster k with probability a_k / n, in predicted cluster l with
probability b_l / n, and in both with probability n_kl / n. Logarithms are natural unless a ``base``
is given. Every function takes labels or partitions, or ``contingency=``, and ``ignore_label=``;
each costs O(n) for labels, O(cells) for a table and O(K + K′) for two segmentations.

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

from metriclearn.indices.contingency import (
    ContingencyTable,
    Labels,
    contingency_table,
    of_partitions,
)
from metriclearn.running.parameters import either, number, real_array

_NORMALIZERS: dict[str, Callable[[float, float, float], float]] = {
    "arithmetic": lambda h, g, joint: (h + g) / 2.0,
    "joint": lambda h, g, joint: joint,
    "sum": lambda h, g, joint: h + g,
    "geometric": lambda h, g, joint: math.sqrt(h * g),
    "min": lambda h, g, joint: min(h, g),
    "max": lambda h, g, joint: max(h, g),
}
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

    Entropy is in [0, ln K]; the joint entropy is at most H(C) + H(C′). Hussain & Meilă 2014, Eq.
    (4).

    Parameters
    ----------
    labels_true, labels_pred, contingency, ignore_label : see :func:`contingency_table`
    base : float, optional
        Base of the logarithm, above 1; e by default (nats).

    Returns
    -------
    float ≥ 0

    Raises
    ------
    ValueError
        See :func:`contingency_table`; also for a base that is not above 1.
    """
    if labels_pred is None and contingency is None:  # the cells of (C, C) are the clusters of C
        labels_pred = labels_true
    table = contingency_table(
        labels_true, labels_pred, contingency=contingency, ignore_label=ignore_label
    )
    return entropy_of(table.counts) / log_base(base)


@of_partitions
def mutual_info_score(table: ContingencyTable, *, base: float | None = None) -> float:
    """Mutual information I = Σ_kl (n_kl/n) ln(n n_kl / (a_k b_l)), Hussain & Meilă 2014, Eq. (5).

    It is in [0, min(H, H′)], 0 for independent partitions, and symmetric.

    Parameters
    ----------
    labels_true, labels_pred, contingency, ignore_label : see :func:`contingency_table`
    base : float, optional
        Base of the logarithm, above 1; e by default (nats).

    Returns
    -------
    float ≥ 0

    Raises
    ------
    ValueError
        See :func:`contingency_table`; also for a base that is not above 1.
    """
    return _information(table) / log_base(base)


@of_partitions
def normalized_mutual_info_score(
    table: ContingencyTable, *, average_method: str = "arithmetic"
) -> float:
    """Mutual information divided by a normalizer, 2 I / (H + H′) by default.

    It is in [0, 1] (``"sum"``: [0, 1/2]), and symmetric. When the normalizer is 0, the value is 1
    for equal partitions and 0 otherwise. scikit-learn lacks "joint" and "sum". Vinh, Epps & Bailey
    2010 list the variants.

    Parameters
    ----------
    labels_true, labels_pred, contingency, ignore_label : see :func:`contingency_table`
    average_method : "arithmetic", "joint", "sum", "geometric", "min" or "max"
        (H + H′)/2, H(C, C′), H + H′, √(H H′), min(H, H′) or max(H, H′).

    Returns
    -------
    float in [0, 1]

    Raises
    ------
    ValueError
        See :func:`contingency_table`; also for an unknown ``average_method``.
    """
    normalizer = _normalizer(table, average_method)
    if normalizer == 0.0:
        return 1.0 if table.equal else 0.0
    return _information(table) / normalizer


@of_partitions
def adjusted_mutual_info_score(
    table: ContingencyTable, *, average_method: str = "arithmetic"
) -> float:
    """Mutual information corrected for chance, (I − E[I]) / (normalizer − E[I]).

    It is 0 on average for random labels with the same cluster sizes, 1 for equal partitions (except
    with "sum"), and symmetric. Vinh, Epps & Bailey 2010. E[I] visits every *distinct* pair of
    cluster sizes once: O(n + d d′ w), where w is the width of the hypergeometric distribution. The
    value is 0 when the normalizer equals E[I] and the partitions differ (0/0).

    Parameters
    ----------
    labels_true, labels_pred, contingency, ignore_label : see :func:`contingency_table`
    average_method : see :func:`normalized_mutual_info_score`.

    Returns
    -------
    float, at most 1

    Raises
    ------
    ValueError
        See :func:`contingency_table`; also for an unknown ``average_method``.
    """
    normalizer = _normalizer(table, average_method)
    if table.equal and average_method != "sum":
        return 1.0
    expected = expected_mutual_information(table.row_sizes, table.column_sizes)
    room = normalizer - expected
    if abs(room) <= _ROUNDING * max(1.0, normalizer):
        return 1.0 if table.equal else 0.0
    return (_information(table) - expected) / room


@of_partitions
def variation_of_information(table: ContingencyTable, *, base: float | None = None) -> float:
    """Variation of information H(C|C′) + H(C′|C) = H + H′ − 2I, a metric on partitions.

    It is in [0, ln n], and at most 2 ln max(K, K′). Equal partitions give exactly 0. Meilă 2007;
    Hussain & Meilă 2014, Eqs. (6) and (7) (Eq. (6) prints H(C) twice: the second is H(C′)). Their
    table in section 5.2 uses base 10.

    Parameters
    ----------
    labels_true, labels_pred, contingency, ignore_label : see :func:`contingency_table`
    base : float, optional
        Base of the logarithm, above 1; e by default (nats).

    Returns
    -------
    float ≥ 0

    Raises
    ------
    ValueError
        See :func:`contingency_table`; also for a base that is not above 1.
    """
    return _variation(table) / log_base(base)


@of_partitions
def normalized_variation_of_information(
    table: ContingencyTable, *, average_method: str = "joint"
) -> float:
    """Variation of information divided by a normalizer, VI / H(C, C′) by default, in [0, 1].

    With "joint" it equals 1 − I / H(C, C′). It is a metric with "joint" and "log_n". With "sum" it
    stays in [0, 1], with the other normalizers it can reach 2 or more. It is 0 for equal
    partitions, and symmetric. Vinh, Epps & Bailey 2010 (the joint variant).

    Parameters
    ----------
    labels_true, labels_pred, contingency, ignore_label : see :func:`contingency_table`
    average_method : as in :func:`normalized_mutual_info_score`, or "log_n" for ln n, the largest VI

    Returns
    -------
    float ≥ 0

    Raises
    ------
    ValueError
        See :func:`contingency_table`; also for an unknown ``average_method``.
    """
    log_n = isinstance(average_method, str) and average_method == "log_n"
    normalizer = math.log(table.n_samples) if log_n else _normalizer(table, average_method)
    if table.equal:
        return 0.0
    return _variation(table) / normalizer if normalizer else math.inf


def expected_mutual_information(row_sizes: NDArray, column_sizes: NDArray) -> float:
    """E[I] over random relabelings with the given cluster sizes (hypergeometric model).

    Vinh, Epps & Bailey 2010, Eq. (24a). The weights of each hypergeometric distribution are built
    by recurrence from its mode and divided by their sum: no factorial is computed, and the error
    stays near 1e-16 for any n. The value is in [0, min(H, H′)]. O(d d′ w) for d and d′ distinct
    sizes and windows of width w ≤ 2e5; wider distributions use a series.

    Parameters
    ----------
    row_sizes, column_sizes : arrays (K,) and (K′,)
        Positive whole sizes of the clusters of the two partitions, with equal sums.

    Returns
    -------
    float ≥ 0

    Raises
    ------
    ValueError
        If sizes are not positive whole numbers, or their sums differ.
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
    """The logarithm of a base, by which nats are divided; 1 for None."""
    if base is None:
        return 1.0
    number(1.0).check("An entropy", "logarithm base", base)
    if base == 1.0:
        raise ValueError("An entropy needs a logarithm base above 1, got 1.")
    return math.log(base)


def entropy_of(counts: NDArray[np.int64]) -> float:
    """Entropy of clusters with positive sizes, in nats."""
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
    either(*_NORMALIZERS).check("An index of information", "average_method", average_method)
    h, g = entropy_of(table.row_sizes), entropy_of(table.column_sizes)
    return _NORMALIZERS[average_method](h, g, entropy_of(table.counts))
