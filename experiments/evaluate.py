"""Score a saved model: ``python -m experiments.evaluate model=FILE dataset=NAME dataset.root=DIR``.

All sequences of the folder are scored (of the synthetic data, the test sequences). The table is
printed, and written as ``results.json`` and ``results.md`` to Hydra's run directory.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf
from scipy.stats import hmean

from experiments.command_line import from_command_line
from experiments.comparison import load_sequences, segmented, synthetic_sequences
from experiments.procedure import grouped, statistics
from experiments.report import COLUMNS, Artifacts, page, write_report
from metriclearn import load
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
    rows = []
    for predicted, truth in segmented(model, data, n_clusters):
        T, loss = truth.n_samples, partition_loss(truth, predicted)
        pair = precision_recall(truth, predicted, margin=margin)
        f1 = float(hmean(pair)) if min(pair) > 0 else 0.0
        distance = min(hausdorff(truth, predicted), T)
        rows.append([T * loss, loss, distance, f1, predicted.n_clusters])
    return dict(zip(MEASURES, np.array(rows).T))


def evaluate(config: DictConfig, folder: Path, command: str) -> str:
    """Score ``config.model`` on ``config.dataset``; writes the results and returns the table."""
    begun = time.perf_counter()
    model = load(config.model)
    if "root" in config.dataset:
        data = load_sequences(config, config.dataset.root)
    else:
        *_, data = synthetic_sequences(config, config.seed)
    P = len(data.feature_names)
    if model.n_features_in_ != P:
        raise ValueError(
            f"The model {config.model} was trained on {model.n_features_in_} features, but "
            f"{data.name} has {P}; load the data with the options of the training run."
        )
    words = [model, getattr(model, "baseline", None) or getattr(model, "metric", None)]
    words += [getattr(model, "regularizer", None)]
    name = " ".join(type(word).__name__ for word in words if word is not None)
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
    table = page(
        "evaluation.md.j2",
        rows=grouped(rows, lambda row: row["measure"]),
        words=MEASURES,
        margin=config.margin,
        n_sequences=len(data),
    )
    write_report(folder, results, Artifacts(markdown=table), command)
    return table


def main() -> None:
    """The command line."""
    from_command_line("evaluate", "evaluate", evaluate)


if __name__ == "__main__":
    main()
