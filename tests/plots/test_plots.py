"""Figures of metriclearn/plots: drawn values, titles, and errors."""

import io
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal

from metriclearn.plots import (
    expected_calibration_error,
    plot_annotations,
    plot_convergence,
    plot_elbow,
    plot_embeddings,
    plot_image_segmentations,
    plot_metric_matrix,
    plot_regularization_path,
    plot_reliability,
    plot_scaling,
    plot_segmentation,
    plot_timeline,
    plot_weights,
)
from metriclearn.plots.canvas import PALETTE, shorten

BOUND = "proven within 25.0 % of the optimum"
STRIPS = {"truth": [30, 70, 100], "ours": [31, 70, 100], "euclidean": [30, 50, 100]}
STRENGTHS, WEIGHTS = [0.01, 0.1, 1.0], [[3.0, 1.0, 0.5], [2.0, 0.5, 0.0], [1.0, 0.0, 0.0]]
TRACE = {
    "objective": [5.0, 3.0, 4.0, 2.0],
    "lower_bound": [-np.inf, 0.0, -1.0, 1.5],
    "seconds": [1.0, 2.0, 3.0, 4.0],
}
FREE = {"objective": [4.0, 3.0]}
FAST = {"objective": [4.0, 2.0], "lower_bound": [0.0, 1.9], "passes": [2.0, 4.0]}
TIMED = {**FAST, "seconds": [0.1, 0.2], "scale": 10.0}
SLOW = {
    "objective": [4.0, 3.0, 2.0],
    "lower_bound": [0.0, 1.0, 1.9],
    "passes": [2.0, 90.0, 400.0],
    "seconds": [0.1, 5.0, 20.0],
    "scale": 10.0,
}
OPEN = [[5, np.inf]]
DRAWERS: dict[str, Callable[..., Figure]] = {
    "annotations": lambda **more: plot_annotations(np.arange(9.0), {"a": [4, 9]}, [], **more),
    "segmentation": lambda **more: plot_segmentation(STRIPS, np.arange(100.0), **more),
    "timeline": lambda **more: plot_timeline({"a": [(0.0, 9.0, "x")]}, np.ones(9), **more),
    "weights": lambda **more: plot_weights([0.5, 0.0, 2.0], **more),
    "matrix": lambda **more: plot_metric_matrix(np.diag([1.0, 2.0, 0.0]), **more),
    "large matrix": lambda **more: plot_metric_matrix(
        np.diag(np.arange(84.0)), [f"delta1_contrast{p}_mean" for p in range(84)], **more
    ),
    "convergence": lambda **more: plot_convergence({"bundle": TRACE}, **more),
    "gap": lambda **more: plot_convergence({"bundle": TRACE}, gap=True, **more),
    "elbow": lambda **more: plot_elbow([1, 2], [9, 4], [[5, np.inf], [0, 5]], 2, **more),
    "path": lambda **more: plot_regularization_path(STRENGTHS, WEIGHTS, [3, 1, 2], **more),
    "scaling": lambda **more: plot_scaling([10, 100], [1, 10], 1, **more),
}
TITLES: dict[str, Callable[[], Figure]] = {
    "ours is closest to truth: loss 0.130": lambda: plot_segmentation(
        STRIPS, losses={"ours": 0.13, "euclidean": 1.5}
    ),
    "ours and euclidean are closest to truth: loss 0": lambda: plot_segmentation(
        STRIPS, losses={"ours": 0, "euclidean": 0}
    ),
    "2 of 2 features carry 95% of the weight; none is zero": lambda: plot_weights([1.0, 1.0]),
    "1 of 2 features carries 95% of the weight; 1 is zero": lambda: plot_weights([1.0, 0.0]),
    "The metric of 3 features is zero": lambda: plot_metric_matrix(np.zeros((3, 3))),
    "2 directions carry 95% of the metric (rank 2 of 2)": lambda: plot_metric_matrix(
        np.array([[2.0, -1.0], [-1.0, 2.0]])
    ),
    "free: 2 passes, no certified bound": lambda: plot_convergence({"free": FREE}),
    f"bundle: {BOUND} after 4 passes": lambda: plot_convergence({"bundle": TRACE}),
    f"1 of 2 methods {BOUND}": lambda: plot_convergence({"bundle": TRACE, "free": FREE}),
    "Residual cost falls from 9.00 to 4.00 between 1 and 2 segments": lambda: plot_elbow(
        [1, 2], [9, 4]
    ),
    "1 segment chosen: residual cost 9.00": lambda: plot_elbow([1, 2], [9, 4], chosen=1),
    "1 segment chosen: optimal for every penalty from 5.00": lambda: plot_elbow(
        [1], [9], OPEN, chosen=1
    ),
    "From 3 to 1 of 3 features as the strength grows": lambda: plot_regularization_path(
        [0, 1, 2], WEIGHTS
    ),
    "Strength 0 validates best and keeps 3 of 3 features": lambda: plot_regularization_path(
        [0, 1, 2], WEIGHTS, [[1, 3], [5, 5], [6, 6]]
    ),
}
EMPTY = np.zeros((3, 4, 3))
REFUSED: list[tuple[Callable[[], Figure], str]] = [
    (lambda: plot_segmentation({}), "needs one or more segmentations"),
    (lambda: plot_segmentation({"truth": [9], "ours": [8]}), r"last change-points \[8, 9\]"),
    (lambda: plot_segmentation({"truth": [9]}, None, {"ours": 1.0}), r"strips, got \['ours'\]"),
    (lambda: plot_annotations([0.0], {}, []), "segmentations of the 1 samples"),
    (lambda: plot_timeline({}), "one strip or more"),
    (lambda: plot_embeddings({}, [0]), "at least one panel"),
    (lambda: plot_embeddings({"x": np.ones((6, 2))}, [0] * 5), r"shape \(5, 2\) for 'x'"),
    (lambda: plot_image_segmentations([EMPTY], {"people": [np.zeros((4, 3))]}), "row 'people'"),
    (lambda: plot_weights([1, np.inf]), "got inf at row 1 of weights"),
    (lambda: plot_weights([1.0], ["a", "b"]), "1 features, got 2 feature_names"),
    (lambda: plot_weights([1.0], ["a"], highlight=["z"]), r"got \['z'\]"),
    (lambda: plot_weights([1.0], top=0), "top of at least 1"),
    (lambda: plot_metric_matrix(np.ones((2, 3))), "symmetric square matrix"),
    (lambda: plot_convergence({}), "at least one trace"),
    (lambda: plot_convergence({"a": {"lower_bound": [1.0]}}), "'objective' in the trace of a"),
    (lambda: plot_convergence({"a": {**FAST, "lower_bound": [3, 3]}}), "below the best objective"),
    (lambda: plot_convergence({"a": {**FAST, "passes": [4, 2]}}), r"pass numpy\.cumsum"),
    (lambda: plot_convergence({"a": {**FAST, "scale": 0.0}}), "one positive number as scale"),
    (lambda: plot_elbow([1], [3.0], [[2.0, 1.0]]), r"\(smallest, largest\)"),
    (lambda: plot_elbow([1, 2], [3.0, 2.0], None, 5), r"among n_segments \[1, 2\], got 5"),
    (lambda: plot_regularization_path([0.1, 1], WEIGHTS), "2 strengths, 3 rows"),
    (lambda: plot_regularization_path([-1, 0.2, 1], WEIGHTS), "strengths of zero or more"),
    (lambda: plot_scaling([1, 2], [0, 1]), "positive seconds for two or more different"),
]


