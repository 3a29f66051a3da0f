"""Tiny runs of every experiment: the files they leave, and what is in them."""

import errno
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from omegaconf import OmegaConf

from experiments.harness.cases import load_sequences
from experiments.harness.command_line import configuration, one_sentence
from experiments.harness.finished_fits import FinishedFits, run_all
from experiments.harness.results import Cell, read_results
from experiments.harness.scoring import sequence_losses
from metriclearn import load
from metriclearn.datasets import make_change_points, save_files
from tests.apps.label_page.browsing import emulate
from tests.experiments.command import DATA_REASON, ONE_MEMBER, call, failure, refusal, results_of

METHODS = {f"ours/{metric}" for metric in ("diagonal-l1", "diagonal-l2", "full", "trace")}
METHODS |= {"euclidean", "pca", "rca"}
FEW = ("tiny=true", "n_jobs=1", "pictures=false", "~methods.full", "~methods.trace", "~methods.pca")
FEW += (ONE_MEMBER,)
DATA = os.environ.get("METRICLEARN_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason=DATA_REASON)


def rows(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    found = read_results(folder / "results.json")["rows"]
    return {(row["method"], row["column"]): row for row in found}


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of ``experiment=synthetic tiny=true``."""
    folder = tmp_path_factory.mktemp("runs") / "synthetic"
    with mock.patch("experiments.harness.finished_fits.SILENCE", 0.05):
        call("run", "experiment=synthetic", "tiny=true", ONE_MEMBER, f"hydra.run.dir={folder}")
    return folder


def test_every_method_has_both_columns(synthetic: Path) -> None:
    found = rows(synthetic)
    both = METHODS | {"ours", "ours/one model", "equal cuts"}
    expected = {(m, c) for m in both for c in ("estimated", "given")}
    assert set(found) == expected | {("one segment", "estimated")}
    for row in found.values():
        assert len(row["values"]) == 3
        assert row["mean"] == pytest.approx(np.mean(row["values"]))
        error = np.std(row["values"], ddof=1) / np.sqrt(3)
        assert row["standard_error"] == pytest.approx(error)
    assert found["ours", "estimated"]["mean"] < 0.5 * found["euclidean", "estimated"]["mean"]
    certified = {method for (method, _), row in found.items() if row["gap"] is not None}
    # A Segmenter has no single bound.
    assert certified == {method for method, _ in found if method.startswith("ours/")}


def test_one_model_is_the_simplest_within_one_standard_error_on_held_out_data(synthetic) -> None:
    found = rows(synthetic)
    order = ("diagonal-l1", "diagonal-l2", "trace", "full")
    held_out = [found[f"ours/{m}", "estimated"]["held_out"] for m in order]
    assert len(set(held_out)) == 4
    ours = found["ours/one model", "estimated"]
    taken = ours["choice"].partition(",")[0]
    assert found[taken, "estimated"]["values"] == ours["values"]
    assert ours["held_out"] == found[taken, "estimated"]["held_out"] >= min(held_out)
    model = load(synthetic / "model.npz")
    saved = {m: load(synthetic / "models" / f"{m.replace('/', '-')}.npz") for m in METHODS}
    assert np.array_equal(model.components_, saved[taken].components_)
    test = make_change_points(3, 120, 12, 3, (3, 4), feature_seed=0, random_state=2)
    for method, twin in saved.items():
        values = found[method, "estimated"]["values"]
        np.testing.assert_allclose(sequence_losses(twin, test), values, atol=1e-9)


def test_report_has_every_kind_of_figure_and_the_choices(synthetic: Path) -> None:
    kinds = [file.stem.split("-")[1] for file in sorted(synthetic.glob("*.png"))]
    assert kinds == ["segmentation"] * 3 + ["weights", "convergence"]  # of ours
    page = (synthetic / "report.html").read_text(encoding="utf-8")
    assert "could not be drawn" not in page
    text = (synthetic / "results.md").read_text(encoding="utf-8")
    assert "for training and for validation together" in text
    assert "python -m experiments.run experiment=synthetic tiny=true" in text
    config = read_results(synthetic / "results.json")["config"]
    assert config["dataset"]["loader"]["n_features"] == 12


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light")])
def test_report_in_a_browser(browser: Any, synthetic: Path, width: int, scheme: str) -> None:
    emulate(browser, width, scheme)
    browser.get((synthetic / "report.html").as_uri())
    assert browser.execute_script("return window.innerWidth") == width
    images = browser.execute_script(
        "return [...document.images].map(i => [i.complete, i.naturalWidth, i.alt, i.currentSrc])"
    )
    assert len(images) == 5
    for complete, natural_width, alt, source in images:
        assert complete
        assert natural_width == (700 if width == 360 else natural_width) > 0
        assert len(alt) > 30
        assert source.startswith("data:image/png;base64,")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    heights = browser.execute_script(
        "return [...document.querySelectorAll('section > .wide tbody th')]"
        ".map(cell => cell.getBoundingClientRect().height)"
    )
    assert 0 < max(heights) < 60  # a name takes two lines at most
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    requests = browser.execute_script(
        "return performance.getEntriesByType('resource').map(entry => entry.name)"
    )
    assert [name for name in requests if name.startswith("http")] == []
    assert browser.get_log("browser") == []
    ground = browser.execute_script("return getComputedStyle(document.images[0]).backgroundColor")
    assert ground == "rgb(255, 255, 255)"  # pictures keep their colors in the dark
    widths = browser.execute_script(
        "return [...document.images].map(i => i.clientWidth / i.closest('section').clientWidth)"
    )
    assert min(widths) > 0.99


@needs_data
def test_unlabeled_stretches_unknown_or_segments_of_their_own(tmp_path: Path) -> None:
    fewer = ("tiny=true", "n_jobs=1", "~methods.rca", "~methods.euclidean", "~methods.full")
    fewer = (*fewer, "~methods.named_logistic", "pictures=false", "~methods.ours")
    results = results_of(tmp_path, "experiment=hapt_unknown", *fewer)
    losses, names, *_, numbers = results["tables"]
    assert next(iter(losses["columns"].values())) == "unlabeled stretches unknown in training"
    rows_of = Counter(row["measure"] for row in results["rows"])
    methods = {row["method"] for row in results["rows"]}
    assert rows_of["partition_loss"] == rows_of["count"] == 2 * len(methods)
    assert names["measure"] == "names_right"
    known, found = map(int, re.findall(r"Of (\d+) .* one segment (\d+) and", numbers["note"])[0])
    single = [row for row in results["rows"] if row["method"] == "one segment"]
    (missing,) = {row["mean"] for row in single if row["measure"] == "count"}  # of a recording
    assert (known - found) / missing in (1.0, 2.0)  # recordings
    # one more is missing between two stretches that differ, of which there are as many as gaps
    (loss,) = {row["mean"] for row in single if row["measure"] == "partition_loss"}
    assert loss == pytest.approx(known / ((known - found) / missing) - 1)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Folders of CSV files: five sequences to train with, three to test with."""
    folder = tmp_path_factory.mktemp("own")
    data = make_change_points(8, 100, 4, 2, (3, 4), random_state=0)
    save_files(data.select(range(5)), folder / "train", label="state", group="person")
    save_files(data.select([5, 6, 7]), folder / "test", label="state", group="person")
    return folder / "train", folder / "test"


@pytest.fixture(scope="module")
def own_run(own: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is trained on one of the folders and tested on the other."""
    out = tmp_path_factory.mktemp("own_run")
    places = (f"dataset.path={own[0]}", f"dataset.test_root={own[1]}")
    columns = ("dataset.label=state", "dataset.group=person")
    results_of(out, "experiment=files", *FEW, *places, *columns)
    return out


def test_own_files_with_a_test_folder(own_run: Path) -> None:
    found = rows(own_run)
    assert {len(row["values"]) for row in found.values()} == {3}
    assert found["ours/one model", "estimated"]["held_out"] > 0
    text = (own_run / "results.md").read_text(encoding="utf-8")
    assert "trained on 5 sequences. Test sequences: series5, series6, series7." in text


def test_a_folder_is_not_for_training_and_for_test(own: tuple[Path, Path], tmp_path) -> None:
    places = [f"dataset.{key}={own[0]}" for key in ("path", "test_root")]
    columns = ("dataset.label=state", "dataset.group=person")
    message = refusal(tmp_path, "experiment=files", *FEW, *places, *columns)
    assert "5 of 5 are the same in both, such as 'series0'; name another folder." in message


@pytest.mark.filterwarnings("ignore:Columns of times are no features")
def test_columns_are_ignored_as_the_note_on_them_says(own: tuple[Path, Path], tmp_path) -> None:
    table = pd.read_csv(own[0] / "series0.csv")
    for i in range(4):
        table.assign(time=np.arange(len(table))).to_csv(tmp_path / f"{i}.csv", index=False)
    config = configuration("experiment=files", f"dataset.path={tmp_path}", "dataset.label=state")
    with pytest.raises(ValueError, match=r"without numbers \(dataset.ignore=\[person\]\)."):
        load_sequences(config, str(tmp_path))
    config.dataset.ignore = ["person"]
    with pytest.warns(UserWarning, match="Columns of times are no features and are left out: time"):
        names = load_sequences(config, str(tmp_path)).feature_names
    config.dataset.ignore = ["time", "person"]
    assert load_sequences(config, str(tmp_path)).feature_names == names


def test_evaluate_reads_columns_by_the_names_of_the_training(own, own_run, tmp_path) -> None:
    labels = ("dataset.label=state", "dataset.group=person")
    (tmp_path / "turned").mkdir()
    for file in own[1].glob("*.csv"):
        table = pd.read_csv(file)
        table[table.columns[::-1]].to_csv(tmp_path / "turned" / file.name, index=False)
    places = (f"model={own_run}/model.npz", f"dataset.root={tmp_path}/turned", "dataset=files")
    call("evaluate", *places, *labels, f"hydra.run.dir={tmp_path}/scores")
    scored = read_results(tmp_path / "scores" / "results.json")["rows"]
    losses = {r["column"]: r["values"] for r in scored if r["measure"] == "partition_loss"}
    one = rows(own_run)["ours/one model", "estimated"]["values"]
    assert losses["estimated"] == pytest.approx(one)


def test_own_files_are_split_by_sequence(own: tuple[Path, Path], tmp_path: Path) -> None:
    few = ("~methods.diagonal_l1", "~methods.rca", "n_folds=2")
    few = (*few, "dataset.rotate=true", "dataset.n_test=2")
    place = (f"dataset.root={own[0]}", "dataset.label=state", "+dataset.loader.pattern=series*.csv")
    with pytest.raises(SystemExit, match="finite numbers"):  # "person" is no feature
        call("run", "experiment=files", *FEW, *few, *place, f"hydra.run.dir={tmp_path}")
    results_of(tmp_path, "experiment=files", *FEW, *few, *place, "dataset.group=person")
    found = rows(tmp_path)
    assert {len(row["values"]) for row in found.values()} == {5}
    assert len(list((tmp_path / "models").iterdir())) == 3 * 4  # with ours and the one model


def test_multirun_runs_every_value_and_ends_with_one_table(tmp_path, capsys) -> None:
    few = ("~methods.diagonal_l2", "~methods.rca", "n_folds=2", f"hydra.sweep.dir={tmp_path}")
    call("run", "--multirun", "seed=3,4", *FEW, *few)
    folders = [tmp_path / f"{place}-synthetic" for place in (0, 1)]
    seeds = [read_results(folder / "results.json")["config"]["seed"] for folder in folders]
    assert seeds == [3, 4]
    values = [rows(folder)["euclidean", "estimated"]["values"] for folder in folders]
    assert values[0] != values[1]
    text = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert text.rstrip() in capsys.readouterr().out
    head, _, *jobs = text.splitlines()
    assert head == "| job | table | ours | best of the others |"
    for job, folder, seed in zip(jobs, folders, seeds):
        assert f"seed={seed}" in job
        row = rows(folder)["ours", "estimated"]
        assert f" | {Cell(row['mean'], row['standard_error'], False, False)} | " in job


@pytest.mark.parametrize(
    "interrupted",
    [
        "ThreadPool(1).map_async(time.sleep, [60]); time.sleep(0.1); raise KeyboardInterrupt(KEPT)",
        "exec('raise KeyboardInterrupt(KEPT)')",  # Python would end by the signal, not with 130
    ],
)
def test_a_command_ends_with_its_status_wherever_ctrl_c_came(interrupted: str) -> None:
    """Without the end of Python, which would abort the process where such a thread is compiled."""
    script = """
import atexit, time
from multiprocessing.pool import ThreadPool
from experiments.harness.command_line import end_with, one_sentence

KEPT = "Interrupted: all is kept."

def main():
    with one_sentence():
        INTERRUPTED

atexit.register(print, "the end of Python")
print("begun")
end_with(main)
"""
    script = script.replace("INTERRUPTED", interrupted)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (130, "begun\n")
    assert ended.stderr == "Interrupted: all is kept.\n"


def test_a_run_that_was_stopped_goes_on_with_the_same_command(tmp_path: Path) -> None:
    fewer = ("~methods.diagonal_l2", "~methods.rca", "~methods.ours", "n_folds=2")
    options = ["experiment=synthetic", *FEW, *fewer, f"outputs={tmp_path}"]
    command = [sys.executable, "-m", "experiments.run", *options]

    def fits() -> dict[Path, int]:
        found = tmp_path.glob("synthetic/*/finished/*.joblib")
        return {file: file.stat().st_mtime_ns for file in found}

    running = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        # what is started in the background of a shell ignores Ctrl-C
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while len(fits()) < 4 and running.poll() is None:
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    _, told = running.communicate()
    kept = fits()
    assert len(kept) >= 4
    assert running.returncode == 130, told
    (folder,) = {file.parent for file in kept}
    assert told.splitlines()[-1] == (
        f"Interrupted: {len(kept)} finished fits are kept in {folder}; run the same "
        f"command, or add resume={folder.parent}, to continue."
    )
    call("run", *options)
    (folder,) = {file.parent for file in fits()}
    assert {file: fits()[file] for file in kept} == kept  # none is made again
    assert len(fits()) > len(kept)
    (resumed,) = tmp_path.glob("synthetic/*/results.json")
    anew = results_of(tmp_path / "anew", *options, f"outputs={tmp_path}/anew")
    tables = [read_results(resumed), anew]
    untimed = {"seconds": 0, "fit_seconds": 0}
    numbers = [[row | untimed for row in table["rows"]] for table in tables]
    assert numbers[0] == numbers[1]
    message = refusal(tmp_path / "more", *options, f"resume={folder.parent}")  # it is complete
    assert "needs the folder of a run of this command that was" in message


def test_a_damaged_fit_is_made_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    finished = FinishedFits(tmp_path, {})
    assert finished(["key"], int, "3") == 3
    (file,) = tmp_path.glob("*.joblib")
    for damage in (b"", file.read_bytes()[:-2]):
        file.write_bytes(damage)
        caplog.clear()
        assert finished(["key"], int, "3") == 3
        assert f"{file} is damaged" in caplog.text
        assert finished(["key"], int, "4") == 3  # which is read
    assert (len(finished), len(FinishedFits(tmp_path, {"other": 1}))) == (1, 0)


def test_a_fit_that_fails_names_its_method_and_case(tmp_path: Path) -> None:
    tasks = [(["Tree", "bees: bee1", "final"], (int, "no rows"))]
    with pytest.raises(ValueError, match="Tree cannot be used on bees: bee1: invalid literal"):
        run_all("fit", tasks, FinishedFits(tmp_path, {}), "threads", 1)


def test_a_full_disk_is_a_sentence() -> None:
    sentence = "Error: No space left for a file of the run; make room"
    with pytest.raises(SystemExit, match=sentence), one_sentence():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_ordinary_files_without_a_terminal_get_lines_of_progress(synthetic: Path) -> None:
    text = (synthetic / "run.log").read_text(encoding="utf-8")
    assert re.search(r"choose: \d+ of \d+ fits are done", text)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["dataset=nowhere"], ["no dataset/nowhere", "hapt"]),
        (["tiny=maybe"], ["tiny needs true or false, got maybe."]),
        (["n_folds=many"], ["n_folds needs a whole number, got many."]),
        (["experiment=figure1", "dataset.test_root=/x"], ["reads no folder of test data"]),
        (["experiment=hapt", "test_root=/x"], ["no test_root; did you mean dataset.test_root."]),
        (
            ["experiment=league", "dataset.test_root=/x"],
            ["no dataset.test_root; did you mean test_root."],
        ),
        (["experiment=league", "test_root=/absent"], ["test_root=/absent is not a folder; name"]),
        (
            ["dataset.n_sample=3"],
            ["There is no n_sample in dataset; did you mean dataset.loader.n_samples."],
        ),
        (["methods.l1.grid.strength=3"], ["There is no l1 in methods; there are one_segment, "]),
        (["+n_fold=3"], ["There is no n_fold; did you mean n_folds."]),
        (["+dataset.windows=3"], ["There is no windows in dataset; there are name, loader."]),
        (["+methods.rca.column=[given]"], ["no column in methods.rca; did you mean columns."]),
        (["hydra/launcher=nowhere"], ["no hydra/launcher/nowhere", "[sweeps]"]),
        (["executor=mpi"], ["dask, threads"]),
        (["n_jobs=0"], ["n_jobs needs a number of fits at the same time, or -1 for all, got 0."]),
        (["resume=/absent"], ["resume=/absent needs the folder of a run"]),
        (["experiment=hapt", "dataset.root=/absent"], ["/absent"]),
        (["experiment=files"], ["dataset.path=FOLDER"]),
        (
            ["experiment=hapt", "dataset.test_root=/absent"],
            ["dataset.test_root=/absent is not a f"],
        ),
        (
            ["experiment=audio", "dataset.root=."],
            ["named songs and meetings", "streams.meetings=null"],
        ),
        (["experiment=video", "tiny=true", "root=null"], ["root=FOLDER"]),
        (
            ["experiment=clustering", "tiny=true", "+protocols.A.nothing=2"],
            ["among iris, wine, breast_cancer, digits, libras, letters, got nothing"],
        ),
    ],
    ids=lambda value: value[0],
)
def test_errors_of_the_user_are_one_sentence(options, words, tmp_path) -> None:
    message = refusal(tmp_path, *options)
    assert [word for word in words if word not in message] == []


def test_the_unit_and_the_rates_of_reports_are_those_of_the_data() -> None:
    for group in ("story", "user"):
        config = configuration("experiment=gesture_phase", f"dataset.loader.group={group}")
        assert config.unit == group
    for options, rate in ((), 4.0), (("rates.meetings=8",), 8.0):  # turns are shorter than songs
        config = configuration("experiment=audio", *options)
        streams = OmegaConf.to_container(config.streams, resolve=True)
        found = [streams["meetings"][key]["extractor"]["rate"] for key in ("data", "unseen")]
        assert [config.fields.meetings.rate, *found] == [rate] * 3
        assert streams["songs"]["data"]["extractor"]["rate"] == config.fields.songs.rate == 2.0


def test_the_command_line_ends_with_one_sentence(tmp_path, capsys) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert "did you mean n_folds." in failure(capsys, "run", "+n_fold=3")
    message = failure(capsys, "run", "tiny=true", f"hydra.run.dir={tmp_path}/file/out")
    assert message == f"Error: {tmp_path}/file/out cannot be used: Not a directory."
