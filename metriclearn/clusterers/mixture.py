"""The E-step of a mixture of spherical Gaussians (seed 002), whose hard limit is K-means.

Fitting such mixtures is ``sklearn.mixture.GaussianMixture(covariance_type="spherical")``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist
from scipy.special import softmax

from metriclearn.clusterers.checks import check_scale

__all__ = ["spherical_responsibilities"]


def spherical_responsibilities(
    X: ArrayLike, weights: ArrayLike, means: ArrayLike, variance: ArrayLike
) -> NDArray[np.float64]:
    """γ_ic = π_c N(x_i | μ_c, σ_c I) / Σ_{j≤k} π_j N(x_i | μ_j, σ_j I), shape (n, k), in O(nkd).

    The slides' sum stops at j = c; it must run to k. Taken through logarithms: rows sum to 1
    however small the densities are, and tend to 0 and 1 as σ → 0 (K-means' assignment).

    Parameters
    ----------
    X : array of shape (n, d)
    weights : array of shape (k,), non-negative
        π, up to a common factor.
    means : array of shape (k, d)
    variance : float > 0, or array of shape (k,)
        σ, a variance, as in the slides (not a standard deviation).

    Raises
    ------
    ValueError
        If shapes disagree, a variance is not positive, the weights are negative or all zero, or
        squared distances overflow.
    """
    X, means = np.asarray(X, dtype=np.float64), np.asarray(means, dtype=np.float64)
    weights, variance = np.asarray(weights, dtype=np.float64), np.asarray(variance, np.float64)
    if X.ndim != 2 or means.ndim != 2 or X.shape[1] != means.shape[1]:
        raise ValueError(
            "spherical_responsibilities needs X of shape (n, d) and means of shape (k, d), got "
            f"{X.shape} and {means.shape}."
        )
    k = len(means)
    if weights.shape != (k,) or variance.shape not in ((), (k,)):
        raise ValueError(
            f"spherical_responsibilities needs {k} weights and 1 or {k} variances for {k} means, "
            f"got shapes {weights.shape} and {variance.shape}."
        )
    if not (np.all(variance > 0) and np.all(weights >= 0) and weights.any()):
        raise ValueError(
            "spherical_responsibilities needs variances > 0 and weights >= 0, not all zero, got "
            f"{variance} and {weights}."
        )
    if not (np.isfinite(X).all() and np.isfinite(means).all()):
        raise ValueError("spherical_responsibilities needs finite X and means; drop such rows.")
    check_scale("spherical_responsibilities", np.vstack([X, means]))
    with np.errstate(divide="ignore"):  # a weight of 0 is a logarithm of −inf: never chosen
        log_weights = np.log(weights) - 0.5 * X.shape[1] * np.log(variance)
    return softmax(log_weights - cdist(X, means, "sqeuclidean") / (2.0 * variance), axis=1)
