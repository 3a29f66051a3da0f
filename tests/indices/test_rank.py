"""Rank association against enumeration of pairs, and the Mann–Whitney test against scipy."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

import metriclearn.indices as indices


def literal_wgk(a: np.ndarray, b: np.ndarray, denominator: str, ties: str) -> float:
    a = (a - a.min()) / (np.ptp(a) or 1)
    b = (b - b.min()) / (np.ptp(b) or 1)
    top = bottom = 0.0
    for i, j in combinations(range(len(a)), 2):
        x, y = a[i] - a[j], b[i] - b[j]
        if x == 0 and y == 0:
            weight = 1.0 if ties == "agree" else 0.0
        elif x == 0 or y == 0:
            weight = 0.0
        else:
            weight = min(x / y, y / x) if x * y > 0 else max(x / y, y / x)
        top += weight
        bottom += abs(weight) if denominator == "weights" else abs(np.sign(weight))
    return top / bottom


@pytest.mark.parametrize("denominator", ["signs", "weights"])
@pytest.mark.parametrize("ties", ["agree", "ignore"])
def test_weighted_index_is_the_definition(denominator: str, ties: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(10):
        a, b = rng.integers(-4, 5, (2, 20)).astype(float)
        found = indices.weighted_goodman_kruskal(a, b, ties=ties, denominator=denominator)
        assert found == pytest.approx(literal_wgk(a, b, denominator, ties), abs=1e-12)


def test_gamma_against_enumeration_and_scipy() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        a, b = rng.integers(0, 6, (2, 25))
        signs = [np.sign(a[i] - a[j]) * np.sign(b[i] - b[j]) for i, j in combinations(range(25), 2)]
        concordant, discordant = signs.count(1), signs.count(-1)
        expected = (concordant - discordant) / (concordant + discordant)
        assert indices.goodman_kruskal_gamma(a, b) == expected
        table = np.zeros((6, 6), dtype=int)
        np.add.at(table, (a, b), 1)
        assert indices.goodman_kruskal_gamma(contingency=table) == expected
        assert indices.goodman_kruskal_gamma(b, a) == expected
        assert indices.goodman_kruskal_gamma(a, -b) == -expected
    x, y = rng.normal(size=(2, 300))
    assert indices.goodman_kruskal_gamma(x, y) == pytest.approx(stats.kendalltau(x, y)[0])
    assert indices.goodman_kruskal_gamma(list("abcd"), list("wxyz")) == 1.0
    assert indices.goodman_kruskal_gamma(contingency=np.eye(3, dtype=int) * 10**9) == 1.0


def test_exact_test_with_ties_against_all_assignments() -> None:
    rng = np.random.default_rng(7)
    for _ in range(10):
        pooled = rng.integers(0, 4, 9)
        ranks = stats.rankdata(pooled)

        def u(chosen: tuple[int, ...], ranks: np.ndarray = ranks) -> float:
            return float(ranks[list(chosen)].sum() - 10)

        every = [abs(u(chosen) - 10) for chosen in combinations(range(9), 4)]
        expected = np.mean([value >= every[0] - 1e-9 for value in every])
        found = indices.mann_whitney_u(pooled[:4], pooled[4:])
        assert found.p_value == pytest.approx(expected, rel=1e-12)


def test_critical_values_are_consistent_with_exact_p() -> None:
    for n1, n2 in [(3, 8), (9, 10), (17, 14), (25, 31)]:
        critical = indices.mann_whitney_critical(n1, n2, 0.05)
        assert critical == indices.mann_whitney_critical(n2, n1, "0.05")
        assert indices.mann_whitney_exact_p(critical, n1, n2) <= 0.05
        assert indices.mann_whitney_exact_p(critical + 1, n1, n2) > 0.05
    assert indices.mann_whitney_critical(9, 10) == 20  # a printed table: 21
    assert indices.mann_whitney_critical(17, 14) == 69  # a printed table: 67
    assert indices.mann_whitney_critical(1, 5) is None
    assert indices.mann_whitney_critical(3, 3, 0.1) == 0  # exactly the level


def test_mann_whitney_edges() -> None:
    assert indices.mann_whitney_u([1, 1], [1, 1, 1]) == (3.0, 3.0, 1.0, "exact")
    assert indices.mann_whitney_u([1] * 50, [1] * 50) == (1250.0, 1250.0, 1.0, "asymptotic")
    assert indices.mann_whitney_z([1, 1], [1, 1, 1]) == 0.0
