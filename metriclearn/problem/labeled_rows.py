"""The loss of a clustering on the rows of labeled samples, and the form it is added to."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.problem.partition import Partition
from metriclearn.problem.projector import Projector

__all__ = ["LabeledRowsForm", "LabeledRowsLoss"]


class LabeledRowsLoss:
    """ℓ_D(M, H) = ‖D(M − H)‖²_F / T with D = Diag(1 where a label is known) and H a completion.

    As M² = M and H² = H, it is linear in M: T ℓ_D = Tr M(D − DH − HD) + Tr DH, which spectral
    relaxations need and the exact loss on labeled samples, ‖M|labeled − N‖²_F, is not. A labeled
    sample pays for clusters that differ from that of the completion; an unlabeled one never pays
    for its own row. With all labels it is the paper's ℓ (Eq. 8).

    Truths are completions that remember what is known. As H enters, completing may raise the objective; alternation
    then stops.
    """

    completion_free = False

    def __call__(self, partition: Partition | Projector, truth: Partition) -> float:
        return self.squared_norm(partition, truth) / truth.n_samples

    def squared_norm(self, partition: Partition | Projector, truth: Partition) -> float:
        """T ℓ_D, O(T) for partitions, O(Tk) for projectors of rank k."""
        rows = np.flatnonzero(truth.known.labels >= 0)
        own = float(np.sum(1.0 / truth.sizes[truth.labels[rows]]))
        traces = _traces_of_partition if isinstance(partition, Partition) else _traces_of_projector
        diagonal, shared = traces(partition, truth, rows)
        return max(0.0, diagonal + own - 2.0 * shared)

    def augment(self, form: Any, truth: Partition, scale: float) -> tuple[Any, float]:
        rows = np.flatnonzero(truth.known.labels >= 0)
        own = float(np.sum(1.0 / truth.sizes[truth.labels[rows]]))
        return LabeledRowsForm(form, truth, rows, scale), scale * own


def _traces_of_partition(
    partition: Any, truth: Partition, rows: NDArray[np.int64]
) -> tuple[float, float]:
    """(Tr DM, Tr DMH)."""
    k, l = partition.labels[rows], truth.labels[rows]  # noqa: E741
    _, row_cells, counts = np.unique(
        partition.labels * truth.n_clusters + truth.labels, return_inverse=True, return_counts=True
    )
    together = counts[row_cells[rows]]
    sizes = partition.sizes[k].astype(np.float64)
    return float(np.sum(1.0 / sizes)), float(np.sum(together / sizes / truth.sizes[l]))


def _traces_of_projector(
    projector: Any, truth: Partition, rows: NDArray[np.int64]
) -> tuple[float, float]:
    """(Tr DM, Tr DMH)."""
    U, weights = projector.vectors, projector.weights
    diagonal = float(np.sum(weights * U[rows] ** 2))
    shared = float(np.sum(weights * U[rows] * truth.project(U)[rows]))
    if projector.filling:
        Q = projector.subspace.lift(np.eye(projector.subspace.dimension))
        own = float(np.sum(1.0 / truth.sizes[truth.labels[rows]]))
        diagonal += projector.filling * (len(rows) - float(np.sum(Q[rows] ** 2)))
        shared += projector.filling * (own - float(np.sum(Q[rows] * truth.project(Q)[rows])))
    return diagonal, shared


class LabeledRowsForm:
    """A + scale·(D − DH − HD), known through its action.

    Parameters
    ----------
    form : Form
        A.
    truth : Partition
        H.
    rows : int array
        Where D is 1.
    scale : float
        α.
    """

    def __init__(self, form: Any, truth: Partition, rows: NDArray[np.int64], scale: float) -> None:
        self.form, self.truth, self.rows, self.scale = form, truth, rows, float(scale)
        self.n_samples = form.n_samples

    def at(self, partition: Partition | Projector) -> float:
        """⟨A, M⟩ + scale·(Tr DM − 2 Tr DMH)."""
        traces = _traces_of_partition if isinstance(partition, Partition) else _traces_of_projector
        diagonal, shared = traces(partition, self.truth, self.rows)
        return self.form.at(partition) + self.scale * (diagonal - 2.0 * shared)

    def matvec(self, V: NDArray) -> NDArray:
        """The action on (T, k) columns, O(Tk) more than that of A."""
        chosen = np.zeros_like(V)
        chosen[self.rows] = V[self.rows]
        rows = np.zeros_like(V)
        rows[self.rows] = self.truth.project(V)[self.rows]
        return self.form.matvec(V) + self.scale * (chosen - rows - self.truth.project(chosen))

    def shifted(self, shift: float) -> LabeledRowsForm:
        """The same with A + shift·I."""
        return LabeledRowsForm(self.form.shifted(shift), self.truth, self.rows, self.scale)
