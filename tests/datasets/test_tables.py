"""Tables: their sizes, classes and the sums of their columns."""

from collections.abc import Callable

import numpy as np
import pytest

from metriclearn.datasets import (
    LabeledTable,
    load_breast_cancer,
    load_digits,
    load_iris,
    load_letters,
    load_libras,
    load_wine,
)


@pytest.mark.parametrize(
    ("load", "shape", "sizes"),
    [
        (load_iris, (150, 4), [50, 50, 50]),
        (load_wine, (178, 13), [59, 71, 48]),
        (load_digits, (1797, 61), [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]),
        (load_breast_cancer, (569, 30), [357, 212]),
    ],
)
def test_tables_of_scikit_learn(load: Callable[[], LabeledTable], shape, sizes) -> None:
    table = load()
    assert table.X.shape == shape
    assert len(table.feature_names) == shape[1]
    assert np.unique(table.y, return_counts=True)[1].tolist() == sizes
    assert np.all(np.ptp(table.X, axis=0) > 0)
    assert len(table) == shape[0]


def test_iris_has_names_and_values() -> None:
    table = load_iris()
    assert table.classes.tolist() == ["setosa", "versicolor", "virginica"]
    assert table.feature_names[2] == "petal length (cm)"
    np.testing.assert_allclose(table.X.sum(axis=0), [876.5, 458.6, 563.7, 179.9], atol=1e-9)


def test_rows_and_classes_are_selected() -> None:
    table = load_iris()
    some = table.of_classes(["virginica", "setosa"])
    assert some.classes.tolist() == ["setosa", "virginica"]
    assert len(some) == 100
    np.testing.assert_array_equal(table.select([149, 0]).X, table.X[[149, 0]])
    assert table.select([149, 0]).y.tolist() == ["virginica", "setosa"]


def test_letters(shared_folder) -> None:
    table = load_letters(shared_folder("letter"))
    assert table.X.shape == (20_000, 16)
    assert "".join(table.classes) == "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    assert table.y[:3].tolist() == ["T", "I", "D"]
    assert table.X[0].tolist() == [2, 8, 3, 5, 1, 8, 13, 0, 6, 6, 10, 8, 0, 8, 0, 8]
    assert np.bincount(np.unique(table.y, return_inverse=True)[1]).min() == 734


def test_libras(shared_folder) -> None:
    table = load_libras(shared_folder("libras"))
    assert table.X.shape == (360, 90)
    assert np.unique(table.y, return_counts=True)[1].tolist() == [24] * 15
    assert table.feature_names[:3] == ["x1", "y1", "x2"]
    assert 0.0 <= table.X.min() < table.X.max() <= 1.0
