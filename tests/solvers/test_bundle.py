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


L1_PATH = {"n_features": 100, "random_state": 0}
WIDE = {"n_series": 1, "n_samples": 1500, "n_features": 60, "n_relevant": 8, "n_segments": (30, 40)}
SMALL = {"n_series": 5, "n_samples": 60, "n_features": 3, "n_relevant": 2, "n_segments": (3, 5)}
FEW_ROUNDS = [  # data, unit, learner, most rounds
    # the strongest regularization of a path, where the ascent ends far below the gap
    *[(L1_PATH, 1.0, ml.ChangePointMetricLearner(regularizer=ml.L1(x)), 30) for x in (0.49, 0.502)],
    # one cut per round of 1830 numbers: 107 rounds where it is met at the master's solution
    (
        {**WIDE, "random_state": 0},
        1.0,
        ml.ChangePointMetricLearner(ml.FullMetric(), ml.SquaredFrobenius(0.1)),
        75,
    ),
    # features drawn to their metric, with a penalty in a unit far from the metric's
    *[
        (
            {**SMALL, "jump": 1.5, "random_state": seed},
            unit,
            ml.ChangePointMetricLearner(
                ml.FullMetric(), ml.SquaredFrobenius(1.0, 1.0), standardize=False
            ),
            20,
        )
        for unit, seed in ((0.05, 2), (0.1, 0), (0.1, 2), (0.4, 0))
    ],
]


@pytest.mark.parametrize(("made", "unit", "learner", "most"), FEW_ROUNDS)
def test_few_rounds_suffice(made, unit, learner, most) -> None:
    data = make_change_points(**made)
    pairs = [(unit * X, y) for X, y in zip(data.sequences, data.labels)]
    if made is L1_PATH:
        pairs = [pairs[i] for i in (0, 1, 2, 3, 7, 8, 9)]
    solution = learner.set_params(verbose=False).fit(*map(list, zip(*pairs))).solution_
    assert solution.converged
    assert len(solution.trace) <= most
