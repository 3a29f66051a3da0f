"""Annotated copy-number profiles: label error of learned penalties and metrics, both directions.

The annotations of the source's fold 1 train what is tested on fold 2, and the other way round.
Hyper-parameters are chosen by cross-validation over profiles *inside* the training fold. Every
method is scored twice: segmenting without looking at the training annotations of the sequence, and
with them as constraints (as LOPART does), which then also move the penalty of the sequence; how
far is chosen by leaving out one training annotation at a time in profiles held out.
"""

from __future__ import annotations

import json
import logging
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hydra.utils import instantiate
from joblib import Parallel, delayed
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, ParameterGrid
from threadpoolctl import threadpool_limits

from metriclearn.datasets import AnnotatedProfiles
from metriclearn.estimators.penalty import (
    PenaltyLearner,
    moved_penalty,
    path_errors,
    position_at,
    target_interval,
)
from metriclearn.oracles.path import SegmentationPath
from metriclearn.plots.annotations import plot_annotations
from metriclearn.problem.knowledge import PartialPartition
from metriclearn.problem.partition import Partition

__all__ = ["run"]

_logger = logging.getLogger(__name__)
COLUMNS = {"free": "without", "constrained": "with training annotations as constraints"}
Known = list[PartialPartition]


@dataclass(frozen=True, eq=False)
class _Method:
    """An estimator, its candidates, and the paths without a learned metric, which all share."""

    name: str
    estimator: PenaltyLearner
    grid: Sequence[Mapping[str, Any]]
    own_weights: Sequence[float]
    learns_metric: bool
    paths: Sequence[Sequence[SegmentationPath]]  # by place in the grid

    def paths_of(
        self, model: PenaltyLearner, data: AnnotatedProfiles, place: int, members: NDArray
    ) -> Sequence[SegmentationPath]:
        """Paths of the sequences ``members`` under the model's metric."""
        if self.learns_metric:
            return model.paths([data.sequences[i] for i in members])
        return [self.paths[place][i] for i in members]


@dataclass
class _Outcome:
    """One method in one direction; arrays (N, 2) of false positives and negatives by column."""

    method: str
    direction: str
    errors: dict[str, NDArray] = field(default_factory=dict)
    choices: dict[str, Any] = field(default_factory=dict)
    held_out: dict[str, float] = field(default_factory=dict)
    ends: dict[str, list[NDArray]] = field(default_factory=dict)
    hindsight: int | None = None
    seconds: float = 0.0


