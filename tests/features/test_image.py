"""Image features on pictures whose features are known."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone

from metriclearn.features.media.image import (
    BorderContrast,
    Centrality,
    Color,
    GradientEnergy,
    ImageFeatures,
    PixelBlocks,
)

pytest.importorskip("skimage")


def two_halves(height: int = 40, width: int = 60) -> NDArray:
    """Left half red, right half green."""
    image = np.zeros((height, width, 3), dtype=np.uint8)
    image[:, : width // 2] = (255, 0, 0)
    image[:, width // 2 :] = (0, 255, 0)
    return image


def square_in_the_middle(side: int = 48) -> NDArray:
    image = np.full((side, side, 3), 40, dtype=np.uint8)
    image[side // 3 : 2 * side // 3, side // 3 : 2 * side // 3] = (200, 180, 30)
    return image


def test_color_is_lab() -> None:
    nodes = ImageFeatures(PixelBlocks(6), (Color(),)).nodes(two_halves())
    red, green = nodes.features[0], nodes.features[-1]
    np.testing.assert_allclose(red, [53.24, 80.09, 67.20], atol=0.05)
    np.testing.assert_allclose(green, [87.73, -86.18, 83.18], atol=0.05)


def test_gradient_is_at_the_edge_in_lightness_per_pixel() -> None:
    ramp = np.repeat(np.linspace(0.2, 0.8, 60)[None, :, None], 40, axis=0).repeat(3, axis=2)
    pictured = ImageFeatures(PixelBlocks(100), (GradientEnergy((2.0,)), Color())).nodes(ramp)
    L = pictured.features[:, 1]
    inner = np.abs(pictured.positions[:, 0] - 30) < 10
    rise = (L.max() - L.min()) / np.ptp(pictured.positions[:, 0])
    np.testing.assert_allclose(pictured.features[inner, 0], rise, rtol=0.1)
    edge = ImageFeatures(PixelBlocks(100), (GradientEnergy((1.0,)),)).nodes(two_halves())
    nearest = np.abs(edge.positions[:, 0] - 30)
    assert edge.features[nearest < 5].min() > 5 * edge.features[nearest > 20].max()


def test_border_contrast_tells_the_middle_from_the_border() -> None:
    nodes = ImageFeatures(PixelBlocks(144), (BorderContrast(),)).nodes(square_in_the_middle())
    inside = np.abs(nodes.positions - 24).max(axis=1) < 8
    share, relative, distance = nodes.features.T
    assert share[inside].max() < 0.01 < 0.99 < share[~inside].min()
    assert relative[inside].max() < -1 < 0 < relative[~inside].min()
    np.testing.assert_allclose(distance[~inside], 0.0, atol=1e-6)
    assert distance[inside].min() > 50


def test_names_carry_units_and_match() -> None:
    features = ImageFeatures(groups=(Color(), Centrality(), GradientEnergy()))
    assert features.names[:3] == ["L [Lab]", "a [Lab]", "b [Lab]"]
    assert len(features.names) == features.nodes(two_halves()).features.shape[1] == 7
    assert list(clone(features).get_feature_names_out()) == features.names
    changed = clone(features).set_params(segmenter__n_segments=7)
    assert changed.segmenter.n_segments == 7
    assert features.segmenter.n_segments == 400
