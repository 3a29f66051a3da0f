"""The model that was chosen, and the settings of its learner that are tried, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.estimators.penalties.feature_penalty import FeaturePenalty
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


def refinements(learner: Any, truths: Sequence[Any]) -> dict[str, dict[str, Any]]:
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
