"""CrossFit: members × parts of the recordings → answers for the recordings that were left out.

Whatever is chosen, weighed, calibrated or checked on recordings that were left out reads this
table. :meth:`~metriclearn.estimators.selection.fits.Fits.table` makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

from metriclearn.estimators.reading.given import Given, count_segments
from metriclearn.estimators.reading.labels import read_labelings
from metriclearn.estimators.scores.agreement import Agreement, answers_of, bear_threads, score_of
from metriclearn.estimators.scores.segment_score import labeled_forms
from metriclearn.estimators.selection.parts import Member, Parts, PartViews
from metriclearn.estimators.selection.rules import TRAINING, Penalties, Rule, Rules
from metriclearn.estimators.selection.stacking import (
    answers_alike,
    inner_products,
    name_products,
    pull,
    stacked_weights,
)
from metriclearn.oracles.expected_loss import best_consensus
from metriclearn.problem.consensus_form import ConsensusForm
from metriclearn.problem.losses import KnownLoss
from metriclearn.problem.partition import Partition
from metriclearn.running.executors import in_threads

# What a segment of a compromise is worth beyond its expected loss: the compromise of members that
# disagree has too few segments. Tuning this number on recordings left out brought nothing.
SHIFT = 0.15
_NEGLIGIBLE = 1e-3  # weights below this share of the largest are left out


class Candidate(NamedTuple):
    """A member, and the rule for its penalty.

    ``scores`` has one score for every part of the recordings.
    """

    member: int
    rule: Rule
    scores: list[Any]


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Candidates × recordings.

    Attributes
    ----------
    members : list of Member
    parts : Parts
    models : list of lists
        For each member, the fitted learners of all parts.
    given : Given
        All recordings and their labels; only the labels if the answers are given.
    loss : callable (partition, truth) -> float
    missing : mapping of str to Exception
        For each family whose members could not be fitted, the error, or :class:`Late`.
    candidates : list of Candidate
    answers : list of mappings of int to Partition
        What each candidate predicts for the recordings left out, by the number of the recording.
    views : list of PartViews
        For each member, what computes the rows that it sees; empty if the answers are given.
    seconds : list of float
        Processor time of all fits of each member. The first member with a view pays for this view.

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
    models: list[list[Any]] = field(repr=False)
    given: Given = field(repr=False)
    loss: Callable[[Partition, Any], float] = KnownLoss().squared_norm
    missing: Mapping[str, Exception] = field(default_factory=dict)
    candidates: tuple[Candidate, ...] = field(default=(), repr=False)
    answers: tuple[dict[int, Partition], ...] = field(default=(), repr=False)
    views: tuple[PartViews, ...] = field(default=(), repr=False)
    seconds: tuple[float, ...] = ()
    _shared: dict[int, Penalties] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def scores(self) -> list[list[Any]]:
        """The scores of all members on all parts, with the penalties that were learned."""
        table = []
        for views, row in zip(self.views, self.models):
            pairs = [(score_of(model), views.fitted(k)) for k, model in enumerate(row)]
            table.append([score if view is None else score.behind(view) for score, view in pairs])
        return table

    def with_rules(self, rules: Rules) -> Self:
        """Return the table with further candidates: each member with each of its rules.

        ``rules(table, m)`` returns the rules of member m.
        """
        more = []
        for m in range(len(self.members)):
            for rule in rules(self, m):
                more.append(Candidate(m, rule, self._penalized(m, rule)))
        answers: list[dict[int, Partition]] = [{} for _ in more]
        fits = [one.member for one in more]

        def left_out(k: int, i: int) -> list[Partition]:
            X, seen = self.given.data.arrays[i], {}
            for m in set(fits):
                seen.update(self.views[m].seen(k, i))
            scores = [one.scores[k] for one in more]
            return answers_of(scores, fits, X, classes=self.given.classes, seen=seen)

        pairs = [(k, i) for k, some in enumerate(self.parts.left_out) for i in some.tolist()]
        alone = not bear_threads(chain(*self.scores))
        for (_, i), found in zip(pairs, in_threads(left_out, *zip(*pairs), alone=alone)):
            for answer, one in zip(answers, found):
                answer[i] = one
        candidates, known = (*self.candidates, *more), (*self.answers, *answers)
        return replace(self, candidates=candidates, answers=known)

    def _penalized(self, m: int, rule: Rule) -> list[Any]:
        """Return the scores of a member on all parts, with the penalties of a rule.

        For the last part, a penalty that is tuned on training recordings stays as learned, see
        :meth:`last_score`.
        """
        scores = self.scores[m]
        if rule.tuned_on is None:
            return scores
        if rule.tuned_on == TRAINING:
            pairs = zip(scores, self.parts, range(len(self.parts.left_out)))
            return [*(self._tuned_to(m, s, places, rule) for s, places, _ in pairs), scores[-1]]
        penalty = rule.penalty(self.penalties(m, (rule.unit,)))
        return [score.at(penalty, rule.unit) if score.has_choice else score for score in scores]

    def last_score(self, c: int) -> Any:
        """Return the score of a candidate that was fitted to all recordings."""
        m, rule, scores = self.candidates[c]
        if rule.tuned_on != TRAINING:
            return scores[-1]
        return self._tuned_to(m, self.scores[m][-1], list(self.parts)[-1], rule)

    def _tuned_to(self, m: int, score: Any, places: NDArray, rule: Rule) -> Any:
        if not score.has_choice:
            return score
        found = self._penalties(m, [(score, places)], (rule.unit,))
        return score.at(rule.penalty(found), rule.unit)

    def penalties(self, m: int, units: Sequence[str | None]) -> Penalties:
        """Return the penalties of a member that suit all recordings left out."""
        if m not in self._shared or not set(units) <= set(self._shared[m].units):
            pairs = zip(self.scores[m], self.parts.left_out)
            known = [pair for pair in pairs if pair[0].has_choice]
            self._shared[m] = self._penalties(m, known, units)
        return self._shared[m]

    def _penalties(
        self, m: int, pairs: Sequence[tuple[Any, NDArray]], units: Sequence[str | None]
    ) -> Penalties:
        """Return the penalties of a member for scores, each with the recordings to suit."""
        posed = partial(self._posed, m, pairs)
        return Penalties(posed, units, pairs[0][0].min_size, self.given.segment_length)

    def _posed(self, m: int, pairs: Sequence[tuple[Any, NDArray]]) -> tuple[list[Any], list[Any]]:
        """Return the forms of recordings under scores of a member, and their labels."""
        who, parts, seen = type(self.members[m].learner).__name__, [], []
        scores, fits = [score for score, _ in pairs], list(map(id, self.scores[m]))
        for score, some in pairs:
            data, k = self.given.data.subset(some), fits.index(id(score))
            labels = [self.given.labels[i] for i in some]
            truths = read_labelings(who, labels, data, segments=True, partial=True)
            parts.append((data.arrays, truths))
            seen.append([self.views[m].seen(k, i) for i in some.tolist()])
        return labeled_forms(who, scores, parts, seen)

    def has_choice(self, m: int) -> bool:
        """Tell whether the penalty of a member can be tuned on recordings left out."""
        return any(score.has_choice for score in self.scores[m][: len(self.parts.left_out)])

    @cached_property
    def losses(self) -> NDArray[np.float64]:
        """The loss of each candidate on each recording, NaN if the recording was not left out."""
        table = np.full((len(self.answers), len(self.given.truths)), np.nan)
        for row, found in zip(table, self.answers):
            for i, one in found.items():
                row[i] = self.loss(one, self.given.truths[i])
        return table

    @property
    def places(self) -> NDArray[np.int64]:
        """The recordings that were left out by some part."""
        return np.sort(np.concatenate(self.parts.left_out))

    @property
    def families(self) -> list[str]:
        """The family of each candidate."""
        return [self.members[one.member].family for one in self.candidates]

    @cached_property
    def products(self) -> dict[int, tuple[NDArray, NDArray]]:
        """⟨N_m, N_l⟩ and ⟨N_m, N⟩ of all candidates, for every recording that was left out."""
        return {
            i: inner_products([answer[i] for answer in self.answers], self.given.truths[i])
            for i in self.places.tolist()
        }

    @cached_property
    def name_products(self) -> dict[int, tuple[NDArray, NDArray]]:
        """The same of names, see :func:`name_products`; empty without names."""
        codes = self.given.codes
        if codes is None or self.given.classes is None:
            return {}
        found = {}
        for i in self.places.tolist():
            if (codes[i] >= 0).any():
                found[i] = name_products([answer[i] for answer in self.answers], codes[i])
        return found

    def equal_shares(self) -> NDArray[np.float64]:
        """Return weights with which all families count the same."""
        sizes = np.array([self.families.count(name) for name in self.families], dtype=float)
        return 1 / sizes / np.sum(1 / sizes)

    def stacked(self, places: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the weights that predict partitions and names of recordings best.

        See :mod:`metriclearn.estimators.selection.stacking`.
        """
        n, alike = len(self.answers), answers_alike(self.answers)
        rho = pull(sum(map(count_segments, (self.given.truths[i] for i in places))))
        G, b = (np.sum(one, axis=0) for one in zip(*(self.products[i] for i in places.tolist())))
        weights, names = stacked_weights(G, b, rho, alike), np.zeros(n)
        rows = [self.name_products[i] for i in places.tolist() if i in self.name_products]
        if rows:
            G, b = (np.sum(both, axis=0) for both in zip(*rows))
            named = np.flatnonzero(np.diag(G) > 0)
            some = np.ix_(named, named)
            names[named] = stacked_weights(G[some], b[named], rho, alike[named])
        elif self.given.classes is not None:  # nothing tells votes apart
            names += 1 / n
        return weights, names

    def consensus(
        self, name_loss: float, *, uniform: bool = False
    ) -> tuple[Agreement, NDArray[np.float64], dict[int, Partition]]:
        """Weigh the candidates.

        For a recording that was left out, the weights come from the recordings of other parts.
        Returns the agreement of all models, the weights of candidates, and the compromises for the
        recordings left out.
        """

        def weights(places: NDArray) -> tuple[NDArray, NDArray]:
            found, names = self.stacked(places)
            return (self.equal_shares(), names) if uniform else (found, names)

        best = {}
        for here in self.parts.left_out:
            shares, names = weights(np.setdiff1d(self.places, here))
            kept = _kept(shares, names)
            for i in here.tolist():
                found = [self.answers[c][i] for c in kept]
                form = ConsensusForm(found, shares[kept], name_loss, names[kept])
                best[i] = best_consensus(form.shifted(SHIFT))
        shares, names = weights(self.places)
        return self.agreement(shares, name_loss, names, SHIFT), shares, best

    def agreement(
        self,
        weights: NDArray,
        name_loss: float,
        name_weights: NDArray | None = None,
        shift: float = 0.0,
    ) -> Agreement:
        """Return the agreement of the scores of all parts, with weights of the candidates."""
        n = len(self.models[0])  # models of each member
        names = weights if name_weights is None else name_weights
        kept = _kept(weights, names)
        some = [self.candidates[c] for c in kept]
        return Agreement(
            [score for candidate in some for score in candidate.scores],
            [one.member * n + part for one in some for part in range(n)],
            [self.families[c] for c in kept for _ in range(n)],
            np.repeat(weights[kept] / weights[kept].sum() / n, n),
            self.given.classes,
            name_loss,
            np.repeat(names[kept] / n, n),
            shift,
        )

    @property
    def names(self) -> list[str]:
        """A name for each candidate: the name of its member, and its rule."""
        return [f"{self.named(one.member)}, {one.rule}" for one in self.candidates]

    def named(self, m: int) -> str:
        """Return the family of a member, and how its learner differs from others of the family."""
        family, learner, *_ = self.members[m]
        others = [one.learner for one in self.members if one.family == family]
        plain = (bool, int, float, str)
        theirs, own = [one.get_params() for one in others], []
        for name, value in learner.get_params().items():
            if isinstance(value, plain) and any(other.get(name) != value for other in theirs):
                own.append(f"{name.split('__')[-1]} {value}")
        return f"{family} {', '.join(own)}".strip()

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
            missing={**self.missing, **other.missing},
            views=(*self.views, *other.views),
            seconds=(*self.seconds, *other.seconds),
        )

    def group_losses(self) -> NDArray[np.float64]:
        """Return the mean loss of every candidate on every group, (candidates, groups)."""
        units = np.unique(self.parts.groups[self.places], return_inverse=True)[1]
        rows = [np.bincount(units, row) for row in self.losses[:, self.places]]
        return np.array(rows) / np.bincount(units)

    def best(self) -> int:
        """Choose the simplest family within one standard error of the best, and improve it.

        Families are compared by the first rule of their members, each at its best strength. The
        standard error is computed from the paired differences to the best of all families, over
        groups. Another rule for the penalty is taken if it lowers the loss by more than one
        standard error.

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


def _kept(weights: NDArray, names: NDArray) -> NDArray[np.int64]:
    """Return the candidates whose weights are not negligible."""
    large = [one > _NEGLIGIBLE * one.max(initial=0.0) for one in (weights, names)]
    return np.flatnonzero(large[0] | large[1])


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
