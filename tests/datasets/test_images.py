"""Folders of images and label maps in several formats, and the two data sets."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from metriclearn.datasets import LabeledImages, load_bsds500, load_images, load_weizmann_horses

Image = pytest.importorskip("PIL.Image")
DATA = os.environ.get("METRICLEARN_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="METRICLEARN_DATA is not set")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two images; one has a mask as GIF, the other two annotators in PNG and colors."""
    random = np.random.default_rng(0)
    (tmp_path / "photos").mkdir()
    (tmp_path / "masks").mkdir()
    for name, kind in (("a_cat", "jpg"), ("dog", "png")):
        pixels = random.integers(0, 255, (6, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{name}.{kind}")
    mask = np.zeros((6, 8), dtype=np.uint8)
    mask[2:4] = 3
    Image.fromarray(mask).save(tmp_path / "masks" / "a_cat.gif")
    Image.fromarray(mask).save(tmp_path / "masks" / "dog_0.png")
    colors = np.zeros((6, 8, 3), dtype=np.uint8)
    colors[:, 4:] = (9, 200, 3)
    Image.fromarray(colors).save(tmp_path / "masks" / "dog_1.png")
    (tmp_path / "photos" / "notes.txt").write_text("no image")
    return tmp_path


def test_reads_what_pillow_reads(folder: Path) -> None:
    data = load_images(folder / "photos", folder / "masks")
    assert (data.name, data.names, len(data)) == (folder.name, ["a_cat", "dog"], 2)
    assert [image.shape for image in data.images] == [(6, 8, 3)] * 2
    assert [len(maps) for maps in data.label_maps] == [1, 2]
    cat, dog, colored = data.labels[0], *data.label_maps[1]
    for rows in (cat, dog):
        assert len(np.unique(rows)) == 2
        assert (rows[2:4] == rows[2, 0]).all()
        assert (rows[:2] == rows[0, 0]).all()
    assert len(np.unique(colored)) == 2
    assert (colored[:, 4:] == colored[0, 4]).all()
    assert data.select([1]).names == ["dog"]


def test_missing_and_wrong_files_are_named(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load_images(folder / "photos", folder / "nothing")
    with pytest.raises(FileNotFoundError, match="missing: \\['owl'\\]"):
        load_images(folder / "photos", folder / "masks", names=["owl"])
    (folder / "photos" / "emu.png").write_bytes((folder / "photos" / "dog.png").read_bytes())
    with pytest.raises(FileNotFoundError, match=r"image 'emu'.*emu\.png"):
        load_images(folder / "photos", folder / "masks")
    Image.fromarray(np.zeros((3, 3), dtype=np.uint8)).save(folder / "masks" / "emu.png")
    with pytest.raises(ValueError, match=r"\[\(3, 3\)\] for 'emu' of \(6, 8\)"):
        load_images(folder / "photos", folder / "masks")
    (folder / "masks" / "emu.png").write_bytes(b"\x89PNG damaged")
    with pytest.raises(ValueError, match="not an image that Pillow reads"):
        load_images(folder / "photos", folder / "masks")


def test_depths_palettes_and_transparency(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "masks").mkdir()
    ramp = np.linspace(0, 255, 48).round().astype(np.uint8).reshape(6, 8)
    made = {
        "gray": Image.fromarray(ramp),
        "deep": Image.fromarray(ramp.astype(np.uint16) * 257),
        "fraction": Image.fromarray((ramp / 255.0).astype(np.float32)),
        "alpha": Image.fromarray(np.dstack([ramp] * 3 + [255 - ramp])),
        "palette": Image.fromarray(ramp).convert("P"),
        "binary": Image.fromarray(ramp > 100),
    }
    palette = Image.fromarray((ramp > 100).astype(np.uint8), mode="P")
    palette.putpalette([7, 7, 7, 200, 0, 0])
    for name, image in made.items():
        image.save(tmp_path / "photos" / f"{name}.{'tif' if name == 'fraction' else 'png'}")
        palette.save(tmp_path / "masks" / f"{name}.png")
    data = load_images(tmp_path / "photos", tmp_path / "masks")
    by_name = dict(zip(data.names, data.images))
    for name in ("gray", "deep", "fraction", "alpha", "palette"):
        np.testing.assert_array_equal(by_name[name], np.dstack([ramp] * 3), err_msg=name)
    np.testing.assert_array_equal(by_name["binary"][..., 0], 255 * (ramp > 100))
    for labels in data.labels:
        np.testing.assert_array_equal(labels, ramp > 100)
    Image.fromarray(ramp.astype(np.float32)).save(tmp_path / "photos" / "fraction.tif")
    with pytest.raises(ValueError, match=r"values from 0 to 1 are needed; convert it to 8 bits"):
        load_images(tmp_path / "photos", tmp_path / "masks")


def test_masks_of_many_kinds(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "masks").mkdir()
    third = np.arange(48).reshape(6, 8) // 16
    kinds = {
        "deep": Image.fromarray((third * 300).astype(np.uint16)),
        "fraction": Image.fromarray((third / 4).astype(np.float32)),
        "alpha": Image.fromarray(np.dstack([third * 9] * 3 + [third * 0 + 255]).astype(np.uint8)),
    }
    for name, image in kinds.items():
        image.save(tmp_path / "masks" / f"{name}.{'tif' if name == 'fraction' else 'png'}")
        Image.fromarray(np.zeros((6, 8, 3), dtype=np.uint8)).save(tmp_path / f"photos/{name}.bmp")
    for labels in load_images(tmp_path / "photos", tmp_path / "masks").labels:
        assert len(np.unique(labels)) == 3
        np.testing.assert_array_equal(labels == labels[0, 0], third == 0)
    with pytest.raises(ValueError, match="the unlabeled value 7, but has colors"):
        load_images(tmp_path / "photos", tmp_path / "masks", names=["alpha"], unlabeled=7)
    known = load_images(tmp_path / "photos", tmp_path / "masks", names=["deep"], unlabeled=300)
    np.testing.assert_array_equal(np.unique(known.labels[0]), [-1, 0, 600])
    np.testing.assert_array_equal(known.labels[0] == -1, third == 1)


def test_names_that_could_be_mistaken(folder: Path) -> None:
    """dog_1 is an image of its own now, and its mask not the second annotator of dog."""
    (folder / "photos" / "dog_1.bmp").write_bytes((folder / "photos" / "dog.png").read_bytes())
    (folder / "photos" / ".dog.png").write_bytes(b"of a file manager")
    data = load_images(folder / "photos", folder / "masks")
    assert data.names == ["a_cat", "dog", "dog_1"]
    assert [len(maps) for maps in data.label_maps] == [1, 1, 1]
    (folder / "masks" / "emu.png").write_bytes((folder / "masks" / "dog_0.png").read_bytes())
    with pytest.warns(UserWarning, match=r"1 label map\(s\) without an image.*'emu\.png'"):
        load_images(folder / "photos", folder / "masks")
    (folder / "photos" / "dog.bmp").write_bytes((folder / "photos" / "dog.png").read_bytes())
    with pytest.raises(ValueError, match=r"got 'dog\.bmp' and 'dog\.png'"):
        load_images(folder / "photos", folder / "masks")
    for path in (folder / "photos").iterdir():
        path.unlink()
    with pytest.raises(FileNotFoundError, match="at least one image"):
        load_images(folder / "photos", folder / "masks")


def test_images_without_labels_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one image"):
        LabeledImages("empty", [], [], [])


def test_absent_data_sets_say_where_to_get_them(tmp_path: Path) -> None:
    for load in (load_weizmann_horses, load_bsds500):
        with pytest.raises(FileNotFoundError, match="no plain download: take"):
            load(tmp_path)


@needs_data
def test_weizmann_horses() -> None:
    data = load_weizmann_horses()
    assert len(data) == 110
    assert all(set(np.unique(labels)) == {0, 1} for labels in data.labels)
    shares = [labels.mean() for labels in data.labels]
    assert 0.065 < min(shares) < max(shares) < 0.405
    assert np.mean(shares) == pytest.approx(0.26, abs=0.005)


@needs_data
def test_bsds500() -> None:
    data = load_bsds500()
    counts = [len(np.unique(labels)) for maps in data.label_maps for labels in maps]
    assert (len(data), len(counts)) == (16, 90)
    assert (min(counts), int(np.median(counts)), max(counts)) == (2, 17, 81)
    assert {image.shape for image in data.images} <= {(321, 481, 3), (481, 321, 3)}
