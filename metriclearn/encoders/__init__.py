"""Networks that learn features under the structured hinge (torch)."""

from typing import Any

import lazy_loader

from metriclearn.running.extras import optional

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Load a public name, or name the command that installs its missing package."""
    if name in __all__:
        optional("torch", "deep")
        optional("safetensors", "deep")
    return _public(name)
