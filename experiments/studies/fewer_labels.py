"""Experiments with fewer labels: Figure 1 of the paper, unlabeled stretches, and a few minutes.

**Figure 1** is the test loss against the fraction of each training sequence that is labeled, in the
setting of section 6.1 of the paper. In each training sequence only one stretch is labeled, whose
length is the given fraction of the sequence. Our method uses all samples: it alternates between
completing the labels and learning (section 5.2). It also estimates the number of segments. The
baselines are fitted to the labeled stretches, and get the true number of segments of every test
sequence. Hyper-parameters of all methods are chosen on validation sequences with the same labeled
fraction.

**Unlabeled stretches** are treated in several ways in training. Unlabeled stretches of test
sequences do not count: the loss, and the predicted and true numbers of segments, are computed on
labeled stretches.

**Minutes**: the league on a few labeled minutes of the training recordings.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from experiments.harness.cases import case_of, cut, group_folds, read_cases, synthetic_sequences
from experiments.harness.comparison import Comparison
from experiments.harness.procedure import Case, Losses, Method, Outcome, Scores, Story
from experiments.harness.report import Artifacts, page
from experiments.harness.results import MEASURE, OURS, Results, Row, curve_of, titled
from experiments.harness.scoring import sequence_losses
from experiments.pages.curves import Panel, plot_curves
from metriclearn import PartialPartition
from metriclearn.datasets import LabeledSequences
from metriclearn.plots.canvas import number

_KNOWN = (
    "The loss on what is known: of every labeled stretch, and 1 where no change is found between "
    "two stretches that differ."
)
_SHOWN = (OURS, "windows, extra trees, Viterbi", "logistic, Viterbi", "euclidean", "one segment")
_UNIT = " min"
_TRIES = 1000


@dataclass(frozen=True, eq=False, repr=False)
class LabeledStretches(LabeledSequences):
    """Labeled stretches, one of each recording, as separate recordings.

    ``whole`` has the whole recordings, where rows that are not labeled have the label −1.
    """

    whole: LabeledSequences = field(kw_only=True)

    @classmethod
    def of(cls, data: LabeledSequences, places: Mapping[int, slice]) -> Self:
        """Take stretches of some recordings. ``places`` maps the index of a recording to the rows
        of its stretch."""
        labels = []
        for i, place in places.items():
            known = np.full(len(data.labels[i]), -1, dtype=object)
            known[place] = data.labels[i][place]
            labels.append(known)
        whole, found = replace(data.select(list(places)), labels=labels), cut(data, places)
        names = [one.name for one in fields(LabeledSequences)]
        return cls(**{name: getattr(found, name) for name in names}, whole=whole)

    def select(self, indices: ArrayLike) -> Self:
        return replace(super().select(indices), whole=self.whole.select(indices))


def stretch_of_each(data: LabeledSequences, fraction: float, random_state: int) -> LabeledStretches:
    """Draw one stretch of every sequence, a given fraction of its length.

    With the same ``random_state``, a larger ``fraction`` extends the stretch of a smaller fraction.
    """
    rng = np.random.default_rng(random_state)
    places = {}
    for i, full in enumerate(data.labels):
        size = max(2, round(fraction * len(full)))
        start = int(rng.random() * (len(full) - size + 1))
        places[i] = slice(start, start + size)
    return LabeledStretches.of(data, places)


class Figure1(Comparison):
    """The experiment of Figure 1. A case is a seed and a labeled fraction. A method may get the
    true number of segments."""

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
        part, test = stretch_of_each(train, fraction, seed), replace(test, name=f"draw {seed}")
        folds = [(part, stretch_of_each(validation, fraction, seed + 1))]
        column = f"{100 * fraction:g} % labeled"
        return Case(f"seed {seed}, {column}", part, test, folds, column=column)

    def units(self, data: Any) -> Sequence[str]:
        """Return a single unit, because the sequences of a draw share the relevant features."""
        return ["validation" if isinstance(data, LabeledStretches) else data.name]

    def columns(self, method: Method) -> Sequence[str]:
        return ("given",) if method.options["told"] else ("estimated",)

    def fit(self, estimator: Any, data: Any, method: Method) -> Any:
        """Fit a method that gets the number of segments to the labeled stretches, and all other
        methods to whole sequences."""
        part = data if method.options["told"] else data.whole
        return estimator.fit(part.sequences, part.labels)

    def validate(self, method: Method, model: Any, train: Any, held_out: Any) -> Losses:
        """Compute the loss on the labeled parts of the validation sequences.

        A method that is given the number of segments gets the number in the labels of each stretch.
        """
        part = held_out if method.options["told"] else held_out.whole
        loss = -model.score(part.sequences, part.labels)
        return {column: {None: np.array([loss])} for column in self.columns(method)}

    def score(self, model: Any, option: Any, column: str, case: Case) -> tuple[Any, Scores]:
        return model, {MEASURE: np.array([sequence_losses(model, case.test, column).mean()])}

    def table(self, name: str) -> Row:
        title = "by the labeled part of each training sequence"
        note = "Ours estimates the number of segments; where the name says K given, it is told."
        return {"title": title, "unit": "draw of all sequences", "note": note}

    def story(self, outcomes: list[Outcome], folder: Path) -> Story:
        tables = self.numbers(outcomes)
        drawn = {"Loss by labeled part": (partial(plot_information, tables), 1.3)}
        return Story(page("figure1.protocol.j2").strip(), Artifacts(figures=drawn), tables)


def plot_information(results: Results, ax: Axes | None = None) -> Figure:
    """Plot the loss against the labeled percentage of every sequence, ours first."""
    names = dict.fromkeys(row["method"] for row in results["rows"])
    order = sorted(names, key=lambda name: name != OURS)
    curves = {name: curve_of(results["rows"], name) for name in order}
    first, *others = (mean[-1] for _, mean, _ in curves.values())
    message = f"With all labels, the learned metric has a loss of {number(first)}. The best other "
    message += (
        f"method has {number(min(others))}, although most others get the true number of segments"
    )
    panel = Panel("", "labeled part (%)", "test loss ‖M − N‖²", curves)
    return plot_curves([panel], message, ax)


class UnlabeledStretches(Comparison):
    """The experiment on unlabeled stretches. The columns differ in how they read the training data.

    Each column has a value of the loader's option ``unlabeled``. The test data are the same in all
    columns: they are read with the value of the first one. Pictures and models come from the first
    column.
    """

    few_labels = True
    measures = titled(*Comparison.measures, "count")

    def cases(self) -> list[Case]:
        cases: list[Case] = []
        for column, unlabeled in self.config.readings.items():
            config = copy.deepcopy(self.config)
            config.dataset.loader.unlabeled = unlabeled
            for i, case in enumerate(read_cases(config)):
                test = cases[i].test if column != next(iter(self.config.readings)) else case.test
                cases.append(replace(case, name=f"{column}: {case.name}", column=column, test=test))
        return cases

    def columns(self, method: Method) -> Sequence[str]:
        """Return only the column "estimated", because the number of segments of a whole sequence is
        unknown."""
        return ("estimated",)

    def score(self, model: Any, option: Any, column: str, case: Case) -> tuple[Any, Scores]:
        model, scores = super().score(model, option, column, case)
        return model, scores | {"count": np.abs(np.subtract(*counts(model, case.test)))}

    def story(self, outcomes: list[Outcome], folder: Path) -> Story:
        first = next(iter(self.config.readings))
        told = super().story([o for o in outcomes if o.case.column == first], folder)
        numbers = self.numbers(outcomes)
        found: dict[str, list[str]] = {}
        for outcome in outcomes:
            there, known = counts(outcome.models["estimated"], outcome.case.test)
            found.setdefault(outcome.name, []).append(str(there.sum()))
        texts = [f"{name} {' and '.join(totals)}" for name, totals in found.items()]
        note = (
            f"Of {known.sum()} segments known there, the methods find, by columns: "
            f"{'; '.join(texts)}."
        )
        for table in numbers["tables"]:
            table["note"] = note if table["measure"] == "count" else _KNOWN
        return replace(told, numbers=numbers)


def counts(model: Any, data: LabeledSequences) -> tuple[NDArray, NDArray]:
    """Count the predicted and the true segments in the labeled stretches, (N,) each."""
    found, known = [], []
    for ends, labels in zip(model.predict_change_points(data.sequences), data.labels):
        stretches = PartialPartition(len(labels), labels).pieces.stretches
        inside = [(start < ends) & (ends < true[-1]) for start, true in stretches]
        found.append(sum(1 + np.count_nonzero(changes) for changes in inside))
        known.append(sum(len(true) for _, true in stretches))
    return np.array(found), np.array(known)


def minutes_cases(case: Case, few: Mapping[str, Any], n_folds: int, seed: int) -> Iterator[Case]:
    """Yield a copy of the case for every number of minutes and every draw.

    Each copy is trained on that many minutes, drawn from the recordings for training.

    Parameters
    ----------
    case : Case
    few : mapping
        ``minutes``, a list of numbers; ``rows``, the number of rows per minute; ``draws``, the
        number of draws; and ``picked``, see :func:`drawn`.
    n_folds : int
    seed : int
    """
    for minutes in few["minutes"]:
        for draw in range(few["draws"]):
            train = drawn(case.train, minutes, few["rows"], seed + draw, few.get("picked", False))
            name = f"{case.name}, {minutes}{_UNIT}, draw {draw}"
            folds = group_folds(train, n_folds)
            shorter = case_of(name, train, case.test, folds, case.table)
            yield replace(shorter, column=f"{minutes}{_UNIT}")


def drawn(
    data: LabeledSequences, minutes: int, rows: int, seed: int, picked: bool = False
) -> LabeledStretches:
    """Draw stretches of equal length at random, each from a different recording.

    There are two stretches or more, from different groups if there are enough groups, and of at
    most a minute if there are enough recordings. The draw is repeated until one of the stretches
    contains a boundary. With ``picked``, every stretch contains a boundary if its recording has
    any, as those that a person would pick do.

    Raises
    ------
    ValueError
        If recordings are too short, or if there is no such draw among many.
    """
    random, shortest = check_random_state(seed), min(map(len, data.sequences))
    count = min(max(2, minutes, -(-minutes * rows // shortest)), len(data))
    length = minutes * rows // count
    if length > shortest:
        raise ValueError(f"{data.name} has less than {minutes} minutes to draw from")
    for _ in range(_TRIES):
        order = pd.Series(data.groups)[random.permutation(len(data))]
        turns = order.groupby(order).cumcount()  # recordings of the group that come first
        chosen = sorted(turns.sort_values(kind="stable").index[:count].tolist())
        places = {i: _stretch(data.change_points[i], length, random, picked) for i in chosen}
        found = LabeledStretches.of(data, places)
        if any(len(ends) > 1 for ends in found.change_points):
            return found
    raise ValueError(f"{data.name} has no {count} stretches of {length} rows with boundaries")


def _stretch(ends: NDArray, length: int, random: np.random.RandomState, picked: bool) -> slice:
    """Draw a stretch of a recording with the given segment ends."""
    starts = np.arange(ends[-1] - length + 1)
    inside = np.searchsorted(ends, starts + length) > np.searchsorted(ends, starts, side="right")
    start = int(random.choice(starts[inside] if picked and inside.any() else starts))
    return slice(start, start + length)


def draw_minutes(results: Results) -> Figure:
    """Plot the loss on test data against labeled minutes: ours, classifiers, and the Euclidean
    metric."""
    parts = []
    for name in [table["name"] for table in results["tables"] if table["main"]]:
        rows = [r for r in results["rows"] if (r["table"], r["measure"]) == (name, MEASURE)]
        curves = {}
        for method in _SHOWN:
            curves[method] = *curve_of(rows, method, _UNIT)[:2], None
        parts.append(Panel(name, "labeled minutes", "‖M − N‖²", curves, log=True))
    picked = ", in stretches with a boundary" if results["config"].get("picked") else ""
    return plot_curves(parts, f"A few labeled minutes{picked}")
