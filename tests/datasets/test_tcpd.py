import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from metriclearn.datasets import load_tcpd, registry


def content(*columns: list[float | None]) -> str:
    series = [{"label": f"V{i}", "type": "float", "raw": raw} for i, raw in enumerate(columns)]
    header = {"name": "toy", "longname": "Toy series", "n_obs": 5, "n_dim": len(columns)}
    return json.dumps(header | {"time": {"index": list(range(5))}, "series": series})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "toy.json").write_text(content([1, 2, 3, 4, 5]))
    (tmp_path / "datasets" / "gaps.json").write_text(
        content([1.5, None, 2.5, 4, None], [0, 0, 1, 1, 1])
    )
    annotations = {"toy": {"6": [3, 1], "7": []}, "gaps": {"9": [2]}, "absent": {"6": []}}
    (tmp_path / "annotations.json").write_text(json.dumps(annotations))
    return tmp_path


def test_series_and_annotations(folder: Path) -> None:
    gaps, toy = load_tcpd(folder)
    assert (toy.name, toy.long_name, toy.feature_names) == ("toy", "Toy series", ["V0"])
    np.testing.assert_array_equal(toy.values, [[1], [2], [3], [4], [5]])
    assert {k: v.tolist() for k, v in toy.annotations.items()} == {"6": [1, 3, 5], "7": [5]}
    np.testing.assert_allclose(gaps.values[:, 0], [1.5, 2.0, 2.5, 4, 4])
    assert gaps.missing.tolist() == [False, True, False, False, True]
    assert gaps.values.shape == (5, 2)


def test_names_choose_and_order(folder: Path) -> None:
    assert [series.name for series in load_tcpd(folder, ["toy", "gaps"])] == ["toy", "gaps"]
    with pytest.raises(ValueError, match=r"got \['other'\] without annotations"):
        load_tcpd(folder, ["other"])
    with pytest.raises(FileNotFoundError, match=r"'datasets/absent.json'.*TCPD"):
        load_tcpd(folder, ["absent"])


def test_public_series_are_downloaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "RETRIES", 0)
    (folder / "annotations.json").write_text('{"nile": {"6": [28]}}')
    with pytest.raises(ConnectionError, match=r"datasets/nile/nile\.json.* check the connection"):
        load_tcpd(folder, base_url="http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        ("datasets/toy.json", content([1, 2, 3]), "every column needs 5 samples"),
        ("datasets/toy.json", content([None] * 5), "not all of them missing"),
        ("datasets/toy.json", content([1, 2, 3, 4, 5])[:80], "cannot be read as JSON"),
        ("datasets/toy.json", '{"n_obs": 5}', "KeyError: 'series'"),
        ("annotations.json", '{"toy": {"6": [5]}}', "annotations.* distinct change-points, got 5"),
        ("annotations.json", '{"toy": {"6": [0]}}', "annotations.* got 0 to 5"),
        ("annotations.json", '{"toy": [3]}', "annotations.*AttributeError"),
    ],
)  # fmt: skip
def test_damaged_files(folder: Path, file: str, text: str, sentence: str) -> None:
    (folder / file).write_text(text)
    with pytest.raises(ValueError, match=rf"datasets/toy\.json' .*{sentence}"):
        load_tcpd(folder, ["toy"])


def test_real_series(shared_folder: Callable[[str], Path]) -> None:
    series = {item.name: item for item in load_tcpd(shared_folder("tcpd"))}
    assert len(series) == 24
    assert sum(len(item.annotations) for item in series.values()) == 120
    assert series["run_log"].values.shape == (376, 2)
    assert series["nile"].annotations["7"].tolist() == [28, 100]
    assert series["bank"].annotations["6"].tolist() == [581]
