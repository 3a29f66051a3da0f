"""Tests of experiments/harness/report.py: schema, table, and a page without foreign parts."""

import copy
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import wilcoxon

from experiments.harness.report import (
    Artifacts,
    Strip,
    results_markdown,
    write_report,
)
from experiments.harness.results import read_results
from experiments.harness.wording import choices, headline, paired_tests

METHODS = {
    "ours": (0.44, 0.05, 0.33),
    "ours/diagonal-l1": (0.42, 0.05, 0.31),
    "ours/full": (0.46, 0.06, 0.35),
    "rca": (1.31, 0.12, 0.98),
    "euclidean": (4.62, 0.33, 2.87),
    "one segment": (6.2, 0.2, 6.2),
}
CHOICES = {
    "ours/diagonal-l1": "strength by 5-fold cross-validation on training sequences",
    "rca": "shrinkage by the same folds",
}
COMMAND = "python -m experiments.run experiment=synthetic solver.tolerance=1e-3"


def _row(method: str, column: str, mean: float, error: float | None, **more: Any) -> dict[str, Any]:
    row = {
        "table": "test",
        "measure": "partition_loss",
        "method": method,
        "column": column,
        "mean": mean,
        "standard_error": error,
        "units": ["a", "b", "c"],
        "values": [mean - (error or 0), mean, mean + (error or 0)],
        "choice": "",
        "held_out": None,
        "gap": None,
        "stopped": "",
        "seconds": 3.2,
    }
    return row | more


def _table(**fields: Any) -> dict[str, Any]:
    table = {
        "name": "test",
        "measure": "partition_loss",
        "title": "synthetic",
        "words": "‖M − N‖²",
        "better": "less",
        "columns": {
            "estimated": "number of segments estimated",
            "given": "number of segments given",
        },
        "unit": "test user",
        "main": True,
        "note": "",
    }
    return table | fields


def make_results() -> dict[str, Any]:
    rows = []
    for method, (estimated, error, given) in METHODS.items():
        choice = CHOICES.get(method, "")
        rows.append(_row(method, "estimated", estimated, error, choice=choice))
        rows.append(_row(method, "given", given, error))
        rows.append(_row(method, "given", 1 - given / 10, 0.01, measure="rand_index"))
    rand = {"measure": "rand_index", "words": "Rand index", "better": "more", "main": False}
    tables = [_table(), _table(columns={"given": "K given"}, **rand)]
    config = {"dataset": {"name": "synthetic", "n_noise_features": 276}, "solver": {"passes": 57}}
    return {
        "name": "synthetic",
        "protocol": "Sequences are split by recording.",
        "command": COMMAND,
        "tables": tables,
        "rows": rows,
        "seconds": 83.4,
        "config": config,
    }


def written(results: dict[str, Any]) -> dict[str, Any]:
    return results | {"headline": "x", "versions": {}}


def one_column(*pairs: tuple[str, float, float | None], name: str = "test") -> dict[str, Any]:
    """A table with the mean and standard error of methods, if the number of segments is given."""
    table = _table(name=name, columns={"given": "K given"})
    rows = [_row(method, "given", mean, error, table=name) for method, mean, error in pairs]
    return {"tables": [table], "rows": rows}


AGAINST = "1.000 ± 0.050 for the best baseline, rca"


# Those with several tables, and all tables in Markdown, are compared with docs/ by test_figures.py.
@pytest.mark.parametrize(
    ("pairs", "text"),
    [
        ([("ours", 1.04, 0.1), ("rca", 1.0, 0.05)],
         f"1.04 ± 0.10 (3 test users), against {AGAINST}; the difference is within one standard "
         "error."),
        ([("ours", 2.0, 0.1), ("rca", 1.0, 0.05)],
         f"2.00 ± 0.10 (3 test users), against {AGAINST}, which is better."),
        ([("ours", 1.0, 0.1), ("rca", 1.0, 0.1)],
         "1.00 ± 0.10 (3 test users), the same as the best baseline, rca."),
    ],
    ids=lambda value: value[-30:] if isinstance(value, str) else "",
)  # fmt: skip
def test_headline_is_true_and_grammatical(pairs: Any, text: str) -> None:
    assert headline(make_results() | one_column(*pairs)) == f"ours: ‖M − N‖² = {text}"


