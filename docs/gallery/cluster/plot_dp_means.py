"""
How many clusters? A penalty decides
====================================

DP-means is K-means with a penalty per cluster. For tight clusters, DP-means is the limit of a
Dirichlet process mixture, which opens a new cluster with some probability.
"""

import matplotlib.pyplot as plt
import numpy as np

from metriclearn.clusterers import (
    DPMeans,
    GibbsDPMixture,
    assignment_probabilities,
    penalized_kmeans_objective,
    spherical_responsibilities,
)

random = np.random.default_rng(0)
centers = np.array([[0, 0], [5, 0], [0, 5], [5, 5]])
X = np.vstack([center + random.normal(size=(40, 2)) for center in centers])

figure, axes = plt.subplots(1, 4, figsize=(12, 3.3), sharex=True, sharey=True)
for ax, penalty in zip(axes, [3.0, 12.0, 60.0]):
    labels = DPMeans(penalty, random_state=0, order="random", n_init=10).fit_predict(X)
    cost = penalized_kmeans_objective(X, labels, penalty)
    ax.scatter(*X.T, c=labels, cmap="tab20", s=12)
    ax.set(
        title=f"penalty {penalty:g}: {labels.max() + 1} clusters", xlabel=f"objective {cost:.0f}"
    )
mixture = GibbsDPMixture(12.0, variance=1.0, prior_variance=10.0, n_sweeps=20, random_state=0).fit(
    X
)
axes[3].scatter(*X.T, c=mixture.labels_, cmap="tab20", s=12)
axes[3].set(title=f"Gibbs sampling: {mixture.labels_.max() + 1} clusters")
figure.tight_layout()

# %%
# Where would a point between the clusters go? To each of four, or to a new one:
means, middle = centers.astype(float), np.array([2.5, 2.0])
print(
    assignment_probabilities(
        middle, np.full(4, 40), means, variance=1.0, prior_variance=10.0, penalty=12.0
    ).round(3)
)
print(spherical_responsibilities(middle[None], np.ones(4), means, 1.0).round(3))
