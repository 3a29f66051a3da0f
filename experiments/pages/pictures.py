"""PNG pictures that store a digest of the results they show, so that outdated ones are noticed."""

from __future__ import annotations

import hashlib
from itertools import chain
from pathlib import Path

from matplotlib.figure import Figure, SubFigure
from PIL import Image
from PIL.PngImagePlugin import PngInfo

ROOT = Path(__file__).resolve().parents[2]


def digest(*files: Path) -> str:
    """Return the first twelve digits of the SHA-256 of files."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def title_of(figure: Figure | SubFigure) -> str:
    """Return the titles of a figure and of its axes."""
    titles = [figure.get_suptitle()]
    titles += chain(*(title_of(part).split("; ") for part in figure.subfigs))
    titles += [ax.get_title(loc="left") for ax in figure.axes if ax.get_visible()]
    words = [" ".join(title.replace(r"\$", "$").split()) for title in titles]
    return "; ".join(dict.fromkeys(filter(None, words)))


def texts_of(picture: Path) -> dict[str, str]:
    """Return the texts that a PNG file stores. The pixels are not read."""
    with Image.open(picture) as image:
        return {str(key): text for key, text in image.info.items() if isinstance(text, str)}


def take(picture: Path, target: Path, results: Path, title: str) -> None:
    """Copy a picture of a run to the folder ``target``, with its title and the digest of the
    results."""
    target.parent.mkdir(exist_ok=True)
    texts, stem = PngInfo(), results.relative_to(target.parents[1])
    texts.add_itxt("Title", title)
    texts.add_text("Source", f"{stem} {digest(results)}")
    with Image.open(picture) as image:
        image.save(target, pnginfo=texts, optimize=True)
