"""A cost of skchange: squared distances to the mean of a segment under a learned metric."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.problem import center, check_squares
from metriclearn.running import metric_factor, optional

BaseCost: Any = optional("skchange.interval_scorers", "skchange").BaseCost
penalties = optional("skchange.penalties", "skchange")
validation = optional("skchange.utils.validation", "skchange")


class MahalanobisCost(BaseCost):
    """The cost Σ_t (x_t − x̄)ᵀ B (x_t − x̄) of a segment, for PELT and other detectors of skchange.

    With the learned ``penalty_``, skchange's PELT has the same optimum as the learner itself. For a
    metric of rank r, ``precompute`` costs O(TPr). After that, every segment costs O(r).

    Parameters
    ----------
    metric : learner, (P, P) matrix B or (P,) weights, optional
        The metric, by default the identity. A learner is a fitted estimator with
        ``get_mahalanobis_matrix``. Put the learner into a :class:`sklearn.frozen.FrozenEstimator`,
        so that it stays fitted when a detector is cloned.

    Attributes
    ----------
    factor_ : array (P, r)
        L with B = LLᵀ.

    Examples
    --------
    >>> import numpy as np
    >>> from skchange.detectors import PELT
    >>> from metriclearn.integrations.skchange import MahalanobisCost
    >>> X = np.random.default_rng(0).normal(size=(40, 2)) * [1.0, 9.0]
    >>> X[20:, 0] += 5.0
    >>> PELT(MahalanobisCost([1.0, 0.0]), penalty=20.0).fit(X).predict(X)
    array([20])
    """

    def __init__(self, metric: Any = None) -> None:
        self.metric = metric

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.interval_scorer_tags.aggregated = True
        return tags

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Store the metric, which must fit the number of features of X. ``y`` is not used."""
        validation.validate_data(self, X, ensure_2d=True, dtype=np.float64, reset=True)
        L = metric_factor(type(self).__name__, self.metric, self.n_features_in_)
        self.factor_ = L[:, np.any(L != 0, axis=0)]
        return self

    def precompute(self, X: ArrayLike) -> dict[str, NDArray]:
        """Compute the cumulative sums of Z = XL, and of the squared norms of its rows."""
        validation.check_is_fitted(self)
        array = validation.validate_data(self, X, ensure_2d=True, dtype=np.float64, reset=False)
        # a common shift changes nothing but the rounding
        Z = check_squares(type(self).__name__, center(array) @ self.factor_)
        columns = np.column_stack([Z, np.sum(Z * Z, axis=1)])
        return {"sums": np.cumsum(np.vstack([0.0 * columns[:1], columns]), axis=0)}

    def evaluate(self, cache: dict[str, NDArray], interval_specs: ArrayLike) -> NDArray[np.float64]:
        """Compute the costs of segments [start, end), (n, 1)."""
        validation.check_is_fitted(self)
        specs = validation.check_interval_specs(
            interval_specs, self.interval_specs_ncols, caller_name=type(self).__name__
        )
        starts, ends = specs.T
        sums = cache["sums"][ends] - cache["sums"][starts]
        means = np.sum(sums[:, :-1] ** 2, axis=1) / (ends - starts)
        return np.maximum(sums[:, -1] - means, 0.0)[:, None]

    def get_default_penalty(self) -> float:
        """Return the learned penalty of a segment or, if there is none, the penalty of the BIC.

        The BIC counts rank(B) parameters for every segment.

        Raises
        ------
        ValueError
            If the learned penalty is in units of each sequence's variance, or depends on features
            or on the names of segments.
        """
        validation.check_is_fitted(self)
        score = getattr(self.metric, "score_", None)
        others = [getattr(score, "unit", None)]
        others += [getattr(self.metric, one, None) for one in ("feature_penalty_", "name_weights_")]
        if any(other is not None for other in others):
            raise ValueError(
                f"{type(self).__name__} needs one penalty for all boundaries, in units of squared "
                "distance, but the metric was learned with penalties of features, names or the "
                "unit of each sequence; pass a penalty to the detector."
            )
        learned = getattr(self.metric, "penalty_", None)
        if learned:
            return float(learned)
        return float(penalties.bic_penalty(self.n_samples_in_, max(self.factor_.shape[1], 1)))
