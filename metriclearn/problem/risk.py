"""Compute the structured hinge over several data sets, and the cuts that solvers need.

The same hinge is used for samples and for nodes, for full and for partial labels, and for forms
that are linear in w or not linear. Let s_w(M) = (1/T)[⟨A_w, M⟩ − λ Tr M] be the score of a
partition M. The hinge of data set i with the truth N_i is

    L_i(w) = max_M [ α ℓ(M, N_i) + s_w(M) ] − s_w(N_i)      (Lajugie, Arlot & Bach, Eq. (9)).

The maximum is convex in w if ⟨A_w, M⟩ is convex in w for every M. The term −s_w(N_i) is convex if
A_w is linear in w. If A_w is not linear, :meth:`StructuredHinge.linearized` replaces −s_w(N_i) by
its tangent, which gives the convex majorant of a convex-concave procedure. If labels are only
partly known, N_i is a completion of the labels, and :meth:`StructuredHinge.complete` chooses a new
completion.
"""

from __future__ import annotations

import copy
import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, pairwise
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from metriclearn.problem.forms import Form
from metriclearn.problem.joint_features import JointFeatures
from metriclearn.problem.losses import Loss
from metriclearn.problem.partition import Partition
from metriclearn.problem.projector import Projector
from metriclearn.running.executors import Executor, Sums, ThreadExecutor, add_up, shard_bounds
from metriclearn.solvers.base import Cuts
from metriclearn.solvers.mahalanobis import MetricCone

_LOGGER = logging.getLogger(__name__)
# Relative rounding: an answer this close to the truth in slope and loss counts as the truth.
_ROUNDING = 1e-13
# Relative gain of score that a new completion needs to replace the old one.
_RISE = 1e-12


@runtime_checkable
class Oracle(Protocol):
    """Maximizes ⟨A, M⟩ over a set of partitions, or over a relaxation of the set."""

    def __call__(self, form: Any, n_clusters: int | None = None) -> Partition | Projector:
        """Return the best partition, with ``n_clusters`` clusters if this number is given."""


class Point(NamedTuple):
    """A point w, divided into metric and penalty, and the function that makes forms at this point.

    Attributes
    ----------
    metric : array (n_metric,)
        The part of w that is the metric.
    penalty : float
        λ.
    form : callable (samples) -> Form
        Makes the form of a data set.
    """

    metric: NDArray
    penalty: float
    form: Callable[[Any], Form]


class Line(NamedTuple):
    """The tangent constant + ⟨slope, w⟩ of ⟨A, M⟩ as a function of the metric coordinates w.

    If A is linear in w, the tangent equals ⟨A, M⟩ everywhere. A stored tangent is used again as
    long as its ``key`` stays the same. If A is not linear, the key contains the bytes of the metric
    at which the tangent touches ⟨A, M⟩.
    """

    constant: float
    slope: NDArray
    key: bytes = b""


@dataclass(frozen=True)
class HingeTerms:
    """The parts of the hinge L_i that are the same for all data sets, see :class:`StructuredHinge`.

    Parameters
    ----------
    features : JointFeatures
    loss : Loss
        The loss ℓ. With partial labels, ℓ depends only on rows or pieces that have labels.
    oracle : Oracle
        Solves the loss-augmented inference, the maximum in L_i.
    cone : MetricCone
        The feasible set of w. If λ is learned, ``cone.learns_penalty`` is true.
    loss_scale : float
        α.
    penalty : float
        λ if it is fixed.
    count_known : bool
        Whether the oracle is given the number of clusters K_i. If K_i is given, λ is 0.
    completion : callable (form, n_clusters, known) -> Partition, optional
        Maximizes ⟨A, M⟩ over the partitions that agree with the partial labels.
    ramp : bool
        Whether −max_M s_w(M) replaces −s_w(N_i), which requires known counts. With a ramp, L_i is
        at most the hinge and at least α times the loss of the prediction. For α → 0, L_i/α tends to
        this loss.
    """

    features: JointFeatures
    loss: Loss
    oracle: Any
    cone: MetricCone
    loss_scale: float = 1.0
    penalty: float = 0.0
    count_known: bool = False
    completion: Callable[..., Partition] | None = None
    ramp: bool = False

    def at(self, w: NDArray, tangent: NDArray | None = None) -> Point:
        """Divide w into metric and penalty, and get the function that makes forms at w."""
        metric, learned_penalty = self.cone.split(w)
        at: Any = self.features.at
        form = at(metric) if tangent is None else at(metric, self.cone.split(tangent)[0])
        return Point(metric, learned_penalty if self.cone.learns_penalty else self.penalty, form)

    def line(self, samples: Any, form: Form, metric: NDArray, partition: Any) -> Line:
        """Return the tangent that touches ⟨A, M⟩ at ``metric``; ``form`` is A at this metric."""
        slope = self.features.gradient(samples, form, partition)
        linear = self.features.linear
        return Line(0.0 if linear else form.at(partition) - float(slope @ metric), slope)


