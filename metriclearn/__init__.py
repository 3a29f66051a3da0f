"""Learn a metric from existing partitions of data, and partition new data in the same way.

>>> from metriclearn import ChangePointMetricLearner, Segmenter, load
>>> from metriclearn.datasets import make_change_points
>>> train = make_change_points(n_features=30, n_relevant=3, random_state=0)
>>> test = make_change_points(n_features=30, n_relevant=3, random_state=1)
>>> members = ChangePointMetricLearner()  # by default, many learners; that takes a minute
>>> segmenter = Segmenter(members, n_folds=3).fit(train.sequences, train.labels)
>>> segmenter.predict_change_points(test.sequences[0]).tolist()  # as in ruptures, the last one is T
[144, 253, 387, 431, 494, 538, 600]
>>> path = segmenter.save("model.npz")  # doctest: +SKIP
>>> segmenter = load("model.npz")  # doctest: +SKIP

To learn from

* segmented recordings, use Segmenter, or the commands that ``metriclearn --help`` lists;
* clustered tables or segmented images, use Clusterer;
* partial labels, use −1 for unlabeled samples, or PartialPartition.

Both combine or choose learners, which can be used alone: ChangePointMetricLearner,
NamedSegmentLearner and WhitenedMetricLearner; ClusteringMetricLearner; NormalizedCutMetricLearner.

X is a list of (T, P) arrays or data frames, and y a list of labels or of change-points. A single
array with its labels is one data set. A one-dimensional array is a signal with one feature. Other
parts of the package are baselines, clusterers, datasets, features, indices (measures of agreement),
oracles, plots, similarities and solvers; see, for example, ``help(metriclearn.indices)``.

``__init__.pyi`` lists the public names. The names load on first use, so that importing metriclearn
is fast.
"""

import pkgutil
from typing import Any

import lazy_loader

__version__ = "0.1.0"

# Names of earlier versions, and what to use instead.
GONE = {
    "ChangePointMetricLearnerCV": "use Segmenter({'name': learners}, combine='best'), or "
    "GridSearchCV of scikit-learn with regularizer__strength",
    "ClusteringConsensus": "use Clusterer(combine='consensus')",
    "ColumnSegmenter": "pass view=metriclearn.views.Columns(start, stop) to a learner",
    "Consensus": "use Segmenter",
    "EachSample": "use metriclearn.views.Each",
    "FramePosteriors": "use metriclearn.views.Posteriors",
    "GapSegmenter": "use Segmenter, or pass view=metriclearn.views.LeaveOut() to a learner",
    "NeighborFeatures": "use metriclearn.views.Neighbors",
    "RecordingSegmenter": "use Segmenter(extractor=...)",
    "ReferenceMetricLearner": "use WhitenedMetricLearner(view=metriclearn.views.Metric(reference), "
    "toward=strength)",
    "annotate": "use metriclearn.suggest, or metriclearn.estimators.labeled_stretches",
    "auto_metric_learner": "use Segmenter(combine='best').fit(X, y, groups)",
}
# Names that moved to folders.
MOVED = {
    "clusterers": "DPMeans EvidenceAccumulation GibbsDPMixture",
    "estimators": "Alternation KnownStart PrincipalStart SegmentCounts SegmenterStream "
    "StreamedSegments WhitenedClusteringLearner",
    "features": "ImageFeatures",
    "oracles": "Averaged BoundaryMargins ChangePoints ConstrainedChangePoints LocalSearch "
    "SpectralRelaxation SummedArea best_penalty boundary_margins segmentation_path",
    "problem": "AT_LEAST_ONE ConsensusForm DenseForm EXACTLY_ONE FrobeniusLoss KnownLoss "
    "LinearFeatures LowRankForm NO_CHANGE",
    "running": "EarlyStopping ScalarLog",
    "similarities": "FourierSimilarity GaussianSimilarity GivenSimilarities",
    "solvers": "CCCP CuttingPlane FactorDescent ProjectedSubgradient",
    "views": "BoundaryFeatures HermiteMoments SequenceFeatures",
}
_loaded, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    homes = [folder for folder, names in MOVED.items() if name in names.split()]
    if name in GONE or homes:
        from metriclearn.running.extras import gone

        remedy = GONE[name] if name in GONE else f"use metriclearn.{homes[0]}.{name}"
        raise gone(f"metriclearn has no {name} any more; {remedy}.")
    return _loaded(name)


# ``import *`` imports the public names, but not the folders
__all__ = sorted(set(__all__) - {module.name for module in pkgutil.iter_modules(__path__)})
