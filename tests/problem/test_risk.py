"""The structured hinge against enumeration, finite differences and its own convexity."""

from itertools import product

import numpy as np
import pytest

from metriclearn import DiagonalMetric, FullMetric, Partition
from metriclearn.oracles.spectral import SpectralRelaxation
from metriclearn.solvers.mahalanobis import MetricCone
from tests.exhaustive import all_segmentations, equivalence_matrix, labels_of
from tests.solvers.complete_problem import FIXED_PENALTY, hinge_of

MODES = ["learned", "fixed", "known"]
CASES = pytest.mark.parametrize(
    ("family", "mode"), list(product([DiagonalMetric(), FullMetric()], MODES)), ids=str
)
ORACLES = pytest.mark.parametrize(
    "oracle",
    [None, SpectralRelaxation(), SpectralRelaxation(True)],
    ids=["change-points", "relaxed", "relaxed with a constant"],
)


def data(seed: int, lengths=(8, 6, 7), P: int = 3) -> tuple[list[np.ndarray], list[Partition]]:
    rng = np.random.default_rng(seed)
    Xs = [rng.normal(size=(T, P)) for T in lengths]
    truths = [
        Partition.from_change_points(rng.choice(np.arange(1, T), 2, replace=False), T)
        for T in lengths
    ]
    return Xs, truths


def draw(family, mode, rng: np.random.Generator, P: int = 3) -> np.ndarray:
    R = rng.choice([0.0, 0.2, 1.0]) * rng.normal(size=(2, P))
    cone = MetricCone(family, P, mode == "learned")
    return cone.join(family.coordinates(R), float(rng.uniform(0.0, 3.0)))


def enumerated(X, truth, B, penalty, scale, mode, min_size) -> float:
    """L(B, λ) of Lajugie, Arlot & Bach, Eq. (9), over all segmentations, with dense matrices."""
    T, X = len(X), X - X.mean(axis=0)
    A, N = X @ B @ X.T, equivalence_matrix(truth.labels)
    K = truth.n_clusters if mode == "known" else None
    values = []
    for ends in all_segmentations(T, K, min_size):
        M = equivalence_matrix(labels_of(ends))
        margin = scale * np.sum((M - N) ** 2)
        cost = 0.0 if mode == "known" else penalty * (len(ends) - truth.n_clusters)
        values.append(margin + np.sum(A * (M - N)) - cost)
    return max(values) / T


@pytest.mark.parametrize("min_size", [1, 2])
@CASES
def test_value_equals_enumeration(family, mode, min_size) -> None:
    """Every sequence on its own, at 12 points of the cone and four scales of the loss."""
    rng = np.random.default_rng(0)
    Xs, truths = data(1)
    for scale in (0.1, 0.5, 1.0, 2.0):
        risk = hinge_of(Xs, truths, family, mode, scale=scale, min_size=min_size)
        for _ in range(3):
            w = draw(family, mode, rng)
            metric, penalty = risk.terms.cone.split(w)
            penalty = penalty if mode == "learned" else FIXED_PENALTY
            expected = [
                enumerated(X, N, family.matrix(metric), penalty, scale, mode, min_size)
                for X, N in zip(Xs, truths)
            ]
            cuts = risk(w)
            np.testing.assert_allclose(cuts.values, expected, rtol=1e-9, atol=1e-10)
            assert cuts.mean == pytest.approx(np.mean(expected))


@ORACLES
@CASES
def test_slopes_by_finite_differences(family, mode, oracle) -> None:
    """At generic points, where the maximizer is unique, in every coordinate."""
    rng = np.random.default_rng(2)
    Xs, truths = data(3, lengths=(20, 15))
    risk = hinge_of(Xs, truths, family, mode, oracle=oracle)
    for _ in range(4):
        w = risk.terms.cone.join(family.coordinates(0.5 * rng.normal(size=(3, 3))), 1.1)
        cuts, h = risk(w), 1e-7
        for k, e in enumerate(np.eye(len(w))):
            finite = (risk(w + h * e).values - risk(w - h * e).values) / (2 * h)
            np.testing.assert_allclose(cuts.slopes[:, k], finite, atol=2e-6)
    assert cuts.slope == pytest.approx(cuts.slopes.mean(axis=0))


@ORACLES
@CASES
def test_convex_nonnegative_and_above_its_cuts(family, mode, oracle) -> None:
    rng = np.random.default_rng(4)
    risk = hinge_of(*data(5, lengths=(25, 12, 18)), family, mode, oracle=oracle)
    for _ in range(10):
        a, b = draw(family, mode, rng), draw(family, mode, rng)
        at_a, at_b = risk(a), risk(b)
        assert np.all(at_a.values >= -1e-12)
        for t in (0.25, 0.5, 0.9):
            between = risk((1 - t) * a + t * b).values
            assert np.all(between <= (1 - t) * at_a.values + t * at_b.values + 1e-10)
        assert np.all(at_b.values >= at_a.values + at_a.slopes @ (b - a) - 1e-10)


def test_zero_when_the_truth_wins_by_its_margin() -> None:
    truth = Partition.from_change_points([5, 10])
    X = 40.0 * np.repeat([[0.0], [1.0]], 5, axis=0)
    risk = hinge_of([X], [truth], DiagonalMetric(), "learned")
    cuts = risk(np.array([1.0, 50.0]))
    np.testing.assert_allclose(cuts.values, 0.0, atol=1e-10)
    np.testing.assert_allclose(cuts.slopes, 0.0, atol=1e-10)
