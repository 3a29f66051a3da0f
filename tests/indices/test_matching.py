"""Misclassification error against all matchings, dense and sparse."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import metriclearn.indices as indices


def test_against_all_matchings() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        table = rng.integers(0, 6, (3, 4))
        table[:, 0] += 1
        best = max(sum(table[k, p[k]] for k in range(3)) for p in permutations(range(4), 3))
        error = indices.misclassification_error(contingency=table)
        assert error == pytest.approx(1 - best / table.sum(), abs=1e-15)
        assert indices.misclassification_error(contingency=table.T) == error


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
