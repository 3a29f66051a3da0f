"""
Clusters of any shape
=====================

Many runs of K-means vote on which points belong together (evidence accumulation, Fred & Jain 2005).
Points that are linked by a chain of votes form a cluster.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import make_moons

from metriclearn.clusterers import EvidenceAccumulation, coassociation, evidence_accumulation

X, y = make_moons(200, noise=0.06, random_state=0)
order = np.argsort(y, kind="stable")
X = X[order]
runs = [KMeans(k, n_init=1, random_state=k).fit_predict(X) for k in range(8, 16)]
together = coassociation(runs)
voted = evidence_accumulation(runs)
labels = EvidenceAccumulation(50, random_state=0).fit_predict(X)

figure, axes = plt.subplots(1, 3, figsize=(11, 3.4))
axes[0].scatter(*X.T, c=runs[0], cmap="tab10", s=12)
axes[0].set(title="One run of K-means", xlabel="x", ylabel="y")
image = axes[1].imshow(together, cmap="Blues", vmin=0, vmax=1)
figure.colorbar(image, ax=axes[1], label="share of runs")
axes[1].set(title=f"Eight runs vote: {voted.max() + 1} clusters", xlabel="sample", ylabel="sample")
axes[2].scatter(*X.T, c=labels, cmap="tab10", s=12)
axes[2].set(title=f"Fifty runs: {labels.max() + 1} clusters", xlabel="x")
figure.tight_layout()
