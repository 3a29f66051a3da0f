"""Segmented images side by side: boundaries drawn over the originals, one caption each."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

import metriclearn.plots.canvas as draw
from metriclearn.running.extras import optional
from metriclearn.running.figures import new_figure
from metriclearn.running.parameters import Needs, needs, real_array, several

_PICTURE = Needs("", lambda image: np.ndim(image) == 3 and np.asarray(image).dtype.kind in "uf")
_ROWS = Needs(
    "{name} that name a list of label maps or of captions",
    lambda rows: all(isinstance(row, (list, tuple)) for row in rows.values()),
)


@needs(
    images=several(_PICTURE, "a list of {name} (H, W, 3) of uint8 or floats"),
    segmentations=_ROWS,
    captions=Needs(_ROWS.words, lambda rows: rows is None or _ROWS.accepts(rows)),
)
def plot_image_segmentations(
    images: Sequence[NDArray],
    segmentations: Mapping[str, Sequence[NDArray]],
    captions: Mapping[str, Sequence[str]] | None = None,
    names: Sequence[str] | None = None,
    title: str | None = None,
) -> Figure:
    """One column per image: the original, then a row per segmentation with its boundaries.

    Parameters
    ----------
    images : sequence of arrays (H, W, 3), uint8 or floats from 0 to 1
    segmentations : dict of str to sequence of label maps (H, W)
        Name of the row → one label map per image.
    captions : dict of str to sequence of str, optional
        Under every picture of a row, such as its loss.
    names : sequence of str, optional
        Over every column.
    title : str, optional
        The message.

    Returns
    -------
    Figure
        Of matplotlib.

    Raises
    ------
    ValueError
        If a row does not have one label map of its size per image.

    See Also
    --------
    metriclearn.NormalizedCutMetricLearner : what segments images.
    """
    for row, maps in segmentations.items():
        maps = [real_array("plot_image_segmentations", repr(row), one, None) for one in maps]
        if [np.shape(labels) for labels in maps] != [image.shape[:2] for image in images]:
            raise ValueError(
                f"plot_image_segmentations needs a label map of the size of every image, but row "
                f"{row!r} has other shapes than the {len(images)} images."
            )
    n_rows, n_columns = 1 + len(segmentations), len(images)
    width = 2.1  # inches of a column; words are readable where four of them fill a page
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
    """The image, paler, with the boundaries between labels in a color."""
    from matplotlib.colors import to_rgb
    from scipy.ndimage import maximum_filter

    find_boundaries = optional("skimage.segmentation", "image").find_boundaries
    pixels = image / 255.0 if image.dtype == np.uint8 else np.asarray(image, dtype=float)
    width = max(1, round(min(labels.shape) / 110))
    edges = maximum_filter(find_boundaries(labels, mode="thick"), size=width)
    shown = 0.25 + 0.75 * pixels
    shown[edges] = to_rgb(color)
    return shown


@needs()
def plot_learned_scales(
    weights: ArrayLike,
    deviations: ArrayLike,
    feature_names: Sequence[str] | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Learned scales of a Gaussian similarity: bars of how much each feature counts.

    A bar is √b σ, the standard deviation over the learned scale; the number next to it is the scale
    1/√b, the distance in this feature alone at which exp(−b d²) falls to 1/e, in the feature's
    unit. Features of weight 0 are left out.

    Parameters
    ----------
    weights : array (P,)
        b, the diagonal of the metric, in the units of the features.
    deviations : array (P,)
        Standard deviations σ of the features.
    feature_names : sequence of P str, optional
        With their units in brackets, which are put to the numbers.
    title : str, optional
        Replaces the message.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Figure
        Of matplotlib.

    Raises
    ------
    ValueError
        If there are no positive finite deviations, or other numbers of names or weights.

    See Also
    --------
    metriclearn.GaussianSimilarity : whose scales they are.

    Examples
    --------
    >>> from metriclearn.plots import plot_learned_scales
    >>> figure = plot_learned_scales([4.0, 0.25], [1.0, 1.0], ["x [px]", "y [px]"])
    """
    who = "plot_learned_scales"
    b = real_array(who, "weights", weights, 1)
    spread = real_array(who, "deviations", deviations, 1)
    names = draw.named(who, feature_names, len(b))
    if b.min() < 0 or b.shape != spread.shape or not spread.min() > 0:
        raise ValueError(
            f"{who} needs weights of at least 0 and a positive deviation for each, got {len(b)} "
            f"weights from {b.min():g} and {len(spread)} deviations from {spread.min():g}."
        )
    shares = np.sqrt(b) * spread
    order = np.argsort(-shares, kind="stable")[: np.count_nonzero(b)]
    unused = f" ({len(b) - len(order)} not used)" if len(order) < len(b) else ""
    message = f"Learned scales{unused}: where the similarity falls to 1/e"
    ax = draw.canvas(ax, (9.0, 1.3 + 0.22 * max(len(order), 3)), message, title)
    draw.tidy(ax, "standard deviation of the feature over its learned scale", grid="x")
    titles, texts = [], []
    for p in order:
        title, unit = _title_and_unit(names[p])
        titles.append(title)
        texts.append(f"{draw.number(float(b[p] ** -0.5))} {unit}".rstrip())
    bars = draw.bars(ax, shares[order], titles, draw.PALETTE[0])
    ax.bar_label(bars, texts, padding=5, size=draw.TEXT_SIZE - 1, color=draw.INK)
    ax.margins(x=0.15)
    return draw.figure_of(ax)


