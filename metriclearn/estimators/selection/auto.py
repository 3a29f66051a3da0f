"""auto_metric_learner: choose a family of learners and its settings on groups left out."""

from __future__ import annotations

import copy
import logging
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, stdtrit
from sklearn.base import clone
from sklearn.model_selection import GroupKFold

from metriclearn.estimators.data_sets import read_data_sets
from metriclearn.estimators.labelings import read_groups, read_labelings
from metriclearn.estimators.learners.change_points import ChangePointMetricLearner
from metriclearn.estimators.learners.linear import PrincipalComponents
from metriclearn.estimators.learners.whitened import WhitenedMetricLearner
from metriclearn.estimators.penalties.feature_penalty import FeaturePenalty
from metriclearn.estimators.scores.segmenting import MahalanobisSegmenter
from metriclearn.problem.losses import KnownLoss
from metriclearn.problem.partition import Partition
from metriclearn.running.callbacks import TimeLimit
from metriclearn.running.parameters import Needs, Positive, Whole, needs
from metriclearn.solvers.bundle import BundleDual
from metriclearn.solvers.mahalanobis import FullMetric
from metriclearn.solvers.regularizers import SquaredFrobenius, Trace
from metriclearn.views.boundary import BoundaryFeatures
from metriclearn.views.sequence import SequenceFeatures
from metriclearn.views.whiten import Metric

_LOGGER = logging.getLogger(__name__)


class Family(NamedTuple):
    """A learner, the name of its regularization parameter, and values to try for this parameter.

    The first value is the best one in most cases.
    """

    learner: MahalanobisSegmenter
    parameter: str
    strengths: Sequence[float]


_STRENGTH = "regularizer__strength"
# From simple to complex.
FAMILIES: Mapping[str, Family] = {
    "diagonal, L1": Family(ChangePointMetricLearner(), _STRENGTH, (1e-3, 1e-2, 1e-4)),
    "diagonal, squared norm": Family(
        ChangePointMetricLearner(regularizer=SquaredFrobenius()), _STRENGTH, (1e-2, 1e-1, 1.0)
    ),
    "full, trace": Family(
        ChangePointMetricLearner(FullMetric(), Trace()), _STRENGTH, (1e-2, 3e-3, 1e-1)
    ),
    "full, squared norm": Family(
        ChangePointMetricLearner(FullMetric(), SquaredFrobenius()),
        _STRENGTH,
        (1e-1, 1.0, 1e-2, 10.0),
    ),
    "towards principal components": Family(
        WhitenedMetricLearner(
            FullMetric(),
            solver=BundleDual(tolerance=1e-3, max_rounds=200),
            view=Metric(PrincipalComponents(20)),
            toward=1e-2,
            retune=True,
        ),
        "toward",
        (1e-2, 1e-1, 1e-3),
    ),
    "whitened": Family(WhitenedMetricLearner(), "regularizer__strength", (10.0, 1.0, 100.0)),
}


@dataclass(frozen=True)
class AutomaticChoice:
    """The candidates that were compared on left-out data, and the chosen candidate.

    Attributes
    ----------
    names : list of str
        One name per candidate. The name states the family, the strength, the changed settings and
        how the penalty was chosen.
    losses : array (candidates, groups)
        Mean ‖M − N‖²_F over the sequences of a group, after learning from other groups. For partial
        labels it is T times the loss on the labeled parts.
    chosen : int
        Index of the chosen candidate.
    left_out : list of str
        Candidates for which there was not enough time.
    """

    names: list[str]
    losses: NDArray[np.float64]
    chosen: int
    left_out: list[str]

    def __str__(self) -> str:
        means = self.losses.mean(axis=1)
        lines = [
            f"{'→' if i == self.chosen else ' '} {means[i]:9.4g}  {self.names[i]}"
            for i in np.argsort(means, kind="stable")
        ]
        return "\n".join(["     loss  candidate, on groups left out", *lines])


class _Trial(NamedTuple):
    """A candidate, how its penalty was chosen, and its mean loss on every group."""

    name: str
    rank: int
    learner: Any
    penalty: str
    losses: NDArray


# Arguments of tune_penalty, which is called after the fit; None keeps the learned penalty. Families
# are compared with the first of these.
_PENALTIES: dict[str, dict[str, Any] | None] = {
    "penalty tuned in units of each sequence's variance": {"unit": "variance"},
    "penalty as learned": None,
    "penalty tuned": {},
}

_FAMILIES = Needs(
    "{name} like auto.FAMILIES, one and more, from simple to complex",
    lambda given: len(given) > 0 and all(isinstance(one, Family) for one in given.values()),
)


