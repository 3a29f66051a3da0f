"""Archives as their publishers lay them out, against the files that are made of them."""

import shutil
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from metriclearn.datasets import load_dataset
from metriclearn.datasets.loaders.phones import UNITS
from tests.datasets.made import ARRAYS, write

ACTIVITIES = [
    *("WALKING", "WALKING_UPSTAIRS", "WALKING_DOWNSTAIRS", "SITTING", "STANDING", "LAYING"),
    *("STAND_TO_SIT", "SIT_TO_STAND", "SIT_TO_LIE", "LIE_TO_SIT", "STAND_TO_LIE", "LIE_TO_STAND"),
]


def phone_archive(table: pd.DataFrame, folder: Path) -> None:
    """RawData as UCI 341 has it: single precision, samples from 1, segments in any order."""
    raw = folder / "HAPT Data Set" / "RawData"
    raw.mkdir(parents=True)
    for name, stored in ARRAYS["hapt"].items():
        values = (stored * UNITS).astype(np.float32)
        for kind, part in (("acc", values[:, :3]), ("gyro", values[:, 3:])):
            np.savetxt(raw / f"{kind}_{name}.txt", part, fmt="%.18g")
    numbers = table["sequence"].str.extract(r"exp(\d+)_user(\d+)").astype(int)
    rows = numbers.assign(activity=table["label"], start=table["start"] + 1, end=table["end"])
    rows = rows.sample(frac=1, random_state=0)
    rows.to_csv(raw / "labels.txt", sep=" ", header=False, index=False)
    lines = [f"{i + 1} {name}           " for i, name in enumerate(ACTIVITIES)]
    (raw.parent / "activity_labels.txt").write_text("\n".join([*lines, ""]))


def gesture_archive(table: pd.DataFrame, folder: Path) -> None:
    """Videos as UCI 302 has them: words with positions, initials with velocities."""
    words = {"raw": str.capitalize, "va3": lambda word: "D" if word == "rest" else word[0].upper()}
    for (video, kind), rows in table.groupby(["sequence", "features"]):
        phases = np.repeat(rows["label"].map(words[kind]).to_numpy(), rows["end"] - rows["start"])
        values = pd.DataFrame(ARRAYS["gesture_phase"][f"{video}_{kind}"])
        if kind == "raw":
            values["timestamp"] = np.arange(len(values))
        values["phase"] = phases
        values.replace("Hold", "Hólding").to_csv(folder / f"{video}_{kind}.csv", index=False)


@pytest.mark.parametrize("packed", ["zip in a zip", "zip", "unpacked"])
@pytest.mark.parametrize(
    ("name", "archive"), [("hapt", phone_archive), ("gesture_phase", gesture_archive)]
)
def test_archives_of_uci_become_files(tmp_path: Path, name, archive, packed: str) -> None:
    kept, made, root = (tmp_path / part for part in ("kept", "made", "root"))
    for folder in (kept, made, root):
        folder.mkdir()
    table = pd.read_csv(write(kept, name) / "segments.csv")
    archive(table, made)
    if packed == "unpacked":
        shutil.copytree(made, root / "archive")
    else:
        if packed == "zip in a zip":
            inner, made = made, tmp_path / "outer"
            made.mkdir()
            shutil.make_archive(str(made / "data set"), "zip", inner)
        shutil.make_archive(str(root / "download"), "zip", made)
    options = {"window": 4, "labels": "activities"} if name == "hapt" else {"features": "both"}
    data, expected = (load_dataset(name, folder, **options) for folder in (root, kept))
    stored = next(root.glob("*.npz"))
    for key, array in ARRAYS[name].items():
        found = np.load(stored)[key]
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)
    columns = ["sequence", "features", "start"][:: 2 if name == "hapt" else 1]
    rows = pd.read_csv(root / "segments.csv")
    pd.testing.assert_frame_equal(
        rows, table.sort_values(columns)[rows.columns].reset_index(drop=True)
    )
    # from now on the files are read, and the archive may go
    names = {path.name for path in root.iterdir()}
    assert names <= {stored.name, "segments.csv", "archive", "download.zip"}
    (root / "download.zip").unlink(missing_ok=True)
    for one in (data, load_dataset(name, root, **options)):
        assert [labels.tolist() for labels in one.labels] == [y.tolist() for y in expected.labels]
        np.testing.assert_array_equal(one.sequences[0], expected.sequences[0])


def test_horses_get_the_size_of_their_masks(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    source, root = tmp_path / "weizmann_horse_db", tmp_path / "root"
    rows, columns = np.mgrid[:40, :60]
    mask = (abs(rows - 20) < 10) & (abs(columns - 30) < 12)
    for folder in ("rgb", "figure_ground", "gray"):
        (source / folder).mkdir(parents=True)
    large = np.kron(mask, np.ones((2, 2)))[..., None] > 0
    photo = image.fromarray(np.where(large, [200, 60, 20], [30, 90, 220]).astype(np.uint8))
    gray = image.fromarray(np.where(mask, 255, 0).astype(np.uint8))
    for name in ("horse001", "horse002"):
        photo.save(source / "rgb" / f"{name}.jpg", quality=98)
        gray.save(source / "figure_ground" / f"{name}.jpg")  # whose edges are not quite 0 and 255
        gray.save(source / "gray" / f"{name}.jpg")
    root.mkdir()
    with tarfile.open(root / "weizmann_horse_db.tar.gz", "w:gz") as packed:
        packed.add(source, "weizmann_horse_db")
    data = load_dataset("weizmann_horses", root)
    assert data.names == ["horse001", "horse002"]
    np.testing.assert_array_equal(data.labels[0], mask)
    assert data.images[0].shape == (40, 60, 3)
    for place, color in (((20, 30), [200, 60, 20]), ((2, 2), [30, 90, 220])):
        assert np.abs(data.images[0][place].astype(int) - color).max() <= 6
    with image.open(root / "masks" / "horse001.png") as stored:
        assert stored.mode == "1"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("damaged", r"download\.zip' cannot be read as an archive"),
        ("password", r"download\.zip' .*labels\.txt' is encrypted, password required"),
        ("another", r"archive of 'hapt' needs 'RawData/labels.txt', which is not in .*download\.z"),
    ],
)
def test_other_archives_are_named(tmp_path: Path, content: str, sentence: str) -> None:
    file, other = tmp_path / "root" / "download.zip", tmp_path / "other"
    other.mkdir()
    (other / "labels.txt").write_text("1 1 5 250 1232\n")
    shutil.make_archive(str(file.with_suffix("")), "zip", other)
    packed = bytearray(file.read_bytes())
    if content == "password":
        packed[packed.find(b"PK\1\2") + 8] |= 1  # the entry of the file says encrypted
        packed[packed.find(b"PK\3\4") + 6] |= 1
    file.write_bytes(b"no archive" if content == "damaged" else packed)
    with pytest.raises(ValueError, match=sentence):
        load_dataset("hapt", file.parent)
    assert [path.name for path in file.parent.iterdir()] == ["download.zip"]
