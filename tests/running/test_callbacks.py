"""Callbacks: what they see, how they stop a fit, what early stopping and logging do."""

import numpy as np
import pytest

import metriclearn as ml
from metriclearn.running.callbacks import EarlyStopping, ScalarLog
from tests.training import XS, YS, learn, sequences


class StopAt:
    """Asks to stop after some rounds."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def on_round(self, progress) -> bool:
        return progress.round >= self.rounds

    def on_end(self, solution) -> None:
        pass


def test_stopping_by_a_callback_is_no_convergence_warning_and_it_is_not_saved(
    recwarn, tmp_path
) -> None:
    learner = learn(callbacks=[StopAt(2)])
    assert learner.solution_.reason == "callback"
    assert len(learner.solution_.trace) == 2
    assert not [w for w in recwarn if "stopped" in str(w.message)]
    again = ml.load(learner.save(tmp_path / "model.npz"))
    assert tuple(again.callbacks) == ()
    np.testing.assert_array_equal(again.components_, learner.components_)


def test_the_estimator_of_a_round_is_the_learner_with_the_best_point_so_far() -> None:
    found = []

    class Keep(StopAt):
        def on_round(self, progress):
            estimator = progress.estimator()
            found.append((estimator.get_mahalanobis_matrix(), estimator.penalty_, progress.w))
            assert estimator.predict(XS)[0].shape == (120,)
            return super().on_round(progress)

    learner = learn(callbacks=[Keep(4)], metric=ml.DiagonalMetric(), standardize=False)
    matrix, penalty, w = found[-1]
    np.testing.assert_allclose(matrix, learner.get_mahalanobis_matrix())
    np.testing.assert_allclose(np.diag(matrix), np.where(w[:-1] > 0, w[:-1], 0.0), atol=1e-12)
    assert penalty == learner.penalty_ == w[-1]


@pytest.mark.parametrize("kind", [ml.ClusteringMetricLearner, ml.NormalizedCutMetricLearner])
def test_the_estimator_of_a_round_predicts_without_a_count(kind) -> None:
    rng, found = np.random.default_rng(0), []
    tables = [rng.normal(size=(30, 3)) + 4.0 * np.eye(3)[np.arange(30) // 10] for _ in range(2)]

    class Predict(StopAt):
        def on_round(self, progress):
            found.append(progress.estimator().predict(tables))
            return super().on_round(progress)

    learner = kind(callbacks=[Predict(2)], verbose=False)
    learner.fit(tables, [np.arange(30) // 10] * 2)
    assert [len(one) for one in found[-1]] == [30, 30]
    np.testing.assert_array_equal(found[-1], learner.predict(tables))


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


def test_scalar_log_has_the_signature_of_tensorboard_and_mlflow() -> None:
    rows: list[tuple[str, float, int]] = []
    learner = learn(
        callbacks=[ScalarLog(lambda name, value, step: rows.append((name, value, step)))]
    )
    trace = learner.solution_.trace
    objective = [(v, s) for n, v, s in rows if n == "metriclearn/objective"]
    assert objective == [(v, i + 1) for i, v in enumerate(trace.objective)]
    calls = [v for n, v, _ in rows if n == "metriclearn/oracle_calls"]
    assert calls == trace.oracle_calls == [5 * (i + 2) for i in range(len(trace))]
    assert rows[-1] == ("metriclearn/rank", float(learner.solution_.rank), len(trace))
