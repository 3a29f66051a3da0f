"""Figures a person reads in five seconds: each function returns a matplotlib Figure.

The title of a figure says its message. Nothing here touches pyplot or any global state, so the
functions work on servers and in threads; save with ``figure.savefig("name.png")``.
"""

from metriclearn.plots.convergence import plot_convergence
from metriclearn.plots.scaling import plot_scaling
from metriclearn.plots.segmentation import plot_segmentation
from metriclearn.plots.selection import plot_elbow, plot_regularization_path
from metriclearn.plots.weights import plot_metric_matrix, plot_weights

__all__ = [
    "plot_convergence",
    "plot_elbow",
    "plot_metric_matrix",
    "plot_regularization_path",
    "plot_scaling",
    "plot_segmentation",
    "plot_weights",
]
