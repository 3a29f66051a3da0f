"""Scatter plots of labeled samples in two dimensions, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

import metriclearn.plots.canvas as draw
from metriclearn.problem.partition import label_values
from metriclearn.running.parameters import NAMED, Title, needs
from metriclearn.running.values import real_array

_MARKERS = "osD^vP*X<>"


@needs
def plot_embeddings(
    panels: Annotated[Mapping[str, ArrayLike], NAMED],
    labels: ArrayLike,
    title: Title = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw scatter plots of the same samples, with one panel for each set of coordinates.

    Colors and markers show the classes of the samples.

    Parameters
    ----------
    panels : dict of str to array (T, 2)
        For each panel, by its title, the coordinates of the samples.
    labels : array (T,)
        The class of every sample. The legend names the classes if there are at most ten.
    title : str, optional
        Title of the figure, which should tell what the figure shows.
    ax : matplotlib Axes, optional
        Where to draw. By default, a new figure is made. In narrow axes, panels are stacked.

    Returns
    -------
    Figure
        A matplotlib figure.

    Raises
    ------
    ValueError
        If there is no panel, or if coordinates are not finite or have another shape.

    See Also
    --------
    metriclearn.ClusteringMetricLearner : its ``transform`` returns such coordinates.
    """
    values = label_values(labels).tolist()  # type: ignore[arg-type]
    classes = sorted(set(values), key=lambda label: (str(type(label)), label))
    codes = np.array([classes.index(label) for label in values])
    if not panels:
        raise ValueError("plot_embeddings needs at least one panel, got none.")
    top = draw.canvas(ax, (4.5 * len(panels), 4.2), title or "")
    axes = draw.panels(top, [1.0] * len(panels), stacked=draw.width_of(top) < 5)
    for panel, (name, coordinates) in zip(axes, panels.items()):
        points = real_array("plot_embeddings", f"coordinates of {name!r}", coordinates, 2)
        if points.shape != (len(codes), 2):
            raise ValueError(
                f"plot_embeddings needs coordinates of shape ({len(codes)}, 2) for {name!r}, one "
                f"row per label, got {points.shape}."
            )
        for k, name_of_class in enumerate(classes):
            panel.plot(
                *points[codes == k].T, _MARKERS[(k // len(draw.PALETTE) + k) % len(_MARKERS)],
                color=draw.PALETTE[k % len(draw.PALETTE)], ms=5 if len(codes) < 1000 else 2.5,
                mec="white", mew=0.4, alpha=0.9, label=str(name_of_class),
            )  # fmt: skip
        draw.tidy(panel, "dimension 1", "dimension 2", grid="both")
        panel.set_title(name, loc="left", fontsize=draw.TEXT_SIZE + 1, color=draw.INK)
    if len(classes) <= 10:
        draw.legend(axes[-1])
    return draw.figure_of(top)
