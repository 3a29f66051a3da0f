"""
A folder of your files
======================

One CSV file per recording, a row per sample and a column of labels: that is all it takes. The model
is one file, too, which contains no code.
"""

import tempfile
from pathlib import Path

from metriclearn import WhitenedMetricLearner, load, save
from metriclearn.datasets import load_example, load_files, save_files

folder = Path(tempfile.mkdtemp())
save_files(load_example("exercise"), folder / "routines", label="exercise")
print(sorted(file.name for file in (folder / "routines").iterdir()))

# %%
data = load_files(folder / "routines", label="exercise")
learner = WhitenedMetricLearner(retune=True).fit(data.sequences[1:], data.labels[1:])
save(learner, folder / "routines.npz")

# %%
# Later, on another day:
learner = load(folder / "routines.npz")
figure = learner.plot(data.sequences[0], data.labels[0])
