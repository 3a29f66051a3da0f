"""The table of learners: what makes each of them, its data, and what it must not be asked.

A new learner is one row. What every row keeps stands in test_learners.py, and what interrupts and
buffers that are used again do to it in tests/adversarial/test_borders.py.
"""

import warnings
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline, make_union

import metriclearn as ml
from metriclearn import baselines, views
from metriclearn.datasets import load_example, make_change_points
from metriclearn.estimators import Viterbi
from metriclearn.solvers.subgradient import ConstantStep
from metriclearn.views.hermite import SlidingMoments

MADE = make_change_points(6, 90, 5, 2, (3, 4), jump=3.0, random_state=0)
X, Y = MADE.sequences, MADE.labels
ODD = [np.array(["a", "b"])[labels % 2] for labels in Y]
NOISE = np.random.default_rng(0).normal(size=(6, 90, 5))
OF_NAMES = [one + 2.5 * np.outer(y == "b", [1, 1, 0, 0, 0]) for one, y in zip(NOISE, ODD)]
HALF = [np.where(np.arange(90) < 60, labels, -1) for labels in Y]
REGIONS = [(2, 40, ml.problem.AT_LEAST_ONE), (50, 56, ml.problem.NO_CHANGE)]
PARTLY = [*HALF[:4], ml.PartialPartition(90, regions=REGIONS), Y[5]]
IRIS = load_example("iris")
FLOWERS, SPECIES = [IRIS.X[::2], IRIS.X[1::2]], [IRIS.y[::2], IRIS.y[1::2]]
TABLES, GROUPS = [one[:40] for one in OF_NAMES], [(y[:40] == "b").astype(int) for y in ODD]
THREE = [0, 0, 1, 1, 2, 2]


