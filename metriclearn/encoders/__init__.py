"""Torch networks whose features are learned by minimizing the structured hinge."""

from typing import Any

import lazy_loader

from metriclearn.running.extras import optional

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Load a public name. If a package is missing, the error says how to install it."""
    if name in __all__:
        optional("torch", "deep")
        optional("safetensors", "deep")
    return _public(name)
