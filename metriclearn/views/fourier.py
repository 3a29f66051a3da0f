"""Random Fourier features: an explicit finite-dimensional map for kernels of a learned metric.

k(x − y) ≈ φ(x)ᵀφ(y) with φ_j(x) = √(2/D) cos(ω_jᵀx + u_j). So a kernel machine becomes a linear SVM
on φ: ``make_pipeline(RandomFourierFeatures(), SVC(kernel="linear"))`` (A. Rahimi & B. Recht, Random
features for large-scale kernel machines, NIPS 2007).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.svm import SVC
from sklearn.utils import check_random_state

from metriclearn.running.parameters import (
    OneOf,
    Positive,
    RandomState,
    Whole,
    check_scale,
    metric_factor,
)
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
    kernel: Annotated[Kernel, OneOf("gaussian", "laplacian", "cauchy")] = "gaussian"
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


class PrimalSolution(NamedTuple):
    """Solution of the primal SVM: w, the interval of optimal intercepts, and ½‖w‖² + C Σ ξ."""

    w: NDArray[np.float64]
    intercepts: tuple[float, float]
    objective: float


def primal_svm(features: ArrayLike, y: ArrayLike, C: float = 1.0) -> PrimalSolution:
    """Solve the primal SVM, min ½‖w‖² + C Σ ξ with a free intercept, up to rounding errors.

    First scikit-learn's SVC finds the support vectors (its w is accurate to about 1e-8). Then the
    optimality conditions for these vectors are solved as a linear system. w is unique, but the
    intercept may not be. On hard problems, such as random labels, SVC stops after a million steps
    with a ConvergenceWarning.

    Parameters
    ----------
    features : array of shape (n, D)
    y : n labels
        −1 or +1. Both must occur.
    """
    phi, signs = np.asarray(features, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if set(np.unique(signs)) != {-1.0, 1.0}:
        raise ValueError("primal_svm needs labels -1 and +1, both present; recode y.")
    machine = SVC(kernel="linear", C=C, tol=1e-12, max_iter=10**6).fit(phi, signs)
    rough = _solution(phi, signs, C, machine.coef_[0])
    duals = np.zeros(len(phi))
    duals[machine.support_] = np.abs(machine.dual_coef_[0])
    exact = _solution(phi, signs, C, _polished(phi, signs, C, duals))
    return exact if exact.objective <= rough.objective * (1 + 1e-12) else rough


def _polished(phi: NDArray, signs: NDArray, C: float, duals: NDArray) -> NDArray[np.float64]:
    """Compute w = Σ α_i y_i φ_i, where α solves a linear system for the vectors on the margin."""
    bounded = duals > C * (1 - 1e-6)
    free = (duals > C * 1e-6) & (duals < C * (1 - 1e-6))
    fixed = C * signs[bounded] @ phi[bounded]
    rows = signs[free, None] * phi[free]
    n = len(rows)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = rows @ rows.T
    system[:n, n] = signs[free]
    system[n, :n] = signs[free]
    target = np.append(1.0 - rows @ fixed, -C * signs[bounded].sum())
    alpha = np.linalg.lstsq(system, target, rcond=None)[0][:n]
    return fixed + alpha @ rows


def _solution(phi: NDArray, signs: NDArray, C: float, w: NDArray) -> PrimalSolution:
    scores = phi @ w
    # Σ ξ is piecewise linear in b: its slope starts at −n₊ and rises by one at every y_i − wᵀφ_i
    kinks = np.sort(signs - scores)
    positive = int(np.sum(signs > 0))
    low, high = float(kinks[positive - 1]), float(kinks[positive])
    slack = np.maximum(0.0, 1.0 - signs * (scores + (low + high) / 2))
    return PrimalSolution(w, (low, high), float(0.5 * w @ w + C * slack.sum()))
