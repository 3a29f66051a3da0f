"""Annotated copy-number profiles: the label errors of learned penalties and metrics.

The source of the data divides the annotations into two folds. Methods are trained on fold 1 and
tested on fold 2, and vice versa. Hyper-parameters are chosen by cross-validation over profiles
*inside* the training fold. In a second setting, every profile is tested with models that were
trained and chosen on all other profiles only. The row "ours" is the candidate that the search
chooses on training profiles. Candidates whose design was guided by errors on these profiles are
marked. In the first setting every method is scored twice: without the training annotations of the
sequence, and with them as constraints (as in Hocking & Srivastava, Labeled optimal partitioning,
Computational Statistics 38, 2023). Annotations that are used as constraints also move the predicted
penalty of their sequence. How far they may move this penalty is chosen on held-out profiles. We
leave out one annotation of a profile at a time, and the others move the penalty. Then we count how
many of the annotations left out are violated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from hydra.utils import instantiate
from numpy.typing import NDArray
from omegaconf import DictConfig
from sklearn.base import clone
from sklearn.model_selection import GroupKFold

from experiments.harness.cases import refuse_seen
from experiments.harness.procedure import Case, Losses, Method, Outcome, Procedure, Scores, Story
from experiments.harness.report import Artifacts, page
from experiments.harness.results import NOT_FITTED, OURS, Row, grouped, titled
from metriclearn import PartialPartition, Partition
from metriclearn.datasets import AnnotatedProfiles
from metriclearn.estimators.penalties.interval_regression import (
    moved_penalty,
    path_errors,
    target_interval,
)
from metriclearn.oracles.segmentation_path import SegmentationPath
from metriclearn.plots import plot_annotations
from metriclearn.views.plain import StatelessTransformer

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


@dataclass(frozen=True)
class Profiles:
    """Some of the sequences, with their annotations of one fold or of all."""

    data: AnnotatedProfiles
    known: list[PartialPartition]

    def select(self, places: NDArray) -> Profiles:
        """Select some of the sequences."""
        return Profiles(self.data.select(places), [self.known[i] for i in places])

    @property
    def counts(self) -> NDArray[np.float64]:
        """The number of annotations of every sequence."""
        return np.array([len(known.regions) for known in self.known], dtype=float)


def _at_most(n_folds: int, groups: Sequence[str]) -> int:
    """Return the number of folds, at most one for each profile."""
    if len(set(groups)) < 2:
        raise ValueError(
            f"Hyper-parameters are chosen on held-out profiles, which needs sequences of two "
            f"profiles or more, got {len(set(groups))}; add profiles, or raise dataset.choose_on."
        )
    return min(n_folds, len(set(groups)))


_FEATURES: dict[tuple[str, str], NDArray] = {}


@dataclass(eq=False, repr=False)
class Remembered(StatelessTransformer):
    """Compute features of whole sequences by a transformer that learns nothing, once for each
    sequence."""

    transformer: Any = None

    def transform(self, X: Sequence[NDArray]) -> NDArray[np.float64]:
        """Compute the features of N sequences, (N, Q)."""
        name, rows = repr(self.transformer), []
        for array in X:
            key = name, joblib.hash(array)
            if key not in _FEATURES:
                _FEATURES[key] = clone(self.transformer).fit([array]).transform([array])[0]
            rows.append(_FEATURES[key])
        return np.array(rows)


@dataclass(frozen=True)
class Segmentations:
    """The predicted change-points of all test sequences.

    ``curves`` has two arrays for every sequence. The first array holds the logarithms of the
    penalties at which the optimal segmentation changes, minus the logarithm of the predicted
    penalty. The second array holds the false positives and false negatives of each optimal
    segmentation.
    """

    ends: list[NDArray]
    curves: list[tuple[NDArray, NDArray]]


class Neuroblastoma(Procedure):
    """The experiment on annotated profiles. A case is a training and a test fold. One table has the
    results without constraints, and another table has the results with constraints."""

    backend = "threads"
    validates_one = True
    reads_test_root = True
    measures = titled("label_error", "false_positives", "false_negatives", "hindsight")
    titles: Mapping[str, str] = {}

    def __init__(self, config: DictConfig) -> None:
        super().__init__(config)
        self.data = self._read(config.dataset.root)
        self._paths: dict[tuple[str, str], SegmentationPath] = {}

    def _read(self, root: str | None) -> AnnotatedProfiles:
        """Read the sequences of a folder, without those that are too long."""
        dataset = self.config.dataset
        data = instantiate(dataset.loader, _partial_=True)(root)
        lengths = np.array([len(X) for X in data.sequences])
        chosen = np.flatnonzero(lengths <= (dataset.longest or lengths.max()))
        return data.select(chosen[: dataset.n_sequences])

    def cases(self) -> list[Case]:
        """Make the cases of held-out profiles, and two more cases.

        In these two cases, each fold of the source is used once for training and once for test. If
        the test profiles have a separate folder, make only one case, which tests on these profiles.
        Only sequences of at most ``choose_on`` points take part in the folds for choices.
        """
        cases = []
        for source, target in ((1, 2), (2, 1)) if self._unseen is None else ((None, None),):
            train = Profiles(self.data, self.data.known(source))
            test = Profiles(self.data, self.data.known(target))
            name = f"trained on fold {source}, tested on fold {target}"
            if not train.counts.any():
                raise ValueError(
                    f"The profiles need annotations of fold {source or '1 or 2'}, got none; number "
                    "the folds of the annotations, or pass dataset.test_root."
                )
            if self._unseen is not None:
                data, name = self._read(self._unseen), "tested on unseen profiles"
                refuse_seen(self.data, data)
                test = Profiles(data, data.known())
            cases.append(Case(name, train, test, self._folds(train), column=name))
        return [*self._held_out(), *cases] if self._unseen is None else cases

    def _held_out(self) -> list[Case]:
        """Make cases that together test every profile once, with models that are fitted and chosen
        on other profiles."""
        profiles, groups = Profiles(self.data, self.data.known()), self.data.groups
        n_parts = _at_most(self.config.n_parts, groups)
        parts = GroupKFold(n_parts, shuffle=True, random_state=self.config.seed)
        cases = []
        for i, (a, b) in enumerate(parts.split(groups, groups=groups)):
            train, test = profiles.select(a), profiles.select(b)
            folds = self._folds(train)
            cases.append(Case(f"part {i}", train, test, folds, "profiles", _EVERY))
        return cases

    def _folds(self, train: Profiles) -> list[tuple[Profiles, Profiles]]:
        """Divide the sequences of at most ``choose_on`` points into folds of whole profiles."""
        longest = self.config.dataset.choose_on or np.inf
        short = np.flatnonzero([len(X) <= longest for X in train.data.sequences])
        groups = [train.data.groups[i] for i in short]
        n_folds = _at_most(self.config.n_folds, groups)
        folds = GroupKFold(n_folds).split(short, groups=groups)
        return [(train.select(short[a]), train.select(short[b])) for a, b in folds]

    @property
    def _unseen(self) -> str | None:
        """The separate folder of the test profiles, or None if there is none."""
        return self.config.dataset.test_root

    def columns(self, method: Method) -> Sequence[str]:
        """Return the columns of a method. Test profiles from a separate folder have no annotations
        that could be constraints, so they have no results with constraints."""
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
        model = estimator.fit(data.data.sequences, data.known, self._paths_of(estimator, data))
        model.paths_ = []  # large, and shared by all models
        return model

    def _paths_of(self, model: Any, data: Profiles) -> list[SegmentationPath]:
        """Return the segmentation paths of the sequences. A path without a learned metric depends
        on the representation and the smallest size of segments only, so it is computed once."""
        kind, found = f"{model.representation!r}, {model.min_size}", []
        for X in data.data.sequences:
            key = kind, joblib.hash(X)
            if key not in self._paths:
                (self._paths[key],) = clone(model).identity_paths([X])
            found.append(self._paths[key])
        return found

    def validate(self, method: Method, model: Any, train: Any, held_out: Profiles) -> Losses:
        """Count the errors on held-out profiles. With constraints, the annotations of a sequence
        move its penalty by some weight, and there is a separate count for every weight."""
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
        """Predict the segment ends of every test sequence, and compute the label errors in percent
        of its annotations. A sequence without annotations gets 0 %, and does not count in
        means."""
        test: Profiles = case.test
        apart = case.table == "profiles" or self._unseen is not None
        known = case.train.known if column == "constrained" and not apart else None
        model.set_params(own_weight=option or 0.0)
        paths = self._paths_of(model, test)
        ends = model.predict_change_points(test.data.sequences, known, paths)
        logs = np.log(model.predict_penalties(test.data.sequences))
        curves = [
            (
                np.log(np.maximum(path.penalties[1:, 1], 1e-300)) - log,
                _errors(path.change_points, [known] * len(path)),
            )
            for path, log, known in zip(paths, logs, test.known)
        ]
        least = np.array([counts.sum(axis=1).min() for _, counts in curves])
        errors = _errors(ends, test.known)
        counts = [errors.sum(axis=1), *errors.T, least]
        rates = [100 * count / np.maximum(test.counts, 1) for count in counts]
        return Segmentations(ends, curves), dict(zip(self.measures, rates))

    def words(self, outcome: Outcome, column: str) -> str:
        choice = outcome.choices[column]
        if not len(choice.losses):
            return f"{choice}" if choice.method or choice.parameters else ""
        text = f"{choice}, own_weight = {choice.option:g}" if choice.option else f"{choice}"
        return f"{text} (errors held out {choice.losses.sum():g})"

    def story(self, outcomes: list[Outcome], folder: Path) -> Story:
        """Make the report, with pictures of sequences on which ours and another method differ most.

        The other method is the one with the least held-out loss among those whose test errors
        differ from ours on at least one sequence.
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
        folders = {"train": self.config.dataset.root or "the data", "test": self._unseen}
        facts = {"parts": self.config.n_parts, "errors": _found(apart)}
        protocol = page("neuroblastoma.protocol.j2", **folders, **facts).strip()
        both = [replace(o, case=replace(o.case, column="both directions")) for o in outcomes]
        apart = [replace(o, scores={"free": o.scores["free"]}) for o in apart]
        lengths = [part for name in _LENGTHS for part in map(partial(_of_length, name), apart)]
        told = self.numbers(
            [*apart, *filter(None, lengths), *both, *outcomes] if len(both) > len(first) else first
        )
        table, rows = _areas({_EVERY: apart, **grouped(outcomes, lambda o: o.case.column)})
        told = {"tables": [*told["tables"], table], "rows": [*told["rows"], *rows]}
        return Story(protocol, Artifacts(figures=figures), told)


