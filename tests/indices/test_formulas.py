"""Pair counting, matching and information: enumeration, dense matrices, values worked by hand."""

from itertools import combinations, permutations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.stats import hypergeom

import metriclearn.indices as indices


def test_pair_counts_against_enumeration() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, b = rng.integers(0, 4, (2, 12))
        together = [(a[i] == a[j], b[i] == b[j]) for i, j in combinations(range(12), 2)]
        expected = tuple(
            together.count(kind)
            for kind in [(True, True), (True, False), (False, True), (False, False)]
        )
        assert indices.pair_counts(a, b) == expected


def test_against_all_matchings() -> None:
    rng = np.random.default_rng(0)
    for table in rng.integers(0, 6, (30, 3, 4)) + np.eye(1, 4, dtype=int):
        best = max(sum(table[k, p[k]] for k in range(3)) for p in permutations(range(4), 3))
        error = indices.misclassification_error(contingency=table)
        assert error == pytest.approx(1 - best / table.sum(), abs=1e-15)


def test_sparse_matching_equals_the_dense_one() -> None:
    rng = np.random.default_rng(1)
    labels, noise = rng.integers(0, 1200, (2, 3000))
    mixed = np.where(rng.random(3000) < 0.7, labels, noise)
    table = indices.contingency_table(labels, mixed).to_array()
    assert table.size > 10**6  # matched through its cells
    best = table[linear_sum_assignment(table, maximize=True)].sum()
    assert indices.misclassification_error(labels, mixed) == (3000 - best) / 3000


def test_many_clusters_need_no_dense_table() -> None:
    n = 100_000
    labels = np.arange(n)
    assert indices.misclassification_error(labels, labels[::-1]) == 0.0
    assert indices.misclassification_error(labels, labels // 2) == 0.5


def test_normalizers_when_one_partition_is_trivial() -> None:
    one, two = [0, 0, 0, 0], [0, 0, 1, 1]
    for average in ("arithmetic", "joint", "sum", "geometric", "min", "max"):
        score = indices.normalized_mutual_info_score(one, two, average_method=average)
        adjusted = indices.adjusted_mutual_info_score(one, two, average_method=average)
        assert score == adjusted == 0.0
        assert indices.normalized_mutual_info_score(one, one, average_method=average) == 1.0
        assert indices.adjusted_mutual_info_score(one, one, average_method=average) == 1.0


def test_expected_information_against_the_hypergeometric_distribution() -> None:
    for rows, columns in (([3, 4, 5], [6, 6]), ([1, 1, 10], [4, 8]), ([100, 60], [30, 130])):
        n, expected = sum(rows), 0.0
        for a in rows:
            for b in columns:
                m = np.arange(1, min(a, b) + 1)
                terms = m / n * np.log(n * m / (a * b)) * hypergeom.pmf(m, n, a, b)
                expected += float(terms.sum())
        found = indices.expected_mutual_information(np.array(rows), np.array(columns))
        assert found == pytest.approx(expected, rel=1e-11)


def test_expected_information_of_a_billion_samples() -> None:
    # for large n, 2 n I is chi-squared with (K-1)(K'-1) degrees of freedom on average
    sizes = np.full(4, 250_000_000)
    found = indices.expected_mutual_information(sizes, sizes)
    assert found == pytest.approx(9 / (2 * 10**9), rel=1e-3)
