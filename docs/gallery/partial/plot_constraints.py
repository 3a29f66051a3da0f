"""
Corrections of a prediction
===========================

In two places you know that the result is wrong: one boundary is missing, another one is false. The
search is exact under these constraints; other boundaries move if this raises the score.
"""

import numpy as np

from metriclearn import PartialPartition, Region
from metriclearn.oracles import ChangePoints, ConstrainedChangePoints
from metriclearn.plots import plot_segmentation
from metriclearn.problem import AT_LEAST_ONE, NO_CHANGE, LowRankForm

random = np.random.default_rng(3)
levels = np.repeat([0.0, 2.0, 0.4, 0.85, 0.2], [60, 50, 60, 20, 60])
X = (levels + 0.5 * random.normal(size=250))[:, None]
X[25:30] += 3  # a disturbance that is no segment

form = LowRankForm(X).shifted(-12.0)  # the penalty of a segment is 12
regions = [Region(15, 40, NO_CHANGE), Region(160, 180, AT_LEAST_ONE)]
known = PartialPartition(250, regions=regions)
rows = {
    "truth": np.cumsum([60, 50, 60, 20, 60]),
    "the search alone": ChangePoints()(form).change_points,
    "with what you know": ConstrainedChangePoints()(form, known=known).change_points,
}
figure = plot_segmentation(rows, signal=X, title="Two words of yours correct three boundaries")
