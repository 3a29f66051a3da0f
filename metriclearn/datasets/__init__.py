"""Data sets: synthetic change-points, real recordings, and a user's own files."""

from metriclearn.datasets.beedance import load_beedance
from metriclearn.datasets.files import load_files, save_files
from metriclearn.datasets.gesture_phase import load_gesture_phase
from metriclearn.datasets.hapt import load_hapt
from metriclearn.datasets.images import (
    LabeledImages,
    load_bsds500,
    load_images,
    load_weizmann_horses,
)
from metriclearn.datasets.mocap6 import load_mocap6
from metriclearn.datasets.neuroblastoma import AnnotatedProfiles, load_neuroblastoma
from metriclearn.datasets.recordings import (
    load_ami_turns,
    load_jamendo_singing,
    load_musanmix,
    load_recordings,
    load_speech_segments,
)
from metriclearn.datasets.registry import data_folder, fetch
from metriclearn.datasets.sequences import LabeledSequences
from metriclearn.datasets.stored_sequences import (
    PackedSequences,
    SequenceFolder,
    pack_sequences,
)
from metriclearn.datasets.synthetic import SyntheticSequences, make_change_points
from metriclearn.datasets.tables import (
    LabeledTable,
    load_breast_cancer,
    load_digits,
    load_iris,
    load_letters,
    load_libras,
    load_wine,
)
from metriclearn.datasets.tcpd import AnnotatedSeries, load_tcpd

__all__ = [
    "AnnotatedProfiles",
    "AnnotatedSeries",
    "LabeledImages",
    "LabeledSequences",
    "LabeledTable",
    "PackedSequences",
    "SequenceFolder",
    "SyntheticSequences",
    "data_folder",
    "fetch",
    "load_ami_turns",
    "load_beedance",
    "load_breast_cancer",
    "load_bsds500",
    "load_digits",
    "load_files",
    "load_gesture_phase",
    "load_hapt",
    "load_images",
    "load_iris",
    "load_jamendo_singing",
    "load_letters",
    "load_libras",
    "load_mocap6",
    "load_musanmix",
    "load_neuroblastoma",
    "load_recordings",
    "load_speech_segments",
    "load_tcpd",
    "load_weizmann_horses",
    "load_wine",
    "make_change_points",
    "pack_sequences",
    "save_files",
]