@needs
def auto_metric_learner(
    X: Any,
    y: Any,
    groups: ArrayLike | None = None,
    *,
    families: Annotated[Mapping[str, Family], _FAMILIES] = FAMILIES,
    seconds: Annotated[float, Positive()] = 120.0,
    n_folds: Annotated[int, Whole(2)] = 4,
) -> MahalanobisSegmenter:
    """Choose a learner and its settings by cross-validation over groups, and fit it to all data.

    First we compare the families at all their strengths by cross-validation over groups of
    sequences. The penalty is tuned on the training part, in units of the variance of each sequence,
    see :meth:`~metriclearn.ChangePointMetricLearner.tune_penalty`. Only the best candidate of each
    family is kept. We choose the simplest family whose loss exceeds the least loss by at most one
    standard error of the paired differences over groups.

    Then we try other settings of the chosen candidate, one after another. A setting is kept if it
    lowers the loss by more than one standard error. The first settings are the learned penalty
    without tuning, and the penalty tuned in the unit of the data. Then ``min_size`` is set to half
    the length of the shortest labeled segment. The last settings are penalties that depend on the
    sequence or on the boundary (:class:`~metriclearn.FeaturePenalty`). With few groups the standard
    error is inflated by Student's t for a confidence of 84 %: by 1.8 for two groups, by 1.3 for
    three, and by 1.2 for four. At the end, the chosen learner is fitted to all sequences.

    Parameters
    ----------
    X : sequence of (T_i, P) arrays, at least two
    y : labels, change-points or partial labels, for each sequence
        Only the families of ``ChangePointMetricLearner`` learn from partial labels.
    groups : array (N,), optional
        Group of every sequence, such as the user who recorded it. All sequences of a group are left
        out together. By default every sequence is a group.
    families : mapping of names to Family
        The families, from simple to complex.
    seconds : float
        Time limit of the whole search. The first candidate is always tried. No other candidate is
        begun after two thirds of the time limit. Every fit stops after a twentieth of the time
        limit. ``choice_`` lists the candidates for which there was not enough time. ``solution_``
        shows whether the final fit was stopped. If no fit or search reaches its limit, the result
        is the same on every machine.
    n_folds : int ≥ 2
        Number of folds, at most one per group.

    Returns
    -------
    fitted learner, with ``choice_``: an :class:`AutomaticChoice`, which can be printed

    Raises
    ------
    ValueError
        For data, labels or parameters that cannot be used, and for fewer than two groups.

    See Also
    --------
    Consensus : combines all candidates instead of choosing one. A Consensus is often better on few
        recordings, but has no single metric that can be inspected.

    References
    ----------
    Breiman, Friedman, Olshen & Stone, Classification and Regression Trees, 1984, section 3.4.3: the
    rule of one standard error.

    Student, The probable error of a mean, Biometrika 6, 1908.

    Examples
    --------
    >>> from metriclearn import auto_metric_learner
    >>> from metriclearn.datasets import load_example
    >>> bees = load_example("bees")
    >>> learner = auto_metric_learner(bees.sequences, bees.labels)  # doctest: +SKIP
    >>> print(learner.choice_)  # doctest: +SKIP
    """
    who = "auto_metric_learner"
    data = read_data_sets(who, X)
    truths = read_labelings(who, y, data, segments=True, partial=True)
    known = not isinstance(truths[0], Partition)
    units = read_groups(who, groups, 1 if data.single else len(truths))
    search = _Search(X, truths, units, n_folds, seconds, time.monotonic())
    usable = [
        (rank, name, family)
        for rank, (name, family) in enumerate(families.items())
        if not known or family.learner.view is None
    ]
    grids = [
        [(rank, name, family, strength) for strength in family.strengths]
        for rank, name, family in usable
    ]
    # The likeliest strengths of all families come first, in case there is no time for the others.
    for rank, name, family, strength in filter(None, chain(*zip_longest(*grids))):
        learner = clone(family.learner).set_params(**{family.parameter: strength})
        search.attempt(f"{name} {strength:g}", rank, learner)
    first = _simplest([trial for trial in search.trials if trial.penalty == next(iter(_PENALTIES))])
    best = _improved(first, [trial for trial in search.trials if trial.learner is first.learner])
    for words, changes in _refinements(best.learner, truths).items():
        base, changed = best.name.rpartition(", penalty")[0], clone(best.learner)
        changed.set_params(**changes)
        best = _improved(best, search.attempt(f"{base}, {words}", best.rank, changed))
    learner = _penalized(_fitted(best.learner, X, truths, seconds), best.penalty, X, truths)
    names = [trial.name for trial in search.trials]
    losses = np.array([trial.losses for trial in search.trials])
    learner.choice_ = AutomaticChoice(names, losses, names.index(best.name), search.left_out)
    return learner


