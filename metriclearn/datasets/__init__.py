"""Data sets: synthetic change-points, real recordings, and a user's own files."""

from metriclearn.datasets.files import load_files, save_files
from metriclearn.datasets.gesture_phase import load_gesture_phase
from metriclearn.datasets.hapt import load_hapt
from metriclearn.datasets.registry import data_folder, fetch
from metriclearn.datasets.sequences import LabeledSequences
from metriclearn.datasets.synthetic import SyntheticSequences, make_change_points
from metriclearn.datasets.tcpd import AnnotatedSeries, load_tcpd

__all__ = [
    "AnnotatedSeries",
    "LabeledSequences",
    "SyntheticSequences",
    "data_folder",
    "fetch",
    "load_files",
    "load_gesture_phase",
    "load_hapt",
    "load_tcpd",
    "make_change_points",
    "save_files",
]
