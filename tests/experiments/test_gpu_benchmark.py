"""The benchmark of devices runs, on the processor where there is no GPU, and says so."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")


def test_tiny_run(tmp_path: Path, monkeypatch) -> None:
    from experiments.benchmarks import gpu

    threads = torch.get_num_threads()
    options = ["--tiny", "--device", "cpu", "--repeats", "1", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["gpu", *options])
    gpu.main()
    torch.set_num_threads(threads)
    record = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    programs, cuts, relaxations = (table["rows"] for table in record["tables"])
    assert len(programs) == 5
    assert {row["same as two cores"] for row in programs} == {"yes"}
    assert {row[">= 20x"] for row in [*programs, *cuts]} == {"no GPU"}
    assert float(cuts[0]["value, relative difference"]) < 1e-9
    assert float(relaxations[0]["largest relative difference"]) < 1e-9
    text = (tmp_path / "gpu.md").read_text(encoding="utf-8")
    assert "python -m experiments.benchmarks.gpu --device cuda" in text
