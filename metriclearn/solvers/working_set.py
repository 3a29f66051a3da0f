"""The cuts of a bundle: those the master problem works with, and those it has dropped."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metriclearn.solvers.base import CutMemory, Cuts

__all__ = ["CutArchive", "WorkingSet"]


class WorkingSet:
    """Cuts with weights: the value of cut j at w is offsets_j + ⟨rows_j, units(w)⟩.

    Rows live in a buffer that grows by doubling, and hold the price's slope divided by
    ``price_unit``, so that one curvature serves all coordinates of the master problem.

    Attributes
    ----------
    rows : array (J, n)
    offsets, rounding, weights : arrays (J,)
        ``rounding`` bounds the error of the offset.
    groups, age : int arrays (J,)
        Which function a cut is of, and for how many rounds it has had no weight.
    """

    ARRAYS = ("offsets", "rounding", "groups", "weights", "age")

    def __init__(self, size: int, price_unit: float, priced: bool) -> None:
        self._buffer = np.empty((16, size))
        self.price_unit, self.priced = price_unit, priced
        self.offsets, self.weights, self.rounding = np.zeros(0), np.zeros(0), np.zeros(0)
        self.groups, self.age = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def rows(self) -> NDArray:
        return self._buffer[: len(self)]

    def units(self, w: NDArray) -> NDArray:
        """w with its price in the rows' unit."""
        return np.append(w[:-1], w[-1] * self.price_unit) if self.priced else w

    def rescale(self, price_unit: float) -> float:
        """Change the unit of the price; returns the factor of the price's slopes in rows."""
        factor = self.price_unit / price_unit
        if self.priced and factor != 1.0:
            self.rows[:, -1] *= factor
            self.price_unit = price_unit
            return factor
        return 1.0

    def add(self, cuts: Cuts, w: NDArray) -> None:
        """Add one cut for every function, met at w."""
        linear = cuts.slopes @ w
        rows = cuts.slopes
        if self.priced:
            rows = rows.copy()
            rows[:, -1] /= self.price_unit
        rounding = 1e-14 * (np.abs(cuts.values) + np.abs(linear))
        n, weights = len(rows), np.zeros(len(rows))
        self.extend(rows, cuts.values - linear, np.arange(n), rounding, weights)

    def extend(
        self, rows: NDArray, offsets: NDArray, groups: NDArray, rounding: NDArray, weights: NDArray
    ) -> None:
        """Add any cuts, rows in this set's units."""
        n, used = len(rows), len(self)
        if used + n > len(self._buffer):
            grown = np.empty((2 * (used + n), self._buffer.shape[1]))
            grown[:used] = self.rows
            self._buffer = grown
        self._buffer[used : used + n] = rows
        self.offsets = np.append(self.offsets, offsets)
        self.rounding = np.append(self.rounding, rounding)
        self.groups = np.append(self.groups, groups)
        self.weights = np.append(self.weights, weights)
        self.age = np.append(self.age, np.zeros(n, dtype=np.int64))

    def combination(self, weights: NDArray) -> tuple[float, NDArray]:
        """The minorant of the risk that weights (J,) make: offset (less rounding) and slope."""
        active = np.flatnonzero(weights)
        weights = weights[active]
        slope = weights @ self.rows[active]
        if self.priced:
            slope[-1] *= self.price_unit
        return float(weights @ (self.offsets - self.rounding)[active]), slope

    def values(self, w: NDArray) -> NDArray:
        """Value of every cut at w, (J,)."""
        return self.offsets + self.rows @ self.units(w)

    def prune(self, keep_inactive: int, archive: CutArchive) -> None:
        """Move cuts that have had no weight for a while to the archive."""
        totals = np.bincount(self.groups, weights=self.weights)
        self.weights[self.weights < 1e-9 * totals[self.groups]] = 0.0
        share = np.bincount(self.groups, weights=self.weights)
        self.weights *= (totals / share)[self.groups]
        self.age = np.where(self.weights > 0, 0, self.age + 1)
        kept = self.age <= keep_inactive
        if kept.all():
            return
        gone, n = np.flatnonzero(~kept), int(np.sum(kept))
        archive.add(self.rows[gone], self.offsets[gone], self.groups[gone], self.rounding[gone])
        holes = gone[gone < n]
        fillers = n + np.flatnonzero(kept[n:])
        self._buffer[holes] = self._buffer[fillers]
        for name in WorkingSet.ARRAYS:
            array = getattr(self, name)
            array[holes] = array[fillers]
            setattr(self, name, array[:n].copy())

    def memory(self, anchor: tuple[float, NDArray]) -> CutMemory:
        """The cuts in plain coordinates, for another run; this one is over."""
        slopes = self.rows
        if self.priced:
            slopes[:, -1] *= self.price_unit
        return CutMemory(self.offsets, slopes, self.groups, self.rounding, anchor)

    def state(self) -> dict[str, NDArray]:
        """Arrays for a checkpoint."""
        return {"rows": self.rows, **{name: getattr(self, name) for name in WorkingSet.ARRAYS}}

    def restore(self, state: dict[str, NDArray]) -> None:
        """Take up :meth:`state`."""
        self._buffer = state["rows"]
        for name in WorkingSet.ARRAYS:
            setattr(self, name, state[name])


