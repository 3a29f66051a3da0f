"""Information indices: hand-worked values, bases, and the exact expectation of I."""

from __future__ import annotations

import math

import numpy as np
import pytest

import metriclearn.indices as indices


def test_hand_worked_values() -> None:
    a, b = [0, 0, 1, 1], [0, 1, 0, 1]
    assert indices.entropy(a) == pytest.approx(math.log(2))
    assert indices.entropy(a, b) == pytest.approx(math.log(4))
    assert indices.mutual_info_score(a, b) == 0.0
    assert indices.variation_of_information(a, b) == pytest.approx(2 * math.log(2))
    assert indices.variation_of_information(a, b, base=2) == pytest.approx(2.0)
    assert indices.entropy(a, base=2) == pytest.approx(1.0)
    assert indices.mutual_info_score(a, a, base=2) == pytest.approx(1.0)
    for average in ("joint", "log_n"):
        normalized = indices.normalized_variation_of_information(a, b, average_method=average)
        assert normalized == pytest.approx(1.0)


def test_normalizers_when_one_partition_is_trivial() -> None:
    one, two = [0, 0, 0, 0], [0, 0, 1, 1]
    for average in ("arithmetic", "joint", "sum", "geometric", "min", "max"):
        score = indices.normalized_mutual_info_score(one, two, average_method=average)
        adjusted = indices.adjusted_mutual_info_score(one, two, average_method=average)
        assert score == adjusted == 0.0
        assert indices.normalized_mutual_info_score(one, one, average_method=average) == 1.0
        assert indices.adjusted_mutual_info_score(one, one, average_method=average) == 1.0
    assert indices.normalized_mutual_info_score(two, two, average_method="sum") == 0.5


def test_expected_information_against_the_hypergeometric_distribution() -> None:
    from scipy.stats import hypergeom

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
