"""Loaders of recordings with recurring names: made files by hand, and the real ones."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metriclearn.datasets import (
    load_billboard,
    load_birdsong,
    load_gazecom,
    load_piano_keys,
)

RNG = np.random.default_rng(0)
ROWS = {
    "gazecom": (load_gazecom, "_int16", np.int16, 3),
    "birdsong": (load_birdsong, "_int8", np.int8, 32),
    "billboard": (load_billboard, "_uint8", np.uint8, 24),
    "piano_keys": (load_piano_keys, "", np.float32, 14),
}
SEGMENTS = ["b_1,0,12,x,7,major", "b_1,12,40,y,9,minor", "a_2,0,30,x,7,major"]


def write(folder: Path, name: str, segments: list[str] = SEGMENTS) -> Path:
    """Two recordings of 40 and 30 samples."""
    _, ending, kind, width = ROWS[name]
    arrays: dict[str, Any] = {
        one: RNG.integers(1, 100, (size, width)).astype(kind)
        for one, size in (("b_1", 40), ("a_2", 30))
    }
    np.savez(folder / f"sequences{ending}.npz", **arrays)
    lines = ["sequence,start,end,label,tonic,mode", *segments]
    (folder / "segments.csv").write_text("\n".join([*lines, ""]), encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", ROWS)
def test_names_and_shapes(name: str, tmp_path: Path) -> None:
    data = ROWS[name][0](write(tmp_path, name), **({"step": 1} if name == "gazecom" else {}))
    order = ["b_1", "a_2"] if name == "gazecom" else ["a_2", "b_1"]  # by film, then viewer
    assert data.names == order
    assert data.groups == (["b", "a"] if name == "gazecom" else order)
    first, second = ("G major", "A minor") if name == "piano_keys" else ("x", "y")
    labels = data.labels[data.names.index("b_1")]
    assert labels.tolist() == [first] * 12 + [second] * 28
    for X, y in zip(data.sequences, data.labels):
        assert X.shape == (len(y), len(data.feature_names))
        assert np.isfinite(X).all()


@pytest.mark.parametrize("name", ["gazecom", "birdsong"])
def test_rows_are_means_with_the_label_of_their_middle(name: str, tmp_path: Path) -> None:
    load = ROWS[name][0]
    whole, halves = load(write(tmp_path, name), step=1), load(tmp_path, step=8)
    i = whole.names.index("b_1")
    assert halves.labels[i].tolist() == ["x"] + ["y"] * 4  # the second middle is sample 12
    expected = whole.sequences[i][:40].reshape(5, 8, -1).mean(axis=1)
    np.testing.assert_allclose(halves.sequences[i], expected)
    assert len(halves.sequences[1 - i]) == 3  # two samples are left over


def test_features_by_hand(tmp_path: Path) -> None:
    """A gaze that rests, pitch classes that sound alone, a chord heard before."""
    write(tmp_path, "gazecom")
    still = np.tile(np.array([267, 534, 100], dtype=np.int16), (40, 1))
    np.savez(tmp_path / "sequences_int16.npz", b_1=still, a_2=still[:30])
    X = load_gazecom(tmp_path, step=1).sequences[0]
    np.testing.assert_allclose(X, np.tile([*[np.log(0.01), 0.0, np.log(0.01)] * 3, 1.0], (40, 1)))
    write(tmp_path, "piano_keys")
    notes = np.zeros((40, 14), dtype=np.float32)
    notes[:, 4] = 2.0
    np.savez(tmp_path / "sequences.npz", b_1=notes, a_2=notes[:30])
    X = load_piano_keys(tmp_path).sequences[0]
    np.testing.assert_allclose(X, np.tile(np.eye(12)[4], (30, 3)))
    write(tmp_path, "billboard")
    chord = np.tile(np.arange(24, dtype=np.uint8), (40, 1))
    np.savez(tmp_path / "sequences_uint8.npz", b_1=chord, a_2=chord[:30])
    heard = load_billboard(tmp_path).sequences[1][:, -2:]
    np.testing.assert_allclose(heard[:16], 0.0)
    np.testing.assert_allclose(heard[16:], 1.0)


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("missing", range(3))
def test_segments_have_to_cover_everything(name: str, missing: int, tmp_path: Path) -> None:
    less = [row for i, row in enumerate(SEGMENTS) if i != missing]
    with pytest.raises(ValueError, match="needs non-empty segments that cover its"):
        ROWS[name][0](write(tmp_path, name, less))


def test_bad_options_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="load_birdsong needs a whole step of at least 1"):
        load_birdsong(step=0)
    for name, (load, *_) in ROWS.items():
        with pytest.raises(FileNotFoundError, match=name):
            load(tmp_path)


@pytest.mark.parametrize(
    ("name", "options", "counts"),
    [
        ("gazecom", {"step": 1}, (163, 11, 814_045, 16_923, 4)),
        ("birdsong", {}, (94, 94, 204_766, 9655, 10)),
        ("billboard", {}, (443, 443, 192_398, 4645, 28)),
        ("piano_keys", {}, (32, 32, 13_198, 219, 18)),
    ],
)
def test_real_recordings(
    name: str, options: dict[str, int], counts: tuple, shared_folder: Callable[[str], Path]
) -> None:
    """Recordings, groups, samples, segments (equal neighbors are one) and names."""
    data = ROWS[name][0](shared_folder(name), **options)
    found = (
        len(data),
        len(set(data.groups)),
        sum(map(len, data.sequences)),
        sum(map(len, data.change_points)),
        len(set(np.concatenate(data.labels))),
    )
    assert found == counts
