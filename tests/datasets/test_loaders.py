"""The loaders of real sequences: made files by hand, damaged ones, and the real files."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from metriclearn import datasets
from metriclearn.datasets import (
    load_beedance,
    load_example,
    load_gesture_phase,
    load_hapt,
    load_mocap6,
    load_neuroblastoma,
)
from metriclearn.datasets.loaders.hapt import CHANNELS, FEATURES
from metriclearn.problem.partition import Partition
from metriclearn.problem.regions import EXACTLY_ONE, NO_CHANGE, Region

RNG = np.random.default_rng(0)
GESTURE = [
    "c1,raw,0,6,rest", "c1,raw,6,10,stroke", "c1,va3,0,2,rest", "c1,va3,2,6,stroke",
    "d3,raw,0,8,hold", "d3,va3,0,3,hold", "d3,va3,3,4,rest",
]  # fmt: skip
PHONE = [
    "exp07_user09,3,12,5,STANDING", "exp07_user09,12,18,7,STAND_TO_SIT",
    "exp07_user09,26,40,7,STAND_TO_SIT", "exp02_user31,0,23,1,WALKING",
]  # fmt: skip
MOTION = ["13_30,0,6,Jog", "13_29,0,3,Jog", "13_29,3,5,Squat", "13_29,5,8,Jog"]
REGIONS = ["7.20,7,20,1,3,0,normal,1", "7.20,7,20,4,6,1,1breakpoint,2", "7.2,7,2,2,4,0,normal,2"]
POINTS = [f"7.2,{v}" for v in (0.5, -0.25, 0, 1)] + [f"7.20,{v}" for v in range(6)]
ARRAYS: dict[str, dict[str, NDArray]] = {
    "beedance": {"b": RNG.uniform(size=(9, 3)), "a": RNG.uniform(size=(7, 3))},
    "gesture_phase": {
        f"{video}_{kind}": RNG.normal(size=(frames, width)).astype(np.float32)
        for video, length in (("d3", 8), ("c1", 10))
        for kind, frames, width in (("raw", length, 18), ("va3", length - 4, 32))
    },
    "hapt": {  # to be cut into windows of 4
        name: RNG.integers(-700, 700, (size, 6)).astype(np.int16)
        for name, size in (("exp07_user09", 40), ("exp02_user31", 23))
    },
    "mocap6": {
        "channels": np.array(["root.ty", "rfoot.rx"]),
        "13_30": RNG.normal(size=(6, 2)),
        "13_29": RNG.normal(size=(8, 2)),
    },
}
# file, header and rows of the table of every data set
TABLES: dict[str, tuple[str, str, list[str]]] = {
    "beedance": ("change_points.csv", "sequence,change_point", ["a,2", "a,6", "b,4"]),
    "gesture_phase": ("segments.csv", "sequence,features,start,end,label", GESTURE),
    "hapt": ("segments.csv", "sequence,start,end,label,name", PHONE),
    "mocap6": ("segments.csv", "sequence,start,end,label", MOTION),
    "neuroblastoma": (
        "annotations.csv.gz",
        "sequence_id,profile_id,chromosome,start,end,changes,annotation,fold",
        REGIONS,
    ),
}


def load(name: str, *arguments: Any, **options: Any) -> Any:
    return getattr(datasets, f"load_{name}")(*arguments, **options)


def write(folder: Path, name: str, rows: list[str] | None = None, arrays: Any = None) -> Path:
    """The made files of a data set, or other rows and arrays in their place."""
    table, header, usual = TABLES[name]
    files = {table: [header, *(usual if rows is None else rows)]}
    if name == "neuroblastoma":
        files["profiles.csv.gz"] = ["sequence_id,logratio", *POINTS]
    else:
        npz = "sequences_int16.npz" if name == "hapt" else "sequences.npz"
        np.savez(folder / npz, **(ARRAYS[name] if arrays is None else arrays))
    for file, lines in files.items():
        content = "".join(f"{line}\n" for line in lines).encode()
        (folder / file).write_bytes(
            gzip.compress(content, mtime=0) if file.endswith(".gz") else content
        )
    return folder


COVER = "needs non-empty segments that cover its"


@pytest.mark.parametrize(
    ("name", "rows", "sentence"),
    [
        *(
            ("beedance", rows, "'beedance' needs a sequence 'a' with its change-points: ")
            for rows in (["a,0", "b,4"], ["a,8", "b,4"], ["a,3", "a,3", "b,4"])
        ),
        ("gesture_phase", GESTURE[:3], f"'c1' {COVER} 6 samples in order, got 1 segments"),
        ("gesture_phase", ["c1,va3,0,3,rest", *GESTURE[3:]], f"'c1' {COVER}"),
        ("gesture_phase", GESTURE[:6], f"'d3' {COVER} 4 samples"),
        ("gesture_phase", [], f"'c1' {COVER}"),
        ("hapt", [], r"'exp02_user31' of 23 samples .* got \[\]"),
        ("hapt", ["exp02_user31,0,24,1,W"], r"'exp02_user31' of 23 samples .* got \[\[0, 24\]\]"),
        (
            "hapt",
            ["exp02_user31,0,9,1,W", "exp02_user31,8,20,1,W"],
            "'exp02_user31' of 23 samples needs",
        ),
        (
            "hapt",
            ["exp02_user31,0,9,1,W", "exp02_user31,9,9,1,W"],
            "'exp02_user31' of 23 samples needs",
        ),
        ("hapt", ["exp02_user31,0,"], r"segments.csv' cannot be read as a CSV file"),
        ("mocap6", ["13_29,0,8,J", "13_30,1,6,J"], COVER),
        ("mocap6", ["13_29,0,9,J", "13_30,0,6,J"], COVER),
        ("mocap6", ["13_29,0,5,J", "13_29,4,8,J", "13_30,0,6,J"], COVER),
        ("neuroblastoma", ["7.3,7,3,1,2,0,normal,1"], "needs annotations .* got .*'7.3'"),
        ("neuroblastoma", ["7.2,7,2,1,2,0,2breakpoints,1"], "needs annotations .*2breakpoints"),
        ("neuroblastoma", ["7.2,7,2,1,5,0,normal,1"], "needs annotations .* got .*'end': 5"),
        ("neuroblastoma", ["7.2,7,2,0,2,0,normal,1"], "needs annotations .* got .*'start': 0"),
    ],
)
def test_rows_that_do_not_fit(tmp_path: Path, name: str, rows: list[str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        load(name, write(tmp_path, name, rows), **({"window": 4} if name == "hapt" else {}))


@pytest.mark.parametrize(
    ("name", "options", "arrays", "sentence"),
    [
        ("beedance", {"window": 4}, None, "load_beedance needs an odd window"),
        ("mocap6", {"window": 0}, None, "load_mocap6 needs an odd window"),
        ("hapt", {"window": 1}, None, "needs a whole window of at least 2"),
        ("hapt", {"unlabeled": "ignore"}, None, 'needs unlabeled="drop", "keep" or "unknown"'),
        ("hapt", {"window": 24}, None, "of 23 samples needs 24 samples or more"),
        ("gesture_phase", {"features": "all"}, None, 'needs features="va3", "raw" or "both"'),
        ("gesture_phase", {"group": "person"}, None, 'needs group="user", "story" or "video"'),
        ("beedance", {}, {"a": np.zeros((7, 2))}, "'a' with its change-points|in sequence 'a'"),
        (
            "gesture_phase",
            {},
            {"c1_raw": np.zeros((10, 18))},
            r"sequences\.npz' cannot be read as arrays VIDEO_raw .* 'c1_va3'",
        ),
        ("mocap6", {}, {"b": np.zeros((4, 2))}, "needs the array channels"),
    ],
)
def test_bad_options_and_arrays(tmp_path, name, options, arrays, sentence) -> None:
    with pytest.raises(ValueError, match=sentence):
        load(name, write(tmp_path, name, arrays=arrays), **options)


@pytest.mark.parametrize(
    ("name", "options", "names", "lengths", "segments", "width"),
    [
        ("beedance", {}, ["bee1", "bee2", "bee3", "bee4"],
         [1057, 1124, 602, 756], [20, 23, 17, 18], 13),
        ("gesture_phase", {"features": "both", "derived": True}, ["a1", "a2", "a3", "b1", "b3"],
         [1743, 1260, 1830, 1069, 1420], [47, 49, 68, 58, 61], 78),
        ("mocap6", {}, ["13_29", "13_30", "13_31", "14_06"],
         [382, 205, 251, 446], [6, 5, 7, 8], 36),
    ],
)  # fmt: skip
def test_real_sequences(shared_folder, name, options, names, lengths, segments, width) -> None:
    dataset = load(name, shared_folder(name), **options)
    assert dataset.names == names
    assert [X.shape for X in dataset.sequences] == [(length, width) for length in lengths]
    assert [len(ends) for ends in dataset.change_points] == segments


def test_real_recordings_of_phones(shared_folder: Callable[[str], Path]) -> None:
    dataset = load_hapt(shared_folder("hapt"))
    assert (len(dataset), len(set(dataset.groups))) == (36, 18)
    assert (dataset.names[0], dataset.groups[0]) == ("exp01_user01", "user01")
    assert (len(dataset.sequences[0]), len(dataset.change_points[0])) == (559, 22)
    assert sum(len(ends) for ends in dataset.change_points) == 735
    assert sum(len(X) for X in dataset.sequences) == 19541
    assert np.linalg.norm(dataset.sequences[0][0, :3]) == pytest.approx(1.0, abs=0.05)  # g


def test_real_series_of_the_archives(shared_folder: Callable[[str], Path]) -> None:
    joined, recorded = (load(name, shared_folder(name)) for name in ("tssb", "utsa"))
    assert (len(joined), len(recorded)) == (50, 22)
    assert {len(ends) for ends in joined.change_points} <= set(range(1, 10))
    assert min(map(len, joined.change_points)) == 1
    assert {len(ends) for ends in recorded.change_points} == {2, 3}
    assert recorded.change_points[recorded.names.index("Cane")].tolist() == [2345, 5340]


def test_series_of_archives_by_hand(tmp_path: Path) -> None:
    arrays = {"a": np.arange(6.0), "b": np.arange(4.0)}
    np.savez(tmp_path / "series.npz", **arrays)
    table = tmp_path / "change_points.csv"
    table.write_text("series,window_size,change_points\nb,2,\na,2,2 5\n", encoding="utf-8")
    data = load("tssb", tmp_path)
    assert [labels.tolist() for labels in data.labels] == [[0] * 4, [0, 0, 1, 1, 1, 2]]
    np.testing.assert_array_equal(data.sequences[1][:, 0], arrays["a"])
    table.write_text("series,window_size,change_points\na,2,2 7\n", encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"sequence 'a' .* change-points from 1 to n_samples=6, got 2 to 7"
    ):
        load("utsa", tmp_path)


def test_real_profiles(shared_folder: Callable[[str], Path]) -> None:
    data = load_neuroblastoma(shared_folder("neuroblastoma"))
    assert (len(data), len(set(data.groups))) == (154, 53)
    assert sum(map(len, data.sequences)) == 495_305
    kinds = [region.kind for regions in data.regions for region in regions]
    assert (kinds.count(NO_CHANGE), kinds.count(EXACTLY_ONE)) == (227, 256)
    folds = np.concatenate(data.folds)
    assert (np.sum(folds == 1), np.sum(folds == 2)) == (290, 193)
    assert all(len(known.regions) for fold in (1, 2) for known in data.known(fold))


def test_bees_by_hand(tmp_path: Path) -> None:
    folder = write(tmp_path, "beedance")
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


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_turn_and_speed_of_a_circle(tmp_path: Path, sign: float) -> None:
    """A bee on a circle of radius 1/2 turns by its angle per frame, or back by it."""
    angle = 0.1 * np.arange(200)
    xy = 0.5 + 0.5 * np.column_stack([np.cos(angle), sign * np.sin(angle)])
    folder = write(tmp_path, "beedance", ["a,100"], {"a": np.column_stack([xy, np.zeros(200)])})
    turn, speed = load_beedance(folder, window=3).sequences[0][10:190, -2:].T
    np.testing.assert_allclose(turn, sign * 0.1, rtol=1e-6)
    # a mean of three points on a circle, and a difference over two frames, shrink the step
    expected = 0.5 * np.sin(0.1) * (1 + 2 * np.cos(0.1)) / 3
    np.testing.assert_allclose(speed, np.log(expected + 1e-4), rtol=1e-6)


def test_motion_capture_by_hand(tmp_path: Path) -> None:
    folder = write(tmp_path, "mocap6")
    raw, dataset = load_mocap6(folder, derived=False), load_mocap6(folder, window=3)
    assert raw.names == ["13_29", "13_30"]
    assert raw.labels[0].tolist() == ["Jog"] * 3 + ["Squat"] * 2 + ["Jog"] * 3
    assert [ends.tolist() for ends in dataset.change_points] == [[3, 5, 8], [6]]
    X = raw.sequences[0]
    row = dict(zip(dataset.feature_names, dataset.sequences[0][4]))
    assert row["rfoot.rx"] == X[4, 1]
    assert row["root.ty_mean"] == pytest.approx(X[3:6, 0].mean())
    assert row["root.ty_log_sd"] == pytest.approx(np.log(X[3:6, 0].std() + 1e-2))
    assert row["rfoot.rx_log_sd"] == pytest.approx(np.log(X[3:6, 1].std() + 1e-1))


def test_gestures_by_hand(tmp_path: Path) -> None:
    folder, raw = write(tmp_path, "gesture_phase"), ARRAYS["gesture_phase"]["c1_raw"].astype(float)
    both = load_gesture_phase(folder, "both")  # row t of va3 is frame t + 4 of raw
    np.testing.assert_array_equal(both.sequences[0][:, :18], raw[4:])
    np.testing.assert_array_equal(both.sequences[0][:, 18:], ARRAYS["gesture_phase"]["c1_va3"])
    assert both.feature_names[0] == "left_hand_x"
    assert both.feature_names[18] == "left_hand_velocity_x"
    assert both.feature_names[-1] == "right_wrist_acceleration"
    first, later = (load_gesture_phase(folder, kind, derived=True) for kind in ("raw", "va3"))
    column = dict(zip(first.feature_names, first.sequences[0].T))
    np.testing.assert_allclose(column["right_hand_from_spine_y"], raw[:, 4] - raw[:, 10])
    np.testing.assert_allclose(column["left_wrist_from_head_z"], raw[:, 14] - raw[:, 8])
    steps = np.linalg.norm(raw[1:, 15:18] - raw[:-1, 15:18], axis=1)
    np.testing.assert_allclose(column["right_wrist_step"], [0, *steps])
    later_column = dict(zip(later.feature_names, later.sequences[0].T))
    np.testing.assert_allclose(later_column["right_wrist_step"], steps[3:])


def test_groups_of_gestures(tmp_path: Path) -> None:
    folder = write(tmp_path, "gesture_phase")
    expected = {"user": ["c", "d"], "story": ["1", "3"], "video": ["c1", "d3"]}
    for group, names in expected.items():
        assert load_gesture_phase(folder, group=group).groups == names


def test_windows_of_phones_by_hand(tmp_path: Path) -> None:
    folder = write(tmp_path, "hapt")
    dropped, kept = load_hapt(folder, 4), load_hapt(folder, 4, unlabeled="keep")
    assert dropped.names == ["exp02_user31", "exp07_user09"]
    assert dropped.groups == ["user31", "user09"]
    # windows of exp07: [0,4) gap, [4,12) first, [12,16) second, [16,20) half and half,
    # which goes to the earlier one, [20,24) gap, [24,28) half and half: gap, [28,40) third
    assert kept.labels[1].tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4, 4]
    assert dropped.labels[1].tolist() == [0, 0, 1, 1, 2, 2, 2]
    assert dropped.labels[0].tolist() == [0] * 5
    unknown = load_hapt(folder, 4, unlabeled="unknown")
    assert unknown.labels[1].tolist() == [-1, 0, 0, 1, 1, -1, -1, 2, 2, 2]
    np.testing.assert_array_equal(unknown.sequences[1], kept.sequences[1])
    activities = load_hapt(folder, 4, unlabeled="keep", labels="activities")
    assert activities.labels[1].tolist() == [0, 5, 5, 7, 7, 0, 0, 7, 7, 7]
    np.testing.assert_array_equal(dropped.sequences[1], kept.sequences[1][[1, 2, 3, 4, 7, 8, 9]])
    assert [ends.tolist() for ends in dropped.change_points] == [[5], [2, 4, 7]]


def test_units_and_names_of_phones(tmp_path: Path) -> None:
    folder = write(tmp_path, "hapt")
    dataset = load_hapt(folder, 4, "extended", "keep")
    values = ARRAYS["hapt"]["exp07_user09"].astype(float)
    acc, gyro = values[4:8, :3] / 720, values[4:8, 3:] * 0.0175 * np.pi / 180
    row = dict(zip(dataset.feature_names, dataset.sequences[1][1]))
    assert row["acc_x_mean"] == pytest.approx(acc[:, 0].mean())
    assert row["gyro_z_max"] == pytest.approx(gyro[:, 2].max())
    assert row["acc_y_log_sd"] == pytest.approx(np.log(acc[:, 1].std() + 1e-3))
    assert row["gyro_x_mean_abs_diff"] == pytest.approx(np.abs(np.diff(gyro[:, 0])).mean())
    assert row["gyro_y_slope"] == pytest.approx((gyro[3, 1] - gyro[0, 1]) / 3)
    assert row["acc_norm_median"] == pytest.approx(np.median(np.linalg.norm(acc, axis=1)))
    assert row["gyro_norm_min"] == pytest.approx(np.linalg.norm(gyro, axis=1).min())
    assert dataset.sequences[1].shape == (10, 80)
    basic = load_hapt(folder, 4)
    assert len(basic.feature_names) == 36
    assert basic.feature_names[:7] == [f"{channel}_mean" for channel in CHANNELS] + ["acc_x_sd"]
    raw, both = (load_hapt(folder, 4, features, "keep") for features in ("raw", "both"))
    np.testing.assert_allclose(raw.sequences[1][1].reshape(4, 6), np.hstack([acc, gyro]))
    assert raw.feature_names[5:8] == ["gyro_z_0", "acc_x_1", "acc_y_1"]
    parts = [raw.sequences[1], load_hapt(folder, 4, unlabeled="keep").sequences[1]]
    np.testing.assert_array_equal(both.sequences[1], np.hstack(parts))
    assert both.feature_names == raw.feature_names + basic.feature_names


def bands(windows: NDArray) -> list[NDArray]:
    """Standard deviations carried by the low and the high frequencies."""
    return [np.exp(FEATURES[f"log_{band}_band"](windows)) - 1e-3 for band in ("low", "high")]


def test_slow_wave_is_in_the_low_band_and_a_still_phone_has_finite_features() -> None:
    time = np.arange(25) / 50
    waves = np.stack([np.sin(2 * np.pi * hertz * time) for hertz in (4.0, 12.0)], axis=1)[None]
    half = np.sqrt(0.5)
    np.testing.assert_allclose(bands(waves), [[[half, 0]], [[0, half]]], atol=1e-9)
    still = np.zeros((1, 2, 1))
    assert all(np.isfinite(function(still)).all() for function in FEATURES.values())


def test_profiles_and_regions_by_hand(tmp_path: Path) -> None:
    data = load_neuroblastoma(write(tmp_path, "neuroblastoma"))
    assert (data.names, data.groups) == (["7.2", "7.20"], ["7", "7"])
    np.testing.assert_array_equal(data.sequences[0], [[0.5], [-0.25], [0], [1]])
    assert data.regions[1] == [Region(0, 3, NO_CHANGE), Region(3, 6, EXACTLY_ONE)]
    assert [len(k.regions) for k in data.known(1)] == [0, 1]
    assert [len(k.regions) for k in data.known(2)] == [1, 1]
    assert [len(k.regions) for k in data.known()] == [1, 2]
    assert data.select([1]).names == ["7.20"]
    # region 4 to 6 counted from 1: a change between points 4|5 or 5|6, that is at 4 or 5
    for ends, expected in {
        (6,): (0, 1), (3, 6): (0, 1), (4, 6): (0, 0), (5, 6): (0, 0),
        (4, 5, 6): (1, 0), (1, 4, 6): (1, 0), (2, 3, 6): (1, 1),
    }.items():  # fmt: skip
        assert data.known()[1].label_errors(Partition.from_change_points(ends)) == expected


def test_unknown_example_names_those_that_are_there() -> None:
    with pytest.raises(ValueError, match=r"load_example needs a name of .*bees.*got 'wasps'"):
        load_example("wasps")
