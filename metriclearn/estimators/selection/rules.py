"""Rules for penalties: how a candidate of a cross-fit gets the penalty with which it predicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc

from metriclearn.estimators.reading.given import Given, is_free, labeled_changes, needing_a_change
from metriclearn.estimators.scores.segment_score import penalty_units
from metriclearn.estimators.selection.parts import Parts, labeled_spans
from metriclearn.oracles.penalty_search import PenaltySearch, matched_penalty
from metriclearn.problem.partial_labels import fewest_changes, labeled_part

# Each model predicts at these multiples of its tuned penalty, because few recordings do not
# determine the penalty well.
MULTIPLES = (0.5, 1.0, 2.0)
# With few labels, neither the tuned penalty nor the labeled rate is to be trusted alone.
_TOWARDS = 0.0, 0.5, 1.0
# Penalties are tuned on labeled rows, and on so many usual segments before and after them.
_CONTEXT = 8
LEFT_OUT, TRAINING = "recordings left out", "training recordings"
# Numbers of the rates that are compared, and of the labeled boundaries that a stated length of
# segments counts for.
_GRID, _STATED = 2000, 10


@dataclass(frozen=True)
class BoundaryRate:
    """The posterior distribution of the number of boundaries per row.

    Boundaries are a Poisson process whose rate r has Jeffreys' prior, r^(−1/2). A person may have
    drawn the stretches at random, or picked each of them because it holds a boundary, which
    overstates the rate. Both are equally likely beforehand; in the second case, the likelihood of a
    stretch is divided by the probability 1 − exp(−r · length) that it holds a boundary, and
    multiplied by the probability that their recordings hold as many boundaries as are labeled. If a
    stretch holds none, they were not picked so.

    Attributes
    ----------
    rates : array (m,)
        Boundaries per row, increasing.
    weights : array (m,)
        Their probabilities.

    References
    ----------
    Jeffreys, An invariant form for the prior probability in estimation problems, Proceedings of the
    Royal Society A 186, 1946.
    """

    rates: NDArray[np.float64]
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, truths: Sequence[Any], length: float | None = None) -> Self | None:
        """Compute the distribution that labels leave; None if they tell nothing of the rate.

        A recording that is labeled as a whole was not picked. If its labels are boundaries alone,
        they count as all from the first to the last. ``length`` is the usual number of
        rows of a segment, if the user states it. It counts as ten more labeled boundaries.
        """
        rows, counts, picked, partly = [], [], [], []
        for truth in truths:
            pairs = [(int(e[-1]) - start, len(e) - 1) for start, e in truth.pieces.stretches]
            pairs += [(one.stop - one.start, one.kind.fewest) for one in needing_a_change(truth)]
            if alone := is_free(truth) and bool(pairs):
                middles, n = [sum(one) / 2 for one in labeled_changes(truth)], fewest_changes(truth)
                pairs = [(middles[-1] - middles[0], n - 1) if n > 1 else (truth.n_samples, 1)]
            rows += [size for size, _ in pairs]
            counts += [count for _, count in pairs]
            picked += [not (truth.is_whole or alone)] * len(pairs)
            partly += [] if truth.is_whole or alone or not pairs else [truth]
        total, n = float(sum(rows)), sum(counts)
        if length is not None:
            n, total = n + _STATED, total + _STATED * length
        if not total:
            return None
        rates = np.geomspace(1e-4, 10.0 * (n + 1.0), _GRID) / total
        logs = (n + 0.5) * np.log(rates) - rates * total  # r^(−1/2) dr = r^(1/2) d log r
        chosen = np.array(rows)[np.array(picked, dtype=bool)]
        if len(chosen) and all(count for count, one in zip(counts, picked) if one):
            seen = np.log(-np.expm1(-np.outer(rates, chosen))).sum(axis=1)
            held, most = sum(np.array(counts)[picked]), sum(t.n_samples for t in partly)
            with np.errstate(divide="ignore"):
                enough = np.log(gammainc(held, rates * most))
            logs = np.logaddexp(logs, logs - seen + enough)
        weights = np.exp(logs - logs.max())
        return cls(rates, weights / weights.sum())

    def quantile(self, probability: float) -> float:
        """Return the rate below which the true rate is with the given probability."""
        return float(np.interp(probability, np.cumsum(self.weights), self.rates))


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
    towards : float
        With partial labels, how far to go, from 0 to 1 and in logarithms, from the tuned penalty to
        the one that finds as many boundaries in unlabeled rows as labels let us expect, see
        :class:`~metriclearn.estimators.selection.rules.BoundaryRate`.
    """

    tuned_on: str | None = None
    unit: str | None = None
    multiple: float = 1.0
    towards: float = 0.0

    def __str__(self) -> str:
        if self.tuned_on is None:
            return "penalty as learned"
        factor = "" if self.multiple == 1.0 else f", times {self.multiple:g}"
        unit = "" if self.unit is None else " in units of each sequence's variance"
        if self.towards == 1.0:
            return f"penalty by the labeled rate{unit}{factor}"
        rate = " and by the labeled rate" if self.towards else ""
        return f"penalty tuned on {self.tuned_on}{rate}{unit}{factor}"

    def penalty(self, found: Penalties) -> float:
        """Return the penalty by this rule."""
        tuned = found.tuned[self.unit]
        if not self.towards:
            return self.multiple * tuned
        matched = found.matched[self.unit]
        return self.multiple * tuned ** (1.0 - self.towards) * matched**self.towards


