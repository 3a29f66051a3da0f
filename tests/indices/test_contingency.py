"""The contingency table: labels of any kind, and every way to pass the same table."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_array, csr_matrix

import metriclearn.indices as indices
from metriclearn.problem.partition import Partition

A = [0, 0, 0, 1, 1, 2, 2, 2, 2]
B = [5, 5, 6, 6, 6, 7, 7, 7, 5]
TABLE = [[2, 1, 0], [0, 2, 0], [1, 0, 3]]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([str(x) for x in A], [(x, "b") for x in B]),
        ([x + 0.5 for x in A], [Fraction(x, 3) for x in B]),
        ([10**30 + x for x in A], [-(2**63) + x for x in B]),
        (np.array(A, dtype=np.uint64) + np.uint64(2**64 - 10), pd.Series(B)),
        (np.array(A, dtype=np.int8) - np.int8(120), [x * 10**12 for x in B]),
        (iter(A), pd.Categorical(B)),
        (Partition.from_labels(A), B),
        (Partition.from_labels(A), Partition.from_labels(B)),
    ],
)
def test_labels_of_any_kind(a, b) -> None:
    table = indices.contingency_table(a, b)
    assert sorted(table.counts.tolist()) == [1, 1, 2, 2, 3]
    assert indices.compare(contingency=table) == pytest.approx(indices.compare(A, B), abs=1e-14)


@pytest.mark.parametrize(
    "table",
    [
        TABLE,
        np.array(TABLE, dtype=float),
        coo_array(np.array(TABLE)),
        csr_matrix(([1, 1, 1, 2, 3, 1], [1, 0, 0, 1, 2, 0], [0, 3, 4, 6]), (3, 3)),  # repeated
        pd.DataFrame(TABLE),
        np.insert(np.insert(np.array(TABLE), 1, 0, axis=0), 2, 0, axis=1),
        indices.contingency_table(A, B),
    ],
)
def test_tables_of_any_kind(table) -> None:
    assert indices.contingency_table(contingency=table).to_array().tolist() == TABLE
    assert indices.pair_counts(contingency=table) == indices.pair_counts(A, B)
    assert indices.entropy(contingency=table) == pytest.approx(indices.entropy(A, B))


def test_ignored_samples_are_left_out_of_both() -> None:
    kept = indices.compare([0, 0, 1], [0, 1, 1])
    for none, a, b in ((-1, 0, 1), ("n", "a", "b"), (float("nan"), 0, 1)):
        pair = [none, a, a, b, b, none], [a, a, b, none, b, b]
        assert indices.compare(*pair, ignore_label=none) == kept


def test_pairs_of_huge_tables_are_exact() -> None:
    diagonal = [10**12, 10**12 + 1, 3]
    table = np.diag(diagonal)
    table[0, 1] = 7
    n = sum(diagonal) + 7
    n11 = sum(c * (c - 1) // 2 for c in [*diagonal, 7])
    counts = indices.pair_counts(contingency=table)
    assert counts == (n11, 7 * 10**12, 7 * (10**12 + 1), n * (n - 1) // 2 - n11 - sum(counts[1:3]))
    confusion = indices.pair_confusion_matrix(contingency=table)
    assert confusion.sum() == n * (n - 1)
    assert indices.adjusted_rand_score(contingency=np.diag(diagonal)) == 1.0


def test_picture_of_the_table() -> None:
    figure = indices.plot_contingency(A, B)
    assert "78% of 9 samples" in figure.axes[0].get_title(loc="left")
    assert figure.axes[0].images[0].get_array().shape == (3, 3)
    figure = indices.plot_contingency([0, 1, 1, 1, 2, 2], [0, 0, 0, 0, 1, 1])
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["1", "2", "0"]
    assert "83% of 6 samples" in figure.axes[0].get_title(loc="left")
