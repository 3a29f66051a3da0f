"""Suggested stretches are unlabeled, have the given length, and are the most useful ones."""

import numpy as np
import pytest

from metriclearn import ChangePointMetricLearner, suggest
from metriclearn.baselines import TunedSegmenter
from metriclearn.datasets import make_change_points
from metriclearn.estimators import labeled_stretches
from metriclearn.views import Columns, Fill

STRATEGIES = ["combined", "margin", "diversity", "random", "leftmost"]


@pytest.fixture(scope="module")
def recordings():
    return make_change_points(3, 150, 6, 2, (4, 6), random_state=0)


def partly(recordings, *stretches):
    """Labels of stretches, −1 elsewhere."""
    known = [np.full(len(labels), -1) for labels in recordings.labels]
    for i, start, stop in stretches:
        known[i][start:stop] = recordings.labels[i][start:stop]
    return known


def positions(suggestions, recordings):
    """How often each sample is in a suggested stretch."""
    counts = [np.zeros(len(labels), dtype=int) for labels in recordings.labels]
    for i, start, stop, _ in suggestions:
        counts[i][start:stop] += 1
    return counts


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("stretches", [[], [(0, 0, 70), (2, 30, 100)]], ids=["nothing", "some"])
def test_stretches_are_open_and_no_longer_than_asked(recordings, strategy, stretches):
    known = partly(recordings, *stretches)
    found = suggest(recordings.sequences, known, length=20, n=5, strategy=strategy)
    assert len(found) == 5
    assert [stop - start for _, start, stop, _ in found] == [20] * 5
    for counts, labels in zip(positions(found, recordings), known):
        assert counts.max() <= 1
        assert not counts[labels >= 0].any()
    gains = [gain for *_, gain in found]
    assert gains == sorted(gains, reverse=True)
    assert 0 <= gains[-1] <= gains[0] <= 1
    again = suggest(recordings.sequences, known, length=20, n=5, strategy=strategy)
    assert again == found  # the same by the same random_state


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_all_that_is_open_is_asked_for_in_the_end(recordings, strategy):
    known = partly(recordings, (0, 0, 150), (1, 13, 150), (2, 0, 60), (2, 75, 150))
    found = suggest(recordings.sequences, known, length=20, n=9, strategy=strategy)
    assert sorted(stretch[:3] for stretch in found) == [(1, 0, 13), (2, 60, 75)]
    assert suggest(recordings.sequences, recordings.labels, length=20, strategy=strategy) == []


def test_leftmost_follows_the_gaps(recordings):
    known = partly(recordings, (0, 0, 70), (2, 30, 100))
    left = suggest(recordings.sequences, known, length=50, n=3, strategy="leftmost")
    assert left == [(0, 70, 120, 0.0), (0, 120, 150, 0.0), (1, 0, 50, 0.0)]


def step(*heights, size=40):
    """A signal without noise, with steps every ``size`` samples."""
    return np.repeat(heights, size).astype(float)[:, None]


def test_margin_asks_where_the_metric_nearly_decided_otherwise():
    noise = np.random.default_rng(0).normal(scale=0.1, size=(240, 1))
    X = step(0, 5, 5, 5.9, 5.9, 12) + noise  # changes at 40 and 200 are beyond doubt
    learner = TunedSegmenter(penalty=30.0 / np.var(X)).fit([X])
    found = suggest([X], length=40, n=9, learner=learner, strategy="margin")
    assert found[0].start < 120 < found[0].stop  # 0.9²·80·80/160 is 32
    assert found[1].gain < 0.5 * found[0].gain


def test_diversity_asks_for_what_is_unlike_all_that_is_known():
    X = step(0, 0, 9, 0, 0, 0)
    known = [np.where(np.arange(240) < 40, 0, -1)]
    (first,) = suggest([X], known, length=40, strategy="diversity")
    assert 60 <= first.start <= 100


def test_the_metric_is_that_of_the_rows_of_a_view(recordings):
    """A view of some columns asks for the same as these columns alone."""
    known, some = partly(recordings, (0, 0, 70), (2, 30, 100)), Columns(0, 4)
    found = [
        suggest(X, known, length=20, n=4, learner=ChangePointMetricLearner(view=view))
        for X, view in [
            (recordings.sequences, some),
            ([x[:, :4] for x in recordings.sequences], None),
        ]
    ]
    assert [one[:3] for one in found[0]] == [one[:3] for one in found[1]]
    gaps = [x.copy() for x in recordings.sequences]
    for x in gaps:
        x[::9, 1] = np.nan
    by_view = suggest(gaps, known, length=20, learner=ChangePointMetricLearner(view=Fill()))
    assert by_view[:3] == suggest(Fill().fit(gaps).transform(gaps), known, length=20)[:3]


def test_labeled_stretches_are_recordings_of_their_own(recordings):
    arrays, partitions = labeled_stretches(
        recordings.sequences, partly(recordings, (0, 10, 70), (2, 30, 100))
    )
    np.testing.assert_array_equal(arrays[1], recordings.sequences[2][30:100])
    expected = np.flatnonzero(np.diff(recordings.labels[2][30:100])) + 1
    np.testing.assert_array_equal(partitions[1].change_points[:-1], expected)
    learner = ChangePointMetricLearner().fit(arrays, partitions)
    assert suggest(recordings.sequences, length=20, learner=learner)[0].gain == 1.0
