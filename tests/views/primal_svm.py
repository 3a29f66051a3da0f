"""The exact solution of a linear SVM, for the golden numbers of random features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.svm import SVC


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
