"""Whether the samples suffice for the clusters that an oracle is asked for."""

from __future__ import annotations

import numbers

__all__ = ["check_count"]


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
