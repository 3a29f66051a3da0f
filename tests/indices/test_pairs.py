"""Pair counting against enumeration of pairs, and the loss against dense matrices."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import metriclearn.indices as indices
from metriclearn.problem.partition import Partition


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


def test_values_where_a_formula_is_zero_over_zero() -> None:
    one, many = [0, 0, 0], [0, 1, 2]
    assert indices.fowlkes_mallows_score(many, many) == 1.0
    assert indices.jaccard_score(many, many) == 1.0
    assert indices.fowlkes_mallows_score(one, many) == 0.0
    assert indices.jaccard_score(one, many) == 0.0
    assert indices.adjusted_rand_score(one, many) == 0.0
    assert indices.rand_score([7], [8]) == indices.adjusted_rand_score([7], [8]) == 1.0


def test_loss_is_the_distance_of_the_projections() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        a, b = rng.integers(0, 5, (2, 15))
        M, N = (Partition.from_labels(labels).to_array() for labels in (a, b))
        squared = np.sum((M - N) ** 2)
        assert indices.partition_loss(a, b) == pytest.approx(squared / 15, abs=1e-14)
        assert indices.partition_loss(a, b, normalized=False) == pytest.approx(squared, abs=1e-13)
