"""Figures for choosing a number of segments, a strength of regularization, or members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator
from numpy.typing import ArrayLike, NDArray

import metriclearn.plots.canvas as draw
from metriclearn.running.command_line import counted
from metriclearn.running.parameters import FeatureNames, Of, OneOf, Text, Title, Whole, needs
from metriclearn.running.values import real_array

_MOST_COLORED = 6
_MARKED = draw.PALETTE[1]
_LEAST_SHOWN = 0.005  # weights below are written as 0 %
_LINES = draw.PALETTE[1], draw.INK, draw.MUTED, draw.PALETTE[3]


@needs
def plot_elbow(
    n_segments: ArrayLike,
    costs: ArrayLike,
    penalties: ArrayLike | None = None,
    chosen: Annotated[int | None, OneOf(None, Whole(1))] = None,
    ax: Axes | None = None,
    *,
    title: Title = None,
) -> Figure:
    """Draw the residual cost against the number of segments.

    If ``penalties`` is given, a second panel has a bar for each number of segments. The bar spans
    the penalties at which this number is optimal. A number with a longer bar is more robust.

    Parameters
    ----------
    n_segments : (S,) array of int
        Numbers of segments, for instance on a path that the CROPS algorithm computes.
    costs : (S,) array
        Residual cost of the best segmentation with each number of segments.
    penalties : (S, 2) array, optional
        For each number, the smallest and the largest penalty of a segment at which this number is
        optimal. Penalties may be ∞. Without ``penalties`` there is no second panel.
    chosen : int, optional
        The number of segments to mark, one of ``n_segments``.
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
        If lengths differ, if a smallest penalty exceeds the largest one, or if ``chosen`` is not in
        ``n_segments``.

    References
    ----------
    Haynes, Eckley & Fearnhead, Computationally efficient changepoint detection for a range of
    penalties, Journal of Computational and Graphical Statistics 26, 2017.
    """
    who = "plot_elbow"
    numbers = real_array(who, "n_segments", n_segments, 1).astype(np.int64)
    cost = real_array(who, "costs", costs, 1)
    if penalties is not None:
        penalties = real_array(who, "penalties", penalties, allow=("infinite",))
    numbers, cost, intervals = draw.aligned(who, numbers=numbers, costs=cost, penalties=penalties)
    if intervals is not None and (
        intervals.shape[1:] != (2,) or not np.all(intervals[:, 0] <= intervals[:, 1])
    ):
        raise ValueError(
            f"{who} needs {len(numbers)} penalty intervals (smallest, largest) without NaN, got "
            f"penalties of shape {intervals.shape}."
        )
    if chosen is not None and chosen not in numbers:
        raise ValueError(f"{who} needs chosen among n_segments {numbers.tolist()}, got {chosen}.")
    size = (6.0 if intervals is None else 8.0, 3.6)
    ax = draw.canvas(ax, size, _elbow_message(numbers, cost, intervals, chosen), title)
    if intervals is not None:
        ax, right = draw.panels(ax, (1, 1), stacked=draw.width_of(ax) < 5)
        _draw_intervals(right, numbers, intervals, chosen)
    ax.plot(numbers, cost, "o-", color=draw.MUTED, ms=4, lw=1.6)
    if chosen is not None:
        place = chosen, float(cost[numbers == chosen][0])
        ax.plot(*place, "o", color=_MARKED, ms=10)
        draw.mark(ax, *place, f"chosen: {chosen}", (9, 9), fontsize=draw.TEXT_SIZE + 1)
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
    draw.tidy(ax, "number of segments", "residual cost", grid="y")
    return draw.figure_of(ax)


@needs
def plot_members(
    segmenter: Annotated[Any, Of("shares_", "a fitted Segmenter")],
    top: Annotated[int, Whole(1)] = 15,
    ax: Axes | None = None,
    *,
    title: Title = None,
) -> Figure:
    """Draw what each family of members of a Segmenter contributes.

    A bar is the mean loss of the family on recordings that were left out. Dark bars have weight in
    the answer. The weight and the seconds of the fits are written next to them. Lines mark the loss
    of all members together, of the Euclidean metric, of equal cuts and of a single segment.

    Parameters
    ----------
    segmenter : Segmenter
        Fitted, with ``shares_`` and ``validation_``.
    top : int
        Largest number of families, those with the largest weights.
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
        If the fit left out no recordings, so that no losses are known.

    See Also
    --------
    plot_weights : the features that count, if there is a single metric.

    Examples
    --------
    >>> from metriclearn import ChangePointMetricLearner, Segmenter
    >>> from metriclearn.datasets import make_change_points
    >>> from metriclearn.plots import plot_members
    >>> data = make_change_points(4, 80, 6, 3, (3, 5), random_state=0)
    >>> members = {"diagonal": [ChangePointMetricLearner()]}
    >>> segmenter = Segmenter(members, n_folds=2, verbose=False)
    >>> figure = plot_members(segmenter.fit(data.sequences, data.labels))
    >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
    ['diagonal']
    """
    shares = list(segmenter.shares_)
    if not shares:
        raise ValueError(
            "plot_members needs a Segmenter that has left recordings out, got one without losses "
            "of its members; label recordings of two groups or more."
        )
    shown, checked = shares[:top], segmenter.validation_
    ax = draw.canvas(ax, (8.0, 1.6 + 0.24 * len(shown)), _members_message(shares, checked), title)
    losses = [one.loss for one in shown]
    colors = [draw.PALETTE[0] if one.weight >= _LEAST_SHOWN else draw.PALETTE[5] for one in shown]
    drawn = draw.bars(ax, losses, [one.family for one in shown], colors)
    texts = [f"{one.weight:.0%}, {one.seconds:.1f} s" for one in shown]
    ax.bar_label(drawn, texts, padding=4, fontsize=draw.TEXT_SIZE - 1, color=draw.MUTED)
    hidden = f" ({len(shares) - top} families not shown)" if len(shares) > top else ""
    draw.tidy(ax, f"mean loss on recordings left out; weight, seconds of fits{hidden}", grid="x")
    most = max(losses)
    if checked is not None:
        lines = {"all together": checked.loss, "Euclid": checked.euclidean}
        lines |= {"equal cuts": checked.equal_cuts, "one segment": checked.one_segment}
        for (name, loss), color, style in zip(lines.items(), _LINES, ("-", "--", ":", "-.")):
            label = f"{name} {draw.number(loss)}"
            ax.axvline(loss, color=color, ls=style, lw=1.6, label=label)
        draw.legend(ax, loc="lower right", frameon=True, edgecolor="none", framealpha=0.9)
        most = max(most, *lines.values())
    ax.set_xlim(0, 1.18 * most or 1.0)
    return draw.figure_of(ax)


def _members_message(shares: Sequence[Any], checked: Any) -> str:
    best = min(shares, key=lambda one: one.loss)
    if checked is None:
        return f"Best family: {best.family}, loss {draw.number(best.loss)}"
    return (
        f"All together have a loss of {draw.number(checked.loss)}, the best family "
        f"{draw.number(best.loss)}: {best.family}"
    )


def _elbow_message(
    numbers: NDArray, cost: NDArray, intervals: NDArray | None, chosen: int | None
) -> str:
    if chosen is None:
        fall = f"from {draw.number(cost[0])} to {draw.number(cost[-1])}"
        return f"Residual cost falls {fall} between {numbers[0]} and {numbers[-1]} segments"
    subject = f"{counted(chosen, 'segment')} chosen"
    if intervals is None:
        return f"{subject}: residual cost {draw.number(float(cost[numbers == chosen][0]))}"
    low, high = intervals[numbers == chosen][0]
    if np.isinf(high):
        return f"{subject}: optimal for every penalty from {draw.number(low)}"
    return f"{subject}: optimal for penalties from {draw.number(low)} to {draw.number(high)}"


def _draw_intervals(ax: Axes, numbers: NDArray, intervals: NDArray, chosen: int | None) -> None:
    """Draw the intervals of penalties as horizontal bars over a logarithmic axis.

    Bars that begin at 0 or end at ∞ reach to the edge of the axes.
    """
    inner = intervals[np.isfinite(intervals) & (intervals > 0)]
    low, high = (inner.min() / 2, inner.max() * 2) if inner.size else (0.5, 2.0)
    ends = np.clip(intervals, low, high)
    colors = [_MARKED if n == chosen else draw.MUTED for n in numbers]
    width = float(np.clip(120 / np.ptp(numbers), 1.5, 8)) if len(numbers) > 1 else 8.0
    ax.hlines(numbers, ends[:, 0], ends[:, 1], colors=colors, linewidth=width)
    ax.set(xscale="log", xlim=(low, high))
    ax.yaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
    draw.tidy(ax, "penalty per segment", "optimal number of segments", grid="x")


@needs
def plot_regularization_path(
    strengths: ArrayLike,
    weights: ArrayLike,
    validation_loss: ArrayLike | None = None,
    feature_names: FeatureNames = None,
    ax: Axes | None = None,
    *,
    noun: Text = "features",
    title: Title = None,
) -> Figure:
    """Draw the learned weights against the strength of regularization.

    If the validation loss is given, it is drawn in a second panel below. Up to six features have a
    color and a name, and the others are gray. Colors and names go to the features with the largest
    weights at the strength with the least validation loss. If the validation loss is not given,
    features are compared by their largest weight over all strengths.

    Parameters
    ----------
    strengths : (S,) array
        Strengths of regularization, zero or positive, in any order.
    weights : (S, P) array
        Diagonal of the metric that was learned at each strength.
    validation_loss : (S,) or (S, F) array, optional
        Loss on validation data. If the loss has one column per fold, the mean ± standard error is
        drawn.
    feature_names : sequence of P str, optional
        Names of the features, by default "feature 0", "feature 1", ….
    ax : matplotlib Axes, optional
        Where to draw. By default, a new figure is made.
    noun : str
        What the title calls the columns of ``weights``, in the plural.
    title : str, optional
        Replaces the default title.

    Returns
    -------
    Figure
        A matplotlib figure.

    Raises
    ------
    ValueError
        If a strength is negative or repeated, or if lengths differ.

    See Also
    --------
    metriclearn.regularization_path : computes the path.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.plots import plot_regularization_path
    >>> weights = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.5]])
    >>> figure = plot_regularization_path([1.0, 0.1, 0.01], weights, [0.5, 0.2, 0.3])
    """
    who = "plot_regularization_path"
    losses = None
    if validation_loss is not None:
        losses = np.atleast_1d(real_array(who, "validation_loss", validation_loss, None))
        losses = losses.reshape(len(losses), -1)
    strength = real_array(who, "strengths", strengths, 1)
    path = real_array(who, "weights", weights, 2)
    strength, path, losses = draw.aligned(who, strengths=strength, rows=path, losses=losses)
    if strength[0] < 0 or np.any(np.diff(strength) == 0):
        raise ValueError(f"{who} needs distinct strengths of zero or more, got {strength}.")
    names = draw.named(who, feature_names, path.shape[1])
    kept, leading = np.count_nonzero(path, axis=1), np.abs(path).max(axis=0)
    message = f"From {kept[0]} to {kept[-1]} of {path.shape[1]} {noun} as the strength grows"
    if losses is not None:
        # the strongest regularization with the least mean loss
        best = len(losses) - 1 - int(np.argmin(losses.mean(axis=1)[::-1]))
        subject = f"Strength {draw.number(strength[best])} validates best"
        message = f"{subject} and keeps {kept[best]} of {path.shape[1]} {noun}"
        leading = np.abs(path[best])
    ratios, height = ([1.0], 3.4) if losses is None else ([1.7, 1.0], 4.8)
    ax = draw.canvas(ax, (7.0, height), message, title)
    rows = draw.panels(ax, ratios, stacked=True, sharex=True)
    _draw_path(rows[0], strength, path, names, leading)
    if losses is not None:
        _draw_losses(rows[1], strength, losses, best)
        for row in rows:
            row.axvline(strength[best], color=draw.INK, lw=1, ls=(0, (3, 2)))
    if strength[0] > 0:
        rows[-1].set_xscale("log")
    else:
        rows[-1].set_xscale("symlog", linthresh=min(strength[1:], default=1.0))
    rows[-1].xaxis.set_minor_locator(NullLocator())
    rows[-1].set_xlabel("strength of regularization", fontsize=draw.TEXT_SIZE, color=draw.INK)
    return draw.figure_of(ax)


def _draw_path(
    ax: Axes,
    strength: NDArray[np.float64],
    path: NDArray[np.float64],
    names: Sequence[str],
    leading: NDArray[np.float64],
) -> None:
    order = np.argsort(-leading, kind="stable")
    count = min(_MOST_COLORED, max(1, np.count_nonzero(leading)))
    rest = order[count:]
    if len(rest):
        ax.plot(strength, path[:, rest], color=draw.MUTED, lw=0.9, alpha=0.6)
    length = int(draw.width_of(ax) * 6)
    for color, p in zip(draw.PALETTE, order[:count]):
        ax.plot(strength, path[:, p], color=color, lw=2, label=draw.shorten(names[p], length))
    draw.tidy(ax, "", "weight", grid="y")
    # the legend is on the right, where all weights are small
    style = {"fontsize": draw.TEXT_SIZE - 1, "handlelength": 1.2, "labelspacing": 0.3}
    draw.legend(ax, loc="upper right", **style)


def _draw_losses(
    ax: Axes, strength: NDArray[np.float64], losses: NDArray[np.float64], best: int
) -> None:
    mean = losses.mean(axis=1)
    if losses.shape[1] > 1:
        error = losses.std(axis=1, ddof=1) / np.sqrt(losses.shape[1])
        ax.fill_between(strength, mean - error, mean + error, color=draw.MUTED, alpha=0.2, lw=0)
    ax.plot(strength, mean, "o-", color=draw.INK, ms=3, lw=1.6)
    ax.plot(strength[best], mean[best], "o", color=_MARKED, ms=9)
    draw.tidy(ax, "", "validation loss", grid="y")
    draw.mark(ax, strength[best], ax.get_ylim()[1], "least validation loss", (5, -9))
