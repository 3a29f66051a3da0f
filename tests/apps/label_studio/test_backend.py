"""Label Studio: tasks as they are exported, their way back, and the backend by its protocol."""

import http.client
import json
import time
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import metriclearn
from metriclearn.apps.label_studio import Backend, read_tasks, write_tasks
from metriclearn.apps.label_studio.backend import application, main
from metriclearn.apps.label_studio.tasks import file_of
from metriclearn.datasets.annotations import read_segments, save_segments
from tests.apps.serving import serving

SOUND = """<View><Labels name="label" toName="audio"><Label value="speech"/><Label value="music"/>
</Labels><Audio name="audio" value="$audio"/></View>"""
STAMP = "%Y-%m-%d %H:%M:%S.%f"


def series(time: str = "", labels: tuple[str, ...] = ("Run", "Walk")) -> str:
    """A labeling configuration of a time series with two channels."""
    tags = "".join(f'<Label value="{label}"/>' for label in labels)
    return (
        f'<View><TimeSeriesLabels name="label" toName="ts">{tags}</TimeSeriesLabels>'
        f'<TimeSeries name="ts" valueType="url" value="$csv" {time}>'
        '<Channel column="a"/><Channel column="b"/></TimeSeries></View>'
    )


STAMPED = series(f'timeColumn="time" timeFormat="{STAMP}"')


def region(start: Any, end: Any, label: str, kind: str = "labels", **more: Any) -> dict[str, Any]:
    value = {"start": start, "end": end, kind: [label]}
    return {"type": kind, "from_name": "label", "to_name": "audio", "value": value, **more}


def bare(kind: str = "labels", **value: Any) -> dict[str, Any]:
    return {"type": kind, "value": value}


def task(*results: dict[str, Any], **more: Any) -> dict[str, Any]:
    annotations = [{"id": 1, "result": list(results), "completed_by": 1}]
    return {"id": 5, "data": {"audio": "/d/monday.wav"}, "annotations": annotations, **more}


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("/data/upload/3/0a1b2c3d-my%20song.wav", "my song"),
        ("/data/local-files/?d=songs/monday.final.mp3", "monday.final"),
        ("s3://bucket/songs/monday.flac", "monday"),
        ("https://host/songs/monday.wav?token=a.b", "monday"),
        ("C:\\\\songs\\\\monday.wav", "monday"),
        ("monday", "monday"),
    ],
)
def test_recordings_have_the_names_of_their_files(address: str, name: str) -> None:
    given = task(region(0, 1.5, "speech"), data={"audio": address, "speaker": "Ann"})
    assert read_tasks([given]) == {name: [(0.0, 1.5, "speech")]}


def test_files_have_the_names_of_their_uploads() -> None:
    """Names of which several files could be are nobody's."""
    files = [*map(Path, ("a b.wav", "a_b.wav", "x (1).wav", "y z.wav", "y_(z).wav"))]
    found = [file_of(files, name) for name in ("a b", "a_b", "x_1", "y_z", "none")]
    assert found == [*files[:3], None, None]


def test_results_of_other_kinds_are_left_out() -> None:
    others = [
        {"type": "relation", "from_id": "a", "to_id": "b", "direction": "right"},
        {"type": "choices", "from_name": "mood", "to_name": "audio", "value": {"choices": ["x"]}},
        {"type": "textarea", "value": {"start": 0, "end": 1, "channel": 0, "text": ["hello"]}},
        {"type": "labels", "value": {"start": 3, "end": 9, "text": "word", "labels": ["PER"]}},
        {"type": "rating"},
        "nonsense",
    ]
    given = task(*others, region(1, 2.25, "music", id="a", score=0.5), region(0, 1, "speech"))
    assert read_tasks([given]) == {"monday": [(0.0, 1.0, "speech"), (1.0, 2.25, "music")]}
    empty = [task(), task(region(0, 1, "a")) | {"annotations": []}, {"data": {"audio": "x.wav"}}]
    assert read_tasks(empty) == {}


