"""What comes in is copied, whole numbers of any type mean what ints mean, and labels stay apart."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

from metriclearn import PartialPartition, Partition, Region
from metriclearn.oracles import ChangePoints, SummedArea, boundary_margins
from metriclearn.plots import expected_calibration_error
from metriclearn.problem import ConsensusForm, DenseForm, KnownLoss, LowRankForm
from metriclearn.problem.losses import ChargedForm
from metriclearn.problem.named_segments import NamedPartition, PartialNames
from metriclearn.problem.regions import ChangeCount

ENDS, CODES = np.array([2, 4]), np.array([0, 1, 0, 1])
SQUARE, ONE = np.array([[2.0, 1.0], [1.0, 3.0]]), Partition.from_labels([0, 0, 1, 1])


def labels_and_sizes(partition):
    return [partition.change_points, partition.labels, partition.sizes, partition.ends]


def matrix_of(form):
    return [form.matvec(np.eye(2))]


@pytest.mark.parametrize(
    ("make", "given", "got"),
    [
        (lambda ends: Partition(ends=ends), (ENDS,), labels_and_sizes),
        (Partition.from_change_points, (ENDS,), labels_and_sizes),
        (lambda codes: Partition(labels=codes), (CODES,), lambda one: [one.labels, one.sizes]),
        (NamedPartition, (ENDS, ENDS), lambda one: [*labels_and_sizes(one), one.names]),
        (
            lambda labels, cuts: PartialPartition(4, labels, cuts),
            (np.array([0, -1, -1, 1]), np.array([3])),
            lambda known: [known.labels, known.pieces.stretches[0][1]],
        ),
        (
            lambda codes: PartialNames(PartialPartition(4), codes),
            (CODES,),
            lambda known: [known.names],
        ),
        (LowRankForm, (SQUARE,), matrix_of),
        (DenseForm, (SQUARE,), matrix_of),
        (
            lambda weights: ConsensusForm([ONE, ONE], weights),
            (np.array([0.5, 0.5]),),
            lambda form: [np.array(form.at(ONE))],
        ),
        (
            lambda penalties: ChargedForm(LowRankForm(np.eye(4)), penalties=penalties),
            (np.ones(5),),
            lambda form: [np.array(form.at(ONE))],
        ),
    ],
)
def test_arrays_that_were_given_and_got_may_be_overwritten(make, given, got) -> None:
    """What an object gives back is a copy, or cannot be written."""
    given = [array.copy() for array in given]
    one = make(*given)
    before = [array.copy() for array in got(make(*given))]
    for array in given:
        array.fill(1)
    for array in got(one):
        if array.flags.writeable:
            array.fill(1)
    for array, expected in zip(got(one), before, strict=True):
        np.testing.assert_array_equal(array, expected)


TYPES = ["int8", "uint8", "int16", "uint64", "Int8", "UInt8", "arrow"]


@pytest.mark.parametrize("kind", TYPES)
def test_whole_numbers_of_any_type_mean_what_ints_mean(kind) -> None:
    """At the top of short types, where sums would wrap around."""
    top = 127 if kind.lower() == "int8" or kind == "arrow" else 255

    def typed(*numbers: int):
        if kind == "arrow":
            pa = pytest.importorskip("pyarrow")
            return pa.array(numbers, pa.int8())
        return pd.array(numbers, dtype=kind)

    def read(numbers) -> list:
        (a, b), T = numbers(top - 7, top), top + 9
        region = Region(a, b, ChangeCount("one or none", *numbers(0, 1)))
        known = PartialPartition(T, None, numbers(top - 3, top), [(b, T)], [region])
        cut = Partition(ends=numbers(top - 7, top))
        loss = KnownLoss()(cut, PartialPartition(top, change_points=numbers(top - 3, top)))
        parts = Partition.from_change_points(numbers(a, b), T), cut.sizes.tolist(), loss
        return [known.constraints, known.pieces.regions, region.mirrored(T), *parts]

    assert str(read(typed)) == str(read(lambda *numbers: list(numbers)))


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint64])
def test_counts_of_any_type_mean_what_ints_mean(kind) -> None:
    Z = np.random.default_rng(0).normal(size=(140, 1)).cumsum(axis=0)
    for count, form in ((120, LowRankForm(Z)), (70, LowRankForm(Z))):
        for find in (ChangePoints(kind(1)), SummedArea(kind(1))):
            assert find(form, kind(count)) == find(form, count)
    near = boundary_margins(form, kind(9), tolerance=kind(100))
    np.testing.assert_array_equal(near.losses, boundary_margins(form, 9, tolerance=100).losses)
    error = partial(expected_calibration_error, np.linspace(0, 1, 30), np.arange(30) % 2)
    assert error(kind(127)) == error(127)


def test_a_region_without_limits_says_nothing() -> None:
    free = Region(0, 4, ChangeCount("any", 0, None))
    assert PartialPartition(4, regions=[free]).constraints == ()
