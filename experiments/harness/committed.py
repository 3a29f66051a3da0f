"""Committed results: the rows that a run with ``refit=[…]`` keeps, and whether they are older."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness.command_line import CONFIGS
from experiments.harness.results import MEASURE, ONE, OURS, Results, Row, read_results
from metriclearn import Segmenter
from metriclearn.datasets import load_example, make_change_points

COMMITTED = Path(CONFIGS).parent / "docs" / "results"
_SAME = "n_folds", "seed", "min_size", "dataset", "tiny"  # settings of all rows of a table
KEY = "default"  # field of results.json
TRIVIAL_LOSSES = "one_segment"  # field of a table: the loss of a single segment on every unit
FEW = "few labels"  # the data set that concerns only experiments with few labels
SIGNAL = "one signal"  # the data set that concerns only experiments with few columns
_LOGGER = logging.getLogger(__name__)
_TOLERANCE = 0.02  # rounding differs between machines, and with it some boundary


def kept_methods(config: Any, entries: str) -> list[str]:
    """Return the names of the methods that are not fitted again.

    Raises
    ------
    ValueError
        If ``refit`` names a method that the configuration does not have, or if the settings differ
        from the settings of the committed results.
    """
    named = {key: one for key, one in config[entries].items() if one}
    again = asked_for(config) or list(named)
    if unknown := sorted(set(again) - set(named)):
        raise ValueError(f"refit={unknown} needs names of methods: {', '.join(named)}; correct it.")
    if asked_for(config):
        committed(config)
    return [one.name for key, one in named.items() if key not in again]


def asked_for(config: Any) -> list[str]:
    """Return the names of the methods that are to be fitted; none means all."""
    names = config.get("refit") or []
    return [names] if isinstance(names, str) else list(names)


def committed(config: Any) -> dict[str, Any]:
    """Read the committed results. They must have the folds, seeds and data of this run."""
    before = read_results(COMMITTED / f"{config.name}.json")
    if other := [key for key in _SAME if before["config"].get(key) != config.get(key)]:
        raise ValueError(
            f"refit= needs the settings of the committed results, got other values of "
            f"{', '.join(other)}; leave them as they are, or fit all methods."
        )
    return before


def with_kept(config: Any, entries: str, results: dict[str, Any]) -> dict[str, Any]:
    """Add the rows that are kept to the results of a run with ``refit``.

    Rows that are chosen among all methods are kept, too, as this run has only some of them.
    """
    if not (again := asked_for(config)):
        return results
    before, kept = committed(config), kept_methods(config, entries)
    fitted = [one.name for key, one in config[entries].items() if one and key in again]
    derived = [name for name in (OURS, ONE) if name not in fitted]
    run = units_of(results)
    merged = renewed(before, results, [*kept, *derived])
    others = [name for name in units_of(merged) if name not in run]
    there = {row["method"] for row in merged["rows"]}
    had, has = (
        {row["table"] for row in one["rows"] if row["method"] in kept} for one in (before, merged)
    )
    if lost := [name for name in run if name in had - has]:
        _LOGGER.warning(
            "Committed rows of %s are not kept, as they are of other test data; fit all methods.",
            ", ".join(lost),
        )
    told = [f"the rows of {', '.join(n for n in kept if n in there)}"] if there & {*kept} else []
    told += [f"all rows of {', '.join(others)}"] if others else []
    sentence = f"Of an earlier run with the same data, groups and folds: {' and '.join(told)}."
    merged["protocol"] = f"{results['protocol']} {sentence}" if told else results["protocol"]
    if others and "sequences" in before:
        is_new = run.keys().isdisjoint(units_of(before))
        merged["sequences"] = before["sequences"] + (results["sequences"] if is_new else 0)
    if others or OURS not in fitted:  # our rows are as old as before
        now = merged.pop(KEY, {})
        new = now if OURS in fitted else {}  # kinds of data that the earlier run did not have
        merged |= {KEY: new | before[KEY]} if KEY in before else {}
    return merged


def rows_of(source: Results, target: Results, methods: Collection[str]) -> list[Row]:
    """Return the rows of some methods, if they have the same test units as other results, and if
    these units have the same true segments."""
    units = units_of(target)
    same = {name for name in units if _same_truth(source, target, name)}
    alike = {
        (row["table"], row["method"])
        for row in source["rows"]
        if row["measure"] == MEASURE
        and row["table"] in same
        and units[row["table"]] == row["units"]
    }  # names of a unit may be missing
    rows = [row for row in source["rows"] if row["method"] in methods]
    return [row for row in rows if (row["table"], row["method"]) in alike]


def _same_truth(a: Results, b: Results, table: str) -> bool:
    """Return whether a single segment has the same loss on every unit, as far as this is known."""
    one, other = _trivial_losses(a, table), _trivial_losses(b, table)
    shared = one.keys() & other.keys()
    return all(np.isclose(one[unit], other[unit]) for unit in shared)


def _trivial_losses(results: Results, table: str) -> dict[str, float]:
    """Return the loss of a single segment on every unit of a table."""
    for one in results["tables"]:
        if one["name"] == table and TRIVIAL_LOSSES in one:
            return one[TRIVIAL_LOSSES]
    for row in results["rows"]:
        kind = row["table"], row["measure"], row["method"]
        if kind == (table, MEASURE, "one segment"):
            return dict(zip(row["units"], row["values"]))
    return {}


def renewed(before: Results, new: Results, keep: Collection[str]) -> dict[str, Any]:
    """Add earlier rows of the methods ``keep`` to new rows with the same test units. Tables without
    new rows keep their rows if the common tables have the same test units as before."""
    rows = [row for row in new["rows"] if row["method"] not in keep]
    rows += rows_of(before, new, keep)
    units, earlier = units_of(new), units_of(before)
    if all(earlier.get(table, names) == names for table, names in units.items()):
        rows += [row for row in before["rows"] if row["table"] not in units]
    used = {(row["table"], row["measure"], row["column"]) for row in rows}
    tables: dict[Any, Any] = {}
    for one in [*before["tables"], *new["tables"]]:
        key = one["name"], one["measure"]
        columns = {**tables.get(key, {"columns": {}})["columns"], **one["columns"]}
        there = {name: facts for name, facts in columns.items() if (*key, name) in used}
        tables[key] = {**one, "columns": there}
    shown = [one for one in tables.values() if one["columns"]]
    order = [one["name"] for one in shown]
    rows.sort(key=lambda row: order.index(row["table"]))
    return {**new, "tables": shown, "rows": rows}


def units_of(results: Results) -> dict[str, list[str]]:
    """Return the test units of each table."""
    return {row["table"]: row["units"] for row in results["rows"] if row["measure"] == MEASURE}


@cache
def default_losses() -> dict[str, float]:
    """Compute the mean loss ‖M − N‖² of ``Segmenter()`` on recordings left out of small data sets.

    The data sets have names, boundaries only, so many rows that not all are used, a single signal
    whose rhythm changes, and few labels. All but the signal have more than three columns.
    """
    exercise, bees = load_example("exercise"), load_example("bees")
    long = make_change_points(3, 3500, 4, 1, (8, 12), random_state=0)
    kinds = [np.repeat(np.roll([0, 1, 2, 1, 0, 2], i), 240) for i in range(4)]
    noise = 0.8 * np.random.default_rng(0).normal(size=(4, 1440, 1))
    periods = [np.array([20, 10, 5])[one] for one in kinds]
    waves = [np.sin(np.cumsum(2 * np.pi / p))[:, None] + e for p, e in zip(periods, noise)]
    known = [np.arange(len(y)) < len(y) // 2 for y in exercise.labels]
    few = [np.where(half, y.astype(object), -1) for half, y in zip(known, exercise.labels)]
    cases: dict[str, tuple[Any, Any, bool | None]] = {
        "names": (exercise.sequences, exercise.labels, None),
        "boundaries": (bees.sequences, bees.labels, False),
        "many rows": (long.sequences, long.labels, False),
        SIGNAL: (waves, kinds, False),
        FEW: (exercise.sequences, few, None),
    }
    losses = {}
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        for name, (X, y, names) in cases.items():
            found = Segmenter(names=names, verbose=False).fit(X, y).validation_
            assert found is not None
            losses[name] = found.loss
    return losses


def is_older(results: Results) -> bool:
    """Return whether results were made by a default that has changed since."""
    then, now = results.get(KEY), default_losses()
    if not isinstance(then, Mapping) or not then or not then.keys() <= now.keys():
        return True
    return any(abs(then[name] - now[name]) > _TOLERANCE * max(now[name], 0.1) for name in then)
