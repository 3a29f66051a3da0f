"""Times of rows in all forms: rates, holes, what can be read in two ways, and errors."""

import warnings
from datetime import datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest

from metriclearn.running.time_forms import formatted
from metriclearn.running.times import rate_of, read_times, timed_rows

RATES = (1, 7, 30, 50, 59.94, 128, 1000)
YEAR_FIRST = [f"26-03-11 00:0{i}Z" for i in range(9)]
DAY_FIRST = [f"{day}.01.26 {9 + day % 3}:00" for day in range(14, 29)]
START = datetime(2026, 3, 29, 0, 59, 58, 412_000)  # summer time begins two seconds later


def stamps(seconds: np.ndarray, digits: int, zone: bool = False) -> list[str]:
    """Write times in Rome, rounded."""
    texts = []
    for second in seconds:
        stamp = START + timedelta(microseconds=round(second * 1e6))
        stamp += timedelta(microseconds=5 * 10 ** (5 - digits))  # to round, not to cut
        summer = zone and stamp >= datetime(2026, 3, 29, 1)
        local = stamp + timedelta(hours=1 + summer) if zone else stamp
        text = f"{local:%Y-%m-%d %H:%M:%S.%f}"[: digits - 6]
        texts.append(text + ("+02:00" if summer else "+01:00") * zone)
    return texts


STAMPS = [f"10:00:0{second}" for second in (1, 2, 2, 2)]
WRITTEN = {
    "seconds": lambda s: s + 12.345,
    "seconds to the ms": lambda s: np.round(s + 0.4321, 3),
    "ms": lambda s: np.round(s * 1000 + 4321).astype(np.int64),
    "ms since 1970": lambda s: np.round(1e3 * (1774745998.1 + s)).astype(np.int64),
    "ns since 1970": lambda s: [1774745998 * 10**9 + round(1e9 * x) for x in s.tolist()],
    "stamps to the ms": lambda s: stamps(s, 3),
    "stamps to 10 ms": lambda s: stamps(s, 2),
    "stamps with zones": lambda s: stamps(s, 3, zone=True),
    "stamps of pandas": lambda s: pd.Series(pd.to_datetime(stamps(s, 3), utc=True)),
    "clock times": lambda s: [text[11:] for text in stamps(s + 82_800, 3)],  # past midnight
    "durations": lambda s: [f"{1000 * x:.0f} ms" for x in s],
}


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("form", WRITTEN)
@pytest.mark.filterwarnings("ignore:Column 'time_ms' counts", "ignore:Column 't' counts")
def test_rates_in_all_forms(form: str, rate: float) -> None:
    if form == "stamps to 10 ms" and rate > 50:
        return
    column, true = "time_ms" if form == "ms" else "t", np.arange(1001) / rate
    values = WRITTEN[form](true[:-1])
    times = read_times("a", values, column)
    assert times.rate == pytest.approx(rate, rel=1e-4)
    np.testing.assert_allclose(times.at(np.arange(1001)), true, atol=1 / rate)
    assert not len(times.holes)
    rows = np.arange(1000)
    np.testing.assert_allclose(times.rows(times.at(rows)), rows, atol=1e-4)
    if not isinstance(values, pd.Series):  # a stream reads the same
        _, stream = timed_rows("a", [(str(value), None) for value in values], column)
        np.testing.assert_allclose([second for second, _ in stream], times.seconds, atol=1e-9)