def message_of(figure: Figure) -> str:
    return " ".join(figure.get_suptitle().split())


def pixels(figure: Figure) -> np.ndarray:
    figure.savefig(file := io.BytesIO(), format="rgba", dpi=40)
    return np.frombuffer(file.getvalue(), dtype=np.uint8)


def main(figure: Figure) -> Axes:
    return figure.axes[0]


def faces(ax: Axes) -> list[str]:
    return [to_hex(bar.get_facecolor()).upper() for bar in ax.patches]


@pytest.mark.parametrize("message", TITLES)
def test_titles(message: str) -> None:
    assert message_of(TITLES[message]()) == message


@pytest.mark.parametrize(("draw", "message"), REFUSED)
def test_bad_input_is_refused(draw: Callable[[], Figure], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw()


@pytest.mark.parametrize("name", DRAWERS)
def test_figures_render_wide_and_narrow_and_in_given_axes(name: str) -> None:
    fresh = DRAWERS[name]()
    assert message_of(fresh)
    assert len(np.unique(pixels(fresh))) > 10
    narrow = Figure(figsize=(3.5, 5), layout="constrained")
    assert DRAWERS[name](ax=narrow.add_subplot()) is narrow
    assert message_of(narrow) == message_of(fresh)
    narrow.canvas.draw()
    (title,) = [text for text in narrow.texts if text.get_text() == narrow.get_suptitle()]
    below = [ax.xaxis.label.get_window_extent() for ax in narrow.findobj(Axes) if ax.get_xlabel()]
    for box in (title.get_window_extent(), *below):
        assert 0 <= box.x0 <= box.x1 <= narrow.bbox.width
    shared = Figure(figsize=(10, 5), layout="constrained")
    left, right = shared.subplots(1, 2)
    assert DRAWERS[name](ax=right, title="My $ title") is shared
    assert right.get_title(loc="left") == "My $ title"
    assert not left.get_title(loc="left")
    assert len(np.unique(pixels(shared))) > 10


@pytest.mark.parametrize("width", [3.0, 9.0])
def test_legend_of_annotations_stays_inside(width: float) -> None:
    figure = Figure(figsize=(width, 5), layout="constrained")
    plot_annotations(np.arange(9.0), {"a long name": [4, 9], "b": [9]}, [], ax=figure.add_subplot())
    figure.canvas.draw()
    (box,) = [ax.get_legend().get_window_extent() for ax in figure.findobj(Axes) if ax.get_legend()]
    titles = [ax.title if ax.get_title() else ax._left_title for ax in figure.findobj(Axes)]
    assert figure.bbox.containsx(box.x0)
    assert figure.bbox.containsx(box.x1)
    assert not any(title.get_text() and title.get_window_extent().overlaps(box) for title in titles)


def test_plots_load_no_pyplot() -> None:
    draws = "import sys; from metriclearn.plots import plot_weights; plot_weights([1.0])"
    code = f"{draws}; assert 'matplotlib.pyplot' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_segments_take_the_color_of_the_true_segment_they_cover_most() -> None:
    ax = main(plot_segmentation(STRIPS))
    assert faces(ax) == [*PALETTE[:3]] * 3
    assert [text.get_text() for text in ax.texts] == [f"{name} · 3 segments" for name in STRIPS]


def test_a_missed_boundary_merges_colors_and_keeps_its_dashed_line() -> None:
    ax = main(plot_segmentation({"truth": [30, 70, 100], "ours": [30, 100]}, sampling_step=0.1))
    assert faces(ax)[3:] == [*PALETTE[:2]]
    assert_allclose([line.get_xdata() for line in ax.lines], [[3, 3], [7, 7]])
    boundaries = [
        {round(float(path.vertices[0, 0]), 6) for path in lines.get_paths()}
        for lines in ax.collections
    ]
    assert boundaries == [{3.0, 7.0}, {3.0}]
    assert ax.get_xlim() == pytest.approx((0, 10))


def test_signals_are_lines_up_to_six_features_and_a_heat_map_beyond() -> None:
    X = np.random.default_rng(0).normal(size=(100, 7))
    lines = main(plot_segmentation(STRIPS, X[:, :6]))
    assert len(lines.lines) == 2
    assert len(lines.collections) == 6 + len(STRIPS)
    assert not lines.images
    image = main(plot_segmentation(STRIPS, X))
    assert image.images[0].get_array().shape == (7, 100)
    assert len(image.lines) == 2


def test_long_signals_keep_their_extremes() -> None:
    signal = np.zeros(50_000)
    signal[31_234] = 1
    ax = main(plot_segmentation({"truth": [50_000]}, signal))
    filled = ax.collections[-1].get_paths()[0].vertices
    assert len(filled) < 5000
    peak = filled[np.argmin(filled[:, 1]), 0]
    assert peak == pytest.approx(31_234, abs=30)


def test_weights_shows_the_largest_first_and_counts_the_rest() -> None:
    weights = np.zeros(300)
    weights[[7, 100, 250]] = [90.0, 9.0, 1.0]
    figure = plot_weights(weights, top=2, highlight=["feature 100"])
    ax = main(figure)
    assert message_of(figure) == "2 of 300 features carry 95% of the weight; 297 are zero"
    assert_allclose([bar.get_width() for bar in ax.patches[:2]], [90, 9])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["feature 7", "feature 100"]
    assert ax.get_xlabel() == "weight (1 smaller not shown)"
    assert faces(ax)[:2] == [*PALETTE[:2]]


def test_long_names_stay_distinct() -> None:
    names = [f"{'a' * 40}{p}{'b' * 40}" for p in range(3)]
    labels = [tick.get_text() for tick in main(plot_weights([3, 2, 1], names)).get_yticklabels()]
    assert labels == names


def test_matrix_has_symmetric_limits_and_sorted_eigenvalues() -> None:
    figure = plot_metric_matrix(np.array([[2.0, -1.0], [-1.0, 2.0]]), ["a", "b"])
    heat, spectrum = figure.axes[1:3]
    assert heat.images[0].get_clim() == (-2, 2)
    assert_allclose([bar.get_height() for bar in spectrum.patches], [3, 1])


def test_large_low_rank_matrix_shows_thirty_eigenvalues_and_names_its_rank() -> None:
    factor = np.random.default_rng(1).normal(size=(300, 3))
    figure = plot_metric_matrix(factor @ factor.T)
    heat, spectrum = figure.axes[1], figure.axes[2]
    largest = np.sort(np.argsort(-np.sum(factor**2, axis=1))[:30])
    assert [tick.get_text() for tick in heat.get_yticklabels()] == [f"feature {p}" for p in largest]
    assert_allclose(heat.images[0].get_array(), (factor @ factor.T)[np.ix_(largest, largest)])
    assert "(270 of less weight are not shown)" in " ".join(heat.get_xlabel().split())
    expected = np.sort(np.linalg.eigvalsh(factor.T @ factor))[::-1]
    assert_allclose([bar.get_height() for bar in spectrum.patches][:3], expected)
    assert len(spectrum.patches) == 30
    assert message_of(figure) == "3 directions carry 95% of the metric (rank 3 of 300)"


def test_several_methods_explain_their_dashes_and_folds_show_their_mean() -> None:
    legend = main(plot_convergence({"bundle": TRACE, "free": FREE})).get_legend()
    assert legend.get_texts()[-1].get_text() == "dashed: certified lower bound"
    folds = plot_regularization_path([0, 1, 2], WEIGHTS, [[1.0, 3.0], [5.0, 5.0], [6.0, 6.0]])
    assert_allclose(folds.axes[2].lines[0].get_ydata(), [2, 5, 6])
    full = plot_metric_matrix(np.eye(40))
    assert_allclose([bar.get_height() for bar in full.axes[2].patches], np.ones(40))


def names_of(ax) -> dict:
    return {text.get_text(): text for text in ax.texts}


def test_passes_and_scale_replace_rounds_and_the_objective() -> None:
    ax = plot_convergence({"fast": TIMED, "slow": SLOW}, gap=True).axes[0]
    assert_allclose(ax.lines[0].get_xydata(), [[2, 0.4], [4, 0.01]])
    assert_allclose(ax.lines[1].get_xydata(), [[2, 0.4], [90, 0.2], [400, 0.01]])
    band = plot_convergence({"fast": TIMED}).axes[0]
    assert_allclose(band.lines[0].get_xdata(), [2, 4])


def test_curves_are_named_at_their_ends_without_a_legend() -> None:
    ax = plot_convergence({"fast": TIMED, "slow": SLOW}, gap=True, seconds=True).axes[0]
    assert ax.get_legend() is None
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.get_xlabel() == "seconds since the start"
    assert ax.get_xticks().max() <= 20.0
    names = names_of(ax)
    assert sorted(names) == ["fast", "slow"]
    assert names["fast"].get_position()[0] < names["slow"].get_position()[0]
    assert names["slow"].get_color() == PALETTE[1]
    like = plot_convergence({"a": TIMED, "b": TIMED}, gap=True).axes[0]
    assert like.get_xscale() == "linear"
    assert not names_of(plot_convergence({"a": TIMED}, gap=True).axes[0])


def test_names_that_end_together_are_moved_apart() -> None:
    traces = {f"method {i}": SLOW for i in range(4)}
    figure = plot_convergence(traces, gap=True)
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in names_of(figure.axes[0]).values()]
    heights = sorted((box.y0, box.y1) for box in boxes)
    assert all(low[1] <= high[0] + 1.0 for low, high in pairwise(heights))
    assert heights[0][0] >= figure.axes[0].get_window_extent().y0


