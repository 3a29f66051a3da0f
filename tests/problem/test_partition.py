"""Partitions against their dense matrices."""

from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metriclearn import Partition
from tests.exhaustive import all_partitions, all_segmentations, equivalence_matrix, labels_of
from tests.strategies import labelings, segment_ends


@pytest.mark.parametrize("labels", [[0, 1, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1]])
@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.float32, np.int64])
@pytest.mark.parametrize("shape", [(6,), (6, 2), (6, 2, 3), (6, 0)])
def test_sums_of_arrays_of_all_dimensions_and_types(labels, dtype, shape) -> None:
    partition = Partition.from_labels(labels)
    X = np.full(shape, 100).astype(dtype)
    sums = np.stack([X[partition.labels == k].sum(axis=0) for k in range(2)])
    np.testing.assert_array_equal(partition.pool(X), sums)
    assert partition.pool(X).dtype == sums.dtype
    np.testing.assert_array_equal(partition.project(X), X)


@settings(max_examples=100, deadline=None)
@given(labelings(2), st.integers(1, 3))
def test_everything_agrees_with_the_dense_matrix(pair, n_columns) -> None:
    a, b = (Partition.from_labels(labels) for labels in pair)
    M, N = (equivalence_matrix(labels) for labels in pair)
    X = np.random.default_rng(0).normal(size=(a.n_samples, n_columns))
    np.testing.assert_allclose(a.to_array(), M, atol=1e-12)
    np.testing.assert_allclose(a.project(X), M @ X, atol=1e-12)
    np.testing.assert_allclose(a.project(X[:, 0]), M @ X[:, 0], atol=1e-12)
    assert a.inner(b) == pytest.approx(np.trace(M @ N), abs=1e-12)
    assert a.inner(a) == pytest.approx(a.n_clusters)
    assert a.n_clusters == round(np.trace(M))
    np.testing.assert_array_equal(a.sizes, np.bincount(a.labels))
    Y = np.eye(a.n_clusters)[a.labels]
    np.testing.assert_allclose(a.pool(X), Y.T @ X, atol=1e-12)
    np.testing.assert_allclose(a.pool(X[:, 0]), Y.T @ X[:, 0], atol=1e-12)
    table = Y.T @ np.eye(b.n_clusters)[b.labels]
    rows, columns, counts = a.intersections(b)
    np.testing.assert_array_equal(table[rows, columns], counts)
    assert len(counts) == np.count_nonzero(table)
    assert np.all(counts > 0)


@pytest.mark.parametrize("T", range(1, 8))
def test_segmentations_in_linear_time_equal_the_general_case(T) -> None:
    segmentations = [Partition.from_change_points(ends) for ends in all_segmentations(T)]
    for a in segmentations:
        general = Partition(labels=a.labels)
        for b in segmentations:
            assert a.inner(b) == pytest.approx(general.inner(b), abs=1e-12)
            assert len(a.intersections(b)[2]) <= a.n_clusters + b.n_clusters - 1


def test_canonical_labels_of_all_partitions_of_six_samples() -> None:
    """Restricted growth strings are numbered by first appearance already."""
    seen = set()
    for labels in all_partitions(6):
        partition = Partition.from_labels(labels)
        np.testing.assert_array_equal(partition.labels, labels)
        assert partition.contiguous == (list(labels) == sorted(labels))
        seen.add(partition)
    assert len(seen) == 203


@pytest.mark.parametrize(
    "labels",
    [
        ["b", "b", "a", "c"],
        np.array(["b", "b", "a", "c"]),
        np.array([5.5, 5.5, -1.0, 0.0]),
        np.array([3, 3, 0, 1], dtype=np.uint8),
        [(1, "x"), (1, "x"), (2, "x"), (3, "y")],
        [Fraction(1, 2), Fraction(2, 4), Fraction(1, 3), 7],
        "bbac",
        iter([4, 4, 2, 9]),
        np.array(["2024-01-01", "2024-01-01", "2024-01-02", "2024-01-03"], dtype="datetime64[D]"),
        np.array([7, 7, "seven", 0.5], dtype=object),
        [1, True, "1", 2],  # several types, compared as Python does
        [(1, "x"), (1, "x"), (2,), "x"],
        [True, True, "True", b"True"],
    ],
    ids=lambda labels: type(labels).__name__,
)
def test_labels_may_be_any_hashables(labels) -> None:
    partition = Partition.from_labels(labels)
    assert partition == Partition.from_change_points([2, 3, 4])
    assert partition.contiguous


def test_tensors_as_labels_are_read_by_value_or_refused() -> None:
    torch = pytest.importorskip("torch")
    labels = torch.tensor([0.0, 0.0, 1.0, 1.0])
    expected = Partition.from_labels([0, 0, 1, 1])
    assert Partition.from_labels(labels) == Partition.from_labels(list(labels)) == expected
    # each element of such a tensor would be a label that equals no other
    with pytest.raises(ValueError, match=r"that numpy can read, .* or detach\(\) a tensor"):
        Partition.from_labels(labels.requires_grad_())


@settings(max_examples=60, deadline=None)
@given(segment_ends())
def test_change_points_and_labels_are_two_ways_to_the_same(ends) -> None:
    by_ends = Partition.from_change_points(ends)
    assert by_ends == Partition.from_labels(labels_of(np.array(ends)))
    assert by_ends == Partition.from_change_points(ends[::-1])
    assert by_ends == Partition.from_change_points(ends[:-1], ends[-1])
    assert by_ends == Partition.from_change_points(ends, n_samples=ends[-1])
    assert by_ends == Partition.from_change_points([float(end) for end in ends])
    assert by_ends.change_points.tolist() == ends
    assert by_ends.n_samples == ends[-1]
    np.testing.assert_array_equal(by_ends.sizes, np.diff(ends, prepend=0))


def test_equality_hash_and_repr() -> None:
    a = Partition.from_labels([0, 0, 1])
    assert a != Partition.from_labels([0, 1, 1])
    assert a != Partition.from_labels([0, 1, 0])
    assert a != Partition.from_change_points([2, 3, 4])
    assert a != "a"
    assert a == mock.ANY
    assert len({a, Partition.from_change_points([2, 3]), Partition.from_labels("xxy")}) == 1
    assert repr(a) == "Partition(3 samples, 2 segments)"
    assert repr(Partition.from_labels([0, 1, 0])) == "Partition(3 samples, 2 clusters)"


def test_sums_over_a_million_samples_stay_small() -> None:
    """No T×T array: a segmentation of 10⁶ samples compares in milliseconds."""
    a = Partition.from_change_points(np.arange(1000, 1_000_001, 1000))
    b = Partition.from_change_points(np.arange(500, 1_000_001, 500))
    assert a.inner(b) == pytest.approx(1000.0)
    assert len(a.intersections(b)[2]) == 2000
