"""Model files that the code wrote before its modules moved load, and predict what they did."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from metriclearn import load

FOLDER = Path(__file__).parents[1] / "data" / "models"
EXPECTED = dict(np.load(FOLDER / "expected.npz"))
NAMES = sorted(path.stem for path in FOLDER.glob("*.npz") if path.stem != "expected")
TABLES = ("clustering", "whitened_cl", "mmc", "closed_form", "neighborhood")


def inputs(name: str) -> list[np.ndarray]:
    """What the estimator predicted when it was saved."""
    if name.startswith(("normalized_cuts", "similarity")):
        return [EXPECTED["nodes_0"], EXPECTED["nodes_1"]]
    if name.startswith(TABLES):
        return [EXPECTED["table"]]
    return [EXPECTED["sequence_0"], EXPECTED["sequence_1"]]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "recordings"])
def test_old_file_predicts_the_same(name: str) -> None:
    estimator, arrays = load(FOLDER / f"{name}.npz"), inputs(name)
    if f"{name}/components" in EXPECTED:
        np.testing.assert_array_equal(estimator.components_, EXPECTED[f"{name}/components"])
    predicted = [estimator.predict(arrays[0])] if len(arrays) == 1 else estimator.predict(arrays)
    for i, labels in enumerate(predicted):
        np.testing.assert_array_equal(labels, EXPECTED[f"{name}/{i}"])


def test_old_segmenter_of_recordings() -> None:
    segments = load(FOLDER / "recordings.npz").segment_features(EXPECTED["sequence_0"])
    assert [start for start, _, _ in segments] == EXPECTED["recordings/starts"].tolist()
    assert [label for _, _, label in segments] == EXPECTED["recordings/labels"].tolist()
