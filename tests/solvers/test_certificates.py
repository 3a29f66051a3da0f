"""Certificates that once were wrong, and checkpoints that once were taken for others'."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from metriclearn import (
    L1,
    BundleDual,
    ChangePointMetricLearner,
    CuttingPlane,
    DiagonalMetric,
    FullMetric,
    ProjectedSubgradient,
    SquaredFrobenius,
    Trace,
    regularization_path,
)
from metriclearn.datasets import make_change_points
from metriclearn.running.callbacks import ScalarLog

DATA = make_change_points(4, 40, 5, 2, (3, 4), random_state=0)
X, Y = DATA.sequences, DATA.labels
OTHER = "belongs to other data or settings"


def three_segments(rng: np.random.Generator) -> tuple[list[np.ndarray], list[np.ndarray]]:
    means = [np.repeat(rng.normal(size=(3, 3)) * 2, 10, axis=0) for _ in range(4)]
    return [rng.normal(size=(30, 3)) + m for m in means], [np.repeat([0, 1, 2], 10)] * 4


class OwnTrace:
    """μ Tr B − shift, written in cvxpy."""

    def __init__(self, strength: float, shift: float = 0.0) -> None:
        self.strength, self.shift = strength, shift

    def expression(self, B):
        import cvxpy as cp

        return self.strength * cp.trace(B) - self.shift


def fit(data, labels, solver, regularizer=None, weights=None):
    regularizer = L1(1e-2) if regularizer is None else regularizer
    learner = ChangePointMetricLearner(DiagonalMetric(), regularizer, solver, standardize=False)
    return learner.fit(data, labels, weights).solution_


def test_checkpoints_of_other_weights_and_of_other_data_with_equal_means(tmp_path) -> None:
    data, labels = three_segments(np.random.default_rng(0))
    path = str(tmp_path / "state.npz")
    fit(data, labels, BundleDual(checkpoint=path), weights=[100, 1, 1, 1])
    sorted_data = [np.vstack([np.sort(part, axis=0) for part in np.split(x, 3)]) for x in data]
    for other, weights in ((data, [1, 1, 1, 100]), (sorted_data, [100, 1, 1, 1])):
        with pytest.raises(ValueError, match=OTHER):
            fit(other, labels, BundleDual(checkpoint=path), weights=weights)


def test_checkpoints_of_other_solvers_and_settings(tmp_path) -> None:
    path = str(tmp_path / "state.npz")
    with pytest.warns(ConvergenceWarning):
        fit(X, Y, ProjectedSubgradient(max_rounds=5, checkpoint=path, tolerance=0.0))
    for solver in (
        BundleDual(checkpoint=path),
        ProjectedSubgradient(checkpoint=path, batch_size=2),
        ProjectedSubgradient(checkpoint=path, random_state=1),
    ):
        with pytest.raises(
            ValueError, match=f"{type(solver).__name__} needs a checkpoint.*{OTHER}"
        ):
            fit(X, Y, solver)


def test_checkpoint_of_another_regularizer_of_the_users_own(tmp_path) -> None:
    pytest.importorskip("cvxpy", reason="cvxpy solves the master problem: pip install cvxpy")
    path = str(tmp_path / "state.npz")
    fit(X, Y, CuttingPlane(checkpoint=path), OwnTrace(1.0))
    with pytest.raises(ValueError, match=OTHER):
        fit(X, Y, CuttingPlane(checkpoint=path), OwnTrace(1e-3))


@pytest.mark.parametrize("again", ["the same", "without cuts"])
def test_resumed_warm_start(again, tmp_path) -> None:
    """The state keeps the unit of the price; what a fitted learner hands on has no cuts."""
    problem = ChangePointMetricLearner(regularizer=L1(1e-2))._problem(X, Y)
    warm = BundleDual(1e-3).minimize(dataclasses.replace(problem, regularizer=L1(0.1)))
    path = str(tmp_path / "state.npz")
    first = BundleDual(1e-7, max_rounds=3, checkpoint=path)
    first.minimize(dataclasses.replace(problem, warm=warm))
    if again == "without cuts":
        warm = dataclasses.replace(warm, cuts=None)
    resumed = BundleDual(1e-7, checkpoint=path).minimize(dataclasses.replace(problem, warm=warm))
    exact = BundleDual(1e-7).minimize(problem)
    rounding = 2e-7 * exact.scale
    assert resumed.converged
    assert -1e-12 <= resumed.gap <= rounding
    assert resumed.lower_bound <= exact.objective + rounding
    assert resumed.objective == pytest.approx(exact.objective, abs=rounding)


def test_regularizer_below_zero_and_regularizer_infinite_at_no_metric() -> None:
    cp = pytest.importorskip("cvxpy", reason="cvxpy solves the master problem")
    shifted = fit(X, Y, CuttingPlane(tolerance=1e-5), OwnTrace(0.1, shift=5.0))
    plain = fit(X, Y, CuttingPlane(tolerance=1e-5), Trace(0.1))
    assert shifted.converged
    assert shifted.objective == pytest.approx(plain.objective - 5.0, abs=3e-5 * plain.scale)
    assert shifted.lower_bound <= plain.objective - 5.0

    class LogDet:
        def expression(self, B):
            return 0.01 * (cp.trace(B) - cp.log_det(B))

    with pytest.raises(ValueError, match="needs an objective that is finite at the start"):
        ChangePointMetricLearner(FullMetric(), LogDet(), CuttingPlane()).fit(X, Y)


def test_inaccurate_cvxpy_solvers_prove_less() -> None:
    cp = pytest.importorskip("cvxpy", reason="cvxpy solves the master problem")
    if "SCS" not in cp.installed_solvers():
        pytest.skip("SCS is not installed")
    rough = CuttingPlane(cvxpy_solver="SCS", tolerance=1e-5, max_rounds=20)
    learner = ChangePointMetricLearner(FullMetric(), OwnTrace(1e-2), rough)
    with pytest.warns(ConvergenceWarning):
        solution = learner.fit(X, Y).solution_
    exact = ChangePointMetricLearner(FullMetric(), Trace(1e-2), BundleDual(1e-6)).fit(X, Y)
    assert solution.lower_bound <= exact.solution_.objective


@pytest.mark.parametrize("unit", [1.0, 1e-1, 1e-2, 1e-3])
@pytest.mark.parametrize(
    ("metric", "regularizer"),
    [
        (DiagonalMetric(), SquaredFrobenius(0.1)),
        (DiagonalMetric(), L1(1e-2)),
        (FullMetric(), Trace(1e-2)),
    ],
)
def test_small_units_do_not_hold_the_price_still(metric, regularizer, unit) -> None:
    data = make_change_points(6, 60, 5, 2, (3, 5), random_state=0)
    learner = ChangePointMetricLearner(metric, regularizer, standardize=False)
    learner.fit([unit * x for x in data.sequences], data.labels)
    assert learner.solution_.converged
    assert len(learner.solution_.trace) <= 30


def test_paths_use_callbacks_themselves_and_refuse_checkpoints() -> None:
    rows: list[tuple] = []
    learner = ChangePointMetricLearner(callbacks=[ScalarLog(lambda *row: rows.append(row))])
    path = regularization_path(learner, X, Y, [0.1, 0.01])
    rounds = sum(len(solution.trace) for solution in path.solutions)
    assert sum(name == "metriclearn/objective" for name, _, _ in rows) == rounds
    assert all(tuple(fitted.callbacks) == () for fitted in path.learners)
    learner = ChangePointMetricLearner(solver=BundleDual(checkpoint="state.npz"))
    with pytest.raises(ValueError, match="needs a solver without checkpoint"):
        regularization_path(learner, X, Y, 3)
    with pytest.raises(ValueError, match="needs a regularizer with a strength"):
        regularization_path(ChangePointMetricLearner(regularizer=OwnTrace(1.0)), X, Y, 3)


def test_interrupted_path_keeps_what_it_has_and_unfinished_ones_warn() -> None:
    class Interrupt:
        def on_round(self, progress) -> None:
            if progress.round == 7:  # of the second problem on
                raise KeyboardInterrupt

        def on_end(self, solution) -> None:
            pass

    learner = ChangePointMetricLearner(callbacks=[Interrupt()])
    with pytest.warns(ConvergenceWarning, match="1 of its solutions early"):
        path = regularization_path(learner, X, Y, np.geomspace(1.0, 1e-3, 8))
    assert 1 <= len(path) < 8
    assert len(path.weights) == len(path.learners) == len(path.solutions) == len(path)
    assert path.solutions[-1].reason == "interrupted"


@pytest.mark.parametrize(
    ("solver", "sentence"),
    [
        (BundleDual(keep_inactive=-1), "BundleDual needs a whole keep_inactive of at least 0"),
        (BundleDual(cache_size=0.5), "BundleDual needs a whole cache_size of at least 0"),
        (BundleDual(max_rounds=None), "BundleDual needs a whole max_rounds of at least 0"),
        (BundleDual(tolerance="x"), "BundleDual needs a tolerance of at least 0, got 'x'"),
        (ProjectedSubgradient(batch_size=2.5), "batch_size=None or a whole number of at least 1"),
        (ProjectedSubgradient(random_state=-1), "needs a whole random_state of at least 0"),
        (ProjectedSubgradient(step_rule=None), "needs a step_rule such as PolyakStep"),
    ],
)
def test_bad_settings_are_refused_in_a_sentence(solver, sentence) -> None:
    with pytest.raises(ValueError, match=sentence):
        ChangePointMetricLearner(solver=solver).fit(X, Y)
