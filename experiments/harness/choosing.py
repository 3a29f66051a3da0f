"""Choose and score every method in every case, in the same way for all experiments.

Every candidate of a method is fitted on every fold of the training data. The candidate of least
mean held-out loss is fitted again to all training data. Then the test data are used once. If a
method is named "ours", its row is this method. The row "ours/one model", or "ours" if there is no
such method, is one of our other methods, chosen on training data alone. We take the simplest method
whose held-out loss is within one standard error of the least. If splits share samples, the method
with the least held-out loss is taken instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import joblib
import numpy as np

from experiments.harness.finished_fits import FinishedFits, Task, run_all
from experiments.harness.procedure import Case, Choice, Losses, Method, Outcome, Procedure
from experiments.harness.results import ONE, OURS, is_ours, standard_error, statistics


@dataclass(frozen=True)
class _Trial:
    """The result of one fit: its losses on held-out data, and the model if it is needed again."""

    losses: Losses
    seconds: float
    fit_seconds: float
    model: Any = None


def compare(procedure: Procedure, finished: FinishedFits, n_jobs: int = 1) -> list[Outcome]:
    """Choose, fit again and score every method in every case, as the top of this module describes.

    In every case the choices take methods × candidates × folds fits, and one or two more per
    method. ``n_jobs`` fits run at the same time, costly methods first.
    """
    cases, methods = procedure.cases(), procedure.methods()
    pairs = [(m, case) for case in cases for m in methods if procedure.suits(m, case)]
    prints = {case.name: joblib.hash(case) for case in cases}
    keys = [[method.name, case.name, prints[case.name]] for method, case in pairs]
    tasks = [_trials(procedure, method, case, key) for key, (method, case) in zip(keys, pairs)]
    tried = run_all("choose", [*chain(*tasks)], finished, procedure.backend, n_jobs)
    finals: list[Task] = []
    for key, pair, some in zip(keys, pairs, tasks):
        mine, tried = tried[: len(some)], tried[len(some) :]
        finals.append(([*key, "final"], (_finish, procedure, *pair, mine)))
    results = run_all("fit again", finals, finished, procedure.backend, n_jobs)
    outcomes = [Outcome(method, case, *result) for (method, case), result in zip(pairs, results)]
    for case in cases:
        mine = [outcome for outcome in outcomes if outcome.case is case and outcome.is_ours]
        candidates = [outcome for outcome in mine if outcome.name != OURS]
        name = OURS if len(candidates) == len(mine) else ONE
        if candidates and (name == OURS or procedure.validates_one):
            outcomes.append(chosen(name, procedure, candidates))
    return outcomes


def chosen(name: str, procedure: Procedure, mine: Sequence[Outcome]) -> Outcome:
    """Choose one of our methods for every column of a case, by its training data alone. Returns
    its outcome under another name.

    The configuration lists methods from simple to complex. We choose the first one whose held-out
    loss is at most one standard error above the least. This standard error is computed from the
    differences of the two losses, paired over units. Each method takes part with the strength that
    has the least mean held-out loss. We also tried the largest strength within one standard error,
    but it was no better on training data (docs/research/choosing.md). If splits share samples, we
    choose the method with the least mean loss. A standard error that is corrected for shared
    samples would be so large that it allows nearly every method (docs/research/clustering.md).
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
            shared = case.overlap is not None
            errors = [0.0 if shared else standard_error(row) or 0.0 for row in excess]
            place = int(np.argmax(excess.mean(axis=1) <= np.array(errors) + 1e-12))
        best = mine[place]
        fields["choices"][column] = replace(best.choices[column], method=best.name)
        fields["models"][column] = best.models[column]
        fields["scores"][column] = best.scores[column]
    fields["seconds"] = sum(outcome.seconds for outcome in mine)
    return Outcome(Method(name, None), case, **fields, fit_seconds=best.fit_seconds)


def _trials(procedure: Procedure, method: Method, case: Case, key: list[str]) -> list[Task]:
    """List the tasks that fit every candidate to every fold, ordered by candidate. The list is
    empty if there is a single candidate, and its losses are not needed."""
    tasks: list[Task] = []
    needed = is_ours(method.name) and not procedure.each_candidate
    validated = procedure.validates_one or needed
    validated = validated and method.options.get("validated", True)
    if len(method.candidates) == 1 and not validated:
        return tasks
    for i in range(len(method.candidates)):
        for j, (train, held_out) in enumerate(case.folds):
            whole = train is case.train
            call = (_try, procedure, method, i, train, held_out, whole)
            tasks.append(([*key, f"candidate {i}, fold {j}"], call))
    return tasks


def _try(
    procedure: Procedure, method: Method, candidate: int, train: Any, held_out: Any, whole: bool
) -> _Trial:
    """Fit a candidate to a fold. The model is kept if the fold is all of the training data."""
    begun = procedure.processor_time()
    model, fit_seconds = _fitted(procedure, method, method.candidates[candidate], train)
    losses = procedure.validate(method, model, train, held_out)
    seconds = procedure.processor_time() - begun
    return _Trial(losses, seconds, fit_seconds, model if whole else None)


def _fitted(
    procedure: Procedure, method: Method, parameters: Mapping[str, Any], data: Any
) -> tuple[Any, float]:
    """Fit a model. Returns the model and the processor seconds of the fit."""
    begun = procedure.processor_time()
    model = procedure.fit(method.with_parameters(parameters), data, method)
    if getattr(getattr(model, "solution_", None), "reason", "") == "interrupted":
        raise KeyboardInterrupt
    return model, procedure.processor_time() - begun


def _finish(
    procedure: Procedure, method: Method, case: Case, trials: Sequence[_Trial]
) -> tuple[Any, ...]:
    """Choose among the trials, fit again unless a trial has seen all training data, and score.

    Returns the fields of an Outcome without method and case.
    """
    begun = procedure.processor_time()
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
            fitted[place] = _fitted(procedure, method, method.candidates[place], case.train)
        models[column], scores[column] = procedure.score(
            fitted[place][0], choices[column].option, column, case
        )
    seconds = procedure.processor_time() - begun + sum(trial.seconds for trial in trials)
    return choices, models, scores, seconds, fitted[place][1]


def choose(
    candidates: Sequence[Mapping[str, Any]],
    tried: Sequence[Sequence[_Trial]],
    column: str,
    overlap: float | None = None,
) -> tuple[int, Choice]:
    """Choose the candidate and option with the least mean held-out loss, or the first such pair.

    Returns the index of the candidate and the choice.

    If J splits share samples, ``overlap`` is the ratio of held-out to fitted samples. In this case
    the first candidate is chosen, unless the best one is better by more than one standard error of
    the paired differences. The reason is that the least of a few dozen noisy means is often the
    least by luck. The variance of the mean difference is (1/J + overlap) times the variance of the
    differences (Nadeau & Bengio, Inference for the generalization error, Machine Learning 52,
    2003).
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
    error = standard_error(gains, overlap=overlap) or 0.0
    return best if gains.mean() > error else options[0]