def test_the_annotation_that_counts() -> None:
    made = [
        {"completed_by": 1, "updated_at": "2026-01-02", "result": [region(0, 2, "new")]},
        {"completed_by": {"id": 2, "email": "a@b.c"}, "updated_at": "2026-01-01"}
        | {"result": [region(0, 2, "old")]},
        {"completed_by": 3, "updated_at": "2026-01-03", "was_cancelled": True}
        | {"result": [region(0, 2, "skipped")]},
        {"completed_by": 4, "updated_at": "2026-01-04", "result": []},
    ]
    given = task() | {"annotations": made}
    with pytest.warns(UserWarning, match=r"Task 5 has 2 annotations; the newest is read"):
        assert read_tasks([given])["monday"][0][2] == "new"
    for annotator in ("a@b.c", 2, "2"):
        assert read_tasks([given], annotator=annotator)["monday"][0][2] == "old"
    assert read_tasks([given], annotator="1")["monday"][0][2] == "new"
    made[1]["ground_truth"] = True
    assert read_tasks([given])["monday"][0][2] == "old"
    given["predictions"] = [{"model_version": "1", "result": [region(0, 1, "guess")]}]
    assert read_tasks([given], predictions=True) == {"monday": [(0.0, 1.0, "guess")]}
    assert read_tasks([task(region(0, 1, "a"))], predictions=True) == {}


def test_regions_without_labels_and_instants() -> None:
    plain = bare("audio", start=0, end=1)
    assert read_tasks([task(plain)]) == {"monday": [(0.0, 1.0, "")]}
    mixed = task(plain, region(1, 2, "a"), region(1.5, 1.5, "b"))
    with pytest.warns(UserWarning, match="1 instants and 1 regions without a label left out"):
        assert read_tasks([mixed]) == {"monday": [(1.0, 2.0, "a")]}
    config = series('timeColumn="t"', ("Change",))
    points = [region(t, t, "Change", "timeserieslabels", to_name="ts") for t in (12, 11)]
    inline = task(*points, data={"csv": {"t": [10, 11, 12, 13], "a": [0] * 4, "b": [0] * 4}})
    cuts = [(0.0, 1.0, ""), (1.0, 2.0, ""), (2.0, 4.0, "")]
    assert read_tasks([inline], config) == {"task 5": cuts}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([[]], "A task needs data"),
        ([{"audio": "a.wav", "label": []}], "Task 1 needs data"),
        (3, "Tasks need to be a list"),
        ([task() | {"annotations": {"result": []}}], "Task 5 needs annotations with lists"),
        ([task(region("soon", 1, "a"))], "Task 5 needs times of regions that are .* got 'soon'"),
        ([task(region(0, 10**400, "a"))], "Task 5 needs times of regions that are numbers, got '1"),
        ("[" * 100_000, "is not JSON .*; export it from Label Studio again"),
        ([task(bare(end=1))], "Task 5 has a region without a start"),
        ([task(region(0, 2, "a"), region(1, 3, "b"))], "'Task 5' needs disjoint segments"),
        ([task(region(-1, 2, "a"))], "'Task 5' needs 0 <= start < end"),
        ([task(region(1, 1, "a"))], "Task 5 has instants only"),
        (
            [task(region(0, 1, "a"), region(1, 2, "b", from_name="speaker"))],
            r"Task 5 has labels of \['label', 'speaker'\]",
        ),
        ([task(region(0, 1, "a"), region(1, 2, "b", from_name=["speaker"]))], "has labels of"),
        ([task(bare(start=0, end=1, labels=["a", "b"]))], r"Task 5 has .* \['a', 'b'\]; keep one"),
        ([task(bare(start=0, end=1, labels="a"))], "Task 5 has a region with the labels 'a'"),
        ([task(bare(start=0, end=1, channel=[1]))], r"Task 5 has .* channel \[1\]; name it"),
        (
            [task(*(bare("audio", start=k, end=2, channel=k) for k in (0, 1)))],
            r"Task 5 has regions of the channels \[0, 1\]; pass channel=0",
        ),
    ],
)
def test_what_cannot_be_read_gives_one_sentence(given: Any, sentence: str, tmp_path: Path) -> None:
    if isinstance(given, str):
        (tmp_path / "export.json").write_text(given)
        given = tmp_path / "export.json"
    with pytest.raises(ValueError, match=sentence):
        read_tasks(given)


