"""How run time grows with size."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

import metriclearn.plots.canvas as draw
from metriclearn.running.parameters import either, needs, number, real_array


@needs(slope=either(None, number(-1e3, 1e3)))
def plot_scaling(
    sizes: ArrayLike,
    seconds: ArrayLike,
    slope: float | None = None,
    ax: Axes | None = None,
    *,
    label: str = "measured",
    xlabel: str = "number of samples T",
    title: str | None = None,
) -> Figure:
    """Seconds against size on logarithmic axes, with the power that fits them best.

    Call it again with the same ``ax`` to compare a second program; titles then want ``title``.

    Parameters
    ----------
    sizes, seconds : (S,) arrays
        Positive sizes and run times; two different sizes at least.
    slope : float, optional
        Expected power (1 for linear time), drawn as a dashed line through the largest size.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    label : str
        Name of the measured program.
    xlabel : str
        What the size counts.
    title : str, optional
        Replaces the message.

    Returns
    -------
    Figure
        Of matplotlib.

    Raises
    ------
    ValueError
        If the lengths differ, a value is not positive, or there is only one size.

    See Also
    --------
    metriclearn.running.executors.DaskExecutor : for what takes too long.
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
    draw.tidy(ax, xlabel, "seconds", grid="both")
    draw.legend(ax, loc="upper left")
    return draw.figure_of(ax)
