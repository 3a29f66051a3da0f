"""Tiers: further sets of annotations of the same recordings, each saved and exported separately."""

import json
from pathlib import Path
from typing import Any

from metriclearn.apps.console.commands import main
from metriclearn.apps.label_page.project import read_annotations, tiers_of
from metriclearn.apps.label_page.server import open_page
from metriclearn.datasets.annotations import read_segments
from tests.apps.label_page.test_server import SEGMENTS, TOKEN, Server

WORDS = [
    {"start": 0.0, "end": 3.0, "kind": "segment", "label": "yes"},
    {"start": 3.0, "end": 3.0, "kind": "change"},
    {"start": 3.0, "end": 5.5, "kind": "segment", "label": "no"},
    {"start": 5.5, "end": 5.5, "kind": "change"},
    {"start": 5.5, "end": 8.0, "kind": "segment", "label": "yes"},
]


def begin(server: Server, name: str) -> tuple[int, Any]:
    status, content = server.ask("POST", f"/{TOKEN}/api/tiers", name.encode())
    return status, json.loads(content)


def change(server: Server, tier: str, revision: int, **annotations: Any) -> tuple[int, Any]:
    body = {"revision": revision, "annotations": annotations, "labels": ["yes", "no"]}
    body["annotator"] = "Ada"
    status, content = server.ask("PUT", f"/{TOKEN}/tier/{tier}/api/changes", body)
    return status, json.loads(content)


def test_a_tier_is_saved_learned_and_exported_separately(server: Server) -> None:
    assert server.change(0, one=SEGMENTS)[0] == 200
    assert begin(server, " words ") == (200, {"tier": "words"})
    assert begin(server, "WORDS")[0] == 422  # the same file on some systems
    assert server.ask("GET", f"/{TOKEN}/tier/words/")[1].startswith(b"<!doctype html>")
    assert server.ask("GET", f"/{TOKEN}/tier/words/static/app.js")[0] == 200
    before = {path.name: path.read_bytes() for path in server.folder.iterdir()}
    assert change(server, "words", 0, one=WORDS, two=WORDS) == (200, {"revision": 1})
    after = {path.name: path.read_bytes() for path in server.folder.iterdir()}
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) == {"words.metriclearn.json", "words.segments.csv"}
    assert set(read_segments(server.folder / "words.segments.csv")) == {"one", "two"}
    content = json.loads(after["words.metriclearn.json"])
    assert content["labels"] == ["yes", "no"]
    assert content["annotators"] == {"one": ["Ada"], "two": ["Ada"]}

    state = json.loads(server.ask("GET", f"/{TOKEN}/tier/words/api/project")[1])
    first = json.loads(server.ask("GET", f"/{TOKEN}/api/project")[1])
    assert (state["tier"], first["tier"]) == ("words", "")
    assert state["annotations"] == {"one": WORDS, "two": WORDS} == first["tiers"]["words"]
    assert first["annotations"] == {"one": SEGMENTS} == state["tiers"][""]
    assert first["id"] != state["id"]  # browsers keep what is not saved by it

    status, text = server.ask("GET", f"/{TOKEN}/tier/words/export/audacity/one?what=known")
    assert status == 200
    assert b"yes" in text
    assert b"yes" not in server.ask("GET", f"/{TOKEN}/export/audacity/one?what=known")[1]
    learned: dict[str, Any] = {"serial": 0, "busy": True}
    while learned["busy"]:
        path = f"/{TOKEN}/tier/words/api/learned/{learned['serial']}"
        learned = {"busy": True} | json.loads(server.ask("GET", path)[1])
    assert set(learned["recordings"]["one"]["labels"]) == {"yes", "no"}


def test_a_tier_that_another_server_has_begun_is_there(server: Server) -> None:
    other = open_page(server.folder, rate=10.0).open_tier("words")
    other.project.change(0, {"one": read_annotations(SEGMENTS, 9.0)}, ["x"])
    tiers = json.loads(server.ask("GET", f"/{TOKEN}/api/project")[1])["tiers"]
    assert tiers["words"]["one"] == SEGMENTS
    assert server.ask("GET", f"/{TOKEN}/tier/words/api/project")[0] == 200


def test_tiers_are_there_after_a_restart_and_for_fit(server: Server, tmp_path: Path) -> None:
    assert server.change(0, one=SEGMENTS)[0] == 200
    assert begin(server, "words")[0] == 200
    assert change(server, "words", 0, one=WORDS, two=WORDS)[0] == 200
    assert tiers_of(server.folder) == ["words"]
    page = open_page(server.folder)
    assert set(page.tiers) == {"", "words"}
    assert page.tiers["words"].project.annotations == server.page.tiers["words"].project.annotations
    model = tmp_path / "words.model"
    command = ["fit", str(server.folder), "--segments", "words.segments.csv", "--quick"]
    assert main([*command, "--out", str(model)]) == 0
    assert main(["segment", str(server.folder / "one.csv"), "--model", str(model)]) == 0
    (segments,) = read_segments(server.folder / "one.segments.csv").values()
    assert {label for *_, label in segments} <= {"yes", "no"}
    # a table that segment wrote, or that a person keeps there, is no tier
    assert tiers_of(server.folder) == ["words"]
