"""Regions of samples in which the number of changes is limited, and rules that follow from them.

A region is given by two numbers: the fewest and the most changes that may lie inside. Constraints
of the search, losses, label errors, gaps and pictures read these two numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import index
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metriclearn.running.values import shown


def as_index(value: Any) -> int:
    """Return a whole number of any integer type as an int, and −1 for anything else, such as True.

    Sums of integers of a short type, such as uint8, would wrap around.
    """
    try:
        return -1 if isinstance(value, (bool, np.bool_)) else index(value)
    except TypeError:
        return -1


@dataclass(frozen=True)
class ChangeCount:
    """A kind of region. A region of this kind holds from ``fewest`` to ``most`` change-points.

    ``NO_CHANGE`` allows 0 change-points, ``AT_MOST_ONE`` allows 0 or 1, ``EXACTLY_ONE`` allows 1,
    and ``AT_LEAST_ONE`` allows 1 or more.

    Parameters
    ----------
    name : str
        A word or two, such as "no change".
    fewest : int
        0 or 1.
    most : int or None
        0, 1, or None if there is no upper limit.

    Raises
    ------
    ValueError
        If the numbers are others, or if ``fewest`` exceeds ``most``. To count two or more changes
        in a region, the search for segmentations would need a state.

    Examples
    --------
    >>> from metriclearn.problem.regions import AT_MOST_ONE
    >>> [AT_MOST_ONE.allows(count) for count in (0, 1, 2)]
    [True, True, False]
    """

    name: str
    fewest: int
    most: int | None

    def __post_init__(self) -> None:
        fewest, most = as_index(self.fewest), None if self.most is None else as_index(self.most)
        if (fewest, most) not in ((0, 0), (0, 1), (0, None), (1, 1), (1, None)):
            raise ValueError(
                "ChangeCount needs 0 or 1 as fewest, and 0, 1 or None as most, which is not below "
                f"fewest, got {shown(self.fewest)} and {shown(self.most)}; to count two or more "
                "changes in a region, the search for segmentations would need a state."
            )
        object.__setattr__(self, "fewest", fewest)
        object.__setattr__(self, "most", most)

    def allows(self, n_changes: int) -> bool:
        """Return whether a region of this kind may hold ``n_changes`` change-points."""
        return self.fewest <= n_changes and (self.most is None or n_changes <= self.most)

    def __repr__(self) -> str:
        return self.name.upper().replace(" ", "_")


NO_CHANGE = ChangeCount("no change", 0, 0)
AT_MOST_ONE = ChangeCount("at most one", 0, 1)
EXACTLY_ONE = ChangeCount("exactly one", 1, 1)
AT_LEAST_ONE = ChangeCount("at least one", 1, None)
# The kinds by their two numbers. 0 and None say nothing.
KINDS = {
    (kind.fewest, kind.most): kind for kind in (NO_CHANGE, AT_MOST_ONE, EXACTLY_ONE, AT_LEAST_ONE)
}


@dataclass(frozen=True)
class Region:
    """An annotated stretch X[start:stop] of samples, and how many changes lie inside it.

    A change-point t is a change between the samples t−1 and t. The change lies inside the stretch
    if both samples do, that is, if start < t < stop. The labels of LOPART and of penalty learning
    (Hocking & Srivastava 2020; Hocking, Rigaill, Vert & Bach 2013) give the first and the last
    sample, counted from 1. Such a label becomes ``Region(first - 1, last, kind)``.

    Parameters
    ----------
    start, stop : int
        The first sample of the stretch, and the first sample after the stretch.
    kind : ChangeCount
        ``NO_CHANGE``, ``AT_MOST_ONE``, ``EXACTLY_ONE`` or ``AT_LEAST_ONE``.

    Raises
    ------
    ValueError
        If the stretch is empty or begins before 0, if it needs a change but is a single sample, or
        if ``kind`` is not a ChangeCount.
    """

    start: int
    stop: int
    kind: ChangeCount

    def __post_init__(self) -> None:
        start, stop, kind = as_index(self.start), as_index(self.stop), self.kind
        if not isinstance(kind, ChangeCount) or not 0 <= start < stop - kind.fewest:
            raise ValueError(
                "Region needs whole numbers start and stop, 0 ≤ start < stop, two samples for a "
                f"change, and a kind such as NO_CHANGE, got {shown(self.start)}, "
                f"{shown(self.stop)} and {shown(kind)}."
            )
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "stop", stop)

    @property
    def is_limit(self) -> bool:
        """Whether the region excludes any segmentation."""
        return self.stop - self.start > 1 and (self.kind.fewest, self.kind.most) in KINDS

    def count(self, change_points: NDArray) -> int:
        """Return how many of the sorted ``change_points`` lie inside the region."""
        low, high = np.searchsorted(change_points, [self.start + 1, self.stop])
        return int(high - low)

    def allows(self, change_points: NDArray) -> bool:
        """Return whether the number of sorted ``change_points`` inside the region is allowed."""
        return self.kind.allows(self.count(change_points))

    def at(self, kept: NDArray[np.int64]) -> list[Region]:
        """Return what the region says for certain about changes between kept rows.

        Let k_{c−1} and k_c be neighboring kept rows. A change between them stands for one or more
        changes at the positions k_{c−1} + 1 … k_c. So the upper number of the region holds on the
        kept rows inside. The lower number holds on the kept rows around the region: from the last
        one at or before its start to the first one at or after its last sample.
        """
        first, stop = np.searchsorted(kept, [self.start, self.stop]).tolist()
        before = int(np.searchsorted(kept, self.start, side="right")) - 1
        after = int(np.searchsorted(kept, self.stop - 1))
        if (first, stop) == (before, after + 1):
            return [Region(first, stop, self.kind)]
        found = []
        if self.kind.most is not None and stop - first > 1:
            found.append(Region(first, stop, KINDS[0, self.kind.most]))
        if self.kind.fewest and before >= 0 and after < len(kept):
            found.append(Region(before, after + 1, AT_LEAST_ONE))
        return found

    def mirrored(self, n_samples: int) -> Region:
        """Return the same region for the samples in reverse order."""
        return Region(n_samples - self.stop, n_samples - self.start, self.kind)


class Pieces(NamedTuple):
    """The knowledge about changes if all constraints of a partial segmentation are combined.

    Attributes
    ----------
    stretches : list of (start, segment ends)
        Stretches of samples X[start:ends[-1]] whose segmentation is known, with their segment ends.
    regions : list of Region
        Regions with at least two positions where a change is neither certain nor excluded, in
        order. No region that needs a change lies inside another one that needs a change, and none
        with at most one change lies inside another one with at most one.
    """

    stretches: list[tuple[int, NDArray[np.int64]]]
    regions: list[Region]

    def every(self) -> Iterator[Region]:
        """Yield the regions, and those that say the same as the known stretches."""
        yield from self.regions
        for start, ends in self.stretches:
            cuts = [start, *ends.tolist()]
            yield from (Region(t - 1, t + 1, AT_LEAST_ONE) for t in cuts[1:-1])
            yield from (Region(a, b, NO_CHANGE) for a, b in pairwise(cuts) if b - a > 1)

    def widened(self) -> Iterator[Region]:
        """Yield each region with at most one change, and the unchanged samples at its two ends."""
        before, after = {}, {}
        for start, ends in self.stretches:
            cuts = [start, *ends.tolist()]
            before[cuts[-1]], after[start] = cuts[-2], cuts[1]
        for start, stop, kind in ((one.start, one.stop, one.kind) for one in self.regions):
            if kind.most is not None:
                wide = before.get(start + 1, start), after.get(stop - 1, stop)
                yield Region(*wide, AT_MOST_ONE)

    def mirrored(self, n_samples: int) -> Pieces:
        """Return the same pieces for the samples in reverse order."""
        T, stretches = n_samples, []
        for start, ends in reversed(self.stretches):
            stretches.append((int(T - ends[-1]), T - np.append(ends[-2::-1], start)))
        return Pieces(stretches, [region.mirrored(T) for region in reversed(self.regions)])


class SegmentRules(NamedTuple):
    """Constraints on a segmentation, written as rules for single segments (s,u].

    A segment is allowed if ``allowed[u]`` is not 0 and floor[u] ≤ s < ceiling[u]. In addition,
    ``allowed[s]`` must not be 0. ``reach[t]`` is the last end u for which the start t may be
    forbidden although an earlier start is allowed. If there is no such end, ``reach[t]`` is 0. All
    arrays have T+1 entries, for the positions 0 … T.
    """

    allowed: NDArray[np.int64]
    floor: NDArray[np.int64]
    ceiling: NDArray[np.int64]
    reach: NDArray[np.int64]


def segment_rules(regions: Sequence[Region], n_samples: int) -> SegmentRules:
    """Translate regions to rules for single segments, in O(T + total length of regions)."""
    T = n_samples
    allowed = np.ones(T + 1, dtype=np.int64)
    floor, reach = np.zeros(T + 1, dtype=np.int64), np.zeros(T + 1, dtype=np.int64)
    ceiling = np.full(T + 1, T + 1, dtype=np.int64)
    for region in regions:
        start, stop, kind = region.start, region.stop, region.kind
        inside = slice(start + 1, stop)
        if kind.most == 0:
            allowed[inside] = 0
        if kind.fewest == 1:
            # A segment with s ≤ start < stop ≤ u would leave the region without a change.
            floor[stop] = max(floor[stop], start + 1)
        if kind.most == 1:
            # A segment with start < s < u < stop would be between two changes in the region.
            np.minimum(ceiling[inside], start + 1, out=ceiling[inside])
            np.maximum(reach[inside], stop - 1, out=reach[inside])
    return SegmentRules(allowed, np.maximum.accumulate(floor), ceiling, reach)
