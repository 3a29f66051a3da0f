"""Combine a person's annotations with predicted segments into the segments on the page.

Annotations keep their exact times. A predicted boundary is between two rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from metriclearn.apps.label_page.annotation import Annotation, row_at
from metriclearn.datasets import UNKNOWN, Segment
from metriclearn.indices import near

_NEAR = 0.75  # rows: a model's boundary this near to a person's is the same boundary


def exact_times(rows: Iterable[int], annotations: Iterable[Annotation], rate: float) -> list[float]:
    """Convert predicted changes to times. Each number in ``rows`` is the first row after a change.

    If a person has annotated a time that is rounded to this row, the annotated time is used. If
    several annotated times are rounded to the same row, boundaries are preferred to starts and ends
    of stretches. Among the remaining times, the time nearest to the row is used.
    """
    given: dict[int, tuple[bool, float, float]] = {}
    for one in annotations:
        for time in (one.start, one.end) if one.kind != "one change" else ():
            row = row_at(time, rate)
            found = (one.kind != "change", abs(time * rate - row), time)
            given[row] = min(given.get(row, found), found)
    return [given[row][-1] if row in given else row / rate for row in rows]


def merged_segments(
    annotations: Sequence[Annotation],
    boundaries: Sequence[float],
    labels: Sequence[str],
    seconds: float,
    rate: float,
) -> list[Segment]:
    """Return segments that cover a recording: annotated segments, and predicted ones between them.

    All boundaries that a person has set are kept at their exact times. Elsewhere, neighboring
    segments with the same name are joined. If names are predicted or annotated, segments without a
    name are called "unknown". Otherwise all labels are empty.

    Parameters
    ----------
    annotations : sequence of Annotation
        The annotations of a person, in the order of time.
    boundaries : sequence of float
        Times of the predicted changes, in increasing order.
    labels : sequence of str
        Labels of the predicted segments, or an empty sequence if names are not predicted.
    seconds : float
        Length of the recording.
    rate : float
        Rows per second of the features.
    """
    segments = [one for one in annotations if one.kind == "segment"]
    fixed = {one.start for one in annotations if one.kind == "change"}
    fixed |= {b.start for a, b in pairwise(segments) if b.start <= a.end and a.label != b.label}
    given = [one for one in annotations if one.kind in ("segment", "no change")]
    predicted = set(_outside(boundaries, given, sorted(fixed), rate))
    ends = {time for one in segments for time in (one.start, one.end)}
    cuts = sorted({0.0, seconds} | fixed | predicted | ends)
    is_named = bool(segments or labels)
    result: list[Segment] = []
    mine = 0  # the first of the person's segments that ends later
    for start, end in pairwise(cuts):
        while mine < len(segments) and segments[mine].end <= start:
            mine += 1
        label = UNKNOWN if is_named else ""
        if mine < len(segments) and segments[mine].start <= start:
            label = segments[mine].label
        elif labels:
            label = labels[int(np.searchsorted(boundaries, (start + end) / 2, side="right"))]
        divided = start in fixed or (label in ("", UNKNOWN) and start in predicted)
        if result and result[-1][2] == label and not divided:
            start = result.pop()[0]
        result.append((start, end, label))
    return result


def _outside(
    times: Sequence[float], stretches: Sequence[Annotation], fixed: Sequence[float], rate: float
) -> list[float]:
    """Select the predicted boundaries outside of annotated stretches.

    Predicted boundaries that are near an annotated boundary are also left out.
    """
    places = np.asarray(times, dtype=float)
    # the end of the last stretch that starts before
    ends = np.array([-np.inf, *(one.end for one in stretches)])
    inside = places < ends[np.searchsorted([one.start for one in stretches], places)]
    is_near = near(places * rate, np.array(fixed) * rate, _NEAR)
    return places[~inside & ~is_near].tolist()
