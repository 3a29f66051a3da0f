"""
How sure is a boundary?
=======================

How much lower would the best score be without each boundary, exactly? With labeled sequences such
losses become probabilities, and a diagram shows whether these are calibrated.
"""

import numpy as np

from metriclearn import ChangePointMetricLearner
from metriclearn.datasets import make_change_points
from metriclearn.oracles import boundary_margins
from metriclearn.plots import expected_calibration_error, plot_margins, plot_reliability
from metriclearn.problem import LowRankForm

data = make_change_points(30, 200, 12, 2, (4, 8), random_state=0)
test = make_change_points(20, 200, 12, 2, (4, 8), random_state=1)
learner = ChangePointMetricLearner().fit(data.sequences[:4], data.labels[:4])
learner.calibrate(data.sequences[4:], data.labels[4:], tolerance=3)

margins = learner.boundary_margins(test.sequences[0])
plot_margins(
    margins.change_points,
    margins.probabilities,
    margins.gains,
    margins.intervals(learner.penalty_ / 5),
    words="probability",
)

# %%
told, came_true = [], []
for X, ends in zip(test.sequences, test.change_points):
    margins = learner.boundary_margins(X)
    told.extend(margins.probabilities)
    came_true.extend(np.abs(ends[:-1, None] - margins.change_points[:-1]).min(axis=0) <= 3)
plot_reliability(np.array(told), np.array(came_true))

# %%
print(expected_calibration_error(np.array(told), np.array(came_true)))

# %%
# The same without a learner, for any form:
form = LowRankForm(test.sequences[0] @ learner.components_.T).shifted(-learner.penalty_)
print(boundary_margins(form, min_size=5).losses.round(2))