def _title_and_unit(name: str) -> tuple[str, str]:
    """("row", "pixel") of "row [pixel]"; the unit is "" for [1] and where there is no bracket."""
    title, bracket, unit = name.rpartition(" [")
    if not bracket:
        return name, ""
    return title, unit.removesuffix("]").removesuffix("1")


@needs()
def plot_kernel_error(
    counts: Sequence[int], errors: NDArray, quantity: str, title: str | None = None
) -> Figure:
    """Error of random features against their number, with the slope O(1/√D).

    Parameters
    ----------
    counts : sequence of int
        D.
    errors : array (len(counts), runs)
        Relative errors, one column per draw.
    quantity : str
        What the error is of.
    title : str, optional
        Replaces the message.

    Returns
    -------
    Figure
        Of matplotlib.

    Raises
    ------
    ValueError
        If counts and errors are not positive, or do not fit together.

    References
    ----------
    Rahimi & Recht, Random features for large-scale kernel machines, NIPS 2007.
    """
    numbers = real_array("plot_kernel_error", "counts", counts, 1)
    errors = real_array("plot_kernel_error", "errors", errors)
    if len(numbers) < 2 or len(errors) != len(numbers) or min(numbers.min(), errors.min()) <= 0:
        raise ValueError(
            "plot_kernel_error needs two or more positive counts and a row of positive errors for "
            f"each, got {len(counts)} counts and errors of shape {errors.shape}."
        )
    middle = np.sqrt(np.mean(errors**2, axis=1))
    slope = np.polyfit(np.log(counts), np.log(middle), 1)[0]
    message = f"Random features: error of {quantity} ~ D^{slope:.2f}"
    ax = draw.canvas(None, (6.0, 3.6), message, title)
    ax.plot(counts, errors, ".", color=draw.PALETTE[0], alpha=0.35, markersize=5)
    ax.plot(counts, middle, color=draw.PALETTE[0], linewidth=2)
    guide = middle[0] * np.sqrt(numbers[0] / numbers)
    ax.plot(counts, guide, "--", color=draw.PALETTE[1], linewidth=1.5)
    ax.set(xscale="log", yscale="log")
    ax.text(counts[-1], middle[-1], "  root mean square", va="center", color=draw.PALETTE[0])
    ax.text(counts[-2], guide[-2] * 1.15, "1/√D", va="bottom", color=draw.PALETTE[1])
    draw.tidy(ax, "random features D", f"relative error of {quantity}", grid="y")
    return draw.figure_of(ax)
