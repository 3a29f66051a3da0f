"""Labeled images: folders of images and of their label maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from metriclearn.datasets.registry import PathLike, existing, files_by_name, lay_out
from metriclearn.datasets.sequences import Items
from metriclearn.running.atomic import reading
from metriclearn.running.extras import optional
from metriclearn.running.notes import note


@dataclass(frozen=True, eq=False, repr=False)
class LabeledImages(Items):
    """N images, each with one or several label maps of its size.

    Parameters
    ----------
    name : str
        Name of the data set.
    images : list of N arrays (H_i, W_i, 3), uint8 RGB
    label_maps : list of N lists of arrays (H_i, W_i)
        One label map per annotator.
    names : list of N str
        Name of every image.

    Raises
    ------
    ValueError
        If a label map is missing or has another size than its image.

    See Also
    --------
    load_images : reads your files.

    Examples
    --------
    >>> from metriclearn.datasets import load_example
    >>> horses = load_example("horses")
    >>> horses.images[0].shape, horses.labels[0].shape
    ((120, 160, 3), (120, 160))
    """

    name: str
    images: list[NDArray[np.uint8]]
    label_maps: list[list[NDArray]]
    names: list[str]
    LISTS: ClassVar = ("images", "label_maps", "names")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, image, maps in zip(self.names, self.images, self.label_maps):
            sizes = [labels.shape for labels in maps]
            if not sizes or any(size != image.shape[:2] for size in sizes):
                raise ValueError(
                    f"LabeledImages {self.name!r} needs label maps of the size of each image, got "
                    f"{sizes} for {name!r} of {image.shape[:2]}; resize them (nearest neighbor)."
                )

    @property
    def labels(self) -> list[NDArray]:
        """The first label map of every image."""
        return [maps[0] for maps in self.label_maps]


def load_images(
    images: PathLike,
    masks: PathLike,
    name: str | None = None,
    names: Sequence[str] | None = None,
    unlabeled: int | None = None,
) -> LabeledImages:
    """Load a folder of images and a folder of their label maps, in any format that Pillow reads.

    The label maps of ``horse.jpg`` are ``horse.png`` and files such as ``horse_anna.png`` (in any
    format), unless there is also an image ``horse_anna``. Labels are gray values, palette indices
    or colors. Use a lossless format, so that equal labels have equal values. Images become 8-bit
    RGB: the values of 16-bit images are divided by 257, and alpha channels are dropped.

    Parameters
    ----------
    images, masks : path
        Folders of the images and of the label maps.
    name : str, optional
        Name of the data set; by default the name of the parent folder.
    names : sequence of str, optional
        Names of the images to load, without endings. By default all images are loaded.
    unlabeled : int, optional
        The value of unlabeled pixels, such as 255. Unlabeled pixels get the label −1.

    Returns
    -------
    LabeledImages
        ``images`` of shape (H_i, W_i, 3), lists of label maps (H_i, W_i).

    Raises
    ------
    FileNotFoundError
        If a folder does not exist, or an image has no label map.
    ValueError
        If a file is damaged, two images have the same name, or an image and its labels have
        different sizes.

    Warns
    -----
    UserWarning
        For label maps in JPEG, if no pixel is ``unlabeled``, and, if ``names`` is not given, for
        label maps without an image.

    See Also
    --------
    LabeledImages : the returned object.

    Examples
    --------
    >>> from metriclearn.datasets import load_images
    >>> data = load_images("photos", "masks", unlabeled=255)  # doctest: +SKIP
    """
    folders = [Path(folder).expanduser() for folder in (images, masks)]
    for folder in folders:
        if not folder.is_dir():
            raise FileNotFoundError(
                f"load_images needs a folder of images and one of label maps, but {str(folder)!r} "
                "is not a folder; check both paths."
            )
    photos = files_by_name("image", _image_files(folders[0]))
    paths: dict[str, list[Path]] = {stem: [] for stem in photos}
    alone = []
    for path in _image_files(folders[1]):
        stem = path.stem if path.stem in photos else path.stem.rpartition("_")[0]
        if stem in photos:
            paths[stem].append(path)
        else:
            alone.append(path.name)
    chosen = list(photos) if names is None else list(names)
    missing = [stem for stem in chosen if not paths.get(stem)]
    if missing or not chosen:
        raise FileNotFoundError(
            f"load_images needs images in {str(folders[0])!r}, each with a label map of its name, "
            f"NAME.png or NAME_*.png, in {str(folders[1])!r}; one or both are missing for "
            f"{missing[:5]}."
        )
    if alone and names is None:
        note(
            f"load_images ignores {len(alone)} label map(s) without an image in "
            f"{str(folders[1])!r}, such as {alone[0]!r}."
        )
    maps = [[_read_labels(path, unlabeled) for path in paths[stem]] for stem in chosen]
    read = {path: one for stem, row in zip(chosen, maps) for path, one in zip(paths[stem], row)}
    if lossy := [path for path in read if path.suffix.lower() in (".jpg", ".jpeg")]:
        note(
            f"load_images reads {len(lossy)} label map(s) from JPEG, which changes values: "
            f"{lossy[0].name!r} has {len(np.unique(read[lossy[0]]))} labels; save them as PNG."
        )
    if unlabeled is not None and not any(np.any(one == -1) for one in read.values()):
        note(
            f"load_images finds no pixel of unlabeled={unlabeled} in any label map; correct it "
            "unless all pixels have labels."
        )
    pixels = [_read_rgb(photos[stem]) for stem in chosen]
    return LabeledImages(name or folders[0].resolve().parent.name, pixels, maps, chosen)


def _image_files(folder: Path) -> list[Path]:
    endings = optional("PIL.Image", "image").registered_extensions()
    return [file for file in sorted(folder.glob("[!.]*")) if file.suffix.lower() in endings]


def pairs(
    name: str, root: PathLike | None, *, masks: str, mark: str | None = None
) -> LabeledImages:
    """Read the folders ``images`` and ``masks`` of a data set.

    If they are missing, they are made from the publisher's archive, in which a folder or file
    matches ``mark``.
    """
    if mark is not None:
        lay_out(name, root, ("images", masks), mark, _convert_horses)
    return load_images(existing(name, "images", root), existing(name, masks, root), name)


def _convert_horses(source: Path, folder: Path) -> None:
    """Make masks of 0 and 1 from the archive, and resize every photograph to its mask's size."""
    Image = optional("PIL.Image", "image")
    for part in ("images", "masks"):
        (folder / part).mkdir()
    for file in sorted((source / "rgb").glob("*.jpg")):
        with Image.open(source / "figure_ground" / file.name) as gray, Image.open(file) as photo:
            mask = gray.convert("L").point(lambda value: 255 * (value > 127)).convert("1")
            mask.save(folder / "masks" / f"{file.stem}.png")
            resized = photo.convert("RGB").resize(mask.size, Image.Resampling.LANCZOS)
            # without subsampling, so that colors end at the boundary of the mask
            resized.save(folder / "images" / file.name, quality=95, subsampling=0)


