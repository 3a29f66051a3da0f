"""The adapter with the methods of river."""

import numpy as np
import pytest

from metriclearn.baselines import TunedSegmenter
from metriclearn.integrations.river import StreamingChangePointDetector

RNG = np.random.default_rng(0)
X = np.repeat([[0.0, 1.0], [5.0, 1.0], [2.0, 9.0]], 30, axis=0) + 0.3 * RNG.normal(size=(90, 2))


def test_learn_one_and_predict_one() -> None:
    """Changes are those of all samples; the segment of the next sample is known before it."""
    segmenter = TunedSegmenter(penalty=2.0).fit([X])
    detector, found, told = StreamingChangePointDetector(segmenter), [], []
    for t, row in enumerate(X):
        sample = {"a": row[0], "b": row[1]}
        number = detector.predict_one(sample)
        assert number == len(segmenter.predict_change_points(X[: t + 1])) - 1
        assert detector.stream_.n_samples_ == t
        detector.learn_one(sample)
        assert detector.drift_detected == bool(detector.changes)
        found += detector.changes
        told += [t] * len(detector.changes)
    assert [*found, *detector.stream_.finish().ends] == segmenter.predict_change_points(X).tolist()
    assert found[0] == 30
    assert told[0] <= 45


def test_features_are_found_by_name() -> None:
    pandas = pytest.importorskip("pandas")
    segmenter = TunedSegmenter(penalty=2.0).fit([pandas.DataFrame(X, columns=["a", "b"])])
    detector = StreamingChangePointDetector(segmenter)
    detector.learn_one({"b": 1.0, "more": 3.0, "a": 0.0})
    np.testing.assert_allclose(detector.stream_.offset_, [0.0, 1.0])
    detector.learn_one({"b ": 1.0, "a": 0.0})  # as people see it
    with pytest.raises(ValueError, match="the feature 'b' in every sample"):
        detector.learn_one({"a": 1.0})


@pytest.mark.parametrize("sample", [{"b": 1.0, "a": 0.0}, {"a": 0.0, "c": 1.0}, {"a": 0.0}])
def test_without_names_the_order_is_that_of_the_first_sample(sample) -> None:
    detector = StreamingChangePointDetector(TunedSegmenter(penalty=2.0).fit([X]))
    for refused in ({}, {"c": 0.0}, {"b": "x", "a": 0.0}):
        with pytest.raises(ValueError, match=r"needs (rows of 2 features, got|a number for every)"):
            detector.learn_one(refused)
    detector.learn_one({"a": 0.0, "b": 1.0})
    with pytest.raises(ValueError, match=r"needs the features \['a', 'b'\] in this order"):
        detector.learn_one(sample)
