"""One experiment, told once: methods × cases, chosen on training data, scored on test data.

A procedure says what its methods and cases are, how one is fitted to data, what its loss on data
held out is, and what the report tells. Everything else is here and the same for all experiments:
every candidate of a method is fitted on every fold of the training data; the candidate of least
mean loss held out is fitted again to all training data; then the test data are looked at once.
The row "ours" is the simplest of our methods that is within one standard error of the best of them
on the data held out: what the training data alone would have chosen.
Every fit is on disk as soon as it is done, so that the same command goes on where it was stopped.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, TypeVar

import joblib
import numpy as np
from hydra.utils import instantiate
from numpy.typing import NDArray
from omegaconf import DictConfig
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid
from threadpoolctl import threadpool_limits
from tqdm import tqdm

import metriclearn
from experiments.report import Artifacts
from experiments.results import COLUMNS, MEASURE, OURS, is_ours
from metriclearn.running.files import replacing

Item = TypeVar("Item")
Losses = dict[str, dict[Any, NDArray]]  # by column, then by option of the fitted model
Scores = dict[str, NDArray]  # by measure
Row = dict[str, Any]
_Task = tuple[list[str], tuple[Any, ...]]  # what names a result, and the call that makes it
SILENCE = 30  # seconds between lines of progress where there is no terminal
_logger = logging.getLogger(__name__)


def grouped(items: Iterable[Item], key: Callable[[Item], Any]) -> dict[Any, list[Item]]:
    """Items by their key, keys and items in the order in which they come."""
    groups: dict[Any, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


@dataclass(frozen=True)
class Method:
    """An estimator, the candidates for its parameters, and what else its configuration says."""

    name: str
    estimator: Any
    candidates: Sequence[Mapping[str, Any]] = ({},)
    options: Mapping[str, Any] = field(default_factory=dict)

    def each(self) -> list[Method]:
        """A method of its own for every candidate; its option "family" is the name of them all."""
        options = {**self.options, "family": self.name}
        methods = []
        for candidate in self.candidates:
            words = in_words(candidate)
            name = f"{self.name}, {words}" if words else self.name
            methods.append(Method(name, self.estimator, [candidate], options))
        return methods

    def with_parameters(self, parameters: Mapping[str, Any]) -> Any:
        """A copy of the estimator with the parameters of a candidate."""
        copies = {name: clone(value, safe=False) for name, value in parameters.items()}
        return clone(self.estimator).set_params(**copies)


@dataclass(frozen=True, eq=False)
class Case:
    """Training data with folds (to fit to, held out) for the choices, and test data.

    Attributes
    ----------
    table : str
        Where the results stand; cases of the same table are averaged over.
    column : str
        The same, where a table has a column for each case.
    overlap : float, optional
        Held-out over fitted samples, where splits share samples. With it, the best candidate
        replaces the first one only where it is clearly better, see :func:`choose`.
    shared : float
        Test over training samples, where the cases of a table are drawn from the same samples.
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
    """A candidate, the option of its fitted model, and its losses on the data held out.

    ``method`` is the one of ours that the row "ours" takes.
    """

    parameters: Mapping[str, Any]
    option: Any
    losses: NDArray
    method: str = ""

    def __str__(self) -> str:
        words = in_words(self.parameters) or ("" if self.method else "nothing to choose")
        return ", ".join(filter(None, [self.method, words]))


def in_words(parameters: Mapping[str, Any]) -> str:
    """Names and values; of an estimator the class."""
    return ", ".join(
        f"{key.rpartition('__')[2]} = "
        f"{type(value).__name__ if hasattr(value, 'get_params') else value}"
        for key, value in sorted(parameters.items())
    )


