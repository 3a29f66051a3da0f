"""
Eighteen ways to say that clusters are apart
============================================

Dunn's index is a separation divided by a diameter. With six separations and three diameters there
are eighteen indices. We add one outlier between two groups and see which of these indices change
much.
"""

import matplotlib.pyplot as plt
import numpy as np

from metriclearn.indices import dunn_scores

random = np.random.default_rng(0)
X = np.vstack([random.normal(size=(40, 2)), random.normal(size=(40, 2)) + [8, 0], [[4, 0]]])
labels = np.repeat([0, 1], [40, 41])
clean, upset = dunn_scores(X[:-1], labels[:-1]), dunn_scores(X, labels)
separations, diameters = (list(dict.fromkeys(names)) for names in zip(*clean))
kept = [[upset[s, d] / clean[s, d] for d in diameters] for s in separations]

figure, ax = plt.subplots(figsize=(6, 4))
image = ax.imshow(kept, cmap="RdYlGn", vmin=0, vmax=1, aspect="auto")
for (row, column), value in np.ndenumerate(kept):
    ax.text(column, row, f"{value:.0%}", ha="center", va="center")
ax.set_xticks(range(3), diameters)
ax.set_yticks(range(6), separations)
ax.set(xlabel="diameter", ylabel="separation", title="What one outlier leaves of the index")
figure.tight_layout()
