"""Thirty random problems: every solver within its own gap, all solvers at the same optimum."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from metriclearn import (
    L1,
    BundleDual,
    ChangePointMetricLearner,
    DiagonalMetric,
    FullMetric,
    ProjectedSubgradient,
    SquaredFrobenius,
    Trace,
)
from metriclearn.datasets import make_change_points
from metriclearn.solvers.cutting_plane import CuttingPlane
from metriclearn.solvers.subgradient import PolyakStep

cp = pytest.importorskip("cvxpy", reason="cvxpy is the reference here: pip install cvxpy")

PAIRS = [
    (DiagonalMetric(), SquaredFrobenius(0.1)),
    (DiagonalMetric(), L1(1e-2)),
    (DiagonalMetric(), Trace(1e-2)),
    (FullMetric(), SquaredFrobenius(0.1)),
    (FullMetric(), Trace(1e-2)),
]
MODES = {
    "learned": {"penalty": "learned"},
    "fixed": {"penalty": 0.3, "loss_scale": 0.3},
    "known": {"n_segments": "given"},
}
CASES = [
    (pair, mode, P, seed)
    for i, pair in enumerate(PAIRS)
    for j, mode in enumerate(MODES)
    for seed, P in enumerate([(3, 10), (10, 30), (30, 3)][(i + j) % 3])
]


@dataclass
class Recorder:
    """A risk that remembers every cut it gave away."""

    risk: Any
    points: list = field(default_factory=list)
    cuts: list = field(default_factory=list)

    def __post_init__(self) -> None:
        self.weights = self.risk.weights

    def __call__(self, w, chosen=None):
        cuts = self.risk(w, chosen)
        self.points.append(w)
        self.cuts.append(cuts)
        return cuts

    def optimum(self, cone, terms) -> float:
        """min Ω + Σ s_i ξ_i over all cuts seen, ξ ≥ 0, by cvxpy."""
        offsets = np.concatenate([c.values - c.slopes @ w for c, w in zip(self.cuts, self.points)])
        slopes = np.vstack([c.slopes for c in self.cuts])
        kept = np.sort(np.unique(np.column_stack([offsets, slopes]), axis=0, return_index=True)[1])
        groups = np.tile(np.arange(len(self.weights)), len(self.cuts))[kept]
        n, P = cone.n_metric, cone.n_features
        price, slack = cp.Variable(nonneg=True), cp.Variable(len(self.weights), nonneg=True)
        if cone.metric.polyhedral:
            x = cp.Variable(n, nonneg=True)
            values, trace, square = slopes[kept, :n] @ x, cp.sum(x), cp.sum_squares(x)
        else:
            x = cp.Variable((P, P), PSD=True)
            rows = np.array([cone.metric.matrix(row).ravel() for row in slopes[kept, :n]])
            values, trace, square = rows @ cp.vec(x, order="C"), cp.trace(x), cp.sum_squares(x)
        if cone.priced:
            values = values + slopes[kept, n] * price
        omega = float(np.max(terms.slope)) * trace
        if terms.curvature > 0:
            omega = omega + 0.5 * terms.curvature * square
        unit = float(self.weights @ self.cuts[0].values)  # solvers are accurate in such units
        problem = cp.Problem(
            cp.Minimize(self.weights @ slack + omega / unit),
            [slack[groups] >= (offsets[kept] + values) / unit],
        )
        return float(problem.solve(solver="SCIPY" if problem.is_lp() else "CLARABEL")) * unit


def problem_of(pair, mode, P, seed):
    data = make_change_points(4, 60, P, 2, (3, 4), random_state=seed)
    learner = ChangePointMetricLearner(*pair, **MODES[mode])
    return learner._problem(data.sequences, data.labels)


@pytest.mark.parametrize(
    ("pair", "mode", "P", "seed"),
    CASES,
    ids=[f"{type(m).__name__}-{type(r).__name__}-{k}-{P}" for (m, r), k, P, _ in CASES],
)
def test_certified_and_agreeing(pair, mode, P, seed) -> None:
    problem = problem_of(pair, mode, P, seed)
    terms = pair[1].terms(problem.cone)
    best = BundleDual(1e-6).minimize(problem)
    assert best.converged
    rounding = 2e-6 * best.scale  # of the reference
    polyak = PolyakStep(target=best.lower_bound)
    solvers = {
        "bundle": BundleDual(2e-5),
        "n-slack": CuttingPlane(tolerance=2e-5, max_rounds=150),
        "one-slack": CuttingPlane(n_slack=False, tolerance=1e-3, max_rounds=25),
        "subgradient": ProjectedSubgradient(polyak, tolerance=1e-6, max_rounds=60),
        "stochastic": ProjectedSubgradient(batch_size=2, max_rounds=10),
    }
    for name, solver in solvers.items():
        risk = Recorder(problem.risk)
        solution = solver.minimize(dataclasses.replace(problem, risk=risk))
        trace = solution.trace
        assert max(trace.lower_bound) <= best.objective + rounding
        assert min(trace.objective) >= best.lower_bound - rounding
        assert solution.gap <= trace.gap[0] + rounding
        if name in ("bundle", "n-slack"):
            assert solution.converged
            assert abs(solution.objective - best.objective) <= 1e-4 * best.scale
        large = P == 30 and not problem.cone.metric.polyhedral
        if name == "stochastic" or (large and name != "bundle"):
            continue  # cuts of some functions only; or minutes of cvxpy
        seen = risk.optimum(problem.cone, terms)
        assert solution.objective - seen <= solution.gap + rounding
        assert solution.lower_bound <= seen + rounding
