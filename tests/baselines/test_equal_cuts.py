"""Equal cuts: the length of least loss, given numbers of segments, and a place in a consensus."""

from pathlib import Path

import numpy as np
import pytest

import metriclearn as ml
from metriclearn.baselines import EqualCuts

RNG = np.random.default_rng(0)
LENGTHS = (60, 90, 47)
X = [RNG.normal(size=(n, 2)) for n in LENGTHS]
Y = [np.arange(n) // 15 for n in LENGTHS]


def losses(cuts: EqualCuts) -> np.ndarray:
    """‖M − N‖² of each recording."""
    found = [ml.Partition(ends=ends) for ends in cuts.predict_change_points(X)]
    truths = [ml.Partition.from_runs(labels) for labels in Y]
    return np.array([ml.problem.FrobeniusLoss().squared_norm(a, b) for a, b in zip(found, truths)])


def test_no_length_has_less_loss_than_the_chosen_one() -> None:
    cuts = EqualCuts().fit(X, Y)
    chosen = losses(cuts)
    assert cuts.score(X, Y) == pytest.approx(-np.mean(chosen / LENGTHS))
    for length in range(2, 91):
        cuts.length_ = float(length)
        assert losses(cuts).sum() >= chosen.sum() - 1e-12
    assert EqualCuts().fit(X, Y).predict_change_points(X[1]).tolist() == [15, 30, 45, 60, 75, 90]


def test_given_numbers_of_segments_need_no_labels() -> None:
    one = EqualCuts(1).fit(X)
    assert [ends.tolist() for ends in one.predict_change_points(X)] == [[60], [90], [47]]
    assert one.predict(X[0]).tolist() == [0] * 60
    assert one.predict_change_points(X[0], n_segments=4).tolist() == [15, 30, 45, 60]


def test_only_labeled_parts_count() -> None:
    labels = [np.where(np.arange(n) < 30, np.arange(n) // 10, -1) for n in LENGTHS]
    assert EqualCuts().fit(X, labels).length_ == pytest.approx(10.0, abs=1.0)


def test_without_a_boundary_in_the_labels_every_recording_is_one_segment(tmp_path: Path) -> None:
    partly = np.where(np.arange(90) < 50, 0, -1)
    for labels in ([np.zeros(n) for n in LENGTHS], [np.zeros(60), partly, np.zeros(47)]):
        cuts = EqualCuts().fit(X, labels)
        for n in (20, 90, 100_000):  # before, recordings longer than these were cut
            assert cuts.predict_change_points(np.zeros((n, 2))).tolist() == [n]
    ml.save(cuts, tmp_path / "cuts.npz")
    assert ml.load(tmp_path / "cuts.npz").length_ == np.inf


def test_known_rows_alone_are_cut_where_there_are_gaps() -> None:
    gaps = [x.copy() for x in X]
    gaps[0][10:20] = np.nan
    with pytest.warns(UserWarning, match="10 of .* rows have no value and are left out"):
        segmenter = ml.Segmenter(EqualCuts(n_segments=5), verbose=False).fit(gaps, Y)
    # 50 known rows make five segments of ten.
    assert segmenter.predict_change_points(gaps[0]).tolist() == [15, 30, 40, 50, 60]
