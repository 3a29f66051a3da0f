"""Comparing methods fairly: hyper-parameters from training data, then one look at the test data.

Every candidate of every method is fitted once on every fold of the training data. The candidate
with the least mean ‖M − N‖² on the sequences held out of the folds is fitted again on all training
data, once for an estimated and once for a given number of segments, and scored on the test data.
"""

from __future__ import annotations

import copy
import logging
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from metriclearn.datasets import LabeledSequences
from metriclearn.estimators.inputs import read_data_sets, read_segmentations
from metriclearn.estimators.segmenter import MahalanobisSegmenter
from metriclearn.oracles.best_penalty import best_penalty
from metriclearn.problem.forms import LowRankForm, center
from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.problem.partition import Partition

__all__ = [
    "COLUMNS",
    "Choice",
    "Method",
    "Outcome",
    "Split",
    "compare",
    "group_folds",
    "group_splits",
    "sequence_losses",
    "with_tuned_penalty",
]

COLUMNS = ("estimated", "given")  # number of segments
LEARNED, TUNED = "learned", "tuned"  # where a penalty comes from
_logger = logging.getLogger(__name__)
Segmenter = TypeVar("Segmenter", bound=MahalanobisSegmenter)


@dataclass(frozen=True)
class Method:
    """An estimator and the candidates for its hyper-parameters.

    ``learns_penalty`` adds, for every candidate, the choice between the penalty that ``fit`` leaves
    and the one of :func:`with_tuned_penalty`; without it ``fit`` has tuned the penalty itself.
    """

    name: str
    estimator: MahalanobisSegmenter
    grid: Sequence[Mapping[str, Any]] = ({},)
    learns_penalty: bool = False


@dataclass(frozen=True)
class Split:
    """Training and test sequences, and folds (training, held out) of positions in ``train``."""

    name: str
    train: LabeledSequences
    test: LabeledSequences
    folds: Sequence[tuple[NDArray, NDArray]]


@dataclass(frozen=True)
class Choice:
    """What the folds chose: parameters, where the penalty comes from, the losses held out."""

    parameters: Mapping[str, Any]
    penalty: str
    losses: NDArray


@dataclass(frozen=True)
class Outcome:
    """One method on one split; dictionaries are by column, "estimated" and "given"."""

    method: str
    split: Split
    choices: dict[str, Choice]
    models: dict[str, MahalanobisSegmenter]
    losses: dict[str, NDArray]
    seconds: float


@dataclass(frozen=True)
class _Trial:
    """One fit and its losses on other sequences, by where K and the penalty come from."""

    models: dict[str, MahalanobisSegmenter]
    losses: dict[str, NDArray]
    seconds: float


@dataclass(frozen=True)
class _Task:
    """One fit to do: a candidate on the sequences ``train``, scored on ``test``."""

    method: Method
    split: Split
    parameters: Mapping[str, Any]
    train: LabeledSequences = field(repr=False)
    test: LabeledSequences = field(repr=False)


def with_tuned_penalty(learner: Segmenter, X: Any, y: Any) -> Segmenter:
    """A copy of a fitted learner with the penalty of least mean loss on X, y, found exactly.

    The metric stays as it was learned; :func:`metriclearn.best_penalty` searches all penalties, as
    baselines do. A metric that is zero keeps its penalty.
    """
    data = read_data_sets("with_tuned_penalty", X)
    truths = read_segmentations("with_tuned_penalty", y, data)
    tuned = copy.copy(learner)
    if len(learner.components_):
        forms = [LowRankForm(center(array) @ learner.components_.T) for array in data.arrays]
        tuned.penalty_, _ = best_penalty(forms, truths, min_size=learner.min_size)
    return tuned


def sequence_losses(
    model: MahalanobisSegmenter, data: LabeledSequences, n_clusters: str = "estimated"
) -> NDArray[np.float64]:
    """‖M − N‖²_F of every sequence, with the number of segments estimated or given, (N,)."""
    truths = [Partition.from_runs(labels) for labels in data.labels]
    counts = [truth.n_clusters for truth in truths] if n_clusters == "given" else None
    found = model.predict_change_points(data.sequences, counts)
    loss = FrobeniusLoss()
    pairs = zip(found, truths)
    return np.array([loss(Partition(ends=ends), N) * N.n_samples for ends, N in pairs])


def group_splits(
    data: LabeledSequences, n_test: int, rotate: bool, n_folds: int, seed: int
) -> list[Split]:
    """Splits that hold out ``n_test`` groups each, dealt out in random order.

    Parameters
    ----------
    rotate : bool
        Hold out every group once, in ⌈groups / n_test⌉ splits, instead of making one split.
    n_folds : int
        Folds of each training part, see :func:`group_folds`.

    Raises
    ------
    ValueError
        If no group is left for training.
    """
    groups = sorted(set(data.groups))
    if not 1 <= n_test < len(groups):
        raise ValueError(
            f"{data.name} has {len(groups)} group(s), of which {n_test} cannot be held out for "
            "test; set dataset.n_test to less, name groups, or pass dataset.test_root."
        )
    order = [groups[i] for i in check_random_state(seed).permutation(len(groups))]
    parts = [order[i : i + n_test] for i in range(0, len(order), n_test)]
    splits = []
    for part in parts if rotate else parts[:1]:
        rest = [group for group in groups if group not in part]
        train, test = data.split_by_group(groups=[rest, sorted(part)])
        splits.append(Split(", ".join(sorted(part)), train, test, group_folds(train, n_folds)))
    return splits


