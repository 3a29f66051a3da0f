"""Files with changed bytes, files with members added, and writers that are killed."""

import io
import json
import time
import tracemalloc
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metriclearn as ml
from metriclearn.apps.label_studio import read_tasks, write_tasks
from metriclearn.datasets import SequenceFolder
from metriclearn.datasets.formats import FORMATS, read_labels, write_file
from metriclearn.datasets.registry import read_arrays
from metriclearn.running import atomic
from metriclearn.running.atomic import Checkpoint
from tests.adversarial.callables import LABELS, X
from tests.adversarial.outcome import CASES, Wrong, in_ci, is_ours, watched
from tests.processes import PROCESSES

LEARNER = ml.ChangePointMetricLearner(solver=ml.BundleDual(max_rounds=5), verbose=False)
TABLE = "recording,start,end,label\na,0.0,1.5,speech\na,1.5,4.0,music\nb,0.0,3.0,speech\n"
SEGMENTS = [(0.0, 1.5, "speech"), (1.5, 4.0, "music"), (4.25, 6.0, "speech")]
INTERFACE = """<View>
<Labels name="l" toName="a"><Label value="speech"/><Label value="music"/></Labels>
<Audio name="a" value="$audio"/></View>"""
MUTATION = st.tuples(
    st.sampled_from(["flip", "cut", "insert", "double"]),
    st.floats(0.0, 1.0, exclude_max=True),
    st.integers(0, 255),
)


def mutated(content: bytes, kind: str, where: float, byte: int) -> bytes:
    """The content with one byte flipped or inserted, without its end, or with a piece twice."""
    i = int(where * len(content))
    changed = {
        "flip": content[:i] + bytes([content[i] ^ (byte or 1)]) + content[i + 1 :],
        "cut": content[:i],
        "insert": content[:i] + bytes([byte]) + content[i:],
        "double": content[: i + byte] + content[i:],
    }
    return changed[kind]


def read(kind: str, path: Path) -> Any:
    """What the package reads from such a file."""
    if kind == "model":
        return ml.load(path).predict(X)
    if kind == "checkpoint":
        return Checkpoint(str(path), "BundleDual", 1.0).load()
    if kind == "label studio":
        return read_tasks(path)
    return read_labels(path)


