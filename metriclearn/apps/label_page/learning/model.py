"""A model of the label page: a metric, a penalty, and possibly names of segments."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metriclearn import BundleDual, ChangePointMetricLearner, PartialPartition
from metriclearn.apps.label_page.learning.pieces import Piece
from metriclearn.apps.label_page.learning.row_names import Names
from metriclearn.oracles import BoundaryMargins, boundary_margins
from metriclearn.problem import ChargedForm, NameScores, PartialNames, fewest_changes
from metriclearn.running import TimeLimit

_SOLVER = BundleDual(tolerance=1e-2)

# Used where names help to decide on boundaries: the cost of one unit of log-probability of a name,
# and the cost of a segment, as shares of the learned penalty. Chosen on training users of HAPT.
_NAME_SHARE, _SEGMENT_SHARE = 1 / 32, 1.5


@dataclass(frozen=True)
class Model:
    """A learned metric with a positive penalty, and possibly a classifier of segment names.

    Names are learned if at least two labels are in use. If ``is_joint`` is true, the probabilities
    of the names also influence where boundaries are found.
    """

    learner: Any
    names: Names | None = None
    is_joint: bool = False

    def margins(
        self,
        X: NDArray,
        features: NDArray,
        labels: PartialPartition,
        tolerance: int,
        codes: NDArray | None = None,
    ) -> BoundaryMargins:
        """Find the best segmentation that agrees with the labels, and margins of its boundaries.

        The loss of a boundary is how much the score decreases without this boundary. A change that
        a person has labeled has an infinite loss. The metric sees the rows ``X``, names are read
        from the ``features``. Both are cut at the labeled changes, and the parts are segmented
        separately, because this is faster.
        """
        scores, penalty = None, float(self.learner.penalty_)
        if self.is_joint and self.names is not None:
            scores = _NAME_SHARE * penalty * np.log(self.names.probabilities(features))
        parts, changes = [], [0]
        for _, ends in labels.pieces.stretches:
            changes += ends[:-1].tolist()
        for start, stop in pairwise([*changes, len(X)]):
            part: Any = self.learner.score_.form(X[start:stop]).shifted(-penalty)
            inside, near = labels.at(np.arange(start, stop)), min(tolerance, stop - start - 1)
            constrained = inside if inside.constraints else None
            if scores is not None:
                part = part.shifted((1 - _SEGMENT_SHARE) * penalty)
                part = ChargedForm(part, names=NameScores.of(scores[start:stop]))
                if codes is not None:
                    constrained = PartialNames(inside, codes[start:stop])
            margins = boundary_margins(part, known=constrained, tolerance=near)
            parts.append((margins.change_points + start, [*margins.losses, np.inf], margins.gains))
        ends, losses, gains = map(np.concatenate, zip(*parts))
        return BoundaryMargins(ends, losses[:-1], gains)

    def named(
        self, features: NDArray, ends: NDArray, codes: NDArray | None = None
    ) -> tuple[list[str], list[float]]:
        """Return the name of every segment, and the mean probability of this name in the rows.

        A segment with a labeled row gets the label of this row, with the probability 1. If no names
        are learned, both lists are empty.
        """
        if self.names is None:
            return [], []
        probabilities, starts = self.names.probabilities(features), np.append(0, ends[:-1])
        places = np.argmax(np.add.reduceat(np.log(probabilities), starts, axis=0), axis=1)
        sums = np.add.reduceat(probabilities, starts, axis=0)[np.arange(len(ends)), places]
        sure = np.round(sums / (ends - starts), 3)
        if codes is not None:
            given = np.maximum.reduceat(codes, starts)
            places, sure = np.where(given >= 0, given, places), np.where(given >= 0, 1.0, sure)
        return np.array(self.names.names)[places].tolist(), sure.tolist()


@dataclass
class Breaks:
    """Breaks of a long task, one after every round of a solver, in which something else is done.

    ``away`` are the seconds of all breaks, which do not count for the limit of the task.
    """

    pause: Callable[[], None]
    away: float = 0.0

    def take(self) -> None:
        """Take a break."""
        begun = time.perf_counter()
        self.pause()
        self.away += time.perf_counter() - begun

    def on_round(self, progress: Any) -> None:
        """Take a break after a round of a solver."""
        self.take()

    def on_end(self, solution: Any) -> None:
        """Do nothing."""

    def clock(self) -> float:
        """Return the seconds since some moment, without breaks."""
        return time.perf_counter() - self.away


def fitted(
    pieces: Sequence[Piece], around: Sequence[Piece], seconds: float, breaks: Breaks | None = None
) -> Any:
    """Fit a learner to the pieces, or return None if nothing can be learned from them yet.

    The penalty is then tuned on the labeled stretches with the rows ``around`` them, because a
    stretch alone has fewer boundaries than its rows have in a recording. With few boundaries, many
    penalties have the least loss. The one in the middle is safest.
    """
    arrays, truths = map(list, zip(*pieces)) if pieces else ([], [])
    if not any(map(fewest_changes, truths)):
        return None
    breaks = breaks or Breaks(lambda: None)
    callbacks = [breaks, TimeLimit(seconds, breaks.clock)]
    learner: Any = ChangePointMetricLearner(solver=_SOLVER, callbacks=callbacks, verbose=False)
    # As in ``fit``, but without its warnings about few labels.
    learner, _ = learner.solved(learner.stated(learner.read(arrays, truths)))
    if not len(learner.components_) or not learner.penalty_:
        return None
    if around:
        breaks.take()
        learner.tune_penalty(*map(list, zip(*around)))
    return learner if learner.penalty_ else None
