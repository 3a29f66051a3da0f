"""Find the best named segments if transitions between names have costs.

The recursion has one state for every name. Let τ(c, c′) be the cost if a segment named c′ follows a
segment named c. The cost is ∞ if c′ must not follow c. Then

    F(u, c′) = max_s max_c F(s, c) − τ(c, c′) + f(s,u) + E_c′(u) − E_c′(s) − p_u,

where τ is omitted if s = 0. See :mod:`.segment_values` for f and E. p_u is the penalty of a change
at u. As E_c′(u) is the same for all starts, we store H(s, c′) = max_c F(s, c) − τ(c, c′) − E_c′(s)
for every start s and name c′. Then F(u, c′) = E_c′(u) − p_u + max_s [H(s, c′) + f(s,u)], so f(s,u)
is computed only once for all names.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from metriclearn.oracles.change_points.segment_values import (
    LIGHT,
    WITHIN,
    allowed_starts,
    called,
    legal_from,
    penalty_at,
    segment_value,
    split_slack,
)

_NEVER = 2**31 - 1


@called
def best_named(signal, names):
    """Maximize Σ f + Σ scores of names − Σ τ − Σ p over segmentations and names of their segments.

    ``signal`` must have no names, because ``names`` is a separate argument. Each end takes O(r + C)
    time for each live start, and O(C²) time for all pairs of names. F, H and two back-pointers take
    24 bytes of memory for each sample and name.

    A start s is dropped once it cannot win under any name. Claim: if H(s, c) + f(s,t) + slack(t) ≤
    H(t, c), then t is at least as good as s for the name c at every end u where (s,u] may be split
    at t. Proof: by (*) of :mod:`.bounds`, H(s, c) + f(s,u) ≤ H(s, c) + f(s,t) + slack(t) + f(t,u)
    ≤ H(t, c) + f(t,u). If (s,u] may have the name c, so may (t,u], because every name given in
    (t,u] is also given in (s,u]. If another name is given in (s,t], a segment from s past t cannot
    have the name c, so c is not tested.

    Returns
    -------
    F : array (T+1, C)
        For every position and name, the best value of a segmentation of the samples before this
        position whose last segment has this name, less the penalty of a change there.
    H : array (T+1, C)
        H(s, c′) for every start s and name c′, as defined at the top of this file.
    ends : int array (K,)
        The segment ends of the best segmentation of all samples; empty if there is none.
    """
    E, given, costs = names
    T, C, min_size = E.shape[0] - 1, E.shape[1], signal.min_size
    F, H = np.full((T + 1, C), -np.inf), np.full((T + 1, C), -np.inf)
    last, before = np.empty((T + 1, C), dtype=np.int32), np.empty((T + 1, C), dtype=np.int32)
    live, expiry, values = np.empty(T + 1, np.int32), np.empty(T + 1, np.int32), np.empty(T + 1)
    F[0], H[0], n_live = 0.0, 0.0, 0
    for u in range(min_size, T + 1):
        if H[u - min_size].max() > -np.inf:
            live[n_live], expiry[n_live], n_live = u - min_size, _NEVER, n_live + 1
        low, high = allowed_starts(signal.rules, u, u - min_size + 1)
        if low >= high:
            continue
        for j in range(n_live):
            s = live[j]
            values[j] = segment_value(signal, s, u)
            if low <= s < high:
                _try(F[u], last[u], H[s], values[j], s, _given_name(given, s, u))
        for name in range(C):
            F[u, name] += E[u, name] - penalty_at(signal.penalties, u)
        _enter(F[u], E[u], costs, H[u], before[u])
        # Starts before ``low`` are not allowed from now on.
        slack = split_slack(signal.slack, signal.weight, signal.c, u)
        until, kept = legal_from(signal.rules, u, min_size), 0
        for j in range(n_live):
            s, end = live[j], expiry[j]
            if _is_beaten(H[s], values[j] + slack, H[u], _given_name(given, s, u)):
                end = min(end, until)
            if s >= low and end > u + 1:
                live[kept], expiry[kept], kept = s, end, kept + 1
        n_live = kept
    return F, H, _walk_back(F[T], last, before)


@njit(**LIGHT)
def _given_name(given, s, u):
    """Return the name that is given in (s,u], or −1 if none is given."""
    return given[1, s] if given.shape[1] and given[0, s] <= u else -1


@njit(**LIGHT)
def _try(best, last, entered, value, s, only):
    """For every name, replace the best start so far by s if s is better."""
    for name in range(len(best)):
        if entered[name] + value > best[name] and (only < 0 or only == name):
            best[name], last[name] = entered[name] + value, s


@njit(**LIGHT)
def _enter(values, emissions, costs, entered, before):
    """Compute H at a position from F at this position.

    For every name, also store the best name of the preceding segment.
    """
    for name in range(len(values)):
        for previous in range(len(values)):
            value = values[previous] - costs[previous, name] - emissions[name]
            if value > entered[name]:
                entered[name], before[name] = value, previous


@njit(**LIGHT)
def _is_beaten(entered, value, rival, only):
    """Return whether the start ``rival`` is at least as good under every name that may be used."""
    for name in range(len(entered)):
        if entered[name] + value > rival[name] and (only < 0 or only == name):
            return False
    return True


@njit(**WITHIN)
def _walk_back(values, last, before):
    """Follow the back-pointers, and return the segment ends of the best segmentation.

    ``last`` holds the start of the last segment for every end and name. ``before`` holds the best
    name of the preceding segment for every start and name.
    """
    ends, n, t = np.empty(len(last), dtype=np.int64), 0, len(last) - 1
    name = np.argmax(values)
    if values[name] > -np.inf:
        while t > 0:
            ends[n], n = t, n + 1
            t = last[t, name]
            name = before[t, name]
    return ends[:n][::-1].copy()


@called
def best_named_layers(signal, names, n_segments, positions, rest, floor):
    """Maximize the same sum as :func:`best_named`, over segmentations into ``n_segments`` segments.

    Segments may end only at the n ``positions``, which are in ascending order. The last of these
    positions is T. The time is O(K n² (r + C) + K n C²). ``rest`` (T+1, C) is an upper bound on the
    value of the samples from each position on, for every name of the segment that begins there. A
    prefix is extended only if its value plus ``rest`` reaches ``floor`` for some name of the next
    segment. Returns the value (−inf if there is no segmentation) and the segment ends.
    """
    E, given, costs = names
    n, C = len(positions), E.shape[1]
    # H[i] belongs to the prefixes in k segments that end at positions[i], and H[n] to position 0.
    H, place = np.full((n + 1, C), -np.inf), np.full((n_segments, n, C), -1, dtype=np.int32)
    before = np.empty((n_segments + 1, n + 1, C), dtype=np.int32)
    H[n], F = 0.0, np.full((n, C), -np.inf)
    for k in range(n_segments):
        F[:] = -np.inf
        for i in range(n if k == 0 else 0, n + 1 if k == 0 else n - 1):
            s = 0 if i == n else positions[i]
            if (H[i] + E[s] + rest[s]).max() < floor:
                continue
            for j in range(0 if i == n else i + 1, n):
                u = positions[j]
                low, high = allowed_starts(signal.rules, u, u - signal.min_size + 1)
                if low <= s < high:
                    value = segment_value(signal, s, u) - penalty_at(signal.penalties, u)
                    _try(F[j], place[k, j], H[i], value, i, _given_name(given, s, u))
        H[:] = -np.inf
        for j in range(n):
            F[j] += E[positions[j]]
            _enter(F[j], E[positions[j]], costs, H[j], before[k + 1, j])
    ends, j, name = np.empty(n_segments, dtype=np.int64), n - 1, np.argmax(F[n - 1])
    if F[j, name] > -np.inf:
        for k in range(n_segments - 1, -1, -1):
            ends[k], j = positions[j], place[k, j, name]
            name = before[k, j, name]
    return F[n - 1].max(), ends
