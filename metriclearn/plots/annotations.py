"""A sequence, its segmentations, and the annotated regions they agree with or contradict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import ArrayLike, NDArray

from metriclearn.plots.canvas import (
    INK,
    MUTED,
    PALETTE,
    TEXT_SIZE,
    canvas,
    figure_of,
    finite,
    panels,
    say,
    tidy,
)
from metriclearn.problem.knowledge import Region
from metriclearn.problem.partition import Partition

__all__ = ["plot_annotations"]

_BLUE, _ORANGE, _ERROR = PALETTE[5], PALETTE[4], PALETTE[1]
_MOST_POINTS = 4000
_CLOSE = 0.1  # of the width: words nearer than that would overlap


def plot_annotations(
    signal: ArrayLike,
    segmentations: Mapping[str, ArrayLike],
    regions: Sequence[Region],
    ax: Axes | None = None,
    *,
    title: str | None = None,
    ylabel: str = "",
) -> Figure:
    """One panel per segmentation: the signal, its segment means, and annotated regions in color.

    A region in which no change is allowed is blue, one in which there must be one is orange; a
    region that the segmentation contradicts is framed, and says whether a change is missing or
    one too many. O(T) per panel.

    Parameters
    ----------
    signal : (T,) or (T, 1) array
    segmentations : dict of str to sequence of int
        Name → change-points as in ruptures (the last one is T).
    regions : sequence of Region
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    title : str, optional
        Replaces the message.
    ylabel : str
        Name and unit of the signal.

    Raises
    ------
    ValueError
        If there is no segmentation, or lengths differ.
    """
    x = finite("plot_annotations", "signal", np.ravel(np.asarray(signal)), 1)
    found = {name: Partition.from_change_points(ends) for name, ends in segmentations.items()}
    if not found or any(one.n_samples != len(x) for one in found.values()):
        raise ValueError(
            f"plot_annotations needs one or more segmentations of the {len(x)} samples of the "
            "signal; end every list of change-points with T."
        )
    wrong = {name: [_verdict(r, one) for r in regions] for name, one in found.items()}
    ax = canvas(ax, 9.0, 0.9 + 1.9 * len(found))
    counts = ", ".join(f"{name} {sum(map(bool, v))}" for name, v in wrong.items())
    many = f"{len(regions)} annotated region{'s' if len(regions) != 1 else ''}"
    say(ax, f"Contradicted of {many}: {counts}", title)
    rows = panels(ax, [1.0] * len(found), True, 0.45)
    for row, (name, one) in zip(rows, found.items()):
        _draw(row, x, one, regions, wrong[name])
        changes = f"{one.n_clusters - 1} change{'s' if one.n_clusters != 2 else ''}"
        row.set_title(f"{name} · {changes}", loc="left", size=TEXT_SIZE, color=INK, pad=3)
        tidy(row, "samples" if row is rows[-1] else "", ylabel)
    handles = [
        Patch(color=_BLUE, alpha=0.35, label="no change here"),
        Patch(color=_ORANGE, alpha=0.45, label="a change here"),
        Patch(facecolor="none", edgecolor=_ERROR, lw=1.8, label="contradicted"),
    ]
    rows[0].legend(
        handles=handles, loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False,
        fontsize=TEXT_SIZE, borderaxespad=0.1, handlelength=1.2, columnspacing=1.2,
    )  # fmt: skip
    return figure_of(ax)


def _verdict(region: Region, found: Partition) -> str:
    """Empty where a segmentation agrees with the region."""
    count = region.count(found.change_points[:-1])
    if region.kind.allows(count):
        return ""
    return "missed" if count < region.kind.fewest else "too many"


def _draw(
    ax: Axes, x: NDArray, found: Partition, regions: Sequence[Region], wrong: Sequence[str]
) -> None:
    shown = np.unique(np.linspace(0, len(x) - 1, min(len(x), _MOST_POINTS)).astype(int))
    size = float(np.clip(2400 / len(shown), 1.2, 8))
    ax.scatter(shown, x[shown], s=size, color=MUTED, lw=0, zorder=2)
    low, high = float(x.min()), float(x.max())
    pad = 0.08 * ((high - low) or 1.0)
    ax.set(xlim=(-0.5, len(x) - 0.5), ylim=(low - pad, high + 3 * pad))
    least = 0.004 * len(x)  # narrower regions would not be seen
    written = -np.inf  # where the last word stands
    for region, verdict in sorted(zip(regions, wrong), key=lambda pair: pair[0].start):
        middle, half = (region.start + region.stop - 1) / 2, (region.stop - region.start) / 2
        left, right = middle - max(half, least), middle + max(half, least)
        change = region.kind.fewest > 0
        ax.axvspan(
            left, right, color=_ORANGE if change else _BLUE, alpha=0.45 if change else 0.35, lw=0
        )
        if not verdict:
            continue
        ax.axvspan(left, right, fill=False, edgecolor=_ERROR, lw=1.8, zorder=4)
        if middle - written < _CLOSE * len(x):
            continue  # the frame says it; words would cover each other
        written = middle
        ax.text(
            float(np.clip(middle, 0.05 * len(x), 0.95 * len(x))), high + 2.6 * pad, verdict,
            ha="center", va="top", size=TEXT_SIZE, color=_ERROR, weight="bold", zorder=5,
        )  # fmt: skip
    ends = found.change_points
    means = found.pool(x[:, None])[:, 0] / found.sizes
    ax.hlines(means, ends - found.sizes - 0.5, ends - 0.5, color=PALETTE[0], lw=2.2, zorder=3)
    ax.vlines(ends[:-1] - 0.5, low - pad, high + pad, color=PALETTE[0], lw=1.0, zorder=3)
