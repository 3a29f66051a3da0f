"""Evidence accumulation against the full co-association matrix."""

import tracemalloc

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from sklearn.datasets import make_circles
from sklearn.metrics import adjusted_rand_score

from metriclearn.clusterers import EvidenceAccumulation, coassociation, evidence_accumulation
from metriclearn.problem.partition import Partition

labelings = st.tuples(st.integers(1, 9), st.integers(1, 25)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(0, 3))
)


def components(adjacent: NDArray) -> Partition:
    return Partition.from_labels(connected_components(adjacent, directed=False)[1])


@given(runs=labelings, sixteenths=st.integers(0, 16), strict=st.booleans())
@settings(max_examples=150, deadline=None)
def test_threshold_is_components_of_the_matrix(runs, sixteenths, strict) -> None:
    votes, threshold = coassociation(runs), sixteenths / 16
    found = evidence_accumulation(runs, threshold, strict=strict)
    expected = components(votes > threshold if strict else votes >= threshold)
    assert Partition.from_labels(found) == expected
    assert np.array_equal(found, expected.labels)  # numbered by first appearance


@given(runs=labelings)
@settings(max_examples=100, deadline=None)
def test_longest_lifetime_over_all_levels(runs: NDArray) -> None:
    """Every number of clusters, by the levels at which it lives; the fewest on ties."""
    votes = np.round(coassociation(runs) * len(runs)).astype(int)
    lifetimes: dict[int, int] = {}
    partitions: dict[int, Partition] = {}
    for level in range(1, len(runs) + 1):  # thresholds in ((level−1)/R, level/R]
        partition = components(votes >= level)
        lifetimes[partition.n_clusters] = lifetimes.get(partition.n_clusters, 0) + 1
        partitions[partition.n_clusters] = partition
    best = max(lifetimes, key=lambda k: (lifetimes[k], -k))
    found = Partition.from_labels(evidence_accumulation(runs, None))
    assert found == partitions[best]


def test_rings_that_k_means_cannot_separate() -> None:
    X, y = make_circles(600, noise=0.03, factor=0.4, random_state=0)
    found = EvidenceAccumulation(threshold=None, random_state=0).fit(X)
    assert found.n_clusters_ == 2
    assert adjusted_rand_score(y, found.labels_) == 1.0
    assert found.labelings_.shape == (50, 600)
    numbers = [len(np.unique(run)) for run in found.labelings_]
    assert 13 <= min(numbers) < max(numbers) <= 25  # √600/2 … √600
    assert np.array_equal(found.labels_, evidence_accumulation(found.labelings_, None))
    few = EvidenceAccumulation(min_clusters=3, max_clusters=20).fit(
        np.repeat([[0], [1], [5]], 9, 0)
    )
    assert few.labels_.tolist() == [0] * 9 + [1] * 9 + [2] * 9  # no more than distinct samples


def test_memory_is_linear_in_the_samples() -> None:
    """n = u = 6000: an n×n matrix of bytes would be 36 MB."""
    runs = np.random.default_rng(0).integers(0, 50, size=(20, 6000), dtype=np.uint8)
    evidence_accumulation(runs[:, :10])  # compile first
    tracemalloc.start()
    evidence_accumulation(runs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6
