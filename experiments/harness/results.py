"""The layout of ``results.json``, and the meaning of its tables.

This layout is the same for every experiment. Committed files are ``docs/results/NAME.json``:

========= ======================================================================================
name      of the experiment: ``python -m experiments.run experiment=NAME`` makes it again
protocol  sentences: what was trained on, tested on, and how hyper-parameters were chosen
headline  the sentence at the top of the report, about the row "ours"
command   the command line
default   of the league: what the default did, see :mod:`experiments.harness.committed`
tables    the tables in their order, see below
rows      one for each number of a table, see below
seconds   processor seconds of all fits together
versions  of metriclearn, Python and the packages that decide numbers
config    the configuration
========= ======================================================================================

All other fields are specific to one experiment. ``name`` and ``measure`` together identify a
*table*. A table also has ``title``, ``words`` (the measure in plain words), ``better`` ("less" or
"more"), ``columns`` (name → title), ``unit`` (the independent unit, in the singular: "test user"),
``main`` (whether the headline is about this table) and ``note``. A *row* has

============== =================================================================================
table, measure the table to which it belongs
method, column its line and its column in this table; the methods "ours/…" are our candidates;
               "ours" is the method of this name, or the candidate chosen on training data alone
mean           over the units, weighted where ``weights`` are given
standard_error of the mean over independent units, null for a single unit
units, values  names of the units, and the mean of each
weights        of the units, if they count by size (number of annotations, say)
choice         the chosen hyper-parameters, in words
held_out       the mean held-out loss that decided the choice, or null
gap            the largest certified gap of its fits: (objective − lower bound) over the objective
               without metric; null where nothing is learned or no bound is known
stopped        empty, or how many fits stopped before their tolerance, and why
seconds        of the processor, for all fits behind the row
fit_seconds    of the processor, for a fit to the training data of a case; the mean over cases
============== =================================================================================
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from omegaconf import OmegaConf

from experiments.harness.command_line import CONFIGS
from metriclearn.plots.canvas import number

Item = TypeVar("Item")
Row = dict[str, Any]
Results = Mapping[str, Any]  # the content of a results.json
Table = Mapping[str, Any]  # one of its tables
Measures = Mapping[str, tuple[str, str]]  # titles, and whether less or more is better
_MEASURES: Any = OmegaConf.to_container(OmegaConf.load(Path(CONFIGS) / "measures.yaml"))
MEASURE = "partition_loss"
OURS = "ours"
ONE = "ours/one model"  # the chosen candidate, if a method is named ours
TRIVIAL = re.compile("one (segment|region|cluster)")  # methods that ignore the data
# Fields of a row of results that no fit of this experiment stands behind.
NOT_FITTED: Row = {"choice": "", "held_out": None, "gap": None, "stopped": "", "seconds": 0.0}
COLUMNS = {"estimated": "number of segments estimated", "given": "number of segments given"}
_NUMBER, _NULLABLE = (int, float), (int, float, type(None))
_KINDS = {str: "a text", list: "a list", dict: "an object", bool: "true or false"}
_KINDS |= {_NUMBER: "a number", _NULLABLE: "a number or null"}  # type: ignore[dict-item]
_TOP = {
    **dict.fromkeys(("name", "protocol", "headline", "command"), str),
    **dict.fromkeys(("tables", "rows"), list),
    **dict.fromkeys(("versions", "config"), dict),
    "seconds": _NUMBER,
}
_TABLE = {
    **dict.fromkeys(("name", "measure", "title", "words", "better", "unit", "note"), str),
    "columns": dict,
    "main": bool,
}
_ROW = {
    **dict.fromkeys(("table", "measure", "method", "column", "choice", "stopped"), str),
    **dict.fromkeys(("units", "values"), list),
    **dict.fromkeys(("mean", "seconds"), _NUMBER),
    **dict.fromkeys(("standard_error", "held_out", "gap"), _NULLABLE),
}


@dataclass(frozen=True)
class Cell:
    """One number of a table. ``tied`` means that the number is within one standard error of the
    best number of its column."""

    mean: float
    standard_error: float | None
    best: bool
    tied: bool
    stopped: bool = False

    def mark(self, text: str) -> str:
        """Return the cell in Markdown: bold if it is the best, † if tied, ‡ for an unfinished
        fit."""
        return (f"**{text}**" if self.best else text) + (f" {self.signs}" if self.signs else "")

    @property
    def signs(self) -> str:
        """The signs † and ‡ of a cell, if they apply."""
        return "†" * self.tied + "‡" * self.stopped

    def __str__(self) -> str:
        error = self.standard_error
        if error is None:
            return number(self.mean)
        if error <= 1e-12 * abs(self.mean):  # rounding
            error = 0.0
        if not 1e-4 <= error < 1e5:
            return f"{number(self.mean)} ± {number(error)}"
        digits = max(0, 1 - math.floor(math.log10(error)))
        return f"{self.mean:.{digits}f} ± {error:.{digits}f}"


Cells = dict[str, dict[str, Cell]]  # of a table, by method and column


def titled(*names: str) -> Measures:
    """Return the titles of measures, and whether less or more of them is better."""
    return {name: tuple(_MEASURES[name]) for name in names}


def read_results(path: str | Path) -> dict[str, Any]:
    """Read a ``results.json``, and check its layout.

    Raises
    ------
    ValueError
        If the file is not JSON, or a field is missing or wrong. The message names the field.
    """
    try:
        results = json.loads(Path(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"read_results needs JSON text in {path}, got: {error}.") from error
    _check_fields(results, _TOP, str(path))
    columns: dict[tuple[str, str], Any] = {}
    for place, table in enumerate(results["tables"]):
        _check_fields(table, _TABLE, f"{path}, tables[{place}],")
        columns[table["name"], table["measure"]] = table["columns"]
    seen = set()
    for place, row in enumerate(results["rows"]):
        where = f"{path}, rows[{place}],"
        _check_row(row, where)
        key = (row["table"], row["measure"], row["method"], row["column"])
        if row["column"] not in columns.get(key[:2], ()):
            raise ValueError(f"{where} needs a table with its column, got {key}.")
        if key in seen:
            raise ValueError(f"{path} needs one row per method and column, got {key} twice.")
        seen.add(key)
    if not seen:
        raise ValueError(f"{path} needs at least one row of results, got none.")
    return results


def _check_fields(holder: Any, kinds: Mapping[str, Any], where: str) -> None:
    if not isinstance(holder, dict):
        raise ValueError(f"{where} needs an object with {', '.join(kinds)}, got {holder!r:.60}.")
    for key, kind in kinds.items():
        if key not in holder or not isinstance(holder[key], kind):
            got = f"{holder[key]!r:.60}" if key in holder else "nothing"
            raise ValueError(f"{where} needs {key!r} as {_KINDS[kind]}, got {got}.")


def _check_row(row: Any, where: str) -> None:
    _check_fields(row, _ROW, where)
    mean, error, values = row["mean"], row["standard_error"], row["values"]
    numbers = [mean, error or 0, row["gap"] or 0, row["seconds"], *values]
    if not values or not all(isinstance(v, _NUMBER) and math.isfinite(v) for v in numbers):
        raise ValueError(
            f"{where} needs finite numbers in mean, standard_error, gap, seconds and one or more "
            f"values, got {numbers!r:.100}."
        )
    slack = 1e-9 + 1e-6 * abs(mean)
    if (error or 0) < 0 or not min(values) - slack <= mean <= max(values) + slack:
        raise ValueError(
            f"{where} needs a mean within its values and a standard error of zero or more, got "
            f"{mean} ± {error} of values from {min(values)} to {max(values)}."
        )
    if len(row["units"]) != len(values):
        raise ValueError(
            f"{where} needs one unit for each value, got {len(row['units'])} and {len(values)}."
        )


def rows_of(results: Results, table: Table, column: str | None = None) -> list[Row]:
    """Return the rows that belong to one of the tables, or to one of its columns."""
    key = table["name"], table["measure"]
    rows = [row for row in results["rows"] if (row["table"], row["measure"]) == key]
    return rows if column is None else [row for row in rows if row["column"] == column]


def results_table(results: Results, table: Table | None = None) -> Cells:
    """Return the cells of a table by method and column. The default is the first table.

    The method "ours" comes first, then its candidates "ours/…", then all others. Candidates and
    others are ordered from best to worst. A method without a result in a column has no cell there.
    """
    table = results["tables"][0] if table is None else table
    cells: Cells = {}
    for column in table["columns"]:
        members = rows_of(results, table, column)
        for row, cell in zip(members, compared(members, table["better"])):
            cells.setdefault(row["method"], {})[column] = cell
    sign = -1 if table["better"] == "more" else 1

    def place(item: tuple[str, dict[str, Cell]]) -> list[float]:
        method, mine = item
        means = [sign * mine[c].mean if c in mine else math.inf for c in table["columns"]]
        return [method != OURS, not is_ours(method), *means]

    return dict(sorted(cells.items(), key=place))


def is_ours(method: str) -> bool:
    """Return whether the metric of a method is learned by this package."""
    return method == OURS or method.startswith(f"{OURS}/")


def compared(rows: Sequence[Mapping[str, Any]], better: str = "less") -> list[Cell]:
    """Compare the rows of a column, and return a cell for each."""
    sign = -1 if better == "more" else 1
    best = min(rows, key=lambda row: sign * row["mean"], default=None)
    cells = []
    for row in rows:
        excess = sign * (row["mean"] - best["mean"])  # type: ignore[index]
        equal = excess <= 1e-12  # numbers that are the same but for rounding
        tied = not equal and excess <= (best["standard_error"] or 0)  # type: ignore[index]
        stopped = bool(row["stopped"])
        cells.append(Cell(row["mean"], row["standard_error"], equal, tied, stopped))
    return cells


def standard_error(
    values: NDArray, weights: NDArray | None = None, overlap: float = 0.0
) -> float | None:
    """Compute the standard error of a mean over independent units. Returns None for a single unit.

    Weighted means are ratios of sums, so their error is computed from weighted residuals (to first
    order). The error is larger if units share training samples, see
    :func:`experiments.harness.choosing.choose`.
    """
    n = len(values)
    if n < 2:
        return None
    w = np.ones(n) if weights is None else weights / weights.mean()
    residuals = w * (values - np.average(values, weights=w))
    return float(residuals.std(ddof=1) * np.sqrt(1 / n + overlap))


def statistics(
    values: NDArray, units: Sequence[str], weights: NDArray | None = None, overlap: float = 0.0
) -> Row:
    """Compute the numbers of a row of the results: the mean of every unit, the mean over the units,
    and its standard error."""
    names = list(dict.fromkeys(units))
    place = np.array([names.index(unit) for unit in units])
    counts = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=float)
    sizes = np.bincount(place, counts)
    some = np.flatnonzero(sizes)  # units with weight 0 do not count
    means = np.bincount(place, counts * values)[some] / sizes[some]
    by_size = None if weights is None else sizes[some]
    row = {
        "mean": float(np.average(means, weights=by_size)),
        "standard_error": standard_error(means, by_size, overlap),
        "units": [names[i] for i in some],
        "values": means.tolist(),
    }
    return row if by_size is None else row | {"weights": by_size.tolist()}


def curve_of(rows: Sequence[Row], method: str, unit: str = " % labeled") -> NDArray:
    """Return the curve of a method, (3, columns): the numbers with which the names of the columns
    begin, before ``unit``, and at each of them the mean and its standard error."""
    mine = [row for row in rows if row["method"] == method]
    parts = [float(row["column"].removesuffix(unit)) for row in mine]
    errors = [row["standard_error"] or 0.0 for row in mine]
    return np.array([parts, [row["mean"] for row in mine], errors])


def grouped(items: Iterable[Item], key: Callable[[Item], Any]) -> dict[Any, list[Item]]:
    """Group items by their key, in the order of first appearance."""
    groups: dict[Any, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
