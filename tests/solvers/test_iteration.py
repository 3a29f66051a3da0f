"""What every solver has from the loop: certificates, callbacks, budgets, interruption."""

import signal
import threading
from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.base import clone

import metriclearn as ml
from metriclearn.oracles.change_points import segment_values
from metriclearn.solvers.base import Cuts, Problem
from metriclearn.solvers.mahalanobis import MetricCone
from metriclearn.solvers.subgradient import ConstantStep, DecreasingStep
from tests.solvers.complete_problem import CompleteProblem, watched_by
from tests.training import PAIRS

pytest.importorskip("cvxpy", reason="cvxpy is the reference here: pip install cvxpy")

# What they reach on every problem below, relative to the objective at the start
SOLVERS = {
    "bundle": (ml.BundleDual(1e-4, 200), 1e-4),
    "n-slack, plain": (ml.solvers.CuttingPlane(True, 0.0, tolerance=1e-5), 1e-5),
    "n-slack": (ml.solvers.CuttingPlane(tolerance=1e-5), 1e-5),
    "one-slack": (ml.solvers.CuttingPlane(False, 0.5, tolerance=1e-5), 1e-5),
    "polyak": (ml.solvers.ProjectedSubgradient(max_rounds=120), 1e-1),
    "decreasing": (ml.solvers.ProjectedSubgradient(DecreasingStep(), max_rounds=120), 1e-2),
    "constant": (ml.solvers.ProjectedSubgradient(ConstantStep(0.1), max_rounds=120), 1e-1),
    "stochastic": (ml.solvers.ProjectedSubgradient(max_rounds=120, batch_size=2), 1e-1),
}
STEPPING = [
    ml.BundleDual(1e-9, max_rounds=9),
    ml.solvers.CuttingPlane(tolerance=1e-9, max_rounds=9),
    ml.solvers.ProjectedSubgradient(tolerance=1e-9, max_rounds=9),
    ml.solvers.ProjectedSubgradient(tolerance=1e-9, max_rounds=9, batch_size=2),
]
EVERY = [*PAIRS, (ml.FullMetric(), ml.SquaredFrobenius(center=0.5))]
PROBLEM = CompleteProblem(ml.FullMetric(), ml.SquaredFrobenius(1e-3), "learned", 0)
every_solver = pytest.mark.parametrize("solver", STEPPING, ids=lambda s: f"{s!r}".split("(")[0])


@cache
def complete(pair, strength, mode, seed, noise) -> CompleteProblem:
    """The same problem for all solvers: cvxpy finds its optimum once."""
    metric, regularizer = EVERY[pair]
    omega = clone(regularizer).set_params(strength=strength)
    return CompleteProblem(metric, omega, mode, seed, noise)


@pytest.mark.parametrize(
    ("name", "mode"),
    [*product(SOLVERS, ["learned"]), *product(["bundle", "n-slack", "polyak"], ["fixed", "known"])],
)
def test_bounds_bracket_the_optimum_of_the_complete_problem(name, mode) -> None:
    """cvxpy on the cuts of all segmentations is the truth; variants have some of its problems."""
    solver, reach = SOLVERS[name]
    cases = [(3e-2, 1, 1.0)]
    if name == "bundle":
        cases += [(1e-2, 2, 0.0), (1e-3, 3, 1.0)]
    variants = (1, 3, 4) if "slack" in name else (1, 3)
    for pair in range(len(EVERY)) if name == "bundle" else variants:
        for strength, seed, noise in cases:
            problem = complete(pair, strength, mode, seed, noise)
            solution = solver.minimize(problem.stated())
            problem.check(solution)
            assert solution.converged or reach > 1e-4
            assert solution.objective - problem.optimum <= 1.01 * reach * solution.scale


class Planes:
    """max(0, offsets + slopes w), a risk of one function."""

    weights = np.ones(1)

    def __init__(self, offsets: np.ndarray, slopes: np.ndarray) -> None:
        self.offsets, self.slopes = np.append(offsets, 0.0), np.vstack([slopes, 0.0 * slopes[:1]])

    def __call__(self, w: np.ndarray, chosen: np.ndarray | None = None) -> Cuts:
        heights = self.offsets + self.slopes @ w
        highest = [int(np.argmax(heights))]
        return Cuts(heights[highest], self.slopes[highest], self.weights)


@pytest.mark.parametrize("solver", STEPPING[:3], ids=lambda s: f"{s!r}".split("(")[0])
def test_bounds_of_random_cuts_are_below_the_optimum_of_a_linear_program(solver) -> None:
    """Most cuts fall where the penalty rises, and the cut at the start, λ = 0, rises."""
    cone = MetricCone(ml.DiagonalMetric(), 3, learns_penalty=True)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        slopes, offsets = rng.normal(size=(8, 4)), rng.normal(size=8)
        slopes[:, -1], offsets[0] = -np.abs(slopes[:, -1]), 2.0
        slopes[0, -1] *= -0.1
        cost = np.array([0.3, 0.3, 0.3, 0.0, 1.0])
        table = np.column_stack([slopes, -np.ones(8)])
        optimum = linprog(cost, table, -offsets, method="highs").fun
        problem = Problem(Planes(offsets, slopes), ml.L1(0.3), cone, np.zeros(4))
        solution = solver.minimize(problem)
        assert solution.lower_bound <= optimum + 1e-9
        assert solution.objective >= optimum - 1e-9


