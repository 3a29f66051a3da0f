"""Judge a model of the label page on labeled stretches that it has not learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit
from scipy.stats import binomtest
from sklearn.model_selection import KFold

from metriclearn import PartialPartition, Partition
from metriclearn.apps.label_page.learning.model import Breaks, Model, fitted
from metriclearn.apps.label_page.learning.pieces import (
    Given,
    Stretch,
    labels_of,
    pieces_to_tune,
    stretches_of,
)
from metriclearn.apps.label_page.learning.row_names import Names
from metriclearn.apps.label_page.learning.seen import Seen
from metriclearn.apps.label_page.signals import Recording
from metriclearn.estimators import Calibration
from metriclearn.indices import match, near
from metriclearn.oracles import BoundaryMargins
from metriclearn.problem import FrobeniusLoss

_CALIBRATED = 20  # held-out boundaries that probabilities need
_MOST_ROWS = 5_000  # on which each penalty is tuned
_FEW_STRETCHES = 5  # up to so many, each is held out alone; more are held out in three parts
_FEWEST = 3  # boundaries in labeled stretches, so that some can be held out


class Check(NamedTuple):
    """Counts that tell how well predictions agree with the labels of held-out stretches.

    Attributes
    ----------
    stretches : int
        Number of stretches.
    agreed, missed, extra : int
        Number of boundaries that both the person and the model have set, number of boundaries that
        only the person has set, and number of boundaries that only the model has set.
    right, named : int
        Number of rows whose predicted name is right, and number of rows that the person has named.
    """

    stretches: int = 0
    agreed: int = 0
    missed: int = 0
    extra: int = 0
    right: int = 0
    named: int = 0

    def __add__(self, other: Any) -> Check:
        return Check(*map(sum, zip(self, other)))

    def as_json(self) -> dict[str, Any]:
        """Convert the counts to a point of the curve that the page shows.

        The point also has Wilson's 95 % confidence interval for the fraction of boundaries that
        agree. This interval has a positive width even if there are only a few boundaries and all of
        them agree.
        """
        n = self.agreed + self.missed + self.extra
        if not n:
            return {}
        low, high = binomtest(self.agreed, n).proportion_ci(method="wilson")
        return {
            **dict(zip(("stretches", "agreed", "missed", "extra"), self)),
            **{"low": round(float(low), 3), "high": round(float(high), 3)},
            "named": round(self.right / self.named, 3) if self.named else None,
        }


@dataclass
class _Trial:
    """Predictions for held-out stretches, with margins relative to the penalty, and the labels.

    A boundary is right if it is within ``near`` rows of a labeled one. ``right`` of ``named`` rows
    have the right name.
    """

    near: int
    tolerance: int
    found: list[BoundaryMargins] = field(default_factory=list)
    truths: list[Partition] = field(default_factory=list)
    right: int = 0
    named: int = 0

    def add(
        self, model: Model, X: NDArray, features: NDArray, truth: Partition, names: Any
    ) -> None:
        """Segment a held-out stretch, whose rows have the labels ``names``, "" if unknown."""
        found = model.margins(X, features, PartialPartition(len(X)), self.tolerance)
        self.found.append(replace(found, losses=found.losses / model.learner.penalty_))
        self.truths.append(truth)
        named, _ = model.named(features, found.change_points)
        if named:
            given = np.repeat(named, np.diff(found.change_points, prepend=0))
            self.right += int(np.sum((given == names) & (names != "")))
            self.named += int(np.sum(names != ""))

    @property
    def cuts(self) -> list[tuple[NDArray, NDArray]]:
        """The predicted and the labeled boundaries of every stretch."""
        pairs = zip(self.found, self.truths)
        return [(one.change_points[:-1], truth.change_points[:-1]) for one, truth in pairs]

    @property
    def check(self) -> Check:
        """The counts of boundaries and names."""
        agreed = sum(len(match(*both, self.tolerance)) for both in self.cuts)
        found, true = (sum(len(both[k]) for both in self.cuts) for k in (0, 1))
        counts = agreed, true - agreed, found - agreed
        return Check(len(self.truths), *counts, self.right, self.named)

    @property
    def squares(self) -> list[float]:
        """‖M − N‖² of every stretch."""
        pairs = zip(self.found, self.truths)
        norm = FrobeniusLoss().squared_norm
        return [norm(Partition(ends=one.change_points), truth) for one, truth in pairs]

    @property
    def loss(self) -> float:
        """How much the predictions differ from the labels. Two trials are compared by this loss.

        The loss is the sum of ‖M − N‖² over the stretches, plus the number of wrongly named rows
        divided by the mean segment length.
        """
        sizes = sum(truth.n_samples for truth in self.truths)
        segments = sum(truth.n_clusters for truth in self.truths)
        return sum(self.squares) + (self.named - self.right) * segments / max(sizes, 1)

    @property
    def gains(self) -> list[float]:
        """How many more boundaries are right than wrong in every stretch. One segment has 0.

        In so short a stretch, ‖M − N‖² would punish a boundary that is a few rows off, unlike in a
        whole recording; and stretches are cut in the middle of segments, where a boundary in their
        middle is often near.
        """
        return [2.0 * len(match(cuts, true, self.near)) - len(cuts) for cuts, true in self.cuts]

    @property
    def is_useful(self) -> bool:
        """Whether predictions have more :func:`skill` than 0, and a lower loss than one segment.

        Student's one-sided test at a level of 2.5 % has to tell both.
        """
        n, lengths = len(self.truths), (truth.n_samples for truth in self.truths)
        if n < 2:
            return False
        skills = [skill(*both, length, self.near) for both, length in zip(self.cuts, lengths)]
        savings = [len(true) - loss for (_, true), loss in zip(self.cuts, self.squares)]
        least = float(stdtrit(n - 1, 0.975)) / n**0.5
        return all(np.mean(one) > least * np.std(one, ddof=1) for one in (skills, savings))


@dataclass(frozen=True)
class Judgment:
    """The quality of a model, measured on stretches that it has not learned from.

    Attributes
    ----------
    missing : int
        An estimate of how many more boundaries need labels until the model is better than one
        segment, see :func:`missing_labels`.
    checked : Check or None
        None if nothing could be held out.
    calibration : Calibration or None
        None if there were too few boundaries for probabilities.
    is_joint : bool
        Whether boundaries are found better if names influence them.
    """

    missing: int = _FEWEST
    checked: Check | None = None
    calibration: Calibration | None = None
    is_joint: bool = False

    @classmethod
    def of(
        cls,
        recordings: Sequence[Recording],
        seen: Seen,
        given: Given,
        seconds: float,
        breaks: Breaks,
    ) -> Self:
        """Compare labeled stretches with predictions by models that were not trained on them.

        Two variants are compared. In one of them, names influence where boundaries are found.

        Parameters
        ----------
        recordings : sequence of Recording
        seen : Seen
            What the metric sees of the recordings.
        given : Given
            The labels.
        seconds : float
            Limit of each fit.
        breaks : Breaks
            Taken often.
        """
        stretches = stretches_of(given.partial)
        n_known = sum(one.truth.n_clusters - 1 for one in stretches)
        if len(stretches) < 2:
            return cls(missing_labels([], n_known))
        labels = np.array([*given.names, ""])  # −1, no label, is the last
        limits = seen.sizes[-2:][0], recordings[0].tolerance  # about an eighth of a segment
        apart, joint = _Trial(*limits), _Trial(*limits)
        n_folds = len(stretches) if len(stretches) <= _FEW_STRETCHES else 3
        for rest, left in KFold(n_folds).split(stretches):
            kept = [stretches[i] for i in rest]
            pieces = [(seen.rows[one.recording][one.rows], one.truth) for one in kept]
            around = pieces_to_tune(seen.rows, labels_of(kept, seen.rows), seen.context, _MOST_ROWS)
            learner = fitted(pieces, around, seconds, breaks)
            if learner is None:
                continue
            out = [stretches[place] for place in left]
            names = Names.learn(given.names, recordings, _codes_without(given.codes, out))
            for trial in (apart, joint) if names is not None else (apart,):
                model = Model(learner, names, trial is joint)
                for i, inside, truth in out:
                    breaks.take()
                    rows, features = seen.rows[i][inside], recordings[i].features[inside]
                    said = labels[given.codes[i][inside]]
                    trial.add(model, rows, features, truth, said)
        is_joint = len(joint.truths) == len(apart.truths) > 0 and joint.loss < apart.loss
        best = joint if is_joint else apart
        calibration = None
        if sum(len(one.losses) for one in best.found) >= _CALIBRATED:
            calibration = Calibration.learn(best.found, best.truths, best.tolerance)
        missing = missing_labels(best.gains, n_known, best.is_useful)
        return cls(missing, best.check, calibration, is_joint)


def _codes_without(codes: Sequence[NDArray], left: Sequence[Stretch]) -> list[NDArray]:
    """Return the codes of names, without names in the given stretches."""
    kept = list(map(np.copy, codes))
    for one in left:
        kept[one.recording][one.rows] = -1
    return kept


def skill(cuts: NDArray, true: NDArray, n_rows: int, tolerance: int) -> float:
    """Count how many more boundaries are right than of as many at random, or of equal cuts.

    The predicted boundaries are compared with the better of the two. A boundary at random is
    counted as right if any true boundary is near.

    Parameters
    ----------
    cuts, true : sorted int arrays
        Predicted and true boundaries, from 1 to ``n_rows`` − 1.
    n_rows : int
    tolerance : int
        Largest distance, in rows, of boundaries that agree.
    """
    n = len(cuts)
    equal = np.unique(np.round(np.arange(1, n + 1) * n_rows / (n + 1)).astype(np.int64))
    right, easy = (len(match(one, true, tolerance)) for one in (cuts, equal))
    return right - max(easy, n * float(near(np.arange(1, n_rows), true, tolerance).mean()))


def missing_labels(gains: Sequence[float], n_known: int, is_useful: bool = False) -> int:
    """Estimate how many labels are missing until a model is better than one segment.

    It is better if the mean gain over stretches held out exceeds its standard error, or if it is
    useful otherwise. As long as it is not, we count the further boundaries that it would have to
    find exactly, with a gain of one each. More labels also improve the model, so we ask for a
    quarter more at least, and twice as many at most.

    Parameters
    ----------
    gains : sequence of float
        How many more boundaries of the model are right than wrong, in every stretch.
    n_known : int
        Number of boundaries with labels on both sides.
    is_useful : bool
        Whether boundaries are right more often than by chance, see :class:`_Trial`. Where they are
        a few rows apart, more of them may be wrong than right.
    """
    if n_known < _FEWEST:
        return _FEWEST - n_known
    if is_useful:
        return 0
    for count in range(n_known):
        all_gains = np.append(gains, np.ones(count))
        if len(all_gains) > 1 and all_gains.mean() > all_gains.std(ddof=1) / len(all_gains) ** 0.5:
            return max(count, n_known // 4 + 1) if count else 0
    return n_known
