"""The responses to the requests of the page: annotations, signals, files, and what is learned."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from metriclearn import datasets
from metriclearn.apps.label_page.annotation import (
    exported,
    imported,
    is_word,
    partial_labels,
    read_annotations,
)
from metriclearn.apps.label_page.loop import Loop
from metriclearn.apps.label_page.model_files import ModelFiles
from metriclearn.apps.label_page.project import MOST_LABELS, Conflict, Project, check_tier, tiers_of
from metriclearn.apps.label_page.shown import merged_segments
from metriclearn.apps.label_page.signals import BINS, Recording
from metriclearn.apps.web import HEADERS, Refusal, answer, answered
from metriclearn.datasets import Segment
from metriclearn.running import optional

_MOST_CHANNELS = 12
_PATIENCE = 10.0  # seconds that the page waits for news
_LOOK = 1.0  # seconds until the page sees what another server has saved, or how far a model is
_TICK = 0.03
_HERE = files("metriclearn.apps.label_page") / "static"
_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
STATIC = {
    file.name: _TYPES[ending]
    for file in _HERE.iterdir()
    if (ending := file.name.rpartition(".")[2]) in _TYPES
}


class Page:
    """The part of the server that responds to requests from the page of one tier.

    A tier is a set of annotations. All tiers have the same recordings, but each tier has separate
    annotations and a separate model. ``tiers`` maps the name of every tier to its page. A method
    for a request returns a dictionary, bytes or a file.
    """

    def __init__(
        self,
        folder: Path,
        recordings: Sequence[Recording],
        project: Project,
        tiers: dict[str, Page] | None = None,
    ) -> None:
        self.folder = folder.resolve()
        self.recordings = {one.name: one for one in recordings}
        self.project, self.loop = project, Loop(project, recordings)
        self.models = ModelFiles(self.folder.name, project, self.recordings)
        self.is_closing = False
        self.tiers = {} if tiers is None else tiers
        self.tiers[project.tier] = self

    def routes(self) -> list[Any]:
        """List the routes for starlette: the addresses and the methods that respond to them."""
        table: dict[str, tuple[str, Callable[..., Any]]] = {
            "/": ("GET", Page.static),
            "/static/{file}": ("GET", Page.static),
            "/api/project": ("GET", Page.state),
            "/api/changes": ("PUT", Page.change),
            "/api/tiers": ("POST", Page.new_tier),
            "/api/learned/{serial:int}": ("GET", Page.learned),
            "/api/tiles/{name}/{level:int}/{index:int}": ("GET", Page.tiles),
            "/api/spectrogram/{name}/{level:int}/{index:int}": ("GET", Page.spectrogram),
            "/api/thumbnails/{name}": ("GET", Page.thumbnails),
            "/media/{name}": ("GET", Page.media),
            "/export/{kind}": ("GET", Page.export_all),
            "/export/model/{name}": ("GET", Page.export_model),
            "/export/{kind}/{name}": ("GET", Page.export),
            "/import/{kind}/{name}": ("POST", Page.parse),
        }
        Route = optional("starlette.routing", "label").Route
        return [
            Route(prefix + path, _endpoint(self.tiers, function), methods=[method])
            for prefix in ("", "/tier/{tier}")
            for path, (method, function) in table.items()
        ]

    def static(self, request: Any, body: bytes) -> Any:
        """Send the page, a script or a style sheet."""
        name = request.path_params.get("file", "index.html")
        if name not in STATIC:
            raise Refusal(404, "There is no such file.")
        return STATIC[name], (_HERE / name).read_bytes()

    def state(self, request: Any, body: bytes) -> Any:
        """Send what the page needs at its start: recordings, formats, tiers and annotations."""
        for name in set(tiers_of(self.folder)) - set(self.tiers):  # that another server has begun
            self.open_tier(name).loop.thread.start()
        shown = ("name", "kind", "seconds", "rate", "signal_rate", "channels")
        recordings = [
            {key: getattr(one, key) for key in shown}
            | {
                "spectrogram": one.kind != "table" and len(one.sound[2]) > 0,
                "pitches": one.pitches,
                "thumbnail_step": one.thumbnail_step if one.kind == "video" else None,
            }
            for one in self.recordings.values()
        ]
        formats = [{"kind": kind, "title": one.title} for kind, one in datasets.FORMATS.items()]
        return {
            "folder": self.folder.name,
            "id": hashlib.sha256(str(self.project.file.resolve()).encode()).hexdigest()[:16],
            "bins": BINS,
            "recordings": recordings,
            "formats": formats,
            "most_labels": MOST_LABELS,
            "tier": self.project.tier,
            "tiers": {
                name: [] if page is self else page.annotated()["annotations"]
                for name, page in self.tiers.items()
            },
            **self.annotated(),
        }

    def new_tier(self, request: Any, body: bytes) -> Any:
        """Start another tier. The file of the tier is written with the first annotation."""
        name = check_tier(body.decode("utf-8", "replace"), [*self.tiers, *self.recordings])
        self.open_tier(name).loop.thread.start()
        return {"tier": name}

    def open_tier(self, name: str) -> Page:
        """Open another tier of the same recordings, and read its annotations."""
        seconds, settings, clock = self.project.seconds, self.project.settings, self.project.clock
        project = Project(self.folder, seconds, name, settings=settings, clock=clock).load()
        return Page(self.folder, list(self.recordings.values()), project, self.tiers)

    def refresh(self) -> None:
        """Read what another server of the folder has saved, and learn from it."""
        if self.project.refresh():
            self.loop.wake()

    def annotated(self) -> dict[str, Any]:
        """Return the annotations and labels of this tier, and their revision."""
        self.refresh()
        with self.project.lock:
            annotations = {
                name: [one.as_json() for one in many]
                for name, many in self.project.annotations.items()
            }
            return {
                "revision": self.project.revision,
                "labels": self.project.labels,
                "annotations": annotations,
            }

    async def learned(self, request: Any, body: bytes) -> Any:
        """Wait for a result of learning that is newer than the result on the page, and send it.

        If there is no newer result after some seconds, the old result is sent again. Waiting
        does not block a thread, so any number of browser windows may be open.
        """
        serial = request.path_params["serial"]
        deadline = time.monotonic() + _PATIENCE
        look, revision = 0.0, self.project.revision
        while self.loop.learned["serial"] == serial and time.monotonic() < deadline:
            if self.is_closing or self.project.revision > revision:
                break
            if time.monotonic() > look:
                look = time.monotonic() + _LOOK
                await optional("starlette.concurrency", "label").run_in_threadpool(self.refresh)
            await asyncio.sleep(_TICK)
        return answer({**self.loop.learned, "saved": self.project.revision})

    def change(self, request: Any, body: bytes) -> Any:
        """Check the annotations and labels that the page sent, and save them."""
        try:
            given = json.loads(body)
        except (ValueError, RecursionError):
            raise Refusal(400, "A change needs to be JSON.") from None
        content = given if isinstance(given, dict) else {}
        revision, lists = content.get("revision"), content.get("annotations")
        annotator = content.get("annotator", "")
        if annotator != "" and not is_word(annotator):
            raise Refusal(400, "The name of an annotator needs to be a line of up to 200 letters.")
        if type(revision) is not int or not isinstance(lists, dict):
            raise Refusal(400, "A change needs a revision (a whole number) and annotations.")
        annotations = {}
        for name, entries in lists.items():
            one = self._recording(name)
            annotations[name] = read_annotations(entries, one.seconds)
            partial_labels(annotations[name], len(one.features), one.rate)  # refuses contradictions
        try:
            number = self.project.change(revision, annotations, content.get("labels"), annotator)
        except Conflict as conflict:
            self.loop.wake()  # learn from the changes made elsewhere, too
            return answer({"error": str(conflict), **self.annotated()}, 409)
        except OSError as error:
            raise Refusal(422, f"Not saved: {error}") from error
        self.loop.wake()
        return {"revision": number}

    def tiles(self, request: Any, body: bytes) -> Any:
        """Send the minima and maxima in a tile as float32 numbers, (bins, channels, 2)."""
        one, level, index = self._tile(request)
        chosen = request.query_params.get("channels", "0").split(",")[:_MOST_CHANNELS]
        n_channels = len(one.columns) if one.kind == "table" else 1
        if not all(c.isdecimal() and int(c) < n_channels for c in chosen):
            raise Refusal(400, f"Channels need to be numbers below {n_channels}.")
        tile = one.tile(level, index, [int(channel) for channel in chosen])
        return "application/octet-stream", tile.tobytes()

    def spectrogram(self, request: Any, body: bytes) -> Any:
        """Send the loudness in a tile of the spectrogram as bytes, (bins, bands)."""
        one, level, index = self._tile(request)
        return "application/octet-stream", one.spectrogram(level, index).tobytes()

    def _tile(self, request: Any) -> tuple[Recording, int, int]:
        level, index = request.path_params["level"], request.path_params["index"]
        if level > 30 or index > 1 << 40:
            raise Refusal(404, "There is no such tile.")
        return self._recording(request.path_params["name"]), level, index

    def thumbnails(self, request: Any, body: bytes) -> Any:
        """Send the thumbnails of a video side by side in one picture."""
        return "image/jpeg", self._file(request, "video").thumbnails

    def media(self, request: Any, body: bytes) -> Any:
        """Send a sound or video file, or the part of it that a player requests."""
        one = self._file(request, "audio", "video")
        return optional("starlette.responses", "label").FileResponse(one.path, headers=HEADERS)

    def export(self, request: Any, body: bytes) -> Any:
        """Send the segments of a recording in the requested format.

        All segments on the page are sent, or only the labeled segments if this is requested.
        """
        one = self._recording(request.path_params["name"])
        ((name, content),) = self._written(request.path_params["kind"], [one], request)
        return _download(name, content)

    async def export_model(self, request: Any, body: bytes) -> Any:
        """Send the model file of a recording, or tell within a second how far its learning is.

        The first request begins to learn, and gets the revision of the labels. Requests with this
        revision wait for the same file.
        """
        one, asked = self._recording(request.path_params["name"]), request.query_params
        revision = int(asked["revision"]) if asked.get("revision", "").isdecimal() else None
        run = optional("starlette.concurrency", "label").run_in_threadpool
        made = await run(self.models.of, one, revision)
        deadline = time.monotonic() + _LOOK
        while not made.ended.is_set() and not self.is_closing and time.monotonic() < deadline:
            await asyncio.sleep(_TICK)
        if made.problem:
            raise Refusal(422, made.problem)
        if made.content is None:
            return answer(made.as_json(), 202)
        return _download(f"{self._named(self.folder.name)}.model", made.content)

    def export_all(self, request: Any, body: bytes) -> Any:
        """Send the segments of all recordings.

        The format "csv" gives one table. Other formats give an archive with a file for each
        recording.
        """
        kind, recordings = request.path_params["kind"], self.recordings.values()
        name = self._file_name(self.folder.name, kind, request)
        if kind == "csv":
            tables = {one.name: self._shown(one, request) for one in recordings}
            return _download(name, datasets.segments_text(_named(tables)).encode())
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as packed:
            for file in self._written(kind, recordings, request):
                packed.writestr(*file)
        return _download(f"{name}.zip", archive.getvalue())

    def _written(
        self, kind: str, recordings: Iterable[Recording], request: Any
    ) -> Iterator[tuple[str, bytes]]:
        """Write a file for each recording. Yields the name and the content of each."""
        with tempfile.TemporaryDirectory() as folder:
            for one in recordings:
                path = Path(folder) / self._file_name(one.name, kind, request)
                segments = self._shown(one, request)
                mine = self.project.annotations.get(one.name, [])
                if kind == "rttm" and not any(given.label for given in mine):  # it holds no blanks
                    segments = [(a, b, "_".join(label.split())) for a, b, label in segments]
                datasets.write_file(kind, one.name, segments, path, one.path)
                yield path.name, path.read_bytes()

    def _file_name(self, name: str, kind: str, request: Any) -> str:
        """Return the name of a file: with "segments" if it has predicted segments, too.

        Labels only have the usual ending of their format, and "labels" if that is of segments.
        """
        ending = _format(kind).ending.removeprefix(".segments").removeprefix(".labels")
        is_mine = request.query_params.get("what") == "known"
        made = "labels" if _format(kind).ending != ending else ""
        return ".".join(filter(None, [self._named(name), made if is_mine else "segments"])) + ending

    def _named(self, name: str) -> str:
        """Append the name of this tier to the name of a file, if the tier has a name."""
        return f"{name}.{self.project.tier}" if self.project.tier else name

    def parse(self, request: Any, body: bytes) -> Any:
        """Convert an uploaded file of segments to annotations, and send them to the page.

        The page then saves these like annotations by a person.
        """
        one, kind = self._recording(request.path_params["name"]), request.path_params["kind"]
        ending = _format(kind).ending
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"imported{ending}"
            path.write_bytes(body)
            segments = {one.name: datasets.read_file(kind, one.name, path)}
            if kind == "csv":
                segments |= datasets.named_as(datasets.read_segments(path), self.recordings)
            segments = self.project.clock.on_page(segments)
        given = {
            name: [entry.as_json() for entry in imported(name, many, self.recordings[name].seconds)]
            for name, many in segments.items()
            if name in self.recordings
        }
        late = [name for name in given if self.project.is_cut(name, segments[name])]
        return {"annotations": given, "unknown": sorted(set(segments) - set(given)), "late": late}

    def _shown(self, one: Recording, request: Any) -> list[Segment]:
        """Return the labeled segments of a recording, with predicted segments between them.

        There are no predicted segments if the request excludes them, or if there is no model yet.
        """
        learned = self.loop.learned["recordings"].get(one.name)
        many = self.project.annotations.get(one.name, [])
        if learned is None or request.query_params.get("what") == "known":
            shown = exported(one.name, many, one.seconds)
        else:
            predicted = learned["boundaries"], learned["labels"]
            shown = merged_segments(many, *predicted, one.seconds, one.rate)
        return self.project.clock.in_files({one.name: shown})[one.name]

    def _recording(self, name: str) -> Recording:
        if name not in self.recordings:
            raise Refusal(404, "There is no such recording.")
        return self.recordings[name]

    def _file(self, request: Any, *kinds: str) -> Recording:
        one = self._recording(request.path_params["name"])
        # a link may have replaced the file since the page was opened
        inside = one.path.is_file() and one.path.resolve().is_relative_to(self.folder)
        if one.kind not in kinds or not inside:
            raise Refusal(404, f"There is no such file of {one.name!r}; it may have been removed.")
        return one


def _format(kind: str) -> datasets.Format:
    if kind not in datasets.FORMATS:
        raise Refusal(404, f"There is no format {kind!r}.")
    return datasets.FORMATS[kind]


def _download(name: str, content: bytes) -> Any:
    disposition = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}"}
    return optional("starlette.responses", "label").Response(content, headers=HEADERS | disposition)


def _named(tables: dict[str, list[Segment]]) -> dict[str, list[Segment]]:
    """Give every segment a label if some segment has one.

    The label of an unlabeled segment is the name of the recording and a number.
    """
    if not any(label for segments in tables.values() for *_, label in segments):
        return tables
    return {
        name: [(a, b, label or f"{name} {i + 1}") for i, (a, b, label) in enumerate(segments)]
        for name, segments in tables.items()
    }


def _endpoint(tiers: Mapping[str, Page], function: Callable[..., Any]) -> Any:
    """Make an endpoint for starlette that calls a method of the page of the requested tier.

    The method runs in a thread unless it is a coroutine.
    """

    async def endpoint(request: Any) -> Any:
        page = tiers.get(request.path_params.get("tier", ""))
        if page is None:
            return answer({"error": "There is no such tier."}, 404)
        return await answered(function, page, request, await request.body())

    return endpoint
