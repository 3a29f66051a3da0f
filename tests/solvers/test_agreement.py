"""Random problems: every solver within its own gap, all solvers at the same optimum."""

import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning

from metriclearn import BundleDual, ChangePointMetricLearner, CuttingPlane, ProjectedSubgradient
from metriclearn.datasets import make_change_points
from metriclearn.solvers.subgradient import PolyakStep
from tests.training import PAIRS

pytest.importorskip("cvxpy", reason="cvxpy is the reference here: pip install cvxpy")

MODES = {
    "learned": {"penalty": "learned"},
    "fixed": {"penalty": 0.3, "loss_scale": 0.3},
    "known": {"n_segments": "given"},
}
CASES = [
    (pair, mode, P, seed)
    for seed, (pair, mode, P) in enumerate(
        zip([*PAIRS, PAIRS[0]], ["learned", "fixed", "known"] * 2, [3, 3, 3, 12, 7, 7])
    )
]


@pytest.mark.parametrize(
    ("pair", "mode", "P", "seed"),
    CASES,
    ids=[f"{type(m).__name__}-{type(r).__name__}-{k}-{P}" for (m, r), k, P, _ in CASES],
)
def test_certified_and_agreeing(pair, mode, P, seed) -> None:
    data = make_change_points(4, 60, P, 2, (3, 4), random_state=seed)
    learner = ChangePointMetricLearner(*pair, **MODES[mode], verbose=False)
    best = learner.set_params(solver=BundleDual(1e-6)).fit(data.sequences, data.labels).solution_
    assert best.converged
    rounding = 2e-6 * best.scale  # of the reference
    solvers = {
        "bundle": BundleDual(2e-5),
        "n-slack": CuttingPlane(tolerance=2e-5, max_rounds=150),
        "one-slack": CuttingPlane(n_slack=False, tolerance=1e-3, max_rounds=25),
        "subgradient": ProjectedSubgradient(PolyakStep(target=best.lower_bound), max_rounds=60),
        "stochastic": ProjectedSubgradient(batch_size=2, max_rounds=10),
    }
    for name, solver in solvers.items():
        learner.set_params(solver=solver)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            solution = learner.fit(data.sequences, data.labels).solution_
        trace = solution.trace
        assert max(trace.lower_bound) <= best.objective + rounding
        assert min(trace.objective) >= best.lower_bound - rounding
        assert solution.objective - best.objective <= solution.gap + rounding
        assert solution.gap <= trace.gap[0] + rounding
        if name in ("bundle", "n-slack"):  # the latter by cvxpy
            assert solution.converged
            assert abs(solution.objective - best.objective) <= 1e-4 * best.scale
