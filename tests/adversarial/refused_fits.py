"""What learners refuse to fit, to predict or to follow: a call, and a part of its one sentence."""

import copy
from collections.abc import Callable
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA

import metriclearn as ml
from metriclearn import baselines
from metriclearn.baselines import TunedSegmenter
from metriclearn.datasets import make_change_points
from metriclearn.estimators import Viterbi
from metriclearn.estimators.penalties.interval_regression import IntervalRegression
from metriclearn.estimators.penalties.penalty_learner import BayesianCriterion
from metriclearn.problem.regions import AT_LEAST_ONE, EXACTLY_ONE
from tests.sentences import Rows

INF, NAN = np.inf, np.nan
RNG = np.random.default_rng(0)
DATA = make_change_points(5, 120, 6, 2, (3, 5), random_state=0)
X, Y = DATA.sequences, DATA.labels


def first(array: Any, labels: Any = None) -> tuple[list[Any], list[Any]]:
    """The data and labels, the first of which are others."""
    return [array, *X[1:]], Y if labels is None else [labels, *Y[1:]]


def of(kind: type, *data: Any, **parameters: Any) -> Callable[[], Any]:
    """Make and fit a learner."""
    return lambda: kind(**{"verbose": False, **parameters}).fit(*(data or (X, Y)))


METRIC = partial(of, ml.ChangePointMetricLearner)
CLUSTERING = partial(of, ml.ClusteringMetricLearner)
UNKNOWN = [np.full(120, -1)] * 5
HALF = [np.where(np.arange(120) < 60, y, -1) for y in Y]
LEARNERS: Rows = [
    (METRIC(min_size=200), "needs labeled segments of at least min_size=200 samples, but"),
    (METRIC(view=ml.views.Chain([ml.views.Windows(9)])), "Windows needs sizes=None or a list of"),
    (METRIC(metric=ml.FullMetric()), "L1 needs a Diag.* use the Trace"),
    (METRIC(*first(X[0][:1], Y[0][:1])), "at least 2 samples in .*data set 0"),
    (METRIC(X, UNKNOWN), "all labels of all data sets are unknown"),
    (METRIC([x * 1e-320 for x in X], Y), r"deviations of at least 1e-300, got .*e-3\d\d;"),
    (METRIC([x * 0.0 for x in X], Y), r"all 6 are constant in each, of 600 sample\(s\) tog"),
    (METRIC(None), "ChangePointMetricLearner needs data, got none; pass X, such as a list"),
    (lambda: ml.ChangePointMetricLearner().fit(), "needs data, got none; pass X"),
    (of(ml.WhitenedMetricLearner, X), "WhitenedMetricLearner requires y to be passed"),
    (lambda: ml.WhitenedMetricLearner().fit(X, Y, weights=[1, 2]), "needs X, y, .* got weights"),
    (lambda: TunedSegmenter().fit(X, Y, groups=[0]), "TunedSegmenter needs .* groups"),
    (lambda: baselines.MetricKMeans().fit(X, Y, groups=[0]), "MetricKMeans needs X, y as"),
    (lambda: TunedSegmenter().fit(X, UNKNOWN), "TunedSegmenter needs labels, but all labels of"),
    (METRIC(X, HALF, n_segments="given"), "n_segments=None"),
    (METRIC(X, HALF, solver=ml.BundleDual(checkpoint="state.npz")), "alternation__checkpoint"),
    (METRIC(view=PCA(2)), r"a view such as views\.Each\(PCA\(2\)\)"),
]


@cache
def fitted() -> ml.ChangePointMetricLearner:
    return METRIC()()


def copied(**changes: Any) -> Any:
    """The fitted learner with other attributes."""
    other = copy.copy(fitted())
    vars(other).update(changes)
    return other


@cache
def behind_gaps() -> ml.ChangePointMetricLearner:
    return METRIC(GAPPED, Y, view=ml.views.LeaveOut())()