@dataclass
class HingeShard:
    """A shard: a few neighboring data sets of a structured hinge, which one worker evaluates.

    Parameters
    ----------
    terms : HingeTerms
    samples, truths : sequences of Samples and Partition
    shares : array (N,)
        The weights s_i of the data sets.
    owners : int array (N,)
        For each data set, the index of its group. The indices are in ascending order. Each group
        has one cut.
    lazy : bool
        Whether samples are read one by one, only when they are needed.
    """

    terms: HingeTerms
    samples: Sequence[Any]
    truths: Sequence[Any]
    shares: NDArray
    owners: NDArray
    lazy: bool
    _lines: dict[int, Line] = field(default_factory=dict, init=False)

    def loaded(self) -> Self:
        """Read the data sets into memory, and return a shard that holds them."""
        samples: Any = self.samples
        shard = replace(self, samples=samples.loaded(), lazy=False)
        # This call reads the data.
        shard.slopes_of_truths()
        return shard

    def __sizeof__(self) -> int:
        """Return the size in bytes, for Dask: mostly the size of cumulative sums in memory."""
        rows = 0 if self.lazy else sum(truth.n_samples for truth in self.truths)
        return 8 * rows * self.terms.cone.n_features + 1000 * len(self.truths)

    def value_and_slope(self, w: NDArray, chosen: NDArray | None = None) -> Sums:
        """Compute weighted sums of values and slopes of L_i at w, over the data sets of each group.

        Only the ``chosen`` groups are evaluated, or all groups if ``chosen`` is None. If w has the
        shape (2, n), the first row is the point, and −s_w(N_i) is linearized at the second row. If
        K_i is known, the penalty is 0, so that it changes neither the result of the oracle nor the
        value.
        """
        terms = self.terms
        if w.ndim == 1:
            point = touching = terms.at(w)
        else:
            point, touching = terms.at(w[0], w[1]), terms.at(w[1], w[1])
        key = b"" if terms.features.linear else touching.metric.tobytes() + bytes(w.ndim)
        members = np.arange(len(self.owners))
        if chosen is not None:
            members = members[np.isin(self.owners, chosen)]
        values, slopes = np.empty(len(members)), np.empty((len(members), w.shape[-1]))
        for row, i in enumerate(members.tolist()):
            samples, truth = self.samples[i], self.truths[i]
            form = point.form(samples)
            penalized = form.shifted(-point.penalty)
            augmented, _ = terms.loss.augment(penalized, truth, terms.loss_scale)
            count = truth.n_clusters if terms.count_known else None
            warm = {"start": samples.start} if terms.features.warm_starts else {}
            answer = terms.oracle(augmented, count, **warm)
            if warm:
                samples.start = answer.factor
            answer_line = terms.line(samples, form, point.metric, answer)
            cached = self._lines.get(i)
            # For data sets in memory, the last tangent of ⟨A, N_i⟩ is kept.
            if cached is None or cached.key != key:
                truth_form = form if touching is point else touching.form(samples)
                rival = terms.oracle(truth_form, count, **warm) if terms.ramp else truth
                line = terms.line(samples, truth_form, touching.metric, rival)
                cached = line._replace(key=key)
                if not self.lazy:
                    self._lines[i] = cached
            constant = answer_line.constant - cached.constant
            slope = answer_line.slope - cached.slope
            # L_i, each term divided by the unit: α T ℓ, the gain of the answer, and its penalties.
            unit, more = samples.unit, answer.n_clusters - truth.n_clusters
            loss = terms.loss_scale * terms.loss(answer, truth) * (truth.n_samples / unit)
            gain = (constant + float(slope @ point.metric)) / unit
            values[row] = loss + gain - point.penalty * more / unit
            slopes[row] = terms.cone.join(slope / unit, -more / unit)
            near = np.max(np.abs(slope)) <= _ROUNDING * np.max(np.abs(cached.slope))
            most = _ROUNDING * terms.loss_scale * truth.n_clusters / samples.unit
            if near and loss <= most:
                # Set both to 0, or the solver would learn from rounding.
                values[row], slopes[row] = 0.0, 0.0
        # The data sets of a function are neighbors, so every sum is over a run of them.
        groups, starts = np.unique(self.owners[members], return_index=True)
        shares = self.shares[members]
        sums = np.add.reduceat(shares[:, None] * slopes, starts, axis=0)
        return Sums(groups, np.add.reduceat(shares * values, starts), sums)

    def slopes_of_truths(self) -> NDArray:
        """Return the derivatives d s_w(N_i)/dw at w = 0, (N, n).

        If forms are linear, the derivatives are the same at every w.
        """
        terms, rows = self.terms, []
        nowhere = terms.at(np.zeros(terms.cone.size))
        for samples, truth in zip(self.samples, self.truths):
            slope = terms.features.gradient(samples, nowhere.form(samples), truth)
            rows.append(terms.cone.join(slope, -truth.n_clusters) / samples.unit)
        return np.array(rows)

    def complete(self, w: NDArray) -> tuple[list[Any], NDArray]:
        """Complete the labels under w, see :meth:`StructuredHinge.complete`."""
        terms = self.terms
        point = terms.at(w)
        assert terms.completion is not None
        truths, slopes = [], np.zeros((len(self.truths), len(w)))
        for i, (samples, old) in enumerate(zip(self.samples, self.truths)):
            truths.append(old)
            known = old.partial_labels
            if known is None:
                continue
            form = point.form(samples).shifted(-point.penalty)
            count = old.n_clusters if terms.count_known else None
            new = known.with_completion(terms.completion(form, count, known))
            before, after = form.at(old), form.at(new)
            if after <= before + _RISE * abs(before):
                continue
            truths[i] = new
            if terms.features.linear:
                lost = terms.features.gradient(samples, form, old)
                gained = terms.features.gradient(samples, form, new)
                lost = terms.cone.join(lost, -old.n_clusters) / samples.unit
                slopes[i] = lost - terms.cone.join(gained, -new.n_clusters) / samples.unit
        return truths, slopes

    def digest(self) -> bytes:
        """Return a digest of 32 bytes for every data set with its labels, joined to one string."""
        parts = []
        for samples, truth in zip(self.samples, self.truths):
            digest = hashlib.sha256(samples.scaled.tobytes())
            digest.update(np.ascontiguousarray(truth.labels).tobytes())
            parts.append(digest.digest())
        return b"".join(parts)


