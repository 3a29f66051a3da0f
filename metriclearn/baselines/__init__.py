"""Metrics to compare with, each with ``components_``, and predictors that use them."""

from metriclearn.baselines.closed_form import ClosedFormMetric
from metriclearn.baselines.mmc import MMC
from metriclearn.baselines.neighborhood import NeighborhoodComponents
from metriclearn.baselines.predictors import MetricKMeans, TunedSegmenter
from metriclearn.estimators.linear import Euclidean, PrincipalComponents, RelevantComponents
from metriclearn.estimators.penalty import BayesianCriterion, IntervalRegression, PenaltyLearner

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
