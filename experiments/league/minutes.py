"""How much labeling is needed: the league on a few labeled minutes of the training recordings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from sklearn.utils import check_random_state

from experiments.harness.comparison import case_of, group_folds
from experiments.harness.procedure import Case
from metriclearn.datasets import LabeledSequences

_UNIT = " min"
_TRIES = 1000


def minutes_cases(case: Case, few: Mapping[str, Any], n_folds: int, seed: int) -> Iterator[Case]:
    """The case with only some minutes of its training recordings.

    Parameters
    ----------
    case : Case
    few : mapping
        ``minutes``, a list of numbers, ``rows`` in a minute, and how often minutes are drawn.
    n_folds : int
    seed : int
    """
    for minutes in few["minutes"]:
        for draw in range(few["draws"]):
            train = drawn(case.train, minutes, few["rows"], n_folds, seed + draw)
            name = f"{case.table}: {minutes}{_UNIT}, draw {draw}"
            folds = group_folds(train, n_folds)
            shorter = case_of(name, train, case.test, folds, case.table)
            yield replace(shorter, column=f"{minutes}{_UNIT}")


def drawn(
    data: LabeledSequences, minutes: int, rows: int, n_folds: int, seed: int
) -> LabeledSequences:
    """Stretches of equal length, of a minute at most if recordings suffice, each of another one.

    They are drawn anew until a boundary, and so two names, is outside each fold.

    Raises
    ------
    ValueError
        If recordings are too short, or none of many draws has these boundaries.
    """
    random, shortest = check_random_state(seed), min(map(len, data.sequences))
    count = min(max(n_folds, minutes, -(-minutes * rows // shortest)), len(data))
    length = minutes * rows // count
    if length > shortest:
        raise ValueError(f"{data.name} has less than {minutes} minutes to draw from")
    for _ in range(_TRIES):
        chosen = sorted(random.choice(len(data), count, replace=False).tolist())
        starts = [random.randint(len(data.sequences[i]) - length + 1) for i in chosen]
        spans = [slice(start, start + length) for start in starts]
        found = replace(
            data.select(chosen),
            sequences=[data.sequences[i][span] for i, span in zip(chosen, spans)],
            labels=[data.labels[i][span] for i, span in zip(chosen, spans)],
        )
        if len(set(found.groups)) >= n_folds and all(
            any(len(ends) > 1 for ends in found.select(rest).change_points)
            for rest, _ in group_folds(found, n_folds)
        ):
            return found
    raise ValueError(f"{data.name} has no {count} stretches of {length} rows with boundaries")