def test_convergence_draws_best_so_far_and_best_bound() -> None:
    figure = plot_convergence({"bundle": TRACE})
    best, bound = figure.axes[0].lines
    assert_allclose(best.get_ydata(), [5, 3, 3, 2])
    assert_allclose(bound.get_ydata(), [0, 0, 1.5])
    assert_allclose(bound.get_xdata(), [2, 3, 4])


def test_poor_first_bounds_do_not_flatten_the_objective() -> None:
    trace = {"objective": [10.0, 2.0, 1.0], "lower_bound": [-1e9, -1e3, 0.9]}
    low, high = plot_convergence({"bundle": trace}).axes[0].get_ylim()
    assert -15 < low < 0.9
    assert high > 10


def test_elbow_marks_the_chosen_number_and_its_penalties() -> None:
    penalties = [[0.0, 1.0], [1.0, 6.0], [6.0, np.inf]]
    figure = plot_elbow([3, 2, 1], [4, 5, 11], penalties, chosen=2)
    left, right = figure.axes[1:3]
    assert_allclose(left.lines[0].get_xydata(), [[1, 11], [2, 5], [3, 4]])
    assert_allclose(left.lines[1].get_xydata(), [[2, 5]])
    segments = np.array(right.collections[0].get_segments())
    assert_array_equal(segments[:, 0, 1], [1, 2, 3])
    assert_allclose(segments[1, :, 0], [1, 6])
    assert_allclose([segments[0, 1, 0], segments[2, 0, 0]], right.get_xlim()[::-1])
    assert message_of(figure) == "2 segments chosen: optimal for penalties from 1.00 to 6.00"


