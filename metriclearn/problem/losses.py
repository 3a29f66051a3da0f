"""Losses between partitions, and what each adds to a form inside loss-augmented inference."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from metriclearn.problem.forms import Form
from metriclearn.problem.partition import Partition
from metriclearn.problem.projector import Projector

__all__ = ["FrobeniusForm", "FrobeniusLoss", "Loss"]


class Loss(Protocol):
    """A loss that is linear in M, so that it can be added to a form."""

    def __call__(self, partition: Any, truth: Any) -> float:
        """ℓ(M, N)."""
        ...

    def augment(self, form: Any, truth: Any, scale: float) -> tuple[Form, float]:
        """(A′, a) with ⟨A′, M⟩ + a = ⟨A, M⟩ + scale · T ℓ(M, N) for every M."""
        ...


class FrobeniusLoss:
    """ℓ(M, N) = ‖D^½(M − N)‖²_F / T, with D the diagonal of what is known of the truth.

    As M and N are projections,

        T ℓ = Tr M(D − DN − ND) + Tr DN,

    which is linear in M. With all labels known D = I, and ℓ = (Tr M + Tr N − 2 Tr MN) / T is the
    loss of the paper (Lajugie, Arlot & Bach, Eq. (8)): zero only for equal partitions, at most
    (K + K′ − 2)/T, O(K + K′) for contiguous partitions. The paper's tables report T ℓ, see
    :meth:`squared_norm`. Where some labels are known, D is 1 on the labeled samples and N a
    completion: a labeled sample pays for clusters that differ from that of the completion, an
    unlabeled one never pays for its own row. Samples may be grouped into nodes, see
    :class:`metriclearn.similarities.NodeLabels`; D is then the share of labeled samples.

    As N enters, completing labels may raise the objective (``completion_free`` is False);
    alternation then stops.
    """

    completion_free = False

    def __call__(self, partition: Partition | Projector, truth: Partition) -> float:
        return self.squared_norm(partition, truth) / truth.n_samples

    def squared_norm(self, partition: Partition | Projector, truth: Partition) -> float:
        """T ℓ: ‖M − N‖²_F, over the rows of labeled samples where some are not."""
        if truth.share is None:
            twice = 2.0 * partition.inner(truth)
            return max(0.0, partition.n_clusters + truth.n_clusters - twice)
        return max(0.0, _variable_part(partition, truth) + truth.known_trace)

    def augment(self, form: Any, truth: Partition, scale: float) -> tuple[Form, float]:
        if truth.share is None:
            return form.plus(truth, 2.0 * scale).shifted(scale), scale * truth.n_clusters
        return FrobeniusForm(form, truth, scale), scale * truth.known_trace


def _variable_part(partition: Partition | Projector, truth: Partition) -> float:
    """Tr M(D − DN − ND), O(T(K + K′)) with M = UUᵀ."""
    U = partition.factor
    assert truth.share is not None
    return float(np.sum(U * (truth.share[:, None] * U - truth.known_product(U))))


class FrobeniusForm:
    """A + scale·(D − DN − ND), known through its action.

    Parameters
    ----------
    form : Form
        A.
    truth : Partition or NodeLabels
        N, which knows D.
    scale : float
        α.
    """

    def __init__(self, form: Form, truth: Partition, scale: float) -> None:
        self.form, self.truth, self.scale = form, truth, float(scale)
        self.n_samples = form.n_samples

    def at(self, partition: Partition | Projector) -> float:
        """⟨A, M⟩ + scale·Tr M(D − DN − ND)."""
        return self.form.at(partition) + self.scale * _variable_part(partition, self.truth)

    def matvec(self, V: NDArray) -> NDArray:
        """The action on (T, k) columns, O(Tk) more than that of A."""
        assert self.truth.share is not None
        change = self.truth.share[:, None] * V - self.truth.known_product(V)
        return self.form.matvec(V) + self.scale * change

    def shifted(self, shift: float) -> FrobeniusForm:
        """A + shift·I with the same loss added to it."""
        return FrobeniusForm(self.form.shifted(shift), self.truth, self.scale)
