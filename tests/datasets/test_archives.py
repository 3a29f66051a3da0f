"""Data sets from archives as their publishers lay them out, against the files we keep."""

import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from metriclearn.datasets import load_dataset
from metriclearn.datasets.loaders.phones import UNITS

ACTIVITIES = [
    *("WALKING", "WALKING_UPSTAIRS", "WALKING_DOWNSTAIRS", "SITTING", "STANDING", "LAYING"),
    *("STAND_TO_SIT", "SIT_TO_STAND", "SIT_TO_LIE", "LIE_TO_SIT", "STAND_TO_LIE", "LIE_TO_STAND"),
]


def phone_archive(kept: Path, folder: Path) -> None:
    """RawData of one recording, as UCI 341 has it: single precision, samples from 1."""
    raw = folder / "HAPT Data Set" / "RawData"
    raw.mkdir(parents=True)
    table = pd.read_csv(kept / "segments.csv")
    table = table[table["sequence"] == "exp05_user03"]
    for name in table["sequence"].unique():
        values = (np.load(kept / "sequences_int16.npz")[name] * UNITS).astype(np.float32)
        for kind, part in (("acc", values[:, :3]), ("gyro", values[:, 3:])):
            np.savetxt(raw / f"{kind}_{name}.txt", part, fmt="%.18g")
    numbers = table["sequence"].str.extract(r"exp(\d+)_user(\d+)").astype(int)
    rows = numbers.assign(activity=table["label"], start=table["start"] + 1, end=table["end"])
    rows.sample(frac=1, random_state=0).to_csv(
        raw / "labels.txt", sep=" ", header=False, index=False
    )
    lines = [f"{i + 1} {name}           " for i, name in enumerate(ACTIVITIES)]
    (raw.parent / "activity_labels.txt").write_text("\n".join([*lines, ""]))
    table.to_csv(folder / "expected.csv", index=False)


def gesture_archive(kept: Path, folder: Path) -> None:
    """Two videos as UCI 302 has them: words with positions, initials with velocities."""
    table = pd.read_csv(kept / "segments.csv")
    table = table[table["sequence"].isin(["a1", "b1"])]
    words = {
        "raw": str.capitalize,
        "va3": lambda phase: "D" if phase == "rest" else phase[0].upper(),
    }
    joints = [f"{joint}{axis}" for joint in ("lh", "rh", "h", "s", "lw", "rw") for axis in "xyz"]
    arrays = np.load(kept / "sequences.npz")
    for (video, kind), rows in table.groupby(["sequence", "features"]):
        phases = np.repeat(rows["label"].map(words[kind]).to_numpy(), rows["end"] - rows["start"])
        values = pd.DataFrame(arrays[f"{video}_{kind}"])
        values.columns = joints if kind == "raw" else [str(i + 1) for i in range(32)]
        if kind == "raw":
            values["timestamp"] = arrays[f"{video}_time"]
        values["phase" if kind == "raw" else "Phase"] = phases
        if video == "b1":  # where one label was left in Portuguese
            values = values.replace("Preparation", "Preparação")
        values.to_csv(folder / f"{video}_{kind}.csv", index=False)
    table.to_csv(folder / "expected.csv", index=False)


