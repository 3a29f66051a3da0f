"""Tables on a grid against interpolation by hand, pieces between gaps, times of changes."""

import numpy as np
import pandas as pd
import pytest

from metriclearn import change_times, regular

WALK = pd.DataFrame(
    {"speed": [0.0, 1.0, 3.0, 8.0, 9.0], "label": ["a", "b", None, "c", "c"]},
    index=pd.Index([10.0, 11.1, 12.9, 19.0, 20.5], name="s"),
)


class Polars:
    """The part of a frame of polars that is read."""

    def __init__(self, table: pd.DataFrame) -> None:
        self.table, self.columns = table, list(table.columns)

    def __getitem__(self, name: str) -> pd.Series:
        return self.table[name]


def test_numbers_are_interpolated_and_the_rest_keeps_its_previous_value() -> None:
    first, second = regular(WALK, 1, 2)
    np.testing.assert_allclose(first.index, [10.0, 11.0, 12.0])
    np.testing.assert_allclose(first["speed"], [0.0, 1 / 1.1, 1 + 2 * 0.9 / 1.8])
    assert first["label"].tolist() == ["a", "a", "b"]
    np.testing.assert_allclose(second.index, [19.0, 20.0])
    np.testing.assert_allclose(second["speed"], [8.0, 8.0 + 1 / 1.5])
    assert second["label"].tolist() == ["c", "c"]
    assert first.index.name == second.index.name == "s"


def test_every_column_breaks_the_pieces() -> None:
    """Grid points are left out exactly where a column has no two numbers close enough."""
    rng = np.random.default_rng(1)
    times = np.cumsum(rng.uniform(0.2, 1.5, 200))
    table = pd.DataFrame(rng.normal(size=(200, 2)), columns=["a", "b"], index=times)
    table[rng.random((200, 2)) < 0.2] = np.nan
    pieces = regular(table, 2, 2.5)
    grid = times[0] + np.arange(int((times[-1] - times[0]) * 2) + 1) / 2
    expected = []
    for t in grid:
        near = []
        for name in "ab":
            known = table[name].dropna().index.to_numpy()
            before, after = known[known <= t + 1e-6], known[known >= t - 1e-6]
            near.append(len(before) and len(after) and after[0] - before[-1] <= 2.5 + 1e-6)
        expected.append(all(near))
    found = np.concatenate([piece.index for piece in pieces])
    np.testing.assert_allclose(found, grid[np.array(expected)])
    assert len(pieces) > 5
    assert all(np.allclose(np.diff(piece.index), 0.5) for piece in pieces)
    assert not any(piece.isna().any(axis=None) for piece in pieces)


@pytest.mark.parametrize("zone", [None, "Europe/Rome"])
def test_time_stamps_and_durations_stay_what_they_are(zone) -> None:
    seconds = pd.to_timedelta(WALK.index.to_numpy(), unit="s")
    start = pd.Timestamp("2026-03-29 00:59:55", tz=zone)  # summer time begins in Rome
    for times in (start + seconds, seconds):
        pieces = regular(WALK.set_index(times), 1, 2)
        plain = regular(WALK, 1, 2)
        assert [len(piece) for piece in pieces] == [3, 2]
        for piece, other in zip(pieces, plain):
            since = (piece.index - times[0]) / pd.Timedelta(1, "s")
            np.testing.assert_allclose(since, other.index - 10.0)
            np.testing.assert_allclose(piece["speed"], other["speed"])
            assert type(piece.index) is type(times)
        texts = [str(time) for time in times]
        for piece, other in zip(regular(WALK.set_index(pd.Index(texts)), 1, 2), pieces):
            assert piece.index.tolist() == other.index.tolist()
        assert change_times(pieces[0], [2, 3]).tolist() == [
            times[0] + pd.Timedelta(2, "s"),
            times[0] + pd.Timedelta(3, "s"),
        ]


def test_a_gap_of_ten_years_costs_nothing() -> None:
    """At a thousand rows a second it has 3e11 steps."""
    seconds = np.concatenate([np.arange(0, 1, 1e-3), 3.2e8 + np.arange(0, 2, 1e-3)])
    first, second = regular(pd.DataFrame({"x": seconds}, index=seconds), 1000, 0.01)
    assert (len(first), len(second)) == (1000, 2000)
    np.testing.assert_allclose(second["x"], second.index, rtol=1e-12)


