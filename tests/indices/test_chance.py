"""Correction for chance: closed forms, enumeration and sampling agree."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest

import metriclearn.indices as indices

A, B = [0, 0, 0, 1, 1, 2], [0, 1, 1, 1, 0, 2]


@pytest.mark.parametrize(
    "name", ["rand_score", "fowlkes_mallows_score", "mutual_info_score", "jaccard_score",
             "variation_of_information", "partition_loss"]
)  # fmt: skip
def test_expectation_is_the_mean_over_all_permutations(name: str) -> None:
    index = getattr(indices, name)
    for a, b in [(A, B), ([0] * 5, [0, 0, 1, 1, 2]), ([0, 1, 2], [0, 1, 2]), ([0], [1])]:
        mean = np.mean([index(a, order) for order in permutations(b)])
        found = indices.expected_under_permutation(index, a, b)
        assert found == pytest.approx(mean, abs=1e-13)
        assert found.standard_error == 0.0


def test_adjusting_rand_gives_the_adjusted_rand_index() -> None:
    rng = np.random.default_rng(0)
    for _ in range(10):
        a, b = rng.integers(0, 4, (2, 30))
        found = indices.adjusted(indices.rand_score, a, b)
        assert found == pytest.approx(indices.adjusted_rand_score(a, b), abs=1e-13)
        assert found.method == "closed form"
    singletons = list(range(6))
    assert indices.adjusted(indices.rand_score, singletons, singletons) == 1.0
    assert indices.adjusted(indices.misclassification_error, A, A, maximum=0.0) == 1.0


def test_sampling_is_reproducible_and_unbiased_up_to_its_error() -> None:
    a, b = np.random.default_rng(0).integers(0, 4, (2, 60))
    exact = indices.expected_under_permutation(indices.rand_score, a, b)

    def unknown(*, contingency: Any) -> float:
        return indices.rand_score(contingency=contingency)

    found, again = (
        indices.expected_under_permutation(unknown, a, b, n_permutations=2000, random_state=1)
        for _ in range(2)
    )
    assert found == again
    assert found.method == "sampling"
    assert 0 < found.standard_error < 0.01
    assert abs(found - exact) < 4 * found.standard_error
    adjusted = indices.adjusted(unknown, a, b, n_permutations=2000, random_state=1)
    slope = (1.0 - indices.rand_score(a, b)) / (1.0 - found) ** 2
    assert adjusted.standard_error == pytest.approx(slope * found.standard_error)


def test_any_function_of_two_labelings() -> None:
    from sklearn.metrics import v_measure_score

    a, b = A[:5], B[:5]
    found = indices.adjusted(v_measure_score, a, b)
    mean = np.mean([v_measure_score(a, order) for order in permutations(b)])
    expected = (v_measure_score(a, b) - mean) / (1 - mean)
    assert found == pytest.approx(expected, abs=1e-12)
