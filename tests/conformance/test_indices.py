"""Laws of every listed index of two partitions. A new index is tried without a change here."""

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