@pytest.mark.parametrize(
    ("config", "label", "table", "sentence"),
    [
        ("<View>", "Fly", "", "is not XML"),
        ('<View><Image name="i" value="$i"/></View>', "Fly", "", "TimeSeries, or Labels"),
        (SOUND, "Fly", "", r"needs the labels \['Fly'\], got \['speech', 'music'\]"),
        (SOUND, "", "", "needs one label, for boundaries"),
        (SOUND, None, "", "Regions need a label for every segment or for none, got none from 1 to"),
        (STAMPED, "Fly", "", "'one' has no table"),
        (STAMPED, "Fly", "stamp,a,b\n2020,1,2\n", "needs the time column 'time'"),
        (STAMPED, "Fly", "time,a,b\nnoon,1,2\n", "needs time stamps of the format"),
    ],
)
def test_configurations_that_do_not_fit_give_one_sentence(
    config: str, label: str | None, table: str, sentence: str, tmp_path: Path
) -> None:
    if table:
        (tmp_path / "one.csv").write_text(table)
    rows = [(0.0, 1.0, "music"), (1.0, 2.0, "")] if label is None else [(0.0, 1.0, label)]
    with pytest.raises(ValueError, match=sentence):
        write_tasks({"one": rows}, config, folder=tmp_path)


TIMES = {
    "stamps": f'timeColumn="time" timeFormat="{STAMP}"',
    "milliseconds": 'timeColumn="time" timeFormat="%d.%m.%Y %H:%M:%S.%L"',
    "unix": 'timeColumn="time" timeFormat="%Q"',
    "numbers": 'timeColumn="time"',
    "rows": "",
}


COARSE = ("milliseconds", "unix")  # whole milliseconds


@pytest.mark.parametrize(
    ("kind", "rate"),
    [
        (kind, rate)
        for kind in ("sound", *TIMES)
        for rate in (1, 7, 50, 1000, 44100, 192000)
        if rate <= 1000 or kind not in COARSE
    ],
)
def test_tasks_come_back_at_their_samples(kind: str, rate: int, tmp_path: Path) -> None:
    random = np.random.default_rng(rate)
    config = SOUND if kind == "sound" else series(TIMES[kind])
    labels = ("speech", "music") if kind == "sound" else ("Run", "Walk")
    begin = pd.Timestamp("2020-02-28 23:59:59.123")
    first = {
        "stamps": begin.strftime(STAMP),
        "milliseconds": "28.02.2020 23:59:59.123",
        "unix": "1582934399123",
        "numbers": "17.25",
    }.get(kind, "0")
    rows = f"time,a,b\n{first},0,0\n"
    (tmp_path / "one.csv").write_text(rows)
    for n_ends in (3, 120):
        ends = np.unique(random.integers(1, 36000 * rate, n_ends)).tolist()
        names = random.choice(labels, len(ends))  # neighbors may be equal
        spans = [
            (a / rate, b / rate, str(name)) for (a, b), name in zip(pairwise([0, *ends]), names)
        ]
        options = {"folder": tmp_path, "rate": rate}
        file = tmp_path / "tasks.json"
        file.write_text(json.dumps(write_tasks({"one": spans}, config, **options)))
        (back,) = read_tasks(file, config, **options).values()
        assert [(round(a * rate), round(b * rate), label) for a, b, label in back] == [
            (round(a * rate), round(b * rate), label) for a, b, label in spans
        ]


PROJECT = {"id": 7, "label_config": STAMPED}


