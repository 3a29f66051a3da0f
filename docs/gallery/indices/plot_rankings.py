"""
Is one method better, and do two indices agree?
===============================================

Scores of two methods on a few data sets: the exact distribution of Mann and Whitney's U gives the
probability of such a difference by chance. If two indices rank models in a similar way, their gamma
is near 1.
"""

import matplotlib.pyplot as plt
import numpy as np

from metriclearn.indices import (
    goodman_kruskal_gamma,
    mann_whitney_critical,
    mann_whitney_exact_p,
    mann_whitney_u,
    mann_whitney_z,
    weighted_goodman_kruskal,
)

ours, theirs = [0.91, 0.87, 0.94, 0.90, 0.88, 0.95], [0.84, 0.86, 0.89, 0.80, 0.83, 0.85]
test = mann_whitney_u(ours, theirs)
possible = np.arange(37)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.4))
axes[0].semilogy(possible, [mann_whitney_exact_p(u, 6, 6) for u in possible], ".-")
axes[0].axvline(min(test.u1, test.u2), color="C3", label=f"observed, p = {test.p_value:.3f}")
axes[0].axvline(
    mann_whitney_critical(6, 6, 0.05), color="k", linestyle=":", label="significant below"
)
axes[0].set(title="Six data sets, two methods", xlabel="U", ylabel="two-sided p-value")
axes[0].legend()

random = np.random.default_rng(0)
quality = random.uniform(size=20)
index, other = quality + 0.1 * random.normal(size=20), quality**3
gamma, weighted = goodman_kruskal_gamma(index, other), weighted_goodman_kruskal(index, other)
axes[1].scatter(index, other)
axes[1].set(
    title=f"gamma {gamma:.2f}, weighted {weighted:.2f}", xlabel="one index", ylabel="another index"
)
figure.tight_layout()

# %%
print(test, mann_whitney_z(ours, theirs))
