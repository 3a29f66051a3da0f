"""
States that come back
=====================

Segmentations of actions, speech or music have special measures, which use names. ``compare``
returns all measures of a field in one call.
"""

import matplotlib.pyplot as plt
import numpy as np

from metriclearn.indices import (
    compare,
    edit_score,
    segmental_f1,
    state_matching_score,
    weighted_adjusted_rand_score,
    weighted_normalized_mutual_info_score,
)

truth = np.repeat(list("ABAC"), [40, 30, 40, 30])
predictions = {
    "late": np.repeat(list("ABAC"), [48, 30, 40, 22]),
    "flickering": np.where(np.arange(140) % 20 < 3, "B", truth),
    "one state forgotten": np.repeat(list("ABA"), [40, 30, 70]),
}
indices = [
    edit_score,
    segmental_f1,
    state_matching_score,
    weighted_adjusted_rand_score,
    weighted_normalized_mutual_info_score,
]
figure, axes = plt.subplots(1, 2, figsize=(11, 3.4), width_ratios=[1, 1.2])
rows = [np.unique(labels, return_inverse=True)[1] for labels in [truth, *predictions.values()]]
axes[0].imshow(rows, aspect="auto", cmap="Set2", interpolation="nearest", vmin=0, vmax=7)
axes[0].set_yticks(range(4), ["truth", *predictions])
axes[0].set(xlabel="sample", title="States")
for place, index in enumerate(indices):
    values = [index(truth, labels) for labels in predictions.values()]
    axes[1].bar(np.arange(3) + 0.17 * (place - 2), values, width=0.16, label=index.__name__)
axes[1].set_xticks(range(3), predictions)
axes[1].set(title="Five indices", ylim=(0, 1.7), ylabel="index, 1 if equal")
axes[1].legend(fontsize=7, ncols=2)
figure.tight_layout()

# %%
print(compare(truth, predictions["late"], field="video"))
