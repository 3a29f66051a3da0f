"""Laws of every listed index of two partitions. A new index is tried without a change here."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metriclearn.indices as indices
from metriclearn.indices import registered
from metriclearn.problem.partition import Partition
from tests.strategies import labelings

LISTED = registered.listed_indices()
CLOSE = {"abs": 1e-12, "rel": 1e-12}
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
pairs = settings(max_examples=50, deadline=None)


@pairs
@given(labelings(2), st.permutations(range(6)), st.randoms(use_true_random=False))
def test_names_of_labels_order_of_samples_and_of_partitions_do_not_matter(pair, names, random):
    a, b = pair
    order = random.sample(range(len(a)), len(a))
    renamed = [f"cluster {names[a[i]]}" for i in order]
    reordered = [(names[b[i]], "b") for i in order]
    for name, index in LISTED.items():
        value = index.function(a, b)
        assert index.function(renamed, reordered) == pytest.approx(value, **CLOSE), name
        if index.symmetric:
            assert index.function(b, a) == pytest.approx(value, **CLOSE), name


@pairs
@given(labelings(2))
def test_equal_partitions_have_the_perfect_value_and_no_other_is_better(pair) -> None:
    a, b = pair
    for name, index in LISTED.items():
        best, value = index.function(a, a), index.function(a, b)
        assert index.perfect is None or best == index.perfect, name
        sign = 1.0 if index.better == "higher" else -1.0
        assert sign * value <= sign * best + 1e-12, name


@pairs
@given(labelings(2), st.sets(st.integers(1, 13)), st.sets(st.integers(1, 13)))
def test_tables_partitions_segmentations_and_ignored_samples_give_the_same_value(
    pair, first, second
) -> None:
    a, b = (np.array(labels) for labels in pair)
    n, table = len(a), indices.contingency_table(a, b)
    segments = [
        Partition.from_change_points([c for c in ends if c < n], n) for ends in (first, second)
    ]
    for name, index in LISTED.items():
        value = index.function(a, b)
        for given_table in (table, table.to_array(), table.to_array()[:, ::-1]):
            assert index.function(contingency=given_table) == pytest.approx(value, **CLOSE), name
        partitions = Partition.from_labels(a), Partition.from_labels(b)
        assert index.function(*partitions) == pytest.approx(value, **CLOSE), name
        named = [one.labels for one in segments]
        expected = pytest.approx(index.function(*named), abs=1e-14, rel=1e-14)
        assert index.function(*segments) == expected, name
        kept = (a != 5) & (b != 5)
        if kept.any():
            expected = index.function(a[kept], b[kept])
            assert index.function(a, b, ignore_label=5) == expected, name


@pairs
@given(labelings(2))
def test_ranges(pair: list[list[int]]) -> None:
    a, b = pair
    for name, limits in RANGES.items():
        low, high = limits(len(a), len(set(a)), len(set(b)))
        assert low - 1e-12 <= getattr(indices, name)(a, b) <= high + 1e-12, name


@pairs
@given(labelings(2))
def test_only_equal_partitions_are_perfect(pair: list[list[int]]) -> None:
    same = indices.contingency_table(*pair).equal
    for index in (*METRICS, indices.partition_loss):
        assert same == (index(*pair) == 0.0), index.__name__
    assert same == (indices.rand_score(*pair) == 1.0)
    assert indices.mutual_info_score(pair[0], pair[0]) == indices.entropy(pair[0])


@pairs
@given(labelings(3))
def test_triangle_inequality(triple: list[list[int]]) -> None:
    a, b, c = triple
    for metric in METRICS:
        assert metric(a, c) <= metric(a, b) + metric(b, c) + 1e-12, metric.__name__
    # the loss is a squared metric
    assert math.sqrt(indices.partition_loss(a, c)) <= (
        math.sqrt(indices.partition_loss(a, b)) + math.sqrt(indices.partition_loss(b, c)) + 1e-12
    )


def test_compare_is_every_index_of_one_table() -> None:
    a, b = [0, 0, 1, 1, 2, 2], ["x", "x", "x", "y", "y", "y"]
    values = indices.compare(a, b)
    assert values == {name: index.function(a, b) for name, index in LISTED.items()}
    frame = indices.compare(a, b, as_frame=True)
    rows = [(name, values[name], index.better) for name, index in LISTED.items()]
    assert list(frame.columns) == ["index", "value", "better"]
    assert list(frame.itertuples(index=False, name=None)) == rows


def test_a_decorated_function_of_labelings_is_an_index(monkeypatch: Any) -> None:
    monkeypatch.setattr(registered, "LISTED", {**registered.LISTED})

    @registered.index(perfect=1.0, symmetric=False)
    def purity(labels_true: Any, labels_pred: Any, *, power: float = 1.0) -> float:
        table = indices.contingency_table(labels_true, labels_pred).to_array()
        return float(table.max(axis=0).sum() / table.sum()) ** power

    assert indices.compare([0, 0, 1], [0, 1, 1])["purity"] == pytest.approx(2 / 3)
    assert purity(contingency=[[1, 1], [0, 1]], power=2.0) == pytest.approx(4 / 9)
    assert purity([0, 0, 1, -1], [0, 1, 1, 0], ignore_label=-1) == pytest.approx(2 / 3)
    assert set(registered.listed_indices()) == {*LISTED, "purity"}


# Indices of one clustering and its points

INTERNAL = [
    indices.davies_bouldin_score,
    indices.calinski_harabasz_score,
    indices.silhouette_score,
    indices.dunn_score,
]


@pytest.fixture
def blobs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, 120)
    return rng.normal(size=(120, 3)) + 2 * labels[:, None], labels


@pytest.mark.parametrize("index", INTERNAL)
def test_names_and_order_do_not_matter_and_distances_are_invariant(index, blobs) -> None:
    X, labels = blobs
    value = index(X, labels)
    order = np.random.default_rng(2).permutation(len(X))
    assert index(X[order], [f"c{label}" for label in labels[order]]) == pytest.approx(value)
    rotation, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))
    assert index(7 * X @ rotation + 100, labels) == pytest.approx(value)
    X = np.round(X * 2**20) / 2**20  # so that a shift far from the origin is exact
    assert index(X + 2.0**20, labels) == pytest.approx(index(X, labels), rel=1e-9)


@pytest.mark.parametrize("index", INTERNAL)
def test_learned_metrics(index, blobs) -> None:
    X, labels = blobs
    L = np.random.default_rng(4).normal(size=(3, 2))
    expected = index(X @ L, labels)
    assert index(X, labels, metric=L @ L.T) == pytest.approx(expected)

    class Learner:
        def transform(self, X: np.ndarray) -> np.ndarray:
            return X @ L

    assert index(X, labels, metric=Learner()) == pytest.approx(expected)
    weights = np.array([4.0, 0.0, 1.0])
    assert index(X, labels, metric=weights) == pytest.approx(index(X * np.sqrt(weights), labels))