def test_columns_of_times_and_frames_of_polars() -> None:
    table = WALK.rename_axis("s").reset_index()
    for frame in (table, Polars(table)):
        pieces = regular(frame, 1, 2, time="s")
        for piece, other in zip(pieces, regular(WALK, 1, 2), strict=True):
            pd.testing.assert_frame_equal(piece, other)
        assert change_times(frame, [1], time="s").tolist() == [11.1, 20.5 + 1.65]


def test_codes_can_be_held() -> None:
    table = pd.DataFrame({"x": [0.0, 3.0], "code": [4, 7]}, index=[0.0, 3.0])
    (piece,) = regular(table, 1, 3, held=["code"])
    assert piece["code"].tolist() == [4, 4, 4, 7]
    assert piece["x"].tolist() == [0, 1, 2, 3]
    assert regular(table["x"], 1, 3)[0]["x"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("frame", "options", "words"),
    [
        (WALK.iloc[::-1], {}, "row 1 has 19.0 after 20.5; sort"),
        (WALK.iloc[[0, 1, 1, 2]], {}, "rows 1 and 2 both have 11.1; drop one of them"),
        (WALK.set_index(pd.Index([1, 2, np.nan, 4, 5])), {}, "row 2 has none"),
        (WALK.set_index(pd.Index(list("abcde"))), {}, "time stamps, clock times or durations"),
        (
            WALK.set_index(pd.Index([f"01/02/2026 10:0{i}" for i in range(5)])),
            {},
            "with the day first or as time stamps with the month first; write them in full, as 202",
        ),
        (
            WALK.set_index(pd.Index([f"0001-01-01 10:0{i}" for i in range(5)])),
            {},
            "in the years 1678 to 2261, got 0001-01-01 10:00 to 0001-01-01 10:04",
        ),
        (WALK.reset_index(drop=True), {}, "the index only counts them"),
        (WALK, {"rate": None}, "a positive rate, got None"),
        (WALK, {"rate": 0}, "a positive rate, got 0"),
        (WALK, {"longest_gap": 0.5}, "longest_gap of at least 1.65 s"),
        (WALK, {"time": "t"}, "time as the name of a column"),
        (WALK, {"held": "label"}, "a list of columns"),
        (WALK[["label"]], {}, "a column of numbers"),
        (WALK, {"held": ["speed"]}, "take it out of held"),
        (WALK, {"held": ["Code"]}, "held as names of columns, some of ['speed', 'label'], got"),
        (WALK.assign(z=np.nan), {}, "got no number; drop this column"),
        (WALK.assign(z=np.inf), {}, "got inf"),
        (WALK.iloc[:0], {}, "no rows"),
        (WALK[["speed", "speed"]], {}, "columns of different names"),
        (WALK.assign(z=[np.nan, 0.0, np.nan, np.nan, 1.0]), {}, "mostly unknown"),
    ],
)
def test_errors_name_the_row_and_the_remedy(frame, options, words) -> None:
    with pytest.raises(ValueError, match=r"regular (needs|has times)") as raised:
        regular(frame, **{"rate": 1, "longest_gap": 2, **options})
    assert words in str(raised.value)
    assert str(raised.value).count(". ") == 0


@pytest.mark.parametrize(
    "index_of",
    [
        lambda clock: clock.to_period("s"),
        lambda clock: clock.astype(str),
        lambda clock: pd.Index(list(clock), dtype=object, name=clock.name),
        pd.CategoricalIndex,
        lambda clock: clock.astype("timestamp[ns][pyarrow]"),
    ],
    ids=["periods", "texts", "objects", "categories", "Arrow"],
)
def test_stamps_of_any_type_are_those_of_numpy(index_of) -> None:
    clock = pd.date_range("2026-03-01", periods=9, freq="2s", name="when")
    try:
        index = index_of(clock)
    except ImportError:
        pytest.skip("pyarrow is not installed")
    frame = pd.DataFrame({"x": np.arange(9.0)}, index=index)
    assert change_times(frame, [4, 9]).tolist() == change_times(clock, [4, 9]).tolist()
    (piece,), (expected,) = regular(frame, 1, 5), regular(frame.set_axis(clock), 1, 5)
    assert piece.index.tolist() == expected.index.tolist()
    assert piece.index.name == "when"


def test_change_times_refuses_what_are_no_times_or_change_points() -> None:
    with pytest.raises(ValueError, match="change_times needs times that increase"):
        change_times(WALK.iloc[::-1], [2])
    with pytest.raises(ValueError, match="from 1 to n_samples=5"):
        change_times(WALK, [6])