@pytest.fixture
def truths(tmp_path: Path) -> list[list[tuple[str, str, str]]]:
    """Segments, as time stamps, of four tables of two channels at 50 rows per second."""
    truths = []
    for i in range(4):
        random = np.random.default_rng(i)
        lengths = random.integers(30, 60, 4)
        X = random.normal(size=(lengths.sum(), 2))
        X[:, 0] += np.repeat([0.0, 6.0, 0.0, 6.0], lengths)
        steps = pd.to_timedelta(20 * np.arange(len(X)), unit="ms")
        stamps = (pd.Timestamp("2020-01-04 10:00") + steps).strftime(STAMP)
        table = pd.DataFrame({"time": stamps, "a": X[:, 0], "b": X[:, 1]})
        table.to_csv(tmp_path / f"s{i}.csv", index=False)
        bounds = np.append(0, np.cumsum(lengths))
        times = [str(stamps[min(row, len(X) - 1)]) for row in bounds]
        truths.append(list(zip(times[:-1], times[1:], ["Walk", "Run", "Walk", "Run"])))
    return truths


def submitted(
    i: int, truth: list[tuple[str, str, str]], project: dict[str, Any] = PROJECT
) -> dict[str, Any]:
    """What Label Studio sends when an annotation was submitted."""
    regions = [region(a, b, label, "timeserieslabels", to_name="ts") for a, b, label in truth]
    return {
        "action": "ANNOTATION_CREATED",
        "task": {"id": i, "data": {"csv": f"/data/upload/7/0a1b2c3d-s{i}.csv"}, "project": 7},
        "annotation": {"id": 100 + i, "result": regions, "completed_by": 1, "task": i},
        "project": project,
    }


def asked(i: int, config: str) -> dict[str, Any]:
    """What Label Studio sends to get a prediction."""
    task = {"id": i, "data": {"csv": f"/data/upload/7/0a1b2c3d-s{i}.csv"}, "project": 7}
    request = {"tasks": [task], "project": "7.1582934399", "label_config": config}
    return request | {"params": {"login": None, "password": None, "context": None}}


def assert_predicts(answer: dict[str, Any], truth: list[tuple[str, str, str]]) -> None:
    (prediction,) = answer["results"]
    found = [
        (one["value"]["start"], one["value"]["end"], *one["value"]["timeserieslabels"])
        for one in prediction["result"]
    ]
    assert found == truth
    assert 0.5 < prediction["score"] <= 1.0
    assert all(0.5 < one["score"] <= 1.0 for one in prediction["result"])
    for one in prediction["result"]:
        names = one["from_name"], one["to_name"], one["type"]
        assert names == ("label", "ts", "timeserieslabels")


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Any]:
    """Requests to a backend of the tables in a folder, over HTTP."""

    def request(
        path: str, body: Any = None, kind: str = "application/json", **more: str
    ) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", server[0], timeout=60)
        content = None if body is None else json.dumps(body)
        headers = {"Content-Type": kind, **more} if body is not None else {}
        connection.request("GET" if body is None else "POST", path, content, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    with serving(lambda _: application(Backend(tmp_path))) as server:
        yield request


def version_of(ask: Any, wanted: int) -> int:
    """The model's number as soon as it is at least as high."""
    setup = {"project": "7.1582934399", "schema": STAMPED, "hostname": "http://localhost:8080"}
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        status, answer = ask("/setup", setup | {"access_token": "x", "extra_params": None})
        assert status == 200
        if int(answer["model_version"]) >= wanted:
            return int(answer["model_version"])
        time.sleep(0.05)
    raise AssertionError("nothing was learned")


def test_the_backend_learns_from_a_submitted_task_and_predicts_a_new_one(
    ask: Any, tmp_path: Path, truths: Any
) -> None:
    assert ask("/health") == (200, {"status": "UP", "model_class": "metriclearn"})
    assert version_of(ask, 0) == 0
    nothing = {"result": [], "score": 0.0, "model_version": "0"}
    assert ask("/predict", asked(3, STAMPED))[1]["results"] == [nothing]
    assert ask("/webhook", {"action": "PROJECT_UPDATED", "project": PROJECT})[0] == 200
    assert ask("/webhook", submitted(0, truths[0])) == (201, {"status": "ok"})
    first = version_of(ask, 1)
    assert_predicts(ask("/predict", asked(3, STAMPED))[1], truths[3])
    assert ask("/webhook", submitted(1, truths[1][:1]))[0] == 201
    first = version_of(ask, first + 1)
    updated = submitted(1, truths[1]) | {"action": "ANNOTATION_UPDATED"}
    assert ask("/webhook", updated)[0] == 201
    second = version_of(ask, first + 1)
    status, answer = ask("/predict", asked(2, STAMPED))
    assert status == 200
    assert answer["model_version"] == answer["results"][0]["model_version"] == str(second)
    assert_predicts(answer, truths[2])
    # started again, it goes on with what it has learned
    again = Backend(tmp_path).predict(asked(2, STAMPED)["tasks"], STAMPED, "7.1")
    assert again == answer["results"]
    # an annotation that was deleted is no longer learned from
    gone = {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 101}], "project": PROJECT}
    assert ask("/webhook", gone)[0] == 201
    assert version_of(ask, second + 1) > second
    missing = ask("/predict", asked(9, STAMPED))[1]["results"][0]
    assert missing["result"] == []
    assert "has no file 's9' of a task" in missing["error"]


