"""``metriclearn label``: open a folder and serve its page. Only this computer reaches it."""

from __future__ import annotations

import json
import secrets
import socket
import threading
import time
import webbrowser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import Request as Query
from urllib.request import urlopen

from metriclearn import Partition, datasets
from metriclearn.apps.label_page.address import Address, TokenGuard
from metriclearn.apps.label_page.annotation import Clock, imported
from metriclearn.apps.label_page.page import STATIC, Page
from metriclearn.apps.label_page.project import (
    FILE,
    MOST_LABELS,
    TABLE,
    Project,
    read_project,
    tiers_of,
)
from metriclearn.apps.label_page.signals import Recording, open_recordings
from metriclearn.apps.models import WITHOUT_RATE
from metriclearn.apps.web import bound
from metriclearn.datasets import UNKNOWN, Segment
from metriclearn.running import note, optional, quieten, text


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
    known = project.clock.on_page({name: spans[name] for name in seconds if name in spans})
    ends = {name: seconds[name] for name in known}
    remedy = "remove them on the page"
    _begin_with(project, datasets.with_background(repr(str(table)), known, ends, remedy=remedy))


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
    clock = Clock.of({one.name: one.times for one in recordings}, settings.get("rate", 1.0))
    project = Project(folder, lengths, settings=settings, clock=clock).load()
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
    try:
        return bound("metriclearn label", "127.0.0.1", port or last)
    except OSError:
        if port or not last:
            raise
        return bound("metriclearn label", "127.0.0.1", 0)


def _check(address: str) -> None:
    """Request everything that a page requests, and print a report. Write no file."""

    def ask(path: str) -> bytes:
        with urlopen(Query(address + quote(path)), timeout=60) as answer:
            return answer.read()

    state = json.loads(ask("api/project"))
    for name in ("", *(f"static/{file}" for file in STATIC)):
        ask(name)
    print(f"Page: {len(STATIC)} files, {len(state['recordings'])} recordings")
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
