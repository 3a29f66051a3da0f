"""The definition of experiments, and the numbers of their tables.

A procedure defines the methods and cases of an experiment. A procedure also defines how a method is
fitted, how its loss on held-out data is computed, and what the report contains. Everything else is
the same for all experiments: :mod:`experiments.harness.choosing` fits, chooses and scores, and
:mod:`experiments.harness.finished_fits` keeps every fit.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from hydra.utils import instantiate
from numpy.typing import NDArray
from omegaconf import DictConfig
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from experiments.harness.committed import kept_methods
from experiments.harness.report import Artifacts
from experiments.harness.results import COLUMNS, MEASURE, Measures, Row, is_ours, statistics, titled

Losses = dict[str, dict[Any, NDArray]]  # by column, then by option of the fitted model
Scores = dict[str, NDArray]  # by measure


@dataclass(frozen=True)
class Method:
    """A method of an experiment: an estimator, the candidates for its parameters, and other
    options."""

    name: str
    estimator: Any
    candidates: Sequence[Mapping[str, Any]] = ({},)
    options: Mapping[str, Any] = field(default_factory=dict)

    def each(self) -> list[Method]:
        """Make one method for each candidate."""
        names = [", ".join(filter(None, [self.name, in_words(one)])) for one in self.candidates]
        pairs = zip(names, self.candidates)
        return [replace(self, name=name, candidates=[one]) for name, one in pairs]

    def with_parameters(self, parameters: Mapping[str, Any]) -> Any:
        """Return a copy of the estimator with the parameters of a candidate."""
        copies = {name: clone(value, safe=False) for name, value in parameters.items()}
        return clone(self.estimator).set_params(**copies)


@dataclass(frozen=True, eq=False)
class Case:
    """Training data, test data, and folds of the training data.

    All choices are made on these folds. A fold is a pair: data to fit to, and held-out data.

    Attributes
    ----------
    table : str
        Name of the table of the results that has this case. A table averages over its cases.
    column : str
        The column of the results, if a table has a column for each case.
    overlap : float, optional
        Ratio of held-out to fitted samples, if splits share samples. If this ratio is given, the
        best candidate replaces the first one only where it is clearly better, see
        :func:`experiments.harness.choosing.choose`.
    shared : float
        Ratio of test to training samples, if the cases of a table are drawn from the same samples;
        otherwise 0.
    """

    name: str
    train: Any
    test: Any
    folds: Sequence[tuple[Any, Any]]
    table: str = "test"
    column: str = ""
    overlap: float | None = None
    shared: float = 0.0


@dataclass(frozen=True)
class Choice:
    """A choice that was made: a candidate, an option of its fitted model, and the losses on
    held-out data with this candidate and option.

    ``method`` names the learner behind the row "ours".
    """

    parameters: Mapping[str, Any]
    option: Any
    losses: NDArray
    method: str = ""

    def __str__(self) -> str:
        words = in_words(self.parameters) or ("" if self.method else "nothing to choose")
        return ", ".join(filter(None, [self.method, words]))


def in_words(parameters: Mapping[str, Any]) -> str:
    """Return parameters as text: names and values, and for an estimator its class."""
    return ", ".join(
        f"{key.rpartition('__')[2]} = "
        f"{type(value).__name__ if hasattr(value, 'get_params') else value}"
        for key, value in sorted(parameters.items())
    )


@dataclass(frozen=True)
class Outcome:
    """The outcome of one method in one case.

    The keys of the dictionaries are the columns "estimated" and "given", which tell how the number
    of segments is determined. ``seconds`` are the processor seconds of all fits, and
    ``fit_seconds`` are the processor seconds of the last fit.
    """

    method: Method
    case: Case
    choices: dict[str, Choice]
    models: dict[str, Any]
    scores: dict[str, Scores]
    seconds: float
    fit_seconds: float

    @property
    def name(self) -> str:
        """Name of the method."""
        return self.method.name

    @property
    def is_ours(self) -> bool:
        """Whether the metric is learned by this package."""
        return is_ours(self.name)

    def losses(self, column: str = "estimated") -> NDArray:
        """Return the partition loss on the test data."""
        return self.scores[column][MEASURE]

    def held_out(self, column: str = "estimated") -> float:
        """Return the mean held-out loss of the choice, or ∞ if no held-out loss was computed."""
        losses = self.choices[column].losses
        return float(losses.mean()) if len(losses) else np.inf


@dataclass(frozen=True)
class Story:
    """The content of a report: its protocol as text, its pictures, numbers and further fields.

    ``numbers`` has the ``tables`` and ``rows`` of results.json, whose layout is described in
    :mod:`experiments.harness.results`.
    """

    protocol: str
    artifacts: Artifacts
    numbers: Mapping[str, list[Row]]
    fields: Mapping[str, Any] = field(default_factory=dict)


class Procedure(Protocol):
    """The definition of an experiment.

    Attributes
    ----------
    config : DictConfig
        The configuration of the run.
    backend : "threads" or "processes"
        How fits run at the same time.
    validates_one : bool
        Whether a method with a single candidate is fitted on the folds, too. Our methods are always
        fitted on the folds. The option ``validated: false`` of a method with a single candidate
        saves these fits.
    entries : str
        The part of the configuration that describes the methods.
    each_candidate : bool
        Whether every candidate is a separate method, without a choice.
    reads_test_root : bool
        Whether the test data are read from the folder ``dataset.test_root``.
    certified : bool
        Whether the lower bounds of the solvers are valid.
    measures : mapping
        The title of each measure, and whether "less" or "more" is better. Tables of the first
        measure are the main ones.
    titles : mapping
        The title of each column. By default a column is its own title.
    """

    config: DictConfig
    backend: str = "processes"
    validates_one: bool = False
    entries: str = "methods"
    each_candidate: bool = False
    reads_test_root: bool = False
    certified: bool = True
    measures: Measures = titled(MEASURE)
    titles: Mapping[str, str] = COLUMNS

    def __init__(self, config: DictConfig) -> None:
        self.config = config

    def processor_time(self) -> float:
        """Return the processor seconds of this thread or, if fits run in processes, of this process
        with all its threads."""
        return time.process_time() if self.backend == "processes" else time.thread_time()

    def methods(self) -> list[Method]:
        """Return all methods, costly ones last, with expanded grids and without null entries.

        If the configuration has ``refit``, a list of names of methods, all others are left out.
        """
        # lists of Hydra's kind would take estimators that are dataclasses apart
        plain, kept = partial(instantiate, _convert_="all"), kept_methods(self.config, self.entries)
        methods = [
            Method(
                entry.name,
                plain(entry.estimator),
                list(ParameterGrid(plain(entry.get("grid") or {}))),
                {k: v for k, v in entry.items() if k not in ("name", "estimator", "grid")},
            )
            for entry in filter(None, self.config[self.entries].values())
            if entry.name not in kept
        ]
        if not self.each_candidate:
            return methods
        return [single for method in methods for single in method.each()]

    def suits(self, method: Method, case: Case) -> bool:
        """Return whether a method takes part in a case. A method with the option ``only`` takes
        part only in cases of the tables that this option names."""
        return case.table in method.options.get("only", [case.table])

    def cases(self) -> list[Case]:
        """Read the data, and return all cases."""

    def fit(self, estimator: Any, data: Any, method: Method) -> Any:
        """Fit the estimator, which has the parameters of a candidate of the method."""

    def validate(self, method: Method, model: Any, train: Any, held_out: Any) -> Losses:
        """Compute the losses of a model on held-out data, for every column and for every option
        that can be chosen."""

    def score(self, model: Any, option: Any, column: str, case: Case) -> tuple[Any, Scores]:
        """Apply an option, which was chosen for a column, to a model. Returns the model with this
        option, and its scores on the test data."""

    def columns(self, method: Method) -> Sequence[str]:
        """Return the columns in which a method has results."""
        return ("given",)

    def units(self, data: Any) -> Sequence[str]:
        """Return for every loss on the data the independent unit (a user, an image …) to which the
        loss belongs."""

    def weights(self, data: Any) -> NDArray | None:
        """Return the weight of every loss on the data in a mean. By default all weights are
        equal."""
        return None

    def place(self, outcome: Outcome, column: str) -> tuple[str, str]:
        """Return where the results show a column of an outcome: the name of the table, and the name
        of the column in it."""
        return outcome.case.table, outcome.case.column or column

    def table(self, name: str) -> Row:
        """Return the fields of a table: its title, the unit and a note. The title of ``test`` is
        the experiment's name."""
        title = self.config.name if name == "test" else name
        return {"title": title, "unit": f"test {self.config.get('unit', 'unit')}", "note": ""}

    def words(self, outcome: Outcome, column: str) -> str:
        """Return a sentence about the chosen hyper-parameters."""
        choice = outcome.choices[column]
        if not choice.method and not choice.parameters and choice.option is None:
            return ""
        loss = f" (loss held out {choice.losses.mean():.3g})" if len(choice.losses) else ""
        return f"{choice}{self.option_words(choice.option, column)}{loss}"

    def option_words(self, option: Any, column: str) -> str:
        """Describe in words what the chosen option of a column means."""
        return ""

    def numbers(self, outcomes: Sequence[Outcome]) -> dict[str, list[Row]]:
        """Make ``tables`` and ``rows`` of results.json. A row has the numbers of one measure and
        one method, over the cases of one table."""
        places: dict[tuple[str, str, str, str], list[tuple[Outcome, str]]] = {}
        for outcome in outcomes:
            for column, scores in outcome.scores.items():
                table, title = self.place(outcome, column)
                for measure in scores:
                    key = (measure, table, outcome.name, title)
                    places.setdefault(key, []).append((outcome, column))
        rows: list[Row] = []
        columns: dict[tuple[str, str], dict[str, str]] = {}
        for (measure, table, method, column), mine in places.items():
            columns.setdefault((table, measure), {})[column] = self.titles.get(column, column)
            rows.append(
                {"table": table, "measure": measure, "method": method, "column": column}
                | _row(self, mine, measure)
            )
        order = list(self.measures)
        tables = [
            {"name": table, "measure": measure}
            | dict(zip(("words", "better"), self.measures[measure]))
            | {"columns": titles, "main": measure == order[0]}
            | self.table(table)
            for (table, measure), titles in sorted(
                columns.items(), key=lambda i: order.index(i[0][1])
            )
        ]
        return {"tables": tables, "rows": rows}

    def story(self, outcomes: list[Outcome], folder: Path) -> Story:
        """Make the report. A procedure may also write further files to the folder."""


