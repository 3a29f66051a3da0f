"""The adapters of sktime: its own checks, all of them, and what they learn."""

import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from metriclearn import (
    ChangePointMetricLearner,
    NamedSegmentLearner,
    Segmenter,
    WhitenedMetricLearner,
)
from metriclearn.estimators import Viterbi
from metriclearn.views import Neighbors, Posteriors
from tests.integrations.series import labeled_series

pytest.importorskip("sktime", reason="sktime is not installed; make integrations runs these tests")

from sktime.utils.estimator_checks import check_estimator, parametrize_with_checks

from metriclearn.integrations.sktime import MetricChangePointDetector, MetricSegmenter

CHANGES = pd.DataFrame({"ilocs": [25, 60, 80]})
SEGMENTS = pd.IntervalIndex.from_breaks([0, 25, 60, 80, 120], closed="left")


@parametrize_with_checks([MetricChangePointDetector, MetricSegmenter])
def test_sktime_checks(obj, test_name) -> None:
    check_estimator(obj, tests_to_run=test_name, raise_exceptions=True, verbose=False)


@pytest.mark.parametrize("y", [CHANGES, pd.DataFrame({"ilocs": SEGMENTS[:3]})])
def test_events_of_a_series_are_learned_from(y: pd.DataFrame) -> None:
    X = pd.DataFrame(labeled_series(1)[0][0])
    learner = WhitenedMetricLearner()
    detected = MetricChangePointDetector(learner).fit(X, y).predict(X)
    assert detected["ilocs"].tolist() == [25, 60, 80]
    segments = MetricSegmenter(learner).fit(X, y).predict(X)
    assert segments["ilocs"].tolist() == SEGMENTS.tolist()
    assert segments["labels"].tolist() == [0, 1, 2, 3]


def test_panels_are_learned_from_and_segmented() -> None:
    names = ["b", "a"]
    arrays, labels = labeled_series(2)
    X = pd.concat(dict(zip(names, map(pd.DataFrame, arrays))), names=["who", "time"])
    y = pd.concat(dict.fromkeys(names, CHANGES))
    learner = ChangePointMetricLearner()
    detector = MetricChangePointDetector(learner).fit(X, y)
    predicted = detector.predict(X)
    expected = learner.fit(arrays, labels)
    np.testing.assert_allclose(
        detector.segmenter_.get_mahalanobis_matrix(), expected.get_mahalanobis_matrix()
    )
    for name, ends in zip(names, expected.predict_change_points(arrays)):
        assert predicted.loc[name, "ilocs"].tolist() == ends[:-1].tolist()
    marks = detector.transform(X)
    assert marks.index.equals(X.index)
    assert marks["labels"].sum() == len(predicted)
    segmenter = MetricSegmenter(learner).fit(X, y)
    assert segmenter.predict_points(X).loc["a", "ilocs"].tolist() == [0, *CHANGES["ilocs"]]
    for segments in (detector.predict_segments(X), segmenter.predict(X)):
        assert segments.loc["b", "ilocs"].tolist() == SEGMENTS.tolist()
    with pytest.raises(ValueError, match=r"one of both lacks \['b'\].* without changes the event"):
        detector.fit(X, y.loc[["a"]])
    short = pd.concat({"a": X.loc["a"], "b": X.loc["b"][:25]})  # up to its first change
    still = pd.concat({"a": CHANGES, "b": pd.DataFrame({"ilocs": [0]})})
    assert detector.fit(short, still).predict(short).loc["a"].equals(CHANGES)


def test_a_fitted_learner_stays_fitted_and_without_one_the_metric_is_euclidean() -> None:
    arrays, labels = labeled_series(2)
    learner = ChangePointMetricLearner().fit(arrays[:1], labels[:1])
    X = pd.DataFrame(arrays[1])
    detected = MetricChangePointDetector(FrozenEstimator(learner)).clone().fit(X).predict(X)
    assert detected["ilocs"].tolist() == learner.predict_change_points(arrays[1])[:-1].tolist()
    assert len(MetricChangePointDetector(penalty=1e6).fit(X).predict(X)) == 0
    assert len(MetricChangePointDetector().fit(X[[0]]).predict(X[[0]])) == 3


