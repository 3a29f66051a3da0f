import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from metriclearn.datasets import LabeledSequences, load_files, save_files

WORDS = ["a", "b c", 'd"e', "f,g", "NA", "1", "01", " ", "line\nend"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "b.csv").write_text("u,v,label\n1,2.5,walk\n3,4,walk\n5,6,sit\n")
    (tmp_path / "a.tsv").write_text("v\tlabel\tu\n7\t-1\t8\n9\t2\t10\n")
    (tmp_path / "notes.txt").write_text("not a sequence")
    (tmp_path / "._b.csv").write_bytes(b"\x00\x05")
    return tmp_path


def test_text_files(folder: Path) -> None:
    dataset = load_files(folder)
    assert (dataset.name, dataset.names, dataset.groups) == (folder.name, ["a", "b"], ["a", "b"])
    assert dataset.feature_names == ["v", "u"]
    np.testing.assert_array_equal(dataset.sequences[1], [[2.5, 1], [4, 3], [6, 5]])
    assert dataset.labels[0].tolist() == [-1, 2]
    assert dataset.labels[0].dtype == np.int64
    assert dataset.labels[1].tolist() == ["walk", "walk", "sit"]
    assert load_files(folder, pattern="*.csv").names == ["b"]


def test_semicolons_decimal_commas_and_columns_to_ignore(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "\ufefft;u;v;label\n10:00;1,5;-2.5;a,b\n10:01;2;7;c\n", encoding="utf-8"
    )
    (tmp_path / "a.segments.csv").write_text("recording,start,end\na,0,1\n")  # of the command
    dataset = load_files(tmp_path, ignore=["t"])
    assert (dataset.names, dataset.feature_names) == (["a"], ["u", "v"])
    np.testing.assert_array_equal(dataset.sequences[0], [[1.5, -2.5], [2.0, 7.0]])
    assert dataset.labels[0].tolist() == ["a,b", "c"]
    with pytest.raises(ValueError, match=r"'10:00' in row 1 of column 't'; .* --ignore t"):
        load_files(tmp_path)
    with pytest.raises(ValueError, match=r"has columns \['t', 'u', 'v'\] besides"):
        load_files(tmp_path, ignore=["time"])
    with pytest.raises(ValueError, match="some of them, but not all"):
        load_files(tmp_path, ignore=["t", "u", "v"])
    (tmp_path / "b.csv").write_text("u,v,w,label\n1,2,3,c\n")
    with pytest.raises(
        ValueError, match=r"adds \['w'\]; ignore columns that not all files have .ignore=…"
    ):
        load_files(tmp_path, ignore=["t"])
    assert load_files(tmp_path, ignore=["t", "w"]).feature_names == ["u", "v"]