def test_requests_that_cannot_be_meant_are_refused(ask: Any, tmp_path: Path) -> None:
    assert ask("/setup", {"project": "7.1", "schema": "<View/>"})[0] == 422
    assert ask("/predict", ["no", "object"])[0] == 422
    assert ask("/predict", {"tasks": [], "project": "../x", "label_config": STAMPED})[0] == 422
    given = submitted(0, [], {"id": "../../x", "label_config": STAMPED})
    assert ask("/webhook", given)[0] == 422
    assert ask("/webhook", submitted(0, [], {"id": 7}), "text/plain")[0] == 415
    given = submitted(0, [], {"id": 7})
    assert ask("/webhook", given, Origin="http://elsewhere.example:9090")[0] == 403
    assert not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{", {"Content-Length": str(17_000_000)}, 413),
        (b'{"a":' * 20_000 + b"1" + b"}" * 20_000, {}, 422),
        (b'{"tasks": [3], "label_config": "<View/>"}', {}, 422),
        (b'{"tasks": 1e999, "project": ' + b"9" * 400 + b"}", {}, 422),
    ],
)
def test_bodies_are_limited_before_they_are_read(tmp_path, body, headers, status) -> None:
    with serving(lambda _: application(Backend(tmp_path))) as (port, _):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        given = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        connection.request("POST", "/predict", body, given | headers)
        assert connection.getresponse().status == status
        connection.close()


def test_annotations_that_hold_no_boundary_wait(tmp_path: Path, truths: Any) -> None:
    backend = Backend(tmp_path)
    assert "No task has" in backend.fit("START_TRAINING", {"project": PROJECT})["waiting"]
    part = submitted(0, truths[0][:1])
    assert "needs a boundary" in backend.fit("ANNOTATION_CREATED", part)["waiting"]
    assert backend.version("7.1") == "0"
    with pytest.raises(NotADirectoryError, match="is not a folder"):
        Backend(tmp_path / "none")


@pytest.mark.parametrize("instants", [False, True])
def test_regions_that_only_mark_boundaries_need_a_single_label(tmp_path, truths, instants) -> None:
    backend = Backend(tmp_path)

    def learned(project: dict[str, Any]) -> dict[str, Any]:
        for i in range(2):
            spans = [(a, a, "Run") for a, *_ in truths[i][1:]] if instants else truths[i]
            event = submitted(i, spans, project)
            for one in event["annotation"]["result"] if not instants else ():
                del one["value"]["timeserieslabels"]
            answer = backend.fit("ANNOTATION_CREATED", event)
        return answer

    waiting = learned(PROJECT)["waiting"]
    assert "needs one label, for boundaries, because all regions are instants or" in waiting
    assert "got ['Run', 'Walk']; give every region a start, an end and a label, or" in waiting
    single = STAMPED.replace('<Label value="Walk"/>', "")
    assert learned({"id": 7, "label_config": single})["model_version"] == "2"
    (prediction,) = backend.predict(asked(3, single)["tasks"], single, 7)
    assert {one["value"]["timeserieslabels"][0] for one in prediction["result"]} == {"Run"}


