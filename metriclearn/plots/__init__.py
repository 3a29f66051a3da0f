"""Figures: every function returns a matplotlib Figure.

The title of a figure states its main result. A notebook shows the returned figure. If pyplot has
been imported, ``plt.show()`` also shows the figures. No module here imports pyplot, so the
functions work on servers and in threads. ``figure.savefig("name.png")`` saves a figure.

The public names are listed in ``__init__.pyi`` and load on first use.
"""

import lazy_loader

from metriclearn.running.extras import optional

optional("matplotlib", "plots")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
