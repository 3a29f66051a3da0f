"""Theorems 1 and 2 of the appendix of Lajugie, Arlot & Bach 2013, on random partitions."""

import numpy as np

import metriclearn.indices as indices
from metriclearn.problem.partition import Partition


def _segmentation(rng: np.random.Generator, n: int, n_segments: int) -> np.ndarray:
    inner = rng.choice(np.arange(1, n), n_segments - 1, replace=False)
    return np.append(np.sort(inner), n)


def _squared_distance(P: np.ndarray, Q: np.ndarray) -> float:
    true, pred = map(Partition.from_change_points, (P, Q))
    return indices.partition_loss(true, pred, normalized=False)


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
