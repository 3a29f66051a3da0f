"""The choice of defaults: disjoint halves of draws, and tables of the losses of every setting."""

from pathlib import Path

import numpy as np
import pytest

from experiments.studies.defaults import draw
from metriclearn.datasets import LabeledTable, load_dataset
from tests.experiments.command import results_of


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


@pytest.mark.parametrize(
    ("name", "n_settings"), [("default_settings", 4), ("clustering_defaults", 9)]
)
def test_every_setting_is_better_than_chance(name: str, n_settings: int, tmp_path: Path) -> None:
    options = ("tiny=true", "n_jobs=1", "pictures=false")
    results = results_of(tmp_path, f"experiment={name}", *options)
    rows = [row for row in results["rows"] if row["measure"] == "partition_loss"]
    means = {row["method"]: row["mean"] for row in rows if row["column"] == "all"}
    assert len(means) == n_settings
    assert max(means.values()) < 4  # nearly 2(K − 1) for K = 3
