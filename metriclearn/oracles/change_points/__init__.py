"""The exact search for change-points, one concept per file.

* ``search``: the oracle, and its search over the penalty of a segment
* ``recursion``: the dynamic program in one loop
* ``bounds``: the exact ways to skip work, each with its claim and proof
* ``segment_values``: the value of a segment, and the rules it obeys
* ``given_count``: a layered program, for a number of segments that is optimal at no penalty
* ``transitions``: the recursion and the layered program for names with costs of transitions
* ``margins``: how certain each change is
"""

from metriclearn.oracles.change_points.search import (
    ChangePoints,
    ConstrainedChangePoints,
    PenalizedSegmentation,
    Vertex,
    segmentation_oracle,
    slope,
)

__all__ = [
    "ChangePoints",
    "ConstrainedChangePoints",
    "PenalizedSegmentation",
    "Vertex",
    "segmentation_oracle",
    "slope",
]
