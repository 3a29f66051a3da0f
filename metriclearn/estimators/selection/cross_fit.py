"""CrossFit: members × parts of the recordings → answers for the recordings that were left out.

Whatever is chosen, weighed, calibrated or checked on recordings that were left out reads this
table. Each member is fitted once to every part of the recordings. Members with equal views share
them.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit
from sklearn.base import clone
from sklearn.model_selection import GroupKFold
from sklearn.utils.validation import has_fit_parameter

from metriclearn.estimators.data_sets import DataSets, read_data_sets
from metriclearn.estimators.labelings import list_labelings, read_labelings, read_names
from metriclearn.estimators.scores.agreement import Agreement, answers_of, score_of
from metriclearn.estimators.scores.segment_score import tuned_penalty
from metriclearn.estimators.selection.families import families_of, is_listed, is_segmenter
from metriclearn.problem.losses import KnownLoss
from metriclearn.problem.partition import Partition
from metriclearn.running.callbacks import TimeLimit
from metriclearn.running.parameters import shown
from metriclearn.running.progress import bar
from metriclearn.views.plain import FittedViews

# How fast weights fall with the loss: with 0 all weights are equal, and with the last power nearly
# all weight is on the best member.
POWERS = (0.0, 2.0, 4.0, 8.0, 16.0)
# Each model predicts at these multiples of its tuned penalty, because few recordings do not
# determine the penalty well.
MULTIPLES = (0.5, 1.0, 2.0)
_FITTED = families_of(
    "members, each a list of fitted segmenters for all folds",
    lambda member: is_listed(member, is_segmenter),
    optional=False,
)
LEFT_OUT, TRAINING = "recordings left out", "training recordings"


class Member(NamedTuple):
    """A learner, with its view, and the family in which it is counted.

    Attributes
    ----------
    family : str
    learner : estimator

    See Also
    --------
    metriclearn.Segmenter : fits members.

    Examples
    --------
    >>> from metriclearn import ChangePointMetricLearner
    >>> from metriclearn.estimators import Member
    >>> Member("diagonal", ChangePointMetricLearner()).family
    'diagonal'
    """

    family: str
    learner: Any


class Rule(NamedTuple):
    """How a candidate gets its penalty.

    Attributes
    ----------
    tuned_on : str or None
        The recordings with the least mean loss: those that the member was fitted to, or those that
        were left out. None keeps the penalty that was learned.
    unit : None or "variance"
        The unit of the penalty.
    multiple : float
        A factor of the tuned penalty.
    """

    tuned_on: str | None = None
    unit: str | None = None
    multiple: float = 1.0

    def __str__(self) -> str:
        if self.tuned_on is None:
            return "penalty as learned"
        factor = "" if self.multiple == 1.0 else f", times {self.multiple:g}"
        unit = "" if self.unit is None else " in units of each sequence's variance"
        return f"penalty tuned on {self.tuned_on}{unit}{factor}"


class Candidate(NamedTuple):
    """A member, and the rule for its penalty.

    ``scores`` has one score for every part of the recordings.
    """

    member: int
    rule: Rule
    scores: list[Any]


@dataclass(frozen=True)
class Parts:
    """Folds of whole groups, and a last part that leaves nothing out.

    Attributes
    ----------
    left_out : list of int arrays
        The recordings that each fold leaves out.
    groups : int array (N,)
        The group of every recording.
    """

    left_out: list[NDArray]
    groups: NDArray

    @classmethod
    def of(cls, groups: NDArray, n_folds: int) -> Self:
        """Divide recordings into at most ``n_folds`` folds of whole groups."""
        splitter = GroupKFold(min(n_folds, int(groups.max()) + 1))
        return cls([test for _, test in splitter.split(groups, groups=groups)], groups)

    def __iter__(self) -> Iterator[NDArray]:
        """Yield the training recordings of every part."""
        every = np.arange(len(self.groups))
        yield from (np.setdiff1d(every, places) for places in self.left_out)
        yield every

    def __len__(self) -> int:
        return len(self.left_out) + 1


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Candidates × recordings.

    Attributes
    ----------
    members : list of Member
    parts : Parts
    data : DataSets or None
        All recordings, or None if the answers are given.
    labels : list
        Their labels, as they were given.
    models : list of lists
        For each member, the fitted learners of all parts.
    truths : list of Partition or PartialPartition
        The labels of all recordings.
    loss : callable (partition, truth) -> float
    classes : array (C,) or None
        The names that segments may have.
    late : list of str
        Members for which there was no time.
    candidates : list of Candidate
    answers : list of mappings of int to Partition
        What each candidate predicts for the recordings left out, by the number of the recording.
    least : float
        Smaller mean losses are replaced by this to compute weights.

    See Also
    --------
    metriclearn.Segmenter : makes and reads this table.

    Examples
    --------
    >>> from metriclearn import ChangePointMetricLearner, Segmenter
    >>> from metriclearn.datasets import make_change_points
    >>> data = make_change_points(n_features=5, n_relevant=3, random_state=0)
    >>> members = {"diagonal": [ChangePointMetricLearner()]}
    >>> segmenter = Segmenter(members, n_folds=3).fit(data.sequences, data.labels)
    >>> segmenter.cross_fit_.losses.shape  # two units and three factors of a penalty, 10 recordings
    (6, 10)
    """

    members: list[Member]
    parts: Parts
    data: Any
    labels: Sequence[Any]
    models: list[list[Any]]
    truths: list[Any]
    loss: Callable[[Partition, Any], float]
    classes: NDArray | None = None
    late: tuple[str, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    answers: tuple[dict[int, Partition], ...] = ()
    least: float = 1e-12

    @classmethod
    def of_models(
        cls,
        who: str,
        members: Mapping[str, Sequence[Sequence[Any]]],
        X: Any,
        y: Any,
        left_out: Sequence[NDArray],
        names: bool | None = None,
    ) -> Self:
        """Make a table of models that have already been fitted, see ``Segmenter.of_models``."""
        data = read_data_sets(who, X)
        _FITTED.check(who, "members", members)
        folds = _read_folds(who, left_out, len(data.arrays))
        sizes = {len(row) for family in members.values() for row in family}
        if sizes not in ({len(folds)}, {len(folds) + 1}):
            raise ValueError(
                f"{who} needs a model for each of the {len(folds)} folds in left_out, and for all "
                f"members or for none one of all recordings, got members of "
                f"{' and '.join(map(str, sorted(sizes)))} models."
            )
        truths = read_labelings(who, y, data, segments=True, partial=True)
        labels, groups = list_labelings(who, y, data), np.arange(len(truths))
        classes = names_of(who, names, labels, data, truths, groups)
        rows = [(name, list(row)) for name, family in members.items() for row in family]
        classes = predicted_names(classes, [row for _, row in rows])
        kept = [Member(name, row[0]) for name, row in rows]
        models, loss = [row for _, row in rows], KnownLoss().squared_norm
        return cls(kept, Parts(folds, groups), data, labels, models, truths, loss, classes)

    @cached_property
    def scores(self) -> list[list[Any]]:
        """The scores of all members on all parts, with the penalties that were learned."""
        return [list(map(score_of, row)) for row in self.models]

    def with_rules(self, rules: Callable[[Self, int], Sequence[Rule]]) -> Self:
        """Return the table with further candidates: each member with each of its rules.

        ``rules(table, m)`` returns the rules of member m.
        """
        more = []
        for m in range(len(self.members)):
            for rule in rules(self, m):
                more.append(Candidate(m, rule, self._penalized(m, rule)))
        answers: list[dict[int, Partition]] = [{} for _ in more]
        for k, places in enumerate(self.parts.left_out):
            scores, fits = [one.scores[k] for one in more], [one.member for one in more]
            for i in places.tolist():
                found = answers_of(scores, fits, self.data.arrays[i], classes=self.classes)
                for answer, one in zip(answers, found):
                    answer[i] = one
        candidates, known = (*self.candidates, *more), (*self.answers, *answers)
        return replace(self, candidates=candidates, answers=known)

    def _penalized(self, m: int, rule: Rule) -> list[Any]:
        """Return the scores of a member on all parts, with the penalties of a rule.

        A penalty that is tuned on training recordings is left as learned for the last part, see
        :meth:`last_score`.
        """
        scores = self.scores[m]
        if rule.tuned_on is None:
            return scores
        if rule.tuned_on == TRAINING:
            pairs = zip(scores, self.parts, range(len(self.parts.left_out)))
            return [*(self._tuned_to(m, s, places, rule) for s, places, _ in pairs), scores[-1]]
        penalty = rule.multiple * self.shared_penalty(m, rule.unit)
        return [score.at(penalty, rule.unit) if score.has_choice else score for score in scores]

    def last_score(self, c: int) -> Any:
        """Return the score of a candidate that was fitted to all recordings."""
        m, rule, scores = self.candidates[c]
        if rule.tuned_on != TRAINING:
            return scores[-1]
        return self._tuned_to(m, self.scores[m][-1], np.arange(len(self.truths)), rule)

    def _tuned_to(self, m: int, score: Any, places: NDArray, rule: Rule) -> Any:
        if not score.has_choice:
            return score
        return score.at(self._tuned(m, [score], [places], rule.unit), rule.unit)

    def shared_penalty(self, m: int, unit: str | None) -> float:
        """Return the penalty of a member that is best for all recordings left out."""
        if (m, unit) not in self._shared:
            pairs = zip(self.scores[m], self.parts.left_out)
            scores, places = zip(*[pair for pair in pairs if pair[0].has_choice])
            self._shared[m, unit] = self._tuned(m, scores, places, unit)
        return self._shared[m, unit]

    @cached_property
    def _shared(self) -> dict[tuple[int, str | None], float]:
        return {}

    def _tuned(
        self, m: int, scores: Sequence[Any], places: Sequence[NDArray], unit: str | None
    ) -> float:
        who, parts = type(self.members[m].learner).__name__, []
        for some in places:
            data = self.data.subset(some)
            labels = [self.labels[i] for i in some]
            truths = read_labelings(who, labels, data, segments=True, partial=True)
            parts.append((data.arrays, truths))
        return tuned_penalty(who, scores, parts, unit)[0]

    def has_choice(self, m: int) -> bool:
        """Tell whether the penalty of a member can be tuned on recordings left out."""
        return any(score.has_choice for score in self.scores[m][: len(self.parts.left_out)])

    @cached_property
    def losses(self) -> NDArray[np.float64]:
        """The loss of each candidate on each recording, NaN if the recording was not left out."""
        table = np.full((len(self.answers), len(self.truths)), np.nan)
        for row, found in zip(table, self.answers):
            for i, one in found.items():
                row[i] = self.loss(one, self.truths[i])
        return table

    @property
    def places(self) -> NDArray[np.int64]:
        """The recordings that were left out by some part."""
        return np.sort(np.concatenate(self.parts.left_out))

    @property
    def families(self) -> list[str]:
        """The family of each candidate."""
        return [self.members[one.member].family for one in self.candidates]

    def shares(self, columns: NDArray, power: float) -> NDArray[np.float64]:
        """Compute weights of candidates, proportional to their mean loss^(−power) on recordings.

        The weight of a candidate is divided by the number of candidates in its family.
        """
        sizes = np.array([self.families.count(name) for name in self.families], dtype=float)
        means = np.maximum(self.losses[:, columns].mean(axis=1), self.least)
        values = (means.min() / means) ** power / sizes
        return values / values.sum()

    def equal_shares(self) -> NDArray[np.float64]:
        """Return weights with which all families count the same."""
        sizes = np.array([self.families.count(name) for name in self.families], dtype=float)
        return 1 / sizes / np.sum(1 / sizes)

    def weights(
        self, agree: Callable[[Sequence[Partition], NDArray], Partition], powers: Sequence[float]
    ) -> tuple[float, NDArray, dict[int, Partition]]:
        """Choose the power of weights for which compromises have the least loss when left out.

        To try a power on a part, weights are computed from the losses on the other parts, if there
        are any. Returns the power, the weights of the candidates, and the compromises for the
        recordings left out.

        Parameters
        ----------
        agree : callable
            Computes the compromise of weighted partitions.
        powers : sequence of float
            The powers to try.
        """
        tried = []
        for power in powers:
            best: dict[int, Partition] = {}
            for here in self.parts.left_out:
                others = np.setdiff1d(self.places, here)
                weights = self.shares(others if len(others) else here, power)
                for i in here.tolist():
                    best[i] = agree([found[i] for found in self.answers], weights)
            total = sum(self.loss(found, self.truths[i]) for i, found in best.items())
            tried.append((total, power, best))
        _, power, best = min(tried, key=lambda one: one[0])
        return power, self.shares(self.places, power), best

    def agreement(self, weights: NDArray, name_loss: float) -> Agreement:
        """Return the agreement of the scores of all parts, with weights of the candidates."""
        n = len(self.models[0])
        scores = [score for candidate in self.candidates for score in candidate.scores]
        return Agreement(
            scores,
            [one.member * n + part for one in self.candidates for part in range(n)],
            [name for name in self.families for _ in range(n)],
            np.repeat(weights / n, n),
            self.classes,
            name_loss,
        )

    @property
    def names(self) -> list[str]:
        """A name for each candidate: that of its member, and its rule."""
        return [f"{self.named(one.member)}, {one.rule}" for one in self.candidates]

    def named(self, m: int) -> str:
        """Return the family of a member, and how its learner differs from others of the family."""
        family, learner = self.members[m]
        others = [one.learner for one in self.members if one.family == family]
        return f"{family} {_differs(learner, others)}".strip()

    def joined(self, other: Self) -> Self:
        """Return the candidates of two tables over the same parts."""
        n = len(self.members)
        more = tuple(one._replace(member=one.member + n) for one in other.candidates)
        return replace(
            self,
            members=[*self.members, *other.members],
            models=[*self.models, *other.models],
            candidates=(*self.candidates, *more),
            answers=(*self.answers, *other.answers),
        )

    def group_losses(self) -> NDArray[np.float64]:
        """Return the mean loss of every candidate on every group, (candidates, groups)."""
        units = np.unique(self.parts.groups[self.places], return_inverse=True)[1]
        rows = [np.bincount(units, row) for row in self.losses[:, self.places]]
        return np.array(rows) / np.bincount(units)

    def best(self) -> int:
        """Choose the simplest family within one standard error of the best, and improve it.

        Families are compared by the first rule of their members, each at its best strength. The
        standard error is that of the paired differences to the best of all families, over groups.
        Another rule for the penalty is taken if it lowers the loss by more than one standard error.

        References
        ----------
        Breiman, Friedman, Olshen & Stone, Classification and Regression Trees, 1984, section 3.4.3:
        the rule of one standard error.
        """
        losses = self.group_losses()
        first: dict[int, int] = {}
        for c, candidate in enumerate(self.candidates):
            first.setdefault(candidate.member, c)
        by_family: dict[str, int] = {}
        for c in sorted(first.values(), key=lambda c: float(losses[c].mean())):
            by_family.setdefault(self.families[c], c)
        chosen = best = next(iter(by_family.values()))
        for name in dict.fromkeys(self.families):
            excess = losses[by_family[name]] - losses[best]
            if excess.mean() <= standard_error(excess) + 1e-12:
                chosen = by_family[name]
                break
        for c, candidate in enumerate(self.candidates):
            if candidate.member == self.candidates[chosen].member:
                chosen = c if is_better(losses[c], losses[chosen]) else chosen
        return chosen


def standard_error(values: NDArray) -> float:
    """Compute the standard error of the mean, inflated by Student's t for few values.

    References
    ----------
    Student, The probable error of a mean, Biometrika 6, 1908.
    """
    n = len(values)
    return float(stdtrit(n - 1, ndtr(1)) * np.std(values, ddof=1) / np.sqrt(n))


def is_better(losses: NDArray, others: NDArray) -> bool:
    """Tell whether losses are lower than others by more than one standard error."""
    gain = others - losses
    return bool(gain.mean() > standard_error(gain))


def names_of(
    who: str,
    wanted: bool | None,
    labels: Sequence[Any],
    data: DataSets,
    truths: Sequence[Any],
    groups: NDArray,
) -> NDArray | None:
    """Return the sorted labels if they are names, else None.

    With ``wanted=None``, labels are names if some label recurs within a recording after a different
    label, and if recordings of two groups share a label.
    """
    if wanted is False:
        return None
    try:
        codes, classes = read_names(who, labels, data, truths)
    except ValueError:
        if wanted:
            raise
        return None
    if wanted:
        return classes
    # Names that no two groups share, such as speakers, do not help with other recordings.
    units = groups.tolist()
    pairs = {(u, c) for u, row in zip(units, codes) for c in np.unique(row[row >= 0]).tolist()}
    shared = len({c for _, c in pairs}) < len(pairs)
    return classes if shared and any(map(_returns, codes)) else None


def predicted_names(classes: NDArray | None, models: Sequence[Sequence[Any]]) -> NDArray | None:
    """Return the sorted names that models may predict, or None if they predict none.

    Models that were fitted elsewhere may predict names that ``classes`` lacks.
    """
    if classes is None:
        return None
    found = [score_of(model).classes for row in models for model in row]
    named = [one for one in found if one is not None]
    if len({one.dtype.kind in "SUO" for one in (classes, *named)}) > 1:
        raise ValueError(
            f"Names need to be of one type, got {shown(classes)} in recordings and "
            f"{shown(named[0])} in models; convert the labels."
        )
    return np.unique(np.hstack([classes, *named])) if named else None


def _returns(codes: NDArray) -> bool:
    """Tell whether some name recurs after a different name."""
    known = codes[codes >= 0]
    runs = known[np.flatnonzero(np.diff(known, prepend=-1))]
    return len(np.unique(runs)) < len(runs)


def _read_folds(who: str, left_out: Any, n: int) -> list[NDArray]:
    """Read the indices of the recordings in each fold.

    Raises
    ------
    ValueError
        If a fold is empty, if a recording is in two folds, or if an index belongs to no recording.
    """
    try:
        folds = [np.asarray(places) for places in left_out]
        together = np.concatenate(folds)
        usable = together.dtype.kind in "iu" and min(map(len, folds)) > 0
        usable = usable and bool(np.isin(together, np.arange(n)).all())
        usable = usable and len(np.unique(together)) == len(together)
    except Exception:  # a foreign object may raise any error
        usable = False
    if not usable:
        raise ValueError(
            f"{who} needs left_out as a list of arrays with numbers of recordings, from 0 to "
            f"{n - 1} and each at most once, got {shown(left_out)}."
        )
    return folds


class Fits(NamedTuple):
    """How members are fitted.

    Attributes
    ----------
    who : str
        The name in front of the progress bar.
    may_fail : bool
        Whether a member is dropped if a fit fails. Some families need more names, or more
        recordings, than a part has.
    seconds : float or None
        Time limit of all fits. Each stops after a twentieth, and no member is begun after two
        thirds, except the first.
    begun : float
        When this time began, by ``time.monotonic()``.
    n_jobs : int or None
        Number of fits that run at the same time, as in joblib.
    verbose : bool or None
        Show a progress bar always, never, or in a terminal (None).
    """

    who: str
    may_fail: bool = False
    seconds: float | None = None
    begun: float = 0.0
    n_jobs: int | None = None
    verbose: bool | None = None

    def run(
        self,
        members: Sequence[Member],
        parts: Sequence[tuple[Sequence[Any], Sequence[Any], NDArray]],
    ) -> tuple[list[Member], list[list[Any]], tuple[str, ...]]:
        """Fit every member to every part, given as (data sets, labels, groups).

        Returns the members that could be fitted, their models, and the families of those for which
        there was no time.
        """
        stores = [FittedViews() for _ in parts]
        calls = [
            joblib.delayed(self._fitted)(member.learner, part, store, m == 0)
            for m, member in enumerate(members)
            for part, store in zip(parts, stores)
        ]
        hidden = None if self.verbose is None else not self.verbose
        fits = joblib.Parallel(self.n_jobs, prefer="threads", return_as="generator")(calls)
        # Warnings would recur in every part. The filter applies to all threads.
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            models = list(bar(fits, self.who, len(calls), disable=hidden))
        rows = [models[i : i + len(parts)] for i in range(0, len(models), len(parts))]
        failed = [[one for one in row if isinstance(one, (ValueError, _Late))] for row in rows]
        kept = [m for m, some in enumerate(failed) if not some]
        if not kept:
            raise next(one for some in failed for one in some)
        late = [members[m].family for m, some in enumerate(failed) if _Late in map(type, some)]
        return [members[m] for m in kept], [rows[m] for m in kept], tuple(late)

    @property
    def is_over(self) -> bool:
        """Whether there is no time to begin with another member."""
        return self.seconds is not None and time.monotonic() - self.begun > 2 / 3 * self.seconds

    def _fitted(self, member: Any, part: Any, views: FittedViews, is_first: bool) -> Any:
        """Fit a copy of a member to a part of the recordings."""
        if self.is_over and not is_first:
            return _Late()
        arrays, labels, groups = part
        learner = clone(member)
        given = learner.get_params(deep=False)
        for name, value in (("verbose", False), ("n_jobs", 1)):
            if name in given:
                learner.set_params(**{name: value})
        if self.seconds is not None and "callbacks" in given:
            limit = TimeLimit(self.seconds / 20)
            learner.set_params(callbacks=[*given["callbacks"], limit])
        several = len(np.unique(groups)) > 1 and has_fit_parameter(learner, "groups")
        options: dict[str, Any] = {"groups": groups} if several else {}
        fit = learner.fit
        if hasattr(learner, "fit_among"):
            fit, options = learner.fit_among, {**options, "views": views}
        try:
            model = fit(arrays, labels, **options)
        except ValueError as error:
            if self.may_fail:
                return error
            raise
        if is_interrupted(model):
            raise KeyboardInterrupt
        if self.seconds is not None and "callbacks" in given:
            model.set_params(callbacks=given["callbacks"])
        return model


class _Late(Exception):
    """There was no time to fit a member."""


def is_interrupted(model: Any) -> bool:
    """Tell whether a fit was interrupted. A comparison that was interrupted chooses nothing."""
    return getattr(getattr(model, "solution_", None), "reason", "") == "interrupted"


def consensus_rules(units: Sequence[str | None]) -> Callable[[CrossFit, int], list[Rule]]:
    """Return the rules of a consensus: half, once and twice the penalty tuned on what is left out.

    Penalties are tuned in each unit, and in the unit of the data only if names were learned.
    """

    def rules(table: CrossFit, m: int) -> list[Rule]:
        if not table.has_choice(m):
            return [Rule()]
        found = []
        for unit in units if table.scores[m][0].classes is None else (None,):
            multiples = MULTIPLES if table.shared_penalty(m, unit) else (1.0,)
            found += [Rule(LEFT_OUT, unit, multiple) for multiple in multiples]
        return found

    return rules


def choice_rules(units: Sequence[str | None]) -> Callable[[CrossFit, int], list[Rule]]:
    """Return the rules of a choice: a penalty tuned on training recordings, or as learned."""

    def rules(table: CrossFit, m: int) -> list[Rule]:
        if not table.has_choice(m):
            return [Rule()]
        named = table.scores[m][0].classes is not None
        learned = [] if table.scores[m][0].penalty is None else [Rule()]
        first = [] if named or "variance" not in units else [Rule(TRAINING, "variance")]
        return [*first, *learned, Rule(TRAINING)]

    return rules


def _differs(learner: Any, others: Sequence[Any]) -> str:
    """Describe the parameters in which a learner differs from others of its family."""
    mine: Mapping[str, Any] = learner.get_params()
    plain = {k: v for k, v in mine.items() if isinstance(v, (bool, int, float, str))}
    theirs = [one.get_params() for one in others]
    own = {k: v for k, v in plain.items() if any(other.get(k) != v for other in theirs)}
    return ", ".join(f"{name.split('__')[-1]} {value}" for name, value in own.items())
