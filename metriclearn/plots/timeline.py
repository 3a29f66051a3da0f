"""The time-line of a recording: sound or pictures above, labelled strips below, a clock under."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MultipleLocator
from numpy.typing import ArrayLike, NDArray

from metriclearn.plots.canvas import INK, MUTED, PALETTE, TEXT_SIZE, canvas, figure_of, say, tidy

__all__ = ["plot_timeline"]

Segment = tuple[float, float, str]
_STRIP, _LABEL, _ABOVE = 0.62, 0.38, 1.5  # heights, one unit per strip
_POINTS = 1500


def plot_timeline(
    strips: Mapping[str, Sequence[Segment]],
    waveform: ArrayLike | None = None,
    thumbnails: Sequence[ArrayLike] | None = None,
    ax: Axes | None = None,
    *,
    title: str | None = None,
) -> Figure:
    """Strips of labelled segments under the sound or the pictures of a recording.

    Equal labels have one color in all strips and are written into segments that are wide enough;
    a legend names the colors. The clock below is in seconds, or minutes:seconds beyond two
    minutes. O(samples + segments).

    Parameters
    ----------
    strips : dict of str to list of (start, end, label)
        Seconds; the truth first, if it is known.
    waveform : array (n,), optional
        The sound over the whole length of the strips; its envelope is drawn.
    thumbnails : sequence of (H, W, 3) pictures, optional
        Evenly spread over the whole length.
    ax : matplotlib Axes, optional
    title : str, optional
        Replaces the message.

    Raises
    ------
    ValueError
        If there is no strip, or an empty one.
    """
    if not strips or not all(len(segments) for segments in strips.values()):
        raise ValueError(
            "plot_timeline needs one strip or more, each with a segment, got "
            f"{ {name: len(segments) for name, segments in strips.items()} }."
        )
    end = max(segments[-1][1] for segments in strips.values())
    labels = sorted({label for segments in strips.values() for _, _, label in segments})
    colors = {label: PALETTE[i % len(PALETTE)] for i, label in enumerate(labels)}
    rows = (waveform is not None) + (thumbnails is not None)
    ax = canvas(ax, 11.0, 1.25 + 0.62 * len(strips) + 0.9 * rows)
    say(ax, _message(strips), title)
    top = -_LABEL
    if waveform is not None:
        top = _draw_waveform(ax, np.asarray(waveform, dtype=np.float64), end, top)
    if thumbnails is not None:
        top = _draw_thumbnails(ax, thumbnails, end, top)
    for row, (name, segments) in enumerate(strips.items()):
        _draw_strip(ax, row, segments, colors, end)
        ax.text(0, row - _LABEL / 2, name, va="center", size=TEXT_SIZE, color=INK)
    ax.set(xlim=(0, end), ylim=(len(strips) - _LABEL + 0.05, top))
    tidy(ax, "minutes:seconds" if end > 120 else "seconds")
    ax.xaxis.set_major_locator(MultipleLocator(_tick_step(end)))
    if end > 120:
        ax.xaxis.set_major_formatter(FuncFormatter(lambda s, _: f"{int(s) // 60}:{s % 60:02.0f}"))
    ax.spines["left"].set_visible(False)
    ax.set_yticks([])
    handles = [ax.barh(0, 0, color=colors[label], label=label) for label in labels]
    ax.legend(
        handles=handles, loc="upper right", bbox_to_anchor=(1, -0.16 if rows else -0.3),
        ncols=min(len(labels), 6), frameon=False, fontsize=TEXT_SIZE,
    )  # fmt: skip
    return figure_of(ax)


def _tick_step(end: float) -> float:
    """Seconds between ticks that a person would write, at most 12 of them."""
    steps = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)
    return next((step for step in steps if end / step <= 12), 3600 * np.ceil(end / 43200))


def _message(strips: Mapping[str, Sequence[Segment]]) -> str:
    """Agreement of the last strip with the first in time, or what there is most of."""
    names = list(strips)
    first = strips[names[0]]
    if len(names) == 1:
        lengths: dict[str, float] = {}
        for a, b, label in first:
            lengths[label] = lengths.get(label, 0.0) + b - a
        total = sum(lengths.values())
        parts = [f"{100 * v / total:.0f} % {k}" for k, v in sorted(lengths.items(), key=_by_length)]
        return f"{len(first)} segments: {', '.join(parts[:5])}"
    last = strips[names[-1]]
    shared = sum(max(0.0, min(b, d) - max(a, c)) for a, b, k in first for c, d, m in last if k == m)
    total = sum(b - a for a, b, _ in first)
    return (
        f"{names[-1]} agrees with {names[0]} in {100 * shared / total:.0f} % of the time "
        f"({len(last)} segments against {len(first)})"
    )


def _by_length(item: tuple[str, float]) -> float:
    return -item[1]


def _draw_strip(
    ax: Axes, row: int, segments: Sequence[Segment], colors: Mapping[str, str], end: float
) -> None:
    starts = np.array([segment[0] for segment in segments])
    widths = np.array([segment[1] for segment in segments]) - starts
    faces = [colors[label] for _, _, label in segments]
    ax.barh(
        np.full(len(segments), row), widths, _STRIP, starts, align="edge", color=faces,
        edgecolor="white", linewidth=0.8,
    )  # fmt: skip
    for a, b, label in segments:
        if (b - a) / end > 0.011 * len(label) + 0.01:
            ax.text(
                (a + b) / 2, row + _STRIP / 2, label.replace("$", r"\$"),
                ha="center", va="center", size=TEXT_SIZE - 1, color="white", clip_on=True,
            )  # fmt: skip


def _draw_waveform(ax: Axes, samples: NDArray[np.float64], end: float, top: float) -> float:
    starts = np.unique(np.linspace(0, len(samples), _POINTS, endpoint=False).astype(int))
    high = np.maximum.reduceat(np.abs(samples), starts)
    high = high / max(float(high.max()), 1e-12)
    middle = top - _ABOVE / 2
    times = (starts + 0.5) * end / len(samples)
    ax.fill_between(times, middle - 0.46 * _ABOVE * high, middle + 0.46 * _ABOVE * high,
                    color=MUTED, linewidth=0)  # fmt: skip
    return top - _ABOVE


def _draw_thumbnails(ax: Axes, pictures: Sequence[ArrayLike], end: float, top: float) -> float:
    edges = np.linspace(0.0, end, len(pictures) + 1)
    for picture, a, b in zip(pictures, edges[:-1], edges[1:]):
        box = (a, b, top - 0.05, top - _ABOVE + 0.05)
        ax.imshow(np.asarray(picture), extent=box, aspect="auto", interpolation="antialiased")
    return top - _ABOVE