@dataclass(frozen=True)
class Outcome:
    """One method in one case; dictionaries are by column, "estimated" or "given" segments.

    Seconds are the processor's: ``seconds`` for all fits, ``fit_seconds`` for the last one.
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
        """That of the method."""
        return self.method.name

    @property
    def is_ours(self) -> bool:
        """Whether the metric is learned by this package."""
        return is_ours(self.name)

    def losses(self, column: str = "estimated") -> NDArray:
        """The partition loss on the test data."""
        return self.scores[column][MEASURE]

    def held_out(self, column: str = "estimated") -> float:
        """Mean loss of the choice on the data held out; infinite where nothing was chosen."""
        losses = self.choices[column].losses
        return float(losses.mean()) if len(losses) else np.inf


@dataclass(frozen=True)
class Story:
    """What a procedure tells: its protocol in sentences, pictures, numbers and further fields.

    ``numbers`` has the ``tables`` and ``rows`` of results.json, see :mod:`experiments.results`.
    """

    protocol: str
    artifacts: Artifacts
    numbers: Mapping[str, list[Row]]
    fields: Mapping[str, Any] = field(default_factory=dict)


class Procedure(Protocol):
    """What an experiment is.

    Attributes
    ----------
    config : DictConfig
        The configuration of the run.
    backend : "threads" or "processes"
        Where fits run at the same time.
    validates_one : bool
        Whether a method with a single candidate is fitted on the folds, too; ours always are.
    entries : str
        The part of the configuration that describes the methods.
    each_candidate : bool
        Whether every candidate is a method of its own, with nothing to choose.
    reads_test_root : bool
        Whether ``dataset.test_root`` is the folder of the test data.
    certified : bool
        Whether the solvers' lower bounds hold.
    measures : mapping
        Name → what a reader calls it, and whether "less" or "more" is better; tables of the first
        one are the main ones.
    titles : mapping
        Column → title; the column itself where it is missing.
    """

    config: DictConfig
    backend: str = "processes"
    validates_one: bool = False
    entries: str = "methods"
    each_candidate: bool = False
    reads_test_root: bool = False
    certified: bool = True
    measures: Mapping[str, tuple[str, str]] = {MEASURE: ("‖M − N‖²", "less")}
    titles: Mapping[str, str] = COLUMNS

    def __init__(self, config: DictConfig) -> None:
        self.config = config

    def methods(self) -> list[Method]:
        """All methods, costly ones last: null entries left out, their grids spelled out."""
        # lists of Hydra's kind would take estimators that are dataclasses apart
        plain = partial(instantiate, _convert_="all")
        methods = [
            Method(
                entry.name,
                plain(entry.estimator),
                list(ParameterGrid(plain(entry.get("grid") or {}))),
                {k: v for k, v in entry.items() if k not in ("name", "estimator", "grid")},
            )
            for entry in filter(None, self.config[self.entries].values())
        ]
        if not self.each_candidate:
            return methods
        return [single for method in methods for single in method.each()]

    def cases(self) -> list[Case]:
        """All cases; reads the data."""

    def fit(self, estimator: Any, data: Any, method: Method) -> Any:
        """The estimator, which has the parameters of a candidate of the method, fitted."""

    def validate(self, method: Method, model: Any, train: Any, held_out: Any) -> Losses:
        """Losses of a model on held-out data, for every column and option to choose from."""

    def score(self, model: Any, option: Any, column: str, case: Case) -> tuple[Any, Scores]:
        """The model with the chosen option of a column, and its scores on the test data."""

    def columns(self, method: Method) -> Sequence[str]:
        """The columns of a method."""
        return ("given",)

    def units(self, data: Any) -> Sequence[str]:
        """The independent unit (a user, an image …) of every loss on the data."""

    def weights(self, data: Any) -> NDArray | None:
        """How much every loss on the data counts; all the same by default."""
        return None

    def place(self, outcome: Outcome, column: str) -> tuple[str, str]:
        """Table and column where a column of an outcome stands."""
        return outcome.case.table, outcome.case.column or column

    def table(self, name: str) -> Row:
        """Fields of a table: its title, the unit and a note; ``test`` has the experiment's name."""
        title = self.config.name if name == "test" else name
        return {"title": title, "unit": f"test {self.config.get('unit', 'unit')}", "note": ""}

    def words(self, outcome: Outcome, column: str) -> str:
        """How the hyper-parameters came out."""
        choice = outcome.choices[column]
        if not choice.method and not choice.parameters and choice.option is None:
            return ""
        loss = f" (loss held out {choice.losses.mean():.3g})" if len(choice.losses) else ""
        return f"{choice}{loss}"

    def story(self, outcomes: list[Outcome], folder: Path) -> Story:
        """The report; may write further files to the folder."""


