"""Margins of fitted segmenters: the program's own, calibrated, saved and drawn."""

import copy

import numpy as np
import pytest

import metriclearn as ml
from metriclearn.baselines import Euclidean, TunedSegmenter
from metriclearn.datasets import make_change_points
from metriclearn.estimators.scores.confidence import Calibration
from metriclearn.indices.boundaries import near

DATA = make_change_points(6, 80, 3, 2, (3, 6), random_state=0)


@pytest.fixture(scope="module")
def learner() -> ml.ChangePointMetricLearner:
    regularizer = ml.SquaredFrobenius(1e-2)
    return ml.ChangePointMetricLearner(regularizer=regularizer).fit(DATA.sequences, DATA.labels)


def test_margins_are_those_of_the_program(learner: ml.ChangePointMetricLearner) -> None:
    X = DATA.sequences[0]
    for tolerance in (None, 0, 3):
        form = ml.problem.LowRankForm(X @ learner.components_.T).shifted(-learner.penalty_)
        expected = ml.oracles.boundary_margins(form, tolerance=tolerance or 0)
        found = learner.boundary_margins(X, tolerance=tolerance)
        assert np.array_equal(found.change_points, expected.change_points)
        assert found.losses == pytest.approx(expected.losses, rel=1e-9)
        assert found.gains == pytest.approx(expected.gains, abs=1e-9 * np.ptp(expected.gains))
        assert found.probabilities is None
    ends, margins = learner.predict_change_points(X, return_margins=True)
    assert np.array_equal(ends, learner.predict_change_points(X))
    assert np.array_equal(margins.gains, learner.boundary_margins(X).gains)
    given = [2, 3, 4, 5, 6, 7]
    ends, several = learner.predict_change_points(DATA.sequences, given, return_margins=True)
    assert [len(one) for one in ends] == given == [len(m.losses) + 1 for m in several]


def test_a_data_set_shorter_than_a_segment_has_no_change() -> None:
    tuned = TunedSegmenter(Euclidean(), min_size=5).fit(DATA.sequences, DATA.labels)
    margins = tuned.boundary_margins(DATA.sequences[0][:3])
    assert (margins.change_points.tolist(), margins.losses.tolist()) == ([3], [])
    assert margins.gains.tolist() == [0.0, -np.inf, -np.inf]


def test_probabilities_are_the_share_of_true_changes_with_such_losses() -> None:
    losses = np.array([1.0, 2.0, 3.0, 4.0, np.inf])
    margins = ml.oracles.BoundaryMargins(np.array([10, 20, 30, 40, 50, 60]), losses, np.zeros(60))
    truth = ml.Partition.from_change_points([12, 28, 41, 50, 60])
    right = near(margins.change_points[:-1], truth.change_points[:-1], 2)
    assert right.tolist() == [True, False, True, True, True]
    calibration = Calibration.learn([margins], [truth], 2)
    found = calibration.of(np.array([0.0, 1.0, 2.0, 3.0, 9.0, np.inf]))
    assert found == pytest.approx([0.5, 0.5, 0.5, 1.0, 1.0, 1.0])  # two of one pool, then certain
    one = ml.oracles.BoundaryMargins(np.array([60]), np.zeros(0), np.zeros(60))
    with pytest.raises(ValueError, match="in labeled stretches, got none"):
        Calibration.learn([one], [truth], 2)


def test_calibration_learns_from_labeled_stretches_alone(learner) -> None:
    """Of changes in stretches without labels, and near their ends, nothing is known."""
    losses, right, rows = [], [], np.arange(80)
    for margins, labels in zip(learner.boundary_margins(DATA.sequences, None, 2), DATA.labels):
        found, true = margins.change_points[:-1], ml.Partition.from_runs(labels).change_points
        inside = (found > 10 + 2) & (found < 60 - 2)
        losses += margins.losses[inside].tolist()
        right += near(found[inside], true[(true > 10) & (true < 60)], 2).tolist()
    partial = [np.where((rows >= 10) & (rows < 60), labels, -1) for labels in DATA.labels]
    calibrated = copy.copy(learner).calibrate(DATA.sequences, partial, tolerance=2)
    probabilities = calibrated.calibration_.of(np.array(losses))
    assert len(losses) > 5
    assert probabilities.mean() == pytest.approx(np.mean(right))  # isotonic keeps the mean
    segmenter = ml.Segmenter(learner, n_folds=2, verbose=False).fit(DATA.sequences, DATA.labels)
    counts = [
        len(segmenter.calibrate(DATA.sequences, y).rates_.distances) for y in (partial, DATA.labels)
    ]
    assert 0 < counts[0] < counts[1]


def test_calibration_is_kept_in_files_and_not_for_another_metric(learner, tmp_path) -> None:
    learner.calibrate(DATA.sequences, DATA.labels, tolerance=2)
    margins = learner.boundary_margins(DATA.sequences)
    truths = [ml.Partition.from_runs(labels) for labels in DATA.labels]
    right = [near(m.change_points[:-1], t.change_points[:-1], 2) for m, t in zip(margins, truths)]
    given = np.concatenate([m.probabilities for m in margins])
    assert given.mean() == pytest.approx(np.concatenate(right).mean())  # isotonic keeps the mean
    again = ml.load(learner.save(tmp_path / "model.npz"))
    for one, other in zip(margins, again.boundary_margins(DATA.sequences)):
        assert np.array_equal(one.probabilities, other.probabilities)
    assert again.boundary_margins(DATA.sequences[0], tolerance=1).probabilities is None
    again.score_ = again.score_.at(2.0 * again.penalty_)
    assert again.boundary_margins(DATA.sequences[0]).probabilities is None
