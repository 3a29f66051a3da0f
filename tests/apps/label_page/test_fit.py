"""The console learns what was labeled on the page, also boundaries between equal labels."""

import warnings
import wave
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metriclearn as ml
from metriclearn.apps.console.commands import main
from metriclearn.apps.console.live import live_segments
from metriclearn.apps.label_page.annotation import (
    Annotation,
    exported,
    partial_labels,
    read_annotations,
)
from metriclearn.apps.label_page.page_settings import page_settings
from metriclearn.apps.label_page.project import Project
from metriclearn.apps.label_page.server import open_page
from metriclearn.datasets import (
    FORMATS,
    LabeledSequences,
    load_tables,
    read_labels,
    read_segments,
    write_file,
)
from tests.apps.serving import needs_label
from tests.budget import examples
from tests.exhaustive import all_segmentations

RATE, SECONDS = 5.0, 60.0
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


def begun(folder: Path, names: list[str]) -> Project:
    """The page of a folder of such tables."""
    folder.mkdir(exist_ok=True)
    for seed, name in enumerate(names):
        write_table(folder / f"{name}.csv", seed)
    return Project(folder, dict.fromkeys(names, SECONDS), settings={"rate": RATE})


def annotations(last: int) -> list[dict[str, Any]]:
    entries = []
    for start, end, label in list(zip([0.0, *ENDS], ENDS, LABELS))[:last]:
        entries += [{"start": start, "end": start, "kind": "change"}] if start else []
        entries.append({"start": start, "end": end, "kind": "segment", "label": label})
    return entries


@pytest.mark.parametrize("options", [["--quick"], []], ids=["quick", "two families"])
@pytest.mark.filterwarnings("ignore:Segments that touch one with the same label are kept apart")
@pytest.mark.usefixtures("two_families")
def test_boundaries_between_equal_labels_are_learned(tmp_path: Path, options: list[str]) -> None:
    folder, names = tmp_path / "recordings", NAMES if options else NAMES[:3]
    project = begun(folder, names)
    known = {name: annotations(8 if name != "two" else 5) for name in names}
    project.change(0, {name: read_annotations(many, SECONDS) for name, many in known.items()})

    model, new = tmp_path / "a.model", tmp_path / "new.csv"
    assert main(["fit", str(folder), "--out", str(model), *options]) == 0
    write_table(new, 3)
    assert main(["segment", str(new), "--model", str(model)]) == 0
    (found,) = read_segments(tmp_path / "new.segments.csv").values()
    np.testing.assert_allclose([end for _, end, _ in found], ENDS, atol=0.21)
    assert "".join(label for *_, label in found) == LABELS
    assert any(a[2] == b[2] for a, b in pairwise(found))
    if options:  # as a stream
        rows = np.loadtxt(new, delimiter=",", skiprows=1)
        followed = [(end, label) for _, end, label in live_segments(ml.load(model), [rows])]
        assert followed == [(end, label) for _, end, label in found]


@pytest.mark.parametrize(("n_recordings", "labeled"), [(1, True), (3, True), (1, False)])
def test_boundaries_beside_unlabeled_time_are_learned(tmp_path, n_recordings, labeled) -> None:
    """Every other segment has a label, or none has one."""
    folder, names = tmp_path / "recordings", NAMES[:n_recordings]
    project = begun(folder, names)
    kept = (7.0, 22.0, 28.0, 45.0) if labeled else ()
    many = [o for o in annotations(8) if o["kind"] == "change" or o["start"] in kept]
    project.change(0, {name: read_annotations(many, SECONDS) for name in names})
    assert (folder / "segments.csv").is_file() == labeled

    model, new = tmp_path / "a.model", tmp_path / "new.csv"
    assert main(["fit", str(folder), "--out", str(model), "--quick"]) == 0
    write_table(new, 77)
    assert main(["segment", str(new), "--model", str(model)]) == 0
    (found,) = read_segments(tmp_path / "new.segments.csv").values()
    if labeled:  # neighbors of one name are joined
        assert [(end, label) for _, end, label in found] == [
            (13.0, "a"),
            (28.0, "b"),
            (45.0, "a"),
            (60.0, "b"),
        ]
    else:
        ends = np.array([end for _, end, _ in found])
        assert all(np.min(np.abs(ends - end)) < 0.21 for end in ENDS)
        assert len(found) <= 10  # changes alone count as all between the first and the last


