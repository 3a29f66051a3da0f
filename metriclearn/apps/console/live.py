"""Segment a recording that is still running, from rows or sound as they arrive."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import chain, groupby
from math import ceil, inf
from operator import itemgetter
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

import metriclearn
from metriclearn import running
from metriclearn.apps.console.missing import KnownRows, filled_stream, rows_in
from metriclearn.datasets import Segment, cell_number, check_distinct, stream_rows

_INPUT = "the standard input"
_LEAST = 16  # rows of delay
_FRAMES = 16  # more frames than the deltas of a frame depend on


def json_lines(
    model: Any,
    source: IO[str],
    rate: float | None = None,
    delay: float | None = None,
    fill: float | None = None,
    duplicates: str | None = None,
) -> Iterator[str]:
    """Segment a stream that is still being written, and yield a line of JSON per final segment.

    Parameters
    ----------
    model : see :func:`live_segments`
    source : text file
        Lines of CSV, or raw sound in ``source.buffer``, see :func:`pulse_code`.
    rate : float, optional
        Samples per second of raw sound.
    delay : float, optional
        The limit of the delay in seconds, see ``max_delay`` of :func:`live_segments`.
    fill : float, optional
        Gaps of a column that last at most so many seconds are interpolated.
    duplicates : "mean" or "first", optional
        Which row stands for several of the same time. By default, they are an error.

    Raises
    ------
    ValueError
        If the model was not trained on input of this kind.
    """
    running.quieten()  # the segments tell of the progress
    extractor = getattr(model, "extractor", None)
    needed = getattr(extractor, "sampling_rate", None)
    if extractor is not None and not hasattr(extractor, "extract_signal"):
        raise ValueError(
            f"a stream needs a model of tables or of AudioFeatures, got {extractor!r}; segment "
            "files instead."
        )
    if rate != needed:
        kind = "lines of CSV without --rate" if needed is None else f"sound with --rate {needed}"
        given = "no --rate" if rate is None else f"--rate {rate:g}"
        raise ValueError(
            f"a stream of this model needs {kind}, got {given}; convert it first, sound by ffmpeg "
            "with -ac 1 -f s16le -ar and the rate."
        )
    clock = RowClock(
        getattr(model, "rows_per_second", 1.0), getattr(model, "time", None), duplicates
    )
    if extractor is not None:
        chunks = sound_rows(extractor, pulse_code(source.buffer))  # type: ignore[attr-defined]
    else:
        names = getattr(model, "feature_names_in_", range(model.n_features_in_))
        chunks = table_rows(source, list(map(str, names)), clock)
        chunks = filled_stream(chunks, rows_in(fill, clock.rate))
    limit = None if delay is None else round(delay * clock.rate)
    if limit is not None and limit < _LEAST:
        raise ValueError(
            f"A stream of this model needs --delay {ceil(1000 * _LEAST / clock.rate) / 1000:g} or "
            f"more seconds, which are {_LEAST} rows, got {delay:g}."
        )
    for start, end, label in live_segments(model, chunks, limit, clock.at):
        yield json.dumps({"start": round(start, 6), "end": round(end, 6), "label": label})


def live_segments(
    model: Any,
    chunks: Iterable[NDArray],
    max_delay: int | None = None,
    at: Callable[[int], float] | None = None,
) -> Iterator[Segment]:
    """Yield each segment (start, end, label) as soon as it is final.

    Some models of a Segmenter may be unable to follow a stream. The best model that can then
    follows it alone. Neighboring segments with the same label are joined, so a labeled
    segment is only returned when the next segment is final.

    Parameters
    ----------
    model : fitted Segmenter, or learner with ``stream()``
        By default, times are in seconds for a Segmenter, and in rows for other learners.
    chunks : iterable of (n, P) arrays
        Features of the recording, n rows at a time.
    max_delay : int, optional
        The limit of the delay in rows, see :class:`~metriclearn.estimators.SegmenterStream`.
    at : callable, optional
        Takes change-points, in order, and returns their times. By default these are in seconds at
        the rate of a Segmenter.
    """
    known = KnownRows(_INPUT)
    if isinstance(model, metriclearn.Segmenter):
        if model.agreement_.refusal_of_streams() is not None:
            model = model.follower()
        if isinstance(model.view_, metriclearn.views.Fill):
            chunks = filled_stream(chunks, model.view_.longest or inf)
        if isinstance(model.view_, metriclearn.views.Fill | metriclearn.views.LeaveOut):
            model = model.behind(None)
        chunks = known.of(chunks)
    running.Of("stream", "ChangePointMetricLearner()").check("live_segments", "model", model)
    stream = model.stream(max_delay)
    at = at or RowClock(getattr(model, "rows_per_second", 1.0)).at
    row_names, start, begin = getattr(model, "row_names_", None), 0, 0.0
    recent: list[NDArray] = []  # scores of labels since the start of the segment
    waiting: Segment | None = None
    divides = getattr(model, "divides_equal_", False)
    for number, rows in enumerate(chain(chunks, [None])):
        if rows is None and number == 0:
            raise ValueError(
                f"{_INPUT} needs rows with values, but has none; check what writes to it."
            )
        if rows is not None and row_names is not None:
            recent.append(row_names.scores(rows))
        found = stream.finish() if rows is None else stream.push(rows)
        for i, end in enumerate(found.ends.tolist()):
            label = "" if found.names is None else str(found.names[i])
            if found.names is None and row_names is not None:
                scores = np.concatenate(recent)
                label = str(row_names.names[int(np.argmax(scores[: end - start].mean(axis=0)))])
                recent = [scores[end - start :]]
            if waiting is not None and (divides or not label or label != waiting[2]):
                yield waiting
                waiting = None
            stop = at(known.place(end) if known.count else end)
            waiting = (begin if waiting is None else waiting[0], stop, label)
            start, begin = end, stop
            if not label:
                yield waiting
                waiting = None
    if waiting is not None:
        yield waiting


class RowClock:
    """Tells at which second each row of a stream begins, and averages rows that come too fast.

    Attributes
    ----------
    rate : float
        Rows per second of the model.
    time : str, optional
        The column of the times. Without it, rows come at the rate of the model.
    duplicates : "mean" or "first", optional
        Which row stands for several of the same time. By default, they are an error.
    """

    def __init__(self, rate: float, time: str | None = None, duplicates: str | None = None) -> None:
        self.rate, self.time, self.duplicates = rate, time, duplicates
        self._begins: list[float] | None = None  # begin of each row from ``_first`` on
        self._first, self._end = 0, 0.0

    def at(self, row: int) -> float:
        """Return when a row begins. Times of the rows before it are forgotten."""
        if self._begins is None:
            return row / self.rate
        del self._begins[: row - self._first]
        self._first = row
        return self._begins[0] if self._begins else self._end

    def following(self, lines: Iterable[tuple[str, NDArray]]) -> Iterator[NDArray[np.float64]]:
        """Yield the rows of pairs (time, row), averaged if they come faster than in the training.

        Raises
        ------
        ValueError
            If a time is wrong, or rows come more slowly than at the rate of the model.
        """
        given = iter(lines)
        first = next(given, None)
        if first is None:
            return
        self._begins = []
        may_repeat = self.duplicates is not None
        remedy = "drop one of them, or pass --duplicates mean or --duplicates first"
        lines = chain([first], given)
        times, rows = running.timed_rows(_INPUT, lines, str(self.time), may_repeat, remedy)
        rate = times.rate if len(times.seconds) > 1 else self.rate
        is_even = times.matches(self.rate)
        for _, same in groupby(
            self._distinct(rows) if may_repeat else rows,
            lambda row: row[0] if is_even else running.tick(row[0], self.rate),
        ):
            seconds, together = zip(*same)
            self._begins.append(seconds[0])
            self._end = seconds[-1] + 1 / rate
            yield running.mean_rows(np.vstack(together), np.zeros(1, dtype=np.intp))

    def _distinct(self, rows: Iterable[tuple[float, NDArray]]) -> Iterator[tuple[float, NDArray]]:
        """Yield one row for each time."""
        for seconds, same in groupby(rows, itemgetter(0)):
            together = np.vstack([row for _, row in same])
            count = len(together) if self.duplicates == "mean" else 1
            yield seconds, running.mean_rows(together[:count], np.zeros(1, dtype=np.intp))


def table_rows(
    lines: IO[str], names: Sequence[str], clock: RowClock
) -> Iterator[NDArray[np.float64]]:
    """Read rows of a text table as they arrive, and yield the columns ``names`` of each, (1, P).

    The first line may hold names of columns. Other columns are then ignored, but the clock reads
    its own. Without names in the first line, columns must be in the order of ``names``.

    Raises
    ------
    ValueError
        If a line lacks a column, if a value is not a number, or if the input is not text.
    """
    given = stream_rows(_decoded(lines))
    first = next(given, None)
    if first is None:
        return
    _, cells = first
    columns, time = list(range(len(cells))), running.text(clock.time)
    if is_header := None in map(cell_number, cells):
        check_distinct(_INPUT, cells)
        cells = [cell or f"Unnamed: {i}" for i, cell in enumerate(cells)]  # as pandas reads them
        cells, names = list(map(running.text, cells)), list(map(running.text, names))
        if lacking := [name for name in names if name not in cells]:
            raise ValueError(
                f"{_INPUT} needs the column {lacking[0]!r}, got {cells[:5]}; pass the "
                "features of the training."
            )
        columns = [cells.index(name) for name in names]
    elif len(cells) != len(names):
        raise ValueError(
            f"{_INPUT} needs {len(names)} columns, or names of columns in its first line, got "
            f"{running.counted(len(cells), 'number')} in that line; pass the features of the "
            "training."
        )
    place = cells.index(time) if is_header and time in cells else None
    if clock.time is not None and place is None:
        running.note(running.without_times(_INPUT, clock.time, clock.rate))
    given = given if is_header else chain([first], given)
    rows = _numbers(given, columns, place, len(cells))
    yield from (row for _, row in rows) if place is None else clock.following(rows)


def _decoded(lines: IO[str]) -> Iterator[str]:
    """Yield lines as they arrive."""
    try:
        yield from iter(lines.readline, "")
    except UnicodeDecodeError as error:
        raise ValueError(f"{_INPUT} needs to be text; write it as UTF-8.") from error


def _numbers(
    given: Iterable[tuple[int, list[str]]], columns: Sequence[int], place: int | None, width: int
) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Convert the cells of lines, at most ``width``, to rows (1, P). Yields (time, row)."""
    for number, line in given:
        cells = line + [""] * (width - len(line))  # as pandas reads short lines
        row = [cell_number(cells[column]) for column in columns]
        if len(cells) > width or None in row:
            raise ValueError(
                f"{_INPUT} needs {len(columns)} numbers in line {number}, and at most "
                f"{width} cells, got {line[:5]}; correct that line."
            )
        time = "" if place is None else cells[place]
        yield time, np.array([row], dtype=np.float64)


