"""Public data sets: the real files, made files by hand, and damaged ones. A data set is a row."""

import lzma
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metriclearn import datasets
from metriclearn.datasets import (
    AnnotatedProfiles,
    LabeledImages,
    LabeledSequences,
    LabeledTable,
    load_dataset,
    load_example,
    registry,
)
from metriclearn.problem.partition import Partition
from metriclearn.problem.regions import EXACTLY_ONE, NO_CHANGE, Region
from tests.datasets.made import ARRAYS, FIRST, GESTURE, NAMED, STORED, TEXTS, content, texts, write

COMING_WITH_SCIKIT_LEARN = {"iris", "wine", "digits", "breast_cancer"}
# name, options, and what its documentation says: recordings, groups, rows, segments (equal
# neighbors are one), labels, features, and the mean of their sizes
REAL: list[tuple[str, dict[str, Any], tuple[float, ...]]] = [
    ("hapt", {}, (36, 18, 19541, 735, 23, 36, 1.74249)),
    ("hapt", {"features": "extended", "unlabeled": "unknown"},
     (36, 18, 26306, 1115, 24, 80, 1.16283)),
    ("hapt", {"window": 200, "unlabeled": "keep", "labels": "activities"},
     (36, 18, 3273, 1051, 13, 36, 1.45122)),
    ("gesture_phase", {"features": "both", "derived": True}, (5, 2, 7322, 283, 5, 78, 0.984714)),
    ("beedance", {}, (4, 4, 3539, 78, 23, 13, 2.06085)),
    ("mocap6", {}, (4, 4, 1284, 26, 10, 36, 9.35091)),
    ("tssb", {}, (50, 50, 246150, 188, 9, 1, 0.763119)),
    ("utsa", {}, (22, 22, 287010, 50, 3, 1, 311.517)),
    ("gazecom", {"step": 25}, (163, 11, 32474, 8133, 4, 10, 1.56976)),
    ("birdsong", {}, (94, 94, 204766, 9655, 10, 64, 40.6809)),
    ("billboard", {}, (443, 443, 192398, 4645, 28, 50, 0.58136)),
    ("piano_keys", {}, (32, 32, 13198, 219, 18, 36, 0.215412)),
    ("chest_accelerometer", {}, (15, 15, 37047, 135, 7, 11, 596.244)),
    ("skab", {}, (34, 4, 37401, 100, 2, 8, 49.766)),
    ("texts", {"n_components": 3}, (57, 57, 2110, 217, 7, 4, 0.385603)),
    ("texts", {"n_components": 3, "held_out": 0.45}, (502, 53, 14495, 1893, 8, 4, 0.41326)),
    # samples, features, classes, samples of the smallest class
    ("iris", {}, (150, 4, 3, 50, 3.4645)),
    ("wine", {}, (178, 13, 3, 48, 69.13366)),
    ("digits", {}, (1797, 61, 10, 174, 5.1243694)),
    ("breast_cancer", {}, (569, 30, 2, 212, 61.89071)),
    ("letter", {}, (20000, 16, 26, 734, 5.925466)),
    ("libras", {}, (360, 90, 15, 24, 0.511780)),
    # images, label maps, regions
    ("weizmann_horses", {}, (110, 110, 220, 118.7691)),
    ("bsds500", {}, (16, 90, 2057, 118.8925)),
    # sequences, profiles, points, regions with no change and with one, regions of fold 1
    ("neuroblastoma", {}, (154, 53, 495_305, 227, 256, 290)),
]  # fmt: skip


def facts(data: Any) -> list[float]:
    if isinstance(data, LabeledTable):
        sizes = np.unique(data.y, return_counts=True)[1]
        return [*data.X.shape, len(sizes), sizes.min(), np.abs(data.X).mean()]
    if isinstance(data, LabeledImages):
        regions = [len(np.unique(labels)) for maps in data.label_maps for labels in maps]
        means = [image.mean() for image in data.images]
        return [len(data), len(regions), sum(regions), np.mean(means)]
    found = [len(data), len(set(data.groups)), sum(map(len, data.sequences))]
    if isinstance(data, AnnotatedProfiles):
        kinds = [region.kind for regions in data.regions for region in regions]
        counts = [kinds.count(NO_CHANGE), kinds.count(EXACTLY_ONE)]
        return [*found, *counts, sum(len(known.regions) for known in data.known(1))]
    names = {name for labels in data.labels for name in labels.tolist()}
    mean = np.mean([np.abs(X).mean() for X in data.sequences])
    segments = sum(map(len, data.change_points))
    return [*found, segments, len(names), len(data.feature_names), mean]


