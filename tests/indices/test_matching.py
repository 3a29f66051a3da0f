"""Misclassification error against all matchings, dense and sparse."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import metriclearn.indices as indices
from metriclearn.indices import matching


def test_against_all_matchings() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        table = rng.integers(0, 6, (3, 4))
        table[:, 0] += 1
        best = max(sum(table[k, p[k]] for k in range(3)) for p in permutations(range(4), 3))
        error = indices.misclassification_error(contingency=table)
        assert error == pytest.approx(1 - best / table.sum(), abs=1e-15)
        assert indices.misclassification_error(contingency=table.T) == error


def test_sparse_matching_equals_the_dense_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    cases = [(rng.integers(0, K, 60), rng.integers(0, L, 60)) for K, L in [(5, 9), (40, 30)] * 5]
    dense = [indices.misclassification_error(a, b) for a, b in cases]
    monkeypatch.setattr(matching, "_DENSE_CELLS", 0)
    assert [indices.misclassification_error(a, b) for a, b in cases] == dense


def test_many_clusters_need_no_dense_table() -> None:
    n = 100_000
    labels = np.arange(n)
    assert indices.misclassification_error(labels, labels[::-1]) == 0.0
    assert indices.misclassification_error(labels, labels // 2) == 0.5