def _found(apart: Sequence[Outcome]) -> dict[str, str]:
    """Compute the errors of candidates that were designed after seeing errors, and of choices by
    training data alone, with the range of 95 % of the draws of profiles."""
    errors: dict[str, dict[str, NDArray]] = {}
    for outcome in apart:
        test: Profiles = outcome.case.test
        totals = errors.setdefault(outcome.name, {})
        rates = outcome.scores["free"]["label_error"] * test.counts
        for unit, pair in zip(test.data.groups, np.column_stack([rates, test.counts])):
            totals[unit] = totals.get(unit, np.zeros(2)) + pair
    rng, texts = np.random.default_rng(0), {}
    for name, by_unit in errors.items():
        table = np.array(list(by_unit.values()))
        drawn = table[rng.integers(0, len(table), (10_000, len(table)))].sum(axis=1)
        low, high = np.percentile(drawn[:, 0] / np.maximum(drawn[:, 1], 1), [2.5, 97.5])
        mean = table[:, 0].sum() / table[:, 1].sum()
        texts[name] = f"{mean:.1f} % ({low:.1f} to {high:.1f})"
    looked = [name for name in texts if name.startswith("Hermite") and "counts" in name]
    rows = {f"found by looking ({name})": name for name in looked} | {
        "chosen in a nested search": OURS,
        "the same search among candidates that were known before": f"{OURS}/known before",
    }
    return {words: texts[name] for words, name in rows.items() if name in texts}


