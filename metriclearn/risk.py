"""The structured hinge over several data sets (Eq. 9), as cuts for the solvers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

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
        self.weights = equal if weights is None else weights / np.sum(weights)
        groups = min(len(samples), n_groups or len(samples))
        self._bounds = np.linspace(0, len(samples), groups + 1).astype(int)[:-1]
        zero = np.zeros(cone.n_metric)
        self._truth_slopes = [features.gradient(s, zero, t) for s, t in zip(samples, truths)]

    def __call__(self, w: NDArray) -> Cuts:
        """Cuts of all groups at w."""
        run = Parallel(n_jobs=self.n_jobs, backend="threading")
        results = run(delayed(self._one)(i, w) for i in range(len(self.samples)))
        values = np.array([value for value, _ in results])
        slopes = np.array([slope for _, slope in results])
        return self._group(values, slopes)

    def _one(self, i: int, w: NDArray) -> tuple[float, NDArray]:
        """Value and slope of L_i at w."""
        metric, learned_price = self.cone.split(w)
        price = learned_price if self.cone.priced else self.price
        samples, truth = self.samples[i], self.truths[i]
        form = self.features.form(samples, metric)
        augmented, _ = self.loss.augment(form, truth, self.loss_scale)
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

    def _group(self, values: NDArray, slopes: NDArray) -> Cuts:
        weights = np.add.reduceat(self.weights, self._bounds)
        safe = np.where(weights > 0, weights, 1.0)
        mean = np.add.reduceat(self.weights * values, self._bounds) / safe
        slope = np.add.reduceat(self.weights[:, None] * slopes, self._bounds, axis=0)
        return Cuts(mean, slope / safe[:, None], weights)
