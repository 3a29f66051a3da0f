"""
Learned features
================

Here no feature has different means in the segments: only the correlation of two features changes. A
small network learns features whose means differ, with gradients from the same exact search.
"""

from functools import partial

import matplotlib.pyplot as plt
import numpy as np

from metriclearn import ChangePointMetricLearner, FullMetric, SquaredFrobenius
from metriclearn.encoders import Encoder, Noise, WindowEncoder

random = np.random.default_rng(0)
X, y = [], []
for _ in range(7):
    labels = np.repeat(np.arange(6), random.integers(25, 60, size=6))
    a = random.normal(size=len(labels))
    b = np.where(labels % 2, a, -a) + 0.3 * random.normal(size=len(labels))
    X.append(np.column_stack([a, b]))
    y.append(labels)

network = partial(WindowEncoder, n_outputs=4, width=32)
view = Encoder(network, augmentations=[Noise(0.05)], n_epochs=40, random_state=0)
toward_identity = SquaredFrobenius(1.0, center=1.0)
deep = ChangePointMetricLearner(
    FullMetric(), toward_identity, standardize=False, retune=True, view=view
)
deep.fit(X[:6], y[:6])
plain = ChangePointMetricLearner().fit(X[:6], y[:6])

figure, axes = plt.subplots(2, 1, figsize=(8, 4.4), sharex=True)
for ax, shown, learner, name in [
    (axes[0], X[6], plain, "as they are"),
    (axes[1], deep.transform(X[6]), deep, "learned"),
]:
    ax.plot(shown, linewidth=0.8)
    for end in np.flatnonzero(np.diff(y[6])) + 1:
        ax.axvline(end, color="k", linestyle=":", linewidth=2)
    for end in learner.predict_change_points(X[6])[:-1]:
        ax.axvline(end, color="C3")
    ax.set(title=f"Features {name}: boundaries found (red) and true (dotted)", ylabel="value")
axes[1].set_xlabel("sample")
figure.tight_layout()
