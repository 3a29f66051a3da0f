"""What users may pass as data sets, labels and weights, and what they are told otherwise."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from metriclearn import Partition
from metriclearn.estimators.inputs import read_data_sets, read_labelings, read_weights

A = np.arange(8.0).reshape(4, 2)
B = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(
    "X",
    [[A, B], (A, B), [A.tolist(), B], [A.astype(np.float32), B.astype(int)], [pd.DataFrame(A), B]],
    ids=["list", "tuple", "nested lists", "other types", "frame without names"],
)
def test_several_data_sets(X) -> None:
    data = read_data_sets("Learner", X)
    assert not data.single
    assert data.n_features == 2
    assert data.feature_names is None
    assert [array.dtype for array in data.arrays] == [np.float64, np.float64]
    np.testing.assert_array_equal(data.arrays[0], A)
    np.testing.assert_array_equal(data.arrays[1], B)


@pytest.mark.parametrize(
    "X", [A, A.tolist(), pd.DataFrame(A), np.asfortranarray(A), A.astype(object)]
)
def test_one_data_set(X) -> None:
    data = read_data_sets("Learner", X)
    assert data.single
    assert len(data.arrays) == 1
    np.testing.assert_array_equal(data.arrays[0], A)


def test_three_dimensions_are_data_sets_of_one_length() -> None:
    data = read_data_sets("Learner", np.stack([A, A + 1.0, A + 2.0]))
    assert not data.single
    assert len(data.arrays) == 3
    np.testing.assert_array_equal(data.arrays[2], A + 2.0)


def test_one_array_in_a_list_is_several() -> None:
    assert not read_data_sets("Learner", [A]).single


def test_feature_names_of_frames() -> None:
    frames = [pd.DataFrame(array, columns=["speed", "heart"]) for array in (A, B)]
    assert read_data_sets("Learner", frames).feature_names.tolist() == ["speed", "heart"]
    assert read_data_sets("Learner", frames[0]).feature_names.tolist() == ["speed", "heart"]
    assert read_data_sets("Learner", pd.DataFrame(A)).feature_names is None


def with_value(value: float) -> np.ndarray:
    damaged = A.copy()
    damaged[2, 1] = value
    return damaged


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (
            [],
            "Learner needs at least one data set, got an empty list",
        ),
        (
            (),
            "Learner needs at least one data set, got an empty list",
        ),
        (np.zeros((0, 4, 2)), "Learner needs at least one data set, got an empty list"),
        ([A, with_value(np.nan)], "finite numbers, got NaN at row 2, feature 1 of data set 1"),
        ([with_value(np.inf), B], "finite numbers, got inf at row 2, feature 1 of data set 0"),
        (with_value(-np.inf), "finite numbers, got inf at row 2, feature 1 of the data set"),
        ([A, B[:, :1]], "same features in every data set, got 2 in data set 0 and 1 in data set 1"),
        ([A, B[:0]], r"array with 0 sample\(s\) .*minimum of 1 is required in data set 1"),
        (A[:, :0], r"array with 0 feature\(s\) .*minimum of 1 is required in the data set"),
        (np.zeros(5), r"needs \(n_samples, n_features\) data, got 1 dimension.*reshape\(-1, 1\)"),
        (3.0, r"needs \(n_samples, n_features\) data, got 0 dimension"),
        (None, "Learner needs"),
        ("a file name", "Learner needs"),
        ([["a", "b"], ["c", "d"]], "Learner needs a rectangular array of real numbers in"),
        (A + 1j, "needs a rectangular array of real numbers in the data set.*Complex data"),
        ([A, np.zeros(3)], "Learner needs .* data set 1"),
        ([[1.0, 2.0], [3.0]], "Learner needs"),
    ],
)
def test_bad_data_sets(X, message) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read_data_sets("Learner", X)
    one_sentence(caught.value)


def one_sentence(error: BaseException) -> None:
    """At most one clause after the first, ended by a full stop, on one line."""
    text = str(error)
    assert "\n" not in text
    assert text.endswith(".")
    assert len(text) < 300


def test_names_that_differ_between_data_sets() -> None:
    frames = [pd.DataFrame(A, columns=["a", "b"]), pd.DataFrame(B, columns=["b", "a"])]
    with pytest.raises(ValueError, match=r"same feature names in the same order, but data set 1"):
        read_data_sets("Learner", frames)


def test_sparse_data() -> None:
    with pytest.raises(TypeError, match="Learner needs dense data, got a sparse matrix; call"):
        read_data_sets("Learner", scipy.sparse.csr_matrix(A))
    with pytest.raises(TypeError, match="Learner needs dense data, got a sparse matrix; call"):
        read_data_sets("Learner", [A, scipy.sparse.csr_array(B)])


@pytest.mark.parametrize(
    "labels",
    [
        ["a", "a", "b", "a"],
        np.array([3, 3, 0, 3]),
        pd.Series([3, 3, 0, 3], index=[9, 8, 7, 6]),
        pd.Series(["x", "x", "y", "x"], dtype="category"),
        [(0, 1), (0, 1), (1, 1), (0, 1)],
        np.array([1.5, 1.5, 2.5, 1.5]),
        np.array([False, False, True, False]),
        Partition.from_change_points([2, 3, 4]),
    ],
    ids=["str", "int", "series", "categories", "tuples", "float", "bool", "partition"],
)
def test_labels_are_read_as_runs(labels) -> None:
    expected = Partition.from_change_points([2, 3, 4])
    assert read_labelings("Learner", labels, read_data_sets("Learner", A), segments=True) == [
        expected
    ]
    several = read_labelings(
        "Learner", [labels, [0, 0, 1]], read_data_sets("Learner", [A, B]), segments=True
    )
    assert several == [expected, Partition.from_change_points([2, 3])]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "Learner requires y to be passed, but the target y is None"),
        ([[0] * 4], r"one labeling per data set, got 2 data set\(s\) and 1 labeling\(s\)"),
        ([[0] * 4] * 3, r"one labeling per data set, got 2 data set\(s\) and 3 labeling\(s\)"),
        ([[0] * 4, [0] * 4], "one label per sample, got 4 labels for the 3 samples of data set 1"),
        ([[-1] * 4, [0] * 3], r"they cover no sample of data set 0 \(all −1\)"),
        ([[0] * 4, [0, -1, -1]], "every sample labeled, got 2 samples with −1 in data set 1"),
        ([[0.0] * 4, [0.0, -1.0, 2.0]], "every sample labeled, got 1 samples with −1 in data set"),
        (
            [[0] * 4, np.array([0, -1, 2], dtype=object)],
            "got 1 samples with −1 in data set 1",
        ),
        ([[0] * 4, [0, 1, None]], "labels of data set 1: .*without None or NaN; label every"),
        ([[0] * 4, [0, 1, np.nan]], "labels of data set 1: .*without None or NaN"),
        ([[0] * 4, [[0], [1], [2]]], "labels of data set 1: .*one hashable label per sample"),
        ([[0] * 4, []], "labels of data set 1: .*at least one label, got none"),
        ([[0] * 4, 3], "Learner.*data set 1"),
        (3, "Learner needs one labeling per data set"),
    ],
)
def test_bad_labels(y, message) -> None:
    data = read_data_sets("Learner", [A, B])
    with pytest.raises(ValueError, match=message) as caught:
        read_labelings("Learner", y, data, segments=True)
    one_sentence(caught.value)


def test_labels_of_one_data_set_must_fit_it() -> None:
    data = read_data_sets("Learner", A)
    with pytest.raises(ValueError, match="got 3 labels for the 4 samples of the data set"):
        read_labelings("Learner", [0, 0, 1], data, segments=True)
    with pytest.raises(ValueError, match="got 5 labels for the 4 samples of the data set"):
        read_labelings("Learner", Partition.from_change_points([5]), data, segments=True)


def test_weights() -> None:
    assert read_weights("Learner", None, 3) is None
    np.testing.assert_array_equal(read_weights("Learner", [1, 0, 2], 3), [1.0, 0.0, 2.0])
    np.testing.assert_array_equal(read_weights("Learner", pd.Series([1, 2]), 2), [1.0, 2.0])


@pytest.mark.parametrize(
    "weights", [[1.0, 2.0], [1, 2, -1], [0, 0, 0], [1, 2, np.nan], [1, 2, np.inf], 1.0, [[1, 2, 3]]]
)
def test_bad_weights(weights) -> None:
    with pytest.raises(
        ValueError, match="Learner needs sample_weight with one finite nonnegative number for each"
    ):
        read_weights("Learner", weights, 3)
