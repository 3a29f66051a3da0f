"""Learn from all labels of the label page, and segment all recordings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metriclearn import PartialPartition
from metriclearn.apps.label_page.annotation import Annotation, partial_labels
from metriclearn.apps.label_page.learning.check import Judgment
from metriclearn.apps.label_page.learning.model import Breaks, Model, fitted
from metriclearn.apps.label_page.learning.pieces import Given, pieces_to_learn, pieces_to_tune
from metriclearn.apps.label_page.learning.row_names import Names, names_of_rows
from metriclearn.apps.label_page.learning.seen import Seen
from metriclearn.apps.label_page.signals import Recording
from metriclearn.estimators import Calibration
from metriclearn.oracles import BoundaryMargins


@dataclass
class Group:
    """Recordings with the same features, the model learned from them, and its check.

    The metric of the model is the best metric that was found in ``patience`` seconds. From the
    check on which it is better than one segment, its segments are shown.

    Attributes
    ----------
    seen : Seen
        What the metric sees of the recordings.
    judgment : Judgment
        The result of the last check.
    """

    recordings: list[Recording]
    model: Model | None = None
    patience: float = 1.0
    seen: Seen = field(init=False)
    judgment: Judgment = field(default_factory=Judgment, init=False)

    def __post_init__(self) -> None:
        self.seen = Seen([one.features for one in self.recordings])

    @property
    def is_shown(self) -> bool:
        """Whether the model was better than one segment on stretches that it had not learned."""
        return self.model is not None and not self.judgment.missing

    def given(self, annotations: Mapping[str, Sequence[Annotation]]) -> Given:
        """Convert annotations to partial labels of the rows of each recording."""
        partial = [
            partial_labels(annotations.get(one.name, ()), len(one.features), one.rate)
            for one in self.recordings
        ]
        return Given(partial, *names_of_rows(self.recordings, annotations))

    def learn(self, given: Given) -> None:
        """Learn a metric and a penalty from the labeled stretches, and names from labeled rows.

        A metric can be learned from a partly labeled stretch only after its missing labels have
        been predicted. If there is no model yet, prediction and learning alternate until nothing
        changes. Otherwise the current model predicts the labels, and a new metric is learned once.
        """
        seen = self.seen.suited([one.features for one in self.recordings], given.partial)
        model = self.model if seen is self.seen else None
        pieces = pieces_to_learn(seen.rows, given.partial)
        if model is not None:
            score = model.learner.score_
            for i, (X, truth) in enumerate(pieces):
                if isinstance(truth, PartialPartition):
                    pieces[i] = X, score.segment(X, known=truth)
        around = pieces_to_tune(seen.rows, given.partial, seen.context)
        learner = fitted(pieces, around, self.patience)
        found = None
        if learner is not None:
            names = Names.learn(given.names, self.recordings, given.codes)
            found = Model(learner, names, self.judgment.is_joint)
        # together, so that after an error the next correction begins with the same
        self.seen, self.model = seen, found

    def segment(self, given: Given) -> list[BoundaryMargins]:
        """Find the best segmentation of each recording that agrees with the labels."""
        assert self.model is not None
        return [
            self.model.margins(rows, one.features, partial, one.tolerance, codes)
            for rows, one, partial, codes in zip(
                self.seen.rows, self.recordings, given.partial, given.codes
            )
        ]

    def probabilities(self, losses: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the probability that each change is correct, from the loss of the change.

        Probabilities are calibrated if there are enough labels that can be held out. A change that
        the labels require has an infinite loss and the probability 1.
        """
        assert self.model is not None
        relative, calibration = losses / self.model.learner.penalty_, self.judgment.calibration
        likely = Calibration.uncalibrated if calibration is None else calibration.of
        return np.where(np.isinf(losses), 1.0, likely(relative))

    def validate(self, given: Given, pause: Callable[[], None] = lambda: None) -> None:
        """Judge models that were not trained on a part of the labels, see :class:`Judgment`.

        From then on, the model of the group uses names as the better variant does. ``pause`` is
        called often: meanwhile the group may learn from newer labels.
        """
        breaks = Breaks(pause)
        # the group may have learned from labels that are newer, and suit other windows
        seen = self.seen.suited([one.features for one in self.recordings], given.partial)
        self.judgment = Judgment.of(self.recordings, seen, given, self.patience, breaks)
        if self.model is not None:
            self.model = replace(self.model, is_joint=self.judgment.is_joint)


def compile_programs() -> None:
    """Learn once from very few rows, so that programs are compiled before the first correction."""
    X = np.repeat([[0.0], [1.0]], 4, axis=0) + np.arange(8.0)[:, None] % 2 / 10
    labels = PartialPartition(8, change_points=[4], same=[(0, 3)])
    codes = np.repeat([0, 1], 4)
    names = Names.learn(["a", "b"], [Recording("", "table", Path(), X, ["x"], 1.0, 8.0)], [codes])
    for model in (
        Model(fitted([(X, labels)], [], 1.0), names, is_joint) for is_joint in (False, True)
    ):
        model.margins(X, X, labels, 1, codes)
