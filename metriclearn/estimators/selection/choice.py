"""Choose one model: the simplest within one standard error, then settings that improve it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from metriclearn.estimators.penalties.feature_penalty import FeaturePenalty
from metriclearn.estimators.selection.cross_fit import CrossFit, is_better
from metriclearn.estimators.selection.fits import Late
from metriclearn.estimators.selection.parts import Member
from metriclearn.problem.partition import Partition
from metriclearn.views.boundary import BoundaryFeatures
from metriclearn.views.sequence import SequenceFeatures


@dataclass(frozen=True, eq=False)
class Choice:
    """The candidates that were compared on recordings left out, and the chosen candidate.

    Attributes
    ----------
    names : list of str
        One name per candidate: the family, the settings in which its members differ, and the rule
        for the penalty.
    losses : array (candidates, groups)
        Mean ‖M − N‖²_F over the recordings of a group, after learning from other groups. For
        partial labels it is T times the loss on the labeled parts.
    chosen : int
        Index of the chosen candidate.
    late : list of str
        Families of members for which there was not enough time.
    """

    names: list[str]
    losses: NDArray[np.float64]
    chosen: int
    late: list[str]

    def __str__(self) -> str:
        means = self.losses.mean(axis=1)
        lines = [
            f"{'→' if i == self.chosen else ' '} {means[i]:9.4g}  {self.names[i]}"
            for i in np.argsort(means, kind="stable")
        ]
        return "\n".join(["     loss  candidate, on groups left out", *lines])


def choose(
    table: CrossFit, fitted: Callable[[list[Member]], CrossFit | Exception]
) -> tuple[CrossFit, Choice]:
    """Choose the best candidate of a table, then try other settings of its learner.

    The first setting is half the length of the shortest labeled segment as ``min_size``. The others
    are penalties that depend on the recording or on the boundary
    (:class:`~metriclearn.FeaturePenalty`). A setting is kept if it lowers the loss by more than one
    standard error.

    Parameters
    ----------
    table : CrossFit
    fitted : callable (members) -> CrossFit, or Exception
        Fits members to all parts, or returns why this could not be done.
    """
    best, missing = table.best(), dict(table.missing)
    for words, changes in _refinements(_learner(table, best), table.given.truths).items():
        family = table.named(table.candidates[best].member)
        if "penalty" in changes:  # replaces the penalty of an earlier change
            family = re.sub(r" with penalties of the \w+", "", family)
        family = f"{family} with {words}"
        view = table.members[table.candidates[best].member].view
        learner = clone(_learner(table, best)).set_params(**changes)
        more = fitted([Member(family, learner, view)])
        if isinstance(more, Exception):
            missing[family] = more
            continue
        first, table = len(table.candidates), table.joined(more)
        losses = table.group_losses()
        for c in range(first, len(table.candidates)):
            best = c if is_better(losses[c], losses[best]) else best
    late = [family for family, why in missing.items() if isinstance(why, Late)]
    table = replace(table, missing=missing)
    return table, Choice(table.names, table.group_losses(), best, late)


def _learner(table: CrossFit, c: int) -> Any:
    return table.members[table.candidates[c].member].learner


def _refinements(learner: Any, truths: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """Return the settings to try: for each description, the parameters and their values."""
    changes: dict[str, dict[str, Any]] = {}
    given = learner.get_params(deep=False)
    if isinstance(truths[0], Partition) and "min_size" in given:
        shortest = min(int(truth.sizes.min()) for truth in truths)
        if shortest > 3:
            changes[f"min_size {shortest // 2}"] = {"min_size": shortest // 2}
    if given.get("penalty") == "learned" and given.get("view") is None and "emissions" not in given:
        sizes = np.concatenate([getattr(truth, "sizes", [truth.n_samples]) for truth in truths])
        typical = max(4, int(np.median(sizes)))
        boundary = BoundaryFeatures((max(1, typical // 4), typical))
        penalties = {"recording": (SequenceFeatures(),), "boundary": (boundary,)}
        for words, features in penalties.items():
            changes[f"penalties of the {words}"] = {"penalty": FeaturePenalty(features)}
    return changes
