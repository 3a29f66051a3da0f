"""The public names of metriclearn.encoders."""

from .augmentations import Channels as Channels
from .augmentations import Noise as Noise
from .augmentations import Recording as Recording
from .augmentations import Rotation as Rotation
from .augmentations import Scaling as Scaling
from .augmentations import TimeReversal as TimeReversal
from .encoder import Encoder as Encoder
from .frozen import FrozenEncoder as FrozenEncoder
from .frozen import FrozenFeatures as FrozenFeatures
from .hinge import GaussianSimilarities as GaussianSimilarities
from .hinge import HingeOfForms as HingeOfForms
from .hinge import InnerProducts as InnerProducts
from .hinge import NamedProducts as NamedProducts
from .hinge import StructuredHingeLoss as StructuredHingeLoss
from .networks import Ensemble as Ensemble
from .networks import Normalized as Normalized
from .networks import Standardization as Standardization
from .networks import TemporalBlock as TemporalBlock
from .networks import TemporalConvolution as TemporalConvolution
from .networks import WindowEncoder as WindowEncoder
from .onnx import export_onnx as export_onnx
