"""
Boundaries: near, missed, too many
==================================

Four predictions against one truth. Each index is sensitive to different mistakes: see which index
is low for which prediction.
"""

import matplotlib.pyplot as plt
import numpy as np

from metriclearn import Partition
from metriclearn.indices import (
    adjusted_rand_score,
    covering,
    f_measure,
    hausdorff,
    precision_recall,
)
from metriclearn.plots import plot_segmentation

truth = [100, 200, 300, 400]
predictions = {
    "all a little late": [106, 206, 306, 400],
    "one missed": [100, 200, 400],
    "one too many": [100, 150, 200, 300, 400],
    "one far away": [100, 200, 360, 400],
}
plot_segmentation({"truth": truth, **predictions}, title="Which mistake is worse?")

# %%
columns = ["precision", "recall", "F", "covering", "adjusted Rand", "1 − Hausdorff/n"]
values = []
for ends in predictions.values():
    precision, recall = precision_recall(truth, ends, margin=10)
    pair = Partition.from_change_points(truth), Partition.from_change_points(ends)
    values.append(
        [
            precision,
            recall,
            f_measure(truth, ends, margin=10),
            covering(truth, ends),
            adjusted_rand_score(*pair),
            1 - hausdorff(truth, ends, normalized=True),
        ]
    )
figure, ax = plt.subplots(figsize=(8, 3))
ax.imshow(values, cmap="RdYlGn", vmin=0.4, vmax=1, aspect="auto")
for (row, column), value in np.ndenumerate(values):
    ax.text(column, row, f"{value:.2f}", ha="center", va="center")
ax.set_xticks(range(6), columns, rotation=20)
ax.set_yticks(range(4), predictions)
ax.set_title("Six indices of four predictions (margin of ten samples)")
figure.tight_layout()
