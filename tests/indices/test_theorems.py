"""Theorems 1 and 2 of the appendix of Lajugie, Arlot & Bach 2013, on random partitions."""

import numpy as np
import pytest

import metriclearn.indices as indices
from metriclearn.problem.partition import Partition


@pytest.mark.parametrize("n_clusters", [2, 5, 8])
def test_asymptotics_of_the_loss(n_clusters: int) -> None:
    """Theorem 1: ‖M−N‖² = 2 Σ_k (ε_k→ + ε_→k)/|P_k| · (1 + δ), and δ → 0 with K·M(P, Q).

    The error is of first order, |δ| ≤ K·M, over four orders of magnitude.
    """
    rng = np.random.default_rng(n_clusters)
    for size in (10**3, 10**5, 10**7):
        for _ in range(10):
            flow = rng.integers(0, 4, (n_clusters, n_clusters))
            np.fill_diagonal(flow, 0)
            flow[0, 1] += 1
            sizes = rng.integers(size, 3 * size, n_clusters)
            table = flow + np.diag(sizes - flow.sum(axis=1))
            leading = 2 * np.sum((flow.sum(axis=0) + flow.sum(axis=1)) / sizes)
            delta = indices.partition_loss(contingency=table, normalized=False) / leading - 1
            largest = np.max(flow / np.minimum.outer(sizes, sizes))
            assert 0 < abs(delta) <= n_clusters * largest


def _segmentation(rng: np.random.Generator, n: int, n_segments: int) -> np.ndarray:
    inner = rng.choice(np.arange(1, n), n_segments - 1, replace=False)
    return np.append(np.sort(inner), n)


def _squared_distance(P: np.ndarray, Q: np.ndarray) -> float:
    true, pred = map(Partition.from_change_points, (P, Q))
    return indices.partition_loss(true, pred, normalized=False)


def test_equivalence_of_the_loss_with_the_hausdorff_distance() -> None:
    """Theorem 2: ε/l_max(P) ≤ d² ≤ 12 K ε/l_min(P) when |P| = |Q| and ε < l_min(P)/2.

    The proof's d² is ‖M−N‖² itself (not divided by T), with ε in the unit of the lengths.
    """
    rng = np.random.default_rng(0)
    checked, lowest, highest = 0, np.inf, 0.0
    while checked < 150:
        n, n_segments = int(rng.integers(20, 300)), int(rng.integers(2, 8))
        P = _segmentation(rng, n, n_segments)
        shift = rng.integers(-6, 7, n_segments - 1)
        Q = np.append(np.unique(np.clip(P[:-1] + shift, 1, n - 1)), n)
        epsilon, lengths = indices.hausdorff(P, Q), np.diff(P, prepend=0)
        if len(P) != len(Q) or not 0 < epsilon < lengths.min() / 2:
            continue
        squared = _squared_distance(P, Q)
        lowest = min(lowest, squared / (epsilon / lengths.max()))
        highest = max(highest, squared / (12 * n_segments * epsilon / lengths.min()))
        checked += 1
    assert 1.0 <= lowest < 4.0  # nearly attained
    assert 0.1 < highest <= 1.0


def test_hausdorff_bounds_the_loss_from_below_for_any_segmentations() -> None:
    """Theorem 2, second part: d² ≥ ε/max(l_max(P), l_min(Q)) ≥ ε/T, without |P| = |Q|."""
    rng = np.random.default_rng(1)
    ratios = []
    for _ in range(400):
        n = int(rng.integers(8, 60))
        P, Q = (_segmentation(rng, n, int(rng.integers(2, 7))) for _ in range(2))
        epsilon = indices.hausdorff(P, Q)
        squared = _squared_distance(P, Q)
        longest = max(np.diff(P, prepend=0).max(), np.diff(Q, prepend=0).min())
        if epsilon:
            ratios.append(squared * longest / epsilon)
            assert squared >= epsilon / n
    assert len(ratios) > 250
    assert 1.0 - 1e-12 <= min(ratios) < 1.2  # the constant is attained
