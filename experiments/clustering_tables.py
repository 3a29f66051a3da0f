"""Results of the clustering experiment as rows and as Markdown tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.comparison import statistics

__all__ = ["Result", "as_rows", "markdown_tables", "summary_rows"]

_TITLES = {
    "A": "A: train = test, one metric, mean ± s.d. over K-means seeds",
    "B": "B: learned on one half, the other half clustered, mean ± s.d. over splits",
    "C": "C: learned on half of the classes, the others clustered, mean ± s.d. over splits",
}


@dataclass(frozen=True)
class Result:
    """What one method did in one case: a loss and an adjusted Rand index per K-means seed.

    ``seconds`` is processor time of the last fit, without what choosing took.
    """

    method: str
    protocol: str
    table: str
    repetition: int
    losses: list[float]
    rand: list[float]
    seconds: float
    choice: str
    model: Any

    @property
    def case(self) -> tuple[str, str, int]:
        """Protocol, table and repetition."""
        return self.protocol, self.table, self.repetition

    def __str__(self) -> str:
        where = f"{self.protocol} {self.table} {self.repetition}"
        return f"{where} {self.method}: ‖M−N‖² {np.mean(self.losses):.3f} {self.choice}"


def _pooled(results: Sequence[Result], method: str, row: tuple[str, str]) -> list[Result]:
    return [r for r in results if r.method == method and (r.protocol, r.table) == row]


def _values(own: Sequence[Result], measure: str) -> NDArray:
    pick: dict[str, Callable[[Result], list[float]]] = {
        "partition_loss": lambda r: r.losses,
        "adjusted_rand": lambda r: r.rand,
        "seconds": lambda r: [r.seconds],
    }
    return np.concatenate([pick[measure](r) for r in own])


def _methods(results: Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(r.method for r in results))


def _rows_of(results: Sequence[Result]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((r.protocol, r.table) for r in results))


def summary_rows(results: Sequence[Result]) -> list[dict[str, Any]]:
    """One row per method: the mean losses of all protocols and tables."""
    rows = []
    for method in _methods(results):
        means = [
            _values(_pooled(results, method, row), "partition_loss").mean()
            for row in _rows_of(results)
        ]
        seconds = sum(r.seconds for r in results if r.method == method)
        head = {"method": method, "split": "test", "n_clusters": "given"}
        rows.append(head | statistics(np.array(means)) | {"seconds": seconds})
    return rows


def as_rows(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Rows of results.json: every method, protocol, table and measure, with all values and s.d."""
    rows = []
    for protocol, table in _rows_of(results):
        for method in _methods(results):
            own = _pooled(results, method, (protocol, table))
            for measure in ("partition_loss", "adjusted_rand", "seconds"):
                values = _values(own, measure)
                row = {
                    "method": method,
                    "split": "train" if protocol == "A" else "test",
                    "n_clusters": "given",
                    "protocol": protocol,
                    "table": table,
                    "standard_deviation": float(values.std(ddof=1)) if len(values) > 1 else 0.0,
                    "choices": [r.choice for r in own if r.choice],
                }
                rows.append(row | statistics(values, f"{measure}/{protocol}/{table}"))
    return rows


def markdown_tables(results: Sequence[Result]) -> str:
    """For every protocol: losses, adjusted Rand indices and seconds of all methods and tables."""
    parts = ["# clustering", ""]
    for protocol in dict.fromkeys(r.protocol for r in results):
        rows = [row for row in _rows_of(results) if row[0] == protocol]
        parts += [f"## {_TITLES[protocol]}", ""]
        for measure, words in (
            ("partition_loss", "‖M−N‖²; bold: the least; †: within one standard error of it"),
            ("adjusted_rand", "Adjusted Rand index"),
            ("seconds", "Processor seconds to fit, once the hyper-parameters are chosen"),
        ):
            parts += [f"{words}.", "", *_table(results, rows, measure), ""]
    return "\n".join(parts)


def _table(results: Sequence[Result], rows: list[tuple[str, str]], measure: str) -> list[str]:
    lines = [f"| method | {' | '.join(table for _, table in rows)} |"]
    lines += ["|---|" + "---:|" * len(rows)]
    for method in _methods(results):
        cells = [_cell(results, method, row, measure) for row in rows]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return lines


def _cell(results: Sequence[Result], method: str, row: tuple[str, str], measure: str) -> str:
    values = _values(_pooled(results, method, row), measure)
    deviation = values.std(ddof=1) if len(values) > 1 else 0.0
    if measure == "seconds":
        return f"{values.mean():.2g}"
    text = f"{values.mean():.3f} ± {deviation:.3f}"
    if measure != "partition_loss":
        return text
    everyone = [_values(_pooled(results, other, row), measure) for other in _methods(results)]
    best = min(everyone, key=lambda v: float(v.mean()))
    error = best.std(ddof=1) / np.sqrt(len(best)) if len(best) > 1 else 0.0
    if values.mean() <= best.mean() + 1e-12:
        return f"**{text}**"
    return f"{text} †" if values.mean() <= best.mean() + error else text
