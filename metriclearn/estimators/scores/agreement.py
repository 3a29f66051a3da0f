"""Agreement: many scores with weights, and the segmentation with the least expected loss."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from metriclearn.estimators.scores.segment_score import SegmentScore
from metriclearn.estimators.scores.segmenting import MahalanobisSegmenter
from metriclearn.indices.boundaries import near
from metriclearn.oracles.expected_loss import best_consensus
from metriclearn.problem.consensus_form import ConsensusForm
from metriclearn.problem.named_segments import NamedPartition
from metriclearn.problem.partial_labels import PartialPartition
from metriclearn.problem.partition import Partition
from metriclearn.running.executors import in_threads
from metriclearn.views.plain import leaves_out, rows_of


@dataclass(frozen=True, eq=False)
class ModelScore:
    """The score of a model that predicts without a :class:`SegmentScore`.

    Attributes
    ----------
    model : fitted segmenter with ``read_data`` and ``segmented``
    view : fitted view or None
        Computes the rows that the model sees.
    """

    model: Any
    view: Any = None
    has_choice: ClassVar[bool] = False

    def behind(self, view: Any) -> ModelScore:
        """Return the same score for recordings from which a fitted view computes its rows."""
        return ModelScore(self.model, view)

    @property
    def classes(self) -> NDArray | None:
        """The names that the model predicts, or None."""
        return getattr(self.model, "classes_", None)

    def segment(self, X: NDArray, count: int | None = None) -> Partition:
        """Segment a recording."""
        rows = rows_of(self.view, X)
        return self.model.segmented(self.model.read_data([rows]), count)[0]

    def refusal_of_streams(self) -> str:
        """Return what this score lacks for a stream, and the remedy."""
        return f"a model with a score for a stream, got {self.model!r}; leave it out."


def score_of(model: Any) -> Any:
    """Return the score of a fitted segmenter."""
    score = getattr(model, "present_score", None)
    return ModelScore(model) if score is None else score


def bear_threads(scores: Iterable[Any]) -> bool:
    """Tell whether scores may answer in several threads at once; other models may not."""
    return all(isinstance(score, SegmentScore) for score in scores)


def answers_of(
    scores: Sequence[Any],
    fits: Sequence[int],
    X: NDArray,
    count: int | None = None,
    classes: NDArray | None = None,
    seen: dict[Any, NDArray] | None = None,
) -> list[Partition]:
    """Segment a recording by every score.

    Parameters
    ----------
    scores : sequence of SegmentScore or ModelScore
    fits : sequence of int
        Scores with the same number come from the same fit, and differ in their penalties only. The
        recording is read once for them.
    X : array (T, P)
    count : int, optional
        The number of segments, for scores with a metric, or for all if none has one.
    classes : array (C,), optional
        All names; names in the results are codes of these. None if names do not matter.
    seen : dict, optional
        The rows that fitted views have computed of this recording.

    Warns
    -----
    UserWarning
        About segments of a few samples, which says nothing of an answer of several scores.
    """
    # A given number cannot rest on names alone, if other scores have a metric.
    alone = [getattr(score, "is_of_names_alone", False) for score in scores]
    seen = {} if seen is None else seen
    answers: list[Any] = [None] * len(scores)
    # Fit by fit, so that only one reading is in memory.
    order = sorted(range(len(scores)), key=fits.__getitem__)
    for _, group in groupby(order, key=fits.__getitem__):
        reading, forms, asked = None, dict[Any, Any](), []
        for j in group:
            score = scores[j]
            if not isinstance(score, SegmentScore) or leaves_out(score.view):
                answers[j] = score.segment(X, count)
                continue
            reading = score.read(X, seen) if reading is None else reading
            if score.unit not in forms:
                forms[score.unit] = score.form_of(reading)
            wanted = None if score.is_of_names_alone and not all(alone) else count
            asked.append((j, forms[score.unit], wanted))
        best = in_threads(lambda one: scores[one[0]].best(*one[1:]), asked)
        for (j, *_), found in zip(asked, best):
            answers[j] = found
    for j, found in enumerate(answers):
        if isinstance(found, NamedPartition) and classes is not None:
            codes = np.searchsorted(classes, scores[j].classes)
            answers[j] = NamedPartition(found.change_points, codes[found.names])
        elif type(found) is not Partition:
            answers[j] = Partition(ends=found.change_points)
    return answers


@dataclass(frozen=True, eq=False)
class Agreement:
    """Scores with weights. N_j is what score j predicts for a recording, and q_j its weight.

    The answer is argmin_M Σ_j q_j ‖M − N_j‖²_F. An exact dynamic program over the segment ends of
    all N_j finds it, see :mod:`metriclearn.oracles.expected_loss`. If scores predict names, the
    program also finds the names of segments.

    Attributes
    ----------
    scores : list of SegmentScore or ModelScore
    fits : list of int
        Scores with the same number differ in their penalties only.
    families : list of str
        The family of each score.
    weights : array (scores,)
        q, with sum one.
    classes : array (C,) or None
        The sorted names, if names are predicted.
    name_loss : float
        β, which is added to ‖M − N_j‖² for every sample whose name differs from the name by score
        j.
    name_weights : array (scores,), optional
        The weights of the names; by default q.
    shift : float
        c: each segment is worth c more, because a compromise of scores that disagree has too few.

    See Also
    --------
    metriclearn.Segmenter : learns the scores and their weights.

    Examples
    --------
    >>> from metriclearn import ChangePointMetricLearner, Segmenter
    >>> from metriclearn.datasets import make_change_points
    >>> data = make_change_points(n_features=5, n_relevant=3, random_state=0)
    >>> members = {"diagonal": [ChangePointMetricLearner()]}
    >>> segmenter = Segmenter(members, n_folds=3).fit(data.sequences, data.labels)
    >>> len(segmenter.agreement_.scores), round(float(segmenter.agreement_.weights.sum()), 9)
    (24, 1.0)
    """

    scores: list[Any] = field(repr=False)
    fits: list[int] = field(repr=False)
    families: list[str] = field(repr=False)
    weights: NDArray[np.float64]
    classes: NDArray | None = None
    name_loss: float = 0.0
    name_weights: NDArray[np.float64] | None = None
    shift: float = 0.0

    def form(self, X: NDArray, count: int | None = None) -> ConsensusForm:
        """Return the form that the answer for a recording maximizes."""
        found = answers_of(self.scores, self.fits, X, count, self.classes)
        form = ConsensusForm(found, self.weights, self.name_loss, self.name_weights)
        return form.shifted(self.shift)

    def answer(
        self, X: NDArray, count: int | None = None, known: Any = None
    ) -> tuple[ConsensusForm, Partition]:
        """Find the best segmentation of a recording, of those that agree with ``known``.

        Returns the form, too. The answer of a single score is its own best segmentation.
        """
        first, *others = self.scores
        if others or not isinstance(first, SegmentScore):
            form = self.form(X, count)
            return form, best_consensus(form, count, known)
        found = first.segment(X, count, known)
        if self.classes is None:
            found = Partition(ends=found.change_points)
        return ConsensusForm([found], self.weights, self.name_loss), found

    def alone(self, j: int) -> Agreement:
        """Return score j alone."""
        score, one = self.scores[j], np.ones(1)
        return Agreement([score], [0], [self.families[j]], one, score.classes, self.name_loss)

    @property
    def min_size(self) -> int:
        """The largest of the smallest sizes of segments."""
        return max(getattr(score, "min_size", 1) for score in self.scores)

    def follower(self) -> Agreement:
        """Return the score with the largest weight of those that can follow a stream.

        If the agreement has names, a score with names is taken where there is one.

        Raises
        ------
        ValueError
            If none can.
        """
        named = self.classes is not None
        nameless = np.array([named and one.classes is None for one in self.scores])
        for j in np.lexsort((-self.weights, nameless)).tolist():
            if self.scores[j].refusal_of_streams() is None:
                return self.alone(j)
        raise ValueError(
            "A stream needs a model that can follow it, got none; fit with for_streams=True, and a "
            "member with a metric, such as ChangePointMetricLearner()."
        )

    def refusal_of_streams(self) -> str | None:
        """Return which scores cannot follow a stream, and the remedy; None if all can."""
        refused: dict[str, list[str]] = {}
        for family, score in zip(self.families, self.scores):
            if (lacking := score.refusal_of_streams()) is not None:
                refused.setdefault(family, []).append(lacking)
        if not refused:
            return None
        listed = ", ".join(f"{len(some)} of {name}" for name, some in refused.items())
        reason = next(iter(refused.values()))[0].rstrip(".")
        return (
            f"models that can all follow a stream, but of {len(self.scores)} these cannot: "
            f"{listed} (the first needs {reason}); fit with for_streams=True and members that can, "
            "or take follower().stream() for the best single model."
        )


@dataclass(eq=False, repr=False)
class Scored(MahalanobisSegmenter):
    """A fitted segmenter that has nothing but a score."""

    score_: SegmentScore
    n_features_in_: int

    n_segments = None

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Return this segmenter: its score is given."""
        return self

    @property
    def present_score(self) -> SegmentScore:  # type: ignore[override]
        """The score."""
        return self.score_

    @property
    def min_size(self) -> int:  # type: ignore[override]
        """The smallest number of samples in a segment."""
        return self.score_.min_size


