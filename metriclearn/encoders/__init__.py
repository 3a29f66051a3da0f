"""Torch networks whose features are learned by minimizing the structured hinge."""

from typing import Any

import lazy_loader

from metriclearn.running.extras import gone, optional

# Names of earlier versions, and what to use instead.
GONE = {
    "Columns": "use view=Chain([views.Columns(0, stop), Encoder(network)])",
    "EncoderMetricLearner": "use ChangePointMetricLearner(FullMetric(), SquaredFrobenius(1, 1), "
    "standardize=False, retune=True, view=Encoder(network))",
}
_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Load a public name. If a package is missing, the error explains how to install it."""
    if name in GONE:
        raise gone(f"{__name__} has no {name} any more; {GONE[name]}.")
    if name in __all__:
        optional("torch", "deep")
        optional("safetensors", "deep")
    return _public(name)
