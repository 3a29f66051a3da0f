"""
Dances of bees
==============

A dancing bee turns left, waggles, and turns right. We learn a metric from three dances that were
segmented by hand. With this metric we segment the dance of a fourth bee.
"""

import matplotlib.pyplot as plt
import numpy as np

from metriclearn import WhitenedMetricLearner
from metriclearn.datasets import load_example

bees, tracks = load_example("bees"), load_example("bees", derived=False)
train = bees.select([0, 1, 3])
learner = WhitenedMetricLearner(retune=True).fit(train.sequences, train.labels)
found = learner.predict(bees.sequences[2])

figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), sharex=True, sharey=True)
for ax, labels, who in zip(axes, [bees.labels[2], found], ["by hand", "learned from three others"]):
    for number in np.unique(labels):
        part = labels == number
        ax.plot(*tracks.sequences[2][part, :2].T, linewidth=2)
    ax.set(title=f"{len(np.unique(labels))} segments, {who}", xlabel="x (share of the width)")
axes[0].set_ylabel("y (share of the height)")
figure.suptitle("One bee's dance: every color is a segment")
figure.tight_layout()

# %%
# The same over time, and which boundaries are where.
learner.plot(bees.sequences[2], bees.labels[2])
