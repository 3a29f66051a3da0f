"""GIST against its definition, written out with NumPy."""

import numpy as np
import pytest

from metriclearn.features.media.gist import Gist, prefilter


def reference(picture: np.ndarray, orientations: tuple[int, ...], blocks: int) -> np.ndarray:
    """The authors' program, loop by loop: prefilt, createGabor, gistGabor, downN."""
    x = np.pad(np.log(picture + 1), 5, mode="symmetric")
    n = len(x)
    fx, fy = np.meshgrid(np.arange(-n // 2, n // 2), np.arange(-n // 2, n // 2))
    s1 = 4 / np.sqrt(np.log(2))
    gf = np.fft.fftshift(np.exp(-(fx**2 + fy**2) / s1**2))
    x = x - np.fft.ifft2(np.fft.fft2(x) * gf).real
    x = x / (0.2 + np.sqrt(np.abs(np.fft.ifft2(np.fft.fft2(x**2) * gf))))
    x = x[5:-5, 5:-5]
    size = len(x)
    pad = size // 4
    padded = np.pad(x, pad, mode="symmetric")
    m = len(padded)
    fx, fy = np.meshgrid(np.arange(-m // 2, m // 2), np.arange(-m // 2, m // 2))
    fr = np.fft.fftshift(np.sqrt(fx**2 + fy**2))
    t = np.fft.fftshift(np.angle(fx + 1j * fy))
    result = []
    for i, count in enumerate(orientations):
        for j in range(count):
            p1, p2, p3, p4 = 0.35, 0.3 / 1.85**i, 16 * count**2 / 32**2, np.pi / count * j
            tr = t + p4
            tr = tr + 2 * np.pi * (tr < -np.pi) - 2 * np.pi * (tr > np.pi)
            g = np.exp(-10 * p1 * (fr / m / p2 - 1) ** 2 - 2 * p3 * np.pi * tr**2)
            ig = np.abs(np.fft.ifft2(np.fft.fft2(padded) * g))[pad:-pad, pad:-pad]
            cell = size // blocks
            result += [
                ig[r * cell : (r + 1) * cell, c * cell : (c + 1) * cell].mean()
                for r in range(blocks)
                for c in range(blocks)
            ]
    return np.array(result)


@pytest.mark.parametrize(("orientations", "blocks"), [((8, 8, 8, 8), 4), ((6, 4), 2)])
def test_equals_the_definition(orientations: tuple[int, ...], blocks: int) -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (3, 64, 64)).astype(float)
    found = Gist(orientations, blocks, size=64, batch=2).transform(pictures)
    expected = [reference(picture, orientations, blocks) for picture in pictures]
    assert found.shape == (3, sum(orientations) * blocks**2)
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-5)


def test_constant_picture_has_no_energy_and_contrast_hardly_matters() -> None:
    gist = Gist((4, 4), 2, 64)
    assert np.abs(gist.transform(np.full((1, 64, 64), 77.0))).max() < 1e-5
    flat = prefilter(np.full((1, 32, 32), 200.0))
    assert np.abs(flat).max() < 1e-10


@pytest.mark.parametrize("shape", [(2, 80, 100), (2, 37, 20), (1, 5, 7), (1, 1, 1), (2, 64, 16)])
def test_pictures_are_scaled_as_by_torch(shape: tuple[int, int, int]) -> None:
    torch = pytest.importorskip("torch")
    pictures = np.random.default_rng(2).integers(0, 256, shape).astype(float)
    options = {"mode": "bilinear", "antialias": True, "align_corners": False}
    batch = torch.from_numpy(pictures)[:, None]
    scaled = torch.nn.functional.interpolate(batch, (32, 32), **options)[:, 0].numpy()
    gist = Gist((4, 4), 2, 32)
    np.testing.assert_allclose(
        gist.transform(pictures), gist.transform(scaled.clip(0)), rtol=0, atol=1e-6
    )
