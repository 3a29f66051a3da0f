"""Draw a learned metric: its largest weights, or its matrix and eigenvalues."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

import metriclearn.plots.canvas as draw
from metriclearn.running.parameters import OPTIONAL_LIST, FeatureNames, Title, Whole, needs
from metriclearn.running.values import real_array

_MOST_NAMES = 30
_SHARE = 0.95
_SHOWN = 0.995  # share of the entries of a large matrix within its color scale


@needs
def plot_weights(
    weights: Any,
    feature_names: FeatureNames = None,
    top: Annotated[int, Whole(1)] = 20,
    highlight: Annotated[Collection[str] | None, OPTIONAL_LIST] = None,
    ax: Axes | None = None,
    *,
    title: Title = None,
) -> Figure:
    """Draw the largest weights of a diagonal metric as bars, the largest first.

    Parameters
    ----------
    weights : (P,) array, or a fitted learner
        Diagonal of the metric. If a learner standardizes the features, the weights apply to
        standardized features. To draw a full metric, use :func:`plot_metric_matrix`.
    feature_names : sequence of P str, optional
        Names of the features. The default is the names in the data to which the learner was fitted,
        or "feature 0", "feature 1", …
    top : int
        Largest number of bars. Weights of zero have no bar.
    highlight : collection of str, optional
        Names of features to draw in a second color.
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
        If a weight is not finite, if there is not one name per feature, or if a name in
        ``highlight`` is not the name of a feature.

    See Also
    --------
    metriclearn.DiagonalMetric : learns such weights.
    """
    if hasattr(weights, "get_mahalanobis_matrix"):
        matrix, feature_names = _learned(weights, feature_names)
        weights = np.diag(matrix)
    values = real_array("plot_weights", "weights", weights, 1)
    names = draw.named("plot_weights", feature_names, len(values))
    marked = set(() if highlight is None else map(str, highlight))
    if unknown := marked - set(names):
        raise ValueError(
            f"plot_weights needs highlight among feature_names, got {sorted(unknown)}."
        )
    order = np.argsort(-np.abs(values), kind="stable")[:top]
    shown = order[values[order] != 0]
    height = 1.1 + 0.22 * max(len(shown), 3)
    ax = draw.canvas(ax, (7.0, height), _weights_message(values), title)
    hidden = np.count_nonzero(values) - len(shown)
    draw.tidy(ax, f"weight ({hidden} smaller not shown)" if hidden else "weight", grid="x")
    colors = [draw.PALETTE[1] if names[p] in marked else draw.PALETTE[0] for p in shown]
    draw.bars(ax, values[shown], [names[p] for p in shown], colors)
    ax.xaxis.set_major_locator(MaxNLocator(5))
    if marked:
        swatch = ax.barh([0], [0], color=draw.PALETTE[1], label="highlighted")
        draw.legend(ax, handles=[swatch], loc="lower right")
    return draw.figure_of(ax)


def _learned(
    learner: Any, feature_names: Sequence[str] | None
) -> tuple[NDArray[np.float64], Sequence[str] | None]:
    """Return the matrix of a fitted learner, and the names of the features.

    If the learner standardizes the features, the matrix applies to standardized features.
    """
    matrix = learner.get_mahalanobis_matrix()
    scale = np.asarray(getattr(learner, "scale_", np.ones(len(matrix))))
    scale = np.where(np.isfinite(scale), scale, 0.0)  # constant features have no weight
    if feature_names is None:
        feature_names = getattr(learner, "feature_names_in_", None)
    return matrix * np.outer(scale, scale), feature_names


def _weights_message(values: NDArray[np.float64]) -> str:
    total, zero = len(values), int(np.sum(values == 0))
    if zero == total:
        return f"All {total} weights are zero"
    needed = _carriers(values)
    verb = "carries" if needed == 1 else "carry"
    zeros = f"{zero or 'none'} {'is' if zero < 2 else 'are'} zero"
    return f"{needed} of {total} features {verb} {_SHARE:.0%} of the weight; {zeros}"


def _carriers(values: NDArray[np.floating]) -> int:
    """Count how many of the largest absolute values make up 95 % of the sum of all."""
    magnitudes = np.sort(np.abs(values))[::-1]
    return int(np.searchsorted(np.cumsum(magnitudes), (_SHARE - 1e-12) * magnitudes.sum())) + 1


@needs
def plot_metric_matrix(
    B: Any,
    feature_names: FeatureNames = None,
    ax: Axes | None = None,
    *,
    title: Title = None,
) -> Figure:
    """Draw a full metric as a heat map, and its eigenvalues as bars.

    Only the rows of the heat map have names. The columns are in the same order. If there are more
    than 30 features, only the 30 with the largest diagonal entries are drawn, in the given order.
    Computing the eigenvalues takes O(P³) time.

    Parameters
    ----------
    B : (P, P) symmetric array, or a fitted learner
        The learned matrix. If a learner standardizes the features, the matrix applies to
        standardized features.
    feature_names : sequence of P str, optional
        Names of the features. The default is the names in the data to which the learner was fitted,
        or "feature 0", "feature 1", …
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
        If B is not square, finite and symmetric, or if there is not one name per feature.

    See Also
    --------
    metriclearn.FullMetric : learns such a matrix.
    """
    if hasattr(B, "get_mahalanobis_matrix"):
        B, feature_names = _learned(B, feature_names)
    matrix = real_array("plot_metric_matrix", "a matrix B", B, 2)
    rows, columns = matrix.shape
    scale = float(np.abs(matrix).max())
    if rows != columns or not np.allclose(matrix, matrix.T, atol=1e-6 * scale):
        raise ValueError(
            f"plot_metric_matrix needs a symmetric square matrix, got shape {matrix.shape}; "
            "pass B or (B + B.T) / 2."
        )
    names = draw.named("plot_metric_matrix", feature_names, rows)
    eigenvalues = np.linalg.eigvalsh(matrix)[::-1]
    ax = draw.canvas(ax, (9.0, 4.3), _spectrum_message(eigenvalues), title)
    stacked = draw.width_of(ax) < 5
    left, right = draw.panels(ax, (1.7, 1) if stacked else (1.15, 1), stacked=stacked)
    _draw_matrix(left, matrix, names, scale)
    _draw_spectrum(right, eigenvalues)
    return draw.figure_of(ax)


def _spectrum_message(eigenvalues: NDArray[np.floating]) -> str:
    size, magnitude = len(eigenvalues), np.abs(eigenvalues)
    if not magnitude.any():
        return f"The metric of {size} features is zero"
    rank, needed = int(np.sum(magnitude > 1e-8 * magnitude.max())), _carriers(eigenvalues)
    subject = "1 direction carries" if needed == 1 else f"{needed} directions carry"
    return f"{subject} {_SHARE:.0%} of the metric (rank {rank} of {size})"


def _draw_matrix(ax: Axes, matrix: NDArray[np.float64], names: Sequence[str], scale: float) -> None:
    some = np.sort(np.argsort(-np.diag(matrix), kind="stable")[:_MOST_NAMES])
    hidden = len(names) - len(some)
    shown = matrix[np.ix_(some, some)]
    limit = (float(np.quantile(np.abs(shown), _SHOWN)) if hidden else scale) or scale or 1.0
    norm = Normalize(-limit, limit)
    image = ax.imshow(shown, "RdBu_r", norm, aspect="auto", interpolation="nearest")
    unseen = f" ({hidden} of less weight are not shown)" if hidden else ""
    draw.tidy(ax, f"features, in the order of the rows{unseen}")
    size = draw.TEXT_SIZE if len(some) <= 16 else 6.5
    draw.name_ticks(ax, [names[place] for place in some], size)
    ax.set_xticks([])
    bar = draw.figure_of(ax).colorbar(
        image, ax=ax, ticks=[-limit, 0, limit], format=lambda value, _: draw.number(value),
        extend="both" if limit < scale else "neither", aspect=16, pad=0.03,
    )  # fmt: skip
    bar.outline.set_visible(False)  # type: ignore[operator]
    bar.ax.tick_params(labelsize=draw.TEXT_SIZE - 1, length=0, labelcolor=draw.INK)


def _draw_spectrum(ax: Axes, eigenvalues: NDArray[np.floating]) -> None:
    magnitude = np.abs(eigenvalues)
    rank = 1 + int(np.max(np.flatnonzero(magnitude > 1e-8 * magnitude.max()), initial=0))
    shown = eigenvalues[:_MOST_NAMES] if rank <= _MOST_NAMES else eigenvalues
    places = np.arange(1, len(shown) + 1)
    label = "eigenvalue number, largest first"
    if hidden := len(eigenvalues) - len(shown):
        label = f"eigenvalue number ({hidden} more are zero)"
    ax.bar(places, shown, 0.72 if len(shown) <= _MOST_NAMES else 1.0, color=draw.PALETTE[0])
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    draw.tidy(ax, label, "eigenvalue", grid="y")