@pytest.mark.filterwarnings("ignore:Rows are .* s apart", "ignore:There are holes in the times")
def test_a_page_of_tables_with_times_is_learned_at_the_same_rows(tmp_path: Path) -> None:
    """Rows of one time are one row, and results have the times of the column, holes included."""
    needs_label()
    folder, new = tmp_path / "recordings", tmp_path / "new.csv"
    folder.mkdir()
    for seed, path in enumerate([folder / "one.csv", folder / "two.csv", new]):
        write_table(path, seed)
        rows = [line.rstrip() for line in path.read_text().splitlines()[1:]]
        lines = [f"{i / RATE + (100 if i >= 125 else 0):.1f},{row}" for i, row in enumerate(rows)]
        lines[50:50] = [lines[49]] * 7
        path.write_text("\n".join(["t,x,y,z", *lines]))
    with pytest.warns(UserWarning, match="The page leaves holes out, also from the seconds"):
        page = open_page(folder, time="t", duplicates="first")
    assert [len(one.features) for one in page.recordings.values()] == [300, 300]
    given = {name: read_annotations(annotations(8), SECONDS) for name in ("one", "two")}
    page.project.change(0, given)
    table = read_segments(folder / "segments.csv")
    assert [rows[-1][1] for rows in table.values()] == [160.0, 160.0]
    (kept := folder / "metriclearn.json").rename(tmp_path / "kept.json")
    assert open_page(folder, time="t", duplicates="first").project.annotations == given
    (tmp_path / "kept.json").rename(kept)
    again = open_page(folder)  # as before
    assert [(len(o.features), o.rate) for o in again.recordings.values()] == [(300, RATE)] * 2

    model = tmp_path / "a.model"
    assert main(["fit", str(folder), "--out", str(model), "--quick"]) == 0
    assert main(["segment", str(new), "--model", str(model), "--duplicates", "first"]) == 0
    (found,) = read_segments(tmp_path / "new.segments.csv").values()
    ends = [end + (100 if end > 25 else 0) for end in ENDS]
    np.testing.assert_allclose([end for _, end, _ in found], ends, atol=0.21)
    assert "".join(label for *_, label in found) == LABELS


def test_a_data_set_keeps_these_boundaries_where_it_is_cut(tmp_path: Path) -> None:
    table = tmp_path / "one.csv"
    write_table(table, 0)
    lines = ["recording,start,end,label"]
    lines += [f"one,{a},{b},{c}" for a, b, c in zip([0.0, *ENDS], ENDS, "aabb?abb")]
    (tmp_path / "segments.csv").write_text("\n".join(lines).replace("?", "unknown"))
    with pytest.warns(UserWarning, match=r"same label are kept apart: 3 of 8 \(one 3\)"):
        data = ml.datasets.load_tables(tmp_path, RATE)
    assert [end / RATE for end in data.change_points[0]] == ENDS
    data = data.with_unlabeled("unknown")
    assert [ends.tolist() for ends in data.change_points] == [[35, 65, 110, 140], [40, 75, 115]]
    assert data.select([1]).starts[0].tolist() == [75]
    with pytest.raises(ValueError, match=r"needs starts inside of sequence 'one', from 1 to 229"):
        ml.datasets.of_parts(
            "d", {"one": (np.zeros((230, 1)), np.zeros(230), np.array([230]))}, "x"
        )


