"""
The Rand index, and what chance does to it
==========================================

Random labels with more and more clusters are compared with a truth of ten. The Rand index rises
towards 1 although the labels are random. Corrected for chance, the index stays at 0.
"""

import matplotlib.pyplot as plt
import numpy as np

from metriclearn.indices import (
    adjusted_rand_score,
    fowlkes_mallows_score,
    jaccard_score,
    pair_confusion_matrix,
    pair_counts,
    partition_loss,
    rand_score,
)

random = np.random.default_rng(0)
truth = random.integers(0, 10, size=1000)
numbers = [1, 2, 5, 10, 20, 50, 100]
indices = [rand_score, adjusted_rand_score, jaccard_score, fowlkes_mallows_score]
figure, ax = plt.subplots(figsize=(7, 3.6))
for index in indices:
    values = [index(truth, random.integers(0, k, size=1000)) for k in numbers]
    ax.semilogx(numbers, values, marker="o", label=index.__name__)
ax.set(title="Labels by chance", xlabel="number of random clusters", ylabel="index")
ax.legend()
figure.tight_layout()

# %%
# All four are made of the same four counts of pairs; the loss that metrics are learned by is
# another one.
a, b = [0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 1, 1]
print(pair_counts(a, b))
print(pair_confusion_matrix(a, b))
print(partition_loss(a, b, normalized=False))
