"""Estimators whose components are shared as defaults and never changed in place."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import BaseEstimator, clone

__all__ = ["ComponentParameters"]


class ComponentParameters(BaseEstimator):
    """scikit-learn's parameters, except that a nested change replaces the component by a copy.

    So a component may be the default value of a parameter, shared by all instances.
    """

    def set_params(self, **params: Any) -> Self:
        """Set parameters, ``component__parameter`` included."""
        nested = {name.split("__")[0] for name in params if "__" in name}
        for name in nested & set(self.get_params(deep=False)):
            if name not in params and hasattr(getattr(self, name), "get_params"):
                setattr(self, name, clone(getattr(self, name)))
        return super().set_params(**params)
