"""The league: its own methods, its ranks, and the record for penalties."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from omegaconf import OmegaConf
from sklearn.linear_model import LogisticRegression

from experiments.harness.command_line import CONFIGS, configuration
from experiments.harness.committed import KEY, renewed, with_kept
from experiments.harness.results import read_results
from experiments.league.contest import League, set_cases
from experiments.league.contestants import (
    BinarySegmentation,
    Contestant,
    HiddenMarkov,
    Member,
    MetricAlone,
    SampleVote,
    TextTiling,
)
from experiments.league.penalties import PenaltyRegression
from experiments.league.ranks import (
    against_ours,
    mean_ranks,
    on_other_units,
    ranks_table,
    within_interval,
)
from experiments.league.series import block_features, load_measured
from experiments.rivals.windows import WindowClassifier
from metriclearn import (
    BundleDual,
    ChangePointMetricLearner,
    FullMetric,
    Partition,
    Segmenter,
    SquaredFrobenius,
)
from metriclearn.baselines import EqualCuts, TunedSegmenter
from metriclearn.datasets import PenaltyTargets, data_folder, load_dataset
from metriclearn.indices import partition_loss
from metriclearn.problem.named_segments import NamedPartition
from tests.datasets.made import texts as write_texts
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


def test_methods_of_few_lines_answer_as_members() -> None:
    X, y = noisy(2.0), [TRUTH] * 4
    cuts, names = Member(EqualCuts().fit(X, y)), Member(HiddenMarkov().fit(X, y))
    data = cuts.read_data(X)
    assert [one.change_points.tolist() for one in cuts.segmented(data)] == [[30, 60, 90]] * 4
    found, labels = names.segmented(data), names.model.predict(X)
    assert [one.sample_names.tolist() for one in found] == [one.tolist() for one in labels]


def test_a_vote_over_samples_has_the_members_of_a_segmenter() -> None:
    X, y = noisy(1.5), [TRUTH] * 4
    rivals = {"a": [Member(HiddenMarkov())], "b": [Member(WindowClassifier(LogisticRegression()))]}
    members = {**rivals, "without names": [Member(EqualCuts())]}
    vote = SampleVote(Segmenter(members, names=True, verbose=False)).fit(X, y)
    agreement = vote.segmenter_.agreement_
    assert len(agreement.scores) >= 8  # of each fold and of all, for each rival
    new = noisy(1.5)
    for x, names in zip(new, vote.predict(new)):
        votes = np.zeros((90, 2))
        for found, q in zip(agreement.form(x).members, agreement.weights):
            if isinstance(found, NamedPartition):
                votes[np.arange(90), found.sample_names] += q
        sure = np.abs(votes[:, 0] - votes[:, 1]) > 0.9 * votes.sum(axis=1)
        assert sure.sum() > 60
        assert np.mean(names[sure] == votes[sure].argmax(axis=1)) > 0.95
    truth = Partition.from_runs(TRUTH)
    found = [Partition(ends=ends) for ends in vote.predict_change_points(new)]
    assert np.mean([partition_loss(one, truth) for one in found]) < 0.5


def test_one_kind_of_metric_takes_the_place_of_all_members() -> None:
    """Two columns share a large noise, and only their difference changes: a full metric sees it."""

    def shared() -> list[np.ndarray]:
        step = np.outer(TRUTH == 1, [2.0, 0.0])
        return [x + step + 6.0 * RNG.normal(size=(90, 1)) for x in noisy(0.0)]

    learner = ChangePointMetricLearner(FullMetric(), SquaredFrobenius(0.1), BundleDual(0.05))
    X, new, losses = shared(), shared(), []
    for learners in ([TunedSegmenter()], [learner, learner]):
        model = MetricAlone(learners).fit(X, [TRUTH] * 4)
        table = model.segmenter_.cross_fit_
        views = {"scaled", "own scale", "windows, own scale", "details, own scale"}
        assert set(table.families) == views
        assert len(table.members) == 4 * len(learners)
        found = [Partition(ends=ends) for ends in model.predict_change_points(new)]
        truth = Partition.from_runs(TRUTH)
        losses.append(np.mean([partition_loss(one, truth) for one in found]))
    assert losses[1] < losses[0]


def test_text_tiling_cuts_at_the_deepest_valleys() -> None:
    likeness = np.array([1.0, 0.5, 0.5, 0.1, 0.5, 0.45, 0.5])
    model = TextTiling().fit([likeness[:, None]], [np.array([0, 0, 0, 1, 1, 1, 1])])
    assert model.predict_change_points([likeness[:, None]])[0].tolist() == [3, 7]


def test_blocks_keep_boundaries() -> None:
    values = np.repeat([0.0, 5.0], 500)
    X, labels = block_features(values, np.array([500, 1000]), rows=100)
    assert (X.shape, labels.tolist()) == ((100, 5), [0] * 50 + [1] * 50)


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


def test_sets_without_names_have_ranks() -> None:
    table = {"name": "bees", "measure": "partition_loss", "main": True}
    same = {"table": "bees", "measure": "partition_loss", "units": ["a"], "seconds": 1.0}
    rows = [{**same, "method": method, "mean": loss} for method, loss in (("ours", 1), ("x", 2))]
    lines = ranks_table({"tables": [table], "rows": rows})
    assert lines[2].startswith("| ours | – | 1.00 | – |")
    assert lines[3].startswith("| x | – | 2.00 | 1 |")


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


def test_recordings_can_be_cut_to_their_first_rows() -> None:
    entry = {
        "data": {
            "_target_": "metriclearn.datasets.make_change_points",
            "n_samples": 80,
            "random_state": 0,
        },
        "n_test": 2,
    }
    options = {"n_folds": 2, "seed": 0}
    (whole,), (cut,) = (set_cases("made", entry, rows=rows, **options) for rows in (None, 30))
    assert cut.train.names == whole.train.names
    for short, long in ((cut.train, whole.train), (cut.folds[0][1], whole.folds[0][1])):
        for i, X in enumerate(short.sequences):
            np.testing.assert_array_equal(X, long.sequences[i][:30])
            np.testing.assert_array_equal(short.labels[i], long.labels[i][:30])


def test_sets_of_another_folder_and_sets_that_cannot_be_used(tmp_path, monkeypatch) -> None:
    words = [f"{a}{b} goes" for a in "bcdfg" for b in ("ack", "ill", "oom", "est", "and", "ump")]
    for folder, mine in (("here", words[:18]), ("there", words[:11:-1])):  # some words are in both
        (tmp_path / folder / "texts").mkdir(parents=True)
        documents = {f"{folder}{k}": mine[3 * k : 3 * k + 3] for k in range(6)}
        write_texts(tmp_path / folder / "texts", documents)
    monkeypatch.setenv("METRICLEARN_DATA", str(tmp_path / "here"))
    others = ["hapt", "hapt_dropped", "gestures", "routines", "songs", "meetings", "billboard"]
    others += ["gazecom", "birdsong", "piano_keys", "tcpd", "tssb", "utsa", "chest", "pumps"]
    config = configuration("experiment=league", *(f"sets.{name}=null" for name in others))
    config.sets.texts = {
        "data": {
            "_target_": "metriclearn.datasets.load_dataset",
            "_args_": ["texts"],
            "n_components": 5,
        },
        "unit": "document",
        "fits_features": True,
        "n_test": 2,
        "rotate": False,
    }
    config.test_root = str(tmp_path / "there")
    league = League(config)
    (case,) = league.cases()
    assert set(league.unusable) == {"bees", "shows"}
    assert "beedance" in league.unusable["bees"]
    assert (len(case.train), case.test.names) == (6, [f"there{k}" for k in range(6)])
    fitted = {"fitted": case.train.names, "fitted_root": tmp_path / "here" / "texts"}
    there = load_dataset("texts", tmp_path / "there" / "texts", n_components=5, **fitted)
    np.testing.assert_array_equal(case.test.sequences[3], there.sequences[3])
    plain = OmegaConf.to_container(config.sets.texts)
    for options, count in (({"halves": [0]}, 6), ({"n_train": 4}, 4), ({"groups": 3}, 3)):
        config.sets.texts = {**plain, **options}
        (case,) = league.cases()
        assert (len(case.train), len(case.test)) == (count, 6)
    config.test_root = None
    config.outputs = str(tmp_path)  # where shows would be assembled
    for options, counts in (({}, [4, 4, 4]), ({"n_train": 3}, [3, 3])):  # a third for test
        config.sets.texts = {**plain, "rotate": True, "n_test": None, **options}
        assert [len(case.train) for case in league.cases()] == counts
    assert "jamendo_singing" in league.unusable["shows"]
    for options, words in (
        ({"groups": 1, "halves": [0]}, "texts has one group, which has no halves; add"),
        ({"n_test": 6}, "6 cannot be held out for test; set sets.texts.n_test to"),
    ):
        config.sets.texts = {**plain, **options}
        with pytest.raises(ValueError, match="No set of the league can be used"):
            league.cases()
        assert words in league.unusable["texts"]
    config.sets.texts = None
    with pytest.raises(ValueError, match="No set of the league can be used; of bees: "):
        league.cases()


@pytest.mark.skipif(not data_folder("penalties").is_dir(), reason="METRICLEARN_DATA has none")
def test_sets_of_penalties_are_those_of_the_folder(tmp_path, monkeypatch) -> None:
    source, name = data_folder("penalties"), "H3K4me3_TDH_ENCODE"
    folder = tmp_path / "data" / "penalties"
    folder.mkdir(parents=True)
    for kind in ("inputs", "outputs", "evaluation"):
        file = f"{name}_{kind}.csv.xz"
        (folder / file.replace(name, "detailed")).write_bytes((source / file).read_bytes())
    folds = pd.read_csv(source / "folds.csv.xz")
    mine = folds[folds["set"] == name].assign(set="detailed", cv="sequenceID")
    both = pd.concat([folds, mine])  # the other sets have no files here
    both.to_csv(folder / "folds.csv.xz", index=False)
    published = pd.read_csv(source / "published.csv")
    published[published["set"] == name].assign(set="detailed", cv="sequenceID").to_csv(
        folder / "published.csv", index=False
    )
    monkeypatch.setenv("METRICLEARN_DATA", str(tmp_path / "data"))
    options = ("experiment=penalties", "tiny=true", "pictures=false")
    found = results_of(tmp_path / "out", *options)["rows"]
    assert {unit for row in found for unit in row["units"]} == {"detailed"}
    assert {"ours", "constant", "published: L1reg_linear_all"} <= {row["method"] for row in found}


HALF = """
import numpy as np

