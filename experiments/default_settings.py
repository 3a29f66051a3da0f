"""How the defaults of ChangePointMetricLearner were chosen: cross-validation on training data.

``python -m experiments.default_settings`` reads the data folder METRICLEARN_DATA, takes only the
training part of every data set (no test sequence is looked at), and writes docs/defaults.md.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold

from metriclearn import (
    L1,
    BundleDual,
    ChangePointMetricLearner,
    DiagonalMetric,
    FullMetric,
    SquaredFrobenius,
    Trace,
)
from metriclearn.datasets import (
    LabeledSequences,
    load_gesture_phase,
    load_hapt,
    make_change_points,
)

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
FAMILIES: dict[str, tuple[Any, Any]] = {
    "diagonal, L1": (DiagonalMetric(), L1),
    "diagonal, squared": (DiagonalMetric(), SquaredFrobenius),
    "full, squared": (FullMetric(), SquaredFrobenius),
    "full, trace": (FullMetric(), Trace),
}


def training_sets() -> dict[str, LabeledSequences]:
    """Training parts only: 12 of the users of HAPT, user a of the gestures, synthetic training."""
    hapt = load_hapt(unlabeled="keep")
    users = sorted(set(hapt.groups))
    train = [i for i, user in enumerate(hapt.groups) if user not in users[2::3]]
    gestures = load_gesture_phase(features="va3", group="video")
    return {
        "synthetic": make_change_points(n_features=100, feature_seed=0, random_state=1),
        "hapt": hapt.select(train),
        "gesture_phase": gestures.select(range(len(gestures) - 2)),
    }


def validation_loss(
    data: LabeledSequences, family: str, strength: float, train: np.ndarray, held_out: np.ndarray
) -> float:
    """Mean ℓ·T of held-out sequences after training on the others."""
    metric, regularizer = FAMILIES[family]
    learner = ChangePointMetricLearner(
        metric, regularizer(strength), BundleDual(tolerance=1e-2, max_rounds=40)
    )
    fitted, rest = data.select(train), data.select(held_out)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        learner.fit(fitted.sequences, fitted.labels)
    return -float(
        np.mean([len(y) * learner.score(X, y) for X, y in zip(rest.sequences, rest.labels)])
    )


def main() -> None:
    """Cross-validate every family and strength on every training set; write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/defaults.md"))
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    sets = training_sets()
    tasks = [
        (name, family, strength, train, held_out)
        for name, data in sets.items()
        for train, held_out in GroupKFold(min(3, len(set(data.groups)))).split(
            data.sequences, groups=data.groups
        )
        for family in FAMILIES
        for strength in STRENGTHS
    ]
    losses = Parallel(n_jobs=arguments.jobs)(
        delayed(validation_loss)(sets[name], *rest) for name, *rest in tasks
    )
    table: dict[tuple[str, float], dict[str, list[float]]] = {}
    for (name, family, strength, *_), loss in zip(tasks, losses):
        table.setdefault((family, strength), {}).setdefault(name, []).append(loss)
    arguments.out.write_text(report(table, list(sets)))
    print(arguments.out.read_text())


def report(table: dict[tuple[str, float], dict[str, list[float]]], names: list[str]) -> str:
    """Markdown: mean ‖M − N‖² per data set, and the geometric mean over the best of each."""
    means = {key: np.array([np.mean(row[name]) for name in names]) for key, row in table.items()}
    best = np.min(list(means.values()), axis=0)
    lines = [
        "# How the defaults were chosen",
        "",
        "Mean ‖M − N‖² of held-out sequences, number of segments estimated, by 3-fold",
        "cross-validation inside the training part of each data set (groups never split).",
        "The last column is the geometric mean over data sets of the loss over the best loss",
        "in its column. Command: `python -m experiments.default_settings`.",
        "",
        "| metric, regularizer | strength | " + " | ".join(names) + " | ratio |",
        "|---|---|" + "---|" * (len(names) + 1),
    ]
    ratios = {key: float(np.exp(np.mean(np.log(row / best)))) for key, row in means.items()}
    for key in sorted(means, key=ratios.__getitem__):
        cells = " | ".join(f"{loss:.2f}" for loss in means[key])
        lines.append(f"| {key[0]} | {key[1]:g} | {cells} | {ratios[key]:.2f} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
