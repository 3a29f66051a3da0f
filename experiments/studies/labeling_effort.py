"""Loss against labeled seconds: an annotator labels stretches, and the metric is learned again.

The annotator is simulated. A strategy of :func:`metriclearn.suggest` chooses stretches,
and the answers are their true change-points, with optional errors. After every batch of answers the
metric is learned from the answered stretches alone, each treated as one recording. After that, the
next batch is requested. Test recordings are used for scores only. The curves start at the Euclidean
metric with a penalty tuned on all labels, and end at the metric learned from all labels.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from hydra.utils import instantiate
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from omegaconf import OmegaConf
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import has_fit_parameter

from experiments.harness.cases import group_cases
from experiments.harness.procedure import Case, Method, Outcome, Procedure, Scores, Story
from experiments.harness.report import Artifacts, page
from experiments.harness.results import MEASURE, OURS, Results, Row, curve_of, standard_error
from experiments.harness.scoring import sequence_losses
from experiments.pages.curves import Panel, plot_curves
from metriclearn import Partition, suggest
from metriclearn.datasets import LabeledSequences, make_change_points
from metriclearn.estimators import labeled_stretches

START, END, RANDOM = "euclidean", "ours/all labels", "random"
_CURVES = (OURS, RANDOM, "leftmost")


@dataclass(frozen=True, eq=False)
class Folder:
    """Recordings that a person labels, stretch by stretch.

    Attributes
    ----------
    length : int
        Number of samples of a stretch.
    rate : float
        Samples per second.
    learner : estimator
        The learner that is fitted to the answers.
    whole : estimator, optional
        Replaces the learner once everything is answered.
    """

    data: LabeledSequences
    length: int
    rate: float
    learner: Any
    seed: int
    whole: Any = None

    @property
    def seconds(self) -> float:
        """The length of all recordings together in seconds."""
        return sum(map(len, self.data.sequences)) / self.rate


def asked(
    arrays: list[NDArray], known: list[NDArray], fraction: float, length: int, **options: Any
) -> Iterator[tuple[int, slice]]:
    """Yield stretches, as an index of a recording and its samples, until a fraction is labeled.

    After each of them the caller writes its labels into ``known``, where −1 means unlabeled. The
    options are passed to :func:`metriclearn.suggest`.
    """
    missing, some = fraction * sum(map(len, arrays)), None
    while some != []:  # short gaps count for less than a stretch
        left = missing - sum(np.count_nonzero(labels >= 0) for labels in known)
        if left <= 0:
            break
        some = suggest(arrays, known, length=length, n=int(np.ceil(left / length)), **options)
        yield from ((i, slice(start, stop)) for i, start, stop, _ in some)


@dataclass(eq=False)
class Annotator(BaseEstimator):
    """Simulates an annotator, who labels stretches until given fractions of a folder are labeled.

    Parameters
    ----------
    strategy : str
        A strategy of :func:`metriclearn.suggest`.
    fractions : sequence of float
        Fractions of the samples to label. Each time a fraction is reached, the metric is learned
        again.
    error : float
        Probability that a true change is overlooked, and also the probability that a stretch gets a
        false change.
    learner : estimator, optional
        Replaces the folder's learner.

    Attributes
    ----------
    learners_ : list of fitted estimators
        The learner after each of the fractions.
    """

    strategy: str = "combined"
    fractions: Sequence[float] = (1.0,)
    error: float = 0.0
    learner: Any = None

    def fit(self, folder: Folder) -> Self:
        """Label and learn."""
        random = np.random.default_rng(folder.seed)
        order = random.permutation(len(folder.data))  # of recordings, for "leftmost"
        arrays = [folder.data.sequences[i] for i in order]
        truths = [Partition.from_runs(folder.data.labels[i]).labels for i in order]
        known = [np.full(len(truth), -1) for truth in truths]
        learner, self.learners_ = None, []
        options: dict[str, Any] = {"length": folder.length, "strategy": self.strategy}
        for fraction in self.fractions:
            options |= {"learner": learner, "random_state": random}
            for i, part in asked(arrays, known, fraction, **options):
                known[i][part] = self._answer(truths[i][part], random)
            usual = folder.whole if fraction == 1.0 and folder.whole else folder.learner
            learner = clone(usual if self.learner is None else self.learner)
            pieces, partitions = labeled_stretches(arrays, known)
            if len(pieces) == 1:  # cross-validation needs two
                cuts = slice(len(pieces[0]) // 2), slice(len(pieces[0]) // 2, None)
                partitions = [Partition.from_runs(partitions[0].labels[cut]) for cut in cuts]
                pieces = [pieces[0][cut] for cut in cuts]
            weights = {}
            if has_fit_parameter(getattr(learner, "estimator", learner), "sample_weight"):
                weights["sample_weight"] = list(map(len, pieces))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # few answers may hold no change
                learner = learner.fit(pieces, partitions, **weights)
            learner = getattr(learner, "best_estimator_", learner)  # for a search of strengths
            self.learners_.append(learner)
        return self

    def _answer(self, labels: NDArray, random: np.random.Generator) -> NDArray:
        """Return the answer for a stretch: the segment number of each sample, with some errors."""
        answer = labels.copy()
        for change in np.flatnonzero(np.diff(labels)) + 1:
            if random.random() < self.error:
                answer[change:][labels[change:] == labels[change]] = answer[change - 1]
        if random.random() < self.error:
            answer[random.integers(1, len(answer)) :] += 1_000_000  # no segment has this number
        return answer


def held_out(seed: int, data: LabeledSequences, n_test: int = 0) -> tuple[Any, Any]:
    """Divide recordings into training and test. The test groups are ``n_test`` groups that are the
    same for all seeds. If ``n_test`` is 0, there is only one test group, which changes with the
    seed."""
    cases = group_cases(data, n_test or 1, not n_test, 2, 0)
    case = cases[seed % len(cases)]
    return case.train, case.test


def made(seed: int, **options: Any) -> tuple[Any, Any]:
    """Generate training and test recordings. Both share the relevant features, which depend on the
    seed."""
    parts = [
        make_change_points(**options, feature_seed=seed, random_state=2 * seed + i) for i in (0, 1)
    ]
    return parts[0], parts[1]


class LabelingEffort(Procedure):
    """The experiment on labeling effort. A case is a folder and a seed. A column is the fraction of
    the folder that is labeled."""

    backend = "threads"
    entries = "strategies"
    certified = False

    def cases(self) -> list[Case]:
        cases = []
        for table, entry in filter(lambda item: item[1], self.config.folders.items()):
            plain = instantiate(OmegaConf.to_container(entry, resolve=True), _convert_="all")
            for seed in range(self.config.seed, self.config.seed + self.config.n_seeds):
                train, test = plain["split"](seed)
                names = ("length", "rate", "learner", "whole")
                options = {name: plain[name] for name in names if name in plain}
                folder = Folder(train, seed=seed, **options)
                name = f"{table}, seed {seed}"
                cases.append(Case(name, folder, replace(test, name=f"seed {seed}"), (), table))
        return cases

    def columns(self, method: Method) -> Sequence[str]:
        """Return the columns of a method: the labeled fractions at which it learns. A method that
        knows all labels has the same result in all columns."""
        given = method.estimator.fractions
        asked = self.config.fractions
        return [_column(f) for f in asked if f in given or given == (1.0,)]

    def fit(self, estimator: Any, data: Folder, method: Method) -> Any:
        return estimator.fit(data)

    def score(self, model: Annotator, option: Any, column: str, case: Case) -> tuple[Any, Scores]:
        places = {_column(fraction): place for place, fraction in enumerate(model.fractions)}
        learner = model.learners_[places.get(column, -1)]
        return learner, {MEASURE: np.array([sequence_losses(learner, case.test).mean()])}

    def units(self, data: Any) -> Sequence[str]:
        """Return a single unit, because each seed is one independent unit. A seed determines the
        generated data or, for real data without ``n_test``, which group is held out. The seed also
        determines the order of the recordings and the random draws."""
        return [data.name]

    def table(self, name: str) -> Row:
        note = (
            "The same test recordings in all seeds, so that errors are those of the annotation."
            if name == "HAPT"
            else ""
        )
        return {"title": name, "unit": "seed", "note": note}

    def story(self, outcomes: list[Outcome], folder: Path) -> Story:
        tables = self.numbers(outcomes)
        seconds = {o.case.table: o.case.train.seconds for o in outcomes}
        reached = [
            reach(table, whole, [row for row in tables["rows"] if row["table"] == table])
            for table, whole in seconds.items()
        ]
        sentences = [page("labeling_effort.sentence.j2", **facts).strip() for facts in reached]
        fields = {"reached": reached, "seconds_of": seconds, "sentences": sentences}
        figures = {"Loss against labeled seconds": (partial(plot_learning, tables | fields), 3.0)}
        artifacts = Artifacts(figures=figures, notes=sentences)
        protocol = page("labeling_effort.protocol.j2").strip()
        return Story(protocol, artifacts, tables, fields)


def _column(fraction: float) -> str:
    return f"{100 * fraction:g} % labeled"


def reach(table: str, seconds: float, rows: Sequence[Row], percent: float = 25.0) -> dict[str, Any]:
    """Compute how much of the gain of all labels our method has with a fraction of them, in %.

    The gain is the loss of the Euclidean metric minus the loss with all labels. The result also
    tells how many labeled seconds our method and random choice need to reach the same loss.
    ``worse`` lists the labeled fractions at which our loss exceeds the loss of random choice by
    more than one standard error of the paired differences.

    Parameters
    ----------
    table : str
    seconds : float
        Length of all training recordings.
    rows : rows of the table
    percent : float
        The result is for the largest labeled part that does not exceed this percentage.
    """
    second = seconds / 100  # of one percent
    (parts, ours), (all_parts, chance) = curve_of(rows, OURS)[:2], curve_of(rows, RANDOM)[:2]
    start, end = (curve_of(rows, name)[1, 0] for name in (START, END))
    place = int(np.flatnonzero(parts <= max(percent, parts[0]))[-1])
    there = float(chance[all_parts == parts[place]][0])
    way = random_way = None  # if learning from all labels gains nothing
    if end < start:
        way, random_way = (100 * (start - loss) / (start - end) for loss in (ours[place], there))
    facts = {"table": table, "percent": parts[place], "way": way, "random_way": random_way}
    values = {(row["method"], row["column"]): np.array(row["values"]) for row in rows}
    excess = {
        f"{p:g}": np.subtract(*(values[name, _column(p / 100)] for name in (OURS, RANDOM)))
        for p in parts
    }
    worse = [at for at, e in excess.items() if e.mean() > 1e-12 + (standard_error(e) or 0.0)]
    facts["worse"] = f"with {', '.join(worse)} % labeled, ours is" if worse else "ours is nowhere"
    equaled = np.flatnonzero([np.any(ours <= loss) for loss in chance])
    if len(equaled):
        needed = parts[ours <= chance[equaled[-1]]][0]
        facts |= {"random_seconds": all_parts[equaled[-1]] * second, "seconds": needed * second}
    return facts


def plot_learning(results: Results, ax: Axes | None = None) -> Figure:
    """Plot the loss against labeled seconds, with a panel for each folder."""
    some = [facts for facts in results["reached"] if facts["way"] is not None]
    ways = ", ".join(f"{facts['table']} at {facts['way']:.0f} %" for facts in some)
    percent = results["reached"][0]["percent"]
    message = f"With {percent:g} % of the labels, on the way from Euclidean to all: {ways}"
    if not some:
        message = "All labels lead to no less loss than the Euclidean metric"
    parts = []
    for table in results["tables"]:
        rows = [row for row in results["rows"] if row["table"] == table["name"]]
        seconds = results["seconds_of"][table["name"]]
        there = [name for name in _CURVES if any(row["method"] == name for row in rows)]
        curves = {name: curve_of(rows, name) * [[seconds / 100], [1], [1]] for name in there}
        flat = {name: curve_of(rows, name)[1, 0] for name in (END, START)}
        words = ("labeled seconds", "test loss ‖M − N‖²")
        parts.append(Panel(table["title"], *words, curves, flat))
    return plot_curves(parts, message, ax)
