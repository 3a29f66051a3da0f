"""The public names of metriclearn.problem that are not names of metriclearn."""

from . import boundary_penalties as boundary_penalties
from . import charges as charges
from . import consensus_form as consensus_form
from . import forms as forms
from . import losses as losses
from . import named_segments as named_segments
from . import partial_labels as partial_labels
from . import partition as partition
from . import projector as projector
from . import regions as regions
from . import risk as risk
from .forms import center as center
from .forms import check_squares as check_squares
from .losses import ChargedForm as ChargedForm
from .named_segments import NameScores as NameScores
from .named_segments import PartialNames as PartialNames
from .partial_labels import fewest_changes as fewest_changes
