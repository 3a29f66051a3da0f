"""Spectral relaxation of a form known through products: leading eigenvectors by block Lanczos."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from metriclearn.oracles.feasibility import check_count
from metriclearn.problem.projector import Projector

__all__ = ["TopEigenvectors"]

_DENSE = 160  # samples up to which a full decomposition is as fast
_WHOLE = 4000  # samples up to which one is affordable when Lanczos fails
_GUARDS, _BLOCKS = 4, 16  # vectors more than wanted; blocks in the basis before a restart


class TopEigenvectors(BaseEstimator):
    """argmax ⟨A, M⟩ over projections of rank K: the K leading eigenvectors of A.

    Block Lanczos with full orthogonalization: every pass multiplies A with K + 4 vectors at once,
    which costs little more than one where A has to be computed again for every product. Some ten
    passes; from a good ``start``, such as the answer for a similar A, fewer. The basis is
    restarted from its best vectors when it has 16 blocks. O(T(K + 4)·16) memory.

    Parameters
    ----------
    tolerance : float
        Residual ‖Au − λu‖ over the largest |λ|.
    max_passes : int
        After which up to 4 000 samples are decomposed in full, and more are an error.

    References
    ----------
    Golub & Van Loan, Matrix Computations, 4th edition, section 10.3.6.
    """

    def __init__(self, tolerance: float = 1e-9, max_passes: int = 300) -> None:
        self.tolerance = tolerance
        self.max_passes = max_passes

    def __call__(
        self, form: Any, n_clusters: int | None = None, start: NDArray | None = None
    ) -> Projector:
        """Best projection of rank ``n_clusters``.

        Parameters
        ----------
        form : anything with ``n_samples`` and ``matvec``
        n_clusters : int
        start : array (T, k), optional
            Directions to begin with.

        Raises
        ------
        ValueError
            If the number of clusters is not given or not possible, or nothing converges.
        """
        who = type(self).__name__
        if n_clusters is None:
            raise ValueError(
                f"{who} needs the number of clusters; SpectralRelaxation finds it, for forms that "
                "are dense or of low rank."
            )
        check_count(who, form.n_samples, n_clusters, 1)
        return Projector(self.pairs(form, n_clusters, start)[1])

    def pairs(self, form: Any, count: int, start: NDArray | None = None) -> tuple[NDArray, NDArray]:
        """Leading eigenvalues, descending, and eigenvectors, (k,) and (T, k)."""
        T, width = form.n_samples, count + _GUARDS
        if max(_DENSE, 5 * width) >= T:  # after a restart a basis has 3 blocks and needs a fourth
            return _whole(form, count)
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
        if T > _WHOLE:
            raise ValueError(
                f"{type(self).__name__} did not converge in {self.max_passes} passes for {T} "
                "samples; raise tolerance or max_passes, or use fewer, larger nodes."
            )
        return _whole(form, count)


def _orthogonal_to(basis: NDArray, block: NDArray) -> NDArray:
    """An orthonormal basis of the block outside the span; random directions where that is less."""
    random = np.random.default_rng(basis.shape[1])
    size = float(np.linalg.norm(block))
    while True:
        for _ in range(2):  # once loses digits
            block = block - basis @ (basis.T @ block)
        block, triangle = np.linalg.qr(block)
        empty = np.abs(np.diag(triangle)) <= 1e-10 * size
        if not empty.any():
            return block - basis @ (basis.T @ block)
        block[:, empty] = random.standard_normal((len(block), int(empty.sum())))
        size = 1.0


def _whole(form: Any, count: int) -> tuple[NDArray, NDArray]:
    matrix = form.matvec(np.eye(form.n_samples))
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    return values[::-1][:count], vectors[:, ::-1][:, :count]