def group_folds(data: LabeledSequences, n_folds: int) -> list[tuple[NDArray, NDArray]]:
    """At most ``n_folds`` folds over groups, or over sequences where all are of one group.

    Raises
    ------
    ValueError
        If there is only one sequence.
    """
    if len(data) < 2:
        raise ValueError(
            f"{data.name} needs 2 or more training sequences to choose hyper-parameters, got "
            f"{len(data)}; cut long sequences into several."
        )
    groups = data.groups if len(set(data.groups)) > 1 else [str(i) for i in range(len(data))]
    cutter = GroupKFold(min(n_folds, len(set(groups))))
    return list(cutter.split(np.zeros(len(data)), groups=groups))


def compare(methods: Sequence[Method], splits: Sequence[Split], n_jobs: int = 1) -> list[Outcome]:
    """Choose, fit again and score every method on every split; see the top of the module.

    Fits run in ``n_jobs`` threads with one BLAS thread each. Cost: methods × candidates × folds
    fits for the choice, and one or two more per method and split.
    """
    pairs = [(method, split) for split in splits for method in methods]
    trials = _run("choose", [task for pair in pairs for task in _fold_tasks(*pair)], n_jobs)
    choices = {}
    for method, split in pairs:
        mine = [trials.pop(0) for _ in range(len(method.grid) * len(split.folds))]
        seconds = sum(trial.seconds for trial in mine)
        choices[method.name, split.name] = (_choose(method, split, mine), seconds)
    finals = []
    for method, split in pairs:
        chosen, _ = choices[method.name, split.name]
        unique = {id(choice.parameters): choice.parameters for choice in chosen.values()}
        finals += [_Task(method, split, p, split.train, split.test) for p in unique.values()]
    fitted = dict(zip(map(_key, finals), _run("fit again", finals, n_jobs)))
    return [
        _outcome(method, split, *choices[method.name, split.name], fitted)
        for method, split in pairs
    ]


def _key(task: _Task) -> tuple[str, str, int]:
    return task.method.name, task.split.name, id(task.parameters)


def _fold_tasks(method: Method, split: Split) -> list[_Task]:
    return [
        _Task(method, split, parameters, split.train.select(rest), split.train.select(held))
        for parameters in method.grid
        for rest, held in split.folds
    ]


def _run(title: str, tasks: Sequence[_Task], n_jobs: int) -> list[_Trial]:
    """All trials in the order of the tasks; costly methods stand last, and so go first."""
    waiting = tasks[::-1]
    _logger.info("%s: %d fits", title, len(waiting))
    with threadpool_limits(1, user_api="blas"), warnings.catch_warnings():
        # a gap that stays above the tolerance is reported with the choices
        warnings.simplefilter("ignore", ConvergenceWarning)
        parallel = Parallel(n_jobs, prefer="threads", return_as="generator")
        results = parallel(delayed(_try)(task) for task in waiting)
        shown = tqdm(results, title, len(waiting), disable=None, unit="fit")
        return list(shown)[::-1]


def _try(task: _Task) -> _Trial:
    start = time.perf_counter()
    estimator = clone(task.method.estimator).set_params(**task.parameters)
    X, y = task.train.sequences, task.train.labels
    model = estimator.fit(X, y)
    if getattr(getattr(model, "solution_", None), "reason", "") == "interrupted":
        raise KeyboardInterrupt
    models = {TUNED: model}
    if task.method.learns_penalty:
        models = {LEARNED: model, TUNED: with_tuned_penalty(model, X, y)}
    losses = {name: sequence_losses(fitted, task.test) for name, fitted in models.items()}
    losses["given"] = sequence_losses(model, task.test, "given")
    seconds = time.perf_counter() - start
    _logger.debug(
        "%s %s without %s: %.1f s", task.method.name, task.parameters, task.split.name, seconds
    )
    return _Trial(models, losses, seconds)


def _choose(method: Method, split: Split, trials: Sequence[_Trial]) -> dict[str, Choice]:
    """The best candidate of each column; ``trials`` run over candidates, then over folds."""
    n_folds = len(split.folds)
    options: dict[str, list[Choice]] = {column: [] for column in COLUMNS}
    for place, parameters in enumerate(method.grid):
        mine = trials[place * n_folds : (place + 1) * n_folds]
        held_out = {
            name: np.concatenate([trial.losses[name] for trial in mine]) for name in mine[0].losses
        }
        unused = next(iter(mine[0].models))  # any penalty: with K given there is none
        options["given"].append(Choice(parameters, unused, held_out.pop("given")))
        options["estimated"] += [Choice(parameters, *item) for item in held_out.items()]
    return {column: min(options[column], key=_validation_loss) for column in COLUMNS}


def _validation_loss(choice: Choice) -> float:
    return float(choice.losses.mean())


def _outcome(
    method: Method,
    split: Split,
    choices: dict[str, Choice],
    seconds: float,
    fitted: Mapping[tuple[str, str, int], _Trial],
) -> Outcome:
    final = {c: fitted[method.name, split.name, id(choices[c].parameters)] for c in COLUMNS}
    losses = {
        "estimated": final["estimated"].losses[choices["estimated"].penalty],
        "given": final["given"].losses["given"],
    }
    models = {column: final[column].models[choices[column].penalty] for column in COLUMNS}
    seconds += sum(trial.seconds for trial in {id(t): t for t in final.values()}.values())
    return Outcome(method.name, split, choices, models, losses, seconds)
