"""Results know whether the default has changed since they were made."""

import shutil
from pathlib import Path

import metriclearn
from experiments.harness.default_code import DEFAULT, default_code, is_older
from experiments.league.ranks import age

PACKAGE = Path(metriclearn.__file__).parent


def test_only_code_of_the_default_makes_results_older(tmp_path: Path) -> None:
    for name in DEFAULT:
        path = PACKAGE / name
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (shutil.copytree if path.is_dir() else shutil.copy)(path, tmp_path / name)
    codes = [default_code(tmp_path)]
    for name, text in (
        ("estimators/segmenter.py", "\n# a comment\n"),
        ("views/plain.py", '\n\ndef more() -> None:\n    """Say so."""\n'),
        ("estimators/learners/new.py", "VALUE = 1\n"),
    ):
        file = tmp_path / name
        file.write_text((file.read_text("utf-8") if file.is_file() else "") + text, "utf-8")
        default_code.cache_clear()
        codes.append(default_code(tmp_path))
    assert codes[0] == codes[1] == default_code()
    assert len(set(codes[1:])) == 3


def test_the_page_tells_that_rows_are_of_an_older_default() -> None:
    newest, older = {"name": "league", "default": default_code()}, {"name": "league"}
    assert (is_older(newest), is_older(older)) == (False, True)
    assert age(newest) != age(older)
    assert "experiment=league" in age(older)[0]
