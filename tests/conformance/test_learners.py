"""What every learner keeps: its numbers, files, single recordings, counts, labels and streams."""

import json
import warnings
from copy import copy
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

import metriclearn as ml
from metriclearn.running.parameters import requirements
from tests.conformance.learners import CLUSTERERS, LEARNERS, SEGMENTERS, fitted

pytestmark = pytest.mark.filterwarnings("ignore")
EACH = pytest.mark.parametrize("name", LEARNERS)
EACH_SEGMENTER = pytest.mark.parametrize("name", SEGMENTERS)
FILE = Path(__file__).parents[1] / "data" / "golden.json"


def answers(name: str, model: Any) -> list[list[Any]]:
    """Segments, or names or clusters of samples, in all recordings of the row."""
    row = LEARNERS[name]
    counts = {"n_segments": 3} if name == "given counts" else {}
    counts = {"n_clusters": 2} if name in CLUSTERERS else counts
    if name in SEGMENTERS and model.predict(row.X[0], **counts).dtype.kind == "i":
        return [one.tolist() for one in model.predict_change_points(row.X, **counts)]
    return [one.tolist() for one in model.predict(row.X, **counts)]


def numbers(name: str) -> dict[str, Any]:
    """What a learner has learned, and what it answers."""
    model, row = fitted(name), LEARNERS[name]
    found: dict[str, Any] = {"answer": answers(name, model)[-1]}
    found["score"] = float(model.score(row.X, row.y))
    solution = getattr(model, "solution_", None)
    if solution is not None:
        found |= {"objective": solution.objective, "bound": solution.lower_bound}
    if getattr(model, "penalty_", None) is not None:
        found["penalty"] = float(model.penalty_)
    if hasattr(model, "agreement_"):
        found["weights"] = model.agreement_.weights.tolist()
        found["losses"] = np.nanmean(model.cross_fit_.losses, axis=1).tolist()
    return found


@pytest.mark.parametrize("name", [name for name, row in LEARNERS.items() if row.steady])
def test_numbers_are_those_of_the_table(name: str) -> None:
    """Up to what other processors and versions of libraries round otherwise.

    A change of the method changes them on purpose. Then ``python -m
    tests.conformance.test_learners`` writes them again, and the commit says why.
    """
    expected, found = json.loads(FILE.read_text("utf-8"))[name], numbers(name)
    assert found.keys() == expected.keys()
    assert found.pop("answer") == expected.pop("answer")
    gap = found.get("objective", 0.0) - found.get("bound", 0.0)  # which a solver leaves open
    for key, value in found.items():
        most = {"abs": gap + 1e-9, "rel": 1e-6} if key in ("objective", "bound") else {"rel": 1e-2}
        assert value == pytest.approx(expected[key], **most), key


def contents(value: Any) -> Any:
    """Parameters and fitted attributes of an estimator, without paths of the training."""
    if isinstance(value, BaseEstimator) or is_dataclass(value):
        held = {k: contents(v) for k, v in vars(value).items() if k != "paths_"}
        return [type(value).__name__, held]
    if isinstance(value, partial):  # which never equals its copy
        return [value.func, contents(value.args), value.keywords]
    if hasattr(value, "state_dict"):  # a network
        return [repr(value), {key: one.numpy() for key, one in value.state_dict().items()}]
    if isinstance(value, (list, tuple)):
        return [contents(item) for item in value]
    return value


@EACH
def test_a_file_holds_the_whole_model(name: str, tmp_path: Path) -> None:
    model, row, path = fitted(name), LEARNERS[name], tmp_path / "model.npz"
    if not row.stored:
        with pytest.raises(TypeError, match="stores"):
            ml.save(model, path)
        return
    assert ml.save(model, str(path)) == path
    loaded = ml.load(path)
    assert answers(name, loaded) == answers(name, model)
    assert "paths_" not in vars(loaded)
    if isinstance(model, ml.Segmenter):  # whose recordings that were left out stay out of the file
        assert loaded.cross_fit_ is None
    elif not isinstance(model, ml.Clusterer):
        np.testing.assert_equal(contents(loaded), contents(model))
    assert not [key for key in vars(clone(loaded)) if key.endswith("_")]


@EACH
def test_parameters_set_after_a_fit_are_refused_by_predict_as_by_fit(name: str) -> None:
    row, changed = LEARNERS[name], copy(fitted(name))
    for key in [key for key, needed in requirements(type(changed)).items() if needed]:
        before, sentences = getattr(changed, key), []
        changed.set_params(**{key: object()})
        for call in (lambda: changed.predict(row.X[0]), lambda: changed.fit(row.X, row.y)):
            with pytest.raises(ValueError, match=f"{type(changed).__name__} needs ") as refused:
                call()
            sentences.append(str(refused.value))
        assert sentences[0] == sentences[1]
        setattr(changed, key, before)
    assert answers(name, changed) == answers(name, fitted(name))


