"""Figures that show exactly once: when returned in a notebook, or under plt.show()."""

from __future__ import annotations

import io
import sys
import threading

import matplotlib
from matplotlib.figure import Figure


class ShownFigure(Figure):
    """A figure that a notebook shows when returned, unless pyplot is about to show it."""

    def _ipython_display_(self) -> None:
        from IPython.display import Image, display

        pyplot = sys.modules.get("matplotlib.pyplot")
        number = getattr(self, "number", None)  # pyplot set it, but may have closed the figure
        managed = pyplot is not None and number is not None and pyplot.fignum_exists(number)
        if not managed or matplotlib.get_backend().lower() == "agg":
            self.savefig(file := io.BytesIO(), format="png", dpi=self.dpi)
            display(Image(file.getvalue()))


def new_figure(size: tuple[float, float]) -> Figure:
    """A figure of ``size`` inches.

    In the main thread, pyplot manages it if it was imported, so that ``plt.show()`` and
    ``plt.savefig`` find it. Servers and threads do not import pyplot, and their figures are freed
    after use.
    """
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None or threading.current_thread() is not threading.main_thread():
        return ShownFigure(figsize=size, layout="constrained")
    return pyplot.figure(figsize=size, layout="constrained", FigureClass=ShownFigure)
