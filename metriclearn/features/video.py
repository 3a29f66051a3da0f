"""Picture features at a frame rate: a descriptor of the picture shown at every step."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.features.gist import Gist
from metriclearn.features.media import video_frames
from metriclearn.features.per_recording import RecordingTransformer
from metriclearn.features.stateless import StatelessTransformer
from metriclearn.running.parameters import number

__all__ = ["ColorHistogram", "PictureDescriptor", "VideoFeatures"]


class PictureDescriptor(Protocol):
    """Pictures (n, H, W, 3) of values 0 to 255 -> (n, P)."""

    def transform(self, X: ArrayLike, /) -> NDArray[np.float64]:
        """Descriptors, one row per picture."""
        ...

    def get_feature_names_out(self) -> NDArray:
        """Names of the P columns."""
        ...


@dataclass(eq=False, repr=False)
class ColorHistogram(StatelessTransformer):
    """Square roots of the shares of hues, saturations and values, on a grid of cells.

    Each of the three gets ``bins`` equal bins over its range; the hue of a pixel counts as much as
    its saturation, so that gray pixels have none. Square roots make Euclidean distances those of
    Hellinger. O(pixels).

    Parameters
    ----------
    bins : int
    blocks : int
        Cells per side of the grid; 1 is the whole picture.
    """

    PARAMETERS: ClassVar = {"bins": number(1, whole=True), "blocks": number(1, whole=True)}

    bins: int = 8
    blocks: int = 1

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Histograms of pictures (n, H, W, 3), values 0 to 255: (n, blocks² · 3 · bins)."""
        from matplotlib.colors import rgb_to_hsv

        self.fit()
        pictures = np.asarray(X, dtype=np.float64)
        if pictures.ndim != 4 or pictures.shape[3] != 3 or 0 in pictures.shape:
            raise ValueError(
                f"ColorHistogram needs pictures (n, H, W, 3), got shape {pictures.shape}."
            )
        hsv = rgb_to_hsv(np.clip(pictures / 255.0, 0.0, 1.0))
        rows = np.linspace(0, pictures.shape[1], self.blocks + 1).astype(int)
        columns = np.linspace(0, pictures.shape[2], self.blocks + 1).astype(int)
        cells = [
            hsv[:, a:b, c:d].reshape(len(hsv), -1, 3)
            for a, b in pairwise(rows)
            for c, d in pairwise(columns)
        ]
        return np.hstack([self._shares(cell) for cell in cells])

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray:
        """``hue2_r0_c1``: the third bin of the hues in a cell."""
        cells = [f"r{r}_c{c}" for r in range(self.blocks) for c in range(self.blocks)]
        names = [f"{name}{i}" for name in ("hue", "saturation", "value") for i in range(self.bins)]
        return np.array([f"{name}_{cell}" for cell in cells for name in names], dtype=object)

    def _shares(self, cell: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n, pixels, 3) -> (n, 3 · bins)."""
        n, pixels, _ = cell.shape
        bins = np.minimum((cell * self.bins).astype(np.int64), self.bins - 1)
        weights = np.stack([cell[:, :, 1], np.ones((n, pixels)), np.ones((n, pixels))], axis=2)
        place = (np.arange(n)[:, None, None] * 3 + np.arange(3)) * self.bins + bins
        counts = np.bincount(place.ravel(), weights.ravel(), n * 3 * self.bins)
        return np.sqrt(counts.reshape(n, 3 * self.bins) / pixels)


@dataclass(eq=False, repr=False)
class VideoFeatures(RecordingTransformer):
    """Descriptors of the pictures of a video, ``rate`` rows per second.

    Row t describes the picture on screen at (t + ½)/rate seconds, scaled to ``size``. Files are
    streamed: memory is that of a few pictures, time that of decoding and of the descriptors.

    Parameters
    ----------
    rate : float
        Rows per second.
    descriptors : sequence of PictureDescriptor
        Their columns stand side by side.
    size : (int, int)
        Height and width of the pictures that descriptors get.
    """

    PARAMETERS: ClassVar = {"rate": number(positive=True)}

    rate: float = 1.0
    descriptors: Sequence[PictureDescriptor] = (Gist(),)
    size: tuple[int, int] = (128, 128)

    def extract(self, path: str | os.PathLike[str]) -> NDArray[np.float64]:
        """Features of one file, (T, P).

        Raises
        ------
        FileNotFoundError, ValueError
            For missing, empty and damaged files, see :func:`video_frames`.
        """
        self.fit()
        frames = video_frames(path, self.rate, (self.size[0], self.size[1]))
        return np.vstack([self._describe(np.stack(some)) for some in _groups(frames, 16)])

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray:
        """Names of all columns, descriptor by descriptor."""
        return np.concatenate([d.get_feature_names_out() for d in self.descriptors])

    def _describe(self, pictures: NDArray[np.uint8]) -> NDArray[np.float64]:
        return np.hstack([descriptor.transform(pictures) for descriptor in self.descriptors])


def _groups(frames: Iterator[NDArray[np.uint8]], size: int) -> Iterator[list[NDArray[np.uint8]]]:
    while some := list(islice(frames, size)):
        yield some
