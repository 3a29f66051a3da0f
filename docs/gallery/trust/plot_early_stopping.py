"""
Watching a fit, and stopping it
===============================

Callbacks run after every round. One callback stops the fit when the score on held-out sequences has
not improved for four rounds. Another callback passes numbers to TensorBoard, MLflow, or a list.
"""

import warnings

import matplotlib.pyplot as plt

from metriclearn import ChangePointMetricLearner
from metriclearn.datasets import make_change_points
from metriclearn.running import EarlyStopping, ScalarLog

warnings.simplefilter("ignore")  # stopped before it has converged, as it is meant to be
data = make_change_points(12, 200, 40, 4, (4, 7), random_state=0)
stopping = EarlyStopping(data.sequences[8:], data.labels[8:], patience=4)
rows = []
log = ScalarLog(lambda name, value, step: rows.append((name, value, step)))
learner = ChangePointMetricLearner(callbacks=[stopping, log]).fit(
    data.sequences[:8], data.labels[:8]
)

figure, axes = plt.subplots(1, 2, figsize=(9, 3.2))
axes[0].plot(stopping.rounds_, stopping.scores_, "o-")
axes[0].set(
    title=f"Stopped after {len(stopping.rounds_)} rounds ({learner.solution_.reason})",
    xlabel="round",
    ylabel="score on held-out sequences",
)
for name in ("metriclearn/objective", "metriclearn/lower_bound"):
    steps, values = zip(*[(step, value) for row, value, step in rows if row == name])
    axes[1].plot(steps, values, label=name)
axes[1].set(title="What was logged", xlabel="round")
axes[1].legend(fontsize=8)
figure.tight_layout()