def run(config: DictConfig, folder: Path, command: str) -> Path:
    """Both directions for every method; writes results.json, results.md and pictures.

    Returns
    -------
    path of results.md
    """
    start = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    data: AnnotatedProfiles = instantiate(config.dataset.loader, _partial_=True)(
        config.dataset.root
    )
    lengths = np.array([len(X) for X in data.sequences])
    chosen = np.flatnonzero(lengths <= (config.dataset.longest or lengths.max()))
    data = data.select(chosen[: config.dataset.n_sequences])
    with threadpool_limits(1, user_api="blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shared: dict[str, Sequence[SegmentationPath]] = {}
        entries = [entry for entry in config.methods.values() if entry is not None]
        methods = [_method(entry, data, shared) for entry in entries]
        _logger.info("%d sequences; paths of fixed metrics are known", len(data))
        jobs = [
            delayed(_direction)(method, data, train, 3 - train, config)
            for train in (1, 2)
            for method in reversed(methods)  # the costly ones stand last
        ]
        run_all = Parallel(config.n_jobs, prefer="threads", return_as="generator_unordered")
        outcomes = []
        for outcome in run_all(jobs):  # an interruption loses nothing that is done
            outcomes.append(outcome)
            _keep(outcome, data, folder / "rows.jsonl")
    names = [method.name for method in methods]
    outcomes.sort(key=lambda outcome: (names.index(outcome.method), outcome.direction))
    rows = [_row(outcome, data, column) for outcome in outcomes for column in outcome.errors]
    results = {
        "experiment": config.name,
        "rows": rows,
        "seconds": time.perf_counter() - start,
        "config": OmegaConf.to_container(config, resolve=True),
    }
    text = json.dumps(results, indent=2, default=float)
    (folder / "results.json").write_text(text + "\n", encoding="utf-8")
    page = folder / "results.md"
    page.write_text(_markdown(rows, names, results["seconds"], command), encoding="utf-8")
    _pictures(outcomes, data, folder)
    return page


def _method(
    entry: DictConfig, data: AnnotatedProfiles, shared: dict[str, Sequence[SegmentationPath]]
) -> _Method:
    """Read a configuration; paths of one representation are ``shared`` by all methods."""
    grid = list(ParameterGrid(OmegaConf.to_container(entry.grid, resolve=True)))
    estimator = instantiate(entry.estimator)
    paths = []
    for candidate in grid:
        model = clone(estimator).set_params(**candidate)
        key = repr(model.representation)
        if key not in shared:
            shared[key] = model.identity_paths(data.sequences)
        paths.append(shared[key])
    own_weights = list(entry.own_weights)
    return _Method(entry.name, estimator, grid, own_weights, entry.learns_metric, paths)


def _direction(
    method: _Method, data: AnnotatedProfiles, train: int, test: int, config: DictConfig
) -> _Outcome:
    """Choose on fold ``train``, fit again on all of it, and test on fold ``test``."""
    start = time.thread_time()
    outcome = _Outcome(method.name, f"trained on {train}, tested on {test}")
    known, truth = data.known(train), data.known(test)
    longest = config.dataset.choose_on or np.inf
    short = np.flatnonzero([len(X) <= longest for X in data.sequences])
    scores = _validate(method, data, known, short, config.n_folds)
    n_known = sum(len(known[i].regions) for i in short)
    models: dict[int, PenaltyLearner] = {}
    for column in COLUMNS:
        place, weight = min(scores[column], key=lambda key: scores[column][key])
        if place not in models:
            candidate = clone(method.estimator).set_params(**method.grid[place])
            models[place] = candidate.fit(data.sequences, known, method.paths[place])
        model = models[place].set_params(own_weight=weight)
        given = known if column == "constrained" else None
        ends = model.predict_change_points(data.sequences, given, model.paths_)
        pairs = zip(ends, truth)
        outcome.errors[column] = np.array([t.label_errors(Partition(ends=e)) for e, t in pairs])
        outcome.ends[column] = ends
        outcome.choices[column] = dict(method.grid[place]) | {"own_weight": weight}
        outcome.held_out[column] = scores[column][place, weight] / n_known
        if column == "free":
            errors = [path_errors(*pair) for pair in zip(model.paths_, truth)]
            outcome.hindsight = int(sum(own.min() for own in errors))
    outcome.seconds = time.thread_time() - start
    counts = {column: errors.sum(axis=0).tolist() for column, errors in outcome.errors.items()}
    _logger.info("%s, %s: done in %.0f s", method.name, outcome.direction, outcome.seconds)
    _logger.debug("%s", counts)
    return outcome


def _validate(
    method: _Method, data: AnnotatedProfiles, known: Known, members: NDArray, n_folds: int
) -> dict[str, dict[tuple[int, float], int]]:
    """Errors on profiles held out, by column and then (place in the grid, own weight).

    Only the sequences ``members`` take part.
    """
    scores: dict[str, dict[tuple[int, float], int]] = {column: {} for column in COLUMNS}
    groups = [data.groups[i] for i in members]
    for parts in GroupKFold(n_folds).split(members, groups=groups):
        rest, held = (members[part] for part in parts)
        inside, outside = data.select(rest), data.select(held)
        for place, parameters in enumerate(method.grid):
            model = clone(method.estimator).set_params(**parameters)
            paths = [method.paths[place][i] for i in rest]
            model.fit(inside.sequences, [known[i] for i in rest], paths)
            logs = np.log(model.predict_penalties(outside.sequences))
            found = method.paths_of(model, data, place, held)
            cases = list(zip(found, logs, [known[i] for i in held]))
            free = sum(int(path_errors(p, k)[position_at(p, z)]) for p, z, k in cases)
            scores["free"][place, 0.0] = scores["free"].get((place, 0.0), 0) + free
            for weight in method.own_weights:
                own = sum(_left_out(*case, model.regression.margin, weight) for case in cases)
                before = scores["constrained"].get((place, weight), 0)
                scores["constrained"][place, weight] = before + own
    return scores


def _left_out(
    path: SegmentationPath,
    log_penalty: float,
    known: PartialPartition,
    margin: float,
    weight: float,
) -> int:
    """Annotations contradicted when each is predicted from the penalty that the others move."""
    errors = 0
    for place, region in enumerate(known.regions):
        others = known.regions[:place] + known.regions[place + 1 :]
        rest = PartialPartition(known.n_samples, regions=others)
        interval = target_interval(path, path_errors(path, rest))
        moved = moved_penalty(log_penalty, interval, margin, weight) if weight else log_penalty
        ends = path.change_points[position_at(path, moved)]
        errors += not region.kind.allows(region.count(ends[:-1]))
    return errors


def _keep(outcome: _Outcome, data: AnnotatedProfiles, path: Path) -> None:
    """Append the rows of an outcome, one JSON object per line."""
    with path.open("a", encoding="utf-8") as file:
        for column in outcome.errors:
            file.write(json.dumps(_row(outcome, data, column), default=float) + "\n")


def _row(outcome: _Outcome, data: AnnotatedProfiles, column: str) -> dict[str, Any]:
    test = int(outcome.direction[-1])
    n = int(sum(np.sum(folds == test) for folds in data.folds))
    positives, negatives = outcome.errors[column].sum(axis=0).tolist()
    return {
        "method": outcome.method,
        "direction": outcome.direction,
        "column": column,
        "false_positives": positives,
        "false_negatives": negatives,
        "n_regions": n,
        "error": (positives + negatives) / n,
        "held_out_error": outcome.held_out[column],
        "hindsight": outcome.hindsight,
        "chosen": outcome.choices[column],
        "seconds": outcome.seconds,
    }


def _markdown(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], seconds: float, command: str
) -> str:
    """One table per column, the mean of the two directions last, and what was chosen."""
    lines = ["# Neuroblastoma: label error", ""]
    for column, words in COLUMNS.items():
        lines += [
            f"## Segmented {words}" + (" training annotations" if column == "free" else ""),
            "",
            "| method | 1 → 2: errors (FP + FN) | 2 → 1: errors (FP + FN) | mean error | "
            "held out in training | best penalty per sequence, with hindsight |",
            "|---|---:|---:|---:|---:|---:|",
        ]
        for name in names:
            mine = [r for r in rows if (r["method"], r["column"]) == (name, column)]
            mine.sort(key=lambda row: row["direction"])
            cells = [
                f"{100 * r['error']:.1f} % ({r['false_positives']} + {r['false_negatives']} "
                f"of {r['n_regions']})"
                for r in mine
            ]
            mean = np.mean([r["error"] for r in mine])
            held = np.mean([r["held_out_error"] for r in mine])
            hindsight = np.mean([r["hindsight"] / r["n_regions"] for r in mine])
            lines.append(
                f"| {name} | {' | '.join(cells)} | {100 * mean:.1f} % | {100 * held:.1f} % | "
                f"{100 * hindsight:.1f} % |"
            )
        lines.append("")
    lines += [
        "1 → 2: trained on the annotations of fold 1, tested on those of fold 2. Candidates and "
        "own weights have the least error on profiles held out of the training fold; nothing is "
        "chosen on the test fold. The hindsight figure chooses every sequence's penalty on the "
        "test fold.",
        "",
        "## Chosen",
        "",
    ]
    lines += [
        f"* {row['method']}, {row['direction']}, {COLUMNS[row['column']]}: {row['chosen']}"
        for row in rows
    ]
    lines += ["", "Produced by", "", "```sh", command, "```", "", f"Run time: {seconds:.0f} s."]
    return "\n".join(lines) + "\n"


def _pictures(outcomes: Sequence[_Outcome], data: AnnotatedProfiles, folder: Path) -> None:
    """Sequences of the first direction where the best baseline and the best of ours differ most."""
    first = [outcome for outcome in outcomes if outcome.direction.endswith("2")]
    ours = [outcome for outcome in first if outcome.method.startswith("ours")]
    pair = [
        min(some, key=lambda outcome: outcome.held_out["free"])
        for some in (ours, [outcome for outcome in first if outcome not in ours])
        if some
    ]
    totals = [outcome.errors["free"].sum(axis=1) for outcome in pair]
    difference = totals[-1] - totals[0]
    order = np.argsort(difference, kind="stable")
    for place, i in enumerate(dict.fromkeys([order[-1], order[-2], order[0], totals[0].argmax()])):
        figure = plot_annotations(
            data.sequences[i],
            {outcome.method: outcome.ends["free"][i] for outcome in pair},
            data.known(2)[i].regions,
            ylabel="log-ratio",
        )
        figure.savefig(folder / f"{place + 1}-profile-{data.names[i]}.png", dpi=160)
