"""Cue markers of WAV files: chunks ``cue `` (places), ``labl`` and ``ltxt`` (texts, lengths)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import pack, unpack, unpack_from
from typing import BinaryIO, NamedTuple

from metriclearn.datasets.segments import Segment, with_boundaries


class _Sound(NamedTuple):
    """What the chunks of a WAV file say; places and lengths are in samples, by number of marker."""

    rate: int
    length: int
    places: dict[int, int]
    texts: dict[int, str]
    lengths: dict[int, int]


def write_cues(name: str, segments: Sequence[Segment], path: Path) -> None:
    """Write segments into a WAV file, as regions that replace all of its markers.

    Old markers become chunks that readers skip, so that the sound does not move.

    Parameters
    ----------
    name : str
        Name of the recording.
    segments : sequence of (start, end, label)
        Times are in seconds.
    path : Path
        The WAV file.

    Raises
    ------
    ValueError, struct.error
        If the file is no WAV file, or larger than 4 GB.

    See Also
    --------
    read_cues : reads the regions.
    """
    with path.open("r+b") as file:
        rate = _read(file).rate
        for kind, start, size in [*_chunks(file, 12, os.fstat(file.fileno()).st_size)]:
            old = kind == b"cue " or (kind == b"LIST" and _at(file, start, 4) == b"adtl")
            file.seek(start - 8)
            file.write(pack("<4sI", b"JUNK" if old else kind, size))
        places = [(round(start * rate), round(end * rate)) for start, end, _ in segments]
        cues, texts = pack("<I", len(places)), b"adtl"
        for i, ((start, end), (*_, label)) in enumerate(zip(places, segments), 1):
            cues += pack("<II4sIII", i, start, b"data", 0, 0, start)
            content = label.encode() + b"\0"
            texts += _chunk(b"labl", pack("<I", i) + content) if label else b""
            texts += _chunk(b"ltxt", pack("<II4s8x", i, end - start, b"rgn "))
        end = file.seek(0, os.SEEK_END)
        file.write(end % 2 * b"\0" + _chunk(b"cue ", cues) + _chunk(b"LIST", texts))
        end = file.tell()
        file.seek(4)
        file.write(pack("<I", end - 8))


def read_cues(name: str, path: Path) -> list[Segment]:
    """Read the regions and markers of a WAV file.

    Every marker is a boundary. Where no region is, a marker with a text names the time until the
    next marker.

    Parameters
    ----------
    name : str
        Name of the recording.
    path : Path

    Returns
    -------
    list of (start, end, label)
        Times are in seconds, see :func:`~metriclearn.datasets.segments.with_boundaries`.

    Raises
    ------
    ValueError, struct.error
        If the file is damaged, no WAV file, or has no markers.

    See Also
    --------
    write_cues : writes regions.
    """
    with path.open("rb") as file:
        sound = _read(file)
    if not sound.places:
        raise ValueError("it has no cue markers")
    spans: list[Segment] = []
    points: list[tuple[int, str]] = []
    for number, start in sound.places.items():
        if length := sound.lengths.get(number):
            spans.append((start, start + length, sound.texts.get(number, "")))
        else:
            points.append((start, sound.texts.get(number, "")))
    places = [place for place, _ in sorted(points)]
    end = max(sound.length, *sound.places.values())
    if not spans:
        ends = zip(sorted(points), [*places[1:], end])
        spans = [(start, stop, text) for (start, text), stop in ends if text and start < stop]
    found = with_boundaries(spans, places, end)
    return [(start / sound.rate, end / sound.rate, text) for start, end, text in found]


def _read(file: BinaryIO) -> _Sound:
    size, head = os.fstat(file.fileno()).st_size, _at(file, 0, 12)
    if head[:4] != b"RIFF" or head[8:] != b"WAVE":
        raise ValueError("it is no WAV file of less than 4 GB")
    rate, length, width = 0, 0, 1
    places: dict[int, int] = {}
    texts: dict[int, str] = {}
    lengths: dict[int, int] = {}
    for kind, start, many in _chunks(file, 12, size):
        if kind == b"fmt ":
            rate, width = unpack("<4xI4xH", _at(file, start, 14))
        elif kind == b"data":
            length = length or many // width
        elif kind == b"fact":  # of compressed sound
            length = unpack("<I", _at(file, start, 4))[0]
        elif kind == b"cue ":
            content = _at(file, start, many)
            for i in range(unpack_from("<I", content)[0]):
                number, place = unpack_from("<I16xI", content, 4 + 24 * i)
                places[number] = place
        elif kind == b"LIST" and _at(file, start, 4) == b"adtl":
            for part, begin, some in _chunks(file, start + 4, start + many):
                content = _at(file, begin, some)
                if part == b"ltxt":
                    number, lengths[number] = unpack_from("<II", content)
                if part in (b"labl", b"ltxt") and (text := _text(content, part)):
                    texts.setdefault(unpack_from("<I", content)[0], text)
    if not rate or not width:
        raise ValueError("it has no sampling rate")
    return _Sound(rate, length, places, texts, lengths)


def _text(content: bytes, part: bytes) -> str:
    """Decode a text, which ends with a zero; older programs write the letters of Windows."""
    raw = content[4 if part == b"labl" else 20 :].split(b"\0")[0]
    try:
        return raw.decode().strip()
    except UnicodeDecodeError:
        return raw.decode("cp1252", "replace").strip()


def _chunks(file: BinaryIO, place: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield the kind, the place and the size of each chunk. Damaged sizes end where the file ends.

    Programs that write to a pipe leave 0 or 0xFFFFFFFF as the size of the sound.
    """
    while place + 8 <= end:
        kind, size = unpack("<4sI", _at(file, place, 8))
        rest = end - place - 8
        size = rest if kind == b"data" and not size else min(size, rest)
        yield kind, place + 8, size
        place += 8 + size + size % 2


def _at(file: BinaryIO, place: int, size: int) -> bytes:
    file.seek(place)
    return file.read(size)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return pack("<4sI", kind, len(content)) + content + len(content) % 2 * b"\0"
