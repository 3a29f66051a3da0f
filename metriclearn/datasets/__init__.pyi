"""The public names of metriclearn.datasets, each listed once."""

from .examples import load_example as load_example
from .files import load_files as load_files
from .files import save_files as save_files
from .loaders.annotated import AnnotatedProfiles as AnnotatedProfiles
from .loaders.annotated import AnnotatedSeries as AnnotatedSeries
from .loaders.catalog import load_dataset as load_dataset
from .loaders.images import LabeledImages as LabeledImages
from .loaders.images import load_images as load_images
from .loaders.published import PenaltyTargets as PenaltyTargets
from .loaders.samples import LabeledTable as LabeledTable
from .mapped import PackedSequences as PackedSequences
from .mapped import SequenceFolder as SequenceFolder
from .mapped import pack_sequences as pack_sequences
from .recordings import load_recordings as load_recordings
from .recordings import load_tables as load_tables
from .registry import data_folder as data_folder
from .registry import fetch as fetch
from .sequences import LabeledSequences as LabeledSequences
from .synthetic import SyntheticSequences as SyntheticSequences
from .synthetic import make_change_points as make_change_points
