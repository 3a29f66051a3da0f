"""Tests of experiments/readme_tables.py, and that README.md holds the committed numbers."""

import json
from pathlib import Path

import pytest

from experiments.readme_tables import ROOT, fill, main, portable, publish
from tests.experiments.test_report import make_results

README = "# x\n<!-- results:synthetic -->\nold\n<!-- /results -->\nend\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "README.md").write_text(README)
    return tmp_path


@pytest.fixture
def results(tmp_path: Path) -> Path:
    content = make_results()
    content["config"]["dataset"]["root"] = "/somewhere/on/this/machine/synthetic"
    file = tmp_path / "run" / "results.json"
    file.parent.mkdir()
    file.write_text(json.dumps(content))
    return file


def test_fills_and_commits_what_is_given(root: Path, results: Path) -> None:
    assert main(["--check"], root) == 0
    assert main([f"synthetic={results}"], root) == 0
    lines = (root / "README.md").read_text().splitlines()
    assert lines[:2] == ["# x", "<!-- results:synthetic -->"]
    assert lines[2] == "| method | number of segments estimated | number of segments given |"
    assert lines[4] == "| ours/diagonal-l1 | **0.420 ± 0.050** | **0.310 ± 0.050** |"
    assert lines[-2:] == ["<!-- /results -->", "end"]
    assert len(lines) == 2 + 6 + 2
    stored = (root / "docs" / "results" / "synthetic.json").read_text()
    assert "/somewhere" not in stored
    assert json.loads(stored)["config"]["dataset"]["root"] == "synthetic"
    main([], root)  # from what is committed
    assert (root / "README.md").read_text().splitlines() == lines
    assert main(["--check"], root) == 0
    (root / "README.md").write_text("\n".join(lines).replace("0.42", "0.12"))
    assert main(["--check"], root) == 1


def test_a_table_without_a_place_is_an_error() -> None:
    with pytest.raises(ValueError, match="got none for hapt; add a line '<!-- results:hapt -->'"):
        fill(README, {"hapt": "| table |\n"})


def test_results_of_another_experiment_are_refused(results: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"results of 'hapt' .* got those of 'synthetic'"):
        publish("hapt", results, tmp_path)
    assert not (tmp_path / "hapt.json").exists()


def test_portable_keeps_everything_but_folders() -> None:
    config = {"a": ["/x/y", "x/y", 1, None], "b": {"c": "/data/hapt"}}
    assert portable(config) == {"a": ["y", "x/y", 1, None], "b": {"c": "hapt"}}


def test_readme_holds_the_committed_results() -> None:
    assert main(["--check"], ROOT) == 0
