"""Tests of experiments/harness/report.py: schema, table, and the page as a browser shows it."""

import copy
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import wilcoxon

from experiments.harness.report import (
    Artifacts,
    Strip,
    learned_metrics,
    results_markdown,
    write_report,
)
from experiments.harness.results import headline, paired_tests, read_results
from metriclearn import ChangePointMetricLearner
from metriclearn.plots import plot_embeddings
from tests.apps.label_page.browsing import emulate

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


def _strips(generator: np.random.Generator) -> list[Strip]:
    truth = np.array([60, 170, 210, 330, 400, 520, 600])
    signal = generator.normal(size=(600, 3)) * 0.4
    signal += np.repeat(2 * generator.normal(size=(7, 3)), np.diff(truth, prepend=0), axis=0)
    segmentations = {
        "truth": truth,
        "ours/diagonal-l1": [60, 172, 210, 331, 400, 600],
        "euclidean": [20, 60, 110, 170, 260, 330, 450, 455, 520, 560, 600],
    }
    losses = {"ours/diagonal-l1": 1.04, "euclidean": 4.6}
    return [
        Strip("sequence 3", segmentations, losses, signal),
        Strip("sequence 4", segmentations, losses),
    ]


def make_artifacts() -> Artifacts:
    generator = np.random.default_rng(0)
    weights = np.zeros(300)
    weights[generator.choice(300, 30, replace=False)] = generator.exponential(size=30)
    factor = generator.normal(size=(300, 4))
    rounds, plane = np.arange(57), generator.normal(size=(9, 2))
    trace = {
        "objective": 2 + 5 * np.exp(-rounds / 6),
        "lower_bound": np.where(rounds < 3, -np.inf, 2 - 30 * np.exp(-rounds / 5)),
        "seconds": 0.1 * rounds,
    }
    draw = partial(plot_embeddings, {"before": plane}, np.arange(9) % 2, "They overlap")
    return Artifacts(
        strips=_strips(generator),
        weights={"ours/diagonal-l1": weights, "ours/full": factor @ factor.T},
        feature_names={name: [f"mfcc_{p % 25}_{p // 25}" for p in range(300)] for name in METHODS},
        traces={"ours/diagonal-l1": trace},
        model_file="model.npz",
        notes=["Sequences are split by recording."],
        figures={"Two classes, before learning": (draw, 1.5)},
    )


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
        ([("ours", 0.0, 0.0)], "0 ± 0 (3 test users)."),
        ([("ours", 1.5, None), ("rca", 2.0, None)],
         "1.50 (3 test users), against 2.00 for the best baseline, rca."),
    ],
    ids=lambda value: value[-30:] if isinstance(value, str) else "",
)  # fmt: skip
def test_headline_is_true_and_grammatical(pairs: Any, text: str) -> None:
    assert headline(make_results() | one_column(*pairs)) == f"ours: ‖M − N‖² = {text}"


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


def damaged(**fields: Any) -> str:
    """A file with other fields in its first row."""
    results = written(make_results())
    results["rows"][0] |= fields
    return json.dumps(results)


def without(rows: list[Any]) -> str:
    """A file with other rows."""
    return json.dumps(written(make_results()) | {"rows": rows})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (damaged(table="dev"), r"rows\[0\], needs a table with its column"),
        (damaged(column="7"), r"needs a table with its column"),
        (damaged(mean="low"), r"needs 'mean' as a number, got 'low'"),
        (damaged(mean=99.0), r"needs a mean within its values"),
        (damaged(mean=float("nan")), r"needs finite numbers"),
        (damaged(standard_error=-1.0), r"standard error of zero or more"),
        (damaged(standard_error="x"), r"needs 'standard_error' as a number or null"),
        (damaged(values=[]), r"one or more values"),
        (damaged(values=["a"]), r"needs finite numbers"),
        (damaged(units=["a"]), r"one unit for each value, got 1 and 3"),
        (damaged(seconds=float("inf")), r"needs finite numbers"),
        (damaged(method=None), r"needs 'method' as a text, got None"),
        ("{", "needs JSON text"),
        ("[]", "needs an object with name"),
        ('{"name": "x"}', "needs 'protocol' as a text, got nothing"),
        (without([]), "at least one row"),
        (without([3]), r"rows\[0\], needs an"),
        (without(2 * make_results()["rows"]), "got .* twice"),
    ],
    ids=lambda value: value[-30:],
)
def test_read_results_names_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_results(path)


def test_a_figure_that_cannot_be_drawn_becomes_a_sentence(tmp_path: Path) -> None:
    artifacts = Artifacts(weights={"ours/full": np.array([1.0, np.nan])})
    text = write_report(tmp_path, make_results(), artifacts).read_text(encoding="utf-8")
    assert "Metric learned by ours/full could not be drawn: plot_weights needs finite" in text
    assert "<img" not in text
    assert not list(tmp_path.glob("*.png"))


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


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    return write_report(folder, make_results(), make_artifacts())


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light")])
def test_page_in_a_browser(browser: Any, page: Path, width: int, scheme: str) -> None:
    emulate(browser, width, scheme)
    browser.get(page.as_uri())
    assert browser.execute_script("return window.innerWidth") == width
    images = browser.execute_script(
        "return [...document.images].map(i => [i.complete, i.naturalWidth, i.alt, i.currentSrc])"
    )
    assert len(images) == 6
    for complete, natural_width, alt, source in images:
        assert complete
        assert natural_width == (700 if width == 360 else natural_width) > 0
        assert len(alt) > 30
        assert source.startswith("data:image/png;base64,")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    heights = browser.execute_script(
        "return [...document.querySelectorAll('section > .wide tbody th')]"
        ".map(cell => cell.getBoundingClientRect().height)"
    )
    assert 0 < max(heights) < 60  # a name takes two lines at most
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    requests = browser.execute_script(
        "return performance.getEntriesByType('resource').map(entry => entry.name)"
    )
    assert [name for name in requests if name.startswith("http")] == []
    assert browser.get_log("browser") == []
    ground = browser.execute_script("return getComputedStyle(document.images[0]).backgroundColor")
    assert ground == "rgb(255, 255, 255)"  # pictures keep their colors in the dark
    widths = browser.execute_script(
        "return [...document.images].map(i => i.clientWidth / i.closest('section').clientWidth)"
    )
    assert min(widths) > 0.99


def test_weights_of_constant_features_are_zero() -> None:
    X = np.column_stack([np.repeat([0.0, 3.0], 20), np.ones(40)])
    model = ChangePointMetricLearner(verbose=False).fit([X], [X[:, 0]])
    assert not np.isfinite(model.scale_[1])
    weights = learned_metrics({"ours": model})["weights"]["ours"]
    assert weights[0] > 0
    assert weights[1] == 0
