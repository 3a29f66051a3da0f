"""The cost of skchange: its contract, all functions of it, and the learner's own optimum."""

import inspect

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.estimator_checks import check_estimator

from metriclearn import ChangePointMetricLearner, FeaturePenalty
from metriclearn.views import SequenceFeatures
from tests.integrations.series import labeled_series

pytest.importorskip("skchange", reason="skchange is not installed; make integrations runs these")

from skchange.detectors import PELT, SeededBinarySegmentation
from skchange.detectors.tests import test_all as detectors
from skchange.interval_scorers import CostChangeScore
from skchange.interval_scorers.tests import test_all as scorers
from skchange.tests.test_all import _expected_failed_checks

from metriclearn.integrations.skchange import MahalanobisCost

COSTS = [MahalanobisCost()]
DETECTORS = [PELT(MahalanobisCost()), SeededBinarySegmentation(CostChangeScore(MahalanobisCost()))]


def failed(module, estimator) -> set[str]:
    """The functions of a module of skchange that fail with an estimator."""
    tests = {name: test for name, test in inspect.getmembers(module) if name.startswith("test_")}
    assert len(tests) >= 10
    names = set()
    for name, test in tests.items():
        try:
            test(clone(estimator))
        except pytest.skip.Exception:  # is of detectors of another kind
            pass
        except Exception:
            names.add(name)
    return names


@pytest.mark.parametrize(
    ("module", "estimator"),
    [(scorers, COSTS[0]), *((detectors, detector) for detector in DETECTORS)],
)
def test_checks_of_skchange_pass(module, estimator) -> None:
    assert failed(module, estimator) == set()


@pytest.mark.parametrize("estimator", COSTS + DETECTORS)
def test_checks_of_sklearn_pass(estimator) -> None:
    expected = _expected_failed_checks(estimator)
    found = check_estimator(estimator, expected_failed_checks=expected, on_fail=None, on_skip=None)
    assert sum(one["status"] == "passed" for one in found) >= 30
    assert [one["check_name"] for one in found if one["status"] == "failed"] == []


def test_pelt_with_the_learned_metric_has_the_learners_change_points() -> None:
    X, y = labeled_series(2)
    learner = ChangePointMetricLearner().fit(X[:1], y[:1])
    cost = MahalanobisCost(FrozenEstimator(learner))
    detector = PELT(cost, penalty=learner.penalty_).fit(X[1])
    np.testing.assert_array_equal(detector.predict(X[1]), learner.predict_change_points(X[1])[:-1])
    assert cost.fit(X[1]).get_default_penalty() == learner.penalty_


def test_a_penalty_that_is_not_one_number_is_no_default() -> None:
    X, y = labeled_series(2)
    features = FeaturePenalty((SequenceFeatures(("log_noise",)),))
    learner = ChangePointMetricLearner(penalty=features).fit(X, y)
    with pytest.raises(ValueError, match="needs one penalty for all boundaries"):
        MahalanobisCost(learner).fit(X[1]).get_default_penalty()


def test_the_cost_is_the_residual_under_the_metric() -> None:
    (X,), _ = labeled_series(1)
    B = np.cov(X.T)
    cost = MahalanobisCost(B).fit(X)
    (value,), (whole,) = cost.evaluate(cost.precompute(X), [[10, 50], [0, 120]])
    rows = X[10:50] - X[10:50].mean(axis=0)
    assert value == pytest.approx(np.einsum("ti,ij,tj", rows, B, rows))
    assert whole == pytest.approx(120 * np.trace(B @ np.cov(X.T, bias=True)))
    with (
        np.errstate(over="ignore"),
        pytest.raises(ValueError, match="MahalanobisCost needs factors between"),
    ):
        cost.precompute(1e200 * X)
