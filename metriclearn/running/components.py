"""Components of estimators: parameters that are objects and have parameters themselves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone

from metriclearn.running.parameters import UNCHECKED, requirements
from metriclearn.running.values import whole


class ComponentParameters(BaseEstimator):
    """Base class of estimators that copy a component before they change its parameters.

    Parameters work as in scikit-learn. But if ``set_params`` changes a parameter of a component, it
    replaces the component by a changed copy. So all instances can share a component as their
    default value. Whole numbers of any type become Python ints, which do not overflow. If a
    parameter of a fitted estimator is set, the next prediction checks the parameters again.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, whole(value) if isinstance(value, np.integer) else value)
        if "n_features_in_" in vars(self) and name in requirements(type(self)):
            self.__dict__[UNCHECKED] = True

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the object to one file, see :func:`metriclearn.save`."""
        import metriclearn

        return metriclearn.save(self, path)

    def set_params(self, **params: Any) -> Self:
        """Set parameters. ``component__parameter`` names a parameter of a component."""
        nested = {name.split("__")[0] for name in params if "__" in name}
        for name in nested & set(self.get_params(deep=False)):
            if name not in params and hasattr(getattr(self, name), "get_params"):
                setattr(self, name, clone(getattr(self, name)))
        return super().set_params(**params)
