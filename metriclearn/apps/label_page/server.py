"""``metriclearn label``: serve a page for annotating recordings. Only this computer reaches it."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import secrets
import socket
import tempfile
import threading
import time
import webbrowser
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import Request as Query
from urllib.request import urlopen

from metriclearn import Partition, datasets
from metriclearn.apps.label_page.address import Address, TokenGuard
from metriclearn.apps.label_page.annotation import (
    exported,
    imported,
    is_word,
    partial_labels,
    read_annotations,
)
from metriclearn.apps.label_page.loop import Loop
from metriclearn.apps.label_page.model_files import ModelFiles
from metriclearn.apps.label_page.project import (
    FILE,
    MOST_LABELS,
    TABLE,
    Conflict,
    Project,
    check_tier,
    read_project,
    tiers_of,
)
from metriclearn.apps.label_page.shown import merged_segments
from metriclearn.apps.label_page.signals import BINS, Recording, open_recordings
from metriclearn.apps.models import WITHOUT_RATE
from metriclearn.apps.web import HEADERS, Refusal, answer, answered
from metriclearn.datasets import UNKNOWN, Segment
from metriclearn.running import note, optional, quieten, text

_MOST_CHANNELS = 12
_PATIENCE = 10.0  # seconds that the page waits for news
_LOOK = 1.0  # seconds until the page sees what another server has saved, or how far a model is
_TICK = 0.03
_HERE = files("metriclearn.apps.label_page") / "static"
_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
_STATIC = {
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
        if name not in _STATIC:
            raise Refusal(404, "There is no such file.")
        return _STATIC[name], (_HERE / name).read_bytes()

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
        seconds, settings = self.project.seconds, self.project.settings
        project = Project(self.folder, seconds, name, settings=settings).load()
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
            return exported(one.name, many, one.seconds)
        predicted = learned["boundaries"], learned["labels"]
        return merged_segments(many, *predicted, one.seconds, one.rate)

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


def _begin_with_column(
    project: Project, recordings: Sequence[Recording], label: str, unknown: str | None
) -> None:
    """Read annotations from a column of labels in tables, as ``metriclearn fit`` does.

    Rows with the label ``unknown``, or with labels such as −1 and NaN, are unlabeled.
    """
    spans: dict[str, list[Segment]] = {}
    nobody = {"", "-1", "-1.0", "nan", "<na>"}
    for one in recordings:
        if one.kind != "table":
            continue
        labels = one.distinct(datasets.read_labeled(one.path, label, partly=True)[1])
        ends = (Partition.from_runs(labels).change_points / one.rate).tolist()
        names = [
            UNKNOWN if text(word) == text(unknown or UNKNOWN) or word.lower() in nobody else word
            for word in datasets.runs(labels)
        ]
        spans[one.name] = list(zip([0.0, *ends], [*ends[:-1], one.seconds], names))
    _begin_with(project, spans, counts=False)


def _begin_with_table(project: Project, annotator: str | None = None) -> None:
    """Read annotations from ``segments.csv`` in a folder in which the page was never used."""
    table = project.folder / TABLE
    if table.resolve().parent != project.folder.resolve():
        raise ValueError(f"{str(table)!r} is a link out of the folder; copy the file into it.")
    seconds = project.seconds
    spans = datasets.named_as(datasets.read_segments(table, annotator), seconds)
    if others := sorted(set(spans) - set(seconds)):
        note(
            f"{str(table)!r} has segments of {others[:5]}, which have no recording here and are "
            f"not shown; the first saved change keeps the table as {TABLE}.before."
        )
    _begin_with(project, {name: spans[name] for name in seconds if name in spans})


def _begin_with(
    project: Project, spans: Mapping[str, Sequence[Segment]], counts: bool = True
) -> None:
    """Annotate recordings by segments. ``counts``: numbers may count segments."""
    seconds = project.seconds
    if late := [name for name, rows in spans.items() if project.is_cut(name, rows)]:
        note(
            f"Segments that reach beyond the end of {', '.join(map(repr, late[:5]))} are cut "
            "there, or left out; check that times are in seconds."
        )
    project.annotations = {
        name: imported(name, rows, seconds[name], covers=True, counts=counts)
        for name, rows in spans.items()
    }
    labels = {one.label for many in project.annotations.values() for one in many if one.label}
    project.labels = sorted(labels)[:MOST_LABELS]


def open_page(
    folder: Path,
    *,
    label: str | None = None,
    unknown: str | None = None,
    annotator: str | None = None,
    **options: Any,
) -> Page:
    """Open the page of a folder with its annotations.

    Parameters
    ----------
    folder : Path
    label : str, optional
        A column of labels in tables, with which a page that has no labels yet begins.
    unknown : str, optional
        The label that marks unlabeled rows in this column.
    annotator : str, optional
        Whose segments to begin with, if ``segments.csv`` has segments of several people.
    **options
        Options of ``open_recordings``.

    Raises
    ------
    FileNotFoundError
        If the folder does not exist or contains nothing to label.
    ValueError
        If a recording or ``metriclearn.json`` is damaged, or if ``metriclearn.json`` is missing and
        ``segments.csv`` or the column of labels is damaged.
    """
    for name in ("starlette", "uvicorn"):
        optional(name, "label")
    earlier = read_project(folder)
    tiers = tiers_of(folder)
    if label is not None:
        options["ignore"] = [*(options.get("ignore") or earlier.get("ignore") or []), label]
    recordings, settings = open_recordings(folder, earlier=earlier, **options)
    if "rate" not in settings and any(one.kind == "table" for one in recordings):
        note(WITHOUT_RATE)
    lengths = {one.name: one.seconds for one in recordings}
    project = Project(folder, lengths, settings=settings).load()
    if label is not None and (earlier or project.table.is_file()):
        note(
            f"{str(folder)!r} already has labels in {FILE if earlier else TABLE}, so those of the "
            f"column {label!r} are not used; to begin with the column, move that file away."
        )
    if not earlier and project.table.is_file():
        _begin_with_table(project, annotator)
    elif not earlier and label is not None:
        _begin_with_column(project, recordings, label, unknown)
    elif earlier and not project.is_table_ours:
        note(
            f"{str(folder / TABLE)!r} was edited elsewhere. The page uses metriclearn.json, and "
            f"the next saved change keeps the table as {TABLE}.before. To use the table instead, "
            "move metriclearn.json away."
        )
    page = Page(folder, recordings, project)
    for tier in tiers:
        page.open_tier(tier)
    return page


def application(page: Page, port: int, token: str) -> TokenGuard:
    """Make the ASGI application of a page. A guard checks all requests first."""
    starlette = optional("starlette.applications", "label").Starlette(routes=page.routes())
    return TokenGuard(starlette, port, token)


def serve(page: Page, port: int | None = None, check: bool = False, browser: bool = True) -> None:
    """Serve a page on 127.0.0.1 until Ctrl-C is pressed.

    With ``check``, request every address of the page once, print a report, and stop.

    Raises
    ------
    OSError
        If the port is in use, or if there is no such port.
    ValueError
        If the check fails.
    """
    uvicorn = optional("uvicorn", "label")
    kept = Address.of(page.folder)
    with _listening(port, kept.port) as listening:
        used, token = listening.getsockname()[1], kept.token
        address = f"http://127.0.0.1:{used}/{token}/"
        guard = application(page, used, token)
        settings = uvicorn.Config(
            guard, log_level="warning", timeout_graceful_shutdown=1, server_header=False
        )
        server = uvicorn.Server(settings)

        def close(*given: Any) -> None:
            for one in page.tiers.values():
                one.is_closing = True  # so that no request waits for news
            type(server).handle_exit(server, *given)

        server.handle_exit = close
        for one in page.tiers.values():
            one.loop.thread.start()
        listening.listen()  # early requests wait until the server answers
        if check:
            serving = threading.Thread(target=server.run, args=([listening],), daemon=True)
            serving.start()
            while not server.started:
                time.sleep(0.05)
            try:
                _check(address)
            finally:
                server.should_exit = True
                serving.join()  # wait for the server before its socket is closed
            return
        for one in page.tiers.values():
            one.project.mend_table()
        if port or not kept.port:  # an open page sends its requests to the same address again
            Address(token, used).keep(page.folder)
        print(
            f"{address}\nOpen this address in a browser on this computer. Ctrl-C stops the server.",
            flush=True,
        )
        quieten()
        if browser:
            # other users see the browser's command line: its address has a code that is valid once
            guard.code = secrets.token_urlsafe(24)
            webbrowser.open(f"http://127.0.0.1:{used}/{guard.code}/")
        server.run([listening])


def _listening(port: int | None, last: int) -> socket.socket:
    """Bind a socket to the given port.

    If no port is given, use the port of the last server if it is free, else any free port.
    """
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port or last))
    except (OSError, OverflowError) as error:
        if port or not last:
            listening.close()
            reason = getattr(error, "strerror", None) or "there is no such port"
            raise OSError(
                f"metriclearn label needs a free port, got {port or 0} ({reason}); choose "
                "another one, or leave --port out."
            ) from error
        listening.bind(("127.0.0.1", 0))
    return listening


def _check(address: str) -> None:
    """Request everything that a page requests, and print a report. Write no file."""

    def ask(path: str) -> bytes:
        with urlopen(Query(address + quote(path)), timeout=60) as answer:
            return answer.read()

    state = json.loads(ask("api/project"))
    for name in ("", *(f"static/{file}" for file in _STATIC)):
        ask(name)
    print(f"Page: {len(_STATIC)} files, {len(state['recordings'])} recordings")
    for one in state["recordings"]:
        name = one["name"]
        parts = {
            f"api/tiles/{name}/0/0": one["channels"],
            f"api/spectrogram/{name}/0/0": one["spectrogram"],
            f"api/thumbnails/{name}": one["thumbnail_step"],
        }
        n_bytes = sum(len(ask(part)) for part, exists in parts.items() if exists)
        print(f"{name}: {one['kind']}, {one['seconds']:.1f} s, {n_bytes} bytes of tiles")
    learned = json.loads(ask("api/learned/0"))
    deadline = time.monotonic() + 600
    while learned.get("busy", True) and "error" not in learned and time.monotonic() < deadline:
        learned = json.loads(ask(f"api/learned/{learned['serial']}"))
    if "error" in learned or learned.get("busy", True):
        raise ValueError(f"Learning failed: {learned.get('error', 'no answer in 600 s')}")
    print(
        f"Learned in {learned['seconds']:.2f} s: {len(learned['recordings'])} recordings "
        f"segmented, {len(learned['suggestions'])} stretches suggested"
    )
