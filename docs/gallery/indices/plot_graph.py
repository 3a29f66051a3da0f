"""
Mistakes in the middle and at the rim
=====================================

One pixel of a region is relabeled: at its corner, or in its middle. The variation of information is
the same in both cases. Indices that use the neighbors differ (Hussain & Meilă 2014).
"""

import matplotlib.pyplot as plt
import numpy as np

from metriclearn.indices import (
    epsilon_graph,
    grid_graph,
    knn_graph,
    random_walk_index,
    variation_of_information,
    vi_with_neighbors,
)

truth = np.zeros((9, 9), dtype=int)
corner, middle = truth.copy(), truth.copy()
truth[:, 5:] = corner[:, 5:] = middle[:, 5:] = 1
corner[0, 4], middle[4, 1] = 1, 1
grid = grid_graph((9, 9), reach=1)

figure, axes = plt.subplots(1, 3, figsize=(9, 4.2))
for ax, labels, name in zip(
    axes, [truth, corner, middle], ["truth", "at the rim", "in the middle"]
):
    ax.imshow(labels, cmap="Set2", vmin=0, vmax=7)
    pair = truth.ravel(), labels.ravel()
    values = [
        variation_of_information(*pair),
        vi_with_neighbors(grid, *pair),
        random_walk_index(grid, *pair),
    ]
    ax.set(
        title=name, xticks=[], yticks=[], xlabel="VI {:.3f}\nVIN {:.3f}\nRWI {:.3f}".format(*values)
    )
figure.tight_layout()

# %%
# Graphs of points rather than of pixels: all pairs within a distance, or the nearest ones.
X = np.argwhere(truth >= 0).astype(float)
print(epsilon_graph(X, 1.0).nnz == knn_graph(X, 4).nnz, abs(epsilon_graph(X, 2**0.5) - grid).nnz)
