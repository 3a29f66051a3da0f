"""The master problem of a bundle method in its dual, by semismooth Newton steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metriclearn.mahalanobis import MetricCone
from metriclearn.solvers.simplex_qp import simplex_qp

__all__ = ["DualMaster"]


@dataclass
class DualMaster:
    """min over x in the cone of Σ_i s_i max_{j in i} (β_j + ⟨G_j, x⟩) + (ρ/2)‖x‖² − ⟨h, x⟩.

    Its dual over the product of simplices {a ≥ 0, Σ_{j in i} a_j = s_i},

        D(a) = aᵀβ − ‖Π(h − Gᵀa)‖² / 2ρ,   ∇D(a) = β + G x(a),   x(a) = Π(h − Gᵀa) / ρ,

    is concave and semismooth; each Newton step solves a small quadratic program, and the gap
    Σ s_i max_j ∇D_j − aᵀ∇D certifies the result for free.

    Attributes
    ----------
    rows : array (J, n)
        G.
    offsets : array (J,)
        β.
    groups : int array (J,)
    masses : array (m,)
        s; every group has a row.
    shift : array (n,)
        h.
    curvature : float
        ρ.
    cone : MetricCone
    """

    rows: NDArray
    offsets: NDArray
    groups: NDArray
    masses: NDArray
    shift: NDArray
    curvature: float
    cone: MetricCone

    def solve(
        self, a: NDArray, tolerance: float, max_steps: int = 40
    ) -> tuple[NDArray, NDArray, float]:
        """(a, x(a), gap) from the feasible weights ``a``, to an absolute gap ``tolerance``."""
        value, x, root = self._evaluate(a)
        gap = np.inf
        for _ in range(max_steps):
            gradient = self.offsets + self.rows @ x
            gap = self._gap(a, gradient)
            if gap <= tolerance:
                break
            direction = self._newton_direction(a, gradient, root, 1e-6 * gap)
            ascent = float(gradient @ direction)
            if ascent <= 0.0:
                break
            step = 1.0
            while True:
                trial = a + step * direction
                trial_value, trial_x, trial_root = self._evaluate(trial)
                if trial_value >= value + 1e-4 * step * ascent or step < 1e-6:
                    break
                step *= 0.5
            a, value, x, root = trial, trial_value, trial_x, trial_root
        return a, x, gap

    def _evaluate(self, a: NDArray):  # type: ignore[no-untyped-def]
        point, root = self.cone.linearize(self.shift - a @ self.rows)
        x = point / self.curvature
        return float(a @ self.offsets - 0.5 * self.curvature * (x @ x)), x, root

    def _gap(self, a: NDArray, gradient: NDArray) -> float:
        best = np.full(len(self.masses), -np.inf)
        np.maximum.at(best, self.groups, gradient)
        return float(self.masses @ best - a @ gradient)

    def _newton_direction(self, a, gradient, root, tolerance):  # type: ignore[no-untyped-def]
        """Change of a that is optimal for the second-order model, over promising rows only."""
        level = np.bincount(self.groups, weights=a * gradient) / self.masses
        chosen = np.flatnonzero((a > 1e-12) | (gradient >= level[self.groups]))
        R = root(self.rows[chosen])
        H = R @ R.T / self.curvature
        H[np.diag_indices_from(H)] += 1e-10 * max(1e-300, float(np.trace(H)) / len(chosen))
        c = gradient[chosen] + H @ a[chosen]
        groups = self.groups[chosen]
        direction = -a
        direction[chosen] += simplex_qp(H, c, groups, self.masses, tolerance)
        return direction
