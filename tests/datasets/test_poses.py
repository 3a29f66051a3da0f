"""Tables of DeepLabCut: three lines of header, a likelihood for every part."""

from pathlib import Path

import numpy as np
import pytest

from metriclearn.datasets import load_tables, read_features

POSES = (
    "scorer,net,net,net,net,net,net\nbodyparts,nose,nose,nose,left ear,left ear,left ear\n"
    "coords,x,y,likelihood,x,y,likelihood\n0,1.5,2,0.9,3,4,1.0\n1,5,6,0.2,7,8,0.6\n2,9,,,1,2,0.7\n"
)


def test_poses_are_features(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(POSES.replace("9,,,", "9,3,0.1,"))
    (tmp_path / "segments.csv").write_text("recording,start,end,label\na,0,1,x\na,1,1.5,y\n")
    data = load_tables(tmp_path, 2.0)
    assert data.feature_names == ["nose x", "nose y", "left ear x", "left ear y"]
    assert data.labels[0].tolist() == ["x", "x", "y"]
    assert read_features(path, names=["left ear y"], likelihood=0.5).to_numpy().tolist() == [
        *([4.0], [8.0], [2.0])
    ]
    unsure = load_tables(tmp_path, 2.0, likelihood=0.5).sequences[0]
    assert np.isnan(unsure).tolist() == [
        [False] * 4,
        [True] * 2 + [False] * 2,
        [True] * 2 + [False] * 2,
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (POSES.replace("coords", "cords"), "needs the lines scorer, bodyparts and coords"),
        (POSES.replace("left ear", "nose"), "repeats .'nose likelihood', 'nose x', 'nose y'."),
        (POSES.replace(",4,", ",four,"), "cannot be read as a table of DeepLabCut"),
        (POSES.replace("coords,x,y,", "coords,x,"), "cannot be read as a table of DeepLabCut"),
        ("scorer,net\n", "needs the lines scorer, bodyparts and coords"),
    ],
)
def test_damaged_poses_give_one_sentence(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        read_features(tmp_path / "a.csv")
    assert str(tmp_path / "a.csv") in str(caught.value)
