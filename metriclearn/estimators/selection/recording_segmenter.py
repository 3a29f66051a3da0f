"""RecordingSegmenter: learns from labeled recordings to segment and label new recordings."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GroupKFold
from sklearn.utils.validation import check_is_fitted

from metriclearn.datasets.annotations import Segment, typical_tolerance
from metriclearn.datasets.recordings import cached_features
from metriclearn.datasets.sequences import LabeledSequences, runs
from metriclearn.estimators.data_sets import NamedColumns
from metriclearn.estimators.learners.equal_cuts import EqualCuts
from metriclearn.estimators.learners.whitened import WhitenedMetricLearner
from metriclearn.estimators.names.emissions import discriminant
from metriclearn.estimators.selection.consensus import Consensus
from metriclearn.features.media.decoding import duration
from metriclearn.indices import precision_recall
from metriclearn.oracles.change_points import ChangePoints
from metriclearn.oracles.segmentation_path import best_penalty
from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.problem.partition import Partition
from metriclearn.running.command_line import counted
from metriclearn.running.components import ComponentParameters
from metriclearn.running.parameters import Of, OneOf, Positive, Title, Whole, check_parameters
from metriclearn.running.times import Times, matches
from metriclearn.views.neighbors import StandardWindows

# Entries of tables for a sample without a label.
_NOBODY = {"", "-1", "-1.0", "nan", "<na>"}


@dataclass(eq=False, repr=False)
class RecordingSegmenter(ComponentParameters):
    """Learn from labeled recordings to divide new recordings into segments with names.

    Boundaries come from a consensus of several families of metric learners. If labels recur,
    classifiers of rows take part, too. The models are learned from different parts of the
    recordings. From a single recording only one model is learned. A segment gets the name that the
    consensus predicts. If the consensus predicts no names, a segment gets the label with the
    largest mean score over its rows. The scores of a row come from linear discriminant analysis of
    all training rows, with shrinkage (Ledoit & Wolf). Neighboring segments with the same label are
    joined. Segments get no labels if the labels are not classes, as for the shots of a film.

    Parameters
    ----------
    extractor : extractor, optional
        Computes features of a file, for example ``AudioFeatures()``. None means that sequences are
        already tables.
    learner : segmenter, optional
        By default ``Consensus()``, or ``WhitenedMetricLearner(retune=True)`` for a single
        recording. A learner that is not a consensus becomes the only member of a consensus: it is
        fitted with one part of the recordings left out at a time, and once to all recordings.
    rate : float
        Number of rows per second in tables. With an extractor, the rate of the extractor is used
        instead.
    time : str, optional
        The column of times from which the rate of tables was read. ``metriclearn segment`` reads
        the times of new tables from it.
    n_folds : int
        Number of parts into which recordings are divided. One part is left out at a time. There is
        at most one part per group. A single recording is not divided.
    tolerance : float, optional
        A true boundary counts as found if a predicted boundary is at most this many seconds away.
        The default is a tenth of the median length of labeled segments, but at least one row.

    Attributes
    ----------
    learner_ : fitted Consensus, or learner for a single recording
    labels_ : list of str
        The sorted labels. The list is empty if labels are not classes, see
        :func:`~metriclearn.datasets.sequences.name_classes`.
    label_weights_, label_intercepts_ : arrays (n labels, P) and (n labels,)
        Weights and intercepts of the linear scores of the labels.
    validation_loss_ : float or None
        Mean ‖M − N‖² on recordings left out. Each recording is segmented by models that were fitted
        without it. Only the penalties and the power of the weights were tuned on left-out
        recordings, see :class:`~metriclearn.Consensus`. None if no recordings were left out.
    validation_ : dict or None
        Further results for the recordings left out. "one segment" is the mean loss without
        boundaries. "equal cuts" is the mean loss of segments of equal length. "Euclidean" is the
        mean loss of the Euclidean metric of standardized features. The length and the penalty of
        these two baselines are tuned on other recordings. "found" is the fraction of true
        boundaries for which a predicted boundary is within the tolerance. "right" is the fraction
        of predicted boundaries for which a true boundary is within the tolerance. "boundaries" is
        the number of true boundaries. "tolerance" is in seconds.
    feature_names_ : list of str
    trained_on_ : list of str
        Names of the recordings.

    Raises
    ------
    ValueError
        For parameters, recordings or labels that cannot be used, and for predictions before
        ``fit``.
    FileNotFoundError
        If a recording is missing.

    References
    ----------
    Ledoit & Wolf, A well-conditioned estimator for large-dimensional covariance matrices, Journal
    of Multivariate Analysis 88, 2004 (the scores of labels).
    """

    extractor: Annotated[Any, Of("extract", "AudioFeatures()", optional=True)] = None
    learner: Annotated[Any, Of("predict_change_points", "Consensus()", optional=True)] = None
    _: KW_ONLY
    rate: Annotated[float, Positive()] = 1.0
    time: Title = None
    n_folds: Annotated[int, Whole(1)] = 4
    tolerance: Annotated[float | None, OneOf(None, Positive())] = None

    validation_loss_: float | None = field(init=False)
    validation_: dict[str, float] | None = field(init=False)

    def fit(self, data: LabeledSequences, progress: bool | None = None) -> Self:
        """Learn boundaries and names.

        Parameters
        ----------
        data : LabeledSequences
            The result of :func:`metriclearn.datasets.load_recordings` with the same extractor.
            Samples with the label −1 or NaN, and stretches of one sample, are left out.
        progress : bool, optional
            Whether to show a progress bar. None shows it only in a terminal.

        Raises
        ------
        ValueError
            If no recording has a boundary.
        """
        check_parameters(self)
        Of(LabeledSequences, "load_files(FOLDER)").check(type(self).__name__, "data", data)
        OneOf(None, True, False).check(type(self).__name__, "progress", progress)
        written = sorted({label for labels in data.labels for label in runs(labels)})
        for label in written:
            if label.strip().casefold() in _NOBODY:
                data = data.without(label)
                warnings.warn(
                    f"samples of label {label!r} count as those that nobody has labeled and are "
                    "left out; give them another label if they are of a class.",
                    stacklevel=2,
                )
        truths = [Partition.from_runs(labels) for labels in data.labels]
        if all(truth.n_clusters == 1 for truth in truths):
            raise ValueError(
                f"RecordingSegmenter needs a boundary to learn from, but each recording of "
                f"{data.name!r}, or each stretch of it with known labels, is a single segment; "
                "give every segment a separate line, or give rows of another kind another label."
            )
        long = [i for i, truth in enumerate(truths) if truth.n_samples > 1]
        if len(long) < len(truths):
            short = sorted({data.names[i] for i in set(range(len(truths))) - set(long)})
            warnings.warn(
                "recordings of one row, or stretches of one row with known labels, tell nothing of "
                f"boundaries and are left out: {', '.join(short[:8])}.",
                stacklevel=2,
            )
            data, truths = data.select(long), [truths[i] for i in long]
        fitted = copy.copy(self)
        fitted.validation_loss_ = fitted.validation_ = None
        tables = [NamedColumns.of(X, data.feature_names) for X in data.sequences]
        n_folds = min(self.n_folds, len(set(data.groups)))
        if n_folds < 2:
            single = WhitenedMetricLearner(retune=True) if self.learner is None else self.learner
            fitted.learner_ = clone(single).fit(tables, data.labels)
        else:
            fitted.learner_ = self._consensus(n_folds, progress)
            fitted.learner_.fit(tables, data.labels, data.groups)
            fitted._validate(data, truths, fitted.learner_.left_out_)
        fitted.feature_names_ = list(data.feature_names)
        fitted.trained_on_ = list(dict.fromkeys(data.names))
        fitted._name_labels(data)
        self.__dict__ = fitted.__dict__  # all at once: a fit that fails changes nothing
        return self

    def _consensus(self, n_folds: int, progress: bool | None) -> Consensus:
        """Make a consensus of the learner or, without a learner, of all families."""
        if isinstance(self.learner, Consensus):
            return clone(self.learner).set_params(verbose=progress)
        members = None if self.learner is None else {"learner": [self.learner]}
        return Consensus(members, n_folds=n_folds, verbose=progress)

    def _validate(
        self, data: LabeledSequences, truths: list[Partition], found: Mapping[int, Partition]
    ) -> None:
        """Evaluate the consensus and simple baselines on the recordings left out."""
        step = 1 / self.rows_per_second
        tolerance = self.tolerance
        if tolerance is None:
            sizes = np.concatenate([truth.sizes for truth in truths])
            tolerance = typical_tolerance(sizes * step, step)
        # Numbers of true, found, predicted and right boundaries.
        counts, losses = np.zeros(4), []
        for i, N in sorted(found.items()):
            losses.append(FrobeniusLoss().squared_norm(N, truths[i]))
            sizes = np.array([truths[i].n_clusters, N.n_clusters]) - 1
            right, share = precision_recall(truths[i], N, margin=tolerance / step + 1e-6)
            counts += [sizes[0], share * sizes[0], sizes[1], right * sizes[1]]
        self.validation_loss_ = float(np.mean(losses))
        true, share, predicted, right = counts.tolist()
        self.validation_ = {
            "one segment": true / len(truths),  # ‖M − N‖² = K − 1
            **_plain_losses(data, truths, self.n_folds),
            "found": share / true,
            "right": right / predicted if predicted else 1.0,
            "boundaries": true,
            "tolerance": tolerance,
        }
        if self.validation_loss_ >= self.validation_["one segment"]:
            warnings.warn(
                f"recordings held out are segmented with a loss of {self.validation_loss_:.2f}, no "
                f"better than without any boundary ({self.validation_['one segment']:.2f}); label "
                "more recordings, more like each other, or try other features or another rate.",
                stacklevel=3,
            )

    def segment(
        self, path: str | os.PathLike[str], cache: str | os.PathLike[str] | None = None
    ) -> list[Segment]:
        """Return the segments of a file as (start, end, label), with times in seconds.

        The file may end within the last row. If a segment begins with this incomplete row, the row
        is added to the segment before it.
        """
        if self.extractor is None:
            raise ValueError(
                "RecordingSegmenter was fitted on tables; pass the rows to segment_features."
            )
        segments = self.segment_features(cached_features(path, self.extractor, cache))
        start, end, label = segments[-1]
        length = duration(path)
        # The last row is incomplete or missing.
        if start < length < end + 1 / self.rows_per_second:
            segments[-1] = (start, length, label)
            if (length - start) * self.rows_per_second < 1 and len(segments) > 1:
                start, _, label = segments[-2]
                segments[-2:] = [(start, length, label)]
        return segments

    def segment_features(self, X: NDArray[np.float64], times: Times | None = None) -> list[Segment]:
        """Return the segments of a recording with features X (T, P), each with its best label.

        If ``learner_`` predicts names, the best label is the predicted name. Otherwise it is the
        label with the largest mean score over the rows of the segment. Neighboring segments with
        the same label are joined. If labels are not classes, all labels are empty.

        Parameters
        ----------
        X : array (T, P)
        times : Times, optional
            The times of the rows, see :func:`metriclearn.datasets.file_times`. By default, rows
            come at the rate of the model.

        Raises
        ------
        ValueError
            If rows come more slowly than at the rate of the model.

        Warns
        -----
        UserWarning
            If rows come faster. They are averaged to the rate of the model.
        """
        check_is_fitted(self, "learner_")
        begins = np.arange(len(X) + 1) / self.rows_per_second
        if times is not None and len(X) > 1:
            begins = times.at(np.arange(len(X) + 1))
            if not matches(times.who, times.rate, self.rows_per_second):
                firsts = times.firsts(self.rows_per_second)
                counts = np.diff(np.append(firsts, len(X)))
                X = np.add.reduceat(np.asarray(X), firsts, axis=0) / counts[:, None]
                begins = begins[np.append(firsts, len(begins) - 1)]
        ends = self.learner_.predict_change_points(X)
        partition = Partition(ends=ends)
        cuts = begins[np.append(0, ends)]
        if not self.labels_:
            return [(start, end, "") for start, end in pairwise(cuts.tolist())]
        if getattr(self.learner_, "classes_", None) is not None:
            names = [str(name) for name in self.learner_.predict(X)[ends - 1]]
        else:
            means = partition.pool(np.asarray(X, dtype=np.float64)) / partition.sizes[:, None]
            scores = means @ self.label_weights_.T + self.label_intercepts_
            names = [self.labels_[i] for i in np.argmax(scores, axis=1)]
        segments: list[Segment] = []
        for start, end, name in zip(cuts[:-1].tolist(), cuts[1:].tolist(), names):
            if segments and segments[-1][2] == name:
                start = segments.pop()[0]
            segments.append((start, end, name))
        return segments

    @property
    def rows_per_second(self) -> float:
        """Rows per second: the rate of the extractor or, for tables, the parameter ``rate``."""
        return float(self.rate if self.extractor is None else self.extractor.rate)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model to one file, see :func:`metriclearn.save`."""
        import metriclearn

        return metriclearn.save(self, path)

    def _name_labels(self, data: LabeledSequences) -> None:
        """Learn linear scores of labels by linear discriminant analysis of all rows; O(T P²)."""
        names = np.concatenate([np.asarray(labels).astype(str) for labels in data.labels])
        self.labels_ = sorted(set(names.tolist())) if data.has_classes else []
        self.label_weights_ = np.zeros((len(self.labels_), len(data.feature_names)))
        self.label_intercepts_ = np.zeros(len(self.labels_))
        if not self.labels_:
            return
        alike = groupby(sorted(self.labels_, key=_spelled), _spelled)
        if twice := [spellings for _, of_one in alike if len(spellings := list(of_one)) > 1]:
            warnings.warn(
                f"labels {', '.join(map(repr, chain(*twice)))} count as different classes, but "
                "differ by spaces or capitals only; write them alike if they are one.",
                stacklevel=3,
            )
        scaled = StandardWindows.of(0, data.sequences)
        rows = np.vstack(list(map(scaled.transform, data.sequences)))
        weights, intercepts = discriminant(rows, names)
        self.label_weights_ = weights / scaled.deviation
        self.label_intercepts_ = intercepts - self.label_weights_ @ scaled.mean


