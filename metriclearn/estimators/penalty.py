"""Learning the penalty of a segment from annotated sequences, the metric being fixed.

Max-margin interval regression (Rigaill, Hocking, Bach & Vert, Learning sparse penalties for
change-point detection using max margin interval regression, ICML 2013; Hocking et al., BMC
Bioinformatics 14:164, 2013).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from metriclearn.estimators.inputs import (
    DataSets,
    check_features,
    check_range,
    keep_features,
    read_data_sets,
    read_labelings,
    read_weights,
)
from metriclearn.estimators.segmenter import PlottedSegmenter
from metriclearn.features.sequence import SequenceFeatures
from metriclearn.oracles.change_points import ConstrainedChangePoints, PricedSegmentation
from metriclearn.oracles.margins import boundary_margins
from metriclearn.oracles.path import SegmentationPath, hull_vertices, path_along, widest_run
from metriclearn.problem.forms import LowRankForm, center
from metriclearn.problem.knowledge import PartialPartition
from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.problem.partition import Partition
from metriclearn.running.components import ComponentParameters
from metriclearn.running.parameters import (
    Needs,
    check_parameters,
    component,
    number,
    real_array,
)

Truth = Partition | PartialPartition

_PATHS = Needs(
    "{name}=None or a list of paths such as identity_paths(X) gives",
    lambda paths: (
        paths is None
        or (isinstance(paths, (list, tuple)) and set(map(type, paths)) == {SegmentationPath})
    ),
)


@dataclass(eq=False, repr=False)
class IntervalRegression(RegressorMixin, BaseEstimator):
    """A linear function whose values should lie well inside given intervals.

    Minimizes, over w and a free intercept b, for standardized features x and intervals [l, h],

        (1/n) Σ [m − (z − l)]₊² + [m − (h − z)]₊² + μ(r‖w‖₁ + (1 − r)/2 ‖w‖²),   z = ⟨w, x⟩ + b:

    the squared hinge of max-margin interval regression with an elastic net, convex. Ends of −∞
    and +∞ cost nothing; features that do not vary are not used.

    Parameters
    ----------
    strength : float ≥ 0
        μ.
    l1_ratio : float
        r in [0, 1].
    margin : float ≥ 0
        m, in the units of the intervals.

    Attributes
    ----------
    coef_ : array (P,), intercept_ : float
        For features in their own units.
    objective_ : float
    """

    PARAMETERS: ClassVar[Mapping[str, Needs]] = {
        "strength": number(),
        "l1_ratio": number(0, 1),
        "margin": number(),
    }

    strength: float = 1e-2
    l1_ratio: float = 0.0
    margin: float = 1.0

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to n intervals.

        Parameters
        ----------
        X : array (n, P), P may be 0: a constant
        y : array (n, 2)
            Lower and upper ends, −∞ and +∞ allowed.
        sample_weight : array (n,), optional

        Raises
        ------
        ValueError
            If an interval is empty or NaN, none has a finite end, or a parameter is out of range.
        """
        check_parameters(self)
        rows = self._rows(X, reset=True)
        ends = _read_intervals(y, len(rows))
        finite = np.isfinite(ends)
        if not finite.any():
            raise ValueError("IntervalRegression needs at least one interval with a finite end.")
        weights = read_weights("IntervalRegression", sample_weight, len(rows))
        weights = np.ones(len(rows)) if weights is None else weights
        mean, deviation = rows.mean(axis=0), rows.std(axis=0)
        varies = deviation > 1e-12 * np.maximum(1.0, np.abs(mean))
        deviation = np.where(varies, deviation, np.inf)
        Z = (rows - mean) / deviation
        solution = self._minimize(Z, ends, weights / weights.sum(), float(np.median(ends[finite])))
        self.coef_ = solution[:-1] / deviation
        self.intercept_ = float(solution[-1] - self.coef_ @ mean)
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """z of every row, (n,)."""
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        return rows @ self.coef_ + self.intercept_

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Share of values inside their intervals."""
        z = self.predict(X)
        ends = _read_intervals(y, len(z))
        inside = (ends[:, 0] <= z) & (z <= ends[:, 1])
        weights: Any = read_weights("IntervalRegression", sample_weight, len(z))
        return float(np.average(inside, weights=weights))

    def _rows(self, X: ArrayLike, reset: bool) -> NDArray[np.float64]:
        """X as floats, (n, P), P may be 0."""
        rows = real_array("IntervalRegression", "X", X, empty=True)
        if len(rows) == 0:
            raise ValueError("IntervalRegression needs at least one row in X, got 0 sample(s).")
        validate_data(self, X, reset=reset, skip_check_array=True)
        return rows

    def _minimize(self, Z: NDArray, ends: NDArray, weights: NDArray, start: float) -> NDArray:
        """(w, b), with w split in two nonnegative parts so that ‖w‖₁ is smooth."""
        P = Z.shape[1]
        l1, l2 = self.strength * self.l1_ratio, self.strength * (1.0 - self.l1_ratio)

        def objective(v: NDArray) -> tuple[float, NDArray]:
            w = v[:P] - v[P : 2 * P]  # v holds both parts of w and then b
            z = Z @ w + v[-1]
            below = np.maximum(0.0, self.margin - (z - ends[:, 0]))
            above = np.maximum(0.0, self.margin - (ends[:, 1] - z))
            value = weights @ (below**2 + above**2) + l1 * v[:-1].sum() + 0.5 * l2 * (w @ w)
            slope = 2.0 * weights * (above - below)
            gradient = Z.T @ slope + l2 * w
            return value, np.concatenate([gradient + l1, l1 - gradient, [slope.sum()]])

        bounds = [(0, None)] * (2 * P) + [(None, None)]
        minimum = minimize(
            objective,
            np.append(np.zeros(2 * P), start),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": 10_000, "maxfun": 100_000, "ftol": 1e-14, "gtol": 1e-10},
        )
        self.objective_ = float(minimum.fun)
        return np.append(minimum.x[:P] - minimum.x[P : 2 * P], minimum.x[-1])


def label_error(ends: NDArray, truth: Truth) -> float:
    """Error of a segmentation: annotations that it contradicts, or ‖M − N‖²_F.

    For a PartialPartition every constraint that the segmentation breaks counts one, as in the
    field's label error; for a Partition the error is the loss times T.
    """
    if isinstance(truth, Partition):
        return FrobeniusLoss()(Partition(ends=ends), truth) * truth.n_samples
    return float(sum(not region.allows(ends[:-1]) for region in truth.constraints))


def path_errors(path: SegmentationPath, truth: Truth) -> NDArray[np.float64]:
    """:func:`label_error` of every segmentation of a path, (m,)."""
    return np.array([label_error(ends, truth) for ends in path.change_points])


def target_interval(path: SegmentationPath, errors: ArrayLike) -> tuple[float, float]:
    """Logarithms of the ends of the widest interval of penalties with the least error.

    Exact: the optimal segmentation is piecewise constant in the penalty and the path has all its
    pieces. Widest in ratio; −∞ and +∞ where the least error is kept however small or large the
    penalty is.
    """
    wrong = np.asarray(errors, dtype=np.float64)
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(path.penalties, 0.0))
    logs[-1, 0], logs[0, 1] = -np.inf, np.inf
    first, last = widest_run(wrong <= wrong.min() + 1e-12, *logs.T)
    return float(logs[last, 0]), float(logs[first, 1])


def moved_penalty(z: float, interval: tuple[float, float], margin: float, weight: float) -> float:
    """The log penalty z moved towards an interval.

    argmin_x (x − z)² + weight ([margin − (x − low)]₊² + [margin − (high − x)]₊²), exact.
    """
    a, b = interval[0] + margin, interval[1] - margin  # beyond these the hinges are active
    if a > b and (z - a) + weight * (b - a) <= 0 <= (z - b) + weight * (a - b):
        return (z + weight * (a + b)) / (1.0 + 2.0 * weight)  # both hinges are active
    if z < a:
        return (z + weight * a) / (1.0 + weight)
    if z > b:
        return (z + weight * b) / (1.0 + weight)
    return z


def _read_intervals(y: ArrayLike, n: int) -> NDArray[np.float64]:
    """n intervals, (n, 2)."""
    ends = real_array("IntervalRegression", "y", y, infinite=True)
    if ends.shape != (n, 2) or not np.all(ends[:, 0] <= ends[:, 1]):
        raise ValueError(
            f"IntervalRegression needs one interval (low, high) with low <= high for each of "
            f"the {n} rows, got an array of shape {ends.shape}."
        )
    return ends


@dataclass(eq=False, repr=False, kw_only=True)
class PenalizedSegmenter(PlottedSegmenter, ComponentParameters):
    """Segment with a penalty that is a function of the sequence, under a metric ``components_``.

    What its subclasses share; they fit the metric.
    """

    PARAMETERS: ClassVar[Mapping[str, Needs]] = {
        "representation": component("transform", "HermiteMoments()", optional=True),
        "sequence_features": component("transform", "SequenceFeatures()"),
        "regression": component("predict", "IntervalRegression()"),
        "min_size": number(1, whole=True),
        "max_segments": number(1, whole=True),
        "own_weight": number(),
    }
    representation: Any = None
    sequence_features: SequenceFeatures = SequenceFeatures()  # noqa: RUF009
    regression: IntervalRegression = IntervalRegression()  # noqa: RUF009
    min_size: int = 1
    max_segments: int = 40
    own_weight: float = 0.0

    def identity_paths(self, X: Any) -> list[SegmentationPath]:
        """Segmentation paths of the represented sequences with B = I, before any fit.

        They depend on nothing that is learned: :meth:`fit` takes those of its sequences, so that
        candidates and folds of a cross-validation can share them.
        """
        return list(map(self._path, self._begin(X)[1]))

    def paths(self, X: Any) -> list[SegmentationPath]:
        """Exact segmentation paths of sequences under the metric, up to ``max_segments``."""
        return list(map(self._path, self._represent(self._read(X))))

    def predict_penalties(self, X: Any) -> NDArray[np.float64]:
        """λ of every sequence, (N,)."""
        return np.exp(self._log_penalties(self._read(X)))

    def predict_change_points(
        self, X: Any, known: Any = None, paths: Sequence[SegmentationPath] | None = None
    ) -> Any:
        """Segment ends of every sequence, the last one T, as in ruptures.

        Parameters
        ----------
        X : sequence of (T_i, P) arrays, or one
        known : sequence of PartialPartition, or one, optional
            What is known of these sequences: the segmentation agrees with it (as LOPART's does),
            and it moves the penalty by ``own_weight``.
        paths : sequence of SegmentationPath, optional
            :meth:`paths` of these sequences, where they are known already; used with ``known``.
        """

        def program(form: LowRankForm, fact: Any, min_size: int) -> Any:
            return ConstrainedChangePoints(min_size)(form, known=fact).change_points

        return self._search(X, known, paths, program)

    def boundary_margins(
        self,
        X: Any,
        known: Any = None,
        paths: Sequence[SegmentationPath] | None = None,
        tolerance: int = 0,
    ) -> Any:
        """How sure every change-point of :meth:`predict_change_points` is, exactly.

        Parameters
        ----------
        X, known, paths : see :meth:`predict_change_points`
            Only segmentations that agree with what is known are compared.
        tolerance : int ≥ 0
            Samples by which a change-point may be elsewhere and still be the same.

        Returns
        -------
        :class:`~metriclearn.BoundaryMargins`, or a list of them
        """

        def program(form: LowRankForm, fact: Any, min_size: int) -> Any:
            return boundary_margins(form, known=fact, min_size=min_size, tolerance=tolerance)

        return self._search(X, known, paths, program)

    def _search(self, X: Any, known: Any, paths: Any, program: Callable[..., Any]) -> Any:
        """What a program finds in every sequence at its penalty, of those that agree."""
        _PATHS.check(type(self).__name__, "paths", paths)
        data = self._read(X)
        if paths is not None and len(paths) != len(data.arrays):
            raise ValueError(
                f"{type(self).__name__} needs one of the paths for each of {len(data.arrays)} "
                f"sequences, got {len(paths)}."
            )
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
            if isinstance(fact, Partition):
                fact = PartialPartition.from_partition(fact)
            form = LowRankForm(center(Z @ self.components_.T), shift=-float(np.exp(log_penalty)))
            results.append(program(form, fact, min(self.min_size, len(Z))))
        return results[0] if data.single else results

    def predict(self, X: Any, known: Any = None) -> Any:
        """Segment number of every sample, (T,) for each sequence."""
        change_points = self.predict_change_points(X, known)
        if isinstance(change_points, list):
            return [Partition(ends=ends).labels for ends in change_points]
        return Partition(ends=change_points).labels

    def score(self, X: Any, y: Any) -> float:
        """Minus the error per annotation (PartialPartition) or per sequence (‖M − N‖²_F)."""
        data = self._read(X)
        truths = read_labelings(type(self).__name__, y, data, segments=True, partial=True)
        change_points = self.predict_change_points(data.arrays)
        errors = sum(label_error(*pair) for pair in zip(change_points, truths))
        counts = [len(t.constraints) if isinstance(t, PartialPartition) else 1 for t in truths]
        return -errors / max(1, sum(counts))

    def _begin(self, X: Any) -> tuple[DataSets, list[NDArray]]:
        """Read the sequences and represent them, with the identity for a metric."""
        check_parameters(self)
        data = read_data_sets(type(self).__name__, X)
        keep_features(self, data)
        self.representation_ = None
        if self.representation is not None:
            self.representation_ = clone(self.representation).fit(data.arrays)
        represented = self._represent(data)
        self.components_ = np.eye(represented[0].shape[1])
        return data, represented

    def _fit_penalty(
        self,
        data: DataSets,
        represented: Sequence[NDArray],
        truths: Sequence[Any],
        paths: Sequence[SegmentationPath] | None = None,
    ) -> None:
        """Target intervals of paths under ``components_``, and the regression on them."""
        _PATHS.check(type(self).__name__, "paths", paths)
        paths = list(map(self._path, represented, truths)) if paths is None else list(paths)
        self.sequence_features_ = clone(self.sequence_features).fit(data.arrays)
        if [path.change_points[0][-1] for path in paths] != [len(array) for array in data.arrays]:
            raise ValueError(
                f"{type(self).__name__} needs one path for each of the {len(data.arrays)} "
                f"sequences, of its length, got {len(paths)} others; pass identity_paths(X)."
            )
        self.paths_ = paths
        errors = [path_errors(path, truth) for path, truth in zip(paths, truths)]
        self.intervals_ = np.array(list(map(target_interval, paths, errors)))
        rows = self.sequence_features_.transform(data.arrays)
        if not np.isfinite(self.intervals_).any():
            raise ValueError(
                f"{type(self).__name__} needs annotations that some penalties contradict, but "
                "every penalty is equally good for all of them; annotate changes, too."
            )
        used = np.isfinite(self.intervals_).any(axis=1)  # the others suit every penalty
        self.regression_ = clone(self.regression).fit(rows[used], self.intervals_[used])
        cases = zip(paths, errors, np.exp(self.regression_.predict(rows)))
        predicted = [error[path.positions(penalty)] for path, error, penalty in cases]
        self.training_errors_ = np.column_stack([predicted, [error.min() for error in errors]])

    def _path(self, Z: NDArray, truth: Truth | None = None) -> SegmentationPath:
        """All optima with up to about as many segments as are asked for or annotated twice."""
        facts: Any = truth.change_points if isinstance(truth, Partition) else ()
        facts = truth.constraints if isinstance(truth, PartialPartition) else facts
        most = min(len(Z) // self.min_size, max(self.max_segments, 2 * len(facts)))
        form = LowRankForm(center(Z @ self.components_.T))
        problem = PricedSegmentation(form, min(self.min_size, len(Z)))
        vertices = hull_vertices(problem, *problem.extremes, most)
        if len(vertices) > 2 and len(vertices[-2].ends) >= most:
            vertices.pop()  # the last one kept stands for all finer ones
        return path_along(vertices, 0.0, (0.0, np.inf))

    def _represent(self, data: DataSets) -> list[NDArray]:
        represented = list(data.arrays)
        if self.representation_ is not None:
            represented = [self.representation_.transform(array) for array in represented]
        largest = np.array([np.max(np.abs(array)) for array in represented])
        check_range(type(self).__name__, "largest values", largest[largest > 0], 1e100)
        return represented

    def _log_penalties(self, data: DataSets) -> NDArray[np.float64]:
        return self.regression_.predict(self.sequence_features_.transform(data.arrays))

    def _read(self, X: Any) -> DataSets:
        check_is_fitted(self, "regression_")
        return check_features(self, read_data_sets(type(self).__name__, X))


@dataclass(eq=False, repr=False)
class PenaltyLearner(PenalizedSegmenter):
    """Segment with a fixed metric and a penalty that is learned as a function of the sequence.

    For every training sequence the interval of penalties with the least error is computed from
    its exact segmentation path, and log λ_i = ⟨v, features of sequence i⟩ + b is fitted to the
    logarithms of the intervals. With ``SequenceFeatures(())`` the penalty is a constant, with
    ``("log_log_length",)`` linear in log log T.

    Parameters
    ----------
    representation : transformer, optional
        Applied to every sequence first, such as :class:`~metriclearn.features.HermiteMoments`
        or a scikit-learn Pipeline; the sequence as it is by default.
    sequence_features : SequenceFeatures
        Computed from the sequences as given, before ``representation``.
    regression : IntervalRegression
    min_size : int
        Smallest number of samples in a segment.
    max_segments : int
        Paths are not refined beyond this number of segments.
    own_weight : float ≥ 0
        How far annotations of a sequence that are given to ``predict`` move its penalty: z becomes
        the minimizer of (z − z₀)² + own_weight · (the regression's squared hinge on the interval
        of those annotations), as a free intercept per sequence with a ridge would do.

    Attributes
    ----------
    components_ : array (r, P)
        Lᵀ; the identity.
    paths_ : list of SegmentationPath
        Of the training sequences under the metric; not saved, :meth:`paths` makes them again.
    intervals_ : array (N, 2)
        Target intervals of the training sequences.
    training_errors_ : array (N, 2)
        Errors of the training sequences at the learned penalty, and at the best one.
    regression_, representation_ : fitted components

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.problem.knowledge import EXACTLY_ONE, NO_CHANGE, PartialPartition
    >>> X = [np.repeat([0.0, 3.0], 20)[:, None] + np.sin(np.arange(40.0))[:, None] / 4]
    >>> known = [PartialPartition(40, regions=[(0, 15, NO_CHANGE), (15, 25, EXACTLY_ONE)])]
    >>> learner = PenaltyLearner(sequence_features=SequenceFeatures(())).fit(X, known)
    >>> learner.predict_change_points(X)
    [array([20, 40])]
    """

    representation: Any = None
    sequence_features: SequenceFeatures = SequenceFeatures()  # noqa: RUF009
    regression: IntervalRegression = IntervalRegression()  # noqa: RUF009

    def fit(self, X: Any, y: Any, paths: Sequence[SegmentationPath] | None = None) -> Self:
        """Learn the penalty from sequences and their labels or PartialPartitions.

        Parameters
        ----------
        X, y : sequences, labels
        paths : sequence of SegmentationPath, optional
            :meth:`identity_paths` of these sequences, where they are known already.

        Raises
        ------
        ValueError
            For data that cannot be used, or annotations that every penalty satisfies.
        """
        data, represented = self._begin(X)
        truths = read_labelings(type(self).__name__, y, data, segments=True, partial=True)
        self._fit_penalty(data, represented, truths, paths)
        return self


class BayesianCriterion(PenaltyLearner):
    """The unsupervised penalty of the BIC, 2 r σ² log T for r columns and noise σ.

    A segment more has r means and one position to estimate, and squared residuals of Gaussian
    noise weigh 1/(2σ²); σ is :func:`~metriclearn.features.hermite.noise_scale`, averaged over
    columns. Nothing is learned from y; with ``known`` the segmentation agrees with it.
    Parameters as of :class:`PenaltyLearner`; those of the regression are not used.
    """

    def fit(self, X: Any, y: Any = None, paths: Sequence[SegmentationPath] | None = None) -> Self:
        """Remember the features, and the segmentation paths."""
        _PATHS.check(type(self).__name__, "paths", paths)
        data, represented = self._begin(X)
        self.paths_ = list(map(self._path, represented)) if paths is None else list(paths)
        self.sequence_features_ = SequenceFeatures(("log_noise", "log_log_length")).fit(data.arrays)
        self.regression_ = self.regression
        return self

    def _log_penalties(self, data: DataSets) -> NDArray[np.float64]:
        represented = self._represent(data)
        rows = self.sequence_features_.transform(represented)
        return np.log(2.0 * represented[0].shape[1]) + rows @ np.array([2.0, 1.0])
