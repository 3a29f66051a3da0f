"""A fit that fails leaves the estimator as it was: every fitted attribute, or none."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.naive_bayes import GaussianNB

import metriclearn as ml
from metriclearn import baselines
from metriclearn.datasets import make_change_points
from metriclearn.estimators import Viterbi

TRAIN = make_change_points(4, 60, 4, 2, (3, 4), random_state=0)
OTHER = make_change_points(4, 60, 3, 1, (2, 3), random_state=1)


def assert_kept(estimator, before: dict) -> None:
    """The same fitted attributes, each the same object."""
    after = vars(estimator)
    assert before.keys() == after.keys()
    assert all(after[name] is before[name] for name in before if name.endswith("_"))


class Failing:
    """An oracle that raises after ``most`` calls."""

    calls, most = 0, 1

    def __call__(self, *args, **options):
        type(self).calls += 1
        if self.calls > self.most:
            raise MemoryError("no memory left")
        return super().__call__(*args, **options)


class FailingChangePoints(Failing, ml.oracles.ChangePoints):
    pass


class FailingRelaxation(Failing, ml.oracles.SpectralRelaxation):
    pass


@pytest.mark.parametrize(
    ("learner", "oracle"),
    [
        (ml.ChangePointMetricLearner(), FailingChangePoints),
        (ml.ChangePointMetricLearner(penalty=ml.FeaturePenalty((np.ptp,))), FailingChangePoints),
        (ml.ClusteringMetricLearner(), FailingRelaxation),
    ],
    ids=["change-points", "feature penalty", "clustering"],
)
def test_a_refit_that_fails_keeps_the_model_and_a_first_fit_leaves_none(learner, oracle) -> None:
    learner.set_params(verbose=False).fit(TRAIN.sequences, TRAIN.labels)
    before = dict(vars(learner))
    first = clone(learner.set_params(oracle=oracle()))
    for one in (learner, first):
        oracle.calls = 0
        with pytest.raises(MemoryError):
            one.fit(OTHER.sequences, OTHER.labels)
    assert_kept(learner, before)
    with pytest.raises(NotFittedError):
        first.predict(TRAIN.sequences)


def test_a_refit_that_fails_at_its_very_last_answer_keeps_the_model(monkeypatch) -> None:
    """The solver is done then, and losses on the training data are computed."""
    learner = ml.ChangePointMetricLearner(oracle=FailingChangePoints(), verbose=False)
    monkeypatch.setattr(FailingChangePoints, "calls", 0)
    monkeypatch.setattr(FailingChangePoints, "most", np.inf)
    learner.fit(OTHER.sequences, OTHER.labels)
    needed = FailingChangePoints.calls
    before = dict(vars(learner.fit(TRAIN.sequences, TRAIN.labels)))
    monkeypatch.setattr(FailingChangePoints, "calls", 0)
    monkeypatch.setattr(FailingChangePoints, "most", needed - 1)
    with pytest.raises(MemoryError):
        learner.fit(OTHER.sequences, OTHER.labels)
    assert FailingChangePoints.calls == needed
    assert_kept(learner, before)


@pytest.mark.parametrize(
    ("estimator", "change"),
    [
        (baselines.TunedSegmenter(), "unlabeled"),
        (baselines.TunedSegmenter(baselines.PrincipalComponents(2)), "unlabeled"),
        (ml.WhitenedMetricLearner(), "unlabeled"),
        (baselines.TunedSegmenter(view=ml.views.Columns(0, 2)), "unlabeled"),
        (baselines.RelevantComponents(), "apart"),
        (baselines.ClosedFormMetric(), "constant"),
        (baselines.Euclidean(), "constant"),
        (baselines.PenaltyLearner(), "unlabeled"),
        (baselines.MetricKMeans(), "constant"),
        (Viterbi(ml.views.Posteriors(GaussianNB()), penalty=1.0), "together"),
    ],
)
def test_a_fit_to_data_that_cannot_be_used_keeps_the_model(estimator, change: str) -> None:
    """Before, these kept the number of features of the new data, some of them more."""
    y = [labels % 2 for labels in TRAIN.labels]
    model = clone(estimator).fit(TRAIN.sequences, y)
    before = dict(vars(model))
    X = [np.ones_like(X) if change == "constant" else X for X in OTHER.sequences]
    labels = {
        "unlabeled": [np.full(len(x), -1) for x in X],
        "apart": [np.arange(len(x)) for x in X],
        "together": [np.zeros(len(x)) for x in X],
        "constant": [labels % 2 for labels in OTHER.labels],
    }[change]
    with pytest.raises(ValueError, match=r"needs"):
        model.fit(X, labels)
    assert_kept(model, before)


def test_paths_of_other_sequences_leave_a_fitted_learner_alone() -> None:
    learner = baselines.PenaltyLearner().fit(TRAIN.sequences, TRAIN.labels)
    before = learner.predict_penalties(TRAIN.sequences)
    learner.identity_paths([2.0 * X[:, :1] for X in TRAIN.sequences])
    np.testing.assert_array_equal(learner.predict_penalties(TRAIN.sequences), before)
