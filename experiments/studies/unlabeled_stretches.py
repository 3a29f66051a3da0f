"""Treat unlabeled stretches in several ways in training, and score only labeled stretches.

Unlabeled stretches of the test sequences do not count: the loss, and the predicted and true numbers
of segments, are computed on the labeled stretches.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.harness.comparison import Comparison, read_cases
from experiments.harness.procedure import Case, Method, Outcome, Scores, Story, tables_and_rows
from metriclearn import PartialPartition
from metriclearn.datasets import LabeledSequences

_NOTE = (
    "The loss on what is known: of every labeled stretch, and 1 where no change is found between "
    "two stretches that differ."
)


class UnlabeledStretches(Comparison):
    """The experiment on unlabeled stretches. The columns differ in how they read the training data.

    Each column has a value of the loader's option ``unlabeled``. The test data are the same in all
    columns: they are read with the value of the first one. Pictures and models come from the first
    column.
    """

    measures: Mapping[str, tuple[str, str]] = {
        **Comparison.measures,
        "count": ("segments too many or too few in labeled stretches", "less"),
    }

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
        numbers = tables_and_rows(self, outcomes)
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
            table["note"] = note if table["measure"] == "count" else _NOTE
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
