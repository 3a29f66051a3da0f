"""
Reading a learned metric
========================

A diagonal metric has one weight per feature; the three of twelve features that change with the
segments are highlighted. A full metric with the trace as regularizer finds few directions, and its
eigenvalues show how many.
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
