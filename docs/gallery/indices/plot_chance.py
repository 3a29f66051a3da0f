"""
Any index, corrected for chance
===============================

What would an index be if the labels were shuffled? The expectation is exact for some indices, and
for small samples by enumerating all tables. Otherwise the expectation is sampled. The corrected
index subtracts this expectation.
"""

import matplotlib.pyplot as plt
import numpy as np

from metriclearn.indices import (
    adjusted,
    expected_under_permutation,
    jaccard_score,
    misclassification_error,
    rand_score,
)

truth = np.repeat([0, 1, 2], [20, 10, 10])
labels = truth.copy()
labels[::4] = (labels[::4] + 1) % 3
indices = {
    "Rand": (rand_score, 1.0),
    "Jaccard": (jaccard_score, 1.0),
    "share of errors": (misclassification_error, 0.0),
}
figure, ax = plt.subplots(figsize=(7, 3.4))
for place, (index, best) in enumerate(indices.values()):
    chance = expected_under_permutation(index, truth, labels, n_permutations=200)
    value, right = (
        index(truth, labels),
        adjusted(index, truth, labels, maximum=best, n_permutations=200),
    )
    ax.bar(
        np.array([-0.25, 0, 0.25]) + place,
        [value, chance, right],
        width=0.22,
        color=["C0", "0.6", "C2"],
    )
    ax.text(place, -0.12, chance.method, ha="center", color="0.4", fontsize=8)
ax.set_xticks(range(3), indices)
ax.set(
    title="The index (blue), by chance (gray), corrected (green)", ylim=(-0.2, 1), ylabel="value"
)
figure.tight_layout()
