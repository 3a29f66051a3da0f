"""Which metric, regularizer and solver to choose: one picture from the measured experiments.

python -m experiments.figures    # draws it from docs/results and docs/benchmarks/solvers
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.harness.results import Cells, Results, results_table
from metriclearn.plots.canvas import INK, MUTED, canvas, figure_of, number

# what may hold for your data, and the choices in this case: names in the results, and titles
CHOICES = {
    "few features\nmatter": {
        "ours/diagonal-l1": "diagonal,\nL1",
        "ours/diagonal-l2": "diagonal,\nsquared",
    },
    "features\ncombine": {"ours/full": "full,\nsquared", "ours/trace": "full,\ntrace"},
    "sound, pictures:\nmany, correlated": {"ours/whitened-full": "whitened,\nfull"},
    "PCA or RCA are\nhard to beat": {
        "ours/towards-pca": "towards\nPCA",
        "ours/towards-rca": "towards\nRCA",
    },
}
# experiment and table, and a description of the data
DATA = {
    ("synthetic", "test"): "synthetic, few relevant features",
    ("hapt", "test"): "phones, activities (HAPT)",
    ("mocap6", "test"): "motion capture, exercises",
    ("beedance", "test"): "dancing bees",
    ("gesture_phase", "test"): "hands, phases of gestures",
    ("audio", "songs"): "songs, singing",
    ("audio", "meetings"): "meetings, turns",
    ("shows", "audio"): "shows, sound",
    ("shows", "video"): "shows, pictures",
}


def draw(*records: Mapping[str, Any]) -> Figure:
    """Draw the chart. ``records`` are the results of the experiments, and as the last one the
    training benchmark."""
    *experiments, training = records
    columns = [key for choices in CHOICES.values() for key in choices]
    rows = [row for results in experiments for row in _rows(results)]
    shares = np.array([[_share(cells, key) for key in columns] for _, cells in rows])
    order = np.argsort(np.nanargmin(shares, axis=1), kind="stable")  # the best descend like stairs
    message = "Loss on new recordings, % of the Euclidean metric's; bold: like the best"
    ax = canvas(None, (7.6, 1.9 + 0.44 * len(rows)), message)
    ax.imshow(shares[order], cmap="Blues_r", vmin=0.0, vmax=1.6, aspect="auto")
    for y, (name, cells) in enumerate(rows[i] for i in order):
        mine = [cells[key]["estimated"] for key in columns if key in cells]
        best = min(mine, key=lambda cell: cell.mean)
        reach = best.mean + (best.standard_error or 0.0)
        euclidean = number(cells["euclidean"]["estimated"].mean)
        ax.text(-0.6, y - 0.14, name, ha="right", va="center", size=9.5, color=INK)
        under = f"Euclidean {euclidean}"
        ax.text(-0.6, y + 0.24, under, ha="right", va="center", size=7.5, color=MUTED)
        for x, key in enumerate(columns):
            if key not in cells:
                ax.text(x, y, "–", ha="center", va="center", color=MUTED)
                continue
            share, good = shares[order][y, x], cells[key]["estimated"].mean <= reach
            style: dict[str, Any] = {
                "weight": "bold" if good else "normal",
                "size": 11.0 if good else 9.0,
            }
            color = "white" if share < 0.75 else INK
            ax.text(x, y, f"{100 * share:.0f}", ha="center", va="center", color=color, **style)
    _head(ax, columns)
    middle = len(columns) / 2 - 1.9  # between the ends of the names and of the last column
    ax.text(middle, len(rows) - 0.3, _solver(training), ha="center", va="top", size=9.5, color=INK)
    return figure_of(ax)


def _rows(results: Results) -> list[tuple[str, Cells]]:
    """Return a pair for every table of the chart: a description of its data, and its cells by
    method and column."""
    wanted = {table: words for (name, table), words in DATA.items() if name == results["name"]}
    tables = {t["name"]: t for t in reversed(results["tables"]) if t["measure"] == "partition_loss"}
    return [(words, results_table(results, tables[name])) for name, words in wanted.items()]


def _share(cells: Cells, key: str) -> float:
    """Return the loss of a method divided by the Euclidean loss, or NaN if the method was not
    tried."""
    if key not in cells:
        return np.nan
    return cells[key]["estimated"].mean / cells["euclidean"]["estimated"].mean


def _head(ax: Any, columns: list[str]) -> None:
    """Write above each column which choice it shows. Above every group of columns, write for which
    kind of data these choices are meant."""
    words = [word for choices in CHOICES.values() for word in choices.values()]
    ax.set_xticks(range(len(columns)), words, fontsize=9, color=INK)
    ax.xaxis.tick_top()
    ax.set_yticks([])
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    right = -0.5
    for question, choices in CHOICES.items():
        left, right = right, right + len(choices)
        style: dict[str, Any] = {"ha": "center", "va": "bottom", "weight": "bold", "color": INK}
        place = ((left + right) / 2, -1.3)
        ax.annotate(question, place, size=8.5, annotation_clip=False, **style)
        ax.axvline(right, color="white", lw=4)


def _solver(training: Mapping[str, Any]) -> str:
    """Return a sentence about the default solver, from the benchmark of training."""
    every = [row for table in training["tables"] for row in table["rows"]]
    rows = [row for row in every if "relative gap" in row]  # of training to a gap
    gap = max(float(row["relative gap"]) for row in rows)
    longest = max(float(re.split(" ", str(row["processor seconds"]))[0]) for row in rows)
    return (
        f"Solver: BundleDual. In all {len(rows)} problems of its benchmark it proved a gap of "
        f"{gap:.1g}\nat most, in {number(longest)} s of processor time or less. Images have CCCP."
    )
