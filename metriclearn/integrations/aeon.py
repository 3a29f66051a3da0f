"""A segmenter of aeon that learns its metric from a labeled series."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from metriclearn.integrations.fitting import fit_segmenter
from metriclearn.running import note, optional

BaseSegmenter: Any = optional("aeon.segmentation.base", "aeon").BaseSegmenter


class MetricSegmenter(BaseSegmenter):
    """Segment a series with a metric and a segment penalty that are learned from labels.

    ``fit(X, y)`` learns from a labeled series. y is −1 for unlabeled samples. So labels of a part
    of a series suffice to segment all of it. To learn from several labeled series, fit the learner
    to them first, pass the fitted learner, and call ``fit(X)``. If aeon clones the segmenter, pass
    the learner in a :class:`sklearn.frozen.FrozenEstimator`. If there are no labels and the learner
    is not fitted, the metric is the Euclidean metric of standardized channels.

    Parameters
    ----------
    learner, penalty : see :func:`~metriclearn.integrations.fitting.fit_segmenter`

    Attributes
    ----------
    segmenter_ : the fitted learner

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.integrations.aeon import MetricSegmenter
    >>> noise = np.random.default_rng(0).normal(size=(2, 60))
    >>> X = noise * [[1.0], [9.0]] + [np.repeat([0.0, 5.0, 0.0], 20), np.zeros(60)]
    >>> y = np.repeat([0, 1, -1], [20, 20, 20])
    >>> np.flatnonzero(np.diff(MetricSegmenter().fit(X, y).predict(X))) + 1
    array([20, 40])
    """

    _tags: ClassVar[dict[str, Any]] = {
        "X_inner_type": "np.ndarray",
        "capability:multivariate": True,
        "fit_is_empty": False,
        "returns_dense": False,
    }

    def __init__(self, learner: Any = None, penalty: float | None = None) -> None:
        self.learner = learner
        self.penalty = penalty
        super().__init__(axis=0, n_segments=None)

    def _fit(self, X: NDArray, y: Any) -> Self:
        labels = None if y is None else np.asarray(y).ravel()
        if labels is not None and len(labels) != len(X):
            note(
                f"MetricSegmenter needs one label for each of the {len(X)} time points, got "
                f"{len(labels)}; the series is fitted as one without labels."
            )
            labels = None
        labelings = None if labels is None else [labels]
        self.segmenter_ = fit_segmenter(self, [X], labelings)
        return self

    def _predict(self, X: NDArray) -> NDArray:
        """Name of every time point, (T,), or the number of its segment if labels are no names."""
        return self.segmenter_.predict(X)