class Half:
    def fit(self, X, y):
        self.names = np.unique(np.concatenate(y))[:2]

    def predict(self, X):
        return [self.names[np.arange(len(x)) * 2 // len(x)] for x in X]
"""


def write_others(folder: Path) -> Path:
    """The exercises with the same names, but other segments."""
    source, target = data_folder("mocap6"), folder / "mocap6"
    target.mkdir(parents=True)
    (target / "sequences.npz").write_bytes((source / "sequences.npz").read_bytes())
    table = pd.read_csv(source / "segments.csv")
    table[table.groupby("sequence").cumcount() > 0].assign(
        start=lambda rows: rows["start"].where(rows.duplicated("sequence"), 0)
    ).to_csv(target / "segments.csv", index=False)
    return folder


def test_a_contestant_is_a_file_and_is_compared_with_committed_rows(
    tmp_path, capsys, caplog, monkeypatch
) -> None:
    (tmp_path / "half.py").write_text(HALF)
    model = Contestant(f"{tmp_path}/half.py").fit(noisy(1.0), [TRUTH] * 4)
    assert model.predict_change_points(noisy(1.0))[0].tolist() == [45, 90]
    (tmp_path / "two.py").write_text(HALF + HALF.replace("Half", "Other"))
    assert Contestant(f"{tmp_path}/two.py:Other").kind.__name__ == "Other"
    for file, words in (("two.py", "got \\['Half', 'Other'\\]"), ("none.py", "no such file")):
        with pytest.raises(ValueError, match=words):
            Contestant(f"{tmp_path}/{file}").fit(noisy(1.0), [TRUTH] * 4)
    for wrong in ("self.names[[0]] for x in X", "self.names[:0] for x in X[1:]"):
        text = HALF.replace("self.names[np.arange(len(x)) * 2 // len(x)] for x in X", wrong)
        (tmp_path / f"half{len(wrong)}.py").write_text(text)
        model = Contestant(f"{tmp_path}/half{len(wrong)}.py").fit(noisy(1.0), [TRUTH] * 4)
        with pytest.raises(ValueError, match=r"Half.predict needs to return a label for each row"):
            model.predict_change_points(noisy(1.0))
    (tmp_path / "zero.py").write_text(
        HALF.replace("        self.names", "        X[0][:] = y[0][:] = 0\n        self.names")
    )
    rows, labels = noisy(1.0), TRUTH.copy()
    Contestant(f"{tmp_path}/zero.py").fit(rows, [labels] * 4)
    assert np.all(rows[0].std(axis=0) > 0.5)  # other fits and the score see what was given
    np.testing.assert_array_equal(labels, TRUTH)
    if data_folder("mocap6").is_dir():
        options = ("only=routines", f"contestant={tmp_path}/half.py", "pictures=false")
        results = results_of(tmp_path / "out", "experiment=league", *options)
        assert {(row["method"], row["table"]) for row in results["rows"]} == {("Half", "routines")}
        lines = [line.split(" | ") for line in capsys.readouterr().out.splitlines()]
        ranks = {line[0]: line[2] for line in lines if len(line) > 3}
        assert float(ranks["| Half"]) > float(ranks["| ours"]) >= 1.0
        folder = write_others(tmp_path / "data")
        monkeypatch.setenv("METRICLEARN_DATA", str(folder))
        results_of(tmp_path / "out", "experiment=league", *options)
        told = capsys.readouterr().out
        assert told.startswith("The committed results are of other test data; run the same")
        results = results_of(
            tmp_path / "out", *options[::2], "experiment=league", "refit=euclidean"
        )
        assert {r["method"] for r in results["rows"] if r["table"] == "routines"} == {"euclidean"}
        assert "Committed rows of routines are not kept, as they are of other" in caplog.text


@pytest.mark.skipif(not data_folder("mocap6").is_dir(), reason="METRICLEARN_DATA has none")
def test_methods_that_are_not_fitted_again_keep_their_committed_rows(tmp_path: Path) -> None:
    options = ("only=routines", "refit=[one_segment,euclidean]", "pictures=false")
    results = results_of(tmp_path, "experiment=league", *options)
    committed = read_results(Path(CONFIGS).parent / "docs/results/league.json")
    rows, before = (
        {(row["table"], row["method"], row["measure"]): row for row in one["rows"]}
        for one in (results, committed)
    )
    mine, theirs = ({k: r for k, r in one.items() if k[0] != "routines"} for one in (rows, before))
    assert mine == theirs  # sets that do not take part
    changed = [key for key, row in rows.items() if row["values"] != before[key]["values"]]
    assert {measure for *_, measure in changed} <= {"predict_seconds"}
    told = {(method, measure) for table, method, measure in rows if table == "routines"}
    assert {("one segment", "partition_loss"), ("euclidean", "partition_loss")} <= told
    assert {("ours", "names_right"), ("MS-TCN", "names_right")} <= told
    assert results.get(KEY) == committed.get(KEY)  # "ours" was not fitted
    assert "Of an earlier run with the same data" in results["protocol"]
    assert [t["name"] for t in results["tables"]] == [t["name"] for t in committed["tables"]]
    assert results["sequences"] == committed["sequences"]
    with pytest.raises(ValueError, match="refit=\\['cats'\\] needs names of methods: one_segment"):
        League(configuration("experiment=league", "refit=[cats]")).methods()


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
    left_out = ("methods.asformer=null", "methods.convolutions=null")
    options = (f"+methods.ours.estimator.members={member}", *left_out)
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
        method for method in named if method.endswith(("Viterbi", "MS-TCN"))
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


@pytest.mark.parametrize("name", ["hapt", "piano_keys"])
def test_measured_rows_are_those_of_the_files(name: str) -> None:
    if not data_folder(name).is_dir():
        pytest.skip("METRICLEARN_DATA has none")
    data = load_measured(name, 2)
    file = next(data_folder(name).glob("*.npz"))
    with np.load(file) as stored:
        X = stored[data.names[0]].astype(float)
    n = len(data.labels[0])
    scale = data.sequences[0].std(axis=0) / X.std(axis=0)
    pairs = (X[: 2 * n : 2] + X[1 : 2 * n : 2]) / 2
    np.testing.assert_allclose(
        np.corrcoef(pairs[:, 0], data.sequences[0][:, 0])[0, 1], 1.0, atol=1e-9
    )
    assert np.all(scale <= 1.0 + 1e-9)


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


@pytest.mark.parametrize(("row", "new"), [("ours", {"another kind": 1.0}), ("euclidean", {})])
def test_some_tables_tell_the_default_for_new_kinds_of_data(row: str, new: dict) -> None:
    """Those of the committed results are as old as their other tables."""
    before = read_results(Path(CONFIGS).parent / "docs/results/raw_tables.json")
    bees = [one for one in before["rows"] if one["table"] == "bees"]
    tables = [one for one in before["tables"] if one["name"] == "bees"]
    results = {**before, "rows": bees, "tables": tables, KEY: {"names": 99.0, "another kind": 1.0}}
    config = configuration("experiment=raw_tables", "only=bees", f"refit={row}")
    assert with_kept(config, "methods", results)[KEY] == {**before[KEY], **new}


@pytest.mark.skipif(not data_folder("mocap6").is_dir(), reason="METRICLEARN_DATA has none")
def test_rows_of_other_folds_are_not_kept(tmp_path: Path) -> None:
    options = ("only=routines", "refit=one_segment", "n_folds=2", "pictures=false")
    with pytest.raises(ValueError, match=r"needs the settings of the committed .* of n_folds; "):
        results_of(tmp_path, "experiment=league", *options)
