"""EachSample: apply a transformer of scikit-learn, such as PCA, to lists of sequences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from metriclearn.running.components import ComponentParameters
from metriclearn.running.parameters import Of, check_parameters, real_array

_LARGEST = 1e150


@dataclass(eq=False, repr=False)
class EachSample(TransformerMixin, ComponentParameters):  # type: ignore[call-arg]
    """Apply a transformer of scikit-learn to every sample of every sequence.

    Transformers of scikit-learn take one array. ``EachSample`` fits such a transformer to the
    samples of all sequences together, and then transforms each sequence. So the transformer can be
    used in a pipeline with a learner of sequences.

    Parameters
    ----------
    transformer : transformer
        A transformer such as ``PCA(10)``. A scaler is not needed, since learners standardize
        features themselves.

    Attributes
    ----------
    transformer_ : fitted transformer

    Raises
    ------
    ValueError
        If a sequence is not a table of finite numbers, or if sequences differ in the number of
        features.
    TypeError
        If a value is not a real number.

    See Also
    --------
    ChangePointMetricLearner : standardizes features itself.

    Examples
    --------
    >>> from sklearn.decomposition import PCA
    >>> from sklearn.pipeline import make_pipeline
    >>> from metriclearn import ChangePointMetricLearner, EachSample
    >>> from metriclearn.datasets import make_change_points
    >>> data = make_change_points(random_state=0)
    >>> pipeline = make_pipeline(EachSample(PCA(5)), ChangePointMetricLearner())
    >>> pipeline.fit(data.sequences, data.labels)[-1].components_.shape[1]
    5
    """

    transformer: Annotated[Any, Of("transform", "PCA(10)")]

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the transformer to all samples. ``y`` is not used.

        Parameters
        ----------
        X : (T, P) array or sequence of them
        """
        check_parameters(self)
        several = _several(X)
        arrays = [real_array("EachSample", "X", one) for one in (X if several else [X])]
        if len({array.shape[1] for array in arrays}) > 1:
            raise ValueError(
                "EachSample needs sequences with the same number of features, got "
                f"{[array.shape[1] for array in arrays][:8]}."
            )
        if max(np.abs(array).max() for array in arrays) > _LARGEST:
            raise ValueError(
                f"EachSample needs numbers up to {_LARGEST:g}, whose squares can be added, got "
                "larger ones; change the unit of the data."
            )
        # Data frames keep their names.
        self.transformer_ = clone(self.transformer).fit(np.vstack(arrays) if several else X)
        return self

    def transform(self, X: Any) -> Any:
        """Transform one array, or every array in a list."""
        check_is_fitted(self)
        several = _several(X)
        for one in X if several else [X]:
            real_array("EachSample", "X", one)
        if several:
            return [self.transformer_.transform(one) for one in X]
        return self.transformer_.transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray:
        """Return the names of the new features, as the fitted transformer gives them."""
        return self.transformer_.get_feature_names_out(input_features)


def _several(X: Any) -> bool:
    """Return whether X is a list of tables of samples, not one table."""
    if not isinstance(X, (list, tuple)) or not X:
        return False
    first: Any = X[0]
    if hasattr(first, "ndim"):
        return first.ndim == 2
    return isinstance(first, (list, tuple)) and bool(first) and np.iterable(first[0])
