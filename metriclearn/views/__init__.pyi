"""The public names of metriclearn.views, each listed once."""

from .boundary import BoundaryFeatures as BoundaryFeatures
from .chain import Chain as Chain
from .chain import Union as Union
from .columns import Columns as Columns
from .convolutions import Convolutions as Convolutions
from .details import Details as Details
from .each import Each as Each
from .fourier import RandomFourierFeatures as RandomFourierFeatures
from .gaps import Fill as Fill
from .gaps import Labels as Labels
from .gaps import LeaveOut as LeaveOut
from .hermite import HermiteMoments as HermiteMoments
from .hermite import SlidingMoments as SlidingMoments
from .hermite import SoftThresholds as SoftThresholds
from .neighbors import Neighbors as Neighbors
from .own_scale import OwnScale as OwnScale
from .plain import PlainView as PlainView
from .plain import View as View
from .posteriors import ExpectedBoundaries as ExpectedBoundaries
from .posteriors import Posteriors as Posteriors
from .sequence import SequenceFeatures as SequenceFeatures
from .time_grid import change_times as change_times
from .time_grid import regular as regular
from .whiten import Metric as Metric
from .whiten import Whiten as Whiten
from .windows import Windows as Windows
