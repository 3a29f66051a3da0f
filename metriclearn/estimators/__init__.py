"""Estimators for users, with the interface of scikit-learn."""

from typing import Any

import lazy_loader

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Load a public name. The error for a learner that is gone names its successor."""
    if name == "ChangePointMetricLearnerCV":
        from metriclearn import GONE
        from metriclearn.running.extras import gone

        raise gone(f"{__name__} has no {name} any more; {GONE[name]}.")
    return _public(name)