def _row(procedure: Procedure, mine: Sequence[tuple[Outcome, str]], measure: str) -> Row:
    """Compute the numbers and further fields of one row of the results, from outcomes of one
    method.

    ``mine`` has one pair for every case: the outcome, and the name of the column with the scores
    for this row.
    """
    tests = [outcome.case.test for outcome, _ in mine]
    values = np.concatenate([outcome.scores[column][measure] for outcome, column in mine])
    weights = [some for test in tests if (some := procedure.weights(test)) is not None]
    numbers = statistics(
        values,
        [unit for test in tests for unit in procedure.units(test)],
        np.concatenate(weights) if weights else None,
        mine[0][0].case.shared,
    )
    choices = {outcome.case.name: outcome.choices[column] for outcome, column in mine}
    held_out = [choice.losses for choice in choices.values() if len(choice.losses)]
    texts = {
        name: procedure.words(outcome, column) for name, (outcome, column) in zip(choices, mine)
    }
    if len(set(texts.values())) > 1:
        texts = {name: f"[{name}] {text}" for name, text in texts.items()}
    fitted = (getattr(outcome.models[column], "solution_", None) for outcome, column in mine)
    solutions = [solution for solution in fitted if solution is not None]
    reasons = [solution.reason for solution in solutions if not solution.converged]
    stopped = ""
    if reasons:
        which = ", ".join(sorted(set(reasons)))
        stopped = f"{len(reasons)} of {len(solutions)} fits ({which})"
    gaps = [solution.relative_gap for solution in solutions] if procedure.certified else []
    return numbers | {
        "choice": "; ".join(dict.fromkeys(texts.values())),
        "held_out": float(np.concatenate(held_out).mean()) if held_out else None,
        "gap": float(max(gaps)) if gaps else None,
        "stopped": stopped,
        "seconds": float(sum(outcome.seconds for outcome, _ in mine)),
        "fit_seconds": float(np.mean([outcome.fit_seconds for outcome, _ in mine])),
    }
