"""Define segmentations with named segments: partitions, scores of names, features and the loss.

There are C names. Every sample t has Q emission features φ_t. The score of the name c in sample t
is ⟨W_c, φ_t⟩, where the weights W have the shape (C, Q). Let S be the cumulative sums of the
samples under the metric B, and let E_c(t) = Σ_{τ<t} ⟨W_c, φ_τ⟩ be the cumulative emissions. A named
segmentation has the score

    Σ_{segments (s,u], names c}  ‖S_u − S_s‖² / (u−s) + E_c(u) − E_c(s) − λ,

which is linear in (B, W, λ). So hinge, solver and certificate are the same as for segmentations
without names. B = 0 gives a semi-Markov model with Potts transitions, and W = 0 gives a
segmentation without names. Optionally, a segment named c′ that follows a segment named c costs τ(c,
c′). The score is linear in τ, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import methodcaller
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from metriclearn.problem.forms import LowRankForm, add_rows
from metriclearn.problem.joint_features import LinearFeatures, Samples
from metriclearn.problem.losses import ChargedForm, KnownLoss
from metriclearn.problem.partial_labels import CompletedPartition, PartialPartition
from metriclearn.problem.partition import Partition
from metriclearn.solvers.mahalanobis import PenalizedMetric


class NamedPartition(Partition):
    """A segmentation, and the name of every segment.

    Two neighboring segments may have the same name.

    Parameters
    ----------
    ends : int array (K,)
        Segment ends. The last end is T.
    names : int array (K,)
        Codes of the names, 0 … C−1.

    Examples
    --------
    >>> import numpy as np
    >>> NamedPartition(np.array([2, 5]), np.array([1, 0])).sample_names.tolist()
    [1, 1, 0, 0, 0]
    """

    __slots__ = ("names",)

    def __init__(self, ends: NDArray, names: NDArray) -> None:
        super().__init__(ends=ends)
        self.names = np.array(names, dtype=np.int64)
        self.names.setflags(write=False)

    @classmethod
    def from_codes(cls, codes: NDArray) -> NamedPartition:
        """Make every run of equal ``codes`` (T,) a segment, whose name is this code."""
        # Two neighboring segments with one name are a single run here.
        ends = np.append(np.flatnonzero(np.diff(codes)) + 1, len(codes))
        return cls(ends, codes[ends - 1])

    @property
    def sample_names(self) -> NDArray[np.int64]:
        """The name of every sample, (T,)."""
        return np.repeat(self.names, self.sizes)

    @property
    def _key(self) -> tuple[Any, ...]:
        return (*super()._key, self.names.tobytes())


class CompletedNames(CompletedPartition, NamedPartition):
    """A segmentation with names that completes partial labels."""

    def __init__(self, partition: NamedPartition, partial_labels: PartialPartition) -> None:
        super().__init__(partition, partial_labels)
        self.names = partition.names


class PartialNames(PartialPartition):
    """Partial labels of a segmentation whose labels are names.

    Unlike a label of a cluster, a name means the same in all recordings and wherever it recurs.
    Boundaries may be given without names, and names without exact boundaries.

    Parameters
    ----------
    known : PartialPartition
        All partial labels except the names.
    names : int array (T,)
        The code of every sample's name, −1 where it is unknown.
    """

    def __init__(self, known: PartialPartition, names: NDArray) -> None:
        # The constraints on boundaries were checked before, so they are copied unchecked.
        self.__dict__.update(vars(known))
        self.names = np.array(names, dtype=np.int64)
        self.names.setflags(write=False)
        self._content = (*known._content, self.names.tobytes())

    def at(self, kept: NDArray[np.int64]) -> PartialNames:
        """Return what the labels say about the kept rows, with their names."""
        return PartialNames(super().at(kept), self.names[kept])

    def with_completion(self, partition: Partition) -> CompletedPartition:
        """Return a copy of a segmentation with names, marked as a completion of these labels."""
        assert isinstance(partition, NamedPartition)
        return CompletedNames(partition, self)


def named_truths(codes: Sequence[NDArray], truths: Sequence[Any]) -> list[Any]:
    """Add names to labelings, from the codes of the names of samples.

    Parameters
    ----------
    codes : sequence of int arrays (T_i,)
        The code of every sample's name, −1 where it is unknown.
    truths : sequence of Partition or PartialPartition
        The same labelings without names.
    """
    # One unknown name makes all truths partial, because all truths of a hinge have one type.
    whole = all((row >= 0).all() for row in codes)
    named: list[Any] = []
    for row, truth in zip(codes, truths):
        ends = truth.change_points if isinstance(truth, Partition) else None
        if not whole:
            known = truth if ends is None else PartialPartition(len(row), change_points=ends)
            named.append(PartialNames(known, row))
        elif ends is None:
            named.append(NamedPartition.from_codes(row))
        else:
            named.append(NamedPartition(ends, row[ends - 1]))
    return named


class NameScores(NamedTuple):
    """Scores of the names of segments.

    Attributes
    ----------
    emissions : array (T+1, C), or (1, 0) for no names
        The cumulative scores E. The first row is 0.
    given : int32 array (2, T+1), or (2, 0) if no name is given
        For every position, the first sample from this position on whose name is given. The first
        row holds the position after this sample (T+1 if there is none), and the second row holds
        its name. A segment that contains the sample must have this name.
    transitions : array (C, C) or None
        τ(c, c′) is the cost if a segment named c′ follows a segment named c. The cost is ∞ if c′
        must not follow c.
    """

    emissions: NDArray
    given: NDArray = np.empty((2, 0), dtype=np.int32)
    transitions: NDArray | None = None

    @classmethod
    def of(
        cls, rows: NDArray, codes: NDArray | None = None, transitions: NDArray | None = None
    ) -> NameScores:
        """Make the scores of segments from the scores of samples, ``rows`` (T, C).

        ``codes`` (T,) are the codes of given names, −1 where the name is unknown.
        """
        emissions, zero = np.zeros((len(rows) + 1, rows.shape[1])), np.zeros(rows.shape[1])
        add_rows(np.ascontiguousarray(rows, dtype=np.float64), zero, emissions)
        return cls(emissions, _next_given(codes), transitions)

    def part(self, start: int, stop: int) -> NameScores:
        """Return the scores of the samples start … stop − 1, without given names."""
        sums = self.emissions[start : stop + 1]
        return NameScores(sums - sums[0], transitions=self.transitions)

    def normalized(self, codes: NDArray | None, backward: bool = False) -> NameScores:
        """Return the same scores, shifted so that the best name of every sample scores 0.

        With ``backward``, return the scores of the reversed samples. The shift subtracts the same
        constant from the values of all segmentations. After the shift, no segment has a score above
        0, as the bounds of the dynamic program require.
        """
        transitions = self.transitions
        if backward:
            codes = None if codes is None else codes[::-1]
            transitions = None if transitions is None else np.ascontiguousarray(transitions.T)
        below = _below_best(np.ascontiguousarray(self.emissions), backward)
        return NameScores(below, _next_given(codes), transitions)

    def names_of(self, ends: NDArray) -> NDArray[np.int64]:
        """Return the best names of the segments with these ends, in O(KC), or O(KC²) with τ."""
        scores = self._forward(ends)
        names = np.argmax(scores, axis=1)
        if self.transitions is not None:
            for k in range(len(ends) - 1, 0, -1):  # the backward pass of the Viterbi algorithm
                names[k - 1] = np.argmax(scores[k - 1] - self.transitions[:, names[k]])
        return names

    def by_name(self, ends: NDArray) -> NDArray[np.float64]:
        """Compute how much the best total score changes if one segment must have a given name.

        The result (K, C) has an entry for every segment and name. The entry is 0 for the best name
        of a segment, and at most 0 for other names.
        """
        scores, own = self._forward(ends), self._scores(ends)
        if self.transitions is None:
            return scores - scores.max(axis=1, keepdims=True)
        best, later = scores[-1].max(), np.zeros(scores.shape[1])
        for k in range(len(ends) - 2, -1, -1):
            later = np.max(own[k + 1] + later - self.transitions, axis=1)
            scores[k] += later
        return scores - best

    def _scores(self, ends: NDArray) -> NDArray[np.float64]:
        """Score every segment under every name, (K, C), with −inf if another name is given."""
        starts = np.append(0, ends[:-1])
        scores = self.emissions[ends] - self.emissions[starts]
        if self.given.size:
            bound = self.given[0, starts] <= ends
            others = self.given[1, starts, None] != np.arange(scores.shape[1])
            scores[bound[:, None] & others] = -np.inf
        return scores

    def _forward(self, ends: NDArray) -> NDArray[np.float64]:
        """Return the best total scores up to every segment under every name, (K, C).

        Without τ, the result is only the score of each segment, as in ``_scores``. With τ, a total
        is the score of this segment under this name, plus the scores of all earlier segments under
        their best names, minus the costs τ between these segments.
        """
        scores = self._scores(ends)
        if self.transitions is not None:
            for k in range(1, len(ends)):
                scores[k] += np.max(scores[k - 1, :, None] - self.transitions, axis=0)
        return scores

    def at(self, partition: Partition) -> float:
        """Return the total score of a partition under its names, or else under the best names."""
        ends = partition.change_points
        names = partition.names if isinstance(partition, NamedPartition) else self.names_of(ends)
        starts = np.append(0, ends[:-1])
        value = float(np.sum(self.emissions[ends, names] - self.emissions[starts, names]))
        if self.transitions is not None:
            value -= float(np.sum(self.transitions[names[:-1], names[1:]]))
        return value


NO_SCORES = NameScores(np.empty((1, 0)))


@njit(nogil=True, cache=True)
def _below_best(emissions: NDArray, backward: bool) -> NDArray:
    """Subtract the best score of each sample from all its scores, and return cumulative sums.

    The result is (T+1, C). ``backward`` reverses the order of samples.
    """
    T, C = len(emissions) - 1, emissions.shape[1]
    sums = np.zeros((T + 1, C))
    for u in range(T):
        t = T - 1 - u if backward else u
        best = emissions[t + 1, 0] - emissions[t, 0]
        for c in range(1, C):
            best = max(best, emissions[t + 1, c] - emissions[t, c])
        for c in range(C):
            sums[u + 1, c] = sums[u, c] + ((emissions[t + 1, c] - emissions[t, c]) - best)
    return sums


def _next_given(codes: NDArray | None) -> NDArray[np.int32]:
    """Compute ``NameScores.given`` from the codes (T,) of given names. A code of −1 is unknown."""
    if codes is None or not np.any(codes >= 0):
        return NO_SCORES.given
    # Find the first labeled sample i ≥ t; T stands for none. A segment (t, u] holds it if i + 1 ≤
    # u, so we store i + 1; T + 1 is beyond every end.
    labeled = np.append(np.flatnonzero(codes >= 0), len(codes))
    first = labeled[np.searchsorted(labeled, np.arange(len(codes) + 1))]
    return np.array([first + 1, np.append(codes, 0)[first]], dtype=np.int32)


class NamedSamples(Samples):
    """One recording, with emission features of every sample.

    Parameters
    ----------
    X, scale, truth
        As for :class:`~metriclearn.problem.joint_features.Samples`.
    more : array (T, Q)
        φ of every sample.
    """

    @cached_property
    def emission_sums(self) -> NDArray:
        """The cumulative emission features Σ_{τ<t} φ_τ, (T+1, Q)."""
        return np.vstack([np.zeros(self.more.shape[1]), np.cumsum(self.more, axis=0)])

    def named(
        self, components: NDArray, weights: NDArray, transitions: NDArray | None
    ) -> ChargedForm:
        """Return XBXᵀ with τ and with the scores of names under W = ``weights`` (C, Q)."""
        names = NameScores(self.emission_sums @ weights.T, transitions=transitions)
        return ChargedForm(self.form(components), names=names)


@dataclass(frozen=True)
class NamedFeatures(LinearFeatures):
    """The score ⟨B, XᵀMX⟩ + Σ_c ⟨W_c, Σ_{t named c} φ_t⟩ − Σ τ(c, c′), linear in (B, W, τ).

    Parameters
    ----------
    metric : PenalizedMetric
        The family of B, extended by the nonnegative weights of ``names``.
    names : object with ``coef``, ``transitions``, ``unit`` and ``weighted``
        The weights W (C, Q) and the costs τ (C, C) or None, such as a
        :class:`~metriclearn.estimators.scores.name_weights.NameWeights`. ``weighted`` returns a
        copy whose W and τ are computed from nonnegative weights: the positive and the negative
        parts of all entries. ``unit`` is the cost τ that a weight of 1 stands for, or 0 if τ is not
        learned.
    """

    metric: PenalizedMetric
    names: Any

    def at(self, w: NDArray) -> Callable[[Samples], LowRankForm]:
        components, weights = self.metric.components(w), self.metric.split(w)[1]
        learned = self.names.weighted(weights)
        return methodcaller("named", components, learned.coef, learned.transitions)

    def gradient(self, samples: Any, form: Any, partition: Any) -> NDArray:
        of_metric = self.metric.metric.coordinates(samples.pooled(partition))
        names, coef = partition.names, self.names.coef
        sums = np.diff(samples.emission_sums[partition.change_points], axis=0, prepend=0.0)
        # A segment adds the emissions of its samples to the row of its name. We use np.add.at,
        # because a name may recur.
        of_names = np.zeros(coef.shape)
        np.add.at(of_names, names, sums)
        parts = [of_metric, of_names.ravel(), -of_names.ravel()]
        if self.names.unit:
            counts = np.zeros((len(coef), len(coef)))
            np.add.at(counts, (names[:-1], names[1:]), self.names.unit)
            parts += [-counts.ravel(), counts.ravel()]
        return np.concatenate(parts)


@dataclass(frozen=True)
class NamedLoss:
    """The loss ℓ with T ℓ = ‖M − N‖²_F + β · (number of samples with a wrong name).

    With partial labels, the first term is :class:`~metriclearn.problem.losses.KnownLoss`. The
    second term counts only samples whose names are known. Completed labels enter neither term.

    Parameters
    ----------
    weight : float
        β.
    """

    completion_free: ClassVar[bool] = True

    weight: float

    def codes(self, truth: Any) -> NDArray:
        """Return the codes (T,) of the true names of all samples, and −1 for unknown names."""
        known = truth.partial_labels
        return truth.sample_names if known is None else known.names

    def __call__(self, partition: NamedPartition, truth: Any) -> float:
        codes = self.codes(truth)
        wrong = np.count_nonzero((codes >= 0) & (codes != partition.sample_names))
        return KnownLoss()(partition, truth) + self.weight * wrong / len(codes)

    def augment(self, form: ChargedForm, truth: Any, scale: float) -> tuple[ChargedForm, float]:
        """Add the loss to a form.

        If the name of a sample is known, the scores of all wrong names in this sample rise by
        scale·β.
        """
        codes, emissions = self.codes(truth), form.names.emissions
        right = codes[:, None] == np.arange(emissions.shape[1])
        wrong = np.where(codes[:, None] >= 0, scale * self.weight * ~right, 0.0)
        augmented, constant = KnownLoss().augment(form, truth, scale)
        names = form.names._replace(emissions=emissions + NameScores.of(wrong).emissions)
        return augmented.with_parts(names=names), constant
