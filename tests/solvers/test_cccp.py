"""CCCP: objectives that never rise, whatever the inner solver does, and known optima."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import metriclearn as ml
from metriclearn.solvers.base import Cuts, Problem, Solution
from metriclearn.solvers.base import Trace as SolverTrace
from metriclearn.solvers.mahalanobis import Metric, MetricCone
from tests.similarities.problems import expanded, hinge_of
from tests.solvers.complete_problem import watched_by


class Quartic:
    """(w² − 1)² on w ≥ 0, as w⁴ + 1 less 2w²: minimum 0 at 1."""

    weights = np.ones(1)

    def __call__(self, w: NDArray, chosen: NDArray | None = None) -> Cuts:
        return Cuts((w**2 - 1.0) ** 2, np.array([4.0 * w * (w**2 - 1.0)]), self.weights)

    def linearized(self, w: NDArray) -> "_Tangent":
        return _Tangent(w)


class _Tangent:
    weights = np.ones(1)

    def __init__(self, w: NDArray) -> None:
        self.at = w

    def __call__(self, w: NDArray, chosen: NDArray | None = None) -> Cuts:
        values = w**4 + 1.0 - 2.0 * self.at**2 - 4.0 * self.at * (w - self.at)
        return Cuts(values, np.array([4.0 * w**3 - 4.0 * self.at]), self.weights)


class Overshooting:
    """An inner solver that goes far beyond the minimum, or nowhere."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def minimize(self, problem: Problem) -> Solution:
        w = problem.start + self.factor * (1.0 - problem.start)
        return Solution(w, 0.0, 0.0, 1.0, "converged", SolverTrace(), 1)


CONE = MetricCone(ml.DiagonalMetric(), 1, learns_penalty=False)
TINY = ml.Trace(1e-12)


@pytest.mark.parametrize("begin", [0.2, 3.0])
def test_reaches_the_minimum_of_a_difference(begin: float) -> None:
    solver = ml.solvers.CCCP(
        ml.solvers.FactorDescent(tolerance=1e-14), tolerance=1e-10, max_rounds=100
    )
    solution = solver.minimize(Problem(Quartic(), TINY, CONE, np.array([begin])))
    assert solution.converged
    assert solution.w[0] == pytest.approx(1.0, abs=1e-3)
    # the first majorant's minimum is known: 4w³ = 4·begin
    assert solution.trace.objective[0] == pytest.approx((begin ** (2 / 3) - 1) ** 2, abs=1e-6)


@pytest.mark.parametrize(
    ("factor", "moves"), [(3.0, True), (60.0, True), (1e4, False), (0.0, False)]
)
def test_steps_that_go_too_far_are_taken_back(factor: float, moves: bool) -> None:
    solution = ml.solvers.CCCP(Overshooting(factor)).minimize(
        Problem(Quartic(), TINY, CONE, np.array([0.5]))
    )
    trace = np.array([solution.scale, *solution.trace.objective])
    assert np.all(np.diff(trace) <= 0)
    assert (trace[1] < trace[0]) == moves
    assert solution.objective == pytest.approx(float(Quartic()(solution.w).mean), abs=1e-11)


@pytest.mark.parametrize("metric", [ml.DiagonalMetric(), ml.FullMetric()], ids=["diagonal", "full"])
@pytest.mark.parametrize(
    "inner",
    [
        ml.solvers.FactorDescent(10),
        ml.BundleDual(max_rounds=10),
        ml.solvers.ProjectedSubgradient(max_rounds=10),
    ],
    ids=["factor", "bundle", "subgradient"],
)
@pytest.mark.parametrize("normalized", [False, True])
def test_objective_never_rises(metric: Metric, inner: object, normalized: bool) -> None:
    tables, omega = [expanded(seed, n_clusters=2) for seed in range(4)], ml.SquaredFrobenius(1e-3)
    hinge = hinge_of(tables, metric, loss_scale=0.05, normalized=normalized)
    cone = MetricCone(metric, 3, learns_penalty=False)
    start = metric.identity(3)
    solution = ml.solvers.CCCP(inner, 0.0, 4).minimize(Problem(hinge, omega, cone, start))  # type: ignore[arg-type]
    trace = np.array(solution.trace.objective)
    assert np.all(np.diff(trace) <= 1e-9 * np.abs(trace[:-1]))
    at_end = hinge(solution.w).mean + omega.terms(cone)(solution.w)
    assert solution.objective == pytest.approx(at_end, rel=1e-9)