def test_many_annotations_at_once_are_kept_with_their_tasks(tmp_path: Path, truths: Any) -> None:
    events = [submitted(i, truths[i]) for i in range(2)]
    together = {key: [event[key] for event in events] for key in ("annotation", "task")}
    backend = Backend(tmp_path)
    answer = backend.fit("ANNOTATIONS_CREATED", {**together, "project": PROJECT})
    assert answer == {"model_version": "1", "tasks": 2}
    (prediction,) = backend.predict(asked(3, STAMPED)["tasks"], STAMPED, 7)
    assert_predicts({"results": [prediction]}, truths[3])


def test_annotations_stay_with_their_tasks(tmp_path: Path, truths: Any) -> None:
    backend = Backend(tmp_path)
    for i in range(2):
        backend.keep("ANNOTATION_CREATED", submitted(i, truths[i]))
    # its task is known from before, and not told again
    update = submitted(1, truths[1][:2])
    backend.keep("ANNOTATION_UPDATED", update | {"task": submitted(0, [])["task"]})
    # of this one nothing is known
    backend.keep("ANNOTATION_CREATED", submitted(3, truths[3]) | {"task": []})
    content = json.loads((tmp_path / ".label_studio" / "project7.json").read_text())
    kept = {name: one["annotations"] for name, one in content["tasks"].items()}
    assert {name: list(many) for name, many in kept.items()} == {"0": ["100"], "1": ["101"]}
    assert len(kept["1"]["101"]["result"]) == 2


@pytest.mark.parametrize("labels", [("Walk", "Run"), ("Run", "Run")])
def test_two_regions_are_enough_for_a_prediction(labels, tmp_path, truths) -> None:
    """Each label occurs once, or only one of the two in the configuration."""
    backend = Backend(tmp_path)
    two = [(a, b, label) for (a, b, _), label in zip(truths[0][:2], labels)]
    assert backend.fit("ANNOTATION_CREATED", submitted(0, two))["tasks"] == 1
    (prediction,) = backend.predict(asked(0, STAMPED)["tasks"], STAMPED, 7)
    assert "error" not in prediction
    found = {one["value"]["timeserieslabels"][0] for one in prediction["result"]}
    assert found == set(labels)


@pytest.mark.parametrize("labels", ["Run Run Walk Walk", "Run Run Run Run", "instants"])
def test_boundaries_between_equal_labels_are_learned(labels, tmp_path, truths) -> None:
    """They come back in predictions, between regions and as instants."""
    config = STAMPED if "Walk" in labels else STAMPED.replace('<Label value="Walk"/>', "")
    project, backend = {"id": 7, "label_config": config}, Backend(tmp_path)
    spans = [
        [(a, a, "Run") for a, *_ in truth[1:]]
        if labels == "instants"
        else [(a, b, name) for (a, b, _), name in zip(truth, labels.split())]
        for truth in truths
    ]
    for i in range(3):
        answer = backend.fit("ANNOTATION_CREATED", submitted(i, spans[i], project))
    assert answer["tasks"] == 3
    (prediction,) = backend.predict(asked(3, config)["tasks"], config, 7)
    found = [one["value"] for one in prediction["result"]]
    if "Walk" in labels:  # names cannot be told from these rows, but boundaries can
        assert [(v["start"], v["end"]) for v in found] == [(a, b) for a, b, _ in truths[3]]
    else:  # a single label names nothing, so boundaries are predicted
        cuts = [a for a, *_ in truths[3][1:]]
        assert [(v["start"], v["end"], v["instant"]) for v in found] == [(a, a, True) for a in cuts]


