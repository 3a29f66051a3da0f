"""The public names of metriclearn, read by ``metriclearn/__init__.py`` and mypy."""

from . import apps as apps
from . import baselines as baselines
from . import clusterers as clusterers
from . import datasets as datasets
from . import encoders as encoders
from . import estimators as estimators
from . import features as features
from . import indices as indices
from . import integrations as integrations
from . import oracles as oracles
from . import plots as plots
from . import problem as problem
from . import running as running
from . import similarities as similarities
from . import solvers as solvers
from . import views as views
from .estimators.clusterer import Clusterer as Clusterer
from .estimators.learners.change_points import ChangePointMetricLearner as ChangePointMetricLearner
from .estimators.learners.clustering import ClusteringMetricLearner as ClusteringMetricLearner
from .estimators.learners.named import NamedSegmentLearner as NamedSegmentLearner
from .estimators.learners.normalized_cuts import (
    NormalizedCutMetricLearner as NormalizedCutMetricLearner,
)
from .estimators.learners.whitened import WhitenedMetricLearner as WhitenedMetricLearner
from .estimators.penalties.feature_penalty import FeaturePenalty as FeaturePenalty
from .estimators.penalties.penalty_learner import PenaltyLearner as PenaltyLearner
from .estimators.segmenter import Segmenter as Segmenter
from .estimators.selection.regularization_path import regularization_path as regularization_path
from .estimators.suggestions import suggest as suggest
from .problem.partial_labels import PartialPartition as PartialPartition
from .problem.partition import Partition as Partition
from .problem.regions import Region as Region
from .running.persistence import load as load
from .running.persistence import save as save
from .solvers.bundle import BundleDual as BundleDual
from .solvers.mahalanobis import DiagonalMetric as DiagonalMetric
from .solvers.mahalanobis import FullMetric as FullMetric
from .solvers.regularizers import L1 as L1
from .solvers.regularizers import SquaredFrobenius as SquaredFrobenius
from .solvers.regularizers import Trace as Trace
from .views.time_grid import change_times as change_times
from .views.time_grid import regular as regular

__version__: str
