"""
Better than methods without training
====================================

Twenty of a hundred features change at the boundaries of segments. The other features change at
other times. All methods use the same exact search, each with the penalty that is best on the
training sequences.
"""

import matplotlib.pyplot as plt

from metriclearn import ChangePointMetricLearner, WhitenedMetricLearner
from metriclearn.baselines import Euclidean, PrincipalComponents, RelevantComponents, TunedSegmenter
from metriclearn.datasets import make_change_points
from metriclearn.views import Metric

train = make_change_points(6, 300, 100, 20, (4, 7), random_state=0)
test = make_change_points(6, 300, 100, 20, (4, 7), random_state=1)
methods = {
    "Euclidean": TunedSegmenter(Euclidean()),
    "principal components": TunedSegmenter(PrincipalComponents()),
    "relevant components": TunedSegmenter(RelevantComponents()),
    "drawn to principal components": WhitenedMetricLearner(
        view=Metric(PrincipalComponents()), toward=1e-2, retune=True
    ),
    "one weight per feature": ChangePointMetricLearner(),
}
losses = {}
for name, method in methods.items():
    method.fit(train.sequences, train.labels)
    losses[name] = -300 * method.score(test.sequences, test.labels)

figure, ax = plt.subplots(figsize=(8, 3))
bars = ax.barh(list(losses), list(losses.values()), color=["0.6"] * 3 + ["C0"] * 2)
ax.bar_label(bars, fmt=" %.2f")
ax.set(xlabel="loss ‖M − N‖²: about 1 for each segment too many or missed")
ax.set_title("New sequences: large-margin metrics are blue")
ax.spines[["top", "right"]].set_visible(False)
figure.tight_layout()
