"""Data sets: synthetic, public, and the user's own files.

The public names are in ``__init__.pyi`` and load on first use.
"""

from importlib import import_module
from typing import Any

import lazy_loader

from metriclearn.running.extras import gone

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Load a public name. Each data set once had a loader; the error names its successor."""
    if name in __all__ or not name.startswith("load_"):
        return _public(name)
    of = {"load_letters": "letter"}.get(name, name.removeprefix("load_"))
    source = import_module(f"{__name__}.registry").SOURCES.get(of)
    if source is None:
        return _public(name)
    told = f'There is no {__name__}.{name}; call {__name__}.load_dataset("{of}", …).'
    raise gone(told)
