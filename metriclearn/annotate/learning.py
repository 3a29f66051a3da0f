"""After every correction: learn from all labels, segment all recordings, and suggest stretches to
label next."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, starmap
from operator import attrgetter
from threading import Condition, Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold

from metriclearn.annotate.project import Annotation, Project, partial_labels, row_at
from metriclearn.annotate.shown import exact_times, labels_of_person
from metriclearn.annotate.signals import Recording
from metriclearn.annotate.suggest import suggest
from metriclearn.estimators.learners.change_points import ChangePointMetricLearner, known_stretches
from metriclearn.estimators.prediction.calibration import Calibration
from metriclearn.estimators.prediction.states import States
from metriclearn.oracles.change_points import ConstrainedChangePoints
from metriclearn.oracles.change_points.margins import BoundaryMargins, boundary_margins
from metriclearn.oracles.segmentation_path import best_penalty
from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.knowledge import PartialPartition, pieces_of
from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.problem.partition import Partition
from metriclearn.running.callbacks import TimeLimit
from metriclearn.solvers.bundle import BundleDual

_CONTEXT = 24  # rows around labeled stretches that are learned from, too
_N_SUGGESTED = 5
_JUDGED = 20.0  # seconds that a person judges at once, at most
_CALIBRATED = 20  # held-out boundaries that probabilities need
_N_FOLDS = 3
_MOST_ROWS = 20_000  # learned from at a correction; exported models learn from all rows
_FEW_CHANGES = 40
_SOLVER = BundleDual(tolerance=1e-2)
_LONGEST = TimeLimit(1.0)  # seconds of learning after which the best metric so far is used

Piece = tuple[NDArray, Partition | PartialPartition]


@dataclass
class Group:
    """Recordings with the same features, the learned model, and its validation."""

    recordings: list[Recording]
    learner: ChangePointMetricLearner | None = None
    calibration: Calibration | None = None
    validated: float | None = None

    @property
    def tolerance(self) -> int:
        """Rows in half a second, at least one: changes so near are the same."""
        return max(1, round(0.5 * self.recordings[0].rate))

    def labels(self, annotations: Mapping[str, Sequence[Annotation]]) -> list[PartialPartition]:
        """The partial labels of the rows of every recording."""
        return [
            partial_labels(annotations.get(one.name, ()), len(one.features), one.rate)
            for one in self.recordings
        ]

    def learn(self, labels: list[PartialPartition]) -> None:
        """Learn a metric and a penalty from the labeled stretches.

        The last metric completes partly labeled stretches, as in one turn of learning from partial
        labels. The first metric takes turns until nothing changes.
        """
        pieces: list[Piece] = []
        for one, partial in zip(self.recordings, labels):
            for start, stop in _windows(partial):
                inside = partial.within(start, stop)
                pieces.append((one.features[start:stop], inside.segmentation() or inside))
        pieces = _some(pieces)
        if self.learner is not None:
            complete = ConstrainedChangePoints()
            for i, (X, truth) in enumerate(pieces):
                if isinstance(truth, PartialPartition):
                    pieces[i] = X, complete(_form(self.learner, X), None, truth)
        self.learner = _fitted(pieces)
        if self.learner is None:
            self.calibration = self.validated = None

    def segment(self, labels: list[PartialPartition]) -> list[BoundaryMargins]:
        """The best segmentation of every recording that agrees with its labels."""
        return [
            _margins(self.learner, one.features, partial, self.tolerance)
            for one, partial in zip(self.recordings, labels)
        ]

    def probabilities(self, losses: NDArray[np.float64]) -> NDArray[np.float64]:
        """The probability that each change is true, calibrated if enough labels are held out.

        Before that it is 1 − exp(−2 loss/penalty)/2, which is even for a change whose gain is only
        its penalty. Changes that the labels require have an infinite loss and probability 1.
        """
        assert self.learner is not None
        relative = losses / max(float(self.learner.penalty_ or 0.0), 1e-300)
        likely = 1 - np.exp(-2 * np.minimum(relative, 300)) / 2
        if self.calibration is not None:
            likely = self.calibration.of(relative)
        return np.where(np.isinf(losses), 1.0, likely)

    def validate(self, labels: list[PartialPartition]) -> None:
        """Held-out loss per labeled boundary, and how often held-out changes were right."""
        pieces = _some(
            [
                (X, truth)
                for one, partial in zip(self.recordings, labels)
                for X, inside in known_stretches(one.features, partial)
                if (truth := inside.segmentation()) is not None and truth.n_samples > 2
            ]
        )
        self.validated = self.calibration = None
        if len(pieces) < 2:
            return
        loss, margins, truths = 0.0, [], []
        for rest, left in KFold(min(_N_FOLDS, len(pieces))).split(pieces):
            learner = _fitted([pieces[i] for i in rest])
            for X, truth in [pieces[i] for i in left] if learner is not None else []:
                found = _margins(learner, X, PartialPartition(len(X)), self.tolerance)
                loss += FrobeniusLoss().squared_norm(Partition(ends=found.change_points), truth)
                relative = found.losses / max(learner.penalty_, 1e-300)
                margins.append(BoundaryMargins(found.change_points, relative, found.gains))
                truths.append(truth)
        n_true = sum(truth.n_clusters - 1 for truth in truths)
        self.validated = loss / n_true if n_true else None
        if sum(len(one.losses) for one in margins) >= _CALIBRATED:
            nothing = np.zeros((0, 0))
            self.calibration = Calibration.learn(margins, truths, self.tolerance, nothing, None)


def _some(pieces: list[Piece]) -> list[Piece]:
    """Pieces with about ``_MOST_ROWS`` rows, the same ones every time."""
    order = np.random.default_rng(0).permutation(len(pieces))
    before = np.cumsum([0, *(len(pieces[i][0]) for i in order)])[:-1]
    return [pieces[i] for i in sorted(order[before < _MOST_ROWS].tolist())]


def _form(learner: Any, X: NDArray) -> LowRankForm:
    """The score of segmentations of X under a fitted learner."""
    return LowRankForm(X @ learner.components_.T).shifted(-float(learner.penalty_))


def _margins(learner: Any, X: NDArray, labels: PartialPartition, tolerance: int) -> BoundaryMargins:
    """The best segmentation that agrees with the labels; labeled changes have infinite losses.

    Labeled changes divide X into independent programs, which are faster than one for all of X.
    """
    parts = []
    changes = chain(*(ends[:-1].tolist() for _, ends in pieces_of(labels).stretches))
    for start, stop in pairwise([0, *changes, len(X)]):
        part = _form(learner, X[start:stop])
        inside, near = labels.within(start, stop), min(tolerance, stop - start - 1)
        constrained = inside if inside.constraints else None
        margins = boundary_margins(part, known=constrained, tolerance=near)
        parts.append((margins.change_points + start, [*margins.losses, np.inf], margins.gains))
    ends, losses, gains = map(np.concatenate, zip(*parts))
    return BoundaryMargins(ends, losses[:-1], gains)


def _fitted(pieces: list[Piece]) -> Any:
    """A fitted learner, or None if nothing can be learned yet."""
    counts = [_n_changes(truth) for _, truth in pieces]
    if not any(counts):
        return None
    learner = ChangePointMetricLearner(solver=_SOLVER, callbacks=[_LONGEST], verbose=False)
    arrays, truths = map(list, zip(*pieces))
    with warnings.catch_warnings():  # few labels leave little to learn
        warnings.simplefilter("ignore")
        learner.fit(arrays, truths)
    if not len(learner.components_) or not learner.penalty_:
        return None
    if all(isinstance(truth, Partition) for truth in truths) and sum(counts) < _FEW_CHANGES:
        # with few labels many penalties have the least loss; the one in the middle is safest
        forms = [LowRankForm(X @ learner.components_.T) for X in arrays]
        learner.penalty_, _ = best_penalty(forms, truths)
    return learner


def _n_changes(truth: PartialPartition | Partition) -> int:
    """The least number of changes that agrees with labels."""
    if isinstance(truth, Partition):
        return truth.n_clusters - 1
    pieces = pieces_of(truth)
    inside = pieces.n_segments - len(pieces.stretches)
    return inside + sum(map(attrgetter("kind.fewest"), pieces.regions))


def _windows(labels: PartialPartition) -> list[tuple[int, int]]:
    """Stretches whose labels are complete, and other annotated changes with some context."""
    pieces = pieces_of(labels)
    spans = [(start, int(ends[-1])) for start, ends in pieces.stretches]
    windows = [(start, stop) for start, stop in spans if stop - start > 2]
    short = [(start, stop) for start, stop in spans if stop - start <= 2]
    for start, stop in short + [(region.start, region.stop) for region in pieces.regions]:
        # context ends one row inside the neighboring windows, where no change can be
        before = max([b for _, b in windows if b <= start + 1], default=0)
        after = min([a for a, _ in windows if a >= stop - 1], default=labels.n_samples)
        first = max(before - 1, start - _CONTEXT, 0)
        windows.append((first, min(after + 1, stop + _CONTEXT, labels.n_samples)))
    return sorted(windows)


def compile_programs() -> None:
    """Learn once from very few rows, so that the first correction does not wait for numba."""
    X = np.repeat([[0.0], [1.0]], 4, axis=0) + np.arange(8.0)[:, None] % 2 / 10
    labels = PartialPartition(8, change_points=[4], same=[(0, 3)])
    learner = _fitted([(X, labels)])
    if learner is not None:
        _margins(learner, X, labels, 1)


class Loop:
    """A thread that learns whenever annotations have changed, and holds its latest result.

    Parameters
    ----------
    project : Project
    recordings : sequence of Recording
    """

    def __init__(self, project: Project, recordings: Sequence[Recording]) -> None:
        self.project = project
        kinds: dict[Any, list[Recording]] = {}
        for one in recordings:
            kinds.setdefault((tuple(one.columns), one.rate), []).append(one)
        self.groups = [Group(members) for members in kinds.values()]
        self.learned: dict[str, Any] = {"serial": 0, "revision": -1, "recordings": {}}
        self._changed = Condition()
        self.thread = Thread(target=self._run, daemon=True)
        self._wanted = True

    def wake(self) -> None:
        """Learn again, as annotations have changed."""
        with self._changed:
            self._wanted = True
            self._changed.notify_all()

    def _run(self) -> None:
        compile_programs()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted)
                self._wanted = False
            try:
                self.learn_once()
            except Exception as error:  # the page shows it, and learning continues
                self._publish({**self.learned, "error": f"{type(error).__name__}: {error}"})

    def learn_once(self) -> None:
        """Learn, segment and publish; then suggest, validate and publish again.

        A new correction ends it after the first result.
        """
        begun = time.perf_counter()
        with self.project.lock:
            revision, annotations = self.project.revision, dict(self.project.annotations)
        labels = [group.labels(annotations) for group in self.groups]
        for group, partial in zip(self.groups, labels):
            group.learn(partial)
        result = self._segmented(labels, annotations) | {"revision": revision, "busy": True}
        result["seconds"] = time.perf_counter() - begun
        self._publish(result | {"suggestions": []})
        if self._wanted:
            return
        # gains of different groups do not compare; groups with a model come first
        order = sorted(zip(self.groups, labels), key=lambda pair: pair[0].learner is None)
        suggestions = list(chain(*starmap(_suggested, order)))
        self._publish(result | {"suggestions": suggestions})
        for group, partial in zip(self.groups, labels):
            if self._wanted:
                return
            group.validate(partial)
        result |= self._segmented(labels, annotations)  # with the new probabilities
        self._remember(result, annotations)
        self._publish(result | {"suggestions": suggestions, "busy": False})

    def _publish(self, result: dict[str, Any]) -> None:
        serial = self.learned["serial"] + 1
        self.learned = result | {"serial": serial, "curve": list(self.project.curve)}

    def _segmented(
        self, labels: list[list[PartialPartition]], annotations: Mapping[str, Sequence[Annotation]]
    ) -> dict[str, Any]:
        """Segments of every recording, and the expected share of wrong boundaries."""
        recordings: dict[str, Any] = {}
        doubts: list[NDArray] = []
        for group, partial in zip(self.groups, labels):
            if group.learner is None:
                continue
            states = _states(group, annotations)
            for one, margins in zip(group.recordings, group.segment(partial)):
                mine = annotations.get(one.name, ())
                ends, likely = margins.change_points, group.probabilities(margins.losses)
                doubts.append(1 - likely[np.isfinite(margins.losses)])
                names = []
                if states is not None:
                    named = states.of(one.features, Partition(ends=ends), None, None)
                    names = labels_of_person(named[ends - 1].tolist(), ends, mine, one.rate)
                recordings[one.name] = {
                    "boundaries": exact_times(ends[:-1].tolist(), mine, one.rate),
                    "confidence": np.round(likely, 3).tolist(),
                    "reach": (margins.intervals(margins.typical_score) / one.rate).tolist(),
                    "labels": names,
                }
        doubted = np.concatenate([np.zeros(0), *doubts])
        return {
            "recordings": recordings,
            "expected": float(doubted.mean()) if len(doubted) else None,
        }

    def _remember(
        self, result: dict[str, Any], annotations: Mapping[str, Sequence[Annotation]]
    ) -> None:
        """Add a point to the curve; it replaces the last one if no more was annotated since."""
        stretches = chain(*annotations.values())
        seconds = round(float(sum(one.end - one.start for one in stretches)), 3)
        validated = [g.validated for g in self.groups if g.validated is not None]
        mean = float(np.mean(validated)) if validated else None
        point = {"seconds": seconds, "expected": result["expected"], "validated": mean}
        curve = self.project.curve
        if curve and curve[-1]["seconds"] == seconds:
            curve.pop()
        if result["expected"] is not None or mean is not None:
            curve.append(point)


def _states(group: Group, annotations: Mapping[str, Sequence[Annotation]]) -> States | None:
    """Means of labeled segments under the learned metric, if there are two labels."""
    segments = [
        (one.features[row_at(given.start, one.rate) : row_at(given.end, one.rate)], given.label)
        for one in group.recordings
        for given in annotations.get(one.name, ())
        if given.kind == "segment"
    ]
    arrays = [rows for rows, _ in segments if len(rows)]
    labels = [np.full(len(rows), label) for rows, label in segments if len(rows)]
    if group.learner is None or len({label[0] for label in labels}) < 2:
        return None
    return States.learn(group.learner.components_, arrays, labels, True)


def _suggested(group: Group, labels: list[PartialPartition]) -> list[dict[str, Any]]:
    """Stretches worth labeling, in seconds."""
    rate = group.recordings[0].rate
    arrays = list(map(attrgetter("features"), group.recordings))
    found = suggest(
        arrays,
        labels,
        n=_N_SUGGESTED,
        length=int(max(2, min(_JUDGED * rate, min(map(len, arrays)) / 4))),
        learner=group.learner,
        strategy="diversity" if group.learner is None else "margin",
    )
    recordings = group.recordings
    return [
        {"recording": recordings[i].name, "start": start / rate, "end": stop / rate, "gain": gain}
        for i, start, stop, gain in found
    ]
