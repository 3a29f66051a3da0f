"""The league: its own methods, its ranks, and the record for penalties."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.harness.command_line import configuration
from experiments.harness.committed import renewed
from experiments.league.contest import League
from experiments.league.contestants import BinarySegmentation, Contestant, HiddenMarkov, TextTiling
from experiments.league.penalties import PenaltyRegression
from experiments.league.ranks import against_ours, mean_ranks, on_other_units, within_interval
from metriclearn.datasets import PenaltyTargets, data_folder
from tests.experiments.command import results_of

RNG = np.random.default_rng(0)
TRUTH = np.repeat([0, 1, 0], 30)


def noisy(step: float) -> list[np.ndarray]:
    return [RNG.normal(size=(90, 2)) + step * (TRUTH == 1)[:, None] for _ in range(4)]


def test_a_hidden_markov_model_finds_names_and_boundaries() -> None:
    model = HiddenMarkov().fit(noisy(2.0), [TRUTH] * 4)
    found = model.predict(noisy(2.0))
    assert min(np.mean(labels == TRUTH) for labels in found) > 0.9


def test_binary_segmentation_is_that_of_ruptures() -> None:
    ruptures = pytest.importorskip("ruptures")
    X = noisy(1.5)
    model = BinarySegmentation().fit(X, [TRUTH] * 4)
    Z = model.scaler_.transform(X[0])
    for factor in (0.3, 1.0, model.option_):
        model.option_ = factor
        peer = ruptures.Binseg(model="l2", jump=1, min_size=1).fit(Z)
        expected = peer.predict(pen=factor * 2 * np.log(91))
        assert model.predict_change_points(X[:1])[0].tolist() == expected


def test_text_tiling_cuts_at_the_deepest_valleys() -> None:
    likeness = np.array([1.0, 0.5, 0.5, 0.1, 0.5, 0.45, 0.5])
    model = TextTiling().fit([likeness[:, None]], [np.array([0, 0, 0, 1, 1, 1, 1])])
    assert model.predict_change_points([likeness[:, None]])[0].tolist() == [3, 7]


def test_the_constant_of_a_penalty_has_the_fewest_errors() -> None:
    ends = [(0.0, 2.0), (1.0, 3.0), (1.5, 4.0)]
    data = PenaltyTargets(
        ["a", "b", "c"],
        [np.zeros(1)] * 3,
        [np.array(pair) for pair in ends],
        [np.array([-np.inf, *pair]) for pair in ends],
        [np.array([1, 0, 1])] * 3,
        [1] * 3,
        ["nothing"],
    )
    logs = PenaltyRegression(columns=()).fit(data).predict(data)
    assert logs.tolist() == pytest.approx([1.75] * 3)  # the middle of what suits all three
    assert data.errors_at(logs).tolist() == [0, 0, 0]


# Tables and sentences about them are compared with docs/ by test_figures.py.
def test_ranks_and_tests_against_ours_count_sets_with_six_units() -> None:
    losses, sizes = (
        {"ours": 1.0, "euclidean": 1.5, "bad": 3.0},
        {"small": 5} | dict.fromkeys("abcdefgh", 6),
    )
    rows = [
        {"table": name, "measure": "partition_loss", "method": method, "mean": loss + 0.01 * i,
         "units": list(range(n))}
        for i, (name, n) in enumerate(sizes.items()) for method, loss in losses.items()
    ]  # fmt: skip
    results = {"tables": [{"name": name, "main": True} for name in sizes], "rows": rows}
    assert mean_ranks(results) == {"ours": 1.0, "euclidean": 2.0, "bad": 3.0}
    assert against_ours(results) == {"euclidean": 2 / 2**7, "bad": 2 / 2**7}  # all of one sign


def test_losses_are_compared_with_a_rival_that_was_chosen_on_other_units() -> None:
    """Each rival is lucky on one unit, and far behind on the other; one is better on both."""
    values = {"ours": [2.0, 2.0], "ours/one model": [0.0, 0.0], "a": [1.0, 4.0], "b": [5.0, 1.0]}
    rows = {name: {"values": both} for name, both in values.items()}
    assert on_other_units(rows) == pytest.approx((4.0 + 5.0) / 4.0)
    assert on_other_units({**rows, "c": {"values": [0.5, 0.5]}}) == pytest.approx(0.25)


def test_intervals_of_differences() -> None:
    gains = np.random.default_rng(0).normal(1.0, 2.0, size=400)
    low, high, _ = within_interval(gains)
    assert (low, high) == pytest.approx((gains.mean() - 0.2, gains.mean() + 0.2), abs=0.03)
    assert within_interval(gains[:5])[:2] == (-np.inf, np.inf)  # of five signs


HALF = """
import numpy as np

