"""Fit members in all folds, tune the penalty of each member, and compute the weights."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import has_fit_parameter
from tqdm import tqdm

from metriclearn.estimators.labelings import read_labelings
from metriclearn.estimators.names.frame_classifier import FrameClassifier
from metriclearn.estimators.names.named_learner import NamedSegmentLearner
from metriclearn.estimators.scores.segment_score import tuned_penalty
from metriclearn.estimators.scores.segmenting import MahalanobisSegmenter
from metriclearn.estimators.selection.auto import FAMILIES
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import Needs
from metriclearn.solvers.regularizers import SquaredFrobenius
from metriclearn.views.posteriors import Posteriors

# How fast weights fall with the loss: with 0 all weights are equal, and with the last power nearly
# all weight is on the best member.
POWERS = (0.0, 2.0, 4.0, 8.0, 16.0)
# Each model predicts at these multiples of its tuned penalty, because few recordings do not
# determine the penalty well.
MULTIPLES = (0.5, 1.0, 2.0)


def is_listed(given: Any, accepts: Callable[[Any], bool]) -> bool:
    """Tell whether a value is a list with at least one item and only accepted items."""
    return isinstance(given, (list, tuple)) and len(given) > 0 and all(map(accepts, given))


def families_of(what: str, accepts: Callable[[Any], bool], *, optional: bool) -> Needs:
    """Make a requirement for a parameter: a mapping of names to lists of accepted items."""

    def are(given: Any) -> bool:
        if given is None:
            return optional
        return isinstance(given, Mapping) and is_listed(
            list(given.values()), lambda family: is_listed(family, accepts)
        )

    return Needs(f"{{name}} as a mapping of families to lists of {what}", are)


def default_members(named: bool = False, partial: bool = False) -> dict[str, list[Any]]:
    """Return the families of :func:`~metriclearn.auto_metric_learner` at all their strengths.

    Parameters
    ----------
    named : bool
        Whether to add frame classifiers and named learners.
    partial : bool
        Whether to include only learners that can learn from partial labels.
    """
    members = {
        name: [
            clone(family.learner).set_params(**{family.parameter: strength})
            for strength in family.strengths
        ]
        for name, family in FAMILIES.items()
        if not partial or family.learner.view is None
    }
    if named:
        linear = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
        forest = RandomForestClassifier(100, min_samples_leaf=3, random_state=0)
        frobenius = SquaredFrobenius(0.1)
        for name, classifier in (("logistic", linear), ("forest", forest)):
            members[f"{name}, Viterbi"] = [FrameClassifier(classifier, amount=4.0)]
            emissions = Posteriors(classifier, n_folds=3)
            learner = NamedSegmentLearner(regularizer=frobenius, emissions=emissions)
            members[f"{name}, named"] = [learner]
    return members


def cross_fitted(
    estimator: Any, members: Mapping[str, Sequence[Any]], calls: Sequence[Any], n_folds: int
) -> dict[str, list[list[Any]]]:
    """Run delayed fits, and return the models of all folds for every member of every family.

    Parameters
    ----------
    estimator : with ``n_jobs`` and ``verbose``
    members : mapping of names to families
    calls : sequence of joblib.delayed
        One call for every fold of every member, ordered by family, then by member, then by fold. If
        a call returns a ValueError, its member is dropped.
    n_folds : int
        Number of calls for each member.
    """
    hidden = None if estimator.verbose is None else not estimator.verbose
    fits = joblib.Parallel(estimator.n_jobs, prefer="threads", return_as="generator")(calls)
    # Warnings would recur in every fold. The filter applies to all threads.
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        models = iter(list(tqdm(fits, type(estimator).__name__, len(calls), disable=hidden)))
    fitted = {}
    for name, family in members.items():
        rows = [[next(models) for _ in range(n_folds)] for _ in family]
        # Some families need more names, or more recordings, than a fold has.
        if kept := [row for row in rows if not any(isinstance(m, ValueError) for m in row)]:
            fitted[name] = kept
    if not fitted:
        raise next(model for row in rows for model in row if isinstance(model, ValueError))
    return fitted


def fitted_to(
    part: NDArray,
    member: Any,
    arrays: Sequence[NDArray],
    labels: Sequence[Any],
    units: NDArray,
    may_fail: bool,
) -> Any:
    """Fit a copy of a member to a part of the recordings.

    If ``may_fail`` is true, a ValueError of the fit is returned, not raised.
    """
    learner = clone(member)
    for name, value in (("verbose", False), ("n_jobs", 1)):
        if name in learner.get_params(deep=False):
            learner.set_params(**{name: value})
    several = len(np.unique(units[part])) > 1 and has_fit_parameter(learner, "groups")
    options = {"groups": units[part]} if several else {}
    try:
        model = learner.fit([arrays[i] for i in part], [labels[i] for i in part], **options)
    except ValueError as error:
        if may_fail:
            return error
        raise
    if _is_interrupted(model):
        raise KeyboardInterrupt
    return model


def _is_interrupted(model: Any) -> bool:
    """Tell whether the fit of a model, or of a model inside it, was interrupted."""
    inner = [getattr(model, name, None) for name in ("learner_", "representation_")]
    reason = getattr(getattr(model, "solution_", None), "reason", "")
    return reason == "interrupted" or any(_is_interrupted(one) for one in inner if one is not None)


def variants(
    row: Sequence[Any], parts: Sequence[tuple[Any, Any]], units: Sequence[tuple]
) -> list[list[Any]]:
    """Copy a member's models with 0.5, 1 and 2 times the tuned penalty.

    These copies are made for every unit of the penalty: squared distances, or the variance of each
    sequence. For each unit, one penalty is tuned for all models of the member, on all data left
    out. ``parts`` has no entry for a model that was fitted to all data, but this model gets the
    same penalty. Models without a penalty or with a zero metric do not change.
    """
    first = row[0]
    if hasattr(first, "tune_together"):
        copies = list(map(copy.copy, row))
        first.tune_together(copies, parts)
        penalty = getattr(copies[0], "penalty_", None)
        if penalty is None:  # a width has no multiples
            return [copies]
        return [[with_penalty(model, k * penalty) for model in copies] for k in MULTIPLES]
    if not isinstance(first, MahalanobisSegmenter):
        return [list(row)]
    able = [i for i, model in enumerate(row) if len(model.components_)]
    own = []
    for i in able:
        if i < len(parts):
            data = row[i].read_data(parts[i][0])
            who = type(row[i]).__name__
            truths = read_labelings(who, parts[i][1], data, segments=True, partial=True)
            own.append((data.arrays, truths))
    if not own:
        return [list(row)]
    if first.name_weights_ is not None:
        units = ((),)
    results = []
    for unit in units:
        scores = [row[i].present_score for i in able]
        penalty, _ = tuned_penalty(type(first).__name__, scores, own, *unit)
        for multiple in MULTIPLES if penalty else (1.0,):
            models = list(map(copy.copy, row))
            for i in able:
                models[i].score_ = row[i].score_.at(multiple * penalty, *unit)
            results.append(models)
    return results


def with_penalty(model: Any, penalty: float) -> Any:
    """Copy a classifier of frames, and give the copy a penalty."""
    other = copy.copy(model)
    other.penalty_ = penalty
    return other


def weigh(
    families: Sequence[str],
    answers: Sequence[Mapping[int, Partition]],
    truths: Sequence[Any],
    left_out: Sequence[NDArray],
    powers: Sequence[float],
    agree: Callable[[Sequence[Partition], NDArray], Partition],
    loss: Callable[[Partition, Any], float],
    least: float = 1e-12,
) -> tuple[float, NDArray, NDArray, dict[int, Partition]]:
    """Choose the power p of weights that are proportional to loss^(−p), and compute the weights.

    We choose the power for which compromises have the least loss on data left out. The predictions
    come from models that were fitted without these data. To try a power on a fold, weights are
    computed from the losses in the other folds, if there are any. Returns the power, the weights of
    the members, their losses on all data sets, and the compromises for the data sets left out. A
    loss is NaN if its data set was not left out.

    Parameters
    ----------
    families : sequence of str
        The family of each member. The weight of a member is divided by the number of members in its
        family.
    answers : sequence of mappings of int to Partition
        For each member, its predictions. The keys are the indices of the left-out data sets.
    truths : sequence
        The true partitions of all data sets.
    left_out : sequence of int arrays
        The indices of the data sets in each fold.
    powers : sequence of float
        The powers to try.
    agree : callable
        Computes the compromise of weighted partitions.
    loss : callable
        Computes the loss of a partition against the true partition.
    least : float
        Smaller mean losses are replaced by this value.
    """
    sizes = np.array([families.count(name) for name in families], dtype=float)
    places = np.sort(np.concatenate(left_out))
    losses = np.full((len(answers), len(truths)), np.nan)
    for row, found in zip(losses, answers):
        row[places] = [loss(found[i], truths[i]) for i in places.tolist()]

    def shares(columns: NDArray, power: float) -> NDArray:
        means = np.maximum(losses[:, columns].mean(axis=1), least)
        values = (means.min() / means) ** power / sizes
        return values / values.sum()

    tried = []
    for power in powers:
        best: dict[int, Partition] = {}
        for here in left_out:
            others = np.setdiff1d(places, here)
            weights = shares(others if len(others) else here, power)
            for i in here.tolist():
                best[i] = agree([found[i] for found in answers], weights)
        total = sum(loss(found, truths[i]) for i, found in best.items())
        tried.append((total, power, best))
    _, power, best = min(tried, key=lambda one: one[0])
    return power, shares(places, power), losses, best