@dataclass(frozen=True, eq=False)
class Penalties:
    """Penalties that suit recordings, in each unit; computed when they are first asked for.

    Attributes
    ----------
    posed : callable () -> (forms, truths)
        Makes the forms of the recordings, and their labels.
    units : sequence of None or "variance"
        The units of penalties.
    min_size : int
        Smallest number of samples in a segment.
    length : float, optional
        The usual number of rows of a segment, if it was stated.
    """

    posed: Callable[[], tuple[list[Any], list[Any]]]
    units: Sequence[str | None]
    min_size: int
    length: float | None = None

    @cached_property
    def tuned(self) -> dict[str | None, float]:
        """The penalty of the least mean loss, or nearly so where there are many segments."""
        forms, truths = self.posed()
        weights, units = None, {unit: penalty_units(forms, unit) for unit in self.units}
        if (spans := labeled_spans(truths, self.min_size, _CONTEXT)) is not None:
            cuts = [(i, *span) for i, some in enumerate(spans) for span in some]
            owners = [i for i, *_ in cuts]
            weights = np.array([(stop - start) / truths[i].n_samples for i, start, stop in cuts])
            units = {unit: one[owners] for unit, one in units.items()}
            forms = [forms[i].part(start, stop) for i, start, stop in cuts]
            truths = [truths[i].at(np.arange(start, stop)) for i, start, stop in cuts]
        search = PenaltySearch(forms, truths, self.min_size, exact=False)
        return {unit: search.best(weights, one)[0] for unit, one in units.items()}

    @cached_property
    def matched(self) -> dict[str | None, float]:
        """The penalty that finds as many boundaries in unlabeled rows as labels let us expect.

        Recordings whose labels are boundaries alone count as unlabeled. If all rows are labeled, or
        labels tell no rate, it is the tuned one.
        """
        forms, truths = self.posed()
        hidden = [is_free(truth) | ~labeled_part(truth).known[:-1] for truth in truths]
        n = sum(np.count_nonzero(some[1:]) for some in hidden)
        if not n or (rate := BoundaryRate.of(truths, self.length)) is None:
            return self.tuned
        task = partial(matched_penalty, forms, hidden, n * rate.quantile(0.5), self.min_size)
        found = {unit: task(penalty_units(forms, unit)) for unit in self.units}
        return {unit: one or self.tuned[unit] for unit, one in found.items()}


# The rules of member m of a cross-fit.
Rules = Callable[[Any, int], Sequence[Rule]]


