"""What all figures share: colors, axes without clutter, titles that fit, numbers that read well."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator
from numpy.typing import ArrayLike, NDArray

INK, MUTED, GRID = "#1f2328", "#6a737d", "#e4e7eb"
# Okabe & Ito (2008): eight colors that stay apart for color-blind readers (black is INK).
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
TEXT_SIZE, TITLE_SIZE = 9.0, 11.0
_CHARACTERS_PER_INCH = 10.8  # of the bold title font, cautiously
_TITLE: dict[str, Any] = {"fontsize": TITLE_SIZE, "fontweight": "bold", "color": INK}
STRIP, LABEL = 0.62, 0.38  # heights of a strip of segments and of the label above it, one per row


def canvas(ax: Axes | None, width: float, height: float) -> Axes:
    """The given axes, or those of a new figure of width × height inches."""
    if ax is not None:
        return ax
    return Figure(figsize=(width, height), layout="constrained").add_subplot()


def figure_of(ax: Axes) -> Figure:
    """The top figure that holds the axes."""
    figure = ax.get_figure(root=True)
    if figure is None:
        raise ValueError("plots need axes that are part of a figure; make them with add_subplot.")
    return figure


def width_of(ax: Axes) -> float:
    """Width in inches available to the axes: the whole figure when they are alone in it."""
    figure = figure_of(ax)
    if len(figure.axes) == 1:
        return float(figure.get_figwidth())
    return float(ax.get_position().width * figure.get_figwidth())


def say(ax: Axes, message: str, title: str | None) -> None:
    """Write the title (or the message, if None) bold, left-aligned and wrapped to the width."""
    figure = figure_of(ax)
    width = int(width_of(ax) * _CHARACTERS_PER_INCH)
    text = textwrap.fill(message if title is None else title, max(width, 16))
    if len(figure.axes) == 1 and figure.get_layout_engine() is not None:
        headline(figure, text)
    else:
        ax.set_title(plain(text), loc="left", **_TITLE)


def headline(figure: Figure, text: str | None) -> None:
    """Write a title over the whole figure, bold and left-aligned, or nothing."""
    if text:
        figure.suptitle(plain(text), x=0.012, ha="left", **_TITLE)


def plain(text: str) -> str:
    """The text with its dollar signs as they are: a name is no formula."""
    return text.replace("$", r"\$")


def tidy(
    ax: Axes,
    xlabel: str = "",
    ylabel: str = "",
    grid: Literal["x", "y", "both"] | None = None,
) -> None:
    """Drop the frame, mute the ticks, name the axes, and lay an optional grid under the data."""
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(MUTED)
    ax.tick_params(colors=MUTED, labelcolor=INK, labelsize=TEXT_SIZE, length=3)
    ax.set_xlabel(xlabel, fontsize=TEXT_SIZE, color=INK)
    ax.set_ylabel(ylabel, fontsize=TEXT_SIZE, color=INK)
    if grid is not None:
        ax.grid(axis=grid, color=GRID, linewidth=0.8)
        ax.set_axisbelow(True)


def words(ax: Axes, x: float, y: float, text: str, **style: Any) -> None:
    """Text in the size and color of all text, vertically centered at a place."""
    ax.text(x, y, plain(text), **{"va": "center", "size": TEXT_SIZE, "color": INK, **style})


def legend(ax: Axes, **style: Any) -> None:
    """A legend without a frame, in the size and color of the text, if anything has a label."""
    if style.get("handles") or ax.get_legend_handles_labels()[0]:
        ax.legend(**{"frameon": False, "fontsize": TEXT_SIZE, "labelcolor": INK, **style})


def panels(ax: Axes, ratios: Sequence[float], stacked: bool, gap: float) -> list[Axes]:
    """Split the axes into panels, left to right or top to bottom, ``gap`` inches apart."""
    figure = figure_of(ax)
    ax.set_axis_off()
    box = ax.get_position()
    inches = box.height * figure.get_figheight() if stacked else box.width * figure.get_figwidth()
    space = min(gap / inches, 0.5 / max(len(ratios) - 1, 1))
    share = np.asarray(ratios, dtype=float)
    share *= (1 - space * (len(share) - 1)) / share.sum()
    start = np.cumsum(share + space) - share - space
    if stacked:
        return [ax.inset_axes((0, 1 - s - h, 1, h)) for s, h in zip(start, share)]
    return [ax.inset_axes((s, 0, w, 1)) for s, w in zip(start, share)]


def strip(
    ax: Axes, row: int, starts: ArrayLike, widths: ArrayLike, faces: Sequence[str], **style: Any
) -> None:
    """Segments as colored bars of row 0, 1, …, which run downwards."""
    rows = np.full(len(faces), row)
    ax.barh(rows, widths, STRIP, starts, align="edge", color=faces, **style)


def strip_axes(ax: Axes, n_rows: int, end: float, top: float, xlabel: str) -> None:
    """Axes of strips from 0 to ``end``: what stands above the rows begins at height ``top``."""
    ax.set(xlim=(0, end), ylim=(n_rows - LABEL + 0.08, top))
    tidy(ax, xlabel)
    ax.spines["left"].set_visible(False)
    ax.set_yticks([])


def envelope(
    samples: NDArray, end: float, most: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Times, minima and maxima of at most ``most`` stretches: a figure shows no more."""
    starts = np.unique(np.linspace(0, len(samples), most, endpoint=False).astype(int))
    times = (starts + 0.5) * end / len(samples)
    return times, np.minimum.reduceat(samples, starts), np.maximum.reduceat(samples, starts)


