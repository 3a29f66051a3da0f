"""What all pictures have in common: sizes, given axes, titles, notebooks and ``plt.show()``."""

import io
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from metriclearn import plots
from metriclearn.estimators.selection.validation import Share, Validation
from metriclearn.problem.regions import EXACTLY_ONE, NO_CHANGE, Region

POINTS = np.arange(12.0).reshape(6, 2)
STRIPS = {"truth": [30, 70, 100], "ours": [31, 70, 100], "euclidean": [30, 50, 100]}
TRACE = {"objective": [5.0, 3.0, 4.0, 2.0], "lower_bound": [-np.inf, 0.0, -1.0, 1.5]}
NAMES = [f"delta1_contrast{p}_mean" for p in range(84)]
SPARSE = np.zeros(300)
SPARSE[[7, 100, 250]] = [90.0, 9.0, 1.0]
WEIGHTS = [[3.0, 1.0, 0.5], [2.0, 0.5, 0.0], [1.0, 0.0, 0.0]]
FOLDS = [[1.0, 3.0], [5.0, 5.0], [6.0, 6.0]]
FREE, BOUND = {"objective": [4.0, 3.0]}, "proven within 25.0 % of the optimum"
LIMITS = [[0.0, 1.0], [1.0, 6.0], [6.0, np.inf]]
TRUTH = [(0.0, 30.0, "speech"), (30.0, 100.0, "music")]
HEARD = [(0.0, 40.0, "speech"), (40.0, 100.0, "music")]
PARTS = {"t": [(0.0, 30.0, ""), (30.0, 60.0, "")], "p": [(0.0, 33.0, ""), (33.0, 60.0, "")]}
REGIONS = [Region(0, 30, NO_CHANGE), Region(35, 46, EXACTLY_ONE), Region(90, 118, NO_CHANGE)]
TOLD = [0.1, 0.3, 0.8, 1.0], [False, False, True, False]
SHARES = [
    Share("trees, own scale, Viterbi", 3.0, 0.7, 2.0),
    Share("scaled, diagonal", 2.5, 0.3, 1.0),
]
CHECKED = Validation(2.0, 9.0, 8.0, 7.0, 40, 0.8, 0.9, 1.0)
FITTED = SimpleNamespace(shares_=SHARES, validation_=CHECKED)
# every picture that can be drawn into given axes
DRAWN: dict[str, Callable[..., Figure]] = {
    "annotations": lambda **more: plots.plot_annotations(
        np.arange(9.0), {"a long name": [4, 9], "b": [9]}, [], **more
    ),
    "segmentation": lambda **more: plots.plot_segmentation(STRIPS, np.arange(100.0), **more),
    "timeline": lambda **more: plots.plot_timeline({"a": [(0.0, 9.0, "x")]}, np.ones(9), **more),
    "weights": lambda **more: plots.plot_weights([0.5, 0.0, 2.0], **more),
    "matrix": lambda **more: plots.plot_metric_matrix(np.diag([1.0, 2.0, 0.0]), **more),
    "large matrix": lambda **more: plots.plot_metric_matrix(
        np.diag(np.arange(84.0)), NAMES, **more
    ),
    "convergence": lambda **more: plots.plot_convergence({"bundle": TRACE}, **more),
    "gap": lambda **more: plots.plot_convergence({"bundle": TRACE}, gap=True, **more),
    "elbow": lambda **more: plots.plot_elbow([1, 2], [9, 4], [[5, np.inf], [0, 5]], 2, **more),
    "path": lambda **more: plots.plot_regularization_path(
        [0.01, 0.1, 1.0], np.eye(3), [3, 1, 2], **more
    ),
    "scaling": lambda **more: plots.plot_scaling([10, 100], [1, 10], 1, **more),
    "members": lambda **more: plots.plot_members(FITTED, **more),
    "margins": lambda **more: plots.plot_margins(
        [4, 8, 12], [0.5, 0.7], -np.arange(12.0), [[3, 5], [7, 9]], **more
    ),
    "reliability": lambda **more: plots.plot_reliability([0.1, 0.9], [False, True], **more),
}