@pytest.mark.parametrize(
    ("name", "archive", "arrays", "packed"),
    [
        ("hapt", phone_archive, "sequences_int16.npz", "zip in a zip"),
        ("gesture_phase", gesture_archive, "sequences.npz", "zip"),
        ("gesture_phase", gesture_archive, "sequences.npz", "unpacked"),
    ],
    ids=["hapt", "gesture_phase", "gesture_phase unpacked"],
)
def test_archives_of_uci_become_the_files_we_keep(
    shared_folder: Callable[[str], Path],
    tmp_path: Path,
    name: str,
    archive: Callable[[Path, Path], None],
    arrays: str,
    packed: str,
) -> None:
    kept, made, root = shared_folder(name), tmp_path / "made", tmp_path / "root"
    made.mkdir()
    root.mkdir()
    archive(kept, made)
    expected = (made / "expected.csv").read_text()
    if packed == "unpacked":
        shutil.copytree(made, root / "archive")
    else:
        if packed == "zip in a zip":
            inner, made = made, tmp_path / "outer"
            made.mkdir()
            shutil.make_archive(str(made / "data set"), "zip", inner)
        shutil.make_archive(str(root / "download"), "zip", made)
    data = load_dataset(name, root)
    assert (root / "segments.csv").read_text() == expected
    stored = np.load(root / arrays)
    for key, array in np.load(kept / arrays).items():
        if key in stored:
            assert stored[key].dtype == array.dtype
            np.testing.assert_array_equal(stored[key], array)
    # from now on the files are read, and the archive may go
    assert {path.name for path in root.iterdir()} <= {
        arrays,
        "segments.csv",
        "archive",
        "download.zip",
    }
    (root / "download.zip").unlink(missing_ok=True)
    np.testing.assert_array_equal(load_dataset(name, root).sequences[0], data.sequences[0])


def test_horses_get_the_size_of_their_masks(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    source, root = tmp_path / "weizmann_horse_db", tmp_path / "root"
    rows, columns = np.mgrid[:40, :60]
    mask = (abs(rows - 20) < 10) & (abs(columns - 30) < 12)
    for folder in ("rgb", "figure_ground", "gray"):
        (source / folder).mkdir(parents=True)
    for name in ("horse001", "horse002"):
        photo = np.where(
            np.kron(mask, np.ones((2, 2)))[..., None] > 0, [200, 60, 20], [30, 90, 220]
        )
        image.fromarray(photo.astype(np.uint8)).save(source / "rgb" / f"{name}.jpg", quality=98)
        gray = image.fromarray(np.where(mask, 255, 0).astype(np.uint8))
        gray.save(source / "figure_ground" / f"{name}.jpg")  # whose edges are not quite 0 and 255
        gray.save(source / "gray" / f"{name}.jpg")
    root.mkdir()
    with tarfile.open(root / "weizmann_horse_db.tar.gz", "w:gz") as packed:
        packed.add(source, "weizmann_horse_db")
    data = load_dataset("weizmann_horses", root)
    assert data.names == ["horse001", "horse002"]
    np.testing.assert_array_equal(data.labels[0], mask)
    assert data.images[0].shape == (40, 60, 3)
    assert np.abs(data.images[0][20, 30].astype(int) - [200, 60, 20]).max() <= 6
    assert np.abs(data.images[0][2, 2].astype(int) - [30, 90, 220]).max() <= 6
    with image.open(root / "masks" / "horse001.png") as stored:
        assert stored.mode == "1"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"no archive", r"download\.zip' cannot be read as an archive"),
        ("password", r"download\.zip' .*labels\.txt' is encrypted, password required"),
        (None, r"archive of 'hapt' needs 'RawData/labels.txt', which is not in .*download\.zip"),
    ],
    ids=["damaged", "password", "another"],
)
def test_other_archives_are_named(
    tmp_path: Path, content: bytes | str | None, sentence: str
) -> None:
    file, other = tmp_path / "root" / "download.zip", tmp_path / "other"
    for folder in (file.parent, other):
        folder.mkdir()
    if content is None or isinstance(content, str):
        (other / "labels.txt").write_text("1 1 5 250 1232\n")
        shutil.make_archive(str(file.with_suffix("")), "zip", other)
        if content == "password":
            packed = bytearray(file.read_bytes())
            packed[packed.find(b"PK\1\2") + 8] |= 1  # the entry of the file says encrypted
            packed[packed.find(b"PK\3\4") + 6] |= 1
            file.write_bytes(packed)
    else:
        file.write_bytes(content)
    with pytest.raises(ValueError, match=sentence):
        load_dataset("hapt", file.parent)
    assert [path.name for path in file.parent.iterdir()] == ["download.zip"]