@pytest.mark.parametrize("names", [["rest", "run", "walk", "run"], [7, 3, 5, 3]], ids=str)
def test_names_are_learned_and_predicted(names: list) -> None:
    X = pd.DataFrame(labeled_series(1)[0][0])
    X[0] -= np.repeat([0.0, 0.0, 0.0, -1.0], [25, 35, 20, 40])  # the second run like the first
    y = pd.DataFrame({"ilocs": SEGMENTS, "labels": names})
    named = NamedSegmentLearner(emissions=Neighbors(0), verbose=False)
    segmenter = MetricSegmenter(named).fit(X, y)
    assert sorted(segmenter.segmenter_.classes_) == sorted(set(names))
    found = segmenter.predict(X)
    assert found["ilocs"].tolist() == SEGMENTS.tolist()
    assert found["labels"].tolist() == names
    final = segmenter.update_predict(pd.concat([X, X], ignore_index=True))
    assert final["labels"].tolist()[:3] == names[:3]
    partial = MetricSegmenter(named).fit(X, y.iloc[:3])
    assert partial.predict(X)["labels"].tolist() == names


def test_names_of_classifiers_and_segmenters() -> None:
    names = ["rest", "run", "walk", "run"]
    parts, ends = labeled_series(3)[0], SEGMENTS.right.to_numpy()
    for part in parts:
        part[80:, 0] += 1.0  # the second run is like the first
    X = pd.concat({i: pd.DataFrame(part) for i, part in enumerate(parts)})
    y = pd.concat(dict.fromkeys(range(3), pd.DataFrame({"ilocs": SEGMENTS, "labels": names})))
    frames = Viterbi(Posteriors(LogisticRegression(), 1))
    named = NamedSegmentLearner(emissions=Neighbors(0), verbose=False)
    both = Segmenter({"frames": [frames], "named": [named]}, n_folds=3, verbose=False)
    for learner in (frames, both):
        segmenter = MetricSegmenter(learner).fit(X, y)
        assert segmenter.segmenter_.classes_.tolist() == sorted(set(names))
        for i, part in enumerate(parts):
            labels = np.repeat(names, np.diff(ends, prepend=0))
            expected = segmenter.segmenter_.predict(part)
            assert np.mean(expected == labels) > 0.95
            found = segmenter.predict(X).loc[i]
            lengths = found["ilocs"].apply(lambda one: int(one.length))
            assert np.repeat(found["labels"].to_numpy(), lengths).tolist() == expected.tolist()


TWICE = pd.IntervalIndex.from_tuples([(0, 30), (20, 60)])
LATE = pd.IntervalIndex.from_tuples([(60, 121)], closed="left")


@pytest.mark.parametrize(
    "ilocs", [[25, 120], [-1], [25.5], [np.nan, 60], ["a"], TWICE, LATE], ids=str
)
def test_events_that_are_no_segments_are_told(ilocs) -> None:
    X = pd.DataFrame(labeled_series(1)[0][0])
    with pytest.raises(ValueError, match=r'needs in the column "ilocs" of y .* from 0 to 119'):
        MetricChangePointDetector().fit(X, pd.DataFrame({"ilocs": ilocs}))
    with pytest.raises(ValueError, match=r"got .'no column of this name'"):
        MetricChangePointDetector().fit(X, [25, 60])


@pytest.mark.parametrize(("name", "value"), [("penalty", -1.0), ("learner", "metric")])
def test_parameters_out_of_range_are_told(name: str, value) -> None:
    with pytest.raises(ValueError, match=rf"MetricSegmenter needs .*{name}"):
        MetricSegmenter(**{name: value}).fit(pd.DataFrame([0.0, 1.0, 0.0, 2.0]))


def test_updates_follow_a_stream() -> None:
    """Events of all chunks, and of the end, are those of all samples; the model stays."""
    (signals, _), size = labeled_series(1), 7
    X = pd.DataFrame(signals[0])
    detector = MetricChangePointDetector().fit(X, CHANGES)
    segmenter = MetricSegmenter().fit(X, CHANGES)
    whole, found, numbers = detector.predict(X)["ilocs"].tolist(), [], []
    for start in range(0, len(X), size):
        found += detector.update_predict(X[start : start + size])["ilocs"].tolist()
        numbers += segmenter.update_predict(X[start : start + size])["labels"].tolist()
    assert found == whole[: len(found)]
    assert numbers == list(range(len(found)))
    rest = detector.streams_[None].finish().ends.tolist()
    assert [*found, *rest] == [*whole, len(X)]
