"""What every change-point estimator with a metric can do once it is fitted."""

from __future__ import annotations

import numbers
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from metriclearn.forms import LowRankForm, center
from metriclearn.inputs import DataSets, read_data_sets, read_segmentations, read_weights
from metriclearn.losses import FrobeniusLoss
from metriclearn.oracles.change_points import ChangePoints
from metriclearn.parameters import ComponentParameters
from metriclearn.partition import Partition

__all__ = ["MahalanobisSegmenter"]


class MahalanobisSegmenter(  # type: ignore[call-arg]
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ComponentParameters,
    auto_wrap_output_keys=None,
):
    """Predictions of a fitted metric ``components_`` with a ``penalty_`` per segment.

    Whatever takes several data sets takes one (T, P) array too, and then returns one result.
    Subclasses fit ``components_`` (r, P), ``penalty_`` and ``n_features_in_``, and have the
    parameters ``n_segments`` (None or "given") and ``min_size``.
    """

    components_: NDArray
    penalty_: float | None
    n_features_in_: int
    n_segments: str | None
    min_size: int

    def predict_change_points(self, X: Any, n_segments: Any = None) -> Any:
        """Change-points of every data set, as in ruptures: segment ends, the last one T.

        Parameters
        ----------
        X : (T, P) array or sequence of them
        n_segments : int or sequence of int, optional
            Number of segments; by default it follows from ``penalty_``.

        Returns
        -------
        int array (K,), or a list of them
        """
        data = self._read(X)
        partitions = self._segment(data, n_segments)
        ends = [partition.change_points for partition in partitions]
        return ends[0] if data.single else ends

    def predict(self, X: Any, n_segments: Any = None) -> Any:
        """Segment number of every sample, 0 … K−1, (T,) for each data set."""
        data = self._read(X)
        labels = [partition.labels for partition in self._segment(data, n_segments)]
        return labels[0] if data.single else labels

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Minus the mean loss ℓ = ‖M − N‖²_F / T against the labels, at best 0.

        With ``n_segments="given"`` the numbers of segments are those of y.
        """
        data = self._read(X)
        truths = read_segmentations(type(self).__name__, y, data)
        counts = [t.n_clusters for t in truths] if self.n_segments == "given" else None
        loss = FrobeniusLoss()
        found = self._segment(data, counts)
        losses = np.array([loss(partition, truth) for partition, truth in zip(found, truths)])
        weights = read_weights(type(self).__name__, sample_weight, len(losses))
        return -float(np.average(losses, weights=weights))

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
        who = type(self).__name__
        data = read_data_sets(who, X)
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

    def _segment(self, data: DataSets, n_segments: Any) -> list[Partition]:
        if n_segments is None and self.penalty_ is None:
            raise ValueError(
                f"{type(self).__name__} was fitted with n_segments='given' and has no penalty; "
                "pass n_segments to predict, or fit with n_segments=None."
            )
        counts = self._counts(n_segments, data)
        return [self._segment_one(X, count) for X, count in zip(data.arrays, counts)]

    def _counts(self, n_segments: Any, data: DataSets) -> list[int | None]:
        """One number of segments, or None, per data set."""
        several = isinstance(n_segments, (Sequence, np.ndarray)) and not isinstance(n_segments, str)
        counts = list(n_segments) if several else [n_segments] * len(data.arrays)
        if len(counts) != len(data.arrays):
            raise ValueError(
                f"{type(self).__name__} needs one n_segments for each of the {len(data.arrays)} "
                f"data sets, or one for all, got {len(counts)}."
            )
        for i, (count, array) in enumerate(zip(counts, data.arrays)):
            most = len(array) // self.min_size
            if count is None:
                continue
            if not isinstance(count, numbers.Integral) or not 1 <= int(count) <= most:
                raise ValueError(
                    f"{type(self).__name__} needs a whole n_segments from 1 to {most} for the "
                    f"{len(array)} samples of data set {i}, got {count!r}."
                )
        return counts

    def _segment_one(self, X: NDArray, count: int | None) -> Partition:
        some = len(self.components_) > 0
        form = LowRankForm(center(X) @ self.components_.T if some else np.zeros((len(X), 1)))
        if count is None:
            assert self.penalty_ is not None
            form.shift = -self.penalty_
            return ChangePoints(min(self.min_size, len(X)))(form)
        return ChangePoints(self.min_size)(form, int(count))

    def _to_frame(self, Z: NDArray, X: Any) -> Any:
        from sklearn import get_config

        config = getattr(self, "_sklearn_output_config", {}).get("transform")
        if (config or get_config()["transform_output"]) != "pandas":
            return Z
        import pandas as pd

        index = getattr(X, "index", None) if hasattr(X, "columns") else None
        return pd.DataFrame(Z, columns=self.get_feature_names_out(), index=index)
