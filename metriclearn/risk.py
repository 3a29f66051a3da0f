"""The structured hinge over several data sets (Eq. 9), as cuts for the solvers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from metriclearn.forms import Form
from metriclearn.joint_features import JointFeatures, Samples
from metriclearn.losses import Loss
from metriclearn.mahalanobis import MetricCone
from metriclearn.oracles.requests import Oracle
from metriclearn.partition import Partition
from metriclearn.solvers.base import Cuts

__all__ = ["StructuredHinge"]


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
    n_jobs : int, optional
        Threads over data sets, as in joblib.
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
        n_jobs: int | None = None,
    ) -> None:
        self.features, self.loss, self.oracle, self.cone = features, loss, oracle, cone
        self.samples, self.truths = samples, truths
        self.loss_scale, self.price, self.count_known = loss_scale, price, count_known
        self.n_jobs = n_jobs
        self.identity = (loss_scale, price, count_known, getattr(oracle, "min_size", 1))
        equal = np.full(len(samples), 1.0 / len(samples))
        self._shares = equal if weights is None else weights / np.sum(weights)
        groups = min(len(samples), n_groups or len(samples))
        self._bounds = np.linspace(0, len(samples), groups + 1).astype(int)
        self.weights = np.add.reduceat(self._shares, self._bounds[:-1])
        zero = np.zeros(cone.n_metric)
        self._truth_slopes = [features.gradient(s, zero, t) for s, t in zip(samples, truths)]

    @cached_property
    def fingerprint(self) -> bytes:
        """A digest of the data, the labels and the weights, for checkpoints."""
        digest = hashlib.sha256(self._shares.tobytes() + self._bounds.tobytes())
        for samples, truth in zip(self.samples, self.truths):
            digest.update(np.ascontiguousarray(samples.centered).tobytes())
            digest.update(np.ascontiguousarray(truth.labels).tobytes())
        return digest.digest()

    @property
    def truth_slope(self) -> NDArray:
        """Σ s_i gradient(N_i) / T_i: H = Σ s_i Xᵢᵀ N_i Xᵢ / T_i in the metric's coordinates."""
        pairs = zip(self._shares, self._truth_slopes, self.samples)
        return np.sum([share * slope / s.n_samples for share, slope, s in pairs], axis=0)

    def __call__(self, w: NDArray, chosen: NDArray | None = None) -> Cuts:
        """Cuts at w, of all groups or of those ``chosen``."""
        metric, learned_price = self.cone.split(w)
        form = self.features.at(metric)
        price = learned_price if self.cone.priced else self.price
        groups = range(len(self.weights)) if chosen is None else chosen
        members = [range(self._bounds[g], self._bounds[g + 1]) for g in groups]
        run = Parallel(n_jobs=self.n_jobs, backend="threading")
        flat = [i for group in members for i in group]
        results = run(delayed(self._one)(i, form, metric, price) for i in flat)
        return self._group(flat, [len(group) for group in members], results)

    def _one(
        self, i: int, form: Callable[[Samples], Form], metric: NDArray, price: float
    ) -> tuple[float, NDArray]:
        """Value and slope of L_i."""
        samples, truth = self.samples[i], self.truths[i]
        augmented, _ = self.loss.augment(form(samples), truth, self.loss_scale)
        if self.count_known:
            best = self.oracle(augmented, truth.n_clusters)
        else:
            best = self.oracle(augmented.plus(truth, 0.0, -price))
        T = samples.n_samples
        more = best.n_clusters - truth.n_clusters
        slope = self.features.gradient(samples, metric, best) - self._truth_slopes[i]
        value = self.loss_scale * self.loss(best, truth) + float(slope @ metric) / T
        if not self.count_known:
            value -= price * more / T
        return value, self.cone.join(slope / T, -more / T)

    def _group(
        self, flat: list[int], sizes: list[int], results: list[tuple[float, NDArray]]
    ) -> Cuts:
        """Weighted means over the members of every group."""
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        shares = self._shares[flat]
        values = np.array([value for value, _ in results])
        slopes = np.array([slope for _, slope in results])
        weights = np.add.reduceat(shares, starts)
        safe = np.where(weights > 0, weights, 1.0)
        mean = np.add.reduceat(shares * values, starts) / safe
        slope = np.add.reduceat(shares[:, None] * slopes, starts, axis=0)
        return Cuts(mean, slope / safe[:, None], weights)
