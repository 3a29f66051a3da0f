"""Define families of similarities of nodes, and their joint features ⟨A, M⟩ under a metric.

Lajugie, Arlot & Bach (see :mod:`metriclearn.problem.partition`), section 5.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from metriclearn.oracles.spectral import SpectralRelaxation, TopEigenvectors
from metriclearn.problem.projector import Projector
from metriclearn.running.components import ComponentParameters
from metriclearn.running.parameters import Needs, Of, RandomState, Real, Whole, check_parameters
from metriclearn.similarities.nodes import NodeLabels, Nodes
from metriclearn.similarities.operators import (
    FourierOperator,
    GaussianOperator,
    NeighborhoodOperator,
    Operator,
    SimilarityForm,
    SumOperator,
)
from metriclearn.solvers.mahalanobis import Metric

_EVEN = Needs("an even {name} of at least 2", lambda n: Whole(2, 2**31).accepts(n) and n % 2 == 0)


@runtime_checkable
class Similarity(Protocol):
    """A family of similarities, one for every metric.

    Parameters
    ----------
    *args, **kwargs
        The protocol itself has no parameters; see :class:`GaussianSimilarity`.

    See Also
    --------
    metriclearn.similarities.GaussianSimilarity, metriclearn.similarities.FourierSimilarity,
    metriclearn.similarities.GivenSimilarities

    Examples
    --------
    >>> from metriclearn import NormalizedCutMetricLearner
    >>> type(NormalizedCutMetricLearner().similarity).__name__
    'GaussianSimilarity'
    """

    warm_starts: bool  # whether the oracle accepts starting directions
    given: bool  # whether data sets are similarities rather than features

    def operator(self, nodes: Nodes, components: NDArray) -> Operator:
        """Return the similarity of the nodes under the metric B = LLᵀ with components Lᵀ (r, P)."""
        ...

    def oracle(self) -> Any:
        """The oracle that maximizes forms of this similarity by a spectral relaxation."""
        ...


@dataclass(eq=False, repr=False)
class Neighborhood(BaseEstimator):
    """Sparse graphs. Neighbors are nodes at most ``radius`` apart, or nodes at given offsets.

    Parameters
    ----------
    radius : float
        Largest distance between the ``Nodes.positions`` of two neighbors, in pixels.
    offsets : sequence of (columns, rows), optional
        Steps in pixels, such as a random selection of all steps within a radius. Two nodes are
        neighbors if they are one of these steps apart, up to half a pixel. If offsets are given,
        ``radius`` is ignored.

    Raises
    ------
    ValueError
        Raised by the learner's ``fit`` if parameters cannot be used.

    References
    ----------
    Shi & Malik, Normalized cuts and image segmentation, PAMI 2000, section 4.

    Examples
    --------
    >>> from metriclearn import NormalizedCutMetricLearner
    >>> from metriclearn.similarities import GaussianSimilarity
    >>> from metriclearn.similarities import Neighborhood
    >>> learner = NormalizedCutMetricLearner(similarity=GaussianSimilarity(Neighborhood(radius=9)))
    """

    radius: float = 5.0
    offsets: Sequence[tuple[float, float]] | None = None

    def pairs(self, positions: NDArray | None, most: float = np.inf) -> NDArray:
        """Find the pairs i < j of neighbors, (E, 2).

        Raises
        ------
        ValueError
            If there are no positions, no pairs, or more than ``most`` pairs.
        """
        from scipy.spatial import cKDTree

        if positions is None or not self.radius > 0:
            raise ValueError(
                f"Neighborhood needs a positive radius and nodes with positions, got {self.radius} "
                f"and {'no positions' if positions is None else f'{len(positions)} positions'}; "
                "pass images, or Nodes with positions."
            )
        tree = cKDTree(positions)
        if self.offsets is None:
            where = f"of radius {self.radius}"
            count = (int(tree.count_neighbors(tree, self.radius)) - tree.n) // 2
        else:
            where, pairs = f"at {self.offsets}", self._at_offsets(tree)
            count = len(pairs)
        if count < 1:
            raise ValueError(f"Neighborhood {where} pixels holds no pair of nodes; enlarge it.")
        if count > most:
            raise ValueError(
                f"Neighborhood {where} pixels holds {count} pairs, more than the {most:.0f} that "
                "fit the memory of the similarity; make it smaller, or raise memory."
            )
        if self.offsets is None:
            pairs = np.sort(tree.query_pairs(self.radius, output_type="ndarray"), axis=1)
        return pairs

    def _at_offsets(self, tree: Any) -> NDArray:
        """Find the pairs of nodes whose positions differ by one of the offsets, each pair once."""
        steps = np.asarray(self.offsets, dtype=np.float64)
        if not steps.size or steps.shape[1:] != (2,) or not np.all(np.isfinite(steps)):
            raise ValueError(
                f"Neighborhood needs offsets as pairs of columns and rows, got {self.offsets!r}."
            )
        # For every step and node, the node nearest to the place this step away; tree.n if none is.
        apart = [tree.query(tree.data + step, distance_upper_bound=0.5)[1] for step in steps]
        i, j = np.tile(np.arange(tree.n), len(steps)), np.concatenate(apart)
        pairs = np.column_stack([i, j])[(j < tree.n) & (i != j)]
        return np.unique(np.sort(pairs, axis=1), axis=0)


@dataclass(eq=False, repr=False)
class GaussianSimilarity(ComponentParameters):
    """The similarity W_B[i, j] = exp(−(x_i − x_j)ᵀB(x_i − x_j)), for all pairs or for neighbors.

    With a metric of rank r and S nodes, a product with k vectors takes O(S²(r + k)). For E pairs of
    neighbors, the product takes O(E(r + k)). W is stored if it fits into ``memory``. If W does not
    fit, it is computed again for every product, in blocks of rows.

    Parameters
    ----------
    neighborhood : Neighborhood, optional
        The pairs with a similarity other than 0. By default, all pairs have such a similarity.
    memory : float
        Memory in bytes for similarities and intermediate arrays. If a neighborhood needs more
        memory, an error is raised.

    Raises
    ------
    ValueError
        Raised by the learner's ``fit`` if parameters cannot be used.

    References
    ----------
    Lajugie, Arlot & Bach, Large-Margin Metric Learning for Partitioning Problems,
    arXiv:1303.1280, section 5.1.
    """

    warm_starts = True
    given = False

    neighborhood: Annotated[
        Neighborhood | None, Of(Neighborhood, "Neighborhood()", optional=True)
    ] = None
    memory: Annotated[float, Real(2**20)] = 2.0**30

    def operator(self, nodes: Nodes, components: NDArray) -> Operator:
        X, neighborhood = nodes.features, self.neighborhood
        if neighborhood is not None:
            key = repr((neighborhood, self.memory))
            most = self.memory / NeighborhoodOperator.BYTES_PER_PAIR
            pairs = nodes.once("pairs", key, lambda: neighborhood.pairs(nodes.positions, most))
            return NeighborhoodOperator(X, components, nodes.root, pairs)
        return GaussianOperator(X, components, nodes.root, self.memory)

    def oracle(self) -> TopEigenvectors:
        return TopEigenvectors()


@dataclass(eq=False, repr=False)
class FourierSimilarity(BaseEstimator):
    """Approximate the Gaussian similarity by random Fourier features Φ: W ≈ ΦΦᵀ.

    The time is O(SD(D + P)). The features are the cosines and sines of the observations at D/2
    frequencies √2 B^(1/2) ω₀. Each ω₀ is drawn once from a standard normal distribution, and is the
    same for all metrics. So the objective is a smooth function of B. The error of an entry of W has
    a standard deviation of at most √(1/D).

    Parameters
    ----------
    n_components : int
        Number D of features, which must be even.
    random_state : int

    Raises
    ------
    ValueError
        Raised by the learner's ``fit`` if parameters cannot be used.

    References
    ----------
    Rahimi & Recht, Random features for large-scale kernel machines, NIPS 2007.

    Examples
    --------
    >>> from metriclearn import NormalizedCutMetricLearner
    >>> from metriclearn.similarities import FourierSimilarity
    >>> learner = NormalizedCutMetricLearner(similarity=FourierSimilarity(n_components=200))
    """

    warm_starts = False
    given = False

    n_components: Annotated[int, _EVEN] = 500
    random_state: RandomState = 0

    def operator(self, nodes: Nodes, components: NDArray) -> Operator:
        check_parameters(self)
        random = np.random.default_rng(self.random_state)
        directions = random.standard_normal((self.n_components // 2, nodes.n_features))
        return FourierOperator(nodes.features, components, nodes.root, directions)

    def oracle(self) -> SpectralRelaxation:
        return SpectralRelaxation()


class GivenSimilarities(BaseEstimator):
    """Combine given similarity matrices: W = Σ_k w_k W_k with learned weights w ≥ 0.

    The resulting problem is convex (Lajugie, Arlot & Bach, section 5.1). A data set is an array (n,
    S, S) of n symmetric similarity matrices W_k. The metric is a ``DiagonalMetric``, whose weights
    are w.
    """

    warm_starts = True
    given = True

    def operator(self, nodes: Nodes, components: NDArray) -> Operator:
        weights = np.einsum("kp,kp->p", components, components)
        return SumOperator(nodes.features, weights, nodes.root)

    def oracle(self) -> TopEigenvectors:
        return TopEigenvectors()


class SimilarityFeatures:
    """The joint features of a similarity and a metric: A = W_B / T, which is not linear in B.

    W_B holds the similarities under the metric B. W_B is divided by T, the number of samples, so A
    has trace 1 at any resolution, and a useful scale α of the loss is of order 1 or less. In the
    paper W_B is not divided by T. The paper's problem is the same as ours if α_paper = αT. But the
    paper's value α_paper = 1 is negligible compared with W_B. The hinge contains a maximum over
    matrices M. This maximum is convex in B if no M has negative entries. But the M of a spectral
    relaxation may have negative entries.

    Parameters
    ----------
    similarity : Similarity
    metric : Metric
    normalized : bool
        If True, A = D^(-1/2) W_B D^(-1/2), where D holds the degrees of W_B. In a majorant of the
        hinge, the degrees are constants: the degrees at the metric B where the majorant touches the
        hinge.

    Raises
    ------
    ValueError
        Raised when a form is made, if a parameter of the similarity cannot be used, or if the pairs
        of a neighborhood do not fit into ``memory``.

    References
    ----------
    Lajugie, Arlot & Bach, Large-Margin Metric Learning for Partitioning Problems,
    arXiv:1303.1280, section 5.1.

    Examples
    --------
    >>> from metriclearn import DiagonalMetric
    >>> from metriclearn.similarities import GaussianSimilarity
    >>> from metriclearn.similarities import SimilarityFeatures
    >>> SimilarityFeatures(GaussianSimilarity(), DiagonalMetric()).linear
    False
    """

    linear = False

    def __init__(self, similarity: Similarity, metric: Metric, normalized: bool = False) -> None:
        self.similarity, self.metric, self.normalized = similarity, metric, normalized
        self.warm_starts = similarity.warm_starts

    def at(self, w: NDArray, tangent: NDArray | None = None) -> Callable[[Nodes], SimilarityForm]:
        """Return a function that makes the form A of nodes, at the metric coordinates w.

        If ``normalized``, A is divided by the degrees at w. If ``tangent`` is given, A is divided
        by the degrees at the coordinates ``tangent``, which are constants.
        """
        components = self.metric.components(w)

        def form(nodes: Nodes) -> SimilarityForm:
            operator = self.similarity.operator(nodes, components)
            if not self.normalized:
                return SimilarityForm(operator)
            if tangent is None:
                return SimilarityForm(operator.normalized())
            key = (repr(self.similarity), tangent.tobytes())
            root = nodes.once("root", key, lambda: self.at(tangent)(nodes).operator.root)
            return SimilarityForm(operator.rescaled(root))

        return form

    def gradient(
        self, samples: Nodes, form: SimilarityForm, partition: Projector | NodeLabels
    ) -> NDArray:
        """Return the exact derivative d⟨A, M⟩/dw at the w from which the form was made."""
        values, vectors = np.linalg.eigh(form.operator.slope(partition.factor))
        roots = (vectors * np.sqrt(np.abs(values))).T  # a difference of two positive matrices
        positive, negative = roots[values > 0], roots[values <= 0]
        return self.metric.coordinates(positive) - self.metric.coordinates(negative)
