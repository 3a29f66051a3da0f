"""The form of a data set under a metric, and its gradient."""

import numpy as np
import pytest

from metriclearn import DiagonalMetric, FullMetric, Partition
from metriclearn.problem import LinearFeatures
from metriclearn.problem.joint_features import Samples
from tests.exhaustive import equivalence_matrix

FAMILIES = [DiagonalMetric(), FullMetric()]
PARTITIONS = [
    Partition.from_change_points([3, 4, 9]),
    Partition.from_change_points([9]),
    Partition.from_labels([0, 1, 0, 2, 2, 1, 0, 3, 0]),
]


def centered(X: np.ndarray) -> np.ndarray:
    return X - X.mean(axis=0)


def weights_of(family, rng: np.random.Generator, P: int = 3) -> np.ndarray:
    return family.coordinates(rng.normal(size=(P, P)))


@pytest.mark.parametrize("partition", PARTITIONS, ids=repr)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: type(f).__name__)
def test_value_is_linear_with_this_gradient(family, partition) -> None:
    """⟨A, M⟩ = Tr XBXᵀM for centered X, and finite differences."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(9, 3)) - 4.0
    features, samples = LinearFeatures(family), Samples(X)
    w, h = weights_of(family, rng), 1e-5
    M = equivalence_matrix(partition.labels)
    expected = np.trace(centered(X) @ family.matrix(w) @ centered(X).T @ M)
    assert features.at(w)(samples).at(partition) == pytest.approx(expected, rel=1e-10)
    slope = features.gradient(samples, features.at(w)(samples), partition)
    assert slope @ w == pytest.approx(expected, rel=1e-10)
    for k, e in enumerate(np.eye(len(w))):
        up, down = (features.at(w + s * h * e)(samples).at(partition) for s in (1, -1))
        assert (up - down) / (2 * h) == pytest.approx(slope[k], rel=1e-6, abs=1e-7)


def test_single_feature_components_take_columns() -> None:
    """A diagonal metric that leaves features out has only the columns it weighs."""
    X = np.random.default_rng(5).normal(size=(9, 3))
    form = LinearFeatures(DiagonalMetric()).at(np.array([4.0, 0.0, 9.0]))(Samples(X))
    assert form.factors.shape == (9, 2)
    np.testing.assert_allclose(form.factors, centered(X)[:, [0, 2]] * [2.0, 3.0], atol=1e-12)
