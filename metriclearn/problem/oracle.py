"""What the structured hinge asks of inference."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from metriclearn.problem.partition import Partition
from metriclearn.problem.projector import Projector

__all__ = ["CompletionOracle", "Oracle"]


@runtime_checkable
class Oracle(Protocol):
    """argmax ⟨A, M⟩ over a set of partitions, for the kinds of form it can handle."""

    def __call__(self, form: Any, n_clusters: int | None = None) -> Partition | Projector:
        """Best partition, with ``n_clusters`` clusters if given."""
        ...


@runtime_checkable
class CompletionOracle(Protocol):
    """argmax ⟨A, M⟩ over the partitions that agree with what is known."""

    def __call__(self, form: Any, n_clusters: int | None = None, known: Any = None) -> Partition:
        """Best completion of ``known``."""
        ...