def test_warning_for_row_numbers_and_error_for_latin_1(tmp_path: Path) -> None:
    rows = [f"{i},{i % 3},{'ab'[i // 5]}\n" for i in range(10)]
    (tmp_path / "a.csv").write_text("".join([",x,label\n", *rows]))  # pandas writes its index so
    with pytest.warns(
        UserWarning, match=r"increase in every .* \(ignore=\['Unnamed: 0'\], --ignore 'Unn"
    ):
        load_files(tmp_path)
    assert load_files(tmp_path, ignore=["Unnamed: 0"]).feature_names == ["x"]
    (tmp_path / "a.csv").write_bytes("gr\xf6\xdfe,label\n1,a\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"a\.csv' needs to be text; save it as UTF"):
        load_files(tmp_path)


def test_labels_are_compared_as_written(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,label\n1,01\n2,1\n3,NA\n4,None\n5,nan\n6,1.0\n")
    dataset = load_files(tmp_path)
    assert dataset.change_points[0].tolist() == [1, 2, 3, 4, 5, 6]


def test_group_column(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,kind,who\n1,p,01\n2,q,01\n")
    dataset = load_files(tmp_path, label="kind", group="who")
    assert (dataset.groups, dataset.feature_names) == (["01"], ["x"])
    (tmp_path / "a.csv").write_text("x,kind,who\n1,p,01\n2,q,1\n")
    with pytest.raises(
        ValueError, match=r"a\.csv' needs one group in column 'who', got \['01', '1'\]"
    ):
        load_files(tmp_path, label="kind", group="who")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("u,v\n1,2\n", r"c\.csv' needs a column 'label', got \['u', 'v'\]"),
        ("u,label\n1,2\n", r"c\.csv' needs the distinct .* of 'a\.tsv', .* lacks \['v'\] and"),
        ("u,v,w,label\n1,2,3,4\n", r"c\.csv' needs the distinct .* lacks \[\] and adds \['w'\]"),
        (
            "u,v,v,label\n1,2,3,a\n",
            r"c\.csv' needs distinct column names, but repeats \['v'\]; rename",
        ),
        ("u,v,label\n1,2,a\n1,,a\n", r"c\.csv' needs finite numbers, got '' in row 2 .* 'v'"),
        ("u,v,label\n1,2,a\n1,x,a\n", r"c\.csv' needs finite numbers, got 'x' in row 2 .* 'v'"),
        ('u,v,label\n"0,5",2,a\n', r"c\.csv' needs finite .*; write decimal points, or separate"),
        ("u,v,label\n1,2,a\n1,2,\n", r"c\.csv' has no value in row 2"),
        ("u,v,label\n1,2,a\n1,2,a,7\n", r"c\.csv' cannot be read as a table"),
        ('u,v,label\n1,2,"a\n', r"c\.csv' cannot be read as a table"),
        ("", r"c\.csv' cannot be read as a table"),
        ("u,v,label\n", r"c\.csv' needs at least one row"),
        ("label\na\n", r"c\.csv' needs at least one row and one feature column"),
    ],
)
def test_damaged_text(folder: Path, text: str | bytes, sentence: str) -> None:
    (folder / "c.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=sentence):
        load_files(folder)


@pytest.mark.parametrize("name", ["", "nowhere"])
def test_folder_without_files(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError, match="but finds none"):
        load_files(tmp_path / name)


def test_npz_needs_no_names_of_features(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=np.arange(6).reshape(3, 2), y=["p", "p", "q"])
    dataset = load_files(tmp_path)
    assert dataset.feature_names == ["x0", "x1"]
    assert dataset.change_points[0].tolist() == [2, 3]


@pytest.mark.parametrize(
    ("stored", "sentence"),
    [
        ({"X": np.zeros((3, 2))}, "arrays X .*KeyError: 'y'"),
        ({"X": np.zeros((3, 2)), "y": np.zeros(3), "feature_names": ["u"]}, "P feature_names"),
        ({"X": np.eye(2), "y": np.eye(2)[0], "feature_names": ["u"] * 2}, "needs the distinct"),
        ({"X": np.full((3, 2), np.nan), "y": np.zeros(3)}, "finite numbers, got .*nan.* in row 1"),
    ],
)
def test_bad_npz(tmp_path: Path, stored: dict, sentence: str) -> None:
    np.savez(tmp_path / "a.npz", **stored)
    with pytest.raises(ValueError, match=rf"a\.npz' .*{sentence}"):
        load_files(tmp_path)


@pytest.mark.parametrize("format", ["npz", "parquet"])
def test_truncated_binary_files(tmp_path: Path, format: str) -> None:
    save_files(example(np.zeros((50, 2)), np.zeros(50, dtype=int)), tmp_path, format)
    path = tmp_path / f"first.{format}"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match=rf"first\.{format}' .*truncated, damaged"):
        load_files(tmp_path)


def example(X: np.ndarray, y: np.ndarray) -> LabeledSequences:
    return LabeledSequences("toy", [X, X[::-1]], [y, y], ["g", "h"], ["first", "second"],
                            [f"f {i}" for i in range(X.shape[1])])  # fmt: skip


@pytest.mark.parametrize("format", ["csv", "tsv", "npz", "parquet"])
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    X=arrays(np.float64, (4, 2), elements=st.floats(allow_nan=False, allow_infinity=False)),
    y=st.one_of(
        st.lists(st.integers(-(2**60), 2**60), min_size=4, max_size=4),
        st.lists(st.sampled_from(WORDS), min_size=4, max_size=4),
    ),
)
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory, format: str, X: np.ndarray, y: list
) -> None:
    folder = tmp_path_factory.mktemp("round")
    dataset = example(X, np.array(y))
    save_files(dataset, folder, format, group="who")
    loaded = load_files(folder, group="who")
    assert loaded.names == dataset.names
    assert loaded.groups == dataset.groups
    assert loaded.feature_names == dataset.feature_names
    np.testing.assert_allclose(loaded.sequences, dataset.sequences, rtol=1e-15, atol=0)
    assert [labels.astype(str).tolist() for labels in loaded.labels] == [list(map(str, y))] * 2


def test_save_refuses_what_would_be_lost(tmp_path: Path) -> None:
    X, mixed = np.zeros((2, 1)), np.array([1, "1"], dtype=object)
    good = example(X, np.zeros(2))
    for dataset, options, sentence in (
        (example(X, mixed), {}, "labels that csv files can hold, got .* in sequence 'first'"),
        (example(X, np.array(["", "b"])), {}, "labels that csv files can hold"),
        (example(X, mixed), {"format": "npz"}, "labels that npz files can hold"),
        (good, {"label": "f 0"}, "distinct column names"),
        (good.select([0, 0]), {}, "distinct sequence names"),
        (good, {"format": "xlsx"}, 'needs format="csv", "tsv", "parquet" or "npz"'),
    ):
        with pytest.raises(ValueError, match=sentence):
            save_files(dataset, tmp_path / "a", **options)
        assert list((tmp_path / "a").iterdir()) == []
    save_files(good, tmp_path / "a")
    with pytest.raises(FileExistsError, match="new or empty folder"):
        save_files(good, tmp_path / "a")


def test_recordings_named_like_tables_of_segments_are_noted(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,label\n1,u\n2,v\n")
    (tmp_path / "a.segments.csv").write_text("recording,start,end,label\na,0,1,u\n")
    with warnings.catch_warnings(action="error"):
        assert load_files(tmp_path).names == ["a"]
    (tmp_path / "walk.Segments.csv").write_text("x,label\n1,u\n2,v\n")
    with pytest.warns(UserWarning, match=r"they are no recordings: walk\.Segments\.csv; give"):
        assert load_files(tmp_path).names == ["a"]
