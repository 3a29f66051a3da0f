"""Encoders beside linear metrics: seeds, rows, and the models that a run leaves."""

from pathlib import Path

import numpy as np
import pytest

import metriclearn
from experiments.harness.results import MEASURE
from tests.experiments.command import results_of

pytest.importorskip("torch")


def test_seeds_and_models_of_a_tiny_run(tmp_path: Path) -> None:
    """On synthetic sequences, of which three columns pass for raw signals."""
    results = results_of(
        tmp_path, "experiment=beedance_encoder", "dataset=synthetic", "tiny=true", "n_jobs=1",
        "pictures=false", "~methods.rca", "~methods.pca",
    )  # fmt: skip
    rows = results["rows"]
    rows = {(row["method"], row["measure"]): row for row in rows if row["column"] == "estimated"}
    name = "ours/encoder of raw signals"
    seeds = [rows[name, f"seed_{seed}"]["values"] for seed in range(2)]
    assert seeds[0] != seeds[1]
    np.testing.assert_allclose(rows[name, MEASURE]["values"], np.mean(seeds, axis=0))
    assert ("ours/full", "seed_0") not in rows
    assert rows[name, MEASURE]["gap"] < 0.1
    taken = rows["ours", MEASURE]["choice"].partition(",")[0]
    assert rows["ours", MEASURE]["values"] == rows[taken, MEASURE]["values"]
    model = metriclearn.load(tmp_path / "models" / "ours-encoder-of-raw-signals.npz")
    assert model.view.views[0].stop == 3
    assert (tmp_path / "features.png").stat().st_size > 10_000
