"""The number of labels that learning takes to pay off, by hand, and the picture of its curves."""

import numpy as np
import pytest

from experiments.benchmarks.learning_curve import SETTINGS, needed, sentence
from experiments.harness.committed import COMMITTED
from experiments.harness.results import read_results
from experiments.pages.curves import Panel, plot_curves
from metriclearn.running.figures import new_figure


# Of hapt and neuroblastoma the curve shows choices of earlier runs.
@pytest.mark.parametrize("experiment", sorted(SETTINGS.keys() - {"hapt", "neuroblastoma"}))
def test_methods_have_the_parameters_that_the_committed_results_chose(experiment: str) -> None:
    rows = read_results(COMMITTED / f"{experiment}.json")["rows"]
    for method, setting in SETTINGS[experiment]["methods"].items():
        one = "ours/one model" if method == "ours" else method
        chosen = max((row for row in rows if row["method"] in (one, method)), key=_is_one)["choice"]
        for name, value in setting["parameters"].items():
            assert f"{name.split('__')[-1]} = {value:g}" in chosen
        assert ("tuned afterwards" in chosen) == (setting["option"] is not None)


def _is_one(row: dict) -> bool:
    """Whether a row is of one model, not of a consensus."""
    return row["method"] == "ours/one model"


@pytest.mark.parametrize(
    ("means", "better", "count", "words"),
    [
        ([2.0, 4.0, 1.0], "less", 4, "pays off from 4 recordings on, 1.00 against the best of"),
        ([2.0, 2.5, 1.0], "less", 1, "pays off from 1 recording on, 2.00 against the best of the"),
        ([4.0, 2.5, 1.0], "less", 2, "pays off from 2 recordings on, 2.50 against the best of the"),
        ([2.0, 2.0, 3.0], "less", None, "all 4 are not enough, 3.00 against the best of the"),
        ([2.0, 4.0, 5.0], "more", 2, "pays off from 2 recordings on, 4.00 against the best of the"),
    ],
)
def test_worth_it_where_it_stays_better_than_all_others(means, better, count, words) -> None:
    """Ours with 1, 2 and 4 labeled recordings, against 3.0 of rca: one lucky recording is not
    enough."""
    panel = {
        "title": "phones",
        "item": "recording",
        "better": better,
        "numbers": [1, 2, 4],
        "curves": {"ours": [(mean, 0.1) for mean in means]},
        "flat": {"rca": 3.0, "one segment": 9.0},
    }
    assert needed(panel) == count
    assert sentence(panel).startswith(f"phones: {words}")


@pytest.mark.parametrize("given", [False, True])
def test_no_line_touches_the_legend_of_its_panel(given: bool) -> None:
    x, rising = np.arange(1, 6), np.linspace(0.0, 9.0, 5)
    curves = {f"method {i}": (x, y, None) for i, y in enumerate((rising, rising[::-1], 0 * x + 4))}
    curves["uncertain"] = x, 0 * x + 8.0, np.full(5, 2.0)
    panels = [
        Panel("one", "labels", "loss", curves, {"best of the others": 9.5, "trivial": 0.5}),
        Panel("many", "labels", "loss", curves | {f"{i}": (x, rising, None) for i in range(4)}),
    ]
    ax = new_figure((6.0, 8.0)).add_subplot() if given else None
    figure = plot_curves(panels, "Curves in all corners", ax)
    figure.draw_without_rendering()
    drawn = [ax for ax in figure.axes if ax.get_visible()]
    assert len(drawn) == 2
    for ax in drawn:
        box = ax.get_legend().get_window_extent()
        assert box.y1 <= ax.bbox.y1
        for one in ax.lines:  # among them the ends of error bars
            assert not box.overlaps(one.get_window_extent())
