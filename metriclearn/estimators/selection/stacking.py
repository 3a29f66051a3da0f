"""Weights of members by least squares in the space of partitions.

N_mi is what member m answers for recording i, from a model that has not seen it, and N_i is the
truth. The weights solve

    min_{q ≥ 0, Σq = 1}  Σ_i ‖Σ_m q_m N_mi − N_i‖²_F + ρ (tr G / m) ‖q − 1/m‖²,

where G_ml = Σ_i ⟨N_mi, N_li⟩. This is Breiman's stacking for partitions: two members that err alike
share a weight, and one that errs otherwise gets more. ρ pulls the weights of few recordings towards
each other, see :func:`pull`.

References
----------
Breiman, Stacked regressions, Machine Learning 24, 1996.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from metriclearn.estimators.reading.given import needing_a_change
from metriclearn.problem.named_segments import NamedPartition
from metriclearn.problem.partition import Partition
from metriclearn.solvers.dual_master import simplex_qp

# With fewer labeled segments, weights are pulled towards each other much more.
FEW = 30


def inner_products(
    answers: Sequence[Partition], truth: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute ⟨N_m, N_l⟩ and ⟨N_m, N⟩ for the answers for one recording, on its labeled stretches.

    For an annotated region that needs a change, 1 stands for an answer with a change inside it, and
    0 for one without.
    Equal answers are compared once, so the cost is O(d²K) for d different answers. The truth of a
    clustering is an array (T,) of codes, −1 where unknown.
    """
    if isinstance(truth, np.ndarray):
        known = np.flatnonzero(truth >= 0)
        rows = [one.labels[known] for one in answers]
        parts = [Partition.from_labels(one) for one in (*rows, truth[known])]
        table = np.array([[one.inner(other) for other in parts] for one in parts])
        return table[:-1, :-1], table[:-1, -1]
    ends = [answer.change_points for answer in answers]
    codes = {key: j for j, key in enumerate(dict.fromkeys(one.tobytes() for one in ends))}
    places = np.array([codes[one.tobytes()] for one in ends])
    different = [ends[j] for j in np.unique(places, return_index=True)[1]]
    n = len(different)
    table = np.zeros((n + 1, n + 1))
    for start, stretch in truth.pieces.stretches:
        stop = stretch[-1]
        inside = [
            np.append(one[(start < one) & (one < stop)], stop) - start
            for one in [*different, stretch]
        ]
        table += _products(np.concatenate(inside), np.cumsum([0, *map(len, inside)]))
    for region in needing_a_change(truth):
        has = [1.0 * ((region.start < one) & (one < region.stop)).any() for one in different]
        table += np.outer([*has, 1.0], [*has, 1.0])
    return table[np.ix_(places, places)], table[places, n]


@njit(nogil=True, cache=True)
def _products(ends: NDArray, starts: NDArray) -> NDArray:
    """Compute ⟨M, N⟩ = Σ n²/(|C||C′|) for all pairs of segmentations, by merging their ends."""
    m = len(starts) - 1
    table = np.zeros((m, m))
    for a in range(m):
        for b in range(a + 1):
            i, j, before, total = starts[a], starts[b], 0, 0.0
            left = right = 0
            while i < starts[a + 1] and j < starts[b + 1]:
                end = min(ends[i], ends[j])
                size = (ends[i] - left) * (ends[j] - right)
                total += (end - before) * ((end - before) / size)
                before = end
                if ends[i] == end:
                    left, i = end, i + 1
                if ends[j] == end:
                    right, j = end, j + 1
            table[a, b] = table[b, a] = total
    return table


def name_products(
    answers: Sequence[Partition], codes: NDArray
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute the shares of samples with equal names, of two answers, and of one and the truth.

    The names of answers and truth are codes; samples with the code −1 do not count. An answer
    without names agrees with none.
    """
    known = np.flatnonzero(codes >= 0)
    rows = np.full((len(answers) + 1, len(known)), -1)
    rows[-1] = codes[known]
    for row, answer in zip(rows, answers):
        if isinstance(answer, NamedPartition):
            row[:] = answer.sample_names[known]
    n = max(1, len(known))
    table = np.array([[np.count_nonzero((a == b) & (a >= 0)) / n for b in rows] for a in rows])
    return table[:-1, :-1], table[:-1, -1]


def stacked_weights(
    G: NDArray, b: NDArray, rho: float, same: NDArray | None = None
) -> NDArray[np.float64]:
    """Solve the problem above for its sums G (m, m) and b_m = Σ_i ⟨N_mi, N_i⟩.

    Members with the same number in ``same`` (m,) share a weight, as one member would have it.
    """
    if same is not None:
        _, first, places = np.unique(same, return_index=True, return_inverse=True)
        found = stacked_weights(G[np.ix_(first, first)], b[first], rho)
        return found[places] / np.bincount(places)[places]
    m = len(b)
    scale = float(np.trace(G)) / m
    if not (scale > 0.0 and np.isfinite(rho)):
        return np.full(m, 1.0 / m)
    H = 2.0 * (G / scale + rho * np.eye(m))
    c = 2.0 * (b / scale + rho / m)
    found = simplex_qp(H, c, np.zeros(m, dtype=np.int64), np.ones(1), 1e-13)
    found = np.maximum(found, 0.0)
    return found / found.sum()


def pull(n_segments: int) -> float:
    """Return ρ for n labeled segments: max(.1, 20/n), and more below 30, where it is 20·30²/n³.

    Few segments do not determine weights, so a handful gives nearly equal ones.
    """
    if n_segments == 0:
        return np.inf
    return max(0.1, 20.0 / n_segments * max(1.0, (FEW / n_segments) ** 2))


def answers_alike(answers: Sequence[Mapping[int, Partition]]) -> NDArray[np.int64]:
    """Number candidates; those that give the same answers for all recordings share a number."""
    keys: dict[Any, int] = {}
    found = []
    for answer in answers:
        names = [getattr(one, "names", np.zeros(0)).tobytes() for one in answer.values()]
        key = (*answer.values(), *names)
        found.append(keys.setdefault(key, len(keys)))
    return np.array(found)
