"""The tiny neuroblastoma experiment on made-up profiles: its table, its choices, its pictures."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from experiments.report import read_results
from tests.experiments.command import call

FEW = ("tiny=true", "n_jobs=1", "~methods.hermite", "~methods.shaped_hermite", "~methods.six",
       "~methods.ours_hermite")  # fmt: skip


ANNOTATIONS = (
    (1, 30, "normal", 1), (36, 45, "1breakpoint", 2),
    (33, 44, "1breakpoint", 1), (50, 78, "normal", 2),
)  # fmt: skip


def write_profiles(folder: Path) -> None:
    """Profiles of two chromosomes; a step of twice the noise in each, and annotations of it."""
    rng = np.random.default_rng(0)
    points, rows = [], []
    for profile in range(1, 9):
        for chromosome in (1, 2):
            name, scale = f"{profile}.{chromosome}", 10.0 ** rng.uniform(-1, 1)
            x = scale * (np.repeat([0.0, 4.0], 40) + rng.normal(size=80))
            points += [f"{name},{value:.6f}" for value in x]
            for first, last, word, fold in ANNOTATIONS:
                changes = int(word != "normal")
                head = f"{name},{profile},{chromosome}"
                rows.append(f"{head},{first},{last},{changes},{word},{fold}")
    header = "sequence_id,profile_id,chromosome,start,end,changes,annotation,fold"
    for file, lines in (
        ("profiles", ["sequence_id,logratio", *points]),
        ("annotations", [header, *rows]),
    ):
        (folder / f"{file}.csv.gz").write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data, out = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("out")
    write_profiles(data)
    call("run", "experiment=neuroblastoma", f"dataset.root={data}",
                  f"hydra.run.dir={out}", *FEW)  # fmt: skip
    return out


def test_rows_and_errors(folder: Path) -> None:
    rows = read_results(folder / "results.json")["rows"]
    names = {row["method"] for row in rows}
    assert len(rows) == 4 * len(names)  # two directions, two columns
    assert any(name.startswith("ours/") for name in names)
    for row in rows:
        wrong = row["false_positives"] + row["false_negatives"]
        assert row["error"] == pytest.approx(wrong / row["n_regions"])
        assert row["hindsight"] <= wrong or row["column"] == "constrained"
    ours = [row["error"] for row in rows if row["method"].startswith("ours/")]
    assert max(ours) <= 0.2


def test_table_and_pictures(folder: Path) -> None:
    text = (folder / "results.md").read_text()
    assert text.count("| ours/thresholds, learned diagonal metric |") == 2
    assert "nothing is chosen on the test fold" in " ".join(text.split())
    pictures = sorted(path.name for path in folder.glob("*-profile-*.png"))
    assert pictures
    assert all((folder / name).stat().st_size > 10_000 for name in pictures)
