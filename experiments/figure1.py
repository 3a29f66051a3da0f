"""Figure 1 of the paper: test loss against the fraction of each training sequence that is labeled.

Section 6.1: all samples of the training sequences are there, but labels only in one stretch of
each, whose length is the given fraction of the sequence. Ours completes the labels and learns in
turns (section 5.2) and estimates the number of segments; the baselines fit on the labeled
stretches and are told the true number of segments of every test sequence. Hyper-parameters of all
methods are chosen on validation sequences of which the same fraction is labeled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from experiments.comparison import Comparison, sequence_losses, synthetic_sequences
from experiments.procedure import (
    Case,
    Losses,
    Method,
    Outcome,
    Row,
    Scores,
    Story,
    grouped,
    pooled_rows,
)
from experiments.report import MEASURE, Artifacts, page
from metriclearn.datasets import LabeledSequences
from metriclearn.plots.canvas import PALETTE, TEXT_SIZE, canvas, figure_of, tidy

Curves = Mapping[str, NDArray]  # fractions, means and standard errors, (3, fractions)


@dataclass(frozen=True)
class Stretches:
    """Sequences of which one stretch each is labeled."""

    data: LabeledSequences
    places: list[slice]

    @classmethod
    def draw(cls, data: LabeledSequences, fraction: float, random_state: int) -> Stretches:
        """A fraction of every sequence.

        The place of a stretch is drawn once per sequence, so that stretches grow with ``fraction``.
        """
        rng = np.random.default_rng(random_state)
        places = []
        for full in data.labels:
            size = max(2, round(fraction * len(full)))
            start = int(rng.random() * (len(full) - size + 1))
            places.append(slice(start, start + size))
        return cls(data, places)

    def training(self, told: bool) -> tuple[list[NDArray], list[NDArray]]:
        """Whole sequences with −1 where unlabeled or, for methods that are told, the stretches."""
        stretches = [y[place] for y, place in zip(self.data.labels, self.places)]
        if told:
            return [X[place] for X, place in zip(self.data.sequences, self.places)], stretches
        labels = [np.full(len(y), -1) for y in self.data.labels]
        for known, place, stretch in zip(labels, self.places, stretches):
            known[place] = stretch
        return self.data.sequences, labels


class Figure1(Comparison):
    """The procedure: a case is a seed and a fraction; a method may be told the true number."""

    def cases(self) -> list[Case]:
        return [
            self._case(seed, float(fraction))
            for fraction in self.config.fractions
            for seed in range(self.config.seed, self.config.seed + self.config.n_seeds)
        ]

    def _case(self, seed: int, fraction: float) -> Case:
        train, validation, test = synthetic_sequences(self.config, seed, feature_seed=seed)
        part = Stretches.draw(train, fraction, seed)
        folds = [(part, Stretches.draw(validation, fraction, seed + 1))]
        label = "" if fraction == 1 else f" at {fraction:g}"
        name = f"seed {seed}, {100 * fraction:g} % labeled"
        return Case(name, part, test, folds, label, {"fraction": fraction})

    def columns(self, method: Method) -> Sequence[str]:
        return ("given",) if method.options["told"] else ("estimated",)

    def fit(self, estimator: Any, data: Stretches, method: Method) -> Any:
        return estimator.fit(*data.training(method.options["told"]))

    def validate(self, method: Method, model: Any, train: Any, held_out: Stretches) -> Losses:
        """The loss on what is known of the validation sequences.

        A method that is told divides a stretch into as many segments as its labels have.
        """
        loss = -model.score(*held_out.training(method.options["told"]))
        return {column: {None: np.array([loss])} for column in self.columns(method)}

    def score(self, model: Any, option: Any, column: str, case: Case) -> tuple[Any, Scores]:
        mean = sequence_losses(model, case.test, column).mean()
        return model, {("test", MEASURE): np.array([mean])}

    def stories(self, outcomes: list[Outcome], folder: Path) -> list[Story]:
        rows = pooled_rows(outcomes)
        names = [method.name for method in self.methods()]
        rows.sort(key=lambda row: names.index(row["method"]))
        curves = _curves(rows)
        text = page(
            "figure1.md.j2",
            n_seeds=self.config.n_seeds,
            methods=list(curves),
            rows=grouped(rows, lambda row: row["fraction"]),
        )
        figure = plot_information(curves)
        figure.savefig(folder / "figure1.png", dpi=160)
        figure.savefig(folder / "figure1.svg", metadata={"Date": None})
        return [Story(rows, Artifacts(markdown=text))]


def _curves(rows: Sequence[Row]) -> Curves:
    """Fractions, means and standard errors of every method."""
    keys = ("fraction", "mean", "standard_error")
    return {
        name: np.array([[row[key] for key in keys] for row in mine]).T
        for name, mine in grouped(rows, lambda row: row["method"]).items()
    }


def plot_information(curves: Curves) -> Figure:
    """Loss against the labeled fraction with error bars; the first method is ours."""
    first, *others = (mean[-1] for _, mean, _ in curves.values())
    message = f"With all labels the learned metric errs {min(others) / first:.0f} times less"
    message += " than the best baseline, which knows the number of segments"
    ax = canvas(None, (6.4, 4.2), message)
    ends = []
    for place, (name, (x, mean, error)) in enumerate(curves.items()):
        color = PALETTE[place % 6]
        width = 1.3 if place else 2.6
        ax.errorbar(100 * x, mean, error, color=color, marker="o", ms=4, capsize=2.5, lw=width)
        ends.append((float(mean[-1]), name, color))
    ax.set_ylim(0, 1.12 * max(float((mean + error).max()) for _, mean, error in curves.values()))
    _name_curves(ax, ends, 100 * float(x[-1]))
    tidy(ax, "labeled part of each training sequence (%)", "test loss ‖M − N‖²", grid="y")
    return figure_of(ax)


def _name_curves(ax: Any, ends: Sequence[tuple[float, str, str]], right: float) -> None:
    """Names beside the last points, moved apart where they would overlap."""
    height, ends = 0.055 * ax.get_ylim()[1], sorted(ends)
    places = np.array([value for value, _, _ in ends])
    for _ in range(100):  # push neighbors apart by halves of what is missing
        missing = np.maximum(height - np.diff(places), 0.0) / 2.0
        places[1:] += missing
        places[:-1] -= missing
    for place, (_, name, color) in zip(places, ends):
        ax.text(1.02 * right, place, name, color=color, fontsize=TEXT_SIZE, va="center")
    ax.set_xlim(right=1.01 * right)
