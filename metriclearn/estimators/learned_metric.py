"""Methods of all estimators with a fitted metric, named as in the package metric-learn."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from metriclearn.estimators.reading.data_sets import DataSets, read_new
from metriclearn.running.components import ComponentParameters
from metriclearn.running.extras import optional
from metriclearn.running.notes import note
from metriclearn.running.values import real_array


@runtime_checkable
class MetricEstimator(Protocol):
    """An estimator that learns a metric with ``components_`` = Lᵀ; it may be from any package."""

    def fit(self, X: Any, y: Any) -> Any:
        """Learn from data sets and their labels."""
        ...


class LearnedMetric(  # type: ignore[call-arg]
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ComponentParameters,
    auto_wrap_output_keys=None,
):
    """The methods of a learned metric, named as in the package metric-learn.

    These methods use the fitted ``components_`` = Lᵀ, (r, P), where B = LLᵀ is the metric.

    A method that takes several data sets also takes a single (T, P) array. The method then
    returns one result instead of a list. Subclasses fit ``components_`` and call
    :func:`~metriclearn.estimators.reading.data_sets.keep_features`.
    """

    components_: NDArray
    n_features_in_: int

    def transform(self, X: Any) -> Any:
        """Compute X L, (T, r). Euclidean distances between its rows are learned distances."""
        data = self.read_data(X)
        if len(self.components_) == 0:
            note(
                f"{type(self).__name__} transforms to tables without a column, as its metric is 0; "
                "fit again with less regularization, or with labels that differ."
            )
        found: list[Any] = [rows @ self.components_.T for rows in self.rows_of(data)]
        config = getattr(self, "_sklearn_output_config", {}).get("transform")
        if (config or get_config()["transform_output"]) == "pandas":
            pd, names = optional("pandas", "tables"), self.get_feature_names_out()
            index = getattr(X, "index", None) if hasattr(X, "columns") else None
            found = [pd.DataFrame(rows, columns=names, index=index) for rows in found]
        return data.as_passed(found)

    def pair_distance(self, pairs: ArrayLike) -> NDArray:
        """Compute the learned distance √((x−x′)ᵀB(x−x′)) of every pair, (n, 2, P) -> (n,)."""
        self._check_single_samples()
        pairs = real_array(type(self).__name__, "pairs", pairs, None)
        if pairs.shape[1:] != (2, self.n_features_in_):
            raise ValueError(
                f"{type(self).__name__} needs pairs of shape (n, 2, {self.n_features_in_}), "
                f"got {pairs.shape}."
            )
        return np.linalg.norm((pairs[:, 0] - pairs[:, 1]) @ self.components_.T, axis=1)

    def get_metric(self) -> Callable[..., float]:
        """Return a function ``metric(u, v, squared=False)`` that computes the learned distance.

        u and v are two samples. The function can be passed to scikit-learn, for example as
        ``NearestNeighbors(metric=learner.get_metric())``. The function stays the same if the
        learner is fitted again.
        """
        self._check_single_samples()
        components = self.components_.copy()

        def metric(u: ArrayLike, v: ArrayLike, squared: bool = False) -> float:
            difference = components @ (np.asarray(u, dtype=float) - np.asarray(v, dtype=float))
            square = float(difference @ difference)
            return square if squared else float(np.sqrt(square))

        return metric

    def get_mahalanobis_matrix(self) -> NDArray:
        """Return the matrix B = LLᵀ, (P, P), for data in their original units."""
        check_is_fitted(self)
        return self.components_.T @ self.components_

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose whether ``transform`` returns arrays ("default") or data frames ("pandas")."""
        if transform not in (None, "default", "pandas"):
            raise ValueError(
                f'{type(self).__name__} needs "default" or "pandas" output, got {transform!r}.'
            )
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def with_score(self, score: Any) -> Self:
        """Return a copy of this learner that predicts with a score."""
        other: Any = copy.copy(self)
        other.score_ = score
        return other

    def read_data(self, X: Any) -> DataSets:
        """Read data, and check that they have the features of the training data."""
        check_is_fitted(self)
        return read_new(self, X, self._view)

    @property
    def _view(self) -> Any:
        """The view before the metric; None if there is none."""
        return getattr(getattr(self, "score_", None), "view", None)

    def _check_single_samples(self) -> None:
        """Raise a TypeError if the metric gives no distances of single samples."""
        check_is_fitted(self)
        if self._view is not None:
            raise TypeError(
                f"{type(self).__name__} needs whole recordings, because its view sees samples in "
                "their context; use Euclidean distances between rows of transform(X)."
            )

    def rows_of(self, data: DataSets) -> Sequence[NDArray]:
        """Return the rows that the metric sees."""
        return data.arrays
