"""ReferenceMetricLearner: large-margin learning that starts from a metric already in use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from metriclearn.estimators.linear import PrincipalComponents
from metriclearn.estimators.change_points import ChangePointMetricLearner
from metriclearn.estimators.coordinates import LearnerInCoordinates
from metriclearn.estimators.learned_metric import LearnedMetric
from metriclearn.oracles.best_penalty import best_penalty
from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import Needs, component, number
from metriclearn.solvers.bundle import BundleDual
from metriclearn.solvers.mahalanobis import FullMetric
from metriclearn.solvers.regularizers import SquaredFrobenius

__all__ = ["ReferenceMetricLearner"]

_DEFAULT = ChangePointMetricLearner(  # cloned
    FullMetric(), solver=BundleDual(tolerance=1e-3, max_rounds=200), standardize=False
)


class ReferenceMetricLearner(LearnerInCoordinates):
    """Eq. (9), regularized towards a reference metric: of PCA, RCA, or of the plain features.

    With W the components of the reference, the metric is B = WᵀCW, and C minimizes

        Σ_i L_i(C, λ) + (μ/2) ‖C/s − I‖²_F / r,   C ⪰ 0 (r × r), λ ≥ 0,

    where s = α/λ₀ sets the scale: λ₀ is the penalty that suits the reference best (least training
    loss, found exactly) and α the scale of the loss. Whatever the units, a large μ gives the
    reference, which is where unsupervised methods stop, and a small one the metric that the labels
    ask for within the span of W. So a strength chosen on held-out sequences does as well as the
    reference, or better, up to the luck of the choice. Cost: that of the reference, and of the
    inner learner in r dimensions.

    Parameters
    ----------
    reference : estimator with ``fit(X, y)`` and ``components_``
        Such as :class:`PrincipalComponents`, :class:`RelevantComponents`, :class:`Euclidean`.
    learner : ChangePointMetricLearner
        Learns C; its regularizer is replaced.
    strength : float
        μ > 0.
    retune : bool
        After learning, set the penalty to that of least training loss (exactly), as for the
        reference.

    Attributes
    ----------
    components_ : array (k, P)
    penalty_ : float or None
    learner_ : ChangePointMetricLearner
        Fitted in the coordinates of the reference.
    solution_ : Solution
        Its certificate.
    """

    PARAMETERS: ClassVar[Mapping[str, Needs]] = {
        "reference": component(LearnedMetric, "PrincipalComponents(10)"),
        "learner": component(ChangePointMetricLearner, "ChangePointMetricLearner()"),
        "strength": number(1e-12),
    }

    def __init__(
        self,
        reference: BaseEstimator = PrincipalComponents(10),  # noqa: B008  # cloned
        learner: ChangePointMetricLearner = _DEFAULT,
        *,
        strength: float = 1e-2,
        retune: bool = True,
    ) -> None:
        self.reference = reference
        self.learner = learner
        self.strength = strength
        self.retune = retune

    def _coordinates(self, arrays: list[NDArray], truths: list[Partition]) -> NDArray:
        return clone(self.reference).fit(arrays, truths).components_

    def _inner(self, coordinates: list[NDArray], truths: list[Partition]) -> Any:
        forms = [LowRankForm(Z) for Z in coordinates]
        price, _ = best_penalty(forms, truths, min_size=self.min_size)
        scale = self.learner.loss_scale / price
        strength = self.strength / (scale**2 * coordinates[0].shape[1])
        if not np.isfinite(strength):
            raise ValueError(
                "ReferenceMetricLearner needs a reference in which segments differ, got one "
                f"whose best penalty is {price:.3g}; pass another reference."
            )
        return clone(self.learner).set_params(regularizer=SquaredFrobenius(strength, scale))
