"""
How many labels do I need?
==========================

The learning curve: the loss on new sequences against the number of labeled ones, for one weight
per feature, and for a full metric, which has many more numbers to learn.
"""

import matplotlib.pyplot as plt

from metriclearn import ChangePointMetricLearner, FullMetric, SquaredFrobenius
from metriclearn.datasets import make_change_points

train = make_change_points(12, 200, 20, 4, (4, 7), random_state=0)
test = make_change_points(20, 200, 20, 4, (4, 7), random_state=1)
learners = {
    "one weight per feature, L1": ChangePointMetricLearner(),
    "full metric": ChangePointMetricLearner(FullMetric(), SquaredFrobenius(0.01)),
}
numbers = [1, 2, 4, 8, 12]
figure, ax = plt.subplots(figsize=(7, 3.6))
for name, learner in learners.items():
    losses = []
    for n in numbers:
        learner.fit(train.sequences[:n], train.labels[:n])
        losses.append(-200 * learner.score(test.sequences, test.labels))
    ax.plot(numbers, losses, "o-", label=name)
ax.set_title("Few of the features matter: a weight for each needs few labels")
ax.set(xlabel="labeled sequences", ylabel="loss ‖M − N‖² on new ones", ylim=0)
ax.legend()
figure.tight_layout()
