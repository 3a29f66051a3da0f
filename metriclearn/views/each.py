"""Each: apply a transformer of scikit-learn, such as PCA, to lists of recordings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from metriclearn.running.parameters import Of
from metriclearn.running.values import check_scale
from metriclearn.views.plain import PlainView, is_one


@dataclass(eq=False, repr=False)
class Each(PlainView):
    """Apply a transformer of scikit-learn to every row of every recording.

    Transformers of scikit-learn take one array. ``Each`` fits such a transformer to the rows of all
    recordings together, and then transforms each recording. So the transformer can be used with a
    learner of recordings.

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
        If a recording is not a table of finite numbers, if recordings differ in the number of
        columns, or if the transformer needs labels.
    TypeError
        If a value is not a real number.

    See Also
    --------
    ChangePointMetricLearner : standardizes features itself.

    Examples
    --------
    >>> from sklearn.decomposition import PCA
    >>> from sklearn.pipeline import make_pipeline
    >>> from metriclearn import ChangePointMetricLearner
    >>> from metriclearn.views import Each
    >>> from metriclearn.datasets import make_change_points
    >>> data = make_change_points(random_state=0)
    >>> pipeline = make_pipeline(Each(PCA(5)), ChangePointMetricLearner())
    >>> pipeline.fit(data.sequences, data.labels)[-1].components_.shape[1]
    5
    """

    transformer: Annotated[Any, Of("transform", "PCA(10)")]

    def fit(self, X: Any, y: Any = None, groups: ArrayLike | None = None) -> Self:
        """Fit the transformer to all rows. ``y`` and ``groups`` are not used."""
        arrays = self.begin(X)
        for array in arrays:
            check_scale(type(self).__name__, array)
        tags = getattr(self.transformer, "__sklearn_tags__", None)
        if tags is not None and tags().target_tags.required:
            raise ValueError(
                "Each needs a transformer that learns without labels, such as PCA(10), got "
                f"{self.transformer!r}; views such as Whiten and Posteriors learn from labels."
            )
        # Data frames keep their names.
        self.transformer_ = clone(self.transformer).fit(X if is_one(X) else np.vstack(arrays))
        return self

    def transform(self, X: Any) -> Any:
        """Transform every recording."""
        check_is_fitted(self)
        arrays = self.read(X)
        return self.rows(X) if is_one(X) else list(map(self.rows, arrays))

    def rows(self, X: Any) -> Any:
        """Transform one recording."""
        return self.transformer_.transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray:
        """Return the names of the new columns, as the fitted transformer gives them."""
        return self.transformer_.get_feature_names_out(input_features)
