"""Comparing partitions: every index of the papers, from labels, tables, points or graphs."""

from metriclearn.indices.boundaries import AnnotationError as AnnotationError
from metriclearn.indices.boundaries import PrecisionRecall as PrecisionRecall
from metriclearn.indices.boundaries import annotation_error as annotation_error
from metriclearn.indices.boundaries import hausdorff as hausdorff
from metriclearn.indices.boundaries import precision_recall as precision_recall
from metriclearn.indices.chance import Estimate as Estimate
from metriclearn.indices.chance import adjusted as adjusted
from metriclearn.indices.chance import expected_under_permutation as expected_under_permutation
from metriclearn.indices.contingency import ContingencyTable as ContingencyTable
from metriclearn.indices.contingency import contingency_table as contingency_table
from metriclearn.indices.dunn import dunn_score as dunn_score
from metriclearn.indices.dunn import dunn_scores as dunn_scores
from metriclearn.indices.graph import epsilon_graph as epsilon_graph
from metriclearn.indices.graph import grid_graph as grid_graph
from metriclearn.indices.graph import knn_graph as knn_graph
from metriclearn.indices.graph import random_walk_index as random_walk_index
from metriclearn.indices.graph import vi_with_neighbors as vi_with_neighbors
from metriclearn.indices.information import adjusted_mutual_info_score as adjusted_mutual_info_score
from metriclearn.indices.information import entropy as entropy
from metriclearn.indices.information import (
    expected_mutual_information as expected_mutual_information,
)
from metriclearn.indices.information import mutual_info_score as mutual_info_score
from metriclearn.indices.information import (
    normalized_mutual_info_score as normalized_mutual_info_score,
)
from metriclearn.indices.information import (
    normalized_variation_of_information as normalized_variation_of_information,
)
from metriclearn.indices.information import variation_of_information as variation_of_information
from metriclearn.indices.matching import misclassification_error as misclassification_error
from metriclearn.indices.matching import plot_contingency as plot_contingency
from metriclearn.indices.pairs import PairCounts as PairCounts
from metriclearn.indices.pairs import adjusted_rand_score as adjusted_rand_score
from metriclearn.indices.pairs import fowlkes_mallows_score as fowlkes_mallows_score
from metriclearn.indices.pairs import jaccard_score as jaccard_score
from metriclearn.indices.pairs import pair_confusion_matrix as pair_confusion_matrix
from metriclearn.indices.pairs import pair_counts as pair_counts
from metriclearn.indices.pairs import partition_loss as partition_loss
from metriclearn.indices.pairs import rand_score as rand_score
from metriclearn.indices.rank import MannWhitney as MannWhitney
from metriclearn.indices.rank import goodman_kruskal_gamma as goodman_kruskal_gamma
from metriclearn.indices.rank import mann_whitney_critical as mann_whitney_critical
from metriclearn.indices.rank import mann_whitney_exact_p as mann_whitney_exact_p
from metriclearn.indices.rank import mann_whitney_u as mann_whitney_u
from metriclearn.indices.rank import mann_whitney_z as mann_whitney_z
from metriclearn.indices.rank import weighted_goodman_kruskal as weighted_goodman_kruskal
from metriclearn.indices.stability import Stability as Stability
from metriclearn.indices.stability import stability as stability
from metriclearn.indices.stability import stability_pairwise as stability_pairwise
from metriclearn.indices.stability import stability_reference as stability_reference
from metriclearn.indices.stability import stability_summary as stability_summary
from metriclearn.indices.summary import compare as compare
from metriclearn.indices.validity import calinski_harabasz_score as calinski_harabasz_score
from metriclearn.indices.validity import davies_bouldin_score as davies_bouldin_score
from metriclearn.indices.validity import silhouette_samples as silhouette_samples
from metriclearn.indices.validity import silhouette_score as silhouette_score
