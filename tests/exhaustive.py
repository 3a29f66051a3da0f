"""References that owe nothing to the package: every partition of a few samples, dense matrices."""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from metriclearn import PartialPartition, Partition


@lru_cache(maxsize=4096)
def all_segmentations(
    n_samples: int, n_segments: int | None = None, min_size: int = 1
) -> tuple[tuple[int, ...], ...]:
    """Segment ends of every segmentation of T samples, the last end T; 2^(T−1) of them at most."""
    if n_samples == 0:
        return ((),) if not n_segments else ()
    if n_segments == 0:
        return ()
    fewer = None if n_segments is None else n_segments - 1
    return tuple(
        (*before, n_samples)
        for cut in range(n_samples - min_size + 1)
        for before in all_segmentations(cut, fewer, min_size)
    )


def all_partitions(n_samples: int, n_clusters: int | None = None) -> Iterator[tuple[int, ...]]:
    """Labels of every partition of T samples, as restricted growth strings (Bell(T) of them)."""

    def grow(prefix: tuple[int, ...], used: int) -> Iterator[tuple[int, ...]]:
        if len(prefix) == n_samples:
            if n_clusters in (None, used):
                yield prefix
            return
        for label in range(used + 1):
            yield from grow((*prefix, label), max(used, label + 1))

    yield from grow((), 0)


def allows_clusters(known: PartialPartition, partition: Partition) -> bool:
    """Whether equal labels, and the samples of a span, are in one cluster, and no other labels."""
    clusters, labeled = partition.labels, known.labels >= 0
    together = all(len(set(clusters[start:stop])) == 1 for start, stop in known.same)
    pairs = set(zip(known.labels[labeled].tolist(), clusters[labeled].tolist()))
    return together and len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


def labels_of(ends: tuple[int, ...] | NDArray) -> NDArray[np.int64]:
    """Segment numbers of all samples from segment ends."""
    return np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))


def equivalence_matrix(labels: NDArray | tuple[int, ...]) -> NDArray[np.float64]:
    """M = Y(YᵀY)⁻¹Yᵀ by its definition."""
    Y = (np.asarray(labels)[:, None] == np.unique(labels)[None, :]).astype(float)
    return Y @ np.linalg.inv(Y.T @ Y) @ Y.T


def dense_form(
    Z: NDArray, truth: NDArray | tuple[int, ...] | None, weight: float, shift: float
) -> NDArray[np.float64]:
    """ZZᵀ − κN + cI as an array; ``truth`` are labels."""
    A = Z @ Z.T + shift * np.eye(len(Z))
    return A if truth is None else A - weight * equivalence_matrix(truth)


def block_means(A: NDArray) -> NDArray[np.float64]:
    """Entry (s, u): the sum of A over samples s … u−1 in both directions, divided by u − s."""
    area = np.zeros((len(A) + 1, len(A) + 1))
    area[1:, 1:] = A.cumsum(0).cumsum(1)
    corner, position = np.diag(area), np.arange(len(A) + 1)
    lengths = position[None, :] - position[:, None]
    return (corner[:, None] + corner[None, :] - area - area.T) / np.maximum(lengths, 1)


@lru_cache(maxsize=4096)
def _incidence(n_samples: int, n_segments: int | None, min_size: int) -> NDArray[np.float64]:
    """Row per segmentation, column per segment (s, u]."""
    found = all_segmentations(n_samples, n_segments, min_size)
    rows = np.zeros((len(found), n_samples + 1, n_samples + 1))
    for row, ends in zip(rows, found):
        row[(0, *ends[:-1]), ends] = 1.0
    return rows.reshape(len(found), -1)


def segmentation_values(
    A: NDArray, n_segments: int | None = None, min_size: int = 1
) -> NDArray[np.float64]:
    """⟨A, M⟩ of every segmentation, in the order of :func:`all_segmentations`."""
    return _incidence(len(A), n_segments, min_size) @ block_means(A).ravel()


def best_segmentation(
    A: NDArray, n_segments: int | None = None, min_size: int = 1
) -> tuple[float, set[tuple[int, ...]]]:
    """(max ⟨A, M⟩, the segmentations that attain it to 1e-9) by enumeration."""
    values = segmentation_values(A, n_segments, min_size)
    best = float(np.max(values))
    found = all_segmentations(len(A), n_segments, min_size)
    close = values >= best - 1e-9 * (1.0 + np.max(np.abs(values)))
    return best, {found[i] for i in np.flatnonzero(close)}
