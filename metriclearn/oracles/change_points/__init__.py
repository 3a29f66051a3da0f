"""Find the best change-points exactly. Each file holds one concept.

* ``search``: the oracle, and its search over the penalty of a segment
* ``recursion``: the dynamic program for a given penalty of a segment
* ``bounds``: ways to skip work without changing the result, each with its claim and proof
* ``segment_values``: the value of a segment, and the rules it obeys
* ``given_count``: a layered program for a number of segments that no penalty leads to
* ``transitions``: both programs for named segments, if a name has a cost after another name
* ``streaming``: the recursion for samples that arrive one after another
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