@dataclass(eq=False)
class StructuredHinge:
    """The risk Σ s_i L_i(w), with one cut for each data set or each group of data sets.

    L_i(B, λ) = (1/T) { max_M [ ⟨A_i, M⟩ + αT ℓ(M, N_i) − λ Tr M ] − ⟨A_i, N_i⟩ + λ K_i }

    is the margin-rescaled hinge of Lajugie, Arlot & Bach, section 4.1, for the score (1/T)(⟨A_i, M⟩
    − λ Tr M). If A_i is linear in w, and the oracle is exact or maximizes over a relaxation, L_i is
    convex in w = (B, λ) and never negative. With the maximizer M*, the slope of L_i is
    (1/T)(gradient(M*) − gradient(N_i)) for B and (1/T)(K_i − Tr M*) for λ.

    Parameters
    ----------
    terms : HingeTerms
    samples, truths : sequences of Samples and Partition, or of Nodes and NodeLabels
        A truth that is a completion keeps its partial labels.
    sample_weight : array (N,), optional
        The weights s_i, which are divided by their sum. By default all weights are equal.
    n_groups : int, optional
        Largest number of cuts per round. Each cut is the mean over a group of neighboring data
        sets. By default every data set has its own cut.
    executor : Executor, optional
        Evaluates the shards of data sets. By default shards are evaluated in this process, one
        after another.
    """

    terms: HingeTerms
    samples: Sequence[Any]
    truths: Sequence[Any]
    sample_weight: NDArray | None = None
    n_groups: int | None = None
    executor: Executor = field(default_factory=ThreadExecutor)

    def __post_init__(self) -> None:
        terms, count = self.terms, len(self.samples)
        self.identity: tuple = (
            terms.loss_scale,
            terms.penalty,
            terms.count_known,
            getattr(terms.oracle, "min_size", 1),
            getattr(terms.features, "normalized", False),
            terms.ramp,
        )
        weights = np.ones(count) if self.sample_weight is None else self.sample_weight
        self._shares = weights / np.sum(weights)
        groups = min(count, self.n_groups or count)
        self._bounds = np.linspace(0, count, groups + 1).astype(int)
        self.weights = np.add.reduceat(self._shares, self._bounds[:-1])
        self._tangent: NDArray | None = None
        # Shards of the data sets, placed on the machines that evaluate them.
        cuts = shard_bounds(self._bounds, self.executor.count(count))
        owners = np.repeat(np.arange(len(self.weights)), np.diff(self._bounds))
        lazy = hasattr(self.samples, "loaded")
        shards = []
        for a, b in pairwise(cuts):
            samples, truths, shares = self.samples[a:b], self.truths[a:b], self._shares[a:b]
            shard = HingeShard(self.terms, samples, truths, shares, owners[a:b], lazy)
            shards.append(shard)
        self._owned = list(map(attrgetter("owners"), shards))
        _LOGGER.info("%d data sets in %d shards: %r", len(owners), len(shards), self.executor)
        self._shards = self.executor.place(shards)

    def __call__(self, w: NDArray, chosen: NDArray | None = None) -> Cuts:
        """Compute the cuts at w, of all groups or only of the ``chosen`` groups.

        A cut is the weighted mean over the data sets of a group.
        """
        groups = np.arange(len(self.weights)) if chosen is None else np.asarray(chosen)
        point = w if self._tangent is None else np.stack([w, self._tangent])
        shards = self._shards
        if chosen is not None:
            shards = [s for s, owned in zip(shards, self._owned) if np.isin(owned, chosen).any()]
        ask = HingeShard.value_and_slope
        # Every shard answers with weighted sums; means over the members of a group are cuts.
        sums = add_up(self.executor.each(shards, ask, point, chosen, total=add_up))
        place = np.searchsorted(sums.groups, groups)
        weights = self.weights[groups]
        safe = np.where(weights > 0, weights, 1.0)
        return Cuts(sums.values[place] / safe, sums.slopes[place] / safe[:, None], weights)

    def linearized(self, w: NDArray) -> Self:
        """Return a majorant that touches the risk at w, where the tangent at w replaces −s_w(N_i).

        If forms are linear, or the risk has a ramp, the risk itself is returned. If a tangent
        replaced one of the two maxima of a ramp, the majorant would rise steeply on all sides for a
        small α.
        """
        if self.terms.features.linear or self.terms.ramp:
            return self
        majorant = copy.copy(self)
        majorant._tangent = w
        majorant.identity = (*self.identity, *w)
        return majorant

    @cached_property
    def fingerprint(self) -> bytes:
        """A digest of the data, the labels and the weights, for checkpoints."""
        digest = hashlib.sha256(self._shares.tobytes() + self._bounds.tobytes())
        for part in self.executor.each(self._shards, HingeShard.digest):
            digest.update(part)
        return digest.digest()

    def slopes_of_truths(self) -> NDArray:
        """Return the derivatives d s_w(N_i)/dw at w = 0, (N, n).

        If forms are linear, the derivatives are the same at every w.
        """
        return np.concatenate(self.executor.each(self._shards, HingeShard.slopes_of_truths))

    @property
    def truth_slope(self) -> NDArray:
        """Σ s_i gradient(N_i) / T_i. For linear features this is H = Σ s_i Xᵢᵀ N_i Xᵢ / T_i."""
        return self._shares @ self.slopes_of_truths()[:, : self.terms.cone.n_metric]

    def complete(self, w: NDArray) -> tuple[list[Any], NDArray]:
        """Return the best completions under w, and the slopes (N, n) that they add to the hinges.

        An old completion is kept unless the new one is better. Let H_i be an old completion, and
        H′_i the new one. If forms are linear in w, and the loss does not depend on completions, L_i
        changes only by the linear function s_w(H_i) − s_w(H′_i), whose slope is row i of the second
        result. If forms are not linear, the second result is 0.
        """
        truths, slopes = zip(*self.executor.each(self._shards, HingeShard.complete, w))
        return list(chain(*truths)), np.concatenate(slopes)
