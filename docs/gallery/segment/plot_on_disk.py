"""
Sequences larger than the memory
================================

Sequences stay on disk, and a learner reads each sequence when it is needed. The result is the same
to the last bit, in one thread or in several.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from metriclearn import ChangePointMetricLearner
from metriclearn.datasets import SequenceFolder, make_change_points, pack_sequences
from metriclearn.running.executors import ThreadExecutor

folder = Path(tempfile.mkdtemp())
data = make_change_points(6, 400, 30, 4, (4, 7), random_state=0)
packed = pack_sequences(data.sequences, data.labels, folder / "packed")
for place, X in enumerate(data.sequences):
    (folder / "separate").mkdir(exist_ok=True)
    np.save(folder / "separate" / f"{place}.npy", X)
    np.save(folder / "separate" / f"{place}.labels.npy", data.labels[place])
separate = SequenceFolder(folder / "separate")

learners = {
    "in memory": ChangePointMetricLearner().fit(data.sequences, data.labels),
    "one file": ChangePointMetricLearner().fit(packed.sequences, packed.labels),
    "a folder, two threads": ChangePointMetricLearner(executor=ThreadExecutor(2)).fit(
        separate.sequences, separate.labels
    ),
}
figure, ax = plt.subplots(figsize=(8, 3))
for place, (name, learner) in enumerate(learners.items()):
    weights = learner.get_mahalanobis_matrix().diagonal()
    ax.bar(np.arange(30) + 0.27 * (place - 1), weights, width=0.27, label=name)
ax.set(title="Wherever the data are: the same metric", xlabel="feature", ylabel="weight")
ax.legend()
figure.tight_layout()
