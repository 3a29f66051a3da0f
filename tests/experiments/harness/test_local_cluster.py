"""``executor=dask`` in an experiment: the results of ``executor=threads``."""

from pathlib import Path

import pytest

from experiments.harness.local_cluster import local_cluster
from tests.experiments.command import results_of

pytest.importorskip("distributed", reason="Dask is optional: pip install metriclearn[dask]")
MORE = ("ours", "full", "trace", "pca", "rca", "euclidean", "diagonal_l2")
FEW = [f"~methods.{name}" for name in MORE]


def losses(folder: Path, *options: str) -> dict[tuple[str, ...], float]:
    small = ("tiny=true", "n_jobs=1", "n_folds=2", "pictures=false", *FEW)
    results = results_of(folder, "experiment=synthetic", *small, *options)
    return {(row["method"], row["column"]): row["mean"] for row in results["rows"]}


def test_experiment_on_workers_of_the_one_local_cluster(tmp_path: Path) -> None:
    cluster = local_cluster(1)
    try:
        assert local_cluster(1) is cluster
        address = f"executor.client={cluster.scheduler_address}"
        there = losses(tmp_path / "dask", "executor=dask", address)
        assert "value-and-slope" in cluster.scheduler.task_prefixes
    finally:
        cluster.close()
        local_cluster.cache_clear()
    assert there == pytest.approx(losses(tmp_path / "threads"), rel=1e-9)
