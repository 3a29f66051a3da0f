"""Annotated copy-number profiles: label error of learned penalties and metrics, both directions.

Methods are trained on the annotations of the source's fold 1 and tested on fold 2, and vice versa.
Hyper-parameters are chosen by cross-validation over profiles *inside* the training fold. Also,
every profile is tested by models trained on all other profiles, without any choice.
In the first setting every method is scored twice: without the training annotations of the sequence,
and with them as constraints (as in Hocking & Srivastava, Labeled optimal partitioning,
Computational Statistics 38, 2023). The annotations then also move the penalty of the sequence; how
far is chosen by leaving out one training annotation at a time in held-out profiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from hydra.utils import instantiate
from numpy.typing import NDArray
from omegaconf import DictConfig
from sklearn.base import clone
from sklearn.model_selection import GroupKFold

from experiments.harness.comparison import refuse_seen
from experiments.harness.procedure import (
    Case,
    Losses,
    Method,
    Outcome,
    Procedure,
    Row,
    Scores,
    Story,
    grouped,
    tables_and_rows,
)
from experiments.harness.report import Artifacts
from experiments.harness.results import OURS
from metriclearn import PartialPartition, Partition
from metriclearn.datasets import AnnotatedProfiles
from metriclearn.estimators.penalties.interval_regression import (
    moved_penalty,
    path_errors,
    target_interval,
)
from metriclearn.oracles.segmentation_path import SegmentationPath
from metriclearn.plots import plot_annotations

COLUMNS = {
    "free": "segmented without training annotations",
    "constrained": "segmented with training annotations as constraints",
}
_TITLES = COLUMNS | {
    "profiles": "profiles that were not trained on",
    "curves": "a factor on all penalties",
}
_LENGTHS = {"T ≤ 500": (0, 500), "500 < T ≤ 2500": (500, 2500), "T > 2500": (2500, np.inf)}
_EVERY = "all lengths"
_PROTOCOL = (
    "The annotations of one fold train what is tested on those of the other, both ways. "
    "Candidates, and how far the annotations of a sequence move its penalty, have the least error "
    "on profiles held out of the training fold; no choice uses the test fold. Profiles that "
    "were not trained on: {parts} parts of the profiles, each tested after training on all "
    "annotations of the others, with the first candidate of every method."
)
_UNSEEN = (
    "All annotations of {} train what is tested on those of {}. Candidates have the least error on "
    "profiles held out of the training data; no choice uses the test data."
)


@dataclass(frozen=True)
class Profiles:
    """Some sequences, and their annotations.

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

    @property
    def counts(self) -> NDArray[np.float64]:
        """The numbers of annotations of all sequences."""
        return np.array([len(known.regions) for known in self.known], dtype=float)


@dataclass(frozen=True)
class Segmentations:
    """Change-points of all test sequences.

    ``curves`` has, for every sequence, the logarithms of the penalties at which its segmentation
    changes, minus the logarithm of its penalty, and the false positives and negatives of each
    segmentation.
    """

    ends: list[NDArray]
    curves: list[tuple[NDArray, NDArray]]


def _rates(errors: NDArray, data: Profiles) -> NDArray:
    """Errors in percent of a sequence's annotations; zero without any, which then weigh nothing."""
    return 100 * errors / np.maximum(data.counts, 1)


