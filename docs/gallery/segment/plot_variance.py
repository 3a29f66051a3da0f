"""
Changes of the spread, not of the mean
======================================

A metric compares means. Hermite moments turn a change of the spread into a change of a mean, and
the learner finds which moment changes.
"""

import matplotlib.pyplot as plt
import numpy as np

from metriclearn import ChangePointMetricLearner, FullMetric, SquaredFrobenius
from metriclearn.views import HermiteMoments

random = np.random.default_rng(0)
ends = [[60, 150, 240, 300], [90, 160, 300], [50, 130, 220, 300]]
labels = [np.searchsorted(e, np.arange(300), side="right") for e in ends]
signals = [random.normal(size=300) * np.where(y % 2, 3.0, 1.0) for y in labels]

moments = HermiteMoments(4)
features = moments.fit_transform([x[:, None] for x in signals])
learner = ChangePointMetricLearner(FullMetric(), SquaredFrobenius(1e-3)).fit(
    features[:2], labels[:2]
)
found = learner.predict_change_points(features[2])

figure, ax = plt.subplots(figsize=(8, 3))
ax.plot(signals[2], color="0.5", linewidth=0.8)
for place, end in enumerate(ends[2][:-1]):
    ax.axvline(end, color="k", linestyle=":", label="truth" if not place else None)
for place, end in enumerate(found[:-1]):
    ax.axvline(end, color="C3", label="found" if not place else None)
ax.set(title="The mean never changes, the spread does", xlabel="sample", ylabel="value")
ax.legend(loc="upper right", ncols=2)
figure.tight_layout()
