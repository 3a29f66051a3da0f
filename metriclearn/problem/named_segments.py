"""Segmentations whose segments have names: partitions, scores of names, features and the loss.

With scores W (C, Q) of C names on Q emission features φ of every sample, and the cumulative
emissions E_c(t) = Σ_{τ<t} ⟨W_c, φ_τ⟩, a named segmentation has the score

    Σ_{segments (s,u], names c}  ‖S_u − S_s‖² / (u−s) + E_c(u) − E_c(s) − λ,

which is linear in (B, W, λ). So hinge, solver and certificate are those of segmentations without
names. B = 0 is a semi-Markov model with Potts transitions, W = 0 a segmentation without names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import methodcaller
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.problem.forms import LinearFeatures, LowRankForm, Samples
from metriclearn.problem.knowledge import PartialPartition
from metriclearn.problem.losses import ChargedForm, FrobeniusLoss, KnownLoss
from metriclearn.problem.partition import Partition
from metriclearn.solvers.mahalanobis import PenalizedMetric


class NamedPartition(Partition):
    """A segmentation, and the name of every segment.

    Two neighboring segments may have the same name.

    Parameters
    ----------
    ends : int array (K,)
        Ends of the segments, the last one T.
    names : int array (K,)
        Codes of the names, 0 … C−1.

    Examples
    --------
    >>> import numpy as np
    >>> NamedPartition(np.array([2, 5]), np.array([1, 0])).sample_names.tolist()
    [1, 1, 0, 0, 0]
    """

    __slots__ = ("names",)

    def __init__(
        self, ends: NDArray, names: NDArray, partial_labels: PartialPartition | None = None
    ) -> None:
        super().__init__(ends=ends, partial_labels=partial_labels)
        self.names = names

    @classmethod
    def from_codes(cls, codes: NDArray) -> NamedPartition:
        """Every run of equal codes (T,) is a segment of that name."""
        ends = np.append(np.flatnonzero(np.diff(codes)) + 1, len(codes))
        return cls(ends, codes[ends - 1])

    @property
    def sample_names(self) -> NDArray[np.int64]:
        """The name of every sample, (T,)."""
        return np.repeat(self.names, self.sizes)

    def completing(self, partial_labels: PartialPartition | None) -> NamedPartition:
        return NamedPartition(self.change_points, self.names, partial_labels)

    @property
    def _key(self) -> tuple[Any, ...]:
        return (*super()._key, self.names.tobytes())


class PartialNames(PartialPartition):
    """Partial labels of a segmentation whose labels are names.

    Labels mean the same in all recordings, and a label that recurs is the same name. Boundaries
    without names, and names without exact boundaries, are possible.

    Parameters
    ----------
    known : PartialPartition
        Everything but the names.
    names : int array (T,)
        The code of every sample's name, −1 where it is unknown.
    """

    def __init__(self, known: PartialPartition, names: NDArray) -> None:
        self.__dict__.update(vars(known))
        self.names = np.asarray(names, dtype=np.int64)
        self._content = (*known._content, self.names.tobytes())


def named_truths(codes: Sequence[NDArray], truths: Sequence[Any]) -> list[Any]:
    """Labelings with names, from the code of every sample's name, (T_i,), −1 where it is unknown.

    Parameters
    ----------
    codes : sequence of int arrays (T_i,)
    truths : sequence of Partition or PartialPartition
        The same labelings without names.
    """
    # One unknown name makes all truths partial, as a hinge has truths of one kind.
    if all((row >= 0).all() for row in codes):
        return list(map(NamedPartition.from_codes, codes))
    partial = [
        PartialPartition(truth.n_samples, change_points=truth.change_points)
        if isinstance(truth, Partition)
        else truth
        for truth in truths
    ]
    return list(map(PartialNames, partial, codes))


class NameScores(NamedTuple):
    """Scores of the names of segments.

    Attributes
    ----------
    emissions : array (T+1, C)
        E, cumulative, first row 0.
    given : int32 array (2, T+1) or None
        For every position, the end of the first sample from there on whose name is given (T+1
        after the last one), and its name. A segment with such a sample has this name.
    """

    emissions: NDArray
    given: NDArray | None = None

    @classmethod
    def of(cls, rows: NDArray, codes: NDArray | None = None) -> NameScores:
        """From the scores (T, C) of every sample and given names (T,), −1 where unknown."""
        emissions = np.zeros((len(rows) + 1, rows.shape[1]))
        np.cumsum(rows, axis=0, out=emissions[1:])
        if codes is None or not np.any(codes >= 0):
            return cls(emissions)
        # The first labeled sample i from t on; T stands for none. A segment (s, u] holds it if
        # i + 1 ≤ u, so that i + 1 is stored, and T + 1 is beyond every end.
        labeled = np.append(np.flatnonzero(codes >= 0), len(codes))
        first = labeled[np.searchsorted(labeled, np.arange(len(codes) + 1))]
        return cls(emissions, np.array([first + 1, np.append(codes, 0)[first]], dtype=np.int32))

    def normalized(self, codes: NDArray | None, backward: bool = False) -> NameScores:
        """The same where the best name of every sample scores 0; of the reversed samples.

        All segmentations get the same constant less. No sum of scores is then above 0, which is
        what bounds of several segments rest on.
        """
        rows = np.diff(self.emissions, axis=0)
        rows -= rows.max(axis=1, keepdims=True)
        if backward:
            rows, codes = rows[::-1], None if codes is None else codes[::-1]
        return NameScores.of(rows, codes)

    def names_of(self, ends: NDArray) -> NDArray[np.int64]:
        """The best names of the segments with these ends, (K,)."""
        starts = np.append(0, ends[:-1])
        names = np.argmax(self.emissions[ends] - self.emissions[starts], axis=1)
        if self.given is not None:
            names = np.where(self.given[0, starts] <= ends, self.given[1, starts], names)
        return names

    def at(self, partition: Partition) -> float:
        """The sum of scores under the names of a partition, or else under the best ones."""
        ends = partition.change_points
        names = partition.names if isinstance(partition, NamedPartition) else self.names_of(ends)
        starts = np.append(0, ends[:-1])
        return float(np.sum(self.emissions[ends, names] - self.emissions[starts, names]))


class NamedSamples(Samples):
    """One recording, with emission features of every sample.

    Parameters
    ----------
    X, truth, scale
        As for :class:`~metriclearn.problem.forms.Samples`; the truth is not used.
    emissions : callable
        Computes φ (T, Q) from X as the user passed it.
    """

    def __init__(
        self,
        X: ArrayLike,
        truth: Partition,
        scale: NDArray | None = None,
        *,
        emissions: Callable[[NDArray], NDArray],
    ) -> None:
        super().__init__(X, scale)
        self._emissions = emissions

    @cached_property
    def emission_sums(self) -> NDArray:
        """Σ_{τ<t} φ_τ, (T+1, Q)."""
        rows = self._emissions(np.asarray(self.given, dtype=np.float64))
        return np.vstack([np.zeros(rows.shape[1]), np.cumsum(rows, axis=0)])

    def named(self, components: NDArray, weights: NDArray) -> ChargedForm:
        """XBXᵀ with the scores of names W = ``weights`` (C, Q)."""
        names = NameScores(self.emission_sums @ weights.T)
        return ChargedForm(self.form(components), names=names)


@dataclass(frozen=True)
class NamedFeatures(LinearFeatures):
    """⟨B, XᵀMX⟩ + Σ_c ⟨W_c, Σ_{t named c} φ_t⟩, linear in (B, W).

    The metric's nonnegative weights (2CQ,) are the positive and the negative part of W.
    """

    metric: PenalizedMetric
    n_names: int

    def at(self, w: NDArray) -> Callable[[Samples], LowRankForm]:
        components = self.metric.components(w)
        if len(components) == 0:
            components = np.zeros((1, components.shape[1]))
        return methodcaller("named", components, self.name_weights(w))

    def name_weights(self, w: NDArray) -> NDArray:
        """W (C, Q) of a point."""
        # The weights of the cone are nonnegative; a difference of two has any sign.
        positive, negative = self.metric.split(w)[1].reshape(2, self.n_names, -1)
        return positive - negative

    def gradient(self, samples: Any, form: Any, partition: Any) -> NDArray:
        of_metric = self.metric.metric.coordinates(samples.pooled(partition))
        sums = np.diff(samples.emission_sums[partition.change_points], axis=0, prepend=0.0)
        # A segment adds the emissions of its samples to the row of its name. np.add.at, because a
        # name may recur.
        of_names = np.zeros((self.n_names, sums.shape[1]))
        np.add.at(of_names, partition.names, sums)
        return np.concatenate([of_metric, of_names.ravel(), -of_names.ravel()])


@dataclass(frozen=True)
class NamedLoss:
    """T ℓ = ‖M − N‖²_F + β · (number of samples with a wrong name).

    With partial labels the first part is :class:`~metriclearn.problem.losses.KnownLoss`, and only
    samples whose names are known count in the second.

    Parameters
    ----------
    weight : float
        β.
    partial : bool
        Whether truths are completions of :class:`PartialNames`.
    """

    weight: float
    partial: bool = False

    @property
    def completion_free(self) -> bool:
        """Whether only the given labels count, not their completion."""
        return self.partial

    @property
    def of_partitions(self) -> Any:
        """The loss without names."""
        return KnownLoss() if self.partial else FrobeniusLoss()

    def codes(self, truth: Any) -> NDArray:
        """The true names of samples, (T,), −1 where unknown."""
        return truth.partial_labels.names if self.partial else truth.sample_names

    def __call__(self, partition: NamedPartition, truth: Any) -> float:
        codes = self.codes(truth)
        wrong = np.count_nonzero((codes >= 0) & (codes != partition.sample_names))
        return self.of_partitions(partition, truth) + self.weight * wrong / len(codes)

    def augment(self, form: ChargedForm, truth: Any, scale: float) -> tuple[ChargedForm, float]:
        """Wrong names score β more in every sample whose name is known."""
        codes, emissions = self.codes(truth), form.names.emissions
        right = codes[:, None] == np.arange(emissions.shape[1])
        wrong = np.where(codes[:, None] >= 0, scale * self.weight * ~right, 0.0)
        augmented, constant = self.of_partitions.augment(form, truth, scale)
        names = NameScores(emissions + NameScores.of(wrong).emissions)
        return augmented.with_names(names), constant
