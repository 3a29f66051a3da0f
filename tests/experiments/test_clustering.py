"""The clustering experiment: what its cases hold, how choices are made, a tiny run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from experiments.clustering import Case, ClusteringMethod, cases_of, evaluate, read_methods
from experiments.clustering_tables import as_rows, markdown_tables, summary_rows
from experiments.command_line import CONFIGS
from experiments.report import read_results
from metriclearn.baselines import Euclidean, PrincipalComponents, RelevantComponents
from metriclearn.datasets import LabeledTable, load_digits, load_iris
from tests.experiments.command import call, failure


def configuration(*overrides: str) -> DictConfig:
    with initialize_config_dir(CONFIGS, version_base="1.3"):
        return compose("config", ["experiment=clustering", *overrides])


def rows_of(table: LabeledTable) -> set[bytes]:
    return {row.tobytes() for row in table.X}


def test_halves_are_stratified_and_choices_stay_in_the_training_half() -> None:
    table = load_iris()
    numbered = LabeledTable("iris", np.c_[table.X, np.arange(150.0)], table.y, ["x"] * 5)
    cases = cases_of("B", numbered, 3, configuration())
    assert len(cases) == 3
    for case in cases:
        assert np.unique(case.test.y, return_counts=True)[1].tolist() == [25, 25, 25]
        train = rows_of(case.train[0])
        assert len(train) == 75
        assert not train & rows_of(case.test)
        assert len(case.inner) == 6
        for (own,), (held_out,) in case.inner:
            assert rows_of(own) | rows_of(held_out) <= train
            assert not rows_of(own) & rows_of(held_out)
    assert rows_of(cases[0].test) != rows_of(cases[1].test)


def test_classes_of_training_sets_and_of_the_test_are_disjoint() -> None:
    for case in cases_of("C", load_digits(), 2, configuration()):
        first, second = (set(part.classes) for part in case.train)
        third = set(case.test.classes)
        assert (len(first), len(second), len(third)) == (3, 2, 5)
        assert len(first | second | third) == 10
        for (own,), (held_out,) in case.inner:
            assert {*own.classes, *held_out.classes} == first | second
            assert not set(own.classes) & set(held_out.classes)


def test_same_table_for_training_and_test_has_other_seeds_to_choose() -> None:
    (case,) = cases_of("A", load_iris(), 10, configuration())
    assert list(case.seeds) == list(range(10))
    assert case.train[0] is case.test


def tiny_case(table: LabeledTable) -> Case:
    return Case("B", table.name, 0, [table], table, [([table], [table])], [0, 1])


def test_the_candidate_of_least_inner_loss_is_fitted_and_the_first_among_equals() -> None:
    case = tiny_case(load_iris())
    both = ClusteringMethod("both", Euclidean(), [{"standardize": True}, {"standardize": False}])
    result = evaluate(both, case, 3, 1)
    raw = evaluate(ClusteringMethod("raw", Euclidean(False), [{}]), case, 3, 1)
    assert result.losses == raw.losses  # 1.02 against 1.51
    assert result.choice.startswith("standardize = False (loss 1.0")
    assert len(result.losses) == len(result.rand) == 2
    rescaled = ClusteringMethod("rca", RelevantComponents(), [{"shrinkage": s} for s in (0.5, 0.5)])
    assert evaluate(rescaled, case, 3, 1).choice.startswith("shrinkage = 0.5")


def test_another_candidate_must_be_clearly_better_than_the_first() -> None:
    table = load_iris()
    rows = np.arange(150)
    thirds = [(table.select(rows % 3 != k), table.select(rows % 3 == k)) for k in range(3)]
    inner = [([train], [test]) for train, test in thirds]
    case = Case("B", "iris", 0, [table], table, inner, [0])

    def chosen(*shrinkages: float) -> str:
        candidates = [{"shrinkage": s} for s in shrinkages]
        rca = ClusteringMethod("rca", RelevantComponents(contiguous=False), candidates)
        return evaluate(rca, case, 3, 3).choice.split(" (")[0]

    assert chosen(0.1, 0.11) == "shrinkage = 0.1"  # as good as each other
    assert chosen(1.0, 0.1) == "shrinkage = 0.1"  # without correlations: far worse


def test_features_that_never_vary_in_training_get_no_weight() -> None:
    table = load_iris()
    padded = LabeledTable("iris", np.c_[table.X, np.zeros(150)], table.y, ["x"] * 5)
    method = ClusteringMethod("rca", RelevantComponents(contiguous=False), [{}])
    result, plain = (evaluate(method, tiny_case(t), 3, 1) for t in (padded, table))
    assert result.model.components_.shape == (4, 5)
    np.testing.assert_array_equal(result.model.components_[:, 4], 0.0)
    assert result.losses == plain.losses


def test_a_metric_of_rank_0_gets_random_clusters_and_not_a_single_one() -> None:
    class Nothing(Euclidean):
        def fit(self, X: Any, y: Any = None) -> Nothing:
            self.components_ = np.zeros((0, 4))
            return self

    result = evaluate(ClusteringMethod("nothing", Nothing(), [{}]), tiny_case(load_iris()), 3, 1)
    assert min(result.losses) > 3.5  # at random nearly 2(K − 1) = 4, one cluster 2
    assert max(result.rand) < 0.1


def test_rows_and_tables_hold_means_deviations_and_who_is_best() -> None:
    methods = [
        ClusteringMethod("euclidean", Euclidean(), [{}]),
        ClusteringMethod("pca", PrincipalComponents(2, whiten=True), [{}]),
        ClusteringMethod("rca", RelevantComponents(contiguous=False), [{}]),
    ]
    results = [evaluate(method, tiny_case(load_iris()), 3, 1) for method in methods]
    rows = as_rows(results)
    losses = {row["method"]: row for row in rows if row["measure"] == "partition_loss/B/iris"}
    assert losses["rca"]["mean"] == pytest.approx(np.mean(results[2].losses))
    deviation = np.std(results[0].losses, ddof=1)
    assert losses["euclidean"]["standard_deviation"] == pytest.approx(deviation)
    summary: dict[str, Any] = {row["method"]: row for row in summary_rows(results)}
    assert summary["pca"]["values"] == [pytest.approx(np.mean(results[1].losses))]
    text = markdown_tables(results)
    assert f"| rca | **{np.mean(results[2].losses):.3f}" in text
    assert text.count("**") == 2


def test_every_method_of_the_experiment_has_components() -> None:
    names = [method.name for method in read_methods(configuration())]
    assert names[:3] == ["ours/full", "ours/trace", "ours/diagonal"]
    assert {"RCA", "MMC, full", "MMC, diagonal", "closed form", "NCA", "PCA"} < set(names)
    with pytest.raises(ValueError, match="protocols A, B or C, got 'D'"):
        cases_of("D", load_iris(), 1, configuration())


def test_tiny_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = "protocols={A:{wine:null},B:{wine:null},C:null}"
    few = (short, "drawn=[B,iris]", "n_jobs=1", "tiny=true")
    call("run", "experiment=clustering", *few, f"hydra.run.dir={tmp_path}")
    rows = read_results(tmp_path / "results.json")["rows"]
    losses = {(r["method"], r["measure"]): r["mean"] for r in rows}
    ours = losses["ours/full", "partition_loss/A/iris"]
    assert ours < 0.35 < 1.0 < losses["Euclidean, raw", "partition_loss/A/iris"]
    assert (tmp_path / "clustering.png").stat().st_size > 10_000
    assert "could not be drawn" not in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Adjusted Rand index" in (tmp_path / "clustering.md").read_text(encoding="utf-8")
    few = ("+protocols.A.nothing=2", "n_jobs=1", "tiny=true")
    out = f"hydra.run.dir={tmp_path}/none"
    message = failure(capsys, "run", "experiment=clustering", *few, out)
    assert "among iris, wine, breast_cancer, digits, libras, letters, got nothing" in message