@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        (np.array([-120, 0, 60, 120], np.int8), [0, 120, 180, 240]),
        (np.array([0, 2**64 - 1], np.uint64), [0, 2.0**64]),
        (pd.Series([1, 2], dtype="Int64"), [0, 1]),
        (["0,5", "1", "1,5"], [0, 0.5, 1]),
        (["31.12.2025 23:59:59,5", "01.01.2026 00:00:00"], [0, 0.5]),  # the day is first
        (["12/31/25 11:59 PM", "1/1/26 12:00 AM"], [0, 60]),
        (["2026-03-10", "2026-03-10 12:00"], [0, 43200]),
        (["20260310T100000", "20260310T100001"], [0, 1]),
        (["10 Mar 2026 10:00:00", "10 Mar 2026 10:00:02"], [0, 2]),
        (["2026-03-10T10:00:00Z", "2026-03-10T11:00:01 +0100"], [0, 1]),
        ([datetime(2026, 1, 1), datetime(2026, 1, 1, 0, 0, 1)], [0, 1]),
        ([timedelta(0), timedelta(days=1, seconds=1.5)], [0, 86401.5]),
        (np.array([0, 1500], "m8[ms]"), [0, 1.5]),
        (["58:30", "59:30", "60:30"], [0, 60, 120]),  # minutes:seconds
        (["59:59.5", "00:00.0"], [0, 0.5]),
        (["23:59", "00:01"], [0, 120]),  # hours:minutes
        (["9:59:59 AM", "12:00:00 PM"], [0, 7201]),
        (["27:59:59", "28:00:00"], [0, 1]),
        (["PT59.5S", "PT1M1S", "P1DT0S"], [0, 1.5, 86340.5]),
        (["1 min 59 s", "2min"], [0, 1]),
        (["0 days 23:59:59", "1 days 00:00:00.25"], [0, 1.25]),
        (["-00:01.0", "00:00.5"], [0, 1.5]),
        (["-0:02", "-0:01", "30:00"], [0, 1, 1802]),  # minutes:seconds
        (["99/03/10 10:00", "99/03/11 10:00"], [0, 86400]),  # the year is first
        (["10.03.26", "13.03.26", "20.03.26"], [0, 3 * 86400, 10 * 86400]),  # the day is first
        (["26/03/10 10:00", "26/03/10 10:01"], [0, 60]),  # the same either way
        ([95958, 95959], [0, 1]),  # no clock times: the same either way
        ([12000, 12060, 12120], [0, 60, 120]),
        ([3600, 7200, 10800, 14400], [0, 3600, 7200, 10800]),
        ([0, 0.5, 1.0, 100, 100.5], [0, 0.5, 1, 100, 100.5]),  # a hole
        ([20260329, 20260330, 20260332], [0, 1, 3]),  # the last is no date
        (["26/03/31 23:59", "26/04/01 00:00"], [0, 60]),  # in order if the year is first
        (["0,500", "1,000", "1,500"], [0, 0.5, 1]),
        (np.array([0, 1, 2], "M8[M]"), [0, 31 * 86400, 59 * 86400]),
        (np.array([0, 1], "M8[Y]"), [0, 365 * 86400]),
        (np.array([0, 10**18], "m8[as]"), [0, 1]),
    ],
)
def test_forms(values: object, seconds: list[float]) -> None:
    with warnings.catch_warnings(action="error"):
        times = read_times("a", values)
    np.testing.assert_allclose(times.seconds, seconds)
    assert times.seconds.dtype == np.float64