def test_a_model_that_is_replaced_meanwhile_still_predicts(tmp_path, truths, monkeypatch) -> None:
    backend, load = Backend(tmp_path), metriclearn.load
    event = submitted(0, truths[0])
    backend.fit("ANNOTATION_CREATED", event)

    def slow(path: Path) -> Any:
        backend.fit("ANNOTATION_UPDATED", event)
        return load(path)

    monkeypatch.setattr(metriclearn, "load", slow)
    (prediction,) = backend.predict(asked(3, STAMPED)["tasks"], STAMPED, 7)
    assert_predicts({"results": [prediction]}, truths[3])


@pytest.mark.parametrize("rate", [0, -1.0, float("nan")])
def test_rates_that_cannot_be_are_refused(rate: float, tmp_path: Path) -> None:
    for use in (Backend, lambda _, rate: read_tasks([], rate=rate)):
        with pytest.raises(ValueError, match="needs a positive rate"):
            use(tmp_path, rate=rate)


def test_regions_without_an_end_or_turned_are_told(tmp_path: Path) -> None:
    """Of a table whose stamps have zones, and are written and read again."""
    config = STAMPED.replace('timeFormat="', 'timeFormat="%d/%m/%Y %H:%M:%S.%L%Z" was="')
    lines = [f"10/03/2026 10:00:0{i}.500+01:00,{i},1" for i in range(9)]
    (tmp_path / "one.csv").write_text("\n".join(["time,a,b", *lines]))
    written = write_tasks({"one": [(0.0, 4.0, "Walk"), (4.0, 9.0, "Run")]}, config, folder=tmp_path)
    assert read_tasks(written, config, folder=tmp_path) == {
        "one": [(0.0, 4.0, "Walk"), (4.0, 9.0, "Run")]
    }
    walk, run = (one["value"] for one in written[0]["annotations"][0]["result"])
    walk["start"], walk["end"] = walk["end"], walk["start"]
    run["end"] = "0NaN-NaN"
    with pytest.warns(UserWarning, match="Task 1: ") as told:
        found = read_tasks(written, config, folder=tmp_path)
    assert found == {"one": [(0.0, 4.0, "Walk")]}
    words = " ".join(str(one.message) for one in told)
    assert "1 regions end before they start; turned" in words
    assert "to '0NaN-NaN' left out" in words


def test_tables_whose_times_do_not_increase_are_left_out(tmp_path, truths, caplog) -> None:
    table = pd.read_csv(tmp_path / "s0.csv")
    table.iloc[[*range(9, -1, -1), *range(10, len(table))]].to_csv(tmp_path / "s0.csv", index=False)
    backend = Backend(tmp_path)
    backend.keep("ANNOTATION_CREATED", submitted(0, truths[0][1:]))
    assert backend.fit("ANNOTATION_CREATED", submitted(1, truths[1]))["tasks"] == 1
    assert "'s0' needs times that increase in column 'time'" in caplog.text


def test_two_tasks_of_one_file(tmp_path: Path, truths: Any, caplog: Any) -> None:
    one, other = task(region(0, 1, "speech")), task(region(1, 2, "music"), id=6)
    with pytest.raises(ValueError, match="Task 6 has annotations of 'monday', as another task"):
        read_tasks([one, other])
    assert read_tasks([one, other | {"annotations": []}]) == {"monday": [(0.0, 1.0, "speech")]}
    backend, twice = Backend(tmp_path), submitted(1, truths[0])
    twice["task"]["data"] = submitted(0, [])["task"]["data"]
    backend.keep("ANNOTATION_CREATED", submitted(0, truths[0]))
    assert backend.fit("ANNOTATION_CREATED", twice)["tasks"] == 1
    assert "Task 1 has the file of another task, 's0'" in caplog.text


