"""Store partial labels of a partition: sample labels, changes, unchanged spans, and regions."""

from __future__ import annotations

import copy
import numbers
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.problem.charges import Charges, charge_table
from metriclearn.problem.partition import Partition, codes_of_known
from metriclearn.running.parameters import shown


@dataclass(frozen=True)
class ChangeCount:
    """A kind of region. A region of this kind holds from ``fewest`` to ``most`` change-points.

    ``most`` is None if there is no upper limit. ``NO_CHANGE`` allows 0 change-points,
    ``EXACTLY_ONE`` allows 1, and ``AT_LEAST_ONE`` allows 1 or more.
    """

    name: str
    fewest: int
    most: int | None

    def allows(self, n_changes: int) -> bool:
        """Return whether a region of this kind may hold ``n_changes`` change-points."""
        return self.fewest <= n_changes and (self.most is None or n_changes <= self.most)

    def __repr__(self) -> str:
        return self.name.upper().replace(" ", "_")


NO_CHANGE = ChangeCount("no change", 0, 0)
EXACTLY_ONE = ChangeCount("exactly one", 1, 1)
AT_LEAST_ONE = ChangeCount("at least one", 1, None)
_KINDS = (NO_CHANGE, EXACTLY_ONE, AT_LEAST_ONE)
_NAMES = ", ".join(map(repr, _KINDS))
# It is unknown whether there is a change.
_OPEN = -1
_START = attrgetter("region.start")


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
        ``NO_CHANGE``, ``EXACTLY_ONE`` or ``AT_LEAST_ONE``.

    Raises
    ------
    ValueError
        If the stretch is empty or begins before 0, or if ``kind`` is none of the three kinds.
    """

    start: int
    stop: int
    kind: ChangeCount

    def count(self, change_points: NDArray) -> int:
        """Return how many of the sorted ``change_points`` lie inside the region."""
        low, high = np.searchsorted(change_points, [self.start + 1, self.stop])
        return int(high - low)

    def allows(self, change_points: NDArray) -> bool:
        """Return whether the number of sorted ``change_points`` inside the region is allowed."""
        return self.kind.allows(self.count(change_points))

    def mirrored(self, n_samples: int) -> Region:
        """Return the same region for the samples in reverse order."""
        return Region(n_samples - self.stop, n_samples - self.start, self.kind)


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


class _Fact(NamedTuple):
    """A region, and the annotation that implies the region: its ``sort`` and value ``given``."""

    region: Region
    sort: str
    given: Any


class PartialPartition:
    """Partial labels of a partition of samples 0 … T-1.

    All annotations must hold at once. For a segmentation, all annotations are translated to
    regions. Between two neighboring samples there is no change if their labels are equal, and a
    change if their labels differ. A gap between two labeled stretches has at least one change if
    their labels differ. If the labels are equal, nothing is assumed about the gap, because a label
    may recur. For a clustering, equal labels mean the same cluster everywhere, different labels
    mean different clusters, and the samples of a ``same`` span share a cluster. Change-points and
    regions have no effect on clusterings.

    Parameters
    ----------
    n_samples : int
        T.
    labels : sequence of T labels, optional
        Any hashable values; −1 marks unlabeled samples.
    change_points : sequence of int
        Known changes. A change t, 1 ≤ t < T, lies between the samples t−1 and t. If the list
        contains T, as in ruptures, it is complete: there are no other changes. If the list does not
        contain T, there may be changes that are not listed.
    same : sequence of (start, stop)
        Spans X[start:stop]. All samples of a span lie in one cluster or segment.
    regions : sequence of Region or of (start, stop, kind)
        Annotated regions.

    Attributes
    ----------
    n_samples : int
    regions : tuple of Region
        The annotated regions as given.
    constraints : tuple of Region
        Everything known about change-points, including what labels and spans imply.
    labels : int array (T,)
        Labels as codes 0, 1, …, in the order of first appearance; −1 where no label is known.
    same : tuple of (start, stop)
        The ``same`` spans as given.

    Raises
    ------
    ValueError
        If positions lie outside the samples, or if no segmentation agrees with all annotations. The
        message then names annotations that contradict each other.

    References
    ----------
    Lajugie, Arlot & Bach, Large-Margin Metric Learning for Partitioning Problems, arXiv:1303.1280,
    section 5.2; Hocking & Srivastava, Labeled optimal partitioning, arXiv:2006.13967, 2020.

    Examples
    --------
    >>> known = PartialPartition(8, labels=[0, 0, -1, -1, 1, 1, -1, -1])
    >>> [(r.start, r.stop, r.kind) for r in known.constraints]
    [(0, 2, NO_CHANGE), (1, 5, AT_LEAST_ONE), (4, 6, NO_CHANGE)]
    """

    def __init__(
        self,
        n_samples: int,
        labels: Iterable[Hashable] | None = None,
        change_points: ArrayLike | Sequence[int] = (),
        same: Iterable[tuple[int, int]] = (),
        regions: Iterable[Region | tuple[int, int, ChangeCount]] = (),
    ) -> None:
        if not isinstance(n_samples, numbers.Integral) or not 1 <= n_samples <= 2**31:
            raise ValueError(
                "PartialPartition needs at least one sample, and at most 2**31, got "
                f"{shown(n_samples)}."
            )
        T = int(n_samples)
        self.n_samples: int = T
        codes = np.full(T, -1) if labels is None else codes_of_known(labels)
        if len(codes) != T:
            raise ValueError(
                f"PartialPartition needs one label per sample (−1 where unknown), got {len(codes)} "
                f"labels for {T} samples."
            )
        self.labels: NDArray[np.int64] = codes

        def around(t: Any) -> Region:
            """Return a region whose only possible change is at t, without effect for t = T."""
            if not isinstance(t, numbers.Integral) or isinstance(t, bool):
                raise TypeError
            return Region(t - 1, min(t + 1, T), AT_LEAST_ONE if t < T else NO_CHANGE)

        needed = f"whole numbers start and stop, 0 ≤ start < stop ≤ {T}"
        cuts = _read("change-point", f"a whole number from 1 to {T - 1}", change_points, T, around)
        spans = _read("same span", needed, same, T, lambda pair: Region(*pair, NO_CHANGE))
        needed += f", two samples for a change, and one of the kinds {_NAMES}"
        annotated = _read("region", needed, regions, T, lambda triple: Region(*triple))
        same_of, region_of = attrgetter("region.start", "region.stop"), attrgetter("region")
        self.same: tuple[tuple[int, int], ...] = tuple(map(same_of, spans))
        self.regions: tuple[Region, ...] = tuple(map(region_of, annotated))
        cuts = sorted(set(cuts), key=_START)
        given = [*_label_facts(self.labels), *cuts, *spans, *annotated]
        start = 0
        for cut in cuts if cuts and cuts[-1].region.start == T - 1 else ():
            stop = cut.region.start + 1
            given.append(_Fact(Region(start, stop, NO_CHANGE), "segment", (start, stop)))
            start = stop
        facts = [fact for fact in given if fact.region.stop - fact.region.start > 1]
        # Labels alone never contradict each other.
        if (cuts or spans or annotated) and not _feasible(facts, T):
            named = ", ".join(f"the {fact.sort} {fact.given}" for fact in _conflict(facts, T))
            raise ValueError(
                "PartialPartition needs annotations that one segmentation can satisfy, but these "
                f"contradict each other: {named}; change or remove one of them."
            )
        self.constraints: tuple[Region, ...] = tuple(map(region_of, facts))
        self._content: tuple = T, self.labels.tobytes(), self.same, self.constraints

    @property
    def partial_labels(self) -> Self:
        """The object itself. A :class:`Partition` has its partial labels under the same name."""
        return self

    @classmethod
    def from_partition(cls, partition: Partition) -> PartialPartition:
        """Make partial labels that contain all labels of a partition."""
        return cls(partition.n_samples, labels=partition.labels)

    def with_completion(self, partition: Partition) -> Partition:
        """Return a copy of ``partition`` that is marked as a completion of these labels.

        Raises
        ------
        ValueError
            If ``partition`` has another number of samples.
        """
        if partition.n_samples != self.n_samples:
            raise ValueError(
                f"PartialPartition needs a completion of its {self.n_samples} samples, got one of "
                f"{partition.n_samples}."
            )
        completion = copy.copy(partition)
        completion.partial_labels = self
        completion.share = (self.labels >= 0).astype(np.float64)
        return completion

    def allows(self, partition: Partition) -> bool:
        """Return whether a segmentation agrees with all constraints, in O((K + regions) log K)."""
        ends = partition.change_points[:-1]
        same_samples = partition.n_samples == self.n_samples
        return same_samples and all(region.allows(ends) for region in self.constraints)

    def allows_clusters(self, partition: Partition) -> bool:
        """Return whether a clustering agrees with the labels and the spans.

        Samples with equal labels, and the samples of a span, must be in one cluster. Samples with
        different labels must be in different clusters.
        """
        if partition.n_samples != self.n_samples:
            return False
        clusters, known = partition.labels, self.labels >= 0
        together = all(len(set(clusters[start:stop])) == 1 for start, stop in self.same)
        pairs = set(zip(self.labels[known].tolist(), clusters[known].tolist()))
        return together and len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})

    def label_errors(self, partition: Partition) -> tuple[int, int]:
        """Count the false positives and the false negatives of a segmentation on ``regions``.

        As in penalty learning, a region with more changes than annotated is one false positive, and
        a region with fewer is one false negative.

        Raises
        ------
        ValueError
            If the segmentation does not have T samples.
        """
        if partition.n_samples != self.n_samples:
            raise ValueError(
                f"PartialPartition.label_errors needs a segmentation of the {self.n_samples} "
                f"samples, got one of {partition.n_samples}."
            )
        ends = partition.change_points[:-1]
        counts = [(region.kind, region.count(ends)) for region in self.regions]
        missed = sum(n < kind.fewest for kind, n in counts)
        return sum(not kind.allows(n) for kind, n in counts) - missed, missed

    @cached_property
    def pieces(self) -> Pieces:
        """The known stretches and the regions that follow from all annotations together.

        The stretches and regions are found in passes over all R regions, until a pass deduces
        nothing new. Each pass takes O(T + R log R + total length of regions).
        """
        T = self.n_samples
        # For the positions 1 … T−1: whether there is a change. 0 and T stay open.
        changes = np.full(T + 1, _OPEN, dtype=np.int8)
        regions, before = set(self.constraints), None
        while before != (regions, changes.tobytes()):
            before = regions, changes.tobytes()
            regions = _deduce(regions, changes)
        settled = np.flatnonzero(np.diff(changes != _OPEN)) + 1
        stretches = []
        # Positions first … stop−1 are settled.
        for first, stop in settled.reshape(-1, 2):
            inner = np.flatnonzero(changes[first:stop]) + first
            stretches.append((int(first) - 1, np.append(inner, stop)))
        return Pieces(stretches, sorted(regions, key=attrgetter("start")))

    @cached_property
    def charges(self) -> Charges:
        """The table from which the charges of segments are computed."""
        return charge_table(self.pieces, self.n_samples)

    def segmentation(self) -> Partition | None:
        """Return the whole segmentation if it is known at every position, and None if it is not."""
        stretches, regions = self.pieces
        # A single sample has no position for a change.
        start, ends = stretches[0] if stretches else (0, np.array([1]))
        known = not regions and len(stretches) < 2 and (start, ends[-1]) == (0, self.n_samples)
        return Partition(ends=ends) if known else None

    def within(self, start: int, stop: int) -> PartialPartition:
        """Make partial labels of X[start:stop], from the constraints inside this stretch."""
        inside = [
            Region(r.start - start, r.stop - start, r.kind)
            for r in self.constraints
            if start <= r.start and r.stop <= stop
        ]
        return PartialPartition(stop - start, regions=inside)

    def mirrored(self) -> PartialPartition:
        """Return the same constraints for reversed samples. Labels become constraints."""
        T = self.n_samples
        return PartialPartition(T, regions=[region.mirrored(T) for region in self.constraints])

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickle, without pieces and charges, which can be computed again.

        The table of charges would be much larger than the rest of the state.
        """
        return {k: v for k, v in vars(self).items() if k not in ("pieces", "charges")}

    def __eq__(self, other: Any) -> bool:
        known = isinstance(other, PartialPartition)
        return self._content == other._content if known else NotImplemented

    def __hash__(self) -> int:
        return hash(self._content)

    def __repr__(self) -> str:
        labeled = int(np.sum(self.labels >= 0))
        return (
            f"PartialPartition({self.n_samples} samples, {labeled} labeled, "
            f"{len(self.constraints)} constraints)"
        )


