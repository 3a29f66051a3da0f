"""Tables of any dialect, changed at random: a file and a stream of it have the same rows."""

import re
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from metriclearn.apps.console.live import RowClock, table_rows
from metriclearn.datasets import read_features
from tests.adversarial.outcome import CASES, in_ci, watched

NAMES = ["power", "water"]
DIALECTS = {
    "commas": lambda text: text,
    "semicolons": lambda text: text.replace(",", ";").replace(".", ","),
    "semicolons and points": lambda text: text.replace(",", ";"),
    "tabs": lambda text: text.replace(",", "\t"),
    "bars": lambda text: text.replace(",", "|"),
    "blanks": lambda text: text.replace(",", ", "),
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "empty lines": lambda text: text.replace("\n", "\n\n"),
    "quoted": lambda text: re.sub(r"[^,\n]+", r'"\g<0>"', text),
    "mark": lambda text: "\ufeff" + text,
    "sep=": lambda text: "sep=,\n" + text,
    "old Mac": lambda text: text.replace("\n", "\r"),
    "padded names": lambda text: text.replace(",", " , ", 2),
    "a line end in a name": lambda text: text.replace("more", '"mo\nre"', 1),
    "commas in a name": lambda text: text.replace("more", '"m,o,r,e"', 1),
    "comments": lambda text: "# made by a logger\n# in a hall\n" + text,
    "without names": lambda text: text.split("\n", 1)[1],
    "a comma at each end": lambda text: text.replace("\n", ",\n"),
    "units": lambda text: text.replace("\n", "\nW,l,-\n", 1),
    "a line of totals": lambda text: text + "Total,,\n",
    "NUL": lambda text: text + "\0",
    "row numbers": lambda text: re.sub(r"(?m)^(?=.)", "1,", text),
    "truth values": lambda text: text.replace("1.0", "TRUE").replace("0.0", "FALSE"),
}
PIECES = [
    *('"', '""', '"a""b"', ",", ",,", ";", "\t", "|", " ", "\n", "\r\n", "\n\n", ",,\n", "\ufeff"),
    *("nan", "NA", "inf", "1e400", "1_0", "-", "true", "False", "#", "'", "1,5", "1,", ",5", "."),
    *("\u00a0", "=1", "+1", "0x1", "1.", ".5", "1e2", "\\", "1,234.5", "x", "sep=;\n"),
]
CHANGES = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 9), st.sampled_from(PIECES)),
    max_size=3,
)


def changed(text: str, changes: list[tuple[float, int, str]]) -> str:
    """The text with pieces in place of letters, after the lines that tell a stream its form."""
    *head, rest = text.split("\n", 5)
    for where, length, piece in changes:
        place = int(where * len(rest))
        rest = rest[:place] + piece + rest[place + length :]
    return "\n".join([*head, rest])


def rows_of_file(path: Path) -> NDArray | None:
    """The rows, or None if they are refused in a sentence."""
    try:
        return read_features(path, names=NAMES).to_numpy()
    except ValueError:
        return None


def rows_of_stream(path: Path) -> NDArray | None:
    with path.open(encoding="utf-8") as stream:
        try:
            rows = np.vstack([np.zeros((0, 2)), *table_rows(stream, NAMES, RowClock(1.0))])
        except ValueError:
            return None
    # what only a whole file tells: a column without a value, and no row
    wrong = not len(rows) or np.isnan(rows).all(axis=0).any() or np.isinf(rows).any()
    return None if wrong else rows


@in_ci(60)
@given(st.sampled_from(sorted(DIALECTS)), st.integers(6, 60), st.integers(0, 99), CHANGES)
def test_files_and_streams_of_changed_tables(dialect, n_rows, seed, changes) -> None:
    CASES["tables"] += 1
    generator = np.random.default_rng(seed)
    lines = [",".join(generator.permutation([*NAMES, "more"]))]
    lines += [",".join(map(str, row)) for row in generator.integers(-3, 4, (n_rows, 3)) / 2]
    text = changed(DIALECTS[dialect]("\n".join(lines) + "\n"), changes)
    with TemporaryDirectory() as folder, warnings.catch_warnings(), watched(20):
        warnings.simplefilter("ignore")
        path = Path(folder) / "new.csv"
        path.write_text(text, encoding="utf-8", newline="")
        of_file, of_stream = rows_of_file(path), rows_of_stream(path)
    assert (of_file is None) == (of_stream is None), f"{text!r}: {of_file}, {of_stream}"
    if of_file is not None:
        np.testing.assert_array_equal(of_file, of_stream, repr(text))
