"""ChangePointMetricLearner: a metric, and a penalty per segment, from segmented sequences."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from operator import attrgetter, methodcaller
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from metriclearn.estimators.data_sets import read_data_sets
from metriclearn.estimators.labelings import read_labelings, refuse_unlabeled
from metriclearn.estimators.learners.alternation import FitComponents, Piece
from metriclearn.estimators.learners.large_margin import LargeMarginLearner
from metriclearn.estimators.learners.task import Task, Training
from metriclearn.estimators.penalties.feature_penalty import FeaturePenalty
from metriclearn.estimators.prediction.segmenter import MahalanobisSegmenter
from metriclearn.oracles.change_points import (
    ChangePoints,
    ConstrainedChangePoints,
    segmentation_oracle,
)
from metriclearn.oracles.segmentation_path import best_penalty
from metriclearn.problem.forms import LinearFeatures, LowRankForm, cumulative_sums
from metriclearn.problem.knowledge import PartialPartition
from metriclearn.problem.losses import FrobeniusLoss, KnownLoss
from metriclearn.problem.partition import Partition
from metriclearn.problem.risk import Oracle
from metriclearn.running.executors import ThreadExecutor
from metriclearn.running.parameters import Needs, component, either, number
from metriclearn.solvers.base import Solver
from metriclearn.solvers.bundle import BundleDual
from metriclearn.solvers.mahalanobis import DiagonalMetric, Metric
from metriclearn.solvers.regularizers import L1, Regularizer
from metriclearn.solvers.subgradient import ProjectedSubgradient

_COMPARED = 5_000  # training samples on which the result is compared with simple baselines


@dataclass(eq=False, repr=False)
class ChangePointMetricLearner(MahalanobisSegmenter, LargeMarginLearner):
    """Learn a Mahalanobis metric, and the penalty of a segment, from segmented sequences.

    Minimizes the convex objective of Lajugie, Arlot & Bach, Eq. (9),

        Σ_i s_i L_i(B, λ) + Ω(B),   B ⪰ 0, λ ≥ 0,

    where L_i is the margin-rescaled hinge for segmenting sequence i by maximizing
    (1/T)[Tr(XBXᵀM) − λ Tr M] under the loss ℓ = ‖M − N‖²_F / T, by exact loss-augmented dynamic
    programs. New sequences are segmented exactly with the learned B and λ.

    The defaults (one weight per feature, L1 of strength 1e-3 on standardized features, learned
    penalty) are within one standard error of the best setting in 3-fold cross-validation on the
    training parts of the synthetic sequences, HAPT and Gesture Phase:
    ``python -m experiments.run experiment=default_settings``, docs/results/default_settings.md.
    With few, correlated features, such as in HAPT, ``FullMetric()`` and ``SquaredFrobenius(0.1)``
    are better.

    Parameters
    ----------
    metric : Metric
        ``DiagonalMetric()`` (one weight per feature) or ``FullMetric()``.
    regularizer : Regularizer
        ``SquaredFrobenius``, ``L1`` (diagonal metrics) or ``Trace``, each with ``strength``.
    solver : Solver
        ``BundleDual`` (certified) or ``ProjectedSubgradient``.
    penalty : "learned", FeaturePenalty or float
        Penalty λ ≥ 0 of a segment; "learned" makes it a variable of the convex problem, and
        ``FeaturePenalty(features)`` a penalty that depends on the sequence and on the boundary.
    loss_scale : float
        α > 0, the scale of ℓ inside the margin. With a learned penalty it rescales B and λ. For
        squared norms it is also a factor on the strength; for L1 and trace it does nothing else.
    n_segments : None or "given"
        With "given", inference is given the number of segments; in training it comes from the
        labels.
    min_size : int
        Smallest number of samples in a segment, both in prediction and in training.
    standardize : bool
        Divide features by their pooled within-sequence standard deviation before learning, so that
        ``strength`` has the same meaning for all data; ``components_`` includes this scaling and
        applies to unscaled data.
    oracle : Oracle, optional
        Inference over segmentations, ``oracle(form, n_clusters)``, in place of ``ChangePoints``,
        in learning from full labels and in :meth:`predict`. If the oracle has a parameter
        ``min_size``, it is set to that of the learner.
    alternation : Alternation
        How to alternate between completing partial labels and learning; not used with full labels.
    callbacks : sequence of callbacks
        Objects with ``on_round(progress)``, which may return True to stop, and
        ``on_end(solution)``: see :mod:`metriclearn.running.callbacks`.
    n_jobs : int, optional
        Threads over sequences, as in joblib. BLAS gets one thread if there are fewer than 500
        features, because more threads would only wait for each other.
    executor : Executor, optional
        Determines where data sets are kept and oracles run, such as ``DaskExecutor(client)``, see
        :mod:`metriclearn.running.executors`; replaces ``n_jobs``.
    verbose : bool, optional
        Show a progress bar at once (True), never (False), or in a terminal if fitting takes longer
        than a few seconds (None).

    Attributes
    ----------
    components_ : array (r, P)
        Lᵀ with B = LLᵀ; r is the rank of B.
    penalty_ : float or None
        λ; None after fitting with ``n_segments="given"``.
    feature_penalty_ : FeaturePenalty or None
        The fitted penalty of changes that is added to λ, with ``coef_``; None for other penalties.
    training_losses_ : dict of str to float
        Mean ℓ of "learned", "one segment" and "Euclidean" (with the best of ten penalties) on the
        first 5,000 training samples; empty with partial labels, with given numbers of segments, and
        with an ``executor``.
    completions_ : list of int arrays (T_i,), or None
        The completed labels; None if no label was unknown.
    alternation_ : AlternationTrace or None
        Objective F after every completion and every metric step.
    solution_ : Solution
        Objective, lower bound, gap, trace and reason for stopping.
    scale_ : array (P,)
        The standard deviations by which features were divided (ones without ``standardize``).
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Raises
    ------
    ValueError
        For parameters, data or labels that cannot be used, and for predictions before ``fit``.

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

    PARAMETERS: ClassVar[Mapping[str, Needs]] = {
        **LargeMarginLearner.PARAMETERS,
        "penalty": either(
            "learned", number(), Needs("FeaturePenalty(…)", lambda v: isinstance(v, FeaturePenalty))
        ),
        "min_size": number(1, whole=True),
        "n_segments": either(None, "given", remedy="; a number of segments is passed to predict"),
        "oracle": component(Oracle, "SummedArea()", optional=True),
    }

    # components are never changed in place, see ComponentParameters.set_params
    metric: Metric = DiagonalMetric()  # noqa: RUF009
    regularizer: Regularizer = L1()  # noqa: RUF009
    solver: Solver = BundleDual()  # noqa: RUF009
    _: KW_ONLY
    n_segments: str | None = None
    min_size: int = 1
    oracle: Oracle | None = None

    @classmethod
    def paper(cls, **parameters: Any) -> Self:
        """The paper's exact setting, ``penalty=1, loss_scale=1``; see the notes on noise."""
        return cls(**{"penalty": 1.0, "loss_scale": 1.0, **parameters})

    @property
    def task(self) -> Segmentations:
        """The task for sequences: every run of equal labels is a segment."""
        return Segmentations(self, self.n_segments == "given", (False, "n_segments=None"), True)