@pytest.mark.parametrize(
    ("values", "column", "step", "note"),
    [
        ([0, 4, 8], "t", 4, r"'t' may count milliseconds.*end in _ms, or pass the rate, 250 rows"),
        ([0, 16667, 33333], "t", 16666.5, "may count microseconds.* 60.0006 rows per second"),
        ([0, 10**7, 2 * 10**7], "t", 1e7, "may count nanoseconds.* 100 rows per second"),
        ([0, 40], "elapsed (ms)", 0.04, r"counts milliseconds \(ms\), by its name"),
        ([0, 40], "t_us", 4e-5, "counts microseconds"),
        ([0, 60, 120], "t", 60, None),
        ([0, 1, 2], "bus", 1, None),
        (["01/02/2026", "02/02/2026", "03/02/2026"], "t", 86400, "with the day first, because"),
        (["01/30/2026", "01/31/2026", "02/01/2026"], "t", 86400, None),
        (["01/02/2026 10:00", "01/02/2026 10:01"], "t", 60, None),  # the same either way
        (["26/03/10", "26/03/11", "26/03/12"], "t", 86400, "read as time stamps with the year fi"),
        (["26-03-10 23:59Z", *YEAR_FIRST], "t", 60, "with the year first with zones, because"),
        (DAY_FIRST, "t", 90000, None),  # as years, steps would be more even
        ([10**12, 10**12 + 40], None, 0.04, r"The times count milliseconds \(ms\), since 1970"),
        ([0, 4], None, 4, "The times may count milliseconds: rows are 4 apart"),
    ],
)
def test_a_note_names_the_reading(values, column, step, note) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        times = read_times("a", values, column)
    assert np.median(np.diff(times.seconds)) == pytest.approx(step)
    assert len(told) == (note is not None)
    if note is not None:
        with pytest.warns(UserWarning, match=note):
            read_times("a", values, column)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (np.array([10, 20, 30, 5], np.uint32), "row 4 has 5 after 30; sort the rows by time"),
        ([0, 1, 1], "rows 2 and 3 both have 1; drop one of them, or average these rows"),
        ([*range(8), "Total"], "needs numbers in column 't', but row 9 has 'Total'; correct or"),
        (["s", 0, 1], "needs numbers in column 't', but row 1 has 's'; correct or drop this row"),
        (["a", "b"], "needs numbers, time stamps, clock times or durations in column 't', but"),
        ([0, float("nan"), 2], "row 2 has none"),
        ([0, float("inf")], "in column 't', but row 2 has 'inf'; correct or drop"),
        (["2026-03-10 10:00", "", "2026-03-10 10:02"], "row 2 has none"),
        (["2026-03-10 10:00", "2026-13-10 10:01"], "needs time stamps .* row 2 has '2026-13-10"),
        (["2026-03-10 10:00", "2026-03-10 10:01Z"], "row 2 has '2026-03-10 10:01Z'; correct"),
        (["2026-10-25 02:59", "2026-10-25 02:00"], "row 2 .* if clocks were put back there, write"),
        (["00:10:00", "00:05:00"], "row 2 has 00:05:00 after 00:10:00; sort the rows by time"),
        (["10:05", "10:06"], "read as hours:minutes or as minutes:seconds; write them in full"),
        (["01/02/2026", "03/02/2026", "03/03/2026"], "with the day first or as time stamps"),
        ([95958, 95959, 100000, 100001], "such as 95958 in .* look like clock times .*10:00:30"),
        (["095958.5", "095959.5", "100000.5"], "look like clock times or dates without marks"),
        ([20260331, 20260401, 20260402], "such as 20260331 .* or 2026-03-10, or pass the rate"),
        ([235958, 235959, 0, 1], "look like clock times or dates without marks"),  # midnight
        ([58, 59, 100, 101], "look like clock times or dates without marks"),  # soon after it
        ([202603100959, 202603101000], "such as 202603100959 .* without marks"),
        ([20260310100030, 20260310100031], "such as 20260310100030 in column 't' that look like"),
        (["999", "1,000", "1,001"], "such as '1,000' .* without a comma for each thousand"),
        (["999", "1,000.5"], "without a comma for each thousand"),
        (["01.02.26", "02.02.26", "01.03.26", "01.02.26"], "sort the rows by time"),
        (["1,000,000", "1,000,001"], "without a comma for each thousand, and decimals with a poin"),
        ([], "needs times in column 't', but there are no rows"),
        ([True, False], "but row 1 has 'True'"),
    ],
)
def test_errors_name_the_row_and_a_remedy_that_helps(values: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"a.csv.*{sentence}"):
        read_times("'a.csv'", values, "t", first_row=1)
    texts = [str(value) for value in np.asarray(values).tolist()]
    if texts:  # streams say the same
        with pytest.raises(ValueError, match=f"a.csv.*{sentence}"):
            list(timed_rows("'a.csv'", [(text, None) for text in texts], "t")[1])


@pytest.mark.parametrize(
    ("last", "sentence"),
    [
        ("noon", "row 31 has 'noon'"),
        ("29", "rows 30 and 31 both have 29; drop"),
        ("3", "3 after 29; sort"),
    ],
)
def test_streams_name_wrong_rows_that_come_late(last: str, sentence: str) -> None:
    rows = [(str(i), None) for i in range(30)]
    with pytest.raises(ValueError, match=f"input needs .*{sentence}"):
        list(timed_rows("input", [*rows, (last, None)], "t")[1])