def test_the_limit_of_a_penalty_is_tight_where_two_cuts_cross() -> None:
    """The risk is max(λ − 0.2, 2 − 3λ). Every mixture of its cuts is 0.35 at the optimum, 0.55."""
    cone = MetricCone(ml.DiagonalMetric(), 3, learns_penalty=True)
    risk = Planes(np.array([-0.2, 2.0]), np.outer([1.0, -3.0], [0.0, 0.0, 0.0, 1.0]))
    solver = ml.solvers.ProjectedSubgradient(ConstantStep(0.3), tolerance=0.0, max_rounds=60)
    solution = solver.minimize(Problem(risk, ml.L1(0.3), cone, np.array([0.0, 0.0, 0.0, 0.7])))
    assert solution.lower_bound == pytest.approx(0.35, abs=1e-9)


@every_solver
def test_every_round_is_shown_to_all_callbacks_and_one_can_stop(solver) -> None:
    seen: list = []
    stopper, other = watched_by(lambda progress: progress.round >= 3) + watched_by(seen.append)
    solution = solver.minimize(PROBLEM.stated(callbacks=[stopper, other]))
    assert (solution.reason, solution.converged) == ("callback", False)
    assert stopper.solutions == other.solutions == [solution]
    assert [progress.round for progress in seen] == [1, 2, 3]
    assert [progress.objective for progress in seen] == solution.trace.objective
    assert [progress.oracle_calls for progress in seen] == solution.trace.oracle_calls
    assert seen[-1].relative_gap == pytest.approx(solution.relative_gap)
    np.testing.assert_array_equal(seen[-1].w, solution.w)


@every_solver
def test_interruption_by_a_callback_keeps_what_a_budget_keeps(solver) -> None:
    def interrupt(progress) -> None:
        if progress.round == 4:
            raise KeyboardInterrupt

    stopped = solver.minimize(PROBLEM.stated(callbacks=watched_by(interrupt)))
    budget = clone(solver).set_params(max_rounds=4).minimize(PROBLEM.stated())
    assert (stopped.reason, budget.reason) == ("interrupted", "max_rounds")
    assert len(stopped.trace) == len(budget.trace) == 4
    np.testing.assert_array_equal(stopped.w, budget.w)
    assert (stopped.objective, stopped.lower_bound) == (budget.objective, budget.lower_bound)
    PROBLEM.check(budget)


@every_solver
@pytest.mark.parametrize(("calls", "kind"), [(0, None), (1, None), (2, SystemError), (5, None)])
def test_interruption_inside_the_risk_keeps_the_best_point(solver, calls, kind) -> None:
    """The loader of compiled code, too, which makes a SystemError of Ctrl-C."""
    risk, count = PROBLEM.risk(), 0

    def interrupted(w: np.ndarray, chosen: np.ndarray | None = None) -> Cuts:
        nonlocal count
        count += 1
        if count > calls and kind is not None:
            raise kind("in the loader") from KeyboardInterrupt()
        if count > calls:
            raise KeyboardInterrupt
        return risk(w, chosen)

    interrupted.weights = risk.weights
    if calls == 0:  # there is nothing to keep
        with pytest.raises(KeyboardInterrupt):
            solver.minimize(PROBLEM.stated(interrupted))
        return
    solution = solver.minimize(PROBLEM.stated(interrupted))
    assert solution.reason == "interrupted"
    value = risk(solution.w).mean + PROBLEM.regularizer.terms(PROBLEM.cone)(solution.w)
    assert solution.objective == pytest.approx(value)
    assert solution.objective <= solution.scale
    assert solution.lower_bound <= PROBLEM.optimum + 1e-6


@pytest.mark.parametrize("unit", [1.0, 1e3])
def test_a_center_far_beyond_what_data_need_is_reached_in_any_unit(unit: float) -> None:
    """At 1000 the penalty rises by nine orders of magnitude.

    Without a change it rises although no label needs it at the start: the optimum is about 0.
    """
    learner = ml.ChangePointMetricLearner(
        ml.FullMetric(), ml.SquaredFrobenius(1e-3, center=10.0), standardize=False
    )
    labels, random = np.repeat([0, 1, 2], 20), np.random.default_rng(0)
    X = unit * (random.normal(size=(60, 3)) + 2.0 * (labels == 1)[:, None])
    assert learner.fit(X, labels).solution_.converged
    with pytest.warns(UserWarning, match="nothing to separate"):
        learner.fit(X, np.zeros(60, dtype=int))
    assert learner.solution_.converged
    assert learner.solution_.objective < 1e-3
    assert len(learner.solution_.trace.objective) < 100


def test_ctrl_c_in_a_kernel_is_a_keyboard_interrupt() -> None:
    signals = np.random.default_rng(0).normal(size=(40, 4000, 2))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.05, signal.raise_signal, [signal.SIGINT])
    try:
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012
            timer.start()
            for X in signals:
                ml.oracles.segmentation_path(X)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("cause", "raised"), [(KeyboardInterrupt, KeyboardInterrupt), (None, SystemError)]
)
def test_only_a_system_error_of_ctrl_c_is_a_keyboard_interrupt(cause, raised, monkeypatch) -> None:
    """As the loader of compiled code raises it in a few of a hundred interruptions."""

    def kernel() -> None:
        raise SystemError("in the loader") from cause and cause()

    monkeypatch.setattr(segment_values, "njit", lambda **options: lambda function: function)
    with pytest.raises(raised):
        segment_values.called(kernel)()