class CutArchive:
    """Dropped cuts, the oldest forgotten first; asked before any oracle is.

    Parameters
    ----------
    capacity : int
        Number of cuts.
    size : int
        Length of a row.
    """

    ARRAYS = ("rows", "offsets", "groups", "rounding", "stamps")

    def __init__(self, capacity: int, size: int) -> None:
        self.capacity, self.clock = capacity, 0
        self.rows, self.offsets, self.rounding = np.empty((0, size)), np.zeros(0), np.zeros(0)
        self.groups, self.stamps = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)

    def add(self, rows: NDArray, offsets: NDArray, groups: NDArray, rounding: NDArray) -> None:
        """Remember cuts: in new places while there is room, then in those of the oldest."""
        self.clock += 1
        room = max(0, self.capacity - len(self.offsets))
        stamps = np.full(len(rows), self.clock)
        new = (rows, offsets, groups, rounding, stamps)
        oldest = np.argsort(self.stamps, kind="stable")[: max(0, len(rows) - room)]
        for name, more in zip(CutArchive.ARRAYS, new):
            getattr(self, name)[oldest] = more[room : room + len(oldest)]
            setattr(self, name, np.concatenate([getattr(self, name), more[:room]]))

    def rescale(self, factor: float) -> None:
        """Multiply the price's slopes, see :meth:`WorkingSet.rescale`."""
        if factor != 1.0:
            self.rows[:, -1] *= factor

    def take_violated(
        self, w: NDArray, model: NDArray, masses: NDArray, least: float
    ) -> tuple[NDArray, NDArray, NDArray, NDArray] | None:
        """Remove and return the best remembered cut of every function that beats ``model`` at w.

        None if together they raise the model by less than ``least``.
        """
        if not len(self.offsets):
            return None
        values = self.offsets + self.rows @ w
        order = np.lexsort((-values, self.groups))
        _, first = np.unique(self.groups[order], return_index=True)
        best = order[first]
        excess = values[best] - model[self.groups[best]]
        chosen = best[excess > 0]
        if float(masses[self.groups[chosen]] @ excess[excess > 0]) < least:
            return None
        taken = tuple(getattr(self, name)[chosen] for name in CutArchive.ARRAYS[:4])
        left = np.ones(len(self.offsets), dtype=bool)
        left[chosen] = False
        n = int(np.sum(left))
        holes, fillers = chosen[chosen < n], n + np.flatnonzero(left[n:])
        for name in CutArchive.ARRAYS:
            array = getattr(self, name)
            array[holes] = array[fillers]
            setattr(self, name, array[:n])
        return taken  # type: ignore[return-value]

    def state(self) -> dict[str, NDArray]:
        """Arrays for a checkpoint."""
        arrays = {"archive_" + name: getattr(self, name) for name in CutArchive.ARRAYS}
        return {"clock": np.array(self.clock), **arrays}

    def restore(self, state: dict[str, NDArray]) -> None:
        """Take up :meth:`state`."""
        self.clock = int(state["clock"])
        for name in CutArchive.ARRAYS:
            setattr(self, name, state["archive_" + name])