@pytest.mark.parametrize(("name", "options", "expected"), REAL)
def test_real_files(shared_folder: Callable[[str], Path], name, options, expected) -> None:
    root = None if name in COMING_WITH_SCIKIT_LEARN else shared_folder(name)
    np.testing.assert_allclose(facts(load_dataset(name, root, **options)), expected, rtol=5e-6)


@pytest.mark.parametrize(
    ("name", "recording", "rows", "labels"),  # rows of half a second, labels of the first
    [
        ("jamendo_singing", "song02", 316, {"instrumental", "singing"}),
        ("ami_turns", "trn05", 60, None),
        ("musanmix", "musanmix", 149, {"music", "noise", "male", "noEnergy"}),
        ("speech_segments", "diarizationExample", 84,
         {"speakerA", "speakerB", "speakerC", "speakerD"}),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Segments too short for a row")
def test_real_sound(shared_folder, tmp_path, name, recording, rows, labels) -> None:
    audio = pytest.importorskip("metriclearn.features.media.audio")
    options = {"recordings": [recording], "cache": tmp_path}
    extractor = audio.AudioFeatures(2.0, n_mfcc=2, deltas=0)
    data = load_dataset(name, shared_folder(name), extractor=extractor, **options)
    assert (data.name, data.names, data.sequences[0].shape) == (name, [recording], (rows, 6))
    assert labels is None or set(data.labels[0].tolist()) == labels
    assert data.groups == (["trn04-06"] if name == "ami_turns" else [recording])


def test_real_series_have_five_annotators(shared_folder: Callable[[str], Path]) -> None:
    series = {item.name: item for item in load_dataset("tcpd", shared_folder("tcpd"))}
    assert (len(series), sum(len(item.annotations) for item in series.values())) == (24, 120)
    assert series["run_log"].values.shape == (376, 2)
    assert series["nile"].annotations["7"].tolist() == [28, 100]
    assert series["bank"].annotations["6"].tolist() == [581]


def test_real_penalties_score_as_published(shared_folder: Callable[[str], Path]) -> None:
    import pandas as pd

    root = shared_folder("penalties")
    published = pd.read_csv(root / "published.csv")
    for name, size in (("H3K4me3_TDH_other", 90), ("H3K36me3_AM_immune", 420)):
        data, folds = load_dataset("penalties", root, set=name)
        assert len(data) == size
        grid = np.linspace(0, 20, 100)
        errors = np.array([data.errors_at(np.full(size, z)) for z in grid])
        labels, right = np.array(data.n_labels), []
        for fold in np.unique(folds):
            best = np.argmin(errors[:, folds != fold].sum(axis=1))
            wrong = errors[best, folds == fold].sum() / labels[folds == fold].sum()
            right.append(100 * (1 - wrong))
        rows = published[(published["set"] == name) & (published["model"] == "baseline_0")]
        assert np.mean(right) == pytest.approx(rows["percent_correct"].mean(), abs=1.5)
    with pytest.raises(ValueError, match="one log penalty for each of the 420"):
        data.errors_at([1.0])
    with pytest.raises(ValueError, match="needs a set and its folds"):
        load_dataset("penalties", root, set="nothing")


def test_every_data_set_has_a_line_in_the_table_of_the_docstring() -> None:
    assert not set(registry.SOURCES) - set(re.findall(r"\w+", str(load_dataset.__doc__)))


COVER = "needs non-empty segments that cover its"
HALF = ["exp02_user31,0,9,1,W"]
BAD_ROWS = [
    *(("beedance", [f"a,{a}", "b,4"], "'beedance' needs a sequence 'a' with") for a in (0, 8)),
    ("beedance", ["a,3", "a,3", "b,4"], "'beedance' needs a sequence 'a' with its change-points: "),
    ("beedance", ["a,3"], r"needs a row of change_points.csv for each .* \['b'\] in only one"),
    ("tssb", ["a,2,2 7", "b,2,"], "change-points from 1 to n_samples=6, got 2 to 7"),
    ("tssb", ["a,2,2 x", "b,2,"], "'tssb' needs a sequence 'a' with its change-points: invalid"),
    ("gesture_phase", GESTURE[:3], f"'c1' {COVER} 6 samples in order, got 1 segments"),
    ("gesture_phase", GESTURE[:6], f"'d3' {COVER} 4 samples"),
    ("hapt", [], r"'exp02_user31' of 23 samples .* got \[\]"),
    ("hapt", ["exp02_user31,0,24,1,W"], r"'exp02_user31' of 23 samples .* got \[\[0, 24\]\]"),
    ("hapt", [*HALF, "exp02_user31,8,20,1,W"], "'exp02_user31' of 23 samples needs"),
    ("hapt", ["exp02_user31,0,1,1,W"], "'exp02_user31' has no window of 4 samples that is mostly"),
    ("hapt", ["exp02_user31,0,"], r"segments.csv' cannot be read as a CSV file"),
    ("mocap6", ["13_29,0,8,J", "13_30,1,6,J"], COVER),
    *((name, NAMED[:i] + NAMED[i + 1 :], COVER) for name in STORED for i in range(3)),
    ("neuroblastoma", ["7.3,7,3,1,2,0,normal,1"], "needs annotations .* got .*'7.3'"),
    ("neuroblastoma", ["7.2,7,2,1,2,0,2breakpoints,1"], "needs annotations .*2breakpoints"),
    ("neuroblastoma", ["7.2,7,2,1,5,0,normal,1"], "needs annotations .* got .*'end': 5"),
    ("neuroblastoma", ["7.2,7,2,0,2,0,normal,1"], "needs annotations .* got .*'start': 0"),
]
BAD_OPTIONS = [
    ("beedance", {"window": 4}, "'beedance'. needs an odd window"),
    ("mocap6", {"window": 0}, "'mocap6'. needs an odd window"),
    ("hapt", {"window": 1}, "needs a whole window of at least 2"),
    ("hapt", {"unlabeled": "ignore"}, 'needs unlabeled="drop", "keep" or "unknown"'),
    ("hapt", {"window": 24}, "of 23 samples needs 24 samples or more"),
    ("hapt", {"windows": 4}, r"has the options \['root', 'window', .* got \['windows'\]"),
    ("tssb", {"window": 3}, r"'tssb'. has the options \['root', 'step'\], got \['window'\]"),
    ("gesture_phase", {"features": "all"}, 'needs features="va3", "raw" or "both"'),
    ("gesture_phase", {"group": "person"}, 'needs group="user", "story" or "video"'),
    ("birdsong", {"step": 0}, "'birdsong'. needs a whole step of at least 1"),
    ("birdsong", {"step": 31}, "'birdsong' needs step=31 rows or more .* got 30 in 'a_2'"),
    ("texts", {"fitted": ["z"]}, r"fitted among the names of its 1 documents, got \['z'\]"),
    ("texts", {"fitted": []}, "fitted among the names of its 1 documents, got none"),
    ("texts", {"n_components": 200}, "more words than components"),
    ("tcpd", {"names": ["other"]}, r"got \['other'\] without annotations"),
]
BAD_ARRAYS = [
    ("beedance", {"a": np.zeros((7, 2)), "b": np.zeros((9, 2))},
     r"'beedance' needs the columns \['x', 'y', 'heading'\] in sequences.npz, got 2 in 'a'"),
    ("gesture_phase", {"c1_raw": np.zeros((10, 18))},
     r"sequences\.npz' cannot be read as arrays VIDEO_raw .* 'c1_va3'"),
    ("mocap6", {"13_29": np.zeros((8, 2)), "13_30": np.zeros((6, 2))},
     r"'mocap6' needs the columns \[\] in sequences\.npz, got 2 in '13_29'"),
    ("hapt", {"exp02_user31": np.zeros((23, 5))}, r"'exp02_user31' needs .* got .* \(23, 5\)"),
    ("beedance", {"a": np.full((7, 3), np.nan), "b": np.zeros((9, 3))}, "finite numbers .* 'a'"),
    ("piano_keys", {"a_2": np.full((30, 14), np.inf), "b_1": np.zeros((40, 14))},
     "'piano_keys' needs finite numbers in sequences.npz, .* others in 'a_2'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "rows", "arrays", "options", "sentence"),
    [
        *((name, rows, None, {}, text) for name, rows, text in BAD_ROWS),
        *((name, None, None, options, text) for name, options, text in BAD_OPTIONS),
        *((name, None, arrays, {}, text) for name, arrays, text in BAD_ARRAYS),
    ],
)
def test_what_does_not_fit(tmp_path, name, rows, arrays, options, sentence) -> None:
    usual = {"window": 4} if name == "hapt" else {}
    with pytest.raises(ValueError, match=sentence):
        load_dataset(name, write(tmp_path, name, rows, arrays), **{**usual, **options})


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        ("datasets/toy.json", content([1, 2, 3]), "every column needs 5 samples"),
        ("datasets/toy.json", content([None] * 5), "not all of them missing"),
        ("datasets/toy.json", content([1, 2, 3, 4, 5])[:80], "cannot be read as JSON"),
        ("datasets/toy.json", '{"n_obs": 5}', "KeyError: 'series'"),
        ("annotations.json", '{"toy": {"6": [5]}}', "annotations.* distinct change-points, got 5"),
        ("annotations.json", '{"toy": {"6": [0]}}', "annotations.* got 0 to 5"),
        ("annotations.json", '{"toy": {"6": [9]}}', "annotations.* n_samples=5, got 5 to 9"),
        ("annotations.json", '{"toy": {}}', "annotations.* it needs an annotator"),
        ("annotations.json", '{"toy": [3]}', "annotations.*AttributeError"),
    ],
)  # fmt: skip
def test_damaged_series(tmp_path: Path, file: str, text: str, sentence: str) -> None:
    (write(tmp_path, "tcpd") / file).write_text(text)
    with pytest.raises(ValueError, match=rf"datasets/toy\.json' .*{sentence}"):
        load_dataset("tcpd", tmp_path, names=["toy"])


@pytest.mark.parametrize("name", sorted({*registry.SOURCES} - COMING_WITH_SCIKIT_LEARN))
def test_missing_files_are_one_sentence(name: str, tmp_path: Path, monkeypatch) -> None:
    """What a data set needs to be found, or to be downloaded."""
    monkeypatch.setattr(registry, "RETRIES", 0)
    options: dict[str, Any] = {}
    if "extractor" in registry.SOURCES[name].options:
        with pytest.raises(ValueError, match=rf"'{name}'. needs an extractor"):
            load_dataset(name, tmp_path)
        options = {"extractor": None}
    if registry.SOURCES[name].files:
        options = {"base_url": "http://127.0.0.1:9"}
    text = rf"'{name}' needs .*: (take|put) .* METRICLEARN_DATA|could not be downloaded from http"
    with pytest.raises((FileNotFoundError, ConnectionError), match=text):
        load_dataset(name, tmp_path, **options)
    assert registry.SOURCES[name].license


def test_names_that_are_gone_or_unknown_have_a_successor() -> None:
    with pytest.raises(AttributeError, match=r'no .*\.load_hapt; call .*\.load_dataset\("hapt"'):
        _ = datasets.load_hapt
    with pytest.raises(ImportError, match=r'no .*\.load_letters; call .*load_dataset\("letter", …'):
        from metriclearn.datasets import load_letters  # noqa: F401
    assert not hasattr(datasets, "load_nothing")
    with pytest.raises(ValueError, match=r"load_dataset needs a name of .*'hapt'.*, got 'nothing'"):
        load_dataset("nothing")
    with pytest.raises(ValueError, match=r"load_example needs a name of .*bees.*got 'wasps'"):
        load_example("wasps")


def test_tables_select_rows_and_classes() -> None:
    table = load_dataset("iris")
    assert table.classes.tolist() == ["setosa", "versicolor", "virginica"]
    assert table.feature_names[2] == "petal length (cm)"
    np.testing.assert_allclose(table.X.sum(axis=0), [876.5, 458.6, 563.7, 179.9], atol=1e-9)
    some = table.of_classes(["virginica", "setosa"])
    assert (some.classes.tolist(), len(some)) == (["setosa", "virginica"], 100)
    np.testing.assert_array_equal(table.select([149, 0]).X, table.X[[149, 0]])
    assert table.select([149, 0]).y.tolist() == ["virginica", "setosa"]


def made(tmp_path: Path, name: str, arrays: Any = None, **options: Any) -> LabeledSequences:
    return load_dataset(name, write(tmp_path, name, None, arrays), **options)


def row(data: LabeledSequences, i: int, t: int) -> dict[str, float]:
    return dict(zip(data.feature_names, data.sequences[i][t]))


def test_series_by_hand(tmp_path: Path) -> None:
    data = made(tmp_path, "tssb")
    assert [labels.tolist() for labels in data.labels] == [[0, 0, 1, 1, 1, 2], [0] * 4]
    np.testing.assert_array_equal(data.sequences[0][:, 0], ARRAYS["tssb"]["a"])


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_turn_and_speed_of_a_circle(tmp_path: Path, sign: float) -> None:
    """A bee on a circle of radius 1/2 turns by its angle per frame, or back by it."""
    angle = 0.1 * np.arange(200)
    xy = 0.5 + 0.5 * np.column_stack([np.cos(angle), sign * np.sin(angle)])
    folder = write(tmp_path, "beedance", ["a,100"], {"a": np.column_stack([xy, np.zeros(200)])})
    turn, speed = load_dataset("beedance", folder, window=3).sequences[0][10:190, -2:].T
    np.testing.assert_allclose(turn, sign * 0.1, rtol=1e-6)
    # a mean of three points on a circle, and a difference over two frames, shrink the step
    expected = 0.5 * np.sin(0.1) * (1 + 2 * np.cos(0.1)) / 3
    np.testing.assert_allclose(speed, np.log(expected + 1e-4), rtol=1e-6)


def test_motion_capture_by_hand(tmp_path: Path) -> None:
    raw, data = (made(tmp_path, "mocap6", **o) for o in ({"derived": False}, {"window": 3}))
    assert raw.names == ["13_29", "13_30"]
    assert raw.labels[0].tolist() == ["Jog"] * 3 + ["Squat"] * 2 + ["Jog"] * 3
    assert [ends.tolist() for ends in data.change_points] == [[3, 5, 8], [6]]
    X, found = raw.sequences[0], row(data, 0, 4)
    assert found["rfoot.rx"] == X[4, 1]
    assert found["root.ty_mean"] == pytest.approx(X[3:6, 0].mean())
    assert found["root.ty_log_sd"] == pytest.approx(np.log(X[3:6, 0].std() + 1e-2))
    assert found["rfoot.rx_log_sd"] == pytest.approx(np.log(X[3:6, 1].std() + 1e-1))


def test_gestures_by_hand(tmp_path: Path) -> None:
    raw = ARRAYS["gesture_phase"]["c1_raw"].astype(float)
    both = made(tmp_path, "gesture_phase", features="both")  # row t of va3 is frame t + 4 of raw
    va3 = ARRAYS["gesture_phase"]["c1_va3"]
    np.testing.assert_array_equal(both.sequences[0], np.hstack([raw[4:], va3]))
    names = [both.feature_names[i] for i in (0, 18, -1)]
    assert names == ["left_hand_x", "left_hand_velocity_x", "right_wrist_acceleration"]
    first, later = (
        load_dataset("gesture_phase", tmp_path, features=kind, derived=True)
        for kind in ("raw", "va3")
    )
    column = dict(zip(first.feature_names, first.sequences[0].T))
    np.testing.assert_allclose(column["right_hand_from_spine_y"], raw[:, 4] - raw[:, 10])
    np.testing.assert_allclose(column["left_wrist_from_head_z"], raw[:, 14] - raw[:, 8])
    steps = np.linalg.norm(raw[1:, 15:18] - raw[:-1, 15:18], axis=1)
    np.testing.assert_allclose(column["right_wrist_step"], [0, *steps])
    np.testing.assert_allclose(later.sequences[0][:, -1], steps[3:])
    expected = {"user": ["c", "d"], "story": ["1", "3"], "video": ["c1", "d3"]}
    for group, groups in expected.items():
        assert load_dataset("gesture_phase", tmp_path, group=group).groups == groups
    arrays = {name.replace("c1", "1c"): X for name, X in ARRAYS["gesture_phase"].items()}
    write(tmp_path, "gesture_phase", [row.replace("c1", "1c") for row in GESTURE], arrays)
    for group in ("user", "story"):  # a name without a user or a story is a group of its own
        assert load_dataset("gesture_phase", tmp_path, group=group).groups[0] == "1c"


def test_units_and_features_of_phones(tmp_path: Path) -> None:
    write(tmp_path, "hapt")
    extended, basic, raw, both = (
        load_dataset("hapt", tmp_path, window=4, features=features, unlabeled="keep")
        for features in ("extended", "basic", "raw", "both")
    )
    values = ARRAYS["hapt"]["exp07_user09"].astype(float)
    acc, gyro = values[4:8, :3] / 720, values[4:8, 3:] * 0.0175 * np.pi / 180
    found = row(extended, 1, 1)
    assert found["acc_x_mean"] == pytest.approx(acc[:, 0].mean())
    assert found["gyro_z_max"] == pytest.approx(gyro[:, 2].max())
    assert found["acc_y_log_sd"] == pytest.approx(np.log(acc[:, 1].std() + 1e-3))
    assert found["gyro_x_mean_abs_diff"] == pytest.approx(np.abs(np.diff(gyro[:, 0])).mean())
    assert found["gyro_y_slope"] == pytest.approx((gyro[3, 1] - gyro[0, 1]) / 3)
    assert found["acc_norm_median"] == pytest.approx(np.median(np.linalg.norm(acc, axis=1)))
    assert found["gyro_norm_min"] == pytest.approx(np.linalg.norm(gyro, axis=1).min())
    assert extended.sequences[1].shape == (10, 80)
    assert (len(basic.feature_names), basic.feature_names[5:8:2]) == (
        36,
        ["gyro_z_mean", "acc_y_sd"],
    )
    np.testing.assert_allclose(raw.sequences[1][1].reshape(4, 6), np.hstack([acc, gyro]))
    assert raw.feature_names[5:8] == ["gyro_z_0", "acc_x_1", "acc_y_1"]
    parts = [raw.sequences[1], basic.sequences[1]]
    np.testing.assert_array_equal(both.sequences[1], np.hstack(parts))
    assert both.feature_names == raw.feature_names + basic.feature_names


def test_slow_wave_is_in_the_low_band_and_a_still_phone_has_finite_features(tmp_path) -> None:
    waves = [np.sin(2 * np.pi * hertz * np.arange(25) / 50) for hertz in (4.0, 12.0)]
    stored = np.zeros((25, 6))
    stored[:, :2] = 7200 * np.column_stack(waves)  # of 10 g
    folder = write(tmp_path, "hapt", ["a_u,0,25,1,W"], {"a_u": np.round(stored).astype(np.int16)})
    data = load_dataset("hapt", folder)
    found, half = row(data, 0, 0), 10 * np.sqrt(0.5)
    for band, powers in (("low", [half, 0, 0]), ("high", [0, half, 0])):
        logs = [found[f"acc_{axis}_log_{band}_band"] for axis in "xyz"]
        np.testing.assert_allclose(np.exp(logs) - 1e-3, powers, atol=1e-3)


@pytest.mark.parametrize("name", STORED)
def test_named_recordings(name: str, tmp_path: Path) -> None:
    """Rows are means, with the label of their middle."""
    whole, halves = made(tmp_path, name, step=1), made(tmp_path, name, step=8)
    order = ["b_1", "a_2"] if name == "gazecom" else ["a_2", "b_1"]  # by film, then viewer
    assert whole.names == order
    assert whole.groups == (["b", "a"] if name == "gazecom" else order)
    first, second = ("G major", "A minor") if name == "piano_keys" else ("x", "y")
    i = order.index("b_1")
    assert whole.labels[i].tolist() == [first] * 12 + [second] * 28
    assert np.isfinite(whole.sequences[i]).all()
    assert halves.labels[i].tolist() == [first] + [second] * 4  # the second middle is sample 12
    expected = whole.sequences[i][:40].reshape(5, 8, -1).mean(axis=1)
    np.testing.assert_allclose(halves.sequences[i], expected)
    assert len(halves.sequences[1 - i]) == 3  # two samples are left over


def test_profiles_and_regions_by_hand(tmp_path: Path) -> None:
    data = load_dataset("neuroblastoma", write(tmp_path, "neuroblastoma"))
    assert (data.names, data.groups) == (["7.2", "7.20"], ["7", "7"])
    np.testing.assert_array_equal(data.sequences[0], [[0.5], [-0.25], [0], [1]])
    assert data.regions[1] == [Region(0, 3, NO_CHANGE), Region(3, 6, EXACTLY_ONE)]
    counts = {fold: [len(k.regions) for k in data.known(fold)] for fold in (1, 2, None)}
    assert counts == {1: [0, 1], 2: [1, 1], None: [1, 2]}
    assert data.select([1]).names == ["7.20"]
    # region 4 to 6 counted from 1: a change between points 4|5 or 5|6, that is at 4 or 5
    for ends, expected in {
        (6,): (0, 1), (3, 6): (0, 1), (4, 6): (0, 0), (5, 6): (0, 0),
        (4, 5, 6): (1, 0), (1, 4, 6): (1, 0), (2, 3, 6): (1, 1),
    }.items():  # fmt: skip
        assert data.known()[1].label_errors(Partition.from_change_points(ends)) == expected


def test_recordings_for_test_may_be_of_one_person(tmp_path: Path) -> None:
    (tmp_path / "recordings").mkdir()
    for name in ("p01", "p02"):
        file = tmp_path / "recordings" / f"{name}.csv"
        file.write_text("time,mean_x,activity\n0,1.5,walk\n1,2,walk\n2,0.5,stand\n")
    (tmp_path / "groups.csv").write_text("recording,group\np01,Ann\np02,Ann\n")
    assert load_dataset("chest_accelerometer", tmp_path).groups == ["Ann", "Ann"]


def test_profiles_may_have_no_regions(tmp_path: Path) -> None:
    data = load_dataset("neuroblastoma", write(tmp_path, "neuroblastoma", []))
    assert [len(known.regions) for known in data.known()] == [0, 0]


def documents(folder: Path, parts: dict[str, list[str]], **options: Any) -> LabeledSequences:
    folder.mkdir(exist_ok=True)
    return load_dataset("texts", texts(folder, parts), **{"n_components": 3, **options})


def test_no_excerpt_is_in_two_documents(tmp_path: Path) -> None:
    data = documents(tmp_path, {"a": FIRST, "b": TEXTS[2:], "c": TEXTS[:4]})
    assert data.names == data.groups == ["a", "b"]  # c has only what a and b have
    assert [y.tolist() for y in data.labels] == [[0, 0, 1, 1, 2, 2]] * 2  # b without a's planets
    assert [X.shape for X in data.sequences] == [(6, 4)] * 2


def test_sentences_are_read_in_their_order(tmp_path: Path) -> None:
    data = documents(tmp_path, {"a": FIRST})
    file = tmp_path / "documents_choi_disjoint.csv.xz"
    header, *rows = lzma.decompress(file.read_bytes()).decode().splitlines()
    file.write_bytes(lzma.compress("\n".join([header, *rows[::-1], ""]).encode()))
    again = load_dataset("texts", tmp_path, n_components=3)
    np.testing.assert_array_equal(again.sequences[0], data.sequences[0])
    np.testing.assert_array_equal(again.labels[0], data.labels[0])
    with pytest.raises(ValueError, match=r"documents with 3 or more segments .* among 1; add"):
        documents(tmp_path, {"a": FIRST[:2]})


def test_held_out_documents_share_no_excerpt_with_the_others(tmp_path: Path) -> None:
    colors = ["red", "blue", "green", "gray", "pink", "gold"]
    parts = [f"{color} stand here alone" for color in colors]
    data = documents(tmp_path, {"a": parts, "b": parts[::-1], "c": parts}, held_out=0.5)
    assert data.names == ["a", "held out a", "held out b", "held out c"]
    assert data.groups == ["a", *["held out a"] * 3]  # all three share all excerpts
    assert [y.tolist() for y in data.labels] == [[0, 0, 1, 1, 2, 2]] * 4
    mine, first, second, third = data.sequences
    np.testing.assert_allclose(first, third)
    assert not np.allclose(first, second)  # the order is another one
    assert not np.allclose(mine, first)


def test_features_know_only_the_documents_they_are_fitted_to(tmp_path: Path) -> None:
    train, test, other = {"a": FIRST}, {"b": TEXTS[3:]}, {"b": ["x y z", "ocean", "wolf"]}
    one, two = (documents(tmp_path, train | part, fitted=["a"]) for part in (test, other))
    np.testing.assert_array_equal(one.sequences[0], two.sequences[0])
    assert not np.allclose(one.sequences[0], documents(tmp_path, train | other).sequences[0])
    documents(tmp_path / "train", train)
    apart = documents(tmp_path / "test", test, fitted_root=tmp_path / "train")
    np.testing.assert_array_equal(apart.sequences[0], one.sequences[1])
    with pytest.raises(ValueError, match="name their folder, fitted_root=FOLDER"):
        documents(tmp_path / "test", test, fitted=["a"])
    file = texts(tmp_path, train) / "documents_choi_disjoint.csv.xz"
    file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(ValueError, match="CSV file"):
        load_dataset("texts", tmp_path)