class Finished:
    """Results of calls, each in a file as soon as it is there, and read instead of made again.

    Parameters
    ----------
    folder : path
    settings : mapping
        All that decides the results, beside the keys of the calls.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder, self.settings = folder, json.dumps(settings, sort_keys=True)
        folder.mkdir(parents=True, exist_ok=True)

    def __len__(self) -> int:
        """How many results there are."""
        return sum(1 for _ in self.folder.glob("*.joblib"))

    def __call__(self, key: Sequence[str], call: Callable[..., Any], *arguments: Any) -> Any:
        """What ``call(*arguments)`` returned in this or an earlier run."""
        text = json.dumps([metriclearn.__version__, self.settings, *key])
        path = self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.joblib"
        if path.is_file():
            return joblib.load(path)
        result = call(*arguments)
        with replacing(path) as stream:
            joblib.dump(result, stream)
        return result


@dataclass(frozen=True)
class _Trial:
    """One fit: its losses on other data, and the model where no other fit is to follow."""

    losses: Losses
    seconds: float
    fit_seconds: float
    model: Any = None


def compare(procedure: Procedure, finished: Finished, n_jobs: int = 1) -> list[Outcome]:
    """Choose, fit again and score every method in every case; see the top of the module.

    Cost: methods × candidates × folds fits for the choices, one or two more per method and case;
    ``n_jobs`` at the same time, costly methods first.
    """
    cases, methods = procedure.cases(), procedure.methods()
    pairs = [(method, case) for case in cases for method in methods]
    prints = {case.name: joblib.hash(case) for case in cases}
    keys = [[method.name, case.name, prints[case.name]] for method, case in pairs]
    tasks = [_trials(procedure, method, case, key) for key, (method, case) in zip(keys, pairs)]
    tried = _run("choose", [*chain(*tasks)], finished, procedure.backend, n_jobs)
    finals: list[_Task] = []
    start = 0  # of the trials of a pair among all
    for key, (method, case), some in zip(keys, pairs, tasks):
        stop = start + len(some)
        finals.append(([*key, "final"], (_finish, procedure, method, case, tried[start:stop])))
        start = stop
    results = _run("fit again", finals, finished, procedure.backend, n_jobs)
    outcomes = [Outcome(method, case, *result) for (method, case), result in zip(pairs, results)]
    for case in cases:
        mine = [outcome for outcome in outcomes if outcome.case is case and outcome.is_ours]
        if mine and all(outcome.name != OURS for outcome in mine):
            outcomes.append(chosen(procedure, mine))
    return outcomes


def chosen(procedure: Procedure, mine: Sequence[Outcome]) -> Outcome:
    """What the training data choose among our methods in a case, for every column.

    The first one, from simple to complex as they are configured, that is no worse than the best on
    the data held out by more than one standard error of their paired differences over units. Each
    has its strength of least mean loss: a strength as large as one standard error allows was no
    better on training data (docs/research/choosing.md).
    """
    case = mine[0].case
    fields: dict[str, Any] = {"choices": {}, "models": {}, "scores": {}}
    for column in mine[0].choices:
        held_out = [outcome.choices[column].losses for outcome in mine]
        place = 0
        if len(held_out[0]):
            units = [
                f"{i} {u}" for i, part in enumerate(case.folds) for u in procedure.units(part[1])
            ]
            means = np.array([statistics(losses, units)["values"] for losses in held_out])
            excess = means - means[means.mean(axis=1).argmin()]
            errors = [standard_error(row, overlap=case.overlap or 0.0) or 0.0 for row in excess]
            place = int(np.argmax(excess.mean(axis=1) <= np.array(errors) + 1e-12))
        best = mine[place]
        fields["choices"][column] = replace(best.choices[column], method=best.name)
        fields["models"][column] = best.models[column]
        fields["scores"][column] = best.scores[column]
    fields["seconds"] = sum(outcome.seconds for outcome in mine)
    return Outcome(Method(OURS, None), case, **fields, fit_seconds=best.fit_seconds)


def _trials(procedure: Procedure, method: Method, case: Case, key: list[str]) -> list[_Task]:
    """A fit of every candidate to every fold, by candidate; none where nothing is to be chosen."""
    tasks: list[_Task] = []
    validated = procedure.validates_one or (is_ours(method.name) and not procedure.each_candidate)
    if len(method.candidates) == 1 and not validated:
        return tasks
    for i in range(len(method.candidates)):
        for j, (train, held_out) in enumerate(case.folds):
            whole = train is case.train
            call = (_try, procedure, method, i, train, held_out, whole)
            tasks.append(([*key, f"candidate {i}, fold {j}"], call))
    return tasks


def _run(
    title: str, tasks: Sequence[_Task], finished: Finished, backend: str, n_jobs: int
) -> list[Any]:
    """All results in the order of the tasks; costly methods stand last, and so go first."""
    _logger.info("%s: %d fits", title, len(tasks))
    with quiet():
        parallel = joblib.Parallel(n_jobs, prefer=backend, return_as="generator")
        results = parallel(
            joblib.delayed(_call)(finished, backend, key, *call) for key, call in tasks[::-1]
        )
        made, told = [], time.monotonic()
        for result in tqdm(results, title, len(tasks), disable=None, unit="fit"):
            made.append(result)
            if time.monotonic() > told + SILENCE and not sys.stderr.isatty():
                told = time.monotonic()
                _logger.info("%s: %d of %d fits are done", title, len(made), len(tasks))
        return made[::-1]


def _call(finished: Finished, backend: str, key: list[str], *call: Any) -> Any:
    if backend == "threads":  # which share what the caller has set
        return finished(key, *call)
    with quiet():
        return finished(key, *call)


@contextmanager
def quiet() -> Iterator[None]:
    """One thread of linear algebra; a gap above the tolerance is reported with the choices."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def _try(
    procedure: Procedure, method: Method, candidate: int, train: Any, held_out: Any, whole: bool
) -> _Trial:
    """Fit a candidate to a fold; keep the model where that is the whole of the training data."""
    begun = time.thread_time()
    model, fit_seconds = _fitted(procedure, method, candidate, train)
    losses = procedure.validate(method, model, train, held_out)
    seconds = time.thread_time() - begun
    return _Trial(losses, seconds, fit_seconds, model if whole else None)


