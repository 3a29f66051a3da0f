"""What pictures show: a call, and the titles, names, colors and numbers that are drawn."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose

import metriclearn as ml
from metriclearn import ChangePointMetricLearner, FullMetric, Trace, plots
from metriclearn.baselines import Euclidean, PenaltyLearner
from metriclearn.plots.canvas import PALETTE, number, shorten
from metriclearn.problem.partial_labels import PartialPartition
from tests.conformance.test_pictures import (
    FOLDS,
    HEARD,
    LIMITS,
    POINTS,
    REGIONS,
    SPARSE,
    STRIPS,
    TRACE,
    TRUTH,
    WEIGHTS,
    message_of,
)
from tests.training import XS, YS, learn

MISSED = {"truth": [30, 70, 100], "ours": [30, 100]}
FALLING = np.outer([3.0, 2.0, 0.0], np.arange(1.0, 9.0))[::-1]
COLUMNS = ("objective", "lower_bound", "passes", "seconds", "scale")
TIMED = dict(zip(COLUMNS, ([4.0, 2.0], [0.0, 1.9], [2.0, 4.0], [0.1, 0.2], 10.0)))
SLOW = dict(zip(COLUMNS, ([4.0, 3.0, 2.0], [0.0, 1.0, 1.9], [2, 90, 400], [0.1, 5, 20], 10.0)))
POOR = {"objective": [10.0, 2.0, 1.0], "lower_bound": [-1e9, -1e3, 0.9]}
FACTOR = np.random.default_rng(1).normal(size=(300, 3))
LOW_RANK = FACTOR @ FACTOR.T
LARGEST = np.sort(np.argsort(-np.sum(FACTOR**2, axis=1))[:30])
SIGNAL = np.repeat([0.0, 2.0, 0.0], 40)


def faces(ax: Axes) -> list[str]:
    return [to_hex(bar.get_facecolor()).upper() for bar in ax.patches if bar.get_width()]


def texts(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def ticks(ax: Axes) -> list[str]:
    return [tick.get_text() for tick in ax.get_yticklabels()]


def legend(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def widths(ax: Axes) -> list[float]:
    return [bar.get_width() for bar in ax.patches if bar.get_width()]


def heights(ax: Axes) -> list[float]:
    return [bar.get_height() for bar in ax.patches]


def bounds(ax: Axes) -> list[list[float]]:
    """Positions of the solid boundaries of every strip."""
    return [sorted(float(p.vertices[0, 0]) for p in one.get_paths()) for one in ax.collections]


def weights(*args: Any, **more: Any) -> Axes:
    return plots.plot_weights(*args, **more).axes[0]


def elbow() -> list[Axes]:
    return plots.plot_elbow([3, 2, 1], [4, 5, 11], LIMITS, chosen=2).axes[1:]


def matrix(*args: Any) -> list[Axes]:
    return plots.plot_metric_matrix(*args).axes[1:3]


def path(*args: Any) -> list[Axes]:
    return plots.plot_regularization_path(*args).axes[1:]


def timeline(*args: Any) -> Axes:
    return plots.plot_timeline(*args).axes[0]


def segmentation(*args: Any, **more: Any) -> Axes:
    return plots.plot_segmentation(*args, **more).axes[0]


def convergence(*args: Any, **more: Any) -> Axes:
    return plots.plot_convergence(*args, **more).axes[0]


BOTH = {"truth": TRUTH, "predicted": HEARD}
TWO, LONG = {"fast": TIMED, "slow": SLOW}, [f"{'a' * 40}{p}{'b' * 40}" for p in "xy"]
# how a picture is read, and what it must show
SHOWN: list[tuple[Callable[[], Any], Any]] = [
    (lambda: faces(segmentation(STRIPS)), [*PALETTE[:3]] * 3),  # of the true segments
    (lambda: texts(segmentation(STRIPS)), [f"{name} · 3 segments" for name in STRIPS]),
    (lambda: [line.get_xdata()[0] for line in segmentation(MISSED).lines], [30, 70]),  # dashed
    (lambda: bounds(segmentation(MISSED, sampling_step=0.5)), [[15, 35], [15]]),  # solid
    (lambda: len(segmentation(STRIPS, np.ones((100, 6))).collections), 6 + 3),  # lines
    (lambda: segmentation(STRIPS, np.ones((100, 7))).images[0].get_array().shape, (7, 100)),
    (lambda: ticks(weights(SPARSE, top=2)), ["feature 7", "feature 100"]),
    (lambda: faces(weights(SPARSE, highlight=["feature 100"])), [PALETTE[k] for k in (0, 1, 0)]),
    (lambda: widths(weights(SPARSE)), [90, 9, 1]),
    (lambda: ticks(weights([2, 1], LONG)), LONG),  # shortened, they would be equal
    (lambda: matrix([[2, -1], [-1, 2]])[0].images[0].get_clim(), (-2, 2)),
    (lambda: ticks(matrix(LOW_RANK)[0]), [f"feature {p}" for p in LARGEST]),
    (lambda: matrix(LOW_RANK)[0].images[0].get_array(), LOW_RANK[np.ix_(LARGEST, LARGEST)]),
    (lambda: heights(matrix(LOW_RANK)[1]), np.linalg.eigvalsh(LOW_RANK)[:-31:-1]),
    (lambda: convergence({"bundle": TRACE}).lines[0].get_ydata(), np.array([5, 3, 3, 2])),
    (lambda: convergence({"b": TRACE}).lines[1].get_xydata(), np.array([[2, 0], [3, 0], [4, 1.5]])),
    (lambda: convergence(TWO).lines[0].get_xdata(), np.array([2, 4])),
    (
        lambda: convergence(TWO, gap=True).lines[1].get_xydata(),
        np.array([[2, 0.4], [90, 0.2], [400, 0.01]]),
    ),
    (lambda: -15 < convergence({"b": POOR}).get_ylim()[0] < 0.9, True),
    (lambda: elbow()[0].lines[0].get_xydata(), np.array([[1, 11], [2, 5], [3, 4]])),
    (lambda: elbow()[0].lines[1].get_xydata(), np.array([[2, 5]])),  # chosen
    (
        lambda: np.array(elbow()[1].collections[0].get_segments())[..., 0],
        np.array([[6, 12], [1, 6], [0.5, 1]]),
    ),
    (
        lambda: [one.get_label() for one in path([1, 0.1, 0.01], FALLING, [5, 2, 4])[0].lines[2:8]],
        [f"feature {p}" for p in (7, 6, 5, 4, 3, 2)],
    ),
    (lambda: path([2, 1, 0], WEIGHTS, FOLDS)[1].lines[0].get_ydata(), np.array([6, 5, 2])),
    (
        lambda: path([0, 1, 2], WEIGHTS, FOLDS)[1].collections[0].get_paths()[0].vertices[:3, 1],
        np.array([3, 1, 5]),
    ),
    (lambda: widths(timeline(BOTH)), [30, 70, 40, 60]),
    (lambda: faces(timeline(BOTH)), [PALETTE[1], PALETTE[0]] * 2),
    (lambda: legend(timeline(BOTH)), ["music", "speech"]),
    (
        lambda: [one.get_extent()[:2] for one in timeline(BOTH, np.ones(9), [POINTS] * 5).images],
        [[20 * i, 20 * i + 20] for i in range(5)],
    ),
]


@pytest.mark.parametrize(("read", "expected"), SHOWN)
def test_what_is_drawn(read: Callable[[], Any], expected: Any) -> None:
    if isinstance(expected, np.ndarray):
        assert_allclose(read(), expected, atol=1e-9 * np.abs(expected).max())
    else:
        assert read() == expected


def test_clock_is_in_minutes_beyond_two() -> None:
    figure = plots.plot_timeline({"p": [(0.0, 600.0, "a")]}, np.ones(4000))
    figure.draw_without_rendering()
    assert "5:00" in [tick.get_text() for tick in figure.axes[0].get_xticklabels()]
    assert figure.axes[0].get_xlabel() == "minutes:seconds"


def test_contradicted_regions_have_frames_and_words() -> None:
    found = {"good": [40, 80, 120], "bad": [100, 110, 120]}
    top, bottom = plots.plot_annotations(SIGNAL, found, REGIONS).axes[1:]
    assert top.get_title(loc="left") == "good: 2 changes, 0 of 3 contradicted"
    framed = [[p for p in ax.patches if not p.get_fill()] for ax in (top, bottom)]
    assert [len(patches) for patches in framed] == [0, 2]
    assert framed[1][0].get_x() == pytest.approx(35 - 0.5, abs=0.51)
    assert (texts(top), texts(bottom)) == ([], ["missed", "too many"])
    means = [segment[0][1] for segment in top.collections[1].get_segments()]
    assert_allclose(means, [0, 2, 0])


def test_every_class_is_one_line_of_its_points_in_every_panel() -> None:
    figure = plots.plot_embeddings({"before": POINTS, "after": -POINTS}, list("abbaac"))
    left, right = figure.axes[1:]
    assert [line.get_label() for line in left.lines] == ["a", "b", "c"]
    np.testing.assert_array_equal(np.transpose(right.lines[0].get_data()), -POINTS[[0, 3, 4]])
    assert (left.get_legend(), legend(right)) == (None, ["a", "b", "c"])
    _, many = plots.plot_embeddings({"all": np.eye(26)[:, :2]}, range(26)).axes
    assert len({(line.get_color(), line.get_marker()) for line in many.lines}) == 26
    assert many.get_legend() is None


def test_one_column_per_image_and_one_row_per_segmentation() -> None:
    pytest.importorskip("skimage")
    images = [np.full((30, 40, 3), 200, dtype=np.uint8), np.full((20, 30, 3), 0.5)]
    halves = [
        np.repeat(np.arange(w) >= c, h).reshape(w, h).T for w, h, c in ((40, 30, 20), (30, 20, 9))
    ]
    rows = {"people": halves, "learned": [np.zeros((30, 40)), halves[1]]}
    captions = {"learned": ["loss 1.00", "loss 0.00"]}
    figure = plots.plot_image_segmentations(images, rows, captions, ["first", "second"], "Title")
    axes = np.array(figure.axes).reshape(3, 2)
    assert [ax.get_title() for ax in axes[0]] == ["first", "second"]
    assert [ax.get_ylabel() for ax in axes[:, 0]] == ["original", "people", "learned"]
    assert [ax.get_xlabel() for ax in axes[2]] == ["loss 1.00", "loss 0.00"]
    pale = 0.25 + 0.75 * 200 / 255
    colored = [np.abs(ax.images[0].get_array() - pale).max(axis=2) > 1e-6 for ax in axes[1:, 0]]
    assert set(np.flatnonzero(colored[0].any(axis=0))) == {19, 20}  # the edge, and nothing else
    assert not colored[1].any()


@settings(max_examples=10)
@given(power=st.floats(0.2, 3.0), seconds=st.floats(1e-6, 1e3), ratio=st.floats(1.5, 20))
def test_scaling_measures_the_power(power: float, seconds: float, ratio: float) -> None:
    sizes = 100 * ratio ** np.arange(4)
    figure = plots.plot_scaling(sizes[::-1], seconds * (sizes[::-1] / 100) ** power, slope=1)
    start, shown = message_of(figure).rsplit(" ", 1)
    assert start == "Time grows as T to the power"
    assert abs(float(shown) - power) <= 0.005 + 1e-9
    measured, line = (np.array(one.get_xydata()) for one in figure.axes[0].lines)
    assert_allclose(measured[:, 0], sizes)
    assert_allclose(line[-1], measured[-1])
    assert_allclose(line[-1, 1] / line[0, 1], sizes[-1] / sizes[0])


@settings(max_examples=20)
@given(st.text(max_size=60), st.integers(12, 40))
def test_shortened_names_fit_and_keep_both_ends(name: str, length: int) -> None:
    short = shorten(name, length)
    assert len(short) == min(len(name), length)
    assert short[:5] == name[:5]
    assert short[-6:] == name[-6:] if len(name) >= 6 else short == name


# Learners


@pytest.fixture(scope="module")
def learner() -> ChangePointMetricLearner:
    return learn([pd.DataFrame(X, columns=list("abcdef")) for X in XS])


@pytest.mark.parametrize("kind", ["labels", "change-points"])
def test_one_call_draws_signal_truth_and_prediction(learner, kind) -> None:
    ends = [*(np.flatnonzero(np.diff(YS[0])) + 1).tolist(), len(YS[0])]
    figure = learner.plot(XS[0], YS[0] if kind == "labels" else ends)
    count = len(learner.predict_change_points(XS[0]))
    loss = number(-120 * learner.score(XS[0], YS[0]))
    found = f"prediction · {count} segments · loss {loss}"
    assert texts(figure.axes[0]) == ["truth · 5 segments", found, "a, b, e (scaled)"]
    assert texts(learner.plot(XS[0], n_segments=2).axes[0])[0] == "prediction · 2 segments"
    with pytest.raises(ValueError, match="needs one sequence to plot, got 5; pass one of them"):
        learner.plot(XS, YS)
    with pytest.raises(ValueError, match="needs every sample of the data set labeled"):
        learner.plot(XS[0], PartialPartition(120, change_points=[60]))


def test_other_segmenters_draw_too() -> None:
    signal = np.repeat([0.0, 3.0], 20) + np.sin(np.arange(40.0)) / 4
    given = ChangePointMetricLearner(n_segments="given").fit(signal, [20, 40])
    shown = texts(given.plot(signal, [20, 40]).axes[0])
    assert shown == ["truth · 2 segments", "prediction · 2 segments · loss 0", "signal"]
    penalties = PenaltyLearner().fit([signal, signal[::-1]], [[20, 40], [20, 40]])
    assert texts(penalties.plot(signal).axes[0])[0] == "prediction · 2 segments"


def test_members_are_drawn_with_their_losses_and_weights() -> None:
    X, y = XS * 2, YS * 2
    members = {"a": [ml.ChangePointMetricLearner()], "b": [ml.WhitenedMetricLearner()]}
    fitted = ml.Segmenter(members, n_folds=2, verbose=False).fit(X, y)
    (ax,) = plots.plot_members(fitted).axes
    assert_allclose(widths(ax), [one.loss for one in fitted.shares_])
    assert ticks(ax) == [one.family for one in fitted.shares_]
    told = [text.get_text() for text in ax.get_legend().get_texts()]
    assert told[-1] == f"one segment {fitted.validation_.one_segment:.2f}"
    one_boundary = [np.arange(len(X[0])) // 60]
    alone = ml.Segmenter(members["a"][0], verbose=False).fit(X[:1], one_boundary)
    with pytest.raises(ValueError, match="plot_members needs a Segmenter that has left recordings"):
        plots.plot_members(alone)


def test_metrics_are_drawn_for_standardized_features(learner) -> None:
    expected = np.diag(learner.get_mahalanobis_matrix()) * learner.scale_**2
    order = np.argsort(-expected)[: np.count_nonzero(expected)]
    (ax,) = plots.plot_weights(learner).axes
    assert_allclose(widths(ax), expected[order])
    assert ticks(ax) == ["abcdef"[p] for p in order]
    assert widths(plots.plot_weights(Euclidean(standardize=False).fit(XS)).axes[0]) == [1.0] * 6
    X = [np.column_stack([array, np.full(120, 5.0)]) for array in XS]
    with pytest.warns(UserWarning, match="no weight to 1 feature"):
        full = learn(X, metric=FullMetric(), regularizer=Trace(1e-2))
    scale = np.append(full.scale_[:6], 0.0)
    shown = matrix(full)[0].images[0].get_array()
    assert_allclose(shown, full.get_mahalanobis_matrix() * np.outer(scale, scale))


def test_convergence_of_one_learner_and_of_several(learner) -> None:
    trace = learner.solution_.trace
    best, bound = convergence(learner).lines
    np.testing.assert_array_equal(best.get_ydata(), trace.objective)
    np.testing.assert_array_equal(bound.get_ydata(), trace.lower_bound)
    both = plots.plot_convergence({"mine": learner, "yours": learner}, gap=True, seconds=True)
    assert both.get_suptitle().startswith("All methods proven within")
    np.testing.assert_array_equal(both.axes[0].lines[0].get_xdata()[-1:], trace.seconds[-1:])
