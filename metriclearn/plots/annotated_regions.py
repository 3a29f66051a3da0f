"""A sequence, its segmentations, and the annotated regions that they contradict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import ArrayLike, NDArray

import metriclearn.plots.canvas as draw
from metriclearn.problem.partition import Partition
from metriclearn.problem.regions import Region
from metriclearn.running.command_line import counted
from metriclearn.running.parameters import NAMED, Each, Of, Text, Title, needs
from metriclearn.running.values import real_array

_ERROR = draw.PALETTE[1]
# Color, opacity and words of regions.
_NONE = draw.PALETTE[5], 0.35, "no change here"
_NEEDED = draw.PALETTE[4], 0.45, "a change here"
_ALLOWED = draw.PALETTE[2], 0.35, "one change or none"
_MOST_POINTS = 4000
_NARROWEST = 0.004  # share of the width: narrower regions would be invisible
_NARROW = 6.0  # inches below which the legend does not fit next to the name of a segmentation
_CLOSE = 0.1  # share of the width: closer words would overlap


@needs
def plot_annotations(
    signal: ArrayLike,
    segmentations: Annotated[Mapping[str, ArrayLike], NAMED],
    regions: Annotated[
        Sequence[Region], Each(Of(Region, "Region(0, 9, NO_CHANGE)"), "a list of {name}")
    ],
    ax: Axes | None = None,
    *,
    title: Title = None,
    ylabel: Text = "",
) -> Figure:
    """Draw a panel for each segmentation: the signal, its segment means, and annotated regions.

    Regions in which no change is allowed are blue, regions that need a change are orange, and
    regions that may have one change are green. If the segmentation contradicts a region, the region
    has a frame with the words "missed" or "too many". Drawing takes O(T) time per panel.

    Parameters
    ----------
    signal : (T,) or (T, 1) array
        The signal.
    segmentations : dict of str to sequence of int
        The change-points of each segmentation by its name. As in ruptures, the last change-point is
        T.
    regions : sequence of Region
        The annotated regions.
    ax : matplotlib Axes, optional
        Where to draw. By default, a new figure is made.
    title : str, optional
        Replaces the default title.
    ylabel : str
        Name and unit of the signal.

    Returns
    -------
    Figure
        A matplotlib figure.

    Raises
    ------
    ValueError
        If there is no segmentation, or if a segmentation differs from the signal in length.

    See Also
    --------
    metriclearn.Region : an annotated region.
    metriclearn.indices.annotation_error : the fraction of regions that are contradicted.
    """
    x = real_array("plot_annotations", "signal", signal, None).ravel()
    strips = draw.read_strips("plot_annotations", segmentations, x)
    wrong = {name: [_verdict(r, strip) for r in regions] for name, strip in strips.items()}
    counts = {name: sum(map(bool, verdicts)) for name, verdicts in wrong.items()}
    many = counted(len(regions), "annotated region")
    message = f"{' against '.join(map(str, counts.values()))} of {many} contradicted"
    ax = draw.canvas(ax, (9.0, 0.9 + 1.9 * len(strips)), message, title)
    rows = draw.panels(ax, [1.0] * len(strips), stacked=True, sharex=True)
    for row, (name, strip) in zip(rows, strips.items()):
        _draw_signal(row, x, strip)
        _draw_regions(row, len(x), regions, wrong[name])
        changes = counted(strip.n_clusters - 1, "change")
        text = f"{name}: {changes}, {counts[name]} of {len(regions)} contradicted"
        style: Any = {"color": _ERROR, "weight": "bold"} if counts[name] else {"color": draw.INK}
        text = draw.shorten(text, int(draw.width_of(row) * 13))
        row.set_title(text, loc="left", size=draw.TEXT_SIZE, pad=3, parse_math=False, **style)
        draw.tidy(row, "samples" if row is rows[-1] else "", ylabel)
    drawn = [_NONE, _NEEDED] + [_ALLOWED] * any(_look(region) is _ALLOWED for region in regions)
    handles = [Patch(color=color, alpha=alpha, label=words) for color, alpha, words in drawn]
    handles.append(Patch(facecolor="none", edgecolor=_ERROR, lw=1.8, label="contradicted"))
    narrow = draw.width_of(ax) < _NARROW
    draw.legend(
        rows[-1], handles=handles, ncols=1 if narrow else len(handles), loc="upper right",
        bbox_to_anchor=(1, -0.3),
        borderaxespad=0.1, handlelength=1.2, columnspacing=1.2,
    )  # fmt: skip
    return draw.figure_of(ax)


def _look(region: Region) -> tuple[str, float, str]:
    if region.kind.fewest:
        return _NEEDED
    return _NONE if region.kind.most == 0 else _ALLOWED


def _verdict(region: Region, strip: Partition) -> str:
    """Return a word for how a segmentation contradicts a region, or "" if it does not."""
    count = region.count(strip.change_points[:-1])
    if region.kind.allows(count):
        return ""
    return "missed" if count < region.kind.fewest else "too many"


def _draw_signal(ax: Axes, x: NDArray, strip: Partition) -> None:
    """Draw the samples, and the segments' means and boundaries. Leave space for words above."""
    shown = np.unique(np.linspace(0, len(x) - 1, min(len(x), _MOST_POINTS)).astype(int))
    size = float(np.clip(2400 / len(shown), 1.2, 8))
    ax.scatter(shown, x[shown], s=size, color=draw.MUTED, lw=0, zorder=2)
    low, high = float(x.min()), float(x.max())
    pad = 0.08 * ((high - low) or 1.0)
    ax.set(xlim=(-0.5, len(x) - 0.5), ylim=(low - pad, high + 3 * pad))
    ends, means = strip.change_points, strip.pool(x[:, None])[:, 0] / strip.sizes
    blue = draw.PALETTE[0]
    ax.hlines(means, ends - strip.sizes - 0.5, ends - 0.5, color=blue, lw=2.2, zorder=3)
    ax.vlines(ends[:-1] - 0.5, low - pad, high + pad, color=blue, lw=1.0, zorder=3)


def _draw_regions(
    ax: Axes, n_samples: int, regions: Sequence[Region], wrong: Sequence[str]
) -> None:
    written = -np.inf  # position of the last word
    for region, verdict in sorted(zip(regions, wrong), key=lambda pair: pair[0].start):
        middle = (region.start + region.stop - 1) / 2
        half = max((region.stop - region.start) / 2, _NARROWEST * n_samples)
        color, alpha, _ = _look(region)
        ax.axvspan(middle - half, middle + half, color=color, alpha=alpha, lw=0)
        if not verdict:
            continue
        ax.axvspan(middle - half, middle + half, fill=False, edgecolor=_ERROR, lw=1.8, zorder=4)
        if middle - written < _CLOSE * n_samples:
            continue  # words would overlap, and the frame shows the error
        written = middle
        # outside the frame, on the side with room
        left = middle + half > 0.85 * n_samples
        place = middle + (-1 if left else 1) * (half + 0.006 * n_samples)
        style = {"ha": "right" if left else "left", "va": "top", "color": _ERROR, "weight": "bold"}
        ground = {"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.8}
        across = ax.get_xaxis_transform()
        draw.words(ax, place, 0.97, verdict, transform=across, zorder=5, bbox=ground, **style)
