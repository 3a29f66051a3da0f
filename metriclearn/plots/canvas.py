"""Helpers that all figures share: colors, plain axes, titles that fit the width, short numbers."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure, SubFigure
from matplotlib.gridspec import GridSpec
from numpy.typing import ArrayLike, NDArray

from metriclearn.problem.partition import Partition
from metriclearn.running.figures import new_figure
from metriclearn.running.values import check_each

INK, MUTED, GRID = "#1f2328", "#6a737d", "#e4e7eb"
# Okabe & Ito (2008): eight colors that color-blind readers can distinguish (black is INK).
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
TEXT_SIZE, TITLE_SIZE = 9.0, 11.0
_CHARACTERS_PER_INCH = 10.8  # low estimate for the bold font of titles
_LABEL_PER_INCH = 13  # characters in the font of labels
# parse_math: dollar signs in a name do not make it a formula
_TEXT: dict[str, Any] = {"size": TEXT_SIZE, "color": INK, "parse_math": False}
_TITLE: dict[str, Any] = {**_TEXT, "size": TITLE_SIZE, "weight": "bold"}
STRIP, LABEL = 0.62, 0.38  # in each row of height 1: a strip of segments, the label above it


def canvas(
    ax: Axes | None, size: tuple[float, float], message: str, title: str | None = None
) -> Axes:
    """Return the given axes, or the axes of a new figure of ``size`` inches, with a title.

    If ``title`` is None, the title is ``message``.
    """
    if ax is None:
        ax = new_figure(size).add_subplot()
    say(ax, message if title is None else title)
    return ax


def figure_of(ax: Axes) -> Figure:
    """Return the whole figure that contains the axes, never a subfigure."""
    return cast(Figure, ax.get_figure(root=True))


def width_of(ax: Axes) -> float:
    """Return the width in inches that is available to the axes.

    If the figure has no other axes, this is the width of the figure.
    """
    figure = figure_of(ax)
    box = figure.bbox if len(figure.axes) == 1 else ax.bbox
    return float(box.width / figure.dpi)


def say(ax: Axes, text: str) -> None:
    """Write a title bold, left-aligned and wrapped to the width."""
    figure = figure_of(ax)
    width = int(width_of(ax) * _CHARACTERS_PER_INCH)
    if len(figure.axes) == 1 and width < 54:
        width -= 2  # a margin: in short lines, the share of wide letters varies more
    text = textwrap.fill(text, max(width, 16))
    if len(figure.axes) == 1 and figure.get_layout_engine() is not None:
        headline(figure, text)
    else:
        ax.set_title(text, loc="left", **_TITLE)


def headline(figure: Figure | SubFigure, text: str | None) -> None:
    """Write a title over the whole figure, bold and left-aligned, unless it is empty."""
    if text:
        figure.suptitle(text, x=0.012, ha="left", **_TITLE)


def tidy(
    ax: Axes,
    xlabel: str = "",
    ylabel: str = "",
    grid: Literal["x", "y", "both"] | None = None,
) -> None:
    """Make axes plain: no frame, gray ticks, a name for each axis, and a grid if one is wanted.

    A name that is longer than the horizontal axis is wrapped.
    """
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(MUTED)
    ax.tick_params(colors=MUTED, labelcolor=INK, labelsize=TEXT_SIZE, length=3)
    xlabel = textwrap.fill(xlabel, max(int(width_of(ax) * _LABEL_PER_INCH), 16))
    ax.set_xlabel(xlabel, fontsize=TEXT_SIZE, color=INK)
    ax.set_ylabel(ylabel, fontsize=TEXT_SIZE, color=INK)
    if grid is not None:
        ax.grid(axis=grid, color=GRID, linewidth=0.8)
        ax.set_axisbelow(True)


def mark(ax: Axes, x: float, y: float, text: str, shift: tuple[int, int], **style: Any) -> None:
    """Write text in bold beside a point, at a distance in points."""
    style = {"fontsize": TEXT_SIZE, "fontweight": "bold", "color": PALETTE[1], **style}
    ax.annotate(text, (x, y), xytext=shift, textcoords="offset points", **style)


def words(ax: Axes, x: float, y: float, text: str, **style: Any) -> None:
    """Write text in the common size and color, vertically centered at (x, y)."""
    ax.text(x, y, text, **{"va": "center", **_TEXT, **style})


def legend(ax: Axes, **style: Any) -> None:
    """Add a legend without a frame, in the common size and color."""
    made = ax.legend(**{"frameon": False, "fontsize": TEXT_SIZE, "labelcolor": INK, **style})
    for text in made.get_texts():
        text.set_parse_math(False)


def panels(ax: Axes, ratios: Sequence[float], *, stacked: bool, sharex: bool = False) -> list[Axes]:
    """Replace the axes by panels from left to right or, if ``stacked``, from top to bottom.

    The title of the axes stays above the panels. ``ratios`` are the relative sizes of the panels.
    """
    place = ax.get_subplotspec() or GridSpec(1, 1, figure_of(ax), *ax.get_position().extents)[0]
    part = ax.figure.add_subfigure(place)
    headline(part, ax.get_title(loc="left"))
    ax.set_visible(False)
    rows, columns = (ratios, [1.0]) if stacked else ([1.0], ratios)
    sizes: dict[str, Any] = {"height_ratios": rows, "width_ratios": columns}
    return list(part.subplots(len(rows), len(columns), sharex=sharex, squeeze=False, **sizes).flat)


def strip(
    ax: Axes, row: int, starts: ArrayLike, widths: ArrayLike, faces: Sequence[str], **style: Any
) -> None:
    """Draw segments as colored bars in a row. Row 0 is at the top."""
    rows = np.full(len(faces), row)
    ax.barh(rows, widths, STRIP, starts, align="edge", color=faces, **style)


def strip_axes(ax: Axes, n_rows: int, end: float, top: float, xlabel: str) -> None:
    """Set the limits of axes that show strips of segments.

    The strips reach from 0 to ``end``. There is space above the strips, up to the height ``top``.
    """
    ax.set(xlim=(0, end), ylim=(n_rows - LABEL + 0.08, top))
    tidy(ax, xlabel)
    ax.spines["left"].set_visible(False)
    ax.set_yticks([])


def envelope(
    samples: NDArray, end: float, most: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Reduce a signal to at most ``most`` points, because a figure cannot show more.

    Returns the time, the minimum and the maximum of equally long stretches of samples without NaN.
    """
    starts = np.unique(np.linspace(0, len(samples), most, endpoint=False).astype(int))
    times = (starts + 0.5) * end / len(samples)
    return times, np.fmin.reduceat(samples, starts), np.fmax.reduceat(samples, starts)