def _errors(ends: Sequence[NDArray], known: Sequence[PartialPartition]) -> NDArray:
    """Count the false positives and the false negatives of segmentations, (n, 2)."""
    pairs = zip(ends, known)
    return np.array([fact.label_errors(Partition(ends=e)) for e, fact in pairs], dtype=float)


def _of_length(name: str, outcome: Outcome) -> Outcome | None:
    """Restrict an outcome to the sequences in one of the ranges of :data:`_LENGTHS`. Returns None
    if there are no such sequences."""
    low, high = _LENGTHS[name]
    test: Profiles = outcome.case.test
    places = np.flatnonzero([low < len(X) <= high for X in test.data.sequences])
    if not len(places):
        return None
    case = replace(outcome.case, column=name, test=test.select(places))
    scores = {measure: values[places] for measure, values in outcome.scores["free"].items()}
    return replace(outcome, case=case, scores={"free": scores})


def _areas(columns: Mapping[str, Sequence[Outcome]]) -> tuple[Row, list[Row]]:
    """Make the table of areas under curves, and its rows.

    A curve arises if all penalties of a method are multiplied by the same factor, from small to
    large. As in Hocking's penaltyLearning, the x-axis is the rate of annotations with too many
    changes, and the y-axis is the rate of annotated changes that are found.
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
            rows.append(place | {"method": name, "column": column} | numbers | NOT_FITTED)
    return table, rows


def _area(outcomes: Sequence[Outcome]) -> float:
    """Compute the area under the curve of some cases by the trapezoidal rule. One curve describes
    the sequences of all these cases together."""
    curves = [curve for outcome in outcomes for curve in outcome.models["free"].curves]
    known = [fact for outcome in outcomes for fact in outcome.case.test.known]
    regions = [region for fact in known for region in fact.regions]
    shifts = np.unique(np.concatenate([logs for logs, _ in curves]))[::-1]
    shifts = np.concatenate([[np.inf], shifts[:-1] + np.diff(shifts) / 2, [-np.inf]])
    totals = np.zeros((len(shifts), 2))
    for logs, counts in curves:  # logs decrease, so a shift's place is the number of logs above
        totals += counts[np.searchsorted(-logs, -shifts)]
    false = totals[:, 0] / len(regions)
    true = 1.0 - totals[:, 1] / max(1, sum(region.kind.fewest for region in regions))
    order = np.argsort(np.append(false, 1.0), kind="stable")
    return float(np.trapezoid(np.append(true, 1.0)[order], np.append(false, 1.0)[order]))


def _left_out(
    path: SegmentationPath, log: float, known: PartialPartition, margin: float, weight: float
) -> int:
    """Leave out one annotation of a sequence at a time, and let only the others move the penalty.
    Count how often the segmentation then violates the annotation left out."""
    errors = 0
    for place, region in enumerate(known.regions):
        others = known.regions[:place] + known.regions[place + 1 :]
        rest = PartialPartition(known.n_samples, regions=others)
        moved = log
        if weight:
            interval = target_interval(path, path_errors(path, rest))
            moved = moved_penalty(log, interval, margin, weight)
        ends = path.change_points[path.positions(np.exp(moved))]
        errors += not region.allows(ends[:-1])
    return errors