def test_path_colors_the_largest_weights_and_marks_the_best_strength() -> None:
    weights = np.outer([3.0, 2.0, 0.0], np.arange(1.0, 9.0))[::-1]
    figure = plot_regularization_path([1.0, 0.1, 0.01], weights, [5, 2, 4])
    upper, lower = figure.axes[1:3]
    named = [line.get_label() for line in upper.lines if line.get_label().startswith("feature")]
    assert named == [f"feature {p}" for p in (7, 6, 5, 4, 3, 2)]
    assert_allclose(lower.lines[0].get_xydata(), [[0.01, 4], [0.1, 2], [1, 5]])
    assert message_of(figure) == "Strength 0.100 validates best and keeps 8 of 8 features"


@settings(max_examples=10)
@given(power=st.floats(0.2, 3.0), seconds=st.floats(1e-6, 1e3), ratio=st.floats(1.5, 20))
def test_scaling_measures_the_power(power: float, seconds: float, ratio: float) -> None:
    sizes = 100 * ratio ** np.arange(4)
    figure = plot_scaling(sizes[::-1], seconds * (sizes[::-1] / 100) ** power, slope=1)
    start, shown = message_of(figure).rsplit(" ", 1)
    assert start == "Time grows as T to the power"
    assert abs(float(shown) - power) <= 0.005 + 1e-9
    measured, line = main(figure).lines
    assert_allclose(measured.get_xdata(), sizes)
    assert_allclose(line.get_ydata()[-1], measured.get_ydata()[-1])
    assert_allclose(line.get_ydata()[-1] / line.get_ydata()[0], sizes[-1] / sizes[0])


