"""Figures that show how certain change-points are, and whether probabilities are calibrated."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

import metriclearn.plots.canvas as draw
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import Text, Title, Whole, needs
from metriclearn.running.values import check_each, real_array

_MOST_NAMED, _POINTS = 30, 2000
_BAND = draw.PALETTE[0]


@needs
def plot_margins(
    change_points: ArrayLike,
    confidences: ArrayLike,
    gains: ArrayLike,
    intervals: ArrayLike,
    ax: Axes | None = None,
    *,
    words: Text = "loss",
    title: Title = None,
) -> Figure:
    """Draw how certain change-points are, and how good a change elsewhere would be.

    At every sample, the curve shows the score of the best segmentation with a change there, minus
    the score of the best segmentation of all. The curve is 0 at the change-points. Elsewhere,
    values close to 0 mark positions where a change would be nearly as good. Dashed lines mark the
    change-points, and the numbers above the lines are the confidences. Blue bands show how far each
    change-point can be moved for a small loss of score. Drawing takes O(T + K) time.

    Parameters
    ----------
    change_points : (K,) int array
        The change-points. As in ruptures, the last change-point is T.
    confidences : (K−1,) array
        Confidence of each change-point: how much the score decreases without it (infinite if it
        cannot be removed), or its probability.
    gains : (T,) array
        The values of the curve, which are at most 0, and −inf where no change is allowed.
    intervals : (K−1, 2) int array
        First and last position of the blue band of each change-point, see
        :meth:`~metriclearn.oracles.BoundaryMargins.intervals`.
    ax : matplotlib Axes, optional
        Where to draw. By default, a new figure is made.
    words : str
        Word for the confidences in the title, such as "loss" or "probability".
    title : str, optional
        Replaces the default title.

    Returns
    -------
    Figure
        A matplotlib figure.

    Raises
    ------
    ValueError
        If the numbers of samples or of change-points in the arguments differ.

    See Also
    --------
    metriclearn.oracles.boundary_margins : computes losses and gains.
    """
    who = "plot_margins"
    ends = Partition.from_change_points(change_points).change_points
    shares = real_array(who, "confidences", confidences, 1, allow=("empty", "infinite"))
    curve = real_array(who, "gains", gains, 1, allow=("infinite",))
    bands = real_array(who, "intervals", intervals, None, allow=("empty",))
    bands = bands if bands.size else np.zeros((0, 2))
    if len(curve) != ends[-1] or (len(shares), 2) != bands.shape or len(bands) != len(ends) - 1:
        raise ValueError(
            f"{who} needs {ends[-1]} gains and {len(ends) - 1} confidences and intervals, each of "
            f"two rows, got {len(curve)}, {len(shares)} and an array of shape {bands.shape}."
        )
    message = f"{len(shares)} change-points"
    if len(shares):
        weakest = int(np.argmin(shares))
        least = draw.number(shares[weakest])
        message += f", the least sure one at {ends[weakest]}: {words} {least}"
    ax = draw.canvas(ax, (9.0, 2.8), message, title)
    below = -curve[np.isfinite(curve)]
    depth = float(np.quantile(below, 0.95)) or 1.0  # lower gains are cut off
    lowered = np.maximum(curve, -depth)
    times, low, high = draw.envelope(lowered[:, None], len(curve), _POINTS)
    for first, last in bands:
        ax.axvspan(first - 0.5, last + 0.5, color=_BAND, alpha=0.2, lw=0)
    ax.fill_between(times, low[:, 0], high[:, 0], color=draw.INK, lw=0.8)
    ax.vlines(ends[:-1], -depth, 0.06 * depth, color=draw.INK, lw=0.8, ls=(0, (3, 2)))
    if len(shares) <= _MOST_NAMED:
        for place, share in zip(ends[:-1].tolist(), shares.tolist()):
            text = draw.number(share) if np.isfinite(share) else "∞"
            draw.words(ax, place, 0.12 * depth, text, ha="center", size=draw.TEXT_SIZE - 1)
    ax.set(xlim=(0, len(curve)), ylim=(-1.02 * depth, 0.2 * depth))
    draw.tidy(ax, "samples", "gain of a change here")
    return draw.figure_of(ax)


@needs
def plot_reliability(
    probabilities: ArrayLike,
    outcomes: ArrayLike,
    n_bins: Annotated[int, Whole(1, 10_000)] = 10,
    ax: Axes | None = None,
    *,
    title: Title = None,
) -> Figure:
    """Draw a reliability diagram: observed frequency against predicted probability.

    Each point is a bin of predictions with similar probabilities. If the probabilities are
    calibrated, the points are on the diagonal. Error bars show one binomial standard error. The
    default title states the :func:`expected_calibration_error`. Drawing takes O(n) time.

    Parameters
    ----------
    probabilities : (n,) array in [0, 1]
        The predicted probabilities.
    outcomes : (n,) array of bool
        Whether each prediction came true.
    n_bins : int
        Number of bins of equal width.
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
        See :func:`expected_calibration_error`.

    References
    ----------
    A. Niculescu-Mizil and R. Caruana, "Predicting good probabilities with supervised learning",
    ICML 2005.
    """
    given, shares, counts = _bins("plot_reliability", probabilities, outcomes, n_bins)
    error = np.sum(counts * np.abs(given - shares)) / counts.sum()
    message = f"Calibration error {error:.3f} of {int(counts.sum()):,} predictions"
    ax = draw.canvas(ax, (4.6, 4.4), message, title)
    ax.plot([0, 1], [0, 1], color=draw.MUTED, lw=0.8, ls=(0, (3, 2)))
    deviations = np.sqrt(np.maximum(shares * (1 - shares), 0.25 / counts) / counts)
    ax.errorbar(given, shares, deviations, fmt="o-", color=_BAND, ms=5, lw=1.2)
    for x, y, count in zip(given.tolist(), shares.tolist(), counts.tolist()):
        draw.words(ax, x + 0.015, y - 0.04, f"{count}", size=draw.TEXT_SIZE - 1, color=draw.MUTED)
    ax.set(xlim=(-0.03, 1.06), ylim=(-0.03, 1.06))
    draw.tidy(ax, "probability given", "share that came true", grid="both")
    return draw.figure_of(ax)


@needs
def expected_calibration_error(
    probabilities: ArrayLike,
    outcomes: ArrayLike,
    n_bins: Annotated[int, Whole(1, 10_000)] = 10,
) -> float:
    """Compute the expected calibration error of predicted probabilities.

    The error is Σ_b n_b/n |fraction that came true − mean probability|, summed over bins b of equal
    width. Bin b has n_b of the n predictions. The error is in [0, 1], and 0 is perfect. The
    computation takes O(n) time.

    Parameters
    ----------
    probabilities : array (n,) in [0, 1]
        The predicted probabilities.
    outcomes : array (n,) of bool
        Whether each prediction came true.
    n_bins : int
        Number of bins of equal width.

    Returns
    -------
    float in [0, 1]

    Raises
    ------
    ValueError
        If there are no probabilities, if one is outside [0, 1], if an outcome is neither True nor
        False, or if lengths differ.

    References
    ----------
    M. P. Naeini, G. F. Cooper and M. Hauskrecht, "Obtaining well calibrated probabilities using
    Bayesian binning", AAAI 2015.
    """
    who = "expected_calibration_error"
    given, shares, counts = _bins(who, probabilities, outcomes, n_bins)
    return float(np.sum(counts * np.abs(given - shares)) / counts.sum())


def _bins(who: str, probabilities: ArrayLike, outcomes: ArrayLike, n_bins: int) -> tuple:
    """Sort predictions into bins.

    For every bin that is not empty, return the mean probability, the fraction that came true, and
    the number of predictions.
    """
    given = real_array(who, "probabilities", probabilities, 1)
    came = real_array(who, "outcomes", outcomes, 1)
    check_each(who, "outcome", len(came), "probabilities", len(given))
    if given.min() < 0 or given.max() > 1 or not np.isin(came, (0, 1)).all():
        raise ValueError(
            f"{who} needs probabilities from 0 to 1, and whether each prediction came true, 1 or "
            f"0, got probabilities from {given.min():g} to {given.max():g} and outcomes "
            f"{np.unique(came).tolist()[:5]}."
        )
    places = np.minimum((given * n_bins).astype(int), n_bins - 1)
    counts = np.bincount(places, minlength=n_bins)
    sums = [np.bincount(places, values, n_bins)[counts > 0] for values in (given, came)]
    counts = counts[counts > 0]
    return sums[0] / counts, sums[1] / counts, counts
