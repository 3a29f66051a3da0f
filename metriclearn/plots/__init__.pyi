"""The public names of metriclearn.plots."""

from .annotated_regions import plot_annotations as plot_annotations
from .certainty import expected_calibration_error as expected_calibration_error
from .certainty import plot_margins as plot_margins
from .certainty import plot_reliability as plot_reliability
from .curves import plot_convergence as plot_convergence
from .curves import plot_scaling as plot_scaling
from .embedding import plot_embeddings as plot_embeddings
from .segmentation import plot_segmentation as plot_segmentation
from .segmented_images import plot_image_segmentations as plot_image_segmentations
from .selection import plot_elbow as plot_elbow
from .selection import plot_members as plot_members
from .selection import plot_regularization_path as plot_regularization_path
from .timeline import plot_timeline as plot_timeline
from .weights import plot_metric_matrix as plot_metric_matrix
from .weights import plot_weights as plot_weights
