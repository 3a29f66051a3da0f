"""Compute the E-step of Gaussian mixtures, and sample Dirichlet process mixtures by Gibbs sampling.

The model is G ~ DP(α, N(0, ρI)), φ_i ~ G, x_i ~ N(φ_i, σI) with variances σ and ρ (Neal, Markov
chain sampling methods for Dirichlet process mixture models, Journal of Computational and Graphical
Statistics 9(2), 2000, Algorithm 2). With α = (1 + ρ/σ)^{d/2} exp(−λ/2σ) and σ → 0, Gibbs sampling
becomes DP-means with penalty λ (Kulis & Jordan, Revisiting k-means: new algorithms via Bayesian
nonparametrics, ICML 2012).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist
from scipy.special import gammaln, softmax
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state

from metriclearn.clusterers.checks import read_rows
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import OneOf, Positive, RandomState, Real, Whole, needs
from metriclearn.running.values import check_scale, real_array


def spherical_responsibilities(
    X: ArrayLike, weights: ArrayLike, means: ArrayLike, variance: ArrayLike
) -> NDArray[np.float64]:
    """Return γ_ic = π_c N(x_i | μ_c, σ_c I) / Σ_{j≤k} π_j N(x_i | μ_j, σ_j I), shape (n, k).

    The function is the E-step of a mixture, in O(nkd). In the limit σ → 0, the E-step becomes the
    assignment step of K-means. The result is computed with logarithms, so rows sum to 1 however
    small the densities are. To fit such mixtures, use
    ``sklearn.mixture.GaussianMixture(covariance_type="spherical")``.

    Parameters
    ----------
    X : array of shape (n, d)
    weights : array of shape (k,), non-negative
        The weights π. A common factor does not matter.
    means : array of shape (k, d)
    variance : float > 0, or array of shape (k,)
        The variance σ (not a standard deviation).

    Returns
    -------
    float array (n, k)
        Rows sum to 1.

    Raises
    ------
    ValueError
        If shapes disagree, a variance is not positive, the weights are negative or all zero, or
        squared distances overflow.

    References
    ----------
    Dempster, Laird & Rubin, Maximum likelihood from incomplete data via the EM algorithm, Journal
    of the Royal Statistical Society B 39, 1977.
    """
    who = "spherical_responsibilities"
    rows, centers = real_array(who, "X", X), real_array(who, "means", means)
    weights = real_array(who, "weights", weights, 1)
    variance = real_array(who, "variance", variance, None)
    k = len(centers)
    shapes = [rows.shape, centers.shape, weights.shape, variance.shape]
    if shapes[1:3] != [(k, rows.shape[1]), (k,)] or shapes[3] not in ((), (k,)):
        raise ValueError(
            "spherical_responsibilities needs X of shape (n, d), means of shape (k, d), k weights "
            f"and 1 or k variances, got shapes {shapes}."
        )
    if not (np.all(variance > 0) and np.all(weights >= 0) and weights.any()):
        raise ValueError(
            "spherical_responsibilities needs variances > 0 and weights >= 0, not all zero, got "
            f"variances {variance} and weights {weights}."
        )
    check_scale(who, np.vstack([rows, centers]))
    with np.errstate(divide="ignore"):  # a weight of 0 is a logarithm of −inf: never chosen
        log_weights = np.log(weights) - 0.5 * rows.shape[1] * np.log(variance)
    return softmax(log_weights - cdist(rows, centers, "sqeuclidean") / (2.0 * variance), axis=1)


@needs
def assignment_probabilities(
    x: ArrayLike,
    counts: ArrayLike,
    means: ArrayLike,
    *,
    variance: Annotated[float, Positive()],
    prior_variance: Annotated[float, Real()],
    penalty: Annotated[float, Real(-np.inf)],
) -> NDArray[np.float64]:
    """Return the probability that x joins each of K clusters, and that x opens a new cluster.

    The K + 1 probabilities are proportional to n_c exp(−‖x−μ_c‖²/2σ) and exp(−λ/2σ − ‖x‖²/2(ρ+σ))
    (Kulis & Jordan 2012, section 3.1). The clusters of the other samples are given. Logarithms are
    used, so the probabilities are accurate for arbitrarily small σ. The time is O(Kd).

    Parameters
    ----------
    x : array of shape (d,)
    counts : array of shape (K,)
        For each cluster, the number n_c of other samples.
    means : array of shape (K, d)
    variance, prior_variance : float
        The variances σ > 0 and ρ ≥ 0, in units of squared distance.
    penalty : float
        The penalty λ, in units of squared distance.

    Returns
    -------
    float array (K + 1,)
        The probabilities, whose sum is 1.

    Raises
    ------
    ValueError
        If shapes disagree, a variance or a count is out of range, a number is not finite, or
        squared distances overflow.
    """
    who = "assignment_probabilities"
    x, counts = real_array(who, "x", x, 1), real_array(who, "counts", counts, 1, allow=("empty",))
    means = real_array(who, "means", means) if counts.size else np.empty((0, *x.shape))
    if means.shape != (len(counts), len(x)):
        raise ValueError(
            "assignment_probabilities needs x of shape (d,), counts (K,) and means (K, d), got "
            f"{x.shape}, {counts.shape} and {means.shape}."
        )
    if np.any(counts < 0):
        raise ValueError(f"{who} needs counts of at least 0, got {counts.min():g}.")
    check_scale(who, np.vstack([x, means]))
    process = DirichletProcess(variance, prior_variance, -penalty / (2.0 * variance))
    return softmax(process.log_weights(x, counts, means))


@dataclass(frozen=True)
class DirichletProcess:
    """A Dirichlet process of spherical Gaussians with means around 0, and its Gibbs sampler.

    Attributes
    ----------
    variance, prior_variance : float
        The variances σ > 0 and ρ ≥ 0, in units of squared distance.
    log_opening : float
        Logarithm of the weight with which a sample at the origin opens a cluster: ln α − (d/2) ln(1
        + ρ/σ). If α follows from a penalty λ, this logarithm is −λ/2σ.
    """

    variance: float
    prior_variance: float
    log_opening: float

    def log_weights(self, x: NDArray, counts: NDArray, means: NDArray) -> NDArray[np.float64]:
        """Return log probabilities, up to a constant, that x joins each cluster or opens one.

        The last entry is for the new cluster.
        """
        with np.errstate(divide="ignore"):  # an empty cluster is never joined
            joining = np.log(counts) - np.sum((means - x) ** 2, axis=1) / (2.0 * self.variance)
        opening = self.log_opening - x @ x / (2.0 * (self.prior_variance + self.variance))
        return np.append(joining, opening)

    def sweep(
        self, X: NDArray, labels: NDArray, means: NDArray, random: np.random.RandomState
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Do one sweep of Neal's Algorithm 2: draw each label given the means, and then each mean.

        A cluster and its mean disappear as soon as the cluster loses its last sample. A sweep takes
        O(nKd).

        Parameters
        ----------
        X : (n, d), shifted so that the prior's mean is 0
        labels : (n,) cluster numbers 0 … K−1, all of which occur
        means : (K, d)

        Returns
        -------
        labels, means
        """
        labels, counts = labels.copy(), np.bincount(labels)
        shrinkage = self.prior_variance / (self.prior_variance + self.variance)
        for i, x in enumerate(X):
            left = labels[i]
            counts[left] -= 1
            if counts[left] == 0:
                counts, means = np.delete(counts, left), np.delete(means, left, axis=0)
                labels -= labels > left
            weights = self.log_weights(x, counts, means)
            labels[i] = np.argmax(weights + random.gumbel(size=len(weights)))  # softmax draw
            if labels[i] == len(counts):
                noise = random.normal(scale=np.sqrt(shrinkage * self.variance), size=len(x))
                means = np.vstack([means, shrinkage * x + noise])
                counts = np.append(counts, 0)
            counts[labels[i]] += 1
        # the posterior of a mean is N(ρ Σx/(σ + ρn), σρ/(σ + ρn) I)
        sums = np.zeros((len(counts), X.shape[1]))
        np.add.at(sums, labels, X)
        total = (self.variance + self.prior_variance * counts)[:, None]
        spread = np.sqrt(self.variance * self.prior_variance / total)
        drawn = random.normal(size=sums.shape)
        return labels, self.prior_variance * sums / total + spread * drawn

    def log_posterior(self, X: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
        """Return ln p(labels | X) up to a constant, with the means integrated out, in O(nd).

        The result is Σ_c [ln α + ln Γ(n_c) − (d/2) ln(1 + ρn_c/σ) − S_c/2σ − n_c‖x̄_c‖²/2(σ +
        ρn_c)], where S_c is the sum of squared distances to the mean x̄_c. If α follows from a
        penalty, −2σ times this value tends to the objective of DP-means as σ → 0.
        """
        variance, prior_variance, half = self.variance, self.prior_variance, 0.5 * X.shape[1]
        partition = Partition.from_labels(labels)
        sizes = partition.sizes.astype(np.float64)
        means = partition.pool(X) / sizes[:, None]
        within = np.sum((X - means[partition.labels]) ** 2)
        shrunk = np.sum(sizes * np.sum(means**2, axis=1) / (variance + prior_variance * sizes))
        spread = half * np.log1p(prior_variance * sizes / variance)
        log_concentration = self.log_opening + half * np.log1p(prior_variance / variance)
        prior = partition.n_clusters * log_concentration + np.sum(gammaln(sizes) - spread)
        return float(prior - 0.5 * (within / variance + shrunk))


@dataclass(eq=False, repr=False)
class GibbsDPMixture(ClusterMixin, BaseEstimator):
    """Cluster by a Dirichlet process mixture of spherical Gaussians (Gibbs, Neal's Algorithm 2).

    The estimator is a small reference in plain numpy. A sweep takes O(nKd), about 20 µs per sample.
    The labels with the largest posterior probability over all sweeps are kept. The prior of the
    means is centered at the sample mean, so shifting X changes nothing.

    Parameters
    ----------
    penalty : float ≥ 0, in units of squared distance
        The penalty λ. If no concentration α is given, λ determines it: α = (1 + ρ/σ)^{d/2}
        exp(−λ/2σ).
    variance : float > 0
        The variance σ of every feature within a cluster.
    prior_variance : float ≥ 0
        The prior variance ρ of every feature of the means.
    concentration : float > 0, optional
        The concentration α. If α is given, the penalty is not used.
    n_sweeps : int
        Number of sweeps. The first sweep starts with all samples in one cluster.
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : (n,) the most probable labels of all sweeps
    cluster_centers_ : (K, d) sample means of these clusters
    n_clusters_ : K
    n_clusters_trace_ : (n_sweeps,) number of clusters after every sweep
    log_posterior_trace_ : (n_sweeps,) ln p(labels | X) up to a constant

    Raises
    ------
    ValueError
        If parameters or data are unusable.
    """

    penalty: Annotated[float, Real(0.0, 1e250)] = 1.0
    _: KW_ONLY
    variance: Annotated[float, Positive(1e250)] = 0.2
    prior_variance: Annotated[float, Real(0.0, 1e250)] = 1.0
    concentration: Annotated[float | None, OneOf(None, Positive())] = None
    n_sweeps: Annotated[int, Whole(1)] = 50
    random_state: RandomState = None

    def fit(self, X: ArrayLike, y: Any = None) -> GibbsDPMixture:
        """Sample partitions of the rows of X, shape (n, d), in O(n_sweeps · nKd).

        Raises
        ------
        ValueError
            If a parameter is out of range, or squared distances overflow.
        """
        X = read_rows(self, X)
        center = X.mean(axis=0)
        farthest = float(np.sum((X - center) ** 2, axis=1).max())
        largest = max(self.prior_variance, self.penalty, farthest)
        if largest > 1e300 * self.variance:
            raise ValueError(
                "GibbsDPMixture needs a prior_variance, a penalty and squared distances below "
                f"1e300 variances, got {largest:.1e} and variance={self.variance!r}; raise it."
            )
        log_opening = -self.penalty / (2.0 * self.variance)
        if self.concentration is not None:
            shift = 0.5 * X.shape[1] * np.log1p(self.prior_variance / self.variance)
            log_opening = float(np.log(self.concentration) - shift)
        unit = 2.0 ** np.round(0.5 * np.log2(self.variance))  # products stay within range
        variances = self.variance / unit**2, self.prior_variance / unit**2
        process, centered = DirichletProcess(*variances, log_opening), (X - center) / unit
        random = check_random_state(self.random_state)
        labels, means = np.zeros(len(X), dtype=np.int64), np.zeros((1, X.shape[1]))
        best, trace, counts = (-np.inf, labels), [], []
        for _ in range(self.n_sweeps):
            labels, means = process.sweep(centered, labels, means, random)
            value = process.log_posterior(centered, labels)
            best = (value, labels) if value > best[0] else best
            trace.append(value)
            counts.append(len(means))
        partition = Partition.from_labels(best[1])
        self.labels_, self.n_clusters_ = partition.labels, partition.n_clusters
        self.cluster_centers_ = center + partition.pool(X - center) / partition.sizes[:, None]
        self.log_posterior_trace_, self.n_clusters_trace_ = np.array(trace), np.array(counts)
        return self
