import gzip
import hashlib
import http.server
import io
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from metriclearn.datasets import data_folder, fetch, registry
from metriclearn.datasets.registry import Source, read

CONTENT = b"time,value\n0,1\n" * 200


class Handler(http.server.BaseHTTPRequestHandler):
    """CONTENT at /good.csv, less than announced at /cut.csv, a failure first at /late.csv."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        known = self.path in ("/good.csv", "/cut.csv")
        known |= self.path == "/late.csv" and self.asked.count("/late.csv") > 1
        self.send_response(200 if known else 404)
        self.send_header("Content-Length", str(len(CONTENT) if known else 0))
        self.end_headers()
        if known:
            self.wfile.write(CONTENT[:1000] if self.path == "/cut.csv" else CONTENT)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Address of a local server, and a registry entry ``toy`` with files on it."""
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    files = {
        f"part/{name}.csv": {"path": f"{name}.csv", "sha256": sha256}
        for name in ("good", "cut", "late", "no")
    }
    files["part/wrong.csv"] = {"path": "good.csv", "sha256": "0" * 64}
    monkeypatch.setattr(Handler, "asked", [], raising=False)
    monkeypatch.setattr(registry, "RETRIES", 0)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        address = f"http://127.0.0.1:{running.server_address[1]}/"
        source = Source("take it from the shelf", base_url=address, files=files)
        monkeypatch.setitem(registry.SOURCES, "toy", source)
        yield address
        running.shutdown()


def test_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("METRICLEARN_DATA", str(tmp_path / "all"))
    assert data_folder("hapt") == tmp_path / "all" / "hapt"
    assert data_folder("hapt", tmp_path / "mine") == tmp_path / "mine"
    monkeypatch.setenv("METRICLEARN_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_folder("hapt").name == "hapt"
    assert data_folder("hapt").parent.name == "metriclearn"


def test_good_download_is_kept(server: str, tmp_path: Path, monkeypatch) -> None:
    path = fetch("toy", "part/good.csv", tmp_path)
    assert path == tmp_path / "part" / "good.csv"
    assert path.read_bytes() == CONTENT
    assert fetch("toy", "part/good.csv", tmp_path) == path
    assert Handler.asked == ["/good.csv"]
    monkeypatch.setitem(registry.SOURCES, "toy", replace(registry.SOURCES["toy"], base_url="no"))
    assert fetch("toy", "part/good.csv", tmp_path / "mirrored", base_url=server).is_file()
    monkeypatch.setattr(registry, "RETRIES", 1)
    assert fetch("toy", "part/late.csv", tmp_path, server).read_bytes() == CONTENT
    assert Handler.asked[-2:] == ["/late.csv", "/late.csv"]


@pytest.mark.parametrize(
    ("name", "folder", "error", "sentence"),
    [
        ("wrong", "", ValueError, "'part/wrong.csv' .* sha256 is not 0000.* put the right file"),
        ("no", "", ConnectionError, "'part/no.csv' could not be downloaded"),
        ("cut", "", ConnectionError, "'part/cut.csv' could not be downloaded"),
        ("good", "file", OSError, "could not be written to"),
    ],
)
def test_bad_download_leaves_nothing(server, tmp_path, name, folder, error, sentence) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(error, match=sentence):
        fetch("toy", f"part/{name}.csv", tmp_path / folder)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["file"]


def test_absent_files_of_unknown_data_sets(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"put it there.* METRICLEARN_DATA to the folder"):
        fetch("unheard", "nothing.npz", tmp_path)


def test_registered_files_of_tcpd(shared_folder) -> None:
    folder = shared_folder("tcpd")
    for file, public in registry.SOURCES["tcpd"].files.items():
        path, sha256 = public["path"], public["sha256"]
        if file != "annotations.json":  # the shared copy holds part of the annotations
            assert hashlib.sha256((folder / file).read_bytes()).hexdigest() == sha256
            assert path == f"{file.removesuffix('.json')}/{Path(file).name}"


def damaged_files() -> Iterator[tuple[str, bytes]]:
    """Archives that are cut, have a flipped byte or a pickle, a plain array, JSON and tables."""
    good, pickled, plain = io.BytesIO(), io.BytesIO(), io.BytesIO()
    np.savez(good, x=np.arange(200.0))
    np.savez(pickled, x=np.array([{}], dtype=object))
    np.save(plain, np.arange(3))
    whole = good.getvalue()
    yield from (("a.npz", whole[:keep]) for keep in (0, 500))
    yield "flipped.npz", whole[:700] + bytes([whole[700] ^ 1]) + whole[701:]
    yield from (("pickled.npz", pickled.getvalue()), ("plain.npz", plain.getvalue()))
    yield "a.json", b'{"a": [1, 2'
    rows = b"a,0\n", b"a,0,1\nb,1", b"a,0,\n", b"a,0,x\n", b"a,0,1\nb,1,2,3\n"
    yield from (("a.csv", b"name,start,end\n" + row) for row in rows)
    yield from (("a.csv", text) for text in (b"", b"name,start\na,0\n"))
    packed = gzip.compress(b"name,start,end\na,0,1", mtime=0)
    yield from (("a.csv.gz", content) for content in (b"no gzip", packed[:-9], packed))


@pytest.mark.parametrize(("file", "content"), list(damaged_files()))
def test_damaged_files(tmp_path: Path, file: str, content: bytes) -> None:
    columns = {"name": str, "start": int, "end": int} if ".csv" in file else None
    kind = {"json": "JSON", "csv": "a CSV file with columns name, start, end"}
    needed = kind.get(file.split(".")[1], "an npz file of plain arrays")
    (tmp_path / file).write_bytes(content)
    with pytest.raises(ValueError, match=f"{file}' cannot be read as {needed}: it is truncated"):
        read("toy", file, tmp_path, columns)
