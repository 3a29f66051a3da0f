"""What an oracle may be asked for."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, Protocol, TypeGuard

from metriclearn.problem.partition import Partition
from metriclearn.problem.projector import Projector

__all__ = ["BatchOracle", "Oracle", "answers_batches", "check_count"]


class Oracle(Protocol):
    """argmax ⟨A, M⟩ over a set of partitions, for the kinds of form it can handle."""

    def __call__(self, form: Any, n_clusters: int | None = None) -> Partition | Projector:
        """Best partition, with ``n_clusters`` clusters if given."""
        ...


class BatchOracle(Oracle, Protocol):
    """An oracle on a device, which answers for many forms at once better than one by one."""

    device: str | None

    def many(
        self, forms: Sequence[Any], n_clusters: Sequence[int | None] | None = None
    ) -> Sequence[Partition | Projector]:
        """Best partitions of all forms."""
        ...


def answers_batches(oracle: Any) -> TypeGuard[BatchOracle]:
    """Whether an oracle has a device, and so is to be asked for many forms at once."""
    return getattr(oracle, "device", None) is not None


def check_count(who: str, n_samples: int, n_clusters: int | None, min_size: int) -> None:
    """Raise ValueError unless T samples can hold K clusters of ``min_size`` samples."""
    if not isinstance(min_size, numbers.Integral) or min_size < 1:
        raise ValueError(f"{who} needs min_size of at least 1, got {min_size!r}.")
    wanted = 1 if n_clusters is None else n_clusters
    if not isinstance(wanted, numbers.Integral) or wanted < 1:
        raise ValueError(f"{who} needs at least one cluster, got n_clusters={n_clusters!r}.")
    if wanted * min_size > n_samples:
        raise ValueError(
            f"{who} needs {wanted * min_size} samples for {wanted} segment(s) of at least "
            f"{min_size}, got {n_samples}; lower n_clusters or min_size."
        )
