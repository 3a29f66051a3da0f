"""``executor=dask`` in an experiment: the results of ``executor=threads``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from experiments.local_cluster import local_cluster
from metriclearn import ChangePointMetricLearner
from metriclearn.datasets import make_change_points
from metriclearn.running.executors import DaskExecutor
from tests.cluster import Cluster
from tests.experiments.command import call

pytest.importorskip("distributed", reason="Dask is optional: pip install metriclearn[dask]")
FEW = [f"~methods.{name}" for name in ("full", "trace", "pca", "rca", "euclidean", "diagonal_l2")]


def losses(folder: Path, *options: str) -> dict[tuple[str, ...], float]:
    options = ("experiment=synthetic", "tiny=true", "n_jobs=1", *FEW, *options)
    call("run", *options, f"hydra.run.dir={folder}")
    rows = json.loads((folder / "results.json").read_text())["rows"]
    return {(row["method"], row["n_clusters"], row["split"]): row["mean"] for row in rows}


def test_experiment_on_workers(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    try:
        with cluster.connect() as client:
            cluster.with_workers(client, 1)
            address = client.scheduler_info(n_workers=0)["address"]
            found = losses(tmp_path / "dask", "executor=dask", f"executor.client={address}")
            tasks = client.run_on_scheduler(
                lambda dask_scheduler: set(dask_scheduler.task_prefixes)
            )
    finally:
        cluster.close()
    assert "value-and-slope" in tasks
    assert found == pytest.approx(losses(tmp_path / "threads"), rel=1e-9)


def test_local_cluster_is_one_for_all() -> None:
    cluster = local_cluster(1)
    try:
        assert local_cluster(1) is cluster
        data = make_change_points(4, 60, 3, 2, (2, 4), random_state=0)
        executor = DaskExecutor(cluster)
        learner = ChangePointMetricLearner(executor=executor, verbose=False)
        there = learner.fit(data.sequences, data.labels).components_
        executor.client.close()
    finally:
        cluster.close()
        local_cluster.cache_clear()
    here = ChangePointMetricLearner(verbose=False).fit(data.sequences, data.labels).components_
    np.testing.assert_allclose(there, here, rtol=1e-9)
