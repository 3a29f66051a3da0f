"""The public names of metriclearn.estimators, each listed once."""

from .clusterer import Clusterer as Clusterer
from .learners.alternation import Alternation as Alternation
from .learners.alternation import KnownStart as KnownStart
from .learners.alternation import PrincipalStart as PrincipalStart
from .learners.change_points import ChangePointMetricLearner as ChangePointMetricLearner
from .learners.clustering import ClusteringMetricLearner as ClusteringMetricLearner
from .learners.named import NamedSegmentLearner as NamedSegmentLearner
from .learners.normalized_cuts import NormalizedCutMetricLearner as NormalizedCutMetricLearner
from .learners.viterbi import Viterbi as Viterbi
from .learners.whitened import WhitenedClusteringLearner as WhitenedClusteringLearner
from .learners.whitened import WhitenedMetricLearner as WhitenedMetricLearner
from .penalties.feature_penalty import FeaturePenalty as FeaturePenalty
from .penalties.penalty_learner import PenaltyLearner as PenaltyLearner
from .penalties.penalty_learner import SegmentCounts as SegmentCounts
from .scores.agreement import Agreement as Agreement
from .scores.segment_score import SegmentScore as SegmentScore
from .scores.stream import SegmenterStream as SegmenterStream
from .scores.stream import StreamedSegments as StreamedSegments
from .segmenter import Segmenter as Segmenter
from .selection.cross_fit import CrossFit as CrossFit
from .selection.cross_fit import Member as Member
from .selection.families import FAMILIES as FAMILIES
from .selection.regularization_path import ChangePointMetricLearnerCV as ChangePointMetricLearnerCV
from .selection.regularization_path import regularization_path as regularization_path
