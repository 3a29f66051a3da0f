"""Score a saved model: ``python -m experiments.evaluate model=FILE dataset=NAME dataset.root=DIR``.

All sequences of the folder are scored (of the synthetic data, the test sequences). The table is
printed, and written as ``results.json`` and ``results.md`` to Hydra's run directory.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import hydra
import numpy as np
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf

from experiments.command_line import CONFIGS, folder_and_command, one_sentence
from experiments.comparison import load_sequences, synthetic_sequences
from experiments.procedure import statistics
from experiments.report import COLUMNS, Artifacts, markdown_table, write_report
from metriclearn import Partition, load
from metriclearn.datasets import LabeledSequences
from metriclearn.estimators.segmenter import MahalanobisSegmenter
from metriclearn.indices import hausdorff, partition_loss, precision_recall

MEASURES = {
    "partition_loss": "‖M − N‖²_F",
    "relative_loss": "ℓ = ‖M − N‖²_F / T",
    "hausdorff": "Hausdorff distance, samples",
    "f1": "F1 of change-points",
    "n_segments": "predicted number of segments",
}


def score(
    model: MahalanobisSegmenter, data: LabeledSequences, n_clusters: str, margin: float
) -> dict[str, NDArray]:
    """Every measure of every sequence, (N,) each.

    The Hausdorff distance to a prediction without change-points is T, so that means stay finite.
    """
    truths = [Partition.from_runs(labels) for labels in data.labels]
    counts = [truth.n_clusters for truth in truths] if n_clusters == "given" else None
    predicted = model.predict_change_points(data.sequences, counts)
    rows = [
        _measures(truth, Partition(ends=ends), margin) for truth, ends in zip(truths, predicted)
    ]
    return dict(zip(MEASURES, np.array(rows).T))


def _measures(truth: Partition, predicted: Partition, margin: float) -> tuple[float, ...]:
    n_samples, loss = truth.n_samples, partition_loss(truth, predicted)
    precision, recall = precision_recall(truth, predicted, margin=margin)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0
    distance = min(hausdorff(truth, predicted), n_samples)
    return n_samples * loss, loss, distance, f1, predicted.n_clusters


def evaluate(config: DictConfig, folder: Path, command: str) -> str:
    """Score ``config.model`` on ``config.dataset``; writes the results and returns the table."""
    begun = time.perf_counter()
    model = load(config.model)
    if "root" in config.dataset:
        data = load_sequences(config, config.dataset.root)
    else:
        *_, data = synthetic_sequences(config, config.seed)
    if model.n_features_in_ != (P := len(data.feature_names)):
        raise ValueError(
            f"The model {config.model} was trained on {model.n_features_in_} features, but "
            f"{data.name} has {P}; load the data with the options of the training run."
        )
    name = _name(model)
    rows = [
        {"method": name, "split": "test", "n_clusters": column} | statistics(values, measure)
        for column in COLUMNS
        for measure, values in score(model, data, column, config.margin).items()
    ]
    results = {
        "experiment": f"{name} on {data.name}",
        "rows": rows,
        "sequences": data.names,
        "seconds": time.perf_counter() - begun,
        "config": OmegaConf.to_container(config, resolve=True),
    }
    cells = [f"{row['mean']:.4g} ± {row['standard_error']:.2g}" for row in rows]
    named = MEASURES | {"f1": f"{MEASURES['f1']}, margin {config.margin:g}"}
    half = len(named)
    lines = markdown_table(
        ["measure", "segments estimated", "segments given"],
        zip(named.values(), cells[:half], cells[half:]),
    )
    lines += ["", f"Mean ± standard error of {len(data)} sequences."]
    table = "\n".join(lines)
    write_report(folder, results, Artifacts(markdown=table), command)
    return table


def _name(model: Any) -> str:
    """Class names of the estimator and of what tells it from others."""
    part = getattr(model, "baseline", None) or getattr(model, "metric", None)
    words = [model, part, getattr(model, "regularizer", None)]
    return " ".join(type(word).__name__ for word in words if word is not None)


@hydra.main(version_base="1.3", config_path=CONFIGS, config_name="evaluate")
def _task(config: DictConfig) -> None:
    with one_sentence():
        print(evaluate(config, *folder_and_command("evaluate")))


def main() -> None:
    """The command line; errors of the user are one sentence and exit status 1."""
    with one_sentence():
        _task()


if __name__ == "__main__":
    main()
