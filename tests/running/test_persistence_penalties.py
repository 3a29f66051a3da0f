"""Learners of penalties, saved and loaded: the same predictions, and nothing of the training."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from metriclearn import ChangePointMetricLearnerCV, DataPenaltyMetricLearner, load, save
from metriclearn.baselines import BayesianCriterion, IntervalRegression, PenaltyLearner
from metriclearn.features.hermite import HermiteMoments, SlidingMoments, SoftThresholds
from metriclearn.features.sequence import SequenceFeatures
from tests.estimators.test_data_penalty import sequences
from tests.training import XS, YS

SHAPED = make_pipeline(
    SlidingMoments(3, scale="noise"), SoftThresholds([0.5, 1]), HermiteMoments(3, scale=4.0)
)
CASES = {
    "fixed metric": PenaltyLearner(regression=IntervalRegression(1e-3), own_weight=2.0),
    "represented": PenaltyLearner(SHAPED, SequenceFeatures(("log_length",))),
    "criterion": BayesianCriterion(HermiteMoments(2)),
    "learned metric": DataPenaltyMetricLearner(n_turns=2, own_weight=1.0),
    "both": DataPenaltyMetricLearner(representation=SHAPED, constrained=False, keep_best=True),
}


@pytest.mark.parametrize("case", CASES)
def test_predictions_of_the_loaded_learner_are_identical(case, tmp_path) -> None:
    X, known, _ = sequences(8, 0)
    test, _, _ = sequences(4, 1)
    learner = CASES[case].fit(X, known)
    loaded = load(save(learner, tmp_path / "model.npz"))
    assert repr(loaded) == repr(learner)
    np.testing.assert_array_equal(loaded.predict_penalties(test), learner.predict_penalties(test))
    for given in (None, known[:4]):
        pairs = zip(
            loaded.predict_change_points(test, given), learner.predict_change_points(test, given)
        )
        for found, expected in pairs:
            np.testing.assert_array_equal(found, expected)
    assert vars(learner).keys() - vars(loaded).keys() == {"paths_"}
    for found, path in zip(loaded.paths(X), learner.paths_):
        np.testing.assert_array_equal(found.penalties, path.penalties)
    for found, step in zip(getattr(loaded, "steps_", []), getattr(learner, "steps_", [])):
        assert (found.errors, found.interval_objective) == (step.errors, step.interval_objective)
        np.testing.assert_array_equal(found.components, step.components)
    again = loaded.fit(X, known)  # parameters came back whole
    np.testing.assert_array_equal(again.predict_penalties(test), learner.predict_penalties(test))


def test_strangers_in_a_pipeline_are_named(tmp_path) -> None:
    X, known, _ = sequences(4, 0)
    learner = PenaltyLearner(make_pipeline(HermiteMoments(2))).fit(X, known)
    learner.representation = make_pipeline(StandardScaler())
    with pytest.raises(TypeError, match=r"got a sklearn\.preprocessing\._data\.StandardScaler"):
        save(learner, tmp_path / "model.npz")


def test_the_path_of_strengths_is_left_out(tmp_path) -> None:
    learner = ChangePointMetricLearnerCV(strengths=3, cv=2, verbose=False).fit(XS, YS)
    loaded = load(save(learner, tmp_path / "model.npz"))
    assert vars(learner).keys() - vars(loaded).keys() == {"path_"}
    assert loaded.strength_ == learner.strength_
    np.testing.assert_array_equal(loaded.loss_path_, learner.loss_path_)
    for found, expected in zip(loaded.predict(XS), learner.predict(XS)):
        np.testing.assert_array_equal(found, expected)
