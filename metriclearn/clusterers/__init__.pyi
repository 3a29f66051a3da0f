"""The public names of metriclearn.clusterers, each listed once."""

from .dp_means import DPMeans as DPMeans
from .dp_means import penalized_kmeans_objective as penalized_kmeans_objective
from .evidence import EvidenceAccumulation as EvidenceAccumulation
from .evidence import coassociation as coassociation
from .evidence import evidence_accumulation as evidence_accumulation
from .mixtures import GibbsDPMixture as GibbsDPMixture
from .mixtures import assignment_probabilities as assignment_probabilities
from .mixtures import spherical_responsibilities as spherical_responsibilities
