"""NormalizedCutMetricLearner: a similarity for normalized cuts, from segmented images."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import repeat
from operator import attrgetter
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from metriclearn.estimators.learners.alternation import labeled_samples
from metriclearn.estimators.learners.large_margin import LargeMarginLearner
from metriclearn.estimators.learners.task import Task, Training
from metriclearn.estimators.prediction.cutter import (
    NormalizedCutSegmenter,
    read_graphs,
    read_node_labels,
)
from metriclearn.oracles.spectral import TopEigenvectors
from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.problem.risk import HingeTerms, StructuredHinge
from metriclearn.running.executors import ThreadExecutor
from metriclearn.running.parameters import Each, Of, Real
from metriclearn.similarities import GaussianSimilarity, NodeLabels, Nodes, SimilarityFeatures
from metriclearn.similarities.nodes import complete_nodes
from metriclearn.similarities.operators import SimilarityForm
from metriclearn.solvers.base import Problem, Solution
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
    loss_scale: Annotated[float, Real(1e-50)] = 0.03
    normalized: bool = False
    ramp: bool = False
    starts: Annotated[
        Sequence[float], Each(Real(1e-50), "at least one positive start", least=1)
    ] = (1e-3, 1e-2, 1e-1)

    @property
    def task(self) -> Cuts:
        """The task for images with labeled pixels or superpixels."""
        given = (True, "a label of every cluster")
        return Cuts(self, True, given, starts=self.starts)


@dataclass(frozen=True)
class Cuts(Task):
    """The task of dividing images into regions, which are clusters of nodes."""

    def read(self, X: Any, y: Any) -> Training:
        """Read images as graphs, and label maps as the labels of their nodes."""
        learner, given = self.learner, self.learner.similarity.given
        who = type(learner).__name__
        if given and not learner.metric.polyhedral:
            raise ValueError(
                f"{who} needs a DiagonalMetric() for the weights of given similarities, got "
                f"{learner.metric!r}."
            )
        data = read_graphs(who, X, learner.features, given)
        return Training(data, read_node_labels(who, y, data, learner.balance))

    def scale(self, training: Training, unit_bits: int = 1) -> NDArray:
        """Return the numbers by which features are divided. Given similarities are divided by 1."""
        if self.learner.similarity.given:
            return np.ones(training.data.n_features)
        return super().scale(training, unit_bits)

    def samples(self, training: Training, scale: NDArray, penalty: Any = None) -> list[Nodes]:
        """Return the nodes of every image."""
        return list(map(self.learner.scaled, training.data.arrays, repeat(scale)))

    def terms(self, training: Training, unit: float) -> tuple[dict[str, Any], None]:
        """Return the terms of the hinge, with the joint features of the similarity."""
        learner = self.learner
        unknown = any(map(attrgetter("partial_labels"), training.truths))
        approximate = unknown or learner.balance
        terms = {
            "features": SimilarityFeatures(learner.similarity, learner.metric, learner.normalized),
            "loss": FrobeniusLoss(),
            "oracle": TopEigenvectors() if approximate else learner.similarity.oracle(),
            "completion": complete_nodes if unknown else None,
            "ramp": learner.ramp,
        }
        return terms, None

    def start(self, cone: MetricCone, training: Any = None, scale: Any = None) -> NDArray:
        """Return the Euclidean metric. Solvers start at this metric times each of ``starts``."""
        return self.learner.metric.identity(cone.n_features)

    def complete(self, training: Training, fit: Any = None) -> list[Any]:
        """Complete labels under a first metric.

        The metric is divided by its number of components. Given similarities get equal weights.
        """
        learner, truths = self.learner, training.truths
        scale = self.scale(training)
        nodes = self.samples(training, scale)
        first = np.eye(training.data.n_features)
        if not learner.similarity.given:
            unit = 1.0 if learner.standardize else float(scale.min())
            arrays, labels = [one.features for one in nodes], [truth.nodes for truth in truths]
            learn = partial(self._of_labeled_nodes, training, unit)
            first = learner.alternation.start.components(arrays, labels, learn, labeled_samples)
            first = first / np.sqrt(len(first))
        forms = [SimilarityForm(learner.similarity.operator(one, first)) for one in nodes]
        return [
            truth.with_completion(complete_nodes(form, None, truth))
            for form, truth in zip(forms, truths)
        ]

    def _of_labeled_nodes(
        self, training: Training, unit: float, arrays: list[NDArray], *_: Any
    ) -> NDArray:
        """Learn components from all pairs of labeled nodes in every image."""
        truths = training.truths
        weights = np.ones(len(truths)) if training.weights is None else training.weights
        used = [i for i, truth in enumerate(truths) if len(truth.labeled) > 1]
        counts = [truths[i].counts[truths[i].labeled] for i in used]
        nodes = [Nodes(array, one.sum(axis=1)) for array, one in zip(arrays, counts)]
        labels = [NodeLabels(one, balance=self.learner.balance) for one in counts]
        quiet = copy.copy(self.learner).set_params(similarity=GaussianSimilarity(), callbacks=())
        cone = MetricCone(quiet.metric, arrays[0].shape[1], learns_penalty=False, unit=unit)
        parts, _ = quiet.task.terms(Training(training.data, labels), unit)
        terms = HingeTerms(**parts, cone=cone, loss_scale=quiet.loss_scale, count_known=True)
        executor = quiet.executor or ThreadExecutor(quiet.n_jobs)
        risk = StructuredHinge(terms, nodes, labels, weights[used], executor=executor)
        problem = Problem(risk, quiet.regularizer, cone, self.start(cone))
        points = list(np.outer(quiet.starts, problem.start))
        components = quiet.metric.components(quiet.solver.minimize_from(problem, points)[0].w)
        # ``complete`` divides a first metric by its number of components, so multiply by it here.
        return components * np.sqrt(len(components))

    def with_metric(self, statement: Any, w: NDArray, solution: Solution | None = None) -> Any:
        """Also set the eigenvalue threshold, from which ``predict`` finds the number of regions."""
        fitted = super().with_metric(statement, w, solution)
        problem = statement.problem
        counts = list(map(attrgetter("n_clusters"), problem.risk.truths))
        fitted.set_threshold(problem.risk.samples, counts, problem.cone.unit)
        return fitted
