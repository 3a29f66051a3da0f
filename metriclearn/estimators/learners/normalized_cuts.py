"""NormalizedCutMetricLearner: a similarity for normalized cuts, from segmented images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from operator import attrgetter
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from metriclearn.estimators.learners.alternation import labeled_samples
from metriclearn.estimators.learners.large_margin import LargeMarginLearner
from metriclearn.estimators.learners.task import LabeledParts, Statement, Task, Training
from metriclearn.estimators.scores.cut_score import (
    CutScore,
    Graphs,
    NormalizedCutSegmenter,
    read_graphs,
    read_node_labels,
    standardized,
)
from metriclearn.features.media.image import ImageFeatures
from metriclearn.oracles.rounding import Rounding
from metriclearn.oracles.spectral import TopEigenvectors
from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.running.executors import Executor
from metriclearn.running.parameters import Each, Of, Real
from metriclearn.similarities import (
    GaussianSimilarity,
    NodeLabels,
    Nodes,
    Similarity,
    SimilarityFeatures,
)
from metriclearn.similarities.nodes import complete_nodes
from metriclearn.similarities.operators import SimilarityForm
from metriclearn.solvers.cccp import CCCP
from metriclearn.solvers.mahalanobis import DiagonalMetric, Metric, MetricCone
from metriclearn.solvers.regularizers import Regularizer, Trace


@dataclass(eq=False, repr=False)
class NormalizedCutMetricLearner(NormalizedCutSegmenter, LargeMarginLearner):
    """Learn the similarity of normalized cuts from images that people have segmented.

    The similarity of superpixels or pixels i and j is W_B[i, j] = exp(−(x_i − x_j)ᵀB(x_i − x_j)). B
    is learned as in section 5.1 of Lajugie, Arlot & Bach. The best partition maximizes Tr W_B M
    over M. Training minimizes the structured hinge of this maximization, with the loss ‖M − N‖²_F
    of the full-resolution label maps. Each outer step replaces the concave part of the hinge, −Tr
    W_B N, by its tangent (CCCP). Images are then divided by normalized cuts under the learned
    similarity.

    Data sets are (H, W, 3) RGB images, :class:`ImageNodes` or (T, P) arrays. Their labels are
    (H, W) label maps, (T,) labels, or a Partition or PartialPartition of the pixels row by row; −1
    means that a label is unknown.

    We depart from the paper in two ways, because α = 1 as in the paper leads to a nearly diagonal
    W, which is useless. First, we divide similarities by the number of pixels. The eigenvalues of W
    then have the order of magnitude of α (``loss_scale``) at any resolution. Second, we try several
    starts, because the objective is not convex. An outer step minimizes a majorant of the
    objective, in which the tangent replaces the concave part. The relaxed M may have negative
    entries. The majorant is then not convex in B either. Every outer step is therefore checked:
    ``solution_.trace`` never increases, but there is no lower bound.

    Parameters
    ----------
    metric : Metric
        ``DiagonalMetric()`` (one weight per feature) or ``FullMetric()``.
    regularizer : Regularizer
        ``Trace``, ``L1`` or ``SquaredFrobenius``, each with ``strength``.
    solver : CCCP
        The convex-concave procedure; its parameter ``solver`` may be any solver of this package. By
        default (``trial_rounds=1``) one outer step is made from every start, and only the best
        result is continued. ``CCCP()`` continues from all starts, at about three times the cost.
    similarity : Similarity
        ``GaussianSimilarity`` computes W_B for all pairs or in a sparse neighborhood, within a
        memory budget. ``FourierSimilarity`` approximates W_B by random features. With
        ``GivenSimilarities``, each data set is an array (n, S, S) of n similarities, and learning
        their weights is a convex problem.
    features : ImageFeatures
        Computes features of images; not used for feature arrays.
    rounding : Rounding
        ``ThresholdCut`` (Shi & Malik), ``KMeansRounding`` (Ng, Jordan & Weiss) or
        ``Discretization`` (Yu & Shi).
    loss_scale : float
        α > 0, relative to a similarity of trace 1.
    normalized : bool
        Whether to train on D^(-1/2) W D^(-1/2). Without ``ramp``, the degrees D are constant within
        an outer step.
    ramp : bool
        Replace Tr W_B N in the hinge by max_M Tr W_B M. The hinge is then the difference of two
        maxima, one with the loss and one without it. If this difference is divided by α, its limit
        for α → 0 is the loss of the relaxed prediction (structured ramp loss, Do et al. 2008;
        direct loss, McAllester, Hazan & Keshet 2010). The ramp suits labels that no metric
        separates by a margin, such as tens of regions in an image. With such labels, the ordinary
        hinge is smallest at a metric near 0. With the ramp, the objective is minimized by descent,
        without majorants.
    balance : float
        b in the loss ‖D^½(M − N)‖²_F with D = Diag((n/n_k)^b). For a sample in cluster k, n_k is
        the number of labeled samples in k, and n is the number of all labeled samples. b = 0 gives
        the loss of the paper, in which all regions have the same influence. With b = −1 the
        influence of a region is proportional to its size, as in the covering index. With b = 1
        small regions have more influence than large ones.
    starts : sequence of float
        Training starts at several metrics: the Euclidean metric of standardized features, times
        each of these factors. Only the start that leads to the least objective is kept.
    standardize : bool
        Divide features by their pooled within-image standard deviation before learning. If False,
        all features are divided by the same number, the power of 2 nearest to the largest deviation
        of a feature. Training then starts at the Euclidean metric of the divided features, times
        each of the ``starts``.
    alternation : Alternation
        How to alternate between completing partial labels (−1 where unknown) and learning. The loss
        is then a sum over only those rows of M − N that belong to labeled samples. K is the number
        of different labels in each image. The first completion uses a metric learned from the
        labeled nodes, or principal components. This parameter is not used with full labels.
    callbacks : sequence of callbacks
        As for :class:`ChangePointMetricLearner`.
    n_jobs : int, optional
        Number of threads that evaluate images in parallel, as in joblib.
    executor : Executor, optional
        Determines where images are kept and where oracles run, for example
        ``DaskExecutor(client)``; replaces ``n_jobs``. See :mod:`metriclearn.running.executors`.
    verbose : bool, optional
        Show a progress bar at once (True), never (False), or in a terminal after a few seconds
        (None).

    Attributes
    ----------
    components_ : array (r, P)
        Lᵀ with B = LLᵀ, in the units of the features.
    solution_ : Solution
        The result of the solver from the best start, with objective and trace.
    start_objectives_ : list of (float, float)
        For each entry of ``starts``, a pair of the entry and the objective that training reached
        from this start. With trial rounds, the objective after these rounds is given.
    completions_ : list of label maps or label arrays, or None
        The completed labels; None if no label was unknown.
    alternation_ : AlternationTrace or None
        Objective after every completion and every metric step. It never rises. None if no label was
        unknown.
    scale_ : array (P,)
        The standard deviations by which features were divided (all 1 without ``standardize``).
    eigenvalue_threshold_ : float
        The threshold by which :meth:`predict` finds K if K is not given. K is the number of
        eigenvalues of the normalized similarity above this threshold, but at least 1 and at most
        ``max_clusters_``.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Raises
    ------
    ValueError
        For parameters, data or labels that cannot be used, and for predictions before ``fit``.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn import NormalizedCutMetricLearner
    >>> noise = np.random.default_rng(0).normal(size=(2, 60, 2))
    >>> labels = np.repeat([0, 1], 30)
    >>> X = [array + 3.0 * np.outer(labels, (1, 0)) for array in noise]
    >>> learner = NormalizedCutMetricLearner().fit(X, [labels, labels])

    The clusters overlap, so the score −‖M − N‖² is not 0. A simple rule that splits samples halfway
    between the true means 0 and 3 has about the same score:

    >>> from metriclearn.indices import partition_loss
    >>> halfway = [partition_loss(labels, x[:, 0] > 1.5, normalized=False) for x in X]
    >>> bool(abs(learner.score(X, [labels, labels]) + np.mean(halfway)) < 0.1)
    True
    """

    metric: Annotated[Metric, Of(Metric, "DiagonalMetric()")] = DiagonalMetric()  # noqa: RUF009
    regularizer: Annotated[Regularizer, Of(Regularizer, "Trace()")] = Trace(1e-2)  # noqa: RUF009
    solver: Annotated[CCCP, Of(CCCP, "CCCP()")] = CCCP(trial_rounds=1)  # noqa: RUF009
    _: KW_ONLY
    penalty: ClassVar[float] = 0.0  # type: ignore[misc]  # no parameter: K is known
    view: ClassVar[None] = None  # type: ignore[misc]  # no parameter: features are of images
    loss_scale: Annotated[float, Real(1e-50)] = 0.03
    normalized: bool = False
    ramp: bool = False
    starts: Annotated[
        Sequence[float], Each(Real(1e-50), "at least one positive start", least=1)
    ] = (1e-3, 1e-2, 1e-1)

    @property
    def task(self) -> Cuts:
        """The task for images with labeled pixels or superpixels."""
        return Cuts.of(self, count_is_given=True)


@dataclass(frozen=True, kw_only=True)
class Cuts(Task):
    """The task of dividing images into regions, which are clusters of nodes."""

    completes: ClassVar[tuple[bool, str]] = True, "a label of every cluster"
    unit_bits: ClassVar[int] = 1

    similarity: Similarity
    features: ImageFeatures
    rounding: Rounding
    balance: float = 0.0
    normalized: bool = False
    ramp: bool = False

    def read(self, X: Any, y: Any, executor: Executor | None = None) -> Training:
        """Read images as graphs, and label maps as the labels of their nodes."""
        if self.similarity.given and not self.metric.polyhedral:
            raise ValueError(
                f"{self.who} needs a DiagonalMetric() for the weights of given similarities, got "
                f"{self.metric!r}."
            )
        data = read_graphs(self.who, X, self.features, self.similarity.given)
        return Training(data, read_node_labels(self.who, y, data, self.balance))

    def scale(self, training: Training) -> NDArray:
        """Return the numbers by which features are divided. Given similarities are divided by 1."""
        if self.similarity.given:
            return np.ones(training.data.n_features)
        return super().scale(training)

    def samples(self, training: Training, scale: NDArray, penalty: Any = None) -> list[Nodes]:
        """Return the nodes of every image."""
        return [standardized(one, scale, self.similarity) for one in training.data.arrays]

    def terms(self, training: Training, unit: float) -> tuple[dict[str, Any], None]:
        """Return the terms of the hinge, with the joint features of the similarity."""
        unknown = any(truth.partial_labels for truth in training.truths)
        approximate = unknown or self.balance
        terms = {
            "features": SimilarityFeatures(self.similarity, self.metric, self.normalized),
            "loss": FrobeniusLoss(),
            "oracle": TopEigenvectors() if approximate else self.similarity.oracle(),
            "completion": complete_nodes if unknown else None,
            "ramp": self.ramp,
        }
        return terms, None

    def start(self, cone: MetricCone, training: Any = None, scale: Any = None) -> NDArray:
        """Return the Euclidean metric. Solvers start at this metric times each of ``starts``."""
        return self.metric.identity(cone.n_features)

    def labeled_parts(self, training: Training) -> LabeledParts | None:
        """Take all pairs of labeled nodes in every image. Given similarities need no metric."""
        if self.similarity.given:
            return None
        truths, scale = training.truths, self.scale(training)
        features = [one.features for one in self.samples(training, scale)]
        parts = LabeledParts.of(self, features, [truth.nodes for truth in truths], labeled_samples)
        if parts.training is None:
            return parts
        weights = np.ones(len(truths)) if training.weights is None else training.weights
        used = [i for i, truth in enumerate(truths) if len(truth.labeled) > 1]
        counts = [truths[i].counts[truths[i].labeled] for i in used]
        arrays = parts.training.data.arrays
        nodes = [Nodes(array, one.sum(axis=1)) for array, one in zip(arrays, counts)]
        labels = [NodeLabels(one, balance=self.balance) for one in counts]
        graphs = Graphs(nodes, False, None, [None] * len(nodes))
        unit = 1.0 if self.standardize else float(scale.min())
        shared = vars(self) | {"similarity": GaussianSimilarity(), "unit": unit}
        known = Training(graphs, labels, weights[used])
        return parts._replace(task=StandardizedCuts(**shared), training=known)

    def complete(self, training: Training, first: Any) -> list[Any]:
        """Complete labels under a first metric.

        The metric is divided by its number of components. Given similarities get equal weights.
        """
        nodes = self.samples(training, self.scale(training))
        metric = np.eye(training.data.n_features) if first is None else first / np.sqrt(len(first))
        forms = [SimilarityForm(self.similarity.operator(one, metric)) for one in nodes]
        return [
            truth.with_completion(complete_nodes(form, None, truth))
            for form, truth in zip(forms, training.truths)
        ]

    def score(self, statement: Statement, w: NDArray) -> CutScore:
        """Return the score of a point ``w``, with the threshold that gives the training counts."""
        components, *_ = statement.parts(w)
        problem = statement.problem
        counts = list(map(attrgetter("n_clusters"), problem.risk.truths))
        score = CutScore(components, statement.scale, self.similarity, self.rounding)
        return score.with_threshold(problem.risk.samples, counts, problem.cone.unit)


@dataclass(frozen=True, kw_only=True)
class StandardizedCuts(Cuts):
    """The task of dividing images whose features have already been divided by their deviations."""

    unit: float = 1.0

    def scale(self, training: Training) -> NDArray:
        """Return the unit, by which solutions are divided."""
        return np.full(training.data.n_features, self.unit)

    def samples(self, training: Training, scale: NDArray, penalty: Any = None) -> list[Nodes]:
        """Return the nodes as they are."""
        return training.data.arrays

    def score(self, statement: Statement, w: NDArray) -> CutScore:
        """Return the score of a point ``w`` for standardized features, without a threshold.

        ``complete`` divides a first metric by its number of components, so it is multiplied here.
        """
        components = statement.parts(w)[0] * self.unit
        components = components * np.sqrt(len(components))
        return CutScore(components, statement.scale, self.similarity, self.rounding)
