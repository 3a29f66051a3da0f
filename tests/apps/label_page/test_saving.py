"""What the server of the label page acknowledges is saved, by one process at a time, and opens."""

import errno
import http.client
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from metriclearn.apps.label_page.address import FILE, Address
from metriclearn.apps.label_page.annotation import Annotation, read_annotations
from metriclearn.apps.label_page.project import Project
from metriclearn.apps.label_page.server import open_page, serve
from metriclearn.datasets.annotations import read_segments
from tests.apps.label_page.test_server import SEGMENTS, TOKEN, Server, two_tables

pytest.importorskip("uvicorn", reason="needs the extra label")
pytest.importorskip("starlette", reason="needs the extra label")

# Adds a segment at a time to its recording, and repeats a change after a conflict.
_PROCESS = """
import sys
from pathlib import Path
from metriclearn.apps.label_page.annotation import Annotation
from metriclearn.apps.label_page.project import Conflict, Project
project = Project(Path(sys.argv[1]), {"one": 100.0, "two": 100.0}).load()
print("ready", flush=True)
sys.stdin.readline()
for n in range(1, 21):
    given = [Annotation(k, k + 1.0, "segment", "abc"[k % 3]) for k in range(n)]
    while True:
        try:
            project.change(project.revision, {sys.argv[2]: given})
            break
        except Conflict:
            pass
"""


def test_two_processes_lose_no_acknowledged_change(tmp_path: Path) -> None:
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [
        subprocess.Popen([sys.executable, "-c", _PROCESS, str(tmp_path), name], **pipes)
        for name in ("one", "two")
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    content = json.loads((tmp_path / "metriclearn.json").read_text())
    assert content["revision"] == 40  # each acknowledged change raises it by one
    assert {name: len(many) for name, many in content["recordings"].items()} == {
        "one": 20,
        "two": 20,
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metriclearn.json", "segments.csv"]


@pytest.mark.parametrize("name", ["segments.csv", "metriclearn.json"])
def test_a_folder_of_that_name_keeps_both_files(server: Server, name: str) -> None:
    (server.folder / name).mkdir()
    status, content = server.change(0, one=SEGMENTS)
    assert status == 422
    assert "is a folder" in content["error"]
    assert server.written() == {name}
    (server.folder / name).rmdir()
    assert server.change(0, one=SEGMENTS) == (200, {"revision": 1})


@pytest.mark.filterwarnings("ignore:segments.csv is of the last change but one")
@pytest.mark.parametrize("failing", [0, 1, 2, 3])
def test_a_full_disk_keeps_both_files(server, failing, monkeypatch) -> None:
    assert server.change(0, one=SEGMENTS)[0] == 200
    before = {p.name: p.read_bytes() for p in server.folder.iterdir() if p.is_file()}
    calls, write = iter(range(100)), os.fsync

    def full(descriptor: int) -> None:
        if next(calls) == failing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        status, content = server.change(1, one=[], two=SEGMENTS)
    after = {p.name: p.read_bytes() for p in server.folder.iterdir() if p.is_file()}
    if status == 200:
        assert after["metriclearn.json"] != before["metriclearn.json"]
    else:
        assert content["error"].startswith("Not saved: ")
        assert after == before
    # whatever happened, the next change goes by the answer
    revision = 2 if status == 200 else 1
    assert server.change(revision, one=[], two=SEGMENTS)[0] == 200
    assert set(read_segments(server.folder / "segments.csv")) == {"two"}
    assert server.written() == {"metriclearn.json", "segments.csv"}


def test_a_table_that_was_not_replaced_in_time_is_replaced_at_the_next_start(server) -> None:
    assert server.change(0, one=SEGMENTS)[0] == 200
    table = server.folder / "segments.csv"
    earlier = table.read_bytes()
    assert server.change(1, two=SEGMENTS)[0] == 200
    table.write_bytes(earlier)  # as if the server was killed after the first file
    lengths = {"one": 9.0, "two": 9.0}
    project = Project(server.folder, lengths).load()
    assert project.is_table_ours
    project.mend_table()
    assert set(read_segments(table)) == {"one", "two"}
    table.write_bytes(earlier + b"two,0,1,edited\n")
    project = Project(server.folder, lengths).load()
    assert not project.is_table_ours
    project.mend_table()
    assert table.read_bytes().endswith(b"edited\n")


def test_what_is_acknowledged_can_be_opened(tmp_path: Path) -> None:
    generator, seconds = np.random.default_rng(0), 9.0
    project, n_refused = Project(tmp_path, {"one": seconds}), 0
    for _ in range(300):
        near = generator.choice([0.0, 3.0, seconds])
        start, end = near + generator.normal(size=2) * 10.0 ** generator.integers(-5, -1)
        kind = str(generator.choice(["change", "segment", "no change"]))
        entry = {"start": start, "end": start if kind == "change" else end, "kind": kind}
        try:
            given = read_annotations([entry | ({"label": "a"} if kind == "segment" else {})], 9.0)
        except ValueError:
            n_refused += 1
            continue
        project.change(project.revision, {"one": given})
        again = Project(tmp_path, {"one": seconds}).load()
        assert again.annotations == {"one": given}
        if (tmp_path / "segments.csv").exists():
            assert read_segments(tmp_path / "segments.csv")["one"]
    assert 50 < n_refused < 250


def test_times_are_whole_milliseconds() -> None:
    entry = {"start": 1.23449, "end": 9.0004, "kind": "no change"}
    assert read_annotations([entry], 9.0) == [Annotation(1.234, 9.0, "no change")]


def test_the_address_is_kept_for_its_owner_only(tmp_path: Path) -> None:
    first = Address.of(tmp_path)
    assert first.port == 0
    Address(first.token, 4567).keep(tmp_path)
    assert Address.of(tmp_path) == (first.token, 4567)
    file = tmp_path / FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)  # others may have read the token
    assert Address.of(tmp_path).token != first.token
    Address(first.token, 4567).keep(tmp_path)
    assert Address.of(tmp_path).token == first.token
    for damaged in ("", "[]", '{"token": "../", "port": 1}', '{"token": 3, "port": 1}'):
        file.write_text(damaged)
        assert len(Address.of(tmp_path).token) == 32
    file.unlink()
    (tmp_path / "elsewhere").write_text(json.dumps(first._asdict()))
    file.symlink_to(tmp_path / "elsewhere")
    assert Address.of(tmp_path).token != first.token


@pytest.mark.parametrize("first", [TOKEN, "code"])
def test_addresses_that_lead_to_the_page(server: Server, first: str) -> None:
    server.guard.code = "code"
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", f"/{first}" + "/" * (first == "code"))
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("Location")) == (307, f"/{TOKEN}/")
    connection.close()
    # the command line of a browser shows the code, so it is valid once
    assert server.ask("GET", "/code/")[0] == (307 if first == TOKEN else 403)
    assert server.ask("GET", f"/{TOKEN}/")[0] == 200


