"""FeaturePenalty: the cost of a change as a linear function of features."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from metriclearn.running.components import ComponentParameters
from metriclearn.running.parameters import Each, Of, OneOf, Real, Whole, check_parameters
from metriclearn.running.values import check_each, real_array, shown
from metriclearn.views.plain import widest

_FEATURE = OneOf(Of("transform", "SequenceFeatures()"), Of("__call__", "np.ptp"))
_ROWS = Whole(0)
# Features whose deviation, relative to the largest value, is smaller than this are constant.
_VARIES = 1e-9
# If Ω is at most this for v = T̄, v is as good as free.
_FREE = 1e-8


@dataclass(eq=False, repr=False)
class FeaturePenalty(ComponentParameters):
    """Learn the penalty λ + ⟨v, ψ(t)⟩ of a change at t, together with the metric.

    The score of a segmentation M of a sequence X,

        ⟨XBXᵀ, M⟩ − λ Tr M − Σ_{changes t of M} ⟨v, ψ(t)⟩,

    is linear in (B, v, λ), so learning B, v and λ is one convex problem. The hinge, oracles, solver
    and certificate are the same as for a learned constant λ, which is the special case without
    features. ψ(t) are the features at t. The features are standardized over the positions of the
    training sequences, so λ ≥ 0 is the penalty of a change with average features. The regularizer
    applies to v, too: Ω(B, v·strength/T̄). We divide by the mean length T̄ of the training
    segments, because the score of a segment is a sum over its samples, but its penalty is not.

    Features of new sequences are clipped to the range of the training features, so penalties are
    not extrapolated. For example, if the feature is the noise level, a constant sequence gets the
    penalty of the quietest training sequence.

    Parameters
    ----------
    features : sequence of features
        A feature is a function of one sequence (T, P), or an object with a method ``transform``,
        such as :class:`~metriclearn.views.SequenceFeatures` and
        :class:`~metriclearn.views.BoundaryFeatures`. ``transform`` takes a list of sequences and
        returns the features of each sequence. The features of a sequence are an array (q,), or
        (T+1, q) with a row for every position 0 … T. The first and the last row are not used. For
        streams, a feature needs an attribute ``reach``: the numbers of samples before a position,
        and from it on, on which its row depends. ``SequenceFeatures(window=…)`` and
        ``BoundaryFeatures(unit="data")`` have it.
    nonnegative : bool or sequence of bool
        Whether v ≥ 0: one value for all columns of the features, or one value for each column. If
        v ≥ 0, a larger feature never reduces the penalty of a change.
    strength : float > 0
        How strongly v is regularized in comparison with B.

    Attributes
    ----------
    mean_, deviation_ : arrays (q,)
        Mean and standard deviation of the features over the training sequences. All sequences have
        the same weight. The deviation of a constant feature is ∞.
    range_ : array (2, q)
        Smallest and largest value of every feature in the training sequences.
    coef_ : array (q,)
        The weights v, converted to features that are not standardized.

    Raises
    ------
    ValueError
        From the learner's ``fit``, for parameters that cannot be used.

    See Also
    --------
    ChangePointMetricLearner : learns this penalty in its convex problem.
    PenaltyLearner : learns penalties of sequences under a given metric.

    Examples
    --------
    >>> from metriclearn import ChangePointMetricLearner, FeaturePenalty
    >>> from metriclearn.views import SequenceFeatures
    >>> from metriclearn.datasets import make_change_points
    >>> data = make_change_points(3, 100, 5, 2, (3, 4), random_state=0)
    >>> penalty = FeaturePenalty((SequenceFeatures(("log_noise",)),))
    >>> learner = ChangePointMetricLearner(penalty=penalty).fit(data.sequences, data.labels)
    >>> learner.feature_penalty_.coef_.shape
    (1,)
    """

    features: Annotated[
        Sequence[Any], Each(_FEATURE, "{name}=(…) of functions, or of objects with transform")
    ] = ()
    nonnegative: Annotated[
        bool | Sequence[bool],
        OneOf(True, False, Each(OneOf(True, False), "a sequence of True and False")),
    ] = False
    strength: Annotated[float, Real(1e-12, 1e12)] = 1.0

    def fit(self, X: Iterable[NDArray], truths: Sequence[Any], unit: float = 1.0) -> Self:
        """Compute means, deviations and ranges of features, one sequence at a time.

        The learner of the metric learns v later.

        Parameters
        ----------
        X : iterable of (T_i, P) arrays
        truths : sequence of Partition
        unit : float
            The number by which data are divided in learning if they are not standardized.

        Raises
        ------
        ValueError
            If a feature returns an array of a wrong shape, or different numbers of features for
            different sequences.
        """
        check_parameters(self)
        means, variances, ranges = [], [], []
        for array in X:
            rows = self.transform(array)[1:-1]
            means.append(rows.mean(axis=0))
            variances.append(rows.var(axis=0))
            ranges.append([rows.min(axis=0), rows.max(axis=0)])
            check_each("FeaturePenalty", "value", len(means[-1]), "features", len(means[0]))
        lowest, highest = np.swapaxes(ranges, 0, 1)
        self.range_ = np.array([lowest.min(axis=0), highest.max(axis=0)])
        self.mean_ = np.mean(means, axis=0)
        deviation = np.sqrt(np.mean(variances + (means - self.mean_) ** 2, axis=0))
        varies = deviation > _VARIES * np.max(np.abs(means), axis=0, initial=0.0)
        self.deviation_ = np.where(varies, deviation, np.inf)
        q = len(self.mean_)
        if np.size(self.nonnegative) > 1:
            check_each("FeaturePenalty", "nonnegative", np.size(self.nonnegative), "features", q)
        # The solvers' weights are not negative. If v may be negative, a column comes with both
        # signs.
        free = ~np.broadcast_to(np.asarray(self.nonnegative, dtype=bool), q)
        self.signs_ = np.hstack([np.eye(q)[:, varies], -np.eye(q)[:, varies & free]])
        sizes = np.concatenate([truth.sizes for truth in truths])
        self.unit_ = float(np.mean(sizes)) / (self.strength * unit**2)
        self.coef_ = np.zeros(q)
        return self

    def within_reach(self, omega: Callable[[NDArray], float], cone: Any) -> Self:
        """Return a copy with smaller columns, if Ω leaves v as good as free.

        Columns that are many times larger than the other coordinates leave no precision for these.
        With smaller columns v is regularized more, but Ω of any sensible v stays negligible.

        Parameters
        ----------
        omega : callable (array (n,)) -> float
            Ω.
        cone : MetricCone
            Its metric has a coordinate for every column, at the end.
        """
        penalty, point = copy.copy(self), np.zeros(cone.size)
        if self.n_columns == 0:
            return penalty
        length, nothing = self.unit_ * self.strength * cone.unit**2, omega(point)
        while penalty.unit_ > length:
            point[cone.n_metric - 1] = 2.0 * length / penalty.unit_
            if not omega(point) - nothing <= _FREE:
                break
            penalty.unit_ /= 2.0
        return penalty

    @property
    def n_columns(self) -> int:
        """The number of nonnegative weights that a solver learns."""
        return self.signs_.shape[1]

    def transform(self, X: NDArray) -> NDArray[np.float64]:
        """Compute the features of a sequence at every position, not standardized, (T+1, q)."""
        T, parts = len(X), [np.zeros((len(X) + 1, 0))]
        for feature in self.features:
            values = feature.transform([X])[0] if hasattr(feature, "transform") else feature(X)
            rows = real_array("FeaturePenalty", f"values of {shown(feature)}", values, None)
            rows = rows[None] if rows.ndim == 0 else rows
            if rows.ndim > 2 or (rows.ndim == 2 and len(rows) != T + 1):
                raise ValueError(
                    f"FeaturePenalty needs features of shape (q,), or ({T + 1}, q) with a row for "
                    f"every position 0 … T, got {rows.shape} from {shown(feature)}."
                )
            parts.append(np.broadcast_to(np.atleast_2d(rows), (T + 1, rows.shape[-1])))
        return np.hstack(parts)

    @property
    def reach(self) -> tuple[int, int] | None:
        """Samples before and after a position that its features depend on; None: all samples."""
        return widest(list(map(_reach, self.features)))

    def refusal_of_streams(self) -> str:
        """Return what a stream needs if the reach is unknown, and the remedy."""
        feature = next(one for one in self.features if _reach(one) is None)
        return (
            "features for a stream that depend on a known number of samples around a position, "
            f"which the attribute reach tells, got {shown(feature)} with "
            f"{shown(getattr(feature, 'reach', None))}; take SequenceFeatures(window=…), "
            'BoundaryFeatures(unit="data") or a constant penalty.'
        )

    def columns(self, X: NDArray) -> NDArray[np.float64]:
        """Compute ψ at every position, (T+1, n_columns): a column for each weight of a solver."""
        return ((self.transform(X) - self.mean_) / self.deviation_ * self.unit_) @ self.signs_

    def weighted(self, weights: NDArray) -> Self:
        """Return a copy whose v is computed from the weights of a solver, (n_columns,)."""
        penalty = copy.copy(self)
        penalty.coef_ = self.signs_ @ weights * self.unit_ / self.deviation_
        return penalty

    def penalties(self, X: NDArray) -> NDArray[np.float64]:
        """Compute the part ⟨v, ψ(t)⟩ of the penalty at every position of a sequence, (T+1,)."""
        return (np.clip(self.transform(X), *self.range_) - self.mean_) @ self.coef_


def _reach(feature: Any) -> tuple[int, int] | None:
    """Return how many samples before and after a position a feature depends on, if it is known."""
    here: Any = getattr(feature, "reach", None)
    known = isinstance(here, tuple) and len(here) == 2 and all(map(_ROWS.accepts, here))
    return (int(here[0]), int(here[1])) if known else None
