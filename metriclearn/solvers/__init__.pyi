"""The public names of metriclearn.solvers, each listed once."""

from .bundle import BundleDual as BundleDual
from .cccp import CCCP as CCCP
from .cutting_plane import CuttingPlane as CuttingPlane
from .factor_descent import FactorDescent as FactorDescent
from .mahalanobis import DiagonalMetric as DiagonalMetric
from .mahalanobis import FullMetric as FullMetric
from .regularizers import L1 as L1
from .regularizers import SquaredFrobenius as SquaredFrobenius
from .regularizers import Trace as Trace
from .subgradient import ProjectedSubgradient as ProjectedSubgradient
