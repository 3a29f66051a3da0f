"""Joint features of nodes and partitions through a learned similarity (section 5.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from metriclearn.oracles.spectral import SpectralRelaxation, TopEigenvectors
from metriclearn.running.parameters import ComponentParameters
from metriclearn.similarities.engines import engine_for
from metriclearn.similarities.forms import FactoredForm, SimilarityForm
from metriclearn.similarities.fourier import FourierOperator
from metriclearn.similarities.nodes import Nodes
from metriclearn.similarities.operators import (
    GaussianOperator,
    NeighborhoodOperator,
    Operator,
    SumOperator,
)
from metriclearn.solvers.mahalanobis import Metric

__all__ = [
    "FourierSimilarity",
    "GaussianSimilarity",
    "GivenSimilarities",
    "Neighborhood",
    "Similarity",
    "SimilarityFeatures",
]


@runtime_checkable
class Similarity(Protocol):
    """A family of similarities, one for every metric."""

    warm_starts: bool  # whether the oracle takes directions to begin with
    given: bool  # whether data sets are similarities rather than features

    def operator(self, nodes: Nodes, components: NDArray) -> Operator:
        """The similarity of the nodes under B = LLᵀ, from its components Lᵀ (r, P)."""
        ...

    def form(self, operator: Operator) -> SimilarityForm:
        """What an oracle maximizes over."""
        ...

    def oracle(self) -> Any:
        """The spectral relaxation suited to such forms."""
        ...


class Neighborhood(BaseEstimator):
    """Pairs of nodes at most ``radius`` apart, or at given offsets: sparse graphs.

    Parameters
    ----------
    radius : float
        In pixels, of ``Nodes.positions``.
    offsets : sequence of (columns, rows), optional
        Steps in pixels, such as some of those within a radius drawn at random: only pairs that are
        one such step apart, to within half a pixel. ``radius`` is then not used.

    References
    ----------
    Shi & Malik, Normalized cuts and image segmentation, PAMI 2000, section 4.
    """

    def __init__(
        self, radius: float = 5.0, offsets: Sequence[tuple[float, float]] | None = None
    ) -> None:
        self.radius = radius
        self.offsets = offsets

    def pairs(self, positions: NDArray | None, most: float = np.inf) -> NDArray:
        """Pairs i < j, (E, 2), at most ``most``.

        Raises
        ------
        ValueError
            If there are no positions, too many pairs, or none.
        """
        from scipy.spatial import cKDTree

        if positions is None or not self.radius > 0:
            raise ValueError(
                f"Neighborhood needs a positive radius and nodes with positions, got {self.radius} "
                f"and {'no positions' if positions is None else f'{len(positions)} positions'}; "
                "pass images, or Nodes with positions."
            )
        tree = cKDTree(positions)
        if self.offsets is not None:
            return self._at_offsets(tree, most)
        self._check((int(tree.count_neighbors(tree, self.radius)) - len(positions)) // 2, most)
        return np.sort(tree.query_pairs(self.radius, output_type="ndarray"), axis=1)

    def _at_offsets(self, tree: Any, most: float) -> NDArray:
        steps = np.asarray(self.offsets, dtype=np.float64)
        if steps.ndim != 2 or steps.shape[1] != 2 or not np.all(np.isfinite(steps)):
            raise ValueError(
                f"Neighborhood needs offsets as pairs of columns and rows, got {self.offsets!r}."
            )
        found = [np.empty((0, 2), dtype=np.int64)]
        for step in steps:
            distance, j = tree.query(tree.data + step, distance_upper_bound=0.5)
            i = np.flatnonzero(np.isfinite(distance) & (j != np.arange(tree.n)))
            found.append(np.column_stack([i, j[i]]))
        pairs = np.unique(np.sort(np.concatenate(found), axis=1), axis=0)
        self._check(len(pairs), most)
        return pairs

    def _check(self, count: int, most: float) -> None:
        where = f"of radius {self.radius}" if self.offsets is None else f"at {self.offsets}"
        if count < 1:
            raise ValueError(f"Neighborhood {where} pixels holds no pair of nodes; enlarge it.")
        if count > most:
            raise ValueError(
                f"Neighborhood {where} pixels holds {count} pairs, more than the {most:.0f} that "
                "fit the memory of the similarity; make it smaller, or raise memory."
            )


class GaussianSimilarity(ComponentParameters):
    """W_B[i, j] = exp(−(x_i − x_j)ᵀB(x_i − x_j)), for all pairs or for neighbors.

    One product costs O(S²(r + k)), or O(E(r + k)) for E pairs of neighbors. W is kept while it
    fits the memory budget, else computed again in blocks of rows whenever it is needed.

    Parameters
    ----------
    neighborhood : Neighborhood, optional
        Which pairs have a similarity other than 0; all by default.
    memory : float
        Bytes for similarities and for what is computed from them; a neighborhood that needs more
        is refused.
    device : str, optional
        A torch device such as "cuda" or "cpu"; numpy by default. Neighborhoods use numpy.
    """

    warm_starts = True
    given = False

    def __init__(
        self,
        neighborhood: Neighborhood | None = None,
        memory: float = 2.0**30,
        device: str | None = None,
    ) -> None:
        self.neighborhood = neighborhood
        self.memory = memory
        self.device = device

    def operator(self, nodes: Nodes, components: NDArray) -> Operator:
        X, neighborhood = nodes.features, self.neighborhood
        if not self.memory >= 2**20:
            raise ValueError(
                f"GaussianSimilarity needs a memory of at least 2**20 bytes, got {self.memory!r}."
            )
        if neighborhood is not None:
            key = repr((neighborhood, self.memory))
            most = self.memory / NeighborhoodOperator.BYTES_PER_PAIR
            pairs = nodes.once(key, lambda: neighborhood.pairs(nodes.positions, most))
            return NeighborhoodOperator(X, components, nodes.root, pairs)
        engine = engine_for(self.device)
        return GaussianOperator(X, components, nodes.root, engine, self.memory)

    def form(self, operator: Operator) -> SimilarityForm:
        return SimilarityForm(operator)

    def oracle(self) -> TopEigenvectors:
        return TopEigenvectors()


class FourierSimilarity(BaseEstimator):
    """The Gaussian similarity by random Fourier features: W ≈ ΦΦᵀ, O(SD(D + P)).

    D/2 frequencies √2 B^(1/2) ω₀, each by its cosine and its sine, with ω₀ standard normal and
    the same for all metrics, so that the objective is a smooth function of B. The error of an
    entry has standard deviation at most √(1/D).

    Parameters
    ----------
    n_components : int
        D, even.
    random_state : int
    """

    warm_starts = False
    given = False

    def __init__(self, n_components: int = 500, random_state: int = 0) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def operator(self, nodes: Nodes, components: NDArray) -> Operator:
        if self.n_components < 2 or self.n_components % 2:
            raise ValueError(
                f"FourierSimilarity needs an even n_components of at least 2, got "
                f"{self.n_components!r}."
            )
        random = np.random.default_rng(self.random_state)
        directions = random.standard_normal((self.n_components // 2, nodes.n_features))
        return FourierOperator(nodes.features, components, nodes.root, directions)

    def form(self, operator: Operator) -> FactoredForm:
        return FactoredForm(operator)

    def oracle(self) -> SpectralRelaxation:
        return SpectralRelaxation()


class GivenSimilarities(BaseEstimator):
    """W = Σ_k w_k W_k with weights w ≥ 0 and given matrices: the convex model of section 5.1.

    Data sets are arrays (n, S, S) of symmetric similarity matrices; the metric is a
    ``DiagonalMetric``, whose weights are w.
    """

    warm_starts = True
    given = True

    def operator(self, nodes: Nodes, components: NDArray) -> Operator:
        weights = np.einsum("kp,kp->p", components, components)
        return SumOperator(nodes.features, weights, nodes.root)

    def form(self, operator: Operator) -> SimilarityForm:
        return SimilarityForm(operator)

    def oracle(self) -> TopEigenvectors:
        return TopEigenvectors()


class SimilarityFeatures:
    """The joint features of a similarity family and a metric family."""

    def __init__(self, similarity: Similarity, metric: Metric) -> None:
        self.similarity, self.metric = similarity, metric

    def at(self, w: NDArray) -> Callable[[Nodes], SimilarityForm]:
        """The forms A of data sets under the metric coordinates w."""
        components = self.metric.components(w)
        return lambda nodes: self.similarity.form(self.similarity.operator(nodes, components))

    def gradient(self, form: SimilarityForm, factors: NDArray, signs: NDArray) -> NDArray:
        """d⟨A, F Diag(signs) Fᵀ⟩/dw, exact, in the coordinates of the metric."""
        return symmetric_coordinates(self.metric, form.operator.slope(factors, signs))


def symmetric_coordinates(metric: Metric, G: NDArray) -> NDArray:
    """Coordinates of a symmetric matrix, as the difference of two positive ones."""
    values, vectors = np.linalg.eigh(G)
    roots = (vectors * np.sqrt(np.abs(values))).T
    return metric.coordinates(roots[values > 0]) - metric.coordinates(roots[values <= 0])
