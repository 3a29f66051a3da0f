"""Base of transformers that learn nothing: fit checks parameters, transform needs no fit."""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import TransformerMixin
from sklearn.utils import Tags

from metriclearn.running.components import ComponentParameters
from metriclearn.running.parameters import Needs, check_parameters

SEQUENCES = Needs(
    "a list {name} of sequences", lambda X: not isinstance(X, (str, bytes)) and len(X) >= 0
)


class Descriptor(Protocol):
    """Maps pictures (n, H, W, 3) of values from 0 to 255, or windows of sound (n, …), to (n, P)."""

    def transform(self, X: ArrayLike, /) -> NDArray[np.float64]:
        """Compute descriptors, one row per picture or window."""
        ...

    def get_feature_names_out(self) -> NDArray:
        """Return the names of the P columns."""
        ...


class StatelessTransformer(  # type: ignore[call-arg]
    TransformerMixin, ComponentParameters, auto_wrap_output_keys=None
):
    """A transformer that learns nothing: ``transform`` works without ``fit``."""

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Check the parameters. Nothing is learned."""
        check_parameters(self)
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.no_validation = True
        return tags
