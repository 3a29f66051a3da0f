"""Change-points: segmentations against labels, Hausdorff, precision and recall, regions."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

import metriclearn.indices as indices
from metriclearn.indices.boundaries import match, near
from metriclearn.problem.partition import Partition
from tests.budget import examples


@st.composite
def segmentations(draw: st.DrawFn) -> tuple[list[int], list[int], int]:
    n = draw(st.integers(1, 25))
    sets = st.sets(st.integers(1, n - 1), max_size=8) if n > 1 else st.just(set())
    return sorted(draw(sets)), sorted(draw(sets)), n


@settings(max_examples=60, deadline=None)
@given(segmentations())
def test_hausdorff_is_the_definition(case: tuple[list[int], list[int], int]) -> None:
    a, b, n = case
    found = indices.hausdorff(a, b, n)
    if not a or not b:
        assert found == (0.0 if a == b else math.inf)
        return
    far = max(min(abs(x - y) for y in b) for x in a)
    assert found == max(far, max(min(abs(x - y) for x in a) for y in b))
    assert indices.hausdorff(a, b, n, normalized=True) == found / n


@pytest.mark.parametrize("kind", [tuple, np.int8, np.uint64, float])
def test_inputs_of_any_integer_type(kind) -> None:
    convert = kind if kind is tuple else lambda x: np.array(x, dtype=kind)
    a, b = convert([10, 40, 50, 100]), convert([20, 70, 100])
    assert indices.hausdorff(a, b) == indices.hausdorff(b[::-1], a, 100) == 20.0
    true, pred = map(Partition.from_change_points, (a, b))
    assert indices.hausdorff(true, pred) == 20.0
    assert indices.rand_score(true, pred) == pytest.approx(0.6565656565656566)


@pytest.mark.parametrize("n", [10**12, 2**62])
def test_rand_of_huge_samples_is_exact(n: int) -> None:
    rng = np.random.default_rng(0)
    a, b = (Partition.from_change_points(np.unique(rng.integers(1, n, 10**5)), n) for _ in "ab")
    counts = indices.pair_counts(a, b)
    assert sum(counts) == n * (n - 1) // 2
    assert indices.rand_score(a, b) == (counts.n11 + counts.n00) / sum(counts)


@settings(max_examples=100, deadline=None)
@given(segmentations(), st.sampled_from([0, 0.5, 1, 2, 2.5, 3, 6, 1e50]))
def test_matching_is_the_largest_and_near_is_by_definition(case, margin) -> None:
    a, b, n = case
    apart = np.abs(np.subtract.outer(a, b)).reshape(len(a), len(b))
    matched = int(np.sum(maximum_bipartite_matching(csr_array(apart <= margin)) >= 0))
    pairs = [(i, j) for i, j in match(np.array(a), np.array(b), margin).tolist()]
    assert len(pairs) == len(dict(pairs)) == len({j for _, j in pairs}) == matched
    assert all(apart[pair] <= margin for pair in pairs)
    expected = matched / len(b) if b else 1.0, matched / len(a) if a else 1.0
    assert indices.precision_recall(a, b, n, margin=margin) == expected
    assert near(np.array(a), np.array(b), margin).tolist() == (apart <= margin).any(axis=1).tolist()


def test_annotated_regions() -> None:
    regions = [(0, 10, 0), (10, 30, 1), (30, 60, 1, None), (60, 80, 0, 1), (80, 100, 1)]
    found = indices.annotation_error([10, 20, 65, 70, 75, 100], regions)
    # 10 separates samples 9 and 10, so it lies in no region; 30-60 and 80-100 have none
    assert found == (3 / 5, 1, 2, 5)
    assert indices.annotation_error([5, 100], []) == (0.0, 0, 0, 0)
    assert indices.annotation_error([5], [(5, 6, 0)], 10) == (0.0, 0, 0, 1)


def several_annotators(rng: np.random.Generator) -> tuple[dict[int, list[int]], list[int], int]:
    """Change-points of one to four annotators, and predicted ones: none, some or all samples."""
    n = int(rng.choice([1, 2, 7, 60, 300]))

    def places() -> list[int]:
        share = rng.choice([0.0, 0.05, 0.3, 1.0], p=[0.1, 0.4, 0.4, 0.1])
        return (np.flatnonzero(rng.random(n - 1) < share) + 1).tolist()

    return {person: places() for person in range(rng.integers(1, 5))}, places(), n


def detected(true: set[int], pred: set[int], margin: int) -> int:
    """True positives of the Turing benchmark: true points that take the nearest unused one."""
    left, count = set(pred), 0
    for place in true:
        near = sorted((abs(place - x), x) for x in left if abs(place - x) <= margin)
        left -= {x for _, x in near[:1]}
        count += bool(near)
    return count


def test_measures_of_the_turing_benchmark_are_its_definitions() -> None:
    rng = np.random.default_rng(0)
    for _ in range(examples(400)):
        annotations, pred, n = several_annotators(rng)
        margin = int(rng.integers(0, 8))
        marked = [set(places) for places in annotations.values()]
        for places in marked:
            places.add(0)
        every: set[int] = set()
        for places in marked:
            for place in places:
                every.add(place)
        predicted = {*pred, 0}
        precision = detected(every, predicted, margin) / len(predicted)
        recall = np.mean([detected(one, predicted, margin) / len(one) for one in marked])
        expected = 2 * precision * recall / (precision + recall)
        found = indices.f_measure(annotations, pred, n, margin=margin)
        assert found == pytest.approx(expected, abs=1e-12)

        pieces = [set(part) for part in np.split(np.arange(n), pred)]
        covered = [
            len(segment) / n * max(len(segment & p) / len(segment | p) for p in pieces)
            for places in annotations.values()
            for segment in map(set, np.split(np.arange(n), places))
        ]
        found = indices.covering(annotations, pred, n)
        assert found == pytest.approx(sum(covered) / len(annotations), abs=1e-12)


@pytest.mark.parametrize("index", [indices.covering, indices.f_measure])
def test_one_annotator_is_a_segmentation_whose_labels_may_recur(index) -> None:
    labels, pred = list("aaabbaa"), Partition.from_change_points([3, 7])  # the label "a" recurs
    one = index([3, 5], [3], 7)
    assert index(Partition.from_runs(labels), pred) == index({"me": [3, 5, 7]}, pred) == one