@EACH
def test_weights_of_a_score_count_repetitions(name: str) -> None:
    row, model = LEARNERS[name], fitted(name)
    weights = ([2, 0, 1, 3] * 2)[: len(row.X)]
    X, y = ([one for one, n in zip(data, weights) for _ in range(n)] for data in (row.X, row.y))
    weighted = model.score(row.X, row.y, sample_weight=weights)
    assert weighted == pytest.approx(model.score(X, y), rel=1e-9)
    with pytest.raises(ValueError, match="needs one sample_weight for each"):
        model.score(row.X, row.y, sample_weight=[1] * (len(row.X) + 1))


@EACH_SEGMENTER
def test_a_recording_is_answered_alone_as_among_others(name: str) -> None:
    """Better than one segment where that can be learned, and with as many segments as asked for."""
    row, model = SEGMENTERS[name], fitted(name)
    given = {"n_segments": 3} if name == "given counts" else {}
    found = model.predict_change_points(row.X, **given)
    assert [ends[-1] for ends in found] == [90] * 6
    for array, ends, labels in zip(row.X, found, model.predict(row.X, **given)):
        assert model.predict_change_points(array, **given).tolist() == ends.tolist()
        changes = np.flatnonzero(labels[1:] != labels[:-1]) + 1
        assert set(changes) <= set(ends.tolist())  # two neighbors may have one name
    if row.learns:
        truths = [ml.Partition.from_runs(y) for y in truths_of(row)]
        loss, whole = ml.problem.FrobeniusLoss(), ml.Partition(ends=np.array([90]))
        ours = [loss(ml.Partition(ends=ends), truth) for ends, truth in zip(found, truths)]
        assert np.mean(ours) < 0.5 * np.mean([loss(whole, truth) for truth in truths])
    if row.counts:
        for k in (1, 2, 5):
            assert len(model.predict_change_points(row.X[0], n_segments=k)) == k


def truths_of(row: Any) -> list[Any]:
    """All labels, also where the row has only some."""
    return row.y if row.y[0].dtype.kind == "U" else SEGMENTERS["diagonal, L1"].y


@EACH_SEGMENTER
def test_labels_of_a_part_are_kept_to(name: str) -> None:
    row, model = SEGMENTERS[name], fitted(name)
    if not row.learns:
        pytest.skip("learns too little from these data")
    truths = truths_of(row)
    known = [np.array([*y[:50].tolist(), *[-1] * 40], dtype=object) for y in truths]
    given = {"n_segments": [6] * 6} if name == "given counts" else {}
    for ends, truth in zip(model.predict_change_points(row.X, known=known, **given), truths):
        changes = np.flatnonzero(truth[1:50] != truth[:49]) + 1
        assert np.sum(ends < 50) == len(changes)
        assert all(min(abs(ends - t)) <= 2 for t in changes)  # those in a gap are in its middle


@EACH_SEGMENTER
def test_a_score_without_a_label_is_noted(name: str) -> None:
    row, model = SEGMENTERS[name], fitted(name)
    unknown = [np.full(90, -1)] * len(row.X)
    if getattr(model, "n_segments", None) == "given":
        with pytest.raises(ValueError, match="needs every sample of data set 0 labeled"):
            model.score(row.X, unknown)
        return
    with pytest.warns(UserWarning, match="has the best score, 0, for every answer"):
        assert model.score(row.X, unknown) == 0.0


@EACH_SEGMENTER
def test_chunks_of_a_stream_give_the_segments_of_all_rows(name: str, tmp_path: Path) -> None:
    """In chunks of one buffer, saved and loaded; or the learner says why it cannot."""
    row, model = SEGMENTERS[name], fitted(name)
    if not row.streams:
        with pytest.raises(ValueError, match="stream"):
            model.stream()
        return
    for array, size in zip(row.X[:3], (1, 7, 40)):
        stream, parts, buffer = model.stream(max_delay=200), [], np.empty((size, 5))
        for start in range(0, 90, size):
            chunk = array[start : start + size]
            buffer[: len(chunk)] = chunk
            parts.append(stream.push(buffer[: len(chunk)]))
            if row.stored and start // size in (2, 9):
                stream = ml.load(ml.save(stream, tmp_path / "stream.npz"))
        parts.append(stream.finish())
        assert (stream.max_delay, stream.exact_) == (200, True)
        ends = np.concatenate([part.ends for part in parts])
        assert ends.tolist() == model.predict_change_points(array).tolist()
        if parts[0].names is not None:
            names = np.concatenate([part.names for part in parts])
            told = np.repeat(names, np.diff(ends, prepend=0))
            assert told.tolist() == model.predict(array).tolist()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    rows = [
        f"{json.dumps(name)}: {json.dumps(numbers(name))}"
        for name, row in LEARNERS.items()
        if row.steady
    ]
    FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
