"""The clustering experiment: what its cases hold, how choices are made, a tiny run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.harness.command_line import configuration
from experiments.harness.procedure import Case, Method, Outcome
from experiments.studies.clusterings import Clustering, Repeated, cases_of
from metriclearn.baselines import Euclidean, RelevantComponents
from metriclearn.datasets import LabeledTable, load_dataset
from tests.experiments.command import outcomes_of, results_of


def rows_of(table: LabeledTable) -> set[bytes]:
    return {row.tobytes() for row in table.X}


def test_training_and_test_of_the_protocols() -> None:
    """A has the same table; halves of B are stratified, and classes of C are disjoint. Choices stay
    in the training part."""
    config, iris = configuration("experiment=clustering"), load_dataset("iris")
    (case,) = cases_of("A", iris, 10, config)
    assert list(case.test.seeds) == list(range(10))
    assert case.train[0] is case.test.table
    numbered = LabeledTable("iris", np.c_[iris.X, np.arange(150.0)], iris.y, ["x"] * 5)
    cases = cases_of("B", numbered, 3, config)
    assert len({frozenset(rows_of(case.test.table)) for case in cases}) == 3
    for case in cases:
        assert np.unique(case.test.table.y, return_counts=True)[1].tolist() == [25, 25, 25]
        train = rows_of(case.train[0])
        assert len(train) == 75
        assert not train & rows_of(case.test.table)
        assert len(case.folds) == 6
        for (own,), (held_out,) in case.folds:
            assert rows_of(own) | rows_of(held_out) <= train
            assert not rows_of(own) & rows_of(held_out)
    for case in cases_of("C", load_dataset("digits"), 2, config):
        parts = [set(part.classes) for part in (*case.train, case.test.table)]
        assert list(map(len, parts)) == [3, 2, 5]
        assert len(set.union(*parts)) == 10
        for (own,), (held_out,) in case.folds:
            assert {*own.classes, *held_out.classes} == parts[0] | parts[1]
            assert not set(own.classes) & set(held_out.classes)
    with pytest.raises(ValueError, match=r"8 classes or more, .* got 3 in 'iris'; leave the"):
        cases_of("C", iris, 1, config)
    with pytest.raises(ValueError, match="protocols A, B or C, got 'D'"):
        cases_of("D", iris, 1, config)


def outcomes(methods: list[Method], case: Case, folder: Path) -> list[Outcome]:
    """With 3 K-means runs behind every clustering."""
    return outcomes_of(Clustering, methods, [case], folder, n_init=3, inner_init=3)


def losses(outcome: Outcome) -> list[float]:
    return outcome.losses("given").tolist()


def tiny_case(table: LabeledTable) -> Case:
    test, folds = Repeated(table, [0, 1], ["first", "second"]), [([table], [table])]
    return Case("tiny", [table], test, folds, f"B/{table.name}", overlap=1.0)


def test_the_candidate_of_least_inner_loss_is_fitted_and_the_first_among_equals(tmp_path) -> None:
    methods = [
        Method("both", Euclidean(), [{"standardize": True}, {"standardize": False}]),
        Method("raw", Euclidean(False)),
        Method("rca", RelevantComponents(), [{"shrinkage": s} for s in (0.5, 0.5)]),
    ]
    both, raw, rescaled = outcomes(methods, tiny_case(load_dataset("iris")), tmp_path)
    assert losses(both) == losses(raw)  # 1.02 against 1.51
    assert str(both.choices["given"]) == "standardize = False"
    assert both.held_out("given") == pytest.approx(1.05, abs=0.1)
    assert [len(values) for values in both.scores["given"].values()] == [2, 2]
    assert str(rescaled.choices["given"]) == "shrinkage = 0.5"


class Nothing(Euclidean):
    def fit(self, X: Any, y: Any = None) -> "Nothing":
        self.components_ = np.zeros((0, 4))
        return self


def test_a_metric_of_rank_0_gets_random_clusters_and_not_a_single_one(tmp_path: Path) -> None:
    (result,) = outcomes([Method("nothing", Nothing())], tiny_case(load_dataset("iris")), tmp_path)
    assert min(losses(result)) > 3.5  # at random nearly 2(K − 1) = 4, one cluster 2
    assert result.scores["given"]["adjusted_rand"].max() < 0.1


def test_tiny_run(tmp_path: Path) -> None:
    short = "protocols={A:{wine:null},B:{wine:null},C:null}"
    left_out = ("mmc", "mmc_diagonal", "nca", "pca", "closed_form")
    few = (short, *(f"~clustering_methods.{name}" for name in left_out))
    few = (*few, "drawn=[B,iris]", "n_jobs=1", "tiny=true")
    results = results_of(tmp_path, "experiment=clustering", *few)
    tables = [(table["name"], table["measure"]) for table in results["tables"]]
    places = [f"{protocol}/iris" for protocol in "AB"]
    assert tables == [(p, m) for m in ("partition_loss", "adjusted_rand") for p in places]
    titles = [table["title"] for table in results["tables"]]
    assert "training data" in titles[0]
    assert "test" not in titles[0] + results["tables"][0]["unit"]
    rows = {(r["table"], r["measure"], r["method"]): r for r in results["rows"]}
    iris = {method: row for (_, _, method), row in rows.items() if row["table"] == "A/iris"}
    losses = {m: rows["A/iris", "partition_loss", m]["mean"] for m in iris}
    assert losses["ours/full"] < 0.35 < 1.0 < losses["Euclidean, raw"]
    assert losses["one cluster"] == pytest.approx(2.0)
    assert losses["ours"] in [loss for name, loss in losses.items() if name.startswith("ours/")]
    row = rows["B/iris", "partition_loss", "RCA"]
    deviation = np.std(row["values"], ddof=1)  # halves of 150 samples, drawn twice
    assert row["standard_error"] == pytest.approx(deviation * np.sqrt(1 / 2 + 1))
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "could not be drawn" not in page
    assert page.count("<figure>") == 3  # before and after, the metric, its training
    assert "adjusted Rand index" in page


def test_ours_is_the_one_of_least_loss_held_out(tmp_path: Path) -> None:
    """Whatever the errors, which splits that share samples make large."""
    X = np.random.default_rng(0).normal(size=(60, 3)) * [1, 1, 5]
    table = LabeledTable(
        "made", X + np.outer(np.arange(60) % 2, [4, 0, 0]), np.arange(60) % 2, "abc"
    )
    case = tiny_case(table)
    folds = [([table], [table.select(rows)]) for rows in np.split(np.arange(60), [20, 40])]
    case = replace(case, folds=folds)
    names = {"ours/raw": False, "ours/standardized": True, "ours/standardized too": True}
    methods = [Method(name, Euclidean(flag)) for name, flag in names.items()]
    *_, ours = outcomes(methods, case, tmp_path)
    assert ours.name == "ours"
    assert ours.choices["given"].method == "ours/standardized"  # the first of equals