@dataclass(frozen=True, eq=False)
class BoundaryRates:
    """How often boundaries of an agreement were true, by the share of scores that have them.

    Attributes
    ----------
    distances : array (boundaries, 1 + m)
        Distances from boundaries of answers in labeled stretches. The first column is the distance
        to the nearest true boundary, and there is one more for each of m predictions: the distance
        to the nearest boundary that it has.
    weights : array (m,)
        The weights of the predictions.
    edges : array (boundaries,) or float
        The distance to the nearest row without a label. By default, all rows have labels.
    """

    distances: NDArray[np.float64]
    weights: NDArray[np.float64]
    edges: NDArray[np.float64] | float = np.inf

    @classmethod
    def none(cls) -> BoundaryRates:
        """Know nothing."""
        return cls(np.empty((0, 2)), np.ones(1))

    @classmethod
    def learn(
        cls,
        found: Sequence[Partition],
        answers: Sequence[Sequence[Partition]],
        truths: Sequence[Partition | PartialPartition],
        weights: NDArray,
    ) -> BoundaryRates:
        """Measure the distances in all stretches whose labels are known."""
        rows = [np.empty((0, 2 + len(weights)))]
        for best, some, truth in zip(found, answers, truths):
            given = [one.change_points[:-1] for one in some]
            for start, ends in truth.pieces.stretches:
                inner, stop = best.change_points[:-1], ends[-1]
                inner = inner[(inner > start) & (inner < stop), None]
                edges = np.array([edge for edge in (start, stop) if 0 < edge < truth.n_samples])
                targets = [np.append(one, np.inf) for one in (edges, ends[:-1], *given)]
                rows.append(
                    np.array([np.abs(inner - e).min(axis=1, initial=np.inf) for e in targets]).T
                )
        every = np.concatenate(rows)
        return cls(every[:, 1:], weights, every[:, 0])

    def known(self, tolerance: int) -> NDArray[np.float64]:
        """Return the distances of boundaries for which labels tell whether they are true."""
        return self.distances[np.broadcast_to(self.edges, len(self.distances)) > tolerance]

    def of(self, shares: NDArray, tolerance: int) -> NDArray[np.float64]:
        """Return the probabilities of boundaries with these shares, by a logistic regression.

        The regression predicts from the log odds of the shares whether a boundary is true, that is,
        has a true boundary within the tolerance. If all n boundaries are true, or none, there is
        nothing to regress on, and the rate is (n + 1) / (n + 2), or 1 / (n + 2), for all shares.
        """
        close = self.known(tolerance) <= tolerance
        true = close[:, 0]
        if len(np.unique(true)) < 2:
            return np.full(len(shares), (true.sum() + 1) / (len(true) + 2))
        if not len(shares):
            return shares
        curve = LogisticRegression().fit(_log_odds(close[:, 1:] @ self.weights), true)
        return curve.predict_proba(_log_odds(shares))[:, 1]


def shares_of(form: ConsensusForm, found: Partition, tolerance: int = 0) -> NDArray[np.float64]:
    """Return the total weight of the scores that agree with each predicted change-point."""
    total = np.zeros(found.n_clusters - 1)
    for q, member in zip(form.weights, form.members):
        total += q * near(found.change_points[:-1], member.change_points[:-1], tolerance)
    return total


def loss_without_names(form: ConsensusForm, found: Partition) -> float:
    """Compute the expected loss of a segmentation if wrong names add nothing to the loss."""
    plain = copy.copy(form)
    plain.name_loss = 0.0
    return plain.expected_loss(found)


def _log_odds(shares: NDArray) -> NDArray[np.float64]:
    """Return log(q / (1 − q)) as a column for shares q, which are clipped to [.01, .99]."""
    inside = np.clip(shares, 0.01, 0.99)[:, None]
    return np.log(inside / (1.0 - inside))
