"""A fit that fails leaves the estimator as it was: every fitted attribute, or none."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import metriclearn as ml
from metriclearn.datasets import make_change_points

TRAIN = make_change_points(4, 60, 4, 2, (3, 4), random_state=0)
OTHER = make_change_points(4, 60, 3, 1, (2, 3), random_state=1)


class Failing:
    """An oracle that raises at its second call."""

    calls = 0

    def __call__(self, *args, **options):
        type(self).calls += 1
        if self.calls > 1:
            raise MemoryError("no memory left")
        return super().__call__(*args, **options)


class FailingChangePoints(Failing, ml.ChangePoints):
    pass


class FailingRelaxation(Failing, ml.SpectralRelaxation):
    pass


@pytest.mark.parametrize(
    ("learner", "oracle"),
    [
        (ml.ChangePointMetricLearner(), FailingChangePoints),
        (ml.ChangePointMetricLearner(penalty=ml.FeaturePenalty((np.ptp,))), FailingChangePoints),
        (ml.ChangePointMetricLearnerCV(strengths=2, cv=2), FailingChangePoints),
        (ml.ClusteringMetricLearner(), FailingRelaxation),
    ],
    ids=["change-points", "feature penalty", "cross-validation", "clustering"],
)
def test_a_refit_that_fails_keeps_the_model(learner, oracle) -> None:
    learner.set_params(verbose=False).fit(TRAIN.sequences, TRAIN.labels)
    before = dict(vars(learner))
    learner.set_params(oracle=oracle())
    oracle.calls = 0
    with pytest.raises(MemoryError):
        learner.fit(OTHER.sequences, OTHER.labels)
    after = dict(vars(learner))
    assert before.keys() == after.keys()
    assert all(after[name] is before[name] for name in before if name.endswith("_"))


def test_a_first_fit_that_fails_leaves_no_model() -> None:
    learner = ml.ChangePointMetricLearner(oracle=FailingChangePoints(), verbose=False)
    FailingChangePoints.calls = 0
    with pytest.raises(MemoryError):
        learner.fit(TRAIN.sequences, TRAIN.labels)
    with pytest.raises(NotFittedError):
        learner.predict(TRAIN.sequences)
