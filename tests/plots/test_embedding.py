"""Scatter of labeled samples: what is drawn, and the errors."""

from __future__ import annotations

import numpy as np

from metriclearn.plots import plot_embeddings

POINTS = np.arange(12.0).reshape(6, 2)


def test_every_class_is_one_line_of_its_points_in_every_panel() -> None:
    figure = plot_embeddings({"before": POINTS, "after": -POINTS}, list("abbaac"), "A $ message")
    left, right = figure.axes
    assert [line.get_label() for line in left.lines] == ["a", "b", "c"]
    np.testing.assert_array_equal(np.transpose(left.lines[1].get_data()), POINTS[[1, 2]])
    np.testing.assert_array_equal(np.transpose(right.lines[0].get_data()), -POINTS[[0, 3, 4]])
    styles = {(line.get_color(), line.get_marker()) for line in left.lines}
    assert len(styles) == 3
    assert left.get_legend() is None
    assert right.get_legend() is not None


def test_twenty_six_classes_are_told_apart() -> None:
    points = np.random.default_rng(0).normal(size=(52, 2))
    figure = plot_embeddings({"all": points}, np.arange(52) % 26)
    (ax,) = figure.axes
    assert len({(line.get_color(), line.get_marker()) for line in ax.lines}) == 26
    assert ax.get_legend() is None
