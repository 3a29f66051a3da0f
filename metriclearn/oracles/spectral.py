"""Maximize ⟨A, M⟩ over projections, by eigenvectors (spectral relaxation).

See Lajugie, Arlot & Bach, section 4.2.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError, eigsh
from sklearn.base import BaseEstimator

from metriclearn.problem.partition import check_count
from metriclearn.problem.projector import Projector
from metriclearn.running.parameters import Whole
from metriclearn.running.values import real_array

_TIE = 1e-11  # relative to the largest eigenvalue: closer ones count as equal
_LANCZOS_TIE = 1e-8  # Lanczos iterations cannot separate eigenvalues that are closer
# Tuned by time on two cores. For a matrix in memory, Lanczos iterations pay from _LANCZOS_SIZE rows
# on, and for at most one in ten eigenvalues. For a form known only through products, a full
# decomposition is about as fast up to _DENSE samples: it takes twice the time for a well separated
# spectrum, and a tenth for a crowded one. If Lanczos iterations fail, a full decomposition is
# affordable up to _WHOLE samples.
_LANCZOS_SIZE, _LANCZOS_SHARE, _FIRST_GUESS = 500, 10, 16
_DENSE, _WHOLE = 400, 4000
_GUARDS, _BLOCKS = 4, 16  # vectors more than wanted; blocks in the basis before a restart


class SpectralRelaxation(BaseEstimator):
    """Maximize ⟨A, M⟩ exactly over all symmetric matrices M with 0 ⪯ M ⪯ I.

    The maximum is an upper bound of ⟨A, M⟩ for all partitions M. If K is given, the maximizer M* is
    the projection on the K leading eigenvectors of A. If K is not given, M* is the projection on
    all eigenvectors with a positive eigenvalue.

    Let Y be the assignment matrix of N. For A = ZZᵀ − κN + cI we work in the span of [Y, Z], which
    has at most r + K dimensions. Let Q be an orthonormal basis of this span, and U the chosen
    eigenvectors in the span. Outside the span A is cI, so M* = UUᵀ + I − QQᵀ if c > 0 and K is not
    given. Now let K be given. If A − cI has fewer than K nonnegative eigenvalues in the span, I −
    QQᵀ gets the weight that makes Tr M* = K. If the K-th eigenvalue equals the next one, all
    eigenvectors with this eigenvalue get the same weight, so that M* is unique.

    The time is O(Tr² + (r+K)³). If the form has a subspace, the time is O((P+K)³). For a dense
    form, we compute a full eigendecomposition. If the form is large, we compute only the leading
    eigenvectors, by Lanczos iterations.

    Parameters
    ----------
    keep_constant : bool
        Whether to add the constraint M1 = 1, which every partition satisfies. The constraint makes
        the bound tighter, at the same cost. The paper does not use this constraint.

    Raises
    ------
    ValueError
        If parameters cannot be used, or if there are more clusters than samples.

    References
    ----------
    Lajugie, Arlot & Bach, section 4.2. Ky Fan's theorem says that M* maximizes ⟨A, M⟩.
    """

    def __init__(self, keep_constant: bool = False) -> None:
        self.keep_constant = keep_constant

    over_partitions = False

    @property
    def relaxation(self) -> SpectralRelaxation:
        """The oracle itself, because it gives an upper bound."""
        return self

    def __call__(self, form: Any, n_clusters: int | None = None) -> Projector:
        """Return the maximizer M*. Its trace is ``n_clusters`` if this number is given.

        Raises
        ------
        ValueError
            If T samples cannot have that many clusters, or the form is not finite.
        """
        n_clusters, _ = check_count(type(self).__name__, form.n_samples, n_clusters, 1)
        if self.keep_constant and hasattr(form, "recentered"):  # the constant takes up the mean
            form = form.recentered()
        matrix, subspace, shift = form.compressed()
        T = form.n_samples
        if self.keep_constant:
            # With P = I − 11ᵀ/T, PAP + h·11ᵀ/T has the eigenvector 1, with an eigenvalue h that
            # comes first whatever c and the others are.
            constant = np.full(T, T**-0.5) if subspace is None else subspace.constant
            unit = 2.0 ** float(np.frexp(np.abs(matrix).max())[1] - 1)  # keeps squares within range
            first = 2.0 * (unit * float(np.linalg.norm(matrix / unit)) + abs(shift)) or 1.0
            matrix = matrix - np.outer(matrix @ constant, constant)
            matrix = matrix - np.outer(constant, constant @ matrix - first * constant)
        values, vectors = _leading(matrix, n_clusters)
        weights, filling = _shares(values, T - len(matrix), n_clusters, shift)
        kept = weights > 0
        vectors, weights = vectors[:, kept], weights[kept]
        if self.keep_constant:
            # The constant vector does not separate clusters. If ties leave more than K directions,
            # a rounding takes the last K, so we put the constant first.
            vectors, weights = np.roll(vectors, 1, axis=1), np.roll(weights, 1)
        return Projector(vectors, subspace, weights, filling)


def _shares(
    values: NDArray, outside: int, count: int | None, shift: float
) -> tuple[NDArray, float]:
    """Compute the weight of every eigenvector, and one weight for all dimensions outside the span.

    ``outside`` is the number of dimensions outside the span. In these dimensions A − cI is 0.
    """
    tie = _TIE * float(np.max(np.abs(values), initial=0.0))
    # c shifts the whole spectrum of A − cI, which matters only where K follows from the signs.
    if count is None:
        return (values > tie - shift).astype(float), float(shift > 0)
    # The spectrum is ``values``, each once, and zero ``outside`` times.
    levels, times = np.append(values, 0.0), np.append(np.ones(len(values)), outside)
    order = np.argsort(-levels)
    cut = levels[order[np.searchsorted(np.cumsum(times[order]), count)]]  # the K-th largest
    above, tied = levels > cut + tie, np.abs(levels - cut) <= tie
    # Eigenvalues above the cut count fully, and those that tie with it share the rest of K.
    weights = above + (count - times @ above) / (times @ tied) * tied
    return weights[:-1], float(weights[-1])


def _leading(matrix: NDArray, n_clusters: int | None) -> tuple[NDArray, NDArray]:
    """Compute the leading eigenvalues, in ascending order, and their eigenvectors.

    The result has at least the K leading eigenvalues. If K is None, the result has at least all
    positive eigenvalues. We compute the whole spectrum if Lanczos iterations fail or would be
    slower, or if the K-th eigenvalue equals the next one.
    """
    size, grow = len(matrix), n_clusters is None
    wanted = _FIRST_GUESS if n_clusters is None else n_clusters
    while size >= _LANCZOS_SIZE and wanted * _LANCZOS_SHARE <= size:
        start = np.random.default_rng(0).standard_normal(size)
        try:
            values, vectors = eigsh(matrix, wanted + 1, which="LA", v0=start)
        except ArpackError:
            break
        tie = _LANCZOS_TIE * float(np.max(np.abs(values)))
        if grow and values[0] <= 0:
            return values, vectors
        if not grow:
            if values[1] - values[0] <= tie:
                break
            return values[1:], vectors[:, 1:]
        wanted *= 2
    return np.linalg.eigh(matrix)


class TopEigenvectors(BaseEstimator):
    """Maximize ⟨A, M⟩ over projections of rank K, by the K leading eigenvectors of A.

    The algorithm is block Lanczos with full orthogonalization. Every pass multiplies A by K + 4
    vectors at once. If the entries of A are computed again for every product, a product with K + 4
    vectors takes little longer than a product with one vector. Usually about ten passes suffice. A
    good ``start``, such as the eigenvectors of a similar A, saves passes. The basis holds at most
    16 blocks of K + 4 vectors. Before the basis exceeds this size, it is restarted from its best
    vectors. So the memory is O(T(K + 4)·16).

    Parameters
    ----------
    tolerance : float
        An eigenpair is accepted if ‖Au − λu‖, divided by the largest |λ|, is at most this number.
    max_passes : int
        Largest number of passes. If the iterations have not converged by then, A is decomposed in
        full for up to 4 000 samples. For more samples, an error is raised.

    References
    ----------
    Golub & Van Loan, Matrix Computations, 4th edition, section 10.3.6.
    """

    def __init__(self, tolerance: float = 1e-9, max_passes: Annotated[int, Whole(1)] = 300) -> None:
        self.tolerance = tolerance
        self.max_passes = max_passes

    def __call__(
        self, form: Any, n_clusters: int | None = None, start: NDArray | None = None
    ) -> Projector:
        """Return the projection M of rank ``n_clusters`` that maximizes ⟨A, M⟩.

        Parameters
        ----------
        form : anything with ``n_samples`` and ``matvec``
        n_clusters : int
        start : array (T, k), optional
            Vectors with which the iterations begin.

        Raises
        ------
        ValueError
            If the number of clusters is not given or not possible, or the iterations do not
            converge.
        """
        who = type(self).__name__
        if n_clusters is None:
            raise ValueError(
                f"{who} needs the number of clusters; SpectralRelaxation finds it, for forms that "
                "are dense or of low rank."
            )
        n_clusters, _ = check_count(who, form.n_samples, n_clusters, 1)
        return Projector(self.pairs(form, n_clusters, start)[1])

    def pairs(self, form: Any, count: int, start: NDArray | None = None) -> tuple[NDArray, NDArray]:
        """Return the leading eigenvalues (k,), largest first, and their eigenvectors (T, k)."""
        T, width = form.n_samples, count + _GUARDS
        # After a restart the basis has 3 blocks and needs a fourth.
        if max(_DENSE, 5 * width) < T:
            found = self._lanczos(form, count, start)
            if found is not None:
                return found
            if T > _WHOLE:
                raise ValueError(
                    f"{type(self).__name__} did not converge in {self.max_passes} passes for {T} "
                    "samples; raise tolerance or max_passes, or use fewer, larger nodes."
                )
        matrix = real_array(type(self).__name__, "form", form.matvec(np.eye(T)))
        values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
        return values[::-1][:count], vectors[:, ::-1][:, :count]

    def _lanczos(
        self, form: Any, count: int, start: NDArray | None
    ) -> tuple[NDArray, NDArray] | None:
        """Return the leading eigenpairs by block Lanczos, or None if they do not converge."""
        T, width = form.n_samples, count + _GUARDS
        block = np.random.default_rng(0).standard_normal((T, width))
        if start is not None and len(start) == T:
            block[:, : start.shape[1]] = start[:, :width]
        basis, images = np.linalg.qr(block)[0], np.empty((T, 0))
        for _ in range(self.max_passes):
            images = np.hstack([images, form.matvec(basis[:, images.shape[1] :])])
            inner = basis.T @ images
            ritz, mixing = np.linalg.eigh(0.5 * (inner + inner.T))
            leading = mixing[:, ::-1][:, :count]
            residual = images @ leading - (basis @ leading) * ritz[::-1][:count]
            scale = max(float(np.abs(ritz).max()), 1e-300)
            if np.linalg.norm(residual, axis=0).max() <= self.tolerance * scale:
                return ritz[::-1][:count], basis @ leading
            following = _orthogonal_to(basis, images[:, -width:])
            if basis.shape[1] + 2 * width > min(_BLOCKS * width, T):
                kept = mixing[:, ::-1][:, : 2 * width]
                basis, images = basis @ kept, images @ kept
            basis = np.hstack([basis, following])
        return None


def _orthogonal_to(basis: NDArray, block: NDArray) -> NDArray:
    """Compute an orthonormal basis of the part of ``block`` that is orthogonal to ``basis``.

    If this part has fewer dimensions than ``block`` has columns, random directions are added.
    """
    random = np.random.default_rng(basis.shape[1])
    size = float(np.linalg.norm(block))
    while True:
        for _ in range(2):  # a single pass would lose digits
            block = block - basis @ (basis.T @ block)
        block, triangle = np.linalg.qr(block)
        empty = np.abs(np.diag(triangle)) <= 1e-10 * size
        if not empty.any():
            return block - basis @ (basis.T @ block)
        block[:, empty] = random.standard_normal((len(block), int(empty.sum())))
        size = 1.0
