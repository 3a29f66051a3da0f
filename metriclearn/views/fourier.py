"""Random Fourier features: an explicit finite-dimensional map for kernels of a learned metric.

k(x − y) ≈ φ(x)ᵀφ(y) with φ_j(x) = √(2/D) cos(ω_jᵀx + u_j). So a kernel machine becomes a linear SVM
on φ: ``make_pipeline(RandomFourierFeatures(), SVC(kernel="linear"))`` (A. Rahimi & B. Recht, Random
features for large-scale kernel machines, NIPS 2007).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils import check_random_state

from metriclearn.running.parameters import Positive, RandomState, Whole
from metriclearn.running.values import check_scale, metric_factor
from metriclearn.views.plain import PlainView

Kernel = Literal["gaussian", "laplacian", "cauchy"]


def fourier_features(X: ArrayLike, omega: ArrayLike, phase: ArrayLike) -> NDArray[np.float64]:
    """Compute φ(X) = √(2/D) cos(X ωᵀ + u), Algorithm 1 of Rahimi & Recht (2007), O(n d D).

    Parameters
    ----------
    X : array of shape (n, d)
    omega : array of shape (D, d), frequencies
    phase : array of shape (D,), in radians

    Returns
    -------
    array of shape (n, D)
    """
    angles = np.asarray(X, dtype=np.float64) @ np.asarray(omega, dtype=np.float64).T
    angles += np.asarray(phase, dtype=np.float64)
    np.cos(angles, out=angles)
    angles *= np.sqrt(2.0 / angles.shape[1])
    return angles


@dataclass(eq=False, repr=False)
class RandomFourierFeatures(ClassNamePrefixFeaturesOutMixin, PlainView):
    """Explicit features whose inner products approximate a kernel of a Mahalanobis distance.

    With r² = γ (x−y)ᵀB(x−y): "gaussian" is exp(−r²), "laplacian" exp(−r), "cauchy" 1/(1 + r²). All
    three kernels are mixtures of Gaussian kernels, so their frequencies are ω = √(2γt) L g with B =
    LLᵀ and g standard normal. The scale t is 1 for the Gaussian kernel, 1/(2h²) with h standard
    normal for the Laplacian, and exponentially distributed for the Cauchy kernel. The error of a
    kernel value is random, with a standard deviation of at most about 1/√D.

    Parameters
    ----------
    n_components : int
        Number D of features.
    kernel : "gaussian", "laplacian" or "cauchy"
    metric : None, (d, d) matrix B, (d,) weights, or an object with ``get_mahalanobis_matrix``
        The matrix B, by default the identity. A fitted metric learner can be passed, since it has
        ``get_mahalanobis_matrix``.
    gamma : float > 0
        Scale γ of the squared distance.
    random_state : int, RandomState or None

    Attributes
    ----------
    omega_ : (D, d) frequencies
    phase_ : (D,) phases in [0, 2π)

    Raises
    ------
    ValueError
        For invalid parameters or data, and for ``transform`` before ``fit``.

    References
    ----------
    A. Rahimi & B. Recht, Random features for large-scale kernel machines, NIPS 2007.
    """

    n_components: Annotated[int, Whole(1)] = 100
    _: KW_ONLY
    kernel: Kernel = "gaussian"
    metric: Any = None
    gamma: Annotated[float, Positive()] = 1.0
    random_state: RandomState = None

    def fit(self, X: Any, y: Any = None, groups: ArrayLike | None = None) -> Self:
        """Draw the frequencies. Only the number of columns of X is used."""
        n_columns = self.begin(X)[0].shape[1]
        random = check_random_state(self.random_state)
        directions = random.normal(size=(self.n_components, n_columns))
        size = self.n_components
        mixture = np.ones(size)  # scales t of the Gaussians in the mixture
        if self.kernel == "laplacian":
            mixture = 0.5 / random.normal(size=size) ** 2
        elif self.kernel == "cauchy":
            mixture = random.exponential(size=size)
        factor = metric_factor(type(self).__name__, self.metric, n_columns)
        scales = np.sqrt(2.0 * self.gamma * mixture)
        self.omega_ = scales[:, None] * (directions @ factor.T)
        self.phase_ = random.uniform(0.0, 2.0 * np.pi, size=self.n_components)
        self._n_features_out = self.n_components
        return self

    def rows(self, X: NDArray) -> NDArray[np.float64]:
        """Compute φ(X), shape (n, D)."""
        check_scale(type(self).__name__, X)
        return fourier_features(X, self.omega_, self.phase_)
