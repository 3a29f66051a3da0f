"""Cuts in tables: those that the master problem works with, and those that it has dropped."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metriclearn.solvers.base import Cuts

__all__ = ["best_violated", "combination", "pruned", "table_of", "values", "within_masses"]


_FIELDS = [("offset", float), ("rounding", float), ("weight", float), ("group", int), ("age", int)]


def table_of(cuts: Cuts, w: NDArray, units: NDArray | float = 1.0) -> NDArray:
    """One record for every function: the minorant offset + ⟨slope, ·⟩ of it that was met at w.

    Parameters
    ----------
    cuts : Cuts
    w : array (n,)
    units : array (n,), optional
        By which the coordinates of w are multiplied, and slopes therefore divided, in the table.

    Returns
    -------
    structured array (number of functions,) with the fields
        ``slope`` (n,); ``offset``; ``rounding``, which bounds the error of the offset; ``weight``
        in the master problem's solution, here 0; ``group``, the function that the cut is of; and
        ``age``, the number of rounds for which it has had no weight.
    """
    linear = cuts.slopes @ w
    table = np.zeros(len(linear), dtype=[("slope", float, w.shape), *_FIELDS])
    table["slope"], table["offset"] = cuts.slopes / units, cuts.values - linear
    table["rounding"] = 1e-14 * (np.abs(cuts.values) + np.abs(linear))
    table["group"] = np.arange(len(table))
    return table


def values(table: NDArray, w: NDArray) -> NDArray:
    """Value of every cut at w, (J,)."""
    return table["offset"] + table["slope"] @ w


def combination(table: NDArray, weights: NDArray) -> tuple[float, NDArray]:
    """Σ weights_j (cut j), a minorant of the risk: its offset (less rounding) and slope."""
    active = np.flatnonzero(weights)
    weights, used = weights[active], table[active]
    return float(weights @ (used["offset"] - used["rounding"])), weights @ used["slope"]


def within_masses(weights: NDArray, groups: NDArray, masses: NDArray) -> NDArray:
    """Multipliers of cuts made nonnegative, and scaled down where a group's exceed its mass.

    Such a combination of cuts of hinges is a minorant of Σ masses_i R_i, however they were found.
    """
    weights = np.maximum(weights, 0.0)
    totals = np.bincount(groups, weights=weights, minlength=len(masses))
    return weights * np.minimum(1.0, masses / np.maximum(totals, 1e-300))[groups]


def pruned(table: NDArray, keep_inactive: int) -> tuple[NDArray, NDArray]:
    """Cuts with a weight now or ``keep_inactive`` rounds ago, and the others.

    A negligible weight becomes 0, and the others of its function make up for it.
    """
    groups, weights = table["group"], table["weight"].copy()
    totals = np.bincount(groups, weights=weights)
    weights[weights < 1e-9 * totals[groups]] = 0.0
    weights *= (totals / np.bincount(groups, weights=weights))[groups]
    table["weight"], table["age"] = weights, np.where(weights > 0, 0, table["age"] + 1)
    kept = table["age"] <= keep_inactive
    # those at the end take the places of the dropped ones: the others stay where they are
    n, gone = np.count_nonzero(kept), np.flatnonzero(~kept)
    order = np.arange(n)
    order[gone[gone < n]] = n + np.flatnonzero(kept[n:])
    return table[order] if len(gone) else table, table[gone]


def best_violated(table: NDArray, w: NDArray, model: NDArray) -> tuple[NDArray, NDArray]:
    """The cut of every function that is highest at w, where it exceeds the function's ``model``.

    Returns
    -------
    places in the table, and by how much each cut exceeds the model
    """
    heights = values(table, w)
    # by function and, within one, from the highest down: the first of each function is its best
    order = np.lexsort((-heights, table["group"]))
    _, first = np.unique(table["group"][order], return_index=True)
    best = order[first]
    excess = heights[best] - model[table["group"][best]]
    return best[excess > 0], excess[excess > 0]
