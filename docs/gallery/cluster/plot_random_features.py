"""
Random features of a similarity
===============================

There are many pairs of nodes. Random Fourier features approximate the Gaussian similarity, with an
error that falls as one over the square root of the number of features.
"""

import numpy as np

from metriclearn.plots import plot_scaling
from metriclearn.views.fourier import RandomFourierFeatures

X = np.random.default_rng(0).normal(size=(200, 3))
exact = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
counts, errors = [25, 100, 400, 1600, 6400], []
for count in counts:
    draws = [RandomFourierFeatures(n_components=count, random_state=seed) for seed in range(4)]
    products = [draw.fit_transform(X) for draw in draws]
    errors.append(np.mean([np.linalg.norm(Z @ Z.T - exact) for Z in products]))
figure = plot_scaling(
    counts, errors / np.linalg.norm(exact), -0.5, label="mean over four draws",
    xlabel="random features D", ylabel="relative error", title="More features, less error",
)  # fmt: skip
