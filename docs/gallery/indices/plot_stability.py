"""
Does a method give the same answer twice?
=========================================

K-means on bootstrap samples of three groups: with ``K = 3`` the clusterings agree, with another K
they do not. Such agreement does not prove that K is right (von Luxburg 2010 explains why).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs

from metriclearn.indices import (
    stability,
    stability_pairwise,
    stability_reference,
    stability_summary,
)

X, _ = make_blobs(150, centers=[[0, 0], [4, 0], [2, 4]], random_state=0)
results = {k: stability(KMeans(k, n_init=3), X, n_bootstrap=30) for k in range(2, 7)}
figure, ax = plt.subplots(figsize=(7, 3.4))
ax.boxplot([result.distances for result in results.values()], tick_labels=list(results))
ax.set(title="Only K = 3 is stable", xlabel="K", ylabel="variation of information (nats)")
figure.tight_layout()

# %%
# Labelings that you have made yourself, compared with each other or with one of them:
labelings = [KMeans(3, n_init=1, random_state=seed).fit_predict(X) for seed in range(5)]
print(stability_summary(stability_pairwise(labelings)))
print(np.round(stability_reference(labelings[0], labelings[1:]), 3))
