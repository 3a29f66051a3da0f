"""Figures: every function returns a matplotlib Figure.

The title of a figure says its message. A notebook shows the returned figure. Where pyplot has been
imported figures are its figures, too, and ``plt.show()`` shows them; nothing here imports it, so
the functions work on servers and in threads; save with ``figure.savefig("name.png")``.

The public names stand in ``__init__.pyi`` and load on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
