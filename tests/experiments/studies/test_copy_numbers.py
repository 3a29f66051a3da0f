"""The tiny neuroblastoma experiment on made-up profiles: its table, its choices, its pictures."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from experiments.harness.command_line import configuration
from experiments.harness.procedure import Case
from experiments.harness.results import read_results
from experiments.studies.copy_numbers import Neuroblastoma
from tests.experiments.command import refusal, results_of

SMALL = ("tiny=true", "n_jobs=1", "n_folds=2", "max_segments=8")
FEW = (*SMALL, *(f"~methods.{name}" for name in ("hermite", "shaped_hermite", "six", "linear")))


ANNOTATIONS = (
    (1, 30, "normal", 1), (36, 45, "1breakpoint", 2),
    (33, 44, "1breakpoint", 1), (50, 78, "normal", 2),
)  # fmt: skip


def write_profiles(folder: Path, seed: int = 0) -> None:
    """Profiles of two chromosomes; a step of twice the noise in each, and annotations of it."""
    rng = np.random.default_rng(seed)
    points, rows = [], []
    for profile in range(1, 7):
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
    results_of(out, "experiment=neuroblastoma", f"dataset.root={data}", *FEW)
    return out


def test_rows_and_errors(folder: Path) -> None:
    results = read_results(folder / "results.json")
    rows = {(r["table"], r["measure"], r["method"], r["column"]): r for r in results["rows"]}
    names = {row["method"] for row in results["rows"]}
    assert {"ours", "one segment", "equal cuts"} < names
    # tables, measures, directions and both; one segment cannot obey annotated changes; profiles
    # that were not trained on, of all lengths and of the one that there is; areas under curves
    assert len(rows) == (2 * 4 * 3 + 4 * 2 + 3) * len(names) - 4 * 3
    for (table, measure, method, column), row in rows.items():
        if measure == "label_error":
            parts = [
                rows[table, f"false_{p}", method, column]["mean"]
                for p in ("positives", "negatives")
            ]
            assert row["mean"] == pytest.approx(sum(parts))
            assert row["mean"] == pytest.approx(np.average(row["values"], weights=row["weights"]))
            best = rows.get((table, "hindsight", method, column), {"mean": 0.0})["mean"]
            assert best <= row["mean"] + 1e-9 or table == "constrained"
    one, other = (
        rows["free", "label_error", "one segment", f"trained on fold {a}, tested on fold {b}"]
        for a, b in ((1, 2), (2, 1))
    )
    assert (one["mean"], other["mean"]) == (50.0, 50.0)  # the two regions with a change
    apart = rows["profiles", "label_error", "one segment", "all lengths"]
    assert apart["mean"] == 50.0
    assert sorted(apart["units"]) == sorted(map(str, range(1, 7)))
    areas = {n: r["mean"] for (_, m, n, c), r in rows.items() if m == "area" and c == "all lengths"}
    assert areas["one segment"] == pytest.approx(50.0)  # the diagonal
    assert areas["ours"] > 90
    errors = [r["mean"] for (t, m, n, _), r in rows.items() if m == "label_error" and n == "ours"]
    assert max(errors) <= 20


def test_choices_are_made_in_training_and_pictures_are_drawn(folder: Path) -> None:
    """Profiles that are tested choose nothing: candidates have losses on others, held out."""
    results = read_results(folder / "results.json")
    key = ("profiles", "label_error", "all lengths")
    rows = [r for r in results["rows"] if (r["table"], r["measure"], r["column"]) == key]
    choices = {row["method"]: row["choice"] for row in rows}
    assert "errors held out" in choices["ours"]
    for text in (
        "the same search among candidates that were known before: ",
        "found by looking (Hermite moments, penalty of segment counts (designed here)): ",
    ):
        assert text in results["protocol"]
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert "No choice uses the test fold" in " ".join(text.split())
    assert 2 <= text.count("<figure>") == len(list(folder.glob("*-figure-Profile-*.png"))) <= 4


def test_every_method_of_the_configuration_can_be_fitted(tmp_path: Path) -> None:
    """Also those that the runs in this file leave out."""
    write_profiles(tmp_path)
    config = configuration("experiment=neuroblastoma", f"dataset.root={tmp_path}", *SMALL)
    procedure = Neuroblastoma(config)
    train, methods = procedure.cases()[0].train, procedure.methods()
    assert {"linear penalty (log log T)", "linear penalty, 6 features"} < {m.name for m in methods}
    for method in methods:
        model = procedure.fit(method.with_parameters(method.candidates[0]), train, method)
        assert len(model.predict_change_points(train.data.sequences[0])) >= 1


def test_folds_are_no_more_than_profiles(tmp_path: Path) -> None:
    write_profiles(tmp_path)

    def cases(*options: str) -> list[Case]:
        root = f"dataset.root={tmp_path}"
        return Neuroblastoma(configuration("experiment=neuroblastoma", root, *options)).cases()

    few = cases("dataset.n_sequences=6", "n_folds=9", "n_parts=9")  # of three profiles
    assert [len(case.folds) for case in few] == [2, 2, 2, 3, 3]
    with pytest.raises(ValueError, match="sequences of two profiles or more, got 1; add"):
        cases("dataset.n_sequences=2")
    file = tmp_path / "annotations.csv.gz"
    text = gzip.decompress(file.read_bytes()).decode()
    file.write_bytes(gzip.compress(text.replace(",2\n", ",1\n").encode()))
    with pytest.raises(ValueError, match="annotations of fold 2, got none; number the folds"):
        cases()


def test_unseen_profiles_are_for_test(tmp_path: Path) -> None:
    for seed, name in enumerate(("known", "unseen")):
        (tmp_path / name).mkdir()
        write_profiles(tmp_path / name, seed)
    fewer = [f"~methods.{name}" for name in ("shaped_counts", "shaped_thresholds")]
    few = [*FEW, *fewer, "pictures=false"]
    same = [f"dataset.{key}={tmp_path}/known" for key in ("root", "test_root")]
    message = refusal(tmp_path / "same", "experiment=neuroblastoma", *same, *few)
    assert "test_root needs data that are not for training, but 12 of 12 are" in message
    unseen = [f"dataset.root={tmp_path}/known", f"dataset.test_root={tmp_path}/unseen"]
    results = results_of(tmp_path / "out", "experiment=neuroblastoma", *unseen, *few)
    assert {table["name"] for table in results["tables"]} == {"free", "curves"}
    assert "both ways" not in results["protocol"]  # and no table of profiles held out
    assert "were not trained on" not in results["protocol"]
    rows = [row for row in results["rows"] if row["measure"] == "label_error"]
    assert {row["column"] for row in rows} == {"tested on unseen profiles"}
    assert {sum(row["weights"]) for row in rows} == {6 * 2 * 4}
    assert min(row["mean"] for row in rows if row["method"] == "ours") <= 20
