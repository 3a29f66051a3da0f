"""
The exact search, and how fast it is
====================================

Algorithm 1 of the paper evaluates all pairs of positions. The pruned search evaluates only a few of
these pairs and gives the same result. Both searches maximize ⟨A, M⟩ over all segmentations.
"""

import time

from metriclearn.datasets import make_change_points
from metriclearn.oracles import ChangePoints, SummedArea
from metriclearn.plots import plot_scaling
from metriclearn.problem import LowRankForm

sizes, pruned, plain = [200, 400, 800, 1600], [], []
for size in [50, *sizes]:
    X = make_change_points(1, size, 5, 2, (size // 50, size // 40 + 1), random_state=0).sequences[0]
    form = LowRankForm(X).shifted(-20.0)
    answers = []
    for oracle, seconds in [(ChangePoints(), pruned), (SummedArea(), plain)]:
        start = time.perf_counter()
        answers.append(oracle(form).change_points.tolist())
        seconds.append(time.perf_counter() - start)
    assert answers[0] == answers[1]
figure = plot_scaling(sizes, plain[1:], label="Algorithm 1", title="The same answer, sooner")
plot_scaling(sizes, pruned[1:], ax=figure.axes[0], label="pruned", title="The same answer, sooner")
