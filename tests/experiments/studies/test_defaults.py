"""The choice of defaults: disjoint halves of draws."""

import numpy as np

from experiments.studies.defaults import draw
from metriclearn.datasets import LabeledTable, load_dataset


def test_draws_have_three_classes_and_share_no_sample() -> None:
    table = load_dataset("digits")
    unique = LabeledTable(
        "digits", np.arange(1.0, 5.0) * np.arange(len(table))[:, None], table.y, ["x"] * 4
    )
    train, test = draw(unique, 3)
    assert set(train.classes) == set(test.classes)
    assert len(train.classes) == 3
    assert len(train) == len(test) == 81
    assert not set(train.X.max(axis=1)) & set(test.X.max(axis=1))
    train, _ = draw(table, 0)
    assert train.X.shape == (81, 16)
