"""Rank correlation and the Mann–Whitney test, with which validity indices can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import comb
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.indices.contingency import (
    ContingencyTable,
    contingency_table,
    label_arrays,
)
from metriclearn.indices.pairs import pair_counts
from metriclearn.problem.partition import label_values
from metriclearn.running.parameters import Needs, Real, Whole, needs
from metriclearn.running.values import real_array

Ties = Literal["agree", "ignore"]
_COUNTABLE = 4_000_000_000  # pairs fit in 63 bits
_EXACT_SIZE = 60  # largest total number of samples with an exact permutation distribution


class MannWhitney(NamedTuple):
    """Result of a Mann–Whitney test.

    Parameters
    ----------
    u1, u2 : float
        The statistic U of the first and of the second sample. Their sum u1 + u2 is n1 n2.
    p_value : float
        The two-sided p-value.
    method : "exact" or "asymptotic"
        How the p-value was computed.

    See Also
    --------
    mann_whitney_u : returns a MannWhitney.

    Examples
    --------
    >>> from metriclearn.indices import mann_whitney_u
    >>> mann_whitney_u([1, 2, 3], [4, 5, 6]).u1
    0.0
    """

    u1: float
    u2: float
    p_value: float
    method: str


@needs
def goodman_kruskal_gamma(
    a: ArrayLike | None = None,
    b: ArrayLike | None = None,
    *,
    ties: Ties = "ignore",
    contingency: Any = None,
) -> float:
    """Goodman–Kruskal γ = (S₊ − S₋) / (S₊ + S₋) for S₊ concordant and S₋ discordant pairs.

    If no pair is concordant or discordant, the ratio is 0/0, and γ is nan. The pairs are counted
    exactly, in O(n log n) time.

    Parameters
    ----------
    a, b : sequences of n sortable values
    contingency : ContingencyTable or (K, K′) array, optional
        The contingency table of a and b, in place of a and b. The rows must be sorted by the values
        of a, and the columns by the values of b.
    ties : "ignore" or "agree"
        Whether pairs that are tied in both a and b are ignored, or counted as concordant.

    Returns
    -------
    float in [−1, 1], or nan

    Raises
    ------
    ValueError
        If values are not finite numbers, or the lengths differ.

    References
    ----------
    L. A. Goodman and W. H. Kruskal, "Measures of association for cross classifications", Journal
    of the American Statistical Association 49, 1954.
    """
    if contingency is None:
        table = _ordered_table(a, b)
    else:
        table = contingency_table(a, b, contingency=contingency)  # type: ignore[arg-type]
    if table.n_samples > _COUNTABLE:
        raise ValueError(
            f"goodman_kruskal_gamma counts pairs of at most {_COUNTABLE} samples, got "
            f"{table.n_samples}; scale the table down."
        )
    untied, agreeing = _untied_and_agreeing(table, ties)
    total = untied + agreeing
    return (total - 2 * _discordant(table)) / total if total else float("nan")


@needs
def weighted_goodman_kruskal(
    a: ArrayLike,
    b: ArrayLike,
    *,
    ties: Ties = "agree",
    denominator: Literal["signs", "weights"] = "signs",
) -> float:
    """Weighted Goodman–Kruskal index Σ ŵ_ij / Σ |w_ij|.

    The index compares the order of the values, like a rank correlation, and also their differences,
    like Pearson correlation. The sums are over pairs i, j of positions. The differences a_i − a_j
    and b_i − b_j are first divided by the ranges of a and b. w_ij is the sign of the product of the
    two differences. ŵ_ij has the same sign, and |ŵ_ij| is the smaller absolute difference divided
    by the larger. The index is ±1 if and only if b is an affine function of a. If the denominator
    is 0, the index is nan. It takes O(n²) time and O(n) memory.

    Parameters
    ----------
    a, b : sequences of n finite numbers
    ties : "agree" (default) or "ignore"
        Whether pairs that are tied in both a and b count as full agreement, or are ignored.
    denominator : "signs" or "weights"
        Whether to divide by Σ |w_ij| or by Σ |ŵ_ij|. With "weights", the index can be ±1 even if b
        is not an affine function of a.

    Returns
    -------
    float in [−1, 1], or nan

    Raises
    ------
    ValueError
        If values are not finite numbers, or the lengths differ.

    References
    ----------
    R. J. G. B. Campello and E. R. Hruschka, "On comparing two sequences of numbers and its
    applications to clustering analysis", Information Sciences 179, 2009.
    """
    from metriclearn.indices.kernels import weighted_concordance

    a, b = _finite(a), _finite(b)
    untied, agreeing = _untied_and_agreeing(_ordered_table(a, b), ties)
    value, weight = weighted_concordance(a / (np.ptp(a) or 1.0), b / (np.ptp(b) or 1.0))
    total = agreeing + (weight if denominator == "weights" else untied)
    return float((value + agreeing) / total) if total else float("nan")


@needs
def mann_whitney_u(
    x: ArrayLike,
    y: ArrayLike,
    *,
    method: Literal["auto", "exact", "asymptotic"] = "auto",
) -> MannWhitney:
    """Wilcoxon–Mann–Whitney test of two independent samples: U and a two-sided p-value.

    U1 is the number of pairs (x, y) with y < x, where a tie counts as half a pair. The exact
    p-value is the probability that a random permutation gives a |U − n1 n2/2| at least as large as
    the observed one. In contrast to the exact method of scipy, this p-value takes ties into
    account. Dynamic programming over groups of tied values computes the p-value in at most
    O((n1+n2)² n1 n2) time.

    Parameters
    ----------
    x, y : arrays (n1,) and (n2,)
        Finite values of two independent samples.
    method : "auto", "exact" or "asymptotic"
        "asymptotic" is the normal approximation of scipy, with corrections for ties and continuity.
        "auto" is exact up to 60 samples in total, and asymptotic above.

    Returns
    -------
    MannWhitney
        ``u1``, ``u2``, ``p_value`` and ``method``.

    Raises
    ------
    ValueError
        If a sample is empty, or a value is not finite.

    References
    ----------
    H. B. Mann and D. R. Whitney, "On a test of whether one of two random variables is
    stochastically larger than the other", Annals of Mathematical Statistics 18, 1947.
    """
    x, y, ranks, u1 = _ranked(x, y)
    u2 = len(x) * len(y) - u1
    if method == "exact" or (method == "auto" and len(ranks) <= _EXACT_SIZE):
        return MannWhitney(u1, u2, _permutation_p(u1, len(x), len(y), ranks), "exact")
    from scipy.stats import mannwhitneyu

    p_value = float(mannwhitneyu(x, y, method="asymptotic").pvalue) if np.ptp(ranks) else 1.0
    return MannWhitney(u1, u2, p_value, "asymptotic")


@needs
def mann_whitney_z(x: ArrayLike, y: ArrayLike, *, continuity: bool = False) -> float:
    """Normal score (U − n1 n2/2) / σ, where U is the smaller of u1 and u2.

    σ² = n1 n2/12 · (N + 1) (1 − Σ(t³ − t)/(N³ − N)), where N = n1 + n2 and the sum is over groups
    of t tied values. The score is at most 0, and exactly 0 if all values are tied. It takes O(N log
    N) time.

    Parameters
    ----------
    x, y : arrays (n1,) and (n2,)
        Finite values of two independent samples.
    continuity : bool
        Whether to correct for continuity: U is moved by 1/2 towards its mean.

    Returns
    -------
    float ≤ 0

    Raises
    ------
    ValueError
        If a sample is empty, or a value is not finite.

    See Also
    --------
    mann_whitney_u : runs the test, and gives the reference.
    """
    from scipy.stats import tiecorrect

    x, y, ranks, u1 = _ranked(x, y)
    product = len(x) * len(y)
    deviation = (product / 12 * (len(ranks) + 1) * tiecorrect(ranks)) ** 0.5
    below = min(0.0, min(u1, product - u1) - product / 2 + (0.5 if continuity else 0.0))
    return below / deviation if deviation > 0 else 0.0


_SIZE = Whole(1, 1000)  # exact counts take n1 · n1 n2 steps on long integers


@needs
def mann_whitney_exact_p(
    u: Annotated[float, Real()], n1: Annotated[int, _SIZE], n2: Annotated[int, _SIZE]
) -> float:
    """Two-sided exact p-value min(1, 2 P(U ≤ min(u, n1 n2 − u))) of a statistic u.

    The p-value is for samples without ties. The p-value is computed with exact integers and one
    division, so only the result is rounded. It takes O(n1 · n1 n2) time.

    Parameters
    ----------
    u : float
        The statistic U of either sample, from 0 to n1 n2.
    n1, n2 : int
        Sizes of the samples, from 1 to 1000.

    Returns
    -------
    float in (0, 1]

    Raises
    ------
    ValueError
        If u or a size is out of range.

    See Also
    --------
    mann_whitney_u : runs the test, and gives the reference.
    """
    counts = _u_counts(n1, n2)
    if not 0 <= u <= n1 * n2:
        raise ValueError(f"mann_whitney_exact_p needs u from 0 to n1 n2 = {n1 * n2}, got {u}.")
    tail = sum(counts[: int(np.floor(min(u, n1 * n2 - u))) + 1])
    return min(1.0, float(Fraction(2 * tail, comb(n1 + n2, n1))))


@needs
def mann_whitney_critical(
    n1: Annotated[int, _SIZE],
    n2: Annotated[int, _SIZE],
    alpha: Annotated[
        float | str, Needs("an alpha between 0 and 1", lambda alpha: 0 < Fraction(str(alpha)) < 1)
    ] = 0.05,
) -> int | None:
    """Find the largest U that is significant at the two-sided level alpha, or None if no U is.

    It takes O(n1 · n1 n2) time and compares exact rational numbers. A widespread printed table is
    wrong at level .05 for sizes (4, 20), (9, 10), (14, 17) and (17, 14).

    Parameters
    ----------
    n1, n2 : int
        Sizes of the samples, from 1 to 1000.
    alpha : float or str
        Level between 0 and 1. A float is converted to the decimal number that Python prints for it,
        so 0.05 is exactly 5/100.

    Returns
    -------
    int or None

    Raises
    ------
    ValueError
        If a size or the level is out of range.

    See Also
    --------
    mann_whitney_u : runs the test, and gives the reference.
    """
    level = Fraction(str(alpha)) * comb(n1 + n2, n1)
    tail = 0
    for u, count in enumerate(_u_counts(n1, n2)):
        tail += count
        if 2 * tail > level:
            return u - 1 if u else None
    return n1 * n2


def _finite(values: ArrayLike) -> NDArray[np.float64]:
    return real_array("A rank index", "x or y", values, 1, allow=("empty",))


def _ordered_table(a: ArrayLike | None, b: ArrayLike | None) -> ContingencyTable:
    """Make the contingency table of two sequences, with rows and columns sorted by value."""
    rows, columns = map(label_values, label_arrays(a, b))  # type: ignore[arg-type]
    try:
        _, row_codes = np.unique(rows, return_inverse=True)
        _, column_codes = np.unique(columns, return_inverse=True)
    except TypeError as error:
        raise ValueError(
            f"A Goodman–Kruskal index needs values that can be sorted, got others ({error})."
        ) from error
    return ContingencyTable.from_codes(row_codes, column_codes)


def _untied_and_agreeing(table: ContingencyTable, ties: Ties) -> tuple[int, int]:
    """Count the pairs that differ in both sequences, and the tied pairs that count as agreeing.

    If ``ties="agree"``, the second number counts the pairs that are tied in both sequences.
    Otherwise the second number is 0.
    """
    counts = pair_counts(contingency=table)
    return counts.n00, counts.n11 if ties == "agree" else 0


def _discordant(table: ContingencyTable) -> int:
    """Count the discordant pairs of samples, whose rows and columns are in opposite orders.

    The cells are sorted by row. A discordant pair is therefore an inversion in the sequence of
    column numbers. A merge sort counts them in O(cells log cells) time. When two halves of a block
    are merged, each sample of the left half forms an inversion with every sample of the right half
    that is put before it.
    """
    n_cells = len(table.counts)
    size = 1 << (n_cells - 1).bit_length()
    columns = np.pad(table.columns, (0, size - n_cells))
    counts = np.pad(table.counts, (0, size - n_cells))
    total, width = 0, 2
    while width <= size:
        columns = columns.reshape(-1, width)
        counts = counts.reshape(-1, width)
        order = np.argsort(columns, axis=1, kind="stable")  # linear on two sorted halves
        columns = np.take_along_axis(columns, order, axis=1)
        counts = np.take_along_axis(counts, order, axis=1)
        right = np.where(order >= width // 2, counts, 0)
        total += int(np.sum((counts - right) * np.cumsum(right, axis=1)))
        width *= 2
    return total


def _ranked(
    x: ArrayLike, y: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float]:
    """Check the two samples. Return both samples, the ranks of the pooled values, and U1.

    Tied values get the mean of their ranks.
    """
    from scipy.stats import rankdata

    x, y = _finite(x), _finite(y)
    if len(x) == 0 or len(y) == 0:
        raise ValueError("The Mann–Whitney test needs two non-empty samples, got an empty one.")
    ranks = rankdata(np.concatenate([x, y]))
    return x, y, ranks, float(ranks[: len(x)].sum() - len(x) * (len(x) + 1) / 2)


def _permutation_p(u1: float, n1: int, n2: int, ranks: NDArray[np.float64]) -> float:
    """Compute P(|U − n1 n2/2| ≥ |u1 − n1 n2/2|) if ranks are randomly assigned to both samples."""
    whole = np.rint(2 * ranks).astype(np.int64)  # midranks are multiples of ½
    doubled, sizes = np.unique(whole, return_counts=True)
    ways = np.zeros((n1 + 1, int(np.sort(whole)[-n1:].sum()) + 1))
    ways[0, 0] = 1.0  # ways[k, s]: choices of k values whose doubled ranks sum to s
    for rank, size in zip(doubled.tolist(), sizes.tolist()):
        before = ways.copy()
        for chosen in range(1, min(size, n1) + 1):
            shift = chosen * rank
            if shift < ways.shape[1]:
                ways[chosen:, shift:] += comb(size, chosen) * before[:-chosen, : -shift or None]
    sums = ways[n1]
    u = (np.arange(len(sums)) - n1 * (n1 + 1)) / 2
    extreme = np.abs(u - n1 * n2 / 2) >= abs(u1 - n1 * n2 / 2) - 1e-9
    return min(1.0, float(sums[extreme].sum() / sums.sum()))


def _u_counts(n1: int, n2: int) -> Sequence[int]:
    """Count the arrangements of the two samples that give U, for each U = 0 … n1 n2.

    The counts are the coefficients of the Gaussian binomial, computed as exact integers.
    """
    counts = [1] + [0] * (n1 * n2)
    for i in range(1, min(n1, n2) + 1):
        top = max(n1, n2) + i
        for u in range(n1 * n2, top - 1, -1):  # times 1 − x^top
            counts[u] -= counts[u - top]
        for u in range(i, n1 * n2 + 1):  # over 1 − x^i
            counts[u] += counts[u - i]
    return counts
