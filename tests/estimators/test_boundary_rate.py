"""How many boundaries labels let us expect."""

import numpy as np
import pytest
from scipy.stats import gamma

from metriclearn import PartialPartition, Partition
from metriclearn.estimators.selection.rules import BoundaryRate
from metriclearn.problem.regions import AT_LEAST_ONE, AT_MOST_ONE


def labeled(T: int, *stretches: tuple[int, int, tuple[int, ...]]) -> PartialPartition:
    labels = np.full(T, -1)
    for start, stop, changes in stretches:
        labels[start:stop] = np.searchsorted(changes, np.arange(start, stop), side="right")
    return PartialPartition(T, labels)


@pytest.mark.parametrize("probability", [0.05, 0.5, 0.95])
def test_whole_recordings_leave_a_gamma_distribution(probability: float) -> None:
    truths = [Partition(ends=[30, 70, 100]), Partition(ends=[200])]
    expected = gamma(2.5, scale=1 / 300).ppf(probability)
    assert BoundaryRate.of(truths).quantile(probability) == pytest.approx(expected, rel=0.01)


def test_stretches_that_all_hold_a_boundary_may_have_been_picked() -> None:
    seen = [labeled(500, (100, 140, (120,))), labeled(500, (0, 40, (10,)))]
    rate = BoundaryRate.of(seen)
    plain = gamma(2.5, scale=1 / 80).ppf(0.5)
    assert 0.15 * plain < rate.quantile(0.5) < 0.85 * plain
    # a stretch without a boundary shows that they were not
    mixed = BoundaryRate.of([*seen, labeled(500, (0, 40, ()))])
    assert mixed.quantile(0.5) == pytest.approx(gamma(2.5, scale=1 / 120).ppf(0.5), rel=0.01)
    # many boundaries in each stretch say nearly the same in both cases
    dense = [labeled(500, (0, 200, tuple(range(10, 200, 10))))]
    assert BoundaryRate.of(dense).quantile(0.5) == pytest.approx(
        gamma(19.5, scale=1 / 200).ppf(0.5), rel=0.01
    )


def test_recordings_hold_at_least_the_boundaries_that_are_labeled() -> None:
    """Stretches that were picked say little of the rate, but the rest of the rows is bounded."""
    regions = [(start, start + 12, AT_LEAST_ONE) for start in range(0, 200, 25)]
    for T, most in ((200, 25.0), (2000, 250.0)):
        rate = BoundaryRate.of([PartialPartition(T, regions=regions)] * 4)
        assert 12 < 1 / rate.quantile(0.5) < 1.3 * most
        assert 1 / rate.quantile(0.05) < 2 * most


def test_regions_with_a_change_count_from_middle_to_middle() -> None:
    """Two regions that overlap may share a change, so they tell of one."""
    one, two, shared = (
        BoundaryRate.of([PartialPartition(200, regions=[(*r, AT_LEAST_ONE) for r in regions])])
        for regions in ([(50, 70)], [(0, 10), (10, 20)], [(0, 20), (5, 25)])
    )
    assert shared.quantile(0.5) == one.quantile(0.5)
    listed = BoundaryRate.of([PartialPartition(200, change_points=[5, 15])])
    assert two.quantile(0.5) == listed.quantile(0.5)


def test_the_unit_of_time_and_nothing_labeled() -> None:
    short, long = labeled(50, (10, 20, (15,))), labeled(500, (100, 200, (150,)))
    assert BoundaryRate.of([short]).quantile(0.3) == pytest.approx(
        10 * BoundaryRate.of([long]).quantile(0.3), rel=0.01
    )
    unknown = [
        PartialPartition(5, np.full(5, -1)),
        PartialPartition(9, regions=[(0, 9, AT_MOST_ONE)]),
    ]
    assert BoundaryRate.of(unknown) is None
    stated = BoundaryRate.of(unknown, 30.0)
    assert 1 / stated.quantile(0.5) == pytest.approx(30, rel=0.05)