class Pieces(NamedTuple):
    """What is known about changes if all constraints of a partial segmentation are combined.

    Attributes
    ----------
    stretches : list of (start, segment ends)
        Stretches of samples X[start:ends[-1]] whose segmentation is known, with their segment ends.
    regions : list of Region
        Regions with at least two positions where a change is neither certain nor excluded. The
        regions are in order, and none is inside another.
    """

    stretches: list[tuple[int, NDArray[np.int64]]]
    regions: list[Region]

    def mirrored(self, n_samples: int) -> Pieces:
        """Return the same pieces for the samples in reverse order."""
        T, stretches = n_samples, []
        for start, ends in reversed(self.stretches):
            stretches.append((int(T - ends[-1]), T - np.append(ends[-2::-1], start)))
        return Pieces(stretches, [region.mirrored(T) for region in reversed(self.regions)])


def fewest_changes(labels: Partition | PartialPartition) -> int:
    """Return the least number of changes of a segmentation that agrees with the labels."""
    if isinstance(labels, Partition):
        return labels.n_clusters - 1
    pieces, count, last = labels.pieces, 0, -1
    for _, ends in pieces.stretches:
        count += len(ends) - 1
    # Regions that overlap can share a change. No region holds another, so a change at the last
    # position of a region serves as many of the following regions as possible.
    for region in pieces.regions:
        if last <= region.start:
            count, last = count + 1, region.stop - 1
    return count