def _how_far(given: Given) -> tuple[float, ...]:
    """Return how far penalties go from the tuned ones to those by the labeled rate.

    They stay where all used recordings are labeled as a whole, or labels tell no rate. They go all
    the way where labels allow a boundary at every position, so that no penalty is too small.
    """
    known = [given.truths[i] for i in given.used]
    told = BoundaryRate.of(known, given.segment_length) is not None
    if not told or all(truth.is_whole for truth in known):
        return (0.0,)
    return (1.0,) if all(map(is_free, known)) else _TOWARDS


def rules_for(given: Given, parts: Parts, combine: str, for_streams: bool) -> Rules:
    """Return the rules of a Segmenter, whose streams allow only the unit of the data."""
    compared = _of_choice if combine == "best" else _of_consensus
    units = (None,) if for_streams else (None, "variance")
    return partial(compared if parts.left_out else _alone, units, _how_far(given))


def _of_consensus(
    units: Sequence[str | None], towards: Sequence[float], table: Any, m: int
) -> Sequence[Rule]:
    """Return the rules of a consensus: half, once and twice the penalty tuned on parts left out.

    With partial labels, they are the tuned penalty, the one by the labeled rate, if there is one,
    and their geometric mean; only the second if labels allow a boundary everywhere. Penalties are
    tuned in each unit that the score allows. Penalties of positions have the rules of a choice.
    """
    if not table.has_choice(m) or table.scores[m][0].boundaries is not None:
        return _of_choice(units, towards, table, m)
    found, allowed = [], _units(table, m, units)
    penalties = table.penalties(m, allowed)
    for unit in allowed:
        if not penalties.tuned[unit]:
            found.append(Rule(LEFT_OUT, unit))
        elif any(towards) and penalties.matched[unit] != penalties.tuned[unit]:
            found += [Rule(LEFT_OUT, unit, towards=part) for part in towards]
        else:
            found += [Rule(LEFT_OUT, unit, multiple) for multiple in MULTIPLES]
    return found


def _alone(
    units: Sequence[str | None], towards: Sequence[float], table: Any, m: int
) -> Sequence[Rule]:
    """Return the rules of models that are fitted to all recordings alone: the penalty as learned.

    With partial labels it is the one by the labeled rate: a penalty that is learned from so few
    boundaries divides everything. If none was learned, it is tuned on the same recordings.
    """
    score, far = table.scores[m][-1], max(towards)
    if not score.has_choice or not (far or score.penalty is None):
        return [Rule()]
    return [Rule(TRAINING, towards=far)]


def _of_choice(
    units: Sequence[str | None], towards: Sequence[float], table: Any, m: int
) -> Sequence[Rule]:
    """Return the rules of a choice: a penalty tuned on training recordings, or as learned.

    A penalty that was learned from every few rows is too small for all rows. With partial labels,
    tuned penalties go halfway to those by the labeled rate. If labels allow a boundary everywhere,
    they go all the way, and no penalty stays as learned.

    Penalties of positions were learned together with the penalty λ, and only the sum of both has to
    be positive. They do not go halfway: with a λ that no training recording has determined, every
    row of a quiet recording may be a segment.
    """
    if not table.has_choice(m):
        return [Rule()]
    score, part = table.scores[m][0], towards[len(towards) // 2]
    learned = []
    if table.members[m].every == 1 and part < 1.0:
        # A penalty that was left open is tuned as the member would have tuned it.
        learned = [Rule()] if score.penalty is not None else [Rule(TRAINING)] * (part > 0.0)
    way = part if score.boundaries is None or part == 1.0 else 0.0
    *first, last = (Rule(TRAINING, one, towards=way) for one in _units(table, m, units)[::-1])
    return [*first, *learned, last]


def _units(table: Any, m: int, units: Sequence[str | None]) -> list[str | None]:
    """Return the units in which the penalty of a member may be tuned."""
    return [unit for unit in units if unit in table.scores[m][0].units]
