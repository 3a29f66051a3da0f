"""Tests of metriclearn/plots: what is drawn, what the titles say, and what is refused."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal

from metriclearn.plots import (
    plot_convergence,
    plot_elbow,
    plot_metric_matrix,
    plot_regularization_path,
    plot_scaling,
    plot_segmentation,
    plot_weights,
)
from metriclearn.plots.canvas import PALETTE, number, shorten

STRIPS = {"truth": [30, 70, 100], "ours": [31, 70, 100], "euclidean": [30, 50, 100]}
PATH = {
    "strengths": [0.01, 0.1, 1.0],
    "weights": [[3.0, 1.0, 0.5], [2.0, 0.5, 0.0], [1.0, 0.0, 0.0]],
}
TRACE = {
    "objective": [5.0, 3.0, 4.0, 2.0],
    "lower_bound": [-np.inf, 0.0, -1.0, 1.5],
    "seconds": [1.0, 2.0, 3.0, 4.0],
}
DRAWERS: dict[str, Callable[..., Figure]] = {
    "segmentation": lambda **more: plot_segmentation(STRIPS, np.arange(100.0), **more),
    "weights": lambda **more: plot_weights([0.5, 0.0, 2.0], **more),
    "matrix": lambda **more: plot_metric_matrix(np.diag([1.0, 2.0, 0.0]), **more),
    "convergence": lambda **more: plot_convergence({"bundle": TRACE}, **more),
    "gap": lambda **more: plot_convergence({"bundle": TRACE}, gap=True, **more),
    "elbow": lambda **more: plot_elbow([1, 2], [9, 4], [[5, np.inf], [0, 5]], 2, **more),
    "path": lambda **more: plot_regularization_path(**PATH, validation_loss=[3, 1, 2], **more),
    "scaling": lambda **more: plot_scaling([10, 100], [1, 10], 1, **more),
}


def _message(figure: Figure) -> str:
    return " ".join(figure.get_suptitle().split())


def _png(figure: Figure) -> np.ndarray:
    figure.savefig(file := io.BytesIO(), format="rgba", dpi=40)
    return np.frombuffer(file.getvalue(), dtype=np.uint8)


def _main(figure: Figure) -> Axes:
    return figure.axes[0]


@pytest.mark.parametrize("name", DRAWERS)
def test_figures_render_wide_and_narrow_and_in_given_axes(name: str) -> None:
    fresh = DRAWERS[name]()
    assert _message(fresh)
    assert len(np.unique(_png(fresh))) > 10
    narrow = Figure(figsize=(3.5, 5), layout="constrained")
    assert DRAWERS[name](ax=narrow.add_subplot()) is narrow
    assert _message(narrow) == _message(fresh)
    shared = Figure(figsize=(10, 5), layout="constrained")
    left, right = shared.subplots(1, 2)
    assert DRAWERS[name](ax=right, title="My $ title") is shared
    assert right.get_title(loc="left") == r"My \$ title"
    assert not left.get_title(loc="left")
    assert len(np.unique(_png(shared))) > 10


@pytest.mark.parametrize("name", DRAWERS)
def test_title_stays_within_a_narrow_figure(name: str) -> None:
    figure = Figure(figsize=(3.5, 5), layout="constrained")
    DRAWERS[name](ax=figure.add_subplot())
    figure.canvas.draw()
    (text,) = [t for t in figure.texts if t.get_text() == figure.get_suptitle()]
    box = text.get_window_extent()
    assert 0 <= box.x0 <= box.x1 <= figure.bbox.width


def test_importing_metriclearn_loads_no_matplotlib_and_plots_no_pyplot() -> None:
    code = (
        "import sys, metriclearn; assert 'matplotlib' not in sys.modules; "
        "import metriclearn.plots; assert 'matplotlib.pyplot' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_segments_take_the_color_of_the_true_segment_they_cover_most() -> None:
    ax = _main(plot_segmentation(STRIPS))
    colors = [to_hex(bar.get_facecolor()).upper() for bar in ax.patches]
    blue, orange, green = PALETTE[:3]
    assert colors == [blue, orange, green, blue, orange, green, blue, orange, green]


def test_a_missed_boundary_merges_colors_and_keeps_its_dashed_line() -> None:
    ax = _main(plot_segmentation({"truth": [30, 70, 100], "ours": [30, 100]}, sampling_step=0.1))
    colors = [to_hex(bar.get_facecolor()).upper() for bar in ax.patches[3:]]
    assert colors == [PALETTE[0], PALETTE[1]]
    assert_allclose([line.get_xdata() for line in ax.lines], [[3, 3], [7, 7]])
    boundaries = [
        {round(float(path.vertices[0, 0]), 6) for path in lines.get_paths()}
        for lines in ax.collections
    ]
    assert boundaries == [{3.0, 7.0}, {3.0}]
    assert ax.get_xlim() == pytest.approx((0, 10))


def test_segmentation_titles_and_labels() -> None:
    losses = {"ours": 0.13, "euclidean": 1.5}
    figure = plot_segmentation(STRIPS, losses=losses, sampling_step=0.5, unit="s")
    assert _message(figure) == "ours is closest to truth: loss 0.130"
    labels = [text.get_text() for text in _main(figure).texts]
    assert labels == [
        "truth · 3 segments",
        "ours · 3 segments · loss 0.130",
        "euclidean · 3 segments · loss 1.50",
    ]
    assert _main(figure).get_xlabel() == "time (s)"
    tied = plot_segmentation(STRIPS, losses={"ours": 0, "euclidean": 0})
    assert _message(tied) == "ours and euclidean are closest to truth: loss 0"
    assert _message(plot_segmentation({"truth": [4]})) == "1 segment in truth"


def test_signals_are_lines_up_to_six_features_and_a_heat_map_beyond() -> None:
    X = np.random.default_rng(0).normal(size=(100, 7))
    lines = _main(plot_segmentation(STRIPS, X[:, :6]))
    assert len(lines.lines) == 6 + 2
    assert not lines.images
    image = _main(plot_segmentation(STRIPS, X))
    assert image.images[0].get_array().shape == (7, 100)
    assert len(image.lines) == 2


def test_long_signals_keep_their_extremes() -> None:
    signal = np.zeros(50_000)
    signal[31_234] = 1
    ax = _main(plot_segmentation({"truth": [50_000]}, signal))
    filled = ax.collections[-1].get_paths()[0].vertices
    assert len(filled) < 5000
    peak = filled[np.argmin(filled[:, 1]), 0]
    assert peak == pytest.approx(31_234, abs=30)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({},), "needs one or more segmentations"),
        (({"truth": [9], "ours": [8]},), r"got last change-points \[8, 9\]"),
        (({"truth": [9]}, np.zeros(8)), r"signal of T=9 rows"),
        (({"truth": [2]}, [0.0, np.nan]), "finite signal"),
        (({"truth": [9]}, None, {"ours": 1.0}), r"losses of its strips, got \['ours'\]"),
    ],
)
def test_segmentation_refuses_what_does_not_fit(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plot_segmentation(*arguments)


def test_weights_shows_the_largest_first_and_counts_the_rest() -> None:
    weights = np.zeros(300)
    weights[[7, 100, 250]] = [90.0, 9.0, 1.0]
    figure = plot_weights(weights, top=2, highlight=["feature 100"])
    ax = _main(figure)
    assert _message(figure) == "2 of 300 features carry 95% of the weight; 297 are zero"
    assert_allclose([bar.get_width() for bar in ax.patches[:2]], [90, 9])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["feature 7", "feature 100"]
    assert ax.get_xlabel() == "weight (1 smaller not shown)"
    colors = [to_hex(bar.get_facecolor()).upper() for bar in ax.patches[:2]]
    assert colors == list(PALETTE[:2])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.0, 0.0], "All 2 weights are zero"),
        ([1.0, 1.0], "2 of 2 features carry 95% of the weight; none is zero"),
        ([1.0, 0.0], "1 of 2 features carries 95% of the weight; 1 is zero"),
    ],
)
def test_weights_titles(weights: list[float], message: str) -> None:
    assert _message(plot_weights(weights)) == message


def test_long_names_stay_distinct() -> None:
    names = [f"{'a' * 40}{p}{'b' * 40}" for p in range(3)]
    labels = [tick.get_text() for tick in _main(plot_weights([3, 2, 1], names)).get_yticklabels()]
    assert labels == names


def test_matrix_has_symmetric_limits_and_sorted_eigenvalues() -> None:
    figure = plot_metric_matrix(np.array([[2.0, -1.0], [-1.0, 2.0]]), ["a", "b"])
    heat, spectrum = _main(figure).child_axes
    assert heat.images[0].get_clim() == (-2, 2)
    assert_allclose([bar.get_height() for bar in spectrum.patches], [3, 1])
    assert _message(figure) == "2 directions carry 95% of the metric (rank 2 of 2)"


def test_large_low_rank_matrix_shows_thirty_eigenvalues_and_names_its_rank() -> None:
    factor = np.random.default_rng(1).normal(size=(300, 3))
    figure = plot_metric_matrix(factor @ factor.T)
    spectrum = _main(figure).child_axes[1]
    expected = np.sort(np.linalg.eigvalsh(factor.T @ factor))[::-1]
    assert_allclose([bar.get_height() for bar in spectrum.patches][:3], expected)
    assert len(spectrum.patches) == 30
    assert _message(figure) == "3 directions carry 95% of the metric (rank 3 of 300)"


def test_zero_and_full_rank_matrices_are_drawn() -> None:
    assert _message(plot_metric_matrix(np.zeros((3, 3)))) == "The metric of 3 features is zero"
    full = plot_metric_matrix(np.eye(40))
    assert_allclose(_main(full).child_axes[1].lines[0].get_ydata(), np.ones(40))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plot_weights([1, np.inf]), "finite weights"),
        (lambda: plot_weights([]), "non-empty 1-dimensional"),
        (lambda: plot_weights([1.0], ["a", "b"]), "1 features, got 2 feature_names"),
        (lambda: plot_weights([1.0], ["a"], highlight=["z"]), r"got \['z'\]"),
        (lambda: plot_weights([1.0], top=0), "top of at least 1"),
        (lambda: plot_metric_matrix(np.ones((2, 3))), "symmetric square matrix"),
        (lambda: plot_metric_matrix(np.array([[1, 2], [0, 1]])), "symmetric square matrix"),
    ],
)
def test_metrics_that_do_not_fit_are_refused(call: Callable[[], Figure], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_convergence_draws_best_so_far_and_best_bound() -> None:
    figure = plot_convergence({"bundle": TRACE})
    best, bound = _main(figure).lines
    assert_allclose(best.get_ydata(), [5, 3, 3, 2])
    assert_allclose(bound.get_ydata(), [0, 0, 1.5])
    assert_allclose(bound.get_xdata(), [2, 3, 4])
    assert _message(figure) == "bundle: proven within 25.0 % of the optimum after 4 passes"


def test_convergence_gap_is_logarithmic_and_against_seconds() -> None:
    figure = plot_convergence({"bundle": TRACE}, gap=True, seconds=True)
    ax = _main(figure)
    assert ax.get_yscale() == "log"
    assert_allclose(ax.lines[0].get_ydata(), [1, 1, 0.25])
    assert_allclose(ax.lines[0].get_xdata(), [2, 3, 4])
    assert ax.get_xlabel() == "seconds since the start"


def test_convergence_of_several_methods_with_and_without_bounds() -> None:
    free = {"objective": [4.0, 3.0]}
    assert _message(plot_convergence({"free": free})) == "free: 2 passes, no certified bound"
    both = plot_convergence({"bundle": TRACE, "free": free})
    assert _message(both) == "1 of 2 methods proven within 25.0 % of the optimum"
    labels = [text.get_text() for text in _main(both).get_legend().get_texts()]
    assert labels[-1] == "dashed: certified lower bound"
    none = plot_convergence({"a": free, "b": free})
    assert _message(none) == "2 methods, none with a certified bound"


def test_poor_first_bounds_do_not_flatten_the_objective() -> None:
    trace = {"objective": [10.0, 2.0, 1.0], "lower_bound": [-1e9, -1e3, 0.9]}
    low, high = _main(plot_convergence({"bundle": trace})).get_ylim()
    assert -15 < low < 0.9
    assert high > 10


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        ({"lower_bound": [1.0]}, r"column 'objective' in the trace of bundle"),
        ({"objective": [1.0], "seconds": [1.0], "lower_bound": [2.0]}, "below the best objective"),
        ({"objective": [1.0, 1.0], "seconds": [2.0, 1.0]}, r"pass numpy\.cumsum"),
        ({"objective": [1.0, 1.0], "seconds": [1.0]}, "columns of one length"),
        ({"objective": [np.nan], "seconds": [1.0]}, "finite objective"),
    ],
)
def test_convergence_refuses_false_traces(trace: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plot_convergence({"bundle": trace}, seconds=True)
    with pytest.raises(ValueError, match="at least one trace"):
        plot_convergence({})


def test_elbow_marks_the_chosen_number_and_its_penalties() -> None:
    penalties = [[0.0, 1.0], [1.0, 6.0], [6.0, np.inf]]
    figure = plot_elbow([3, 2, 1], [4, 5, 11], penalties, chosen=2)
    left, right = _main(figure).child_axes
    assert_allclose(left.lines[0].get_xydata(), [[1, 11], [2, 5], [3, 4]])
    assert_allclose(left.lines[1].get_xydata(), [[2, 5]])
    segments = np.array(right.collections[0].get_segments())
    assert_array_equal(segments[:, 0, 1], [1, 2, 3])
    assert_allclose(segments[1, :, 0], [1, 6])
    assert_allclose([segments[0, 1, 0], segments[2, 0, 0]], right.get_xlim()[::-1])
    assert _message(figure) == "2 segments chosen: optimal for penalties from 1.00 to 6.00"


def test_elbow_titles_without_penalties() -> None:
    assert _message(plot_elbow([1, 2], [9, 4])) == (
        "Residual cost falls from 9.00 to 4.00 between 1 and 2 segments"
    )
    assert _message(plot_elbow([1, 2], [9, 4], chosen=1)) == "1 segment chosen: residual cost 9.00"
    last = plot_elbow([1], [9], [[5, np.inf]], chosen=1)
    assert _message(last) == "1 segment chosen: optimal for every penalty from 5.00"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2], [3.0]), "2 numbers, 1 costs"),
        (([1, 2], [3.0, 2.0], [1.0, 2.0]), r"penalties of shape \(2,\)"),
        (([1], [3.0], [[2.0, 1.0]]), r"\(smallest, largest\)"),
        (([1, 2], [3.0, 2.0], None, 5), r"chosen among n_segments \[1, 2\], got 5"),
    ],
)
def test_elbow_refuses_what_does_not_fit(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plot_elbow(*arguments)


def test_path_colors_the_largest_weights_and_marks_the_best_strength() -> None:
    weights = np.outer([3.0, 2.0, 0.0], np.arange(1.0, 9.0))[::-1]
    figure = plot_regularization_path([1.0, 0.1, 0.01], weights, [5, 2, 4])
    upper, lower = _main(figure).child_axes
    named = [line.get_label() for line in upper.lines if line.get_label().startswith("feature")]
    assert named == [f"feature {p}" for p in (7, 6, 5, 4, 3, 2)]
    assert_allclose(lower.lines[0].get_xydata(), [[0.01, 4], [0.1, 2], [1, 5]])
    assert _message(figure) == "Strength 0.100 validates best and keeps 8 of 8 features"


def test_path_with_folds_shows_their_mean_and_zero_strength_is_allowed() -> None:
    folds = [[1.0, 3.0], [5.0, 5.0], [6.0, 6.0]]
    figure = plot_regularization_path([0, 1, 2], PATH["weights"], folds)
    assert_allclose(_main(figure).child_axes[1].lines[0].get_ydata(), [2, 5, 6])
    assert _message(figure) == "Strength 0 validates best and keeps 3 of 3 features"
    plain = plot_regularization_path([0, 1, 2], PATH["weights"])
    assert _message(plain) == "From 3 to 1 of 3 features as the strength grows"


@pytest.mark.parametrize(
    ("strengths", "losses", "message"),
    [
        ([0.1, 1.0], None, "2 strengths, 3 rows"),
        ([0.1, 0.2, 1.0], [1.0], "1 losses"),
        ([-1.0, 0.2, 1.0], None, "distinct strengths of zero or more"),
        ([1.0, 1.0, 2.0], None, "distinct strengths of zero or more"),
    ],
)
def test_path_refuses_what_does_not_fit(
    strengths: list[float], losses: list[float] | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        plot_regularization_path(strengths, PATH["weights"], losses)


@given(power=st.floats(0.2, 3.0), seconds=st.floats(1e-6, 1e3), ratio=st.floats(1.5, 20))
def test_scaling_measures_the_power(power: float, seconds: float, ratio: float) -> None:
    sizes = 100 * ratio ** np.arange(4)
    figure = plot_scaling(sizes[::-1], seconds * (sizes[::-1] / 100) ** power, slope=1)
    start, shown = _message(figure).rsplit(" ", 1)
    assert start == "Time grows as T to the power"
    assert abs(float(shown) - power) <= 0.005 + 1e-9
    measured, line = _main(figure).lines
    assert_allclose(measured.get_xdata(), sizes)
    assert_allclose(line.get_ydata()[-1], measured.get_ydata()[-1])
    assert_allclose(line.get_ydata()[-1] / line.get_ydata()[0], sizes[-1] / sizes[0])


def test_scaling_compares_two_programs_on_the_same_axes() -> None:
    figure = plot_scaling([10, 100], [1, 10], label="ours", xlabel="pairs")
    assert _message(figure) == "Time grows as size to the power 1.00"
    plot_scaling([10, 100], [1, 100], label="peer", ax=_main(figure), title="Ours is faster")
    labels = [text.get_text() for text in _main(figure).get_legend().get_texts()]
    assert labels == ["ours", "peer"]
    colors = [line.get_color() for line in _main(figure).lines]
    assert colors == list(PALETTE[:2])


@pytest.mark.parametrize(("sizes", "seconds"), [([1, 2], [1]), ([1, 2], [0, 1]), ([3, 3], [1, 2])])
def test_scaling_refuses_what_has_no_power(sizes: list[int], seconds: list[int]) -> None:
    with pytest.raises(ValueError, match="positive seconds for two or more different"):
        plot_scaling(sizes, seconds)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.42, "0.420"),
        (-1.5, "-1.50"),
        (12345.6, "12,346"),
        (0.00012, "1.20e-04"),
        (2.5e7, "2.50e+07"),
        (np.inf, "inf"),
    ],
)
def test_numbers_read_well(value: float, text: str) -> None:
    assert number(value) == text


@given(st.text(max_size=60), st.integers(12, 40))
def test_shortened_names_fit_and_keep_both_ends(name: str, length: int) -> None:
    short = shorten(name, length)
    assert len(short) == min(len(name), length)
    assert short[:5] == name[:5]
    assert short[-6:] == name[-6:] if len(name) >= 6 else short == name