MONTHS_FIRST = [f"03/04/2026 23:{minute}" for minute in range(48, 60)]


@pytest.mark.parametrize(
    ("late", "said"),
    [
        ("03/05/2026 00:00", "are read as time stamps with the month first, because"),
        ("05/05/2026 00:00", "can be read as .* write them in full"),
        ("13/05/2026 00:00", None),  # is read in one way only, as the day is first
    ],
)
def test_a_stream_reads_times_by_the_first_row_that_tells(late: str, said: str | None) -> None:
    rows = [(text, None) for text in (*MONTHS_FIRST, late)]
    _, stream = timed_rows("input", rows, "t")
    if said and "full" in said:
        with pytest.raises(ValueError, match=said):
            list(stream)
    elif said:
        with pytest.warns(UserWarning, match=said):
            assert [second for second, _ in stream] == [60.0 * i for i in range(13)]
    else:
        assert [second for second, _ in stream][-1] == 39 * 86400 + 720


@pytest.mark.parametrize("times", [[0, 0, 1, 2, 2, 2], ["10:00:00", "10:00:00", *STAMPS]])
def test_rows_of_one_time_count_once(times: list) -> None:
    X, y = np.array([[1.0], [2.0], [3.0], [np.nan], [5.0], [np.nan]]), np.array(list("abcdef"))
    for how, expected in (("first", [1, 3, np.nan]), ("mean", [1.5, 3, 5])):
        read = read_times("a", times, "t", duplicates=how)
        assert read.seconds.tolist() == [0, 1, 2]
        np.testing.assert_equal(read.distinct(X)[:, 0], expected)
        assert read.distinct(y).tolist() == ["a", "c", "d"]
    rows = [(str(time), None) for time in times]
    assert [second for second, _ in timed_rows("a", rows, "t", True)[1]] == [0, 0, 1, 2, 2, 2]


def test_holes_count_for_times_but_not_for_the_rate() -> None:
    times = read_times("a", [0, 0.5, 1.0, 100, 100.5], "t")
    assert (times.rate, times.holes.tolist()) == (2, [3])
    assert times.at([0, 2, 3, 5]).tolist() == [0, 1, 100, 101]
    assert times.rows([0.25, 1.25, 1.5, 50, 100.25, 101, 102]).tolist() == [
        *(0.5, 2.5, 3, 3, 3.5, 5, 7)
    ]
    assert times.firsts(1.0).tolist() == [0, 2, 3]
    with pytest.warns(UserWarning, match="Rows are 0.5 to 99 s apart by column 't', and models"):
        assert rate_of([times, read_times("b", [7.0])], "t") == 2
    with pytest.raises(ValueError, match="Files of one row have no rate in column 't'"):
        rate_of([read_times("b", [7.0])], "t")


def test_other_rates_are_averaged_or_refused() -> None:
    def matches(*seconds: float) -> bool:
        return read_times("a", seconds).matches(2)

    assert matches(0.0)
    assert matches(0.0, 0.48, 0.95)
    assert matches(0.0, 0.5, 1.0, 2.0, 2.5, 3.0)  # a row is lost
    assert matches(0.0, 0.4, 1.0, 1.4, 2.0)  # rounded
    with pytest.warns(UserWarning, match="a has 20 rows per second and the model 2, so rows are"):
        assert not matches(*np.arange(30) / 20)
    with pytest.raises(ValueError, match="a has 1 rows per second, but the model needs 2 rows per"):
        matches(0, 1, 2)


def test_formats_of_strftime() -> None:
    zoned = formatted("%d.%m.%Y %H:%M:%S%z")
    plus = timezone(timedelta(hours=1))
    expected = datetime(2026, 3, 10, 10, tzinfo=plus).timestamp() * 1e9
    for zone in ("+01", "+0100", "+01:00"):
        assert zoned.read(f"10.03.2026 10:00:00{zone}") == expected
    assert zoned.read("2026-03-10") is None
