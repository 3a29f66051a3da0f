"""Consensus: the segmentation with the least expected loss over many models."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated, Any, Self

import joblib
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.utils.validation import check_is_fitted

from metriclearn.estimators.data_sets import DataSets, keep_features, read_data_sets
from metriclearn.estimators.labelings import (
    list_labelings,
    read_counts,
    read_groups,
    read_known,
    read_labelings,
    read_names,
)
from metriclearn.estimators.names.frame_classifier import FrameClassifier
from metriclearn.estimators.scores.stream import SegmenterStream, Streaming
from metriclearn.estimators.scores.without_metric import SegmenterWithoutMetric
from metriclearn.estimators.selection.consensus_stream import ConsensusStream
from metriclearn.estimators.selection.cross_fitting import (
    POWERS,
    cross_fitted,
    default_members,
    families_of,
    fitted_to,
    is_listed,
    variants,
    weigh,
)
from metriclearn.indices.boundaries import near
from metriclearn.oracles.expected_loss import best_consensus
from metriclearn.problem.consensus_form import ConsensusForm
from metriclearn.problem.losses import KnownLoss
from metriclearn.problem.named_segments import NamedPartition
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import Jobs, OneOf, Real, Whole, check_parameters, shown
from metriclearn.views.columns import note_constant


def _is_segmenter(model: Any) -> bool:
    return all(callable(getattr(model, name, None)) for name in ("fit", "segmented", "read_data"))


_MEMBERS = families_of(
    "segmenters (of an ONNX file its EncoderMetricLearner), or None", _is_segmenter, optional=True
)
_FITTED = families_of(
    "members, each a list of fitted segmenters for all folds",
    lambda member: is_listed(member, _is_segmenter),
    optional=False,
)


@dataclass(eq=False, repr=False)
class Consensus(Streaming, SegmenterWithoutMetric):
    """Combine many models: find the segmentation with the least expected loss over all of them.

    With few recordings, models differ by less than the error of choosing one of them. We therefore
    combine models. A member is a segmenter in ``members``. Each member is fitted several times:
    with one part of the recordings left out at a time, and once to all recordings. All these models
    are kept. The models of a member share one penalty, which is tuned on all recordings left out.
    The penalty is tuned twice: once in the unit of the data, and once in units of the variance of
    each sequence. Few recordings do not determine the penalty well, so each model predicts with
    0.5, 1 and 2 times each tuned penalty. For a new recording, N_j is the prediction of model j.
    The best compromise between all predictions is

        argmin_M Σ_j q_j ‖M − N_j‖²_F.

    An exact dynamic program over the segment ends of all N_j finds this compromise, see
    :mod:`metriclearn.oracles.expected_loss`. If members predict names, the program also finds the
    names of segments.

    Parameters
    ----------
    members : mapping of names to lists of segmenters, optional
        Families of members. The weight of a member is divided by the number of members in its
        family, so a large family has no advantage. The default members are the families of
        :func:`~metriclearn.auto_metric_learner` at all their strengths. If labels are names, frame
        classifiers and named learners are added.
    weights : "held-out" or "uniform"
        With "held-out", q_j ∝ (least loss / loss)^p, where "loss" is the mean loss of a member on
        the recordings left out, and "least loss" is the loss of the best member. The power p is
        chosen by the loss of the compromise on left-out recordings. The labels of a left-out
        recording are used neither to fit these models nor to compute these weights, but only to
        tune penalties. If models of a member have the same penalty, they have the same weight.
    names : bool, optional
        Whether labels are names, that is, mean the same in all recordings. By default labels count
        as names if some label recurs within a recording after a different label, and if recordings
        of two groups share a label.
    n_folds : int
        Number of parts into which recordings are divided. One part is left out at a time. Parts
        consist of whole groups, so there are at most as many parts as groups.
    name_loss : float, optional
        β, which is added to ‖M − N_j‖² for every sample whose name differs from the name that model
        j predicts. By default β is the number of segments in the training data, divided by the
        number of samples. A partly labeled recording counts as one segment.
    for_streams : bool
        Use only penalties in the unit of the data, because the variance of a sequence is not known
        before its end. :meth:`stream` then works if all members can follow a stream.
    n_jobs : int, optional
        Number of fits that run at the same time, as in joblib.
    verbose : bool, optional
        Show a progress bar of the fits always (True), never (False), or in a terminal (None).

    Attributes
    ----------
    models_ : list of fitted segmenters
    fits_ : list of int
        For each model, the number of the fit that produced it. Models with the same number differ
        only in their penalties.
    families_ : list of str
        The family of each model.
    weights_ : array (models,)
        q, with sum one.
    power_ : float
        p; 0 for uniform weights.
    held_out_ : array (members and penalties, N)
        The loss ‖M − N‖²_F on every recording, for each pair of a member and a penalty. M comes
        from the model that was fitted without the recording. The penalty of this model was tuned on
        all left-out recordings, including this one. The loss is NaN for recordings that were never
        left out.
    left_out_ : mapping of int to Partition
        For every recording that was left out, the consensus of the models that were fitted without
        it. The mapping is not saved.
    distances_ : array (boundaries, 1 + members and penalties)
        Distances from each boundary in ``left_out_``. The first column is the distance to the
        nearest true boundary. There is one further column for each pair of a member and a penalty:
        the distance to the nearest boundary that this pair predicts.
    classes_ : array (C,) or None
        The sorted labels if they are names, else None.

    Raises
    ------
    ValueError
        For data, labels or parameters that cannot be used, and for fewer than two groups.

    See Also
    --------
    auto_metric_learner : chooses one model, whose metric can be inspected.

    Examples
    --------
    >>> from metriclearn import ChangePointMetricLearner, Consensus
    >>> from metriclearn.datasets import make_change_points
    >>> data = make_change_points(n_features=30, n_relevant=3, random_state=0)
    >>> members = {"diagonal": [ChangePointMetricLearner()]}
    >>> consensus = Consensus(members, n_folds=3).fit(data.sequences, data.labels)
    >>> len(consensus.models_)  # of three folds and all recordings, with six penalties each
    24
    """

    stream_type = ConsensusStream
    members: Annotated[Mapping[str, Any] | None, _MEMBERS] = None
    _: KW_ONLY
    weights: Annotated[str, OneOf("held-out", "uniform")] = "held-out"
    names: Annotated[bool | None, OneOf(None, True, False)] = None
    n_folds: Annotated[int, Whole(2)] = 5
    name_loss: Annotated[float | None, OneOf(None, Real())] = None
    for_streams: Annotated[bool, OneOf(True, False)] = False
    n_jobs: Jobs = None
    verbose: Annotated[bool | None, OneOf(None, True, False)] = None

    def fit(self, X: Any, y: Any, groups: ArrayLike | None = None) -> Self:
        """Fit all members, tune their penalties on the parts left out, and compute the weights.

        Parameters
        ----------
        X : sequence of (T_i, P) arrays, at least two
        y : labels, change-points or partial labels, for each sequence
        groups : array (N,), optional
            Group of every recording, such as the user who recorded it. All recordings of a group
            are left out together.
        """
        check_parameters(self)
        who = type(self).__name__
        data = read_data_sets(who, X)
        truths = read_labelings(who, y, data, segments=True, partial=True)
        units = read_groups(who, groups, 1 if data.single else len(truths))
        labels = list_labelings(who, y, data)
        classes = self._classes(y, data, truths, units.tolist())
        members = self.members
        if members is None:
            some_unknown = not isinstance(truths[0], Partition)
            members = default_members(named=classes is not None, partial=some_unknown)
        splitter = GroupKFold(min(self.n_folds, int(units.max()) + 1))
        folds = list(splitter.split(units, groups=units))
        parts = [*(train for train, _ in folds), np.arange(len(truths))]
        calls = [
            joblib.delayed(fitted_to)(part, one, data.arrays, labels, units, self.members is None)
            for family in members.values()
            for one in family
            for part in parts
        ]
        models, fitted = cross_fitted(self, members, calls, len(parts)), copy.copy(self)
        fitted._weigh(models, data, labels, truths, classes, [test for _, test in folds])
        self.__dict__ = fitted.__dict__  # all at once: a fit that fails changes nothing
        return self

    @classmethod
    def of_models(
        cls,
        members: Mapping[str, Sequence[Sequence[Any]]],
        X: Any,
        y: Any,
        left_out: Sequence[NDArray],
        **parameters: Any,
    ) -> Self:
        """Make a consensus of models that have already been fitted.

        Parameters
        ----------
        members : mapping of names of families to lists of members
            A member is a sequence of fitted models, one for every fold. The sequence may end with
            one more model, which was fitted to all recordings.
        X, y
            All training data.
        left_out : sequence of int arrays
            For each fold, the indices of the recordings that were left out when its models were
            fitted.
        **parameters
            Parameters of the consensus.
        """
        consensus = cls(**parameters)
        check_parameters(consensus)
        data = read_data_sets(cls.__name__, X)
        _FITTED.check(cls.__name__, "members", members)
        folds = _read_folds(cls.__name__, left_out, len(data.arrays))
        sizes = {len(row) for family in members.values() for row in family}
        if sizes not in ({len(folds)}, {len(folds) + 1}):
            raise ValueError(
                f"{cls.__name__} needs a model for each of the {len(folds)} folds in left_out, and "
                f"for all members or for none one of all recordings, got members of "
                f"{' and '.join(map(str, sorted(sizes)))} models."
            )
        truths = read_labelings(cls.__name__, y, data, segments=True, partial=True)
        labels = list_labelings(cls.__name__, y, data)
        classes = consensus._classes(y, data, truths, range(len(truths)))
        consensus._weigh(members, data, labels, truths, classes, folds)
        return consensus

    def _classes(
        self, y: Any, data: DataSets, truths: Sequence[Any], units: Sequence[int]
    ) -> NDArray | None:
        """Return the sorted labels if they are names, else None."""
        if self.names is False:
            return None
        try:
            codes, classes = read_names(type(self).__name__, y, data, truths)
        except ValueError:
            if self.names:
                raise
            return None
        if self.names:
            return classes
        # Names that no two groups share, such as speakers, do not help with other recordings.
        pairs = {(u, c) for u, row in zip(units, codes) for c in np.unique(row[row >= 0]).tolist()}
        shared = len({c for _, c in pairs}) < len(pairs)
        return classes if shared and any(map(_returns, codes)) else None

    def _weigh(
        self,
        members: Mapping[str, Sequence[Sequence[Any]]],
        data: DataSets,
        labels: Sequence[Any],
        truths: Sequence[Any],
        classes: NDArray | None,
        left_out: Sequence[NDArray],
    ) -> None:
        """Tune penalties and compute the weights of models, both on the recordings left out."""
        parts = [([data.arrays[i] for i in p], [labels[i] for i in p]) for p in left_out]
        rows = [(name, row) for name, family in members.items() for row in family]
        named = [m for _, row in rows for m in row if getattr(m, "classes_", None) is not None]
        if classes is not None:
            # Models that were fitted elsewhere may predict names that these recordings lack.
            known = np.hstack([classes, *(model.classes_ for model in named)])
            classes = np.unique(known) if named else None
        units = ((),) if self.for_streams else ((), ("variance",))
        calls = [joblib.delayed(variants)(row, parts, units) for _, row in rows]
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            tuned = joblib.Parallel(self.n_jobs, prefer="threads")(calls)
        # The copies of a member differ only in their penalties.
        copies = [(i, rows[i][0], row) for i, some in enumerate(tuned) for row in some]
        source, families, models = zip(*copies)
        by_default = sum(getattr(t, "n_clusters", 1) for t in truths) / sum(map(len, data.arrays))
        self.name_loss_ = by_default if self.name_loss is None else float(self.name_loss)
        self.classes_ = classes
        answers: list[dict[int, Partition]] = [{} for _ in models]
        for fold, places in enumerate(left_out):
            fitted = [row[fold] for row in models]
            of_fold = self.answers_of(fitted, data.subset(places), fits=source)
            for answer, found in zip(answers, of_fold):
                answer.update(zip(places.tolist(), found))

        def agree(given: Sequence[Partition], weights: NDArray) -> Partition:
            return best_consensus(ConsensusForm(given, weights, self.name_loss_))

        powers = POWERS if self.weights == "held-out" else (0.0,)
        chosen = weigh(families, answers, truths, left_out, powers, agree, KnownLoss().squared_norm)
        self.power_, weights, self.held_out_, self.left_out_ = chosen
        self.distances_ = _distances(self.left_out_, answers, truths)
        n_fits = len(models[0])
        self.models_ = [model for row in models for model in row]
        self.families_ = [name for name in families for _ in range(n_fits)]
        self.fits_ = [i * n_fits + fit for i in source for fit in range(n_fits)]
        self.weights_ = np.repeat(weights / n_fits, n_fits)
        keep_features(self, data)
        if all(isinstance(t, Partition) and t.n_clusters == t.n_samples for t in truths):
            warnings.warn(
                f"{type(self).__name__} was given labels that differ for all samples, so none "
                "belong together; give all samples of a segment the same label.",
                stacklevel=3,
            )
        if not (varies := np.isfinite(data.pooled_deviation(type(self).__name__))).all():
            note_constant(self, varies)

    def check_streams(self) -> None:
        """Raise a ValueError that names the families of models that cannot follow a stream."""
        refused: dict[str, list[str]] = {}
        for family, model in zip(self.families_, self.models_):
            try:
                SegmenterStream(model).start()
            except ValueError as error:
                refused.setdefault(family, []).append(str(error))
        if refused:
            listed = ", ".join(f"{len(errors)} of {name}" for name, errors in refused.items())
            reason = next(iter(refused.values()))[0].rstrip(".")
            raise ValueError(
                f"Consensus needs models that can all follow a stream, but of {len(self.models_)} "
                f"these cannot: {listed} (the first: {reason}); fit Consensus(for_streams=True) "
                "with members that can, or call streaming_model().stream() for the best single "
                "model."
            )

    def streaming_model(self) -> Any:
        """Return the model with the largest weight among the models that can follow a stream.

        Raises
        ------
        ValueError
            If no model can follow a stream.
        """
        check_is_fitted(self, "models_")
        for i in np.argsort(-self.weights_, kind="stable"):
            model = self.models_[i]
            with suppress(AttributeError, ValueError):
                model.stream_score()
                return model
        raise ValueError(
            "Consensus needs a model that can follow a stream, got none; add a member with a "
            "metric, such as ChangePointMetricLearner()."
        )

    def predict_change_points(self, X: Any, n_segments: Any = None, known: Any = None) -> Any:
        """Return the ends of all segments of every recording, including T, as in ruptures.

        Parameters
        ----------
        X : (T, P) array or sequence of such arrays
        n_segments : int or sequence of int, optional
            Numbers of segments. Members with a metric get these numbers, too.
        known : partial labels of each array, optional
            Partial labels of the new recordings: labels in which −1 means unknown, or
            :class:`~metriclearn.PartialPartition`. The result is the best segmentation that agrees
            with these labels.
        """
        return self._of_each(X, n_segments, known, lambda form, found: found.change_points)

    def predict(self, X: Any, n_segments: Any = None, known: Any = None) -> Any:
        """Return the name of every sample, (T,). Without names, return segment numbers."""

        def labels(form: ConsensusForm, found: Partition) -> NDArray:
            if isinstance(found, NamedPartition) and self.classes_ is not None:
                return self.classes_[found.sample_names]
            return found.labels

        return self._of_each(X, n_segments, known, labels)

    def expected_loss(self, X: Any, n_segments: Any = None, known: Any = None) -> Any:
        """Return the weighted mean of ‖M − N_j‖²_F over all models, for each recording.

        M is the consensus, N_j is the prediction of model j, and q_j is its weight. The mean
        measures how much the models disagree. Suppose that one model is right, and that q_j is the
        probability of model j. Then the mean is the expected loss of M.
        """
        return self._of_each(X, n_segments, known, _without_names)

    def boundary_shares(
        self, X: Any, n_segments: Any = None, tolerance: int = 0, known: Any = None
    ) -> Any:
        """Return the total weight of the models that agree with each predicted change-point.

        A model agrees if it has a change-point within the tolerance. The result for each recording
        is an array (K−1,) with values from 0 to 1.

        Parameters
        ----------
        X, n_segments, known
            As for :meth:`predict_change_points`.
        tolerance : int ≥ 0
            Largest distance, in samples, of change-points that agree.
        """
        Whole().check(type(self).__name__, "tolerance", tolerance)
        return self._of_each(X, n_segments, known, partial(_shares, tolerance=tolerance))

    def boundary_probabilities(
        self, X: Any, n_segments: Any = None, tolerance: int = 0, known: Any = None
    ) -> Any:
        """Return the probability that a true change-point is near each predicted one, (K−1,).

        Near means within the tolerance. A logistic regression predicts whether a boundary is true
        from the log odds of its :meth:`boundary_shares`. The regression is fitted to recordings
        that were left out in ``fit``. For each of these recordings, the shares come from the models
        that were fitted without it.

        Parameters
        ----------
        X, n_segments, tolerance, known
            As for :meth:`boundary_shares`.

        Raises
        ------
        ValueError
            If no fully labeled recording was left out, or if no boundary was found in these
            recordings.
        """
        shares = self.boundary_shares(X, n_segments, tolerance, known)
        if len(self.distances_) == 0:
            raise ValueError(
                f"{type(self).__name__} needs boundaries in recordings left out whose labels are "
                "all known, to learn probabilities from, but there are none; use boundary_shares."
            )
        weights = self.weights_.reshape(self.distances_.shape[1] - 1, -1).sum(axis=1)
        near = self.distances_ <= tolerance
        true, several = near[:, 0], shares if isinstance(shares, list) else [shares]
        results = [np.full(len(one), float(true[0])) for one in several]
        if len(np.unique(true)) > 1:
            curve = LogisticRegression().fit(_log_odds(near[:, 1:] @ weights), true)
            results = [
                curve.predict_proba(_log_odds(one))[:, 1] if len(one) else one for one in several
            ]
        return results if isinstance(shares, list) else results[0]

    def segmented(self, data: DataSets, n_segments: Any = None) -> list[Partition]:
        """Return the consensus segmentation of every recording."""
        return [found for _, found in self._answers(data, n_segments)]

    def _of_each(self, X: Any, n_segments: Any, known: Any, result: Any) -> Any:
        data = self.read_data(X)
        return data.as_passed([result(*one) for one in self._answers(data, n_segments, known)])

    def _answers(
        self, data: DataSets, n_segments: Any, known: Any = None
    ) -> list[tuple[ConsensusForm, Partition]]:
        """Return a ConsensusForm of the predictions, and the consensus, for every recording."""
        who = type(self).__name__
        counts = read_counts(who, "n_segments", n_segments, data, optional=True)
        facts = read_known(who, known, data, self.classes_)
        answers = self.answers_of(self.models_, data, n_segments, self.fits_)
        pairs = []
        for members, count, fact in zip(zip(*answers), counts, facts):
            form = ConsensusForm(members, self.weights_, self.name_loss_)
            pairs.append((form, best_consensus(form, count, fact)))
        return pairs

    def answers_of(
        self,
        models: Sequence[Any],
        data: DataSets,
        n_segments: Any = None,
        fits: Sequence[int] | None = None,
    ) -> list[list[Partition]]:
        """Return the predictions of models for all recordings. Names are codes of ``classes_``.

        Models with the same number in ``fits`` come from the same fit and differ only in their
        penalties. The recordings are read only once for these models.
        """
        groups: dict[int, list[int]] = {}
        for place, fit in enumerate(range(len(models)) if fits is None else fits):
            groups.setdefault(fit, []).append(place)
        answers: list[list[Partition]] = [[] for _ in models]
        # A warning about segments of a few samples is not needed for a single member.
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            for places in groups.values():
                found = _of_one_fit([models[i] for i in places], data.arrays, n_segments)
                for i, some in zip(places, found):
                    answers[i] = self._renamed(models[i], some)
        return answers

    def _renamed(self, model: Any, found: Sequence[Any]) -> list[Partition]:
        """Convert the names in the predictions of a model to codes of ``classes_``."""
        if self.classes_ is None or not isinstance(found[0], NamedPartition):
            return [Partition(ends=one.change_points) for one in found]
        codes = np.searchsorted(self.classes_, model.classes_)
        return [NamedPartition(one.change_points, codes[one.names]) for one in found]


def _of_one_fit(
    models: Sequence[Any], arrays: Sequence[NDArray], n_segments: Any
) -> list[list[Partition]]:
    """Predict with models that come from the same fit and differ only in their penalties.

    The form of a recording is computed once for all penalties in a unit.
    """
    data, first = models[0].read_data(arrays), models[0]
    if len(models) == 1 or getattr(first, "penalty_", None) is None:
        return [model.segmented(data, n_segments) for model in models]
    scores, found = [model.present_score for model in models], []
    counts = read_counts(
        type(first).__name__,
        "n_segments",
        n_segments,
        data,
        optional=True,
        min_size=scores[0].min_size,
    )
    for X, count in zip(data.arrays, counts):
        forms = {score.unit: score.form(X) for score in {s.unit: s for s in scores}.values()}
        named = isinstance(first, FrameClassifier)  # has no metric that a number could rest on
        found.append([s.best(forms[s.unit], None if named else count) for s in scores])
    return [list(row) for row in zip(*found)]


def _read_folds(who: str, left_out: Any, n: int) -> list[NDArray]:
    """Read the indices of the recordings in each fold.

    Raises
    ------
    ValueError
        If a fold is empty, if a recording is in two folds, or if an index belongs to no recording.
    """
    try:
        folds = [np.asarray(places) for places in left_out]
        together = np.concatenate(folds)
        usable = together.dtype.kind in "iu" and min(map(len, folds)) > 0
        usable = usable and bool(np.isin(together, np.arange(n)).all())
        usable = usable and len(np.unique(together)) == len(together)
    except Exception:  # a foreign object may raise any error
        usable = False
    if not usable:
        raise ValueError(
            f"{who} needs left_out as a list of arrays with numbers of recordings, from 0 to "
            f"{n - 1} and each at most once, got {shown(left_out)}."
        )
    return folds


def _returns(codes: NDArray) -> bool:
    """Tell whether some name recurs after a different name."""
    known = codes[codes >= 0]
    runs = known[np.flatnonzero(np.diff(known, prepend=-1))]
    return len(np.unique(runs)) < len(runs)


def _distances(
    found: Mapping[int, Partition],
    answers: Sequence[Mapping[int, Partition]],
    truths: Sequence[Any],
) -> NDArray[np.float64]:
    """Compute the distances from each boundary of the compromises to other boundaries.

    The fully labeled recordings that were left out are used. There is a row for each boundary of a
    compromise. The first column is the distance to the nearest true boundary. There is one further
    column for each member: the distance to the nearest boundary that this member predicts.
    """
    rows = [np.empty((0, 1 + len(answers)))]
    for i, best in found.items():
        if isinstance(truths[i], Partition):
            others = [truths[i], *(answer[i] for answer in answers)]
            inner = best.change_points[:-1, None]
            ends = [np.append(one.change_points[:-1], np.inf) for one in others]
            rows.append(np.array([np.abs(inner - e).min(axis=1, initial=np.inf) for e in ends]).T)
    return np.concatenate(rows)


def _shares(form: ConsensusForm, found: Partition, tolerance: int) -> NDArray[np.float64]:
    """Return the total weight of the members that agree with each predicted change-point."""
    total = np.zeros(found.n_clusters - 1)
    for q, member in zip(form.weights, form.members):
        total += q * near(found.change_points[:-1], member.change_points[:-1], tolerance)
    return total


def _log_odds(shares: NDArray) -> NDArray[np.float64]:
    """Return log(q / (1 − q)) as a column for shares q, which are clipped to [.01, .99]."""
    inside = np.clip(shares, 0.01, 0.99)[:, None]
    return np.log(inside / (1.0 - inside))


def _without_names(form: ConsensusForm, found: Partition) -> float:
    """Compute the expected loss of a segmentation if wrong names add nothing to the loss."""
    plain = copy.copy(form)
    plain.name_loss = 0.0
    return plain.expected_loss(found)
