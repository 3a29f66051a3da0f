"""Hypothesis strategies for labels and segmentations."""

from hypothesis import strategies as st

from metriclearn.problem.partial_labels import PartialPartition
from metriclearn.problem.regions import KINDS, Region


def labelings(count: int, most_samples: int = 14) -> st.SearchStrategy[list[list[int]]]:
    """``count`` labelings of the same 1 … ``most_samples`` samples by the labels 0 … 5."""

    def of_length(n: int) -> st.SearchStrategy[list[list[int]]]:
        labels = st.lists(st.integers(0, 5), min_size=n, max_size=n)
        return st.lists(labels, min_size=count, max_size=count)

    return st.integers(1, most_samples).flatmap(of_length)


def segment_ends(most_samples: int = 40) -> st.SearchStrategy[list[int]]:
    """Sorted distinct positive integers."""
    return st.sets(st.integers(1, most_samples), min_size=1).map(sorted)


@st.composite
def partial_partitions(draw: st.DrawFn, most_samples: int = 8) -> PartialPartition:
    """Labels, change-points, spans and regions that some segmentation satisfies."""
    T = draw(st.integers(1, most_samples))
    cuts = draw(st.lists(st.booleans(), min_size=T - 1, max_size=T - 1))
    mask = draw(st.lists(st.booleans(), min_size=T, max_size=T))
    segment = [sum(cuts[:t]) for t in range(T)]
    labels = [number if kept else -1 for number, kept in zip(segment, mask)]
    spans = st.tuples(st.integers(0, T - 1), st.integers(2, T)) if T > 1 else st.nothing()
    drawn = draw(st.lists(spans, max_size=4)) if T > 1 else []
    regions = []
    for start, size in drawn:
        stop = min(T, start + size)
        inside = segment[stop - 1] - segment[start]
        if stop - start > 1:
            possible = [kind for kind in KINDS.values() if kind.allows(inside)]
            regions.append(Region(start, stop, draw(st.sampled_from(possible))))
    changes = [t + 1 for t, cut in enumerate(cuts) if cut and draw(st.integers(0, 3)) == 0]
    if draw(st.booleans()):
        labels = [-1] * T
    return PartialPartition(T, labels, change_points=changes, regions=regions)
