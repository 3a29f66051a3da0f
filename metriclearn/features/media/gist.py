"""GIST, which describes the layout of a picture by local energies of a bank of Gabor filters.

A. Oliva & A. Torralba, Modeling the shape of the scene: a holistic representation of the spatial
envelope, IJCV 42(3), 2001, with the constants of the authors' program (LMgist). Lajugie, Arlot &
Bach, section 6.1, use GIST as features of the pictures of a show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.fft import fft2, ifft2

from metriclearn.running.parameters import Each, Whole
from metriclearn.running.values import real_array
from metriclearn.views.plain import StatelessTransformer

_GRAY = np.array([0.299, 0.587, 0.114])  # ITU-R BT.601


def gabor_bank(orientations: tuple[int, ...], size: int) -> NDArray[np.float64]:
    """Compute the transfer functions of all filters of the bank, (Σ orientations, size, size).

    Frequencies are in the order of ``numpy.fft.fftfreq``. Scale i = 0, 1, … has K_i orientations.
    At the frequency with radius r (cycles per picture) and angle θ, the filter of orientation
    k = 0 … K_i − 1 has the value

        G = exp(−3.5 (r / (size f_i) − 1)² − 2π (16 K_i² / 32²) (θ + πk/K_i)²),

    where f_i = 0.3 / 1.85^i, and the angle θ + πk/K_i is wrapped to [−π, π]. The cost is
    O(filters · size²).
    """
    frequency = np.fft.fftfreq(size, 1.0 / size)
    # the program's frequencies run from −n/2 to n/2 − 1, like fftfreq
    fx, fy = np.meshgrid(frequency, frequency)
    radius, angle = np.hypot(fx, fy), np.arctan2(fy, fx)
    bank = []
    for scale, count in enumerate(orientations):
        center = 0.3 / 1.85**scale
        radial = -3.5 * (radius / size / center - 1.0) ** 2
        for k in range(count):
            turned = angle + np.pi * k / count
            turned = np.where(turned > np.pi, turned - 2.0 * np.pi, turned)
            bank.append(np.exp(radial - 2.0 * np.pi * (16.0 * count**2 / 32.0**2) * turned**2))
    return np.array(bank)


@dataclass(eq=False, repr=False)
class Gist(StatelessTransformer):
    """GIST descriptors of pictures, (n, H, W) or (n, H, W, 3) -> (n, filters · blocks²).

    Every picture is converted to gray, whitened and normalized in contrast (:func:`prefilter`), and
    filtered by the bank. The modulus of each response is averaged over the cells of a grid of
    blocks × blocks. The pictures are filtered in single precision, one batch at a time, with a cost
    of O(n filters · size² log size).

    Parameters
    ----------
    orientations : tuple of int
        Number of orientations at every scale, finest scale first.
    blocks : int
        Number of cells on each side of the grid.
    size : int
        Pictures are scaled to size × size pixels.
    batch : int
        Number of pictures that are filtered at a time.
    """

    orientations: Annotated[
        tuple[int, ...], Each(Whole(1), "a list of {name}, one or more for every scale", least=1)
    ] = (8, 8, 8, 8)
    blocks: Annotated[int, Whole(1)] = 4
    size: Annotated[int, Whole(1)] = 128
    batch: Annotated[int, Whole(1)] = 8

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Check the parameters. Nothing is learned."""
        if super().fit().blocks > self.size:
            raise ValueError(f"Gist needs blocks <= size, got {self.blocks} and {self.size}.")
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Compute the descriptors of pictures with values from 0 to 255.

        The columns are in the order of the filters, and for each filter in the order of the cells.
        """
        self.fit()
        pictures = gray(X)
        if pictures.shape[1:] != (self.size, self.size):
            rows, columns = (_interpolation(n, self.size) for n in pictures.shape[1:])
            pictures = rows @ pictures @ columns.T
        pad = self.size // 4
        bank = gabor_bank(tuple(self.orientations), self.size + 2 * pad).astype(np.float32)
        parts = []
        for start in range(0, len(pictures), self.batch):
            flat = prefilter(pictures[start : start + self.batch])
            padded = np.pad(flat, ((0, 0), (pad, pad), (pad, pad)), mode="symmetric")
            spectrum = fft2(padded.astype(np.float32))
            # one filter at a time, because all responses of a batch do not fit into the caches
            cells = [self._cells(np.abs(ifft2(spectrum * G, overwrite_x=True)), pad) for G in bank]
            parts.append(np.stack(cells, axis=1).reshape(len(flat), -1))
        return np.vstack(parts).astype(np.float64)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray:
        """Return names such as ``gist_s0_o3_r1_c2``: scale 0, orientation 3, row 1, column 2."""
        cells = [f"r{r}_c{c}" for r in range(self.blocks) for c in range(self.blocks)]
        filters = [f"s{s}_o{o}" for s, count in enumerate(self.orientations) for o in range(count)]
        return np.array([f"gist_{g}_{cell}" for g in filters for cell in cells], dtype=object)

    def _cells(self, response: NDArray, pad: int) -> NDArray:
        """Average the response of a filter over every cell of the grid, (n, blocks, blocks)."""
        inner = response[:, pad : pad + self.size, pad : pad + self.size]
        edges = np.linspace(0, self.size, self.blocks + 1).astype(int)  # the program truncates
        sides = np.diff(edges)
        sums = np.add.reduceat(np.add.reduceat(inner, edges[:-1], axis=1), edges[:-1], axis=2)
        return sums / np.outer(sides, sides).astype(np.float32)


def prefilter(pictures: NDArray[np.float64], cutoff: float = 4.0) -> NDArray[np.float64]:
    """Whiten pictures and normalize their contrast, (n, size, size).

    x = log(1 + picture) is mirrored by 5 pixels on every side. L is a Gaussian low pass of
    ``cutoff`` cycles per picture. Then y = x − Lx, and the result is y / (0.2 + √|L y²|).
    """
    border = 5
    x = np.pad(np.log1p(pictures), ((0, 0), (border, border), (border, border)), mode="symmetric")
    height = x.shape[1]
    n = height + height % 2
    x = np.pad(x, ((0, 0), (0, n - height), (0, n - height)), mode="symmetric")
    frequency = np.fft.fftfreq(n, 1.0 / n)
    squared = frequency[:, None] ** 2 + frequency[None, :] ** 2
    low_pass = np.exp(-squared * np.log(2.0) / cutoff**2)
    signal = x - ifft2(fft2(x) * low_pass).real
    spread = np.sqrt(np.abs(ifft2(fft2(signal**2) * low_pass)))
    whole = signal / (0.2 + spread)
    return whole[:, border : height - border, border : height - border]


def gray(X: ArrayLike) -> NDArray[np.float64]:
    """Compute the luminance of pictures, (n, H, W, 3) or (n, H, W) -> (n, H, W)."""
    pictures = real_array("Gist", "pictures", X, None)
    if pictures.ndim == 4 and pictures.shape[3] == 3:
        pictures = pictures @ _GRAY
    if pictures.ndim != 3:
        raise ValueError(
            f"Gist needs pictures (n, H, W) or (n, H, W, 3), got shape {np.shape(X)}; put a single "
            "picture into a list."
        )
    if pictures.min() < 0:
        raise ValueError(f"Gist needs values from 0 to 255, got {pictures.min()}; rescale them.")
    return pictures


def _interpolation(n: int, size: int) -> NDArray[np.float64]:
    """Return the weights (size, n) by which n pixels in a row are resampled to ``size`` pixels.

    A new pixel is a weighted average of the given pixels. The weight of a given pixel falls
    linearly with its distance from the center of the new pixel. The weight is 0 if this distance is
    at least one pixel of the coarser grid. This is the bilinear filter with antialiasing, as in
    Pillow and torch.
    """
    step = n / size
    distances = (np.arange(size)[:, None] + 0.5) * step - (np.arange(n) + 0.5)
    weights = np.maximum(0.0, 1.0 - np.abs(distances) / max(step, 1.0))
    return weights / weights.sum(axis=1, keepdims=True)