@st.composite
def annotated(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Stretches and changes at whole rows, of a recording of nine rows at one row per second."""
    times = draw(st.lists(st.integers(1, 8), min_size=1, max_size=6, unique=True).map(sorted))
    kinds = draw(st.sampled_from([["no change", ""], ["segment", "segment", "no change", ""]]))
    entries: list[dict[str, Any]] = []
    before: tuple[str, str] = "", ""
    for start, end in pairwise([0, *times, 9]):
        kind = draw(st.sampled_from(kinds))
        label = draw(st.sampled_from("ab")) if kind == "segment" else ""
        same = kind and before == (kind, label)  # such neighbors have a change between them
        if start and (same or draw(st.booleans())):
            entries.append({"start": start, "end": start, "kind": "change"})
        named = {"label": label} if label else {}
        entries += [{"start": start, "end": end, "kind": kind} | named] if kind else []
        before = kind, label
    return entries


def allowed(known: Any) -> set[tuple[int, ...]]:
    """Every segmentation of the rows that labels allow."""
    if isinstance(known, np.ndarray):
        known = ml.Partition.from_runs(known)
    every = all_segmentations(known.n_samples)
    if isinstance(known, ml.PartialPartition):
        return {ends for ends in every if known.allows(ml.Partition(ends=np.array(ends)))}
    return {tuple(known.change_points.tolist())}


def check_labels(given: dict[str, list[Annotation]], data: LabeledSequences) -> None:
    """By enumeration, what ``fit`` learns is what the annotations say, with their names."""
    data = replace(data, unlabeled="unknown")
    labeled = "segment" if any(o.kind == "segment" for m in given.values() for o in m) else ""
    for name, labels, known in zip(data.names, data.labels, data.labelings):
        used = [o for o in given[name] if o.kind in ("change", labeled or "no change")]
        truth = partial_labels(used, 9, 1.0)
        if data.has_classes or not labeled:
            assert allowed(known) == allowed(truth)
        else:  # labels that never recur may number segments
            assert allowed(known) >= allowed(truth)
        rows = np.full(9, "unknown", dtype="U20")
        for one in used:
            rows[int(one.start) : int(one.end)] = one.label or "numbered"
        assert (rows == "unknown").tolist() == (labels == "unknown").tolist()
        if len({o.label for m in given.values() for o in m if o.label}) > 1:
            assert rows.tolist() == labels.tolist()
    if any("unknown" in labels for labels in data.labels):
        if all((labels == "unknown").all() for labels in data.labels) and not any(
            map(len, data.starts)
        ):
            return
        near = data.with_unlabeled("unknown")
        place = {name: 0 for name in data.names}
        for name, X, known in zip(near.names, near.sequences, near.labelings):
            first = int(X[0, 0])
            assert first >= place[name]
            place[name] = first + len(X)
            whole = data.labelings[data.names.index(name)]
            if isinstance(whole, np.ndarray):
                whole = ml.Partition.from_runs(whole)
            if isinstance(whole, ml.Partition):
                whole = ml.PartialPartition.from_partition(whole)
            assert allowed(known) == allowed(whole.at(np.arange(first, first + len(X))))
        # no boundary is lost
        count = sum(map(fewest, near.labelings))
        assert count >= sum(len(starts) for starts in data.starts)


def fewest(known: Any) -> int:
    return min(map(len, allowed(known))) - 1


@pytest.mark.filterwarnings("ignore:.*(fit does not learn|too short|in no segment|label are kept)")
@pytest.mark.parametrize("kind", ["page", *FORMATS])
@settings(max_examples=examples(40), deadline=None)
@given(many=annotated(), more=annotated())
def test_fit_learns_the_boundaries_that_are_annotated(tmp_path_factory, kind, many, more) -> None:
    """Beside unlabeled time and within it, too, from the page's folder and from every format."""
    needs_label()
    folder = tmp_path_factory.mktemp("rows")
    given = {name: read_annotations(one, 9.0) for name, one in (("a", many), ("b", more))}
    for name in given:
        (folder / f"{name}.csv").write_text("x\n" + "\n".join(map(str, range(9))))
    if kind.startswith("page"):
        project = Project(folder, dict.fromkeys(given, 9.0), settings={"rate": 1.0})
        project.change(0, given)
        tables = page_settings(folder, "segments.csv", None).segments
        assert tables is not None
        kinds = {name: {o.kind for o in one} for name, one in given.items()}
        labeled = any("segment" in some for some in kinds.values())
        wanted = {"change", "segment" if labeled else "no change"}
        assert set(tables) == {name for name, some in kinds.items() if some & wanted}
    else:
        tables = {}
        for name, one in given.items():
            rows = exported(name, one, 9.0, any(o.label for m in given.values() for o in m))
            if kind == "rttm":  # it holds no blanks, so the page writes these names
                rows = [(start, end, "_".join(label.split())) for start, end, label in rows]
            with wave.open(str(folder / f"{name}.wav"), "wb") as file:
                file.setparams((1, 2, 1000, 0, "NONE", ""))
                file.writeframes(bytes(18000))
            place = folder / f"{name}{FORMATS[kind].ending}"
            write_file(kind, name, rows, place, folder / f"{name}.wav")
            tables |= read_labels(place)
            (folder / f"{name}.wav").unlink()
    if not tables:
        return
    data = load_tables(folder, 1.0, tables, gap="unknown")
    check_labels(given, data)


@pytest.mark.parametrize("classes", [True, False])
def test_annotations_from_which_fit_does_not_learn_are_told(tmp_path: Path, classes: bool) -> None:
    """Marks that are no segments and no boundaries."""
    entries = annotations(5)
    if not classes:
        stretches = [one for one in entries if one["kind"] == "segment"]
        for one in stretches:
            one.update(kind="no change", label="")
    project = begun(tmp_path, NAMES[:2])
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
    assert "does not learn: 'one change' (1)" in note
    assert ("'no change' (1)" in note) == classes
    assert note.endswith("label these stretches, or set boundaries.")
