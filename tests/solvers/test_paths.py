"""Regularization paths: callbacks, refusals and interruptions."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import metriclearn as ml
from metriclearn.datasets import make_change_points
from metriclearn.running.callbacks import ScalarLog
from tests.solvers.complete_problem import watched_by

DATA = make_change_points(4, 40, 5, 2, (3, 4), random_state=0)
X, Y = DATA.sequences, DATA.labels


class Expression:
    """A regularizer without a strength."""

    def expression(self, B):
        return B[0, 0]


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
