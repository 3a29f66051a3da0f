"""Store partial labels of a partition: sample labels, changes, unchanged spans, and regions."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.problem.charges import Charges, charge_table
from metriclearn.problem.facts import (
    OPEN,
    START,
    Fact,
    are_feasible,
    conflict,
    deduce,
    label_facts,
    read_facts,
)
from metriclearn.problem.partition import Partition, codes_of_known
from metriclearn.problem.regions import (
    AT_LEAST_ONE,
    NO_CHANGE,
    ChangeCount,
    Pieces,
    Region,
    as_index,
)
from metriclearn.running.values import check_each, shown


class Listed(NamedTuple):
    """Regions with their bounds, so that those near a few rows are found in little time.

    Attributes
    ----------
    regions : list of Region
    starts, stops : int arrays
    """

    regions: list[Region]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]

    @classmethod
    def of(cls, regions: Iterable[Region]) -> Self:
        """List regions in their order."""
        listed = list(regions)
        bounds = np.array([(one.start, one.stop) for one in listed], dtype=np.int64)
        return cls(listed, *bounds.reshape(-1, 2).T)

    def near(self, first: int, last: int) -> list[Region]:
        """Return the regions with a position between the rows ``first`` and ``last``."""
        places = np.flatnonzero((self.starts < last) & (self.stops - 1 > first))
        return [self.regions[i] for i in places.tolist()]


class PartialPartition:
    """Partial labels of a partition of samples 0 … T-1.

    All annotations must hold at once. For a segmentation, all annotations are translated to
    regions. Between two neighboring samples there is no change if their labels are equal, and a
    change if their labels differ. A gap between two labeled stretches has at least one change if
    their labels differ. If the labels are equal, the gap may hold any changes, because a label may
    recur. For a clustering, equal labels mean the same cluster everywhere, different labels mean
    different clusters, and the samples of a ``same`` span share a cluster. Change-points and
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
        T = as_index(n_samples)
        if not 1 <= T <= 2**31:
            raise ValueError(
                "PartialPartition needs at least one sample, and at most 2**31, got "
                f"{shown(n_samples)}."
            )
        self.n_samples: int = T
        codes = np.full(T, -1) if labels is None else codes_of_known(labels)
        check_each("PartialPartition", "label (−1 where unknown)", len(codes), "samples", T)
        codes.setflags(write=False)
        self.labels: NDArray[np.int64] = codes

        def around(t: Any) -> Region:
            """Return a region whose only possible change is at t, without effect for t = T."""
            t = as_index(t)
            return Region(t - 1, min(t + 1, T), AT_LEAST_ONE if t < T else NO_CHANGE)

        needed = f"whole numbers start and stop, 0 ≤ start < stop ≤ {T}"
        cuts = read_facts(
            "change-point", f"a whole number from 1 to {T - 1}", change_points, T, around
        )
        spans = read_facts("same span", needed, same, T, lambda pair: Region(*(*pair, NO_CHANGE)))
        needed += ", two samples for a change, and a kind such as NO_CHANGE"
        annotated = read_facts("region", needed, regions, T, lambda triple: Region(*triple))
        same_of, region_of = attrgetter("region.start", "region.stop"), attrgetter("region")
        self.same: tuple[tuple[int, int], ...] = tuple(map(same_of, spans))
        self.regions: tuple[Region, ...] = tuple(map(region_of, annotated))
        cuts = sorted(set(cuts), key=START)
        given = [*label_facts(self.labels), *cuts, *spans, *annotated]
        start = 0
        for cut in cuts if cuts and cuts[-1].region.start == T - 1 else ():
            stop = cut.region.start + 1
            given.append(Fact(Region(start, stop, NO_CHANGE), "segment", (start, stop)))
            start = stop
        facts = [fact for fact in given if fact.region.is_limit]
        # Labels alone never contradict each other.
        if (cuts or spans or annotated) and not are_feasible(facts, T):
            named = ", ".join(f"the {fact.sort} {fact.given}" for fact in conflict(facts, T))
            raise ValueError(
                "PartialPartition needs annotations that one segmentation can satisfy, but these "
                f"contradict each other: {named}; change or remove one of them."
            )
        self.constraints: tuple[Region, ...] = tuple(map(region_of, facts))
        self._content: tuple = T, self.labels.tobytes(), self.same, self.constraints

    @property
    def partial_labels(self) -> Self:
        """The object itself. A completion has its partial labels under the same name."""
        return self

    @classmethod
    def from_partition(cls, partition: Partition | PartialPartition) -> PartialPartition:
        """Make partial labels that contain all labels of a partition. Partial labels stay."""
        if isinstance(partition, PartialPartition):
            return partition
        return cls(partition.n_samples, labels=partition.labels)

    def with_completion(self, partition: Partition) -> CompletedPartition:
        """Return a copy of ``partition`` that is marked as a completion of these labels.

        Raises
        ------
        ValueError
            If ``partition`` has another number of samples.
        """
        return CompletedPartition(partition, self)

    def allows(self, partition: Partition) -> bool:
        """Return whether a segmentation agrees with all constraints, in O((K + regions) log K)."""
        ends = partition.change_points[:-1]
        same_samples = partition.n_samples == self.n_samples
        return same_samples and all(region.allows(ends) for region in self.constraints)

    def label_errors(self, partition: Partition) -> tuple[int, int]:
        """Count the false positives and the false negatives of a segmentation on ``regions``.

        As in penalty learning, a region with more changes than annotated is one false positive, and
        a region with fewer is one false negative.

        Raises
        ------
        ValueError
            If the segmentation does not have T samples.
        """
        check_each("label_errors", "label", partition.n_samples, "samples", self.n_samples)
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
        changes = np.full(T + 1, OPEN, dtype=np.int8)
        regions, before = set(self.constraints), None
        while before != (regions, changes.tobytes()):
            before = regions, changes.tobytes()
            regions = deduce(regions, changes)
        settled = np.flatnonzero(np.diff(changes != OPEN)) + 1
        stretches = []
        # Positions first … stop−1 are settled.
        for first, stop in settled.reshape(-1, 2):
            inner = np.flatnonzero(changes[first:stop]) + first
            ends = np.append(inner, stop)
            ends.setflags(write=False)
            stretches.append((int(first) - 1, ends))
        return Pieces(stretches, sorted(regions, key=attrgetter("start", "stop")))

    @cached_property
    def facts(self) -> Listed:
        """The regions of ``pieces``, and those that say the same as the known stretches."""
        return Listed.of(self.pieces.every())

    @cached_property
    def _wide(self) -> Listed:
        return Listed.of(self.pieces.widened())

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

    @property
    def is_whole(self) -> bool:
        """Whether the segmentation is known at every position."""
        return self.segmentation() is not None

    def at(self, kept: NDArray[np.int64]) -> PartialPartition:
        """Return the labels of the kept rows: all regions that follow from the labels together.

        A change between two kept rows stands for all changes between them, see :meth:`Region.at`.
        """
        first, last = int(kept[0]), int(kept[-1])
        # In a wider region, more changes between kept rows are in the region for certain.
        near = self.facts.near(first, last)
        if last - first >= len(kept):
            near += self._wide.near(first, last)
        regions = dict.fromkeys(seen for region in near for seen in region.at(kept))
        return PartialPartition(len(kept), regions=regions)

    def mirrored(self) -> PartialPartition:
        """Return the same constraints for reversed samples. Labels become constraints."""
        T = self.n_samples
        return PartialPartition(T, regions=[region.mirrored(T) for region in self.constraints])

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickle, without what can be computed again.

        The table of charges would be much larger than the rest of the state.
        """
        again = "pieces", "facts", "_wide", "charges"
        return {k: v for k, v in vars(self).items() if k not in again}

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


class CompletedPartition(Partition):
    """A partition that completes partial labels.

    Parameters
    ----------
    partition : Partition
    partial_labels : PartialPartition
        The labels that were given.

    Raises
    ------
    ValueError
        If the two differ in the number of samples.
    """

    def __init__(self, partition: Partition, partial_labels: PartialPartition) -> None:
        n_samples = partial_labels.n_samples
        check_each("A completion", "label", partition.n_samples, "samples", n_samples)
        given = {"ends": partition.ends} if partition.contiguous else {"labels": partition.labels}
        Partition.__init__(self, **given)
        self.partial_labels = partial_labels

    @cached_property
    def share(self) -> NDArray[np.float64]:
        """The diagonal of D in :class:`~metriclearn.problem.losses.FrobeniusLoss`, (T,).

        It is 1 for labeled samples and 0 for others.
        """
        return (self.partial_labels.labels >= 0).astype(np.float64)

    @property
    def labeled_trace(self) -> float:
        """Tr DM: the sum of 1/|C(t)| over labeled samples t, where C(t) is the cluster of t."""
        return float(np.sum(self.share / self.sizes[self.labels]))

    def labeled_product(self, V: NDArray) -> NDArray:
        """Return the product (DM + MD) V, (T, k) -> (T, k), in O(Tk)."""
        share = self.share[:, None]
        return share * self.project(V) + self.project(share * V)


class LabeledPartial(PartialPartition):
    """Partial labels of a segmentation, with the labels of samples as people give them.

    As for :class:`~metriclearn.problem.partition.LabeledPartition`, neighboring segments may have
    the same label. A change may lie next to unlabeled samples.

    Parameters
    ----------
    known : PartialPartition
        Everything known about changes.
    values : array (T,)
        The label of every sample, −1 where it is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> known = PartialPartition(3, change_points=[2], same=[(0, 2)])
    >>> LabeledPartial(known, np.array(["a", "a", -1], dtype=object)).sample_labels.tolist()
    ['a', 'a', -1]
    """

    def __init__(self, known: PartialPartition, values: NDArray) -> None:
        # The constraints were checked before, so they are copied unchecked.
        self.__dict__.update(known.__getstate__())
        self.sample_labels = np.array(values)
        self.sample_labels.setflags(write=False)
        self._content = (*known._content, tuple(self.sample_labels.tolist()))


def fewest_changes(labels: Partition | PartialPartition) -> int:
    """Return the least number of changes of a segmentation that agrees with the labels."""
    if isinstance(labels, Partition):
        return labels.n_clusters - 1
    pieces, count, last = labels.pieces, 0, -1
    for _, ends in pieces.stretches:
        count += len(ends) - 1
    # Regions that overlap can share a change. No region that needs a change holds another, so a
    # change at the last position of a region serves as many of the following regions as possible.
    # A region with at most one change does not hold two of these changes, because it would hold the
    # whole region of the second one.
    for region in pieces.regions:
        if region.kind.fewest and last <= region.start:
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
