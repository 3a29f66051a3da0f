"""How a number of segments or a strength of regularization was chosen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator
from numpy.typing import ArrayLike, NDArray

import metriclearn.plots.canvas as draw

_MOST_COLORED = 6
_MARKED = draw.PALETTE[1]


def plot_elbow(
    n_segments: ArrayLike,
    costs: ArrayLike,
    penalties: ArrayLike | None = None,
    chosen: int | None = None,
    ax: Axes | None = None,
    *,
    title: str | None = None,
) -> Figure:
    """Residual cost against the number of segments, and the penalties at which each is optimal.

    Parameters
    ----------
    n_segments : (S,) array of int
        Numbers of segments, for instance those on a CROPS path.
    costs : (S,) array
        Residual cost of the best segmentation with so many segments.
    penalties : (S, 2) array, optional
        Smallest and largest price per segment at which each number is optimal (∞ allowed): the
        longer its bar, the more robust the choice.
    chosen : int, optional
        The number to mark, one of ``n_segments``.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    title : str, optional
        Replaces the message.

    Raises
    ------
    ValueError
        If lengths differ, a penalty interval is reversed, or ``chosen`` is not in the path.
    """
    numbers, cost, intervals = _elbow_path(n_segments, costs, penalties)
    if chosen is not None and chosen not in numbers:
        raise ValueError(
            f"plot_elbow needs chosen among n_segments {numbers.tolist()}, got {chosen}."
        )
    ax = draw.canvas(ax, 8.0 if intervals is not None else 6.0, 3.6)
    draw.say(ax, _elbow_message(numbers, cost, intervals, chosen), title)
    if intervals is not None:
        stacked = draw.width_of(ax) < 5
        ax, right = draw.panels(ax, (1, 1), stacked=stacked, gap=0.9 if not stacked else 0.7)
        _draw_intervals(right, numbers, intervals, chosen)
    ax.plot(numbers, cost, "o-", color=draw.MUTED, ms=4, lw=1.6)
    if chosen is not None:
        place = chosen, float(cost[numbers == chosen][0])
        ax.plot(*place, "o", color=_MARKED, ms=10)
        ax.annotate(
            f"chosen: {chosen}", place, xytext=(9, 9), textcoords="offset points",
            color=_MARKED, fontsize=draw.TEXT_SIZE + 1, fontweight="bold",
        )  # fmt: skip
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
    draw.tidy(ax, "number of segments", "residual cost", grid="y")
    return draw.figure_of(ax)


def _elbow_path(
    n_segments: ArrayLike, costs: ArrayLike, penalties: ArrayLike | None
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64] | None]:
    """The path sorted by number of segments, its lengths and intervals checked."""
    numbers = draw.finite("plot_elbow", "n_segments", n_segments, 1).astype(np.int64)
    cost = draw.finite("plot_elbow", "costs", costs, 1)
    intervals = None if penalties is None else np.asarray(penalties, dtype=np.float64)
    draw.aligned("plot_elbow", numbers=len(numbers), costs=len(cost))
    ordered = intervals is None or (
        intervals.shape == (len(numbers), 2) and bool(np.all(intervals[:, 0] <= intervals[:, 1]))
    )
    if not ordered:
        raise ValueError(
            f"plot_elbow needs {len(numbers)} penalty intervals (smallest, largest) without NaN, "
            f"got penalties of shape {None if intervals is None else intervals.shape}."
        )
    order = np.argsort(numbers, kind="stable")
    return numbers[order], cost[order], None if intervals is None else intervals[order]


def _elbow_message(
    numbers: NDArray, cost: NDArray, intervals: NDArray | None, chosen: int | None
) -> str:
    if chosen is None:
        fall = f"from {draw.number(cost[0])} to {draw.number(cost[-1])}"
        return f"Residual cost falls {fall} between {numbers[0]} and {numbers[-1]} segments"
    subject = f"{chosen} segment{'s' if chosen > 1 else ''} chosen"
    if intervals is None:
        return f"{subject}: residual cost {draw.number(float(cost[numbers == chosen][0]))}"
    low, high = intervals[numbers == chosen][0]
    if np.isinf(high):
        return f"{subject}: optimal for every penalty from {draw.number(low)}"
    return f"{subject}: optimal for penalties from {draw.number(low)} to {draw.number(high)}"


def _draw_intervals(ax: Axes, numbers: NDArray, intervals: NDArray, chosen: int | None) -> None:
    """Horizontal bars over a logarithmic penalty; open ends run to the edge of the axes."""
    inner = intervals[np.isfinite(intervals) & (intervals > 0)]
    low, high = (inner.min() / 2, inner.max() * 2) if inner.size else (0.5, 2.0)
    ends = np.clip(intervals, low, high)
    colors = [_MARKED if n == chosen else draw.MUTED for n in numbers]
    width = float(np.clip(120 / np.ptp(numbers), 1.5, 8)) if len(numbers) > 1 else 8.0
    ax.hlines(numbers, ends[:, 0], ends[:, 1], colors=colors, linewidth=width)
    ax.set(xscale="log", xlim=(low, high))
    ax.yaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
    draw.tidy(ax, "penalty per segment", "optimal number of segments", grid="x")


def plot_regularization_path(
    strengths: ArrayLike,
    weights: ArrayLike,
    validation_loss: ArrayLike | None = None,
    feature_names: Sequence[str] | None = None,
    ax: Axes | None = None,
    *,
    noun: str = "features",
    title: str | None = None,
) -> Figure:
    """Weights along the strengths of regularization, over the validation loss that chose one.

    The six features with the largest weight on the path are colored and named; the others are
    thin gray lines.

    Parameters
    ----------
    strengths : (S,) array
        Strengths of regularization, zero or positive, in any order.
    weights : (S, P) array
        Diagonal of the metric learned at each strength.
    validation_loss : (S,) or (S, F) array, optional
        Loss on validation data, per fold in the second form (drawn as mean ± standard error).
    feature_names : sequence of P str, optional
        "feature 0", "feature 1", … by default.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    noun : str
        What a column of ``weights`` is of.
    title : str, optional
        Replaces the message.

    Raises
    ------
    ValueError
        If a strength is negative or repeated, or lengths do not fit.
    """
    strength, path, losses = _path(strengths, weights, validation_loss)
    names = draw.named("plot_regularization_path", feature_names, path.shape[1])
    kept = np.count_nonzero(path, axis=1)
    if losses is None:
        ax = draw.canvas(ax, 7.0, 3.4)
        sizes = f"From {kept[0]} to {kept[-1]} of {path.shape[1]} {noun}"
        draw.say(ax, f"{sizes} as the strength grows", title)
        _draw_path(ax, strength, path, names)
        return draw.figure_of(ax)
    # of the least mean losses, that of the strongest regularization
    best = len(losses) - 1 - int(np.argmin(losses.mean(axis=1)[::-1]))
    ax = draw.canvas(ax, 7.0, 4.8)
    subject = f"Strength {draw.number(strength[best])} validates best"
    draw.say(ax, f"{subject} and keeps {kept[best]} of {path.shape[1]} {noun}", title)
    upper, lower = draw.panels(ax, (1.7, 1), stacked=True, gap=0.3)
    _draw_path(upper, strength, path, names)
    _draw_losses(lower, strength, losses, best)
    for panel in (upper, lower):
        panel.axvline(strength[best], color=draw.INK, lw=1, ls=(0, (3, 2)))
    upper.set_xlabel("")
    upper.set_xticklabels([])
    return draw.figure_of(ax)


def _path(
    strengths: ArrayLike, weights: ArrayLike, validation_loss: ArrayLike | None
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64] | None]:
    """The path sorted by strength, its lengths checked, losses as (S, F)."""
    who = "plot_regularization_path"
    strength = draw.finite(who, "strengths", strengths, 1)
    path = draw.finite(who, "weights", weights, 2)
    losses = None
    if validation_loss is not None:
        raw = np.asarray(validation_loss)
        losses = draw.finite(who, "validation_loss", raw[:, None] if raw.ndim == 1 else raw, 2)
    n_losses = len(strength) if losses is None else len(losses)
    draw.aligned(who, strengths=len(strength), rows=len(path), losses=n_losses)
    if strength.min() < 0 or len(np.unique(strength)) < len(strength):
        raise ValueError(f"{who} needs distinct strengths of zero or more, got {strength}.")
    order = np.argsort(strength)
    return strength[order], path[order], None if losses is None else losses[order]


def _strength_axis(ax: Axes, strength: NDArray[np.float64], ylabel: str) -> None:
    positive = strength[strength > 0]
    ax.set_xscale("symlog", linthresh=positive.min() if positive.size else 1.0)
    if strength[0] > 0:
        ax.set_xscale("log")
    ax.xaxis.set_minor_locator(NullLocator())
    draw.tidy(ax, "strength of regularization", ylabel, grid="y")


def _draw_path(
    ax: Axes, strength: NDArray[np.float64], path: NDArray[np.float64], names: Sequence[str]
) -> None:
    order = np.argsort(-np.abs(path).max(axis=0), kind="stable")
    rest = order[_MOST_COLORED:]
    if len(rest):
        ax.plot(strength, path[:, rest], color=draw.MUTED, lw=0.6, alpha=0.45)
    columns = 2 if draw.width_of(ax) < 5 else 3
    length = int(draw.width_of(ax) * 11 / columns) - 6
    for color, p in zip(draw.PALETTE, order[:_MOST_COLORED]):
        label = draw.plain(draw.shorten(names[p], length))
        ax.plot(strength, path[:, p], color=color, lw=2, label=label)
    _strength_axis(ax, strength, "weight")
    draw.legend(
        ax, fontsize=draw.TEXT_SIZE - 1, loc="lower left", bbox_to_anchor=(-0.02, 1.0),
        ncols=columns, handlelength=1.2, labelspacing=0.3,
    )  # fmt: skip


def _draw_losses(
    ax: Axes, strength: NDArray[np.float64], losses: NDArray[np.float64], best: int
) -> None:
    mean = losses.mean(axis=1)
    if losses.shape[1] > 1:
        error = losses.std(axis=1, ddof=1) / np.sqrt(losses.shape[1])
        ax.fill_between(strength, mean - error, mean + error, color=draw.MUTED, alpha=0.2, lw=0)
    ax.plot(strength, mean, "o-", color=draw.INK, ms=3, lw=1.6)
    ax.plot(strength[best], mean[best], "o", color=_MARKED, ms=9)
    _strength_axis(ax, strength, "validation loss")
