"""
Annotated regions of copy-number profiles
=========================================

An expert marks where a profile has one breakpoint and where it has none, as for the neuroblastoma
tumors of Hocking et al. (2013). From such regions we learn the penalty of a segment, as a function
of each profile's noise.
"""

import numpy as np

from metriclearn import PartialPartition, PenaltyLearner, Region
from metriclearn.indices import annotation_error
from metriclearn.oracles import segmentation_path
from metriclearn.plots import plot_annotations
from metriclearn.problem import EXACTLY_ONE, NO_CHANGE


def profile(seed):
    """Log-ratios of 240 probes with three breakpoints, and an expert's annotations of five
    regions."""
    random = np.random.default_rng(seed)
    ends = np.array([60, 110, 180]) + random.integers(-12, 12, size=3)
    levels = np.array([0.0, 0.7, -0.4, 0.3])[np.searchsorted(ends, np.arange(240), side="right")]
    X = levels + random.uniform(0.1, 0.35) * random.normal(size=240)
    regions = [Region(end - 12, end + 12, EXACTLY_ONE) for end in ends]
    regions += [Region(5, 40, NO_CHANGE), Region(200, 235, NO_CHANGE)]
    return X[:, None], PartialPartition(240, regions=regions)


X, known = zip(*map(profile, range(13)))
learner = PenaltyLearner(min_size=3).fit(X[:12], known[:12])
found = learner.predict_change_points(X[12])
path = segmentation_path(X[12], max_segments=12)
too_many = max(path.change_points, key=lambda ends: len(ends) * (len(ends) <= 12))
figure = plot_annotations(
    X[12],
    {"learned penalty": found, "a penalty too small": too_many},
    known[12].regions,
    ylabel="log-ratio",
)

# %%
# The share of regions that a segmentation contradicts:
counts = [(r.start, r.stop, r.kind.fewest, r.kind.most) for r in known[12].regions]
print(annotation_error(found, counts), annotation_error(too_many, counts), sep="\n")
