"""NormalizedCutMetricLearner: a similarity for normalized cuts, from segmented images."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from metriclearn.estimators.alternation import Alternation, AlternationTrace, alternate
from metriclearn.estimators.cutter import NormalizedCutSegmenter
from metriclearn.estimators.first_completion import labeled_samples
from metriclearn.estimators.graphs import (
    Graph,
    PartialLabels,
    pooled_scale,
    read_graphs,
    read_known_labels,
)
from metriclearn.estimators.inputs import read_weights
from metriclearn.features.image import ImageFeatures
from metriclearn.oracles.spectral import TopEigenvectors
from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.problem.risk import StructuredHinge
from metriclearn.running.callbacks import ProgressBar, WithEstimator
from metriclearn.running.executors import Executor, ThreadExecutor
from metriclearn.running.parameters import Needs, check_parameters, component, number
from metriclearn.similarities import (
    GaussianSimilarity,
    NodeLabels,
    Nodes,
    Similarity,
    SimilarityFeatures,
)
from metriclearn.similarities.nodes import complete_nodes
from metriclearn.similarities.normalized_cut import Rounding, ThresholdCut
from metriclearn.similarities.operators import SimilarityForm
from metriclearn.solvers.base import Callback, Problem, Solution
from metriclearn.solvers.cccp import CCCP
from metriclearn.solvers.mahalanobis import DiagonalMetric, Metric, MetricCone
from metriclearn.solvers.regularizers import Regularizer, Trace

__all__ = ["NormalizedCutMetricLearner"]


@dataclass(eq=False, repr=False)
class NormalizedCutMetricLearner(NormalizedCutSegmenter):
    """Learn the similarity of normalized cuts from images that people have segmented.

    The similarity W_B[i, j] = exp(−(x_i − x_j)ᵀB(x_i − x_j)) of superpixels or pixels, with B
    learned as in section 5.1 of Lajugie, Arlot & Bach: the structured hinge for max_M Tr W_B M,
    whose concave part −Tr W_B N is replaced by its tangent again and again (CCCP), under the loss
    ‖M − N‖²_F of the full-resolution label maps. Images are then divided by normalized cuts under
    the learned similarity.

    Two departures from the paper, both for what its α = 1 does (training then drives B to a
    useless, nearly diagonal W): similarities are divided by the number of pixels, so that α,
    ``loss_scale``, is of the order of their eigenvalues at any resolution; and several starts are
    tried, as the objective is not convex. The relaxed M may have negative entries, for which the
    majorant is not convex in B either: every outer step is checked, ``solution_.trace`` never
    increases, and there is no lower bound.

    Parameters
    ----------
    metric : Metric
        ``DiagonalMetric()`` (one weight per feature) or ``FullMetric()``.
    regularizer : Regularizer
        ``Trace``, ``L1`` or ``SquaredFrobenius``, each with ``strength``.
    solver : CCCP
        With any solver of this package inside.
    similarity : Similarity
        ``GaussianSimilarity`` (all pairs, or a sparse neighborhood; with a memory budget),
        ``FourierSimilarity`` (random features), or ``GivenSimilarities``, whose data sets are
        (n, S, S) arrays of similarities and whose learned weights make the problem convex.
    features : ImageFeatures
        What images are turned into; not used for feature arrays.
    rounding : Rounding
        ``ThresholdCut`` (Shi & Malik), ``KMeansRounding`` (Ng, Jordan & Weiss) or
        ``Discretization`` (Yu & Shi).
    loss_scale : float
        α > 0, relative to a similarity of trace 1.
    normalized : bool
        Train on D^(-1/2) W D^(-1/2), with D constant within an outer step.
    starts : sequence of float
        Training begins at each of these multiples of the Euclidean metric of standardized
        features, and the least objective is kept.
    standardize : bool
        Divide features by their pooled within-image standard deviation before learning.
    alternation : Alternation
        How partial labels (−1 where unknown) are completed and learned from, in turns; the loss
        is then on the rows of labeled samples, K the number of labels of each image. The first
        completion is under the metric of labeled nodes, or principal components. Not used with
        full labels.
    callbacks : sequence of callbacks
        As for :class:`ChangePointMetricLearner`.
    n_jobs : int, optional
        Threads over images, as in joblib.
    executor : Executor, optional
        Where the images are and oracles run, such as ``DaskExecutor(client)``, see
        :mod:`metriclearn.running.executors`; in place of ``n_jobs``.
    verbose : bool, optional
        Progress bar at once (True), never (False), or in a terminal after a few seconds (None).

    Attributes
    ----------
    components_ : array (r, P)
        Lᵀ with B = LLᵀ, in the units of the features.
    solution_ : Solution
        Objective and trace of the best start.
    start_objectives_ : list of (float, float)
        Every start, and the objective reached from it.
    completions_ : list of label maps or label arrays, or None
        Partial labels, completed.
    alternation_ : AlternationTrace or None
        Objective after every completion and every metric step, never rising.
    scale_ : array (P,)
        Standard deviations features were divided by (ones without ``standardize``).
    eigenvalue_threshold_ : float
        Where K is not given, it is the number of eigenvalues of the normalized similarity above
        this, at most ``max_clusters_``.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn import NormalizedCutMetricLearner
    >>> noise = np.random.default_rng(0).normal(size=(2, 60, 2))
    >>> labels = np.repeat([0, 1], 30)
    >>> X = [array + 3.0 * np.outer(labels, (1, 0)) for array in noise]
    >>> learner = NormalizedCutMetricLearner().fit(X, [labels, labels])
    >>> bool(learner.score(X, [labels, labels]) > -0.3)
    True
    """

    PARAMETERS: ClassVar[Mapping[str, Needs]] = {
        "metric": component(Metric, "DiagonalMetric()"),
        "regularizer": component(Regularizer, "Trace()"),
        "solver": component(CCCP, "CCCP()"),
        "similarity": component(Similarity, "GaussianSimilarity()"),
        "features": component(ImageFeatures, "ImageFeatures()"),
        "rounding": component(Rounding, "ThresholdCut()"),
        "alternation": component(Alternation, "Alternation()"),
        "loss_scale": number(positive=True),
        "starts": Needs(
            "at least one positive start",
            lambda starts: len(starts) > 0 and all(map(number(1e-50).accepts, starts)),
        ),
    }

    metric: Metric = DiagonalMetric()  # noqa: RUF009
    regularizer: Regularizer = Trace(1e-2)  # noqa: RUF009
    solver: CCCP = CCCP()  # noqa: RUF009
    _: KW_ONLY
    similarity: Similarity = GaussianSimilarity()  # noqa: RUF009
    features: ImageFeatures = ImageFeatures()  # noqa: RUF009
    rounding: Rounding = ThresholdCut()  # noqa: RUF009
    loss_scale: float = 0.03
    normalized: bool = False
    starts: Sequence[float] = (1e-3, 1e-2, 1e-1)
    standardize: bool = True
    alternation: Alternation = Alternation()  # noqa: RUF009
    callbacks: Sequence[Callback] = ()
    n_jobs: int | None = None
    executor: Executor | None = None
    verbose: bool | None = None

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from images, or arrays of features, and their label maps.

        Parameters
        ----------
        X : sequence of (H_i, W_i, 3) RGB images, of :class:`ImageNodes` or of (T_i, P) arrays; or
            one of them
        y : sequence of (H_i, W_i) label maps, of (T_i,) labels, of Partition or PartialPartition
            (of pixels row by row); or one
            Labels −1 are unknown.
        sample_weight : array (N,), optional
            Weight of every image.

        Raises
        ------
        ValueError
            For images, labels or parameters that cannot be used, in one sentence.
        """
        self._check_parameters()
        who = type(self).__name__
        graphs, single = read_graphs(who, X, self.features, self.similarity.given)
        truths = read_known_labels(who, y, graphs, single)
        weights = read_weights(who, sample_weight, len(graphs))
        names = self.features.names if graphs[0].is_image else getattr(X, "columns", None)
        self._remember_features(graphs[0].nodes.n_features, names)
        self.scale_ = np.ones(self.n_features_in_)
        if self.standardize and not self.similarity.given:
            self.scale_ = pooled_scale(who, graphs, weights)
        nodes = [self._scaled(graph.nodes) for graph in graphs]
        self.start_objectives_: list[tuple[float, float]] = []
        self.completions_: list[NDArray] | None = None
        self.alternation_: AlternationTrace | None = None
        partial = [truth for truth in truths if isinstance(truth, PartialLabels)]
        if partial:
            self.solution_ = self._alternate(graphs, nodes, partial, weights)
        else:
            complete = [truth for truth in truths if isinstance(truth, NodeLabels)]
            self.solution_ = self._solve(self._problem(nodes, complete, weights))
        self._accept(self.solution_.w)
        self._set_threshold(nodes, [truth.n_clusters for truth in truths])
        self._report()
        return self

    def _problem(
        self,
        nodes: Sequence[Nodes],
        truths: Sequence[NodeLabels],
        weights: NDArray | None,
        similarity: Similarity | None = None,
    ) -> Problem:
        """The risk, and where its starts are multiples of; under the learner's similarity."""
        similarity = self.similarity if similarity is None else similarity
        cone = MetricCone(self.metric, nodes[0].n_features, priced=False)
        partly = any(truth.known is not None for truth in truths)
        hinge = StructuredHinge(
            SimilarityFeatures(similarity, self.metric, self.normalized),
            FrobeniusLoss(),
            TopEigenvectors() if partly else similarity.oracle(),
            cone,
            nodes,
            truths,
            weights,
            loss_scale=self.loss_scale,
            count_known=True,
            executor=self._executor,
            completion=complete_nodes if partly else None,
        )
        return Problem(hinge, self.regularizer, cone, self.metric.identity(cone.n_features))

    @property
    def _executor(self) -> Executor:
        return ThreadExecutor(self.n_jobs) if self.executor is None else self.executor

    def _solve(self, problem: Problem) -> Solution:
        """Minimize from every start, or from an earlier solution where there is one."""

        def snapshot(w: NDArray) -> NormalizedCutMetricLearner:
            copy = type(self)(**self.get_params(deep=False))
            copy.__dict__.update({k: v for k, v in self.__dict__.items() if k.endswith("_")})
            copy._accept(w)
            return copy

        several = getattr(self._executor, "n_jobs", None) not in (None, 1)
        with (
            threadpool_limits(1 if several else None, user_api="blas"),
            ProgressBar(type(self).__name__, self.verbose) as bar,
        ):
            watching: list[Callback] = [bar]
            watching += [WithEstimator(callback, snapshot) for callback in self.callbacks]
            watched = replace(problem, callbacks=watching)
            return (
                self._from_starts(watched)
                if problem.warm is None
                else self.solver.minimize(watched)
            )

    def _from_starts(self, problem: Problem) -> Solution:
        points = [start * problem.start for start in self.starts]
        found, objectives = self.solver.minimize_from(problem, points)
        self.start_objectives_ = list(zip(map(float, self.starts), objectives))
        return found

    def _alternate(
        self,
        graphs: Sequence[Graph],
        nodes: Sequence[Nodes],
        labels: Sequence[PartialLabels],
        weights: NDArray | None,
    ) -> Solution:
        """Learn from partial labels and complete them, in turns."""
        first = self._first_components(nodes, [own.nodes for own in labels], weights)
        truths = [
            own.nodes.with_completion(
                complete_nodes(
                    SimilarityForm(self.similarity.operator(graph, first)), None, own.nodes
                )
            )
            for graph, own in zip(nodes, labels)
        ]
        problem = self._problem(nodes, truths, weights)
        solution, hinge, self.alternation_ = alternate(problem, self._solve, self.alternation)
        self.completions_ = [
            own.completed(truth.labels, graph)
            for own, truth, graph in zip(labels, hinge.truths, graphs)
        ]
        return solution

    def _first_components(
        self, nodes: Sequence[Nodes], known: Sequence[NodeLabels], weights: NDArray | None
    ) -> NDArray:
        """Lᵀ of the first completion: a mean over components, or equal weights of given ones."""
        if self.similarity.given:
            return np.eye(nodes[0].n_features)
        shares = np.ones(len(known)) if weights is None else weights
        used = [i for i, own in enumerate(known) if len(own.labeled) > 1]

        def fit(arrays: list[NDArray], *_: Any) -> NDArray:
            """Learn from labeled nodes alone, and all their pairs."""
            counts = [known[i].counts[known[i].labeled] for i in used]
            labeled = [Nodes(array, own.sum(axis=1)) for array, own in zip(arrays, counts)]
            truths = [NodeLabels(own) for own in counts]
            problem = self._problem(labeled, truths, shares[used], GaussianSimilarity())
            components = self.metric.components(self._from_starts(problem).w)
            return components * np.sqrt(len(components))

        arrays, labels = [own.features for own in nodes], [own.nodes for own in known]
        first = self.alternation.start.components(arrays, labels, fit, labeled_samples)
        return first / np.sqrt(len(first))

    def _report(self) -> None:
        if self.solution_.reason in ("max_rounds", "interrupted"):
            warnings.warn(
                f"{type(self).__name__} stopped ({self.solution_.reason}) after "
                f"{len(self.solution_.trace)} outer steps; the best metric so far is kept. "
                "Raise the solver's max_rounds or its tolerance.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _accept(self, w: NDArray) -> None:
        self.components_ = self.metric.components(w) / self.scale_

    def _check_parameters(self) -> None:
        check_parameters(self)
        if self.similarity.given and len(self.metric.identity(2)) != 2:
            raise ValueError(
                f"{type(self).__name__} needs a DiagonalMetric() for the weights of given "
                f"similarities, got {self.metric!r}."
            )
