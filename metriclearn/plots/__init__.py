"""Figures a person reads in five seconds: each function returns a matplotlib Figure.

The title of a figure says its message. Nothing here touches pyplot or any global state, so the
functions work on servers and in threads; save with ``figure.savefig("name.png")``.
"""

from metriclearn.plots.annotations import plot_annotations
from metriclearn.plots.convergence import plot_convergence
from metriclearn.plots.embedding import plot_embeddings
from metriclearn.plots.images import (
    plot_image_segmentations,
    plot_kernel_error,
    plot_learned_scales,
)
from metriclearn.plots.scaling import plot_scaling
from metriclearn.plots.segmentation import plot_segmentation
from metriclearn.plots.selection import plot_elbow, plot_regularization_path
from metriclearn.plots.weights import plot_metric_matrix, plot_weights

__all__ = [
    "plot_annotations",
    "plot_convergence",
    "plot_elbow",
    "plot_embeddings",
    "plot_image_segmentations",
    "plot_kernel_error",
    "plot_learned_scales",
    "plot_metric_matrix",
    "plot_regularization_path",
    "plot_scaling",
    "plot_segmentation",
    "plot_weights",
]