def bars(ax: Axes, values: ArrayLike, names: Sequence[str], colors: Any) -> BarContainer:
    """Draw horizontal bars from top to bottom, with names on their left.

    In a narrow figure, the names are above the bars.
    """
    places, narrow = np.arange(len(names)), width_of(ax) < 5  # inches, as on a phone
    drawn = ax.barh(places + 0.2 * narrow, values, 0.36 if narrow else 0.72, color=colors)
    if narrow:
        ax.set_yticks([])
        for place, name in zip(places, names):
            text = shorten(name, int(width_of(ax) * 12))
            words(ax, 0.02, place - 0.22, text, transform=ax.get_yaxis_transform())
    else:
        name_ticks(ax, names)
    ax.set_ylim(max(len(names), 1) - 0.4, -0.6)
    return drawn


def name_ticks(ax: Axes, names: Sequence[str], size: float = TEXT_SIZE) -> None:
    """Write names at the positions 0, 1, … of the vertical axis.

    Long names are shortened, unless different names would become equal.
    """
    length = max(12, int(width_of(ax) * 5))
    short = [shorten(name, length) for name in names]
    if len(set(short)) < len(set(names)):
        short, size = list(names), min(size, 7.0)
    ax.set_yticks(range(len(names)), short, fontsize=size, parse_math=False)
    ax.tick_params(axis="y", length=0)


def shorten(name: str, length: int) -> str:
    """Shorten a name to ``length`` characters by replacing its middle by …, if it is longer."""
    if len(name) <= length:
        return name
    head = (length - 1) // 2
    return f"{name[:head]}…{name[len(name) - (length - 1 - head) :]}"


def number(value: float) -> str:
    """Write a number with three significant digits.

    Only numbers below 0.001, or of 100,000 and more, are written with an exponent.
    """
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        digits = 0 if value == 0 else max(0, 2 - int(np.floor(np.log10(abs(value)))))
        return f"{value:,.{digits}f}"
    return f"{value:.2e}"


def read_strips(
    who: str, segmentations: Mapping[str, ArrayLike], signal: NDArray | None = None
) -> dict[str, Partition]:
    """Read segmentations of one sequence by their names.

    Raises ValueError if there is none, or if they or the signal differ in length.
    """
    strips = {name: Partition.from_change_points(ends) for name, ends in segmentations.items()}
    lengths = {strip.n_samples for strip in strips.values()}
    if len(lengths) != 1 or (signal is not None and lengths != {len(signal)}):
        rows = "" if signal is None else f" and a signal of {len(signal)} rows"
        raise ValueError(
            f"{who} needs one or more segmentations of the same T samples, got last change-points "
            f"{sorted(lengths)}{rows}; end every list with T."
        )
    return strips


def aligned(who: str, **columns: NDArray | None) -> list[Any]:
    """Sort the rows of all columns by the first column. A column that is None stays None.

    Raises ValueError if the columns differ in length.
    """
    given = [column for column in columns.values() if column is not None]
    if len({len(column) for column in given}) > 1:
        lengths = [f"{len(c)} {name}" for name, c in columns.items() if c is not None]
        raise ValueError(f"{who} needs arrays of one length, got {', '.join(lengths)}.")
    order = np.argsort(given[0], kind="stable")
    return [None if column is None else column[order] for column in columns.values()]


def named(who: str, feature_names: Sequence[str] | None, n_features: int) -> list[str]:
    """Return the feature names, or "feature 0", "feature 1", … if none are given."""
    if feature_names is None:
        return [f"feature {p}" for p in range(n_features)]
    check_each(who, "name", len(feature_names), "features", n_features)
    return [str(name) for name in feature_names]
