"""
Metrics of a table, side by side
================================

The same table under six metrics, all learned from the same half of its labels; the picture shows
the other half. Under a good metric, clusters are round and of equal size.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from metriclearn import ClusteringMetricLearner
from metriclearn.baselines import MMC, ClosedFormMetric, Euclidean, NeighborhoodComponents
from metriclearn.datasets import load_dataset
from metriclearn.estimators import WhitenedClusteringLearner

wine = load_dataset("wine")
half = np.random.default_rng(0).permutation(len(wine)) < 89
methods = {
    "Euclidean, standardized": Euclidean(),
    "closed form (Law et al.)": ClosedFormMetric(),
    "MMC (Xing et al.)": MMC(),
    "NCA": NeighborhoodComponents(),
    "large margin": ClusteringMetricLearner(),
    "large margin, whitened": WhitenedClusteringLearner(),
}
figure, axes = plt.subplots(2, 3, figsize=(10, 6))
for ax, (name, method) in zip(axes.flat, methods.items()):
    method.fit(wine.X[half], wine.y[half])
    Z = np.pad(wine.X[~half] @ method.components_.T, ((0, 0), (0, 2)))  # two columns at least
    for kind in wine.classes:
        ax.scatter(*PCA(2).fit(Z).transform(Z[wine.y[~half] == kind]).T, s=14)
    ax.set(title=name, xticks=[], yticks=[])
figure.suptitle("Wines that were not learned from, by their cultivars")
figure.tight_layout()
