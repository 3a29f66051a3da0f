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
from .clusterers import DPMeans as DPMeans
from .clusterers import EvidenceAccumulation as EvidenceAccumulation
from .clusterers import GibbsDPMixture as GibbsDPMixture
from .estimators.clusterer import Clusterer as Clusterer
from .estimators.learners.alternation import Alternation as Alternation
from .estimators.learners.alternation import KnownStart as KnownStart
from .estimators.learners.alternation import PrincipalStart as PrincipalStart
from .estimators.learners.change_points import ChangePointMetricLearner as ChangePointMetricLearner
from .estimators.learners.clustering import ClusteringMetricLearner as ClusteringMetricLearner
from .estimators.learners.named import NamedSegmentLearner as NamedSegmentLearner
from .estimators.learners.normalized_cuts import (
    NormalizedCutMetricLearner as NormalizedCutMetricLearner,
)
from .estimators.learners.whitened import WhitenedClusteringLearner as WhitenedClusteringLearner
from .estimators.learners.whitened import WhitenedMetricLearner as WhitenedMetricLearner
from .estimators.penalties.feature_penalty import FeaturePenalty as FeaturePenalty
from .estimators.penalties.penalty_learner import PenaltyLearner as PenaltyLearner
from .estimators.penalties.penalty_learner import SegmentCounts as SegmentCounts
from .estimators.scores.stream import SegmenterStream as SegmenterStream
from .estimators.scores.stream import StreamedSegments as StreamedSegments
from .estimators.segmenter import Segmenter as Segmenter
from .estimators.selection.regularization_path import (
    ChangePointMetricLearnerCV as ChangePointMetricLearnerCV,
)
from .estimators.selection.regularization_path import regularization_path as regularization_path
from .estimators.selection.suggest import Suggestion as Suggestion
from .estimators.selection.suggest import labeled_stretches as labeled_stretches
from .estimators.selection.suggest import suggest as suggest
from .features.media.image import ImageFeatures as ImageFeatures
from .oracles.averaged import Averaged as Averaged
from .oracles.change_points import ChangePoints as ChangePoints
from .oracles.change_points import ConstrainedChangePoints as ConstrainedChangePoints
from .oracles.change_points.margins import BoundaryMargins as BoundaryMargins
from .oracles.change_points.margins import boundary_margins as boundary_margins
from .oracles.local_search import LocalSearch as LocalSearch
from .oracles.segmentation_path import best_penalty as best_penalty
from .oracles.segmentation_path import segmentation_path as segmentation_path
from .oracles.spectral import SpectralRelaxation as SpectralRelaxation
from .oracles.summed_area import SummedArea as SummedArea
from .problem.consensus_form import ConsensusForm as ConsensusForm
from .problem.forms import DenseForm as DenseForm
from .problem.forms import LinearFeatures as LinearFeatures
from .problem.forms import LowRankForm as LowRankForm
from .problem.losses import FrobeniusLoss as FrobeniusLoss
from .problem.losses import KnownLoss as KnownLoss
from .problem.partial_labels import PartialPartition as PartialPartition
from .problem.partition import Partition as Partition
from .problem.regions import AT_LEAST_ONE as AT_LEAST_ONE
from .problem.regions import EXACTLY_ONE as EXACTLY_ONE
from .problem.regions import NO_CHANGE as NO_CHANGE
from .problem.regions import Region as Region
from .running.callbacks import EarlyStopping as EarlyStopping
from .running.callbacks import ScalarLog as ScalarLog
from .running.persistence import load as load
from .running.persistence import save as save
from .similarities import FourierSimilarity as FourierSimilarity
from .similarities import GaussianSimilarity as GaussianSimilarity
from .similarities import GivenSimilarities as GivenSimilarities
from .solvers.bundle import BundleDual as BundleDual
from .solvers.cccp import CCCP as CCCP
from .solvers.cutting_plane import CuttingPlane as CuttingPlane
from .solvers.factor_descent import FactorDescent as FactorDescent
from .solvers.mahalanobis import DiagonalMetric as DiagonalMetric
from .solvers.mahalanobis import FullMetric as FullMetric
from .solvers.regularizers import L1 as L1
from .solvers.regularizers import SquaredFrobenius as SquaredFrobenius
from .solvers.regularizers import Trace as Trace
from .solvers.subgradient import ProjectedSubgradient as ProjectedSubgradient
from .views.boundary import BoundaryFeatures as BoundaryFeatures
from .views.hermite import HermiteMoments as HermiteMoments
from .views.sequence import SequenceFeatures as SequenceFeatures
from .views.time_grid import change_times as change_times
from .views.time_grid import regular as regular

__version__: str
