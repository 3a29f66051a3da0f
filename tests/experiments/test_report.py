"""Tests of experiments/report.py: schema, table, and the page as a browser shows it."""

import copy
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.report import (
    Artifacts,
    Strip,
    headline,
    read_results,
    results_markdown,
    results_table,
    write_report,
)

METHODS = {
    "ours/diagonal-l1": (0.42, 0.05, 0.31),
    "ours/full": (0.46, 0.06, 0.35),
    "rca": (1.31, 0.12, 0.98),
    "euclidean": (4.62, 0.33, 2.87),
}
COMMAND = "python -m experiments.run experiment=synthetic solver.tolerance=1e-3"


def _row(method: str, n_clusters: str, mean: float, error: float, **more: Any) -> dict[str, Any]:
    row = {
        "method": method,
        "split": "test",
        "n_clusters": n_clusters,
        "measure": "partition_loss",
        "mean": mean,
        "standard_error": error,
        "values": [mean - error, mean, mean + error],
    }
    return row | more


def make_results() -> dict[str, Any]:
    rows = []
    for method, (estimated, error, given) in METHODS.items():
        rows.append(_row(method, "estimated", estimated, error, seconds=3.2))
        rows.append(_row(method, "given", given, error))
        rows.append(_row(method, "given", 1 - given / 10, 0.01, measure="rand_index"))
        rows.append(_row(method, "estimated", estimated / 2, error, split="train"))
    config = {"dataset": {"name": "synthetic", "n_noise_features": 276}, "solver": {"passes": 57}}
    return {"experiment": "synthetic", "rows": rows, "seconds": 83.4, "config": config}


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
    rounds = np.arange(57)
    trace = {
        "objective": 2 + 5 * np.exp(-rounds / 6),
        "lower_bound": np.where(rounds < 3, -np.inf, 2 - 30 * np.exp(-rounds / 5)),
        "seconds": 0.1 * rounds,
    }
    chosen = "strength by 5-fold cross-validation on training sequences"
    return Artifacts(
        strips=_strips(generator),
        weights={"ours/diagonal-l1": weights, "ours/full": factor @ factor.T},
        feature_names=[f"mfcc_{p % 25}_order_{p // 25}" for p in range(300)],
        traces={"ours/diagonal-l1": trace},
        choices={"ours/diagonal-l1": chosen, "rca": "shrinkage by the same folds"},
        model_file="model.npz",
        notes=["Sequences are split by recording."],
    )


def test_table_leaves_out_a_column_without_result_and_takes_the_split_there_is() -> None:
    results = make_results()
    results["rows"] = [
        _row("ours/full", "given", 2.0, 0.1, split="validation"),
        _row("pca", "estimated", 3.0, 0.2, split="validation"),
    ]
    assert [list(cells) for cells in results_table(results).values()] == [["estimated"], ["given"]]
    assert "on validation data" in headline(results)
    assert "| ours/full | – | **2.00 ± 0.10** |" in results_markdown(results)


def test_headline_names_best_method_and_best_baseline() -> None:
    assert headline(make_results()) == (
        "ours/diagonal-l1 has the smallest loss, 0.420 ± 0.050, on test data with the number of "
        "segments estimated; the best baseline, rca, has 1.31 ± 0.12 (3.12 times as much)."
    )


@pytest.mark.parametrize(
    ("rows", "sentences"),
    [
        (
            [_row("ours/full", "estimated", 1.04, 0.1), _row("rca", "estimated", 1.0, 0.05)],
            [
                "rca has the smallest loss, 1.000 ± 0.050",
                "best learned metric, ours/full, has 1.04 ± 0.10, which is within one",
            ],
        ),
        (
            [_row("ours/full", "given", 0.0, 0.0)],
            ["0 ± 0, on test data with the number of segments given."],
        ),
        (
            [_row("ours/full", "given", 0.0, 0.0), _row("pca", "given", 0.5, 0.1)],
            ["the best baseline, pca, has 0.50 ± 0.10."],
        ),
    ],
    ids=["a baseline wins", "no baseline", "perfect"],
)
def test_headline_is_honest(rows: list[dict[str, Any]], sentences: list[str]) -> None:
    text = headline(make_results() | {"rows": rows})
    assert all(sentence in text for sentence in sentences)