def test_windows_that_wait_and_silent_connections_do_not_delay_others(server: Server) -> None:
    """A window waits for ten seconds; other connections send nothing, or half of a request."""
    request = f"GET /{TOKEN}/api/learned/0 HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n"
    waiting = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(380)]
    for i, one in enumerate(waiting[:230]):
        one.sendall(request[: None if i < 80 else 40].encode())
    begun = time.monotonic()
    assert server.ask("GET", f"/{TOKEN}/api/project")[0] == 200
    assert server.change(0, one=SEGMENTS)[0] == 200
    assert time.monotonic() - begun < 5.0
    for one in waiting:
        one.close()


def test_the_command_line_of_the_browser_has_no_token(tmp_path, monkeypatch) -> None:
    opened: list[str] = []
    page = open_page(two_tables(tmp_path), rate=10.0)

    def look(address: str) -> bool:
        opened.append(address)
        raise KeyboardInterrupt  # before the server runs

    monkeypatch.setattr("webbrowser.open", look)
    with pytest.raises(KeyboardInterrupt):
        serve(page)
    token = Address.of(page.folder).token
    assert Address.of(page.folder).port > 0  # it is the kept one
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[0-9A-Za-z_-]{32}/", opened[0])
    assert token not in opened[0]


def test_a_server_that_is_stopped_with_a_page_open_prints_a_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "metriclearn", "label", str(two_tables(tmp_path)), "--quiet"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(
        [*command, "--rate", "10"],
        # Processes of a shell in the background ignore the signal, and so would their children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **pipes,
    )
    address = urlsplit(process.stdout.readline().strip())
    server, learned = Server(tmp_path, address.port, None, None), {"serial": 0, "busy": True}
    while learned["busy"]:
        path = f"{address.path}api/learned/{learned['serial']}"
        learned = {"busy": True} | json.loads(server.ask("GET", path)[1])
    waiting = http.client.HTTPConnection("127.0.0.1", address.port, timeout=30)
    waiting.request("GET", f"{address.path}api/learned/{learned['serial']}")
    time.sleep(0.2)  # so that the request has arrived
    process.send_signal(signal.SIGINT)
    _, printed = process.communicate(timeout=30)
    waiting.close()
    assert printed == "Interrupted. No file was left incomplete.\n"


def test_a_file_merged_by_hand_with_an_error_is_never_overwritten(server: Server) -> None:
    assert server.change(0, one=SEGMENTS)[0] == 200
    file = server.folder / "metriclearn.json"
    entries = [{"start": a, "end": 3.0, "kind": "no change"} for a in (1.0, 2.0)]
    merged = json.dumps(json.loads(file.read_text()) | {"recordings": {"two": entries}})
    file.write_text(merged)
    for _ in range(2):  # the page sends a refused change again
        status, content = server.change(1, one=[])
        assert (status, "do not overlap" in content["error"]) == (422, True)
    assert file.read_text() == merged
