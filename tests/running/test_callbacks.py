"""Callbacks: what they see, how they stop a fit, what early stopping and logging do."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import metriclearn as ml
from metriclearn.running.callbacks import EarlyStopping
from tests.solvers.complete_problem import watched_by
from tests.training import XS, YS, learn, sequences


def test_stopping_by_a_callback_is_no_convergence_warning_and_it_is_not_saved(
    recwarn, tmp_path
) -> None:
    learner = learn(callbacks=watched_by(lambda progress: progress.round >= 2))
    assert (learner.solution_.reason, len(learner.solution_.trace)) == ("callback", 2)
    assert not [w for w in recwarn if "stopped" in str(w.message)]
    assert tuple(ml.load(learner.save(tmp_path / "model.npz")).callbacks) == ()


def test_the_estimator_of_a_round_is_the_learner_with_the_best_point_so_far() -> None:
    found = []

    def keep(progress) -> bool:
        estimator = progress.estimator()
        found.append((estimator.get_mahalanobis_matrix(), estimator.penalty_, progress.w))
        assert estimator.predict(XS)[0].shape == (120,)
        return progress.round >= 4

    learner = learn(callbacks=watched_by(keep), metric=ml.DiagonalMetric(), standardize=False)
    matrix, penalty, w = found[-1]
    np.testing.assert_allclose(matrix, learner.get_mahalanobis_matrix())
    np.testing.assert_allclose(np.diag(matrix), np.where(w[:-1] > 0, w[:-1], 0.0), atol=1e-12)
    assert penalty == learner.penalty_ == w[-1]


def interrupt(progress) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("solver", "remedy"),
    [
        (ml.BundleDual(), "fit again; with solver__checkpoint=FILE it would go on from here"),
        (ml.BundleDual(checkpoint="FILE.npz"), "fit again to go on from FILE.npz"),
    ],
)
def test_an_interrupted_fit_says_how_to_go_on(solver, remedy, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.warns(ConvergenceWarning, match=rf"stopped \(interrupted\) at .*, {remedy}\.$"):
        learner = learn(solver=solver, callbacks=watched_by(interrupt))
    assert learner.solution_.reason == "interrupted"


def test_early_stopping_on_held_out_sequences() -> None:
    X, y = sequences(1)
    stopping = EarlyStopping(X, y, patience=3, every=2)
    learner = learn(solver=ml.BundleDual(0.0, max_rounds=60), callbacks=[stopping])
    scores = stopping.scores_
    assert learner.solution_.reason == "callback"
    assert stopping.rounds_ == list(range(2, len(learner.solution_.trace) + 1, 2))
    assert max(scores[-3:]) <= max(scores[:-3])
    assert all(max(scores[i - 3 : i]) > max(scores[: i - 3]) for i in range(4, len(scores)))
    assert scores[-1] == pytest.approx(learner.score(X, y))
    first = list(scores)
    learner.fit(XS, YS)  # begins afresh
    assert stopping.scores_ == first
