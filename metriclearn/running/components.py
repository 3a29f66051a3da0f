"""Components of estimators: parameters that have parameters, copied before a change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator, clone

from metriclearn.running.parameters import Needs


class ComponentParameters(BaseEstimator):
    """Parameters as in scikit-learn, except that a nested change replaces the component by a copy.

    So all instances can share a component as their default value. The table ``PARAMETERS`` lists
    the accepted values, see :func:`check_parameters`.
    """

    PARAMETERS: ClassVar[Mapping[str, Needs]] = {}

    def set_params(self, **params: Any) -> Self:
        """Set parameters, including those of components as ``component__parameter``."""
        nested = {name.split("__")[0] for name in params if "__" in name}
        for name in nested & set(self.get_params(deep=False)):
            if name not in params and hasattr(getattr(self, name), "get_params"):
                setattr(self, name, clone(getattr(self, name)))
        return super().set_params(**params)
