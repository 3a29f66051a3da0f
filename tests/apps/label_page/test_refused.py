"""Requests that the server of the label page refuses: nothing is written, and nothing is told."""

import http.client
import json
from pathlib import Path
from typing import Any

import pytest

from tests.apps.label_page.test_server import FORMATS, SEGMENTS, TOKEN, Server, running, write_table

ZEROS = "0" * 400
CHANGES = f"/{TOKEN}/api/changes"
WEB_SOCKET = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}


def put(sentence: str, **content: Any) -> tuple[str, str, Any, dict[str, str], str]:
    """A change of annotations, with a part of the sentence that refuses it."""
    return "PUT", CHANGES, {"revision": 0, "annotations": {}} | content, {}, sentence


def one(sentence: str, *entries: Any) -> tuple[str, str, Any, dict[str, str], str]:
    return put(sentence, annotations={"one": list(entries)})


def quiet(start: float, end: float, kind: str = "no change", **more: Any) -> dict[str, Any]:
    return {"start": start, "end": end, "kind": kind, **more}


# method, path, body, headers, and a part of the answer
REFUSED: list[tuple[str, str, Any, dict[str, str], str]] = [
    *(
        ("GET", f"/{TOKEN}/api/project", None, {"Host": host}, "")
        for host in ("evil.example", "127.0.0.1", "127.0.0.1:1", "")
    ),
    *(
        (*put("", annotations={"one": SEGMENTS})[:3], {"Origin": origin}, "Other pages may not")
        for origin in ("http://evil.example", "null", "http://127.0.0.1:1", "file://")
    ),
    *(
        ("GET", path, None, {}, "")
        for path in ("/", "/api/project", "/a-toke/api/project", "//", "/A-TOKEN/", "*")
    ),
    ("GET", "/wrong/api/project", None, {"Accept": "*/*"}, "Open the address that metriclearn"),
    ("GET", f"/{TOKEN}/", None, WEB_SOCKET, ""),
    *(
        ("GET", f"/{TOKEN}/{path}", None, {}, "")
        for path in (
            *("static/../server.py", "static/..%2fserver.py", "static//etc/passwd"),
            *("media/..%2f..%2fsecret", "media/one", "export/csv/..%2fsecret", "export/..%2f/one"),
            *("api/tiles/..%2fsecret/0/0", "api/tiles/one/99/0"),
            *("api/tiles/one/0/99999999999999999999", "api/learned/-1"),
            *("api/tiles/one/0/0?channels=-1", "api/tiles/one/0/0?channels=7"),
            "tier/none/api/project",
        )
    ),
    # before it is read
    ("PUT", CHANGES, b"{}", {"Content-Length": "1000000000"}, "may have at most"),
    *(
        ("PUT", CHANGES, body, {}, "A change needs")
        for body in (b"{", b"\xff\xfe\x00junk", b"[" * 100_000, b"null")
    ),
    put("A change needs a revision", revision="0"),
    put("A change needs a revision", annotations=[]),
    put("There is no such recording", annotations={"three": []}),
    put("Labels need to be", labels=[1]),
    put("Labels need to be", labels=["unknown"]),
    ("PUT", CHANGES, b'{"revision": 0, "annotations": {}, "labels": ["\\ud800"]}', {}, "Labels"),
    *(
        put("The name of an annotator", annotations={"one": SEGMENTS}, annotator=annotator)
        for annotator in ("x" * 201, "two\nlines", " spaces ", 3, None)
    ),
    one("An annotation needs", 7),
    one("An annotation needs", quiet(float("nan"), 2, "change")),
    one("An annotation needs", quiet(1, 99)),
    one("An annotation needs", quiet(1, int(f"1{ZEROS}"))),
    one("An annotation needs", quiet(1, 2, "what")),
    one("An annotation needs", quiet(1, 2, "segment")),
    one("An annotation needs", quiet(1, 2, "segment", label="a\0b")),
    *(
        one("a millisecond or longer", quiet(*times))
        for times in ((9.0004, 9.0008), (3.0001, 3.0004), (3.0004, 3.0006), (9.0, 9.0005))
    ),
    one("within the recording", quiet(9.0, 9.0, "change")),
    one("within the recording", quiet(0.0001, 0.0001, "change")),
    one("within the recording", quiet(9.5, 9.6)),
    one("contradict", quiet(1, 4, "one change"), *(quiet(t, t, "change") for t in (2.0, 3.0))),
    *(
        ("POST", f"/{TOKEN}/import/{kind}/one", b"\x00\xffjunk\n<" * 9, {}, "The file (")
        for kind in FORMATS
    ),
    (
        "POST",
        f"/{TOKEN}/import/csv/one",
        b"recording,start,end,label,coder\none,0,5,a,Ann\none,0,5,b,Bob\n",
        {},
        "several annotators, Ann, Bob; keep those of one in the file.",  # where no option is
    ),
    *(
        ("POST", f"/{TOKEN}/api/tiers", name.encode(), {}, "A tier needs a name")
        for name in ("", " ", "a/b", "../up", "a.b", ".hidden", "x" * 41, "one", "TWO", "tab\tin")
    ),
]


@pytest.mark.parametrize(("method", "path", "body", "headers", "sentence"), REFUSED)
def test_refused_in_a_sentence(untouched, method, path, body, headers, sentence) -> None:
    status, content = untouched.ask(method, path, body, headers)
    assert 400 <= status < 500
    if sentence:
        told = json.loads(content)["error"]
        assert sentence in told
        assert "\n" not in told
    for secret in (b"1,2,3", b"root:", b'"recordings"'):
        assert secret not in content
    assert untouched.written() == set()
    assert set(untouched.page.tiers) == {""}


def test_a_wrong_address_is_answered_by_a_page(untouched: Server) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml"}
    status, content = untouched.ask("GET", "/wrong/", headers=browser)
    assert status == 403
    assert content.startswith(b"<!doctype html>")
    assert b"Open the address that metriclearn label printed" in content


def test_large_bodies_without_a_length_are_refused(untouched: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", untouched.port, timeout=30)
    pieces = (b"x" * 1_000_000 for _ in range(1000))
    chunked = {"Transfer-Encoding": "chunked"}
    try:
        connection.request("PUT", CHANGES, pieces, encode_chunked=True, headers=chunked)
    except (BrokenPipeError, ConnectionResetError):
        return  # closed before all was sent
    assert connection.getresponse().status == 413
    assert next(pieces, None) is None


def test_its_origin_may_write(server: Server) -> None:
    body = {"revision": 0, "annotations": {"one": SEGMENTS}}
    origin = {"Origin": f"http://127.0.0.1:{server.port}"}
    assert server.ask("PUT", CHANGES, body, origin)[0] == 200
    assert server.written() == {"metriclearn.json", "segments.csv"}


def test_links_out_of_the_folder_are_not_followed(server: Server, tmp_path: Path) -> None:
    (folder := tmp_path / "linked").mkdir()
    write_table(folder / "one.csv")
    (folder / "linked.csv").symlink_to(tmp_path / "secret.csv")
    for other in running(folder):
        state = json.loads(other.ask("GET", f"/{TOKEN}/api/project")[1])
        assert [one["name"] for one in state["recordings"]] == ["one"]
    outside = tmp_path / "outside.json"
    outside.write_text('{"format": 1, "revision": 0, "labels": [], "recordings": {}}')
    (server.folder / "metriclearn.json").symlink_to(outside)
    status, content = server.change(0, one=SEGMENTS)
    assert status == 422
    assert "link out of the folder" in content["error"]
    assert json.loads(outside.read_text())["revision"] == 0
