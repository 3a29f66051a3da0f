"""The server of the label page: refused requests, saved files, conflicts of two windows."""

import http.client
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import metriclearn
from metriclearn.apps.console.commands import main
from metriclearn.apps.label_page.annotation import read_annotations
from metriclearn.apps.label_page.project import read_project
from metriclearn.apps.label_page.server import application, open_page
from metriclearn.apps.label_studio.backend import main as studio
from metriclearn.datasets.annotations import read_segments
from tests.apps.serving import serving
from tests.features.sounds import write_video

pytest.importorskip("uvicorn", reason="needs the extra label")
pytest.importorskip("starlette", reason="needs the extra label")

TOKEN = "a-token"
ENDS = (30, 55)
FORMATS = ("csv", "audacity", "webvtt", "textgrid", "elan", "jams")


def write_table(path: Path, n_rows: int = 90, seed: int = 0) -> None:
    """A signal with changes of its mean at ENDS, and noise."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n_rows, 3)) * 0.3
    X[:, 0] += 3.0 * np.isin(np.searchsorted(ENDS, np.arange(n_rows), side="right"), [1])
    np.savetxt(path, X, delimiter=",", header="a,b,c", comments="")


class Server(NamedTuple):
    folder: Path
    port: int
    page: Any
    guard: Any

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Status and content of a request, its path as it is."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.putrequest(method, path, skip_host=bool(headers and "Host" in headers))
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        if body is not None and not (headers and "Content-Length" in headers):
            connection.putheader("Content-Length", str(len(content)))
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        connection.endheaders(content if body is not None else None)
        answer = connection.getresponse()
        result = answer.status, answer.read()
        connection.close()
        return result

    def change(self, revision: int, **annotations: Any) -> tuple[int, dict[str, Any]]:
        body = {"revision": revision, "annotations": annotations}
        status, content = self.ask("PUT", f"/{TOKEN}/api/changes", body)
        return status, json.loads(content)

    def written(self) -> set[str]:
        """Files in the folder that were not there at first."""
        return {p.name for p in self.folder.rglob("*")} - {"one.csv", "two.csv"}


def two_tables(place: Path) -> Path:
    """A folder with two recordings, and a file outside of it."""
    folder = place / "inside"
    folder.mkdir()
    (place / "secret.csv").write_text("a,b,c\n1,2,3\n")
    for seed, name in enumerate(("one", "two")):
        write_table(folder / f"{name}.csv", seed=seed)
    return folder


def running(folder: Path, rate: float = 10.0) -> Iterator[Server]:
    page = open_page(folder, rate=rate)
    with serving(lambda port: application(page, port, TOKEN)) as (port, guard):
        yield Server(folder, port, page, guard)
        page.is_closing = True


SEGMENTS = [
    {"start": 0.0, "end": 3.0, "kind": "no change"},
    {"start": 3.0, "end": 3.0, "kind": "change"},
    {"start": 3.0, "end": 5.5, "kind": "no change"},
]


def test_saved_at_once_and_read_again(server: Server) -> None:
    assert server.change(0, one=SEGMENTS) == (200, {"revision": 1})
    state = json.loads(server.ask("GET", f"/{TOKEN}/api/project")[1])
    assert state["annotations"] == {"one": SEGMENTS}
    table = (server.folder / "segments.csv").read_text().split()
    assert table == [
        "recording,start,end,label",
        *("one,0.000,3.000,one", "1", "one,3.000,5.500,one", "2", "one,5.500,9.000,unknown"),
    ]
    for again in running(server.folder):
        later = json.loads(again.ask("GET", f"/{TOKEN}/api/project")[1])
        assert later == state


def test_a_table_written_by_hand_is_begun_with_and_kept(server: Server) -> None:
    table = server.folder / "segments.csv"
    table.write_text("recording,start,end,label\none,0,3,1\none,3,5.5,2\none,5.5,9,1\ngone,0,1,1\n")
    before = table.read_bytes()
    with pytest.warns(UserWarning, match=r"segments of \['gone'\], which have no recording here"):
        (again,) = _states(server.folder)
    told = again["annotations"]["one"]
    assert [(one["start"], one.get("label")) for one in told] == [
        *((0.0, "1"), (3.0, None), (3.0, "2"), (5.5, None), (5.5, "1"))
    ]
    assert again["labels"] == ["1", "2"]
    assert table.read_bytes() == before
    assert server.written() == {"segments.csv"}
    assert server.change(0, one=told, two=SEGMENTS)[0] == 200
    assert (server.folder / "segments.csv.before").read_bytes() == before
    assert server.change(1, one=[], two=[])[0] == 200
    # all labels are removed, so there is no table
    assert server.written() == {"metriclearn.json", "segments.csv.before"}


@pytest.mark.parametrize(("names", "labels"), [("aba", ["a", "b", "background"]), ("123", [])])
def test_a_table_of_events_is_begun_with_as_fit_reads_it(server: Server, names, labels) -> None:
    rows = [f"one,{3 * i + 1},{3 * i + 2},{name}\n" for i, name in enumerate(names)]
    (server.folder / "segments.csv").write_text("recording,start,end,label\n" + "".join(rows))
    with pytest.warns(UserWarning, match="6 of 9 s .*remove them on the page"):
        (state,) = _states(server.folder)
    assert state["labels"] == labels
    changes = [one["start"] for one in state["annotations"]["one"] if one["kind"] == "change"]
    assert changes == [1, 2, 4, 5, 7, 8]


@pytest.mark.parametrize(("rate", "seconds"), [(27.0, 3.333), (7.0, 12.857), (100.0, 0.9)])
def test_a_recording_can_be_marked_to_its_end(tmp_path: Path, rate: float, seconds: float) -> None:
    write_table(tmp_path / "one.csv")
    for server in running(tmp_path, rate):
        state = json.loads(server.ask("GET", f"/{TOKEN}/api/project")[1])
        assert state["recordings"][0]["seconds"] == seconds
        whole = {"start": 0.0, "end": seconds, "kind": "segment", "label": "rest"}
        assert server.change(0, one=[whole])[0] == 200
    table = read_segments(tmp_path / "segments.csv")
    assert table == {"one": [(0.0, seconds, "rest")]}


def _states(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(s.ask("GET", f"/{TOKEN}/api/project")[1]) for s in running(folder)]


PROJECT = '{"format": 1, "revision": 0, "labels": [], "recordings": {}%s}'


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "damaged"),
        ('{"format": 2}', "has format 2, this metriclearn reads 1"),
        (PROJECT.replace("0", "1e999") % "", "damaged"),
        (PROJECT.replace("{}", "[]") % "", "damaged"),
        (PROJECT.replace("{}", '{"renamed": []}') % "", r"\['renamed'\], which are not in the"),
        (
            PROJECT.replace("{}", '{"one": [{"start": 0, "end": 10, "kind": "no change"}]}') % "",
            r"metriclearn\.json', recording 'one': An annotation needs .* of 9 s",
        ),
    ],
)
def test_a_project_that_cannot_be_read_is_kept(server: Server, content: str, sentence: str) -> None:
    file = server.folder / "metriclearn.json"
    file.write_text(content)
    with pytest.raises(ValueError, match=sentence):
        _states(server.folder)
    assert server.change(0, one=SEGMENTS)[0] == 422
    assert file.read_text() == content


def test_what_another_server_saves_is_shown(server: Server) -> None:
    other = open_page(server.folder, rate=10.0)
    other.project.change(0, {"one": read_annotations(SEGMENTS, 9.0)}, ["x"])
    begun, serial = time.monotonic(), server.page.loop.learned["serial"]
    answer = json.loads(server.ask("GET", f"/{TOKEN}/api/learned/{serial}")[1])
    assert answer["saved"] == 1
    assert time.monotonic() < begun + 2.0
    assert _states(server.folder)[0]["annotations"]["one"] == SEGMENTS


def test_a_table_of_other_recordings_is_refused_by_their_names(server: Server) -> None:
    def given(*names: str) -> tuple[int, dict[str, Any]]:
        rows = "".join(f"{name},0,3,a\n{name},3,9,b\n" for name in names)
        table = f"recording,start,end,label\n{rows}".encode()
        status, content = server.ask("POST", f"/{TOKEN}/import/csv/one", table)
        return status, json.loads(content)

    status, content = given("two", "elsewhere")
    assert status == 422
    assert content["error"] == (
        "The file (Table (CSV)) has segments only of 'elsewhere', 'two', none of 'one'; choose one "
        "of these recordings, or correct the names in the file."
    )
    status, content = given("elsewhere", "one ", "two")  # a blank does not count
    assert (status, sorted(content["annotations"])) == (200, ["one", "two"])
    assert content["unknown"] == ["elsewhere"]
    assert content["late"] == []
    table = b"recording,start,end,label\none,3,900,a\n"  # not lost without a word
    content = json.loads(server.ask("POST", f"/{TOKEN}/import/csv/one", table)[1])
    assert content["late"] == ["one"]
    (server.folder / "segments.csv").write_bytes(table)
    with pytest.warns(UserWarning, match="reach beyond the end of 'one' are cut there, or left"):
        _states(server.folder)


def test_a_table_edited_later_is_kept(server: Server) -> None:
    assert server.change(0, one=SEGMENTS)[0] == 200
    assert server.change(1, one=SEGMENTS[:1])[0] == 200
    assert server.written() == {"metriclearn.json", "segments.csv"}  # it was ours
    table = server.folder / "segments.csv"
    edited = table.read_text().replace("9.000", "8.000").encode()
    table.write_bytes(edited)
    with pytest.warns(UserWarning, match="was edited elsewhere"):
        (state,) = _states(server.folder)
    assert state["annotations"]["one"] == SEGMENTS[:1]
    assert server.change(2, one=SEGMENTS)[0] == 200
    assert (server.folder / "segments.csv.before").read_bytes() == edited
    assert server.change(3, one=[])[0] == 200
    assert server.written() == {"metriclearn.json", "segments.csv.before"}


def test_a_video_without_sound_does_not_close_a_folder_of_sound(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile", reason="needs the extra audio")
    pytest.importorskip("av", reason="needs the extra video")
    soundfile.write(tmp_path / "sound.wav", np.random.default_rng(0).normal(size=16000), 8000)
    pictures = np.zeros((20, 48, 64, 3), dtype=np.uint8)
    write_video(tmp_path / "film.webm", pictures, (np.arange(20) / 10).tolist(), codec="libvpx")
    with pytest.warns(UserWarning, match=r"film\.webm has no sound .* --features video"):
        (state,) = _states(tmp_path)
    assert [one["name"] for one in state["recordings"]] == ["sound"]


def test_ports_that_cannot_be_used_are_refused_in_a_sentence(tmp_path, capsys) -> None:
    place = str(two_tables(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for given, reason in ((port, "Address already in use"), (99999, "there is no such port")):
            assert main(["label", place, "--quiet", "--rate", "10", "--port", str(given)]) == 1
            assert studio(["serve", place, "--port", str(given)]) == 1
            sentence = f"got {given} ({reason}); choose another one, or leave --port out.\n"
            assert capsys.readouterr().err.count(sentence) == 2


def test_rates_are_as_at_the_last_start(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile", reason="needs the extra audio")
    soundfile.write(tmp_path / "sound.wav", np.random.default_rng(0).normal(size=16000), 8000)

    def opened(**options: Any) -> Any:
        page = open_page(tmp_path, **options)
        page.project.change(page.project.revision, {})
        return page

    for options in ({"rate": 8.0}, {}):
        page = opened(**options)
        assert [one.rate for one in page.recordings.values()] == [8.0]
        assert read_project(tmp_path)["media_rate"] == 8.0
    for rate in (50, 20):  # the rate of a column of times is found again
        lines = [f"{row / rate},{row % 3}" for row in range(40)]
        (tmp_path / "table.csv").write_text("\n".join(["time,x", *lines]))
        page = opened(time="time")
        assert page.recordings["sound"].rate == 8.0
        assert page.recordings["table"].rate == pytest.approx(rate)
        assert page.project.settings["ignore"] == ["time"]


def test_learning_goes_on_if_nothing_could_be_compiled_before(server, monkeypatch) -> None:
    def failing() -> None:
        raise RuntimeError("cannot cache function")

    monkeypatch.setattr("metriclearn.apps.label_page.loop.compile_programs", failing)
    server.page.loop.thread.start()
    deadline = time.monotonic() + 60
    while server.page.loop.learned.get("busy", True) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(server.page.loop.learned["suggestions"]) > 0


def test_what_was_changed_elsewhere_is_kept_and_learned_from(server: Server) -> None:
    server.page.loop.thread.start()
    assert server.change(0, one=SEGMENTS)[0] == 200

    def is_learned(revision: int) -> bool:
        deadline, loop = time.monotonic() + 120, server.page.loop
        while time.monotonic() < deadline:
            if loop.learned["revision"] == revision and not loop.learned["busy"]:
                return True
            time.sleep(0.01)
        return False

    assert is_learned(1)
    file = server.folder / "metriclearn.json"
    file.write_text(file.read_text().replace("5.5", "6.0"))  # by hand
    assert server.change(1, one=SEGMENTS)[0] == 409
    file.write_text(file.read_text().replace("6.0", "6.5").replace('revision": 1', 'revision": 9'))
    status, content = server.change(1, one=SEGMENTS)
    assert (status, content["annotations"]["one"][-1]["end"]) == (409, 6.5)
    assert is_learned(9)
    assert server.change(9, one=[])[0] == 200


def test_a_click_is_learned_from_while_a_check_goes_on(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    levels = np.repeat(generator.normal(size=(60, 8)), 100, axis=0)
    rows = np.round(levels + 0.5 * generator.normal(size=levels.shape), 3).astype(str).tolist()
    table = "\n".join([",".join("abcdefgh"), *map(",".join, rows)])
    (tmp_path / "one.csv").write_text(table)
    page, ends = open_page(tmp_path, rate=1.0), np.arange(61) * 100.0
    entries = [{"start": t - 100, "end": t, "kind": "no change"} for t in ends[1:]]
    entries += [{"start": t, "end": t, "kind": "change"} for t in ends[1:-1]]
    told: list[dict[str, Any]] = [page.loop.learned]
    page.project.change(0, {"one": read_annotations(entries[:40] + entries[60:99], 6000.0)})
    page.loop.thread.start()
    while told[-1].get("busy", True) or told[-1]["revision"] < 2:
        if page.loop.learned is not told[-1]:
            told.append(page.loop.learned)
        if told[-1]["revision"] == 1 == page.project.revision and told[-1]["suggestions"]:
            page.project.change(1, {"one": read_annotations(entries, 6000.0)})
            page.loop.wake()
        time.sleep(0.001)
    # the second labels are learned from before the first are checked
    checked = [one["revision"] for one in told if one["revision"] >= 1 and one["curve"]]
    assert checked[0] == 2
    assert [point["seconds"] for point in told[-1]["curve"]] == [4000.0, 6000.0]


def test_a_short_recording_does_not_shorten_the_stretches_of_others(tmp_path: Path) -> None:
    for name, n_rows in (("one", 90), ("short", 2)):
        write_table(tmp_path / f"{name}.csv", n_rows)
    page = open_page(tmp_path, rate=10.0)
    page.loop.thread.start()
    while page.loop.learned.get("busy", True):
        time.sleep(0.01)
    found = page.loop.learned["suggestions"]
    lengths = {one["recording"]: round(one["end"] - one["start"], 3) for one in found}
    assert lengths == {"one": 2.2, "short": 0.2}


@pytest.mark.usefixtures("two_families")
def test_a_model_of_the_labels_at_the_time_of_the_request(server, tmp_path, monkeypatch) -> None:
    """While it is learned, the page answers; a failure is one sentence, and learned from again."""
    monkeypatch.setattr("metriclearn.apps.label_page.page._LOOK", 0.05)

    def labeled(*names: str) -> list[dict[str, Any]]:
        ends = (*(0.0, 3.0, 5.5)[: len(names)], 9.0)
        return [
            {"start": start, "end": end, "kind": "segment", "label": label}
            for start, end, label in zip(ends, ends[1:], names)
        ]

    known, path = labeled("rest", "work", "rest"), f"/{TOKEN}/export/model/one"
    assert server.ask("GET", path)[0] == 422  # nothing is known
    assert server.change(0, one=known, two=known)[0] == 200
    status, content = server.ask("GET", path)
    assert (status, json.loads(content)["revision"]) == (202, 1)
    assert server.change(1, one=known[:1], two=[])[0] == 200
    assert server.ask("GET", f"/{TOKEN}/api/project")[0] == 200
    while status == 202:
        status, content = server.ask("GET", f"{path}?revision=1")
    two = server.ask("GET", f"/{TOKEN}/export/model/two?revision=1")
    assert two == (200, content)  # it has the same features
    (tmp_path / "a.model").write_bytes(content)
    X = np.loadtxt(server.folder / "two.csv", delimiter=",", skiprows=1)
    segments = metriclearn.load(tmp_path / "a.model").segments(X)
    assert [label for *_, label in segments] == ["rest", "work", "rest"]
    np.testing.assert_allclose([end for _, end, _ in segments], [3.0, 5.5, 9.0], atol=0.11)

    assert server.change(2, one=labeled("rest"))[0] == 200
    for _ in range(2):
        status = 202
        while status == 202:
            status, content = server.ask("GET", f"{path}?revision=3")
        assert status == 422
        assert json.loads(content)["error"].count(".") == 1


@pytest.mark.parametrize(("level", "n_bins"), [(0, 90), (2, 23), (7, 1)])
def test_tiles_are_minima_and_maxima(untouched: Server, level: int, n_bins: int) -> None:
    path = f"/{TOKEN}/api/tiles/one/{level}/0?channels=0,2"
    tile = np.frombuffer(untouched.ask("GET", path)[1], dtype=np.float32).reshape(-1, 2, 2)
    X = np.loadtxt(untouched.folder / "one.csv", delimiter=",", skiprows=1)[:, [0, 2]]
    low, high = np.quantile(X, [0.001, 0.999], axis=0)
    X = np.clip((X - low + 0.05 * (high - low)) / (1.1 * (high - low)), 0, 1)
    parts = [X[i : i + 2**level] for i in range(0, 90, 2**level)]
    expected = [[part.min(axis=0), part.max(axis=0)] for part in parts]
    assert len(tile) == n_bins
    np.testing.assert_allclose(tile, np.transpose(expected, (0, 2, 1)), rtol=1e-5, atol=1e-6)
    assert untouched.ask("GET", f"/{TOKEN}/api/tiles/one/{level}/1")[1] == b""