def _fitted(procedure: Procedure, method: Method, candidate: int, data: Any) -> tuple[Any, float]:
    """A model and the processor's seconds that it took."""
    begun, parameters = time.thread_time(), method.candidates[candidate]
    model = procedure.fit(method.with_parameters(parameters), data, method)
    if getattr(getattr(model, "solution_", None), "reason", "") == "interrupted":
        raise KeyboardInterrupt
    seconds = time.thread_time() - begun
    _logger.debug("%s %s: %.1f s", method.name, parameters, seconds)
    return model, seconds


def _finish(
    procedure: Procedure, method: Method, case: Case, trials: Sequence[_Trial]
) -> tuple[Any, ...]:
    """Choose among the trials, fit again unless a trial has seen all training data, and score.

    The fields of an Outcome but the first two.
    """
    begun = time.thread_time()
    n_folds = len(case.folds) or 1
    tried = [trials[i : i + n_folds] for i in range(0, len(trials), n_folds)]
    fitted = {
        place: (row[0].model, row[0].fit_seconds)
        for place, row in enumerate(tried)
        if row[0].model is not None
    }
    choices, models, scores = {}, {}, {}
    for column in procedure.columns(method):
        place, choices[column] = choose(method.candidates, tried, column, case.overlap)
        if place not in fitted:
            fitted[place] = _fitted(procedure, method, place, case.train)
        models[column], scores[column] = procedure.score(
            fitted[place][0], choices[column].option, column, case
        )
    seconds = time.thread_time() - begun + sum(trial.seconds for trial in trials)
    return choices, models, scores, seconds, fitted[place][1]


