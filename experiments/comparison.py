"""From a configuration to results, models and a report: ours against the baselines."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from hydra.utils import instantiate
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf
from sklearn.model_selection import ParameterGrid

from experiments.protocol import (
    COLUMNS,
    LEARNED,
    Method,
    Outcome,
    Split,
    compare,
    group_folds,
    group_splits,
)
from experiments.report import Artifacts, Strip, write_report
from metriclearn import save
from metriclearn.datasets import LabeledSequences
from metriclearn.problem.partition import Partition

__all__ = ["load_sequences", "read_methods", "read_splits", "run", "statistics", "summarize"]

_logger = logging.getLogger(__name__)


def run(config: DictConfig, folder: Path, command: str) -> Path:
    """Compare all methods of ``config.methods`` and write everything to ``folder``.

    Writes ``results.json``, ``results.md``, ``report.html``, the figures, ``model.npz`` (the best
    of ours by the training data) and ``models/`` (every method on every split).

    Returns
    -------
    path of report.html
    """
    start = time.perf_counter()
    splits, methods = read_splits(config), read_methods(config)
    first = splits[0]
    _logger.info(
        "%s: %d split(s), the first one with %d sequences for training and %d for test, P = %d",
        config.name,
        len(splits),
        len(first.train),
        len(first.test),
        len(first.train.feature_names),
    )
    outcomes = compare(methods, splits, config.n_jobs)
    for row in (rows := summarize(outcomes)):
        if row["split"] == "test":
            _logger.info(
                "%-16s K %-9s ‖M−N‖² %.3f ± %.3f",
                *(row[key] for key in ("method", "n_clusters", "mean", "standard_error")),
            )
    best = _best([outcome for outcome in outcomes if outcome.split is first])
    _save_models(outcomes, best, folder)
    results = {
        "experiment": config.name,
        "rows": rows,
        "seconds": time.perf_counter() - start,
        "config": OmegaConf.to_container(config, resolve=True),
    }
    return write_report(folder, results, _artifacts(outcomes, best, config), command)


def read_methods(config: DictConfig) -> list[Method]:
    """The methods of a configuration, their grids spelled out."""
    return [
        Method(
            entry.name,
            instantiate(entry.estimator),
            list(ParameterGrid(OmegaConf.to_container(entry.grid, resolve=True))),
            entry.learns_penalty,
        )
        for entry in config.methods.values()
        if entry is not None
    ]


def load_sequences(config: DictConfig, root: str | None) -> LabeledSequences:
    """All sequences of a real data set in the folder ``root``.

    Raises
    ------
    ValueError
        If a folder is needed and none is given.
    """
    dataset = config.dataset
    if root is None and "path" in dataset:
        raise ValueError(
            f"The data set {dataset.name} needs the folder of your sequences; add "
            "dataset.path=FOLDER, and dataset.label=COLUMN if the labels are not in 'label'."
        )
    data = instantiate(dataset.loader, _partial_=True)(root)
    return data.select(np.arange(len(data))[: dataset.n_sequences])


def read_splits(config: DictConfig) -> list[Split]:
    """Training and test data, with folds of the training data."""
    dataset = config.dataset
    if "root" not in dataset:
        return [synthetic_split(config)]
    data = load_sequences(config, dataset.root)
    if dataset.test_root is not None:
        test = _same_features(load_sequences(config, dataset.test_root), data)
        return [Split(str(dataset.test_root), data, test, group_folds(data, config.n_folds))]
    n_test = dataset.n_test or max(1, round(len(set(data.groups)) / 4))
    return group_splits(data, n_test, dataset.rotate, config.n_folds, config.seed)


def synthetic_split(config: DictConfig) -> Split:
    """Training and validation sequences, joined, with one fold that tells them apart; test ones."""
    make = instantiate(config.dataset.loader, _partial_=True)
    train, validation, test = (make(random_state=3 * config.seed + i) for i in range(3))
    joined = replace(
        train,
        sequences=train.sequences + validation.sequences,
        labels=train.labels + validation.labels,
        groups=[f"train_{g}" for g in train.groups] + [f"valid_{g}" for g in validation.groups],
        names=[f"train_{n}" for n in train.names] + [f"valid_{n}" for n in validation.names],
    )
    n, total = len(train), len(joined)
    return Split("test", joined, test, [(np.arange(n), np.arange(n, total))])


def _same_features(test: LabeledSequences, train: LabeledSequences) -> LabeledSequences:
    if test.feature_names != train.feature_names:
        raise ValueError(
            f"Test data need the {len(train.feature_names)} features of the training data in the "
            f"same order, got {len(test.feature_names)}, beginning with {test.feature_names[:5]}."
        )
    return test


def summarize(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Rows of results.json: for every method, test and validation losses over all splits."""
    rows = []
    for method in dict.fromkeys(outcome.method for outcome in outcomes):
        mine = [outcome for outcome in outcomes if outcome.method == method]
        for column in COLUMNS:
            parts = {
                "test": [outcome.losses[column] for outcome in mine],
                "validation": [outcome.choices[column].losses for outcome in mine],
            }
            for part, arrays in parts.items():
                values = np.concatenate(arrays)
                row = {"method": method, "split": part, "n_clusters": column}
                rows.append(row | statistics(values))
        rows[-1]["seconds"] = sum(outcome.seconds for outcome in mine)
    return rows