def test_the_best_of_all_starts_is_kept() -> None:
    solver, starts = ml.solvers.CCCP(max_rounds=2), [np.array([x]) for x in (0.01, 2.0, 9.0)]
    problem = Problem(Quartic(), TINY, CONE, starts[0])
    solution, objectives = solver.minimize_from(problem, starts)
    alone = [solver.minimize(replace(problem, start=w)) for w in starts]
    np.testing.assert_allclose(objectives, [one.objective for one in alone], rtol=1e-9)
    best = min(alone, key=lambda one: one.objective)
    np.testing.assert_allclose(solution.trace.objective, best.trace.objective, rtol=1e-9)
    assert (solution.objective, solution.scale) == (solution.trace.objective[-1], best.scale)


@pytest.mark.parametrize("rounds", [1, 2])
def test_callbacks_see_every_outer_step_and_can_stop_all_starts(rounds: int) -> None:
    starts = [np.array([5.0]), np.array([0.9])]
    (watcher,) = watched_by(lambda progress: progress.round == rounds)
    solver = ml.solvers.CCCP(ml.solvers.FactorDescent(4), tolerance=0.0, max_rounds=9)
    problem = Problem(Quartic(), TINY, CONE, starts[0], [watcher])
    solution, objectives = solver.minimize_from(problem, starts)
    assert watcher.solutions == [solution]
    assert (solution.reason, len(objectives), len(solution.trace)) == ("callback", 1, rounds)


@pytest.mark.parametrize("calls", [1, 3, 4, 9, 30, 45])
def test_an_interrupt_ends_everything_and_keeps_the_best_point(calls: int) -> None:
    class Interrupted(Quartic):
        left = calls

        def linearized(self, w: NDArray) -> Any:
            def counted(v: NDArray, chosen: NDArray | None = None) -> Cuts:
                self.left -= 1
                if self.left == 0:
                    raise KeyboardInterrupt
                return _Tangent(w)(v)

            counted.weights = self.weights  # type: ignore[attr-defined]
            return counted

    risk = Interrupted()
    solver = ml.solvers.CCCP(ml.solvers.FactorDescent(8), tolerance=0.0, max_rounds=20)
    starts = [np.array([5.0]), np.array([0.1])]
    solution, objectives = solver.minimize_from(Problem(risk, TINY, CONE, starts[0]), starts)
    assert solution.reason == "interrupted"
    assert risk.left == 0  # the risk was not evaluated afterwards
    assert solution.objective <= min(objectives) + 1e-12
    assert solution.objective == pytest.approx(float(Quartic()(solution.w).mean), abs=1e-10)


def test_resumed_from_checkpoints_of_every_start(tmp_path) -> None:
    starts = [np.array([5.0]), np.array([0.1])]
    problem = Problem(Quartic(), TINY, CONE, starts[0])
    solver = ml.solvers.CCCP(
        ml.solvers.FactorDescent(6), tolerance=1e-8, max_rounds=6, trial_rounds=2
    )
    whole, objectives = solver.minimize_from(problem, starts)
    solver.set_params(checkpoint=str(tmp_path / "state.npz"))
    stopping = replace(problem, callbacks=watched_by(lambda progress: progress.round == 2))
    stopped, _ = solver.minimize_from(stopping, starts)
    assert stopped.reason == "callback"
    resumed, again = solver.minimize_from(problem, starts)
    np.testing.assert_array_equal(resumed.w, whole.w)
    assert (resumed.trace.objective, again) == (whole.trace.objective, objectives)
    assert len(list(tmp_path.iterdir())) == 3
