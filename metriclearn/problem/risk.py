"""The structured hinge over several data sets (Eq. 9), as cuts for the solvers."""

from __future__ import annotations

import copy
import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from metriclearn.problem.forms import Form
from metriclearn.problem.joint_features import JointFeatures, Samples
from metriclearn.problem.losses import Loss
from metriclearn.problem.oracle import Oracle
from metriclearn.problem.partition import Partition
from metriclearn.problem.projector import Projector
from metriclearn.running.executors import Executor, Sums, ThreadExecutor, shard_bounds
from metriclearn.solvers.base import Cuts
from metriclearn.solvers.mahalanobis import MetricCone

__all__ = ["HingeShard", "HingeTerms", "StructuredHinge"]

_LOGGER = logging.getLogger(__name__)

Point = tuple[Callable[[Samples], Form], NDArray, float]


@dataclass(frozen=True)
class HingeTerms:
    """What L_i is made of besides data set and labels, see :class:`StructuredHinge`."""

    features: JointFeatures
    loss: Loss
    oracle: Oracle
    cone: MetricCone
    loss_scale: float
    price: float
    count_known: bool

    def at(self, w: NDArray) -> Point:
        """The forms, the metric coordinates and the price under w."""
        metric, learned_price = self.cone.split(w)
        return self.features.at(metric), metric, learned_price if self.cone.priced else self.price

    def truth_slope(self, samples: Samples, truth: Partition) -> NDArray:
        """d⟨A, N⟩/dB, the same at every B."""
        return self.features.gradient(samples, np.zeros(self.cone.n_metric), truth)

    def problem(self, samples: Samples, truth: Partition, at: Point) -> tuple[Form, int | None]:
        """What the oracle is asked for: ⟨A, M⟩ + αT ℓ(M, N) − λ Tr M, and K where it is known."""
        form, _, price = at
        augmented, _ = self.loss.augment(form(samples), truth, self.loss_scale)
        if self.count_known:
            return augmented, truth.n_clusters
        return augmented.shifted(-price), None

    def answers(
        self, samples: Sequence[Samples], truths: Sequence[Partition], at: Point
    ) -> Iterable[Partition | Projector]:
        """The oracle's answers, one after another."""
        return (self.oracle(*self.problem(*pair, at)) for pair in zip(samples, truths))

    def cut(
        self,
        samples: Samples,
        truth: Partition,
        truth_slope: NDArray,
        at: Point,
        best: Partition | Projector,
    ) -> tuple[float, NDArray]:
        """Value and slope of L_i, given the oracle's answer."""
        _, metric, price = at
        T = samples.n_samples
        more = best.n_clusters - truth.n_clusters
        slope = self.features.gradient(samples, metric, best) - truth_slope
        value = self.loss_scale * self.loss(best, truth) + float(slope @ metric) / T
        if not self.count_known:
            value -= price * more / T
        return value, self.cone.join(slope / T, -more / T)


class HingeShard:
    """Neighboring data sets of a structured hinge.

    Parameters
    ----------
    terms : HingeTerms
    samples, truths : sequences of Samples and Partition
        Samples that have a method ``loaded`` are read when they are asked for, one by one.
    shares : array (N,)
        s.
    owners : int array (N,)
        Which function of the risk a data set belongs to; sorted.
    """

    def __init__(
        self,
        terms: HingeTerms,
        samples: Sequence[Samples],
        truths: Sequence[Partition],
        shares: NDArray,
        owners: NDArray,
    ) -> None:
        self.terms, self.samples, self.truths = terms, samples, truths
        self.shares, self.owners = shares, owners
        self.groups = np.unique(owners)
        self.stored = hasattr(samples, "loaded")

    def loaded(self) -> Self:
        """The same with its data in memory."""
        shard = copy.copy(self)
        if self.stored:
            shard.samples, shard.stored = self.samples.loaded(), False  # type: ignore[attr-defined]
            _ = shard.truth_slopes  # which reads them
        return shard

    def __sizeof__(self) -> int:
        """Bytes that Dask reckons with: those of cumulative sums, once they are in memory."""
        rows = 0 if self.stored else sum(truth.n_samples for truth in self.truths)
        return 8 * rows * self.terms.cone.n_features + 1000 * len(self.truths)

    def __call__(self, w: NDArray, chosen: NDArray | None = None) -> Sums:
        """Weighted sums of the cuts at w, of all functions or of those ``chosen``."""
        at = self.terms.at(w)
        asked = np.ones(len(self.owners), bool) if chosen is None else np.isin(self.owners, chosen)
        members = np.flatnonzero(asked)
        cuts = [cut for part in self._batches(members) for cut in self._cuts(part, at)]
        groups, starts = np.unique(self.owners[members], return_index=True)
        shares = self.shares[members]
        values = np.add.reduceat(shares * np.array([value for value, _ in cuts]), starts)
        slopes = shares[:, None] * np.array([slope for _, slope in cuts])
        return Sums(groups, values, np.add.reduceat(slopes, starts, axis=0))

    def _batches(self, members: NDArray) -> list[NDArray]:
        """All data sets in memory together; stored ones one by one."""
        return np.split(members, len(members)) if self.stored else [members]

    def _cuts(self, members: NDArray, at: Point) -> Iterator[tuple[float, NDArray]]:
        terms, truths = self.terms, [self.truths[i] for i in members]
        samples = [self.samples[i] for i in members]
        answers = terms.answers(samples, truths, at)
        for i, own, truth, best in zip(members, samples, truths, answers):
            known = terms.truth_slope(own, truth) if self.stored else self.truth_slopes[i]
            yield terms.cut(own, truth, known, at, best)

    @cached_property
    def truth_slopes(self) -> list[NDArray]:
        """d⟨A_i, N_i⟩/dB of every data set."""
        return [self.terms.truth_slope(s, truth) for s, truth in zip(self.samples, self.truths)]

    def digest(self) -> bytes:
        """32 bytes for every data set and its labels."""
        parts = []
        for samples, truth in zip(self.samples, self.truths):
            digest = hashlib.sha256(samples.scaled.tobytes())
            digest.update(np.ascontiguousarray(truth.labels).tobytes())
            parts.append(digest.digest())
        return b"".join(parts)

    def mean_truth_slope(self) -> NDArray:
        """Σ s_i gradient(N_i) / T_i over the shard."""
        slopes = self.truth_slopes
        return sum(
            share * slope / truth.n_samples
            for share, slope, truth in zip(self.shares, slopes, self.truths)
        )


