"""
Choosing the number of clusters
===============================

Four groups of points, K-means for every K, and five indices that need no truth. Each index is
divided by its best value. The dot marks the K that this index would choose.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs

from metriclearn.indices import (
    calinski_harabasz_score,
    davies_bouldin_score,
    dunn_score,
    silhouette_samples,
    silhouette_score,
)

X, _ = make_blobs(300, centers=[[0, 0], [6, 0], [0, 6], [6, 6]], random_state=0)
numbers = np.arange(2, 9)
labels = {k: KMeans(k, n_init=5, random_state=0).fit_predict(X) for k in numbers}
indices = {
    "silhouette": silhouette_score,
    "simplified silhouette": lambda X, y: silhouette_score(X, y, kind="simplified"),
    "Dunn": dunn_score,
    "Calinski–Harabasz": calinski_harabasz_score,
    "1 / Davies–Bouldin": lambda X, y: 1 / davies_bouldin_score(X, y),
}
figure, axes = plt.subplots(1, 2, figsize=(10, 3.6))
for name, index in indices.items():
    values = np.array([index(X, labels[k]) for k in numbers])
    best = int(values.argmax())
    (line,) = axes[0].plot(numbers, values / values[best], label=name)
    axes[0].plot(numbers[best], 1, "o", color=line.get_color())
axes[0].set(title="Five indices choose K", xlabel="K", ylabel="share of the best value")
axes[0].legend(fontsize=8)
order = np.lexsort([silhouette_samples(X, labels[4]), labels[4]])
axes[1].bar(
    np.arange(300),
    silhouette_samples(X, labels[4])[order],
    width=1,
    color=[f"C{k}" for k in labels[4][order]],
)
axes[1].set(
    title="Silhouettes of the points, K = 4", xlabel="point, by cluster", ylabel="silhouette"
)
figure.tight_layout()
