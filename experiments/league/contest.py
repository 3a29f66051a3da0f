"""Compare every method on every data set: ``python -m experiments.run experiment=league``.

``experiment=raw_tables`` is the same with tables of raw rows, as a device wrote them.

The configuration of each data set names its loader, the number of groups that take part, and the
number of groups that are held out for test at a time. Everything else is the same as in all
experiments: candidates are chosen by cross-validation over groups of the training data, see
:mod:`experiments.harness.choosing`.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from numpy.typing import NDArray
from omegaconf import OmegaConf
from sklearn.utils import check_random_state

from experiments.harness.cases import (
    case_of,
    check_test,
    cut,
    group_cases,
    group_folds,
    refitted,
)
from experiments.harness.committed import COMMITTED, rows_of
from experiments.harness.comparison import Comparison
from experiments.harness.procedure import Case, Method, Outcome, Scores, Story
from experiments.harness.report import Artifacts, page
from experiments.harness.results import MEASURE, OURS, Results, Row, read_results, titled
from experiments.harness.scoring import NAMES, Pairs, segmented
from experiments.league.contestants import Contestant
from experiments.league.ranks import RIVAL, is_there, paired_table, ranks_table
from experiments.league.unseen import without_parts
from experiments.studies.encoders import with_one_thread
from experiments.studies.fewer_labels import LabeledStretches, minutes_cases
from metriclearn.baselines import EqualCuts
from metriclearn.datasets import LabeledSequences, data_folder
from metriclearn.indices import covering, f_measure

_LOGGER = logging.getLogger(__name__)
F1, COVERING, PREDICT = "boundary_f1", "covering", "predict_seconds"
_OTHER_DATA = (
    "The committed results are of other test data; run the same command without contestant= to "
    "compare your method with the others on these."
)
LEAST_MARGIN, MARGIN = 5, 0.01  # rows, and share of a recording, around a boundary


class League(Comparison):
    """The experiment that compares all methods on all data sets of the league.

    A method with the option ``names`` takes part in sets whose labels name classes. If only some
    minutes are labeled, a method with the option ``partial`` learns from whole recordings with
    labels of these minutes. Other methods learn from the labeled stretches. A method that cannot be
    fitted to them answers with one segment. ``contestant`` in the configuration is a Python file
    with a class that has ``fit(X, y)`` and ``predict(X)``. If a file is given, this class is the
    only method, and the report compares it with the committed results. ``only`` names the sets that
    take part. ``refit`` names the methods that are fitted. All other rows come from the committed
    results, if the test units are the same. This includes rows of sets that do not take part. A
    method with the option ``needs`` is omitted, with the reason, if the module of this name cannot
    be imported.
    """

    backend = "processes"
    relative = False
    validates_one = False
    reads_test_root = False
    measures = titled(MEASURE, F1, COVERING, NAMES, PREDICT)

    def methods(self) -> list[Method]:
        self.missing: dict[str, str] = {}
        if self.config.contestant is not None:
            found = Contestant(self.config.contestant)
            return [Method(found.kind.__name__, found, options={"validated": False})]
        return list(filter(self._can_run, super().methods()))

    def _can_run(self, method: Method) -> bool:
        """Import the module that the method needs, so that no fit is charged with the
        compilation."""
        try:
            import_module(method.options.get("needs", "numpy"))
        except ImportError as error:
            self.missing[method.name] = str(error)
            _LOGGER.warning("%s is left out: %s", method.name, error)
        return method.name not in self.missing

    def suits(self, method: Method, case: Case) -> bool:
        classes = self.config.sets[case.table].get("names", True)
        return (classes or not method.options.get("names")) and super().suits(method, case)

    def columns(self, method: Method) -> Sequence[str]:
        return ("estimated",)

    def cases(self) -> list[Case]:
        config, found = self.config, list[Case]()
        self.unusable: dict[str, str] = {}
        for name, entry in chosen_sets(config).items():
            try:
                found += set_cases(
                    name, entry, config.n_folds, config.seed, config.test_root, config.rows
                )
            except (ValueError, OSError) as error:
                _LOGGER.warning("%s is left out: %s", name, error)
                self.unusable[name] = str(error).rstrip(".")
        if not found:
            name, reason = next(iter(self.unusable.items()))
            raise ValueError(f"No set of the league can be used; of {name}: {reason}.")
        return found

    def fit(self, estimator: Any, data: Any, method: Method) -> Any:
        if "torch" in sys.modules or method.options.get("needs") == "torch":
            with_one_thread()
        if not isinstance(data, LabeledStretches):
            return super().fit(estimator, data, method)
        try:
            part = data.whole if method.options.get("partial") else data
            return super().fit(estimator, part, method)
        except ValueError as error:
            _LOGGER.info("%s answers with one segment: %s", method.name, error)
            return super().fit(EqualCuts(n_segments=1), data, method)

    def score(self, model: Any, option: Any, column: str, case: Case) -> tuple[Any, Scores]:
        segmented(model, case.test.select([0]), column)  # compiles, which is not timed
        return super().score(model, option, column, case)

    def measured(self, model: Any, pairs: Pairs, seconds: float, column: str, case: Case) -> Scores:
        scores = super().measured(model, pairs, seconds, column, case)
        if not self.config.sets[case.table].get("names", True):  # numbers of segments are no names
            scores.pop(NAMES, None)
        scores[F1] = np.array(
            [boundary_f1(truth.change_points, found.change_points) for found, truth in pairs]
        )
        scores[COVERING] = np.array([covering(truth, found) for found, truth in pairs])
        scores[PREDICT] = np.full(len(pairs), seconds / len(pairs))
        return scores

    def table(self, name: str) -> Row:
        entry = self.config.sets[name]
        return {"title": name, "unit": f"test {entry.unit}", "note": entry.get("note", "")}

    def story(self, outcomes: list[Outcome], folder: Path) -> Story:
        """Make the report: the tables of all sets, without pictures of single recordings.

        ``paired.md`` has the paired differences from ours, and from windows with extra trees.
        """
        numbers, committed = self.numbers(outcomes), COMMITTED / f"{self.config.name}.json"
        left_out: Any = OmegaConf.to_container(self.config.left_out)
        left_out |= {f"the set {name}": reason for name, reason in self.unusable.items()}
        left_out |= self.missing
        told = {name: self.config.get(name) for name in ("n_folds", "seeds", "test_root")}
        protocol = page("league.protocol.j2", left_out=left_out, **told).strip()
        notes: list[str] = []
        if self.config.contestant is not None and committed.is_file():
            notes = (
                ranks_table(both) if (both := together(read_results(committed), numbers)) else []
            )
            print("\n".join(notes or [_OTHER_DATA]))
        names = {
            (part.name, name)
            for outcome in outcomes
            for part in (outcome.case.train, outcome.case.test)
            for name in part.names
        }
        pairs = [paired_table(numbers, name) for name in (OURS, RIVAL) if is_there(numbers, name)]
        text = "\n\n".join("\n".join(lines) for lines in pairs)
        (folder / "paired.md").write_text(f"{text}\n", encoding="utf-8")
        shown = Artifacts(notes=[" ".join(notes)] if notes else [])
        facts = {"sequences": len(names)} | self.default(outcomes)
        return Story(protocol, shown, numbers, facts)

    @property
    def few_labels(self) -> bool:  # type: ignore[override]
        return any("few" in entry for entry in chosen_sets(self.config).values())


def set_cases(
    name: str,
    entry: Mapping[str, Any],
    n_folds: int,
    seed: int,
    test_root: str | None = None,
    rows: int | None = None,
) -> list[Case]:
    """Make the cases of a data set from its entry in the configuration.

    The entry has either ``cases``, or a loader ``data`` and options that tell which groups are held
    out. ``groups`` groups take part, drawn at random, with the first ``per_group`` recordings of
    each. By default all groups and all recordings take part. ``halves`` lists seeds, each of which
    divides the groups into two halves that are held out in turn. Otherwise ``n_test`` is the number
    of groups held out at a time. By default this is a third of them, rounded up, or all but
    ``n_train`` groups if this is more. With ``rotate``, each group is held out once. If there is a
    ``test``, groups whose names begin with it are held out. ``train_per_group`` is the largest
    number of recordings of a group for training. ``unseen`` describes the names that are removed
    from training recordings, see :func:`experiments.league.unseen.without_parts`. ``few`` describes
    the amount of labels, see :func:`experiments.studies.fewer_labels.minutes_cases`.

    The recordings of a loader are cut to their first ``rows`` rows. By default all rows are used.

    With ``test_root``, a folder laid out as ``METRICLEARN_DATA``, there is one case. The test data
    are all recordings in this folder. The training data are all groups from ``METRICLEARN_DATA``
    that take part, but at most ``n_train`` and, with ``test``, none that is held out.
    """
    if "cases" in entry:
        return _assembled(name, entry, test_root)
    load = instantiate(entry["data"], _partial_=True, _convert_="all")
    data = some_of(load(), entry.get("groups"), entry.get("per_group"), seed)
    data = first_rows(data, rows)
    if "test" in entry:
        test = [group for group in sorted(set(data.groups)) if group.startswith(entry["test"])]
        rest = sorted(set(data.groups) - set(test))
        train, held_out = data.split_by_group(groups=[rest, test[: entry["n_test"]]])
        found = [case_of(entry["test"], train, held_out, group_folds(train, n_folds))]
    elif test_root is not None:
        data = some_of(data, entry.get("n_train"), None, seed)
        found = [case_of(name, data, data, group_folds(data, n_folds))]
    elif "halves" in entry:
        found = half_cases(data, entry["halves"], n_folds)
    else:
        rotate = entry.get("rotate", False)
        option = f"sets.{name}.n_test"
        n_groups = len(set(data.groups))
        most = entry.get("n_train") or n_groups
        n_test = entry.get("n_test") or max(-(-n_groups // 3), n_groups - most)
        found = group_cases(data, n_test, rotate, n_folds, seed, option)
    cases = []
    for case in found:
        if entry.get("fits_features"):
            case = refitted(case, load)
        if test_root is not None:
            case = tested_elsewhere(case, entry, test_root, rows)
        train = some_of(case.train, None, entry.get("train_per_group"), seed)
        title = f"{name}: {case.name}"
        whole = case_of(title, train, case.test, group_folds(train, n_folds), name)
        if "unseen" in entry:
            for words, known, folds in without_parts(train, entry["unseen"], n_folds, seed):
                cases.append(Case(f"{title}, {words}", known, case.test, folds, name))
        elif "few" in entry:
            cases += minutes_cases(whole, entry["few"], n_folds, seed)
        else:
            cases.append(whole)
    return cases


def _assembled(name: str, entry: Mapping[str, Any], test_root: str | None) -> list[Case]:
    """Make the cases of a data set that is assembled here."""
    if test_root is not None:
        raise ValueError(f"{name} is assembled here, so test_root={test_root} has no part of it")
    try:
        found = instantiate(entry["cases"], _convert_="all")
    except InstantiationException as error:  # Hydra's, around the error that tells the reason
        raise error.__cause__ or error from None
    return [replace(case, name=f"{name}: {case.name}", table=name) for case in found]


def chosen_sets(config: Any) -> dict[str, Any]:
    """Return the entries of the sets that take part.

    Raises
    ------
    ValueError
        If ``only`` names a set that the configuration does not have.
    """
    entries: Any = OmegaConf.to_container(config.sets, resolve=True)
    given = {name: entry for name, entry in entries.items() if entry is not None}
    only = [config.only] if isinstance(config.only, str) else list(config.only or given)
    if unknown := [name for name in only if name not in given]:
        raise ValueError(f"only={unknown} needs names of sets: {', '.join(given)}.")
    return {name: given[name] for name in only}


def half_cases(data: LabeledSequences, seeds: Sequence[int], n_folds: int) -> list[Case]:
    """Make two cases for each seed. The sorted groups are shuffled, those at even places are one
    half, and the others are the other half. Each half is held out once."""
    if len(set(data.groups)) < 2:
        raise ValueError(
            f"{data.name} has one group, which has no halves; add recordings of another group, or "
            "pass test data of their own as test_root"
        )
    cases = []
    for seed in seeds:
        order = sorted(set(data.groups))
        np.random.default_rng(seed).shuffle(order)
        for half in (0, 1):
            train, test = data.split_by_group(groups=[order[1 - half :: 2], order[half::2]])
            name = f"half {half + 1} of division {seed}"
            cases.append(case_of(name, train, test, group_folds(train, n_folds)))
    return cases


def tested_elsewhere(
    case: Case, entry: Mapping[str, Any], test_root: str, rows: int | None
) -> Case:
    """Replace the test data of a case by the recordings of its set in the folder ``test_root``."""
    load, fitted = instantiate(entry["data"], _partial_=True, _convert_="all"), {}
    if entry.get("fits_features"):
        folder = data_folder(case.train.name)
        fitted = {"fitted": case.train.names, "fitted_root": folder}
    with patch.dict(os.environ, METRICLEARN_DATA=str(test_root)):  # where loaders look
        test = first_rows(load(**fitted), rows)
    check_test(case.train, test)
    return replace(case, name=str(test_root), test=test)


def first_rows(data: LabeledSequences, rows: int | None) -> LabeledSequences:
    """Cut every recording to its first rows."""
    return cut(data, dict.fromkeys(range(len(data)), slice(rows)))


def some_of(
    data: LabeledSequences, groups: int | None, per_group: int | None, seed: int
) -> LabeledSequences:
    """Draw some groups at random, with the first recordings of each."""
    kept = check_random_state(seed).permutation(sorted(set(data.groups)))[:groups]
    of_group = pd.Series(data.groups)
    turns = of_group.groupby(of_group).cumcount()  # recordings of the group that come first
    return data.select(np.flatnonzero(of_group.isin(kept) & (turns < (per_group or len(data)))))


def boundary_f1(truth: NDArray, found: NDArray) -> float:
    """Compute the F1 of change-points. The margin is 5 rows, or 1 % of the recording if this is
    more."""
    return f_measure(truth, found, margin=max(LEAST_MARGIN, MARGIN * float(truth[-1])))


def together(committed: Results, new: Results) -> dict[str, Any]:
    """Add the rows of an external method to the committed results of the same test data. Without
    such results, return nothing."""
    mine = rows_of(new, committed, {row["method"] for row in new["rows"]})
    sets = {row["table"] for row in mine}
    if not sets:
        return {}
    tables = [table for table in committed["tables"] if table["name"] in sets]
    kept = [row for row in committed["rows"] if row["table"] in sets]
    return {**committed, "tables": tables, "rows": [*kept, *mine]}