GAP = np.where(np.arange(720).reshape(120, 6) == 45, NAN, X[0])
GAPPED = [np.where(RNG.random((120, 1)) < 0.1, NAN, x) for x in X]
CROSSED_OUT = np.where(np.eye(6, dtype=bool), NAN, 1.0)
SHORTENED = np.where((np.arange(120) < np.flatnonzero(np.diff(Y[0]))[0] - 1)[:, None], NAN, X[0])
BEHIND: Any = {"view": ml.views.LeaveOut(), "min_size": 4}
WINDOWED = ml.FeaturePenalty((ml.views.SequenceFeatures(window=9),))
USES: Rows = [
    (lambda: behind_gaps().predict(CROSSED_OUT), "each has a NaN; take Fill, or"),
    (lambda: behind_gaps().predict(np.where(X[0] > 0, X[0], INF)), "got inf"),
    (lambda: behind_gaps().boundary_margins(GAPPED), "Margins need a view that keeps all rows"),
    (lambda: behind_gaps().stream(), "a view that keeps all rows .* for a stream"),
    (lambda: copied(min_size="a").predict(X), "a whole min_size of at least 1, got 'a"),
    (lambda: fitted().predict_change_points(X[0][:, :5]), "has 5 features, but .* expecting 6"),
    (lambda: fitted().transform(GAP), "got NaN at row 7, feature 3"),
    (lambda: fitted().pair_distance(np.full((1, 2, 6), NAN)), "finite"),
    (lambda: METRIC(n_segments="given")().predict(X), "needs a penalty or a number of segments,"),
    (lambda: copied(min_size=50).predict(X[0], 3), "n_segments from 1 to 2 for the 120 samples of"),
    (lambda: copied(min_size=50).predict(X[0][:10], 2), "n_segments from 1 to 1 for the 10"),
    *(
        (lambda count=count: fitted().predict(X, n_segments=count), words)
        for count, words in [
            (121, "n_segments from 1 to 120 for the 120 samples of data set 0, got 121"),
            ([3, 3, -1, 3, 3], "n_segments from 1 to 120 .* of data set 2, got -1"),
            (2.7, "needs a whole n_segments from 1 to 120 .* got 2.7"),
            ("three", "needs a whole n_segments from 1 to 120 .* got .three."),
            ([3, 3], "one n_segments for each of the 5 data sets, got 2"),
            ([3, 3, [2, 3], 3, 3], r"n_segments from 1 to 120 .* of data set 2, got \[2, 3\]"),
            ({0: 3}, "needs a whole n_segments from 1 to 120 .* got {0: 3}"),
        ]
    ),
    *(
        (lambda one=one: fitted().fit_states(X, [one[0]] * 5, **one[1]), words)
        for one, words in [
            ((Y[0], {"named": "yes"}), "needs named=True or False, got 'yes'"),
            ((Y[0], {"metric": "full"}), "needs a metric such as ClusteringMetricLearner"),
            ((np.zeros(120), {"named": False}), "two segments to learn the penalty of a state"),
            ((UNKNOWN[0], {}), "needs labels of states, but all labels are unknown"),
        ]
    ),
]
NAMES = [np.where(y % 2, "walk", "sit") for y in Y]
NAMED = partial(of, ml.NamedSegmentLearner)
MIXED = [np.array([1, "a"] * 60, dtype=object)] * 5
BARE = [ml.Partition.from_runs(y) for y in Y]
ONE = [np.zeros(120, dtype=int)] * 5
NAMING: Rows = [
    *(
        (lambda kind=kind, y=y: kind().fit(X, y), f"{kind.__name__} needs labels of {words}")
        for kind in (ml.NamedSegmentLearner, Viterbi)
        for y, words in ((BARE, "samples, whose values are names"), (MIXED, "one type"))
    ),
    (lambda: Viterbi().fit(X, ONE), "Viterbi needs two names and more"),
    (NAMED(X, ONE, emissions=ml.views.Posteriors()), "Posteriors needs .*two names"),
    (NAMED(X, NAMES, None, [1, 2]), "NamedSegmentLearner.*groups"),
    (lambda: Viterbi(ml.views.OwnScale()).fit(X, NAMES), "Viterbi needs a view with a column for"),
    (NAMED(X, NAMES, solver=ml.solvers.CuttingPlane()), "NamedSegmentLearner needs .* BundleDual"),
    *(
        (lambda names=names: Viterbi(None, classes=names).fit(X, NAMES), "sorted classes, each on")
        for names in (["walk", "sit"], ["sit", "walk", "walk"], [None, "sit"], [["sit"], []])
    ),
    (lambda: Viterbi(None).fit(X, NAMES), "pass classes, the names of all columns"),
]
MEMBERS = {"diagonal": [ml.ChangePointMetricLearner()], "euclidean": [TunedSegmenter()]}
DOOR = partial(of, ml.Segmenter)
KNOWN = [np.where(np.char.equal(y, "sit"), *pair) for y, pair in zip(NAMES, [(1, 2)] * 3)]
TWO_TYPES = [*KNOWN, *(one.astype(str) for one in KNOWN[:2])]
TIMED = [pd.DataFrame(x, columns=list("abcdef")) for x in X]
BOUNDARIES = ml.FeaturePenalty((ml.views.BoundaryFeatures(),))
SEGMENTER: Rows = [
    (DOOR(X, BARE, members=MEMBERS, names=True), "needs labels of samples, whose values are names"),
    (DOOR(X, TWO_TYPES, names=True), "labels of one type"),
    (DOOR(X, Y, members=ml.ChangePointMetricLearner), "needs members as a segmenter, a mapping"),
    (DOOR([0 * x for x in X], Y), "Segmenter needs features that vary within some data set"),
    (DOOR(TIMED, Y, time="c"), "without the column of times, 'c', .*make it the index"),
    *(
        (DOOR(X[:2], [None, None], members=some), "Segmenter needs labels, but all labels of all")
        for some in (None, MEMBERS)
    ),
    *(
        (DOOR(X, Y, groups, members=MEMBERS, combine="best"), words)
        for groups, words in [
            ([1, 2], "a list of sequences, one group for each"),
            ([None, 1, 2, 3, 4], "a number for each of 5 sequence.s., none of them"),
            (np.ones((5, 2)), "needs groups=.…. with a name or a number for each"),
            (3, "needs groups=.…. with a name or a number for each of 5"),
        ]
    ),
    (
        DOOR([X[0], np.where([1, 0] * (X[1].shape[1] // 2), NAN, X[1]), *X[2:]], Y),
        "Segmenter needs a number in every column, but column 0 of recording 1 has none; leave",
    ),
    *(
        (DOOR(X, Y, members=MEMBERS, view=view), words)
        for one in (ml.views.ExpectedBoundaries(), ml.views.Whiten(), ml.views.Posteriors())
        for view, words in (
            (one, "needs a view that is not fitted to labels"),
            (ml.views.Chain([one]), "learns from labels and needs y as Labels"),
        )
    ),
    (METRIC(GAPPED, Y), "got NaN at .* learners of segments leave them out"),
    (METRIC(*first(SHORTENED), **BEHIND), "min_size=4 samples, but data set 0 has one of 2"),
    (
        NAMED(*first(SHORTENED), **BEHIND, emissions=ml.views.Neighbors(0)),
        "labeled segments of at least min_size=4 samples, but data set 0 has one of 2",
    ),
    (
        NAMED(GAPPED, NAMES, view=ml.views.LeaveOut()),
        r"emissions without neighbors in time behind LeaveOut\(\), .* got Neighbors.* across gaps",
    ),
    (
        METRIC(GAPPED, Y, view=ml.views.LeaveOut(), penalty=WINDOWED),
        r"penalty without neighbors in time behind LeaveOut\(\), .* got FeaturePenalty",
    ),
    *(
        (
            DOOR(X[0], ml.PartialPartition(120, regions=[(15, 25, kind)])),
            "needs rows whose segments are known, .* label",
        )
        for kind in (EXACTLY_ONE, AT_LEAST_ONE)
    ),
]
IRIS, SPECIES = load_iris(return_X_y=True)
SOME_SPECIES = np.where(RNG.random(150) < 0.2, SPECIES, -1)
FRAME = pd.DataFrame(IRIS[::2], columns=list("abcd"))
FEW = ml.BundleDual(max_rounds=3)
CLUSTERS = {"full": [ml.ClusteringMetricLearner(solver=FEW, n_init=1, random_state=0)]}
CROSSED = np.array([[1.0], [-1], [2], [-2]])
TOWARD = ml.estimators.WhitenedClusteringLearner(toward=1.0)


@cache
def table() -> ml.Clusterer:
    return ml.Clusterer(CLUSTERS, n_folds=2, verbose=False).fit(IRIS[::2], SPECIES[::2])


CLUSTERER: Rows = [
    *(
        (lambda data=data: ml.Clusterer(CLUSTERS).fit(*data), f"Clusterer needs .*{words}")
        for data, words in [
            ((IRIS, SPECIES[:10]), "one label for each of the 150 samples, got 10"),
            (([IRIS], [SPECIES]), "in two groups and more"),
            ((np.ma.array(IRIS, mask=IRIS > 7), SPECIES), "a rectangular array of real numbers"),
            ((1e200 * IRIS, SPECIES), "squared distances below 1e300"),
            ((IRIS, np.arange(150)), "one sample for each of n_folds=5, got 1 sample"),
            ((IRIS, np.where(np.arange(150) < 4, SPECIES, -1)), "n_folds=5 parts .*, got 4 label"),
            (([IRIS] * 2, [SPECIES, np.full(150, -1)]), "but they cover no sample of data set 1"),
            ((np.ones((4, 4, 3)), np.eye(4)), "a list of tables or images, got one array of three"),
        ]
    ),
    (
        lambda: ml.Clusterer(CLUSTERS).fit(1e-320 * IRIS, SPECIES),
        r"ClusteringMetricLearner needs .* deviations of at least 1e-300, got .*e-32\d;",
    ),
    (lambda: ml.Clusterer(CLUSTERS).fit(IRIS, SPECIES, groups=SPECIES % 2), "list of data sets"),
    (lambda: ml.Clusterer().fit([np.ones((4, 4, 3))] * 2, [np.eye(4)] * 2), "members for images"),
    (
        lambda: ml.Clusterer({"one": [ml.ChangePointMetricLearner()]}).fit(IRIS, SPECIES),
        r"clusterers with predict\(X, n_clusters\)",
    ),
    (
        lambda: ml.baselines.RelevantComponents().fit(np.eye(4), [0, 1, 0, 1]),
        "no two neighbors of the 4 .* or pass contiguous=False for a table",
    ),
    (lambda: table().score([IRIS, IRIS], [SPECIES]), "for each of the 2 data sets, got 1"),
    *(
        (lambda one=one: one().score(IRIS, np.full(150, -1)), "Cluster.* no sample of data set 0")
        for one in (table, CLUSTERING(IRIS, SPECIES))
    ),
    (
        lambda: (
            ml.Clusterer(CLUSTERS, n_folds=2, verbose=False)
            .fit(FRAME, SPECIES[::2])
            .predict(FRAME[list("bacd")], 3)
        ),
        "needs the feature names it was fitted with, in that order",
    ),
    (lambda: table().score(np.ones((4, 2)), [[1.0, 2.0], [3.0]] * 2), "one hashable label per"),
    *(
        (lambda data=data: TOWARD.fit(*data), "whose means differ .* got none; pass another")
        for data in [(CROSSED, [0, 0, 1, 1]), (IRIS, np.zeros(150))]  # up to rounding of means
    ),
    (CLUSTERING([IRIS] * 2, [SPECIES, SPECIES % 2], [1, 1e-12]), r"a factor of 1e\+09"),
    (CLUSTERING([IRIS] * 2, [SPECIES, np.full(150, -1)]), "no sample of data set 1"),
    (CLUSTERING(IRIS, SOME_SPECIES, n_clusters=None), 'n_clusters="given"'),
    (CLUSTERING(GAPPED, Y, view=ml.views.LeaveOut()), "keeps all rows, got .*LeaveOut"),
]


def flags(x: np.ndarray) -> np.ndarray:
    return np.append(x[:, 1], 0.0)[:, None]


REGIONS = [ml.PartialPartition(120, regions=[(0, 40, EXACTLY_ONE)])] * 5
CONSTANT = ml.views.SequenceFeatures(())


@cache
def penalty() -> ml.PenaltyLearner:
    return ml.PenaltyLearner(sequence_features=CONSTANT).fit(X, Y)


PENALTIES: Rows = [
    *(
        (METRIC(penalty=penalty), words)
        for penalty, words in [
            (ml.FeaturePenalty((lambda x: x,)), r"row for every position 0 … T, got \(120, 6\)"),
            (ml.FeaturePenalty((lambda x: [NAN],)), "finite numbers"),
            (ml.FeaturePenalty((flags,), nonnegative=(True, True)), "one nonnegative for each"),
            (
                ml.FeaturePenalty((lambda x: x[0, : 1 + (x[0, 0] > 0)],)),
                "one value for each of the",
            ),
        ]
    ),
    (METRIC(penalty=ml.FeaturePenalty((flags,)), oracle=ml.oracles.SummedArea()), "ChangePoints"),
    (METRIC(oracle=ml.oracles.LocalSearch()), "needs an oracle such as SummedArea"),
    *(
        (lambda one=one: one.fit(X, Y).tune_penalty(X, Y, unit="variance"), "unit of the data bes")
        for one in (
            ml.ChangePointMetricLearner(penalty=ml.FeaturePenalty((flags,)), verbose=False),
            ml.NamedSegmentLearner(verbose=False),
        )
    ),
    *(
        (lambda y=y, weights=weights: IntervalRegression().fit(np.zeros((1, 1)), y, weights), words)
        for y, weights, words in [
            ([[1.0, 0.0]], None, "low <= high"),
            ([[NAN, 0]], None, "got NaN at row 0, feature 0 of y"),
            ([0.0], None, "got 1 dimension.* in y"),
            ([[-INF, INF]], None, "finite end"),
            ([[0.0, 1.0]], [-1.0], "sample_weight of at least 0, not all zero"),
        ]
    ),
    (lambda: ml.PenaltyLearner().fit(X, [ml.PartialPartition(120)] * 5), "annotate changes, too"),
    (lambda: penalty().predict(np.zeros((5, 2))), "expecting 6 features"),
    *(
        (
            lambda more=more: ml.PenaltyLearner().fit(X, Y, penalty().paths_[1:] + more),
            "one path for each of the",
        )
        for more in ([], [ml.oracles.segmentation_path(np.zeros((9, 1)))])
    ),
    *(
        (
            lambda unit=unit, kind=kind: kind().fit([unit * x for x in X], REGIONS),
            r"between 1e-100 and 1e\+100, whose",
        )
        for unit in (1e-200, 1e200)
        for kind in (ml.PenaltyLearner, BayesianCriterion)
    ),
]
KEPT = ml.ChangePointMetricLearner(solver=ml.BundleDual(checkpoint="state.npz"))
BARE_TERM = SimpleNamespace(expression=lambda B: B[0, 0])
OF_PATHS: Rows = [
    (lambda: ml.regularization_path(KEPT, X, Y, 3), "needs a solver without checkpoint"),
    (
        lambda: ml.regularization_path(ml.ChangePointMetricLearner(regularizer=BARE_TERM), X, Y, 3),
        r"regularizer such as L1\(\), which has a strength",
    ),
    (
        lambda: ml.regularization_path(ml.ChangePointMetricLearner(), X, Y, [0.1]).best,
        "needs validation data to choose a strength, got none",
    ),
]
SUGGESTIONS: Rows = [
    (lambda: ml.suggest(X, [[-1, -1]] * 5, length=20), "suggest.*one label per sample"),
    (lambda: ml.suggest(X, [[-1] * 120], length=20), "suggest.*5 data set"),
    (lambda: ml.suggest(X, length=20, learner=penalty()), "one penalty for all recordings, such"),
]
POSITIONS = ml.FeaturePenalty((ml.views.BoundaryFeatures((5,)),))
STREAMS: Rows = [
    *(
        (lambda at=at: copied(score_=fitted().score_.at(*at)).stream(), words)
        for at, words in [
            ([None], "tune_penalty, or fit with a penalty"),
            ([1.0, "variance"], "tune_penalty without unit"),
        ]
    ),
    (lambda: copied(oracle=ml.oracles.SummedArea()).stream(), r"ChangePoints\(\) or None as"),
    (lambda: METRIC(penalty=POSITIONS)().stream(), r"reach tells, got Bound.*unit=.data"),
    (lambda: ml.PenaltyLearner().fit(X, Y).stream(), "one penalty, such as"),
    (lambda: copied(min_size=50).stream(max_delay=99), "max_delay of at least twice min_size=50"),
    (lambda: fitted().stream(max_delay=3), "max_delay"),
    (
        lambda: NAMED(X, NAMES, emissions=ml.views.Neighbors(1), transitions=True)().stream(),
        "NamedSegmentLearner needs transitions=False for a stream, as its search has no state",
    ),
]

ROWS = {
    "learner": LEARNERS,
    "use": USES,
    "names": NAMING,
    "segmenter": SEGMENTER,
    "clusterer": CLUSTERER,
    "penalty": PENALTIES,
    "path": OF_PATHS,
    "suggestion": SUGGESTIONS,
    "stream": STREAMS,
}
