"""Find the segmentation with the least expected loss, or a clustering with a small expected loss.

The expected loss is the weighted mean of the losses against the members of a consensus. The members
are partitions N_j with weights q_j (see
:class:`~metriclearn.problem.consensus_form.ConsensusForm`). The segmentation is found by an exact
dynamic program. The value of a segment (s,u] is

    f(s,u) = 2 Σ_j q_j Σ_k |(s,u] ∩ C_jk|² / (|C_jk| (u−s)) − 1 + β max_c [V_c(u) − V_c(s)],

where C_jk are the segments of member j, β is the ``name_loss`` of the form, and V_c are the
cumulative votes of the members for the name c.

**Only segment ends of members need to be tried.** Let one boundary t of a segmentation move between
two neighboring segment ends of members. Every overlap is an affine function of t. Each term of f is
the square of an affine function, divided by a positive affine function, so each term is convex. The
term of the votes is a maximum of affine functions, so it is convex, too. A convex function is
largest at an end of the interval in which t moves. There, t meets a segment end of a member, or the
next boundary of the segmentation itself. In the second case, the segment between the two boundaries
vanishes. The f of this segment tends to −1, so the segmentation without this segment is better. If
the number K of segments is given, another segment can be split instead, because splits never lower
the sum of f + 1. With β = 0, names do not move boundaries, and each segment has the name with the
most votes. The method ``shifted`` of the form may replace the −1 in f by a positive number. Then
the f of a vanishing segment tends to this number, so all positions must be tried. If there are
annotations, the borders of their regions also bound the interval, so these borders are tried, too.

**Starts are dropped** by the rule of PELT. If a segment is divided, its value f + 1 is at most the
sum of the values f + 1 of the parts. So once F(s) + f(s,u) + 1 < F(u), no best segmentation has a
segment that begins at s and ends after u.

**Clusterings** come from a local search. The mean expected loss of the members themselves is Σ_ij
q_i q_j ‖N_i − N_j‖² = 2 Σ_j q_j ‖N_j − N̄‖². Among all matrices, N̄ = Σ_j q_j N_j has the least
expected loss, Σ_j q_j ‖N_j − N̄‖². This loss is half of the mean over the members. The best member
is no worse than the mean. So the expected loss of the best member is at most twice the least
possible expected loss. The search starts from this member.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from metriclearn.oracles.change_points.segment_values import LIGHT, NO_RULES, called, name_score
from metriclearn.oracles.local_search import Bounds, LocalSearch
from metriclearn.oracles.summed_area import followed
from metriclearn.problem.consensus_form import ConsensusForm
from metriclearn.problem.named_segments import NO_SCORES, NamedPartition, NameScores
from metriclearn.problem.partial_labels import PartialPartition
from metriclearn.problem.partition import Partition, check_count
from metriclearn.problem.regions import segment_rules


def best_consensus(
    form: ConsensusForm, n_segments: int | None = None, known: PartialPartition | None = None
) -> Partition:
    """Find the segmentation with the largest ⟨A, M⟩ among those that agree with ``known``.

    If the m members have E different segment ends, the time is O(mE²) in the worst case. Usually
    few starts survive, and the time is O(mE). If the number K of segments is given, the time is
    O((m + K) E²).

    Parameters
    ----------
    form : ConsensusForm
        Its members must be segmentations.
    n_segments : int, optional
    known : PartialPartition, optional

    Returns
    -------
    Partition, or NamedPartition if members have names

    Raises
    ------
    ValueError
        If no segmentation agrees with the annotations and the number of segments.
    """
    T = form.n_samples
    n_segments, _ = check_count("Segmenter", T, n_segments, 1)
    ends = [member.change_points for member in form.members]
    positions = np.unique(np.concatenate([[0], *ends]))
    allowed, names, naming = NO_RULES, NO_SCORES, NO_SCORES
    if known is not None:
        # The change that an annotation requires or allows may lie next to one of its borders.
        borders = np.array([(r.start, r.start + 1, r.stop - 1, r.stop) for r in known.constraints])
        positions = np.union1d(positions, np.clip(borders.astype(np.int64), 0, T))
        rules = np.array(segment_rules(known.constraints, T))[:, : T + 1]
    if form.shift > 1.0 or (n_segments is not None and known is not None):
        # Splits in place of vanished segments may be anywhere, even where annotations matter.
        positions = np.arange(T + 1)
    elif n_segments is not None and n_segments >= len(positions):
        # Try all ends of members, and as many other positions as are needed. Splits at the other
        # positions neither lower nor raise the sum of f + 1.
        others = np.setdiff1d(np.arange(T + 1), positions)
        positions = np.union1d(positions, others[: n_segments + 1 - len(positions)])
    if form.named:
        given = getattr(known, "names", None)
        used = [member.names for _, member in form.named] + ([] if given is None else [given])
        # The votes whose cumulative sums are V_c: the weight of the members that name a sample c.
        votes = np.zeros((T, 1 + max(int(one.max()) for one in used)))
        for q, member in form.named:
            votes[np.arange(T), member.sample_names] += q
        if given is not None:
            # Two different given names need a change between them, where no member may have one.
            positions = np.union1d(positions, np.flatnonzero(np.diff(given)) + 1)
        naming = NameScores.of(votes, given)
        if form.name_loss or given is not None:  # else names do not matter for boundaries
            names = NameScores.of(form.name_loss * votes, given)
    table = overlap_table(ends, [0] * len(ends), positions)
    if known is not None:
        allowed = np.ascontiguousarray(rules[:, positions])
    scores = (names.emissions, names.given, positions)
    signal = (positions, table, 2.0 * form.weights, scores, allowed, form.shift - 1.0)
    back, value = _layers(*signal, n_segments) if n_segments else _recursion(*signal)
    if value == -np.inf:
        raise ValueError(
            f"Segmenter needs a segmentation of {T} samples that agrees with the annotations"
            f"{'' if n_segments is None else f' and has {n_segments} segments'}, but there is none."
        )
    found = positions[followed(back)]
    if not form.named:
        return Partition(ends=found)
    return NamedPartition(found, naming.names_of(found))


def best_clustering(form: ConsensusForm, n_clusters: int | None = None) -> Bounds:
    """Return a clustering with large ⟨A, M⟩, its value, and the value of the relaxation.

    One local search starts from the rounded relaxation, and another starts from the best member
    with ``n_clusters`` clusters (any number if it is None). So the expected loss of the result is
    at most the expected loss of this member. If ``n_clusters`` is None, or all members have this
    number of clusters, the expected loss of the result is at most twice the least possible expected
    loss. Let r be the total number of clusters of the members. The time is O(T m² + T r²), and O(K
    T r) more for each pass of a local search.
    """
    search, linear, free = LocalSearch(), form.low_rank(), n_clusters is None
    found = search.bounds(linear, n_clusters)
    starts = [member for member in form.members if free or member.n_clusters == n_clusters]
    if starts:
        better = search.improved(linear, max(starts, key=form.at), free)
        value = form.at(better)
        if value > found.lower:
            found = Bounds(better, value, max(value, found.upper))
    return found


def overlap_table(
    members: Sequence[NDArray], firsts: Sequence[int], positions: NDArray
) -> NDArray[np.float64]:
    """Make a table (4, E, m) with four numbers for every position and member.

    From these numbers, the overlap of any segment with the segments of a member can be computed. If
    a position is the end u of a segment (s,u], the first three numbers are used. The first two
    numbers are the start and 1/size of the member's segment C_k that contains sample u−1. The third
    number is the part of the overlap Σ_k |(s,u] ∩ C_k|²/|C_k| that depends on u, if s lies in an
    earlier segment of the member. If a position is the start s of a segment, the fourth number is
    used. The fourth number is the part of the overlap that depends on s, if u lies in a later
    segment of the member.

    Parameters
    ----------
    members : sequence of int arrays
        The segment ends of each member.
    firsts : sequence of int
        Start of the first segment of each member.
    positions : int array (E,)
        The positions that are tried as segment ends.
    """
    tables = []
    for ends, first in zip(members, firsts):
        starts = np.append(first, ends[:-1])
        # The member's segments that hold the samples before and after a position. No sample is
        # before position 0 or after position T. These two take the neighboring segment, whose
        # numbers are not read.
        last = np.searchsorted(ends, np.maximum(positions, 1))
        next_ = np.minimum(np.searchsorted(ends, positions, side="right"), len(ends) - 1)
        # Whole segments before u add their sizes, in sum the start of the segment that holds u.
        size = (ends - starts).astype(np.float64)
        start = starts[last].astype(np.float64)
        before = start + (positions - start) ** 2 / size[last]
        after = (ends[next_] - positions) ** 2 / size[next_] - ends[next_]
        tables.append([start, 1.0 / size[last], before, after])
    return np.array(tables).transpose(1, 2, 0).copy()


@njit(**LIGHT)
def _value(positions, table, weights, names, c, s, u):
    """Return the value f of the segment between the positions with the indices s and u."""
    length, total = positions[u] - positions[s], 0.0
    for j in range(len(weights)):
        if positions[s] >= table[0, u, j]:  # both in one segment of member j
            total += weights[j] * length * length * table[1, u, j]
        else:
            total += weights[j] * (table[2, u, j] + table[3, s, j])
    total = total / length + c
    if names[0].shape[1]:
        total += name_score(names[0], names[1], names[2][s], names[2][u])
    return total


@njit(**LIGHT)
def _is_allowed(positions, rules, s, u):
    """Return whether annotations allow the segment between positions with the indices s and u."""
    if rules.shape[1] == 0:
        return True
    return rules[0, u] != 0 and rules[1, u] <= positions[s] < rules[2, u]


def _recursion(positions: NDArray, *terms: Any) -> tuple[NDArray, float]:
    """Find the best segmentation into any number of segments, as back-pointers, and its value.

    The back-pointers have the shape (1, E). In the best segmentation of the samples before position
    u, the last segment starts at position ``back[0, u]``.
    """
    n = len(positions)
    best, back, live = np.zeros(n), np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    advance((positions, *terms), best, back, live, 1, 1)
    return back.reshape(1, n), best[n - 1]


@called
def advance(program, best, back, live, n_live, first):
    """Continue the recursion from the position with index ``first`` on.

    Returns the number of live starts.

    Parameters
    ----------
    program : tuple
        The positions, the table of overlaps, the weights 2q, the scores of names (with the index of
        every position in these scores), the rules, and the shift of the form minus 1.
    best, back : arrays (E,)
        For every position, the value of the best segmentation of the samples before it, and the
        start of the last segment of this segmentation. Starts are indices of positions.
    live : array (E,)
        Its first ``n_live`` entries are the starts that may still win.
    """
    positions, table, weights, names, rules, c = program
    values = np.empty(len(positions))
    for u in range(first, len(positions)):
        best[u] = -np.inf
        for i in range(n_live):
            s = live[i]
            values[i] = best[s] + _value(positions, table, weights, names, c, s, u)
            if values[i] > best[u] and _is_allowed(positions, rules, s, u):
                best[u], back[u] = values[i], s
        kept = 0
        for i in range(n_live):
            # PELT, as above: f − c of a segment is at most the sum of f − c of its parts. The last
            # term allows for rounding. With annotations no start is dropped, because they may
            # forbid a change at u.
            if rules.shape[1] or values[i] - c >= best[u] - 1e-9 * (1.0 + abs(best[u])):
                live[kept] = live[i]
                kept += 1
        live[kept] = u
        n_live = kept + 1
    return n_live


@called
def _layers(positions, table, weights, names, rules, c, count):
    """Find the best segmentation into ``count`` segments, as back-pointers, and its value.

    The back-pointers have the shape (count+1, E). In the best segmentation of the samples before
    position u into k segments, the last segment starts at position ``back[k, u]``.
    """
    n = len(positions)
    best, back = np.full((count + 1, n), -np.inf), np.zeros((count + 1, n), dtype=np.int64)
    best[0, 0] = 0.0
    for u in range(1, n):
        # No start is dropped: PELT's rule compares values whose numbers of segments differ.
        for s in range(u):
            if not _is_allowed(positions, rules, s, u):
                continue
            value = _value(positions, table, weights, names, c, s, u)
            for k in range(1, count + 1):
                if best[k - 1, s] + value > best[k, u]:
                    best[k, u], back[k, u] = best[k - 1, s] + value, s
    return back, best[count, n - 1]
