"""What a benchmark saves, and that all committed results are of tables that benchmarks have."""

import json
from importlib import import_module

import numpy as np
import pytest

from experiments.benchmarks.benchmark import Benchmark, Run, page_of
from experiments.benchmarks.machine import Timing, peak_mebibytes
from experiments.figures import files_of
from experiments.pages.pictures import ROOT, digest, texts_of

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


def square(case: int, run: Run) -> dict:
    """One row, in a process of its own, with the options of the run."""
    return {"x": case, "square": np.float64(case**2), "repeats": run.repeats}


def test_tables_are_measured_printed_and_saved_part_by_part(tmp_path, capsys) -> None:
    bench = Benchmark("made", "What it measures.")
    bench.table("Squares", (3,), lambda rows: f"{len(rows)} rows", "numbers", apart=True)(square)
    source = next((ROOT / "docs" / "images").glob("*.png"))

    @bench.table("Timings", lambda run: ["tiny"] if run.tiny else [], part="times")
    def timings(case: str, run: Run) -> list[dict]:
        run.kept["curve"] = np.arange(2)
        run.pictures["picture"] = source, "A title"
        return [{"what": case, "time": Timing([0.5], [0.25])}, {"what": "more", "count": 1}]

    folder = tmp_path / "benchmarks"
    bench.main(["--tiny", "--repeats", "4", "--out", str(folder)])
    numbers, times = (
        json.loads((folder / "made" / f"{part}.json").read_text("utf-8")) for part in bench.parts
    )
    (table,) = numbers["tables"]
    assert table["note"] == "1 rows"
    assert [(row["square"], row["repeats"]) for row in table["rows"]] == [(9.0, 4)]
    assert 0 < min(row["peak MiB"] for row in table["rows"]) < 10 * peak_mebibytes()
    assert times["curve"] == [0, 1]
    assert times["tables"][0]["rows"][0]["time"]["processor"] == [0.25]
    texts = texts_of(tmp_path / "images" / "picture.png")
    saved = digest(folder / "made" / "times.json")
    assert texts["Source"] == f"benchmarks/made/times.json {saved}"
    page = page_of("made", {"numbers": numbers, "times": times})
    assert "| tiny | 500 ms (1 run) |  |\n| more |  | 1 |" in page
    assert page.count("### ") == 2
    assert "| tiny | 500 ms (1 run) |  |" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        bench.main(["--only", "nothing"])
    assert "--only needs parts among numbers, times" in capsys.readouterr().err
