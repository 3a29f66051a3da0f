"""The penalty at which a given number of changes is found."""

import numpy as np
import pytest

from metriclearn.oracles import ChangePoints, segmentation_path
from metriclearn.oracles.segmentation_path import matched_penalty
from metriclearn.problem.forms import LowRankForm, center


def signals(seed: int, n: int = 2) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [
        center(np.repeat(rng.normal(size=(9, 2)), 7, axis=0) + 0.3 * rng.normal(size=(63, 2)))
        for _ in range(n)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_every_number_on_the_path_is_found_inside_its_interval(seed: int) -> None:
    (Z,) = signals(seed, 1)
    path, form = segmentation_path(Z), LowRankForm(Z)
    hidden = np.ones(len(Z) + 1, dtype=bool)
    for count, (low, high) in zip(path.n_segments[:-1].tolist(), path.penalties):
        penalty = matched_penalty([form], [hidden], count - 1)
        assert 0.99 * low <= penalty <= 1.01 * high
        if count > 1:
            assert penalty == pytest.approx(np.sqrt(low * high), rel=0.03)


def test_only_hidden_positions_count_in_all_recordings_together() -> None:
    Zs = signals(7)
    hidden = [np.arange(64) < 32, np.zeros(64, dtype=bool)]
    forms = [LowRankForm(Z) for Z in Zs]

    def found(penalty: float) -> int:
        ends = [ChangePoints()(form.shifted(-penalty)).change_points[:-1] for form in forms]
        return sum(np.count_nonzero(some[at]) for some, at in zip(hidden, ends))

    counts = [found(penalty) for penalty in np.geomspace(0.05, 50, 400)]
    for changes in (1, 2, 4, 11):
        penalty = matched_penalty(forms, hidden, changes)
        assert found(penalty) == max(n for n in counts if n <= changes)
    assert matched_penalty(forms, hidden, 3) == pytest.approx(
        matched_penalty(forms[:1], hidden[:1], 3), rel=0.03
    )


def test_the_unit_of_the_data_and_equal_rows() -> None:
    Zs = signals(3)
    hidden = [np.ones(64, dtype=bool)] * 2
    one = matched_penalty([LowRankForm(Z) for Z in Zs], hidden, 9)
    many = matched_penalty([LowRankForm(1e6 * Z) for Z in Zs], hidden, 9)
    assert many == pytest.approx(1e12 * one, rel=0.05)
    flat = LowRankForm(np.zeros((63, 2)))
    assert matched_penalty([flat], hidden[:1], 3) is None


def test_constant_rows_have_no_penalty_for_changes_that_they_lack() -> None:
    steps = LowRankForm(center(np.repeat([[0.1], [3.3], [1.7], [1.9]], 25, axis=0)))
    hidden = np.ones(101, dtype=bool)
    for changes in (1, 3):
        penalty = matched_penalty([steps], [hidden], changes)
        assert penalty > 0.1
        found = ChangePoints()(steps.shifted(-penalty))
        assert found.n_clusters == changes + 1
    assert matched_penalty([steps], [hidden], 4) is None  # not one that divides rounding errors
    assert matched_penalty([steps], [np.arange(101) < 20], 1) is None
