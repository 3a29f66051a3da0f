"""Score a saved model: ``python -m experiments.evaluate model=FILE dataset=NAME dataset.root=DIR``.

For synthetic data, the test sequences are scored. For other data, all sequences of the folder are
scored. Sequences on which the model was trained are left out, unless no others remain. Hashes in
the model file identify the sequences of training. Columns are matched by name with those used in
training, in any order. The table is printed, and written with ``results.json``, ``results.md`` and
``report.html`` to Hydra's run directory.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf

from experiments.harness.cases import fingerprints, load_sequences, synthetic_sequences
from experiments.harness.command_line import from_command_line
from experiments.harness.procedure import Scores
from experiments.harness.report import page, write_report
from experiments.harness.results import COLUMNS, MEASURE, NOT_FITTED, statistics, titled
from experiments.harness.scoring import inner_f1, segmented
from metriclearn import load
from metriclearn.datasets import LabeledSequences
from metriclearn.indices import hausdorff, partition_loss

MEASURES = titled(MEASURE, "relative_loss", "hausdorff", "f1", "n_segments")


def score(model: Any, data: LabeledSequences, n_clusters: str, margin: float) -> Scores:
    """Compute the values of every measure for all sequences, (N,) each.

    The Hausdorff distance is at most T. So the mean is finite even if a prediction has no
    change-points.
    """
    rows = []
    for predicted, truth in segmented(model, data, n_clusters):
        T, loss = truth.n_samples, partition_loss(truth, predicted)
        f1 = inner_f1(truth.change_points, predicted.change_points, margin)
        distance = min(hausdorff(truth, predicted), T)
        rows.append([T * loss, loss, distance, f1, predicted.n_clusters])
    return dict(zip(MEASURES, np.array(rows).T))


def evaluate(config: DictConfig, folder: Path, command: str) -> str:
    """Score ``config.model`` on ``config.dataset``, write the results, and return the table."""
    begun = time.process_time()
    model = load(config.model)
    if not hasattr(model, "predict_change_points") or not hasattr(model, "n_features_in_"):
        raise ValueError(
            f"{config.model} needs to hold a fitted learner of change-points, but holds a "
            f"{type(model).__name__}; name another file, such as model.npz of an experiment on "
            "sequences."
        )
    if "root" in config.dataset:
        fitted = {}
        if config.dataset.get("fits_features"):
            fitted = {"fitted": list(getattr(model, "training_sequences_", ()))}
        data = load_sequences(config, config.dataset.root, **fitted)
    else:
        *_, data = synthetic_sequences(config, config.seed)
    data = _as_trained(config.model, model, data)
    words = [model, getattr(model, "baseline", None) or getattr(model, "metric", None)]
    words += [getattr(model, "regularizer", None)]
    name = " ".join(type(word).__name__ for word in words if word is not None)
    scored, protocol = _unseen(model, data)
    rows, tables = [], []
    for column in COLUMNS:
        for measure, values in score(model, scored, column, config.margin).items():
            place = {"table": "test", "measure": measure, "method": name, "column": column}
            numbers = statistics(values, scored.names)
            rows.append(numbers | place | NOT_FITTED)
    for measure, (title, better) in MEASURES.items():
        head = {"name": "test", "measure": measure, "title": data.name, "columns": COLUMNS}
        text = {"words": title.format(margin=config.margin), "better": better, "note": ""}
        tables.append(head | text | {"unit": "sequence", "main": measure == MEASURE})
    results = {
        "name": "evaluate",
        "protocol": f"{name} on {data.name}. {protocol}",
        "command": command,
        "tables": tables,
        "rows": rows,
        "seconds": time.process_time() - begun,
        "config": OmegaConf.to_container(config, resolve=True),
    }
    write_report(folder, results)
    return page("evaluation.md.j2", rows=rows, tables=tables, protocol=results["protocol"])


def _as_trained(file: str, model: Any, data: LabeledSequences) -> LabeledSequences:
    """Select the columns that were used in training, in the same order, if the model has their
    names."""
    P, remedy = len(data.feature_names), "load the data with the options of the training run."
    if model.n_features_in_ != P:
        raise ValueError(
            f"The model {file} was trained on {model.n_features_in_} features, but {data.name} has "
            f"{P}; {remedy}"
        )
    names = list(getattr(model, "feature_names_in_", data.feature_names))
    if names == data.feature_names:
        return data
    unclear = [name for name in names if data.feature_names.count(name) != 1]
    if unclear:
        raise ValueError(
            f"The model {file} was trained on features such as {unclear[0]!r}, but {data.name} has "
            f"no such column or several, of {', '.join(data.feature_names[:5])} …; {remedy}"
        )
    order = [data.feature_names.index(name) for name in names]
    return replace(data, sequences=[X[:, order] for X in data.sequences], feature_names=names)


def _unseen(model: Any, data: LabeledSequences) -> tuple[LabeledSequences, str]:
    """Return the sequences that are new to the model, or all if none is known to be new. Also
    return a sentence about which sequences the model has seen."""
    known = getattr(model, "training_sequences_", None)
    is_new = [mark not in (known or {}).values() for mark in fingerprints(data)]
    seen = [name for name, new in zip(data.names, is_new) if not new]
    facts = {"known": known is not None, "seen": seen, "count": len(data)}
    new = np.flatnonzero(is_new)
    part = data.select(new) if len(new) else data
    return part, page("evaluation.protocol.j2", **facts).strip()


def main() -> None:
    """The command line."""
    from_command_line("evaluate", "evaluate", evaluate)


if __name__ == "__main__":
    main()