def contents(folder: Path) -> dict[str, bytes]:
    """A file of every kind."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ml.save(LEARNER.fit(X, LABELS), folder / "model.npz")
    Checkpoint(str(folder / "state.npz"), "BundleDual", 1.0).save({"w": np.arange(50.0)})
    model, state = (folder / name for name in ("model.npz", "state.npz"))
    (folder / "tasks.json").write_text(json.dumps(write_tasks({"monday": SEGMENTS}, INTERFACE)))
    labels = {}
    for kind, form in FORMATS.items():
        if kind not in ("csv", "wav"):  # cue markers need the recording
            file = write_file(kind, "monday", SEGMENTS, folder / f"monday{form.ending}")
            labels[f"labels{form.ending}"] = file.read_bytes()
    return {
        **labels,
        "label studio": (folder / "tasks.json").read_bytes(),
        "model": model.read_bytes(),
        "checkpoint": state.read_bytes(),
        "table": TABLE.encode(),
    }


def assert_valid_or_refused(
    path: Path, kind: str, content: bytes, mutation: tuple[str, float, int]
) -> None:
    """Reading a changed file gives a valid answer or an error that metriclearn words."""
    CASES[f"files: {kind}"] += 1
    path = path.with_name(kind if kind.startswith("labels.") else path.name)
    path.write_bytes(mutated(content, *mutation))
    try:
        with watched(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = read(kind, path)
    except (ValueError, OSError, TypeError) as error:
        if not is_ours(error):
            raise
        return
    if kind.startswith("label"):
        for segments in result.values():
            if not all(0 <= start <= end < np.inf for start, end, _ in segments):
                raise Wrong(f"a damaged file of labels gives {segments}")
    if kind == "model" and not 0 <= result.min() <= result.max() < len(X):
        raise Wrong(f"a damaged model predicts {result}")


def test_changed_bytes(tmp_path: Path) -> None:
    files = contents(tmp_path)

    @in_ci(500)
    @given(st.sampled_from(sorted(files)), MUTATION)
    def changed(kind: str, mutation: tuple[str, float, int]) -> None:
        assert_valid_or_refused(tmp_path / "changed.npz", kind, files[kind], mutation)

    changed()


@pytest.mark.parametrize(("where", "byte"), [(0.9955823922207633, 208), (0.9966336746255756, 92)])
def test_places_of_members_outside_the_file(where: float, byte: int, tmp_path: Path) -> None:
    content = contents(tmp_path)["checkpoint"]
    assert_valid_or_refused(tmp_path / "changed.npz", "checkpoint", content, ("flip", where, byte))


def test_members_that_nothing_refers_to_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    path.write_bytes(contents(tmp_path)["model"])
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        for i in range(4):
            member = io.BytesIO()
            np.save(member, np.zeros(5_000_000))
            archive.writestr(f"more{i}.npy", member.getvalue())
    tracemalloc.start()
    ml.load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


@pytest.mark.parametrize("kind", ["model", "table", "sequence"])
def test_contents_are_measured_before_they_are_read(kind: str, tmp_path: Path) -> None:
    """A small file that expands to more than 64 MB, and a member that is no array, are refused."""
    path = tmp_path / "model.npz"
    path.write_bytes(contents(tmp_path)["model"])
    use = {
        "model": lambda: ml.load(path),
        "table": lambda: read_arrays(path),
        "sequence": lambda: SequenceFolder(tmp_path, pattern="model.npz").sequences[0],
    }[kind]
    head = io.BytesIO()
    form = {"descr": "<f8", "fortran_order": False, "shape": (10_000_000,)}
    np.lib.format.write_array_header_1_0(head, form)
    for content, sentence in (
        (head.getvalue() + bytes(80_000_000), "expands to 80 MB, and at most 64 MB are read"),
        (b"hello", "damaged or of another kind|cannot be read as"),
    ):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr("X.npy" if kind == "sequence" else "metriclearn.npy", content)
        tracemalloc.start()
        with pytest.raises(ValueError, match=sentence):
            use()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 20e6


def test_what_is_written_is_read(tmp_path: Path, monkeypatch) -> None:
    """Also a stream of a sensor that rests, which a compressed file would hold in a few bytes."""
    monkeypatch.setattr(atomic, "_SURE", 10**5)
    path = tmp_path / "model.npz"
    path.write_bytes(contents(tmp_path)["model"])
    stream = ml.load(path).stream()
    stream.push(np.zeros((50_000, X.shape[1])))
    path = ml.save(stream, tmp_path / "stream.npz")
    assert ml.load(path).n_samples_ == 50_000
    before = path.read_bytes()
    monkeypatch.setattr(atomic, "LARGEST", 10**5)
    with pytest.raises(ValueError, match=r"would hold .* MB, and at most 0 MB are read; save less"):
        ml.save(stream, path)
    assert path.read_bytes() == before


def _save_for_ever(path: Path) -> None:
    model = ml.load(path)
    while True:
        ml.save(model, path)


def test_killed_writers_leave_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "kept.npz"
    path.write_bytes(contents(tmp_path)["model"])
    expected = ml.load(path).predict(X)
    for delay in np.random.default_rng(0).uniform(0.0, 0.05, 2):
        process = PROCESSES.Process(target=_save_for_ever, args=(path,))
        before = path.stat().st_mtime_ns
        process.start()
        while process.is_alive() and path.stat().st_mtime_ns == before:
            time.sleep(0.001)
        time.sleep(delay)
        process.kill()
        process.join()
        np.testing.assert_array_equal(ml.load(path).predict(X), expected)
