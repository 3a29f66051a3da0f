"""What every estimator with a fitted Mahalanobis metric can do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from metriclearn.estimators.inputs import DataSets, read_data_sets
from metriclearn.running.parameters import ComponentParameters

__all__ = ["LearnedMetric"]


class LearnedMetric(  # type: ignore[call-arg]
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ComponentParameters,
    auto_wrap_output_keys=None,
):
    """metric-learn's contract for a fitted ``components_`` = Lᵀ, (r, P), with B = LLᵀ.

    Whatever takes several data sets takes one (T, P) array too, and then returns one result.
    Subclasses fit ``components_`` and call :meth:`_remember` with their training data.
    """

    components_: NDArray
    n_features_in_: int

    def transform(self, X: Any) -> Any:
        """X L, so that Euclidean distances are the learned ones, (T, P) -> (T, r)."""
        data = self._read(X)
        results = [self._to_frame(array @ self.components_.T, X) for array in data.arrays]
        return results[0] if data.single else results

    def pair_distance(self, pairs: ArrayLike) -> NDArray:
        """Learned distance √((x−x′)ᵀB(x−x′)) of every pair, (n, 2, P) -> (n,)."""
        check_is_fitted(self)
        pairs = np.asarray(pairs, dtype=np.float64)
        if pairs.ndim != 3 or pairs.shape[1:] != (2, self.n_features_in_):
            raise ValueError(
                f"{type(self).__name__} needs pairs of shape (n, 2, {self.n_features_in_}), "
                f"got {pairs.shape}."
            )
        if not np.all(np.isfinite(pairs)):
            raise ValueError(
                f"{type(self).__name__} needs finite pairs, got NaN or infinity; remove them."
            )
        return np.linalg.norm((pairs[:, 0] - pairs[:, 1]) @ self.components_.T, axis=1)

    def get_mahalanobis_matrix(self) -> NDArray:
        """B = LLᵀ in the units of the data, (P, P)."""
        check_is_fitted(self)
        return self.components_.T @ self.components_

    def set_output(self, *, transform: str | None = None) -> Self:
        """Have ``transform`` return "default" arrays or "pandas" frames, as in scikit-learn."""
        if transform not in (None, "default", "pandas"):
            raise ValueError(
                f'{type(self).__name__} needs "default" or "pandas" output, got {transform!r}.'
            )
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
        return self

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the estimator to one file, see :func:`metriclearn.save`."""
        import metriclearn

        return metriclearn.save(self, path)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _read(self, X: Any) -> DataSets:
        """Check data against what the estimator was fitted on."""
        check_is_fitted(self)
        return self._checked(read_data_sets(type(self).__name__, X))

    def _checked(self, data: DataSets) -> DataSets:
        check_is_fitted(self)
        who = type(self).__name__
        if data.n_features != self.n_features_in_:
            raise ValueError(
                f"X has {data.n_features} features, but {who} is expecting {self.n_features_in_} "
                "features as input."
            )
        fitted = getattr(self, "feature_names_in_", None)
        names = data.feature_names
        if fitted is not None and names is not None and list(fitted) != list(names):
            raise ValueError(
                f"{who} needs the feature names it was fitted with, in that order; the "
                "feature names should match those that were passed during fit."
            )
        return data

    def _remember(self, data: DataSets) -> None:
        """Keep number and names of the features, as scikit-learn does."""
        self.n_features_in_ = data.n_features
        if data.feature_names is not None:
            self.feature_names_in_ = data.feature_names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _to_frame(self, Z: NDArray, X: Any) -> Any:
        from sklearn import get_config

        config = getattr(self, "_sklearn_output_config", {}).get("transform")
        if (config or get_config()["transform_output"]) != "pandas":
            return Z
        import pandas as pd

        index = getattr(X, "index", None) if hasattr(X, "columns") else None
        return pd.DataFrame(Z, columns=self.get_feature_names_out(), index=index)
