"""
Which similarity counts?
========================

Four matrices hold similarities of the nodes of a picture: by color, by place, and two random ones.
Learning the weights of these matrices is a convex problem (section 5.1 of the paper).
"""

import matplotlib.pyplot as plt
import numpy as np

from metriclearn import DiagonalMetric, NormalizedCutMetricLearner, Trace
from metriclearn.similarities import GivenSimilarities


def scene(seed):
    """Two regions of 30 nodes, and four (S, S) similarities."""
    random = np.random.default_rng(seed)
    labels = np.repeat([0, 1], 30)
    color = labels + 0.3 * random.normal(size=60)
    place = labels + 1.0 * random.normal(size=60)
    views = [color, place, random.normal(size=60), random.normal(size=60)]
    return np.stack([np.exp(-((v[:, None] - v[None]) ** 2)) for v in views]), labels


matrices, labels = zip(*map(scene, range(4)))
learner = NormalizedCutMetricLearner(
    DiagonalMetric(), Trace(0.01), similarity=GivenSimilarities(), standardize=False
).fit(matrices, labels)
weights = learner.get_mahalanobis_matrix().diagonal()

figure, axes = plt.subplots(1, 5, figsize=(12, 2.8), width_ratios=[1, 1, 1, 1, 1.3])
names = ["color", "place", "chance", "chance again"]
for ax, name, matrix in zip(axes, names, matrices[0]):
    ax.imshow(matrix, cmap="Blues")
    ax.set(title=name, xticks=[], yticks=[])
axes[4].bar(names, weights)
axes[4].set(title="learned weights")
axes[4].tick_params(axis="x", rotation=30)
figure.tight_layout()
