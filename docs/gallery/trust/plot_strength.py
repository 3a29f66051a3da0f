"""
How strong a regularization?
============================

Along a path of strengths, each fit starts from the previous one. The loss on other sequences
chooses a strength. Without other sequences, a ``Segmenter`` compares learners on sequences that it
leaves out.
"""

from metriclearn import L1, ChangePointMetricLearner, Segmenter, regularization_path
from metriclearn.datasets import make_change_points

data = make_change_points(9, 200, 20, 3, (3, 6), random_state=0)
path = regularization_path(
    ChangePointMetricLearner(regularizer=L1()),
    data.sequences[:6],
    data.labels[:6],
    strengths=8,
    validation=(data.sequences[6:], data.labels[6:]),
)
path.plot()

# %%
metric = path.learners[path.best].get_mahalanobis_matrix()
print(path.strengths[path.best], metric.diagonal().argsort()[-3:])

# %%
# The same without a validation set. The table tells the losses on sequences left out:
learners = [ChangePointMetricLearner(regularizer=L1(strength)) for strength in (0.1, 0.01, 0.001)]
segmenter = Segmenter({"L1": learners}, combine="best", n_folds=3)
print(segmenter.fit(data.sequences, data.labels).choice_)
