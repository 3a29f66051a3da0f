from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from metriclearn.datasets import load_hapt
from metriclearn.datasets.hapt import CHANNELS, FEATURES

HEADER = "sequence,start,end,label,name\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two recordings of 40 and 23 samples, to be cut into windows of 4."""
    rng = np.random.default_rng(0)
    recordings = {
        "exp07_user09": rng.integers(-700, 700, (40, 6)).astype(np.int16),
        "exp02_user31": rng.integers(-700, 700, (23, 6)).astype(np.int16),
    }
    np.savez(tmp_path / "sequences_int16.npz", **recordings)
    rows = [
        "exp07_user09,3,12,5,STANDING",
        "exp07_user09,12,18,7,STAND_TO_SIT",
        "exp07_user09,26,40,7,STAND_TO_SIT",
        "exp02_user31,0,23,1,WALKING",
    ]
    (tmp_path / "segments.csv").write_text(HEADER + "\n".join(rows) + "\n")
    return tmp_path


def test_drop_and_keep_by_hand(folder: Path) -> None:
    dropped, kept = load_hapt(folder, 4), load_hapt(folder, 4, unlabeled="keep")
    assert dropped.names == ["exp02_user31", "exp07_user09"]
    assert dropped.groups == ["user31", "user09"]
    # windows of exp07: [0,4) gap, [4,12) first, [12,16) second, [16,20) half and half,
    # which goes to the earlier one, [20,24) gap, [24,28) half and half: gap, [28,40) third
    assert kept.labels[1].tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4, 4]
    assert dropped.labels[1].tolist() == [0, 0, 1, 1, 2, 2, 2]
    assert dropped.labels[0].tolist() == [0] * 5
    np.testing.assert_array_equal(dropped.sequences[1], kept.sequences[1][[1, 2, 3, 4, 7, 8, 9]])
    assert [ends.tolist() for ends in dropped.change_points] == [[5], [2, 4, 7]]


def test_units_and_names(folder: Path) -> None:
    dataset = load_hapt(folder, 4, "extended", "keep")
    stored = np.load(folder / "sequences_int16.npz")["exp07_user09"].astype(float)
    acc, gyro = stored[4:8, :3] / 720, stored[4:8, 3:] * 0.0175 * np.pi / 180
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


@pytest.mark.parametrize("size", [2, 3, 24, 25])
def test_bands_share_the_variance(size: int) -> None:
    windows = np.random.default_rng(0).normal(size=(5, size, 2))
    low, high = (np.exp(FEATURES[f"log_{band}_band"](windows)) - 1e-3 for band in ("low", "high"))
    np.testing.assert_allclose(low**2 + high**2, windows.var(axis=1), rtol=1e-9)


def test_slow_wave_is_in_the_low_band() -> None:
    time = np.arange(25) / 50
    waves = np.stack([np.sin(2 * np.pi * hertz * time) for hertz in (4.0, 12.0)], axis=1)[None]
    low, high = (np.exp(FEATURES[f"log_{band}_band"](waves)) - 1e-3 for band in ("low", "high"))
    np.testing.assert_allclose(low, [[np.sqrt(0.5), 0]], atol=1e-9)
    np.testing.assert_allclose(high, [[0, np.sqrt(0.5)]], atol=1e-9)


def test_still_phone_has_finite_features() -> None:
    still = np.zeros((1, 2, 1))
    assert all(np.isfinite(function(still)).all() for function in FEATURES.values())


@pytest.mark.parametrize(
    "arguments", [{"window": 1}, {"features": "all"}, {"unlabeled": "ignore"}, {"window": 24}]
)
def test_bad_options(folder: Path, arguments: dict) -> None:
    with pytest.raises(ValueError, match="window"):
        load_hapt(folder, **arguments)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ("", "'exp02_user31' of 23 samples .* got 0 segments"),
        ("exp02_user31,0,24,1,WALKING\n", "'exp02_user31' of 23 samples .* up to sample 24"),
        ("exp02_user31,0,9,1,W\nexp02_user31,8,20,1,W\n", "'exp02_user31' needs non-empty"),
        ("exp02_user31,0,9,1,W\nexp02_user31,9,9,1,W\n", "'exp02_user31' needs non-empty"),
        ("exp02_user31,0,", r"segments.csv' should be a CSV file"),
    ],
)
def test_segments_that_do_not_fit(folder: Path, rows: str, sentence: str) -> None:
    (folder / "segments.csv").write_text(HEADER + rows)
    with pytest.raises(ValueError, match=sentence):
        load_hapt(folder, 4)


def test_truncated_recordings(folder: Path) -> None:
    path = folder / "sequences_int16.npz"
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(ValueError, match=r"sequences_int16\.npz' should be an npz file"):
        load_hapt(folder, 4)


def test_real_recordings(shared_folder: Callable[[str], Path]) -> None:
    dataset = load_hapt(shared_folder("hapt"))
    assert (len(dataset), len(set(dataset.groups))) == (36, 18)
    assert (dataset.names[0], dataset.groups[0]) == ("exp01_user01", "user01")
    assert (len(dataset.sequences[0]), len(dataset.change_points[0])) == (559, 22)
    assert sum(len(ends) for ends in dataset.change_points) == 735
    assert sum(len(X) for X in dataset.sequences) == 19541
    standing = dataset.sequences[0][0, :3]
    assert np.linalg.norm(standing) == pytest.approx(1.0, abs=0.05)
