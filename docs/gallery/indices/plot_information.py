"""
Mutual information and the variation of information
===================================================

Five true clusters are compared with labels that are shuffled for more and more samples. The
variation of information is a distance. The adjusted mutual information falls to 0 when all labels
are random.
"""

import matplotlib.pyplot as plt
import numpy as np

from metriclearn.indices import (
    adjusted_mutual_info_score,
    entropy,
    expected_mutual_information,
    mutual_info_score,
    normalized_mutual_info_score,
    normalized_variation_of_information,
    variation_of_information,
)

random = np.random.default_rng(0)
truth = np.repeat(np.arange(5), 60)
shares = np.linspace(0, 1, 11)
labelings = []
for share in shares:
    chosen = random.permutation(300)[: int(300 * share)]
    labels = truth.copy()
    labels[chosen] = random.permutation(labels[chosen])
    labelings.append(labels)

figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), sharex=True)
for ax, indices in [
    (
        axes[0],
        [
            normalized_mutual_info_score,
            adjusted_mutual_info_score,
            normalized_variation_of_information,
        ],
    ),
    (axes[1], [mutual_info_score, variation_of_information]),
]:
    for index in indices:
        ax.plot(shares, [index(truth, y) for y in labelings], marker="o", label=index.__name__)
    ax.set(xlabel="share of shuffled labels")
    ax.legend(fontsize=8)
axes[1].axhline(entropy(truth), color="k", linestyle=":")
axes[1].set(title="in nats; dotted: the entropy of the truth")
axes[0].set(title="normalized or corrected", ylabel="index")
figure.tight_layout()

# %%
# What two labelings of these sizes share by chance, in nats:
print(expected_mutual_information(np.full(5, 60), np.full(5, 60)))
