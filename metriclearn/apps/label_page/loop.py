"""The loop of the label page: learn after every correction, show the result, and suggest the next
stretch."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain, starmap
from threading import Condition, Thread
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metriclearn import suggest
from metriclearn.apps.label_page.annotation import Annotation
from metriclearn.apps.label_page.learning.check import Check
from metriclearn.apps.label_page.learning.group import Group, compile_programs
from metriclearn.apps.label_page.learning.model import Model
from metriclearn.apps.label_page.learning.pieces import Given
from metriclearn.apps.label_page.project import Project
from metriclearn.apps.label_page.shown import exact_times
from metriclearn.apps.label_page.signals import Recording

_N_SUGGESTED = 5
_JUDGED = 20.0  # longest stretch, in seconds, that a person judges at once
_RECENT = 10.0  # seconds


class _Learned(NamedTuple):
    """The basis of the current model: the annotations, and the labels of every group."""

    annotations: Mapping[str, Sequence[Annotation]]
    given: list[Given]


class _Outdated(Exception):
    """A check is abandoned, because labels have changed."""


class Loop:
    """A thread that learns each time annotations have changed.

    ``learned`` holds the latest result.

    Parameters
    ----------
    project : Project
        The annotations.
    recordings : sequence of Recording
        The recordings of the folder.
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
        self._learned = self._checked = _Learned({}, [])
        self._check_ended = -math.inf

    def wake(self) -> None:
        """Tell the thread to learn again, because annotations have changed."""
        with self._changed:
            self._wanted = True
            self._changed.notify_all()

    def _run(self) -> None:
        with suppress(Exception):  # an error here also occurs below, and is shown on the page
            compile_programs()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted)
            try:
                self._learn()
                while self._checked is not self._learned:
                    self._check()
            except Exception as error:  # the page shows it, and learning continues
                problem = f"{type(error).__name__}: {error}"
                self._publish({**self.learned, "error": problem, "busy": False})

    def _learn(self) -> None:
        """Learn from all annotations, segment, and suggest. Each result is shown at once."""
        begun = time.perf_counter()
        self._wanted = False
        with self.project.lock:
            revision, annotations = self.project.revision, dict(self.project.annotations)
        given = [group.given(annotations) for group in self.groups]
        for group, labels in zip(self.groups, given):
            group.learn(labels)
        self._learned = _Learned(annotations, given)
        result = self._segmented() | {"revision": revision, "busy": True}
        result["seconds"] = time.perf_counter() - begun
        self._publish(result | {"suggestions": []})
        # gains of different groups are not comparable; groups with a model come first
        order = sorted(zip(self.groups, given), key=lambda pair: pair[0].model is None)
        self._publish(result | {"suggestions": list(chain(*starmap(_suggested, order)))})

    def _pause(self) -> None:
        """Learn from annotations that came during a check.

        The check then continues with its own labels. If another check has just ended, this check
        stops, and a new one begins with the newest labels.
        """
        if self._wanted:
            self._learn()
            if time.monotonic() < self._check_ended + _RECENT:
                raise _Outdated

    def _check(self) -> None:
        """Check the newest model, and show how certain it is."""
        checked = self._learned
        try:
            for group, labels in zip(self.groups, checked.given):
                group.validate(labels, self._pause)
        except _Outdated:
            return
        self._checked, self._check_ended = checked, time.monotonic()
        result = self.learned | self._segmented()  # with the new probabilities
        self._remember(result, checked.annotations)
        self._publish(result | {"busy": checked is not self._learned})

    def _publish(self, result: dict[str, Any]) -> None:
        serial = self.learned["serial"] + 1
        self.learned = result | {"serial": serial, "curve": list(self.project.curve)}

    def _segmented(self) -> dict[str, Any]:
        """Segment the recordings whose model is shown, and count what the others need.

        Also compute the expected fraction of wrong boundaries.
        """
        recordings: dict[str, Any] = {}
        doubts: list[NDArray] = []
        annotations, given = self._learned
        for group, labels in zip(self.groups, given):
            if not group.is_shown or group.model is None:
                continue
            found = zip(group.recordings, group.segment(labels), labels.codes)
            for one, margins, codes in found:
                mine = annotations.get(one.name, ())
                ends, likely = margins.change_points, group.probabilities(margins.losses)
                doubts.append(1 - likely[np.isfinite(margins.losses)])
                names, sure = group.model.named(one.features, ends, codes)
                recordings[one.name] = {
                    "boundaries": exact_times(ends[:-1].tolist(), mine, one.rate),
                    "confidence": np.round(likely, 3).tolist(),
                    "reach": (margins.intervals(margins.typical_score) / one.rate).tolist(),
                    "labels": names,
                    "sure": sure,
                }
        doubted = np.concatenate([np.zeros(0), *doubts])
        hidden = [group for group in self.groups if not group.is_shown]
        return {
            "recordings": recordings,
            "missing": {
                one.name: group.judgment.missing for group in hidden for one in group.recordings
            },
            "expected": float(doubted.mean()) if len(doubted) else None,
        }

    def _remember(
        self, result: dict[str, Any], annotations: Mapping[str, Sequence[Annotation]]
    ) -> None:
        """Add a point to the curve, or replace the last point if the annotated time is equal."""
        stretches = chain(*annotations.values())
        seconds = round(float(sum(one.end - one.start for one in stretches)), 3)
        checked = sum((group.judgment.checked or Check() for group in self.groups), start=Check())
        point = {"seconds": seconds, "expected": result["expected"], **checked.as_json()}
        curve = self.project.curve
        if curve and curve[-1]["seconds"] == seconds:
            curve.pop()
        if len(point) > 2 or result["expected"] is not None:
            curve.append(point)


def strategy_for(model: Model | None) -> str:
    """Choose the strategy by which :func:`suggest` selects stretches.

    The strategy is "diversity" without a model, "margin" with a model that has no names, and
    "combined" with a model that has names. "combined" draws every second stretch at random. Names
    are learned best from all kinds of stretches, but "margin" selects the same doubtful kinds again
    and again. For the training users of the data set HAPT, the fraction of rows with the right name
    was .85 with "margin" and .91 with "combined".
    """
    if model is None:
        return "diversity"
    return "margin" if model.names is None else "combined"


def _suggested(group: Group, given: Given) -> list[dict[str, Any]]:
    """Suggest which stretches of a group to label next. Starts and ends are in seconds."""
    rate = group.recordings[0].rate
    found = suggest(
        group.seen.rows,
        given.partial,
        n=_N_SUGGESTED,
        length=int(max(2, min(_JUDGED * rate, max(map(len, group.seen.rows)) / 4))),
        learner=group.model and group.model.learner,
        strategy=strategy_for(group.model),
    )
    recordings = group.recordings
    return [
        {"recording": recordings[i].name, "start": start / rate, "end": stop / rate, "gain": gain}
        for i, start, stop, gain in found
    ]
