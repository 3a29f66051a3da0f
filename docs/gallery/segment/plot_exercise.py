"""
Which exercise, and when
========================

Motion capture of exercise routines. Exercises recur, so segments get names: ``fit_states`` learns
the names, ``predict_states`` predicts them.
"""

import matplotlib.pyplot as plt

from metriclearn import WhitenedMetricLearner
from metriclearn.datasets import load_example
from metriclearn.indices import edit_score, segmental_f1

routines = load_example("exercise")
train = routines.select([0, 2, 3])
learner = WhitenedMetricLearner(retune=True)
learner.fit(train.sequences, train.labels)
learner.fit_states(train.sequences, train.labels)
true, told = routines.labels[1], learner.predict_states(routines.sequences[1])

names = list(dict.fromkeys([*true, *told]))
figure, ax = plt.subplots(figsize=(9, 3))
for row, labels in enumerate([true, told]):
    places = [names.index(label) for label in labels]
    extent = [0, len(true) / 10, -row - 0.35, -row + 0.35]
    ax.imshow([places], cmap="tab10", vmin=0, vmax=9, aspect="auto", extent=extent)
for place, name in enumerate(names):
    ax.scatter([], [], color=plt.get_cmap("tab10")(place), marker="s", label=name)
ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
ax.set(
    xlim=(0, len(true) / 10),
    yticks=[0, -1],
    yticklabels=["by hand", "told"],
    ylim=(-1.6, 0.6),
    xlabel="seconds",
)
score, order = segmental_f1(true, told, overlap=0.25), edit_score(true, told)
ax.set_title(f"A routine that was held out: F1@25 {score:.2f}, order of exercises {order:.2f}")
figure.tight_layout()
