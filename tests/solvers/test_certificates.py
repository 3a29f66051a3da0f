"""Certificates that once were wrong, and checkpoints that once were taken for others'."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import metriclearn as ml
from metriclearn.datasets import make_change_points
from metriclearn.running.callbacks import ScalarLog
from tests.solvers.complete_problem import CompleteProblem, watched_by

DATA = make_change_points(4, 40, 5, 2, (3, 4), random_state=0)
X, Y = DATA.sequences, DATA.labels


class Expression:
    """A regularizer without a strength."""

    def expression(self, B):
        return B[0, 0]


def fit(data, labels, solver, weights=None):
    learner = ml.ChangePointMetricLearner(
        ml.DiagonalMetric(), ml.L1(1e-2), solver, standardize=False
    )
    return learner.fit(data, labels, weights).solution_


def test_checkpoints_of_other_weights_and_of_other_data_with_equal_means(tmp_path) -> None:
    solver = ml.BundleDual(checkpoint=str(tmp_path / "state.npz"))
    fit(X, Y, solver, weights=[100, 1, 1, 1])
    ends = [np.flatnonzero(np.diff(y)) + 1 for y in Y]
    parts = [np.split(x, cuts) for x, cuts in zip(X, ends)]
    other = [np.vstack([np.sort(part, axis=0) for part in each]) for each in parts]
    for data, weights in ((X, [1, 1, 1, 100]), (other, [100, 1, 1, 1])):
        with pytest.raises(ValueError, match="belongs to other data, settings or"):
            fit(data, Y, solver, weights=weights)


@pytest.mark.parametrize("again", ["the same", "without cuts"])
def test_resumed_warm_start(again, tmp_path) -> None:
    """The state keeps the unit of the penalty; what a fitted learner hands on has no cuts."""
    problem = CompleteProblem(ml.DiagonalMetric(), ml.L1(1e-2), "learned").stated()
    warm = ml.BundleDual(1e-3).minimize(replace(problem, regularizer=ml.L1(0.1)))
    path = str(tmp_path / "state.npz")
    first = ml.BundleDual(1e-7, max_rounds=3, checkpoint=path)
    first.minimize(replace(problem, warm=warm))
    if again == "without cuts":
        warm = replace(warm, cuts=None)
    resumed = ml.BundleDual(1e-7, checkpoint=path).minimize(replace(problem, warm=warm))
    exact = ml.BundleDual(1e-7).minimize(problem)
    rounding = 2e-7 * exact.scale
    assert resumed.converged
    assert -1e-12 <= resumed.gap <= rounding
    assert resumed.lower_bound <= exact.objective + rounding
    assert resumed.objective == pytest.approx(exact.objective, abs=rounding)


def test_paths_use_callbacks_themselves_and_refuse_checkpoints() -> None:
    rows: list[tuple] = []
    learner = ml.ChangePointMetricLearner(callbacks=[ScalarLog(lambda *row: rows.append(row))])
    path = ml.regularization_path(learner, X, Y, [0.1, 0.01])
    rounds = sum(len(solution.trace) for solution in path.solutions)
    assert sum(name == "metriclearn/objective" for name, _, _ in rows) == rounds
    assert all(tuple(fitted.callbacks) == () for fitted in path.learners)
    learner = ml.ChangePointMetricLearner(solver=ml.BundleDual(checkpoint="state.npz"))
    with pytest.raises(ValueError, match="needs a solver without checkpoint"):
        ml.regularization_path(learner, X, Y, 3)
    with pytest.raises(ValueError, match=r"regularizer such as L1\(\), which has a strength"):
        ml.regularization_path(ml.ChangePointMetricLearner(regularizer=Expression()), X, Y, 3)


def test_interrupted_path_keeps_what_it_has_and_unfinished_ones_warn() -> None:
    def interrupt(progress) -> None:
        if progress.round == 7:  # in the second problem or a later one
            raise KeyboardInterrupt

    learner = ml.ChangePointMetricLearner(callbacks=watched_by(interrupt))
    with pytest.warns(ConvergenceWarning, match="1 of its solutions early"):
        path = ml.regularization_path(learner, X, Y, np.geomspace(1.0, 1e-3, 8))
    assert 1 <= len(path) < 8
    assert len(path.weights) == len(path.learners) == len(path.solutions) == len(path)
    assert path.solutions[-1].reason == "interrupted"
