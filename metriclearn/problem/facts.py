"""Facts are regions that annotations imply: what several imply together, and contradictions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metriclearn.problem.regions import AT_LEAST_ONE, KINDS, NO_CHANGE, Region, segment_rules

# It is unknown whether there is a change.
OPEN = -1
START = attrgetter("region.start")


class Fact(NamedTuple):
    """A region, and the annotation that implies the region: its ``sort`` and value ``given``."""

    region: Region
    sort: str
    given: Any


def deduce(regions: set[Region], changes: NDArray) -> set[Region]:
    """Mark certain and excluded changes in ``changes``, and return the undecided regions.

    A region shrinks to its undecided positions, and regions in the same place become one. A region
    may contain another region that needs a change. If the outer region allows one change at most,
    this change lies in the inner region, so there is no change at the other positions. If the outer
    region has no upper limit, the inner region implies it. A region that only allows one change at
    most is implied by a region around it that does so, too.
    """
    places: dict[tuple[int, int], tuple[int, int | None]] = {}
    for region in regions:
        fewest, most = region.kind.fewest, region.kind.most
        inside = changes[region.start + 1 : region.stop]
        free, changed = np.flatnonzero(inside == OPEN), int(np.any(inside == 1))
        if most is not None and changed >= most:
            inside[free] = 0
        elif changed < fewest and len(free) == 1:
            inside[free] = 1
        elif len(free) > 1 and (changed < fewest or most is not None):
            first, last = (region.start + 1 + free[[0, -1]]).tolist()
            place = first - 1, last + 1
            others = places.get(place, (0, None))
            places[place] = max(fewest, others[0]), others[1] if most is None else most
    kept: set[Region] = set()
    inner = None
    # Each region comes before the regions that may hold it.
    for start, stop in sorted(places, key=lambda place: (-place[0], place[1])):
        region = Region(start, stop, KINDS[places[start, stop]])
        if inner is not None and stop >= inner.stop:
            if region.kind.most is None:
                continue
            changes[start + 1 : inner.start + 1] = 0
            changes[inner.stop : stop] = 0
        elif region.kind.fewest:
            inner = region
        kept.add(region)
    outer = 0
    for region in sorted(kept, key=lambda region: (region.start, -region.stop)):
        if region.kind.most is not None and region.stop <= outer and not region.kind.fewest:
            kept.discard(region)
        elif region.kind.most is not None:
            outer = max(outer, region.stop)
    return kept


def label_facts(codes: NDArray[np.int64]) -> list[Fact]:
    """Return the regions that labels imply.

    There is no change within a run of equal labels, and at least one change between different
    labels.
    """
    labeled = np.flatnonzero(codes >= 0)
    differ = np.diff(codes[labeled]) != 0
    breaks = np.flatnonzero(differ | (np.diff(labeled) > 1)) + 1
    pairs = []
    for run in np.split(labeled, breaks):
        if len(run):
            pairs.append((run[0], run[-1], NO_CHANGE, "equal"))
    # the last sample with one label, and the first sample with the next label
    for last, first in zip(labeled[:-1][differ], labeled[1:][differ]):
        pairs.append((last, first, AT_LEAST_ONE, "different"))
    facts = []
    for first, last, kind, relation in pairs:
        region = Region(int(first), int(last) + 1, kind)
        facts.append(Fact(region, f"{relation} labels of samples", f"{first} and {last}"))
    return sorted(facts, key=START)


def read_facts(
    word: str, needed: str, listed: Any, n_samples: int, region_of: Callable[[Any], Region]
) -> list[Fact]:
    """Check the annotations of one sort, such as change-points, and translate them to regions."""
    try:
        items = list(listed)
    except TypeError:
        raise ValueError(f"PartialPartition needs a list of {word}s, got {listed!r}.") from None
    facts = []
    for given in items:
        try:
            region = given if isinstance(given, Region) else region_of(given)
            if region.stop > n_samples:
                raise ValueError("a stop after the last sample")
        except (TypeError, ValueError):
            raise ValueError(
                f"PartialPartition needs every {word} as {needed}, got {given!r}."
            ) from None
        facts.append(Fact(region, word, given))
    return facts


def are_feasible(facts: Sequence[Fact], n_samples: int) -> bool:
    """Return whether there is a segmentation that satisfies all facts.

    All positions between two neighboring borders of regions are equivalent, and two changes between
    these borders are never needed. So only one position between two neighboring borders is tried.
    """
    if not facts:
        return True
    spans = np.array([(fact.region.start + 1, fact.region.stop) for fact in facts])
    positions = np.unique(spans)
    positions = positions[positions < n_samples]
    columns = np.searchsorted(positions, spans)
    small = [Region(a, b + 1, f.region.kind) for (a, b), f in zip(columns.tolist(), facts)]
    rules = segment_rules(small, len(positions) + 1)
    # reachable[u]: the number of reachable positions before u.
    reachable = np.zeros(len(positions) + 3, dtype=np.int64)
    reachable[1] = 1
    last = False
    for u in range(1, len(positions) + 2):
        low, high = int(rules.floor[u]), min(int(rules.ceiling[u]), u)
        last = bool(rules.allowed[u]) and low < high and reachable[high] > reachable[low]
        reachable[u + 1] = reachable[u] + last
    return last


def conflict(facts: Sequence[Fact], n_samples: int) -> list[Fact]:
    """Find a minimal set of facts that contradict each other, by a few bisections."""
    needed: list[Fact] = []
    rest = list(facts)
    while are_feasible(needed, n_samples):

        def fails(last: int) -> bool:
            """Return whether facts in ``needed`` and in rest[: last + 1] contradict each other."""
            return not are_feasible(needed + rest[: last + 1], n_samples)  # noqa: B023

        first = bisect_left(range(len(rest)), True, key=fails)
        needed.append(rest[first])
        rest = rest[:first]
    return needed[::-1]
