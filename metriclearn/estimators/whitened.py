"""WhitenedMetricLearner: large-margin learning in coordinates whitened within segments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from numpy.typing import NDArray

from metriclearn.estimators.linear import RelevantComponents
from metriclearn.estimators.change_points import ChangePointMetricLearner
from metriclearn.estimators.coordinates import LearnerInCoordinates
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import Needs, component, either, number
from metriclearn.solvers.regularizers import SquaredFrobenius

__all__ = ["WhitenedMetricLearner"]

_DEFAULT = ChangePointMetricLearner(regularizer=SquaredFrobenius(1.0), standardize=False)  # cloned


class WhitenedMetricLearner(LearnerInCoordinates):
    """Eq. (9) in the coordinates of relevant component analysis: few sequences, many features.

    With W the whitening of the covariance within segments (RCA, directions ordered by how much
    they vary between segments), the metric is B = WᵀCW and C is learned with large margin. On
    correlated features, such as those of sound and pictures, a regularized C near a multiple of
    the identity is a far better start than a regularized B: W takes off what varies for reasons
    that do not concern the labels. Cost: O(P³) and that of the inner learner.

    Parameters
    ----------
    learner : ChangePointMetricLearner
        Learns C; ``standardize=False`` keeps the whitened units.
    shrinkage : float
        Share of the diagonal in the covariance within segments, see :class:`RelevantComponents`.
    n_components : int, optional
        Keep only the directions that vary most between segments, relative to within.
    retune : bool
        After learning, set the penalty to that of least training loss (exactly).

    Attributes
    ----------
    components_ : array (r, P)
    penalty_ : float or None
    learner_ : ChangePointMetricLearner
        Fitted in whitened coordinates.
    solution_ : Solution
        Its certificate.
    """

    PARAMETERS: ClassVar[Mapping[str, Needs]] = {
        "learner": component(ChangePointMetricLearner, "ChangePointMetricLearner()"),
        "shrinkage": number(0, 1),
        "n_components": either(None, number(1, whole=True)),
    }

    def __init__(
        self,
        learner: ChangePointMetricLearner = _DEFAULT,
        *,
        shrinkage: float = 0.1,
        n_components: int | None = None,
        retune: bool = False,
    ) -> None:
        self.learner = learner
        self.shrinkage = shrinkage
        self.n_components = n_components
        self.retune = retune

    def _coordinates(self, arrays: list[NDArray], truths: list[Partition]) -> NDArray:
        whitening = RelevantComponents(self.n_components, shrinkage=self.shrinkage)
        return whitening.fit(arrays, truths).components_
