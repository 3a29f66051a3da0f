"""Metrics to compare with, each with ``components_``, and predictors that use them."""

from metriclearn.baselines.closed_form import ClosedFormMetric
from metriclearn.baselines.clusterer import MetricKMeans
from metriclearn.baselines.interval_regression import IntervalRegression
from metriclearn.baselines.linear import Euclidean, PrincipalComponents, RelevantComponents
from metriclearn.baselines.mmc import MMC
from metriclearn.baselines.neighborhood import NeighborhoodComponents
from metriclearn.baselines.penalty_learning import BayesianCriterion, PenaltyLearner
from metriclearn.baselines.tuned import TunedSegmenter

__all__ = [
    "MMC",
    "BayesianCriterion",
    "ClosedFormMetric",
    "Euclidean",
    "IntervalRegression",
    "MetricKMeans",
    "NeighborhoodComponents",
    "PenaltyLearner",
    "PrincipalComponents",
    "RelevantComponents",
    "TunedSegmenter",
]
