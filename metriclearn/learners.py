"""Estimators that learn a metric from labeled partitions."""

from __future__ import annotations

import logging
import numbers
import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from metriclearn.inputs import DataSets, read_data_sets, read_segmentations, read_weights
from metriclearn.joint_features import LinearFeatures, Samples
from metriclearn.losses import FrobeniusLoss
from metriclearn.mahalanobis import DiagonalMetric, Metric, MetricCone
from metriclearn.oracles.change_points import ChangePoints
from metriclearn.partition import Partition
from metriclearn.progress import ProgressBar
from metriclearn.regularizers import L1, Regularizer
from metriclearn.risk import StructuredHinge
from metriclearn.segmentation import MahalanobisSegmenter
from metriclearn.solvers.base import Solution, Solver
from metriclearn.solvers.bundle import BundleDual

__all__ = ["ChangePointMetricLearner"]

_LOGGER = logging.getLogger(__name__)
_COMPONENTS = (
    ("metric", "linearize", "DiagonalMetric()"),
    ("regularizer", "terms", "L1()"),
    ("solver", "minimize", "BundleDual()"),
)


class ChangePointMetricLearner(MahalanobisSegmenter):
    """Learn a Mahalanobis metric, and the price of a segment, from segmented sequences.

    Minimizes the convex objective of Lajugie, Arlot & Bach, Eq. (9),

        Σ_i s_i L_i(B, λ) + Ω(B),   B ⪰ 0, λ ≥ 0,

    where L_i is the margin-rescaled hinge for segmenting sequence i by maximizing
    (1/T)[Tr(XBXᵀM) − λ Tr M] under the loss ℓ = ‖M − N‖²_F / T, by exact loss-augmented dynamic
    programs. New sequences are segmented exactly with the learned B and λ.

    The defaults (one weight per feature, L1 of strength 1e-3 on standardized features, learned
    penalty) had the smallest loss relative to the best setting of each data set, in 3-fold
    cross-validation on the training parts of the synthetic sequences, HAPT and Gesture Phase:
    ``python -m experiments.default_settings``, table in docs/defaults.md. With few, correlated
    features ``FullMetric()`` and ``SquaredFrobenius(0.1)`` were better (HAPT: 10.2 against 12.7).

    Parameters
    ----------
    metric : Metric
        ``DiagonalMetric()`` (one weight per feature) or ``FullMetric()``.
    regularizer : Regularizer
        ``SquaredFrobenius``, ``L1`` (diagonal metrics) or ``Trace``, each with ``strength``.
    solver : Solver
        ``BundleDual`` (certified) or ``ProjectedSubgradient``.
    penalty : "learned" or float
        Price λ ≥ 0 of a segment; "learned" makes it a variable of the convex problem.
    loss_scale : float
        α > 0, the scale of ℓ inside the margin. With a learned penalty it only rescales B and λ
        and acts as a factor on the regularizer's strength.
    n_segments : None or "given"
        Whether inference knows the number of segments, in training from the labels.
    min_size : int
        Smallest number of samples in a predicted segment, and in training.
    standardize : bool
        Divide features by their pooled within-sequence standard deviation before learning, so
        that ``strength`` means the same for all; ``components_`` includes it and applies to data
        in their own units.
    n_jobs : int, optional
        Threads over sequences, as in joblib. BLAS gets one thread below 500 features, where
        more would only wait for each other.
    verbose : bool, optional
        Progress bar at once (True), never (False), or in a terminal when fitting takes longer
        than a few seconds (None).

    Attributes
    ----------
    components_ : array (r, P)
        Lᵀ with B = LLᵀ; r is the rank of B.
    penalty_ : float or None
        λ; None after fitting with ``n_segments="given"``.
    solution_ : Solution
        Objective, lower bound, gap, trace and reason for stopping.
    scale_ : array (P,)
        Standard deviations features were divided by (ones without ``standardize``).
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    The paper fixes λ = α = 1 (see :meth:`paper`). The cost of a segment inside the loss-augmented
    problem is then (α − λ) Tr M = 0, so with noisy data the certified optimum shrinks B and
    predicts too few segments; a learned λ has no such defect and is the default.

    Examples
    --------
    >>> from metriclearn import ChangePointMetricLearner
    >>> from metriclearn.datasets import make_change_points
    >>> data = make_change_points(n_features=30, n_relevant=3, random_state=0)
    >>> learner = ChangePointMetricLearner().fit(data.sequences, data.labels)
    >>> learner.solution_.converged
    True
    """

    def __init__(
        self,
        metric: Metric = DiagonalMetric(),  # noqa: B008  # never changed, see set_params
        regularizer: Regularizer = L1(),  # noqa: B008
        solver: Solver = BundleDual(),  # noqa: B008
        *,
        penalty: str | float = "learned",
        loss_scale: float = 1.0,
        n_segments: str | None = None,
        min_size: int = 1,
        standardize: bool = True,
        n_jobs: int | None = None,
        verbose: bool | None = None,
    ) -> None:
        self.metric = metric
        self.regularizer = regularizer
        self.solver = solver
        self.penalty = penalty
        self.loss_scale = loss_scale
        self.n_segments = n_segments
        self.min_size = min_size
        self.standardize = standardize
        self.n_jobs = n_jobs
        self.verbose = verbose

    @classmethod
    def paper(cls, **parameters: Any) -> Self:
        """The paper's exact setting, ``penalty=1, loss_scale=1``; see the notes on noise."""
        return cls(**{"penalty": 1.0, "loss_scale": 1.0, **parameters})

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from sequences and their segmentations.

        Parameters
        ----------
        X : sequence of (T_i, P) arrays or data frames, or one (T, P) array
        y : sequence of (T_i,) labels (any hashables) or Partition, or one
            Every run of equal labels is a segment.
        sample_weight : array (N,), optional
            Weight of every sequence.

        Raises
        ------
        ValueError
            For data, labels or parameters that cannot be used, in one sentence.
        """
        self._check_parameters()
        data = read_data_sets(type(self).__name__, X)
        truths = read_segmentations(type(self).__name__, y, data)
        weights = read_weights(type(self).__name__, sample_weight, len(truths))
        self._check_sizes(truths)
        self._remember(data)
        if weights is not None:
            used = np.flatnonzero(weights)
            data = replace(data, arrays=[data.arrays[i] for i in used])
            truths, weights = [truths[i] for i in used], weights[used] / weights.max()
        self.scale_ = self._feature_scale(data, weights)
        self.solution_ = self._minimize(data, truths, weights)
        cone = self._cone(data.n_features)
        coordinates, price = cone.split(self.solution_.w)
        self.components_ = self.metric.components(coordinates) / self.scale_
        if self.n_segments == "given":
            self.penalty_ = None
        else:
            self.penalty_ = price if cone.priced else float(self.penalty)
        self._report()
        return self

    def _check_parameters(self) -> None:
        who = type(self).__name__
        for name, method, example in _COMPONENTS:
            component = getattr(self, name)
            if isinstance(component, type) or not hasattr(component, method):
                raise ValueError(f"{who} needs a {name} such as {example}, got {component!r}.")
        if self.penalty != "learned" and not _is_number(self.penalty, 0.0):
            raise ValueError(
                f'{who} needs penalty="learned" or a number of at least 0, got {self.penalty!r}.'
            )
        if not _is_number(self.loss_scale, 0.0) or self.loss_scale == 0:
            raise ValueError(f"{who} needs a positive loss_scale, got {self.loss_scale!r}.")
        if not isinstance(self.min_size, numbers.Integral) or self.min_size < 1:
            raise ValueError(f"{who} needs a whole min_size of at least 1, got {self.min_size!r}.")
        if self.n_segments not in (None, "given"):
            raise ValueError(
                f'{who} needs n_segments=None or "given", got {self.n_segments!r}; a number of '
                "segments is passed to predict."
            )

    def _check_sizes(self, truths: list[Partition]) -> None:
        """The hinge is an upper bound only if the labels are among what inference may answer."""
        for i, truth in enumerate(truths):
            if truth.sizes.min() < self.min_size:
                raise ValueError(
                    f"{type(self).__name__} needs labeled segments of at least "
                    f"min_size={self.min_size} samples, but data set {i} has one of "
                    f"{truth.sizes.min()}; lower min_size, or raise it after fitting to predict."
                )

    def _remember(self, data: DataSets) -> None:
        self.n_features_in_ = data.n_features
        if data.feature_names is not None:
            self.feature_names_in_ = data.feature_names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _feature_scale(self, data: DataSets, weights: NDArray | None) -> NDArray:
        """Pooled standard deviations around the sequence means, all positive."""
        total = np.zeros(data.n_features)
        shares = np.ones(len(data.arrays)) if weights is None else weights
        magnitude = np.max([np.max(np.abs(array), axis=0) for array in data.arrays], axis=0)
        unit = np.where(magnitude > 0, magnitude, 1.0)  # keeps squares within range
        for i, array in enumerate(data.arrays):
            if len(array) < 2:
                raise ValueError(
                    f"{type(self).__name__} needs at least 2 samples in every data set, got 1 "
                    f"sample in data set {i}; remove it."
                )
            total += shares[i] * len(array) * np.var(array / unit, axis=0)
        scale = np.sqrt(total / float(shares @ [len(array) for array in data.arrays]))
        constant = np.flatnonzero(scale <= 1e-13)
        scale = scale * unit
        if len(constant):
            names = getattr(self, "feature_names_in_", np.arange(data.n_features))[constant[:5]]
            raise ValueError(
                f"{type(self).__name__} needs features that vary within the data sets, but "
                f"{len(constant)} are constant in each ({', '.join(map(str, names))}"
                f"{', …' if len(constant) > 5 else ''}); remove them."
            )
        if not self.standardize and (scale.min() < 1e-50 or scale.max() > 1e50):
            raise ValueError(
                f"{type(self).__name__} needs features with standard deviations between 1e-50 and "
                f"1e50 without standardize, got {scale.min():.3g} to {scale.max():.3g}; rescale."
            )
        return scale if self.standardize else np.ones(data.n_features)

    def _cone(self, n_features: int) -> MetricCone:
        priced = self.n_segments is None and self.penalty == "learned"
        return MetricCone(self.metric, n_features, priced)

    def _minimize(
        self, data: DataSets, truths: list[Partition], weights: NDArray | None
    ) -> Solution:
        cone = self._cone(data.n_features)
        risk = StructuredHinge(
            LinearFeatures(self.metric),
            FrobeniusLoss(),
            ChangePoints(self.min_size),
            cone,
            [Samples(array / self.scale_) for array in data.arrays],
            truths,
            weights,
            loss_scale=self.loss_scale,
            price=0.0 if self.penalty == "learned" else float(self.penalty),
            count_known=self.n_segments == "given",
            n_jobs=self.n_jobs,
        )
        # just above the loss scale a single segment is the answer, which limits the price
        start = cone.join(self._start(cone, truths), self.loss_scale * (1.0 + 1e-6))
        threads = 1 if data.n_features < 500 or self.n_jobs not in (None, 1) else None
        with (
            threadpool_limits(threads, user_api="blas"),
            ProgressBar(type(self).__name__, self.verbose) as bar,
        ):
            return self.solver.minimize(risk, self.regularizer, cone, start, bar)

    def _start(self, cone: MetricCone, truths: list[Partition]) -> NDArray:
        """No metric; or with K given, where that makes every answer a tie, a small identity."""
        if self.n_segments != "given":
            return np.zeros(cone.n_metric)
        density = np.mean([truth.n_clusters / truth.n_samples for truth in truths])
        identity = cone.metric.identity(cone.n_features)
        return self.loss_scale * float(density) / cone.n_features * identity

    def _report(self) -> None:
        solution = self.solution_
        _LOGGER.info(
            "%s after %d rounds: objective %.6g, gap %.2g",
            solution.reason,
            len(solution.trace),
            solution.objective,
            solution.relative_gap,
        )
        if not solution.converged:
            warnings.warn(
                f"{type(self).__name__} stopped ({solution.reason}) at a relative gap of "
                f"{solution.relative_gap:.2g}; the best metric so far is kept. Raise the solver's "
                "max_rounds or its tolerance.",
                ConvergenceWarning,
                stacklevel=3,
            )


def _is_number(value: Any, least: float) -> bool:
    return isinstance(value, numbers.Real) and least <= float(value) <= 1e50