def sound_rows(extractor: Any, chunks: Iterable[NDArray]) -> Iterator[NDArray[np.float64]]:
    """Compute features of sound as it arrives, (n, P) at a time.

    The results are the same as the features of the whole recording. A frame depends only on nearby
    sound, so we compute features of stretches with enough sound on both sides. A block is the
    shortest time after which a row and a frame begin together. Stretches begin at multiples of a
    block.

    Parameters
    ----------
    extractor : AudioFeatures
    chunks : iterable of arrays (n,)
        Samples at the extractor's ``sampling_rate``, from −1 to 1.
    """
    frames_in_row = Fraction(extractor.sampling_rate, extractor.hop)
    frames_in_row /= Fraction(extractor.rate).limit_denominator(1000)
    rows, size = frames_in_row.denominator, frames_in_row.numerator * extractor.hop
    margin = ceil((_FRAMES * extractor.hop + extractor.window) / size)  # in blocks
    sound, before = np.zeros(0, dtype=np.float32), 0  # the first ``before`` blocks of it are done
    for chunk in chunks:
        sound = np.concatenate([sound, chunk.astype(np.float32)])
        done = len(sound) // size - margin
        if done > before:
            yield extractor.extract_signal(sound)[before * rows : done * rows]
            keep = max(0, done - margin)
            sound, before = sound[keep * size :], done - keep
    if len(sound) > before * size:
        yield extractor.extract_signal(sound)[before * rows :]


def pulse_code(stream: IO[bytes]) -> Iterator[NDArray[np.float32]]:
    """Read samples of raw sound as they arrive, and convert them to numbers from −1 to 1.

    The stream must have one channel of signed little-endian 16-bit integers.
    """
    rest = b""
    while read := stream.read1(1 << 16):  # type: ignore[attr-defined]
        whole = rest + read
        even = len(whole) // 2 * 2
        samples, rest = np.frombuffer(whole[:even], dtype="<i2"), whole[even:]
        yield samples.astype(np.float32) / np.float32(32768)
