"""Ranges, metrics and peers of indices of two partitions; their laws: tests/conformance."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.stats import entropy

import metriclearn.indices as indices
from tests.strategies import labelings

METRICS: list[Callable[..., float]] = [
    indices.variation_of_information,
    indices.normalized_variation_of_information,
    indices.misclassification_error,
]
ZERO_TO_ONE = ("rand", "jaccard", "fowlkes_mallows", "normalized_mutual_info")
# (lowest, highest) value over all pairs of partitions of n samples into K and K' clusters
RANGES: dict[str, Callable[[int, int, int], tuple[float, float]]] = {
    **{f"{name}_score": lambda n, K, L: (0.0, 1.0) for name in ZERO_TO_ONE},
    "adjusted_rand_score": lambda n, K, L: (-0.5, 1.0),
    "mutual_info_score": lambda n, K, L: (0.0, math.log(min(K, L))),
    "adjusted_mutual_info_score": lambda n, K, L: (-1.0, 1.0),
    "variation_of_information": lambda n, K, L: (0.0, min(math.log(n), 2 * math.log(max(K, L)))),
    "normalized_variation_of_information": lambda n, K, L: (0.0, 1.0),
    "misclassification_error": lambda n, K, L: (0.0, 1 - 1 / max(K, L)),
    "partition_loss": lambda n, K, L: (0.0, (K + L - 2) / n),
}


@settings(max_examples=60, deadline=None)
@given(labelings(2))
def test_ranges(pair: list[list[int]]) -> None:
    a, b = pair
    for name, limits in RANGES.items():
        low, high = limits(len(a), len(set(a)), len(set(b)))
        assert low - 1e-12 <= getattr(indices, name)(a, b) <= high + 1e-12, name


@settings(max_examples=60, deadline=None)
@given(labelings(2))
def test_only_equal_partitions_are_perfect(pair: list[list[int]]) -> None:
    same = indices.contingency_table(*pair).equal
    for index in (*METRICS, indices.partition_loss):
        assert same == (index(*pair) == 0.0), index.__name__
    assert same == (indices.rand_score(*pair) == 1.0)
    assert indices.mutual_info_score(pair[0], pair[0]) == indices.entropy(pair[0])


@settings(max_examples=60, deadline=None)
@given(labelings(3))
def test_triangle_inequality(triple: list[list[int]]) -> None:
    a, b, c = triple
    for metric in METRICS:
        assert metric(a, c) <= metric(a, b) + metric(b, c) + 1e-12, metric.__name__
    # the loss is a squared metric
    assert math.sqrt(indices.partition_loss(a, c)) <= (
        math.sqrt(indices.partition_loss(a, b)) + math.sqrt(indices.partition_loss(b, c)) + 1e-12
    )


def test_agreement_with_scikit_learn() -> None:
    import sklearn.metrics as peer

    n, rng = 300, np.random.default_rng(0)
    for K in (1, 2, 40):
        a = rng.integers(0, K, n)
        b = np.where(rng.random(n) < 0.6, a, rng.integers(0, K + 1, n))
        assert indices.rand_score(a, b) == pytest.approx(peer.rand_score(a, b), abs=1e-13)
        for name in ("adjusted_rand_score", "fowlkes_mallows_score", "mutual_info_score"):
            theirs = getattr(peer, name)(a, b)
            assert getattr(indices, name)(a, b) == pytest.approx(theirs, abs=1e-12), name
        entropies = sum(entropy(np.bincount(labels)) for labels in (a, b))
        apart = entropies - 2 * peer.mutual_info_score(a, b)
        assert indices.variation_of_information(a, b) == pytest.approx(apart, abs=1e-12)
        for average in ("arithmetic", "geometric", "min", "max"):
            for name in ("normalized_mutual_info_score", "adjusted_mutual_info_score"):
                theirs = getattr(peer, name)(a, b, average_method=average)
                ours = getattr(indices, name)(a, b, average_method=average)
                assert ours == pytest.approx(theirs, abs=1e-9), (name, average, K)
        matrix = peer.cluster.pair_confusion_matrix(a, b)
        assert np.array_equal(indices.pair_confusion_matrix(a, b), matrix)