@dataclass(frozen=True)
class Segmentations(Task):
    """Contiguous segments of sequences."""

    def read(self, X: Any, y: Any) -> Training:
        """Read sequences and labels; every run of equal labels is a segment.

        Inference must be able to return the labels, or the hinge would not be an upper bound.
        """
        learner, who = self.learner, type(self.learner).__name__
        data = read_data_sets(who, X, executor=learner.executor or ThreadExecutor(learner.n_jobs))
        if isinstance(learner.penalty, FeaturePenalty):
            exact = isinstance(learner.oracle, (ChangePoints, type(None)))
            if not exact or not isinstance(learner.solver, (BundleDual, ProjectedSubgradient)):
                raise ValueError(
                    f"{who} needs ChangePoints() or None as oracle, and BundleDual() or "
                    "ProjectedSubgradient() as solver, to learn penalties of positions, got "
                    f"{learner.oracle!r} and {learner.solver!r}."
                )
        truths = read_labelings(who, y, data, segments=True, partial=True)
        for i, truth in enumerate(truths):
            if isinstance(truth, Partition) and truth.sizes.min() < learner.min_size:
                raise ValueError(
                    f"{who} needs labeled segments of at least min_size={learner.min_size} "
                    f"samples, but data set {i} has one of {truth.sizes.min()}; lower min_size, or "
                    "raise it after fitting to predict."
                )
        return Training(data, truths)

    def complete(self, training: Training, fit: FitComponents) -> list[Any]:
        """Best segmentations that agree with the labels, under the first metric.

        Their penalty is the one at which segmentations that ignore the annotations have the least
        loss on the labels.
        """
        learner, arrays, truths = self.learner, training.data.arrays, training.truths
        refuse_unlabeled(type(learner).__name__, truths)
        first = "learned" if isinstance(learner.penalty, FeaturePenalty) else learner.penalty
        learn = partial(fit, min_size=1, penalty=first)
        components = learner.alternation.start.components(arrays, truths, learn, known_stretches)
        forms = [LowRankForm(cumulative=cumulative_sums(a, components)) for a in arrays]
        penalty, _ = best_penalty(forms, truths, min_size=learner.min_size)
        oracle = ConstrainedChangePoints(learner.min_size)
        return [
            oracle(form.shifted(-penalty), None, truth).completing(truth)
            for form, truth in zip(forms, truths)
        ]

    def training_losses(self, fitted: Any, training: Training) -> dict[str, float]:
        """Mean ℓ of the fitted learner, of one segment, and of the Euclidean metric.

        They are computed on the first data sets, up to ``_COMPARED`` samples, which costs little
        compared with a fit. The Euclidean metric of standardized features has the best of ten
        penalties.
        """
        # We compute them only if all labels are known and the data are in this process.
        here = fitted.completions_ is None and self.learner.executor is None
        if self.count_is_given or not here:
            return {}
        lengths = training.data.lengths
        lengths = lengths[np.cumsum(lengths) - lengths < _COMPARED]
        arrays, truths = training.data.arrays[: len(lengths)], training.truths[: len(lengths)]
        loss, oracle = FrobeniusLoss(), segmentation_oracle(fitted.oracle, fitted.min_size)
        plain = copy.copy(fitted)
        plain.components_ = np.diag(1.0 / fitted.scale_)[np.isfinite(fitted.scale_)]
        plain.feature_penalty_ = plain.name_weights_ = None
        plain.penalty_unit_ = None
        unit = len(plain.components_) * np.log(lengths).mean()
        penalties = (np.geomspace(0.01, 10.0, 10) * unit).tolist()
        metrics = {"learned": (fitted, [fitted.penalty_]), "Euclidean": (plain, penalties)}
        # The learned metric comes first. With M = 11ᵀ/T, Tr MN = 1, so that one segment has the
        # loss (K − 1)/T.
        counts = np.array(list(map(attrgetter("n_clusters"), truths)))
        losses = {"learned": np.inf, "one segment": float(np.mean((counts - 1) / lengths))}
        for name, (segmenter, tried) in metrics.items():
            forms, means = list(map(segmenter.form, arrays)), []
            for penalty in tried:
                found = map(oracle, map(methodcaller("shifted", -penalty), forms))
                means.append(np.mean(list(map(loss, found, truths))))
            losses[name] = float(min(means))
        return losses

    def terms(self, truths: Sequence[Any]) -> dict[str, Any]:
        """Features, loss and oracles; with partial labels, a loss on the labeled parts only."""
        learner, features = self.learner, LinearFeatures(self.learner.metric)
        if truths[0].partial_labels is None:
            oracle = segmentation_oracle(learner.oracle, learner.min_size)
            return {"features": features, "loss": FrobeniusLoss(), "oracle": oracle}
        exact = ConstrainedChangePoints(learner.min_size)
        return {"features": features, "loss": KnownLoss(), "oracle": exact, "completion": exact}


# Learners of mapped sequences cannot learn feature penalties.
WITHOUT_FEATURE_PENALTY = Needs(
    "a {name} such as ChangePointMetricLearner(), with another penalty than FeaturePenalty",
    lambda learner: (
        isinstance(learner, ChangePointMetricLearner)
        and not isinstance(learner.penalty, FeaturePenalty)
    ),
)


def known_stretches(array: NDArray, known: PartialPartition) -> list[Piece]:
    """Maximal stretches that constraints cover.

    Constraints that share a position are in one stretch.
    """
    covered = np.zeros(known.n_samples + 1, dtype=np.int64)
    for region in known.constraints:
        covered[region.start + 1 : region.stop] = 1
    borders = np.flatnonzero(np.diff(covered, prepend=0, append=0)).reshape(-1, 2)
    pieces = []
    for first, stop in borders.tolist():
        inside = known.within(first - 1, stop)
        pieces.append((array[first - 1 : stop], inside.segmentation() or inside))
    return pieces