class StructuredHinge:
    """Σ s_i L_i(w), with one convex function per data set or group of data sets.

    L_i(B, λ) = (1/T) { max_M [ ⟨A_i, M⟩ + αT ℓ(M, N_i) − λ Tr M ] − ⟨A_i, N_i⟩ + λ K_i },

    the margin-rescaled hinge of section 4.1 for the score (1/T)(⟨A_i, M⟩ − λ Tr M). It is convex
    in w = (B, λ) when A_i is linear in w and the oracle exact (or an upper bound), and never
    negative. Its slope is (1/T)(gradient(M*) − gradient(N)) and (1/T)(K − Tr M*).

    Parameters
    ----------
    features : JointFeatures
    loss : Loss
        ℓ.
    oracle : Oracle
        Loss-augmented inference.
    cone : MetricCone
        Whose ``priced`` says whether λ is learned.
    samples, truths : sequences of Samples and Partition
    weights : array (N,), optional
        s, normalized to sum to one; equal by default.
    loss_scale : float
        α.
    price : float
        λ where it is not learned.
    count_known : bool
        Whether inference knows K_i; λ then drops out.
    n_groups : int, optional
        At most that many cuts per round, each the mean over neighboring data sets.
    executor : Executor, optional
        Where and how shards of data sets are evaluated; here and one after another by default.
    """

    def __init__(
        self,
        features: JointFeatures,
        loss: Loss,
        oracle: Oracle,
        cone: MetricCone,
        samples: Sequence[Samples],
        truths: Sequence[Partition],
        weights: NDArray | None = None,
        *,
        loss_scale: float = 1.0,
        price: float = 0.0,
        count_known: bool = False,
        n_groups: int | None = None,
        executor: Executor | None = None,
    ) -> None:
        self.terms = HingeTerms(features, loss, oracle, cone, loss_scale, price, count_known)
        self.cone, self.count_known = cone, count_known
        self.samples, self.truths = samples, truths
        self.executor = ThreadExecutor() if executor is None else executor
        self.identity = (loss_scale, price, count_known, getattr(oracle, "min_size", 1))
        equal = np.full(len(samples), 1.0 / len(samples))
        self._shares = equal if weights is None else weights / np.sum(weights)
        groups = min(len(samples), n_groups or len(samples))
        self._bounds = np.linspace(0, len(samples), groups + 1).astype(int)
        self.weights = np.add.reduceat(self._shares, self._bounds[:-1])

    @cached_property
    def _shards(self) -> Any:
        """Shards, placed where they are evaluated."""
        cuts = shard_bounds(self._bounds, self.executor.count(len(self.samples)))
        owners = np.repeat(np.arange(len(self.weights)), np.diff(self._bounds))
        shards = [self._shard(slice(a, b), owners) for a, b in pairwise(cuts)]
        _LOGGER.info("%d data sets in %d shards: %r", len(owners), len(shards), self.executor)
        return self.executor.place(shards)

    def _shard(self, part: slice, owners: NDArray) -> HingeShard:
        return HingeShard(
            self.terms, self.samples[part], self.truths[part], self._shares[part], owners[part]
        )

    @cached_property
    def fingerprint(self) -> bytes:
        """A digest of the data, the labels and the weights, for checkpoints."""
        digest = hashlib.sha256(self._shares.tobytes() + self._bounds.tobytes())
        for part in self.executor.each(self._shards, HingeShard.digest):
            digest.update(part)
        return digest.digest()

    @property
    def truth_slope(self) -> NDArray:
        """Σ s_i gradient(N_i) / T_i: H = Σ s_i Xᵢᵀ N_i Xᵢ / T_i in the metric's coordinates."""
        return np.sum(self.executor.each(self._shards, HingeShard.mean_truth_slope), axis=0)

    def replaced(self, **changes: Any) -> Self:
        """The same risk with other attributes, such as ``terms`` or ``truths``."""
        other = copy.copy(self)
        for name in ("_shards", "fingerprint"):
            other.__dict__.pop(name, None)
        other.__dict__.update(changes)
        return other

    def __call__(self, w: NDArray, chosen: NDArray | None = None) -> Cuts:
        """Cuts at w, of all groups or of those ``chosen``: weighted means over their members."""
        groups = np.arange(len(self.weights)) if chosen is None else np.asarray(chosen)
        sums = self.executor.evaluate(self._shards, w, chosen)
        place = np.searchsorted(sums.groups, groups)
        weights = self.weights[groups]
        safe = np.where(weights > 0, weights, 1.0)
        return Cuts(sums.values[place] / safe, sums.slopes[place] / safe[:, None], weights)
