"""Partial labels: how they are read, contradictions, and the partitions that agree."""

import itertools
import pickle
from time import process_time
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metriclearn import PartialPartition, Partition, Region
from metriclearn.problem import AT_LEAST_ONE, EXACTLY_ONE, NO_CHANGE
from metriclearn.problem.charges import charge
from metriclearn.problem.partial_labels import fewest_changes
from metriclearn.problem.regions import AT_MOST_ONE, KINDS
from tests.exhaustive import all_segmentations, labels_of
from tests.strategies import partial_partitions


def test_labels_are_read_as_regions() -> None:
    known = PartialPartition(10, labels=[0, 0, -1, -1, 1, 1, "b", -1, "b", -1])
    assert known.constraints == (
        Region(0, 2, NO_CHANGE),
        Region(1, 5, AT_LEAST_ONE),  # the labels 0 and 1 differ
        Region(4, 6, NO_CHANGE),
        Region(5, 7, AT_LEAST_ONE),  # neighbors that differ: a change at 6
    )  # the gap between "b" and "b" stays open
    np.testing.assert_array_equal(known.labels, [0, 0, -1, -1, 1, 1, 2, -1, 2, -1])


@settings(max_examples=400, deadline=None)
@given(st.integers(2, 7), st.data())
def test_contradictions_are_found_exactly(T, data) -> None:
    """Against enumeration: an error if and only if no segmentation agrees."""
    spans = st.tuples(st.integers(0, T - 2), st.integers(2, T), st.sampled_from([*KINDS.values()]))
    drawn = data.draw(st.lists(spans, max_size=5))
    regions = [Region(a, min(T, a + n), kind) for a, n, kind in drawn]
    agrees = any(
        all(region.allows(np.array(cuts)) for region in regions)
        for n in range(T)
        for cuts in itertools.combinations(range(1, T), n)
    )
    if agrees:
        PartialPartition(T, regions=regions)
    else:
        with pytest.raises(ValueError, match="contradict"):
            PartialPartition(T, regions=regions)


@settings(max_examples=200, deadline=None)
@given(partial_partitions(8))
def test_all_segmentations_that_agree(known) -> None:
    """The same ones agree when all is mirrored; a complete segmentation is the only one."""
    T, mirrored, agreeing = known.n_samples, known.mirrored(), []
    inner = known.at(np.arange(1, T)) if T > 1 else None
    first = [region for region in known.constraints if not region.start]
    for ends in all_segmentations(T):
        partition = Partition.from_change_points(ends)
        turned = Partition.from_change_points([T - t for t in (0, *ends[:-1])])
        assert known.allows(partition) == mirrored.allows(turned)
        if inner is not None:  # only what says something about the first row is lost
            rest = Partition(ends=[t - 1 for t in ends if t > 1])
            said = all(region.allows(partition.change_points[:-1]) for region in first)
            assert known.allows(partition) == (inner.allows(rest) and said)
        agreeing += [partition] * known.allows(partition)
    assert agreeing
    assert known.segmentation() in (None, *(agreeing if len(agreeing) == 1 else ()))
    assert fewest_changes(known) == min(partition.n_clusters for partition in agreeing) - 1


@settings(max_examples=200, deadline=None)
@given(partial_partitions(8))
def test_to_join_two_segments_costs_at_most_the_slack_between_them(known) -> None:
    """Regions that overlap are missed together."""
    table, slack, *_ = known.charges
    for s, t, u in itertools.combinations(range(known.n_samples + 1), 3):
        joined = charge(table, s, u) - charge(table, s, t) - charge(table, t, u)
        assert joined <= slack[t] + 1e-12


def test_full_labels_are_a_segmentation() -> None:
    truth = Partition.from_change_points([2, 3, 9])
    assert PartialPartition.from_partition(truth).segmentation() == truth
    assert PartialPartition(9, labels=labels_of((2, 3, 9))).segmentation() == truth
    assert PartialPartition(9, change_points=[2, 3, 9]).segmentation() == truth
    assert PartialPartition(9, change_points=[2, 3]).segmentation() is None


def test_a_completion_is_a_copy() -> None:
    known, partition = PartialPartition(3, [0, -1, 1]), Partition.from_runs([0, 0, 1])
    completion = known.with_completion(partition)
    assert completion == partition
    assert completion.partial_labels is known
    assert partition.partial_labels is None


def test_label_errors_as_in_penalty_learning() -> None:
    regions = [(0, 10, NO_CHANGE), (10, 20, EXACTLY_ONE), (20, 30, AT_LEAST_ONE)]
    known = PartialPartition(40, regions=[*regions, (10, 16, AT_MOST_ONE)])
    assert known.label_errors(Partition.from_change_points([40])) == (0, 2)
    assert known.label_errors(Partition.from_change_points([5, 12, 14, 40])) == (3, 1)
    assert known.label_errors(Partition.from_change_points([10, 15, 22, 25, 40])) == (0, 0)


def test_equal_whatever_the_iterable_the_order_and_duplicates() -> None:
    one = PartialPartition(6, change_points=[2, 4], regions=[(0, 4, EXACTLY_ONE)])
    again = PartialPartition(6, change_points={4, 2}, regions=[(0, 4, EXACTLY_ONE)])
    cuts = np.array([4, 2, 2], dtype=np.uint8)
    assert one == again == PartialPartition(6, change_points=cuts, regions=iter(one.regions))
    assert hash(one) == hash(again)
    assert one != PartialPartition(6, change_points=[3])
    assert one != 6
    assert one == mock.ANY


def test_a_pickle_does_not_grow_with_what_is_computed_from_the_labels() -> None:
    known = PartialPartition(500, labels=np.repeat([0, 1, -1, 2, 3], 100))
    before = len(pickle.dumps(known))
    charges = known.charges.table
    assert known.at(np.arange(300)).n_samples == 300
    assert len(pickle.dumps(known)) == before
    loaded = pickle.loads(pickle.dumps(known))
    assert loaded == known
    np.testing.assert_array_equal(loaded.charges.table, charges)


def test_labels_are_cut_into_many_parts_quickly() -> None:
    """Each of R parts looks at R regions, which are made once."""
    n, length = 1500, 4
    cuts = np.arange(n + 1) * length
    spans = list(itertools.pairwise(cuts.tolist()))
    known = PartialPartition(n * length, change_points=cuts[1:-1], same=spans)
    begun = process_time()
    parts = [known.at(np.arange(*span)) for span in spans]
    assert process_time() - begun < 2
    assert all(part.segmentation() == Partition(ends=np.array([length])) for part in parts)


def test_every_other_row_of_many_stretches_is_found_quickly() -> None:
    """Only the regions near a stretch are looked at."""
    n = 1600
    rows = np.arange(20 * n)
    known = PartialPartition(len(rows), labels=np.where(rows % 20 < 9, rows % 20 // 3, -1))
    begun = process_time()
    parts = [known.at(np.arange(20 * i, 20 * i + 9, 2)) for i in range(n)]
    assert process_time() - begun < 2
    assert all(part.segmentation() == Partition(ends=np.array([2, 3, 5])) for part in parts)
