"""Folders of tables: dialects, damaged files, and what is saved and read again."""

import io
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from metriclearn.datasets import (
    LabeledSequences,
    file_times,
    load_files,
    load_tables,
    read_features,
    read_labeled,
    save_files,
    stream_rows,
    without_segments,
)
from metriclearn.running.values import text

WORDS = ["a", "b c", 'd"e', "f,g", "NA", "1", "01", " ", "line\nend", "h;i", "j|k"]
# The same table in every dialect: columns t, u and a label
DIALECTS = {
    "commas": "t,u,label\n0.5,1.5,a b\n1,-2.5,c\n",
    "decimal commas": "t;u;label\n0,5;1,5;a b\n1;-2,5;c\n",
    "as many commas in names": 't;"u";label, in, words\n0,5;1,5;a b,\n1,0;-2,5;c,\n',
    "tabs, quoted, CRLF": '"t"\t"u"\t"label"\r\n0.5\t1.5\ta b\r\n1\t-2.5\tc\r\n',
    "bars, of an old Mac": "t|u|label\r0.5|1.5|a b\r1|-2.5|c\r",
    "Excel's first line": "\ufeffsep=;\nt;u;label\n0,5;1,5;a b\n1;-2,5;c\n",
    "a name over two lines, empty last lines": 't,"u\n",label\n0.5,1.5,a b\n1,-2.5,c\n\n\n',
    "padded names": " t,u ,label \n0.5,1.5,a b\n1,-2.5,c\n",
    "blanks after commas": "t, u, label\n0.5, 1.5, a b\n1, -2.5, c\n",
    "byte order mark, empty lines": "\ufefft,u,label\n\n0.5,1.5,a b\n\n1,-2.5,c\n\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "b.csv").write_text("u,v,label\n1,2.5,walk\n3,4,walk\n5,6,sit\n")
    (tmp_path / "a.tsv").write_text("v\tlabel\tu\n7\t-1\t8\n9\t2\t10\n")
    (tmp_path / "notes.txt").write_text("not a sequence")
    (tmp_path / "._b.csv").write_bytes(b"\x00\x05")
    return tmp_path


@pytest.mark.parametrize("text", DIALECTS.values(), ids=DIALECTS)
def test_files_and_streams_of_every_dialect(tmp_path: Path, text: str) -> None:
    label = "label, in, words" if "in, words" in text else "label"
    (tmp_path / "a.csv").write_bytes(text.encode())
    data = load_files(tmp_path, label)
    assert data.feature_names == ["t", "u"]
    np.testing.assert_array_equal(data.sequences[0], [[0.5, 1.5], [1, -2.5]])
    assert [word.strip(",") for word in data.labels[0]] == ["a b", "c"]
    np.testing.assert_array_equal(
        read_features(tmp_path / "a.csv", names=["u", "t"]), [[1.5, 0.5], [-2.5, 1]]
    )
    stream = io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")
    rows = [cells for _, cells in stream_rows(iter(stream.readline, ""))]
    assert rows[0] == ["t", "u", label]
    assert [[float(cell) for cell in row[:2]] for row in rows[1:]] == [[0.5, 1.5], [1.0, -2.5]]


def test_lines_of_a_stream_have_their_numbers() -> None:
    assert [*stream_rows(["sep=;\n", "\n", "x;y\n", "1,5;2\n"])] == [
        (3, ["x", "y"]),
        (4, ["1.5", "2"]),
    ]
    quoted = ['x,"y\n', '"",z"\n', '1,"2\n', "\n", '3,4"\n', "5,6\n"]
    assert [*stream_rows(quoted)] == [(1, ["x", 'y\n",z']), (3, ["1", "2\n\n3,4"]), (6, ["5", "6"])]
    assert [*stream_rows(["1,2\n"])] == [(1, ["1", "2"])]
    with pytest.raises(ValueError, match="Line 2 opens a quote that no line closes; correct it"):
        list(stream_rows(["x,y\n", '1,"2\n', "3,4\n"]))
    with pytest.raises(ValueError, match="Line 3 is no line of a table"):
        list(stream_rows(["x,y", "1,2", "9" * 200_000]))


def test_text_files(folder: Path) -> None:
    dataset = load_files(folder)
    assert (dataset.name, dataset.names, dataset.groups) == (folder.name, ["a", "b"], ["a", "b"])
    assert dataset.feature_names == ["v", "u"]
    np.testing.assert_array_equal(dataset.sequences[1], [[2.5, 1], [4, 3], [6, 5]])
    assert dataset.labels[0].tolist() == ["-1", "2"]  # texts, because those of b are texts
    assert dataset.labels[1].tolist() == ["walk", "walk", "sit"]
    assert load_files(folder, pattern="*.tsv").labels[0].tolist() == [-1, 2]
    assert load_files(folder, pattern="*.csv").names == ["b"]
    (folder / "a.tsv").write_text("u\tv\tlabel\n" + "".join(f"1\t2\t{x}\n" for x in WORDS[5:7]))
    assert load_files(folder).change_points[0].tolist() == [1, 2]  # compared as written


def test_columns_that_are_no_features(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t,u,v,label\n10:00,1.5,-2.5,p\n10:01,2,7,q\n")
    assert load_files(tmp_path, ignore=["t"]).feature_names == ["u", "v"]
    for ignore, sentence in (
        ([], r"'10:00' in row 1 of column 't'; name .* \(--time t\), or ignore .* --ignore t"),
        (["time"], r"has columns \['t', 'u', 'v'\] besides"),
        (["t", "u", "v"], "some of them, but not all"),
    ):
        with pytest.raises(ValueError, match=sentence):
            load_files(tmp_path, ignore=ignore)
    (tmp_path / "b.csv").write_text("u,v,w,label\n1,2,3,c\n")
    sentence = r"adds \['w'\]; ignore columns that not all files have .ignore=…"
    with pytest.raises(ValueError, match=sentence):
        load_files(tmp_path, ignore=["t"])
    assert load_files(tmp_path, ignore=["t", "w"]).feature_names == ["u", "v"]
    rows = [f"{i},{i % 3},{'ab'[i // 5]}\n" for i in range(10)]  # pandas writes its index so
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "a.csv").write_text("".join([",x,label\n", *rows]))
    remedy = r"increase in every .* \(ignore=\['Unnamed: 0'\], --ignore 'Unn"
    with pytest.warns(UserWarning, match=remedy):
        load_files(tmp_path / "index")
    tables = {"nameless": "0.5,-1.25", "numbered": "0,1", "waves": "4000,3998,3996,3994,3992"}
    for name, names in tables.items():
        n = len(names.split(","))
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.csv").write_text(f"{names}\n1{',2' * (n - 1)}\n.5{',0' * (n - 1)}\n")
        (tmp_path / name / "segments.csv").write_text("recording,start,end,label\na,0,2,p\n")
    with pytest.warns(UserWarning, match=r"but holds numbers, \['0.5', '-1.25'\]; if it is a row"):
        load_tables(tmp_path / "nameless", 1.0)
    with warnings.catch_warnings(action="error", category=UserWarning):
        for name in ("numbered", "waves"):
            load_tables(tmp_path / name, 1.0)


def test_times_are_no_features_and_values_may_be_missing(tmp_path: Path) -> None:
    rows = [f"{i // 2},{i * 7 % 5},{'NaN' if i == 4 else i % 2},{'ab'[i // 6]}" for i in range(12)]
    (tmp_path / "a.csv").write_text("\n".join(["Time (s),x,y,label", *rows]))
    with pytest.warns(UserWarning, match=r"left out: Time \(s\); to use the times, .*'Time \(s\)'"):
        data = load_files(tmp_path)
    assert data.feature_names == ["x", "y"]
    assert np.argwhere(np.isnan(data.sequences[0])).tolist() == [[4, 1]]
    file = tmp_path / "a.csv"
    with pytest.raises(ValueError, match="rows 1 and 2 both have 0; drop one of them, or keep"):
        file_times(file, "Time (s)")
    times = file_times(file, "Time (s)", duplicates="mean")
    assert times.rate == 1.0
    assert times.distinct(data.sequences[0])[2].tolist() == [1.5, 1.0]
    (tmp_path / "segments.csv").write_text("recording,start,end,label\na,0,4,p\na,4,6,q\n")
    with pytest.warns(UserWarning, match="are left out: Time"):
        merged = load_tables(tmp_path, 1.0, times={"a": times})
    assert merged.labels[0].tolist() == [*"ppppqq"]
    (tmp_path / "segments.csv").write_text("recording,start,end,label\na,5,6,p\n")
    with (
        pytest.warns(UserWarning, match="begin at 5 s in 'a', subtract"),
        pytest.warns(UserWarning, match="5 of 6 s are in no segment"),
        pytest.warns(UserWarning, match="are left out: Time"),
    ):
        load_tables(tmp_path, 1.0, times={"a": replace(times, origin=5.0)})
    file.write_text("\n".join(["Time (s),x,label", *(f"{-i},{i},a" for i in range(12))]))
    with pytest.warns(UserWarning, match=r"that increase in every row .*ignore=\['x'\]"):
        assert load_files(tmp_path, pattern="a.csv").feature_names == ["Time (s)", "x"]


def test_group_column(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,kind,who\n1,p,01\n2,q,01\n")
    dataset = load_files(tmp_path, label="kind", group="who")
    assert (dataset.groups, dataset.feature_names) == (["01"], ["x"])
    (tmp_path / "a.csv").write_text("x,kind,who\n1,p,01\n2,q,1\n")
    sentence = r"a\.csv' needs one group in column 'who', got \['01', '1'\]"
    with pytest.raises(ValueError, match=sentence):
        load_files(tmp_path, label="kind", group="who")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("u,v\n1,2\n", r"needs a column 'label', got \['u', 'v'\]"),
        ("u,label\n1,2\n", r"needs the distinct .* of 'a\.tsv', .* lacks \['v'\] and"),
        ("u,v,w,label\n1,2,3,4\n", r"needs the distinct .* lacks \[\] and adds \['w'\]"),
        ("u,v, v,label\n1,2,3,a\n", r"needs distinct column names, but repeats \['v'\]; rename"),
        ("u,v,label\n1,,a\n1,NA,a\n", r"needs a number in every column, but column 'v' has none"),
        ("u,v,label\n1,2,a\n1,x,a\n", r"needs finite numbers, got 'x' in row 2 .* 'v'"),
        ('u,v,label\n"0,5",2,a\n', r"needs finite .*; write decimal points, or separate"),
        ("u;v;label\n1.234,5;1;a\n2;1;a\n", "needs finite .* without a point for each thousand"),
        ("u;v;label\n999,5;1;a\n1.234;1;a\n", "has '1.234' in column 'u' .* without a point"),
        ('u,v,label\n"5,013.0",2,a\n', r"needs finite .*; write .* without a comma for each thou"),
        ("u,v,label\n1,2,\n1,2,\n", r"has no value in row 1 of column 'label'; write one"),
        ("u,v,label\n1,2,a\n1,2,\n", r"has no value in row 2 .* \(partly=True, --unknown ''\)"),
        ("u,v,label\n1,2,a\n1,2,a,7\n", "needs names .* but line 3 is; remove lines above the"),
        ("u,v,label\n1,2,a,\n1,2,b,\n", "needs names .* line 2 is; .* separators at the ends of"),
        ("Device: X\nSerial: 4\nu,v,label\n1,2,a\n", "needs names of columns .* but line 3 is"),
        ("Device,X\nu,v,label\n1,2,a\n", "needs names of columns in its first line .* line 2 is"),
        ('u,v,label\n1,2,"a\n', r"cannot be read as a table"),
        ("", r"cannot be read as a table"),
        ("u,v,label\n", r"needs at least one row"),
        ("label\na\n", r"needs at least one row and one feature column"),
        ("gr\xf6\xdfe,label\n1,a\n".encode("latin-1"), "needs to be text; save it as UTF"),
        ("u,v,label\n1,2,a\n".encode("utf-16"), "needs to be text; save it as UTF"),
        ("1,2,a\n3,4,a\n", r"needs a column 'label', got \['1', '2', 'a'\]"),
        ("u,v,label\nm,s,-\n1,2,a\n", "needs finite numbers, got 's' in row 1 of column 'v'"),
        ("u,v,label\n1,2,a\nTotal,2,-\n", "needs finite numbers, got 'Total' in row 2"),
        ("u,v,label\n1,2,a\n\0\0\0", "has no value in row 2"),
    ],
)
def test_damaged_text(folder: Path, content: str | bytes, sentence: str) -> None:
    (folder / "c.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=rf"c\.csv' {sentence}"):
        load_files(folder)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_times_of_a_file(tmp_path: Path, ending: str) -> None:
    file, table = tmp_path / f"a.{ending}", pd.DataFrame({"t": np.arange(9) / 4, "x": "a"})
    table.to_csv(file, index=False) if ending == "csv" else table.to_parquet(file)
    assert file_times(str(file), "t").rate == 4
    assert read_features(str(file), names=["t"])["t"].tolist() == table["t"].tolist()
    assert read_labeled(str(file), "x")[1].tolist() == ["a"] * 9
    with pytest.raises(ValueError, match=r"needs a column 'tme', got \['t', 'x'\]; name"):
        file_times(file, "tme")
    with pytest.warns(UserWarning, match="has no column 'tme' of times, so its rows count as 0.5"):
        assert file_times(file, "tme", rate=2).at([9]).tolist() == [4.5]
    table.iloc[[0, 2, 1]].to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(ValueError, match=r"b\.csv' needs times that increase.* row 3 has 0.25"):
        file_times(tmp_path / "b.csv", "t")


@pytest.mark.parametrize("name", ["", "nowhere"])
def test_folder_without_files(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError, match="but finds none"):
        load_files(tmp_path / name)


@pytest.mark.parametrize(
    ("stored", "sentence"),
    [
        ({"X": np.zeros((3, 2))}, "arrays X .*KeyError: 'y'"),
        ({"X": np.zeros((3, 2)), "y": np.zeros(3), "feature_names": ["u"]}, "P feature_names"),
        ({"X": np.eye(2), "y": np.eye(2)[0], "feature_names": ["u"] * 2}, "needs the distinct"),
        ({"X": np.full((3, 2), np.nan), "y": np.zeros(3)}, "number in every column, but .*'x0'"),
        ({"X": np.array([[0], [np.inf]]), "y": [0, 0]}, "finite numbers, got 'inf' in row 2"),
        ({"X": np.arange(6).reshape(3, 2), "y": ["p", "p", "q"]}, None),  # needs no names
    ],
)
def test_npz(tmp_path: Path, stored: dict, sentence: str | None) -> None:
    np.savez(tmp_path / "a.npz", **stored)
    if sentence is None:
        dataset = load_files(tmp_path)
        assert dataset.feature_names == ["x0", "x1"]
        assert dataset.change_points[0].tolist() == [2, 3]
    else:
        with pytest.raises(ValueError, match=rf"a\.npz' .*{sentence}"):
            load_files(tmp_path)


def example(X: np.ndarray, y: np.ndarray) -> LabeledSequences:
    return LabeledSequences("toy", [X, X[::-1]], [y, y], ["g", "h"], ["first", "second"],
                            [f"f {i}" for i in range(X.shape[1])])  # fmt: skip


@pytest.mark.parametrize("format", ["csv", "tsv", "npz", "parquet"])
@settings(max_examples=15)
@given(
    X=arrays(np.float64, (4, 2), elements=st.floats(allow_nan=False, allow_infinity=False)),
    y=st.one_of(
        st.lists(st.integers(-(2**60), 2**60), min_size=4, max_size=4),
        st.lists(st.sampled_from(sorted(filter(text, WORDS))), min_size=4, max_size=4),
    ),
)
def test_round_trip(tmp_path_factory, format: str, X: np.ndarray, y: list) -> None:
    folder, dataset = tmp_path_factory.mktemp("round"), example(X, np.array(y))
    save_files(dataset, folder, format, group="who")
    loaded = load_files(folder, group="who")
    for field in ("names", "groups", "feature_names"):
        assert getattr(loaded, field) == getattr(dataset, field)
    np.testing.assert_allclose(loaded.sequences, dataset.sequences, rtol=1e-15, atol=0)
    forms = [text(str(label)) for label in y]
    assert [labels.astype(str).tolist() for labels in loaded.labels] == [forms] * 2
    if format in ("npz", "parquet"):  # which may be cut
        path = folder / f"first.{format}"
        path.write_bytes(path.read_bytes()[:200])
        with pytest.raises(ValueError, match=rf"first\.{format}' .*truncated, damaged"):
            load_files(folder)


def test_save_refuses_what_would_be_lost(tmp_path: Path) -> None:
    X, mixed = np.zeros((2, 1)), np.array([1, "1"], dtype=object)
    good = example(X, np.zeros(2))
    for dataset, options, sentence in (
        (example(X, mixed), {}, "labels that csv files can hold, got .* in sequence 'first'"),
        (example(X, np.array(["", "b"])), {}, "labels that csv files can hold"),
        (example(X, mixed), {"format": "npz"}, "labels that npz files can hold"),
        (good, {"label": "f 0"}, "names of columns that are distinct and not empty"),
        (good, {"label": " F 0 ".lower()}, "names of columns that are distinct and not empty"),
        (good, {"label": "a;b"}, "names of columns that can be read back"),
        (good, {"label": ""}, "names of columns that are distinct and not empty"),
        (good, {"label": "l", "group": " l"}, "names of columns that are distinct and not empty"),
        (example(X, np.array(["a", "a "])), {}, "labels that csv files can hold"),
        (example(X, np.array(["a", "a\rb"])), {}, "labels that csv files can hold"),
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


@pytest.mark.parametrize(
    ("texts", "values", "read"),
    [
        ("a,,b ,", ["a", "", "b ", None], ["a", "", "b", ""]),
        ("1,,2,", [1.0, None, 2.0, None], [1, -1, 2, -1]),
        ("0.5,,2.0,", [0.5, None, 2.0, None], ["0.5", "", "2.0", ""]),
    ],
)
def test_rows_without_a_label_are_unlabeled(tmp_path, texts, values, read) -> None:
    lines = [f"{i},{one}" for i, one in enumerate(texts.split(","))]
    (tmp_path / "a.csv").write_text("\n".join(["x,label", *lines]))
    assert load_files(tmp_path, partly=True).labels[0].tolist() == read
    (tmp_path / "a.csv").unlink()
    pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "label": values}).to_parquet(tmp_path / "a.parquet")
    assert load_files(tmp_path, partly=True).labels[0].tolist() == read


def test_decimal_commas_are_read_beside_empty_cells(tmp_path: Path) -> None:
    text = "x;y;label\n1,25;;1,5\n;-2,5e1;1,5\nNaN;3;b\n"
    (tmp_path / "a.csv").write_text(text)
    data = load_files(tmp_path)
    np.testing.assert_array_equal(
        data.sequences[0], [[1.25, np.nan], [np.nan, -25.0], [np.nan, 3.0]]
    )
    assert data.labels[0].tolist() == ["1,5", "1,5", "b"]


def test_many_recordings_are_told_from_their_many_tables_in_linear_time(tmp_path) -> None:
    table = tmp_path / "a.segments.csv"
    table.write_text("start,end\n0,1\n")
    recordings = [tmp_path / f"{i}.csv" for i in range(9000)]
    begin = time.process_time()
    assert without_segments([table] * 9000 + recordings, ".segments.csv") == recordings
    assert time.process_time() - begin < 3
