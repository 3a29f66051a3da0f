"""Features of a video at a fixed rate. A row describes the picture on screen at the row's time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.features.media.decoding import video_frames
from metriclearn.features.media.gist import Gist
from metriclearn.features.per_recording import Descriptor, RecordingTransformer
from metriclearn.running.parameters import Each, Needs, Of, Positive, Whole
from metriclearn.running.values import real_array
from metriclearn.views.plain import StatelessTransformer


@dataclass(eq=False, repr=False)
class ColorHistogram(StatelessTransformer):
    """Square roots of the histograms of hue, saturation and value, in every cell of a grid.

    Each histogram has ``bins`` equal bins over the range of its values. In the histogram of hues, a
    pixel is weighted by its saturation, so gray pixels do not count. Because of the square roots,
    Euclidean distances are Hellinger distances, up to a factor. The cost is O(pixels).

    Parameters
    ----------
    bins : int
        Number of bins of each histogram.
    blocks : int
        Number of cells on each side of the grid. 1 means the whole picture.
    """

    bins: Annotated[int, Whole(1)] = 8
    blocks: Annotated[int, Whole(1)] = 1

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Compute the features of pictures (n, H, W, 3) with values from 0 to 255.

        The result has the shape (n, blocks² · 3 · bins).
        """
        self.fit()
        pictures = real_array("ColorHistogram", "pictures", X, None)
        shape = pictures.shape
        if len(shape) != 4 or shape[3] != 3 or min(shape[1:3]) < self.blocks:
            raise ValueError(
                "ColorHistogram needs pictures (n, H, W, 3) of at least blocks × blocks pixels, "
                f"got shape {shape} and blocks={self.blocks}."
            )
        hsv = _hue_saturation_value(np.clip(pictures / 255.0, 0.0, 1.0))
        n, height, width, _ = hsv.shape
        bins = np.minimum((hsv * self.bins).astype(np.int64), self.bins - 1)
        # index of (picture, channel, bin) in the flat table of counts
        place = (np.arange(n)[:, None, None, None] * 3 + np.arange(3)) * self.bins + bins
        weights = np.ones_like(hsv)
        weights[..., 0] = hsv[..., 1]
        rows, columns = (np.linspace(0, m, self.blocks + 1).astype(int) for m in (height, width))
        shares = []
        for a, b in pairwise(rows):
            for c, d in pairwise(columns):
                cell = np.s_[:, a:b, c:d]
                counts = np.bincount(place[cell].ravel(), weights[cell].ravel(), n * 3 * self.bins)
                shares.append(counts.reshape(n, -1) / ((b - a) * (d - c)))
        return np.sqrt(np.hstack(shares))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray:
        """Return names such as ``hue2_r0_c1``: the third hue bin in row 0, column 1 of the grid."""
        cells = [f"r{r}_c{c}" for r in range(self.blocks) for c in range(self.blocks)]
        names = [f"{name}{i}" for name in ("hue", "saturation", "value") for i in range(self.bins)]
        return np.array([f"{name}_{cell}" for cell in cells for name in names], dtype=object)


def _hue_saturation_value(colors: NDArray) -> NDArray[np.float64]:
    """Convert red, green and blue, (..., 3), to hue, saturation and value, all from 0 to 1.

    The value v is the largest of r, g and b, and d is the difference between the largest and the
    smallest. The saturation is d / v. The hue is the position on a circle of six parts: (g − b) / d
    if red is the largest, 2 + (b − r) / d if green is, and 4 + (r − g) / d if blue is, each divided
    by 6. (Smith, Color gamut transform pairs, SIGGRAPH 1978.)
    """
    value, spread = colors.max(axis=-1), np.ptp(colors, axis=-1)
    r, g, b = np.moveaxis(colors, -1, 0)
    d = np.where(spread > 0, spread, 1.0)
    places = (4 + (r - g) / d, 2 + (b - r) / d, (g - b) / d)
    hue = np.select((b == value, g == value, r == value), places) / 6 % 1
    gray = spread == 0
    saturation = spread / np.where(value > 0, value, 1.0)
    return np.stack([np.where(gray, 0.0, hue), saturation, value], axis=-1)


@dataclass(eq=False, repr=False)
class VideoFeatures(RecordingTransformer):
    """Descriptors of the pictures of a video, with ``rate`` rows per second.

    Row t describes the picture on screen at (t + ½)/rate seconds, scaled to ``size``. Files are
    streamed, so only a few pictures are in memory.

    Parameters
    ----------
    rate : float
        Rows per second.
    descriptors : sequence of transformers
        Transformers such as ``Gist()``, which map pictures (n, H, W, 3) with values from 0 to 255
        to (n, P) and have ``get_feature_names_out``. A row joins the columns of all descriptors.
    size : (int, int)
        Height and width to which pictures are scaled.

    Raises
    ------
    ImportError
        If PyAV is not installed.
    ValueError
        For invalid parameters or a damaged file.

    References
    ----------
    Oliva & Torralba, Modeling the shape of the scene, International Journal of Computer Vision 42,
    2001 (Gist, the default descriptor).

    Examples
    --------
    >>> from metriclearn.features.media.video import VideoFeatures
    >>> VideoFeatures(rate=2.0).get_feature_names_out().shape
    (512,)
    """

    rate: Annotated[float, Positive()] = 1.0
    descriptors: Annotated[
        Sequence[Descriptor], Each(Of("transform", "Gist()"), "{name} such as [Gist()]", least=1)
    ] = (Gist(),)
    size: Annotated[
        tuple[int, int],
        Needs(
            "{name}=(height, width) in pixels",
            lambda size: len(size) == 2 and all(map(Whole(1).accepts, size)),
        ),
    ] = (128, 128)

    def extract(self, path: str | os.PathLike[str]) -> NDArray[np.float64]:
        """Compute the features of one file, (T, P).

        Raises
        ------
        FileNotFoundError, ValueError
            For missing, empty and damaged files, see :func:`video_frames`.
        """
        self.fit()
        frames = video_frames(path, self.rate, (self.size[0], self.size[1]))
        rows = []
        while pictures := list(islice(frames, 16)):
            parts = [descriptor.transform(np.stack(pictures)) for descriptor in self.descriptors]
            rows.append(np.hstack(parts))
        return np.vstack(rows)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray:
        """Return the names of all columns, descriptor by descriptor."""
        return np.concatenate([d.get_feature_names_out() for d in self.descriptors])
