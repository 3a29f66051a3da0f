"""Hypothesis strategies for labels and segmentations."""

from __future__ import annotations

from hypothesis import strategies as st

__all__ = ["labelings", "segment_ends"]


def labelings(count: int, most_samples: int = 14) -> st.SearchStrategy[list[list[int]]]:
    """``count`` labelings of the same 1 … ``most_samples`` samples by the labels 0 … 5."""

    def of_length(n: int) -> st.SearchStrategy[list[list[int]]]:
        labels = st.lists(st.integers(0, 5), min_size=n, max_size=n)
        return st.lists(labels, min_size=count, max_size=count)

    return st.integers(1, most_samples).flatmap(of_length)


def segment_ends(most_samples: int = 40) -> st.SearchStrategy[list[int]]:
    """Sorted distinct positive integers."""
    return st.sets(st.integers(1, most_samples), min_size=1).map(sorted)
