"""Correct any index for chance: (index − E[index]) / (maximum − E[index])."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Hashable, Iterator
from itertools import islice
from typing import Annotated, Any

import numpy as np

from metriclearn.indices import information, pairs
from metriclearn.indices.contingency import ContingencyTable, contingency_table, of_partitions
from metriclearn.running.parameters import Of, RandomState, Real, Whole, needs

_ENUMERATED_TABLES = 5000


class Estimate(float):
    """A float with its standard error and the name of the method that computed it.

    Parameters
    ----------
    value : float
        The value of the estimate.

    Attributes
    ----------
    standard_error : float
        Standard error of the value. This error is 0 for the methods "closed form" and
        "enumeration", which are exact.
    method : str
        "closed form", "enumeration" (of all tables) or "sampling" (of random tables).

    See Also
    --------
    expected_under_permutation, adjusted : return an Estimate.

    Examples
    --------
    >>> from metriclearn.indices import expected_under_permutation, rand_score
    >>> value = expected_under_permutation(rand_score, [0, 0, 1, 1], [0, 1, 1, 1])
    >>> float(value), value.method, value.standard_error
    (0.5, 'closed form', 0.0)
    """

    standard_error: float
    method: str

    def __new__(cls, value: float, standard_error: float = 0.0, method: str = "") -> Estimate:
        self = super().__new__(cls, value)
        self.standard_error, self.method = standard_error, method
        return self


@of_partitions
@needs
def adjusted(
    index: Annotated[Callable[..., float], Of("__call__", "rand_score")],
    table: ContingencyTable,
    *,
    maximum: Annotated[float, Real(-np.inf)] = 1.0,
    n_permutations: Annotated[int, Whole(2)] = 1000,
    random_state: RandomState = 0,
) -> Estimate:
    """Correct an index i for chance: (i − E[i]) / (maximum − E[i]).

    The corrected index is 0 on average for random labels with the given cluster sizes, and 1 for
    equal partitions. If E[i] is estimated by sampling, the standard error of the result is computed
    from the standard error of E[i], to first order. If every relabeling gives the maximum, the
    ratio is 0/0, and the value is 1. Most of the time is spent on the expectation, see
    :func:`expected_under_permutation`.

    Parameters
    ----------
    labels_true, labels_pred, contingency, ignore_label : see :func:`contingency_table`
    index : callable
        An index of this package, or any function of two labelings.
    maximum : float
        Value of the index for equal partitions, such as 1 for a similarity and 0 for a distance.
    n_permutations, random_state : see :func:`expected_under_permutation`.

    Returns
    -------
    Estimate
        A float, with ``standard_error`` and ``method``.

    Raises
    ------
    ValueError
        See :func:`contingency_table`.

    References
    ----------
    Hubert & Arabie, Comparing partitions, Journal of Classification 2, 1985.
    """
    expected = expected_under_permutation(
        index, contingency=table, n_permutations=n_permutations, random_state=random_state
    )
    value, room = _on_table(index)(table), maximum - expected
    if abs(room) <= 1e-12 * max(1.0, abs(maximum)):
        return Estimate(1.0 if table.equal or value == maximum else 0.0, 0.0, expected.method)
    slope = abs(value - maximum) / room**2
    return Estimate((value - expected) / room, slope * expected.standard_error, expected.method)


@of_partitions
@needs
def expected_under_permutation(
    index: Annotated[Callable[..., float], Of("__call__", "rand_score")],
    table: ContingencyTable,
    *,
    n_permutations: Annotated[int, Whole(2)] = 1000,
    random_state: RandomState = 0,
) -> Estimate:
    """Compute the mean of an index over all relabelings with the same cluster sizes.

    There are closed forms for the Rand index, Fowlkes–Mallows, mutual information, variation of
    information and the loss ℓ. For any other index, the method depends on the number of contingency
    tables with these cluster sizes. If there are at most 5 000 tables, all are enumerated with
    their hypergeometric probabilities, and the mean is exact. Otherwise the mean is estimated from
    random tables in O(n_permutations (n + K K′)) time, and has a standard error.

    Parameters
    ----------
    labels_true, labels_pred, contingency, ignore_label : see :func:`contingency_table`
    index : callable
        An index of this package, or any function of two labelings.
    n_permutations : int ≥ 2
        Number of random tables, if tables are drawn.
    random_state : int, Generator or None
        Seed for drawing tables. With the default, the result is reproducible.

    Returns
    -------
    Estimate
        A float, with ``standard_error`` and ``method``.

    Raises
    ------
    ValueError
        See :func:`contingency_table`.

    References
    ----------
    L. Hubert and P. Arabie, "Comparing partitions", Journal of Classification 2, 1985 (Rand); E. B.
    Fowlkes and C. L. Mallows, Journal of the American Statistical Association 78, 1983; N. X. Vinh,
    J. Epps and J. Bailey, Journal of Machine Learning Research 11, 2010 (information).
    """
    from scipy.stats import random_table

    if isinstance(index, Hashable) and index in _CLOSED_FORMS:
        return Estimate(_CLOSED_FORMS[index](table), 0.0, "closed form")
    evaluate = _on_table(index)
    tables = _all_tables(table.row_sizes.tolist(), table.column_sizes.tolist())
    every = list(islice(tables, _ENUMERATED_TABLES + 1))
    distribution = random_table(table.row_sizes, table.column_sizes)
    if len(every) <= _ENUMERATED_TABLES:
        mean = math.fsum(distribution.pmf(one) * evaluate(one) for one in every)
        return Estimate(mean, 0.0, "enumeration")
    generator = np.random.default_rng(random_state)
    drawn = (distribution.rvs(random_state=generator) for _ in range(n_permutations))
    values = np.array([evaluate(one) for one in drawn])
    error = float(values.std(ddof=1) / math.sqrt(n_permutations))
    return Estimate(float(values.mean()), error, "sampling")


def _on_table(index: Callable[..., float]) -> Callable[[Any], float]:
    """Turn an index into a function of a table: a ContingencyTable or a dense array of counts."""
    if "contingency" in inspect.signature(index).parameters:
        return lambda table: float(index(contingency=table))
    return lambda table: float(index(*contingency_table(contingency=table).to_labels()))


def _expected_rand(table: ContingencyTable) -> float:
    n11, n10, n01, n00 = pairs.pair_counts(contingency=table)
    total, true, pred = n11 + n10 + n01 + n00, n11 + n10, n11 + n01
    return (true * pred + (total - true) * (total - pred)) / total**2 if total else 1.0


def _expected_fowlkes_mallows(table: ContingencyTable) -> float:
    n11, n10, n01, n00 = pairs.pair_counts(contingency=table)
    true, pred = n11 + n10, n11 + n01
    if true == 0 or pred == 0:
        return 1.0 if true == pred else 0.0
    return math.sqrt(true * pred) / (n11 + n10 + n01 + n00)


def _expected_information(table: ContingencyTable) -> float:
    return information.expected_mutual_information(table.row_sizes, table.column_sizes)


def _expected_variation(table: ContingencyTable) -> float:
    h, g = map(information.entropy_of, (table.row_sizes, table.column_sizes))
    return max(0.0, h + g - 2.0 * _expected_information(table))


def _expected_loss(table: ContingencyTable) -> float:
    """Compute the expected loss ℓ of random labelings.

    The counts in the table are hypergeometric. With M and N as in :func:`partition_loss`, the mean
    and variance of the counts give E[Tr MN] = 1 + (K−1)(K′−1)/(n−1). The expected loss follows from
    this mean.
    """
    rows, columns, n = len(table.row_sizes), len(table.column_sizes), table.n_samples
    inner = 1.0 + (rows - 1) * (columns - 1) / max(n - 1, 1)
    return (rows + columns - 2.0 * inner) / n


_CLOSED_FORMS: dict[Callable[..., float], Callable[[ContingencyTable], float]] = {
    pairs.rand_score: _expected_rand,
    pairs.fowlkes_mallows_score: _expected_fowlkes_mallows,
    information.mutual_info_score: _expected_information,
    information.variation_of_information: _expected_variation,
    pairs.partition_loss: _expected_loss,
}


def _all_tables(rows: list[int], columns: list[int]) -> Iterator[list[list[int]]]:
    """Yield every table with the given row sums and column sums, as a list of rows."""
    if len(rows) == 1:
        yield [columns]
        return
    for row in _splits(rows[0], columns):
        left = [column - count for column, count in zip(columns, row)]
        for rest in _all_tables(rows[1:], left):
            yield [row, *rest]


def _splits(total: int, caps: list[int]) -> Iterator[list[int]]:
    """Yield every way to distribute ``total`` samples over cells. Cell i holds at most ``caps[i]``.

    The limits ``caps`` must sum to at least ``total``.
    """
    if not caps:
        yield []
        return
    first, *others = caps
    for count in range(max(0, total - sum(others)), min(total, first) + 1):
        for rest in _splits(total - count, others):
            yield [count, *rest]
