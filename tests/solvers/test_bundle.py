"""BundleDual between its bounds: objective ≥ true optimum ≥ lower bound, in every round."""

import numpy as np
import pytest

import metriclearn as ml
from metriclearn.datasets import make_change_points
from tests.solvers.complete_problem import CompleteProblem

pytest.importorskip("cvxpy", reason="cvxpy is the reference here: pip install cvxpy")


def minimize(problem: CompleteProblem, **settings):
    solver = ml.BundleDual(**{"tolerance": 1e-4, "max_rounds": 200, **settings})
    return solver.minimize(problem.stated())


SQUARED = (ml.FullMetric(), ml.SquaredFrobenius(1e-2), 0)
CASES = [  # metric, regularizer, seed, settings, relative gap at the end
    *[(*SQUARED, {"tolerance": tolerance}, tolerance) for tolerance in (1e-1, 1e-3, 1e-6)],
    *[(*SQUARED, {"keep_inactive": rounds}, 1e-4) for rounds in (1, 3, 1000)],  # forgets cuts
    # a strong linear regularizer drives the penalty to a corner
    (ml.DiagonalMetric(), ml.L1(0.5), 2, {"tolerance": 1e-5, "max_rounds": 60}, 1e-3),
    (ml.DiagonalMetric(), ml.Trace(0.5), 2, {"tolerance": 1e-5, "max_rounds": 60}, 1e-3),
    (ml.FullMetric(), ml.SquaredFrobenius(0.5), 2, {"tolerance": 1e-5, "max_rounds": 60}, 1e-3),
    (ml.FullMetric(), ml.Trace(0.5), 2, {"tolerance": 1e-5, "max_rounds": 60}, 1e-3),
    # to the last digits
    (ml.DiagonalMetric(), ml.L1(1e-2), 3, {"tolerance": 1e-9, "max_rounds": 60}, 1e-9),
    (ml.DiagonalMetric(), ml.L1(1.0), 0, {"tolerance": 1e-9, "max_rounds": 80}, 1e-4),
    (ml.FullMetric(), ml.Trace(1.0), 1, {"tolerance": 1e-9, "max_rounds": 80}, 1e-4),
    (ml.DiagonalMetric(), ml.SquaredFrobenius(1e-2), 0, {"tolerance": 0.0, "max_rounds": 40}, 1e-7),
]


@pytest.mark.parametrize(("metric", "regularizer", "seed", "settings", "gap"), CASES)
def test_gaps_that_are_reached_with_bounds_that_hold(
    metric, regularizer, seed, settings, gap
) -> None:
    problem = CompleteProblem(metric, regularizer, "learned", seed)
    solution = minimize(problem, **settings)
    problem.check(solution)
    assert -1e-7 <= solution.relative_gap <= gap
    assert solution.objective - problem.optimum <= 1.01 * gap * solution.scale + 1e-7


@pytest.mark.parametrize("scale", [1.0, 0.1])
@pytest.mark.parametrize("kind", [ml.L1, ml.Trace, ml.SquaredFrobenius])
def test_start_that_is_optimal_already_is_certified(kind, scale) -> None:
    """Noise in which no weight helps: B = 0 and λ = α from the beginning."""
    problem = CompleteProblem(ml.DiagonalMetric(), kind(1e-2), "learned", scale=scale)
    X = np.array([[0.0, 1.0, 0.0], [-2.0, -1.0, 1.0], [-2.0, 0.0, 0.5]])
    Z = np.array([[-2.0, 2.0], [0.0, 1.0], [1.0, 2.0], [-2.0, 2.0], [2.0, 0.0], [-1.0, 1.0]])
    Z = np.column_stack([Z, np.zeros(6)])
    truths = [ml.Partition.from_change_points([3]), ml.Partition.from_change_points([2, 4, 6])]
    object.__setattr__(problem, "data", list(zip([X, Z], truths)))
    assert problem.optimum == pytest.approx(problem.risk()(problem.start).mean, abs=1e-7)
    solution = minimize(problem, max_rounds=60)
    assert solution.converged
    assert solution.lower_bound <= problem.optimum + 1e-7


@pytest.mark.parametrize("strength", [0.49, 0.502])
def test_duals_that_a_penalty_curves_steeply_are_solved_in_few_rounds(strength) -> None:
    """The strongest regularization of a path, where the ascent ends far below the gap."""
    data = make_change_points(n_features=100, random_state=0)
    places = [0, 1, 2, 3, 7, 8, 9]
    learner = ml.ChangePointMetricLearner(
        regularizer=ml.L1(strength), solver=ml.BundleDual(max_rounds=30)
    )
    learner.fit([data.sequences[i] for i in places], [data.labels[i] for i in places])
    assert learner.solution_.converged


def test_many_features_and_few_functions_take_few_rounds() -> None:
    """One cut per round of 1830 numbers: 107 rounds where it is met at the master's solution."""
    data = make_change_points(1, 1500, 60, 8, (30, 40), random_state=0)
    learner = ml.ChangePointMetricLearner(
        ml.FullMetric(), ml.SquaredFrobenius(0.1), ml.BundleDual()
    )
    solution = learner.fit(data.sequences, data.labels).solution_
    assert solution.converged
    assert len(solution.trace) <= 75


@pytest.mark.parametrize(("unit", "seed"), [(0.05, 2), (0.1, 0), (0.1, 2), (0.4, 0)])
def test_small_features_drawn_to_their_metric_are_learned_in_few_rounds(unit, seed) -> None:
    """The master problem is solved though the penalty is in a unit far from the metric's."""
    data = make_change_points(5, 60, 3, 2, (3, 5), noise=1.0, jump=1.5, random_state=seed)
    learner = ml.ChangePointMetricLearner(
        ml.FullMetric(), ml.SquaredFrobenius(1.0, 1.0), standardize=False, verbose=False
    )
    solution = learner.fit([unit * X for X in data.sequences], data.labels).solution_
    assert solution.converged
    assert len(solution.trace) <= 20


@pytest.mark.parametrize("kind", [ml.SquaredFrobenius, ml.L1, ml.Trace])
def test_dual_bound_of_any_minorant_is_below_the_optimum(kind) -> None:
    """Random averages of cuts near the optimum, with the penalty limit that other cuts imply."""
    rng = np.random.default_rng(0)
    problem = CompleteProblem(ml.DiagonalMetric(), kind(0.05), "learned", 0)
    risk, cone, solution = problem.risk(), problem.cone, minimize(problem)
    terms, tightest, penalty_limit = kind(0.05).terms(cone), 0.0, np.inf
    for _ in range(100):
        ws = solution.w * rng.uniform(0.5, 1.5, (4, cone.size)) + rng.exponential(1e-3, cone.size)
        cuts = [risk(w) for w in ws]
        share = rng.dirichlet(np.ones(4))
        offset = sum(s * (c.mean - c.slope @ w) for s, c, w in zip(share, cuts, ws))
        slope = sum(s * c.slope for s, c in zip(share, cuts))
        bound = offset + terms.minimum(slope, cone, solution.objective)
        if slope[-1] > 0:
            penalty_limit = min(penalty_limit, (solution.objective - bound) / slope[-1])
        elif slope[-1] < 0:
            bound += slope[-1] * penalty_limit
        tightest = max(tightest, bound)
    assert 0.5 * problem.optimum < tightest <= problem.optimum + 1e-7
    assert penalty_limit >= solution.w[-1] - 1e-3