def _spelled(label: str) -> str:
    return "".join(label.split()).casefold()


def _plain_losses(
    data: LabeledSequences, truths: list[Partition], n_folds: int
) -> dict[str, float]:
    """Compute the mean ‖M − N‖² of two baselines on left-out recordings, tuned on the others."""
    scale = np.concatenate(data.sequences).std(axis=0)
    varies = scale > 0
    forms = [LowRankForm(X[:, varies] / scale[varies]) for X in data.sequences]
    losses: dict[str, list[float]] = {"equal cuts": [], "Euclidean": []}
    folds = GroupKFold(min(n_folds, len(set(data.groups))))
    for rest, held in folds.split(forms, groups=data.groups):
        known = [truths[i] for i in rest]
        cuts = EqualCuts().fit([data.sequences[i] for i in rest], known)
        penalty, _ = best_penalty([forms[i] for i in rest], known)
        for i in held:
            answers = {
                "equal cuts": cuts.segmented(cuts.read_data(data.sequences[i]))[0],
                "Euclidean": ChangePoints()(forms[i].shifted(-penalty)),
            }
            for name, N in answers.items():
                losses[name].append(FrobeniusLoss().squared_norm(N, truths[i]))
    return {name: float(np.mean(values)) for name, values in losses.items()}


def in_words(model: RecordingSegmenter) -> dict[str, str]:
    """Describe a fitted model, its training data and its quality. Returns a text for each title."""
    learner, names, recordings = model.learner_, model.feature_names_, model.trained_on_
    models = getattr(learner, "models_", [learner])
    shares = getattr(learner, "weights_", [1.0])
    weights = np.zeros(len(names))
    for share, one in zip(shares, models):
        if (squares := (getattr(one, "components_", np.zeros((0, 1))) ** 2).sum(axis=0)).any():
            weights += share * np.sqrt(squares / squares.sum())
    heaviest = [names[i] for i in np.argsort(-weights, kind="stable")[:5] if weights[i] > 0]
    kind = "tables" if model.extractor is None else type(model.extractor).__name__
    more = " ..." if len(recordings) > 8 else ""
    loss = found = "not known, as there is only one recording"
    if model.validation_loss_ is not None:
        loss = f"{model.validation_loss_:.2f} (mean ‖M − N‖² on held-out recordings; 0 is perfect)"
    if checked := getattr(model, "validation_", None):  # older models lack it
        without = f"0 is perfect, {checked['one segment']:.2f} without any boundary"
        if "equal cuts" in checked:
            without += f", {checked['equal cuts']:.2f} with equal cuts"
        if "Euclidean" in checked:
            without += f", {checked['Euclidean']:.2f} with the Euclidean metric"
        loss = loss.replace("0 is perfect", without)
        found = f"{checked['found']:.0%} of {checked['boundaries']:.0f} held-out ones within "
        found += f"{checked.get('tolerance', 1.0):.3g} s, "
        # without predictions "right" is 100 %
        none = checked["right"] > checked["found"] == 0
        found += "none predicted" if none else f"{checked['right']:.0%} of predictions right"
    return {
        "labels": ", ".join(model.labels_)
        or "none, only boundaries (to learn classes, give segments of the same kind the same "
        "label)",
        "trained on": f"{counted(len(recordings), 'recording')}: {', '.join(recordings[:8])}{more}",
        "features": f"{kind}, {counted(len(names), 'column')}, "
        f"{counted(model.rows_per_second, 'row')} per second",
        "boundaries found": found,
        "validation loss": loss,
        "learner": counted(len(models), "model") + " that agree: " + _families(learner)
        if len(models) > 1
        else f"metric of rank {len(learner.components_)}, penalty per segment "
        f"{learner.penalty_:.4g}, certified gap {learner.solution_.relative_gap:.1e}",
        "heaviest features": ", ".join(heaviest),
    }


def _families(consensus: Any) -> str:
    """Describe the weights of the families of a consensus in words."""
    weights = dict.fromkeys(consensus.families_, 0.0)
    for name, weight in zip(consensus.families_, consensus.weights_):
        weights[name] += weight
    ordered = sorted(weights.items(), key=lambda pair: -pair[1])
    return "; ".join(f"{name} {weight:.0%}" for name, weight in ordered)
