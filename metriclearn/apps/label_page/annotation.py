"""What a person has annotated in a recording, as labels of its rows and as rows of files."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from metriclearn import PartialPartition, Region
from metriclearn.datasets import UNKNOWN, Segment, with_boundaries
from metriclearn.problem import AT_LEAST_ONE, EXACTLY_ONE, NO_CHANGE
from metriclearn.running import Times

_KINDS = ("change", "no change", "one change", "segment")
_SLACK = 1e-6  # times that differ by fewer seconds are the same
_TOUCHING = 6e-4  # seconds between rows of a file that touch, as some formats round to ms
_MOST = 100_000  # annotations of a recording


class Annotation(NamedTuple):
    """An annotation by a person, with times in seconds.

    An annotation is a stretch of a recording or a change. A change starts and ends at the same
    time.
    """

    start: float
    end: float
    kind: str
    label: str = ""

    @classmethod
    def read(cls, given: Any, seconds: float) -> Self:
        """Check an annotation from the file or the page against the length of its recording."""
        entry = given if isinstance(given, dict) else {}
        kind, label = entry.get("kind"), entry.get("label", "")
        start, end = (
            # very large whole numbers can be compared, but do not fit into a float
            time if isinstance(time, (int, float)) and not isinstance(time, bool) else math.nan
            for time in (entry.get("start"), entry.get("end"))
        )
        point = kind == "change"
        if 0 <= start < seconds + 1e-3 and 0 <= end < seconds + 1e-3:
            is_short = 0 <= end - start < 1e-3 - 1e-9
            # whole milliseconds, as in all tables; rounding may exceed the end of the recording
            start, end = (min(round(time, 3), seconds) for time in (start, end))
            if kind in _KINDS and not point and (is_short or start == end):
                raise ValueError(
                    f"A stretch needs to last a millisecond or longer, got {str(given)[:200]}; "
                    "mark a longer stretch or set a boundary."
                )
        right = 0 < start == end < seconds if point else 0 <= start < end <= seconds
        named = label == "" or is_word(label)
        if not (
            kind in _KINDS
            and right
            and named
            and bool(label) == (kind == "segment")
            and label != UNKNOWN
            and len(entry) == 3 + ("label" in entry)
        ):
            raise ValueError(
                f"An annotation needs kind ({', '.join(_KINDS)}), start and end in seconds within "
                f"the recording of {seconds:g} s (equal for a change), and a label for a segment "
                f"other than {UNKNOWN!r}, got {str(given)[:200]}; correct or remove it."
            )
        return cls(float(start), float(end), str(kind), label)

    def as_json(self) -> dict[str, Any]:
        """Convert the annotation to an entry of the file."""
        entry = {"start": self.start, "end": self.end, "kind": self.kind}
        return entry | ({"label": self.label} if self.label else {})


def read_annotations(given: Any, seconds: float) -> list[Annotation]:
    """Check the annotations of a recording, and sort them by time.

    Raises
    ------
    ValueError
        If an annotation is damaged, or if stretches overlap.
    """
    if not isinstance(given, list) or len(given) > _MOST:
        raise ValueError(f"Annotations of a recording need to be a list of up to {_MOST}.")
    annotations = sorted(Annotation.read(one, seconds) for one in given)
    stretches = [one for one in annotations if one.kind != "change"]
    for before, after in pairwise(stretches):
        if after.start < before.end - _SLACK:
            raise ValueError(
                f"Annotations need stretches that do not overlap, got {before.kind!r} from "
                f"{before.start:g} to {before.end:g} s and {after.kind!r} from {after.start:g} s; "
                "cut or remove one."
            )
    return annotations


class Clock(NamedTuple):
    """Converts seconds of the page, which count rows, to those of files, and back.

    Attributes
    ----------
    times : mapping of str to Times
        The times of the rows of a recording, by its name. Seconds of others are the same in files.
    rate : float
        Rows per second on the page.
    """

    times: Mapping[str, Times] = {}
    rate: float = 1.0

    @classmethod
    def of(cls, times: Mapping[str, Times | None], rate: float) -> Self:
        """Leave out times that are at most half a row from those of the page."""
        uneven = {}
        for name, one in times.items():
            rows = np.arange(0 if one is None else len(one.seconds))
            if one is not None and np.abs(one.seconds * rate - rows).max() > 0.5:
                uneven[name] = one
        return cls(uneven, rate)

    def in_files(self, tables: Mapping[str, Sequence[Segment]]) -> dict[str, list[Segment]]:
        """Convert segments of the page to those of files."""
        return self._converted(tables, lambda one, spans: one.at(spans * self.rate))

    def on_page(self, tables: Mapping[str, Sequence[Segment]]) -> dict[str, list[Segment]]:
        """Convert segments of files to those of the page."""
        return self._converted(tables, lambda one, spans: one.rows(spans) / self.rate)

    def _converted(
        self,
        tables: Mapping[str, Sequence[Segment]],
        seconds: Callable[[Times, NDArray[np.float64]], NDArray[np.float64]],
    ) -> dict[str, list[Segment]]:
        found = {name: list(rows) for name, rows in tables.items()}
        for name in found.keys() & self.times.keys():
            spans = np.array([one[:2] for one in found[name]]).reshape(-1, 2)
            pairs = seconds(self.times[name], spans).tolist()
            found[name] = [(a, b, one[2]) for (a, b), one in zip(pairs, found[name])]
        return found


def row_at(time: float, rate: float) -> int:
    """Return the first row whose middle is not before ``time``. ``fit`` uses the same rule."""
    return math.ceil(time * rate - 0.5)


def partial_labels(annotations: Sequence[Annotation], n_rows: int, rate: float) -> PartialPartition:
    """Convert the annotations of a recording to partial labels of its rows.

    There are ``rate`` rows per second. If two successive segments have different labels, there is a
    change where they touch, or at least one change between them if they do not touch. The rows
    between segments with equal labels are unlabeled.

    Raises
    ------
    ValueError
        If annotations contradict each other.
    """
    kinds = {"no change": NO_CHANGE, "segment": NO_CHANGE, "one change": EXACTLY_ONE}
    changes, segments = set(), []
    regions: list[Region] = []
    for one in annotations:
        first, stop = min(row_at(one.start, rate), n_rows), min(row_at(one.end, rate), n_rows)
        if one.kind == "change":
            changes.add(first)
        elif stop - first > 1:
            regions.append(Region(first, stop, kinds[one.kind]))
        if one.kind == "segment":
            segments.append((one.label, first, stop))
    for (label, _, stop), (other, first, _) in pairwise(segments):
        if label != other and stop > 0 and first < n_rows:
            regions.append(Region(stop - 1, first + 1, AT_LEAST_ONE))
    return PartialPartition(n_rows, change_points=sorted(changes - {0, n_rows}), regions=regions)


def segments_of(
    name: str, annotations: Sequence[Annotation], seconds: float, classes: bool
) -> list[Segment]:
    """Convert annotations to segments that cover a recording.

    If ``classes`` is true, each labeled segment becomes a segment with the same label. Otherwise
    each stretch that is annotated as "no change" becomes a segment with a number as its label. All
    other time is called "unknown".
    """
    segments: list[Segment] = []
    reached = 0.0
    wanted = "segment" if classes else "no change"
    for one in annotations:
        if one.kind != wanted:
            continue
        if one.start > reached + _SLACK:
            segments.append((reached, one.start, UNKNOWN))
        segments.append((one.start, one.end, one.label or f"{name} {len(segments) + 1}"))
        reached = one.end
    if reached < seconds - _SLACK:
        segments.append((reached, seconds, UNKNOWN))
    return segments


def exported(
    name: str, annotations: Sequence[Annotation], seconds: float, classes: bool | None = None
) -> list[Segment]:
    """Convert annotations to rows of a file, in which a boundary is where two rows touch.

    Rows are the labeled stretches, see :func:`segments_of`, and unlabeled time next to a boundary,
    see :func:`~metriclearn.datasets.with_boundaries`. By default ``classes`` tells whether there
    are labeled segments.
    """
    if classes is None:
        classes = any(one.kind == "segment" for one in annotations)
    rows = segments_of(name, annotations, seconds, classes)
    labeled = [row for row in rows if row[2] != UNKNOWN]
    cuts = [one.start for one in annotations if one.kind == "change"]
    divided = with_boundaries(labeled, cuts, seconds)
    return [(start, end, label or UNKNOWN) for start, end, label in divided]


def known_segments(
    annotations: Mapping[str, Sequence[Annotation]], seconds: Mapping[str, float]
) -> dict[str, list[Segment]]:
    """Return the rows of :func:`exported` for every recording in which something is labeled."""
    classes = any(one.kind == "segment" for many in annotations.values() for one in many)
    wanted = "change", "segment" if classes else "no change"
    return {
        name: exported(name, many, seconds[name], classes)
        for name, many in sorted(annotations.items())
        if any(one.kind in wanted for one in many)
    }


def imported(
    name: str,
    segments: Sequence[Segment],
    seconds: float,
    covers: bool = False,
    counts: bool = True,
) -> list[Annotation]:
    """Convert rows of a file to annotations. A boundary is where two rows touch.

    Rows called "unknown" are unlabeled. With ``covers``, they are all time without a label, so
    there is no boundary where one of them touches a labeled row. With ``counts``, labels are
    dropped if they only number the segments: all labels differ, and each is a number, possibly
    after the name of the recording.
    """
    labels = [label for *_, label in segments if label not in ("", UNKNOWN)]
    number = re.compile(
        rf"({re.escape(name)} |{re.escape('_'.join(name.split()))}_)?(background )?\d+"
    )
    numbered = counts and len(set(labels)) == len(labels) and all(map(number.fullmatch, labels))
    stretches: list[dict[str, Any]] = []
    changes: set[float] = set()
    last, reached, was_unknown = -1.0, -1.0, False
    for begin, stop, label in sorted(segments):
        start, end = round(begin, 3), min(round(stop, 3), seconds)
        if start >= seconds or end <= 0:
            continue
        touches, is_unknown = abs(begin - last) < _TOUCHING, label == UNKNOWN
        start = reached if touches or start < reached else start
        if touches and not (covers and is_unknown != was_unknown):
            changes.add(start)
        last, reached, was_unknown = stop, max(start, end), is_unknown
        if is_unknown:
            continue
        if reached == start:
            changes.add(start)
            continue
        kind = "no change" if numbered or not label else "segment"
        named = {} if kind == "no change" else {"label": label}
        stretches.append({"kind": kind, "start": start, "end": reached} | named)
    points = [{"kind": "change", "start": time, "end": time} for time in changes]
    return read_annotations([*stretches, *points], seconds)


def is_word(label: Any) -> bool:
    """Tell whether a label can be saved in all formats.

    A label must be one line of up to 200 characters, without control characters or surrogates.
    """
    text = isinstance(label, str) and 0 < len(label) <= 200 and label == label.strip()
    return text and not any(unicodedata.category(one) in ("Cc", "Cs") for one in label)
