"""
Above and below the best clustering
===================================

The best of all partitions is hard to find. But the spectral relaxation gives an upper bound of its
value, and a local search gives a lower bound.
"""

import matplotlib.pyplot as plt
import numpy as np

from metriclearn.oracles import LocalSearch, SpectralRelaxation
from metriclearn.problem import LowRankForm

random = np.random.default_rng(0)
spreads, upper, lower = np.linspace(0.2, 2.5, 12), [], []
for spread in spreads:
    X = np.repeat(np.array([[0, 0], [3, 0], [0, 3.0]]), 20, axis=0)
    X = X + spread * random.normal(size=X.shape)
    form = LowRankForm(X)
    upper.append(form.at(SpectralRelaxation()(form, 3)))
    lower.append(form.at(LocalSearch()(form, 3)))

figure, ax = plt.subplots(figsize=(7, 3.4))
ax.fill_between(spreads, lower, upper, alpha=0.3, label="the best partition is here")
ax.plot(spreads, upper, label="spectral relaxation")
ax.plot(spreads, lower, label="local search")
ax.set(
    title="Tight clusters leave no doubt",
    xlabel="standard deviation in a cluster",
    ylabel="score ⟨A, M⟩",
)
ax.legend()
figure.tight_layout()
