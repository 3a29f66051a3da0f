"""Figures that are shown exactly once, either by a notebook that gets them or by plt.show()."""

from __future__ import annotations

import io
import sys
import threading

import matplotlib
from matplotlib.figure import Figure


class ShownFigure(Figure):
    """A figure that a notebook shows as the result of a cell, unless pyplot will show it."""

    def _ipython_display_(self) -> None:
        from IPython.display import Image, display

        pyplot = sys.modules.get("matplotlib.pyplot")
        number = getattr(self, "number", None)  # pyplot set it, but may have closed the figure
        managed = pyplot is not None and number is not None and pyplot.fignum_exists(number)
        if not managed or matplotlib.get_backend().lower() == "agg":
            self.savefig(file := io.BytesIO(), format="png", dpi=self.dpi)
            display(Image(file.getvalue()))


def new_figure(size: tuple[float, float]) -> Figure:
    """Make a figure of ``size`` inches.

    If pyplot was imported, it manages figures that are made in the main thread, so that
    ``plt.show()`` and ``plt.savefig`` work. Other figures, for example on servers and in threads,
    are freed after use.
    """
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None or threading.current_thread() is not threading.main_thread():
        return ShownFigure(figsize=size, layout="constrained")
    return pyplot.figure(figsize=size, layout="constrained", FigureClass=ShownFigure)
