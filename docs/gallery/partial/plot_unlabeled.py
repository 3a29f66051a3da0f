"""
Labels for a part only
======================

Often only a part is labeled. Unlabeled samples are −1. The learner alternates between completing
the labels and learning from them, and its loss counts only the labeled parts.
"""

import matplotlib.pyplot as plt
import numpy as np

from metriclearn import ChangePointMetricLearner
from metriclearn.datasets import make_change_points
from metriclearn.estimators import Alternation, KnownStart, PrincipalStart

data = make_change_points(4, 300, 30, 4, (5, 8), random_state=0)
known = [labels.copy() for labels in data.labels]
for labels in known:
    labels[100:] = -1  # only the first third was looked at

learners = {
    "from what is known": ChangePointMetricLearner(alternation=Alternation(start=KnownStart())),
    "from principal components": ChangePointMetricLearner(
        alternation=Alternation(start=PrincipalStart())
    ),
}
figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True)
for ax, (name, learner) in zip(axes, learners.items()):
    learner.fit(data.sequences, known)
    weights = learner.get_mahalanobis_matrix().diagonal()
    ax.bar(np.arange(30), weights / weights.max(), color=["C0"] * 4 + ["0.6"] * 26)
    ax.set(title=f"Start {name}", xlabel="feature (the first four are relevant)")
axes[0].set_ylabel("weight (largest = 1)")
figure.tight_layout()

# %%
# ``completions_`` are segmentations that agree with the labels; here the first sequence's, and the
# truth.
completed = learners["from what is known"].completions_[0]
print(np.flatnonzero(np.diff(completed)) + 1, np.flatnonzero(np.diff(data.labels[0])) + 1)
