"""
How far from the optimum?
=========================

Every solver computes a valid lower bound: the optimum lies in the shaded band. The bundle method is
the first to close this band. Subgradient steps give a rough result with little memory.
"""

import warnings

from metriclearn import BundleDual, ChangePointMetricLearner
from metriclearn.datasets import make_change_points
from metriclearn.plots import plot_convergence
from metriclearn.solvers import ProjectedSubgradient

warnings.simplefilter("ignore")  # the second solver is stopped before it has converged
data = make_change_points(6, 200, 20, 3, (3, 6), random_state=0)
solvers = {
    "bundle": BundleDual(),
    "projected subgradient": ProjectedSubgradient(max_rounds=60),
}
learners = {
    name: ChangePointMetricLearner(solver=solver, verbose=False).fit(data.sequences, data.labels)
    for name, solver in solvers.items()
}
figure = plot_convergence(learners, title="The bundle closes its gap, subgradient steps do not")

# %%
for name, learner in learners.items():
    print(name, learner.solution_.reason, learner.solution_.relative_gap)
