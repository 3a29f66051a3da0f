"""
How many are wrong?
===================

Clusters have no names. The best matching gives names to clusters, and samples off the diagonal are
errors.
"""

from metriclearn.baselines import Euclidean, MetricKMeans
from metriclearn.datasets import load_example
from metriclearn.indices import contingency_table, misclassification_error, plot_contingency

iris = load_example("iris")
found = MetricKMeans(Euclidean()).fit(iris.X, iris.y).predict(iris.X, n_clusters=3)
plot_contingency(iris.y, found)

# %%
# Any index takes the table in place of the labels.
table = contingency_table(iris.y, found)
print(table.n_samples, misclassification_error(contingency=table))
