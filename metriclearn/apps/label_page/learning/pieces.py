"""The labeled rows of recordings, cut into pieces to learn from, to tune on, or to hold out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, compress, pairwise, starmap
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metriclearn import PartialPartition, Partition, Region
from metriclearn.problem import NO_CHANGE

_CONTEXT = 24  # rows of context around labeled stretches, also used for learning
_LONG = 5_000  # rows of a stretch that is learned in parts
_MOST_ROWS = 20_000  # used for learning after a correction; exported models learn from all rows
_MOST_TUNED = 14_000  # rows, on which the penalty is tuned
_MOST_CHANGES = 16  # in a piece on which the penalty is tuned

Piece = tuple[NDArray, Any]  # rows and their labels


class Given(NamedTuple):
    """The annotations of a person as partial labels of the rows of every recording.

    Attributes
    ----------
    partial : list of PartialPartition
        For each recording, the segments as far as they are known from its annotations.
    names : list of str
        The labels that at least one row has.
    codes : list of int arrays (T,)
        For every row, the index of its label in ``names``, or −1 if it has no label.
    """

    partial: list[PartialPartition]
    names: list[str]
    codes: list[NDArray]


class Stretch(NamedTuple):
    """A range of completely labeled rows of a recording, and the segmentation of these rows."""

    recording: int
    rows: slice
    truth: Partition


def stretches_of(labels: Sequence[PartialPartition]) -> list[Stretch]:
    """Return the completely labeled stretches, cut so that each has one or two changes."""
    every = [
        Stretch(i, slice(first, int(ends[-1])), Partition(ends=ends - first))
        for i, partial in enumerate(labels)
        for stretch in partial.pieces.stretches
        for first, ends in _divided(*_inner(*stretch))
        if ends[-1] - first > 2
    ]
    return _some(every, [one.truth.n_samples for one in every])


def labels_of(stretches: Sequence[Stretch], arrays: Sequence[NDArray]) -> list[PartialPartition]:
    """Return partial labels of every recording that know these stretches only."""
    changes: list[list[int]] = [[] for _ in arrays]
    regions: list[list[Region]] = [[] for _ in arrays]
    for i, rows, truth in stretches:
        ends = (rows.start + truth.change_points).tolist()
        changes[i] += ends[:-1]
        regions[i] += [
            Region(a, b, NO_CHANGE) for a, b in pairwise([rows.start, *ends]) if b - a > 1
        ]
    return [
        PartialPartition(len(X), change_points=sorted(cuts), regions=some)
        for X, cuts, some in zip(arrays, changes, regions)
    ]


def pieces_to_learn(arrays: Sequence[NDArray], labels: Sequence[PartialPartition]) -> list[Piece]:
    """Cut out the labeled stretches, and other annotated changes with some rows around them.

    A long stretch is cut into parts, from which we learn several times as fast.
    """
    pieces: list[Piece] = []
    for X, partial in zip(arrays, labels):
        for start, stop in _ranges(partial):
            truth = _part(partial, start, stop)
            if isinstance(truth, Partition) and stop - start > _LONG:
                for a, ends in _divided(0, truth.change_points):
                    pieces.append((X[start + a : start + ends[-1]], Partition(ends=ends - a)))
            else:
                pieces.append((X[start:stop], truth))
    return _some(pieces, [len(X) for X, _ in pieces])


def pieces_to_tune(
    arrays: Sequence[NDArray],
    labels: Sequence[PartialPartition],
    context: int,
    most: int = _MOST_TUNED,
) -> list[Piece]:
    """Cut out the labeled stretches with the rows around them, which their boundaries need.

    Parameters
    ----------
    arrays : list of arrays (T, P)
    labels : list of PartialPartition
    context : int
        Number of rows on each side. With half of it, more boundaries fit into ``most`` rows.
    most : int
        Number of rows after which no further pieces are used.
    """
    for reach in (context, context // 2):
        every = [_in_context(one, max(_CONTEXT, reach)) for one in labels]
        if sum(b - a for spans in every for a, b in spans) <= most:
            break
    pieces = [
        (X[a:b], _part(partial, a, b))
        for X, partial, spans in zip(arrays, labels, every)
        for a, b in spans
    ]
    return _some(pieces, [len(X) for X, _ in pieces], most)


def _in_context(labels: PartialPartition, context: int) -> list[list[int]]:
    """Return the ranges of rows of labeled stretches with the rows around them.

    A range has few changes, because the time to tune on it grows with their square.
    """
    spans: list[list[int]] = []
    n_changes, reached = 0, 0
    for first, ends in chain(*starmap(_divided, labels.pieces.stretches)):
        start, stop = max(0, first - context), min(labels.n_samples, int(ends[-1]) + context)
        if ends[-1] - first <= 2:
            continue
        n_changes += len(ends) - 1
        if spans and start <= spans[-1][1] and n_changes <= _MOST_CHANGES:
            spans[-1][1] = stop
        else:
            if spans and start < spans[-1][1]:
                spans[-1][1] = start = (reached + first) // 2
            spans.append([start, stop])
            n_changes = len(ends) - 1
        reached = int(ends[-1])
    return spans


def _part(labels: PartialPartition, start: int, stop: int) -> Partition | PartialPartition:
    """Return the labels of the rows from ``start`` to ``stop``."""
    part = labels.at(np.arange(start, stop))
    return part.segmentation() or part


def _divided(start: int, ends: NDArray) -> list[tuple[int, NDArray]]:
    """Cut a stretch in the middle of segments, into parts with one or two changes each.

    Returns the first row of every part, and the ends of the segments in the part.
    """
    if not len(ends):
        return []
    middles = [(ends[i] + ends[i + 1]) // 2 for i in range(1, len(ends) - 2, 2)]
    cuts = [start, *middles, int(ends[-1])]
    return [(a, np.append(ends[(ends > a) & (ends < b)], b)) for a, b in pairwise(map(int, cuts))]


def _inner(start: int, ends: NDArray) -> tuple[int, NDArray]:
    """Leave out a single row at an end of a stretch, given by its first row and segment ends.

    Often this row only stands for the other side of a boundary.
    """
    if ends[0] == start + 1:
        start, ends = int(ends[0]), ends[1:]
    is_single = len(ends) and ends[-1] == (start if len(ends) == 1 else ends[-2]) + 1
    return start, ends[:-1] if is_single else ends


def _some(pieces: list[Any], lengths: list[int], most: int = _MOST_ROWS) -> list[Any]:
    """Select pieces with about ``most`` rows in total. The choice is deterministic."""
    order = np.random.default_rng(0).permutation(len(pieces))
    rows = np.array(lengths, dtype=np.int64)[order]
    kept = np.zeros(len(pieces), dtype=bool)
    kept[order[np.cumsum(rows) - rows < most]] = True
    return list(compress(pieces, kept))


def _ranges(labels: PartialPartition) -> list[tuple[int, int]]:
    """Choose the ranges of rows from which a metric is learned.

    A range is a completely labeled stretch, or another annotated change with some rows around it.
    """
    pieces = labels.pieces
    spans = [(start, int(ends[-1])) for start, ends in pieces.stretches]
    ranges = [(start, stop) for start, stop in spans if stop - start > 2]
    short = [(start, stop) for start, stop in spans if stop - start <= 2]
    for start, stop in short + [(region.start, region.stop) for region in pieces.regions]:
        # context ends one row inside the neighboring ranges, where no change is possible
        before = max([b for _, b in ranges if b <= start + 1], default=0)
        after = min([a for a, _ in ranges if a >= stop - 1], default=labels.n_samples)
        first = max(before - 1, start - _CONTEXT, 0)
        ranges.append((first, min(after + 1, stop + _CONTEXT, labels.n_samples)))
    return sorted(ranges)
