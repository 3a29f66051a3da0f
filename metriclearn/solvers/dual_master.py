"""Solve the master problem over a table of cuts: its dual by Newton steps, or by HiGHS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.optimize import linprog

from metriclearn.solvers.base import Cuts
from metriclearn.solvers.iteration import product_rounding
from metriclearn.solvers.mahalanobis import Jacobian, MetricCone

_FIELDS = [("offset", float), ("rounding", float), ("weight", float), ("group", int), ("age", int)]
# With at most so many functions, dense constraints take linprog less time than sparse ones.
_MOST_DENSE = 100


def table_of(cuts: Cuts, w: NDArray, cone: MetricCone, units: NDArray | float = 1.0) -> NDArray:
    """Make a table of the cuts at w, with one record for every function.

    The cut of a function is its minorant offset + ⟨slope, ·⟩, which touches it at w.

    Parameters
    ----------
    cuts : Cuts
    w : array (n,)
    cone : MetricCone
    units : array (n,), optional
        In the table, coordinates of w are multiplied by these units, and slopes are divided by
        these units.

    Returns
    -------
    structured array (number of functions,) with the fields
        ``slope`` (n,) and ``offset``; ``rounding``, a bound of the rounding error of the offset;
        ``weight``, the weight of the cut in the solution of the master problem, here 0; ``group``,
        the function to which the cut belongs; and ``age``, the number of rounds for which the cut
        has had no weight.
    """
    linear = cuts.slopes @ w
    table = np.zeros(len(linear), dtype=[("slope", float, w.shape), *_FIELDS])
    table["slope"], table["offset"] = cuts.slopes / units, cuts.values - linear
    table["rounding"] = 1e-14 * (np.abs(cuts.values) + np.abs(linear))
    table["rounding"] += product_rounding(cuts.slopes, w, cone)
    table["group"] = np.arange(len(table))
    return table


def combination(table: NDArray, weights: NDArray, masses: NDArray) -> tuple[float, NDArray]:
    """Combine cuts to Σ weights_j (cut j), a minorant of Σ masses_i R_i.

    Returns the offset of the minorant, minus a bound of the rounding errors, and its slope. The
    weights may come from any source. Negative weights are set to 0. If the weights of the cuts of a
    function sum to more than the mass of the function, these weights are scaled down. As hinges are
    nonnegative, the result is still a minorant.
    """
    weights, groups = np.maximum(weights, 0.0), table["group"]
    totals = np.bincount(groups, weights=weights, minlength=len(masses))
    weights = weights * np.minimum(1.0, masses / np.maximum(totals, 1e-300))[groups]
    return float(weights @ (table["offset"] - table["rounding"])), _combine(weights, table["slope"])


def move(source: NDArray, places: NDArray, target: NDArray | None = None) -> None:
    """Move records of ``source`` to the end of ``target``. If ``target`` is None, delete them.

    The last records of ``source`` fill the gaps. Both tables change in place, because the records
    of full metrics, which hold P × P numbers each, are slow to copy. No view of ``source`` or
    ``target`` may exist.
    """
    if target is not None:
        before = len(target)
        target.resize(before + len(places), refcheck=False)
        target[before:] = source[places]
    n = len(source) - len(places)
    last = np.delete(np.arange(n, len(source)), places[places >= n] - n)
    source[places[places < n]] = source[last]
    source.resize(n, refcheck=False)


def inactive(table: NDArray, most_rounds: int) -> NDArray:
    """Update ages, and return the indices of cuts that were inactive for too many rounds.

    These cuts have had no weight for more than ``most_rounds`` rounds, including this round. A
    negligible weight becomes 0. To compensate, the weights of the other cuts of the same function
    are raised.
    """
    groups, weights = table["group"], table["weight"].copy()
    totals = np.bincount(groups, weights=weights)
    weights[weights < 1e-9 * totals[groups]] = 0.0
    weights *= (totals / np.bincount(groups, weights=weights))[groups]
    table["weight"], table["age"] = weights, np.where(weights > 0, 0, table["age"] + 1)
    return np.flatnonzero(table["age"] > most_rounds)


def best_violated(table: NDArray, w: NDArray, model: NDArray) -> tuple[NDArray, NDArray]:
    """For every function, find the cut with the largest value at w, if it exceeds ``model``.

    ``model`` holds one value for every function.

    Returns
    -------
    the indices of these cuts in the table, and the amounts by which these cuts exceed ``model``
    """
    heights = table["offset"] + table["slope"] @ w
    # Sort by function, then from the highest cut down, and the oldest first among equal ones. The
    # first cut of each function is its best one.
    order = np.lexsort((table["age"], -heights, table["group"]))
    _, first = np.unique(table["group"][order], return_index=True)
    best = order[first]
    excess = heights[best] - model[table["group"][best]]
    return best[excess > 0], excess[excess > 0]


@dataclass
class DualMaster:
    """Minimize Σ_i s_i max_{j in i} (β_j + ⟨G_j, x⟩) + (ρ/2)‖x‖² − ⟨h, x⟩ over x in the cone.

    The dual problem is to maximize, over the product of simplices {a ≥ 0, Σ_{j in i} a_j = s_i},

        D(a) = aᵀβ − ‖Π(h − Gᵀa)‖² / 2ρ,   ∇D(a) = β + G x(a),   x(a) = Π(h − Gᵀa) / ρ.

    Here Π is the projection onto the cone. D is concave and ∇D is semismooth. Each Newton step
    solves a small quadratic program. The gap Σ s_i max_{j in i} ∇D_j − aᵀ∇D certifies the result at
    no extra cost.

    Attributes
    ----------
    rows : array (J, n)
        G.
    offsets : array (J,)
        β.
    groups : int array (J,)
        The group i of every row j. Every group has at least one row.
    masses : array (m,)
        s.
    shift : array (n,)
        h.
    curvature : float
        ρ.
    cone : MetricCone
    factors : structured array (J,), optional
        Low-rank factors of the rows, if the metric has them.
    """

    rows: NDArray
    offsets: NDArray
    groups: NDArray
    masses: NDArray
    shift: NDArray
    curvature: float
    cone: MetricCone
    factors: NDArray | None = None

    def solve(
        self, a: NDArray, tolerance: float, max_steps: int = 40
    ) -> tuple[NDArray, NDArray, float]:
        """Solve the dual from the feasible weights ``a``, up to the absolute gap ``tolerance``.

        Returns the new a, x(a) and the gap.
        """
        v = self.shift - _combine(a, self.rows)
        point, jacobian = self.cone.linearize(v)
        x, gap = point / self.curvature, np.inf
        # Whether the Jacobian treats a penalty of 0 as positive.
        curved = False
        for _ in range(max_steps):
            gradient, best = self.offsets + self.rows @ x, np.full(len(self.masses), -np.inf)
            np.maximum.at(best, self.groups, gradient)
            gap = float(self.masses @ best - a @ gradient)
            if gap <= tolerance:
                break
            direction = self._newton_direction(a, gradient, jacobian, 1e-6 * gap)
            ascent = float(gradient @ direction)
            value = float(a @ self.offsets - 0.5 * self.curvature * (x @ x))
            # Halve the step until D grows enough (Armijo). One product gives v at every step.
            change, step = _combine(direction, self.rows), 1.0
            while self.cone.learns_penalty and step >= 1e-6:
                # Skip steps for which the penalty's term alone takes nearly all of the gain of D.
                # The rest of D is concave, so it cannot make up for that.
                penalty = max(0.0, v[-1] - step * change[-1]) / self.curvature
                taken = 0.5 * self.curvature * (penalty**2 - x[-1] ** 2) + step * x[-1] * change[-1]
                if step * ascent - taken >= 1e-4 * step * ascent:
                    break
                step *= 0.5
            while ascent > 0.0:
                trial, trial_v = a + step * direction, v - step * change
                point, trial_jacobian = self.cone.linearize(trial_v)
                trial_x = point / self.curvature
                squares = self.curvature * (trial_x @ trial_x)
                trial_value = float(trial @ self.offsets - 0.5 * squares)
                if trial_value >= value + 1e-4 * step * ascent or step < 1e-6:
                    break
                step *= 0.5
            if ascent > 0.0 and trial_value > value:
                a, v, x, jacobian, curved = trial, trial_v, trial_x, trial_jacobian, False
            elif self.cone.learns_penalty and x[-1] == 0.0 and not curved:
                # D curves much more if the penalty is positive, and that may be a tiny step away.
                _, jacobian = self.cone.linearize(np.append(v[:-1], 1e-300))
                curved = True
            else:  # only rounding remains
                break
        return a, x, gap

    def _newton_direction(
        self, a: NDArray, gradient: NDArray, jacobian: Jacobian, tolerance: float
    ) -> NDArray:
        """Maximize a quadratic model of D over promising rows, and return the step to the new a."""
        # Choose rows with weight, and rows that may get weight, whose gradient is at least the mean
        # of their group.
        level = np.bincount(self.groups, weights=a * gradient) / self.masses
        chosen = np.flatnonzero((a > 1e-12) | (gradient >= level[self.groups]))
        H = jacobian(self.rows, chosen, self.factors) / self.curvature
        sizes = H.diagonal()
        # Leave out the penalty, whose unit differs: the ridge must be small compared with the
        # metric's part.
        if self.cone.learns_penalty:
            sizes = np.maximum(sizes - self.rows[chosen, -1] ** 2 / self.curvature, 1e-3 * sizes)
        H[np.diag_indices_from(H)] += 1e-10 * max(1e-300, float(np.mean(sizes)))
        c = gradient[chosen] + H @ a[chosen]
        groups = self.groups[chosen]
        # the program gives the new weights of the chosen rows; all others become 0
        for precision in (tolerance, 1e-3 * tolerance, 1e-6 * tolerance):
            direction = -a
            direction[chosen] += simplex_qp(H, c, groups, self.masses, precision)
            # A smaller ascent may be an error of the program, so we solve it more precisely.
            if gradient @ direction > precision:
                break
        return direction


def _combine(weights: NDArray, rows: NDArray) -> NDArray:
    """Compute Gᵀa from the rows with a weight other than 0."""
    active = np.flatnonzero(weights)
    return weights[active] @ rows[active] if 2 * len(active) < len(rows) else weights @ rows


def simplex_qp(
    H: NDArray, c: NDArray, groups: NDArray, masses: NDArray, tolerance: float
) -> NDArray:
    """Minimize ½ yᵀHy − cᵀy over y ≥ 0. In every group, the entries of y sum to the group's mass.

    The algorithm is Mehrotra's predictor-corrector method (On the implementation of a primal-dual
    interior point method, SIAM Journal on Optimization 2, 1992). Each step takes one Cholesky
    factorization of an n×n matrix. About a dozen steps suffice, even if H ⪰ 0 is badly conditioned.

    Parameters
    ----------
    H : array (n, n)
    c : array (n,)
    groups : int array (n,)
        The group of every variable, 0 … m−1. Every group has at least one variable.
    masses : array (m,)
    tolerance : float
        The duality gap (absolute) at which to stop.
    """
    n, m = len(c), len(masses)
    E = np.zeros((m, n))
    E[groups, np.arange(n)] = 1.0
    y = (masses / E.sum(axis=1))[groups]
    slope, least = H @ y - c, np.full(m, np.inf)
    np.minimum.at(least, groups, slope)
    # Multipliers of the constraints on sums.
    u = -least
    # Multipliers of y ≥ 0.
    z = slope + u[groups] + 0.1 * max(float(np.ptp(slope)), 1e-12)
    rounding = 1e-14 * float(np.abs(H).max() * masses.sum() + np.abs(c).max())
    diagonal = np.diag_indices(n)
    for _ in range(60):
        residual, excess = H @ y - c + u[groups] - z, E @ y - masses
        gap = float(y @ z)
        if gap <= tolerance and np.abs(residual).max() <= max(tolerance, rounding):
            break
        # the linearized optimality conditions at (y, u, z), factored once for two right-hand sides
        system = H.copy()
        system[diagonal] += z / y
        factor, failed = dpotrf(system)
        # z / y is beyond the precision of H: y is as good as it gets.
        if failed:
            break
        spanned = dpotrs(factor, E.T)[0]
        schur, failed = dpotrf(E @ spanned)
        if failed:
            break
        dy = dz = np.zeros(n)
        target = 0.0
        for _ in ("predictor", "corrector"):
            complement = target - y * z - dy * dz
            free = dpotrs(factor, complement / y - residual)[0]
            du = dpotrs(schur, E @ free + excess)[0]
            dy = free - spanned @ du
            dz = (complement - z * dy) / y
            # the largest steps in (0, 1] that keep y and z positive
            primal = 1.0 / max(1.0, -float((dy / y).min()))
            dual = 1.0 / max(1.0, -float((dz / z).min()))
            after = (y + primal * dy) @ (z + dual * dz)
            target = (after / gap) ** 3 * gap / n
        y, z = y + 0.995 * primal * dy, z + 0.995 * dual * dz
        u = u + 0.995 * dual * du
    return y


def linear_master(
    rows: NDArray, offsets: NDArray, groups: NDArray, masses: NDArray, cost: NDArray
) -> NDArray | None:
    """Solve min_{x ≥ 0} Σ_i s_i max(0, max_{j in i} β_j + ⟨G_j, x⟩) + ⟨c, x⟩ by HiGHS.

    The program is the master problem without a proximal term, for diagonal metrics with L1 or
    trace. Returns the multipliers a of the cuts. The multipliers of a group sum to at most the mass
    of the group. With them, m(x) = Σ_j a_j (β_j + ⟨G_j, x⟩) is a lower bound of the first sum. The
    minimum of m(x) + ⟨c, x⟩ over x ≥ 0 is the optimum of the program, so no other combination of
    the cuts gives a better bound.

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
    array (J,), or None if HiGHS finds no optimum
    """
    # unknowns (x, ξ): minimize ⟨c, x⟩ + Σ s_i ξ_i with ⟨G_j, x⟩ − ξ_group(j) ≤ −β_j
    J, m = len(offsets), len(masses)
    constraints: Any
    if m <= _MOST_DENSE:
        constraints = np.hstack([rows, -np.eye(m)[groups]])
    else:
        slacks = scipy.sparse.csr_array((-np.ones(J), (np.arange(J), groups)), shape=(J, m))
        constraints = scipy.sparse.hstack([scipy.sparse.csr_array(rows), slacks], format="csr")
    result = linprog(np.append(cost, masses), constraints, -offsets, method="highs-ds")
    return -result.ineqlin.marginals if result.status == 0 else None
