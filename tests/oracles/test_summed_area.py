"""Algorithm 1 against enumeration of all segmentations."""

import numpy as np
import pytest

import metriclearn as ml
from tests.exhaustive import best_segmentation


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
