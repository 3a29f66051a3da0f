"""Convert margins to probabilities: how often changes with similar margins were true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from metriclearn.estimators.scores.segment_score import SegmentScore
from metriclearn.indices.boundaries import near
from metriclearn.oracles.change_points.margins import BoundaryMargins
from metriclearn.problem.partition import Partition

# This replaces the infinite loss of a change that cannot be removed.
_LARGEST = 1e300


@dataclass(frozen=True)
class Calibration:
    """Converts the loss of a predicted change-point to the probability that it is true.

    The loss is how much lower the score is without the change-point. A larger loss means a higher
    probability.

    Attributes
    ----------
    losses, probabilities : arrays (n,)
        The probability is ``probabilities[i]`` at ``losses[i]``. Between these losses the
        probability is interpolated linearly. The probability is constant below the first and above
        the last loss.
    tolerance : int
        A change-point is true if a true change is at most this many samples away.
    score : SegmentScore or None
        The score of the segmenter that was calibrated. Under another metric or penalty,
        change-points get no probabilities.
    """

    losses: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    tolerance: int
    score: SegmentScore | None = None

    @classmethod
    def learn(
        cls,
        margins: Sequence[BoundaryMargins],
        truths: Sequence[Partition],
        tolerance: int,
        score: SegmentScore | None = None,
    ) -> Self:
        """Fit an isotonic regression that predicts from losses whether change-points are true.

        The fit takes O(K log K) time for K change-points in all data sets.
        """
        from sklearn.isotonic import IsotonicRegression

        losses = np.concatenate([one.losses for one in margins])
        right = [
            near(m.change_points[:-1], t.change_points[:-1], tolerance)
            for m, t in zip(margins, truths)
        ]
        if len(losses) == 0:
            raise ValueError(
                "Calibration needs predicted change-points, got one segment in every data set; "
                "lower the penalty or pass data with changes."
            )
        curve = IsotonicRegression(y_min=0.0, y_max=1.0)
        curve.fit(np.minimum(losses, _LARGEST), np.concatenate(right).astype(np.float64))
        points = curve.X_thresholds_, curve.y_thresholds_
        return cls(*points, tolerance, score)

    def of(self, losses: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities of change-points with these losses."""
        return np.interp(np.minimum(losses, _LARGEST), self.losses, self.probabilities)


def uncalibrated(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities 1 − exp(−2 loss)/2 for changes without a calibration.

    ``losses`` are divided by the penalty. A change that gains no more than its penalty has the loss
    0 and the probability 1/2.
    """
    return 1.0 - np.exp(-2.0 * np.minimum(losses, 300.0)) / 2.0
