"""The time-line figure."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from metriclearn.plots.timeline import plot_timeline

TRUTH = [(0.0, 30.0, "speech"), (30.0, 100.0, "music")]
FOUND = [(0.0, 40.0, "speech"), (40.0, 100.0, "music")]


def test_message_counts_the_time_that_agrees() -> None:
    figure = plot_timeline({"truth": TRUTH, "predicted": FOUND})
    assert "predicted agrees with truth in 90 % of the time" in figure.get_suptitle()
    alone = plot_timeline({"predicted": FOUND})
    assert alone.get_suptitle() == "2 segments: 60 % music, 40 % speech"


def test_equal_labels_have_equal_colors_at_their_seconds() -> None:
    ax = plot_timeline({"truth": TRUTH, "predicted": FOUND}).axes[0]
    bars = [p for p in ax.patches if isinstance(p, Rectangle) and p.get_width() > 0]
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
    figure = plot_timeline({"p": long}, np.random.default_rng(0).normal(size=4000))
    figure.draw_without_rendering()
    labels = [tick.get_text() for tick in figure.axes[0].get_xticklabels()]
    assert "5:00" in labels
    assert figure.axes[0].get_xlabel() == "minutes:seconds"


def test_pictures_and_sound_fill_the_whole_length() -> None:
    pictures = [np.zeros((4, 6, 3), dtype=np.uint8)] * 5
    figure = plot_timeline({"p": TRUTH}, np.ones(10), pictures)
    extents = [image.get_extent()[:2] for image in figure.axes[0].images]
    np.testing.assert_allclose(extents, [(20 * i, 20 * i + 20) for i in range(5)])