def holed(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The arrays with rows that are missing, also at the start, and with a gap in one column."""
    arrays = [array.copy() for array in arrays]
    for array in arrays:
        array[7], array[40:43, 1] = np.nan, np.nan
    arrays[2][0] = np.nan
    return arrays


class Jump:
    """A feature of one's own: how far the last two samples before a position are apart."""

    reach = (2, 0)

    def transform(self, X: list[np.ndarray]) -> list[np.ndarray]:
        return [np.vstack([np.zeros((2, 1)), np.abs(np.diff(x[:, :1], axis=0))]) for x in X]


class Row(NamedTuple):
    """A learner, its data, and options of fit; the last recording stands for those to come."""

    make: Callable[[], Any]
    X: list[np.ndarray] = X
    y: list[Any] = Y
    options: dict[str, Any] = {}  # noqa: RUF012  # is never changed
    learns: bool = True  # on this few data, to halve the loss of a single segment
    streams: bool = True
    counts: bool = True  # numbers of segments may be given
    stored: bool = True  # files hold it
    steady: bool = True  # its numbers are the same on all processors


SQUARED, FULL, FEW = ml.SquaredFrobenius(0.1), ml.FullMetric(), ml.BundleDual(max_rounds=30)
SEGMENTS = partial(ml.ChangePointMetricLearner, verbose=False)
NAMES = partial(ml.NamedSegmentLearner, emissions=views.Neighbors(2), solver=FEW, verbose=False)
POSTERIORS = views.Posteriors(LogisticRegression(), 2, 2)
FILLED = views.Chain([views.Fill(4), POSTERIORS])
BOTH = views.Chain([views.LeaveOut(), views.Whiten()])
EXPECTED = views.ExpectedBoundaries(LogisticRegression(), 3, 2)
FIRST = views.Chain([views.Columns(0, 4), views.Windows((2, 4))])
COMPONENTS = views.Metric(baselines.PrincipalComponents(3))
SHAPED = make_pipeline(SlidingMoments(3, scale="noise"), views.SoftThresholds([0.5, 1]))
COUNTED = make_union(views.SequenceFeatures(), ml.estimators.SegmentCounts((0.5, 2.0), SHAPED))
MEMBERS = {"diagonal": [SEGMENTS()], "full": [SEGMENTS(FULL, SQUARED)]}
NAMED = {"names": [NAMES()], "Viterbi": [Viterbi(POSTERIORS)], "diagonal": [SEGMENTS()]}
CONSENSUS = partial(ml.Segmenter, n_folds=2, verbose=False)
CLUSTERS = partial(ml.ClusteringMetricLearner, n_init=2, random_state=0, verbose=False)
WHITENED_CLUSTERS = partial(ml.estimators.WhitenedClusteringLearner, random_state=0, verbose=False)
CUTS = partial(ml.NormalizedCutMetricLearner, starts=(1e-2,), verbose=False)
STEPS = ml.solvers.ProjectedSubgradient(ConstantStep(1e-3), max_rounds=5)


def penalized(*features: Any, view: Any = None, **options: Any) -> Callable[[], Any]:
    return partial(SEGMENTS, view=view, penalty=ml.FeaturePenalty(features, **options))


SEGMENTERS: dict[str, Row] = {
    "diagonal, L1": Row(SEGMENTS),
    "diagonal, squared norm": Row(partial(SEGMENTS, regularizer=SQUARED)),
    "diagonal, trace": Row(partial(SEGMENTS, regularizer=ml.Trace(1e-2))),
    "full, trace": Row(partial(SEGMENTS, FULL, ml.Trace(1e-2))),
    "full, squared norm": Row(partial(SEGMENTS, FULL, SQUARED)),
    "constant steps": Row(partial(SEGMENTS, solver=STEPS), learns=False),
    "nothing learned": Row(partial(SEGMENTS, regularizer=ml.L1(1e6)), learns=False),
    "given counts": Row(partial(SEGMENTS, n_segments="given", n_jobs=2), streams=False),
    "numbers of NumPy": Row(
        partial(SEGMENTS, penalty=np.float64(0.5), min_size=np.int64(2)), learns=False
    ),
    "segments of 6 samples": Row(partial(SEGMENTS, min_size=6)),
    "scaled loss": Row(partial(SEGMENTS, loss_scale=0.3, standardize=False)),
    "the paper": Row(partial(ml.ChangePointMetricLearner.paper, verbose=False), learns=False),
    "summed areas": Row(partial(SEGMENTS, oracle=ml.oracles.SummedArea()), streams=False),
    "penalty of the sequence": Row(
        penalized(views.SequenceFeatures(("log_noise", "log_spread"), window=20))
    ),
    "penalty of the boundary": Row(
        penalized(views.BoundaryFeatures((3, 8), ("mean", "deviation"), unit="data"))
    ),
    "penalty of a feature of one's own": Row(penalized(Jump()), stored=False),
    "both penalties": Row(
        penalized(views.SequenceFeatures(window=7), views.BoundaryFeatures((4,), unit="data"))
    ),
    "penalty in the unit of the sequence": Row(
        penalized(views.BoundaryFeatures((3,)), nonnegative=True), streams=False
    ),
    "whitened": Row(partial(ml.WhitenedMetricLearner, verbose=False)),
    "whitened, penalty tuned": Row(
        partial(ml.WhitenedMetricLearner, view=views.Whiten(0.3, 4), retune=True, verbose=False)
    ),
    "towards a reference": Row(
        partial(ml.WhitenedMetricLearner, view=COMPONENTS, toward=1e-2, verbose=False), learns=False
    ),
    "neighbors": Row(partial(SEGMENTS, view=views.Neighbors(1))),
    "moments of some columns": Row(partial(SEGMENTS, view=FIRST)),
    "partial labels": Row(partial(SEGMENTS, regularizer=SQUARED, min_size=4), y=PARTLY),
    "partial labels, penalty of the boundary": Row(
        penalized(views.BoundaryFeatures((4,), unit="data")), y=PARTLY
    ),
    "partial labels under whitening": Row(partial(ml.WhitenedMetricLearner, verbose=False), y=HALF),
    "rows left out": Row(partial(SEGMENTS, view=views.LeaveOut()), holed(X), HALF, streams=False),
    "whitening behind rows that are left out": Row(
        partial(SEGMENTS, view=BOTH), holed(X), streams=False
    ),
    "gaps filled": Row(partial(SEGMENTS, view=views.Fill(3)), holed(X)),
    "posteriors over filled gaps": Row(
        partial(SEGMENTS, view=FILLED), holed(OF_NAMES), ODD, {"groups": THREE}
    ),
    "expected boundaries": Row(partial(SEGMENTS, view=EXPECTED), learns=False),
    "expected boundaries in a running scale": Row(
        partial(SEGMENTS, view=views.Chain([views.OwnScale(30), EXPECTED])), learns=False
    ),
    "penalty over expected boundaries": Row(
        penalized(views.BoundaryFeatures((3, 9), unit="data"), view=EXPECTED), learns=False
    ),
    "names over expected boundaries": Row(partial(NAMES, view=EXPECTED), OF_NAMES, ODD),
    "names": Row(NAMES, OF_NAMES, ODD),
    "names, transitions": Row(
        partial(NAMES, transitions=True, emissions=POSTERIORS), OF_NAMES, ODD, streams=False
    ),
    "names of some columns, with weights and groups": Row(
        partial(NAMES, view=views.Columns(0, 3)),
        OF_NAMES,
        ODD,
        {"sample_weight": [1, 2, 1, 1, 1, 1], "groups": THREE},
    ),
    "names where rows are left out": Row(
        partial(NAMES, view=views.LeaveOut(), emissions=views.Neighbors(0)),
        holed(OF_NAMES),
        ODD,
        streams=False,
    ),
    "Viterbi": Row(
        partial(Viterbi, views.Posteriors(GaussianNB(), 2)), OF_NAMES, ODD, counts=False
    ),
    "Euclidean": Row(baselines.TunedSegmenter),
    "relevant components": Row(partial(baselines.TunedSegmenter, baselines.RelevantComponents())),
    "penalty by regression": Row(
        partial(ml.PenaltyLearner, SHAPED, COUNTED), learns=False, streams=False, counts=False
    ),
    "Bayesian criterion": Row(
        partial(baselines.BayesianCriterion, views.HermiteMoments(2)),
        learns=False,
        streams=False,
        counts=False,
    ),
    "consensus": Row(partial(CONSENSUS, MEMBERS), streams=False),
    "consensus of partial labels": Row(partial(CONSENSUS, MEMBERS), y=PARTLY, streams=False),
    "consensus of names": Row(partial(CONSENSUS, NAMED, for_streams=True), OF_NAMES, ODD),
    **{
        f"names of rows behind {view!r}": Row(
            partial(CONSENSUS, {"one": [SEGMENTS()]}, view=view),
            rows,
            ODD,
            {"groups": THREE},
            streams=False,
        )
        for view, rows in (
            (views.Fill(), holed(OF_NAMES)),
            (views.LeaveOut(), holed(OF_NAMES)),
            (views.OwnScale(), OF_NAMES),
        )
    },
    "best of the members": Row(partial(CONSENSUS, MEMBERS, combine="best", for_streams=True)),
}
if find_spec("torch"):
    NETWORK = partial(ml.encoders.WindowEncoder, n_outputs=3, width=8, dropout=0.0)
    ENCODED = ml.encoders.Encoder(NETWORK, n_epochs=20, learning_rate=0.02, random_state=0)
    WINDOWS = views.Chain([views.Columns(0, 4), views.Windows((2, 4)), ENCODED])
    SEGMENTERS["an encoder over windows of some columns"] = Row(
        partial(SEGMENTS, FULL, ml.SquaredFrobenius(1.0, 1.0), view=WINDOWS), steady=False
    )
CLUSTERERS: dict[str, Row] = {
    "clusters": Row(CLUSTERS, FLOWERS, SPECIES),
    "clusters, local search": Row(
        partial(CLUSTERS, n_clusters=None, oracle=ml.oracles.LocalSearch()), FLOWERS, SPECIES
    ),
    "clusters, averaged": Row(partial(CLUSTERS, oracle=ml.oracles.Averaged()), FLOWERS, SPECIES),
    "whitened clusters": Row(WHITENED_CLUSTERS, FLOWERS, SPECIES),
    "cuts": Row(CUTS, TABLES, GROUPS),
    "cuts of partial labels": Row(
        partial(CUTS, normalized=True, loss_scale=0.1),
        TABLES,
        [np.where(np.arange(40) % 3 == 0, -1, labels) for labels in GROUPS],
    ),
    "members of clusterings": Row(
        partial(ml.Clusterer, {"full": [CLUSTERS()]}, n_folds=2, verbose=False), FLOWERS, SPECIES
    ),
}
LEARNERS = {**SEGMENTERS, **CLUSTERERS}


@cache
def fitted(name: str) -> Any:
    """The learner of a row after its fit, which no test may change."""
    row = LEARNERS[name]
    with warnings.catch_warnings(action="ignore"):
        return row.make().fit(row.X, row.y, **row.options)
