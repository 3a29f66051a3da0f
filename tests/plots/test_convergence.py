"""Several gaps in one panel: passes that are not rounds, a common scale, names at the ends."""

from __future__ import annotations

from itertools import pairwise

from numpy.testing import assert_allclose

from metriclearn.plots import plot_convergence
from metriclearn.plots.canvas import PALETTE
from tests.plots.test_plots import FAST as UNTIMED
from tests.plots.test_plots import TRACE

FAST = {**UNTIMED, "seconds": [0.1, 0.2], "scale": 10.0}
SLOW = {
    "objective": [4.0, 3.0, 2.0],
    "lower_bound": [0.0, 1.0, 1.9],
    "passes": [2.0, 90.0, 400.0],
    "seconds": [0.1, 5.0, 20.0],
    "scale": 10.0,
}


def names_of(ax) -> dict:
    return {text.get_text(): text for text in ax.texts}


def test_passes_and_scale_replace_rounds_and_the_objective() -> None:
    ax = plot_convergence({"fast": FAST, "slow": SLOW}, gap=True).axes[0]
    assert_allclose(ax.lines[0].get_xydata(), [[2, 0.4], [4, 0.01]])
    assert_allclose(ax.lines[1].get_xydata(), [[2, 0.4], [90, 0.2], [400, 0.01]])
    band = plot_convergence({"fast": FAST}).axes[0]
    assert_allclose(band.lines[0].get_xdata(), [2, 4])


def test_curves_are_named_at_their_ends_without_a_legend() -> None:
    ax = plot_convergence({"fast": FAST, "slow": SLOW}, gap=True, seconds=True).axes[0]
    assert ax.get_legend() is None
    assert ax.get_xscale() == "log"
    assert ax.get_xticks().max() <= 20.0
    names = names_of(ax)
    assert sorted(names) == ["fast", "slow"]
    assert names["fast"].get_position()[0] < names["slow"].get_position()[0]
    assert names["slow"].get_color() == PALETTE[1]


def test_names_that_end_together_are_moved_apart() -> None:
    traces = {f"method {i}": SLOW for i in range(4)}
    figure = plot_convergence(traces, gap=True)
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in names_of(figure.axes[0]).values()]
    heights = sorted((box.y0, box.y1) for box in boxes)
    assert all(low[1] <= high[0] + 1.0 for low, high in pairwise(heights))
    assert heights[0][0] >= figure.axes[0].get_window_extent().y0


def test_curves_of_like_length_keep_a_linear_axis_and_one_curve_has_no_name() -> None:
    both = plot_convergence({"a": FAST, "b": FAST}, gap=True).axes[0]
    assert both.get_xscale() == "linear"
    assert not names_of(plot_convergence({"a": FAST}, gap=True).axes[0])


def test_convergence_draws_best_so_far_and_best_bound() -> None:
    figure = plot_convergence({"bundle": TRACE})
    best, bound = figure.axes[0].lines
    assert_allclose(best.get_ydata(), [5, 3, 3, 2])
    assert_allclose(bound.get_ydata(), [0, 0, 1.5])
    assert_allclose(bound.get_xdata(), [2, 3, 4])


def test_convergence_gap_is_logarithmic_and_against_seconds() -> None:
    figure = plot_convergence({"bundle": TRACE}, gap=True, seconds=True)
    ax = figure.axes[0]
    assert ax.get_yscale() == "log"
    assert_allclose(ax.lines[0].get_ydata(), [1, 1, 0.25])
    assert_allclose(ax.lines[0].get_xdata(), [2, 3, 4])
    assert ax.get_xlabel() == "seconds since the start"


def test_poor_first_bounds_do_not_flatten_the_objective() -> None:
    trace = {"objective": [10.0, 2.0, 1.0], "lower_bound": [-1e9, -1e3, 0.9]}
    low, high = plot_convergence({"bundle": trace}).axes[0].get_ylim()
    assert -15 < low < 0.9
    assert high > 10
