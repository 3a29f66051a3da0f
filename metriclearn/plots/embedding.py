"""Labeled samples in two dimensions, side by side."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from metriclearn.plots.canvas import INK, PALETTE, TEXT_SIZE, TITLE_SIZE, finite, tidy

__all__ = ["plot_embeddings"]

_MARKERS = "osD^vP*X<>"


def plot_embeddings(
    panels: Mapping[str, ArrayLike], labels: ArrayLike, title: str | None = None
) -> Figure:
    """One scatter per panel of the same samples, their classes by color and marker.

    Parameters
    ----------
    panels : dict of str to array (T, 2)
        What is over a panel → coordinates of the samples.
    labels : array (T,)
        Classes, each named in the legend while they are ten at most.
    title : str, optional
        The message.

    Raises
    ------
    ValueError
        If there is no panel, or its coordinates are not finite or not (T, 2).
    """
    classes, codes = np.unique(np.asarray(labels), return_inverse=True)
    if not panels:
        raise ValueError("plot_embeddings needs at least one panel, got none.")
    figure = Figure(figsize=(4.0 * len(panels), 4.2), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for ax, (name, coordinates) in zip(axes, panels.items()):
        points = finite("plot_embeddings", f"coordinates of {name!r}", coordinates, 2)
        if points.shape != (len(codes), 2):
            raise ValueError(
                f"plot_embeddings needs coordinates of shape ({len(codes)}, 2) for {name!r}, one "
                f"row per label, got {points.shape}."
            )
        for k, own in enumerate(classes):
            rows = codes == k
            ax.plot(
                *points[rows].T,
                _MARKERS[(k // len(PALETTE) + k) % len(_MARKERS)],
                color=PALETTE[k % len(PALETTE)],
                ms=5 if len(codes) < 1000 else 2.5,
                mec="white",
                mew=0.4,
                alpha=0.9,
                label=str(own),
            )
        tidy(ax, "dimension 1", "dimension 2", grid="both")
        ax.set_title(name, loc="left", fontsize=TEXT_SIZE + 1, color=INK)
    if len(classes) <= 10:
        axes[-1].legend(frameon=False, fontsize=TEXT_SIZE, labelcolor=INK)
    if title:
        figure.suptitle(
            title.replace("$", r"\$"),
            x=0.012,
            ha="left",
            fontsize=TITLE_SIZE,
            fontweight="bold",
            color=INK,
        )
    return figure