def test_scaling_compares_two_programs_on_the_same_axes() -> None:
    figure = plot_scaling([10, 100], [1, 10], label="ours", xlabel="pairs")
    assert message_of(figure) == "Time grows as size to the power 1.00"
    plot_scaling([10, 100], [1, 100], label="peer", ax=main(figure), title="Ours is faster")
    labels = [text.get_text() for text in main(figure).get_legend().get_texts()]
    assert labels == ["ours", "peer"]
    colors = [line.get_color() for line in main(figure).lines]
    assert colors == list(PALETTE[:2])


@settings(max_examples=40)
@given(st.text(max_size=60), st.integers(12, 40))
def test_shortened_names_fit_and_keep_both_ends(name: str, length: int) -> None:
    short = shorten(name, length)
    assert len(short) == min(len(name), length)
    assert short[:5] == name[:5]
    assert short[-6:] == name[-6:] if len(name) >= 6 else short == name


def test_calibration_error_by_hand_and_its_outcomes() -> None:
    """Two bins: no event for .1 and .3, one event for .8 and 1."""
    told, came = [0.1, 0.3, 0.8, 1.0], [False, False, True, False]
    assert expected_calibration_error(told, came, 2) == pytest.approx(0.5 * 0.2 + 0.5 * 0.4)
    for function in (expected_calibration_error, plot_reliability):
        sentence = f"{function.__name__} needs outcomes that are True or False, 1 or 0, got 0.3"
        with pytest.raises(ValueError, match=sentence):
            function(told, [0, 0.3, 1, 1])  # type: ignore[operator]
