"""Partitions against their dense matrices."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metriclearn import Partition
from tests.exhaustive import all_partitions, equivalence_matrix
from tests.strategies import labelings


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


def test_canonical_labels_of_all_partitions_of_six_samples() -> None:
    """Restricted growth strings are numbered by first appearance already."""
    seen = set()
    for labels in all_partitions(6):
        partition = Partition.from_labels(labels)
        np.testing.assert_array_equal(partition.labels, labels)
        assert partition.contiguous == (list(labels) == sorted(labels))
        seen.add(partition)
    assert len(seen) == 203


def test_tensors_as_labels_are_read_by_value_or_refused() -> None:
    torch = pytest.importorskip("torch")
    labels = torch.tensor([0.0, 0.0, 1.0, 1.0])
    expected = Partition.from_labels([0, 0, 1, 1])
    assert Partition.from_labels(labels) == Partition.from_labels(list(labels)) == expected
    # each element of such a tensor would be a label that equals no other
    with pytest.raises(ValueError, match=r"that numpy can read, .* or detach\(\) a tensor"):
        Partition.from_labels(labels.requires_grad_())


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
