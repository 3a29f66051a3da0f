"""The adapter of aeon: aeon's own checks, all of them, and what it learns."""

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator

from metriclearn import ChangePointMetricLearner, NamedSegmentLearner, WhitenedMetricLearner
from metriclearn.views import Neighbors
from tests.integrations.series import labeled_series

pytest.importorskip("aeon", reason="aeon is not installed; make integrations runs these tests")

from aeon.testing.estimator_checking import check_estimator

from metriclearn.integrations.aeon import MetricSegmenter


def test_checks_of_aeon_pass() -> None:
    results = check_estimator(MetricSegmenter)
    assert len(results) >= 19
    assert set(results.values()) == {"PASSED"}


def test_it_predicts_what_the_learner_predicts() -> None:
    X, y = labeled_series(3)
    learner = ChangePointMetricLearner().fit(X[:2], y[:2])
    frozen = MetricSegmenter(FrozenEstimator(learner)).fit(X[2].T)
    np.testing.assert_array_equal(frozen.predict(X[2].T), learner.predict(X[2]))
    np.testing.assert_array_equal(frozen.predict(X[2], axis=0), y[2])


def test_names_are_predicted() -> None:
    """As numbers from aeon's own labels, which must be numbers; in words by a fitted learner."""
    (X,), (y,) = labeled_series(1)
    names = np.array(["rest", "run", "walk", "jump"], dtype=object)[y]
    named = NamedSegmentLearner(emissions=Neighbors(0), verbose=False)
    frozen = FrozenEstimator(named.fit([X], [names]))
    assert MetricSegmenter(frozen).fit(X.T).predict(X.T).tolist() == names.tolist()
    codes = 10 - y
    assert MetricSegmenter(named).fit(X.T, codes).predict(X.T).tolist() == codes.tolist()


def test_labels_of_a_part_segment_the_whole() -> None:
    (X,), (y,) = labeled_series(1)
    part = np.where(np.arange(len(y)) < 60, y, -1)
    segmenter = MetricSegmenter(WhitenedMetricLearner()).fit(X.T, part)
    np.testing.assert_array_equal(segmenter.predict(X.T), y)


def test_without_labels_the_metric_is_euclidean() -> None:
    X = np.repeat([[0.0, 3.0]], 30, axis=1) + np.sin(np.arange(60.0)) / 3
    assert len(set(MetricSegmenter().fit_predict(X))) == 2
    assert len(set(MetricSegmenter(penalty=1e4).fit_predict(X))) == 1


def test_labels_of_another_length_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="one label for each of the 20 time points, got 5"):
        MetricSegmenter().fit(np.random.default_rng(0).normal(size=(5, 20)), np.arange(5))
