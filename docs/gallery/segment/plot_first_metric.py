"""
A first metric
==============

Three of thirty features change where the labels change. The learner finds these three features, and
the penalty of a segment. On a new sequence, the learner finds the labeled segments.
"""

from metriclearn import ChangePointMetricLearner
from metriclearn.datasets import make_change_points

train = make_change_points(n_features=30, n_relevant=3, random_state=0)
test = make_change_points(n_features=30, n_relevant=3, random_state=1)

learner = ChangePointMetricLearner().fit(train.sequences, train.labels)
figure = learner.plot(test.sequences[0], test.labels[0])

# %%
# The penalty of a segment was learned, too, and every fit has a certified bound on its distance
# from the optimum.
print(learner.penalty_, learner.solution_.relative_gap)
