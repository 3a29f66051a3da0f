"""Properties of every index of two partitions, on random partitions."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy

import metriclearn.indices as indices
from tests.strategies import labelings

ALL = [getattr(indices, name) for name in indices.compare([0], [0])]
SIMILARITIES = [f for f in ALL if f.__name__.endswith("score")]
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


@settings(max_examples=30, deadline=None)
@given(labelings(2), st.permutations(range(6)), st.randoms(use_true_random=False))
def test_names_of_labels_order_of_samples_and_of_partitions_do_not_matter(pair, names, random):
    a, b = pair
    order = list(range(len(a)))
    random.shuffle(order)
    renamed = [f"cluster {names[a[i]]}" for i in order]
    reordered = [(names[b[i]], "b") for i in order]
    for index in ALL:
        value = index(a, b)
        assert index(renamed, reordered) == pytest.approx(value, abs=1e-12)
        assert index(b, a) == pytest.approx(value, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(labelings(2))
def test_ranges(pair: list[list[int]]) -> None:
    a, b = pair
    for index in ALL:
        low, high = RANGES[index.__name__](len(a), len(set(a)), len(set(b)))
        assert low - 1e-12 <= index(a, b) <= high + 1e-12, index.__name__


@settings(max_examples=60, deadline=None)
@given(labelings(2))
def test_equal_partitions_are_recognized_and_only_they(pair: list[list[int]]) -> None:
    a, b = pair
    same = indices.contingency_table(a, b).equal
    assert same == (indices.misclassification_error(a, b) == 0.0)
    assert same == (indices.variation_of_information(a, b) == 0.0)
    assert same == (indices.partition_loss(a, b) == 0.0)
    assert same == (indices.rand_score(a, b) == 1.0)
    for index in SIMILARITIES:
        if index is not indices.mutual_info_score:
            assert index(a, a) == 1.0, index.__name__
    assert indices.mutual_info_score(a, a) == indices.entropy(a)


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


def test_compare_is_every_index_of_one_table() -> None:
    a, b = [0, 0, 1, 1, 2, 2], ["x", "x", "x", "y", "y", "y"]
    values = indices.compare(a, b)
    assert values.keys() == RANGES.keys()
    assert values == {index.__name__: index(a, b) for index in ALL}
    frame = indices.compare(a, b, as_frame=True)
    assert list(frame.columns) == ["index", "value", "better"]
    assert dict(zip(frame["index"], frame["value"])) == values
    assert (frame["better"] == "lower").sum() == 4