class Labeled(NamedTuple):
    """The changes that labels require, and the positions that the labels cover.

    Attributes
    ----------
    fewest : int
        The least number of changes of a segmentation that agrees with the labels.
    likely : int
        The number of segments if changes are as frequent among unlabeled samples as among labeled
        samples.
    known : bool array (T+1,)
        For every position, whether labels cover it.
    """

    fewest: int
    likely: int
    known: NDArray[np.bool_]


def labeled_part(labels: Partition | PartialPartition) -> Labeled:
    """Count the changes that labels require, and mark the labeled positions.

    The time is O(T + total length of regions).
    """
    T, fewest, n_labeled = labels.n_samples, fewest_changes(labels), 0
    if isinstance(labels, Partition):
        return Labeled(fewest, fewest + 1, np.ones(T + 1, dtype=bool))
    known = np.zeros(T + 1, dtype=bool)
    for start, ends in labels.pieces.stretches:
        n_labeled += int(ends[-1]) - start
        known[start + 1 : ends[-1]] = True
    for region in labels.pieces.regions:
        n_labeled += region.stop - region.start
        known[region.start + 1 : region.stop] = True
    return Labeled(fewest, 1 + round(fewest * (T / max(n_labeled, 1))), known)


def _deduce(regions: set[Region], changes: NDArray) -> set[Region]:
    """Mark certain and excluded changes in ``changes``, and return the undecided regions.

    A region shrinks to its undecided positions. A region may contain another region, which holds at
    least one change. If the outer region must hold exactly one change, this change lies in the
    inner region, so there is no change at the other positions. If the outer region must hold at
    least one change, the inner region implies this, and the outer region is dropped.
    """
    shrunk = set()
    for region in regions:
        inside = changes[region.start + 1 : region.stop]
        free, changed = np.flatnonzero(inside == _OPEN), bool((inside == 1).any())
        if region.kind.most == changed:
            inside[free] = 0
        elif not changed and len(free) == 1:
            inside[free] = 1
        elif not changed:
            first, last = region.start + 1 + free[[0, -1]]
            shrunk.add(Region(int(first) - 1, int(last) + 1, region.kind))
    kept: set[Region] = set()
    inner = None
    # Each region comes before the regions that may hold it. Of two in the same place, the one with
    # "exactly one" comes first.
    for region in sorted(shrunk, key=lambda r: (-r.start, r.stop, r.kind.most is None)):
        if inner is None or region.stop < inner.stop:
            inner = region
        elif region.kind.most is None:
            continue
        else:
            changes[region.start + 1 : inner.start + 1] = 0
            changes[inner.stop : region.stop] = 0
        kept.add(region)
    return kept


