"""What a fit is noted for: a degenerate result, or a solver that stopped early."""

from __future__ import annotations

import logging
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from metriclearn.estimators.learners.task import Task
from metriclearn.running.notes import note
from metriclearn.solvers.base import Problem
from metriclearn.views.columns import note_constant

_LOGGER = logging.getLogger(__name__)
# If the energy of the data, divided by the penalty, is below this, no boundary is worth it.
_LEAST_SIZE = 1e-4
# If a penalty smaller by this factor fits as well, the labels do not determine the penalty.
_SMALLER = 2 / 3
# Degenerate fits, and their remedies.
_CONCERNS = {
    "together": "was given labels that put all samples of every data set together, so there is "
    "nothing to separate; pass data sets with at least two clusters or segments",
    "apart": "was given labels that differ for all samples, so none belong together; give all "
    "samples of a cluster or segment the same label",
    "metric": "learned a metric that is (nearly) zero, so it separates nothing: {regularizer!r} is "
    "too strong; lower the strength",
    "fixed": "learned a metric that is (nearly) zero, because {regularizer!r} or "
    'penalty={penalty!r} leaves nothing to gain; lower the strength, or pass penalty="learned"',
    "stopped": "was stopped by a callback at a metric that is still (nearly) zero, so it separates "
    "nothing; let the callback stop later",
    "penalty": "learned a penalty of 0, which makes every sample a cluster, because the labels put "
    "no samples together; add labels or spans (same) without a change, or end lists of all "
    "change-points with T",
    "one": "learned the penalty of a segment from one sequence, and a penalty one third lower fits "
    "as well, so other sequences may get too few segments; fit to several sequences, or set "
    "penalty, or call tune_penalty with others",
    "plain": "has a mean training loss of {training_losses_[learned]:.3g}, where one segment has "
    "{training_losses_[one segment]:.3g} and the Euclidean metric with a tuned penalty "
    "{training_losses_[Euclidean]:.3g}; let a Segmenter compare settings, or call "
    "tune_penalty with labeled data left out",
}
# We warn if the training loss exceeds the loss of a single segment times the first factor, or the
# loss of the Euclidean metric times the second.
_HARDLY_BETTER, _WORSE = 0.95, 1.1


def report(learner: Any, problem: Problem) -> None:
    """Log why fitting ended, and warn if the result is degenerate or the solver stopped early."""
    solution, who, task = learner.solution_, type(learner).__name__, learner.task
    rounds = len(solution.trace.objective)
    # If a problem is not convex, the solver's bound does not hold for the original problem.
    convex = task.starts is None
    gap = f" at a relative gap of {solution.relative_gap:.2g}" if convex else ""
    _LOGGER.info(
        "%s after %d rounds%s: objective %.6g", solution.reason, rounds, gap, solution.objective
    )
    note_constant(learner, np.isfinite(learner.scale_))
    ended = solution.reason in ("converged", "callback")
    concern = _concern(learner, task, problem, ended)
    if concern is not None:
        sentence = _CONCERNS[concern].format(**vars(learner))
        note(f"{who} {sentence}.")
    if ended:
        return
    remedy = "raise the solver's max_rounds or its tolerance"
    if solution.reason == "interrupted":
        part = "solver" if learner.alternation_ is None else "alternation"
        file = getattr(getattr(learner, part), "checkpoint", None)
        remedy = f"fit again to go on from {file}"
        if file is None:
            remedy = f"fit again; with {part}__checkpoint=FILE it would go on from here"
    note(
        f"{who} stopped ({solution.reason}){gap} after {rounds} rounds; the best metric so far "
        f"is kept, {remedy}.",
        ConvergenceWarning,
    )


def note_labels(who: str, truths: Sequence[Any]) -> None:
    """Warn if labels put all samples of every data set together, or all of them apart."""
    if (concern := _of_labels(truths)) is not None:
        note(f"{who} {_CONCERNS[concern]}.")


def _of_labels(truths: Sequence[Any]) -> str | None:
    if all(truth.n_clusters == 1 for truth in truths):
        return "together"
    return "apart" if all(truth.n_clusters == truth.n_samples for truth in truths) else None


def _concern(learner: Any, task: Task, problem: Problem, ended: bool) -> str | None:
    """Choose the warning about a fit: a key of ``_CONCERNS``, or None for no warning."""
    truths, varies = problem.risk.truths, np.isfinite(learner.scale_)
    of_labels = _of_labels(truths)
    if of_labels == "together" or (of_labels and learner.completions_ is None):
        return of_labels
    # The warning about convergence covers the metric.
    if not ended:
        return None
    solution, cone, penalty = learner.solution_, problem.cone, learner.score_.penalty
    metric, learned = cone.split(solution.w)
    scaled = cone.metric.components(metric)[:, varies] / cone.unit
    longest = max(truth.n_samples for truth in truths)
    small = longest * np.sum(scaled**2) < _LEAST_SIZE * (penalty or 0.0)
    # Without standardization, "small" depends on the unit of the data.
    if not scaled.any() or (learner.standardize and small):
        if solution.reason == "callback":
            return "stopped"
        fixed = not task.count_is_given and isinstance(learner.penalty, numbers.Real)
        return "fixed" if fixed else "metric"
    if learner.penalty == "learned" and penalty == 0.0:
        return "penalty"
    leaves_open = cone.learns_penalty and solution.converged and learner.completions_ is None
    if task.one_is_few and len(truths) == 1 and leaves_open:
        # Whether a penalty one third lower increases the risk by no more than the solver's gap.
        points = [cone.join(metric, share * learned) for share in (_SMALLER, 1.0)]
        smaller, least = (problem.risk(point).mean for point in points)
        if smaller <= least + solution.gap:
            return "one"
    losses = learner.training_losses_
    if losses and losses["learned"] > min(
        _HARDLY_BETTER * losses["one segment"], _WORSE * losses["Euclidean"]
    ):
        return "plain"
    return None
