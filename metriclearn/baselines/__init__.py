"""Baselines: metrics and predictors with which the learners are compared."""

from metriclearn.baselines.closed_form import ClosedFormMetric as ClosedFormMetric
from metriclearn.baselines.mmc import MMC as MMC
from metriclearn.baselines.neighborhood import NeighborhoodComponents as NeighborhoodComponents
from metriclearn.baselines.predictors import MetricKMeans as MetricKMeans
from metriclearn.baselines.predictors import TunedSegmenter as TunedSegmenter
from metriclearn.estimators.learners.equal_cuts import EqualCuts as EqualCuts
from metriclearn.estimators.learners.linear import Euclidean as Euclidean
from metriclearn.estimators.learners.linear import PrincipalComponents as PrincipalComponents
from metriclearn.estimators.learners.linear import RelevantComponents as RelevantComponents
from metriclearn.estimators.penalties.interval_regression import (
    IntervalRegression as IntervalRegression,
)
from metriclearn.estimators.penalties.penalty_learner import BayesianCriterion as BayesianCriterion
from metriclearn.estimators.penalties.penalty_learner import PenaltyLearner as PenaltyLearner
