"""
Clustering that knows what matters
==================================

Iris with four features of noise: K-means mixes the species. A metric learned on half of the
flowers clusters the other half as a botanist does.
"""

import numpy as np

from metriclearn import ClusteringMetricLearner
from metriclearn.baselines import Euclidean, MetricKMeans
from metriclearn.datasets import load_example
from metriclearn.indices import adjusted_rand_score
from metriclearn.plots import plot_embeddings

random = np.random.default_rng(0)
iris = load_example("iris")
X = np.hstack([iris.X, random.normal(scale=2.0, size=(150, 4))])
half = random.permutation(150) < 75

learner = ClusteringMetricLearner().fit(X[half], iris.y[half])
found = learner.predict(X[~half], n_clusters=3)
plain = MetricKMeans(Euclidean()).fit(X[half], iris.y[half]).predict(X[~half], n_clusters=3)

Z = learner.transform(X[~half])
shown = np.column_stack([Z[:, 0], random.uniform(size=len(Z))])  # the height says nothing
panels = {
    f"petals, ARI of K-means {adjusted_rand_score(iris.y[~half], plain):.2f}": X[~half][:, 2:4],
    f"learned, ARI of K-means {adjusted_rand_score(iris.y[~half], found):.2f}": shown,
}
figure = plot_embeddings(panels, iris.y[~half], title="The half that was not learned from")
