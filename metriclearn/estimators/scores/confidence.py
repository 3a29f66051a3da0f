"""Probabilities of changes and of names, calibrated on labeled data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from metriclearn.estimators.scores.segment_score import SegmentScore
from metriclearn.indices.boundaries import near
from metriclearn.oracles.change_points.margins import BoundaryMargins
from metriclearn.problem.partial_labels import PartialPartition
from metriclearn.problem.partition import Partition

# Powers of the length that are tried, from 0 (sums over segments) to 1 (means over samples).
_POWERS = (0.0, 0.5, 1.0)
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

    See Also
    --------
    metriclearn.oracles.BoundaryMargins : has such losses.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.estimators import Calibration
    >>> Calibration.uncalibrated(np.array([0.0, 1.0])).round(2).tolist()
    [0.5, 0.93]
    >>> known = Calibration(np.array([0.0, 2.0]), np.array([0.5, 1.0]), 0)
    >>> known.of(np.array([1.0])).tolist()
    [0.75]
    """

    losses: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    tolerance: int
    score: SegmentScore | None = None

    @classmethod
    def learn(
        cls,
        margins: Sequence[BoundaryMargins],
        truths: Sequence[Partition | PartialPartition],
        tolerance: int,
        score: SegmentScore | None = None,
    ) -> Self:
        """Fit an isotonic regression that predicts from losses whether change-points are true.

        Change-points outside labeled stretches, or at most ``tolerance`` samples from their ends,
        are not used. The fit takes O(K log K) time for K change-points in all data sets.
        """
        from sklearn.isotonic import IsotonicRegression

        losses, right = [np.empty(0)], [np.empty(0, dtype=bool)]
        for one, truth in zip(margins, truths):
            found = one.change_points[:-1]
            for start, ends in truth.pieces.stretches:
                edges = np.array([t for t in (start, ends[-1]) if 0 < t < truth.n_samples])
                judged = (found > start) & (found < ends[-1]) & ~near(found, edges, tolerance)
                losses.append(one.losses[judged])
                right.append(near(found[judged], ends[:-1], tolerance))
        every = np.concatenate(losses)
        if len(every) == 0:
            raise ValueError(
                "Calibration needs predicted change-points in labeled stretches, got none; lower "
                "the penalty, or pass data with changes and more labels."
            )
        curve = IsotonicRegression(y_min=0.0, y_max=1.0)
        curve.fit(np.minimum(every, _LARGEST), np.concatenate(right).astype(np.float64))
        points = curve.X_thresholds_, curve.y_thresholds_
        return cls(*points, tolerance, score)

    @staticmethod
    def uncalibrated(losses: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities 1 − exp(−2 loss)/2 for changes without a calibration.

        ``losses`` are divided by the penalty. A change that gains no more than its penalty has the
        loss 0 and the probability 1/2.
        """
        return 1.0 - np.exp(-2.0 * np.minimum(losses, 300.0)) / 2.0

    def of(self, losses: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities of change-points with these losses."""
        return np.interp(np.minimum(losses, _LARGEST), self.losses, self.probabilities)


@dataclass(frozen=True)
class NameCalibration:
    """Probabilities of names: for a segment of n samples, the softmax of score_c / (θ n^power).

    Attributes
    ----------
    temperature : float
        θ. The scores have to be divided by a temperature, because scores that are learned for a
        margin have a meaningful order, but not a meaningful size.
    power : float
        0, 0.5 or 1. The samples of a segment depend on each other, so a sum of scores over many
        samples overstates the confidence.
    weights : NameWeights
        The weights that the learner had in the calibration. For any other weights, the
        calibration is not valid.

    References
    ----------
    Guo, Pleiss, Sun & Weinberger, On calibration of modern neural networks, ICML 2017 (temperature
    scaling).
    """

    temperature: float
    power: float
    weights: Any

    @classmethod
    def learn(
        cls,
        scored: Sequence[tuple[NDArray, NDArray]],
        labelings: Sequence[NDArray | None],
        weights: Any,
    ) -> Self:
        """Find θ and the power by maximum likelihood, from labels that were not used for training.

        Parameters
        ----------
        scored : sequence of (array (K, C), int array (K,))
            Scores of names for the segments of every recording, and the lengths of the segments.
        labelings : sequence of (T,) labels, or None
            Labels that are not in the classes of ``weights`` are ignored, and None.
        weights : NameWeights

        Raises
        ------
        ValueError
            If no label is one of the classes.
        """
        classes, counts = weights.classes, []
        for (_, sizes), labels in zip(scored, labelings):
            given = np.full(sizes.sum(), -1) if labels is None else labels
            known = given[:, None] == classes
            counts.append(np.add.reduceat(known, np.append(0, np.cumsum(sizes)[:-1]), axis=0))
        if not np.any([np.any(one) for one in counts]):
            raise ValueError(
                f"Calibration needs samples with labels of the training, such as {classes[0]}, "
                "got none."
            )
        scores, sizes = (np.concatenate(part) for part in zip(*scored))
        # Add one sample that has all names with equal weights, so that no name is ever impossible.
        shares = np.concatenate(counts) + (sizes / sizes.sum())[:, None] / len(classes)

        def fitted(power: float) -> tuple[float, float, float]:
            scaled = scores / sizes[:, None] ** power
            unit = float(np.abs(scaled).max()) or 1.0

            def cost(log: float) -> float:
                return -float(np.sum(shares * log_softmax(scaled / (unit * np.exp(log)), axis=1)))

            found = minimize_scalar(cost, bounds=(-20.0, 5.0), method="bounded")
            return float(found.fun), power, unit * float(np.exp(found.x))

        _, power, temperature = min(map(fitted, _POWERS))
        return cls(temperature, power, weights)

    def of(self, scores: NDArray, sizes: NDArray) -> NDArray[np.float64]:
        """Return the probabilities (K, C) of names for segments with these scores and lengths."""
        return softmax(scores / (self.temperature * sizes[:, None] ** self.power), axis=1)