class Half:
    def fit(self, X, y):
        self.names = np.unique(np.concatenate(y))[:2]

    def predict(self, X):
        return [self.names[np.arange(len(x)) * 2 // len(x)] for x in X]
"""


def test_a_contestant_is_a_file_and_is_compared_with_committed_rows(tmp_path, capsys) -> None:
    (tmp_path / "half.py").write_text(HALF)
    model = Contestant(f"{tmp_path}/half.py").fit(noisy(1.0), [TRUTH] * 4)
    assert model.predict_change_points(noisy(1.0))[0].tolist() == [45, 90]
    (tmp_path / "two.py").write_text(HALF + HALF.replace("Half", "Other"))
    assert Contestant(f"{tmp_path}/two.py:Other").kind.__name__ == "Other"
    for file, words in (("two.py", "got \\['Half', 'Other'\\]"), ("none.py", "no such file")):
        with pytest.raises(ValueError, match=words):
            Contestant(f"{tmp_path}/{file}").fit(noisy(1.0), [TRUTH] * 4)
    if data_folder("mocap6").is_dir():
        options = ("only=routines", f"contestant={tmp_path}/half.py", "pictures=false")
        results = results_of(tmp_path / "out", "experiment=league", *options)
        assert {(row["method"], row["table"]) for row in results["rows"]} == {("Half", "routines")}
        lines = [line.split(" | ") for line in capsys.readouterr().out.splitlines()]
        ranks = {line[0]: line[2] for line in lines if len(line) > 3}
        assert float(ranks["| Half"]) > float(ranks["| ours"]) >= 1.0


@pytest.mark.skipif(not data_folder("mocap6").is_dir(), reason="METRICLEARN_DATA has none")
def test_a_method_whose_package_is_missing_is_left_out_with_the_reason(tmp_path: Path) -> None:
    options = ["experiment=league", "tiny=true", "only=routines", "pictures=false"]
    every = configuration(*options).methods
    options += [f"methods.{name}=null" for name in every if name not in ("one_segment", "ms_tcn")]
    results = results_of(tmp_path, *options, "methods.ms_tcn.needs=no_such_package")
    assert {row["method"] for row in results["rows"]} == {"one segment"}
    text = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert "Left out: MS-TCN (No module named 'no_such_package')." in text


@pytest.mark.skipif(not data_folder("mocap6").is_dir(), reason="METRICLEARN_DATA has none")
def test_raw_tables_hold_out_each_half_once(tmp_path: Path) -> None:
    member = "{one:[{_target_:metriclearn.ChangePointMetricLearner}]}"
    options = (f"+methods.ours.estimator.members={member}", "methods.convolutions=null")
    results = results_of(tmp_path, "experiment=raw_tables", "tiny=true", "pictures=false", *options)
    rows = {
        (row["table"], row["method"]): row
        for row in results["rows"]
        if row["measure"] == "partition_loss"
    }
    assert {name for name, _ in rows} == {"routines", "bees"}
    assert {len(row["units"]) for row in rows.values()} == {4}
    named = {method for name, method in rows if name == "routines"}
    assert named - {m for name, m in rows if name == "bees"} == {
        method for method in named if method.endswith(("Viterbi", "MS-TCN", "ASFormer"))
    }
    assert rows["bees", "ours"]["fit_seconds"] > 0
    assert {row["table"] for row in results["rows"] if row["measure"] == "names_right"} == {
        "routines"
    }
    gap = np.subtract(rows["routines", "euclidean"]["values"], rows["routines", "ours"]["values"])
    cell = f"{gap.mean():+.2g} ± {gap.std(ddof=1) / 2:.2g}"
    text = (tmp_path / "paired.md").read_text(encoding="utf-8")
    assert cell in text.partition("| bees")[0]
    with pytest.raises(ValueError, match="only=\\['cats'\\] needs names of sets: hapt, chest"):
        League(configuration("experiment=raw_tables", "only=cats")).cases()


def test_rows_that_are_kept_are_those_of_methods_that_are_not_fitted() -> None:
    def result(*rows: tuple[str, str, list[str]], columns: tuple[str, ...] = ("1",)) -> Any:
        same = {"measure": "partition_loss"}
        found = [
            {"table": table, "method": method, "units": units, "column": column, **same}
            for table, method, units in rows
            for column in columns
        ]
        words = dict(zip(columns, columns))
        tables = [{"name": name, "columns": words, **same} for name in {row[0] for row in rows}]
        return {"rows": found, "tables": tables}

    def pairs(results: dict[str, Any]) -> set[tuple[str, str]]:
        return {(row["table"], row["method"]) for row in results["rows"]}

    before = result(("a", "old", ["1"]), ("a", "asked for", ["1"]), ("b", "old", ["2"]))
    new = result(("a", "fitted", ["1"]))
    assert pairs(renewed(before, new, ["old"])) == {("a", "old"), ("a", "fitted"), ("b", "old")}
    another = result(("c", "fitted", ["3"]))  # a set that was not there
    assert pairs(renewed(before, another, ["old"])) == {*pairs(before), ("c", "fitted")}
    changed = result(("a", "fitted", ["4"]))
    assert pairs(renewed(before, changed, ["old"])) == {("a", "fitted")}
    wide = result(("a", "old", ["1"]), columns=("1", "2"))  # a new row may lack a column
    assert renewed(wide, new, ["old"])["tables"][0]["columns"].keys() == {"1", "2"}
    assert renewed(wide, new, [])["tables"][0]["columns"].keys() == {"1"}
