"""Segments of a recording in seconds: labels of rows, boundaries, and unlabeled time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain, groupby, pairwise
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from metriclearn.datasets.segment_labels import name_classes
from metriclearn.running.notes import note

Segment = tuple[float, float, str]
_TOUCHING = 6e-4  # seconds between segments that touch, as some formats round to ms
_LOOSE = 0.25  # of the median segment: people leave so much time between segments that touch
_SHORTEST = 1e-3 - 1e-9  # seconds of a segment that all formats keep
UNKNOWN = "unknown"  # label of unlabeled time next to labeled time
BACKGROUND = "background"  # label of the time between events, if most do not touch


def row_labels(
    segments: Sequence[Segment], n_rows: int, rate: float, gap: str | None = None
) -> NDArray[np.str_]:
    """Label of every row t: the label of the segment that contains the time (t + ½)/rate.

    Parameters
    ----------
    segments : sequence of (start, end, label)
        In order of time. Times are in seconds. At least one.
    n_rows : int
    rate : float
        Rows per second.
    gap : str, optional
        Label of rows that are in no segment. By default, such a row gets the label of the nearest
        segment in time, of two the earlier.

    Returns
    -------
    array (n_rows,) of str

    Raises
    ------
    IndexError
        If there is no segment.

    See Also
    --------
    load_recordings : labels the rows of recordings in this way.

    Examples
    --------
    >>> from metriclearn.datasets import row_labels
    >>> row_labels([(0.0, 1.5, "a"), (1.5, 3.0, "b")], 3, rate=1.0).tolist()
    ['a', 'b', 'b']
    """
    middles = (np.arange(n_rows) + 0.5) / rate
    starts, ends = (np.array([segment[i] for segment in segments]) for i in (0, 1))
    names = np.array([segment[2] for segment in segments])
    place = np.clip(np.searchsorted(starts, middles, side="right") - 1, 0, None)
    outside = (middles < starts[place]) | (middles >= ends[place])
    following = np.minimum(place + 1, len(segments) - 1)
    nearer = np.abs(starts[following] - middles) < np.abs(middles - ends[place])
    place = np.where(outside & nearer, following, place)
    return names[place] if gap is None else np.where(outside, np.array(gap), names[place])


def untold_starts(segments: Sequence[Segment], n_rows: int, rate: float) -> NDArray[np.int64]:
    """First rows of segments at boundaries that labels of rows cannot tell.

    A boundary is where two segments touch. :func:`row_labels` does not show it if both have the
    same label, or if one of them is called "unknown", which marks unlabeled rows. If segments
    called "unknown" fill the time between others, or up to an end of the recording, only the labels
    end there, and no boundary is known.

    Parameters
    ----------
    segments : sequence of (start, end, label)
        In order of time. Times are in seconds.
    n_rows : int
    rate : float
        Rows per second.

    Returns
    -------
    array (k,) of int, increasing

    Raises
    ------
    ValueError
        If a segment does not consist of three values.

    See Also
    --------
    row_labels : gives the labels of rows.
    with_boundaries : makes segments next to boundaries.

    Examples
    --------
    >>> from metriclearn.datasets import untold_starts
    >>> untold_starts([(0.0, 2.0, "a"), (2.0, 4.0, "a"), (4.0, 5.0, "b")], 5, rate=1.0).tolist()
    [2]
    >>> untold_starts([(0.0, 2.0, "a"), (2.0, 3.0, "unknown"), (6.0, 9.0, "b")], 9, 1.0).tolist()
    [2]
    """
    runs: list[list[Segment]] = []  # touching segments with one label
    for one in segments:
        if runs and one[2] == runs[-1][-1][2] and _touch(runs[-1][-1], one):
            runs[-1].append(one)
        else:
            runs.append([one])
    touching = [start for run in runs for start, *_ in run[1:]]
    for before, run, after in zip([None, *runs], runs, [*runs[1:], None]):
        (start, first, label), (last, end, _) = run[0], run[-1]
        if label != UNKNOWN:
            continue
        left = bool(before and _touch(before[-1], run[0]))
        right = bool(after and _touch(run[-1], after[0]))
        is_begun = left or (before is None and start < (first - start) / 2)
        is_ended = right or (after is None and n_rows / rate - end < (end - last) / 2)
        if not (is_begun and is_ended):
            touching += [start] * left + [end] * right
    rows = np.searchsorted((np.arange(n_rows) + 0.5) / rate, sorted(touching))
    return np.unique(rows[(rows > 0) & (rows < n_rows)])


def _touch(before: Segment, after: Segment) -> bool:
    return abs(after[0] - before[1]) < _TOUCHING


def with_background(
    where: str,
    tables: Mapping[str, Sequence[Segment]],
    ends: Mapping[str, float],
    shortest: float = 0.0,
    remedy: str = "add segments there",
) -> dict[str, Sequence[Segment]]:
    """Turn the time between events into segments, with a warning.

    Segments are events if most gaps between two of them are long, and so are most of all gaps,
    which include those before the first and after the last segment. A gap is long if it is longer
    than ``shortest`` and than a quarter of the median segment. Other gaps stay as they are.

    Parameters
    ----------
    where : str
        The table of segments, for the warning.
    tables : mapping of str to sequences of (start, end, label)
        The segments of each recording, in order of time. Times are in seconds.
    ends : mapping of str to float
        The recordings that are used, with their ends in seconds.
    shortest : float
        In seconds.
    remedy : str
        For the warning: what to do if this is not right.

    Returns
    -------
    mapping of str to sequences of (start, end, label)
        The new segments are called "background" if labels name classes, or if all events have one
        name. They are joined with segments of this name that they touch. Otherwise each new segment
        has a different name, or none if events have none.

    Raises
    ------
    KeyError
        If a recording of ``ends`` is not in ``tables``.

    See Also
    --------
    load_recordings : does so by default.

    Examples
    --------
    >>> import warnings
    >>> from metriclearn.datasets import with_background
    >>> with warnings.catch_warnings(action="ignore"):
    ...     with_background("calls.csv", {"a": [(2.0, 3.0, "call")]}, {"a": 5.0})["a"]
    [(0.0, 2.0, 'background'), (2.0, 3.0, 'call'), (3.0, 5.0, 'background')]
    """
    used = {name: tables[name] for name in ends}
    sizes = [b - a for spans in used.values() for a, b, _ in spans]
    shortest = max(shortest, _LOOSE * float(np.median(sizes))) if sizes else shortest
    gaps, inside = {}, 0
    for name, spans in used.items():
        stops = accumulate((b for _, b, _ in spans), max, initial=0.0)
        between = list(zip(stops, [*(a for a, *_ in spans), ends[name]]))
        inside += sum(b - a > shortest for a, b in between[1:-1])
        found = ((a, min(b, ends[name])) for a, b in between)
        gaps[name] = [(a, b) for a, b in found if b - a > shortest]
    apart = 2 * inside > len(sizes) - len(used) or len(sizes) == len(used)
    if not apart or 2 * sum(map(len, gaps.values())) <= len(sizes) + len(used):
        return dict(tables)
    labelings = [[label for *_, label in spans if label != UNKNOWN] for spans in used.values()]
    known = {*chain(*labelings)}
    classes = known != {""} and (len(known) == 1 or name_classes(labelings))
    same = next((label for label in known if label.casefold() == BACKGROUND), BACKGROUND)
    full = dict(tables)
    for name, some in gaps.items():
        label = "" if known == {""} else f"{name} {BACKGROUND} {{}}"
        told = [(a, b, same if classes else label.format(i)) for i, (a, b) in enumerate(some, 1)]
        full[name] = _joined([*used[name], *told], same)
    outside = sum(b - a for a, b in chain(*gaps.values()))
    note(
        f"{outside:.0f} of {sum(ends.values()):.0f} s are in no segment of {where}, whose segments "
        f"mostly do not touch, and count as segments{f' called {same!r}' * classes}. If this is "
        f"not right, {remedy}."
    )
    return full


def _joined(segments: Sequence[Segment], label: str) -> list[Segment]:
    """Sort segments, and join those with this label that touch."""
    joined: list[Segment] = []
    for start, end, name in sorted(segments):
        if joined and name == label == joined[-1][2] and start <= joined[-1][1] + _TOUCHING:
            start = joined.pop()[0]
        joined.append((start, end, name))
    return joined


def covering(segments: Sequence[Segment], end: float) -> list[Segment]:
    """Extend the segments so that they cover the time from 0 to ``end`` without gaps.

    A gap is divided in the middle, and neighbors with equal labels are joined. Every instant gets
    the label that :func:`row_labels` would give to a row at this instant, but for the very middle
    of a gap: there the later segment begins, while a row gets the earlier label.

    Parameters
    ----------
    segments : sequence of (start, end, label)
        In order of time. Times are in seconds. At least one.
    end : float
        End of the recording in seconds.

    Returns
    -------
    list of (start, end, label)

    Raises
    ------
    ValueError
        If there is no segment.

    See Also
    --------
    row_labels : labels rows in the same way.

    Examples
    --------
    >>> from metriclearn.datasets import covering
    >>> covering([(1.0, 2.0, "a"), (4.0, 5.0, "b")], 6.0)
    [(0.0, 3.0, 'a'), (3.0, 6.0, 'b')]
    """
    runs = [list(same) for _, same in groupby(segments, key=itemgetter(2))]
    starts, stops = [run[0][0] for run in runs[1:]], [run[-1][1] for run in runs]
    borders = [a if b > a else (a + b) / 2 for a, b in zip(starts, stops)]
    names = [run[0][2] for run in runs]
    return list(zip([0.0, *borders], [*borders, end], names, strict=True))


def with_boundaries(
    segments: Sequence[Segment], points: Sequence[float], end: float
) -> list[Segment]:
    """Divide segments, and the unlabeled time around them, so that every point is a boundary.

    A boundary is where two segments touch. Unlabeled time becomes a segment only next to a point,
    for a third of the way to the next one. Such segments are called "unknown", or nothing if no
    segment has a label. If there are no segments at all, the points divide the whole recording.

    Parameters
    ----------
    segments : sequence of (start, end, label)
        Times are in seconds, or in another unit.
    points : sequence of float
    end : float
        End of the recording.

    Returns
    -------
    list of (start, end, label)

    Raises
    ------
    ValueError
        If a segment does not consist of three values.

    See Also
    --------
    covering : extends segments over gaps.
    untold_starts : finds these boundaries.

    Examples
    --------
    >>> from metriclearn.datasets import with_boundaries
    >>> with_boundaries([(0.0, 3.0, "a")], [2.0, 3.0], 6.0)
    [(0.0, 2.0, 'a'), (2.0, 3.0, 'a'), (3.0, 4.0, 'unknown')]
    """
    unlabeled = UNKNOWN if any(label for *_, label in segments) else ""
    cuts, result, reached = sorted({p for p in points if 0 < p < end}), list[Segment](), 0.0
    for start, stop, label in [*sorted(segments), (end, end, "")]:
        if segments:
            beside = _beside([cut for cut in cuts if reached <= cut <= start], reached, start)
            result += [(first, last, unlabeled) for first, last in beside]
        whole = start if segments else 0.0
        pieces = pairwise([whole, *(cut for cut in cuts if whole < cut < stop), stop])
        result += [(first, last, label) for first, last in pieces if first < last]
        reached = max(reached, stop)
    return result


def _beside(cuts: Sequence[float], start: float, end: float) -> list[tuple[float, float]]:
    """Return spans of unlabeled time before and after each cut, and leave a hole between cuts."""
    spans: list[tuple[float, float]] = []
    for a, b in pairwise(sorted({start, *cuts, end})):
        sides = a in cuts, b in cuts
        if all(sides) and b - a < 3 * _SHORTEST:
            spans.append((a, b))
            continue
        part = (b - a) / (3 if b - a >= 3 * _SHORTEST else 2)
        spans += [(a, round(a + part, 3))] * sides[0] + [(round(b - part, 3), b)] * sides[1]
    return [(a, b) for a, b in spans if a < b]


def typical_tolerance(lengths: Sequence[float] | NDArray, step: float = 0.0) -> float:
    """Return the allowed error of a boundary: a tenth of the median length, at least ``step``.

    Parameters
    ----------
    lengths : sequence of float
        Lengths of segments.
    step : float
        The distance between two rows, in the unit of ``lengths``.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If a length is not a number.

    See Also
    --------
    row_labels : turns segments into labels of rows.

    Examples
    --------
    >>> from metriclearn.datasets import typical_tolerance
    >>> typical_tolerance([10.0, 20.0, 60.0])
    2.0
    """
    return max(float(np.median(lengths)) / 10, step)


def numbered(segments: Sequence[Segment]) -> list[Segment]:
    """Replace the label of every segment by its number, counted from 1.

    Parameters
    ----------
    segments : sequence of (start, end, label)
        In order of time. Times are in seconds.

    Returns
    -------
    list of (start, end, label)

    Raises
    ------
    ValueError
        If a segment does not consist of three values.

    See Also
    --------
    write_file : numbers segments for formats that need labels.

    Examples
    --------
    >>> from metriclearn.datasets import numbered
    >>> numbered([(0.0, 2.0, ""), (2.0, 3.0, "")])
    [(0.0, 2.0, '1'), (2.0, 3.0, '2')]
    """
    return [(start, end, str(i + 1)) for i, (start, end, _) in enumerate(segments)]
