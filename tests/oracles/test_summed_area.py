"""Algorithm 1 against enumeration of all segmentations."""

import numpy as np
import pytest

import metriclearn as ml
from tests.exhaustive import (
    all_partitions,
    all_segmentations,
    best_segmentation,
    block_means,
    equivalence_matrix,
    labels_of,
    segmentation_values,
)


@pytest.mark.parametrize(
    ("n", "segmentations", "partitions"), [(1, 1, 1), (4, 8, 15), (7, 64, 877)]
)
def test_the_enumeration_itself_is_complete(n, segmentations, partitions) -> None:
    assert len(set(all_segmentations(n))) == segmentations
    assert len(set(all_partitions(n))) == partitions
    by_count = [len(all_segmentations(n, k)) for k in range(1, n + 1)]
    assert sum(by_count) == segmentations
    assert len(all_segmentations(n, n)) == 1
    assert all(np.diff(ends, prepend=0).min() >= 2 for ends in all_segmentations(n, None, 2))


def test_enumerated_values_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(6, 6))
    A = A + A.T
    direct = [np.sum(A * equivalence_matrix(labels_of(ends))) for ends in all_segmentations(6)]
    np.testing.assert_allclose(segmentation_values(A), direct, rtol=1e-12)
    assert block_means(A)[1, 3] == pytest.approx((A[1, 1] + 2 * A[1, 2] + A[2, 2]) / 2)


@pytest.mark.parametrize("T", range(1, 9))
def test_any_symmetric_matrix_unknown_and_known_count(T) -> None:
    """1 000 matrices in all: indefinite, with ties, shifted both ways, every K and min_size."""
    rng = np.random.default_rng(T)
    for case in range(125):
        A = rng.integers(-2, 3, (T, T)) if case % 3 == 0 else rng.normal(size=(T, T))
        A = (A + A.T) / 2.0 + rng.choice([-2.0, 0.0, 1.0]) * np.eye(T)
        min_size = int(rng.integers(1, T + 1))
        K = None if case % 2 else int(rng.integers(1, T // min_size + 1))
        form = ml.problem.DenseForm(A)
        found = ml.oracles.SummedArea(min_size)(form, K)
        best, winners = best_segmentation(A, K, min_size)
        assert form.at(found) == pytest.approx(best, abs=1e-9)
        assert tuple(found.change_points) in winners


def test_kernel_matrix_with_clear_changes() -> None:
    """A Gaussian kernel sees changes of variance that the mean does not show."""
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.normal(size=40) * s for s in (0.1, 4.0, 0.1)])
    K = np.exp(-0.5 * (x[:, None] - x[None, :]) ** 2)
    found = ml.oracles.SummedArea(5)(ml.problem.DenseForm(K), 3)
    assert np.abs(found.change_points - [40, 80, 120]).max() <= 2
