"""Folders of images and label maps in several formats."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metriclearn.datasets import load_images

Image = pytest.importorskip("PIL.Image")


def folders(parent: Path, photos: dict[str, Any], masks: dict[str, Any]) -> tuple[Path, Path]:
    """Folders with images, given by their file names as arrays or as images of Pillow."""
    for part, files in (("photos", photos), ("masks", masks)):
        (parent / part).mkdir(exist_ok=True)
        for name, image in files.items():
            made = Image.fromarray(image) if isinstance(image, np.ndarray) else image
            made.save(parent / part / name)
    return parent / "photos", parent / "masks"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two images; one has a mask as GIF, the other two annotators in PNG and colors."""
    pixels = np.random.default_rng(0).integers(0, 255, (2, 6, 8, 3), dtype=np.uint8)
    mask, colors = np.zeros((6, 8), dtype=np.uint8), np.zeros((6, 8, 3), dtype=np.uint8)
    mask[2:4], colors[:, 4:] = 3, (9, 200, 3)
    folders(
        tmp_path,
        {"a_cat.jpg": pixels[0], "dog.png": pixels[1]},
        {"a_cat.gif": mask, "dog_0.png": mask, "dog_1.png": colors},
    )
    (tmp_path / "photos" / "notes.txt").write_text("no image")
    return tmp_path


def test_missing_and_wrong_files_are_named(folder: Path) -> None:
    photos, masks = folder / "photos", folder / "masks"
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        load_images(photos, folder / "nothing")
    with pytest.raises(FileNotFoundError, match=r"missing for \['owl'\]"):
        load_images(photos, masks, names=["owl"])
    (photos / "emu.png").write_bytes((photos / "dog.png").read_bytes())
    with pytest.raises(FileNotFoundError, match=r"missing for \['emu'\]"):
        load_images(photos, masks)
    Image.fromarray(np.zeros((3, 3), dtype=np.uint8)).save(masks / "emu.png")
    with pytest.raises(ValueError, match=r"\[\(3, 3\)\] for 'emu' of \(6, 8\)"):
        load_images(photos, masks)
    (masks / "emu.png").write_bytes(b"\x89PNG damaged")
    with pytest.raises(ValueError, match="cannot be read as an image"):
        load_images(photos, masks)


def test_depths_palettes_and_transparency(tmp_path: Path) -> None:
    ramp = np.linspace(0, 255, 48).round().astype(np.uint8).reshape(6, 8)
    made = {
        "gray.png": ramp,
        "deep.png": ramp.astype(np.uint16) * 257,
        "fraction.tif": (ramp / 255.0).astype(np.float32),
        "alpha.png": np.dstack([ramp] * 3 + [255 - ramp]),
        "palette.png": Image.fromarray(ramp).convert("P"),
        "binary.png": ramp > 100,
    }
    palette = Image.fromarray((ramp > 100).astype(np.uint8), mode="P")
    palette.putpalette([7, 7, 7, 200, 0, 0])
    paths = folders(tmp_path, made, {f"{Path(name).stem}.png": palette for name in made})
    data = load_images(*paths)
    for name, pixels, labels in zip(data.names, data.images, data.labels):
        expected = 255 * (ramp > 100) if name == "binary" else ramp
        np.testing.assert_array_equal(pixels, np.dstack([expected] * 3), err_msg=name)
        np.testing.assert_array_equal(labels, ramp > 100)
    folders(tmp_path, {"fraction.tif": ramp.astype(np.float32)}, {})
    with pytest.raises(ValueError, match=r"needs values up to 1; convert it to 8 bit"):
        load_images(*paths)


def test_masks_of_many_kinds(tmp_path: Path) -> None:
    third = np.arange(48).reshape(6, 8) // 16
    masks = {
        "deep.png": (third * 300).astype(np.uint16),
        "fraction.tif": (third / 4).astype(np.float32),
        "alpha.png": np.dstack([third * 9] * 3 + [third * 0 + 255]).astype(np.uint8),
    }
    black = np.zeros((6, 8, 3), dtype=np.uint8)
    paths = folders(tmp_path, {f"{Path(name).stem}.bmp": black for name in masks}, masks)
    for labels in load_images(*paths).labels:
        assert len(np.unique(labels)) == 3
        np.testing.assert_array_equal(labels == labels[0, 0], third == 0)
    with pytest.raises(ValueError, match="if unlabeled=7, but has colors"):
        load_images(*paths, names=["alpha"], unlabeled=7)
    known = load_images(*paths, names=["deep"], unlabeled=300)
    np.testing.assert_array_equal(np.unique(known.labels[0]), [-1, 0, 600])
    np.testing.assert_array_equal(known.labels[0] == -1, third == 1)
    with pytest.warns(UserWarning, match="no pixel of unlabeled=255 in any .* unless all pixels"):
        load_images(*paths, names=["deep"], unlabeled=255)
    (tmp_path / "lossy").mkdir()
    pictures = folders(tmp_path / "lossy", {"a.bmp": black}, {"a.jpg": (third * 90).astype("u1")})
    with pytest.warns(UserWarning, match=r"1 label map\(s\) from JPEG, .*'a.jpg' has \d+ labels"):
        load_images(*pictures)


def test_names_that_could_be_mistaken(folder: Path) -> None:
    """dog_1 is a separate image now; its mask is not a second annotation of dog."""
    photos, masks = folder / "photos", folder / "masks"
    (photos / "dog_1.bmp").write_bytes((photos / "dog.png").read_bytes())
    (photos / ".dog.png").write_bytes(b"of a file manager")
    data = load_images(photos, masks)
    assert data.names == ["a_cat", "dog", "dog_1"]
    assert [len(maps) for maps in data.label_maps] == [1, 1, 1]
    (masks / "emu.png").write_bytes((masks / "dog_0.png").read_bytes())
    with pytest.warns(UserWarning, match=r"1 label map\(s\) without an image.*'emu\.png'"):
        load_images(photos, masks)
    (photos / "dog.bmp").write_bytes((photos / "dog.png").read_bytes())
    with pytest.raises(ValueError, match=r"got 'dog\.bmp' and 'dog\.png'"):
        load_images(photos, masks)
    for path in photos.iterdir():
        path.unlink()
    with pytest.raises(FileNotFoundError, match="needs images in"):
        load_images(photos, masks)
