from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from metriclearn.datasets import load_gesture_phase

HEADER = "sequence,features,start,end,label\n"
ROWS = [
    "c1,raw,0,6,rest", "c1,raw,6,10,stroke", "c1,va3,0,2,rest", "c1,va3,2,6,stroke",
    "d3,raw,0,8,hold", "d3,va3,0,3,hold", "d3,va3,3,4,rest",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    arrays = {}
    for video, frames in (("d3", 8), ("c1", 10)):
        arrays[f"{video}_raw"] = rng.normal(size=(frames, 18)).astype(np.float32)
        arrays[f"{video}_time"] = np.arange(frames)
        arrays[f"{video}_va3"] = rng.normal(size=(frames - 4, 32)).astype(np.float32)
    np.savez(tmp_path / "sequences.npz", **arrays)
    (tmp_path / "segments.csv").write_text(HEADER + "\n".join(ROWS) + "\n")
    return tmp_path


@pytest.mark.parametrize(
    ("features", "derived", "width", "frames"),
    [("va3", False, 32, 6), ("raw", False, 18, 10), ("both", False, 50, 6),
     ("va3", True, 60, 6), ("raw", True, 46, 10), ("both", True, 78, 6)],
)  # fmt: skip
def test_shapes(folder: Path, features: str, derived: bool, width: int, frames: int) -> None:
    dataset = load_gesture_phase(folder, features, derived)
    assert dataset.names == ["c1", "d3"]
    assert [X.shape for X in dataset.sequences] == [(frames, width), (frames - 2, width)]
    assert len(set(dataset.feature_names)) == width
    expected = {"raw": [6, 10]}.get(features, [2, 6])
    assert dataset.change_points[0].tolist() == expected
    assert dataset.labels[0][-1] == "stroke"


def test_both_aligns_raw_frame_four_with_va3(folder: Path) -> None:
    both = load_gesture_phase(folder, "both")
    stored = np.load(folder / "sequences.npz")
    np.testing.assert_array_equal(both.sequences[0][:, :18], stored["c1_raw"][4:])
    np.testing.assert_array_equal(both.sequences[0][:, 18:], stored["c1_va3"])
    assert both.feature_names[0] == "left_hand_x"
    assert both.feature_names[18] == "left_hand_velocity_x"
    assert both.feature_names[-1] == "right_wrist_acceleration"


def test_derived_by_hand(folder: Path) -> None:
    dataset = load_gesture_phase(folder, "raw", derived=True)
    raw = np.load(folder / "sequences.npz")["c1_raw"].astype(float)
    column = dict(zip(dataset.feature_names, dataset.sequences[0].T))
    np.testing.assert_allclose(column["right_hand_from_spine_y"], raw[:, 4] - raw[:, 10])
    np.testing.assert_allclose(column["left_wrist_from_head_z"], raw[:, 14] - raw[:, 8])
    steps = np.linalg.norm(raw[1:, 15:18] - raw[:-1, 15:18], axis=1)
    np.testing.assert_allclose(column["right_wrist_step"], [0, *steps])
    later = load_gesture_phase(folder, "va3", derived=True)
    later_column = dict(zip(later.feature_names, later.sequences[0].T))
    np.testing.assert_allclose(later_column["right_wrist_step"], steps[3:])


@pytest.mark.parametrize(
    ("group", "expected"), [("user", ["c", "d"]), ("story", ["1", "3"]), ("video", ["c1", "d3"])]
)
def test_groups(folder: Path, group: str, expected: list[str]) -> None:
    assert load_gesture_phase(folder, group=group).groups == expected


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (
            ROWS[:3],
            "'c1' needs non-empty segments that cover its 6 samples in order, got 1 segments",
        ),
        (["c1,va3,0,3,rest", *ROWS[3:]], "'c1' needs non-empty segments that cover"),
        (ROWS[:6], "'d3' needs non-empty segments that cover its 4 samples"),
        (["c1,va3,0,0,hold", *ROWS], "'c1' needs non-empty segments"),
        ([], "'c1' needs non-empty segments that cover"),
    ],
)
def test_segments_that_do_not_fit(folder: Path, rows: list[str], sentence: str) -> None:
    (folder / "segments.csv").write_text(HEADER + "".join(f"{row}\n" for row in rows))
    with pytest.raises(ValueError, match=sentence):
        load_gesture_phase(folder)


def test_bad_options_and_arrays(folder: Path) -> None:
    with pytest.raises(ValueError, match="features among"):
        load_gesture_phase(folder, "all")
    with pytest.raises(ValueError, match="group among"):
        load_gesture_phase(folder, group="person")
    np.savez(folder / "sequences.npz", c1_raw=np.zeros((10, 18)))
    with pytest.raises(ValueError, match="'c1' needs arrays c1_raw"):
        load_gesture_phase(folder)


def test_name_without_user(folder: Path) -> None:
    arrays = dict(np.load(folder / "sequences.npz"))
    renamed = {key.replace("c1", "clip"): value for key, value in arrays.items()}
    np.savez(folder / "sequences.npz", **renamed)
    text = (folder / "segments.csv").read_text().replace("c1", "clip")
    (folder / "segments.csv").write_text(text)
    assert load_gesture_phase(folder, group="video").groups == ["clip", "d3"]
    with pytest.raises(ValueError, match="'clip' needs a name of letters and a number"):
        load_gesture_phase(folder)


def test_real_videos(shared_folder: Callable[[str], Path]) -> None:
    dataset = load_gesture_phase(shared_folder("gesture_phase"), "both", derived=True)
    assert dataset.names == ["a1", "a2", "a3", "b1", "b3"]
    assert [len(X) for X in dataset.sequences] == [1743, 1260, 1830, 1069, 1420]
    assert [len(ends) for ends in dataset.change_points] == [47, 49, 68, 58, 61]
    column = dict(zip(dataset.feature_names, dataset.sequences[0].T))
    correlation = np.corrcoef(column["left_hand_step"], column["left_hand_speed"])[0, 1]
    assert correlation > 0.5