def _opened(path: Path) -> Any:
    """Open an image and read all of it."""
    Image = optional("PIL.Image", "image")
    bomb = Image.DecompressionBombError
    with reading(path, "an image by Pillow", SyntaxError, bomb), Image.open(path) as image:
        return image.copy()


def _read_rgb(path: Path) -> NDArray[np.uint8]:
    """Read an image as 8-bit RGB, turned upright according to its EXIF data."""
    turned = optional("PIL.ImageOps", "image").exif_transpose(_opened(path))
    if turned.mode[0] not in "IF":
        return np.asarray(turned.convert("RGB"), dtype=np.uint8)
    gray, largest = np.asarray(turned, dtype=np.float64), 1.0 if turned.mode == "F" else 65535.0
    if not np.all((gray >= 0) & (gray <= largest)):
        raise ValueError(f"{str(path)!r} needs values up to {largest:g}; convert it to 8 bit.")
    return np.repeat(np.round(255.0 * gray / largest).astype(np.uint8)[..., None], 3, axis=2)


def _read_labels(path: Path, unlabeled: int | None) -> NDArray:
    """Read labels: gray values or palette indices. Colors and fractional gray values are
    numbered 0 … K − 1."""
    values = np.asarray(_opened(path))
    if values.ndim == 2 and values.dtype.kind in "bui":
        labels = values.astype(np.int64)
        return labels if unlabeled is None else np.where(labels == unlabeled, -1, labels)
    if unlabeled is not None:
        raise ValueError(
            f"{str(path)!r} needs gray values or palette indices if unlabeled={unlabeled}, but has "
            "colors; save it with a palette."
        )
    flat = values.reshape(-1, values.shape[2] if values.ndim == 3 else 1)
    return np.unique(flat, axis=0, return_inverse=True)[1].reshape(values.shape[:2])