def test_sound_is_learned_from(tmp_path: Path) -> None:
    pytest.importorskip("librosa")
    from tests.features.sounds import RATE, write_wave

    backend = Backend(tmp_path, rate=2.0)
    for i in range(3):
        random = np.random.default_rng(i)
        tone = np.sin(2 * np.pi * 440 * np.arange(4 * RATE) / RATE)
        noise = random.normal(size=4 * RATE)
        write_wave(tmp_path / f"r{i}.wav", 0.1 * np.concatenate([tone, noise, tone]))
    spans = [region(a, b, label) for a, b, label in ((0, 4, "music"), (4, 8, "speech"))]
    for i in range(2):
        data = {"task": {"id": i, "data": {"audio": f"r{i}.wav"}}, "annotation": {"id": i}}
        data["annotation"]["result"] = [*spans, region(8, 12, "music")]
        data["project"] = {"id": 1, "label_config": SOUND}
        backend.fit("ANNOTATION_CREATED", data)
    (answer,) = backend.predict([{"id": 2, "data": {"audio": "r2.wav"}}], SOUND, 1)
    values = [one["value"] for one in answer["result"]]
    assert [value["labels"] for value in values] == [["music"], ["speech"], ["music"]]
    assert np.abs(np.subtract([value["start"] for value in values], [0, 4, 8])).max() <= 0.5
    assert all(value["channel"] == 0 for value in values)
    # started again at another rate, it goes on with the rate of its model
    again = Backend(tmp_path, rate=5.0).predict([{"id": 2, "data": {"audio": "r2.wav"}}], SOUND, 1)
    assert again == [answer]


def test_label_studio_ml_runs_it(tmp_path, truths, monkeypatch) -> None:
    pytest.importorskip("label_studio_ml", reason="see make integrations")
    api, model = (import_module(f"label_studio_ml.{name}") for name in ("api", "model"))
    # in this process, where it would start another one
    in_place = lambda manager, cls, job: manager.job(cls, *job)  # noqa: E731
    monkeypatch.setattr(model.SimpleJobManager, "run_job", in_place)

    class Model(model.LabelStudioMLBase):
        def predict(self, tasks: Any, **options: Any) -> Any:
            return Backend(tmp_path).predict(tasks, self.label_config, "7")

        def fit(self, tasks: Any, event: str = "", data: Any = None, **options: Any) -> Any:
            return Backend(tmp_path).fit(event, data)

    client = api.init_app(model_class=Model, model_dir=str(tmp_path / "jobs")).test_client()
    assert client.get("/health").json["status"] == "UP"
    setup = {"project": "7.1582934399", "schema": STAMPED}
    assert client.post("/setup", json=setup).json["model_version"] == "INITIAL"
    assert client.post("/webhook", json=submitted(0, truths[0])).status_code == 201
    assert client.post("/setup", json=setup).json["model_version"] != "INITIAL"
    assert_predicts(client.post("/predict", json=asked(3, STAMPED)).json, truths[3])


def test_commands_read_and_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.xml").write_text(SOUND)
    spans = {"monday": [(0.0, 1.5, "speech"), (1.5, 3.25, "music")]}
    table, tasks = save_segments(spans, tmp_path / "a.csv"), tmp_path / "tasks.json"
    config = ["--config", str(tmp_path / "config.xml")]
    assert main(["write", str(table), *config, "--out", str(tasks)]) == 0
    assert main(["read", str(tasks), "--out", str(tmp_path / "b.csv")]) == 0
    assert read_segments(tmp_path / "b.csv") == spans
    assert "2 segments of 1 recordings" in capsys.readouterr().out
    assert main(["read", str(table), "--out", str(tmp_path / "c.csv")]) == 1
    assert capsys.readouterr().err.startswith("Error: ")
    nobody = ["--annotator", "nobody"]
    assert main(["read", str(tasks), "--out", str(tmp_path / "c.csv"), *nobody]) == 1
    assert "holds no regions of annotator nobody" in capsys.readouterr().err
    assert not (tmp_path / "c.csv").exists()
