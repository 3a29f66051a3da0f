"""Model files of the version that wrote format 1 load, and predict what they predicted then."""

import wave
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from metriclearn import load

FOLDER = Path(__file__).parents[1] / "data" / "models"
REMOVED = "21-DataPenaltyMetricLearner"
MODELS = sorted({path.stem for path in FOLDER.glob("*.npz")} - {"expected", REMOVED})
with np.load(FOLDER / "expected.npz") as file:
    EXPECTED = dict(file)
NEEDED = {"image": ["skimage"], "sound": ["librosa", "soundfile"]}  # to read such inputs


def given(name: str, folder: Path) -> Any:
    """An input: a table, a list of data sets, or a file of sound."""
    array = EXPECTED[f"input|{name}"]
    if name != "sound":
        return list(array) if array.ndim > 2 else array
    with wave.open(str(folder / "sound.wav"), "wb") as file:
        file.setparams((1, 2, 4000, 0, "NONE", ""))
        file.writeframes(array.tobytes())
    return folder / "sound.wav"


def flat(value: Any) -> np.ndarray:
    """Numbers in one array, None as NaN; segments as texts."""
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        return np.concatenate([array.ravel() for array in value])
    return np.ravel(np.nan if value is None else value)


def joined(texts: np.ndarray) -> np.ndarray:
    """Segments as texts, neighbors with one label joined, which that version left apart."""
    runs = [list(run) for _, run in groupby(texts.reshape(-1, 3).tolist(), itemgetter(2))]
    return np.ravel([(run[0][0], run[-1][1], run[0][2]) for run in runs])


@pytest.mark.parametrize("name", MODELS)
def test_old_files_load_and_predict_as_they_did(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METRICLEARN_CACHE", str(tmp_path))
    model = load(FOLDER / f"{name}.npz")
    assert type(model).__name__ == name.partition("-")[2]
    values = {key: value for key, value in EXPECTED.items() if key.startswith(f"{name}|")}
    assert values
    for key, expected in values.items():
        _, attribute, source = key.split("|")
        for module in NEEDED.get(source, []):
            pytest.importorskip(module)
        if attribute.startswith("segment"):
            expected = joined(expected)
        found = attrgetter(attribute)(model)
        if callable(found):
            found = found(given(source, tmp_path)) if source else found()
        if expected.dtype.kind == "f":
            assert_allclose(flat(found), expected, rtol=1e-9, atol=1e-12, err_msg=key)
        else:
            assert_array_equal(flat(found), expected, err_msg=key)


def test_a_file_of_a_removed_estimator_is_refused_in_one_sentence() -> None:
    with pytest.raises(ValueError, match=r"DataPenaltyMetricLearner, which .* a PenaltyLearner"):
        load(FOLDER / f"{REMOVED}.npz")


def test_no_file_was_lost() -> None:
    assert set(MODELS) == {key.partition("|")[0] for key in EXPECTED} - {"input"}
