"""Annotated copy-number profiles: label error of learned penalties and metrics, both directions.

The annotations of the source's fold 1 train what is tested on fold 2, and the other way round.
Hyper-parameters are chosen by cross-validation over profiles *inside* the training fold. Every
method is scored twice: segmenting without looking at the training annotations of the sequence, and
with them as constraints (as in Hocking & Srivastava, Labeled optimal partitioning, Computational
Statistics 38, 2023), which then also move the penalty of the sequence; how far is chosen by leaving
out one training annotation at a time in profiles held out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hydra.utils import instantiate
from numpy.typing import NDArray
from omegaconf import DictConfig
from sklearn.model_selection import GroupKFold

from experiments.procedure import (
    Case,
    Losses,
    Method,
    Outcome,
    Procedure,
    Row,
    Scores,
    Story,
    grouped,
    statistics,
)
from experiments.report import Artifacts, page
from metriclearn import PartialPartition, Partition
from metriclearn.datasets import AnnotatedProfiles
from metriclearn.estimators.penalty import (
    moved_penalty,
    path_errors,
    target_interval,
)
from metriclearn.oracles.path import SegmentationPath
from metriclearn.plots import plot_annotations

COLUMNS = {"free": "without", "constrained": "with training annotations as constraints"}


@dataclass(frozen=True)
class Profiles:
    """Some sequences, and what is known of them.

    Attributes
    ----------
    members : array of int
        Their positions in the data set.
    """

    data: AnnotatedProfiles
    known: list[PartialPartition]
    members: NDArray

    def select(self, places: NDArray) -> Profiles:
        """Some of them."""
        known = [self.known[i] for i in places]
        return Profiles(self.data.select(places), known, self.members[places])


class Neuroblastoma(Procedure):
    """The procedure: a case is a direction; a column is with or without constraints."""

    backend = "threads"
    validates_one = True

    def __init__(self, config: DictConfig) -> None:
        dataset = config.dataset
        data = instantiate(dataset.loader, _partial_=True)(dataset.root)
        lengths = np.array([len(X) for X in data.sequences])
        chosen = np.flatnonzero(lengths <= (dataset.longest or lengths.max()))
        super().__init__(config)
        self.data = data.select(chosen[: dataset.n_sequences])
        self._paths: dict[str, Sequence[SegmentationPath]] = {}

    def methods(self) -> list[Method]:
        methods = super().methods()
        for method in methods:  # paths without a learned metric are those of the representation
            for parameters in method.candidates:
                model = method.with_parameters(parameters)
                key = repr(model.representation)
                if key not in self._paths:
                    self._paths[key] = model.identity_paths(self.data.sequences)
        return methods

    def cases(self) -> list[Case]:
        """Only sequences of at most ``choose_on`` points take part in the folds."""
        longest = self.config.dataset.choose_on or np.inf
        short = np.flatnonzero([len(X) <= longest for X in self.data.sequences])
        groups = [self.data.groups[i] for i in short]
        folds = list(GroupKFold(self.config.n_folds).split(short, groups=groups))
        cases = []
        for source, target in ((1, 2), (2, 1)):
            train = Profiles(self.data, self.data.known(source), np.arange(len(self.data)))
            parts = [(train.select(short[a]), train.select(short[b])) for a, b in folds]
            test = self.data.known(target)
            cases.append(Case(f"trained on {source}, tested on {target}", train, test, parts))
        return cases

    def columns(self, method: Method) -> Sequence[str]:
        return tuple(COLUMNS)

    def fit(self, estimator: Any, data: Profiles, method: Method) -> Any:
        return estimator.fit(data.data.sequences, data.known, self._paths_of(estimator, data))

    def _paths_of(self, model: Any, data: Profiles) -> list[SegmentationPath]:
        return [self._paths[repr(model.representation)][i] for i in data.members]

    def validate(self, method: Method, model: Any, train: Any, held_out: Profiles) -> Losses:
        """Errors on profiles held out, for every weight of a sequence's own annotations."""
        logs = np.log(model.predict_penalties(held_out.data.sequences))
        if method.options["learns_metric"]:
            paths = model.paths(held_out.data.sequences)
        else:
            paths = self._paths_of(model, held_out)
        cases = list(zip(paths, logs, held_out.known))
        free = [path_errors(p, known)[p.positions(np.exp(log))] for p, log, known in cases]
        margin = model.regression.margin
        constrained = {
            weight: np.array([_left_out(*case, margin, weight) for case in cases], dtype=float)
            for weight in method.options["own_weights"]
        }
        return {"free": {0.0: np.array(free)}, "constrained": constrained}

    def score(self, model: Any, option: Any, column: str, case: Case) -> tuple[Any, Scores]:
        """False positives and negatives of every sequence, and the ends found."""
        known = case.train.known if column == "constrained" else None
        model.set_params(own_weight=option)
        ends = model.predict_change_points(self.data.sequences, known, model.paths_)
        errors = [truth.label_errors(Partition(ends=e)) for e, truth in zip(ends, case.test)]
        least = [path_errors(*pair).min() for pair in zip(model.paths_, case.test)]
        return ends, {
            ("test", "errors"): np.array(errors),
            ("test", "hindsight"): np.array(least),
        }

    def stories(self, outcomes: list[Outcome], folder: Path) -> list[Story]:
        order = list(dict.fromkeys(outcome.name for outcome in outcomes))
        outcomes.sort(key=lambda outcome: (order.index(outcome.name), outcome.case.name))
        rows = [self._row(outcome, column) for outcome in outcomes for column in COLUMNS]
        self._draw(outcomes, folder)
        tables = {
            column: grouped(mine, lambda row: row["method"])
            for column, mine in grouped(rows, lambda row: row["column"]).items()
        }
        text = page("neuroblastoma.md.j2", columns=COLUMNS, tables=tables, rows=rows)
        return [Story(rows, Artifacts(markdown=text))]

    def _row(self, outcome: Outcome, column: str) -> Row:
        case, choice = outcome.case, outcome.choices[column]
        n = sum(len(truth.regions) for truth in case.test)
        n_known = sum(len(known.regions) for _, part in case.folds for known in part.known)
        positives, negatives = outcome.scores[column]["test", "errors"].sum(axis=0).tolist()
        error = (positives + negatives) / n
        return {
            "method": outcome.name,
            "split": "test",
            "n_clusters": "estimated",
            "direction": case.name,
            "column": column,
            "false_positives": positives,
            "false_negatives": negatives,
            "n_regions": n,
            "error": error,
            "held_out_error": choice.losses.sum() / n_known,
            "hindsight": int(outcome.scores["free"]["test", "hindsight"].sum()),
            "chosen": dict(choice.parameters) | {"own_weight": choice.option},
            "seconds": outcome.seconds,
            **statistics(np.array([error]), f"label_error/{column}/{case.name}"),
        }

    def _draw(self, outcomes: Sequence[Outcome], folder: Path) -> None:
        """Sequences of the first direction where the best of ours and of the others differ most."""
        first = [outcome for outcome in outcomes if outcome.case.name.endswith("2")]
        first.sort(key=lambda outcome: not outcome.is_ours)
        parts = grouped(first, lambda outcome: outcome.is_ours).values()
        pair = [min(some, key=lambda outcome: outcome.held_out("free")) for some in parts]
        totals = [outcome.scores["free"]["test", "errors"].sum(axis=1) for outcome in pair]
        order = np.argsort(totals[-1] - totals[0], kind="stable")
        places = dict.fromkeys([order[-1], order[-2], order[0], totals[0].argmax()])
        for place, i in enumerate(places, start=1):
            figure = plot_annotations(
                self.data.sequences[i],
                {outcome.name: outcome.models["free"][i] for outcome in pair},
                pair[0].case.test[i].regions,
                ylabel="log-ratio",
            )
            figure.savefig(folder / f"{place}-profile-{self.data.names[i]}.png", dpi=160)


def _left_out(
    path: SegmentationPath, log: float, known: PartialPartition, margin: float, weight: float
) -> int:
    """Annotations contradicted when each is predicted from the penalty that the others move."""
    errors = 0
    for place, region in enumerate(known.regions):
        others = known.regions[:place] + known.regions[place + 1 :]
        rest = PartialPartition(known.n_samples, regions=others)
        interval = target_interval(path, path_errors(path, rest))
        moved = moved_penalty(log, interval, margin, weight) if weight else log
        ends = path.change_points[path.positions(np.exp(moved))]
        errors += not region.allows(ends[:-1])
    return errors
