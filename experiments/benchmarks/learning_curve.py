"""How many labels are needed: test loss of our method against the number of labeled items.

    python -m experiments.benchmarks.learning_curve [--tiny]

Cases, methods and losses come from the experiments of the same names. Our method is fitted to a few
training items, which are drawn several times. The method keeps the hyper-parameters and the kind of
penalty that were chosen on all training data for its committed results. The last point of every
curve is the committed result, with all training data. Horizontal lines show the best other method
and the best trivial baseline, on the same test data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from hydra.utils import get_class
from matplotlib.figure import Figure
from omegaconf import OmegaConf

from experiments.benchmarks.benchmark import Benchmark, Run
from experiments.benchmarks.machine import Row
from experiments.harness.command_line import CONFIGS, configuration
from experiments.harness.committed import COMMITTED
from experiments.harness.procedure import Case, Choice, Method, Outcome, Procedure
from experiments.harness.results import is_ours, read_results, rows_of, standard_error
from experiments.harness.wording import counted, plural
from experiments.pages.curves import Panel, plot_curves
from metriclearn.plots.canvas import number

BENCH = Benchmark("learning_curve", __doc__)
SETTINGS: Any = OmegaConf.to_container(OmegaConf.load(Path(CONFIGS) / "learning_curve.yaml"))
_SAID: dict[str, str] = {}  # about every experiment measured so far
_TRIVIAL = ("one segment", "equal cuts", "one region")


def learned(experiment: str, tiny: bool) -> dict[str, Any]:
    """Compute the picture of one experiment: a curve of each method, and horizontal lines for the
    best other method and the best trivial baseline."""
    setting = SETTINGS[experiment]
    more = ["tiny=true"] if tiny else setting.get("overrides", [])
    config = configuration(f"experiment={experiment}", *more)
    kind: Any = get_class(config.procedure)
    entries, drawn = config[kind.entries], setting["methods"]
    for key in set(entries) - {one["entry"] for one in drawn.values()}:
        entries[key] = None
    procedure: Procedure = kind(config)
    methods = {method.name: method for method in procedure.methods()}
    cases = [case for case in procedure.cases() if case.table == setting["table"]]
    most = setting.get("n_train") or min(len(procedure.units(case.train)) for case in cases)
    sizes = [n for n in setting["sizes"] if n < most]
    units = {unit for case in cases for unit in procedure.units(case.test)}
    results = _results(experiment, setting["table"], units)
    curves: dict[str, list[tuple[float, float]]] = {}
    for name, one in drawn.items():
        method, curves[name] = methods[entries[one["entry"]].name], []
        choice = Choice(one["parameters"], one["option"], np.zeros(0))
        call = partial(_mean, procedure, method, choice, cases)
        for n in sizes:
            means = np.array([call(n, seed) for seed in range(setting["draws"])])
            curves[name].append((float(means.mean()), standard_error(means) or 0.0))
        curves[name].append((results[name], 0.0))
    title, better = procedure.measures[next(iter(procedure.measures))]
    others = [name for name in results if not is_ours(name)]
    order = sorted(others, key=results.__getitem__, reverse=better == "more")
    flat = [next(name for name in order if (name in _TRIVIAL) == yes) for yes in (False, True)]
    return {
        "title": setting["title"],
        "item": setting["item"],
        "measure": title,
        "better": better,
        "numbers": [*sizes, most],
        "curves": curves,
        "flat": {name: results[name] for name in flat},
        "units": len(units),
    }


def _mean(
    procedure: Procedure, method: Method, choice: Choice, cases: Sequence[Case], n: int, seed: int
) -> float:
    """Train on n items of each case, and return the mean of the first measure over the test data of
    all cases."""
    column, outcomes = procedure.columns(method)[0], []
    for case in cases:
        order = np.random.default_rng(seed).permutation(len(procedure.units(case.train)))
        part = replace(case, train=case.train.select(order[:n]))
        model = procedure.fit(method.with_parameters(choice.parameters), part.train, method)
        model, scores = procedure.score(model, choice.option, column, part)
        found = {column: choice}, {column: model}, {column: scores}
        outcomes.append(Outcome(method, part, *found, seconds=0.0, fit_seconds=0.0))
    return procedure.numbers(outcomes)["rows"][0]["mean"]


def _results(experiment: str, table: str, units: set[str]) -> dict[str, float]:
    """For each method, return the mean of its committed results over the test units in ``units``,
    or over all if a tiny run has other units. The results are from the first column of a table."""
    results = read_results(COMMITTED / f"{experiment}.json")
    shown = next(one for one in results["tables"] if one["name"] == table)
    means = {}
    for row in rows_of(results, shown):
        chosen = [i for i, unit in enumerate(row["units"]) if unit in units] or slice(None)
        if row["column"] == next(iter(shown["columns"])):
            weights = np.array(row.get("weights", np.ones(len(row["units"]))))[chosen]
            values = np.array(row["values"])[chosen]
            means[row["method"]] = float(np.average(values, weights=weights))
    return means


def needed(panel: Mapping[str, Any]) -> int | None:
    """Find the number of labeled items from which on our method is better than the best other
    method with all items. Returns None if our method is not better at the last number."""
    sign = -1 if panel["better"] == "more" else 1
    level = next(iter(panel["flat"].values()))
    better = [sign * mean < sign * level for mean, _ in panel["curves"]["ours"]]
    worse = [place for place, yes in enumerate(better) if not yes]
    start = worse[-1] + 1 if worse else 0
    return panel["numbers"][start] if start < len(better) else None


def sentence(panel: Mapping[str, Any]) -> str:
    """Write a sentence that tells how many labels it takes for learning to pay off."""
    (name, level), *_ = panel["flat"].items()
    count, numbers = needed(panel), panel["numbers"]
    last, _ = panel["curves"]["ours"][-1]
    rival = f"the best of the others with {numbers[-1]} ({name}, {number(level)})"
    if count is None:
        return f"{panel['title']}: all {numbers[-1]} are not enough, {number(last)} against {rival}"
    place = numbers.index(count)
    text = f"{panel['title']}: pays off from {counted(count, panel['item'])} on, "
    text += f"{number(panel['curves']['ours'][place][0])} against {rival}"
    return text if count == numbers[-1] else f"{text}; with {numbers[-1]} {number(last)}"


def draw(record: Mapping[str, Any]) -> Figure:
    """Plot a panel for every data set: curves with standard errors over draws, and horizontal
    lines for the best other method and the best trivial one."""
    parts = []
    for panel in record["panels"]:
        title, numbers = sentence(panel).split(",")[0], panel["numbers"]  # without the numbers
        curves = {n: (numbers, *np.transpose(curve)) for n, curve in panel["curves"].items()}
        label = f"labeled {plural(panel['item'])}, log scale"
        parts.append(Panel(title, label, panel["measure"], curves, panel["flat"], log=True))
    return plot_curves(parts, "How many labels does it take for learning to pay off?")


def curve(experiment: str, run: Run) -> list[Row]:
    """Learn from more and more labels of a data set."""
    panel = learned(experiment, run.tiny)
    run.kept.setdefault("panels", []).append(panel)
    _SAID[experiment] = (
        f"{sentence(panel)}. Mean {panel['measure']} over {panel['units']} test units"
    )
    return [
        {plural(panel["item"]): n}
        | {name: "{:.3g} ± {:.2g}".format(*curve[i]) for name, curve in panel["curves"].items()}
        | {f"{name}, with {panel['numbers'][-1]}": v for name, v in panel["flat"].items()}
        for i, n in enumerate(panel["numbers"])
    ]


def note(experiment: str, rows: list[Row]) -> str:
    """Describe the curve in words."""
    draws = SETTINGS[experiment]["draws"]
    return (
        f"{_SAID[experiment]}. Standard errors are over {draws} draws of the training data with "
        "the same test data, 0 at the end."
    )


for _name, _setting in SETTINGS.items():
    BENCH.table(_setting["title"], [_name], partial(note, _name))(curve)

if __name__ == "__main__":
    BENCH.main()