def bars(ax: Axes, values: ArrayLike, names: Sequence[str], colors: Any) -> None:
    """Horizontal bars from the top down, named beside them, or above them where it is narrow."""
    places = np.arange(len(names))
    if width_of(ax) < 5:  # inches: a phone's
        ax.barh(places + 0.2, values, 0.36, color=colors)
        ax.set_yticks([])
        for place, name in zip(places, names):
            text = shorten(name, int(width_of(ax) * 12))
            words(ax, 0.02, place - 0.22, text, transform=ax.get_yaxis_transform())
    else:
        ax.barh(places, values, 0.72, color=colors)
        name_ticks(ax, names)
    ax.set_ylim(max(len(names), 1) - 0.4, -0.6)


def name_ticks(ax: Axes, names: Sequence[str], size: float = TEXT_SIZE) -> None:
    """Name the places 0, 1, … of the vertical axis, names cut to fit if they stay distinct."""
    length = max(12, int(width_of(ax) * 5))
    short = [shorten(name, length) for name in names]
    if len(set(short)) < len(set(names)):
        short, size = list(names), min(size, 7.0)
    ax.yaxis.set_major_locator(FixedLocator(list(range(len(names)))))
    ax.set_yticklabels([plain(name) for name in short], fontsize=size)
    ax.tick_params(axis="y", length=0)


def shorten(name: str, length: int) -> str:
    """The name, its middle replaced by … when it is longer than ``length`` characters."""
    if len(name) <= length:
        return name
    head = (length - 1) // 2
    return f"{name[:head]}…{name[len(name) - (length - 1 - head) :]}"


def number(value: float) -> str:
    """Three significant digits, without an exponent where a person would not write one."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        digits = 0 if value == 0 else max(0, 2 - int(np.floor(np.log10(abs(value)))))
        return f"{value:,.{digits}f}"
    return f"{value:.2e}"


def finite(who: str, what: str, values: ArrayLike, ndim: int) -> NDArray[np.float64]:
    """The values as floats, checked to be non-empty, finite and of the needed dimension."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != ndim or array.size == 0:
        raise ValueError(
            f"{who} needs {what} as a non-empty {ndim}-dimensional array, got shape {array.shape}."
        )
    if not np.isfinite(array).all():
        raise ValueError(
            f"{who} needs finite {what}, got {int((~np.isfinite(array)).sum())} NaN or infinite "
            "values; drop them first."
        )
    return array


def aligned(who: str, **lengths: int) -> None:
    """Raise a ValueError unless arrays, given as their names and lengths, are of one length."""
    if len(set(lengths.values())) > 1:
        given = ", ".join(f"{length} {what}" for what, length in lengths.items())
        raise ValueError(f"{who} needs arrays of one length, got {given}.")


def named(who: str, feature_names: Sequence[str] | None, n_features: int) -> list[str]:
    """The feature names, or "feature 0", "feature 1", … when there are none."""
    if feature_names is None:
        return [f"feature {p}" for p in range(n_features)]
    if len(feature_names) != n_features:
        raise ValueError(
            f"{who} needs one name per feature: {n_features} features, got "
            f"{len(feature_names)} feature_names."
        )
    return [str(name) for name in feature_names]
