"""
Reading a learned metric
========================

A diagonal metric is one weight per feature: highlighted are the three of twelve that the segments
follow. A full one with the trace as a regularizer looks for few directions, and its eigenvalues
show how many.
"""

from metriclearn import L1, ChangePointMetricLearner, DiagonalMetric, FullMetric, Trace
from metriclearn.datasets import make_change_points
from metriclearn.plots import plot_metric_matrix, plot_weights

data = make_change_points(8, 200, 12, 3, (3, 6), random_state=0)
diagonal = ChangePointMetricLearner(DiagonalMetric(), L1(1e-3)).fit(data.sequences, data.labels)
plot_weights(diagonal, highlight=[f"feature {place}" for place in range(3)])

# %%
full = ChangePointMetricLearner(FullMetric(), Trace(1e-2)).fit(data.sequences, data.labels)
plot_metric_matrix(full)
