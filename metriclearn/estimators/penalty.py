"""Learning the penalty of a segment from annotated sequences, the metric being fixed.

Max-margin interval regression (Rigaill, Hocking, Bach & Vert, Learning sparse penalties for
change-point detection using max margin interval regression, ICML 2013; Hocking et al., BMC
Bioinformatics 14:164, 2013).
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from metriclearn.estimators.inputs import DataSets, read_data_sets, read_partial_segmentations
from metriclearn.estimators.interval_regression import IntervalRegression
from metriclearn.features.sequence import SequenceFeatures
from metriclearn.oracles.change_points import PricedSegmentation
from metriclearn.oracles.constrained import ConstrainedChangePoints
from metriclearn.oracles.path import SegmentationPath, hull_vertices, path_along
from metriclearn.problem.forms import LowRankForm, center
from metriclearn.problem.knowledge import PartialPartition
from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import ComponentParameters

__all__ = [
    "BayesianCriterion",
    "PenaltyLearner",
    "moved_penalty",
    "path_errors",
    "position_at",
    "target_interval",
]

Truth = Partition | PartialPartition


def path_errors(path: SegmentationPath, truth: Truth) -> NDArray[np.float64]:
    """Error of every segmentation of a path: annotations it contradicts, or ‖M − N‖²_F.

    For a PartialPartition every constraint that a segmentation breaks counts one, as in the
    field's label error; for a Partition the error is the loss of the paper times T.
    """
    if isinstance(truth, Partition):
        loss = FrobeniusLoss()
        values = [loss(Partition(ends=ends), truth) for ends in path.change_points]
        return np.array(values) * truth.n_samples
    broken = [
        [not region.kind.allows(region.count(ends[:-1])) for region in truth.constraints]
        for ends in path.change_points
    ]
    return np.array([float(sum(row)) for row in broken])


def target_interval(path: SegmentationPath, errors: ArrayLike) -> tuple[float, float]:
    """Logarithms of the ends of the widest interval of penalties with the least error.

    Exact: the optimal segmentation is piecewise constant in the penalty and the path has all its
    pieces. Widest in ratio; −∞ and +∞ where the least error is kept however small or large the
    penalty is.
    """
    wrong = np.asarray(errors, dtype=np.float64)
    good = wrong <= wrong.min() + 1e-12
    starts = np.flatnonzero(good & ~np.append(False, good[:-1]))
    stops = np.flatnonzero(good & ~np.append(good[1:], False))
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(path.penalties, 0.0))
    logs[-1, 0], logs[0, 1] = -np.inf, np.inf
    spans = [(float(logs[stop, 0]), float(logs[start, 1])) for start, stop in zip(starts, stops)]
    return max(spans, key=lambda span: span[1] - span[0])


def _path(Z: NDArray, min_size: int, most: int) -> SegmentationPath:
    """All optima with up to about ``most`` segments; the last one stands for all finer ones."""
    problem = PricedSegmentation(LowRankForm(center(Z)), min_size)
    low, high = problem.coarsest(), problem.finest()
    vertices = hull_vertices(problem, low, high, most)
    if len(vertices) > 2 and len(vertices[-2][1]) >= most:
        vertices.pop()
    return path_along(vertices, 0.0, (0.0, np.inf))


class PenaltyLearner(ComponentParameters):
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

    COMPONENTS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("sequence_features", "transform", "SequenceFeatures()"),
        ("regression", "predict", "IntervalRegression()"),
    )
    n_features_in_: int
    representation_: Any
    components_: NDArray

    def __init__(
        self,
        representation: Any = None,
        sequence_features: SequenceFeatures = SequenceFeatures(),  # noqa: B008  # cloned
        regression: IntervalRegression = IntervalRegression(),  # noqa: B008  # cloned
        *,
        min_size: int = 1,
        max_segments: int = 40,
        own_weight: float = 0.0,
    ) -> None:
        self.representation = representation
        self.sequence_features = sequence_features
        self.regression = regression
        self.min_size = min_size
        self.max_segments = max_segments
        self.own_weight = own_weight

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
        self._check()
        data = read_data_sets(type(self).__name__, X)
        truths = read_partial_segmentations(type(self).__name__, y, data)
        represented = self._start(data) if paths is None else self._start(_first(data))
        self.components_ = np.eye(represented[0].shape[1])
        if paths is None:
            paths = self._paths_of(represented, truths)
        self._fit_penalty(data, paths, truths)
        return self

    def identity_paths(self, X: Any) -> list[SegmentationPath]:
        """Segmentation paths of the represented sequences with B = I, before any fit.

        They depend on nothing that is learned: :meth:`fit` takes those of its sequences, so that
        candidates and folds of a cross-validation can share them.
        """
        self._check()
        data = read_data_sets(type(self).__name__, X)
        represented = self._start(data)
        self.components_ = np.eye(represented[0].shape[1])
        return self._paths_of(represented, [None] * len(represented))

    def paths(self, X: Any) -> list[SegmentationPath]:
        """Exact segmentation paths of sequences under the metric, up to ``max_segments``."""
        return self._paths_of(self._represent(data := self._read(X)), [None] * len(data.arrays))

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
        data = self._read(X)
        logs = self._log_penalties(data)
        facts: list[Any] = [None] * len(data.arrays)
        if known is not None:
            facts = list(read_partial_segmentations(type(self).__name__, known, data))
        own = [None] * len(facts) if paths is None else list(paths)
        represented = self._represent(data)
        ends = [self._segment(*case).change_points for case in zip(represented, logs, facts, own)]
        return ends[0] if data.single else ends

    def predict(self, X: Any, known: Any = None) -> Any:
        """Segment number of every sample, (T,) for each sequence."""
        data = self._read(X)
        found = self.predict_change_points(X, known)
        labels = [Partition(ends=ends).labels for ends in ([found] if data.single else found)]
        return labels[0] if data.single else labels

    def score(self, X: Any, y: Any) -> float:
        """Minus the error per annotation (PartialPartition) or per sequence (‖M − N‖²_F)."""
        data = self._read(X)
        truths: list[Any] = list(read_partial_segmentations(type(self).__name__, y, data))
        found = self.predict_change_points(data.arrays)
        errors = [path_errors(_alone(ends), truth)[0] for ends, truth in zip(found, truths)]
        counts = [len(t.constraints) if isinstance(t, PartialPartition) else 1 for t in truths]
        return -float(np.sum(errors)) / max(1, sum(counts))

    def _start(self, data: DataSets) -> list[NDArray]:
        """Remember the features, fit the representation and apply it."""
        self.n_features_in_ = data.n_features
        self.representation_ = None
        if self.representation is not None:
            self.representation_ = clone(self.representation).fit(data.arrays)
        return self._represent(data)

    def _check(self) -> None:
        who = type(self).__name__
        for name, method, example in self.COMPONENTS:
            component = getattr(self, name)
            if isinstance(component, type) or not hasattr(component, method):
                raise ValueError(f"{who} needs a {name} such as {example}, got {component!r}.")
        for name in ("min_size", "max_segments"):
            count = getattr(self, name)
            if not isinstance(count, numbers.Integral) or count < 1:
                raise ValueError(f"{who} needs a whole {name} of at least 1, got {count!r}.")
        weight = self.own_weight
        if not isinstance(weight, numbers.Real) or not 0 <= float(weight) < np.inf:
            raise ValueError(f"{who} needs a finite own_weight of at least 0, got {weight!r}.")
        if self.representation is not None and not hasattr(self.representation, "transform"):
            raise ValueError(
                f"{who} needs a representation such as HermiteMoments() or None, got "
                f"{self.representation!r}."
            )

    def _fit_penalty(
        self, data: DataSets, paths: Sequence[SegmentationPath], truths: Sequence[Any]
    ) -> None:
        """Target intervals of paths under ``components_``, and the regression on them."""
        self.sequence_features_ = clone(self.sequence_features).fit(data.arrays)
        if [path.change_points[0][-1] for path in paths] != [len(array) for array in data.arrays]:
            raise ValueError(
                f"{type(self).__name__} needs one path for each of the {len(data.arrays)} "
                f"sequences, of its length, got {len(paths)} others; pass identity_paths(X)."
            )
        self.paths_ = list(paths)
        errors = [path_errors(path, truth) for path, truth in zip(paths, truths)]
        self.intervals_ = np.array([target_interval(*pair) for pair in zip(paths, errors)])
        rows = self.sequence_features_.transform(data.arrays)
        if not np.isfinite(self.intervals_).any():
            raise ValueError(
                f"{type(self).__name__} needs annotations that some penalties contradict, but "
                "every penalty is equally good for all of them; annotate changes, too."
            )
        used = np.isfinite(self.intervals_).any(axis=1)
        self.regression_ = clone(self.regression).fit(rows[used], self.intervals_[used])
        logs = self.regression_.predict(rows)
        self.training_errors_ = np.array(
            [[e[position_at(p, log)], e.min()] for p, e, log in zip(paths, errors, logs)]
        )

    def _paths_of(
        self, represented: Sequence[NDArray], truths: Sequence[Any]
    ) -> list[SegmentationPath]:
        counts = [0 if truth is None else len(_facts(truth)) for truth in truths]
        return [self._path_of(Z, count) for Z, count in zip(represented, counts)]

    def _path_of(self, Z: NDArray, n_facts: int) -> SegmentationPath:
        most = min(len(Z) // self.min_size, max(self.max_segments, 2 * n_facts))
        return _path(Z @ self.components_.T, min(self.min_size, len(Z)), most)

    def _represent(self, data: DataSets) -> list[NDArray]:
        found = list(data.arrays)
        if self.representation_ is not None:
            found = [self.representation_.transform(array) for array in found]
        for i, array in enumerate(found):
            largest = float(np.max(np.abs(array)))
            if largest > 0 and not 1e-100 <= largest <= 1e100:
                raise ValueError(
                    f"{type(self).__name__} needs values between 1e-100 and 1e100 in magnitude, "
                    f"whose squares can be added, got at most {largest:.3g} in sequence {i}; "
                    "change the unit."
                )
        return found

    def _log_penalties(self, data: DataSets) -> NDArray[np.float64]:
        return self.regression_.predict(self.sequence_features_.transform(data.arrays))

    def _segment(
        self,
        Z: NDArray,
        log_penalty: float,
        known: Truth | None,
        path: SegmentationPath | None = None,
    ) -> Partition:
        if known is not None and self.own_weight > 0:
            path = self._path_of(Z, len(_facts(known))) if path is None else path
            interval = target_interval(path, path_errors(path, known))
            margin = float(self.regression_.margin)
            log_penalty = moved_penalty(log_penalty, interval, margin, self.own_weight)
        form = LowRankForm(center(Z @ self.components_.T), shift=-float(np.exp(log_penalty)))
        if isinstance(known, Partition):
            known = PartialPartition.from_partition(known)
        return ConstrainedChangePoints(min(self.min_size, len(Z)))(form, known=known)

    def _read(self, X: Any) -> DataSets:
        check_is_fitted(self, "regression_")
        data = read_data_sets(type(self).__name__, X)
        if data.n_features != self.n_features_in_:
            raise ValueError(
                f"X has {data.n_features} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        return data


def _facts(truth: Truth) -> Any:
    """As many as what is known."""
    return truth.change_points if isinstance(truth, Partition) else truth.constraints


def _alone(ends: NDArray) -> SegmentationPath:
    """A path of one segmentation."""
    return SegmentationPath([ends], np.array([len(ends)]), np.zeros(1), np.array([[0.0, np.inf]]))


def _first(data: DataSets) -> DataSets:
    """The first sequence alone: enough to fit a representation without learning from data."""
    return replace(data, arrays=data.arrays[:1])


def position_at(path: SegmentationPath, log_penalty: float) -> int:
    """Which segmentation of a path is optimal; beyond its end, the last."""
    place = int(np.searchsorted(-path.penalties[:, 0], -np.exp(log_penalty), side="left"))
    return min(place, len(path) - 1)


def moved_penalty(z: float, interval: tuple[float, float], margin: float, weight: float) -> float:
    """The log penalty z moved towards an interval.

    argmin_x (x − z)² + weight ([margin − (x − low)]₊² + [margin − (high − x)]₊²), exact.
    """
    a, b = interval[0] + margin, interval[1] - margin
    if a > b and (z - a) + weight * (b - a) <= 0 <= (z - b) + weight * (a - b):
        return (z + weight * (a + b)) / (1.0 + 2.0 * weight)  # both hinges are active
    if z < a:
        return (z + weight * a) / (1.0 + weight)
    if z > b:
        return (z + weight * b) / (1.0 + weight)
    return z


class BayesianCriterion(PenaltyLearner):
    """The unsupervised penalty of the BIC, 2 r σ² log T for r columns and noise σ.

    A segment more has r means and one position to estimate, and squared residuals of Gaussian
    noise weigh 1/(2σ²); σ is :func:`~metriclearn.features.hermite.noise_scale`, averaged over
    columns. Nothing is learned from y; with ``known`` the segmentation agrees with it.
    Parameters as of :class:`PenaltyLearner`; those of the regression are not used.
    """

    def fit(self, X: Any, y: Any = None, paths: Sequence[SegmentationPath] | None = None) -> Self:
        """Remember the features, and the segmentation paths."""
        self._check()
        data = read_data_sets(type(self).__name__, X)
        represented = self._start(data)
        self.components_ = np.eye(represented[0].shape[1])
        nothing = [None] * len(represented)
        self.paths_ = self._paths_of(represented, nothing) if paths is None else list(paths)
        self.sequence_features_ = SequenceFeatures(("log_noise", "log_log_length")).fit(data.arrays)
        self.regression_ = self.regression
        return self

    def _log_penalties(self, data: DataSets) -> NDArray[np.float64]:
        represented = self._represent(data)
        rows = self.sequence_features_.transform(represented)
        return np.log(2.0 * represented[0].shape[1]) + rows @ np.array([2.0, 1.0])
