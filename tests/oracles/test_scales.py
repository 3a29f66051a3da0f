"""Oracles at every scale of the data: the right answer, or a sentence."""

import numpy as np
import pytest

import metriclearn as ml
from tests.exhaustive import all_segmentations

STEPS = np.repeat([0.0, 1.0, 0.0, 2.0], 5)[:, None]


def test_negative_weights_of_a_truth_are_for_the_summed_area() -> None:
    random = np.random.default_rng(0)
    Z = random.normal(size=(7, 2))
    form = ml.problem.LowRankForm(
        Z, ml.Partition.from_change_points([3, 7]), weight=-1.5, shift=-0.5
    )
    best = max(form.at(ml.Partition.from_change_points(ends)) for ends in all_segmentations(7))
    assert form.at(ml.oracles.SummedArea()(form)) == pytest.approx(best)


@pytest.mark.parametrize("weight", [0.0, 1e-20, 1e-16, 1e-12])
@pytest.mark.parametrize("size", [1e-12, 1e-8, 1.0])
def test_constraints_at_small_scales(size: float, weight: float) -> None:
    random = np.random.default_rng(3)
    for _ in range(12):
        known = ml.PartialPartition(7, change_points=[int(random.integers(1, 7))])
        truth = ml.Partition.from_change_points([int(random.integers(1, 7)), 7])
        form = ml.problem.LowRankForm(size * random.normal(size=(7, 2))).plus(truth, weight)
        for count in range(2, 8):
            every = map(ml.Partition.from_change_points, all_segmentations(7, count))
            best = max(form.at(one) for one in every if known.allows(one))
            value = form.at(ml.oracles.ConstrainedChangePoints()(form, count, known))
            assert value == pytest.approx(best, abs=1e-9 * (size**2 + weight))
