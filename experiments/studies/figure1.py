"""Figure 1 of the paper: test loss against the fraction of each training sequence that is labeled.

The setting is that of section 6.1 of the paper. In each training sequence only one stretch is
labeled, whose length is the given fraction of the sequence. Our method uses all samples: it
alternates between completing the labels and learning (section 5.2). Our method also estimates the
number of segments. The baselines are fitted to the labeled stretches, and get the true number of
segments of every test sequence. Hyper-parameters of all methods are chosen on validation sequences
with the same labeled fraction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from experiments.harness.comparison import Comparison, synthetic_sequences
from experiments.harness.procedure import (
    Case,
    Losses,
    Method,
    Outcome,
    Row,
    Scores,
    Story,
    curve_of,
    tables_and_rows,
)
from experiments.harness.report import Artifacts
from experiments.harness.results import MEASURE, OURS
from experiments.harness.scoring import sequence_losses
from experiments.pages.curves import Panel, plot_curves
from metriclearn.datasets import LabeledSequences
from metriclearn.plots.canvas import number

Curves = Mapping[str, NDArray]  # fractions, means and standard errors, (3, fractions)
_PROTOCOL = (
    "In each draw, a part of every training and validation sequence is labeled; test sequences are "
    "scored whole. Hyper-parameters are chosen by the least loss on the labeled parts of the "
    "validation sequences. Our method alternates between completing the labels and learning."
)


@dataclass(frozen=True)
class Stretches:
    """Sequences with one labeled stretch each."""

    data: LabeledSequences
    places: list[slice]

    @classmethod
    def draw(cls, data: LabeledSequences, fraction: float, random_state: int) -> Stretches:
        """Draw one stretch of every sequence, a given fraction of its length.

        With the same ``random_state``, a larger ``fraction`` extends the stretch of a smaller
        fraction.
        """
        rng = np.random.default_rng(random_state)
        places = []
        for full in data.labels:
            size = max(2, round(fraction * len(full)))
            start = int(rng.random() * (len(full) - size + 1))
            places.append(slice(start, start + size))
        return cls(data, places)

    def training(self, told: bool) -> tuple[list[NDArray], list[NDArray]]:
        """Return the sequences and labels for training. A method that gets the number of segments
        (``told``) is trained on the labeled stretches. All other methods are trained on whole
        sequences, with −1 for unlabeled samples."""
        stretches = [y[place] for y, place in zip(self.data.labels, self.places)]
        if told:
            return [X[place] for X, place in zip(self.data.sequences, self.places)], stretches
        labels = [np.full(len(y), -1) for y in self.data.labels]
        for known, place, stretch in zip(labels, self.places, stretches):
            known[place] = stretch
        return self.data.sequences, labels


class Figure1(Comparison):
    """The experiment of Figure 1. A case is a seed and a labeled fraction. A method may get the
    true number of segments."""

    agrees = False
    validates_one = False
    reads_test_root = False
    titles: Mapping[str, str] = {}

    def cases(self) -> list[Case]:
        return [
            self._case(seed, float(fraction))
            for fraction in self.config.fractions
            for seed in range(self.config.seed, self.config.seed + self.config.n_seeds)
        ]

    def _case(self, seed: int, fraction: float) -> Case:
        train, validation, test = synthetic_sequences(self.config, seed, feature_seed=seed)
        part, test = Stretches.draw(train, fraction, seed), replace(test, name=f"draw {seed}")
        folds = [(part, Stretches.draw(validation, fraction, seed + 1))]
        column = f"{100 * fraction:g} % labeled"
        return Case(f"seed {seed}, {column}", part, test, folds, column=column)

    def units(self, data: Any) -> Sequence[str]:
        """Return a single unit, because the sequences of a draw share the relevant features."""
        return [data.name] if isinstance(data, LabeledSequences) else ["validation"]

    def columns(self, method: Method) -> Sequence[str]:
        return ("given",) if method.options["told"] else ("estimated",)

    def fit(self, estimator: Any, data: Stretches, method: Method) -> Any:
        return estimator.fit(*data.training(method.options["told"]))

    def validate(self, method: Method, model: Any, train: Any, held_out: Stretches) -> Losses:
        """Compute the loss on the labeled parts of the validation sequences.

        A method that is given the number of segments gets the number in the labels of each stretch.
        """
        loss = -model.score(*held_out.training(method.options["told"]))
        return {column: {None: np.array([loss])} for column in self.columns(method)}

    def score(self, model: Any, option: Any, column: str, case: Case) -> tuple[Any, Scores]:
        return model, {MEASURE: np.array([sequence_losses(model, case.test, column).mean()])}

    def table(self, name: str) -> Row:
        title = "by the labeled part of each training sequence"
        note = "Ours estimates the number of segments; where the name says K given, it is told."
        return {"title": title, "unit": "draw of all sequences", "note": note}

    def story(self, outcomes: list[Outcome], folder: Path) -> Story:
        tables = tables_and_rows(self, outcomes)
        curves = _curves(tables["rows"], [method.name for method in self.methods()])
        drawn = {"Loss by labeled part": (partial(plot_information, curves), 1.3)}
        artifacts = Artifacts(figures=drawn)
        return Story(_PROTOCOL, artifacts, tables)


def draw(results: Mapping[str, Any]) -> Figure:
    """Draw the figure from results.json."""
    names = dict.fromkeys(row["method"] for row in results["rows"])
    return plot_information(_curves(results["rows"], sorted(names, key=lambda name: name != OURS)))


def _curves(rows: Sequence[Row], names: Sequence[str]) -> Curves:
    """Return the curve of every method: labeled fractions, mean losses and standard errors."""
    return {name: curve_of(rows, name) for name in names}


def plot_information(curves: Curves, ax: Axes | None = None) -> Figure:
    """Plot the loss against the labeled fraction. The first method is ours."""
    first, *others = (mean[-1] for _, mean, _ in curves.values())
    message = f"With all labels, the learned metric has a loss of {number(first)}. The best other "
    message += (
        f"method has {number(min(others))}, although most others get the true number of segments"
    )
    percent = {name: (100 * x, mean, error) for name, (x, mean, error) in curves.items()}
    panel = Panel("", "labeled part (%)", "test loss ‖M − N‖²", percent)
    return plot_curves([panel], message, ax)
