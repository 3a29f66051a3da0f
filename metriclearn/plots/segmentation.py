"""Draw segmentations of one sequence as colored strips, one below the other, the truth first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

import metriclearn.plots.canvas as draw
from metriclearn.problem.partition import Partition
from metriclearn.running.command_line import counted
from metriclearn.running.parameters import NAMED, Needs, Of, Positive, Real, Text, Title, needs
from metriclearn.running.values import real_array

_LANE = 0.75  # height of a signal, one unit per row
_MOST_LINES, _MOST_POINTS = 6, 2000

_LOSSES = Needs(
    "{name} that name a number, or None",
    lambda losses: losses is None or all(map(Real(-np.inf).accepts, losses.values())),
)


@needs
def plot_segmentation(
    segmentations: Annotated[Mapping[str, ArrayLike], NAMED],
    signal: ArrayLike | Mapping[str, ArrayLike] | None = None,
    losses: Annotated[Mapping[str, float] | None, _LOSSES] = None,
    sampling_step: Annotated[float, Positive()] = 1,
    unit: Text = "samples",
    ax: Axes | None = None,
    *,
    bands: Annotated[
        Mapping[str, ArrayLike] | None, Of("get", "a dictionary", optional=True)
    ] = None,
    title: Title = None,
) -> Figure:
    """Draw segmentations of one sequence as colored strips, to compare them with the truth.

    The first strip is the truth. A segment has the color of the true segment with which it overlaps
    most, so equal colors mean agreement. Solid lines are the boundaries of a strip. Dashed lines
    continue the true boundaries through all strips. So a dashed line without a solid line is a
    missed boundary, and a solid line without a dashed line is a wrong boundary. Drawing takes O(T
    P) time for the signal and O(K) per strip.

    Parameters
    ----------
    segmentations : dict of str to sequence of int
        The change-points of each segmentation by its name, the truth first. As in ruptures, the
        last change-point is T.
    signal : (T, P) or (T,) array, data frame, or dict of str to (T,) array, optional
        The signal to draw above the strips. Every feature is scaled to [0, 1]. Up to six features
        are drawn as lines, with gaps at NaN. If there are more features, all are drawn as a heat
        map. The names of the columns of a data frame, or the keys of a dict, are written above the
        signal.
    losses : dict of str to float, optional
        The loss ‖M − N‖²_F of each strip against the truth. The loss is written next to the name of
        the strip.
    sampling_step : float
        Time between two samples, in ``unit``.
    unit : str
        Unit of the time axis.
    ax : matplotlib Axes, optional
        Where to draw. By default, a new figure is made.
    bands : dict of str to (K−1, 2) int array, optional
        For each boundary of a strip, the first and last position to which it can be moved for a
        small loss of score. These intervals are drawn pale.
        :meth:`~metriclearn.oracles.BoundaryMargins.intervals` computes them.
    title : str, optional
        Replaces the default title.

    Returns
    -------
    Figure
        A matplotlib figure.

    Raises
    ------
    ValueError
        If there is no segmentation, if the segmentations or the signal differ in length, or if a
        loss has no strip.

    See Also
    --------
    metriclearn.ChangePointMetricLearner : its ``plot`` calls this function.
    """
    names, scaled = ([], None) if signal is None else _read(signal)
    strips = draw.read_strips("plot_segmentation", segmentations, scaled)
    losses = losses or {}
    if unknown := set(losses) - set(strips):
        raise ValueError(f"plot_segmentation needs losses of its strips, got {sorted(unknown)}.")
    truth = next(iter(strips.values()))
    lanes = 0 if scaled is None else min(scaled.shape[1], _MOST_LINES)
    height = 0.95 + len(strips) * 0.62 + (0.4 + 0.42 * lanes if lanes else 0)
    ax = draw.canvas(ax, (9.0, height), _message(strips, losses), title)
    for row, (name, strip) in enumerate(strips.items()):
        _draw_strip(ax, row, strip, truth, sampling_step)
        for first, last in np.asarray((bands or {}).get(name, ())).reshape(-1, 2):
            left, width = (first - 0.5) * sampling_step, (last - first + 1) * sampling_step
            draw.strip(ax, row, [left], [width], ["white"], alpha=0.6, lw=0)
        count = counted(strip.n_clusters, "segment")
        loss = f" · loss {draw.number(losses[name])}" if name in losses else ""
        _label(ax, row - draw.LABEL / 2, f"{name} · {count}{loss}")
    top, end = 0.0, truth.n_samples * sampling_step
    if scaled is not None:
        top = _draw_signal(ax, scaled, end)
        _label(ax, top, _signal_label(names, scaled.shape[1]))
    heights = [len(strips) - 1 + draw.STRIP + 0.1, top]
    for boundary in truth.change_points[:-1] * sampling_step:
        ax.plot([boundary] * 2, heights, color=draw.INK, lw=0.8, ls=(0, (3, 2)))
    xlabel = f"time ({unit})" if unit != "samples" else "samples"
    draw.strip_axes(ax, len(strips), end, top - draw.LABEL, xlabel)
    return draw.figure_of(ax)


def _read(signal: Any) -> tuple[list[str], NDArray[np.float64]]:
    """Read a signal: the names of its features (none for an array), and its values.

    Every feature is scaled to [0, 1]. A constant feature is drawn at ½.
    """
    names: list[str] = []
    if hasattr(signal, "keys"):
        names = [str(name) for name in signal]
        signal = np.column_stack([signal[name] for name in signal])
    X = np.atleast_1d(real_array("plot_segmentation", "signal", signal, None, allow=["missing"]))
    X = X.reshape(len(X), -1)
    low = np.fmin.reduce(X, axis=0)
    span = np.fmax.reduce(X, axis=0) - low
    return names, np.where(span > 0, (X - low) / np.where(span > 0, span, 1), 0.5)


def _signal_label(names: Sequence[str], n_features: int) -> str:
    """Compose the label of the signal above the strips.

    The label names all lines from top to bottom, or only the first and the last row of a heat map.
    """
    words = "signal" if n_features == 1 else f"signal, {n_features} scaled features"
    if n_features > _MOST_LINES and names:
        return f"{words}, {names[0]} to {names[-1]}"
    return f"{', '.join(names)}{' (scaled)' if n_features > 1 else ''}" if names else words


def _message(strips: Mapping[str, Partition], losses: Mapping[str, float]) -> str:
    first, *others = strips
    rated = {name: losses[name] for name in others if name in losses}
    if len(rated) > 1:
        best = min(rated.values())
        closest = [name for name in rated if rated[name] == best]
        verb = "are" if len(closest) > 1 else "is"
        return f"{' and '.join(closest)} {verb} closest to {first}: loss {draw.number(best)}"
    counts = [f"{strips[name].n_clusters} in {name}" for name in others]
    return ", ".join([f"{counted(strips[first].n_clusters, 'segment')} in {first}", *counts])


def _label(ax: Axes, y: float, text: str) -> None:
    text = draw.shorten(text, int(draw.width_of(ax) * 13))
    ground = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}  # covers the dashed lines
    draw.words(ax, 0, y, text, transform=ax.get_yaxis_transform(), bbox=ground)


def _draw_strip(ax: Axes, row: int, strip: Partition, truth: Partition, step: float) -> None:
    segments, true, counts = strip.intersections(truth)
    matched = np.zeros(strip.n_clusters, dtype=int)
    order = np.argsort(counts, kind="stable")  # the largest overlap is written last, and stays
    matched[segments[order]] = true[order]
    widths, ends = strip.sizes * step, strip.change_points * step
    faces = [draw.PALETTE[k % len(draw.PALETTE)] for k in matched]
    draw.strip(ax, row, ends - widths, widths, faces, lw=0)
    width = 2.2 if len(ends) < 40 else 1.0
    ax.vlines(ends[:-1], row, row + draw.STRIP, color=draw.INK, linewidth=width)


def _draw_signal(ax: Axes, scaled: NDArray[np.float64], end: float) -> float:
    """Draw the signal above row 0 and return the vertical position of its label."""
    n_features = scaled.shape[1]
    bottom = -draw.LABEL - 0.12
    if n_features > _MOST_LINES:
        top = bottom - _LANE * _MOST_LINES
        pooled = scaled[:: max(1, len(scaled) // _MOST_POINTS)]
        ax.imshow(pooled.T, cmap="Greys", extent=(0.0, end, bottom, top), aspect="auto")
        return top - draw.LABEL / 2
    times, low, high = draw.envelope(scaled, end, _MOST_POINTS)
    for lane in range(n_features):
        base = bottom - _LANE * (n_features - 1 - lane)
        lower, upper = base - 0.9 * _LANE * low[:, lane], base - 0.9 * _LANE * high[:, lane]
        ax.fill_between(times, lower, upper, color=draw.INK, lw=0.5)
    return bottom - _LANE * n_features - draw.LABEL / 2
