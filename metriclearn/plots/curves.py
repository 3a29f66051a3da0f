"""Curves: objective and lower bound during training, and run time or error against size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

import metriclearn.plots.canvas as draw
from metriclearn.running.parameters import Needs, Of, OneOf, Real, Text, Title, needs
from metriclearn.running.values import real_array

_ROUNDING = 1e-6  # a bound may exceed the objective by this share of it
_COLORS = (*draw.PALETTE[:-1], draw.INK)  # without yellow, in which names are illegible
_DASHED: dict[str, Any] = {"color": draw.MUTED, "lw": 1.6, "ls": (0, (4, 1.5))}
_WIDE = 3.0  # ratio of the longest to the shortest curve above which the axis is logarithmic


class _Curve(NamedTuple):
    """The objective and the lower bound of one method, as curves.

    ``x`` holds the positions on the horizontal axis. ``best`` and ``bound`` are the best objective
    and the best lower bound so far (−∞ before there is one). ``unit`` is the divisor of relative
    gaps.
    """

    x: NDArray[np.float64]
    best: NDArray[np.float64]
    bound: NDArray[np.float64]
    unit: NDArray[np.float64]

    @property
    def gap(self) -> NDArray[np.float64]:
        """The relative gap (best − bound) / |unit|, or 0 if this is negative."""
        tiny = np.finfo(float).tiny
        return np.maximum(self.best - self.bound, 0) / np.maximum(np.abs(self.unit), tiny)


_TRACES = Needs(
    "{name}: a fitted learner, or names with a table such as vars(learner.solution_.trace)",
    lambda given: (
        hasattr(given, "solution_")
        or all(hasattr(one, "items") or hasattr(one, "solution_") for one in given.values())
    ),
)


@needs
def plot_convergence(
    traces: Annotated[Any, _TRACES],
    ax: Axes | None = None,
    *,
    gap: bool = False,
    seconds: bool = False,
    title: Title = None,
) -> Figure:
    """Draw the best objective and the certified lower bound against passes over the data.

    The curves show the best values so far. The gap between the two curves is shaded, and the
    optimum lies in this gap.

    Parameters
    ----------
    traces : fitted learner, or dict of str to learner or table
        A fitted learner. To draw several methods, pass a dict from the name of each method to its
        fitted learner or to a table. A table is a dict of arrays or a pandas DataFrame, with one
        entry per round. A table must have the column ``objective``. The column ``lower_bound`` is
        optional (NaN or −∞ while there is no bound). The optional column ``passes`` is the number
        of passes over the data since the start (by default, a round is one pass). With
        ``seconds=True`` the table must have the column ``seconds``, the time since the start. An
        optional number ``scale`` replaces the best objective as the divisor of the relative gap.
    ax : matplotlib Axes, optional
        Where to draw. By default, a new figure is made.
    gap : bool
        If True, draw the relative gap (best − bound) / \\|best\\| on a logarithmic axis instead.
        So methods with different objectives can be compared. If the lengths of the curves differ by
        more than a factor of 3, the horizontal axis is logarithmic, too.
    seconds : bool
        Whether the horizontal axis is in seconds instead of passes.
    title : str, optional
        Replaces the default title.

    Returns
    -------
    Figure
        A matplotlib figure.

    Raises
    ------
    ValueError
        If there is no trace, if a column is missing or has another length, if seconds or passes
        decrease, or if a lower bound exceeds the best objective.

    See Also
    --------
    metriclearn.BundleDual : a solver that certifies a lower bound.
    """
    if hasattr(traces, "solution_"):
        traces = {type(traces).__name__: traces}
    if not traces:
        raise ValueError("plot_convergence needs at least one trace, got none.")
    curves = {name: _curve(name, table, seconds) for name, table in traces.items()}
    ax = draw.canvas(ax, (7.0, 3.6), _message(curves), title)
    colors = [_COLORS[place % len(_COLORS)] for place in range(len(curves))]
    for color, (name, curve) in zip(colors, curves.items()):
        if gap:
            shown = np.isfinite(curve.bound) & (curve.gap > 0)
            ax.step(curve.x[shown], curve.gap[shown], where="post", color=color, lw=2, label=name)
        else:
            _draw_band(ax, f"{name}: " if len(curves) > 1 else "", curve, color)
    x = "seconds since the start" if seconds else "passes over the data"
    draw.tidy(ax, x, "relative gap to the lower bound" if gap else "objective", grid="y")
    if not seconds:
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    if gap:
        ax.set_yscale("log")
        ends = [curve.x[-1] for curve in curves.values()]
        if max(ends) > _WIDE * min(ends):
            ax.set_xscale("log")
    else:
        ax.set_ylim(*_limits(list(curves.values())))
        if len(curves) > 1:
            ax.plot([], [], label="dashed: certified lower bound", **_DASHED)
    if len(curves) > 1 or not gap:
        draw.legend(ax, labelcolor="linecolor")
    return draw.figure_of(ax)


def _curve(name: str, table: Any, seconds: bool) -> _Curve:
    if hasattr(table, "solution_"):
        table = vars(table.solution_.trace)
    horizontal = "seconds" if seconds else "passes"
    for column in ("objective", "seconds") if seconds else ("objective",):
        if column not in table:
            raise ValueError(
                f"plot_convergence needs a column {column!r} in the trace of {name}, got "
                f"{sorted(table)}."
            )
    who = f"plot_convergence ({name})"
    best = np.minimum.accumulate(real_array(who, "objective", table["objective"], 1))
    raw = np.asarray(table.get("lower_bound", np.full(len(best), -np.inf)), dtype=np.float64)
    x = real_array(who, horizontal, table.get(horizontal, np.arange(1.0, len(best) + 1)), 1)
    if np.any(np.diff(x) < 0):
        raise ValueError(
            f"{who} needs {horizontal} since the start; pass numpy.cumsum of the {horizontal} of "
            "every round."
        )
    x, best, raw = draw.aligned(who, **{horizontal: x}, objectives=best, bounds=raw)
    bound = np.maximum.accumulate(np.where(np.isnan(raw), -np.inf, raw))
    if np.any(bound > best + _ROUNDING * np.maximum(np.abs(best), 1)):
        raise ValueError(
            f"{who} needs lower bounds below the best objective, got {bound[-1]:.6g} above "
            f"{best[-1]:.6g}; check what the solver certified."
        )
    scale = np.asarray(table.get("scale", np.nan), dtype=np.float64)
    if scale.ndim or scale <= 0:
        raise ValueError(f"{who} needs one positive number as scale, got {table['scale']!r}.")
    return _Curve(x, best, bound, best if np.isnan(scale) else np.full(len(best), scale))


def _message(curves: Mapping[str, _Curve]) -> str:
    gaps = [curve.gap[-1] for curve in curves.values() if np.isfinite(curve.bound[-1])]
    worst = f"{draw.number(max(100 * max(gaps, default=0.0), 1e-3))} % of the optimum"
    if len(curves) == 1:
        ((name, curve),) = curves.items()
        rounds = f"{len(curve.x)} pass{'es' if len(curve.x) > 1 else ''}"
        if not gaps:
            return f"{name}: {rounds}, no certified bound"
        return f"{name}: proven within {worst} after {rounds}"
    if not gaps:
        return f"{len(curves)} methods, none with a certified bound"
    share = "All" if len(gaps) == len(curves) else f"{len(gaps)} of {len(curves)}"
    return f"{share} methods proven within {worst}"


def _draw_band(ax: Axes, prefix: str, curve: _Curve, color: str) -> None:
    bounded = np.isfinite(curve.bound)
    ax.step(curve.x, curve.best, where="post", color=color, lw=2, label=f"{prefix}best objective")
    if bounded.any():
        x, best, bound = curve.x[bounded], curve.best[bounded], curve.bound[bounded]
        ax.fill_between(x, bound, best, step="post", color=color, alpha=0.15, linewidth=0)
        label = None if prefix else "certified lower bound"
        ax.step(x, bound, where="post", label=label, **{**_DASHED, "color": color})


def _limits(curves: list[_Curve]) -> tuple[float, float]:
    """Compute limits of the vertical axis that show all objectives and the last bounds.

    Early bounds are often poor, so those far below the objectives are cut off.
    """
    high = max(curve.best[0] for curve in curves)
    low = min(curve.best[-1] for curve in curves)
    bounds = [curve.bound[np.isfinite(curve.bound)] for curve in curves]
    first = min((bound[0] for bound in bounds if len(bound)), default=low)
    last = min((bound[-1] for bound in bounds if len(bound)), default=low)
    bottom = min(low, last, max(first, low - 1.2 * (high - low)))
    margin = 0.06 * (high - bottom) or 0.05 * abs(high) or 1.0
    return bottom - margin, high + margin


@needs
def plot_scaling(
    sizes: ArrayLike,
    seconds: ArrayLike,
    slope: Annotated[float | None, OneOf(None, Real(-1e3, 1e3))] = None,
    ax: Axes | None = None,
    *,
    label: Text = "measured",
    xlabel: Annotated[str, Of(str, '"seconds"')] = "number of samples T",
    ylabel: Text = "seconds",
    title: Title = None,
) -> Figure:
    """Draw run times against sizes on logarithmic axes.

    The default title states the exponent p for which the power size^p fits the times best. To add
    a second program, call the function again with the same ``ax`` and with a ``title``.

    Parameters
    ----------
    sizes, seconds : (S,) arrays
        Positive sizes, of which at least two differ, and positive run times. To draw another
        quantity instead of run times, name it in ``ylabel`` and ``title``.
    slope : float, optional
        Expected exponent, such as 1 for linear time. A dashed line with this exponent is drawn
        through the point of the largest size.
    ax : matplotlib Axes, optional
        Where to draw. By default, a new figure is made.
    label : str
        Name of the measured program.
    xlabel, ylabel : str
        Names of the axes, that is, of the size and of the measured quantity.
    title : str, optional
        Replaces the default title.

    Returns
    -------
    Figure
        A matplotlib figure.

    Raises
    ------
    ValueError
        If the lengths differ, if a value is not positive, or if all sizes are equal.

    See Also
    --------
    metriclearn.running.executors.DaskExecutor : distributes long computations.
    """
    size = real_array("plot_scaling", "sizes", sizes, 1)
    time = real_array("plot_scaling", "seconds", seconds, 1)
    size, time = draw.aligned("plot_scaling", sizes=size, seconds=time)
    if min(size[0], time.min()) <= 0 or size[0] == size[-1]:
        raise ValueError(
            "plot_scaling needs positive seconds for two or more different positive sizes, got "
            f"sizes {size.tolist()} and seconds {time.tolist()}."
        )
    power = float(np.polyfit(np.log(size), np.log(time), 1)[0])
    last = xlabel.rpartition(" ")[2]
    symbol = last if len(last) == 1 else "size"
    message = f"Time grows as {symbol} to the power {power:.2f}"
    ax = draw.canvas(ax, (5.6, 3.8), message, title)
    color = draw.PALETTE[len(ax.lines) % len(draw.PALETTE)]
    ax.loglog(size, time, "o-", color=color, ms=6, lw=2, label=label)
    if slope is not None:
        line = time[-1] * (size / size[-1]) ** slope
        ax.loglog(size, line, color=draw.MUTED, lw=1.4, ls=(0, (4, 2)), label=f"power {slope:g}")
    draw.tidy(ax, xlabel, ylabel, grid="both")
    draw.legend(ax, loc="upper left" if power > 0 else "upper right")
    return draw.figure_of(ax)
