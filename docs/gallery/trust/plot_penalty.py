"""
Too many segments, too few: the change-point penalty
====================================================

The penalty is the cost of one more segment. One exact path contains all segmentations that are
optimal for some penalty. With labels, this path also gives the penalty with the least loss.
"""

import numpy as np

from metriclearn import Partition
from metriclearn.oracles import best_penalty, segmentation_path
from metriclearn.plots import plot_elbow, plot_segmentation
from metriclearn.problem import LowRankForm

random = np.random.default_rng(0)
levels = np.repeat([0.0, 1.5, 0.3, 2.0, 1.0], 60)
X = (levels + 0.6 * random.normal(size=300))[:, None]

path = segmentation_path(X, max_segments=25)
truth = Partition.from_labels(np.repeat(np.arange(5), 60))
penalty, loss = best_penalty([LowRankForm(X)], [truth])
chosen = len(path.at(penalty))
plot_elbow(path.n_segments, path.costs, path.penalties, chosen=chosen)

# %%
# A smaller penalty adds segments, a larger one joins them.
rows = {"truth": truth.change_points}
for factor in (0.2, 1, 4):
    rows[f"{factor:g} × the best penalty"] = path.at(penalty * factor)
figure = plot_segmentation(rows, signal=X, title="The penalty decides how many")