@dataclass
class _Search:
    """Tries candidates on left-out groups until the time is up."""

    X: Any
    truths: Sequence[Any]
    units: NDArray
    n_folds: int
    seconds: float
    begun: float
    trials: list[_Trial] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def attempt(self, name: str, rank: int, learner: Any) -> list[_Trial]:
        """Try a candidate with each way of choosing its penalty, unless the time is up."""
        if self.trials and time.monotonic() - self.begun > 2 / 3 * self.seconds:
            self.left_out.append(name)
            return []
        X, truths, units = self.X, self.truths, self.units
        losses = np.zeros((len(_PENALTIES), len(truths)))
        splitter = GroupKFold(min(self.n_folds, int(units.max()) + 1))
        for train, test in splitter.split(units, groups=units):
            arrays, labels = [X[i] for i in train], [truths[i] for i in train]
            fitted = _fitted(learner, arrays, labels, self.seconds)
            for row, penalty in zip(losses, _PENALTIES):
                model = _penalized(fitted, penalty, arrays, labels)
                for i, ends in zip(test, model.predict_change_points([X[i] for i in test])):
                    row[i] = KnownLoss().squared_norm(Partition(ends=ends), truths[i])
        made = []
        for penalty, row in zip(_PENALTIES, losses):
            words = f"{name}, {penalty}"
            means = np.bincount(units, row) / np.bincount(units)
            made.append(_Trial(words, rank, learner, penalty, means))
            _LOGGER.info("%s: loss %.4g on groups left out", words, means.mean())
        self.trials += made
        return made


def _penalized(fitted: Any, penalty: str, X: Any, truths: Sequence[Any]) -> Any:
    """Copy a fitted learner, and choose the penalty of the copy as ``penalty`` says."""
    options, model = _PENALTIES[penalty], copy.copy(fitted)
    return model if options is None else model.tune_penalty(X, truths, **options)


def _fitted(learner: Any, X: Any, truths: Sequence[Any], seconds: float) -> Any:
    """Fit a copy of the learner in at most a twentieth of the time limit.

    Warnings are hidden, because each would be given again in every fold.
    """
    watched = [*learner.callbacks, TimeLimit(seconds / 20)]
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        fitted = clone(learner).set_params(callbacks=watched).fit(X, truths)
    fitted.set_params(callbacks=learner.callbacks)
    if fitted.solution_.reason == "interrupted":
        # An interrupted comparison must not choose.
        raise KeyboardInterrupt
    return fitted


def _standard_error(values: NDArray) -> float:
    """Compute the standard error of the mean, inflated by Student's t for few values."""
    n = len(values)
    return float(stdtrit(n - 1, ndtr(1)) * np.std(values, ddof=1) / np.sqrt(n))


def _simplest(trials: Sequence[_Trial]) -> _Trial:
    """Choose the simplest family within one standard error of the best, and return its best trial.

    Only the best trial of every family is compared. The standard error is computed from the paired
    differences to the best trial of all families.
    """
    by_family: dict[int, _Trial] = {}
    for trial in sorted(trials, key=lambda trial: float(trial.losses.mean())):
        by_family.setdefault(trial.rank, trial)
    best = next(iter(by_family.values()))
    for _, trial in sorted(by_family.items()):
        excess = trial.losses - best.losses
        if excess.mean() <= _standard_error(excess) + 1e-12:
            return trial
    return best


def _improved(best: _Trial, others: Sequence[_Trial]) -> _Trial:
    """Compare the best trial with the others, one after another, and return the final best trial.

    A trial replaces the best one so far if it is better by more than one standard error.
    """
    for other in others:
        gain = best.losses - other.losses
        best = other if gain.mean() > _standard_error(gain) else best
    return best


def _refinements(learner: Any, truths: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """Return the settings to try: for each description, the parameters and their values."""
    changes: dict[str, dict[str, Any]] = {}
    if isinstance(truths[0], Partition):
        shortest = min(int(truth.sizes.min()) for truth in truths)
        if shortest > 3:
            changes[f"min_size {shortest // 2}"] = {"min_size": shortest // 2}
    if learner.view is None:
        sizes = np.concatenate([getattr(truth, "sizes", [truth.n_samples]) for truth in truths])
        typical = max(4, int(np.median(sizes)))
        boundary = BoundaryFeatures((max(1, typical // 4), typical))
        penalties = {"sequence": (SequenceFeatures(),), "boundary": (boundary,)}
        for words, features in penalties.items():
            changes[f"penalties of the {words}"] = {"penalty": FeaturePenalty(features)}
    return changes
