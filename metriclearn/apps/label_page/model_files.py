"""Model files of the label page, which are learned while the page is used further."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

import joblib

from metriclearn import Segmenter, datasets
from metriclearn.apps.label_page.annotation import known_segments
from metriclearn.apps.label_page.project import Project
from metriclearn.apps.label_page.signals import Recording
from metriclearn.apps.models import labeled_rows, model_of
from metriclearn.apps.web import Refusal
from metriclearn.datasets import UNKNOWN
from metriclearn.running import sentence, share_told

_ALONE = Lock()  # so that models learn one after the other


@dataclass
class ModelFile:
    """The model of the labels of one revision, and its file once it is learned.

    Attributes
    ----------
    revision : int
        The revision of the labels.
    labels : str
        A hash of the labels, which may be edited by hand without a new revision.
    content : bytes or None
        The file.
    problem : str
        Why there is no file, in one sentence.
    """

    revision: int
    labels: str = ""
    content: bytes | None = None
    problem: str = ""
    is_turn: bool = False
    ended: Event = field(default_factory=Event)
    begun: float = field(default_factory=time.monotonic)

    def learn(self, model: Callable[[], Segmenter]) -> None:
        """Learn and write the model. An error is kept for those who ask for the file."""
        try:
            with _ALONE, tempfile.TemporaryDirectory() as folder:
                self.is_turn = True
                path = Path(folder) / "learned.model"
                model().save(path)
                self.content = path.read_bytes()
        except BaseException as error:
            self.problem = sentence(error) or f"Learning failed: {type(error).__name__}."
            if not isinstance(error, Exception):
                raise
        finally:
            self.ended.set()

    def as_json(self) -> dict[str, Any]:
        """Tell how far the learning is."""
        seconds = round(time.monotonic() - self.begun)
        done = share_told() if self.is_turn else ""
        return {"revision": self.revision, "seconds": seconds, "done": done}


class ModelFiles:
    """Learns model files in threads, one for each kind of recordings, and keeps the latest.

    Parameters
    ----------
    name : str
        Name of the data.
    project : Project
        The annotations.
    recordings : mapping
        The recordings of the folder by name.
    """

    def __init__(self, name: str, project: Project, recordings: Mapping[str, Recording]) -> None:
        self.name, self.project, self.recordings = name, project, recordings
        self._latest: dict[Any, ModelFile] = {}
        self._lock = Lock()

    def of(self, one: Recording, revision: int | None = None) -> ModelFile:
        """Return the model file of all recordings with the features of one of them.

        ``revision`` is the revision of the labels for which learning has begun. Without it, or if
        another file has taken its place, the current labels count. If a file was learned from them,
        it is returned. Otherwise learning begins.

        Raises
        ------
        Refusal
            If there are no labels.
        """
        kind = (*one.columns, one.rate)
        with self._lock:
            latest = self._latest.get(kind)
            if latest is not None and latest.revision == revision:
                return latest
            now = self.project.revision, joblib.hash(dict(self.project.annotations))
            if latest is None or (latest.revision, latest.labels) != now or latest.problem:
                latest = ModelFile(*now)
                model = self._model(one)
                Thread(target=latest.learn, args=(model,), daemon=True).start()
                self._latest[kind] = latest
            return latest

    def _model(self, one: Recording) -> Callable[[], Segmenter]:
        """Return a function that learns from all labels, like ``metriclearn fit``."""
        tables = known_segments(self.project.annotations, self.project.seconds)
        parts = {}
        for other in self.recordings.values():
            alike = (other.columns, other.rate) == (one.columns, one.rate)
            if alike and other.name in tables:
                given = tables[other.name], len(other.features), other.rate
                labels = datasets.row_labels(*given, UNKNOWN), datasets.untold_starts(*given)
                parts[other.name] = other.features, *labels
        if not parts:
            raise Refusal(422, "A model needs labels; set boundaries, or accept some.")
        time = self.project.settings.get("time") if one.kind == "table" else None
        return lambda: model_of(
            labeled_rows(self.name, parts, one.columns), one.extractor, one.rate, time=time
        )
