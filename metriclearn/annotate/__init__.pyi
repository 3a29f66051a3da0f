"""The public names of metriclearn.annotate."""

from .suggest import Suggestion as Suggestion
from .suggest import labeled_stretches as labeled_stretches
from .suggest import suggest as suggest
