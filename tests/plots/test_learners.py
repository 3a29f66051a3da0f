"""Pictures of fitted learners, and how they show in notebooks and under plt.show()."""

import sys
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metriclearn import ChangePointMetricLearner, FullMetric, PartialPartition, Trace
from metriclearn.baselines import Euclidean, PenaltyLearner
from metriclearn.plots import (
    plot_convergence,
    plot_embeddings,
    plot_metric_matrix,
    plot_segmentation,
    plot_weights,
)
from metriclearn.plots.canvas import number
from tests.training import XS, YS, learn

NAMES = ["a", "b", "c", "d", "e", "f"]


@pytest.fixture(scope="module")
def learner() -> ChangePointMetricLearner:
    return learn([pd.DataFrame(X, columns=NAMES) for X in XS])


@pytest.fixture
def pyplot() -> Iterator[Any]:
    """pyplot, imported as by a user, for one test."""
    before = "matplotlib.pyplot" in sys.modules
    import matplotlib.pyplot as plt

    plt.close("all")
    yield plt
    plt.close("all")
    if not before:
        del sys.modules["matplotlib.pyplot"]


def texts(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def ends(labels: np.ndarray) -> list[int]:
    return [*(np.flatnonzero(np.diff(labels)) + 1).tolist(), len(labels)]


@pytest.mark.parametrize("y", [YS[0], ends(YS[0])], ids=["labels", "change-points"])
def test_one_call_draws_signal_truth_and_prediction(learner, y) -> None:
    figure = learner.plot(XS[0], y)
    count = len(learner.predict_change_points(XS[0]))
    loss = number(-120 * learner.score(XS[0], YS[0]))
    assert texts(figure) == [
        "truth · 5 segments",
        f"prediction · {count} segments · loss {loss}",
        "a, b, e (scaled)",
    ]
    assert texts(learner.plot(XS[0], n_segments=2))[0] == "prediction · 2 segments"


def test_other_segmenters_draw_too() -> None:
    signal = np.repeat([0.0, 3.0], 20) + np.sin(np.arange(40.0)) / 4
    given = ChangePointMetricLearner(n_segments="given").fit(signal, [20, 40])
    shown = texts(given.plot(signal, [20, 40]))
    assert shown == ["truth · 2 segments", "prediction · 2 segments · loss 0", "signal"]
    penalties = PenaltyLearner().fit([signal, signal[::-1]], [[20, 40], [20, 40]])
    assert texts(penalties.plot(signal))[0] == "prediction · 2 segments"


def test_bad_input_is_refused(learner) -> None:
    with pytest.raises(ValueError, match="needs one sequence to plot, got 5; pass one of them"):
        learner.plot(XS, YS)
    with pytest.raises(ValueError, match="needs every sample of the data set labeled"):
        learner.plot(XS[0], PartialPartition(120, change_points=[60]))
    with pytest.raises(ValueError, match="traces: a fitted learner, or names with a table"):
        plot_convergence(ChangePointMetricLearner())


def test_weights_are_those_of_standardized_features(learner) -> None:
    expected = np.diag(learner.get_mahalanobis_matrix()) * learner.scale_**2
    order = np.argsort(-expected)[: np.count_nonzero(expected)]
    (ax,) = plot_weights(learner).axes
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], expected[order])
    assert [tick.get_text() for tick in ax.get_yticklabels()] == [NAMES[p] for p in order]
    plain = Euclidean(standardize=False).fit(XS)
    assert [bar.get_width() for bar in plot_weights(plain).axes[0].patches] == [1.0] * 6


def test_matrix_of_a_learner_with_a_constant_feature() -> None:
    X = [np.column_stack([array, np.full(120, 5.0)]) for array in XS]
    with pytest.warns(UserWarning, match="no weight to 1 feature"):
        full = learn(X, metric=FullMetric(), regularizer=Trace(1e-2))
    matrix = next(ax for ax in plot_metric_matrix(full).axes if ax.images).images[0].get_array()
    scale = np.append(full.scale_[:6], 0.0)
    np.testing.assert_allclose(matrix, full.get_mahalanobis_matrix() * np.outer(scale, scale))


def test_convergence_of_one_learner_and_of_several(learner) -> None:
    trace = learner.solution_.trace
    (ax,) = plot_convergence(learner).axes
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), trace.objective)
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), trace.lower_bound)
    both = plot_convergence({"mine": learner, "yours": learner}, gap=True, seconds=True)
    assert both.get_suptitle().startswith("All methods proven within")
    np.testing.assert_array_equal(both.axes[0].lines[0].get_xdata()[-1:], trace.seconds[-1:])


DRAWN = {
    "segmentation": lambda: plot_segmentation({"truth": [4]}),
    "embeddings": lambda: plot_embeddings({"x": np.eye(2)}, [0, 1]),
}


@pytest.mark.parametrize("name", DRAWN)
def test_pyplot_knows_figures_once_it_is_imported(name, pyplot) -> None:
    figure = DRAWN[name]()
    assert pyplot.gcf() is figure
    pyplot.close(figure)
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(DRAWN[name]()))
    thread.start()
    thread.join()
    assert len(made) == 1
    assert not pyplot.get_fignums()


def test_notebooks_show_a_figure_once(pyplot, monkeypatch) -> None:
    """pyplot shows it at the end of the cell; a figure unknown to pyplot shows where returned."""
    shown: list[bytes] = []
    fake = ModuleType("IPython.display")
    fake.__dict__.update(Image=lambda data: data, display=shown.append)
    monkeypatch.setitem(sys.modules, "IPython.display", fake)
    figure: Any = plot_weights([1.0, 2.0])
    figure._ipython_display_()
    assert [picture[:4] for picture in shown] == [b"\x89PNG"]  # this backend shows nothing itself
    monkeypatch.setattr("matplotlib.get_backend", lambda: "inline")
    figure._ipython_display_()
    assert len(shown) == 1
    pyplot.close(figure)  # as at the end of a cell
    figure._ipython_display_()
    assert len(shown) == 2