def choose(
    candidates: Sequence[Mapping[str, Any]],
    tried: Sequence[Sequence[_Trial]],
    column: str,
    overlap: float | None = None,
) -> tuple[int, Choice]:
    """The candidate and option of least mean loss held out, the first among equals; its place.

    With ``overlap``, the share of held-out over fitted samples, the first candidate stays unless
    the best one is better by more than one standard error of the paired differences, which splits
    that share samples make larger by the factor 1/J + overlap for J of them (Nadeau & Bengio,
    Inference for the generalization error, Machine Learning 52, 2003): the least mean of a few
    dozen noisy ones is often luck.
    """
    if not tried:
        return 0, Choice(candidates[0], None, np.zeros(0))
    options = []
    for place, trials in enumerate(tried):
        for option in trials[0].losses[column]:
            losses = np.concatenate([trial.losses[column][option] for trial in trials])
            options.append((place, Choice(candidates[place], option, losses)))
    best = min(options, key=lambda pair: float(pair[1].losses.mean()))
    if overlap is None:
        return best
    gains = options[0][1].losses - best[1].losses
    n = len(gains)
    error = gains.std(ddof=1) * np.sqrt(1 / n + overlap) if n > 1 else 0.0
    return best if gains.mean() > error else options[0]


def standard_error(
    values: NDArray, weights: NDArray | None = None, overlap: float = 0.0
) -> float | None:
    """Of a mean over independent units, None for a single one.

    Weighted means are ratios of sums, whose error is that of weighted residuals (to first order);
    units that share training samples make it larger, see :func:`choose`.
    """
    n = len(values)
    if n < 2:
        return None
    w = np.ones(n) if weights is None else weights / weights.mean()
    residuals = w * (values - np.average(values, weights=w))
    return float(residuals.std(ddof=1) * np.sqrt(1 / n + overlap))


def statistics(
    values: NDArray, units: Sequence[str], weights: NDArray | None = None, overlap: float = 0.0
) -> Row:
    """The numbers of a row: means of every unit, their mean and its standard error."""
    names = list(dict.fromkeys(units))
    place = np.array([names.index(unit) for unit in units])
    counts = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=float)
    sizes = np.bincount(place, counts)
    some = np.flatnonzero(sizes)  # a unit of no weight tells nothing
    means = np.bincount(place, counts * values)[some] / sizes[some]
    by_size = None if weights is None else sizes[some]
    row = {
        "mean": float(np.average(means, weights=by_size)),
        "standard_error": standard_error(means, by_size, overlap),
        "units": [names[i] for i in some],
        "values": means.tolist(),
    }
    return row if by_size is None else row | {"weights": by_size.tolist()}


def tables_and_rows(procedure: Procedure, outcomes: Sequence[Outcome]) -> dict[str, list[Row]]:
    """``tables`` and ``rows`` of results.json: every measure of every method, over its cases."""
    places: dict[tuple[str, str, str, str], list[tuple[Outcome, str]]] = {}
    for outcome in outcomes:
        for column, scores in outcome.scores.items():
            table, title = procedure.place(outcome, column)
            for measure in scores:
                key = (measure, table, outcome.name, title)
                places.setdefault(key, []).append((outcome, column))
    rows: list[Row] = []
    columns: dict[tuple[str, str], dict[str, str]] = {}
    for (measure, table, method, column), mine in places.items():
        columns.setdefault((table, measure), {})[column] = procedure.titles.get(column, column)
        rows.append(
            {"table": table, "measure": measure, "method": method, "column": column}
            | _numbers(procedure, mine, measure)
        )
    order, first = list(procedure.measures), next(iter(procedure.measures))
    tables = [
        {"name": table, "measure": measure}
        | dict(zip(("words", "better"), procedure.measures[measure]))
        | {"columns": titles, "main": measure == first}
        | procedure.table(table)
        for (table, measure), titles in sorted(columns.items(), key=lambda i: order.index(i[0][1]))
    ]
    return {"tables": tables, "rows": rows}


def _numbers(procedure: Procedure, mine: Sequence[tuple[Outcome, str]], measure: str) -> Row:
    """The fields of a row for one method's outcomes and their columns."""
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
    }
