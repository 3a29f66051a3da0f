"""Draw segmented images side by side, with boundaries over the originals, and captions."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import metriclearn.plots.canvas as draw
from metriclearn.running.extras import optional
from metriclearn.running.figures import new_figure
from metriclearn.running.parameters import Each, FeatureNames, Needs, Title, needs
from metriclearn.running.values import real_array

_PICTURE = Needs("", lambda image: np.ndim(image) == 3 and np.asarray(image).dtype.kind in "uf")
_ROWS = Needs(
    "{name} that name a list of label maps or of captions",
    lambda rows: all(isinstance(row, (list, tuple)) for row in rows.values()),
)

_CAPTIONS = Needs(_ROWS.words, lambda rows: rows is None or _ROWS.accepts(rows))


@needs
def plot_image_segmentations(
    images: Annotated[
        Sequence[NDArray], Each(_PICTURE, "a list of {name} (H, W, 3) of uint8 or floats")
    ],
    segmentations: Annotated[Mapping[str, Sequence[NDArray]], _ROWS],
    captions: Annotated[Mapping[str, Sequence[str]] | None, _CAPTIONS] = None,
    names: FeatureNames = None,
    title: Title = None,
) -> Figure:
    """Draw segmented images in a grid, with a column for each image.

    The first row shows the original images. Each of the other rows shows the boundaries that one
    method found.

    Parameters
    ----------
    images : sequence of arrays (H, W, 3), uint8 or floats from 0 to 1
        The original images.
    segmentations : dict of str to sequence of label maps (H, W)
        For each row, by its name, the label map of every image.
    captions : dict of str to sequence of str, optional
        For each row, by its name, the captions below its pictures, such as losses.
    names : sequence of str, optional
        A title for every column.
    title : str, optional
        Title of the figure, which should tell what the figure shows.

    Returns
    -------
    Figure
        A matplotlib figure.

    Raises
    ------
    ValueError
        If a row does not have a label map of the right size for every image.

    See Also
    --------
    metriclearn.NormalizedCutMetricLearner : segments images.
    """
    for row, maps in segmentations.items():
        maps = [real_array("plot_image_segmentations", repr(row), one, None) for one in maps]
        if [np.shape(labels) for labels in maps] != [image.shape[:2] for image in images]:
            raise ValueError(
                f"plot_image_segmentations needs a label map of the size of every image, but row "
                f"{row!r} has other shapes than the {len(images)} images."
            )
    n_rows, n_columns = 1 + len(segmentations), len(images)
    width = 2.1  # inches of a column: text stays readable with four columns on a page
    tallest = max((image.shape[0] / image.shape[1] for image in images), default=1.0)
    height = (width * min(tallest, 0.85) + 0.3) * n_rows + (0.5 if title else 0.0)
    figure = new_figure((max(4.0, width * n_columns), height))
    axes = figure.subplots(n_rows, n_columns, squeeze=False)
    pictures = {"original": list(images)}
    for place, (row, maps) in enumerate(segmentations.items()):
        color = draw.PALETTE[(1, 0, 4, 2, 3)[place % 5]]
        pictures[row] = [_overlaid(image, labels, color) for image, labels in zip(images, maps)]
    style: dict[str, Any] = {"fontsize": draw.TEXT_SIZE + 1, "color": draw.INK}
    for panels, (row, shown) in zip(axes, pictures.items()):
        below = (captions or {}).get(row, [""] * n_columns)
        for ax, picture, caption in zip(panels, shown, below):
            ax.imshow(picture)
            ax.set(xticks=[], yticks=[])
            ax.set_xlabel(caption, **style, labelpad=2)
            ax.spines[:].set_visible(False)
        panels[0].set_ylabel(row, **style, fontweight="bold")
    for ax, name in zip(axes[0], [] if names is None else names):
        ax.set_title(name, **style)
    draw.headline(figure, textwrap.fill(title or "", int(10 * figure.get_figwidth())))
    return figure


def _overlaid(image: NDArray, labels: NDArray, color: str) -> NDArray:
    """Make an image pale, and draw the boundaries between labels over it in a color."""
    from matplotlib.colors import to_rgb
    from scipy.ndimage import maximum_filter

    find_boundaries = optional("skimage.segmentation", "image").find_boundaries
    pixels = image / 255.0 if image.dtype == np.uint8 else np.asarray(image, dtype=float)
    width = max(1, round(min(labels.shape) / 110))
    edges = maximum_filter(find_boundaries(labels, mode="thick"), size=width)
    shown = 0.25 + 0.75 * pixels
    shown[edges] = to_rgb(color)
    return shown
