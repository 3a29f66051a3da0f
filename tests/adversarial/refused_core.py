"""What the numerical core refuses: a call, and a part of its one sentence."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import metriclearn as ml
from metriclearn import PartialPartition, Partition, Region
from metriclearn.oracles import (
    Averaged,
    BoundaryMargins,
    ChangePoints,
    ConstrainedChangePoints,
    LocalSearch,
    SpectralRelaxation,
    SummedArea,
    best_penalty,
    boundary_margins,
    segmentation_path,
)
from metriclearn.oracles.completion import ConstrainedKMeans, spectral_completion
from metriclearn.oracles.spectral import TopEigenvectors
from metriclearn.problem import (
    AT_LEAST_ONE,
    EXACTLY_ONE,
    NO_CHANGE,
    ConsensusForm,
    DenseForm,
    FrobeniusLoss,
    KnownLoss,
    LowRankForm,
)
from metriclearn.problem.losses import ChargedForm
from metriclearn.problem.regions import AT_MOST_ONE, ChangeCount
from metriclearn.running.callbacks import EarlyStopping
from metriclearn.running.times import read_times
from metriclearn.similarities import FourierSimilarity, Neighborhood, NodeLabels, Nodes
from metriclearn.solvers import BundleDual
from tests.sentences import Rows
from tests.solvers.complete_problem import CompleteProblem
from tests.training import XS, YS

NAN, INF = float("nan"), float("inf")
RUNS, CLUSTERS = Partition.from_runs, Partition.from_labels
ENDS, LABELED = Partition.from_change_points, partial(PartialPartition, 4)


def each(reads: list[Callable[..., Any]], *arguments: Any, sentence: str) -> Rows:
    """The same arguments for several functions."""
    return [(partial(read, *arguments), sentence) for read in reads]


MISSING = "needs labels without None or NaN; label every sample"
THREE, FOUR = ENDS([3]), ENDS([4])
OTHER_ROWS = [np.zeros((n, 1)) for n in (2, 4)]
STATE = "the search for segmentations would need a state"
COUNTS = [(2, 2), (0, 2), (2, None), (1, 0), (-1, 1), (0.0, 1), (True, 1), ("0", 1)]
NOWHERE = [(3, 3, AT_MOST_ONE), (-1, 2, NO_CHANGE), (0, 1.5, NO_CHANGE), (0, 4, "no change")]
PARTITIONS: Rows = [
    (partial(ENDS, [3, 3, 5]), "Partition needs distinct change-points, got 3 twice"),
    *((partial(ENDS, [t, 5]), f"needs change-points of at least 1, got {t} to 5") for t in (0, -2)),
    (partial(ENDS, [2, 9], 8), "from 1 to n_samples=8, got 2 to 9"),
    (partial(ENDS, [2.5, 5]), "needs integer change-points"),
    (partial(ENDS, [NAN, 5]), "got NaN at row 0 of change_points"),
    (partial(ENDS, []), "needs at least one change-point, or n_samples"),
    *(
        row
        for labels, sentence in [
            ([], "Partition needs at least one label, got none"),
            *(([1.0, missing], MISSING) for missing in (NAN, None, pd.NA)),
            (["a", NAN], MISSING),
            ([[1], [2]], "needs one hashable label per sample, got a list"),
            (np.zeros((2, 2)), "needs one hashable label per sample, got a ndarray"),
            ([{}, {}], "needs one hashable label per sample, got a dict"),
            ({0: "a", 1: "b"}, "needs one label per sample, got {0: 'a', 1: 'b'}; pass a"),
            ({0, 1}, "needs one label per sample, got {0, 1}; pass a list"),
        ]
        for row in each([RUNS, CLUSTERS], labels, sentence=sentence)
    ),
    (partial(THREE.inner, FOUR), "one label for each of the 3 samples, got 4"),
    *(
        row
        for one in (CLUSTERS([0, 0, 1]), CLUSTERS([0, 1, 0]))
        for X in OTHER_ROWS
        for row in each([one.pool, one.root, one.project], X, sentence="of the 3 samples, got ")
    ),
    (Partition, "needs either ends or labels; call a from_"),
    (lambda: CLUSTERS("aabaaa").change_points, "a label recurs after another one; use .*runs"),
    *((partial(ChangeCount, "some", *numbers), STATE) for numbers in COUNTS),
    *((partial(Region, *r), "Region needs whole numbers start and stop, 0 ≤ st") for r in NOWHERE),
]

CUT = "every change-point as a whole number from 1 to 3, got "
SPAN, KIND = (
    "every same span as whole numbers",
    "every region as whole .* two samples for a change, and a kind such as NO_CHANGE, got ",
)
THE = r"contradict each other: the "
CLASH = {"labels": [0, 0, 0, 1, 1, -1, -1, -1], "regions": [(0, 8, NO_CHANGE)]}
OVER = [(0, 3, EXACTLY_ONE), (5, 8, NO_CHANGE), (4, 8, AT_LEAST_ONE)]
APART = {"labels": [-1] * 3 + [0, 0, 0] + [-1] * 2, "regions": OVER}
MANY = {"change_points": [2, 5, 7], "regions": [(0, 7, EXACTLY_ONE)]}
KNOWN = PartialPartition(3, [0, -1, 1])
COMPLETED = PartialPartition(4, [0, -1, 1, 1]).with_completion(CLUSTERS([0, 0, 1, 1]))
UNCOMPLETED = "FrobeniusLoss needs completed labels, got a PartialPar"
PARTIAL_LABELS: Rows = [
    (partial(PartialPartition, 0), "at least one sample"),
    (partial(LABELED, [0, 1]), "for each of the 4 samples, got 2"),
    (partial(LABELED, [0.0, NAN, 1.0, 1.0]), "without None or NaN; .*−1"),
    (partial(LABELED, None, None), "a list of change-points, got None"),
    *((partial(LABELED, None, [t]), CUT + re.escape(repr(t))) for t in (0, 1.5, True, (3,), 2**70)),
    (partial(LABELED, None, [[1], [2, 3]]), CUT + re.escape("[1]")),
    (partial(LABELED, None, np.eye(2)), CUT),
    *((partial(LABELED, same=[pair]), SPAN) for pair in ((False, 2), 2, (0, 1, 2))),
    (partial(LABELED, same=[(1, 6)]), SPAN + " .* stop ≤ 4, got .1, 6"),
    (partial(LABELED, regions=3), "a list of regions, got 3"),
    *((partial(LABELED, regions=[r]), KIND) for r in ((2, 3, EXACTLY_ONE), (2, 4, "one"), 3)),
    (partial(LABELED, regions=[(3, 1, NO_CHANGE)]), KIND + ".3, 1, NO_CHANGE"),
    (partial(LABELED, regions=[(0, NAN, NO_CHANGE)]), KIND),
    (partial(LABELED, regions=[Region(0, 5, NO_CHANGE)]), KIND + ".*stop=5"),
    (
        partial(PartialPartition, 8, change_points=[3], same=[(1, 6)]),
        THE + r"change-point 3, the same span \(1, 6\);",
    ),
    (
        partial(PartialPartition, 8, **CLASH),
        THE + r"different labels of samples 2 and 3, the region \(0, 8, NO_CHANGE\);",
    ),
    (
        partial(PartialPartition, 8, **APART),
        THE + r"equal labels of samples 3 and 5, the region \(5, 8, NO_CHANGE\), "
        r"the region \(4, 8, AT_LEAST_ONE\);",
    ),
    (partial(PartialPartition, 8, **MANY), THE + r"change-point 2, .* 5, .*EXACTLY_ONE\);"),
    (partial(PartialPartition(6).label_errors, ENDS([5])), "for each of the 6 samples, got 5"),
    *(
        (
            partial(loss, CLUSTERS([0] * n), COMPLETED),
            f"needs one label for each of the {n} samples, got 4",
        )
        for loss in (FrobeniusLoss(), KnownLoss())
        for n in (3, 5)
    ),
    (partial(FrobeniusLoss(), CLUSTERS([0, 0, 1]), KNOWN), UNCOMPLETED),
    (partial(best_penalty, [LowRankForm(np.eye(3))], [KNOWN], loss=FrobeniusLoss()), UNCOMPLETED),
    (partial(KNOWN.with_completion, COMPLETED), "A completion needs .* 3 samples, got 4"),
]

SIGNAL = np.random.default_rng(0).normal(size=(6, 2)) + 3.0
SCATTERED = CLUSTERS([0, 1, 0, 2, 1, 0])
FINITE = "DenseForm needs finite numbers, got (NaN|inf) at row 0, feature [01] of matrix"
ONES = LowRankForm(np.ones((10, 1)))
FORMS: Rows = [
    (partial(DenseForm, np.zeros((2, 3))), r"a square matrix .*, got shape \(2, 3\)"),
    (partial(DenseForm, np.zeros(4)), r"got 1 dimension\(s\) in matrix"),
    (partial(DenseForm, np.zeros((0, 0))), r"found array with 0 sample\(s\) .* in matrix"),
    (partial(DenseForm, [[1.0, 2.0], [2.5, 1.0]]), r"symmetric.*, got \|A - A.T\| up to 0.5; pass"),
    (partial(LowRankForm, SIGNAL, None, 2.0), r"the truth that has the weight, got weight=2\.0"),
    (partial(ConsensusForm, [THREE], None, 0.0, [-1.0]), "name_weights of at least 0"),
    (
        partial(BoundaryMargins(np.array([3, 8]), np.ones(1), np.zeros(8)).intervals, -1.0),
        "score of at least 0",
    ),
    (partial(DenseForm, [[1.0, NAN], [NAN, 1.0]]), FINITE),
    (partial(DenseForm, [[INF, 0.0], [0.0, 1.0]]), FINITE),
    *(
        (partial(LowRankForm, np.zeros(shape)), "LowRankForm (needs|found) .* in factors")
        for shape in [(5,), (), (0, 2), (5, 0), (2, 3, 4)]
    ),
    (
        partial(LowRankForm(SIGNAL).plus(ENDS([2, 4, 6]), 1.0).plus, SCATTERED, 1.0),
        "holds one reference partition, got a second, different",
    ),
    *(
        (partial(ChargedForm, ONES, penalties=penalties), sentence)
        for penalties, sentence in [
            (np.zeros(10), "each of the 11 positions, got 10"),
            (np.full(11, NAN), "needs finite numbers, got NaN at row 0 of penalties"),
        ]
    ),
    (partial(ConsensusForm, []), r"a list of partitions as members, got \[\]"),
    (partial(ConsensusForm, [THREE, FOUR]), "one label for each of the 3 samples, got 4"),
    (partial(ConsensusForm, [THREE], [-1.0]), "needs weights of at least 0"),
    (partial(ConsensusForm, [THREE], [0.0]), "not all zero"),
]

EIGHT, ZEROS = LowRankForm(np.zeros((8, 1))), LowRankForm(np.zeros((6, 1)))
COUNT = "needs n_clusters=None or a whole number of at least 1"
SIZE = "needs a whole min_size of at least 1"
STEPS = np.repeat([0.0, 1.0, 0.0, 2.0], 5)[:, None]
TOO_LARGE = r"needs factors between 1e-120 and 1e120, whose squares can be added, got .*; change"
ORACLES_OF_FACTORS = (
    *(ChangePoints(), ConstrainedChangePoints(), SummedArea(), SpectralRelaxation()),
    *(LocalSearch(), ConstrainedKMeans()),
)
WHOLE = PartialPartition.from_partition(ENDS([3, 4, 6]))
LINE, GROUPED = (
    LowRankForm(np.arange(5.0)[:, None]),
    PartialPartition(5, [0, 1, 2, -1, -1], same=[(3, 5)]),
)

HOLED = np.array([[1.0], [NAN]])


def far(size: float) -> LowRankForm:
    """Steps with a value whose square is no number, or that is no number itself."""
    Z = STEPS * size if size < 1 else STEPS.copy()
    Z[7] = size
    return LowRankForm(Z)


ORACLES: Rows = [
    *(
        (partial(kind(min_size=size), EIGHT, K), f"{kind.__name__} {sentence}")
        for kind in (ChangePoints, SummedArea)
        for K, size, sentence in [
            (9, 1, "needs 9 samples for 9 segment.* got 8"),
            (3, 3, "needs 9 samples for 3 segment.* of at least 3, got 8"),
            (None, 9, "needs 9 samples for 1 segment"),
            *((K, 1, f"{COUNT}, got {K!r}") for K in (0, -1, 2.5, NAN, "2")),
            *((2, size, f"{SIZE}, got {size!r}") for size in (0, 1.5, None, "a")),
        ]
    ),
    *(
        (lambda oracle=oracle, size=size, K=K: oracle(far(size), K), TOO_LARGE)
        for oracle in ORACLES_OF_FACTORS
        for size in (1e160, 1e-160)
        for K in (4, None)
    ),
    *((partial(far, size), "needs finite numbers, got .* of factors") for size in (NAN, INF)),
    (partial(ChangePoints(), DenseForm(np.eye(4))), "needs a LowRankForm, got DenseForm; use the"),
    (partial(ChangePoints(), ZEROS.plus(SCATTERED, 1.0)), "needs contiguous clusters"),
    (partial(ChangePoints(), LowRankForm(SIGNAL, ENDS([3, 6]), weight=-1.5)), r"weight .* -1\.5"),
    (
        partial(ConstrainedChangePoints(2), ZEROS, None, PartialPartition(6, None, [1, 2])),
        "lower min_size",
    ),
    (partial(ConstrainedChangePoints(), ZEROS, 4, WHOLE), "from 3 to 3 segments"),
    (partial(ConstrainedChangePoints(), LINE, None, WHOLE), "got 6"),
    (partial(ConstrainedKMeans(), LINE, 2, GROUPED), "from 3 clusters"),
    (partial(ConstrainedKMeans(), LINE, 5, GROUPED), "to 4 "),
    (partial(spectral_completion, DenseForm(np.eye(3)), None, KNOWN), "number of clusters"),
    (partial(LocalSearch(), DenseForm(np.eye(3)), 1), "needs a LowRankForm, got DenseForm"),
    *(
        (
            partial(Averaged(share=share), LowRankForm(np.eye(4)), 2),
            f"Averaged needs a share between 0 and 1, got {share!r}",
        )
        for share in (-0.1, 1.5, NAN, INF, "a", None, True)
    ),
    (partial(SpectralRelaxation(), ONES, 11), "ask for fewer, or lower min_size"),
    (partial(SpectralRelaxation(), ONES, 0), "a whole number of at least 1"),
    (partial(LowRankForm, HOLED), "finite numbers, got NaN at row 1, feature 0 of factors"),
    (partial(boundary_margins, LINE, tolerance=-1), "tolerance"),
]

PATH = segmentation_path(STEPS + 0.1, (1.0, 300.0))
TWO, RISING = np.zeros((4, 2)), [LowRankForm(np.arange(4.0)[:, None])]
PATHS: Rows = [
    *(
        (partial(segmentation_path, np.zeros((5, 1)), bad), "path needs 0 <= low <= high")
        for bad in [(-1.0, 2.0), (3.0, 2.0), (NAN, 1.0), (1.0,), 3.0, "ab"]
    ),
    (partial(segmentation_path, [[0.0], [NAN]]), "got NaN at row 1, feature 0 of X"),
    (partial(segmentation_path, np.zeros((3, 1)), min_size=4), "segmentation_path needs 4 samples"),
    (partial(segmentation_path, [TWO] * 2), "got 3 dimension.* in X"),
    (partial(segmentation_path, TWO, components=np.zeros((2, 3))), r"of shape \(r, 2\), got \(2,"),
    (partial(segmentation_path, TWO, components=np.zeros(2)), "dimension.* in components"),
    (partial(segmentation_path, TWO, max_segments=0), "max_segments=None or a whole number"),
    *(
        (partial(PATH.at, penalty), r"needs a penalty from 1 to 300, got .*wider path")
        for penalty in (0.5, 400.0)
    ),
    *(
        (partial(best_penalty, unordered(RISING), [FOUR]), "a list of LowRankForm as forms, got")
        for unordered in (set, dict.fromkeys)
    ),
    *(
        (partial(best_penalty, RISING, unordered([FOUR])), "PartialPartition as truths, got")
        for unordered in (set, dict.fromkeys)
    ),
]

LINED = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [0.0, 5.0]])
GRID = np.array([[x, y] for y in range(3) for x in range(4)], dtype=float)
SYMMETRIC = DenseForm(np.diag(np.arange(5.0)))
EXACT = CompleteProblem(ml.DiagonalMetric(), ml.SquaredFrobenius(1e-2), "learned", 0)
BARE = EXACT.stated(callbacks=[EarlyStopping(XS, YS)])
REST: Rows = [
    (partial(NodeLabels.from_labels, [0, 1, 1], [0, 0, 1, 1]), "of the 4 samples, got 3"),
    (partial(Neighborhood(0.5).pairs, LINED), "holds no pair"),
    (partial(Neighborhood(0.5).pairs, None), "nodes with positions"),
    (partial(Neighborhood(offsets=[(9, 9)]).pairs, GRID), r"at \[\(9, 9\)\] pixels holds no pair"),
    (partial(Neighborhood(offsets=[3]).pairs, GRID), "pairs of columns and rows"),
    (
        partial(FourierSimilarity(7).operator, Nodes(SIGNAL, np.ones(6)), np.eye(2)),
        "even n_components",
    ),
    (partial(TopEigenvectors(), SYMMETRIC), "needs the number of clusters"),
    (partial(TopEigenvectors(), SYMMETRIC, 6), "got 5"),
    (partial(BundleDual().minimize, BARE), "EarlyStopping needs a learner to score, got a bare"),
    (partial(EarlyStopping, XS, YS, patience=0), "needs a whole patience of at least 1, got 0"),
    (lambda: ml.ChangePointMetricLearner(callbacks=[print]).fit(XS, YS), "needs callbacks with"),
    (partial(read_times, "a", np.array([0, 1], "m8[M]")), "a needs durations of a fixed length,"),
]

ROWS = {
    "partition": PARTITIONS,
    "partial labels": PARTIAL_LABELS,
    "form": FORMS,
    "oracle": ORACLES,
    "path of segmentations": PATHS,
    "rest": REST,
}