class Neuroblastoma(Procedure):
    """The procedure: a case is a direction; a table is with or without constraints."""

    backend = "threads"
    validates_one = True
    reads_test_root = True
    measures: Mapping[str, tuple[str, str]] = {
        "label_error": ("label error in %", "less"),
        "false_positives": ("false positives in %", "less"),
        "false_negatives": ("false negatives in %", "less"),
        "hindsight": (
            "label error in % at the best penalty of every sequence, in hindsight",
            "less",
        ),
    }
    titles: Mapping[str, str] = {}

    def __init__(self, config: DictConfig) -> None:
        super().__init__(config)
        self.data = self._read(config.dataset.root)
        self._paths: dict[str, Sequence[SegmentationPath]] = {}

    def _read(self, root: str | None) -> AnnotatedProfiles:
        """Read the sequences of a folder, without those that are too long."""
        dataset = self.config.dataset
        data = instantiate(dataset.loader, _partial_=True)(root)
        lengths = np.array([len(X) for X in data.sequences])
        chosen = np.flatnonzero(lengths <= (dataset.longest or lengths.max()))
        return data.select(chosen[: dataset.n_sequences])

    def methods(self) -> list[Method]:
        methods = super().methods()
        for method in methods:  # paths without a learned metric depend on the representation only
            for parameters in method.candidates:
                model = method.with_parameters(parameters)
                key = self._kind(model)
                if key not in self._paths:
                    self._paths[key] = model.identity_paths(self.data.sequences)
        return methods

    def cases(self) -> list[Case]:
        """Only sequences of at most ``choose_on`` points take part in the folds."""
        longest = self.config.dataset.choose_on or np.inf
        short = np.flatnonzero([len(X) <= longest for X in self.data.sequences])
        groups = [self.data.groups[i] for i in short]
        folds = list(GroupKFold(self.config.n_folds).split(short, groups=groups))
        everything = np.arange(len(self.data))
        cases = []
        for source, target in ((1, 2), (2, 1)) if self._unseen is None else ((None, None),):
            train = Profiles(self.data, self.data.known(source), everything)
            parts = [(train.select(short[a]), train.select(short[b])) for a, b in folds]
            test = Profiles(self.data, self.data.known(target), everything)
            name = f"trained on fold {source}, tested on fold {target}"
            if self._unseen is not None:
                data, name = self._read(self._unseen), "tested on unseen profiles"
                refuse_seen(self.data, data)
                test = Profiles(data, data.known(), np.arange(len(data)))
            cases.append(Case(name, train, test, parts, column=name))
        return [*self._held_out(everything), *cases] if self._unseen is None else cases

    def _held_out(self, everything: NDArray) -> list[Case]:
        """Every profile is tested by models of the others, without choices."""
        profiles = Profiles(self.data, self.data.known(), everything)
        parts = GroupKFold(self.config.n_parts, shuffle=True, random_state=self.config.seed)
        return [
            Case(f"part {i}", profiles.select(a), profiles.select(b), (), "profiles", _EVERY)
            for i, (a, b) in enumerate(parts.split(everything, groups=self.data.groups))
        ]

    @property
    def _unseen(self) -> str | None:
        """The folder of test profiles, if they are not the training profiles."""
        return self.config.dataset.test_root

    def columns(self, method: Method) -> Sequence[str]:
        """Sequences that are unseen have no annotations to constrain them."""
        columns = method.options.get("columns", COLUMNS)
        return [name for name in columns if name == "free" or self._unseen is None]

    def units(self, data: Profiles) -> Sequence[str]:
        return data.data.groups

    def weights(self, data: Profiles) -> NDArray:
        return data.counts

    def place(self, outcome: Outcome, column: str) -> tuple[str, str]:
        return "profiles" if outcome.case.table == "profiles" else column, outcome.case.column

    def table(self, name: str) -> Row:
        note = "A profile counts by the number of its annotations, and each annotation once."
        return {"title": _TITLES[name], "unit": "profile", "note": note}

    def fit(self, estimator: Any, data: Profiles, method: Method) -> Any:
        return estimator.fit(data.data.sequences, data.known, self._paths_of(estimator, data))

    def _paths_of(self, model: Any, data: Profiles) -> list[SegmentationPath]:
        return [self._paths[self._kind(model)][i] for i in data.members]

    @staticmethod
    def _kind(model: Any) -> str:
        """What decides the paths before a metric is learned."""
        return f"{model.representation!r}, {model.min_size}"

    def validate(self, method: Method, model: Any, train: Any, held_out: Profiles) -> Losses:
        """Errors on profiles held out, for every weight of a sequence's own annotations."""
        logs = np.log(model.predict_penalties(held_out.data.sequences))
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
        """Label errors of every sequence, and the ends found."""
        test: Profiles = case.test
        known = case.train.known if column == "constrained" and len(case.folds) else None
        model.set_params(own_weight=option or 0.0)
        if test.data is self.data:
            paths = model.paths_
        elif self._unseen is None:
            paths = self._paths_of(model, test)
        else:
            paths = clone(model).identity_paths(test.data.sequences)
        ends = model.predict_change_points(test.data.sequences, known, paths)
        errors = _errors(ends, test.known)
        logs = np.log(model.predict_penalties(test.data.sequences))
        curves = [
            (
                np.log(np.maximum(path.penalties[1:, 1], 1e-300)) - log,
                _errors(path.change_points, [known] * len(path)),
            )
            for path, log, known in zip(paths, logs, test.known)
        ]
        least = np.array([counts.sum(axis=1).min() for _, counts in curves])
        counts = [errors.sum(axis=1), *errors.T, least]
        rates = {name: _rates(count, test) for name, count in zip(self.measures, counts)}
        return Segmentations(ends, curves), rates

    def words(self, outcome: Outcome, column: str) -> str:
        choice = outcome.choices[column]
        if not len(choice.losses):
            return f"{choice}" if choice.method or choice.parameters else ""
        text = f"{choice}, own_weight = {choice.option:g}" if choice.option else f"{choice}"
        return f"{text} (errors held out {choice.losses.sum():g})"

    def story(self, outcomes: list[Outcome], folder: Path) -> Story:
        """Pictures: sequences of the first direction where ours and another method differ most.

        That is the best of the others on held-out data that differs from ours anywhere.
        """
        apart = [outcome for outcome in outcomes if outcome.case.table == "profiles"]
        outcomes = [outcome for outcome in outcomes if outcome.case.table != "profiles"]
        first = [outcome for outcome in outcomes if outcome.case is outcomes[0].case]
        mine = next(outcome for outcome in first if outcome.name == OURS)
        others = [outcome for outcome in first if not outcome.is_ours]
        test: Profiles = mine.case.test
        errors = mine.scores["free"]["label_error"]
        others.sort(key=lambda outcome: outcome.held_out("free"))
        others.sort(key=lambda o: np.array_equal(o.scores["free"]["label_error"], errors))
        pair = [mine, others[0]]
        totals = [outcome.scores["free"]["label_error"] * test.counts for outcome in pair]
        order = np.argsort(totals[1] - totals[0], kind="stable")
        figures = {}
        for i in dict.fromkeys([order[-1], order[-2], order[0], totals[0].argmax()]):
            draw = partial(
                plot_annotations,
                test.data.sequences[i],
                {outcome.name: outcome.models["free"].ends[i] for outcome in pair},
                test.known[i].regions,
                ylabel="log-ratio",
            )
            figures[f"Profile {test.data.names[i]}"] = draw, 1.2
        protocol = _PROTOCOL.format(parts=self.config.n_parts)
        if self._unseen:
            protocol = _UNSEEN.format(self.config.dataset.root or "the data", self._unseen)
        both = [replace(o, case=replace(o.case, column="both directions")) for o in outcomes]
        apart = [replace(o, scores={"free": o.scores["free"]}) for o in apart]
        lengths = [part for name in _LENGTHS for part in map(partial(_of_length, name), apart)]
        told = tables_and_rows(
            self,
            [*apart, *filter(None, lengths), *both, *outcomes] if len(both) > len(first) else first,
        )
        table, rows = _areas({_EVERY: apart, **grouped(outcomes, lambda o: o.case.column)})
        told = {"tables": [*told["tables"], table], "rows": [*told["rows"], *rows]}
        return Story(protocol, Artifacts(figures=figures), told)


