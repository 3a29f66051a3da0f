"""README.md, CONTRIBUTING.md and docs/: the code runs, and every file that they name exists."""

import asyncio
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import metriclearn as ml
from metriclearn import estimators
from metriclearn.datasets import load_dataset, make_change_points
from metriclearn.estimators.selection.families import default_members
from metriclearn.indices import adjusted_rand_score

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ["README.md", "CONTRIBUTING.md"] + [
    f"docs/{page.relative_to(ROOT / 'docs').as_posix()}"
    for page in sorted((ROOT / "docs").rglob("*.md"))
]


def text_of(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def python_blocks(document: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text_of(document), re.DOTALL)


@pytest.fixture
def one_family(tmp_path, monkeypatch) -> None:
    """In a folder of its own, with one family of the members; that of docs/console.md has all."""
    monkeypatch.chdir(tmp_path)
    few = {"diagonal": default_members()["scaled, diagonal"]}
    members = "metriclearn.estimators.selection.families.default_members"
    monkeypatch.setattr(members, lambda *_, **__: few)


@pytest.mark.filterwarnings("error")
def test_code_of_the_readme_runs_from_top_to_bottom(tmp_path, one_family, capsys) -> None:
    names: dict[str, object] = {}
    for block in python_blocks("README.md"):
        exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    shown = re.findall(r"# (\[[\d ]+\])$", text_of("README.md"), re.MULTILINE)
    for line, text in zip(printed[:2], shown, strict=True):  # one family is off by a sample
        ends, expected = (np.array(one.strip("[]").split(), int) for one in (line, text))
        assert np.abs(ends - expected).max() <= 1
    assert float(printed[3]) >= -1e-3
    assert len({int(text) for text in re.findall(r"\d+", printed[4])} & set(range(10))) == 10
    assert float(printed[5]) <= 1e-3
    assert (tmp_path / "model.npz").is_file()


FIRST_PAGES = ["README.md", *(f"docs/{name}.md" for name in ("start", "console", "label"))]
FIRST_PAGES += ["docs/integrations.md", "docs/index.rst"]


@pytest.mark.parametrize("document", FIRST_PAGES)
def test_first_pages_show_the_segmenter_and_no_other_estimator(document: str) -> None:
    text = text_of(document).partition("For researchers")[0]
    others = {name for name in dir(estimators) if hasattr(getattr(estimators, name), "fit")}
    shown = set(re.findall(r"\w+", text)) & others
    assert shown <= {"Segmenter", "Viterbi"}  # tables name the algorithm of Viterbi


@pytest.mark.usefixtures("one_family")
def test_code_of_the_page_of_the_segmenter_runs() -> None:
    """Without the block that reads sound."""
    data, iris = make_change_points(5, 80, 4, 2, (3, 4), random_state=0), load_dataset("iris")
    names: dict[str, Any] = {"X": data.sequences[1:], "y": data.labels[1:], "users": [0, 1, 2, 2]}
    names |= {"X_new": data.sequences[:1], "table": iris.X[::3], "classes": iris.y[::3]}
    names["new_table"] = iris.X[1::3]
    for block in python_blocks("docs/segmenter.md"):
        if "load_recordings" not in block:
            exec(block, names)
    assert names["segmenter"].learner_.components_.shape[1] == 4
    assert adjusted_rand_score(names["clusters"], iris.y[1::3]) > 0.6


@pytest.mark.filterwarnings("error")
def test_code_of_the_page_of_the_paper_chooses_a_strength_that_predicts() -> None:
    names: dict[str, Any] = {}
    exec("".join(python_blocks("docs/paper.md")), names)
    path, test = names["path"], names["test"]
    first, best = (path.learners[i].score(test.sequences, test.labels) for i in (0, path.best))
    assert first < -0.01 < -1e-3 < best


@pytest.mark.filterwarnings("error")
def test_code_of_the_page_of_indices_gives_the_printed_values() -> None:
    names: dict[str, Any] = {}
    exec("".join(python_blocks("docs/indices.md")), names)
    found = [names[index](names["marks"], [41, 100]) for index in ("covering", "f_measure")]
    said = re.search(r"# \((0\.\d+), (0\.\d+)\)", text_of("docs/indices.md"))
    assert [f"{value:.3f}" for value in found] == list(said.groups())


@pytest.mark.filterwarnings("error")
def test_code_of_the_page_of_tables_runs() -> None:
    names: dict[str, Any] = {}
    exec("".join(python_blocks("docs/clustering.md")), names)
    predicted = names["learner"].predict(names["X_new"], n_clusters=3)
    assert adjusted_rand_score(predicted, names["y"][2::3]) > 0.8


@pytest.mark.filterwarnings("error")
def test_code_of_the_page_of_gaps_finds_the_changes_in_the_frame_s_time() -> None:
    names: dict[str, Any] = {}
    exec("".join(python_blocks("docs/gaps.md")), names)
    seconds = (names["times"] - pd.Timestamp("2026-03-01 10:00")).total_seconds()
    np.testing.assert_allclose(seconds, [30, 40, 50, 60], atol=0.2)
    assert [len(piece) for piece in names["pieces"]] == [400, 719]
    assert adjusted_rand_score(names["labels"], names["train"].labels[0]) > 0.8
    assert -0.01 < names["fill"] < names["out"] < 0.0


@pytest.mark.parametrize("page", ["confidence", "feature_penalties", "solvers", "streams"])
def test_code_of_other_pages_runs_from_top_to_bottom(page: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = make_change_points(6, 100, 4, 2, (4, 6), noise=0.5, random_state=0)
    X, y = data.sequences, data.labels
    names: dict[str, Any] = {name: getattr(ml, name) for name in ml.__all__}
    names |= {"CuttingPlane": ml.solvers.CuttingPlane, "np": np, "known": y, "score": 0.1}
    names |= {"X": X, "y": y, "groups": [0, 0, 1, 1, 2, 2], "Z": X[0], "p": np.zeros(101)}
    names["SummaryWriter"] = lambda: SimpleNamespace(add_scalar=print)
    for part in ("labeled", "validation", "valid"):
        names |= {f"X_{part}": X, f"y_{part}": y}
    names["learner"] = ml.ChangePointMetricLearner().fit(X, y)
    if page == "confidence":
        names["X"] = X[0]
    blocks = python_blocks(f"docs/{page}.md")
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    assert len(blocks) > 1


def test_code_of_the_page_of_deployment_gives_the_answers_of_the_learner(tmp_path, monkeypatch):
    """In the unit and with the smallest segments of the learner; the service answers in JSON."""
    monkeypatch.chdir(tmp_path)
    data = make_change_points(4, 150, 4, 2, (4, 6), random_state=0)
    learner = ml.ChangePointMetricLearner().fit(data.sequences, data.labels)
    learner.tune_penalty(data.sequences, data.labels, unit="variance").set_params(min_size=3)
    X = 0.3 * data.sequences[0]
    expected = learner.predict_change_points(X).tolist()
    save, service, onnx = python_blocks("docs/deployment.md")
    names: dict[str, Any] = {"learner": learner}
    exec(save + service, names)

    def answer(body: str) -> tuple[int, dict[str, Any]]:
        async def sent() -> Any:
            return json.loads(body)

        got = asyncio.run(names["segment"](SimpleNamespace(json=sent)))
        return got.status_code, json.loads(got.body)

    assert answer(json.dumps(X.tolist())) == (200, {"change_points": expected})
    for body in ("[[1, 2]]", "{}", "[", "[]", "[[1, 2], [3]]", "7", "null", '"a"', "[[NaN, 0]]"):
        status, reply = answer(body)
        assert (status, list(reply)) == (422, ["error"])
    *before, last = onnx.strip().splitlines()
    names |= {"learner": learner, "Z": X @ learner.components_.T}
    exec("\n".join([*before, f"found = {last}"]), names)
    assert names["found"].tolist() == expected


def test_every_local_link_leads_to_a_file_and_every_module_that_is_run_exists() -> None:
    for document in DOCUMENTS:
        text, folder = text_of(document), (ROOT / document).parent
        links = [link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link]
        missing = [link for link in links if not (folder / link).exists()]
        modules = re.findall(r"python -m (experiments[\w.]*)", text)
        files = [f"{name.replace('.', '/')}.py" for name in modules]
        missing += [file for file in files if not (ROOT / file).exists()]
        assert missing == [], f"{document} names {missing}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop().resolve()
        if page.suffix == ".md" and page not in seen:
            seen.add(page)
            links = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
            waiting += [page.parent / link for link in links if "://" not in link]
    assert {page.resolve() for page in (ROOT / "docs").rglob("*.md")} <= seen
