"""Draw the timeline of a recording: sound or pictures, strips of labeled segments, and a clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator
from numpy.typing import ArrayLike

import metriclearn.plots.canvas as draw
from metriclearn.running.parameters import Each, Needs, OneOf, Title, needs
from metriclearn.running.values import real_array

Segment = tuple[float, float, str]
_ABOVE = 1.5  # height of sound or pictures; a strip has height 1
_POINTS = 1500
_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)


_PICTURE = Needs(
    "", lambda image: np.ndim(image) in (2, 3) and np.asarray(image).dtype.kind in "uif"
)
_SEGMENTS = Each(
    Needs("", lambda one: len(one) == 3 and 0 <= one[0] < one[1] < np.inf), "", least=1
)
_STRIPS = Needs(
    "one strip or more in {name}, each a list of segments (start, end, label)",
    lambda strips: len(strips) > 0 and all(map(_SEGMENTS.accepts, strips.values())),
)


@needs
def plot_timeline(
    strips: Annotated[Mapping[str, Sequence[Segment]], _STRIPS],
    waveform: ArrayLike | None = None,
    thumbnails: Annotated[
        Sequence[ArrayLike] | None, OneOf(None, Each(_PICTURE, "a list of {name}"))
    ] = None,
    ax: Axes | None = None,
    *,
    title: Title = None,
) -> Figure:
    """Draw strips of labeled segments below the sound or the pictures of a recording.

    A label has the same color in all strips. A legend names the colors, and labels are written into
    segments that are wide enough. If no segment of a strip has a label, two colors alternate. The
    time axis is in seconds, or in minutes:seconds for recordings longer than two minutes. Drawing
    takes O(samples + segments) time.

    Parameters
    ----------
    strips : dict of str to list of (start, end, label)
        The segments of each strip by its name, in seconds. If there is a true segmentation, it
        comes first.
    waveform : array (n,), optional
        The sound over the whole length of the strips. The envelope of the sound is drawn.
    thumbnails : sequence of (H, W, 3) pictures, optional
        Pictures at equal distances over the whole length.
    ax : matplotlib Axes, optional
        Where to draw. By default, a new figure is made.
    title : str, optional
        Replaces the default title.

    Returns
    -------
    Figure
        A matplotlib figure.

    Raises
    ------
    ValueError
        If there is no strip, or if a strip has no segments.

    See Also
    --------
    metriclearn.Segmenter : segments recordings.
    """
    end = max(segments[-1][1] for segments in strips.values())
    message = _message(strips)
    strips = {name: _taking_turns(segments) for name, segments in strips.items()}
    labels = sorted({label for segments in strips.values() for _, _, label in segments})
    colors = {label: draw.PALETTE[i % len(draw.PALETTE)] for i, label in enumerate(labels)}
    above = (waveform is not None) + (thumbnails is not None)
    height = 1.25 + 0.62 * len(strips) + 0.9 * above
    ax = draw.canvas(ax, (11.0, height), message, title)
    top = -draw.LABEL
    if waveform is not None:
        samples = real_array("plot_timeline", "waveform", waveform, 1)
        times, _, high = draw.envelope(np.abs(samples), end, _POINTS)
        reach, middle = 0.46 * _ABOVE * high / max(float(high.max()), 1e-12), top - _ABOVE / 2
        ax.fill_between(times, middle - reach, middle + reach, color=draw.MUTED, linewidth=0)
        top -= _ABOVE
    if thumbnails is not None:
        edges = np.linspace(0.0, end, len(thumbnails) + 1)
        for picture, left, right in zip(thumbnails, edges[:-1], edges[1:]):
            box = (left, right, top - 0.05, top - _ABOVE + 0.05)
            ax.imshow(np.asarray(picture), extent=box, aspect="auto", interpolation="antialiased")
        top -= _ABOVE
    for row, (name, segments) in enumerate(strips.items()):
        _draw_strip(ax, row, segments, colors, end)
        draw.words(ax, 0, row - draw.LABEL / 2, name)
    draw.strip_axes(ax, len(strips), end, top, "minutes:seconds" if end > 120 else "seconds")
    # the shortest customary step with at most 12 ticks
    step = next((step for step in _STEPS if end / step <= 12), 3600 * np.ceil(end / 43200))
    ax.xaxis.set_major_locator(MultipleLocator(step))
    if end > 120:
        ax.xaxis.set_major_formatter(lambda s, _: f"{int(s) // 60}:{s % 60:02.0f}")
    named = [label for label in labels if label.strip()]
    handles = [ax.barh(0, 0, color=colors[label], label=label) for label in named]
    anchor = (1, -0.16 if above else -0.3)
    columns = min(len(named), 6)
    if named:
        draw.legend(ax, handles=handles, loc="upper right", bbox_to_anchor=anchor, ncols=columns)
    return draw.figure_of(ax)


def _taking_turns(segments: Sequence[Segment]) -> Sequence[Segment]:
    """Give all segments blank labels if no segment has a label, so that two colors alternate."""
    if any(label for _, _, label in segments):
        return segments
    return [(start, end, " " * (1 + i % 2)) for i, (start, end, _) in enumerate(segments)]


def _message(strips: Mapping[str, Sequence[Segment]]) -> str:
    """Compose the default title.

    The title tells for which fraction of the time the last strip has the same labels as the first
    strip. For a single strip, the title lists up to five labels with the longest total time. If
    labels are missing, the title tells how many inner boundaries of the first strip are matched by
    the last strip. A boundary is matched if the last strip has a boundary within a tenth of the
    median segment length of the first strip. For a single strip without labels, the title gives the
    number of segments.
    """
    names = list(strips)
    first, last = strips[names[0]], strips[names[-1]]
    total = sum(end - start for start, end, _ in first)
    if not all(label for segments in (first, last) for _, _, label in segments):
        if len(names) == 1:
            return f"{len(first)} segments"
        true, pred = ([start for start, _, _ in segments[1:]] for segments in (first, last))
        tolerance = float(np.median([end - start for start, end, _ in first])) / 10
        near = sum(min((abs(a - b) for b in pred), default=np.inf) <= tolerance for a in true)
        return (
            f"{names[-1]} has {near} of {len(true)} boundaries of {names[0]} "
            f"within {tolerance:.3g} s ({len(pred)} in all)"
        )
    if len(names) == 1:
        lengths: Counter[str] = Counter()
        for start, end, label in first:
            lengths[label] += end - start  # type: ignore[assignment]
        longest = lengths.most_common(5)
        parts = [f"{100 * length / total:.0f} % {label}" for label, length in longest]
        return f"{len(first)} segments: {', '.join(parts)}"
    shared = sum(  # seconds with the same label
        max(0.0, min(end, other_end) - max(start, other_start))
        for start, end, label in first
        for other_start, other_end, other_label in last
        if label == other_label
    )
    return (
        f"{names[-1]} agrees with {names[0]} in {100 * shared / total:.0f} % of the time "
        f"({len(last)} segments against {len(first)})"
    )


def _draw_strip(
    ax: Axes, row: int, segments: Sequence[Segment], colors: Mapping[str, str], end: float
) -> None:
    starts = np.array([start for start, _, _ in segments])
    widths = np.array([stop for _, stop, _ in segments]) - starts
    faces = [colors[label] for _, _, label in segments]
    draw.strip(ax, row, starts, widths, faces, edgecolor="white", linewidth=0.8)
    style = {"ha": "center", "size": draw.TEXT_SIZE - 1, "color": "white", "clip_on": True}
    for start, stop, label in segments:
        if (stop - start) / end > 0.011 * len(label) + 0.01:  # wide enough for the label
            draw.words(ax, (start + stop) / 2, row + draw.STRIP / 2, label, **style)
