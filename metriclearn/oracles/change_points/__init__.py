"""The exact search for change-points, one concept per file.

* ``search``: the oracle, and its search over the penalty of a segment
* ``recursion``: the dynamic program in one loop
* ``bounds``: ways to skip work without changing the result, each with its claim and proof
* ``segment_values``: the value of a segment, and the rules it obeys
* ``given_count``: a layered program, for numbers of segments that no penalty leads to
* ``transitions``: the recursion and the layered program for names with costs of transitions
* ``streaming``: the recursion over samples that arrive over time
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
