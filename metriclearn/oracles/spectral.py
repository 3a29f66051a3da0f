"""Spectral relaxation: argmax ⟨A, M⟩ over all orthogonal projections (section 4.2)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, eigsh
from sklearn.base import BaseEstimator

from metriclearn.oracles.feasibility import check_count
from metriclearn.problem.forms import Compressed
from metriclearn.problem.projector import Projector

__all__ = ["SpectralRelaxation"]

_TIE = 1e-11  # of the largest eigenvalue: closer ones count as equal
_LANCZOS_TIE = 1e-8  # what Lanczos iterations cannot tell apart
_LANCZOS_SIZE, _LANCZOS_SHARE = 500, 10  # from which size, and at most which share of the spectrum


class SpectralRelaxation(BaseEstimator):
    """argmax ⟨A, M⟩ over {0 ⪯ M ⪯ I}: an upper bound on every partition, found exactly.

    K known: the projection on the K leading eigenvectors of A. Unknown: on all those with a
    positive eigenvalue. For A = ZZᵀ − κN + cI everything happens in the span of [Y, Z], of at
    most r + K dimensions; outside it A is cI, and M* = UUᵀ + I − QQᵀ where c > 0, or where fewer
    than K eigenvalues inside are nonnegative (then with the weight that makes Tr M* = K).
    Eigenvalues that tie at the cut share what is left equally, so that M* is unique.

    O(Tr² + (r+K)³), or O((P+K)³) for the forms of :class:`TableSamples`. A dense form takes a
    full eigendecomposition, or when large Lanczos iterations for its leading eigenvectors.

    Parameters
    ----------
    keep_constant : bool
        Maximize over projections with M1 = 1 only, which holds for every partition: the smaller
        bound, at the same cost. The paper has no such constraint (False).

    References
    ----------
    Lajugie, Arlot & Bach, section 4.2; the maximum is Ky Fan's theorem.
    """

    def __init__(self, keep_constant: bool = False) -> None:
        self.keep_constant = keep_constant

    over_partitions = False

    @property
    def relaxation(self) -> SpectralRelaxation:
        """The upper bound behind the oracle: itself."""
        return self

    def __call__(self, form: Any, n_clusters: int | None = None) -> Projector:
        """Best projection, with trace ``n_clusters`` if given.

        Raises
        ------
        ValueError
            If T samples cannot have that many clusters.
        """
        problem = self._problem(form, n_clusters)
        wanted = problem.lanczos_count()
        if wanted is None:
            return problem.answer(*np.linalg.eigh(problem.matrix))
        return problem.answer(*_lanczos(problem.matrix, wanted, n_clusters is None))

    def _problem(self, form: Any, n_clusters: int | None) -> _Eigenproblem:
        check_count(type(self).__name__, form.n_samples, n_clusters, 1)
        compressed = form.compressed()
        if not np.all(np.isfinite(compressed.matrix)):
            raise ValueError(
                "SpectralRelaxation needs a finite form, got NaN or infinity; remove them from "
                "the data or rescale the metric."
            )
        if not self.keep_constant:
            return _Eigenproblem(compressed, compressed.matrix, form.n_samples, n_clusters)
        mirror = _mirror(compressed, form.n_samples)
        half = compressed.matrix - 2.0 * np.outer(compressed.matrix @ mirror, mirror)
        matrix = (half - 2.0 * np.outer(mirror, mirror @ half))[1:, 1:]
        return _Eigenproblem(compressed, matrix, form.n_samples, n_clusters, mirror)


class _Eigenproblem(NamedTuple):
    """The matrix whose eigenvectors answer; ``mirror`` has taken the constant out of it."""

    compressed: Compressed
    matrix: NDArray
    n_samples: int
    n_clusters: int | None
    mirror: NDArray | None = None

    def lanczos_count(self) -> int | None:
        """How many eigenvectors to begin with, or None where all at once are better."""
        size, K = len(self.matrix), self.n_clusters
        wanted = 16 if K is None else K
        return wanted if size >= _LANCZOS_SIZE and wanted * _LANCZOS_SHARE <= size else None

    def answer(self, values: NDArray, vectors: NDArray) -> Projector:
        """The projector on the eigenvectors above the cut."""
        outside = self.n_samples - len(self.compressed.matrix)
        free = None if self.n_clusters is None else self.n_clusters - (self.mirror is not None)
        weights, filling = _shares(values, outside, free, self.compressed.shift)
        kept = weights > 0
        weights, vectors = weights[kept], vectors[:, kept]
        if self.mirror is not None:
            weights = np.append(1.0, weights)
            vectors = np.column_stack(
                [np.eye(len(self.mirror))[:, 0], np.pad(vectors, ((1, 0), (0, 0)))]
            )
            vectors -= 2.0 * np.outer(self.mirror, self.mirror @ vectors)
        return Projector(vectors, self.compressed.subspace, weights, filling)


def _shares(
    values: NDArray, outside: int, count: int | None, shift: float
) -> tuple[NDArray, float]:
    """Weights of the eigenvectors and of the ``outside`` other dimensions, where A − cI is 0."""
    tie = _TIE * float(np.max(np.abs(values), initial=0.0))
    if count is None:
        return (values > tie - shift).astype(float), float(shift > 0)
    if count == 0:
        return np.zeros(len(values)), 0.0
    positive = int(np.sum(values > tie))
    if count <= positive:
        cut = float(np.sort(values)[-count])
    else:
        cut = 0.0 if count <= positive + outside else float(np.sort(values)[outside - count])
    above, tied = values > cut + tie, np.abs(values - cut) <= tie
    outside_above, outside_tied = cut < -tie, abs(cut) <= tie
    left = count - int(np.sum(above)) - outside * outside_above
    share = left / max(1, int(np.sum(tied)) + outside * outside_tied)
    return above + share * tied, float(outside_above) + share * outside_tied


def _mirror(compressed: Compressed, n_samples: int) -> NDArray:
    """Unit vector v of the reflection I − 2vvᵀ that takes the first axis to 1/√T, up to sign."""
    subspace = compressed.subspace
    constant = np.full(n_samples, n_samples**-0.5) if subspace is None else subspace.constant
    mirror = constant.copy()
    mirror[0] += 1.0
    return mirror / np.linalg.norm(mirror)


def _lanczos(matrix: NDArray, wanted: int, grow: bool) -> tuple[NDArray, NDArray]:
    """Leading eigenpairs: as many as wanted, or twice as many until one is not positive.

    All of them where Lanczos iterations fail, or where the last one wanted ties with the next.
    """
    start = np.random.default_rng(0).standard_normal(len(matrix))
    while wanted * _LANCZOS_SHARE <= len(matrix):
        try:
            values, vectors = eigsh(matrix, wanted + 1, which="LA", v0=start)
        except (ArpackError, ArpackNoConvergence):
            break
        tie = _LANCZOS_TIE * float(np.max(np.abs(values)))
        enough = values[0] <= 0 if grow else values[1] - values[0] > tie
        if enough:
            return (values, vectors) if grow else (values[1:], vectors[:, 1:])
        if not grow:
            break
        wanted *= 2
    return np.linalg.eigh(matrix)
