"""How the defaults of ChangePointMetricLearner were chosen: cross-validation on training data.

``python -m experiments.default_settings`` reads the data folder METRICLEARN_DATA, takes only the
training part of every data set (no test sequence is looked at), and writes docs/defaults.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from experiments.comparison import group_folds, sequence_losses
from experiments.procedure import quiet
from experiments.report import markdown_table
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


def validation_loss(setting: tuple[str, float], data: LabeledSequences) -> float:
    """Mean ‖M − N‖² of held-out sequences in 3 folds, the mean over folds."""
    family, strength = setting
    metric, regularizer = FAMILIES[family]
    solver = BundleDual(tolerance=1e-2, max_rounds=40)
    learner = ChangePointMetricLearner(metric, regularizer(strength), solver)
    losses = []
    for train, held_out in group_folds(data, 3):
        fitted = data.select(train)
        learner.fit(fitted.sequences, fitted.labels)
        losses.append(sequence_losses(learner, data.select(held_out)).mean())
    return float(np.mean(losses))


def all_losses(
    loss: Callable[[Any, Any], float], settings: Iterable[Any], sets: Sequence[Any], n_jobs: int
) -> NDArray:
    """The loss of every setting on every data set, (settings, data sets)."""

    def row(setting: Any) -> list[float]:
        with quiet():
            return [loss(setting, data) for data in sets]

    return np.array(Parallel(n_jobs)(delayed(row)(setting) for setting in settings))


def command_line(description: str | None, out: str) -> argparse.ArgumentParser:
    """``--out FILE --jobs 2``."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, default=Path(out))
    parser.add_argument("--jobs", type=int, default=2)
    return parser


def main() -> None:
    """Cross-validate every family and strength on every training set; write the table."""
    options = command_line(__doc__, "docs/defaults.md").parse_args()
    sets, settings = training_sets(), list(product(FAMILIES, STRENGTHS))
    means = all_losses(validation_loss, settings, list(sets.values()), options.jobs)
    text = report(settings, means, list(sets))
    options.out.write_text(text, encoding="utf-8")
    print(text)


def report(settings: list[tuple[str, float]], means: np.ndarray, names: list[str]) -> str:
    """Markdown: mean ‖M − N‖² per data set, and the geometric mean over the best of each."""
    ratios = np.exp(np.mean(np.log(means / means.min(axis=0)), axis=1))
    rows = [
        [settings[i][0], f"{settings[i][1]:g}", *(f"{x:.2f}" for x in means[i]), f"{ratios[i]:.2f}"]
        for i in np.argsort(ratios, kind="stable")
    ]
    lines = [
        "# How the defaults were chosen",
        "",
        "Mean ‖M − N‖² of held-out sequences, number of segments estimated, by 3-fold",
        "cross-validation inside the training part of each data set (groups never split).",
        "The last column is the geometric mean over data sets of the loss over the best loss",
        "in its column. Command: `python -m experiments.default_settings`.",
        "",
        *markdown_table(["metric, regularizer", "strength", *names, "ratio"], rows),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
