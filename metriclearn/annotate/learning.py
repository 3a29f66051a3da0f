"""After every correction: learn from all labels, segment all recordings, and suggest what to label
next."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from threading import Condition, Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold

from metriclearn.annotate.project import Annotation, Project, known_rows
from metriclearn.annotate.signals import Recording
from metriclearn.annotate.suggest import suggest
from metriclearn.estimators.learners.change_points import ChangePointMetricLearner, known_stretches
from metriclearn.estimators.prediction.calibration import Calibration
from metriclearn.estimators.prediction.states import States
from metriclearn.oracles.change_points.margins import BoundaryMargins, boundary_margins
from metriclearn.oracles.segmentation_path import best_penalty
from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.knowledge import PartialPartition, Region, pieces_of
from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.problem.partition import Partition
from metriclearn.solvers.base import Problem, Solution
from metriclearn.solvers.bundle import BundleDual

_CONTEXT = 24  # rows around labeled stretches that are learned from, too
_N_SUGGESTED = 5
_JUDGED = 20.0  # seconds that a person judges at once, at most
_CALIBRATED = 20  # held-out boundaries for probabilities
_N_FOLDS = 3
_MOST_ROWS = 20_000  # that are learned from at a correction; models that are exported take all
_FEW_CHANGES = 40
_LONGEST = 1.0  # seconds of learning after which the best metric so far is used


@dataclass
class WarmStart:
    """A solver that begins where it ended the last time, as long as the data are alike."""

    solver: Any = field(default_factory=lambda: BundleDual(tolerance=1e-2))
    last: Solution | None = None

    def minimize(self, problem: Problem) -> Solution:
        """Minimize, beginning with the last solution if there is one of that size."""
        last = self.last
        if problem.warm is None and last is not None and last.w.shape == problem.start.shape:
            problem = replace(problem, warm=last)
        solution = self.solver.minimize(problem)
        self.last = replace(solution, cuts=None)  # which are of other data
        return solution


class TimeLimit:
    """A callback that ends learning after some seconds, but not before some rounds."""

    def __init__(self, seconds: float, least: int = 8) -> None:
        self.end, self.left = time.monotonic() + seconds, least

    def on_round(self, progress: Any) -> bool:
        """Whether to stop."""
        self.left -= 1
        return self.left < 0 and time.monotonic() > self.end

    def on_end(self, solution: Solution) -> None:
        """There is no work left."""


def segment_known(
    X: NDArray[np.float64],
    components: NDArray[np.float64],
    penalty: float,
    known: PartialPartition,
    tolerance: int = 0,
) -> tuple[BoundaryMargins, NDArray[np.bool_]]:
    """The best segmentation that agrees with the labels, and which of its changes are labeled.

    No row is constrained: between known changes programs are apart, and where no change may be
    rows are replaced by their mean. Scores then differ by a constant, and as a segment's value is
    convex in how much of equal rows it has, no change inside them is better than the better of
    both their ends. That keeps the pruning of the free program, on which the time depends; losses
    of changes at the ends of such stretches are lower bounds. A
    region with one change or more gets its best one where the free answer has none there (of
    several in a region of exactly one, the best stays).

    Parameters
    ----------
    X : (T, P) array
    components, penalty
        Of a fitted learner.
    known : PartialPartition
    tolerance : int
        Of the margins, in rows.
    """
    Z = X @ components.T
    pieces = pieces_of(known)
    changes: set[int] = set()
    level: list[tuple[int, int]] = []
    for start, ends in pieces.stretches:
        borders = [start, *ends.tolist()]
        changes |= set(borders[1:-1])
        level += pairwise(borders)
    for region in pieces.regions:
        one = _best_change(Z, penalty, changes, level, region)
        if one is not None:
            changes.add(one)
            if region.kind.most == 1:
                level += [(region.start, one), (one, region.stop)]
    margins = _by_section(Z, penalty, changes, level, tolerance)
    return margins, np.isin(margins.change_points[:-1], sorted(changes))


def _best_change(
    Z: NDArray, penalty: float, changes: set[int], level: list[tuple[int, int]], region: Region
) -> int | None:
    """Where a region with a change has its best one, None if it is free to have none."""
    if not region.kind.fewest:
        return None
    margins = _by_section(Z, penalty, changes, level, 0)
    inside = np.arange(region.start + 1, region.stop)
    if region.kind.most is None and np.isin(inside, margins.change_points).any():
        return None
    return int(inside[np.argmax(margins.gains[inside])])


def _by_section(
    Z: NDArray, penalty: float, changes: set[int], level: list[tuple[int, int]], tolerance: int
) -> BoundaryMargins:
    """Margins of all samples, from programs between known changes; those lose infinitely much."""
    Z = Z.copy()
    for start, stop in level:
        Z[start:stop] = Z[start:stop].mean(axis=0)
    ends: list[NDArray] = []
    losses: list[Any] = []
    gains: list[NDArray] = []
    for start, stop in pairwise([0, *sorted(changes), len(Z)]):
        form = LowRankForm(Z[start:stop]).shifted(-penalty)
        one = boundary_margins(form, tolerance=min(tolerance, stop - start - 1))
        ends.append(one.change_points + start)
        losses += [one.losses, [np.inf]]
        gains.append(one.gains)
    return BoundaryMargins(np.concatenate(ends), np.concatenate(losses[:-1]), np.concatenate(gains))


@dataclass
class Group:
    """Recordings with the same features, the learned model, and its validation."""

    recordings: list[Recording]
    solver: WarmStart = field(default_factory=WarmStart)
    learner: ChangePointMetricLearner | None = None
    calibration: Calibration | None = None
    validated: float | None = None

    @property
    def tolerance(self) -> int:
        """Rows in half a second, at least one: changes so near are the same."""
        return max(1, round(0.5 * self.recordings[0].rate))

    def known(self, annotations: Mapping[str, Sequence[Annotation]]) -> list[PartialPartition]:
        """The partial labels of the rows of every recording."""
        return [
            known_rows(annotations.get(one.name, ()), len(one.features), one.rate)
            for one in self.recordings
        ]

    def learn(self, known: list[PartialPartition]) -> None:
        """Learn a metric and a penalty from the stretches of which something is known.

        Partly labeled recordings are completed under the last metric, as in one turn of learning
        from partial labels; without one, turns are taken until nothing changes.
        """
        windows: list[NDArray] = []
        truths: list[Any] = []
        for one, partial in zip(self.recordings, known):
            for start, stop in _windows(partial):
                inside = partial.within(start, stop)
                windows.append(one.features[start:stop])
                truths.append(inside.segmentation() or inside)
        chosen = _some(windows)
        windows, truths = [windows[i] for i in chosen], [truths[i] for i in chosen]
        if self.learner is not None:
            pairs = list(zip(windows, truths))
            truths = [t if isinstance(t, Partition) else self._completed(X, t) for X, t in pairs]
        self.learner = _fitted(self.solver, windows, truths)
        if self.learner is None:
            self.calibration = self.validated = None

    def _completed(self, X: NDArray, known: PartialPartition) -> Partition:
        assert self.learner is not None
        penalty = float(self.learner.penalty_ or 0.0)
        margins, _ = segment_known(X, self.learner.components_, penalty, known)
        return Partition(ends=margins.change_points)

    def segment(self, known: list[PartialPartition]) -> list[tuple[BoundaryMargins, NDArray]]:
        """Best segmentation of every recording, and which of its changes are known."""
        if self.learner is None:
            one = [
                BoundaryMargins(np.array([k.n_samples]), np.zeros(0), np.zeros(0)) for k in known
            ]
            return [(margins, np.zeros(0, dtype=bool)) for margins in one]
        components, penalty = self.learner.components_, float(self.learner.penalty_ or 0.0)
        return [
            segment_known(one.features, components, penalty, partial, self.tolerance)
            for one, partial in zip(self.recordings, known)
        ]

    def probabilities(self, margins: BoundaryMargins) -> NDArray[np.float64]:
        """That changes are true: calibrated, or as long as little is known from loss and penalty.

        Then it is 1 − exp(−2 loss/penalty)/2: even where a change only just pays its penalty.
        """
        assert self.learner is not None
        relative = margins.losses / max(float(self.learner.penalty_ or 0.0), 1e-300)
        if self.calibration is None:
            return 1 - np.exp(-2 * np.minimum(relative, 300)) / 2
        return self.calibration.of(relative)

    def validate(self, known: list[PartialPartition]) -> None:
        """Held-out loss per known boundary, and how often held-out changes were right."""
        arrays, truths = [], []
        for one, partial in zip(self.recordings, known):
            for array, inside in known_stretches(one.features, partial):
                truth = inside.segmentation()
                if truth is not None and truth.n_samples > 2:
                    arrays.append(array)
                    truths.append(truth)
        chosen = _some(arrays)
        arrays, truths = [arrays[i] for i in chosen], [truths[i] for i in chosen]
        self.validated = self.calibration = None
        if len(truths) < 2:
            return
        loss, margins, held = 0.0, [], []
        for rest, left in KFold(min(_N_FOLDS, len(truths))).split(arrays):
            learner = _fitted(WarmStart(), [arrays[i] for i in rest], [truths[i] for i in rest])
            for i in left if learner is not None else ():
                one = learner.boundary_margins(arrays[i], tolerance=self.tolerance)
                loss += FrobeniusLoss().squared_norm(Partition(ends=one.change_points), truths[i])
                margins.append(replace(one, losses=one.losses / max(learner.penalty_, 1e-300)))
                held.append(truths[i])
        n_true = sum(truth.n_clusters - 1 for truth in held)
        self.validated = loss / n_true if n_true else None
        if sum(len(one.losses) for one in margins) >= _CALIBRATED:
            nothing = np.zeros((0, 0))
            self.calibration = Calibration.learn(margins, held, self.tolerance, nothing, None)


def _some(arrays: list[NDArray]) -> list[int]:
    """Places of arrays with about as many rows as are learned from, the same ones every time."""
    order = np.random.default_rng(0).permutation(len(arrays))
    before = np.cumsum([0, *(len(arrays[i]) for i in order)])[:-1]
    return sorted(order[before < _MOST_ROWS].tolist())


def _fitted(solver: WarmStart, arrays: list, truths: list) -> Any:
    """A learner fitted, or None where nothing can be learned yet."""
    if not any(_n_changes(truth) for truth in truths):
        return None
    learner = ChangePointMetricLearner(solver=solver, callbacks=[TimeLimit(_LONGEST)])
    with warnings.catch_warnings():  # with few labels
        warnings.simplefilter("ignore")
        learner.fit(arrays, truths)
    if not len(learner.components_) or not learner.penalty_:
        return None
    whole = all(isinstance(truth, Partition) for truth in truths)
    if whole and sum(map(_n_changes, truths)) < _FEW_CHANGES:
        # few labels leave a wide range of penalties with the least loss: the middle one errs least
        forms = [LowRankForm(X @ learner.components_.T) for X in arrays]
        learner.penalty_, _ = best_penalty(forms, truths)
    return learner


def _n_changes(truth: PartialPartition | Partition) -> int:
    if isinstance(truth, Partition):
        return truth.n_clusters - 1
    pieces = pieces_of(truth)
    return sum(len(ends) - 1 for _, ends in pieces.stretches) + sum(
        region.kind.fewest for region in pieces.regions
    )


def _windows(known: PartialPartition) -> list[tuple[int, int]]:
    """Stretches of which all is known, and those around other changes with some context."""
    spans = [(start, int(ends[-1])) for start, ends in pieces_of(known).stretches]
    settled = [(start, stop) for start, stop in spans if stop - start > 2]
    T = known.n_samples
    for start, stop in [(a, b) for a, b in spans if b - a <= 2] + [
        (region.start, region.stop) for region in pieces_of(known).regions
    ]:
        before = max([b for _, b in settled if b <= start + 1], default=0)
        after = min([a for a, _ in settled if a >= stop - 1], default=T)
        settled.append((max(before - 1, start - _CONTEXT, 0), min(after + 1, stop + _CONTEXT, T)))
    return sorted(settled)


def compile_programs() -> None:
    """Learn once from nearly nothing, so that the first correction does not wait for numba."""
    X = np.repeat([[0.0], [1.0]], 4, axis=0) + np.arange(8.0)[:, None] % 2 / 10
    known = PartialPartition(8, change_points=[4], same=[(0, 3)])
    learner = _fitted(WarmStart(), [X], [known])
    if learner is not None:
        segment_known(X, learner.components_, 0.1, known)


class Loop:
    """A thread that learns whenever annotations have changed, and what it has learned last.

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
        self._thread = Thread(target=self._run, daemon=True)
        self._wanted = True

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Say that annotations have changed."""
        with self._changed:
            self._wanted = True
            self._changed.notify_all()

    def wait(self, serial: int, seconds: float) -> dict[str, Any]:
        """The latest model, as soon as it is newer than number ``serial``."""
        with self._changed:
            self._changed.wait_for(lambda: self.learned["serial"] != serial, seconds)
            return self.learned

    def _run(self) -> None:
        compile_programs()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted)
                self._wanted = False
            try:
                self.learn_once()
            except Exception as error:  # is told on the page, which goes on
                self._publish({**self.learned, "error": f"{type(error).__name__}: {error}"})

    def learn_once(self) -> None:
        """Learn and segment, tell; suggest and validate, tell again, unless there is news."""
        begun = time.perf_counter()
        with self.project.lock:
            revision, annotations = self.project.revision, dict(self.project.annotations)
        knowns = [group.known(annotations) for group in self.groups]
        for group, known in zip(self.groups, knowns):
            group.learn(known)
        result = self._segmented(knowns, annotations) | {"revision": revision, "busy": True}
        result["seconds"] = time.perf_counter() - begun
        self._publish(result | {"suggestions": []})
        if self._wanted:
            return
        asked = [_suggested(group, known) for group, known in zip(self.groups, knowns)]
        # gains of groups cannot be compared; those with a model come first
        order = sorted(range(len(asked)), key=lambda i: self.groups[i].learner is None)
        suggestions = list(chain(*(asked[i] for i in order)))
        self._publish(result | {"suggestions": suggestions})
        for group, known in zip(self.groups, knowns):
            if self._wanted:
                return
            group.validate(known)
        result |= self._segmented(knowns, annotations)  # with probabilities learned since
        self._remember(result, annotations)
        self._publish(result | {"suggestions": suggestions, "busy": False})

    def _publish(self, result: dict[str, Any]) -> None:
        with self._changed:
            self.learned = result | {
                "serial": self.learned["serial"] + 1,
                "curve": list(self.project.curve),
            }
            self._changed.notify_all()

    def _segmented(
        self, knowns: list[list[PartialPartition]], annotations: Mapping[str, Sequence[Annotation]]
    ) -> dict[str, Any]:
        recordings: dict[str, Any] = {}
        doubts, n_doubted = 0.0, 0
        for group, known in zip(self.groups, knowns):
            answers = group.segment(known) if group.learner is not None else []
            states = _states(group, annotations) if group.learner is not None else None
            for one, (margins, sure) in zip(group.recordings, answers):
                ends = margins.change_points
                likely = np.where(sure, 1.0, group.probabilities(margins))
                doubts, n_doubted = doubts + float(np.sum(1 - likely)), n_doubted + np.sum(~sure)
                reach = margins.intervals(margins.typical_score) / one.rate
                labels = []
                if states is not None:
                    named = states.of(one.features, Partition(ends=ends), None, None)
                    labels = named[ends - 1].tolist()
                recordings[one.name] = {
                    "boundaries": (ends[:-1] / one.rate).tolist(),
                    "confidence": np.round(likely, 3).tolist(),
                    "reach": reach.tolist(),
                    "labels": labels,
                }
        expected = doubts / n_doubted if n_doubted else None
        return {"recordings": recordings, "expected": expected}

    def _remember(
        self, result: dict[str, Any], annotations: Mapping[str, Sequence[Annotation]]
    ) -> None:
        """Add a point to the curve, in the place of one with as much annotated."""
        stretches = [one for many in annotations.values() for one in many]
        seconds = round(sum(one.end - one.start for one in stretches), 3)
        validated = [g.validated for g in self.groups if g.validated is not None]
        mean = float(np.mean(validated)) if validated else None
        point = {"seconds": seconds, "expected": result["expected"], "validated": mean}
        curve = self.project.curve
        if curve and curve[-1]["seconds"] == seconds:
            curve.pop()
        if result["expected"] is not None or mean is not None:
            curve.append(point)


def _states(group: Group, annotations: Mapping[str, Sequence[Annotation]]) -> States | None:
    """What labeled segments look like under the learned metric, if there are two labels."""
    arrays, labels = [], []
    for one in group.recordings:
        for given in annotations.get(one.name, ()):
            rows = one.features[round(given.start * one.rate) : round(given.end * one.rate)]
            if given.kind == "segment" and len(rows):
                arrays.append(rows)
                labels.append(np.full(len(rows), given.label, dtype=object).astype(str))
    if len({label[0] for label in labels}) < 2 or group.learner is None:
        return None
    return States.learn(group.learner.components_, arrays, labels, True)


def _suggested(group: Group, known: list[PartialPartition]) -> list[dict[str, Any]]:
    """Stretches worth labeling, in seconds."""
    rate = group.recordings[0].rate
    shortest = min(len(one.features) for one in group.recordings)
    length = int(max(2, min(_JUDGED * rate, shortest / 4)))
    found = suggest(
        [one.features for one in group.recordings],
        known,
        n=_N_SUGGESTED,
        length=length,
        learner=group.learner,
        strategy="margin" if group.learner is not None else "diversity",
    )
    return [
        {
            "recording": group.recordings[one.recording].name,
            "start": one.start / rate,
            "end": one.stop / rate,
            "gain": float(one.gain),
        }
        for one in found
    ]
