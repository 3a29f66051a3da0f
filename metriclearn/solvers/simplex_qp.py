"""A quadratic program over a product of simplices, by a primal-dual interior point."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

__all__ = ["simplex_qp"]


def simplex_qp(
    H: NDArray, c: NDArray, groups: NDArray, masses: NDArray, tolerance: float
) -> NDArray:
    """argmin ½ yᵀHy − cᵀy over y ≥ 0 whose sum over every group is the group's mass.

    Mehrotra's predictor-corrector method; one Cholesky factor of an n×n matrix per step, about a
    dozen steps whatever the conditioning of H ⪰ 0.

    Parameters
    ----------
    H : array (n, n)
    c : array (n,)
    groups : int array (n,)
        Group of every variable, 0 … m−1, each occurring.
    masses : array (m,)
    tolerance : float
        Absolute duality gap.
    """
    n, m = len(c), len(masses)
    E = np.zeros((m, n))
    E[groups, np.arange(n)] = 1.0
    y = (masses / E.sum(axis=1))[groups]
    u = -np.array([np.min((H @ y - c)[groups == k]) for k in range(m)])
    spread = max(float(np.ptp(H @ y - c)), 1e-12)
    z = H @ y - c + u[groups] + 0.1 * spread
    for _ in range(60):
        residual = H @ y - c + E.T @ u - z
        gap = float(y @ z)
        if gap <= tolerance and np.max(np.abs(residual)) <= tolerance:
            break
        try:
            factor = scipy.linalg.cho_factor(H + np.diag(z / y), check_finite=False)
            spanned = scipy.linalg.cho_solve(factor, E.T, check_finite=False)
            schur = scipy.linalg.cho_factor(E @ spanned, check_finite=False)
        except scipy.linalg.LinAlgError:  # z / y beyond the precision of H: y is as good as it gets
            break

        def direction(complement: NDArray) -> tuple[NDArray, NDArray, NDArray]:
            right = -residual + complement / y
            free = scipy.linalg.cho_solve(factor, right, check_finite=False)
            du = scipy.linalg.cho_solve(schur, E @ free + (E @ y - masses), check_finite=False)
            dy = free - spanned @ du
            return dy, du, (complement - z * dy) / y

        dy, _, dz = direction(-y * z)
        after = (y + _step(y, dy) * dy) @ (z + _step(z, dz) * dz)
        target = (after / gap) ** 3 * gap / n
        dy, du, dz = direction(target - y * z - dy * dz)
        primal, dual = 0.995 * _step(y, dy), 0.995 * _step(z, dz)
        y, u, z = y + primal * dy, u + dual * du, z + dual * dz
    return y


def _step(values: NDArray, change: NDArray) -> float:
    """Largest step in (0, 1] that keeps values + step·change positive."""
    falling = change < 0
    return float(min(1.0, np.min(-values[falling] / change[falling], initial=1.0)))
