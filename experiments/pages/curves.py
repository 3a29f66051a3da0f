"""Curves of losses against labels, in one or several panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend

from metriclearn.plots.canvas import (
    MUTED,
    PALETTE,
    canvas,
    figure_of,
    headline,
    legend,
    new_figure,
    panels,
    say,
    tidy,
)

_SPACE = 0.03  # between legend and lines, as a share of the height of a panel


@dataclass(frozen=True)
class Panel:
    """One panel.

    Attributes
    ----------
    curves : mapping
        Positions, means and standard errors of each method, (3, n).
    flat : mapping
        Levels of horizontal lines.
    log : bool
        Whether positions have a logarithmic scale.
    """

    title: str
    xlabel: str
    ylabel: str
    curves: Mapping[str, Any]
    flat: Mapping[str, float] = field(default_factory=dict)
    log: bool = False


def plot_curves(parts: Sequence[Panel], message: str, ax: Axes | None = None) -> Figure:
    """Plot all panels, with error bars. The first curve is ours. Panels are stacked if axes are
    given, and are in rows of two otherwise."""
    n_columns = 2 if ax is None else 1  # of the legend: given axes may be narrow
    if ax is not None:
        axes = panels(canvas(ax, (1.0, 1.0), message), [1.0] * len(parts), stacked=True)
    else:
        columns, rows = min(2, len(parts)), -(-len(parts) // 2)
        figure = new_figure((9.0, 4.0 * rows))
        headline(figure, fill(message, 80))
        axes = list(np.ravel(figure.subplots(rows, columns)))
    for panel, part in zip(axes, parts):
        for place, (name, (x, mean, error)) in enumerate(part.curves.items()):
            line: dict[str, Any] = {"color": PALETTE[place % 6], "ls": "-" if place < 6 else "-."}
            line["lw"] = 1.3 if place else 2.4
            panel.errorbar(x, mean, error, marker="o", ms=3.5, capsize=2.5, label=name, **line)
            if part.log:
                panel.set_xscale("log")
                panel.set_xticks(x, [f"{one:g}" for one in x])
                panel.set_xticks([], minor=True)
        for (name, level), style in zip(part.flat.items(), ("--", ":")):
            panel.axhline(level, color=MUTED, ls=style, lw=1.2, label=name)
        say(panel, part.title)
        panel.set_ylim(bottom=0)
        tidy(panel, part.xlabel, part.ylabel, "y")
        legend(panel, loc="upper left", ncols=n_columns, columnspacing=1.0, handlelength=1.5)
    figure = figure_of(axes[0])
    figure.draw_without_rendering()
    for panel in axes[: len(parts)]:  # room for the legend above all lines
        (made,) = panel.findobj(Legend)
        share = made.get_window_extent().height / panel.bbox.height + _SPACE
        panel.set_ylim(top=panel.get_ylim()[1] / (1.0 - share))
    return figure
