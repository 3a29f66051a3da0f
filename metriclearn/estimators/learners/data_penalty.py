"""DataPenaltyMetricLearner: a metric together with a penalty that depends on the sequence."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning

from metriclearn.estimators.inputs import read_labelings
from metriclearn.estimators.learners.alternation import Alternation, FirstMetric, KnownStart
from metriclearn.estimators.learners.change_points import (
    WITHOUT_FEATURE_PENALTY,
    ChangePointMetricLearner,
)
from metriclearn.estimators.penalties.penalty_learner import PenalizedSegmenter
from metriclearn.oracles.segmentation_path import SegmentationPath
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import Needs, either, number
from metriclearn.solvers.bundle import BundleDual
from metriclearn.solvers.mahalanobis import DiagonalMetric
from metriclearn.solvers.regularizers import SquaredFrobenius

# The default learner; it is cloned before use.
_LEARNER = ChangePointMetricLearner(
    DiagonalMetric(),
    SquaredFrobenius(1e-5),
    BundleDual(tolerance=1e-2, max_rounds=60),
    standardize=False,
    alternation=Alternation(3),
    verbose=False,
)


@dataclass(frozen=True)
class MetricStep:
    """What one turn of the alternation reached.

    Attributes
    ----------
    objective : float
        Of the metric step; NaN before the first.
    interval_objective : float
        Of the penalty step that follows, see :class:`IntervalRegression`.
    errors : float
        Annotations contradicted on the training sequences with the learned penalty.
    components : array (r, P)
    """

    objective: float
    interval_objective: float
    errors: float
    components: NDArray


class IdentityStart(BaseEstimator):
    """B = I for the represented sequences."""

    def components(self, arrays: Any, *_: Any) -> NDArray:
        """The identity, (P, P)."""
        return np.eye(arrays[0].shape[1])


@dataclass(eq=False, repr=False)
class GivenStart(BaseEstimator):
    """Start from components that are known already.

    Parameters
    ----------
    matrix : array (r, P)
    """

    matrix: NDArray

    def components(self, *_: Any) -> NDArray:
        """The components that were given, (r, P)."""
        return self.matrix


@dataclass(eq=False, repr=False)
class DataPenaltyMetricLearner(PenalizedSegmenter):
    """Learn a metric B and a penalty λ_i = exp(⟨v, features of sequence i⟩ + b) in turns.

    With λ_i = λ s_i, sequence i is segmented by maximizing ⟨XBXᵀ, M⟩ − λ s_i Tr M, which has the
    same maximizers as ⟨(X/√s_i) B (X/√s_i)ᵀ, M⟩ − λ Tr M: a penalty that depends on the sequence
    *is* a scale of its features. So, in turns,

    1. B fixed: the interval of penalties with the least error of every sequence is exact from its
       segmentation path, and v, b minimize the convex interval regression;
    2. s_i fixed: (B, λ) minimize the convex objective of Lajugie, Arlot & Bach, Eq. (9), on the
       sequences divided by √s_i (partial labels are completed in turns, see
       :mod:`metriclearn.estimators.learners.alternation`). Every sequence is weighted by its
       length, so that the number of contradicted annotations counts, not their number per sample.

    Each step is certified (a gap, a convex minimum); the two objectives differ, so that turns are
    counted, not iterated to a limit: ``steps_`` has the trace, and with ``keep_best`` the
    components of the turn with the least interval objective are taken.

    Parameters
    ----------
    learner : ChangePointMetricLearner
        The second step; ``penalty="learned"``. ``standardize`` should stay off: representations
        have comparable columns. With ``alternation__checkpoint`` set to FILE an interrupted run
        resumes from FILE.1, FILE.2, …, one for each turn.
    representation, sequence_features, regression, min_size, max_segments, own_weight
        As in :class:`~metriclearn.baselines.PenaltyLearner`.
    start : FirstMetric
        The first metric: ``IdentityStart()``, or ``PrincipalStart()`` as in section 5.2.
    n_turns : int
        Metric steps.
    constrained : bool
        Whether completions obey the annotations (the constrained program). Otherwise the metric
        is learned from the segmentations at the penalties that suit the annotations best, which
        may contradict some.
    longest : int, optional
        Longer sequences are left out of the metric step (not of the penalty step).
    keep_best : bool

    Attributes
    ----------
    components_ : array (r, P)
        Lᵀ with B = LLᵀ for the represented sequences, in units in which λ_i is the penalty.
    learner_ : ChangePointMetricLearner
        Of the last metric step.
    steps_ : list of MetricStep
        The first one is of the start.
    intervals_, training_errors_, regression_, representation_
        As in :class:`~metriclearn.baselines.PenaltyLearner`.

    Raises
    ------
    ValueError
        For parameters, data or labels that cannot be used, and for predictions before ``fit``.

    Examples
    --------
    >>> from metriclearn import DataPenaltyMetricLearner
    >>> from metriclearn.datasets import load_neuroblastoma
    >>> data = load_neuroblastoma()  # doctest: +SKIP
    >>> learner = DataPenaltyMetricLearner().fit(data.sequences, data.known(1))  # doctest: +SKIP
    """

    PARAMETERS: ClassVar[Mapping[str, Needs]] = {
        **PenalizedSegmenter.PARAMETERS,
        "learner": WITHOUT_FEATURE_PENALTY,
        "start": Needs(
            "a start such as IdentityStart(), which does not learn",
            lambda start: isinstance(start, FirstMetric) and not isinstance(start, KnownStart),
        ),
        "n_turns": number(1, whole=True),
        "longest": either(None, number(1)),
    }

    learner: ChangePointMetricLearner = _LEARNER
    _: KW_ONLY
    start: FirstMetric = IdentityStart()  # noqa: RUF009
    n_turns: int = 1
    constrained: bool = True
    longest: int | None = None
    keep_best: bool = False

    def fit(self, X: Any, y: Any, paths: Sequence[SegmentationPath] | None = None) -> Self:
        """Learn from sequences and their labels or PartialPartitions.

        Parameters
        ----------
        X, y : sequences, labels
        paths : sequence of SegmentationPath, optional
            :meth:`identity_paths` of these sequences, where they are known already; only for
            ``start=IdentityStart()``.

        Raises
        ------
        ValueError
            For data that cannot be used, annotations that every penalty satisfies, or a metric
            that comes out as zero.
        """
        data, represented = self.begin(X)
        truths = read_labelings(type(self).__name__, y, data, segments=True, partial=True)
        if not isinstance(self.start, IdentityStart):
            self.components_ = self.start.components(represented, truths)
            paths = None
        rows = self.fit_penalty(data, represented, truths, paths)
        self.steps_ = [self._step(np.nan)]
        for turn in range(1, self.n_turns + 1):
            logs = self.regression_.predict(rows)
            known = truths
            # Optimal at the good penalties nearest to the learned ones.
            if not self.constrained:
                lowest, highest = self.intervals_.T
                known = []
                for path, penalty in zip(self.paths_, np.exp(np.clip(logs, lowest, highest))):
                    known.append(Partition(ends=path.change_points[path.positions(penalty)]))
            self._fit_metric(represented, known, logs, turn)
            self.fit_penalty(data, represented, truths, rows=rows)
            self.steps_.append(self._step(self.learner_.solution_.objective))
        best = min(self.steps_[1:], key=lambda step: step.interval_objective)
        if self.keep_best and best is not self.steps_[-1]:
            self.components_ = best.components
            self.fit_penalty(data, represented, truths, rows=rows)
        return self

    def _fit_metric(
        self, represented: Sequence[NDArray], known: Sequence[Any], logs: NDArray, turn: int
    ) -> None:
        """Step 2: Eq. (9) on the sequences divided by the roots of their penalties."""
        used = [i for i, Z in enumerate(represented) if len(Z) <= (self.longest or len(Z))]
        if not used:
            raise ValueError(
                f"{type(self).__name__} needs training sequences of at most longest="
                f"{self.longest} samples, but all are longer; raise longest."
            )
        arrays = [represented[i] / np.exp(0.5 * logs[i]) for i in used]
        learner = clone(self.learner)
        learner.set_params(alternation__start=GivenStart(self.components_), min_size=self.min_size)
        if (file := learner.alternation.checkpoint) is not None:
            learner.set_params(alternation__checkpoint=f"{file}.{turn}")
        lengths = np.array([len(array) for array in arrays], dtype=np.float64)
        with warnings.catch_warnings():
            # The user finds the gap in learner_.
            warnings.simplefilter("ignore", ConvergenceWarning)
            learner.fit(arrays, [known[i] for i in used], sample_weight=lengths)
        if len(learner.components_) == 0 or not learner.penalty_:
            raise ValueError(
                f"{type(self).__name__} learned no metric or no penalty; lower the strength of "
                "learner__regularizer."
            )
        self.learner_ = learner
        self.components_ = learner.components_ / np.sqrt(learner.penalty_)

    def _step(self, objective: float) -> MetricStep:
        errors = float(self.training_errors_[:, 0].sum())
        return MetricStep(objective, self.regression_.objective_, errors, self.components_)
