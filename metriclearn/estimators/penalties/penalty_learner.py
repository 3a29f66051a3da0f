"""Learning the penalty of a segment from annotated sequences, with a fixed metric."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import repeat
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from metriclearn.estimators.penalties.interval_regression import (
    IntervalRegression,
    Truth,
    label_error,
    moved_penalty,
    path_errors,
    target_interval,
)
from metriclearn.estimators.reading.data_sets import DataSets, read_new
from metriclearn.estimators.reading.labels import (
    note_empty_score,
    read_labeled,
    read_labelings,
    read_weights,
)
from metriclearn.estimators.scores.segmenting import PlottedSegmenter
from metriclearn.estimators.scores.stream import Streaming
from metriclearn.oracles.change_points import ConstrainedChangePoints, PenalizedSegmentation
from metriclearn.oracles.change_points.margins import boundary_margins
from metriclearn.oracles.segmentation_path import SegmentationPath, path_between
from metriclearn.problem.forms import LowRankForm, center
from metriclearn.problem.partial_labels import PartialPartition
from metriclearn.problem.partition import Partition
from metriclearn.running.components import ComponentParameters
from metriclearn.running.parameters import Each, Needs, Of, Real, Whole, needs
from metriclearn.running.values import check_each, real_array
from metriclearn.views.columns import check_range
from metriclearn.views.hermite import series_scale
from metriclearn.views.plain import SEQUENCES, StatelessTransformer
from metriclearn.views.sequence import SequenceFeatures

_LOG_PENALTIES = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
_PATHS = Needs(
    "{name}=None or a list of paths such as identity_paths(X) gives",
    lambda paths: (
        paths is None
        or (isinstance(paths, (list, tuple)) and set(map(type, paths)) == {SegmentationPath})
    ),
)


@dataclass(eq=False, repr=False)
class SegmentCounts(StatelessTransformer):
    """Features of a whole sequence: the logs of its optimal numbers of segments.

    At a given penalty, the optimal segmentation M minimizes ‖Z − MZ‖² + penalty · K, where K is the
    number of segments. The feature is log K. There is one feature for each of several penalties.
    Together the features show the sizes of the changes and the roughness of the segments. A
    sequence whose noise is not white has more small changes than its noise level suggests. For each
    penalty, one pruned dynamic program finds the exact optimum.

    Parameters
    ----------
    log_penalties : sequence of float
        Natural logarithms of the penalties. A penalty is a squared distance in the unit of Z.
    representation : transformer, optional
        Computes Z from a sequence, for example :class:`~metriclearn.views.SlidingMoments` with a
        ``scale``. The transformer is fitted to each sequence separately. If Z is divided by the
        noise level of its sequence, a penalty has the same meaning for all sequences. By default Z
        is the sequence itself.
    min_size : int
        Smallest number of samples in a segment.

    Raises
    ------
    ValueError
        For parameters or sequences that cannot be used.

    See Also
    --------
    segmentation_path : computes the optimal segmentations at all penalties.
    FeaturePenalty : learns penalties that depend on features.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.estimators import SegmentCounts
    >>> X = np.repeat([[0.0], [1.0], [9.0]], 20, axis=0)
    >>> np.exp(SegmentCounts((0, 3, 9)).transform([X])).round()
    array([[3., 2., 1.]])
    """

    log_penalties: Annotated[Sequence[float], Each(Real(-200, 200), "{name} from -200 to 200")] = (
        _LOG_PENALTIES
    )
    representation: Annotated[Any, Of("transform", "HermiteMoments()", optional=True)] = None
    min_size: Annotated[int, Whole(1)] = 1

    @needs
    def transform(self, X: Annotated[Sequence[ArrayLike], SEQUENCES]) -> NDArray[np.float64]:
        """Compute the features of N sequences (T_i, P), an array (N, n_log_penalties)."""
        rows = []
        for sequence in X:
            Z = real_array("SegmentCounts", "a sequence", sequence)
            if self.representation is not None:
                Z = clone(self.representation).fit(Z).transform(Z)
            problem = PenalizedSegmentation(LowRankForm(center(Z)), min(self.min_size, len(Z)))
            rows.append([len(problem.solve(np.exp(log)).ends) for log in self.log_penalties])
        return np.log(np.reshape(rows, (len(rows), len(self.log_penalties))))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray:
        """Return the names of the features, such as ``segments1`` for the log penalty 1."""
        return np.array([f"segments{log:g}" for log in self.log_penalties], dtype=object)


@dataclass(eq=False, repr=False)
class PenaltyLearner(PlottedSegmenter, Streaming, ComponentParameters):
    """Segment with a fixed metric and a penalty that is learned as a function of the sequence.

    For every training sequence, the exact segmentation path gives the interval of penalties with
    the least error. The function log λ_i = ⟨v, features of sequence i⟩ + b is then fitted to the
    logarithms of these intervals. With ``SequenceFeatures(())`` the penalty is a constant. With
    ``SequenceFeatures(("log_log_length",))`` the logarithm of the penalty is linear in log log T.

    Parameters
    ----------
    representation : transformer, optional
        Transforms every sequence before it is segmented, for example
        :class:`~metriclearn.views.HermiteMoments` or a scikit-learn Pipeline. By default
        sequences are not transformed.
    sequence_features : transformer
        Computes one row of features from every sequence, before ``representation`` is applied:
        ``SequenceFeatures(…)``, :class:`SegmentCounts`, or both in scikit-learn's FeatureUnion.
    regression : IntervalRegression
        Fits the logarithms of penalties to the intervals.
    min_size : int
        Smallest number of samples in a segment.
    max_segments : int
        Segmentation paths are refined up to this number of segments.
    own_weight : float ≥ 0
        How strongly annotations that are passed to ``predict`` move the penalty of their sequence.
        Let z₀ be the predicted log penalty. The annotations give an interval of penalties; let h be
        the squared hinge of the regression on this interval. Then z₀ is replaced by the minimizer z
        of (z − z₀)² + own_weight · h(z). This is like adding an intercept for each sequence, with a
        ridge penalty on the intercept.

    Attributes
    ----------
    components_ : array (r, P)
        Lᵀ, which is the identity.
    paths_ : list of SegmentationPath
        Segmentation paths of the training sequences. Saved estimators do not contain the paths, but
        :meth:`paths` computes them again.
    intervals_ : array (N, 2)
        For every training sequence, the interval of penalties with the least error, given by the
        logarithms of its ends.
    training_errors_ : array (N, 2)
        Error of every training sequence at the learned penalty, and at the best penalty of its
        path.
    regression_, representation_ : fitted components

    Raises
    ------
    ValueError
        For parameters, data or labels that cannot be used, and for predictions before ``fit``.

    References
    ----------
    Hocking, Rigaill, Vert & Bach, Learning sparse penalties for change-point detection using max
    margin interval regression, ICML 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.problem.partial_labels import PartialPartition
    >>> from metriclearn.problem.regions import EXACTLY_ONE, NO_CHANGE
    >>> X = [np.repeat([0.0, 3.0], 20)[:, None] + np.sin(np.arange(40.0))[:, None] / 4]
    >>> known = [PartialPartition(40, regions=[(0, 15, NO_CHANGE), (15, 25, EXACTLY_ONE)])]
    >>> learner = PenaltyLearner(sequence_features=SequenceFeatures(())).fit(X, known)
    >>> learner.predict_change_points(X)
    [array([20, 40])]
    """

    representation: Annotated[Any, Of("transform", "HermiteMoments()", optional=True)] = None
    sequence_features: Annotated[SequenceFeatures, Of("transform", "SequenceFeatures()")] = (
        SequenceFeatures()  # noqa: RUF009
    )
    regression: Annotated[IntervalRegression, Of("predict", "IntervalRegression()")] = (
        IntervalRegression()  # noqa: RUF009
    )
    _: KW_ONLY
    min_size: Annotated[int, Whole(1)] = 1
    max_segments: Annotated[int, Whole(1)] = 40
    own_weight: Annotated[float, Real()] = 0.0

    def fit(self, X: Any, y: Any, paths: Sequence[SegmentationPath] | None = None) -> Self:
        """Learn the penalty from sequences and their labels or partial labels.

        Parameters
        ----------
        X : sequence of (T_i, P) arrays, or a single one
        y : labels, change-points or PartialPartition, for each sequence
        paths : sequence of SegmentationPath, optional
            The :meth:`identity_paths` of these sequences, if they have been computed already.

        Raises
        ------
        ValueError
            For data that cannot be used, or if all penalties fit the annotations equally well.
        """
        fitted, data, represented = self._begin(X)
        truths = read_labelings(type(self).__name__, y, data, segments=True, partial=True)
        _PATHS.check(type(self).__name__, "paths", paths)
        paths = list(map(self._path, represented, truths)) if paths is None else list(paths)
        fitted.sequence_features_ = clone(self.sequence_features).fit(data.arrays)
        rows = fitted.sequence_features_.transform(data.arrays)
        if [path.change_points[0][-1] for path in paths] != [len(array) for array in data.arrays]:
            raise ValueError(
                f"{type(self).__name__} needs one path for each of the {len(data.arrays)} "
                f"sequences, of its length, got {len(paths)} others; pass identity_paths(X)."
            )
        fitted.paths_ = paths
        errors = [path_errors(path, truth) for path, truth in zip(paths, truths)]
        fitted.intervals_ = np.array(list(map(target_interval, paths, errors)))
        if not np.isfinite(fitted.intervals_).any():
            raise ValueError(
                f"{type(self).__name__} needs annotations that some penalties contradict, but "
                "every penalty is equally good for all of them; annotate changes, too."
            )
        # All other sequences have the least error at every penalty.
        used = np.isfinite(fitted.intervals_).any(axis=1)
        fitted.regression_ = clone(self.regression).fit(rows[used], fitted.intervals_[used])
        cases = zip(paths, errors, np.exp(fitted.regression_.predict(rows)))
        predicted = [error[path.positions(penalty)] for path, error, penalty in cases]
        fitted.training_errors_ = np.column_stack([predicted, [error.min() for error in errors]])
        self.__dict__ = fitted.__dict__
        return self

    def identity_paths(self, X: Any) -> list[SegmentationPath]:
        """Transform sequences by ``representation``, and compute their segmentation paths.

        The estimator need not be fitted. The paths can be passed to :meth:`fit`. Paths do not
        depend on learned parameters, so all candidates and folds of a cross-validation can share
        the same paths.
        """
        return list(map(self._path, self._begin(X)[2]))

    def paths(self, X: Any) -> list[SegmentationPath]:
        """Compute exact segmentation paths of sequences, with up to ``max_segments`` segments."""
        return list(map(self._path, self._represent(self.read_data(X))))

    def predict_penalties(self, X: Any) -> NDArray[np.float64]:
        """Return the penalty λ of every sequence, (N,)."""
        return np.exp(self._log_penalties(self.read_data(X)))

    def predict_change_points(
        self, X: Any, known: Any = None, paths: Sequence[SegmentationPath] | None = None
    ) -> Any:
        """Return the ends of all segments of every sequence, including T, as in ruptures.

        Parameters
        ----------
        X : sequence of (T_i, P) arrays, or a single one
        known : sequence of PartialPartition, or one, optional
            Annotations of these sequences. Predicted segmentations agree with the annotations, as
            in LOPART. If ``own_weight`` is positive, annotations also move the penalties.
        paths : sequence of SegmentationPath, optional
            The :meth:`paths` of these sequences, if they have been computed already. Paths are used
            only if annotations move the penalties.
        """
        return self._search(X, known, paths, lambda *case: _segmentation(*case).change_points)

    def stream_score(self) -> Any:
        """Raise an error, because this estimator cannot follow a stream.

        Raises
        ------
        ValueError
            In every case: the penalty of a sequence depends on the whole sequence.
        """
        raise ValueError(
            f"{type(self).__name__} needs whole sequences, from which their penalties follow; for "
            "a stream take a segmenter with one penalty, such as ChangePointMetricLearner."
        )

    def boundary_margins(
        self,
        X: Any,
        known: Any = None,
        paths: Sequence[SegmentationPath] | None = None,
        tolerance: int = 0,
    ) -> Any:
        """Compute exactly how certain each change-point of :meth:`predict_change_points` is.

        Parameters
        ----------
        X, known, paths : see :meth:`predict_change_points`
            Only segmentations that agree with the annotations are compared.
        tolerance : int ≥ 0
            Change-points at most this many samples apart count as the same.

        Returns
        -------
        :class:`~metriclearn.oracles.BoundaryMargins`, or a list of them
        """

        def program(form: LowRankForm, fact: Any, min_size: int) -> Any:
            return boundary_margins(form, known=fact, min_size=min_size, tolerance=tolerance)

        return self._search(X, known, paths, program)

    def _search(self, X: Any, known: Any, paths: Any, program: Callable[..., Any]) -> Any:
        """Call ``program`` for every sequence with its penalty and its annotations."""
        _PATHS.check(type(self).__name__, "paths", paths)
        data = self.read_data(X)
        if paths is not None:
            check_each(type(self).__name__, "path", len(paths), "sequences", len(data.arrays))
        facts: Iterable[Any] = repeat(None)
        if known is not None:
            facts = read_labelings(type(self).__name__, known, data, segments=True, partial=True)
        cases = zip(self._represent(data), self._log_penalties(data), facts, paths or repeat(None))
        results = []
        for Z, log_penalty, fact, path in cases:
            if fact is not None and self.own_weight > 0:
                path = self._path(Z, fact) if path is None else path
                interval = target_interval(path, path_errors(path, fact))
                margin = float(self.regression_.margin)
                log_penalty = moved_penalty(log_penalty, interval, margin, self.own_weight)
            fact = None if fact is None else PartialPartition.from_partition(fact)
            form = LowRankForm(center(Z), shift=-float(np.exp(log_penalty)))
            results.append(program(form, fact, min(self.min_size, len(Z))))
        return data.as_passed(results)

    def predict(self, X: Any, known: Any = None) -> Any:
        """Return the number of the segment of every sample, (T,) for each sequence."""
        return self._search(X, known, None, lambda *case: _segmentation(*case).labels)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return minus the mean error.

        If all labels are full, the error is the mean of ‖M − N‖²_F over sequences. Otherwise all
        labels are converted to constraints, and the error is the fraction of constraints that are
        violated. ``sample_weight`` holds a weight for every sequence, (N,); it also weighs the
        constraints of the sequence.
        """
        data = self.read_data(X)
        truths = read_labelings(type(self).__name__, y, data, segments=True, partial=True)
        note_empty_score(type(self).__name__, truths)
        change_points = self.predict_change_points(data.arrays)
        errors = [label_error(*pair) for pair in zip(change_points, truths)]
        counts = [len(t.constraints) if isinstance(t, PartialPartition) else 1 for t in truths]
        weights: Any = read_weights(type(self).__name__, sample_weight, len(truths))
        weights = np.ones(len(truths)) if weights is None else weights
        return -float(weights @ errors / (weights @ counts or 1.0))

    def _begin(self, X: Any) -> tuple[Self, DataSets, list[NDArray]]:
        """Prepare a fit.

        Returns a copy of the estimator with the identity as its metric, the data sets, and the
        sequences after ``representation``.
        """
        fitted, data, _ = read_labeled(self, X)
        fitted.representation_ = None
        if self.representation is not None:
            fitted.representation_ = clone(self.representation).fit(data.arrays)
        represented = fitted._represent(data)
        fitted.components_ = np.eye(represented[0].shape[1])
        return fitted, data, represented

    def _path(self, Z: NDArray, truth: Truth | None = None) -> SegmentationPath:
        """Compute the path up to a largest number of segments.

        The largest number is ``max_segments``, or twice the number of annotations if that is more.
        """
        facts: Any = truth.change_points if isinstance(truth, Partition) else ()
        facts = truth.constraints if isinstance(truth, PartialPartition) else facts
        most = min(len(Z) // self.min_size, max(self.max_segments, 2 * len(facts)))
        form = LowRankForm(center(Z))
        problem = PenalizedSegmentation(form, min(self.min_size, len(Z)))
        path = path_between(problem, *problem.extremes, most)
        if len(path) > 2 and path.n_segments[-2] >= most:
            # The last segmentation that is kept stands for all finer ones.
            path.penalties[-2, 0] = 0.0
            path = SegmentationPath(*(column[:-1] for column in vars(path).values()))
        return path

    def _represent(self, data: DataSets) -> list[NDArray]:
        represented = list(data.arrays)
        if self.representation_ is not None:
            represented = [self.representation_.transform(array) for array in represented]
        largest = np.array([np.max(np.abs(array)) for array in represented])
        check_range(type(self).__name__, "largest values", largest[largest > 0], 1e100)
        return represented

    def _log_penalties(self, data: DataSets) -> NDArray[np.float64]:
        return self.regression_.predict(self.sequence_features_.transform(data.arrays))

    def read_data(self, X: Any) -> DataSets:
        check_is_fitted(self, "regression_")
        return read_new(self, X)


def _segmentation(form: LowRankForm, known: Any, min_size: int) -> Partition:
    """Find the best segmentation that agrees with the annotations."""
    return ConstrainedChangePoints(min_size)(form, known=known)


class BayesianCriterion(PenaltyLearner):
    """Segment with the penalty of the BIC, 2 σ² log T for each column with noise of scale σ.

    In one column, each further segment adds two parameters, a mean and a position. The squared
    residuals of Gaussian noise have the weight 1/(2σ²). The BIC penalty of a segment is therefore
    2σ² log T for one column, and the sum of these numbers for several columns. σ is the
    :func:`~metriclearn.views.hermite.noise_scale` of the column or, where most neighboring samples
    are equal, its ``robust`` or ``standard`` scale. ``fit`` learns no penalty and ignores y. If
    ``known`` is passed in prediction, the segmentation agrees with it.

    Parameters
    ----------
    representation, sequence_features, regression, min_size, max_segments, own_weight
        As for :class:`PenaltyLearner`, but ``sequence_features`` is not used. The margin of
        ``regression`` is used if ``own_weight`` is positive.

    Raises
    ------
    ValueError
        For parameters, data or labels that cannot be used, and for predictions before ``fit``.

    References
    ----------
    Schwarz, Estimating the dimension of a model, Annals of Statistics 6, 1978; Yao, Estimating the
    number of change-points via Schwarz' criterion, Statistics & Probability Letters 6, 1988.

    Examples
    --------
    >>> from metriclearn.baselines import BayesianCriterion
    >>> from metriclearn.datasets import make_change_points
    >>> data = make_change_points(2, 100, 1, 1, (3, 4), random_state=0)
    >>> learner = BayesianCriterion().fit(data.sequences, data.labels)
    >>> int(learner.predict_change_points(data.sequences[0])[-1])
    100
    """

    def fit(self, X: Any, y: Any = None, paths: Sequence[SegmentationPath] | None = None) -> Self:
        """Compute the segmentation paths. Nothing else is learned."""
        _PATHS.check(type(self).__name__, "paths", paths)
        fitted, _, represented = self._begin(X)
        fitted.paths_ = list(map(self._path, represented)) if paths is None else list(paths)
        fitted.regression_ = self.regression
        self.__dict__ = fitted.__dict__
        return self

    def _log_penalties(self, data: DataSets) -> NDArray[np.float64]:
        penalties = []
        for Z in self._represent(data):
            scales = series_scale(Z, "noise")[np.ptp(Z, axis=0) > 0]
            # a constant sequence is one segment at any penalty
            penalties.append(2.0 * (np.sum(scales**2) or 1.0) * np.log(max(len(Z), 2)))
        return np.log(penalties)
