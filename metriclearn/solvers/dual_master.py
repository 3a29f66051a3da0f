"""The master problem of a bundle method: in its dual by Newton steps, or as a linear program."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.optimize import linprog

from metriclearn.solvers.mahalanobis import Jacobian, MetricCone
from metriclearn.solvers.simplex_qp import simplex_qp

__all__ = ["DualMaster", "linear_master"]


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
        v = self.shift - _combine(a, self.rows)
        value, x, jacobian = self._evaluate(a, v)
        gap = np.inf
        for _ in range(max_steps):
            gradient = self.offsets + self.rows @ x
            gap = self._gap(a, gradient)
            if gap <= tolerance:
                break
            direction = self._newton_direction(a, gradient, jacobian, 1e-6 * gap)
            ascent = float(gradient @ direction)
            if ascent <= 0.0:
                break
            change, step = _combine(direction, self.rows), 1.0
            while True:
                trial, trial_v = a + step * direction, v - step * change
                trial_value, trial_x, trial_jacobian = self._evaluate(trial, trial_v)
                if trial_value >= value + 1e-4 * step * ascent or step < 1e-6:
                    break
                step *= 0.5
            if trial_value <= value:  # nothing but rounding is left
                break
            a, v, value, x, jacobian = trial, trial_v, trial_value, trial_x, trial_jacobian
        return a, x, gap

    def _evaluate(self, a: NDArray, v: NDArray) -> tuple[float, NDArray, Jacobian]:
        """D(a), x(a) and the Jacobian, from v = h − Gᵀa."""
        point, jacobian = self.cone.linearize(v)
        x = point / self.curvature
        return float(a @ self.offsets - 0.5 * self.curvature * (x @ x)), x, jacobian

    def _gap(self, a: NDArray, gradient: NDArray) -> float:
        best = np.full(len(self.masses), -np.inf)
        np.maximum.at(best, self.groups, gradient)
        return float(self.masses @ best - a @ gradient)

    def _newton_direction(
        self, a: NDArray, gradient: NDArray, jacobian: Jacobian, tolerance: float
    ) -> NDArray:
        """Change of a that is optimal for the second-order model, over promising rows only."""
        level = np.bincount(self.groups, weights=a * gradient) / self.masses
        chosen = np.flatnonzero((a > 1e-12) | (gradient >= level[self.groups]))
        H = jacobian(self.rows[chosen]) / self.curvature
        H[np.diag_indices_from(H)] += 1e-10 * max(1e-300, float(np.trace(H)) / len(chosen))
        c = gradient[chosen] + H @ a[chosen]
        groups = self.groups[chosen]
        direction = -a
        direction[chosen] += simplex_qp(H, c, groups, self.masses, tolerance)
        return direction


def _combine(weights: NDArray, rows: NDArray) -> NDArray:
    """Gᵀa, reading the rows with weight only."""
    active = np.flatnonzero(weights)
    return weights[active] @ rows[active] if 2 * len(active) < len(rows) else weights @ rows


def linear_master(
    rows: NDArray, offsets: NDArray, groups: NDArray, masses: NDArray, cost: NDArray
) -> NDArray | None:
    """Multipliers a of min_{x ≥ 0} Σ_i s_i max(0, max_{j in i} β_j + ⟨G_j, x⟩) + ⟨c, x⟩, by HiGHS.

    The master problem without proximal term, for diagonal metrics with L1 or trace. The
    combination Σ a_j (β_j + ⟨G_j, ·⟩) is the best minorant that the cuts have: its minimum with
    the cost is the optimum of the program. Multipliers of a group sum to at most its mass.

    Parameters
    ----------
    rows : array (J, n)
        G.
    offsets : array (J,)
        β.
    groups : int array (J,)
    masses : array (m,)
        s.
    cost : array (n,)
        c.

    Returns
    -------
    array (J,), or None where HiGHS finds no optimum
    """
    J, m = len(offsets), len(masses)
    slacks = scipy.sparse.csr_array((-np.ones(J), (np.arange(J), groups)), shape=(J, m))
    constraints = scipy.sparse.hstack([scipy.sparse.csr_array(rows), slacks], format="csr")
    result = linprog(np.append(cost, masses), constraints, -offsets, method="highs-ds")
    return -result.ineqlin.marginals if result.status == 0 else None
