"""FrameClassifier: a classifier of single samples, smoothed over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from metriclearn.estimators.data_sets import DataSets
from metriclearn.estimators.labelings import (
    read_groups,
    read_labeled,
    read_labelings,
    read_names,
)
from metriclearn.estimators.scores.segment_score import SegmentScore
from metriclearn.estimators.scores.stream import Streaming
from metriclearn.estimators.scores.without_metric import SegmenterWithoutMetric
from metriclearn.oracles.change_points import ChangePoints
from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.losses import ChargedForm, KnownLoss
from metriclearn.problem.named_segments import NamedPartition, NameScores
from metriclearn.running.parameters import Of, OneOf, Real, Whole, shown
from metriclearn.views.gaps import Labels
from metriclearn.views.neighbors import StandardWindows
from metriclearn.views.posteriors import LEAST, Posteriors, default_classifier, same_each_time

# Candidates that are compared on groups left out: penalties of a switch in nats, widths in samples.
_PENALTIES = np.geomspace(0.25, 256.0, 21)
_WIDTHS = np.array([1, 3, 5, 7, 11, 15, 21, 31, 45, 63, 91, 127])


@dataclass(frozen=True, eq=False)
class FrameScores:
    """Log-probabilities of names from a fitted classifier, as the scores of names."""

    windows: StandardWindows
    classifier: Any
    classes: NDArray
    transitions: ClassVar[None] = None

    @property
    def reach(self) -> tuple[int, int]:
        """Samples before and after a sample that its scores depend on."""
        return self.windows.context, self.windows.context

    def scores(self, X: NDArray) -> NDArray[np.float64]:
        """Compute the log-probability of every name in every sample, (T, C).

        Very small probabilities are replaced by a positive lower bound, so all values are finite.
        """
        rows = self.windows.transform(X)
        probabilities = np.zeros((len(rows), len(self.classes)))
        probabilities[:, self.classifier.classes_] = same_each_time(self.classifier, rows)
        return np.log(np.maximum(probabilities, LEAST))


@dataclass(eq=False, repr=False)
class FrameClassifier(Streaming, SegmenterWithoutMetric):
    """Classify every sample together with its neighbors in time, then smooth the names.

    Frame classification is the standard way to find segments with names. A classifier of
    scikit-learn predicts the name of every sample from a window of features. Then the names are
    smoothed: by the Viterbi algorithm, with a penalty for every change of name, or by the most
    frequent name within a moving window. By default, we choose the penalty or the width of the
    window with the least mean loss ‖M − N‖²_F on groups that are left out in turn. At the end, the
    classifier is fitted to all recordings.

    Parameters
    ----------
    classifier : classifier of scikit-learn with ``predict_proba``, optional
        A random forest of 200 trees by default.
    context : int
        Number of neighbors on each side.
    smoothing : "viterbi" or "mode"
        The Viterbi algorithm, or the most frequent name in a window.
    amount : "tuned" or number
        The penalty of a change of name in nats, or the width of the window in samples; an even
        width is increased by one.
    n_folds : int
        Number of folds, at most one per group.

    Attributes
    ----------
    classes_ : array (C,)
        The labels, sorted.
    classifier_ : fitted classifier
    penalty_ : float or None
        Penalty of a change of name, in nats; None if ``smoothing`` is "mode".
    width_ : int or None
        Width of the window, in samples; None if ``smoothing`` is "viterbi".
    losses_ : array (candidates,) or None
        Mean loss on the groups left out, for every penalty or width that was tried. None if
        ``amount`` is a number.

    Raises
    ------
    ValueError
        For parameters, data or labels that cannot be used, and for predictions before ``fit``.

    See Also
    --------
    metriclearn.NamedSegmentLearner : learns boundaries and names together.

    References
    ----------
    Forney, The Viterbi algorithm, Proceedings of the IEEE 61, 1973.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.baselines import FrameClassifier
    >>> rng, labels = np.random.default_rng(0), np.repeat(["sit", "walk", "sit"], 20)
    >>> X = [rng.normal(size=(60, 2)) + 3.0 * (labels == "walk")[:, None] for _ in range(4)]
    >>> segmenter = FrameClassifier(context=1).fit(X, [labels] * 4)
    >>> segmenter.predict_change_points(X[0]).tolist()
    [20, 40, 60]
    """

    classifier: Annotated[Any, Of("predict_proba", "RandomForestClassifier()", optional=True)] = (
        None
    )
    context: Annotated[int, Whole(0, 10**6)] = 4
    _: KW_ONLY
    smoothing: Annotated[str, OneOf("viterbi", "mode")] = "viterbi"
    amount: Annotated[str | float, OneOf("tuned", Real())] = "tuned"
    n_folds: Annotated[int, Whole(2)] = 5

    def fit(self, X: Any, y: Any, groups: ArrayLike | None = None) -> Self:
        """Learn from labeled recordings. A label must mean the same in all recordings.

        Parameters
        ----------
        X : sequence of (T_i, P) arrays, or a single one
        y : (T_i,) labels for each sequence, −1 where unknown
        groups : array (N,), optional
            Group of every recording, such as the user who recorded it; the recordings of a group
            are left out together.
        """
        fitted, data, truths = read_labeled(self, X, y, segments=True, partial=True)
        who, arrays = type(self).__name__, data.arrays
        codes, classes = read_names(who, y, data, truths)
        if len(classes) < 2:
            raise ValueError(
                f"{who} needs two names and more to tell apart, got {classes[0]!r} only; use "
                "ChangePointMetricLearner for boundaries without names."
            )
        classifier = default_classifier() if self.classifier is None else self.classifier
        labels, losses, chosen = np.concatenate(codes), None, self.amount
        if chosen == "tuned":
            alone = np.zeros(1, dtype=np.int64)
            units = read_groups(who, groups, len(arrays)) if len(arrays) > 1 else alone
            view = Posteriors(classifier, self.context, self.n_folds)
            held_out = view.fit_transform(arrays, Labels(truths, codes, classes), units)
            chosen, losses = self._least_loss(held_out, truths)
        fitted.windows_ = StandardWindows.of(self.context, arrays)
        rows = np.vstack(list(map(fitted.windows_.transform, arrays)))[labels >= 0]
        fitted.classifier_ = clone(classifier).fit(rows, labels[labels >= 0])
        fitted.classes_, fitted.losses_ = classes, losses
        self.__dict__ = fitted._set(float(chosen)).__dict__
        return self

    def tune_penalty(self, X: Any, y: Any) -> Self:
        """Set the penalty or width that has the least mean loss on labeled recordings.

        Parameters
        ----------
        X : sequence of (T_i, P) arrays
            Recordings that were not used for training.
        y : (T_i,) labels, change-points or partial labels, for each sequence
        """
        self.tune_together([self], [(X, y)])
        return self

    @staticmethod
    def tune_together(models: Sequence[FrameClassifier], parts: Sequence[tuple[Any, Any]]) -> None:
        """Set the same penalty or width for several models.

        Each model predicts its own part of the data. The penalty or width with the least mean loss
        over all parts is chosen.

        Parameters
        ----------
        models : sequence of FrameClassifier
            Fitted models with the same parameters.
        parts : sequence of (X, y)
            Recordings and labels, as for :meth:`tune_penalty`. The first pair is for the first
            model, and so on. There may be fewer pairs than models. All models get the same penalty
            or width.
        """
        listed = isinstance(models, (list, tuple)) and isinstance(parts, (list, tuple))
        if not listed or not all(isinstance(model, FrameClassifier) for model in models):
            raise ValueError(
                "FrameClassifier needs a list of fitted models and a list of pairs (X, y), got "
                f"{shown(models)} and {shown(parts)}."
            )
        logs, truths = [], []
        for model, (X, y) in zip(models, parts):
            data = model.read_data(X)
            logs += list(map(model._logs, data.arrays))
            truths += read_labelings(type(model).__name__, y, data, segments=True, partial=True)
        chosen, losses = models[0]._least_loss(logs, truths)
        for model in models:
            model._set(chosen).losses_ = losses

    def _least_loss(self, logs: Sequence[NDArray], truths: Sequence[Any]) -> tuple[float, NDArray]:
        """Return the penalty or width with the least mean loss, and the loss of every candidate."""
        candidates = _PENALTIES if self.smoothing == "viterbi" else _WIDTHS
        losses = []
        for candidate in candidates:
            found = [self._smoothed(row, candidate) for row in logs]
            losses.append(np.mean(list(map(KnownLoss().squared_norm, found, truths))))
        return float(candidates[np.argmin(losses)]), np.array(losses)

    def _set(self, amount: float) -> Self:
        viterbi = self.smoothing == "viterbi"
        self.penalty_: float | None = amount if viterbi else None
        self.width_: int | None = None if viterbi else int(amount)
        return self

    def predict(self, X: Any) -> Any:
        """Return the label of every sample, (T,) for each recording."""
        return self._of_each(X, lambda found: self.classes_[found.sample_names])

    def predict_change_points(self, X: Any) -> Any:
        """Return the ends of all segments of every recording, including T, as in ruptures."""
        return self._of_each(X, lambda found: found.change_points)

    def predict_proba(self, X: Any) -> Any:
        """Return probabilities of the labels for every sample, before smoothing, (T, C)."""
        data = self.read_data(X)
        return data.as_passed([np.exp(self._logs(array)) for array in data.arrays])

    @property
    def present_score(self) -> SegmentScore:  # type: ignore[override]
        """The score of the Viterbi algorithm: log-probabilities of names, and no metric."""
        nothing = np.zeros((1, self.n_features_in_))
        names = FrameScores(self.windows_, self.classifier_, self.classes_)
        return SegmentScore(nothing, self.penalty_, names=names)

    def stream_score(self) -> SegmentScore:
        """Return the score that a stream follows.

        Raises
        ------
        ValueError
            If ``smoothing`` is "mode".
        """
        if self.penalty_ is None:
            raise ValueError(
                "FrameClassifier needs smoothing='viterbi' for a stream, got 'mode'; fit it again."
            )
        return self.present_score

    def segmented(self, data: DataSets, n_segments: None = None) -> list[NamedPartition]:
        """Segment every recording. The names of the segments are codes of ``classes_``."""
        return self.segmented_at(data, [self.penalty_])[0]

    def segmented_at(
        self, data: DataSets, penalties: Sequence[float | None], n_segments: None = None
    ) -> list[list[NamedPartition]]:
        """Return the result of :meth:`segmented` for each of several values of ``penalty_``."""
        logs = list(map(self._logs, data.arrays))
        return [[self._smoothed(one, penalty) for one in logs] for penalty in penalties]

    def _of_each(self, X: Any, result: Any) -> Any:
        data = self.read_data(X)
        return data.as_passed(list(map(result, self.segmented(data))))

    def _logs(self, array: NDArray) -> NDArray[np.float64]:
        """Compute log-probabilities of the names for every sample, (T, C)."""
        return FrameScores(self.windows_, self.classifier_, self.classes_).scores(array)

    def _smoothed(self, logs: NDArray, candidate: float | None) -> Any:
        """Convert log-probabilities (T, C) to a segmentation with names, by smoothing.

        ``candidate`` is the penalty or the width of the smoothing.
        """
        candidate = self.width_ if candidate is None else candidate
        assert candidate is not None
        if self.smoothing == "viterbi":
            # Without a metric, the value of a segment is the log-probability of its best name.
            nothing = LowRankForm(cumulative=np.zeros((len(logs) + 1, 1)), shift=-candidate)
            return ChangePoints()(ChargedForm(nothing, names=NameScores.of(logs)))
        half, votes = int(candidate) // 2, np.zeros(logs.shape)
        votes[np.arange(len(logs)), np.argmax(logs, axis=1)] = 1.0
        sums = np.vstack([np.zeros(logs.shape[1]), np.cumsum(votes, axis=0)])
        t = np.arange(len(logs))
        window = sums[np.minimum(t + half + 1, len(logs))] - sums[np.maximum(t - half, 0)]
        return NamedPartition.from_codes(np.argmax(window, axis=1))
