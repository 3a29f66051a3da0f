"""The public names of metriclearn.encoders, each told once."""

from .hinge import GaussianSimilarities as GaussianSimilarities
from .hinge import HingeOfForms as HingeOfForms
from .hinge import InnerProducts as InnerProducts
from .hinge import StructuredHingeLoss as StructuredHingeLoss
