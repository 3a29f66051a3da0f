"""Losses between partitions, and what each adds to a form inside loss-augmented inference."""

from __future__ import annotations

from typing import Protocol

from metriclearn.problem.forms import Form
from metriclearn.problem.partition import Partition
from metriclearn.problem.projector import Projector

__all__ = ["FrobeniusLoss", "Loss"]


class Loss(Protocol):
    """A loss that is linear in M, so that it can be added to a form."""

    def __call__(self, partition: Partition | Projector, truth: Partition) -> float:
        """ℓ(M, N)."""
        ...

    def augment(self, form: Form, truth: Partition, scale: float) -> tuple[Form, float]:
        """(A′, a) with ⟨A′, M⟩ + a = ⟨A, M⟩ + scale · T ℓ(M, N) for every M."""
        ...


class FrobeniusLoss:
    """ℓ(M, N) = ‖M − N‖²_F / T = (Tr M + Tr N − 2 Tr MN) / T, Eq. (8).

    Zero only for equal partitions, at most (K + K′ − 2)/T, O(K + K′) for contiguous partitions.
    The tables of the paper report T ℓ, see :meth:`squared_norm`. For a :class:`Projector` the last
    expression holds, which is linear in M.
    """

    def __call__(self, partition: Partition | Projector, truth: Partition) -> float:
        return self.squared_norm(partition, truth) / truth.n_samples

    def squared_norm(self, partition: Partition | Projector, truth: Partition) -> float:
        """‖M − N‖²_F."""
        twice = 2.0 * partition.inner(truth)
        return max(0.0, partition.n_clusters + truth.n_clusters - twice)

    def augment(self, form: Form, truth: Partition, scale: float) -> tuple[Form, float]:
        return form.plus(truth, 2.0 * scale).shifted(scale), scale * truth.n_clusters