def test_equal_choices_of_several_cases_are_counted() -> None:
    several = "[a: u; v] k = 2 (loss held out 1); [b] k = 3 (loss held out 2); [c] k = 2"
    rows = [_row("pca", "estimated", 1.0, 0.1, choice=text) for text in (several, "k = 5")]
    found = choices({"tables": [_table(columns={"estimated": "K"})], "rows": rows})
    assert found == {"pca": ["k = 2 (2 of 3 cases); k = 3 (1)", "k = 5"]}


def test_paired_tests_by_hand() -> None:
    """Eight of eight, two of each size: 2/2⁸, times the two other methods; six of eight."""
    units = {"units": list("abcdefghij"), "weights": [1.0] * 10, "standard_error": 0.1}
    gains = {"ours": [0] * 10, "rca": [1, 1, 2, 2, 3, 3, 4, 4, 0, 0],
             "pca": [2, 2, 3, -3, 5, 6, -7, 8, 0, 0], "ours/full": [9] * 10}  # fmt: skip
    rows = [
        _row(name, "estimated", 9.0, 0.1) | units | {"values": [9.0 + gain for gain in some]}
        for name, some in gains.items()
    ]
    results = written(make_results() | {"rows": rows, "tables": [_table()]})
    tests = paired_tests(results, _table(), "estimated")
    assert list(tests) == ["rca", "pca"] or list(tests) == ["pca", "rca"]
    assert tests["rca"] == {
        "better": 8,
        "worse": 0,
        "mcnemar": pytest.approx(2 * 2 / 256),
        "wilcoxon": pytest.approx(2 * 2 / 256),
    }
    assert (tests["pca"]["better"], tests["pca"]["worse"]) == (6, 2)
    assert tests["pca"]["mcnemar"] == pytest.approx(2 * (1 + 8 + 28) / 256)
    assert tests["pca"]["wilcoxon"] == pytest.approx(wilcoxon(gains["pca"][:8]).pvalue)
    assert paired_tests(results, _table(better="more"), "estimated")["rca"]["worse"] == 8
    assert paired_tests(results, _table(main=False), "estimated") == {}
    assert paired_tests(results, _table(independent=False), "estimated") == {}
    assert "| rca | 8 | 0 | 0.016 | 0.016 |" in results_markdown(results)
    few = results_markdown(written(make_results()))
    assert "p (McNemar)" not in few
    assert "No paired test over 3 test users: even were ours better in all, p would be 0.25." in few
    shared = written(results | {"tables": [_table(independent=False)]})
    assert "No paired test: test users are not independent." in results_markdown(shared)


def test_results_survive_the_round_trip(tmp_path: Path) -> None:
    results = make_results()
    sent = copy.deepcopy(results)
    sent["rows"][0]["values"] = np.array(results["rows"][0]["values"])
    sent["config"]["solver"]["passes"] = np.int64(57)
    write_report(tmp_path, sent)
    read = read_results(tmp_path / "results.json")
    assert {key: read[key] for key in results} == results
    assert read["headline"] == headline(results)
    assert {"metriclearn", "Python", "numpy"} <= set(read["versions"])


def test_page_is_self_contained_and_escaped(tmp_path: Path) -> None:
    results = make_results()
    evil = "<script>alert('x')</script>"
    results["config"]["dataset"]["name"] = evil
    strip = Strip(evil, {"truth": [3, 9], evil: [4, 9]})
    artifacts = Artifacts([strip], notes=[evil], model_file=evil)
    results["rows"][0]["choice"] = results["command"] = results["protocol"] = evil
    page = write_report(tmp_path, results, artifacts)
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    assert text.count("&lt;script&gt;") >= 6
    assert not re.search(r"""(?:src|srcset|href)=["'](?!data:)""", text)
    assert "http" not in text.replace("http-equiv", "")
    assert [path.parent for path in tmp_path.rglob("*.png")] == [tmp_path]
