"""Image features: color, position, texture and contrast, pooled over superpixels or pixel blocks.

The name of every feature includes its unit. scikit-image finds superpixels and converts colors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage

from metriclearn.running.components import ComponentParameters
from metriclearn.running.extras import optional
from metriclearn.running.parameters import Each, Needs, Positive, Real, Whole, check_parameters
from metriclearn.running.values import real_array


@dataclass(frozen=True, eq=False)
class ImageNodes:
    """The nodes of one image, which are superpixels or blocks.

    Attributes
    ----------
    features : array (S, P)
        Features of every node.
    sizes : array (S,)
        Number of pixels in every node.
    segments : array (H, W)
        The node of every pixel, 0 … S-1.
    positions : array (S, 2)
        Centers of the nodes, column and row, in pixels.
    """

    features: NDArray
    sizes: NDArray
    segments: NDArray
    positions: NDArray


class Picture:
    """One image in CIE Lab and its nodes. All groups of features are computed from a picture.

    Parameters
    ----------
    image : array (H, W, 3)
        RGB image, uint8 or floats from 0 to 1.
    segments : array (H, W)
        The node of every pixel, 0 … S-1.
    """

    def __init__(self, image: NDArray, segments: NDArray) -> None:
        rgb2lab = optional("skimage.color", "image").rgb2lab

        self.lab, self.segments = rgb2lab(image), segments
        self.shape = segments.shape
        self.sizes = np.bincount(segments.ravel())

    def pool(self, planes: NDArray) -> NDArray:
        """Average the values of the pixels of every node, (H, W) or (H, W, p) -> (S, p)."""
        flat = planes.reshape(self.segments.size, -1)
        sums = [np.bincount(self.segments.ravel(), weights=column) for column in flat.T]
        return np.column_stack(sums) / self.sizes[:, None]

    @cached_property
    def color(self) -> NDArray:
        """Mean L, a and b of every node, (S, 3)."""
        return self.pool(self.lab)

    @cached_property
    def position(self) -> NDArray:
        """Column and row of the center of every node, (S, 2).

        The two numbers are fractions of the image's width and height, and 0 at the image's center.
        """
        H, W = self.shape
        row, column = np.mgrid[:H, :W]
        return self.pool(np.stack([(column + 0.5) / W - 0.5, (row + 0.5) / H - 0.5], axis=-1))


class Group(Protocol):
    """A callable that computes one or more features of every node, such as :class:`Color`."""

    @property
    def names(self) -> list[str]:
        """One name per feature, with its unit."""

    def __call__(self, picture: Picture) -> NDArray:
        """Compute the features of the nodes, (S, p)."""


Scales = Annotated[Sequence[float], Each(Real(), "a list of {name} of pixels", least=1)]


class Color(ComponentParameters):
    """Mean CIE Lab color: L from 0 to 100, a and b about ±100."""

    names: ClassVar = ["L [Lab]", "a [Lab]", "b [Lab]"]

    def __call__(self, picture: Picture) -> NDArray:
        return picture.color


class Position(ComponentParameters):
    """Center of the node as fractions of the image's width and height: from −½ (left, top) to ½
    (right, bottom)."""

    names: ClassVar = ["x [widths]", "y [heights]"]

    def __call__(self, picture: Picture) -> NDArray:
        return picture.position


class Centrality(ComponentParameters):
    """(2x)² and (2y)² of a node's center (x, y): 0 on the image's center lines, 1 at its border."""

    names: ClassVar = ["(2x)² [widths²]", "(2y)² [heights²]"]

    def __call__(self, picture: Picture) -> NDArray:
        return (2.0 * picture.position) ** 2


@dataclass(eq=False, repr=False)
class GradientEnergy(ComponentParameters):
    """Mean magnitude of the gradient of the lightness L, at several scales.

    The magnitude is smoothed by a Gaussian whose standard deviation is three times the scale.

    Parameters
    ----------
    scales : sequence of float
        Standard deviations of the Gaussian derivative, in pixels.
    """

    scales: Scales = (1.0, 2.0)

    @property
    def names(self) -> list[str]:
        return [f"gradient at {scale:g} px [L/px]" for scale in self.scales]

    def __call__(self, picture: Picture) -> NDArray:
        L = picture.lab[..., 0]
        rises = [ndimage.gaussian_gradient_magnitude(L, scale) for scale in self.scales]
        pairs = zip(rises, self.scales)
        return picture.pool(np.dstack([ndimage.gaussian_filter(r, 3.0 * s) for r, s in pairs]))


@dataclass(eq=False, repr=False)
class ColorContext(ComponentParameters):
    """Lab color smoothed by a Gaussian.

    Parameters
    ----------
    scale : float
        Standard deviation, in units of √(width · height).
    """

    scale: Annotated[float, Real()] = 0.04

    names: ClassVar = [f"{channel} around [Lab]" for channel in "Lab"]

    def __call__(self, picture: Picture) -> NDArray:
        sigma = self.scale * float(np.sqrt(picture.segments.size))
        return picture.pool(ndimage.gaussian_filter(picture.lab, (sigma, sigma, 0)))


@dataclass(eq=False, repr=False)
class BorderContrast(ComponentParameters):
    """Comparison of a node's color with the colors at the border of the image.

    The first feature is the mean Gaussian similarity of the node's color to the colors at the
    border, so it is about the fraction of border pixels with a similar color. The second feature is
    log((a + 0.01) / (b + 0.01)), where a is the first feature, and b is the mean similarity of the
    node's color to the colors of the whole image. The third feature is the mean distance in Lab to
    the ten nearest colors at the border.

    Parameters
    ----------
    width : float
        Width of the border on each side, as a fraction of the image's width and height.
    scale : float
        Scale of the Gaussian similarity of colors, in Lab.
    """

    width: Annotated[float, Real(0.0, 0.5)] = 0.05
    scale: Annotated[float, Positive()] = 15.0

    names: ClassVar = ["border share [1]", "border share, relative [log]", "border distance [Lab]"]

    def __call__(self, picture: Picture) -> NDArray:
        from scipy.spatial.distance import cdist

        color, sizes = picture.color, picture.sizes
        border = np.flatnonzero(np.abs(picture.position).max(axis=1) > 0.5 - self.width)
        if not len(border):  # if nodes are larger than the border, the outermost node represents it
            border = np.atleast_1d(np.argmax(np.abs(picture.position).max(axis=1)))
        place = np.unique(np.linspace(0, len(color) - 1, 2000).astype(int))
        at_border, anywhere = (cdist(color, color[some]) for some in (border, place))
        shares = [
            np.exp(-((distance / self.scale) ** 2)) @ sizes[some] / sizes[some].sum()
            for distance, some in ((at_border, border), (anywhere, place))
        ]
        relative = np.log((shares[0] + 0.01) / (shares[1] + 0.01))
        nearest = min(10, len(border))
        closest = np.partition(at_border, nearest - 1, axis=1)[:, :nearest].mean(axis=1)
        return np.column_stack([shares[0], relative, closest])


@dataclass(eq=False, repr=False)
class Superpixels(ComponentParameters):
    """SLIC superpixels (scikit-image).

    Parameters
    ----------
    n_segments : int
        Approximate number of superpixels.
    compactness : float
        Weight of the distance in space relative to the distance in color, in Lab.

    References
    ----------
    Achanta et al., SLIC superpixels compared to state-of-the-art superpixel methods, PAMI 34, 2012.
    """

    n_segments: Annotated[int, Whole(1)] = 400
    compactness: Annotated[float, Positive()] = 10.0

    def __call__(self, image: NDArray) -> NDArray[np.int64]:
        slic = optional("skimage.segmentation", "image").slic

        segments = slic(image, self.n_segments, compactness=self.compactness, start_label=0)
        return np.unique(segments, return_inverse=True)[1].reshape(segments.shape)


@dataclass(eq=False, repr=False)
class PixelBlocks(ComponentParameters):
    """A regular grid of blocks, or of single pixels if the image is small.

    Parameters
    ----------
    n_blocks : int
        Approximate number of blocks.
    """

    n_blocks: Annotated[int, Real(1)] = 2000

    def __call__(self, image: NDArray) -> NDArray[np.int64]:
        H, W = image.shape[:2]
        side = max(1.0, float(np.sqrt(H * W / self.n_blocks)))
        rows, columns = max(1, round(H / side)), max(1, round(W / side))
        return (np.arange(H) * rows // H)[:, None] * columns + np.arange(W) * columns // W


_DEFAULT_GROUPS = (
    Color(),
    Position(),
    GradientEnergy(),
    ColorContext(),
    Centrality(),
    BorderContrast(),
)


@dataclass(eq=False, repr=False)
class ImageFeatures(ComponentParameters):
    """Divides RGB images into nodes, and computes the features and sizes of the nodes.

    Parameters
    ----------
    segmenter : callable
        ``Superpixels``, ``PixelBlocks``, or any callable that maps an image (H, W, 3) to the node
        of every pixel, (H, W).
    groups : sequence of groups
        ``Color``, ``Position``, ``Centrality``, ``GradientEnergy``, ``ColorContext``,
        ``BorderContrast``, or any callable that maps a ``Picture`` to features of
        its nodes, (S, p). Such a callable has the attribute ``names``: one name per feature, with
        its unit.

    Raises
    ------
    ValueError
        If an array is not an RGB image, or if the segmenter or a group cannot be used.

    References
    ----------
    Achanta et al., SLIC superpixels compared to state-of-the-art superpixel methods, PAMI 34, 2012.

    Examples
    --------
    >>> import numpy as np
    >>> nodes = ImageFeatures(PixelBlocks(16)).nodes(np.zeros((8, 8, 3), dtype=np.uint8))
    >>> nodes.features.shape, int(nodes.sizes.sum())
    ((16, 15), 64)
    """

    segmenter: Annotated[
        Callable[[NDArray], NDArray[np.int64]], Needs("a {name} such as Superpixels()", callable)
    ] = Superpixels()  # noqa: RUF009
    groups: Annotated[
        Sequence[Group], Each(Needs("", callable), "a list of {name} such as [Color()]", least=1)
    ] = _DEFAULT_GROUPS

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Check the parameters. Nothing is learned."""
        check_parameters(self)
        for group in self.groups:
            check_parameters(group)
        return self

    def nodes(self, image: ArrayLike) -> ImageNodes:
        """Find the nodes of one image, and compute their features.

        The computation takes about 0.2 s for 300×225 pixels.

        Raises
        ------
        ValueError
            If the image is not an (H, W, 3) RGB array of uint8 or of floats from 0 to 1, or if the
            segmenter does not return an integer array (H, W) that contains every node number
            0 … S−1.
        """
        self.fit()
        pixels = read_rgb(type(self).__name__, image)
        segments = np.asarray(self.segmenter(pixels))
        fits = segments.shape == pixels.shape[:2] and segments.dtype.kind in "iu"
        if not fits or segments.min() < 0 or not np.bincount(segments.ravel()).all():
            raise ValueError(
                "ImageFeatures needs a segmenter that gives each pixel the number 0 … S-1 of its "
                f"node, got an array of shape {segments.shape} of {segments.dtype} for an image "
                f"of shape {pixels.shape}; number them by numpy.unique(…, return_inverse=True)."
            )
        picture = Picture(pixels, segments)
        features = np.hstack([group(picture) for group in self.groups])
        H, W = picture.shape
        positions = (picture.position + 0.5) * (W, H)
        return ImageNodes(features, picture.sizes, picture.segments, positions)

    @property
    def names(self) -> list[str]:
        """The names of the P features, each with its unit."""
        return [name for group in self.groups for name in group.names]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray:
        """Return the names of the P features as an array."""
        return np.asarray(self.names, dtype=object)


def read_rgb(who: str, image: ArrayLike) -> NDArray:
    """Convert an image to an array (H, W, 3) of uint8, or of floats from 0 to 1.

    Raises ValueError if this is not possible.
    """
    kept = getattr(image, "dtype", None) == np.uint8
    pixels = np.asarray(image) if kept else real_array(who, "image", image, None)
    if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.size == 0:
        raise ValueError(
            f"{who} needs RGB images of shape (H, W, 3), got {pixels.shape}; convert gray images "
            "by numpy.stack([gray] * 3, axis=-1) and drop an alpha channel."
        )
    if pixels.dtype == np.uint8:
        return pixels
    if pixels.min() < 0 or pixels.max() > 1:
        kind = getattr(image, "dtype", pixels.dtype)
        raise ValueError(
            f"{who} needs images of uint8, or of floats from 0 to 1, got {kind} from "
            f"{pixels.min():g} to {pixels.max():g}; divide by the largest possible value."
        )
    return pixels
