"""ChangePointMetricLearner: a metric, and a penalty per segment, from segmented sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from operator import attrgetter, methodcaller
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from metriclearn.estimators.learners.alternation import Piece
from metriclearn.estimators.learners.large_margin import REGULARIZER, LargeMarginLearner
from metriclearn.estimators.learners.task import LabeledParts, Statement, Task, Training
from metriclearn.estimators.penalties.feature_penalty import FeaturePenalty
from metriclearn.estimators.reading.labels import refuse_unlabeled
from metriclearn.estimators.scores.segment_score import SegmentScore
from metriclearn.estimators.scores.segmenting import GivenSegments, MahalanobisSegmenter
from metriclearn.oracles.change_points import (
    ChangePoints,
    ConstrainedChangePoints,
    segmentation_oracle,
)
from metriclearn.oracles.penalty_search import PenaltySearch, best_penalty
from metriclearn.problem.forms import LowRankForm, cumulative_sums
from metriclearn.problem.joint_features import LinearFeatures, PenalizedFeatures
from metriclearn.problem.losses import FrobeniusLoss, KnownLoss
from metriclearn.problem.partial_labels import PartialPartition
from metriclearn.problem.partition import Partition
from metriclearn.problem.risk import Oracle
from metriclearn.running.executors import Executor
from metriclearn.running.parameters import Needs, Of, OneOf, Real, Whole
from metriclearn.solvers.base import Solver
from metriclearn.solvers.bundle import BundleDual
from metriclearn.solvers.mahalanobis import DiagonalMetric, Metric, PenalizedMetric
from metriclearn.solvers.regularizers import L1, Regularizer
from metriclearn.solvers.subgradient import ProjectedSubgradient
from metriclearn.views.gaps import Labels

# An oracle with a relaxation is one of clusters.
_ORACLE = Of(Oracle, "SummedArea()", optional=True, without="relaxation")
_COMPARED = 5_000  # training samples on which the result is compared with simple baselines


@dataclass(eq=False, repr=False)
class ChangePointMetricLearner(MahalanobisSegmenter, LargeMarginLearner):
    """Learn a Mahalanobis metric, and the penalty of a segment, from segmented sequences.

    Minimizes the convex objective of Lajugie, Arlot & Bach, Eq. (9),

        Σ_i s_i L_i(B, λ) + Ω(B),   B ⪰ 0, λ ≥ 0,

    where s_i are the weights of the sequences. A sequence X of T samples is segmented by maximizing
    (1/T)[Tr(XBXᵀM) − λ Tr M] over the matrices M of segmentations. L_i is the margin-rescaled hinge
    of this maximization, for the loss ℓ = ‖M − N‖²_F / T against the labels N. Dynamic programs
    compute the hinge exactly. New sequences are segmented exactly with the learned B and λ.

    The defaults (one weight per feature, L1 of strength 1e-3 on standardized features, learned
    penalty) are within one standard error of the best setting. We measured the losses by 3-fold
    cross-validation on the training parts of the synthetic sequences, HAPT and Gesture Phase. The
    command ``python -m experiments.run experiment=default_settings`` repeats the measurement, and
    docs/results/default_settings.md shows the results. With few correlated features, as in HAPT,
    ``FullMetric()`` and ``SquaredFrobenius(0.1)`` are better.

    Parameters
    ----------
    metric : Metric
        ``DiagonalMetric()`` (one weight per feature) or ``FullMetric()``.
    regularizer : Regularizer
        ``SquaredFrobenius``, ``L1`` (diagonal metrics) or ``Trace``, each with ``strength``.
    solver : Solver
        ``BundleDual`` (certified) or ``ProjectedSubgradient``.
    penalty : "learned", FeaturePenalty or float
        Penalty λ ≥ 0 of a segment. With "learned", λ is a variable of the convex problem. With
        ``FeaturePenalty(features)``, the learned penalty depends on the sequence and the boundary.
    loss_scale : float
        α > 0, the scale of ℓ inside the margin. Unless ``penalty`` is a number, B/α and λ/α solve
        the problem with α = 1. The strength of this problem is α · ``strength`` for squared norms,
        and ``strength`` for L1 and trace.
    n_segments : None or "given"
        With "given", the number of segments is known: in training it comes from the labels, and
        :meth:`predict` has a parameter for it. With None, this number is unknown, and each segment
        has a penalty.
    min_size : int
        Smallest number of samples in a segment, both in prediction and in training.
    standardize : bool
        Divide features by their pooled within-sequence standard deviation before learning, so that
        ``strength`` has the same meaning for all data; ``components_`` includes this scaling and
        applies to unscaled data.
    oracle : Oracle, optional
        Replaces ``ChangePoints`` in learning from full labels and in :meth:`predict`. A call
        ``oracle(form, n_clusters)`` returns the best segmentation of a form such as XBXᵀ. If the
        oracle has a parameter ``min_size``, this parameter is set to the learner's ``min_size``.
    alternation : Alternation
        How to alternate between completing partial labels and learning; not used with full labels.
    callbacks : sequence of callbacks
        Objects with the methods ``on_round(progress)``, which may return True to stop the solver,
        and ``on_end(solution)``, see :mod:`metriclearn.running.callbacks`.
    n_jobs : int, optional
        Number of threads that evaluate sequences in parallel, as in joblib. BLAS uses a single
        thread if several sequences are evaluated at once or if there are fewer than 500 features.
        More BLAS threads would only wait for each other.
    executor : Executor, optional
        Determines where data sets are kept and where oracles run, for example
        ``DaskExecutor(client)``; replaces ``n_jobs``. See :mod:`metriclearn.running.executors`.
    verbose : bool, optional
        Show a progress bar at once (True), never (False), or in a terminal if fitting takes longer
        than a few seconds (None).
    view : view, optional
        Turns rows into the rows that the learner sees, see :mod:`metriclearn.views`.
    retune : bool
        Whether to replace the learned penalty by the one with the least training loss. An exact
        search finds it.

    Attributes
    ----------
    components_ : array (r, P)
        Lᵀ with B = LLᵀ; r is the rank of B. With a view that is not linear, the components are for
        its columns.
    penalty_ : float or None
        λ; None after fitting with ``n_segments="given"``.
    feature_penalty_ : FeaturePenalty or None
        A fitted copy of ``penalty`` with the learned weights ``coef_``, if ``penalty`` is a
        FeaturePenalty, else None. The learned penalties of changes are added to λ.
    training_losses_ : dict of str to float
        Mean ℓ of the learned metric ("learned"), of "one segment" and of the "Euclidean" metric
        with the best of ten penalties. The mean is over the sequences that begin within the first
        5,000 training samples. The dictionary is empty with partial labels, with given numbers of
        segments, with an ``executor``, and for members of a :class:`~metriclearn.Segmenter`.
    completions_ : list of int arrays (T_i,), or None
        The completed labels; None if no label was unknown.
    alternation_ : AlternationTrace or None
        Objective F after every completion and every metric step; None if no label was unknown.
    solution_ : Solution
        Objective, lower bound, gap, trace and reason for stopping.
    scale_ : array (P,)
        The standard deviations by which features were divided (all 1 without ``standardize``).
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Raises
    ------
    ValueError
        For parameters, data or labels that cannot be used, and for predictions before ``fit``.

    Notes
    -----
    The paper fixes λ = α = 1 (see :meth:`paper`). The loss contains Tr M, the number of segments.
    In the loss-augmented problem, α Tr M and the penalty λ Tr M then cancel. With noisy data, the
    certified optimum therefore shrinks B and predicts too few segments. A learned λ, which is the
    default, does not have this defect.

    Examples
    --------
    >>> from metriclearn import ChangePointMetricLearner
    >>> from metriclearn.datasets import make_change_points
    >>> data = make_change_points(n_features=30, n_relevant=3, random_state=0)
    >>> learner = ChangePointMetricLearner().fit(data.sequences, data.labels)
    >>> learner.solution_.converged
    True
    """

    # components are never changed in place, see ComponentParameters.set_params
    metric: Annotated[Metric, Of(Metric, "DiagonalMetric()")] = DiagonalMetric()  # noqa: RUF009
    regularizer: Annotated[Regularizer, REGULARIZER] = L1()  # noqa: RUF009
    solver: Annotated[Solver, Of(Solver, "BundleDual()")] = BundleDual()  # noqa: RUF009
    _: KW_ONLY
    n_segments: GivenSegments = None
    penalty: Annotated[
        str | float | FeaturePenalty,
        OneOf(
            "learned", Real(), Needs("FeaturePenalty(…)", lambda v: isinstance(v, FeaturePenalty))
        ),
    ] = "learned"
    min_size: Annotated[int, Whole(1)] = 1
    oracle: Annotated[Oracle | None, _ORACLE] = None
    retune: bool = False

    @classmethod
    def paper(cls, **parameters: Any) -> Self:
        """Make a learner with the exact setting of the paper, ``penalty=1`` and ``loss_scale=1``.

        This learner predicts too few segments for noisy data, see the notes of the class.
        """
        return cls(**{"penalty": 1.0, "loss_scale": 1.0, **parameters})

    @property
    def task(self) -> Segmentations:
        """The task for sequences: every run of equal labels is a segment."""
        return Segmentations.of(self, count_is_given=self.n_segments == "given")

    def final(self, score: SegmentScore, training: Training) -> SegmentScore:
        """Return the score with which to predict: with ``retune``, one of another penalty."""
        if not self.retune or score.penalty is None or not score.has_choice:
            return score
        forms = self.training_forms(score, training)
        penalty, _ = best_penalty(forms, training.truths, training.weights, self.min_size)
        return score.at(penalty)

    def training_forms(self, score: SegmentScore, training: Training) -> list[Any]:
        """Return the forms of the training rows, for which ``retune`` searches a penalty."""
        return list(map(score.form, training.data.arrays))


@dataclass(frozen=True, kw_only=True)
class Segmentations(Task):
    """The task of dividing sequences into contiguous segments."""

    min_size: int = 1
    oracle: Oracle | None = None
    extra: ClassVar[str] = "boundaries"  # the further term of the score
    one_is_few: ClassVar[bool] = True
    completes: ClassVar[tuple[bool, str]] = False, "n_segments=None"

    def refusal_of(self, solver: Solver) -> str | None:
        """Return the requirement for a further term of the score, unless it is met."""
        exact = isinstance(self.oracle, (ChangePoints, type(None)))
        if not self.further or (exact and isinstance(solver, (BundleDual, ProjectedSubgradient))):
            return None
        return (
            "ChangePoints() or None as oracle, and BundleDual() or ProjectedSubgradient() as "
            f"solver, to learn {self.further}, got {self.oracle!r} and {solver!r}."
        )

    @property
    def further(self) -> str:
        """The further term of the score that is learned, in words; empty if there is none."""
        return "penalties of positions" if isinstance(self.penalty, FeaturePenalty) else ""

    def read(self, X: Any, y: Any, executor: Executor | None = None) -> Training:
        """Read sequences and labels. Every run of equal labels is a segment.

        A labeled segment shorter than ``min_size`` is an error: no search returns such a segment,
        so the hinge would not be an upper bound on the loss.
        """
        training = super().read(X, y, executor)
        check_sizes(self.who, training.truths, self.min_size)
        return training

    def truths(self, labels: Labels) -> list[Any]:
        """Return the labels of the rows of a view. The view may leave rows out."""
        check_sizes(self.who, labels.partitions, self.min_size)
        return super().truths(labels)

    def labeled_parts(self, training: Training) -> LabeledParts:
        """Cut out the stretches that labels cover. Segments of a part may be of any size."""
        refuse_unlabeled(self.who, training.truths)
        learned = "learned" if isinstance(self.penalty, FeaturePenalty) else self.penalty
        task = replace(self, min_size=1, penalty=learned)
        rows, truths = training.data.arrays, training.truths
        return LabeledParts.of(task, rows, truths, known_stretches, training.weights)

    def complete(self, training: Training, first: Any) -> list[Any]:
        """Complete partial labels by the best segmentations under a first metric."""
        completions = self.completions(training, first)
        return [t.with_completion(one) for t, one in zip(training.truths, completions)]

    def completions(self, training: Training, first: NDArray) -> list[Partition]:
        """Find the best segmentations that agree with the labels, under a first metric.

        The penalty is chosen first: at this penalty, segmentations that ignore the labels have
        nearly the least loss on the labeled parts, see ``PenaltySearch(exact=False)``.
        """
        truths = training.truths
        forms = [LowRankForm(cumulative=cumulative_sums(a, first)) for a in training.data.arrays]
        search = PenaltySearch(forms, truths, self.min_size, exact=False)
        penalty, _ = search.best(training.weights)
        oracle = ConstrainedChangePoints(self.min_size)
        pairs = zip(forms, truths)
        return [oracle(form.shifted(-penalty), None, truth) for form, truth in pairs]

    def score(self, statement: Statement, w: NDArray) -> SegmentScore:
        """Return the score of a point ``w``."""
        components, penalty, extra = statement.parts(w)
        given = None if self.count_is_given else penalty
        learned = {self.extra: extra, "oracle": self.oracle}
        return SegmentScore(components, given, min_size=self.min_size, **learned)

    def training_losses(
        self, score: SegmentScore, scale: NDArray, training: Training
    ) -> dict[str, float]:
        """Compute the mean ℓ of the score, of one segment and of the Euclidean metric.

        The means are over the data sets that begin within the first ``_COMPARED`` samples.
        Computing them takes little time compared with a fit. For the Euclidean metric, features are
        standardized, and the best of ten penalties is used.
        """
        if self.count_is_given:
            return {}
        lengths = training.data.lengths
        lengths = lengths[np.cumsum(lengths) - lengths < _COMPARED]
        arrays, truths = training.data.arrays[: len(lengths)], training.truths[: len(lengths)]
        loss, oracle = FrobeniusLoss(), segmentation_oracle(self.oracle, self.min_size)
        plain = SegmentScore(np.diag(1.0 / scale)[np.isfinite(scale)], None)
        unit = len(plain.components) * np.log(lengths).mean()
        penalties = (np.geomspace(0.01, 10.0, 10) * unit).tolist()
        metrics = {"learned": (score, [score.penalty]), "Euclidean": (plain, penalties)}
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

    def terms(self, training: Training, unit: float) -> tuple[dict[str, Any], Any]:
        """Return the features, loss and oracles of the hinge.

        With partial labels the loss is on the labeled parts only.
        """
        truths, extra = training.truths, None
        features = LinearFeatures(self.metric)
        if isinstance(self.penalty, FeaturePenalty):
            extra = clone(self.penalty).fit(training.data.arrays, truths, unit)
            features = PenalizedFeatures(PenalizedMetric(self.metric, extra.n_columns))
        if truths[0].partial_labels is None:
            oracle = segmentation_oracle(self.oracle, self.min_size)
            return {"features": features, "loss": FrobeniusLoss(), "oracle": oracle}, extra
        exact = ConstrainedChangePoints(self.min_size)
        partial_terms = {"loss": KnownLoss(), "oracle": exact, "completion": exact}
        return {"features": features, **partial_terms}, extra


def check_sizes(who: str, truths: Sequence[Any], min_size: int) -> None:
    """Raise a ValueError for labeled segments that are shorter than ``min_size``."""
    for i, truth in enumerate(truths):
        if isinstance(truth, Partition) and truth.sizes.min() < min_size:
            raise ValueError(
                f"{who} needs labeled segments of at least min_size={min_size} samples, but data "
                f"set {i} has one of {truth.sizes.min()}; lower min_size, or raise it after "
                "fitting to predict."
            )


def known_stretches(array: NDArray, known: PartialPartition) -> list[Piece]:
    """Cut out the stretches that constraints cover, and return each with its labels.

    Constraints that share a position are in the same stretch.
    """
    covered = np.zeros(known.n_samples + 1, dtype=np.int64)
    for region in known.constraints:
        covered[region.start + 1 : region.stop] = 1
    borders = np.flatnonzero(np.diff(covered, prepend=0, append=0)).reshape(-1, 2)
    pieces: list[Piece] = []
    for first, stop in borders.tolist():
        rows = np.arange(first - 1, stop)
        # Everything known about a stretch follows from the constraints inside it. These are
        # boundaries alone, although labels may have names.
        labels = PartialPartition.at(known, rows)
        pieces.append((array[rows[0] : stop], labels.segmentation() or labels))
    return pieces
