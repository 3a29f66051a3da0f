"""Learned penalties compared with published ones: ``python -m experiments.run
experiment=penalties``.

The data are the targets of published comparisons, with their official test folds (see
:func:`metriclearn.datasets.load_dataset`). Candidates are chosen by label errors in
cross-validation inside the training folds. The table has the published results, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import KFold

from experiments.harness.procedure import Case, Losses, Method, Outcome, Procedure, Scores, Story
from experiments.harness.report import Artifacts, page
from experiments.harness.results import NOT_FITTED, Row, grouped, statistics, titled
from metriclearn.baselines import IntervalRegression
from metriclearn.datasets import PenaltyTargets, data_folder, fetch, load_dataset
from metriclearn.oracles.penalty_search import widest_run

RIGHT = "percent_right"


@dataclass(frozen=True, eq=False)
class Part:
    """The sequences of one data set, with its name."""

    name: str
    data: PenaltyTargets

    def select(self, indices: NDArray) -> Part:
        return Part(self.name, self.data.select(indices))


@dataclass(eq=False, repr=False)
class PenaltyRegression(BaseEstimator):
    """Predict logarithms of penalties from features, by interval regressions on parts of the data.

    Features that are not finite become the least finite value of their column. Constant columns are
    not used. A constant is added to the mean prediction. :func:`best_shift` chooses the constant
    that gives the fewest label errors on the training data.

    Parameters
    ----------
    regression : IntervalRegression
    columns : sequence of str, optional
        Features to use; all by default.
    n_members : int
        Number of regressions whose predictions are averaged. Each regression leaves out a different
        part of the data. A single regression is fitted to all data.
    """

    regression: Any = IntervalRegression()  # noqa: RUF009
    columns: Sequence[str] | None = None
    n_members: int = 1

    def fit(self, data: PenaltyTargets) -> Self:
        """Fit the regressions, then choose the constant that is added to their mean."""
        names = data.feature_names
        self.places_ = [names.index(c) for c in (names if self.columns is None else self.columns)]
        rows = self._chosen(data)
        finite = np.where(np.isfinite(rows), rows, np.inf)
        least = finite.min(axis=0, initial=np.inf)
        self.least_ = np.where(np.isfinite(least), least, 0.0)
        X, y = self._filled(rows), np.array(data.intervals)
        parts = [np.arange(len(X))]
        if self.n_members > 1:
            parts = [a for a, _ in KFold(self.n_members, shuffle=True, random_state=0).split(X)]
        self.members_ = [clone(self.regression).fit(X[part], y[part]) for part in parts]
        self.shift_ = 0.0
        self.shift_ = best_shift(self.predict(data), data)
        return self

    def predict(self, data: PenaltyTargets) -> NDArray[np.float64]:
        """Return the logarithms of the predicted penalties, (n,)."""
        X = self._filled(self._chosen(data))
        return np.mean([member.predict(X) for member in self.members_], axis=0) + self.shift_

    def _chosen(self, data: PenaltyTargets) -> NDArray[np.float64]:
        return np.array(data.features)[:, self.places_]

    def _filled(self, rows: NDArray) -> NDArray[np.float64]:
        return np.where(np.isfinite(rows), rows, self.least_)


def best_shift(logs: NDArray, data: PenaltyTargets) -> float:
    """Find the constant that gives the fewest errors on ``data`` when it is added to the predicted
    log penalties ``logs``. The search is exact.

    The constants with the fewest errors form one or more intervals. The result is the middle of the
    widest of these intervals.
    """
    events = [(s - z, d) for z, starts, errors in zip(logs, data.starts, data.errors)
              for s, d in zip(starts[1:], np.diff(errors))]  # fmt: skip
    places, changes = np.array(sorted(events)).reshape(-1, 2).T
    if not len(places):
        return 0.0
    ends = np.unique(places)
    totals = np.add.reduceat(changes, np.searchsorted(places, ends)).cumsum()
    totals = np.concatenate([[0.0], totals])  # relative to the errors of a tiny penalty
    best = totals == totals.min()
    lows = np.concatenate([[ends[0] - 2.0], ends])
    highs = np.concatenate([ends, [ends[-1] + 2.0]])
    first, last = widest_run(best, -highs, -lows)  # mirrored, since it wants the highest first
    return float((lows[first] + highs[last]) / 2)


class Penalties(Procedure):
    """The experiment on penalties. A case is a test fold of a data set, and a unit is a data
    set."""

    measures = titled(RIGHT)
    titles: Mapping[str, str] = {"given": "mean over test folds"}

    def cases(self) -> list[Case]:
        cases = []
        for name in self.config.sets or sets_here(self.config.n_sets):
            data, folds = load_dataset("penalties", set=name)
            whole = Part(name, data)
            for fold in np.unique(folds)[: self.config.n_cases]:
                train, test = (
                    whole.select(np.flatnonzero(m)) for m in (folds != fold, folds == fold)
                )
                cutter = KFold(self.config.n_folds, shuffle=True, random_state=self.config.seed)
                pairs = cutter.split(np.zeros(len(train.data)))
                parts = [(train.select(a), train.select(b)) for a, b in pairs]
                cases.append(Case(f"{name}, fold {fold}", train, test, parts))
        return cases

    def fit(self, estimator: Any, data: Any, method: Method) -> Any:
        return estimator.fit(data.data)

    def validate(self, method: Method, model: Any, train: Any, held_out: Any) -> Losses:
        return {"given": {None: 100.0 - percent_right(model, held_out.data)}}

    def score(self, model: Any, option: Any, column: str, case: Case) -> tuple[Any, Scores]:
        return model, {RIGHT: percent_right(model, case.test.data)}

    def units(self, data: Any) -> Sequence[str]:
        return [data.name]

    def table(self, name: str) -> Row:
        note = "Published: means over the same test folds, of the source's table."
        return {"title": "all sets" if name == "test" else name, "unit": "data set", "note": note}

    def story(self, outcomes: list[Outcome], folder: Path) -> Story:
        """Make one table of all sets, with the published results as further rows."""
        numbers = self.numbers(outcomes)
        done = grouped(outcomes, lambda outcome: outcome.case.train.name)
        folds = {
            name: {int(o.case.name.rpartition(" ")[2]) for o in mine} for name, mine in done.items()
        }
        numbers["rows"] = [*numbers["rows"], *published(folds)]
        facts = {"n_sets": len(folds), "n_folds": self.config.n_folds}
        protocol = page("penalties.protocol.j2", **facts).strip()
        return Story(protocol, Artifacts(), numbers)


def sets_here(most: int | None = None) -> list[str]:
    """Return the names of all data sets whose files exist, or of at most the ``most`` smallest
    ones."""
    folder = fetch("penalties", "folds.csv.xz").parent
    table = pd.read_csv(folder / "folds.csv.xz").drop_duplicates(["set", "sequenceID"])
    sizes = table["set"].value_counts(sort=False).sort_values(kind="stable")
    return [name for name in sizes.index if (folder / f"{name}_inputs.csv.xz").is_file()][:most]


def percent_right(model: Any, data: PenaltyTargets) -> NDArray[np.float64]:
    """Compute the percentage of labels with which the segmentations at the predicted penalties
    agree. Returns an array of one number."""
    errors = data.errors_at(model.predict(data))
    return np.array([100.0 * (1.0 - errors.sum() / sum(data.n_labels))])


def published(folds: Mapping[str, set[int]]) -> list[Row]:
    """Make rows of the published results, on the given test folds of each data set."""
    table = pd.read_csv(data_folder("penalties") / "published.csv")
    table = table[table["cv"].isin(["sequenceID", "equal_labels"]) & (table["model"] != "GP")]
    some = [fold in folds.get(name, ()) for name, fold in zip(table["set"], table["fold"])]
    rows = []
    for model, mine in table[some].groupby("model"):
        numbers = statistics(mine["percent_correct"].to_numpy(), mine["set"].tolist())
        place: Row = {"table": "test", "measure": RIGHT, "column": "given"}
        rows.append(place | {"method": f"published: {model}"} | numbers | NOT_FITTED)
    return rows
