"""The penalty per segment that suits labeled sequences best, exactly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from metriclearn.oracles.change_points import PricedSegmentation
from metriclearn.oracles.path import hull_vertices, path_along, widest_run
from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.losses import FrobeniusLoss, Loss
from metriclearn.problem.partition import Partition

__all__ = ["best_penalty"]


def best_penalty(
    forms: Sequence[LowRankForm],
    truths: Sequence[Partition],
    weights: NDArray | None = None,
    min_size: int = 1,
    loss: Loss = FrobeniusLoss(),  # noqa: B008  # has no state
) -> tuple[float, float]:
    """The penalty with the least mean loss ℓ on labeled sequences, exactly, and that loss.

    Every sequence's optimal segmentation is piecewise constant in the penalty, so the mean loss
    is too, and its minimum over all penalties is found without a grid. Among equally good
    intervals the widest (in ratio) wins, and its geometric mean is returned.

    Parameters
    ----------
    forms : sequence of LowRankForm
        ZZᵀ of every sequence.
    truths : sequence of Partition
    weights : array (N,), optional
    min_size : int
    loss : Loss
        ℓ; of the truths it gets.
    """
    paths, errors, reached = [], [], 0.0
    for form, truth in zip(forms, truths):
        problem = PricedSegmentation(form, min_size)
        most = min(form.n_samples // min_size, 4 * truth.n_clusters + 10)
        vertices = hull_vertices(problem, problem.coarsest, problem.finest, most)
        path = path_along(vertices, 0.0, (0.0, np.inf))
        paths.append(path)
        errors.append(np.array([loss(Partition(ends=ends), truth) for ends in path.change_points]))
        if len(path) > 1 and path.n_segments[-2] >= most:  # not refined below this price
            reached = max(reached, float(path.penalties[-2, 1]))
    edges = _edges([path.penalties for path in paths], reached)
    # Between two edges the losses are constant: one price in every interval tells all.
    middles = np.sqrt(edges[:-1] * edges[1:])
    losses = [values[path.positions(middles)] for path, values in zip(paths, errors)]
    mean = np.average(losses, axis=0, weights=weights)
    prices = edges[::-1]  # as along a path: from high to low
    logs = np.log(prices)
    first, last = widest_run(mean[::-1] <= np.min(mean) + 1e-12, logs[1:], logs[:-1])
    return float(np.sqrt(prices[last + 1] * prices[first])), float(np.min(mean))


def _edges(penalties: Sequence[NDArray], reached: float) -> NDArray:
    """Prices between which no sequence changes its segmentation, increasing and positive.

    The lowest is ``reached``, down to which all paths go; 0 gets a positive stand-in.
    """
    lows = np.unique(np.concatenate([rows[:, 0] for rows in penalties]))
    rounding = 1e-12 * float(lows[-1])
    inner = lows[(lows > rounding) & (lows > reached)]
    if len(inner) == 0:
        return np.array([1.0, 2.0]) * max(1.0, reached)
    lowest = reached if reached > rounding else 1e-3 * inner[0]
    return np.concatenate([[lowest], inner, [2.0 * inner[-1]]])
