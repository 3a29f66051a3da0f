"""A quadratic program over a product of simplices, by a primal-dual interior point."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

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
    rounding = 1e-14 * float(np.max(np.abs(H)) * np.sum(masses) + np.max(np.abs(c)))
    for _ in range(60):
        residual = H @ y - c + E.T @ u - z
        gap = float(y @ z)
        if gap <= tolerance and np.max(np.abs(residual)) <= max(tolerance, rounding):
            break
        try:
            newton = _NewtonSystem(H, E, y, z, residual, E @ y - masses)
        except np.linalg.LinAlgError:  # z / y beyond the precision of H: y is as good as it gets
            break
        dy, _, dz = newton.direction(-y * z)
        after = (y + _step(y, dy) * dy) @ (z + _step(z, dz) * dz)
        target = (after / gap) ** 3 * gap / n
        dy, du, dz = newton.direction(target - y * z - dy * dz)
        primal, dual = 0.995 * _step(y, dy), 0.995 * _step(z, dz)
        y, u, z = y + primal * dy, u + dual * du, z + dual * dz
    return y


class _NewtonSystem:
    """The linearized optimality conditions at (y, u, z), factored once for two right sides."""

    def __init__(
        self, H: NDArray, E: NDArray, y: NDArray, z: NDArray, residual: NDArray, excess: NDArray
    ) -> None:
        self.E, self.y, self.z, self.residual, self.excess = E, y, z, residual, excess
        self.factor = _cholesky(H + np.diag(z / y))
        self.spanned = _solve(self.factor, E.T)
        self.schur = _cholesky(E @ self.spanned)

    def direction(self, complement: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        """Steps for y, the multipliers u and the slacks z with z dy + y dz = ``complement``."""
        free = _solve(self.factor, complement / self.y - self.residual)
        du = _solve(self.schur, self.E @ free + self.excess)
        dy = free - self.spanned @ du
        return dy, du, (complement - self.z * dy) / self.y


def _cholesky(A: NDArray) -> NDArray:
    """LAPACK at once: the systems are small, and many."""
    factor, failed = dpotrf(A)
    if failed:
        raise np.linalg.LinAlgError
    return factor


def _solve(factor: NDArray, b: NDArray) -> NDArray:
    return dpotrs(factor, b)[0]


def _step(values: NDArray, change: NDArray) -> float:
    """Largest step in (0, 1] that keeps values + step·change positive."""
    worst = float(np.max(-change / values))
    return 1.0 / worst if worst > 1.0 else 1.0