# by the title: what it is the main result of
TITLES: dict[str, Callable[[], Figure]] = {
    "ours is closest to truth: loss 0.130": lambda: plots.plot_segmentation(
        STRIPS, losses={"ours": 0.13, "euclidean": 1.5}
    ),
    "ours and euclidean are closest to truth: loss 0": lambda: plots.plot_segmentation(
        STRIPS, losses={"ours": 0, "euclidean": 0}
    ),
    "1 of 2 features carries 95% of the weight; 1 is zero": lambda: plots.plot_weights([1, 0]),
    "2 of 300 features carry 95% of the weight; 297 are zero": lambda: plots.plot_weights(SPARSE),
    "The metric of 3 features is zero": lambda: plots.plot_metric_matrix(np.zeros((3, 3))),
    "1 direction carries 95% of the metric (rank 1 of 9)": lambda: plots.plot_metric_matrix(
        np.outer(np.arange(9.0), np.arange(9.0))
    ),
    "free: 2 passes, no certified bound": lambda: plots.plot_convergence({"free": FREE}),
    f"bundle: {BOUND} after 4 passes": lambda: plots.plot_convergence({"bundle": TRACE}),
    f"1 of 2 methods {BOUND}": lambda: plots.plot_convergence({"bundle": TRACE, "free": FREE}),
    "2 segments chosen: optimal for penalties from 1.00 to 6.00": lambda: plots.plot_elbow(
        [3, 2, 1], [4, 5, 11], LIMITS, chosen=2
    ),
    "From 3 to 1 of 3 features as the strength grows": lambda: plots.plot_regularization_path(
        [0, 1, 2], WEIGHTS
    ),
    "Strength 1.00 validates best and keeps 2 of 3 features": lambda: (
        plots.plot_regularization_path([0, 1, 2], WEIGHTS, [3, 3, 4])
    ),
    "All together have a loss of 2.00, the best family 2.50: scaled, diagonal": lambda: (
        plots.plot_members(FITTED)
    ),
    "Best family: scaled, diagonal, loss 2.50": lambda: plots.plot_members(
        SimpleNamespace(shares_=SHARES, validation_=None), top=1
    ),
    "predicted agrees with truth in 90 % of the time (2 segments against 2)": lambda: (
        plots.plot_timeline({"truth": TRUTH, "predicted": HEARD})
    ),
    "p has 1 of 1 boundaries of t within 3 s (1 in all)": lambda: plots.plot_timeline(PARTS),
    "0 against 2 of 3 annotated regions contradicted": lambda: plots.plot_annotations(
        np.ones(120), {"good": [40, 80, 120], "bad": [100, 110, 120]}, REGIONS
    ),
    "2 change-points, the least sure one at 8: loss 0.500": lambda: plots.plot_margins(
        [4, 8, 12], [0.7, 0.5], -np.arange(12.0), [[3, 5], [7, 9]]
    ),
    "Calibration error 0.300 of 4 predictions": lambda: plots.plot_reliability(*TOLD, 2),
}


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


def message_of(figure: Figure) -> str:
    return " ".join(figure.get_suptitle().split())


def pixels(figure: Figure) -> np.ndarray:
    figure.savefig(file := io.BytesIO(), format="rgba", dpi=40)
    return np.frombuffer(file.getvalue(), dtype=np.uint8)


@pytest.mark.parametrize("name", DRAWN)
def test_figures_render_wide_and_narrow_and_in_given_axes(name: str) -> None:
    fresh = DRAWN[name]()
    assert message_of(fresh)
    assert len(np.unique(pixels(fresh))) > 10
    narrow = Figure(figsize=(3.5, 5), layout="constrained")
    assert DRAWN[name](ax=narrow.add_subplot()) is narrow
    assert message_of(narrow) == message_of(fresh)
    narrow.canvas.draw()
    (title,) = [text for text in narrow.texts if text.get_text() == narrow.get_suptitle()]
    every = narrow.findobj(Axes)
    labels = [ax.xaxis.label for ax in every if ax.get_xlabel()]
    legends = [ax.get_legend() for ax in every if name == "annotations" and ax.get_legend()]
    for text in (title, *labels, *legends):
        box = text.get_window_extent()
        assert 0 <= box.x0 <= box.x1 <= narrow.bbox.width
    shared = Figure(figsize=(10, 5), layout="constrained")
    left, right = shared.subplots(1, 2)
    assert DRAWN[name](ax=right, title="My $ title") is shared
    assert right.get_title(loc="left") == "My $ title"
    assert not left.get_title(loc="left")


@pytest.mark.parametrize("message", TITLES)
def test_titles(message: str) -> None:
    assert message_of(TITLES[message]()) == message


def test_pictures_load_no_pyplot() -> None:
    draws = "import sys; from metriclearn.plots import plot_weights; plot_weights([1.0])"
    code = f"{draws}; assert 'matplotlib.pyplot' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_pyplot_knows_figures_once_it_is_imported(pyplot: Any) -> None:
    figure = DRAWN["weights"]()
    assert pyplot.gcf() is figure
    pyplot.close(figure)
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(DRAWN["weights"]()))
    thread.start()
    thread.join()
    assert len(made) == 1
    assert not pyplot.get_fignums()


def test_notebooks_show_a_figure_once(pyplot: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyplot shows it at the end of the cell; a figure unknown to pyplot shows where returned."""
    shown: list[bytes] = []
    fake = ModuleType("IPython.display")
    fake.__dict__.update(Image=lambda data: data, display=shown.append)
    monkeypatch.setitem(sys.modules, "IPython.display", fake)
    figure: Any = DRAWN["weights"]()
    figure._ipython_display_()
    assert [picture[:4] for picture in shown] == [b"\x89PNG"]  # this backend shows nothing itself
    monkeypatch.setattr("matplotlib.get_backend", lambda: "inline")
    figure._ipython_display_()
    assert len(shown) == 1
    pyplot.close(figure)  # as at the end of a cell
    figure._ipython_display_()
    assert len(shown) == 2
