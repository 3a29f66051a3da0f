"""Pictures of segmented images, and of the error of random features."""

from __future__ import annotations

import numpy as np
import pytest

from metriclearn.plots import plot_image_segmentations, plot_kernel_error, plot_learned_scales

pytest.importorskip("skimage")


def test_one_column_per_image_and_one_row_per_segmentation() -> None:
    images = [np.full((30, 40, 3), 200, dtype=np.uint8), np.full((20, 30, 3), 0.5)]
    halves = [
        (np.arange(40) >= 20) * np.ones((30, 1), int),
        (np.arange(30) >= 9) * np.ones((20, 1)),
    ]
    figure = plot_image_segmentations(
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


def test_slope_of_the_error_is_in_the_title() -> None:
    counts = [10, 100, 1000]
    errors = np.column_stack([1 / np.sqrt(counts), -1 / np.sqrt(counts)])
    figure = plot_kernel_error(counts, np.abs(errors), "the objective")
    assert "D^-0.50" in figure.get_suptitle()


def test_learned_scales_in_the_units_of_features() -> None:
    figure = plot_learned_scales(
        [4.0, 0.01, 0.0, 1.0], [0.25, 10.0, 1.0, 0.1], ["x [widths]", "L [Lab]", "no", "share [1]"]
    )
    (ax,) = figure.axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["L", "x", "share"]
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([1.0, 0.5, 0.1])  # type: ignore[attr-defined]
    assert [text.get_text().strip() for text in ax.texts] == ["10.0 Lab", "0.500 widths", "1.00"]
    assert "(1 not used)" in figure.get_suptitle()
