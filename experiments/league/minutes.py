"""Run the league on a few labeled minutes of the training recordings: how few are enough?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure
from sklearn.utils import check_random_state

from experiments.harness.comparison import case_of, cut, group_folds
from experiments.harness.procedure import Case
from experiments.harness.results import MEASURE, ONE, OURS
from experiments.pages.curves import Panel, plot_curves
from metriclearn.datasets import LabeledSequences

_SHOWN = (OURS, ONE, "logistic, Viterbi", "extra trees, Viterbi", "euclidean")
_UNIT = " min"
_TRIES = 1000


def minutes_cases(case: Case, few: Mapping[str, Any], n_folds: int, seed: int) -> Iterator[Case]:
    """Yield a copy of the case for every number of minutes and every draw.

    Each copy is trained on that many minutes, drawn from the recordings for training.

    Parameters
    ----------
    case : Case
    few : mapping
        ``minutes``, a list of numbers; ``rows``, the number of rows per minute; and ``draws``, the
        number of draws.
    n_folds : int
    seed : int
    """
    for minutes in few["minutes"]:
        for draw in range(few["draws"]):
            train = drawn(case.train, minutes, few["rows"], n_folds, seed + draw)
            name = f"{case.name}, {minutes}{_UNIT}, draw {draw}"
            folds = group_folds(train, n_folds)
            shorter = case_of(name, train, case.test, folds, case.table)
            yield replace(shorter, column=f"{minutes}{_UNIT}")


def drawn(
    data: LabeledSequences, minutes: int, rows: int, n_folds: int, seed: int
) -> LabeledSequences:
    """Draw stretches of equal length, each from a different recording.

    If there are enough recordings, stretches are at most a minute long. In every fold at least one
    of the stretches to fit to must contain a boundary, so that there are two names. The draw is
    repeated until every fold has such a stretch.

    Raises
    ------
    ValueError
        If recordings are too short, or if there is no such draw among many.
    """
    random, shortest = check_random_state(seed), min(map(len, data.sequences))
    count = min(max(n_folds, minutes, -(-minutes * rows // shortest)), len(data))
    length = minutes * rows // count
    if length > shortest:
        raise ValueError(f"{data.name} has less than {minutes} minutes to draw from")
    for _ in range(_TRIES):
        chosen = sorted(random.choice(len(data), count, replace=False).tolist())
        starts = [random.randint(len(data.sequences[i]) - length + 1) for i in chosen]
        found = cut(data, {i: slice(a, a + length) for i, a in zip(chosen, starts)})
        if len(set(found.groups)) >= n_folds and all(
            any(len(ends) > 1 for ends in found.select(rest).change_points)
            for rest, _ in group_folds(found, n_folds)
        ):
            return found
    raise ValueError(f"{data.name} has no {count} stretches of {length} rows with boundaries")


def draw(results: Mapping[str, Any]) -> Figure:
    """Plot the loss on test data against labeled minutes: ours, classifiers, and the Euclidean
    metric."""
    parts = []
    for name in [table["name"] for table in results["tables"] if table["main"]]:
        rows = [r for r in results["rows"] if (r["table"], r["measure"]) == (name, MEASURE)]
        curves = {}
        for method in _SHOWN:
            mine = [row for row in rows if row["method"] == method]
            minutes = [float(row["column"].removesuffix(_UNIT)) for row in mine]
            curves[method] = minutes, [row["mean"] for row in mine], None
        parts.append(Panel(name, "labeled minutes", "‖M − N‖²", curves, log=True))
    return plot_curves(parts, "A few labeled minutes")