def _errors(ends: Sequence[NDArray], known: Sequence[PartialPartition]) -> NDArray:
    """False positives and negatives of segmentations, (n, 2)."""
    pairs = zip(ends, known)
    return np.array([fact.label_errors(Partition(ends=e)) for e, fact in pairs], dtype=float)


def _of_length(name: str, outcome: Outcome) -> Outcome | None:
    """An outcome on the sequences of some lengths, None where there are none."""
    low, high = _LENGTHS[name]
    test: Profiles = outcome.case.test
    places = np.flatnonzero([low < len(X) <= high for X in test.data.sequences])
    if not len(places):
        return None
    case = replace(outcome.case, column=name, test=test.select(places))
    scores = {measure: values[places] for measure, values in outcome.scores["free"].items()}
    return replace(outcome, case=case, scores={"free": scores})


def _areas(columns: Mapping[str, Sequence[Outcome]]) -> tuple[Row, list[Row]]:
    """The table of areas under curves, and its rows.

    As in Hocking's penaltyLearning: all penalties are multiplied by the same factor, and the rate
    of annotated changes that are found is drawn against the rate of annotations with too many
    changes.
    """
    place = {"table": "curves", "measure": "area"}
    table = {
        "name": "curves",
        "measure": "area",
        "title": _TITLES["curves"],
        "words": "area in % under true against false positives",
        "better": "more",
        "columns": {name: name for name, some in columns.items() if some},
        "unit": "set of annotations",
        "main": False,
        "note": "",
    }
    rows = []
    for column, some in columns.items():
        for name, mine in grouped(some, lambda outcome: outcome.name).items():
            area = 100 * _area(mine)
            numbers = {"mean": area, "standard_error": None, "units": ["all"], "values": [area]}
            rest = {"choice": "", "held_out": None, "gap": None, "stopped": "", "seconds": 0.0}
            rows.append(place | {"method": name, "column": column} | numbers | rest)
    return table, rows


def _area(outcomes: Sequence[Outcome]) -> float:
    """Area under the curve of all sequences of some cases, by trapezoids."""
    curves = [curve for outcome in outcomes for curve in outcome.models["free"].curves]
    known = [fact for outcome in outcomes for fact in outcome.case.test.known]
    regions = [region for fact in known for region in fact.regions]
    shifts = np.unique(np.concatenate([logs for logs, _ in curves]))[::-1]
    shifts = np.concatenate([[np.inf], shifts[:-1] + np.diff(shifts) / 2, [-np.inf]])
    totals = np.zeros((len(shifts), 2))
    for logs, counts in curves:  # logs decrease: so many of them are above a shift
        totals += counts[np.searchsorted(-logs, -shifts)]
    false = totals[:, 0] / len(regions)
    true = 1.0 - totals[:, 1] / max(1, sum(region.kind.fewest for region in regions))
    order = np.argsort(np.append(false, 1.0), kind="stable")
    return float(np.trapezoid(np.append(true, 1.0)[order], np.append(false, 1.0)[order]))


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
