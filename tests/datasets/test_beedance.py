from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from metriclearn.datasets import load_beedance

HEADER = "sequence,change_point\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    tracks = {name: rng.uniform(size=(n, 3)).astype(np.float32) for name, n in (("b", 9), ("a", 7))}
    np.savez(tmp_path / "sequences.npz", **tracks)
    (tmp_path / "change_points.csv").write_text(HEADER + "a,2\na,6\nb,4\n")
    return tmp_path


def test_segments_and_derived_features_by_hand(folder: Path) -> None:
    raw, dataset = load_beedance(folder, derived=False), load_beedance(folder, window=3)
    assert (raw.names, raw.groups) == (["a", "b"], ["a", "b"])
    assert [ends.tolist() for ends in dataset.change_points] == [[2, 6, 7], [4, 9]]
    assert raw.feature_names == dataset.feature_names[:3] == ["x", "y", "heading"]
    X = raw.sequences[0]
    np.testing.assert_array_equal(dataset.sequences[0][:, :3], X)
    row = dict(zip(dataset.feature_names, dataset.sequences[0][3]))
    steps = np.diff(X, axis=0)
    assert row["x_log_speed"] == pytest.approx(np.log(np.abs(steps[1:4, 0]).mean() + 1e-4))
    shakes = np.diff(steps, axis=0)[0:3, 1]  # their last step ends at frames 2, 3 and 4
    assert row["y_log_shake"] == pytest.approx(np.log(np.sqrt(np.mean(shakes**2)) + 1e-4))
    heading = X[2:5, 2] - np.median(X[:, 2])
    assert row["heading_mean"] == pytest.approx(heading.mean())
    assert row["heading_log_size"] == pytest.approx(np.log(np.sqrt(np.mean(heading**2)) + 1e-4))


def test_turn_and_speed_of_a_circle(tmp_path: Path) -> None:
    """A bee on a circle of radius 1/2 turns by its angle per frame, the other one turns back."""
    angle = 0.1 * np.arange(200)
    for name, sign in (("a", 1.0), ("b", -1.0)):
        xy = 0.5 + 0.5 * np.column_stack([np.cos(angle), sign * np.sin(angle)])
        np.savez(tmp_path / "sequences.npz", **{name: np.column_stack([xy, np.zeros(200)])})
        (tmp_path / "change_points.csv").write_text(f"{HEADER}{name},100\n")
        bee = load_beedance(tmp_path, window=3)
        turn, speed = bee.sequences[0][10:190, -2:].T
        np.testing.assert_allclose(turn, sign * 0.1, rtol=1e-6)
        # a mean of three points on a circle, and a difference over two frames, shrink the step
        expected = 0.5 * np.sin(0.1) * (1 + 2 * np.cos(0.1)) / 3
        np.testing.assert_allclose(speed, np.log(expected + 1e-4), rtol=1e-6)


@pytest.mark.parametrize("rows", ["a,2\n", "a,0\nb,4\n", "a,7\nb,4\n", "a,3\na,3\nb,4\n"])
def test_changes_that_do_not_fit(folder: Path, rows: str) -> None:
    (folder / "change_points.csv").write_text(HEADER + rows)
    with pytest.raises(ValueError, match="needs increasing change-points inside it"):
        load_beedance(folder)


def test_bad_window_and_columns(folder: Path) -> None:
    with pytest.raises(ValueError, match="odd window"):
        load_beedance(folder, window=4)
    np.savez(folder / "sequences.npz", a=np.zeros((7, 2)))
    with pytest.raises(ValueError, match="'a' needs 3 columns"):
        load_beedance(folder)


def test_real_bees(shared_folder: Callable[[str], Path]) -> None:
    dataset = load_beedance(shared_folder("beedance"))
    assert [X.shape for X in dataset.sequences] == [(1057, 13), (1124, 13), (602, 13), (756, 13)]
    assert [len(ends) - 1 for ends in dataset.change_points] == [19, 22, 16, 17]
    assert dataset.change_points[0][:2].tolist() == [25, 95]
