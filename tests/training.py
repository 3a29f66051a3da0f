"""Small labeled sequences, and learners trained on them to a tight gap."""

import numpy as np
import pytest

import metriclearn as ml
from metriclearn.datasets import make_change_points

PAIRS = [
    (ml.DiagonalMetric(), ml.SquaredFrobenius(0.1)),
    (ml.DiagonalMetric(), ml.L1(1e-2)),
    (ml.DiagonalMetric(), ml.Trace(1e-2)),
    (ml.FullMetric(), ml.SquaredFrobenius(0.1)),
    (ml.FullMetric(), ml.Trace(1e-2)),
]
NAMES = [f"{type(m).__name__}-{type(r).__name__}" for m, r in PAIRS]


def sequences(seed: int = 0, n: int = 5, noise: float = 1.0, jump: float = 1.5):
    """Five sequences of 120 samples; 2 of 6 features change at the labeled change-points."""
    data = make_change_points(n, 120, 6, 2, (3, 5), noise=noise, jump=jump, random_state=seed)
    return data.sequences, data.labels


XS, YS = sequences()


def learn(X=XS, y=YS, sample_weight=None, **parameters) -> ml.ChangePointMetricLearner:
    defaults = {"solver": ml.BundleDual(tolerance=1e-7), "regularizer": ml.SquaredFrobenius(0.1)}
    return ml.ChangePointMetricLearner(**{**defaults, **parameters}).fit(X, y, sample_weight)


def some_of(labelings, share: float, seed: int = 0) -> list[np.ndarray]:
    """Keep every label with this probability, and replace the others by −1."""
    rng = np.random.default_rng(seed)
    return [np.where(rng.random(labels.shape) < share, labels, -1) for labels in labelings]


def assert_never_rises(trace) -> None:
    """Completing and learning both lower the objective of an alternation."""
    steps = np.ravel(np.column_stack([trace.completed, trace.learned]))
    assert np.all(np.diff(steps) <= 1e-10 * steps[0])


def assert_same(mine, theirs, change=lambda B: B, rtol: float = 1e-2) -> None:
    """Equal objectives; metric and penalty as near as a gap of 1e-7 fixes them (L1 is flat)."""
    A, B = mine.get_mahalanobis_matrix(), change(theirs.get_mahalanobis_matrix())
    np.testing.assert_allclose(A, B, atol=rtol * np.abs(A).max())
    objective = theirs.solution_.objective
    assert mine.solution_.objective == pytest.approx(objective, abs=2e-7 * mine.solution_.scale)
    if mine.penalty_ is not None:
        assert mine.penalty_ == pytest.approx(theirs.penalty_, rel=rtol)
