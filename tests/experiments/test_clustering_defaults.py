"""The choice of the clustering defaults: small tables, disjoint halves, a table of the losses."""

from __future__ import annotations

import numpy as np

from experiments.clustering_defaults import draw, held_out_loss, markdown, settings
from experiments.default_settings import all_losses
from metriclearn.baselines import Euclidean
from metriclearn.datasets import LabeledTable, load_digits


def test_draws_have_three_classes_and_share_no_sample() -> None:
    table = load_digits()
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


def test_every_setting_is_better_than_chance_on_clusters_that_are_apart() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    means = 5 * rng.normal(size=(3, 4))
    parts = [LabeledTable("x", means[y] + rng.normal(size=(90, 4)), y, ["x"] * 4) for _ in "ab"]
    train, test = parts
    values = all_losses(held_out_loss, settings().values(), [(train, test)], n_jobs=1)
    assert values.max() < 0.5 < 4  # nearly 2(K − 1) = 4 by chance
    assert held_out_loss(Euclidean(), (train, train)) < 0.5
    names = list(settings())
    text = markdown(names, values, np.array(["x"]))
    assert text.count("\n| ") == 1 + len(names)
