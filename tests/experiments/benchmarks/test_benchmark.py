"""All committed results are of tables that benchmarks have."""

import json
from importlib import import_module

import pytest

from experiments.figures import files_of
from experiments.pages.pictures import ROOT

FILES = (ROOT / "experiments" / "benchmarks").glob("*.py")
NAMES = sorted(file.stem for file in FILES if "\nBENCH = Benchmark(" in file.read_text("utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_committed_tables_are_those_of_the_benchmark(name: str) -> None:
    pytest.importorskip("cvxpy")
    bench = import_module(f"experiments.benchmarks.{name}").BENCH
    assert bench.name == name
    files = files_of(ROOT / "docs" / "benchmarks" / f"{name}.md")
    assert {"" if file.stem == name else file.stem for file in files} == set(bench.parts)
    for file in files:
        tables = bench.parts["" if file.stem == name else file.stem]
        committed = [table["title"] for table in json.loads(file.read_text("utf-8"))["tables"]]
        assert committed == [table.title for table in tables]


def test_all_committed_results_are_of_benchmarks() -> None:
    assert {page.stem for page in (ROOT / "docs" / "benchmarks").glob("*.md")} == set(NAMES)