def statistics(values: NDArray, measure: str = "partition_loss") -> dict[str, Any]:
    """Measure, mean, standard error and values: the numbers of a row."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return {
        "measure": measure,
        "mean": float(values.mean()),
        "standard_error": float(error),
        "values": values.tolist(),
    }


def _best(outcomes: Sequence[Outcome], ours: bool = True) -> Outcome:
    """The least validation loss among ours or among baselines (all, where there is no such)."""
    some = [outcome for outcome in outcomes if outcome.method.startswith("ours/") == ours]
    return min(some or outcomes, key=lambda outcome: outcome.choices["estimated"].losses.mean())


def _save_models(outcomes: Sequence[Outcome], best: Outcome, folder: Path) -> None:
    (folder / "models").mkdir(parents=True, exist_ok=True)
    several = len({outcome.split.name for outcome in outcomes}) > 1
    for outcome in outcomes:
        name = f"{outcome.method}-{outcome.split.name}" if several else outcome.method
        file = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")
        save(outcome.models["estimated"], folder / "models" / f"{file}.npz")
    save(best.models["estimated"], folder / "model.npz")


def _artifacts(outcomes: Sequence[Outcome], best: Outcome, config: DictConfig) -> Artifacts:
    """Pictures and sentences; pictures are of the first split."""
    first = [outcome for outcome in outcomes if outcome.split is best.split]
    ours = [outcome for outcome in first if hasattr(outcome.models["estimated"], "solution_")]
    splits = list(dict.fromkeys(outcome.split.name for outcome in outcomes))
    return Artifacts(
        strips=_strips(best, _best(first, ours=False)),
        weights={outcome.method: _weights(outcome.models["estimated"]) for outcome in ours},
        feature_names=best.split.train.feature_names,
        traces={o.method: vars(o.models["estimated"].solution_.trace) for o in ours},
        choices=_choices(outcomes),
        model_file="model.npz",
        notes=_notes(best, splits, config),
    )


def _strips(ours: Outcome, baseline: Outcome) -> list[Strip]:
    """The test sequences with the best, the median and the worst loss of ours."""
    order = np.argsort(ours.losses["estimated"], kind="stable")
    model, last = ours.models["estimated"], len(order) - 1
    weights = _weights(model)
    diagonal = np.diag(weights) if weights.ndim == 2 else weights
    leading = np.argsort(-diagonal, kind="stable")[:3]
    words = {(last + 1) // 2: "median", last: "worst", 0: "best"}
    return [
        _strip((ours, baseline), int(order[place]), words[place], leading)
        for place in sorted(words)
    ]


def _strip(pair: Sequence[Outcome], i: int, word: str, leading: NDArray) -> Strip:
    """Test sequence i: the truth, the first method of ``pair``, and the second."""
    data = pair[0].split.test
    found = {o.method: o.models["estimated"].predict_change_points(data.sequences[i]) for o in pair}
    return Strip(
        f"{data.names[i]} ({word} of ours)",
        {"truth": Partition.from_runs(data.labels[i]).change_points} | found,
        {o.method: float(o.losses["estimated"][i]) for o in pair},
        signal=data.sequences[i][:, leading] / _scale(pair[0].models["estimated"])[leading],
    )


def _scale(model: Any) -> NDArray:
    """What features are divided by; ones for baselines, whose metric includes it."""
    return getattr(model, "scale_", np.ones(model.n_features_in_))


def _weights(model: Any) -> NDArray:
    """B for standardized features: its diagonal (P,) where nothing else can be, or (P, P)."""
    components = model.components_ * _scale(model)
    B = components.T @ components
    diagonal = np.count_nonzero(B) == np.count_nonzero(np.diag(B))
    return np.diag(B) if diagonal else B


def _choices(outcomes: Sequence[Outcome]) -> dict[str, str]:
    sentences: dict[str, str] = {}
    several = len({outcome.split.name for outcome in outcomes}) > 1
    for outcome in outcomes:
        text = "; ".join(_sentence(outcome, column) for column in COLUMNS)
        where = f"[{outcome.split.name} held out] " if several else ""
        before = f"{sentences[outcome.method]} " if outcome.method in sentences else ""
        sentences[outcome.method] = f"{before}{where}{text}."
    return sentences


def _sentence(outcome: Outcome, column: str) -> str:
    choice, model = outcome.choices[column], outcome.models[column]
    words = [f"{key.rpartition('__')[2]} = {value}" for key, value in choice.parameters.items()]
    if column == "estimated" and hasattr(model, "solution_"):
        learned = choice.penalty == LEARNED
        words.append("penalty as learned" if learned else "penalty tuned after learning")
    text = f"K {column}: {', '.join(words) or 'nothing to choose'}"
    text += f", validation loss {choice.losses.mean():.3g}"
    if (solution := getattr(model, "solution_", None)) is not None:
        text += (
            f", training stopped after {len(solution.trace)} rounds ({solution.reason}) with a "
            f"certified gap of {100 * solution.relative_gap:.2g} % of the objective without metric"
        )
    return text


def _notes(best: Outcome, splits: Sequence[str], config: DictConfig) -> list[str]:
    train, test = best.split.train, best.split.test
    notes = [
        f"Hyper-parameters have the least mean ‖M − N‖² on {len(best.split.folds)} fold(s) of the "
        "training data; then every method is fitted again on all of the training data"
        + (
            " (training and validation sequences together)."
            if "root" not in config.dataset
            else "."
        ),
        "Penalties of baselines, and of ours where the choice says so, are tuned exactly on the "
        "training data.",
        f"model.npz is {best.method}, the best of ours on the folds, trained on "
        f"{len(train)} sequences; test sequences: {', '.join(test.names[:20])}"
        + ("." if len(test) <= 20 else ", …"),
        "Weights are those of standardized features.",
    ]
    if len(splits) > 1:
        notes.append(
            f"{len(splits)} splits, test groups: {'; '.join(splits)}. The table has the test "
            f"sequences of all; pictures and model.npz are of the first, {splits[0]}."
        )
    return notes
