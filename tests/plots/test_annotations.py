from __future__ import annotations

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from metriclearn.plots import plot_annotations
from metriclearn.problem.knowledge import EXACTLY_ONE, NO_CHANGE, Region

SIGNAL = np.repeat([0.0, 2.0, 0.0], 40) + np.random.default_rng(0).normal(0, 0.2, 120)
REGIONS = [Region(0, 30, NO_CHANGE), Region(35, 46, EXACTLY_ONE), Region(90, 118, NO_CHANGE)]


def test_regions_errors_and_message() -> None:
    found = {"good": [40, 80, 120], "bad": [100, 110, 120]}
    figure = plot_annotations(SIGNAL[:, None], found, REGIONS, ylabel="log-ratio")
    assert figure.get_suptitle() == "Contradicted of 3 annotated regions: good 0, bad 2"
    top, bottom = figure.axes[0].child_axes
    framed = [
        [p for p in ax.patches if isinstance(p, Rectangle) and not p.get_fill()]
        for ax in (top, bottom)
    ]
    assert [len(patches) for patches in framed] == [0, 2]
    assert {text.get_text() for text in bottom.texts} == {"missed", "too many"}
    assert list(top.texts) == []
    missed = framed[1][0]
    assert missed.get_x() == pytest.approx(35 - 0.5, abs=0.51)
    means = top.collections[1].get_segments()
    np.testing.assert_allclose([s[0][1] for s in means], [0, 2, 0], atol=0.2)
