"""Pictures of annotated series, time lines, samples and images."""

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

import metriclearn.plots as plots
from metriclearn.problem.regions import EXACTLY_ONE, NO_CHANGE, Region

TRUTH = [(0.0, 30.0, "speech"), (30.0, 100.0, "music")]
PREDICTED = [(0.0, 40.0, "speech"), (40.0, 100.0, "music")]
SIGNAL = np.repeat([0.0, 2.0, 0.0], 40) + np.random.default_rng(0).normal(0, 0.2, 120)
REGIONS = [Region(0, 30, NO_CHANGE), Region(35, 46, EXACTLY_ONE), Region(90, 118, NO_CHANGE)]
POINTS = np.arange(12.0).reshape(6, 2)


def rectangles(ax: Axes) -> list[Rectangle]:
    return [patch for patch in ax.patches if isinstance(patch, Rectangle)]


def test_message_counts_the_time_that_agrees() -> None:
    figure = plots.plot_timeline({"truth": TRUTH, "predicted": PREDICTED})
    assert "predicted agrees with truth in 90 % of the time" in figure.get_suptitle()
    alone = plots.plot_timeline({"predicted": PREDICTED})
    assert alone.get_suptitle() == "2 segments: 60 % music, 40 % speech"


def test_equal_labels_have_equal_colors_at_their_seconds() -> None:
    ax = plots.plot_timeline({"truth": TRUTH, "predicted": PREDICTED}).axes[0]
    bars = [bar for bar in rectangles(ax) if bar.get_width() > 0]
    spans = [(bar.get_x(), bar.get_width()) for bar in bars]
    assert spans == [(0, 30), (30, 70), (0, 40), (40, 60)]
    colors = [to_hex(bar.get_facecolor()) for bar in bars]
    assert colors[:2] == colors[2:]
    assert colors[0] != colors[1]
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["music", "speech"]


def test_clock_is_in_minutes_beyond_two() -> None:
    long = [(0.0, 600.0, "a")]
    figure = plots.plot_timeline({"p": long}, np.random.default_rng(0).normal(size=4000))
    figure.draw_without_rendering()
    labels = [tick.get_text() for tick in figure.axes[0].get_xticklabels()]
    assert "5:00" in labels
    assert figure.axes[0].get_xlabel() == "minutes:seconds"


def test_pictures_and_sound_fill_the_whole_length() -> None:
    pictures = [np.zeros((4, 6, 3), dtype=np.uint8)] * 5
    figure = plots.plot_timeline({"p": TRUTH}, np.ones(10), pictures)
    extents = [image.get_extent()[:2] for image in figure.axes[0].images]
    np.testing.assert_allclose(extents, [(20 * i, 20 * i + 20) for i in range(5)])


def test_regions_errors_and_message() -> None:
    found = {"good": [40, 80, 120], "bad": [100, 110, 120]}
    figure = plots.plot_annotations(SIGNAL[:, None], found, REGIONS, ylabel="log-ratio")
    assert figure.get_suptitle() == "0 against 2 of 3 annotated regions contradicted"
    top, bottom = figure.axes[1:]
    titles = [ax.get_title(loc="left") for ax in (top, bottom)]
    assert titles == [
        "good: 2 changes, 0 of 3 contradicted",
        "bad: 2 changes, 2 of 3 contradicted",
    ]
    framed = [[p for p in rectangles(ax) if not p.get_fill()] for ax in (top, bottom)]
    assert [len(patches) for patches in framed] == [0, 2]
    assert {text.get_text() for text in bottom.texts} == {"missed", "too many"}
    assert list(top.texts) == []
    missed = framed[1][0]
    assert missed.get_x() == pytest.approx(35 - 0.5, abs=0.51)
    means = top.collections[1].get_segments()
    np.testing.assert_allclose([s[0][1] for s in means], [0, 2, 0], atol=0.2)


def test_every_class_is_one_line_of_its_points_in_every_panel() -> None:
    figure = plots.plot_embeddings(
        {"before": POINTS, "after": -POINTS}, list("abbaac"), "A $ message"
    )
    left, right = figure.axes[1:]
    assert [line.get_label() for line in left.lines] == ["a", "b", "c"]
    np.testing.assert_array_equal(np.transpose(left.lines[1].get_data()), POINTS[[1, 2]])
    np.testing.assert_array_equal(np.transpose(right.lines[0].get_data()), -POINTS[[0, 3, 4]])
    styles = {(line.get_color(), line.get_marker()) for line in left.lines}
    assert len(styles) == 3
    assert left.get_legend() is None
    assert right.get_legend() is not None


def test_twenty_six_classes_look_different() -> None:
    points = np.random.default_rng(0).normal(size=(52, 2))
    figure = plots.plot_embeddings({"all": points}, np.arange(52) % 26)
    _, ax = figure.axes
    assert len({(line.get_color(), line.get_marker()) for line in ax.lines}) == 26
    assert ax.get_legend() is None


def test_one_column_per_image_and_one_row_per_segmentation() -> None:
    pytest.importorskip("skimage")
    images = [np.full((30, 40, 3), 200, dtype=np.uint8), np.full((20, 30, 3), 0.5)]
    halves = [
        (np.arange(40) >= 20) * np.ones((30, 1), int),
        (np.arange(30) >= 9) * np.ones((20, 1)),
    ]
    figure = plots.plot_image_segmentations(
        images,
        {"people": halves, "learned": [np.zeros((30, 40)), halves[1]]},
        {"learned": ["loss 1.00", "loss 0.00"]},
        ["first", "second (worst)"],
        "Learned: 0.5",
    )
    figure.canvas.draw()
    axes = np.array(figure.axes).reshape(3, 2)
    assert [ax.get_title() for ax in axes[0]] == ["first", "second (worst)"]
    assert [ax.get_ylabel() for ax in axes[:, 0]] == ["original", "people", "learned"]
    assert [ax.get_xlabel() for ax in axes[2]] == ["loss 1.00", "loss 0.00"]
    drawn = axes[1, 0].images[0].get_array()
    pale = 0.25 + 0.75 * 200 / 255
    colored = np.abs(drawn - pale).max(axis=2) > 1e-6
    assert set(np.flatnonzero(colored.any(axis=0))) == {19, 20}  # the edge, and nothing else
    assert not (np.abs(axes[2, 0].images[0].get_array() - pale) > 1e-6).any()
