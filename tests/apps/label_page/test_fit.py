"""The console learns what was labeled on the page, also boundaries between equal labels."""

import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metriclearn as ml
from metriclearn.apps.console.commands import main
from metriclearn.apps.console.live import live_segments
from metriclearn.apps.label_page.project import Project, page_settings, read_annotations
from metriclearn.datasets.annotations import read_segments

RATE, SECONDS = 10.0, 60.0
# The first column changes at every boundary, the second one where the label changes.
NAMES = ["one", "two", "three", "four", "five", "six"]
ENDS, LABELS = [7.0, 13.0, 22.0, 28.0, 37.0, 45.0, 52.0, 60.0], "aabbaabb"


def write_table(path: Path, seed: int) -> None:
    rows = np.arange(int(SECONDS * RATE)) / RATE
    place = np.searchsorted(ENDS, rows, side="right")
    X = np.random.default_rng(seed).normal(size=(len(rows), 3)) * 0.3
    X[:, 0] += 3.0 * (place % 2)
    X[:, 1] += 3.0 * (np.array(list(LABELS))[place] == "b")
    np.savetxt(path, X, delimiter=",", header="x,y,z", comments="")


def annotations(last: int) -> list[dict[str, Any]]:
    entries = []
    for start, end, label in list(zip([0.0, *ENDS], ENDS, LABELS))[:last]:
        entries += [{"start": start, "end": start, "kind": "change"}] if start else []
        entries.append({"start": start, "end": end, "kind": "segment", "label": label})
    return entries


@pytest.mark.parametrize("options", [["--quick"], []], ids=["quick", "default"])
@pytest.mark.filterwarnings("ignore:Segments that touch one with the same label are kept apart")
def test_boundaries_between_equal_labels_are_learned(tmp_path: Path, options: list[str]) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    for seed, name in enumerate(NAMES):
        write_table(folder / f"{name}.csv", seed)
    project = Project(folder, dict.fromkeys(NAMES, SECONDS), settings={"rate": RATE})
    known = {name: annotations(8 if name != "two" else 5) for name in NAMES}
    project.change(0, {name: read_annotations(many, SECONDS) for name, many in known.items()})

    model, new = tmp_path / "a.model", tmp_path / "new.csv"
    assert main(["fit", str(folder), "--out", str(model), *options]) == 0
    write_table(new, 3)
    assert main(["segment", str(new), "--model", str(model)]) == 0
    (found,) = read_segments(tmp_path / "new.segments.csv").values()
    np.testing.assert_allclose([end for _, end, _ in found], ENDS, atol=0.11)
    assert "".join(label for *_, label in found) == LABELS
    assert any(a[2] == b[2] for a, b in pairwise(found))
    if options:  # as a stream
        rows = np.loadtxt(new, delimiter=",", skiprows=1)
        followed = [(end, label) for _, end, label in live_segments(ml.load(model), [rows])]
        assert followed == [(end, label) for _, end, label in found]


def test_a_data_set_keeps_these_boundaries_where_it_is_cut(tmp_path: Path) -> None:
    table = tmp_path / "one.csv"
    write_table(table, 0)
    lines = ["recording,start,end,label"]
    lines += [f"one,{a},{b},{c}" for a, b, c in zip([0.0, *ENDS], ENDS, "aabb?abb")]
    (tmp_path / "segments.csv").write_text("\n".join(lines).replace("?", "unknown"))
    with pytest.warns(UserWarning, match=r"same label are kept apart: 3 of 8 \(one 3\)"):
        data = ml.datasets.load_tables(tmp_path, RATE)
    assert [end / RATE for end in data.change_points[0]] == ENDS
    with pytest.warns(UserWarning, match=r"between samples of label 'b' \(2\) are left out"):
        data.without("b")
    data = data.without("unknown")
    assert [ends.tolist() for ends in data.change_points] == [[70, 130, 220, 280], [80, 150, 230]]
    assert data.select([1]).starts[0].tolist() == [150]
    with pytest.raises(ValueError, match=r"needs starts inside of sequence 'one', from 1 to 229"):
        ml.datasets.of_parts(
            "d", {"one": (np.zeros((230, 1)), np.zeros(230), np.array([230]))}, "x"
        )


@pytest.mark.parametrize("classes", [True, False])
def test_annotations_from_which_fit_does_not_learn_are_told(tmp_path: Path, classes: bool) -> None:
    """Boundaries beside unlabeled time, and marks that the table of segments cannot hold."""
    for seed in (0, 1):
        write_table(tmp_path / f"{NAMES[seed]}.csv", seed)
    entries = annotations(5)
    if not classes:
        stretches = [one for one in entries if one["kind"] == "segment"]
        for one in stretches:
            one.update(kind="no change", label="")
    project = Project(tmp_path, dict.fromkeys(NAMES[:2], SECONDS), settings={"rate": RATE})
    whole = {name: read_annotations(entries, SECONDS) for name in NAMES[:2]}
    project.change(0, whole)

    def told() -> list[str]:
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always")
            page_settings(tmp_path, "segments.csv", None)
        return [str(one.message) for one in notes]

    assert told() == []
    more = [{"start": time, "end": time, "kind": "change"} for time in (ENDS[4], 50.0, 51.0)]
    more.append({"start": 53.0, "end": 55.0, "kind": "one change"})
    more.append({"start": 55.0, "end": 58.0, "kind": "no change"})
    project.change(1, {NAMES[0]: read_annotations([*entries, *more], SECONDS)})
    (note,) = told()
    assert "does not learn: boundaries beside unlabeled time (3), 'one change' (1)" in note
    assert ("'no change' (1)" in note) == classes
    assert note.endswith("label the time on both sides of boundaries.")
