"""Find the best segmentation into a given number of segments if no penalty leads to this number."""

from __future__ import annotations

import numpy as np

from metriclearn.oracles.change_points.segment_values import (
    allowed_starts,
    called,
    penalty_at,
    segment_value,
)


@called
def best_layers(signal, n_segments, positions, rest, floor):
    """Maximize Σ f − Σ p over segmentations into ``n_segments`` segments; see :mod:`.recursion`.

    Segments may end only at the n ``positions``, which are in ascending order. The last of these
    positions is T. For every prefix, layer k holds the best value of k segments. All K =
    ``n_segments`` layers together take O(K n²) time. ``rest`` (T+1,) is an upper bound on the value
    of the samples from each position on. A prefix is extended only if its value plus ``rest`` at
    its end reaches ``floor``. Returns the value (−inf if there is no segmentation) and the segment
    ends.
    """
    n, min_size = len(positions), signal.min_size
    # value[i]: the best value of the samples before positions[i] in k segments. Before the first
    # layer it is 0 at position 0, whose index is −1. parent[k, j]: the index of the end before
    # positions[j].
    parent = np.full((n_segments, n), -1, dtype=np.int32)
    value = np.full(n, -np.inf)
    for k in range(n_segments):
        # The first layer has only the segments that begin at 0.
        following = np.full(n, -np.inf)
        for i in range(-1 if k == 0 else 0, 0 if k == 0 else n - 1):
            s = 0 if k == 0 else positions[i]
            before = 0.0 if k == 0 else value[i]
            if before == -np.inf or before + rest[s] < floor:
                continue
            for j in range(i + 1, n):
                u = positions[j]
                low, high = allowed_starts(signal.rules, u, u - min_size + 1)
                if low <= s < high:
                    candidate = before + segment_value(signal, s, u)
                    candidate -= penalty_at(signal.penalties, u)
                    if candidate > following[j]:
                        following[j], parent[k, j] = candidate, i
        value = following
    # Walk back from T: each index leads to the index of the end before it.
    ends, j = np.empty(n_segments, dtype=np.int64), n - 1
    if value[j] > -np.inf:
        for k in range(n_segments - 1, -1, -1):
            ends[k] = positions[j]
            j = parent[k, j]
    return value[n - 1], ends
