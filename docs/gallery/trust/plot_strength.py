"""
How strong a regularization?
============================

Along a path of strengths, each fit starts from the previous one. Cross-validation over whole
sequences chooses a strength, as in ``LassoCV``.
"""

from metriclearn import L1, ChangePointMetricLearner, regularization_path
from metriclearn.datasets import make_change_points
from metriclearn.estimators import ChangePointMetricLearnerCV

data = make_change_points(9, 200, 20, 3, (3, 6), random_state=0)
learner = ChangePointMetricLearnerCV(regularizer=L1(), strengths=8, cv=3)
learner.fit(data.sequences, data.labels)
learner.path_.plot()

# %%
print(learner.strength_, learner.get_mahalanobis_matrix().diagonal().argsort()[-3:])

# %%
# The path alone, with your validation set, of any large-margin learner:
path = regularization_path(
    ChangePointMetricLearner(regularizer=L1()),
    data.sequences[:6],
    data.labels[:6],
    strengths=6,
    validation=(data.sequences[6:], data.labels[6:]),
)
print(path.strengths[path.best])