def test_markdown_holds_table_command_and_choices() -> None:
    text = results_markdown(make_results(), make_artifacts(), COMMAND)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert rows[1:] == [
        "| ours/diagonal-l1 | **0.420 ± 0.050** | **0.310 ± 0.050** |",
        "| ours/full | 0.460 ± 0.060 † | 0.350 ± 0.060 † |",
        "| rca | 1.31 ± 0.12 | 0.98 ± 0.12 |",
        "| euclidean | 4.62 ± 0.33 | 2.87 ± 0.33 |",
    ]
    assert f"```sh\n{COMMAND}\n```" in text
    assert "* ours/diagonal-l1: strength by 5-fold cross-validation on training sequences" in text
    assert "Run time: 1 min 23 s." in text


def test_results_survive_the_round_trip(tmp_path: Path) -> None:
    results = make_results()
    sent = copy.deepcopy(results)
    sent["rows"][0]["values"] = np.array(results["rows"][0]["values"])
    sent["config"]["solver"]["passes"] = np.int64(57)
    write_report(tmp_path, sent)
    assert read_results(tmp_path / "results.json") == results


def damaged(**fields: Any) -> str:
    """A file with other fields in its first row."""
    results = make_results()
    results["rows"][0] |= fields
    return json.dumps(results)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (damaged(split="dev"), r"rows\[0\], needs 'split' among"),
        (damaged(n_clusters="7"), r"needs 'n_clusters' among"),
        (damaged(mean="low"), r"needs 'mean' as a number, got 'low'"),
        (damaged(mean=99.0), r"needs a mean within its values"),
        (damaged(mean=float("nan")), r"needs finite numbers"),
        (damaged(standard_error=-1.0), r"standard error of zero or more"),
        (damaged(values=[]), r"one or more values"),
        (damaged(values=["a"]), r"needs finite numbers"),
        (damaged(seconds=float("inf")), r"needs finite numbers"),
        (damaged(method=None), r"needs 'method' as a text, got None"),
        ("{", "needs JSON text"),
        ("[]", "needs an object with experiment"),
        ('{"experiment": "x"}', "needs 'rows' as a list, got nothing"),
        ('{"experiment": "x", "rows": [], "seconds": 1, "config": {}}', "at least one row"),
        ('{"experiment": "x", "rows": [3], "seconds": 1, "config": {}}', r"rows\[0\], needs an"),
        (json.dumps(make_results() | {"rows": 2 * make_results()["rows"]}), "got .* twice"),
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
    artifacts = Artifacts([strip], choices={evil: evil}, notes=[evil], model_file=evil)
    page = write_report(tmp_path, results, artifacts, evil)
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    assert text.count("&lt;script&gt;") >= 6
    assert not re.search(r"""(?:src|srcset|href)=["'](?!data:)""", text)
    assert "http" not in text.replace("http-equiv", "")
    assert [path.parent for path in tmp_path.rglob("*.png")] == [tmp_path]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("needs chromium and chromedriver on the PATH")
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    quiet = ("gpu", "quic", "background-networking", "component-update", "sync")
    profile = f"user-data-dir={tmp_path_factory.mktemp('profile')}"
    for flag in (
        "headless",
        "no-sandbox",
        "no-first-run",
        profile,
        *map("disable-{}".format, quiet),
    ):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=driver)
    chrome = webdriver.Chrome(options=options, service=service)
    yield chrome
    chrome.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    return write_report(folder, make_results(), make_artifacts(), COMMAND)


@pytest.mark.parametrize(("width", "height"), [(360, 800), (1280, 900)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_in_a_browser(browser: Any, page: Path, width: int, height: int, scheme: str) -> None:
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(page.as_uri())
    assert browser.execute_script("return window.innerWidth") == width
    images = browser.execute_script(
        "return [...document.images].map(i => [i.complete, i.naturalWidth, i.alt, i.currentSrc])"
    )
    assert len(images) == 5
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
