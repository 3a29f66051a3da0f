"""The public names of metriclearn.similarities, each listed once."""

from .joint import FourierSimilarity as FourierSimilarity
from .joint import GaussianSimilarity as GaussianSimilarity
from .joint import GivenSimilarities as GivenSimilarities
from .joint import Neighborhood as Neighborhood
from .joint import Similarity as Similarity
from .joint import SimilarityFeatures as SimilarityFeatures
from .nodes import NodeLabels as NodeLabels
from .nodes import Nodes as Nodes
