"""Figures a person reads in five seconds: each function returns a matplotlib Figure.

The title of a figure says its message. Nothing here touches pyplot or any global state, so the
functions work on servers and in threads; save with ``figure.savefig("name.png")``.
"""

from metriclearn.plots.annotations import plot_annotations as plot_annotations
from metriclearn.plots.convergence import plot_convergence as plot_convergence
from metriclearn.plots.embedding import plot_embeddings as plot_embeddings
from metriclearn.plots.images import plot_image_segmentations as plot_image_segmentations
from metriclearn.plots.images import plot_kernel_error as plot_kernel_error
from metriclearn.plots.images import plot_learned_scales as plot_learned_scales
from metriclearn.plots.scaling import plot_scaling as plot_scaling
from metriclearn.plots.segmentation import plot_segmentation as plot_segmentation
from metriclearn.plots.selection import plot_elbow as plot_elbow
from metriclearn.plots.selection import plot_regularization_path as plot_regularization_path
from metriclearn.plots.timeline import plot_timeline as plot_timeline
from metriclearn.plots.weights import plot_metric_matrix as plot_metric_matrix
from metriclearn.plots.weights import plot_weights as plot_weights
