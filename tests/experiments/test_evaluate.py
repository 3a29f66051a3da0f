"""Scoring saved models: measures against hand-worked values, and the command line."""

from pathlib import Path

import numpy as np
import pytest

from experiments.evaluate import score
from experiments.harness.cases import fingerprints
from experiments.harness.results import read_results
from metriclearn import ChangePointMetricLearner, Segmenter, save
from metriclearn.baselines import Euclidean, TunedSegmenter
from metriclearn.datasets import LabeledSequences, make_change_points, save_files
from tests.experiments.command import call, failure


def block(n_segments: int = 3, length: int = 10) -> LabeledSequences:
    """One feature that steps between 0 and 1, with little noise."""
    labels = np.repeat(np.arange(n_segments), length)
    X = labels[:, None] % 2 + np.random.default_rng(0).normal(scale=1e-3, size=(len(labels), 1))
    return LabeledSequences("block", [X], [labels], ["a"], ["a"], ["x"])


def euclidean(data: LabeledSequences, penalty: float | None = None) -> TunedSegmenter:
    model = TunedSegmenter(Euclidean(standardize=False)).fit(data.sequences, data.labels)
    model.score_ = model.score_.at(model.penalty_ if penalty is None else penalty)
    return model


@pytest.mark.parametrize(
    ("penalty", "margin", "expected"),
    [
        (None, 0, {"partition_loss": 0.0, "hausdorff": 0.0, "f1": 1.0, "n_segments": 3.0}),
        # one segment where there are three; the Hausdorff distance to nothing is T
        (1e6, 5, {"partition_loss": 2.0, "hausdorff": 30.0, "f1": 0.0, "n_segments": 1.0}),
    ],
)
def test_measures_by_hand(penalty: float | None, margin: float, expected: dict) -> None:  # type: ignore[type-arg]
    data, model = block(), euclidean(block(), penalty)
    values = score(model, data, "estimated", margin)
    expected |= {"relative_loss": expected["partition_loss"] / 30}
    assert {name: float(value[0]) for name, value in values.items()} == pytest.approx(expected)
    given = score(model, data, "given", margin)
    assert given["partition_loss"] == pytest.approx([0.0], abs=1e-12)


def test_command_scores_every_sequence_of_a_folder(tmp_path, capsys) -> None:
    data = make_change_points(4, 100, 4, 2, (3, 4), random_state=0)
    learner = ChangePointMetricLearner(verbose=False).fit(data.sequences, data.labels)
    save(learner, tmp_path / "model.npz")
    save_files(data, tmp_path / "data")
    places = (f"model={tmp_path}/model.npz", f"dataset.root={tmp_path}/data")
    call("evaluate", *places, "dataset=files", f"hydra.run.dir={tmp_path}/out")
    results = read_results(tmp_path / "out" / "results.json")
    rows = {(row["measure"], row["column"]): row for row in results["rows"]}
    assert len(rows) == 10
    relative = rows["relative_loss", "estimated"]["mean"]
    assert relative == pytest.approx(-learner.score(data.sequences, data.labels))
    assert rows["partition_loss", "estimated"]["mean"] == pytest.approx(100 * relative)
    assert rows["f1", "given"]["units"] == data.names
    shown = capsys.readouterr().out
    assert "Mean ± standard error of 4 sequences." in shown
    assert f"| ℓ = ‖M − N‖² / T | {relative:.4g} ± " in shown
    assert "does not say what it was trained on" in shown
    assert (tmp_path / "out" / "report.html").is_file()


@pytest.mark.parametrize(
    ("tested", "sentence", "scored"),
    [
        ([0, 1, 2, 3], "1 of 4 sequences are left out, because the model was trained on", 3),
        ([1, 2], "trained on none of these sequences, compared to the last bit: parts or", 2),
        ([0], "The model was trained on every one of these sequences: this is no test.", 1),
    ],
)
def test_sequences_of_the_training_are_kept_out_of_the_mean(
    tested: list[int],
    sentence: str,
    scored: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data = make_change_points(4, 100, 4, 2, (3, 4), random_state=0)
    train = data.select([0])
    model = euclidean(train)
    model.training_sequences_ = dict(zip(train.names, fingerprints(train)))
    save(model, tmp_path / "model.npz")
    save_files(data.select(tested), tmp_path / "data")
    places = (f"model={tmp_path}/model.npz", f"dataset.root={tmp_path}/data")
    call("evaluate", *places, "dataset=files", f"hydra.run.dir={tmp_path}/out")
    assert sentence in capsys.readouterr().out
    rows = read_results(tmp_path / "out" / "results.json")["rows"]
    assert {len(row["values"]) for row in rows} == {scored}


def test_clear_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = f"hydra.run.dir={tmp_path}/out"
    assert "model" in failure(capsys, "evaluate", "dataset=synthetic", out)
    assert "No such file" in failure(capsys, "evaluate", f"model={tmp_path}/no.npz", out)
    save(Segmenter(), tmp_path / "other.npz")
    message = failure(capsys, "evaluate", f"model={tmp_path}/other.npz", out)
    assert "a fitted learner of change-points, but holds a Segmenter" in message
    data = block()
    save(euclidean(data), tmp_path / "small.npz")
    message = failure(capsys, "evaluate", f"model={tmp_path}/small.npz", "tiny=true", out)
    assert "trained on 1 features, but synthetic has 12" in message
    model = euclidean(data)
    model.feature_names_in_ = np.array(["height"], dtype=object)
    save(model, tmp_path / "named.npz")
    save_files(data, tmp_path / "data")
    places = (f"model={tmp_path}/named.npz", f"dataset.root={tmp_path}/data")
    message = failure(capsys, "evaluate", *places, "dataset=files", out)
    assert "trained on features such as 'height', but data has no such column" in message
