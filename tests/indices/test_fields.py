"""Measures of states and of fields equal their references on random labelings."""

import sys
from collections.abc import Iterator

import numpy as np
import pytest

import metriclearn.indices as indices
from metriclearn.problem.partition import Partition
from tests.budget import examples

Pair = tuple[np.ndarray, np.ndarray]


def labelings(longest: int = 60) -> Iterator[Pair]:
    """Pairs of 1 to ``longest`` samples: one state, all different, unordered, or in runs."""
    rng = np.random.default_rng(1)
    for _ in range(examples(400)):
        n, n_states = int(rng.choice([1, 2, 5, longest // 2, longest])), int(rng.integers(1, 6))
        kinds = [
            np.zeros(n, dtype=int),
            np.arange(n),
            rng.integers(0, n_states, n),
            np.repeat(rng.integers(0, n_states, n), rng.integers(1, 12, n))[:n],
            np.repeat(rng.integers(0, n_states, n), rng.integers(1, 12, n))[:n],
        ]
        true, pred = (kinds[i] for i in rng.integers(0, len(kinds), 2))
        yield true, np.where(rng.random(n) < 0.1, pred, true) if rng.random() < 0.4 else pred


def test_indices_of_states_equal_tsseg_eval() -> None:
    reference = pytest.importorskip("tsseg_eval.metrics", reason="tsseg-eval is not installed")
    penalties = {"delay": 0.4, "transition": 0.7, "missing": 0.2, "isolation": 0.9}
    steep = {"distance": lambda d: reference.linear_distance(d, 2.0)}
    cases = [  # name, our options, their options
        ("weighted_adjusted_rand_score", {}, {}),
        ("weighted_adjusted_rand_score", {"slope": 2.0}, steep),
        ("weighted_normalized_mutual_info_score", {}, {}),
        ("weighted_normalized_mutual_info_score", {"slope": 2.0}, steep),
        ("state_matching_score", {}, {}),
        ("state_matching_score", penalties, {"weights": penalties}),
    ]
    for true, pred in labelings():
        for name, ours, theirs in cases:
            expected = getattr(reference, name)(true, pred, **theirs)
            found = getattr(indices, name)(true, pred, **ours)
            assert found == pytest.approx(expected, abs=1e-12), name
        segmentations = Partition.from_runs(true), Partition.from_runs(pred)
        expected = reference.covering(true, pred)
        assert indices.covering(*segmentations) == pytest.approx(expected, abs=1e-12)


def segments_of(labels: np.ndarray, background: int | None = None) -> list[tuple[int, set[int]]]:
    """State and samples of every segment outside the background."""
    pieces = np.split(np.arange(len(labels)), np.flatnonzero(np.diff(labels)) + 1)
    states = [(int(labels[piece[0]]), set(piece.tolist())) for piece in pieces]
    return [(state, samples) for state, samples in states if state != background]


def intervals(labels: np.ndarray, rate: float) -> list[tuple[float, float]]:
    """Start and end of every segment, in seconds."""
    return [(min(one) / rate, (max(one) + 1) / rate) for _, one in segments_of(labels)]


def segmental_f1(true: np.ndarray, pred: np.ndarray, overlap: float, background) -> float:
    """As in the program of MS-TCN: the best true segment of the same name, each once."""
    wanted, given = segments_of(true, background), segments_of(pred, background)
    used: set[int] = set()
    for state, samples in given:
        shares = [
            len(samples & other) / len(samples | other) * (state == name) for name, other in wanted
        ]
        if shares and max(shares) >= overlap:
            used.add(shares.index(max(shares)))
    if not used:
        return 0.0 if wanted or given else 1.0
    precision, recall = len(used) / len(given), len(used) / len(wanted)
    return 2 * precision * recall / (precision + recall)


def edit_score(true: np.ndarray, pred: np.ndarray, background) -> float:
    """1 minus the Levenshtein distance of the names over the length of the longer list."""
    a, b = ([name for name, _ in segments_of(side, background)] for side in (true, pred))
    table = np.add.outer(np.arange(len(a) + 1.0), np.arange(len(b) + 1.0))
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            renamed = table[i - 1, j - 1] + (a[i - 1] != b[j - 1])
            table[i, j] = min(renamed, table[i - 1, j] + 1, table[i, j - 1] + 1)
    return 1 - table[-1, -1] / max(len(a), len(b)) if a or b else 1.0


@pytest.mark.parametrize("background", [None, 1])
def test_measures_of_action_segmentation_equal_their_definitions(background: int | None) -> None:
    for true, pred in labelings():
        found = indices.edit_score(true, pred, ignore_label=background)
        assert found == pytest.approx(edit_score(true, pred, background), abs=1e-12)
        for overlap in (0.1, 0.25, 0.5):
            found = indices.segmental_f1(true, pred, overlap=overlap, ignore_label=background)
            expected = segmental_f1(true, pred, overlap, background)
            assert found == pytest.approx(expected, abs=1e-12)


def test_partitions_have_no_names_and_labels_do() -> None:
    true, pred = list("aaaabbbbaa"), list("bbbbaaaabb")
    assert indices.segmental_f1(true, pred) == 0.0
    assert indices.edit_score(true, pred) == pytest.approx(1 / 2 - 1 / 6)  # one of three stays: ba
    renamed = Partition.from_labels(true), Partition.from_labels(pred)
    assert indices.segmental_f1(*renamed) == indices.edit_score(*renamed) == 1.0
    assert indices.state_matching_score(true, pred) == 1.0
    # without matching, the extra first segment would shift all cluster numbers
    segments = [Partition.from_change_points(e) for e in ([20, 40, 60, 80], [2, 20, 40, 60, 80])]
    assert indices.segmental_f1(*segments) == pytest.approx(8 / 9)
    assert indices.edit_score(*segments) == pytest.approx(4 / 5)
    labels = [segmentation.labels for segmentation in segments]
    for index in (indices.state_matching_score, indices.weighted_adjusted_rand_score):
        assert index(*segments) == index(*labels)


def test_speech_equals_pyannote() -> None:
    why = {"reason": "pyannote.metrics is not installed"}
    core = pytest.importorskip("pyannote.core", **why)
    diarization = pytest.importorskip("pyannote.metrics.diarization", **why)
    segmentation = pytest.importorskip("pyannote.metrics.segmentation", **why)
    for place, pair in enumerate(labelings(12)):
        silence, annotations = (None, 0)[place % 2], []
        for labels in pair:
            annotations.append(core.Annotation())
            for (state, _), times in zip(segments_of(labels), intervals(labels, 4)):
                if state != silence:
                    annotations[-1][core.Segment(*times)] = f"speaker {state}"
        whole = core.Timeline([core.Segment(0, len(labels) / 4)])
        values = indices.compare(*pair, field="speech", rate=4, ignore_label=silence)
        assert len(values) == 5
        for name, value in values.items():
            kind = name.title().replace("_", "")
            metric = getattr(diarization, kind, None) or getattr(segmentation, kind)
            assert value == pytest.approx(metric()(*annotations, uem=whole), abs=1e-12), name


def test_music_equals_mir_eval() -> None:
    segment = pytest.importorskip("mir_eval.segment", reason="mir_eval is not installed")
    for pair in labelings(30):
        structure = []
        for labels in pair:
            names = [f"part {state}" for state, _ in segments_of(labels)]
            structure += [np.array(intervals(labels, 2)), names]
        expected = [
            *segment.detection(structure[0], structure[2], window=0.5),
            *segment.detection(structure[0], structure[2], window=3),
            *segment.pairwise(*structure),
            *segment.nce(*structure),
        ]
        values = indices.compare(*pair, field="music", rate=2)
        assert list(values.values()) == pytest.approx(expected, abs=1e-12)
    alone = indices.compare([0, 1, 2], [0, 0, 0], field="music", rate=10)  # frames, all apart
    assert (alone["pairwise_precision"], alone["pairwise_recall"]) == (0.0, 0.0)


def test_measures_of_a_field_equal_its_functions() -> None:
    true, pred = [0, 0, 0, 1, 1, 0, 0, 2], [0, 0, 1, 1, 0, 0, 2, 2]
    segments = Partition.from_runs(true), Partition.from_runs(pred)
    values = indices.compare(true, pred, field="change_points")
    assert values.pop("covering") == indices.covering(*segments)
    assert values.pop("f_measure") == indices.f_measure(*segments)
    assert values == {name: getattr(indices, name)(true, pred) for name in values}
    values = indices.compare(true, pred, field="video", ignore_label=1)
    assert values.pop("edit_score") == indices.edit_score(true, pred, ignore_label=1)
    for overlap, value in zip((0.1, 0.25, 0.5), values.values(), strict=True):
        assert value == indices.segmental_f1(true, pred, overlap=overlap, ignore_label=1)
    frame = indices.compare(true, pred, field="speech", as_frame=True)
    assert list(frame.loc[frame["better"] == "lower", "index"]) == ["diarization_error_rate"]


@pytest.mark.parametrize(("field", "library"), [("speech", "pyannote"), ("music", "mir_eval")])
def test_errors_name_a_missing_library_and_its_command(field, library, monkeypatch) -> None:
    for name in ("pyannote.core", "mir_eval.segment"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf"needs {library}, .*pip install .*\[measures\]"):
        indices.compare([0, 1], [0, 1], field=field)
