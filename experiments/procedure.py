"""One experiment, told once: methods × cases, chosen on training data, scored on test data.

A procedure says what its methods and cases are, how one is fitted to data, what its loss on data
held out is, and what the report tells. Everything else is here and the same for all experiments:
every candidate of a method is fitted on every fold of the training data; the candidate of least
mean loss held out is fitted again to all training data; then the test data are looked at once.
Every fit is on disk as soon as it is done, so that the same command in the same folder goes on
where it was stopped.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, TypeVar

import joblib
import numpy as np
from hydra.utils import instantiate
from numpy.typing import NDArray
from omegaconf import DictConfig
from scipy.stats import sem
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid
from threadpoolctl import threadpool_limits
from tqdm import tqdm

import metriclearn
from experiments.report import MEASURE, Artifacts
from metriclearn.running.files import replacing

Item = TypeVar("Item")
Losses = dict[str, dict[Any, NDArray]]  # by column, then by option of the fitted model
Scores = dict[tuple[str, str], NDArray]  # by (split, measure)
Row = dict[str, Any]
_Task = tuple[list[str], tuple[Any, ...]]  # what names a result, and the call that makes it
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
    label : str
        Behind the measure's name in the rows; cases of the same label are pooled.
    facts : mapping
        Further fields of those rows.
    overlap : float, optional
        Held-out over fitted samples. With it, the best candidate replaces the first one only where
        it is clearly better, see :func:`choose`.
    """

    name: str
    train: Any
    test: Any
    folds: Sequence[tuple[Any, Any]]
    label: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    overlap: float | None = None


@dataclass(frozen=True)
class Choice:
    """A candidate, the option of its fitted model, and its losses on the data held out."""

    parameters: Mapping[str, Any]
    option: Any
    losses: NDArray

    def __str__(self) -> str:
        return in_words(self.parameters) or "nothing to choose"


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

    ``seconds`` is that of all fits, ``fit_seconds`` the processor's for the last one.
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
        return self.name.startswith("ours")

    def losses(self, column: str = "estimated") -> NDArray:
        """The partition loss on the test data."""
        return self.scores[column]["test", MEASURE]

    def held_out(self, column: str = "estimated") -> float:
        """Mean loss of the choice on the data held out."""
        return float(self.choices[column].losses.mean())


@dataclass(frozen=True)
class Story:
    """What a procedure tells: rows of results.json, further fields of it, pictures and sentences.

    ``folder`` is a subfolder of the run's, for reports of parts.
    """

    rows: list[Row]
    artifacts: Artifacts
    fields: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""


class Procedure(Protocol):
    """What an experiment is.

    Attributes
    ----------
    config : DictConfig
        The configuration of the run.
    backend : "threads" or "processes"
        Where fits run at the same time.
    validates_one : bool
        Whether a method with a single candidate is fitted on the folds, too.
    entries : str
        The part of the configuration that describes the methods.
    each_candidate : bool
        Whether every candidate is a method of its own, with nothing to choose.
    """

    config: DictConfig
    backend: str = "processes"
    validates_one: bool = False
    entries: str = "methods"
    each_candidate: bool = False

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

    def stories(self, outcomes: list[Outcome], folder: Path) -> list[Story]:
        """The report, the main one first; may write further files to the folder."""


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
    return [Outcome(method, case, *result) for (method, case), result in zip(pairs, results)]


def _trials(procedure: Procedure, method: Method, case: Case, key: list[str]) -> list[_Task]:
    """A fit of every candidate to every fold, by candidate; none where nothing is to be chosen."""
    tasks: list[_Task] = []
    if len(method.candidates) == 1 and not procedure.validates_one:
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
        return list(tqdm(results, title, len(tasks), disable=None, unit="fit"))[::-1]


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
    begun = time.perf_counter()
    model, fit_seconds = _fitted(procedure, method, candidate, train)
    losses = procedure.validate(method, model, train, held_out)
    seconds = time.perf_counter() - begun
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
    begun = time.perf_counter()
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
    seconds = time.perf_counter() - begun + sum(trial.seconds for trial in trials)
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


def statistics(values: NDArray, measure: str = MEASURE) -> Row:
    """Measure, mean, standard error and values: the numbers of a row."""
    return {
        "measure": measure,
        "mean": float(values.mean()),
        "standard_error": float(sem(values)) if len(values) > 1 else 0.0,
        "values": values.tolist(),
    }


def pooled_rows(outcomes: Sequence[Outcome], held_out: bool = False) -> list[Row]:
    """Rows of results.json: every method and measure, over all cases of the same label.

    With ``held_out`` the losses of the choices follow, as split "validation".
    """
    rows = []
    for (label, name), mine in grouped(outcomes, lambda o: (o.case.label, o.name)).items():
        seconds = sum(outcome.seconds for outcome in mine)
        for column, scores in mine[0].scores.items():
            head = {"method": name, "n_clusters": column, "seconds": seconds, **mine[0].case.facts}
            parts = {key: [o.scores[column][key] for o in mine] for key in scores}
            if held_out:
                parts["validation", MEASURE] = [o.choices[column].losses for o in mine]
            for (split, measure), values in parts.items():
                numbers = statistics(np.concatenate(values), f"{measure}{label}")
                rows.append(head | {"split": split} | numbers)
    return rows


def summary_rows(rows: Sequence[Row]) -> list[Row]:
    """One row per method and column: the mean partition losses of all labels, one value each."""
    losses = [
        row
        for row in rows
        if row["measure"].startswith(f"{MEASURE}/") and row["split"] != "validation"
    ]
    summary = []
    groups = grouped(losses, lambda row: (row["method"], row["n_clusters"]))
    for (method, column), mine in groups.items():
        numbers = statistics(np.array([row["mean"] for row in mine]))
        seconds = sum(row["seconds"] for row in mine)
        head = {"method": method, "split": "test", "n_clusters": column}
        summary.append(head | numbers | {"seconds": seconds})
    return summary
