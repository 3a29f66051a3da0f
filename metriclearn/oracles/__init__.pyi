"""The public names of metriclearn.oracles, each listed once."""

from .averaged import Averaged as Averaged
from .change_points import ChangePoints as ChangePoints
from .change_points import ConstrainedChangePoints as ConstrainedChangePoints
from .change_points.margins import BoundaryMargins as BoundaryMargins
from .change_points.margins import boundary_margins as boundary_margins
from .local_search import LocalSearch as LocalSearch
from .penalty_search import best_penalty as best_penalty
from .segmentation_path import segmentation_path as segmentation_path
from .spectral import SpectralRelaxation as SpectralRelaxation
from .summed_area import SummedArea as SummedArea
