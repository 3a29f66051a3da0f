"""NormalizedCutMetricLearner: a similarity for normalized cuts, from segmented images."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from metriclearn.estimators.learners.alternation import labeled_samples
from metriclearn.estimators.learners.large_margin import LargeMarginLearner
from metriclearn.estimators.prediction.cutter import (
    Graphs,
    NormalizedCutSegmenter,
    read_graphs,
    read_node_labels,
)
from metriclearn.oracles.spectral import TopEigenvectors
from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.problem.risk import Oracle
from metriclearn.running.parameters import Needs, component, number
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

    The similarity W_B[i, j] = exp(−(x_i − x_j)ᵀB(x_i − x_j)) of superpixels or pixels, with B
    learned as in section 5.1 of Lajugie, Arlot & Bach: the structured hinge for max_M Tr W_B M,
    whose concave part −Tr W_B N is replaced by its tangent again and again (CCCP), under the loss
    ‖M − N‖²_F of the full-resolution label maps. Images are then divided by normalized cuts under
    the learned similarity.

    Data sets are (H, W, 3) RGB images, :class:`ImageNodes` or (T, P) arrays; their labels are
    (H, W) label maps, (T,) labels, or a Partition or PartialPartition of the pixels row by row,
    with −1 where unknown.

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
        With any solver of this package inside. One outer step from every start decides which goes
        on (``trial_rounds=1``); with ``CCCP()`` all of them do, at about three times the cost.
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
        Train on D^(-1/2) W D^(-1/2) with the degrees D, constant within an outer step where there
        is no ramp.
    ramp : bool
        max_M Tr W_B M in place of Tr W_B N, whose difference from the other maximum over α tends to
        the loss of the relaxed prediction for α → 0 (structured ramp loss, Do et al. 2008; direct
        loss, McAllester, Hazan & Keshet 2010): for labels that no metric separates by a margin,
        such as tens of regions, where the hinge is least with a metric near 0. The objective is
        then descended without majorants.
    balance : float
        b in the loss ‖D^½(M − N)‖²_F with D = Diag((n/n_k)^b), where n_k of the n labeled samples
        are in the cluster of each. 0 is the paper's; with 1 small regions count more, with −1 all
        regions in proportion to their sizes, as in a covering.
    starts : sequence of float
        Training begins at each of these multiples of the Euclidean metric of standardized
        features, and goes on from the one of least objective.
    standardize : bool
        Divide features by their pooled within-image standard deviation before learning. If not,
        ``starts`` are for features over the power of 2 that is nearest to the largest of these.
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
        Every start, and the objective reached from it in as many outer steps as it was tried.
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

    The clusters overlap, so that the score, −‖M − N‖², is not 0; it is that of an error or two more
    or less than who knows the means, 0 and 3, makes by dividing halfway:

    >>> from metriclearn.indices import partition_loss
    >>> halfway = [partition_loss(labels, x[:, 0] > 1.5, normalized=False) for x in X]
    >>> bool(abs(learner.score(X, [labels, labels]) + np.mean(halfway)) < 0.1)
    True
    """

    PARAMETERS: ClassVar[Mapping[str, Needs]] = {
        **NormalizedCutSegmenter.PARAMETERS,
        **LargeMarginLearner.PARAMETERS,
        "regularizer": component(Regularizer, "Trace()"),
        "solver": component(CCCP, "CCCP()"),
        "starts": Needs(
            "at least one positive start",
            lambda starts: len(starts) > 0 and all(map(number(1e-50).accepts, starts)),
        ),
    }

    metric: Metric = DiagonalMetric()  # noqa: RUF009
    regularizer: Regularizer = Trace(1e-2)  # noqa: RUF009
    solver: CCCP = CCCP(trial_rounds=1)  # noqa: RUF009
    _: KW_ONLY
    penalty: ClassVar[float] = 0.0  # type: ignore[misc]  # no parameter: K is known
    loss_scale: float = 0.03
    normalized: bool = False
    ramp: bool = False
    starts: Sequence[float] = (1e-3, 1e-2, 1e-1)

    _count_known = True
    _COMPLETABLE = (True, "a label of every cluster")
    _CERTIFIED = False
    _MOST_CUTS = None
    _UNIT_BITS = 1

    def _oracle(self) -> Oracle:
        return self.similarity.oracle()

    def _read_training(self, X: Any) -> Graphs:
        who, given = type(self).__name__, self.similarity.given
        if given and not self.metric.polyhedral:
            raise ValueError(
                f"{who} needs a DiagonalMetric() for the weights of given similarities, got "
                f"{self.metric!r}."
            )
        return read_graphs(who, X, self.features, given)

    def _read_truths(self, y: Any, data: Graphs) -> list[Any]:
        return read_node_labels(type(self).__name__, y, data, self.balance)

    def _feature_scale(self, data: Any, weights: NDArray | None, truths: Sequence[Any]) -> NDArray:
        if self.similarity.given:
            return np.ones(data.n_features)
        return super()._feature_scale(data, weights, truths)

    def _samples(self, data: Any, truths: list[Any], scale: NDArray) -> list[Nodes]:
        return [self._scaled(nodes, scale) for nodes in data.arrays]

    def _terms(self, truths: Sequence[Any]) -> dict[str, Any]:
        partial = any(truth.known is not None for truth in truths)
        return {
            "features": SimilarityFeatures(self.similarity, self.metric, self.normalized),
            "loss": FrobeniusLoss(),
            "oracle": TopEigenvectors() if partial or self.balance else self._oracle(),
            "completion": complete_nodes if partial else None,
            "ramp": self.ramp,
        }

    def _start(
        self, cone: MetricCone, data: Any, truths: Sequence[Any], weights: NDArray | None
    ) -> NDArray:
        """What ``starts`` are multiples of."""
        return self.metric.identity(cone.n_features)

    def _complete(self, data: Any, knowns: list[Any], weights: NDArray | None) -> list[Any]:
        """Completions under a mean over first components, or equal weights of given ones."""
        scale = self._feature_scale(data, weights, knowns)
        unit = 1.0 if self.standardize else float(scale.min())
        nodes = self._samples(data, knowns, scale)
        first = np.eye(data.n_features)
        if not self.similarity.given:
            shares = np.ones(len(knowns)) if weights is None else weights
            used = [i for i, known in enumerate(knowns) if len(known.labeled) > 1]

            def fit(arrays: list[NDArray], *_: Any) -> NDArray:
                """Components from labeled nodes alone, and all their pairs."""
                quiet = {"callbacks": (), "verbose": False}
                learner = copy.copy(self).set_params(similarity=GaussianSimilarity(), **quiet)
                counts = [knowns[i].counts[knowns[i].labeled] for i in used]
                labeled = [Nodes(array, one.sum(axis=1)) for array, one in zip(arrays, counts)]
                truths = [NodeLabels(one, balance=self.balance) for one in counts]
                cone = MetricCone(self.metric, arrays[0].shape[1], learns_penalty=False, unit=unit)
                hinge = learner._hinge(cone, labeled, truths, shares[used])
                start = self.metric.identity(cone.n_features)
                problem = Problem(hinge, self.regularizer, cone, start)
                components = self.metric.components(learner._solve(problem).w)
                return components * np.sqrt(len(components))

            arrays, facts = [one.features for one in nodes], [known.nodes for known in knowns]
            first = self.alternation.start.components(arrays, facts, fit, labeled_samples)
            first = first / np.sqrt(len(first))
        forms = [SimilarityForm(self.similarity.operator(one, first)) for one in nodes]
        return [
            known.with_completion(complete_nodes(form, None, known))
            for form, known in zip(forms, knowns)
        ]

    def _solve(
        self, problem: Problem, minimize: Callable[[Problem], Solution] | None = None
    ) -> Solution:
        """From every start, or from an earlier solution where there is one."""
        if problem.warm is not None:
            return super()._solve(problem)
        points = [start * problem.start for start in self.starts]

        def best(watched: Problem) -> Solution:
            solution, objectives = self.solver.minimize_from(watched, points)
            self.start_objectives_ = list(zip(map(float, self.starts), objectives))
            return solution

        return super()._solve(problem, best)

    def _learn(self, problem: Problem) -> Solution:
        solution = super()._learn(problem)
        risk, unit = problem.risk, problem.cone.unit
        self._set_threshold(risk.samples, [truth.n_clusters for truth in risk.truths], unit)
        return solution
