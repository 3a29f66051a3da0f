"""Score a saved model: ``python -m experiments.evaluate model=FILE dataset=NAME dataset.root=DIR``.

All sequences of the folder are scored (of the synthetic data, the test sequences). The table is
printed, and written as ``results.json`` and ``results.md`` to Hydra's run directory.
"""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path
from typing import Any

import hydra
import numpy as np
from hydra.core.hydra_config import HydraConfig
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf

from experiments.command_line import CONFIGS, one_sentence
from experiments.comparison import load_sequences, statistics, synthetic_split
from experiments.protocol import COLUMNS
from metriclearn import load
from metriclearn.datasets import LabeledSequences
from metriclearn.estimators.segmenter import MahalanobisSegmenter
from metriclearn.indices import hausdorff, partition_loss, precision_recall
from metriclearn.problem.partition import Partition

__all__ = ["evaluate", "main", "score"]

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
    truths = [Partition.from_runs(labels).change_points for labels in data.labels]
    counts = [len(truth) for truth in truths] if n_clusters == "given" else None
    found = model.predict_change_points(data.sequences, counts)
    table = [_measures(truth, ends, margin) for truth, ends in zip(truths, found)]
    return {name: np.array([row[name] for row in table]) for name in MEASURES}


def _measures(truth: NDArray, found: NDArray, margin: float) -> dict[str, float]:
    n_samples = int(truth[-1])
    true, pred = (Partition.from_change_points(ends, n_samples) for ends in (truth, found))
    loss = partition_loss(true, pred)
    precision, recall = precision_recall(true, pred, margin=margin)
    return {
        "partition_loss": n_samples * loss,
        "relative_loss": loss,
        "hausdorff": min(hausdorff(true, pred), n_samples),
        "f1": 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0,
        "n_segments": len(found),
    }


def evaluate(config: DictConfig, folder: Path, command: str) -> str:
    """Score ``config.model`` on ``config.dataset``; writes the results and returns the table."""
    start = time.perf_counter()
    model = load(config.model)
    synthetic = "root" not in config.dataset
    data = (
        synthetic_split(config).test if synthetic else load_sequences(config, config.dataset.root)
    )
    _check_features(model, data, config.model)
    name = _name(model)
    scores = {column: score(model, data, column, config.margin) for column in COLUMNS}
    results = {
        "experiment": f"{name} on {data.name}",
        "rows": [
            {"method": name, "split": "test", "n_clusters": column} | statistics(values, measure)
            for column, measures in scores.items()
            for measure, values in measures.items()
        ],
        "sequences": data.names,
        "seconds": time.perf_counter() - start,
        "config": OmegaConf.to_container(config, resolve=True),
    }
    table = _table(results, config.margin)
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(results, indent=2) + "\n"
    (folder / "results.json").write_text(text, encoding="utf-8")
    page = f"# {results['experiment']}\n\n{table}\n\nProduced by\n\n```sh\n{command}\n```\n"
    (folder / "results.md").write_text(page, encoding="utf-8")
    return table


def _check_features(model: Any, data: LabeledSequences, file: str) -> None:
    P = len(data.feature_names)
    if model.n_features_in_ != P:
        raise ValueError(
            f"The model {file} was trained on {model.n_features_in_} features, but {data.name} has "
            f"{P}; load the data with the options of the training run."
        )


def _name(model: Any) -> str:
    """Class names of the estimator and of what tells it from others."""
    part = getattr(model, "baseline", None) or getattr(model, "metric", None)
    words = [model, part, getattr(model, "regularizer", None)]
    return " ".join(type(word).__name__ for word in words if word is not None)


def _table(results: dict[str, Any], margin: float) -> str:
    """Markdown: measures by column."""
    cells = {
        (row["measure"], row["n_clusters"]): f"{row['mean']:.4g} ± {row['standard_error']:.2g}"
        for row in results["rows"]
    }
    lines = ["| measure | segments estimated | segments given |", "|---|---:|---:|"]
    for measure, words in MEASURES.items():
        label = f"{words}, margin {margin:g}" if measure == "f1" else words
        lines.append(f"| {label} | {' | '.join(cells[measure, c] for c in COLUMNS)} |")
    return "\n".join(
        [*lines, "", f"Mean ± standard error of {len(results['sequences'])} sequences."]
    )


@hydra.main(version_base="1.3", config_path=CONFIGS, config_name="evaluate")
def _task(config: DictConfig) -> None:
    settings = HydraConfig.get()
    folder = Path(settings.runtime.output_dir)
    command = shlex.join(["python", "-m", "experiments.evaluate", *settings.overrides.task])
    with one_sentence():
        print(evaluate(config, folder, command))


def main() -> None:
    """The command line; errors of the user are one sentence and exit status 1."""
    with one_sentence():
        _task()


if __name__ == "__main__":
    main()