def _label_facts(codes: NDArray[np.int64]) -> list[_Fact]:
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
        facts.append(_Fact(region, f"{relation} labels of samples", f"{first} and {last}"))
    return sorted(facts, key=_START)


def _read(
    word: str, needed: str, listed: Any, n_samples: int, region_of: Callable[[Any], Region]
) -> list[_Fact]:
    """Check the annotations of one sort, such as change-points, and translate them to regions."""
    try:
        items = list(listed)
    except TypeError:
        raise ValueError(f"PartialPartition needs a list of {word}s, got {listed!r}.") from None
    facts = []
    for given in items:
        try:
            region: Any = given if isinstance(given, Region) else region_of(given)
            start, stop, kind = region.start, region.stop, region.kind
        except TypeError:
            start = stop = kind = None
        whole = isinstance(start, numbers.Integral) and isinstance(stop, numbers.Integral)
        whole = whole and not isinstance(start, bool) and not isinstance(stop, bool)
        least = 2 if kind in _KINDS and kind.fewest else 1
        if not (whole and kind in _KINDS and 0 <= start <= stop - least and stop <= n_samples):
            raise ValueError(f"PartialPartition needs every {word} as {needed}, got {given!r}.")
        facts.append(_Fact(Region(int(start), int(stop), kind), word, given))
    return facts


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
            continue
        # A segment with s ≤ start < stop ≤ u would leave the region without a change.
        floor[stop] = max(floor[stop], start + 1)
        if kind.most == 1:
            np.minimum(ceiling[inside], start + 1, out=ceiling[inside])
            np.maximum(reach[inside], stop - 1, out=reach[inside])
    return SegmentRules(allowed, np.maximum.accumulate(floor), ceiling, reach)


def _feasible(facts: Sequence[_Fact], n_samples: int) -> bool:
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


def _conflict(facts: Sequence[_Fact], n_samples: int) -> list[_Fact]:
    """Find a minimal set of facts that contradict each other, by a few bisections."""
    needed: list[_Fact] = []
    rest = list(facts)
    while _feasible(needed, n_samples):

        def fails(last: int) -> bool:
            """Return whether facts in ``needed`` and in rest[: last + 1] contradict each other."""
            return not _feasible(needed + rest[: last + 1], n_samples)  # noqa: B023

        first = bisect_left(range(len(rest)), True, key=fails)
        needed.append(rest[first])
        rest = rest[:first]
    return needed[::-1]
