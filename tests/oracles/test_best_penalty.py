"""The best penalty against a dense grid."""

from __future__ import annotations

import numpy as np
import pytest

from metriclearn import ChangePoints, LowRankForm, Partition, segmentation_path
from metriclearn.oracles.best_penalty import best_penalty
from metriclearn.problem.losses import FrobeniusLoss
from tests.oracles.signals import noisy_steps


@pytest.mark.parametrize("min_size", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_best_penalty_is_as_good_as_a_dense_grid(seed, min_size) -> None:
    rng = np.random.default_rng(50 + seed)
    series = [noisy_steps(10 * seed + i, T=40 + 10 * i, K=3 + i % 2) for i in range(4)]
    forms = [LowRankForm(0.7 * X) for X, _ in series]
    truths = [truth for _, truth in series]
    weights = rng.uniform(0.5, 2.0, 4) if seed % 2 else None
    penalty, loss = best_penalty(forms, truths, weights, min_size)

    def mean_loss(price: float) -> float:
        found = [ChangePoints(min_size)(LowRankForm(f.factors, shift=-price)) for f in forms]
        losses = [FrobeniusLoss()(M, N) for M, N in zip(found, truths)]
        return float(np.average(losses, weights=weights))

    grid = np.geomspace(1e-2, 1e3, 1500)
    assert loss <= min(mean_loss(price) for price in grid) + 1e-12
    assert mean_loss(penalty) == pytest.approx(loss, abs=1e-12)


def test_best_penalty_on_separable_data_is_in_the_middle_of_the_perfect_range() -> None:
    truth = Partition.from_change_points([20, 40, 60])
    X = 5.0 * np.array([0.0, 1.0, 0.0])[truth.labels][:, None]
    X = X + 0.1 * np.random.default_rng(0).normal(size=X.shape)
    penalty, loss = best_penalty([LowRankForm(X)], [truth])
    assert loss == 0.0
    path = segmentation_path(X, (1e-6, 1e4))
    position = int(np.flatnonzero(path.n_segments == 3)[0])
    assert penalty == pytest.approx(np.sqrt(np.prod(path.penalties[position])), rel=1e-6)
