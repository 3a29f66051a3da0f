"""The annotations of a folder of recordings, saved in metriclearn.json and segments.csv.

A folder can have several tiers, which are independent sets of annotations of the same recordings.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any, Self

from metriclearn import running
from metriclearn.apps.label_page.annotation import (
    Annotation,
    Clock,
    is_word,
    read_annotations,
    segments_of,
)
from metriclearn.datasets import UNKNOWN, Segment, segments_text
from metriclearn.running import locked, note, reading, replacing, writable

FILE = "metriclearn.json"
TABLE = "segments.csv"
MOST_LABELS = 40
_FORMAT = 1
TABLE_BEFORE = "table_before"  # key of the digest of the table that is to be replaced
# What the settings of the file need to be, where they are given.
_SETTINGS = {
    "features": running.OneOf("audio", "video", "both", "tables"),
    "rate": running.Positive(),
    "media_rate": running.Positive(),
    "time": running.Of(str, '"a column"'),
    "duplicates": running.OneOf("mean", "first"),
    "ignore": running.Each(running.Of(str, '"a column"'), "a list of columns to ignore"),
}
_TIER = re.compile(r"\w(?:[\w -]{0,38}\w)?")  # all systems allow these characters in file names


def file_of(folder: Path, tier: str, name: str) -> Path:
    """Return the path of ``metriclearn.json`` or ``segments.csv`` of a tier.

    The name of the file begins with the name of the tier, which is empty for the first tier.
    """
    return folder / (f"{tier}.{name}" if tier else name)


def tiers_of(folder: Path) -> list[str]:
    """List the names of the tiers in a folder. The first tier has no name and is not listed."""
    return sorted(path.name.removesuffix(f".{FILE}") for path in folder.glob(f"[!.]*.{FILE}"))


def check_tier(tier: str, taken: Iterable[str]) -> str:
    """Check the name of a new tier, and return the name without spaces around it.

    Raises
    ------
    ValueError
        If the name cannot be used in a file name, or if it is in ``taken``, the names of existing
        tiers and recordings.
    """
    name = tier.strip()
    if not _TIER.fullmatch(name) or name.casefold() in {one.casefold() for one in taken}:
        raise ValueError(
            "A tier needs a name of up to 40 letters, digits, spaces, - and _ that no other tier "
            f"and no recording has, got {name[:50]!r}; choose another one."
        )
    return name


class Conflict(ValueError):
    """Raised if another window or program has changed annotations since they were read here."""


@dataclass
class Project:
    """The annotations of one tier of a folder, which are saved after every change.

    The file ``metriclearn.json`` has a revision number, which every change raises by one. Each
    annotation is on a separate line, so that a person can merge two versions. The file is replaced
    in one step. Then the table ``segments.csv`` with the same segments is replaced. Only one
    process saves at a time.

    Attributes
    ----------
    folder : Path
        The folder of the recordings.
    seconds : dict
        For the name of every recording, its length in seconds.
    tier : str
        Name of the tier, which is empty for the first tier. File names of a tier begin with its
        name.
    labels : list of str
        The labels of segments, in the order of the keys 1 to 9.
    annotations : dict
        For the name of every recording, its annotations in the order of time.
    annotators : dict
        For the name of every recording, the persons who have changed its annotations.
    curve : list of dict
        One point for each correction: the annotated seconds, the expected fraction of wrong
        boundaries, and how well predictions agree with the labels of held-out stretches.
    settings : dict
        The settings with which the recordings were read: ``features``, ``rate`` (rows per second of
        tables), ``time``, ``duplicates``, ``ignore`` and ``media_rate``. ``metriclearn fit`` uses
        the same settings.
    seen : dict
        The content of the file when it was last read or written.
    revision : int
        The current revision number.
    clock : Clock
        Converts seconds of the page to those of ``segments.csv``.
    """

    folder: Path
    seconds: Mapping[str, float]
    tier: str = ""
    labels: list[str] = field(default_factory=list)
    annotations: dict[str, list[Annotation]] = field(default_factory=dict)
    annotators: dict[str, list[str]] = field(default_factory=dict)
    curve: list[dict[str, Any]] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    seen: dict[str, Any] = field(default_factory=dict)
    revision: int = 0
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.lock = Lock()
        self._read_stamp = (0, 0, 0)
        self.file = file_of(self.folder, self.tier, FILE)
        self.table = file_of(self.folder, self.tier, TABLE)

    def load(self) -> Self:
        """Read ``metriclearn.json``, if it exists.

        Raises
        ------
        ValueError
            If the file is damaged, has annotations of recordings that are not in the folder, or is
            a link to a file outside the folder.
        """
        content = read_project(self.folder, self.tier)
        if not content:
            self.seen = content
            return self
        with reading_annotations(self.file):
            labels, entries = _read_labels(content["labels"]), content["recordings"]
            if unknown := sorted(set(entries) - set(self.seconds)):
                raise ValueError(
                    f"{str(self.file)!r} has annotations of {unknown[:5]}, which are not "
                    "in the folder; restore the recordings, or rename or remove them in the file."
                )
            annotations = {
                name: self._annotations_of(name, given) for name, given in entries.items()
            }
            curve, revision = list(content.get("curve", [])), int(content["revision"])
            if not all(
                isinstance(point, dict)
                and "seconds" in point
                and all(map(_is_finite, point.values()))
                for point in curve
            ):
                raise ValueError("every point of its curve needs seconds and finite numbers")
            annotators = {
                name: list(map(str, many)) for name, many in content.get("annotators", {}).items()
            }
        # all at once: a file that cannot be read has not been seen, so no change overwrites it
        self.labels, self.annotations, self.annotators = labels, annotations, annotators
        self.curve, self.revision, self.seen = curve, revision, content
        return self

    def refresh(self) -> bool:
        """Read what another server of this folder has saved. Returns whether there was something.

        An edit by hand keeps the revision number, and a file may be damaged. The next change tells.
        """
        with suppress(OSError, ValueError, TypeError), self.lock:
            stamp = self._stamp()
            if stamp != self._read_stamp:
                self._read_stamp = stamp
                if read_project(self.folder, self.tier)["revision"] > self.revision:
                    self.load()
                    return True
        return False

    def _stamp(self) -> tuple[int, int, int]:
        """Return numbers that change whenever the file is replaced or edited."""
        found = self.file.stat()
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _annotations_of(self, name: str, given: Any) -> list[Annotation]:
        """Check the annotations of a recording from the file."""
        try:
            return read_annotations(given, self.seconds[name])
        except ValueError as error:
            raise ValueError(f"{str(self.file)!r}, recording {name!r}: {error}") from error

    def change(
        self,
        revision: int,
        annotations: Mapping[str, list[Annotation]] | None = None,
        labels: Any = None,
        annotator: str = "",
    ) -> int:
        """Replace the labels, and the annotations of some recordings, and save.

        Returns the number of the new revision. If an annotator is given, the name is stored for the
        recordings whose annotations are replaced.

        Raises
        ------
        Conflict
            If ``revision`` is not the current revision, or if another program changed the file.
        ValueError
            If a label cannot be used.
        OSError
            If the files cannot be written. Both files then stay as they were.
        """
        with self.lock, locked(self.folder):
            # by hand, or by another server
            if is_changed := read_project(self.folder, self.tier) != self.seen:
                self.load()
            if is_changed or revision != self.revision:
                raise Conflict(
                    f"Not saved: the annotations were changed elsewhere (revision {self.revision}, "
                    f"here {revision}). The page now shows them; repeat your change."
                )
            given = annotations or {}
            known = self.annotators
            by = {name: sorted({*known.get(name, ()), annotator}) for name in given if annotator}
            after = replace(
                self,
                labels=self.labels if labels is None else _read_labels(labels),
                annotations={**self.annotations, **given},
                annotators=known | by,
                revision=revision + 1,
            )
            self._keep_table()
            after.save()
            self.labels, self.annotations = after.labels, after.annotations
            self.annotators = after.annotators
            self.revision, self.seen = after.revision, after.seen
            return self.revision

    def is_cut(self, name: str, rows: Sequence[Segment]) -> bool:
        """Tell whether rows of a file reach beyond the end of a recording by over a second."""
        return max((end for _, end, _ in rows), default=0.0) > self.seconds[name] + 1.0

    @property
    def is_table_ours(self) -> bool:
        """Whether the page may replace ``segments.csv``: no other program has written or edited it.

        This is true if the table is missing, or has the current or the previous annotations. The
        table has the previous annotations if the server was stopped after it had replaced
        ``metriclearn.json``, but before it could replace ``segments.csv``.
        """
        if not self.table.is_file():
            return True
        found = self.table.read_bytes()
        return found == self._text_of_table() or digest(found) == self.seen.get(TABLE_BEFORE)

    def mend_table(self) -> None:
        """Replace ``segments.csv`` if it still has the previous annotations."""
        table = self.table
        with self.lock, locked(self.folder):
            text = self._text_of_table()
            if table.is_file() and self.is_table_ours and table.read_bytes() != text:
                with replacing(table) as stream:
                    stream.write(text)

    def _text_of_table(self) -> bytes:
        tables = self.tables()
        return segments_text(tables).encode() if tables else b""

    def _keep_table(self) -> None:
        """Copy ``segments.csv`` to another name if another program has written or edited it."""
        table = self.table
        if not table.is_file() or (self.revision and self.is_table_ours):
            return
        found, number = table.read_bytes(), 1
        kept = table.with_name(f"{table.name}.before")
        while kept.exists():
            if kept.is_file() and kept.read_bytes() == found:
                return
            number += 1
            kept = table.with_name(f"{table.name}.before.{number}")
        with replacing(kept) as stream:
            stream.write(found)

    def save(self) -> None:
        """Write both files, ``metriclearn.json`` and the table ``segments.csv``.

        If an error occurs before ``metriclearn.json`` is replaced, the error is raised, and neither
        file changes. As soon as ``metriclearn.json`` is replaced, the change is saved. If the table
        cannot be replaced then, it is written with the next change, or when the page is started
        again.
        """
        table, text = writable(self.table), self._text_of_table()
        before = digest(table.read_bytes()) if table.is_file() else None
        content = self._text(before if before != digest(text) else None).encode()
        is_saved = False
        try:
            with replacing(table) if text else nullcontext() as stream:
                if stream is not None:
                    stream.write(text)
                    stream.flush()  # the last bytes may not fit on the disk
                    os.fsync(stream.fileno())
                with replacing(self.file) as project:
                    project.write(content)
                is_saved, self.seen = True, json.loads(content)
            if not text:  # the labels were removed, so nothing may be learned from them
                table.unlink(missing_ok=True)
        except OSError as error:
            if not is_saved:
                raise
            note(f"{table.name} is of the last change but one: {error}")

    def _text(self, before: str | None) -> str:
        """Return the new content of ``metriclearn.json``.

        ``before`` is the digest of the table that will be replaced. The content includes this
        digest unless it is None.
        """
        lists = {name: many for name, many in sorted(self.annotations.items()) if many}
        recordings = [
            f"{_line(name)}: {_lines(one.as_json() for one in many)}"
            for name, many in lists.items()
        ]
        settings = {"format": _FORMAT, "revision": self.revision, "labels": self.labels}
        settings |= self.settings | ({TABLE_BEFORE: before} if before else {})
        settings |= {"annotators": self.annotators} if self.annotators else {}
        parts = [f"{_line(key)}: {_line(value)}" for key, value in settings.items()]
        parts.append('"recordings": {\n  ' + ",\n  ".join(recordings) + "\n }")
        return "{\n " + ",\n ".join([*parts, f'"curve": {_lines(self.curve)}']) + "\n}\n"

    def tables(self) -> dict[str, list[Segment]]:
        """Return the rows of ``segments.csv`` for every recording that has a labeled stretch."""
        classes = any(one.kind == "segment" for many in self.annotations.values() for one in many)
        tables = {
            name: segments_of(name, many, self.seconds[name], classes)
            for name, many in sorted(self.annotations.items())
        }
        known = {name: rows for name, rows in tables.items() if {r[2] for r in rows} != {UNKNOWN}}
        return self.clock.in_files(known)


def read_project(folder: Path, tier: str = "") -> dict[str, Any]:
    """Read ``metriclearn.json`` of a tier in a folder. Returns {} if the file does not exist.

    Raises
    ------
    FileNotFoundError
        If the folder does not exist.
    ValueError
        If the file is damaged, has another format, or is a link to a file outside the folder.
    """
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{str(folder)!r} is not a folder. Pass the folder that holds your recordings."
        )
    path = file_of(folder, tier, FILE)
    if not path.is_file():
        return {}
    with reading_annotations(path):
        if path.resolve().parent != folder.resolve():
            raise ValueError("it is a link out of the folder")
        content = json.loads(path.read_text("utf-8-sig"))  # editors may add a mark
        if content["format"] != _FORMAT:
            raise ValueError(
                f"{str(path)!r} has format {content['format']}, this metriclearn reads {_FORMAT}; "
                "use the version that wrote it, or a later one."
            )
        for name, needed in _SETTINGS.items():
            if content.get(name) is not None:
                needed.check(FILE, name, content[name])
    return content


def reading_annotations(file: Path) -> AbstractContextManager[None]:
    damaged = (TypeError, AttributeError, OverflowError, RecursionError)
    return reading(file, "annotations of metriclearn label", *damaged)


def _read_labels(given: Any) -> list[str]:
    right = isinstance(given, list) and len(set(map(str, given))) == len(given) <= MOST_LABELS
    if not right or not all(map(is_word, given)) or UNKNOWN in given:
        raise ValueError(
            f"Labels need to be up to {MOST_LABELS} words other than {UNKNOWN!r}, which is for "
            f"unlabeled stretches, got {str(given)[:200]}; change them."
        )
    return list(given)


def _is_finite(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and abs(value) <= sys.float_info.max)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def _lines(values: Iterable[Any]) -> str:
    """Convert a list to JSON, with one value on each line."""
    return "[\n   " + ",\n   ".join(map(_line, values)) + "\n  ]"


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
