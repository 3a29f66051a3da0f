"""The numbers of all models, frozen: a change of the code must not change a bit of them.

``python -m tests.frozen --save`` fits all models to small data, and writes their answers to
``tests/data/frozen.json``. ``python -m tests.frozen --compare`` computes them again, prints each
row that differs, and then exits with 1. Both take another FILE. With ``--only TEXT`` they take only
the models whose names contain the text, and leave all other rows as they are. Bits depend on the
processor and on the versions of libraries, so on another machine save the numbers of the code
before the change to a FILE, and compare with it.

Names of rows say what a number is, such as "diagonal, L1, demo: objective". They never change. The
tables MODELS, VALUES, FACTS and ANSWERS say how numbers are made: if a call changes, change its
line there.
"""

import argparse
import copy
import hashlib
import inspect
import json
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

import metriclearn as ml
from metriclearn import baselines, clusterers, indices, suggest
from metriclearn.baselines.similarities import EuclideanSimilarity, SimilarityGridSearch
from metriclearn.datasets import LabeledSequences, load_example, make_change_points
from metriclearn.estimators import Viterbi
from metriclearn.features.media.image import Color, PixelBlocks, Position
from metriclearn.oracles.completion import ConstrainedKMeans
from metriclearn.oracles.expected_loss import best_clustering, best_consensus
from metriclearn.problem.losses import ChargedForm
from metriclearn.problem.named_segments import NameScores
from metriclearn.similarities import Neighborhood
from metriclearn.similarities.normalized_cut import Discretization, KMeansRounding
from metriclearn.views import OwnScale
from metriclearn.views.fourier import RandomFourierFeatures
from metriclearn.views.hermite import SlidingMoments, SoftThresholds

FILE = Path(__file__).parent / "data" / "frozen.json"
COUNTS = (3, 5)
FACTORS = (0.5, 1.0, 2.0)
FAILED = "has failed"


class Data(NamedTuple):
    """Data sets and labels to learn from, and others to predict."""

    X: list[Any]
    y: list[Any]
    new: list[Any]
    truth: list[Any]


class Fitted(NamedTuple):
    model: Any
    data: Data


# The data.


def parted(X: Any, y: Any, n_new: int) -> Data:
    return Data(list(X[:-n_new]), list(y[:-n_new]), list(X[-n_new:]), list(y[-n_new:]))


@cache
def demo() -> Data:
    made = make_change_points(6, 120, 8, 2, (3, 5), jump=1.5, random_state=0)
    return parted(made.sequences, made.labels, 2)


@cache
def wide() -> Data:
    """Loud features, whose units differ, and more of them than of samples in a segment."""
    made = make_change_points(5, 80, 30, 3, (2, 5), distractor_group=3, random_state=1)
    scale = np.exp(np.random.default_rng(0).normal(size=30))
    return parted([X * scale + 5.0 for X in made.sequences], made.labels, 1)


@cache
def bees() -> Data:
    shipped = load_example("bees")
    return parted([X[::6] for X in shipped.sequences], [y[::6] for y in shipped.labels], 1)


@cache
def exercise() -> Data:
    shipped = load_example("exercise")
    return parted([X[::4, :20] for X in shipped.sequences], [y[::4] for y in shipped.labels], 1)


@cache
def partly() -> Data:
    """Some labels, some regions, and a few changes and pairs in one segment."""
    data, random = demo(), np.random.default_rng(0)
    some = [np.where(random.random(len(y)) < 0.3, y, -1) for y in data.y[:2]]
    regions = [
        (5, 40, ml.problem.AT_LEAST_ONE),
        (50, 60, ml.problem.NO_CHANGE),
        (61, 119, ml.problem.EXACTLY_ONE),
    ]
    same = ml.PartialPartition(120, change_points=[60, 120], same=[(10, 20), (80, 110)])
    return data._replace(y=[*some, ml.PartialPartition(120, regions=regions), same])


@cache
def iris() -> Data:
    table = load_example("iris")
    return Data([table.X[::2]], [table.y[::2]], [table.X[1::2]], [table.y[1::2]])


@cache
def half_iris() -> Data:
    codes = np.unique(iris().y[0], return_inverse=True)[1]
    return iris()._replace(y=[np.where(np.random.default_rng(0).random(75) < 0.4, codes, -1)])


@cache
def graphs() -> Data:
    random, X, y = np.random.default_rng(0), [], []
    for _ in range(4):
        labels = random.permutation(np.arange(40) % 2)
        features = random.normal(size=(40, 4))
        features[:, 0] += 3.0 * labels
        features[:, 1] = 4.0 * random.integers(0, 2, 40) + 0.3 * features[:, 1]
        X.append(features)
        y.append(labels)
    return parted(X, y, 1)


@cache
def stacks() -> Data:
    """Given similarities (n, S, S) of the same nodes."""

    def stack(X: np.ndarray) -> np.ndarray:
        return np.stack([np.exp(-np.square(np.subtract.outer(x, x))) for x in X.T])

    return graphs()._replace(X=[stack(X) for X in graphs().X], new=[stack(X) for X in graphs().new])


@cache
def horses() -> Data:
    shipped = load_example("horses")
    maps = [of_image[0][::2, ::2] for of_image in shipped.label_maps]
    return parted([X[::2, ::2] for X in shipped.images], maps, 1)


@cache
def gaps() -> Data:
    def holed(X: np.ndarray) -> np.ndarray:
        X = X.copy()
        X[40:52], X[77, 3] = np.nan, np.nan
        return X

    return demo()._replace(X=list(map(holed, demo().X)), new=list(map(holed, demo().new)))


# The models: name -> a function that fits one.

CPL = ml.ChangePointMetricLearner
MODELS: dict[str, Callable[[], Fitted]] = {}


def add(name: str, make: Callable[[], Any], data: Callable[[], Data], **options: Any) -> None:
    """Add a row: the model that ``make`` returns is fitted to the data."""

    def fit() -> Fitted:
        given = data()
        return Fitted(make().fit(given.X, given.y, **options), given)

    MODELS[name] = fit


def add_all(data: Callable[[], Data], makers: Mapping[str, Callable[[], Any]]) -> None:
    words = data.__name__.replace("_", " ")
    for name, make in makers.items():
        add(f"{name}, {words}", make, data)


METRICS: dict[str, Callable[[], Any]] = {
    "diagonal, L1": lambda: CPL(),
    "diagonal, squared norm": lambda: CPL(regularizer=ml.SquaredFrobenius(0.1)),
    "full, trace": lambda: CPL(ml.FullMetric(), ml.Trace(1e-2)),
    "full, squared norm": lambda: CPL(ml.FullMetric(), ml.SquaredFrobenius(0.1)),
    "whitened": lambda: ml.WhitenedMetricLearner(),
    "towards principal components": lambda: ml.WhitenedMetricLearner(
        ml.FullMetric(),
        solver=ml.BundleDual(tolerance=1e-3, max_rounds=200),
        view=ml.views.Metric(baselines.PrincipalComponents(3)),
        toward=1e-2,
        retune=True,
    ),
}
for some in (demo, wide, bees, exercise):
    add_all(some, METRICS)

small = partial(CPL, regularizer=ml.SquaredFrobenius(0.1), min_size=4)
add_all(
    demo,
    {
        "diagonal, trace": lambda: CPL(regularizer=ml.Trace(1e-2)),
        "given counts": lambda: CPL(n_segments="given"),
        "segments of 6 samples": lambda: CPL(min_size=6),
        "given penalty": lambda: CPL(penalty=4.0),
        "scaled loss": lambda: CPL(loss_scale=0.3, standardize=False),
        "summed areas": lambda: CPL(oracle=ml.oracles.SummedArea()),
        "the paper": lambda: CPL.paper(),
        "cutting planes": lambda: small(solver=ml.solvers.CuttingPlane(max_rounds=8)),
        "subgradients": lambda: small(solver=ml.solvers.ProjectedSubgradient(max_rounds=40)),
        "factors": lambda: CPL(
            ml.FullMetric(), ml.SquaredFrobenius(0.1), ml.solvers.FactorDescent(max_rounds=10)
        ),
        "penalty of the sequence": lambda: CPL(
            penalty=ml.FeaturePenalty((ml.views.SequenceFeatures(),))
        ),
        "penalty of the boundary": lambda: CPL(
            penalty=ml.FeaturePenalty((ml.views.BoundaryFeatures((3, 8)),), nonnegative=True)
        ),
        "whitened, penalty tuned": lambda: ml.WhitenedMetricLearner(
            view=ml.views.Whiten(0.3, 4), retune=True
        ),
        "some columns": lambda: CPL(view=ml.views.Columns(1, 5)),
        "Euclidean": lambda: baselines.TunedSegmenter(),
        "Euclidean, given penalty": lambda: baselines.TunedSegmenter(penalty=20.0),
        "principal components": lambda: baselines.TunedSegmenter(baselines.PrincipalComponents(3)),
        "relevant components": lambda: baselines.TunedSegmenter(baselines.RelevantComponents()),
        "closed form": lambda: baselines.TunedSegmenter(baselines.ClosedFormMetric(0.1)),
        "MMC": lambda: baselines.TunedSegmenter(baselines.MMC(max_iter=20, random_state=0)),
        "neighborhood components": lambda: baselines.TunedSegmenter(
            baselines.NeighborhoodComponents(2, max_iter=5, random_state=0), min_size=3
        ),
        "equal cuts": lambda: baselines.EqualCuts(),
        "penalty by regression": lambda: ml.PenaltyLearner(),
        "penalty by regression, Hermite moments": lambda: ml.PenaltyLearner(
            ml.views.HermiteMoments(2), own_weight=0.5, min_size=3
        ),
        "Bayesian criterion": lambda: baselines.BayesianCriterion(),
    },
)
add_all(
    partly,
    {
        "diagonal, squared norm": lambda: small(),
        "full, trace": lambda: CPL(ml.FullMetric(), ml.Trace(1e-2)),
        "from principal components": lambda: small(
            alternation=ml.estimators.Alternation(
                max_alternations=4, start=ml.estimators.PrincipalStart(3)
            )
        ),
        "some columns": lambda: small(view=ml.views.Columns(0, 4)),
        "penalty by regression": lambda: ml.PenaltyLearner(),
        "Euclidean": lambda: baselines.TunedSegmenter(),
        "consensus": lambda: ml.Segmenter(MEMBERS, n_folds=2, verbose=False),
    },
)
add_all(
    gaps,
    {
        "diagonal, L1": lambda: CPL(view=ml.views.LeaveOut()),
        "consensus": lambda: ml.Segmenter(MEMBERS, n_folds=2, verbose=False),
    },
)

# Names: labels mean the same in all recordings.
FOREST = RandomForestClassifier(8, max_depth=5, random_state=0, n_jobs=1)
LOGISTIC = LogisticRegression(max_iter=200)
named = partial(ml.NamedSegmentLearner, min_size=3, emissions=ml.views.Neighbors(2))
NAMED: dict[str, Callable[[], Any]] = {
    "names": lambda: named(),
    "names of a forest": lambda: named(emissions=ml.views.Posteriors(FOREST, 1, n_folds=2)),
    "names, transitions": lambda: named(transitions=True, regularizer=ml.SquaredFrobenius(0.1)),
    "Viterbi": lambda: Viterbi(ml.views.Posteriors(FOREST, 1, n_folds=2)),
    "Viterbi, given amount": lambda: Viterbi(
        ml.views.Posteriors(LOGISTIC, 0, n_folds=2), penalty=2.0
    ),
}
add_all(exercise, NAMED)
add_all(
    bees,
    {
        "names": lambda: named(min_size=1, solver=ml.BundleDual(max_rounds=15)),
        "Viterbi": NAMED["Viterbi"],
    },
)

# Consensus.
MEMBERS: dict[str, list[Any]] = {
    "diagonal": [CPL(), small()],
    "full": [CPL(ml.FullMetric(), ml.SquaredFrobenius(0.1))],
}
LEARNERS = {**MEMBERS, "whitened": [ml.WhitenedMetricLearner()]}
WITH_NAMES = {"names": [named()], "Viterbi": [NAMED["Viterbi"]()], "full": MEMBERS["full"]}
consensus = partial(ml.Segmenter, verbose=False, n_folds=2)
consensus_of = partial(ml.Clusterer, combine="consensus", n_folds=2, verbose=False)
add("consensus, demo", lambda: consensus(LEARNERS, n_folds=4), demo, groups=[0, 1, 1, 2])
add_all(
    demo,
    {
        "consensus, uniform": lambda: consensus(MEMBERS, combine="uniform", names=False),
        "consensus for streams": lambda: consensus(MEMBERS, for_streams=True),
    },
)
add_all(wide, {"consensus": lambda: consensus(LEARNERS)})
add_all(
    exercise,
    {
        "consensus": lambda: consensus(WITH_NAMES, names=True),
        "consensus for streams": lambda: consensus(WITH_NAMES, for_streams=True, name_loss=0.1),
        "consensus without names": lambda: consensus(MEMBERS, names=False),
    },
)

# Clusterings.


def clustering(*given: Any, kind: Any = ml.ClusteringMetricLearner, **parameters: Any) -> Any:
    return kind(*given, **{**dict(n_init=2, random_state=0), **parameters})


CLUSTERED = {
    "full": [clustering()],
    "diagonal": [clustering(ml.DiagonalMetric(), ml.L1(mu)) for mu in (1e-3, 1e-2)],
}
add_all(
    iris,
    {
        "full, spectral": lambda: clustering(),
        "diagonal, spectral": lambda: clustering(ml.DiagonalMetric(), ml.L1(1e-2)),
        "full, averaged": lambda: clustering(oracle=ml.oracles.Averaged()),
        "full, local search": lambda: clustering(
            oracle=ml.oracles.LocalSearch(), solver=ml.BundleDual(max_rounds=20)
        ),
        "full, unknown counts": lambda: clustering(n_clusters=None),
        "full, three clusters": lambda: clustering(n_clusters=3, regularizer=ml.Trace(1e-2)),
        "whitened clustering": lambda: clustering(
            kind=ml.estimators.WhitenedClusteringLearner, oracle=ml.oracles.SpectralRelaxation()
        ),
        "whitened clustering towards the closed form": lambda: clustering(
            kind=ml.estimators.WhitenedClusteringLearner,
            oracle=ml.oracles.Averaged(),
            view=ml.views.Metric(baselines.ClosedFormMetric(0.1)),
            toward=1.0,
        ),
        "k-means, Euclidean": lambda: baselines.MetricKMeans(n_init=2, random_state=0),
        "k-means, relevant components": lambda: baselines.MetricKMeans(
            baselines.RelevantComponents(contiguous=False), n_init=2, random_state=0
        ),
        "k-means, MMC": lambda: baselines.MetricKMeans(
            baselines.MMC(diagonal=True, max_pairs=500, random_state=0), n_init=2, random_state=0
        ),
    },
)


def add_table(name: str, make: Callable[[], Any]) -> None:
    """Add a consensus of a single table, which divides its rows."""
    table = iris()

    def fit() -> Fitted:
        return Fitted(make().fit(table.X[0], table.y[0]), table)

    MODELS[name] = fit


add_table("consensus of clusterings, iris", lambda: consensus_of(CLUSTERED))
add_all(half_iris, {"full, spectral": lambda: clustering(alternation=ml.estimators.Alternation(4))})

# Normalized cuts.
BLOCKS = ml.features.ImageFeatures(PixelBlocks(60), (Color(), Position()))
cutting = partial(ml.NormalizedCutMetricLearner, starts=(1e-2,), verbose=False)
add_all(
    graphs,
    {
        "cuts": lambda: cutting(starts=(1e-3, 1e-2)),
        "cuts, full": lambda: cutting(ml.FullMetric(), ml.SquaredFrobenius(0.1)),
        "cuts, Fourier": lambda: cutting(similarity=ml.similarities.FourierSimilarity(60)),
        "cuts, ramp": lambda: cutting(ramp=True, normalized=True, balance=0.5),
        "cuts, k-means": lambda: cutting(rounding=KMeansRounding()),
        "cuts, discretization": lambda: cutting(rounding=Discretization()),
        "cuts, Euclidean": lambda: EuclideanSimilarity(),
        "cuts, grid search": lambda: SimilarityGridSearch(first=(1, 2), scales=(0.1, 1.0)),
        "consensus of cuts": lambda: consensus_of({"cuts": [cutting()]}),
    },
)
add_all(
    stacks,
    {"cuts, given similarities": lambda: cutting(similarity=ml.similarities.GivenSimilarities())},
)
add_all(
    horses,
    {
        "cuts": lambda: cutting(features=BLOCKS),
        "cuts, neighborhoods": lambda: cutting(
            features=BLOCKS, similarity=ml.similarities.GaussianSimilarity(Neighborhood(15.0))
        ),
    },
)


@cache
def half_horses() -> Data:
    known = np.arange(80) % 20 < 6
    return horses()._replace(y=[np.where(known, y, -1) for y in horses().y])


add_all(half_horses, {"cuts": lambda: cutting(features=BLOCKS)})


def automatic() -> Fitted:
    members = {
        "diagonal": [CPL(regularizer=ml.L1(strength)) for strength in (1e-3, 1e-2)],
        "full": [CPL(ml.FullMetric(), ml.SquaredFrobenius(1e-1))],
        "whitened": [clone(ml.WhitenedMetricLearner()).set_params(regularizer__strength=10.0)],
    }
    model = ml.Segmenter(members, combine="best", n_folds=2, verbose=False)
    return Fitted(model.fit(demo().X, demo().y).learner_, demo())


def weights_of_models(model: Any) -> Any:
    """The weights of a Segmenter, of a Clusterer, or of the network before a learner."""
    if hasattr(model, "agreement_"):
        return model.agreement_.weights
    return model.weights_ if hasattr(model, "weights_") else model.score_.view.weights_


def encoder() -> Fitted:
    import torch

    from metriclearn.encoders import Encoder, Noise, TemporalConvolution

    torch.set_num_threads(1)
    network = partial(TemporalConvolution, n_channels=2, width=4, n_outputs=3, n_blocks=1)
    view = Encoder(
        network,
        n_epochs=2,
        batch_size=2,
        augmentations=[Noise(0.1)],
        random_state=0,
        verbose=False,
    )
    toward = ml.SquaredFrobenius(1.0, 1.0)
    model = CPL(ml.FullMetric(), toward, standardize=False, retune=True, view=view, verbose=False)
    return Fitted(model.fit(demo().X, demo().y), demo())


def recordings(data: Data, learner: Any) -> Fitted:
    n, width = len(data.X), data.X[0].shape[1]
    names = [f"r{i}" for i in range(n)]
    labels = [np.asarray(y).astype(str) for y in data.y]
    labeled = LabeledSequences("set", data.X, labels, names, names, [f"x{p}" for p in range(width)])
    model = learner if isinstance(learner, ml.Segmenter) else ml.Segmenter(learner, n_folds=2)
    return Fitted(clone(model).set_params(rate=4.0, verbose=False).fit(labeled), data)


MODELS["automatic choice, demo"] = automatic
MODELS["encoder, demo"] = encoder
MODELS["recordings, demo"] = lambda: recordings(demo(), small())
MODELS["recordings, exercise"] = lambda: recordings(exercise(), consensus(WITH_NAMES))
MODELS["a recording, demo"] = lambda: recordings(
    demo()._replace(X=demo().X[:1], y=demo().y[:1]), ml.WhitenedMetricLearner(retune=True)
)


# What a fitted model holds. A model without it has no such row.


def certificate(model: Any) -> list[float]:
    found = model.certificate_
    return [found.upper, found.lower_bound]


def extra(model: Any) -> list[Any]:
    """Weights of names, or of the penalties of positions."""
    parts = [model.name_weights_, model.feature_penalty_]
    kept = ("coef", "transitions", "unit", "coef_", "deviation_", "mean_", "unit_")
    return [getattr(part, name) for part in parts for name in kept if hasattr(part, name)]


def validation(model: Any) -> list[Any]:
    found = model.validation_
    words = {"one segment": found.one_segment, "equal cuts": found.equal_cuts}
    words |= {"Euclidean": found.euclidean, "found": found.found, "right": found.right}
    boundaries = {"boundaries": float(found.boundaries), "tolerance": found.tolerance}
    return [found.loss, words | boundaries]


def held_out(model: Any) -> Any:
    return model.cross_fit_.losses


FACTS: dict[str, Callable[[Any], Any]] = {
    "objective": lambda m: m.solution_.objective,
    "lower bound": lambda m: m.solution_.lower_bound,
    "scale of the gap": lambda m: m.solution_.scale,
    "why it stopped": lambda m: m.solution_.reason,
    "rank": lambda m: m.solution_.rank,
    "rounds": lambda m: len(m.solution_.trace),
    "objectives": lambda m: m.solution_.trace.objective,
    "lower bounds": lambda m: m.solution_.trace.lower_bound,
    "calls of the oracle": lambda m: m.solution_.trace.oracle_calls,
    "point": lambda m: m.solution_.w,
    "bounds over partitions": certificate,
    "components": lambda m: m.components_,
    "penalty": lambda m: m.penalty_,
    "unit of the penalty": lambda m: m.score_.unit,
    "scale of the features": lambda m: m.scale_,
    "weights of names or positions": extra,
    "completions": lambda m: m.completions_,
    "objectives of completions": lambda m: [m.alternation_.completed, m.alternation_.learned],
    "changes of completions": lambda m: [m.alternation_.changed, m.alternation_.reason],
    "training losses": lambda m: m.training_losses_,
    "training loss": lambda m: m.training_loss_,
    "number of clusters": lambda m: m.n_clusters_,
    "relaxed objective": lambda m: m.relaxed_objective_,
    "threshold of eigenvalues": lambda m: m.eigenvalue_threshold_,
    "largest number of clusters": lambda m: m.max_clusters_,
    "objectives of starts": lambda m: m.start_objectives_,
    "names": lambda m: m.classes_,
    "weights of models": weights_of_models,
    "loss of a name": lambda m: m.agreement_.name_loss,
    "shift": lambda m: m.agreement_.shift,
    "held-out losses": held_out,
    "held-out partitions": lambda m: [M.change_points for M in m.left_out_.values()],
    "distances of boundaries": lambda m: m.rates_.distances,
    "families": lambda m: m.agreement_.families if hasattr(m, "agreement_") else m.families_,
    "fits": lambda m: m.agreement_.fits,
    "penalties of models": lambda m: [[n.penalty, n.unit] for n in m.agreement_.scores],
    "components of scores": lambda m: [n.components for n in m.agreement_.scores],
    "components of models": lambda m: [n.components_ for n in m.models_],
    "candidates": lambda m: m.choice_.names,
    "losses of candidates": lambda m: m.choice_.losses,
    "chosen": lambda m: m.choice_.chosen,
    "losses of scales": lambda m: m.losses_,
    "length": lambda m: m.length_,
    "epochs": lambda m: [m.score_.view.history_, m.score_.view.best_epoch_],
    "inner model": lambda m: [m.learner_.components_, m.learner_.penalty_],
    "validation": validation,
    "scores of labels": lambda m: [m.labels_, m.row_names_.weights, m.row_names_.intercepts],
    "regression": lambda m: [m.regression_.coef_, m.regression_.intercept_],
    "intervals": lambda m: [m.intervals_, m.training_errors_],
}


# What a fitted model answers for new data. A model without the method has no such row, and one
# that raises a ValueError has the row "refused".


def at_penalty(model: Any, data: Data, factor: float, unit: str | None) -> Any:
    """Change-points at a multiple of the penalty, or of one per feature."""
    other, penalty = copy.copy(model), factor * (model.penalty_ or float(len(model.components_)))
    if hasattr(model, "score_"):
        other.score_ = model.score_.at(penalty, unit)
    else:
        other.penalty_ = penalty
    return other.predict_change_points(data.new)


def tuned(model: Any, data: Data, unit: str | None) -> Any:
    other = copy.copy(model).tune_penalty(data.new, data.truth, **({"unit": unit} if unit else {}))
    return [getattr(other, "penalty_", None), other.predict_change_points(data.new)]


def margins(model: Any, data: Data, *count: int, **options: Any) -> Any:
    found = model.boundary_margins(data.new[0], *count, **options)
    return [found.change_points, found.losses, found.gains]


def calibrated(model: Any, data: Data) -> Any:
    other = copy.copy(model).calibrate(data.new, data.truth, tolerance=2)
    return other.boundary_margins(data.new[0]).probabilities


def streamed(model: Any, data: Data, size: int, delay: int | None = None) -> Iterator[Any]:
    """Ends, names, and the number of rows pushed at which each came out."""
    X, stream = data.new[0], model.stream(delay)
    for first in range(0, len(X), size):
        found = stream.push(X[first : first + size])
        yield [(stream.n_samples_, end) for end in found.ends.tolist()], found.names
    yield stream.finish()[:2], stream.exact_


def pending(model: Any, data: Data) -> Any:
    stream = model.stream()
    pushed = stream.push(data.new[0][:50])
    return [pushed.ends, *stream.pending(margins=True)]


def states(model: Any, data: Data, named: bool) -> Any:
    other = copy.copy(model).fit_states(data.X, data.y, named=named)
    return other.predict_states(data.new)


def known(data: Data) -> Any:
    T = len(data.new[0])
    regions = [(2, T // 2, ml.problem.AT_LEAST_ONE), (T // 2 + 1, T - 3, ml.problem.NO_CHANGE)]
    return ml.PartialPartition(T, regions=regions)


ANSWERS: dict[str, Callable[[Any, Data], Any]] = {
    "change-points": lambda m, d: m.predict_change_points(d.new),
    "labels": lambda m, d: m.predict(d.new),
    "score": lambda m, d: m.score(d.new, d.truth),
    "features": lambda m, d: m.transform(d.new),
    "metric": lambda m, d: m.get_mahalanobis_matrix(),
    "distances": lambda m, d: m.pair_distance(np.stack([d.new[0][:4], d.new[0][-4:]], axis=1)),
    **{
        f"change-points, {k} segments": lambda m, d, k=k: m.predict_change_points(
            d.new, n_segments=[k] * len(d.new)
        )
        for k in COUNTS
    },
    "labels, 3 segments": lambda m, d: m.predict(d.new, n_segments=[3] * len(d.new)),
    **{f"labels, {k} clusters": lambda m, d, k=k: m.predict(d.new, n_clusters=k) for k in (2, 3)},
    **{
        f"change-points, {factor} times the penalty, {unit}": partial(
            at_penalty, factor=factor, unit=unit
        )
        for factor in FACTORS
        for unit in (None, "variance")
    },
    "penalty tuned": partial(tuned, unit=None),
    "penalty tuned in variances": partial(tuned, unit="variance"),
    "margins": margins,
    "margins, 3 segments": lambda m, d: margins(m, d, 3),
    "margins, tolerance 2": lambda m, d: margins(m, d, tolerance=2),
    "calibrated probabilities": calibrated,
    "stream": lambda m, d: list(streamed(m, d, 1)),
    "stream in chunks of 7": lambda m, d: list(streamed(m, d, 7)),
    "stream with a delay of 32": lambda m, d: list(streamed(m, d, 1, 32)),
    "pending": pending,
    "states": partial(states, named=False),
    "named states": partial(states, named=True),
    "probabilities of names": lambda m, d: m.predict_proba(d.new),
    "calibrated probabilities of names": lambda m, d: (
        copy.copy(m).calibrate(d.new, d.truth).predict_proba(d.new)
    ),
    "change-points with known regions": lambda m, d: m.predict_change_points(
        d.new[0], known=known(d)
    ),
    "expected loss": lambda m, d: m.expected_loss(d.new),
    "expected loss, 3 segments": lambda m, d: m.expected_loss(d.new[0], 3),
    "expected loss with known regions": lambda m, d: m.expected_loss(d.new[0], known=known(d)),
    "shares of boundaries": lambda m, d: m.boundary_shares(d.new, tolerance=2),
    "probabilities of boundaries": lambda m, d: m.boundary_probabilities(d.new, tolerance=2),
    "penalties": lambda m, d: m.predict_penalties(d.new),
    "segments": lambda m, d: [m.segments(X) for X in d.new],
}


# Everything else: name -> a function that returns numbers by name.

VALUES: dict[str, Callable[[], dict[str, Any]]] = {}


def values(make: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    """Add the numbers that a function returns, under its docstring."""
    VALUES[str(make.__doc__).rstrip(".")] = make
    return make


def ends_of(partitions: Any) -> Any:
    return [M.change_points for M in partitions]


@values
def exact_search() -> dict[str, Any]:
    """Exact search."""
    random, X = np.random.default_rng(0), demo().new[0][:, :3]
    emissions = random.normal(size=(121, 3)).cumsum(axis=0)
    form, T = ml.problem.LowRankForm(X), len(X)
    plain = {
        "plain": form.shifted(-9.0),
        "truth": form.shifted(-9.0).plus(M_of(demo().truth[0]), 2),
    }
    charged = {
        "penalties": ChargedForm(plain["plain"], penalties=random.uniform(0, 9, T + 1)),
        "names": ChargedForm(plain["plain"], names=NameScores(emissions)),
    }
    rows: dict[str, Any] = {}
    for words, one in {**plain, **charged}.items():
        for least in (1, 5):
            search = ml.oracles.ConstrainedChangePoints(least)
            answers = [search(one), search(one, 3), search(one, 5)]
            answers += [search(one, None, known(demo())), search(one, 6, known(demo()))]
            rows[f"{words}, segments of {least}"] = [(M.change_points, one.at(M)) for M in answers]
        margins = ml.oracles.boundary_margins(one, tolerance=1)
        rows[f"{words}, margins"] = [margins.change_points, margins.losses, margins.gains]
    for words, one in plain.items():
        rows[f"{words}, pruned"] = [ml.oracles.ChangePoints(2)(one).change_points]
        rows[f"{words}, summed areas"] = ends_of(
            [ml.oracles.SummedArea(2)(one), ml.oracles.SummedArea()(one, 4)]
        )
    bound = ml.oracles.boundary_margins(form.shifted(-9.0), known=known(demo()))
    rows["margins with known regions"] = [bound.change_points, bound.losses, bound.gains]
    return rows


def M_of(labels: Any) -> ml.Partition:
    return ml.Partition.from_runs(labels)


@values
def paths() -> dict[str, Any]:
    """Segmentation paths."""
    X, truths = demo().X, [M_of(y) for y in demo().y]
    forms = [ml.problem.LowRankForm(one) for one in X]
    rows = {}
    for words, options in {
        "all": {"max_segments": 12},
        "segments of 4": {"min_size": 4, "max_segments": 12},
        "a range": {"penalty_range": (5.0, 60.0)},
    }.items():
        path = ml.oracles.segmentation_path(X[0], **options)
        rows[words] = [path.n_segments, path.costs, path.penalties, *path.change_points]
        rows[f"{words}, elbow"] = [path.elbow(), path.at(50.0)]
    rows["best penalty"] = ml.oracles.best_penalty(forms, truths)
    rows["best penalty, partial labels"] = ml.oracles.best_penalty(
        forms[2:], [y for y in partly().y[2:]], np.array([1.0, 2.0]), min_size=2
    )
    return rows


@values
def strengths() -> dict[str, Any]:
    """Regularization path."""
    X, y, new, truth = demo()
    of_sequences = ml.regularization_path(CPL(), X, y, 4, validation=(new, truth))
    of_tables = ml.regularization_path(clustering(), iris().X, iris().y, [1.0, 10.0])
    rows = {}
    for words, path in {"sequences": of_sequences, "tables": of_tables}.items():
        rows[f"{words}, strengths"] = path.strengths
        rows[f"{words}, weights"] = path.weights
        rows[f"{words}, objectives"] = [[s.objective, s.lower_bound] for s in path.solutions]
        rows[f"{words}, components"] = [learner.components_ for learner in path.learners]
        rows[f"{words}, losses"] = path.validation_loss
    return {**rows, "best": of_sequences.best}


@values
def relaxations() -> dict[str, Any]:
    """Oracles of clusterings."""
    form = ml.problem.LowRankForm(iris().X[0] - iris().X[0].mean(axis=0))
    shifted, search = form.shifted(-8.0), ml.oracles.LocalSearch()
    codes = half_iris().y[0]
    some = ml.PartialPartition(75, codes)
    members = [ml.Partition.from_labels(iris().X[0][:, p] // 1.0) for p in range(4)]
    compromise = ml.problem.ConsensusForm(members, [0.4, 0.3, 0.2, 0.1])
    bounds = search.bounds(shifted)
    sequence = ml.problem.ConsensusForm([M_of(demo().y[0]), M_of(demo().y[1]), M_of(demo().y[2])])
    compromises = [best_clustering(compromise), best_clustering(compromise, 3)]
    return {
        "spectral": [
            ml.oracles.SpectralRelaxation()(form, 3).root(np.eye(75)) ** 2,
            form.at(ml.oracles.SpectralRelaxation()(form, 3)),
        ],
        "local search": [
            search(form, 3).labels,
            bounds.partition.labels,
            bounds.lower,
            bounds.upper,
        ],
        "averaged": form.at(ml.oracles.Averaged()(form, 3)),
        "constrained k-means": ConstrainedKMeans(2)(form, 3, some).labels,
        "compromise": [(M.lower, M.upper, M.partition.labels) for M in compromises],
        "compromise of segmentations": ends_of(
            [
                best_consensus(sequence),
                best_consensus(sequence, 3),
                best_consensus(sequence, None, known(demo())),
            ]
        ),
    }


@values
def metrics() -> dict[str, Any]:
    """Metrics of baselines."""
    makers = {
        "Euclidean": baselines.Euclidean(),
        "principal components": baselines.PrincipalComponents(2, whiten=True),
        "relevant components": baselines.RelevantComponents(2, contiguous=False),
        "relevant components, diagonal": baselines.RelevantComponents(diagonal=True),
        "closed form": baselines.ClosedFormMetric(0.1),
        "MMC": baselines.MMC(max_pairs=1000, random_state=0),
        "neighborhood components": baselines.NeighborhoodComponents(2, random_state=0),
    }
    data, rows = iris(), {}
    for words, model in makers.items():
        model.fit(data.X, data.y)
        rows[words] = [model.components_, model.transform(data.new), model.get_mahalanobis_matrix()]
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 3))
    y = X[:, :1] + random.uniform([-1, 0], [0, 2], (60, 2))
    for words, options in {
        "": {},
        ", lasso": {"l1_ratio": 1.0},
        ", products": {"products": 0.5},
    }.items():
        regression = baselines.IntervalRegression(**options).fit(X, y)
        rows[f"interval regression{words}"] = [regression.predict(X), regression.score(X, y)]
    return rows


@values
def partitions_of_tables() -> dict[str, Any]:
    """Clusterers."""
    X, new = iris().X[0], iris().new[0]
    rows: dict[str, Any] = {}
    for order in ("given", "random", "farthest-first"):
        means = ml.clusterers.DPMeans(1.5, order=order, n_init=2, random_state=0).fit(X)
        rows[f"DP-means, {order}"] = [means.labels_, means.cluster_centers_, means.predict(new)]
    rows["DP-means, objective"] = penalized(X, means.labels_)
    mixture = ml.clusterers.GibbsDPMixture(1.5, n_sweeps=10, random_state=0).fit(X)
    rows["mixture"] = [mixture.labels_, mixture.cluster_centers_, mixture.log_posterior_trace_]
    for threshold in (0.5, None):
        evidence = ml.clusterers.EvidenceAccumulation(8, threshold=threshold, random_state=0).fit(X)
        rows[f"evidence, {threshold}"] = [evidence.labels_, evidence.labelings_]
    rows["co-association"] = clusterers.coassociation(evidence.labelings_)
    means, weights = X[[0, 30, 60]], [0.5, 0.3, 0.2]
    rows["responsibilities"] = clusterers.spherical_responsibilities(X, weights, means, 0.5)
    rows["assignment"] = clusterers.assignment_probabilities(
        X[0], [3, 2, 1], means, variance=0.5, prior_variance=1.0, penalty=1.0
    )
    return rows


def penalized(X: Any, labels: Any) -> float:
    return clusterers.penalized_kmeans_objective(X, labels, 1.5)


@values
def views() -> dict[str, Any]:
    """Features."""
    X, new = demo().X, demo().new
    images = ml.features.ImageFeatures(PixelBlocks(60))
    makers = {
        "Hermite moments": ml.views.HermiteMoments(3),
        "Hermite moments, width 2": ml.views.HermiteMoments(2, "noise", "paper", 2.0),
        "sliding moments": SlidingMoments(5, trend=9),
        "soft thresholds": SoftThresholds(saturation=3.0),
        "of the sequence": ml.views.SequenceFeatures(),
        "of the sequence, window 20": ml.views.SequenceFeatures(
            ("log_noise", "log_length"), window=20
        ),
        "of the boundary": ml.views.BoundaryFeatures((2, 9), ("mean", "deviation")),
        "of the boundary, unit of the data": ml.views.BoundaryFeatures((4,), unit="data"),
        "standardized recordings": OwnScale(),
        "each sample": ml.views.Each(PCA(2, random_state=0)),
        "numbers of segments": ml.estimators.SegmentCounts((1.0, 3.0)),
    }
    rows = {}
    for words, view in makers.items():
        try:
            rows[words] = view.fit(X).transform(new)
        except ValueError:  # one feature only
            rows[words] = clone(view).fit([one[:, :1] for one in X]).transform([new[0][:, :1]])
    for kernel in ("gaussian", "laplacian", "cauchy"):
        fourier = RandomFourierFeatures(5, kernel=kernel, random_state=0).fit(X[0])
        rows[f"Fourier, {kernel}"] = fourier.transform(new[0])
    nodes = images.nodes(horses().new[0])
    rows["of an image"] = [nodes.features, nodes.sizes]
    return rows


@values
def agreement() -> dict[str, Any]:
    """Indices."""
    a, b = np.concatenate(exercise().y), np.concatenate([*exercise().y[1:], exercise().y[0]])
    a, b, random = a[:200], b[:200], np.random.default_rng(0)
    X, rows = random.normal(size=(200, 3)) + 2.0 * (a == a[0])[:, None], {}
    x, y = random.integers(0, 9, (2, 40))
    special: dict[str, Callable[[], Any]] = {
        **{
            f"compare, {field}": partial(indices.compare, a, b, field=field)
            for field in (None, "speech", "music", "video", "change_points")
        },
        "dunn_score": lambda: indices.dunn_score(X, a),
        "dunn_scores": lambda: indices.dunn_scores(X, a),
        "random_walk_index": lambda: indices.random_walk_index(np.exp(X @ X.T / 9), a, b),
        "vi_with_neighbors": lambda: indices.vi_with_neighbors(indices.knn_graph(X, 4), a, b),
        "graphs": lambda: [indices.epsilon_graph(X, 1.0).nnz, indices.grid_graph((5, 6)).toarray()],
        "annotation_error": lambda: indices.annotation_error(
            [30, 99, 200], [(20, 40, 1), (50, 90, 0)]
        ),
        "adjusted": lambda: indices.adjusted(indices.jaccard_score, a, b),
        "expected_under_permutation": lambda: [
            indices.expected_under_permutation(indices.rand_score, a, b),
            indices.expected_under_permutation(indices.misclassification_error, a, b),
        ],
        "partition_loss, not normalized": lambda: indices.partition_loss(a, b, normalized=False),
        "expected_mutual_information": lambda: indices.expected_mutual_information(
            indices.contingency_table(a, b).row_sizes, indices.contingency_table(a, b).column_sizes
        ),
        "stability": lambda: (
            indices.stability(ml.clusterers.DPMeans(20.0), X, n_bootstrap=5).distances
        ),
        "goodman_kruskal_gamma": lambda: indices.goodman_kruskal_gamma(x, y),
        "weighted_goodman_kruskal": lambda: indices.weighted_goodman_kruskal(x, y),
        "mann_whitney_u": lambda: indices.mann_whitney_u(x, y),
        "mann_whitney_z": lambda: indices.mann_whitney_z(x, y),
        "mann_whitney_exact_p": lambda: indices.mann_whitney_exact_p(60.0, 12, 13),
        "mann_whitney_critical": lambda: indices.mann_whitney_critical(12, 13),
    }
    segmentations = ("hausdorff", "precision_recall", "covering", "f_measure")
    for name in segmentations:
        special[name] = partial(getattr(indices, name), M_of(a), M_of(b))
    validity = (
        "davies_bouldin_score",
        "calinski_harabasz_score",
        "silhouette_score",
        "silhouette_samples",
    )
    for name in validity:
        special[name] = partial(getattr(indices, name), X, a)
    for name in dir(indices):
        function = getattr(indices, name)
        taken = list(inspect.signature(function).parameters) if callable(function) else []
        if name not in (*special, "plot_contingency") and taken[:2] == [
            "labels_true",
            "labels_pred",
        ]:
            special[name] = partial(function, a, b)
    for name, call in special.items():
        rows[name] = call()
    return rows


@values
def suggestions() -> dict[str, Any]:
    """Suggestions."""
    X, some = demo().X, [np.where(np.arange(120) < 60, y, -1) for y in demo().y]
    model = small().fit(X, some)
    return {
        strategy: suggest(X, some, length=20, n=3, learner=model, strategy=strategy)
        for strategy in ("combined", "margin", "diversity", "random", "leftmost")
    }


@values
def fitted_elsewhere() -> dict[str, Any]:
    """Consensus of models that are fitted elsewhere."""
    data, parts = demo(), [np.arange(2), np.arange(2, 4)]
    rest = [np.setdiff1d(np.arange(4), part) for part in parts]
    models = [small().fit([data.X[i] for i in r], [data.y[i] for i in r]) for r in rest]
    made = ml.Segmenter.of_models({"one": [models]}, data.X, data.y, parts)
    return {
        "weights": [made.agreement_.weights, made.cross_fit_.losses],
        "answer": made.predict_change_points(data.new),
    }


# What is written, and the comparison.


def leaves(value: Any) -> Iterator[str]:
    """The parts of a value as texts that tell every bit."""
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "toarray"):
        array = np.asarray(value.toarray() if hasattr(value, "toarray") else value)
        if array.ndim:
            yield str(array.shape)
        yield from map(leaf, array.ravel().tolist())
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield str(key)
            yield from leaves(one)
    elif isinstance(value, list | tuple | Iterator):
        yield "["
        for one in value:
            yield from leaves(one)
        yield "]"
    elif hasattr(value, "to_array"):
        yield from leaves(value.to_array())
    else:
        yield leaf(value)


def leaf(value: Any) -> str:
    if isinstance(value, float):
        return value.hex()
    if value is None or isinstance(value, bool | int | str):
        return str(value)
    raise TypeError(f"A frozen row needs numbers or texts, got {value!r}.")


def written(value: Any) -> str:
    """A value as a short text: its first numbers, and if there are more a hash of all."""
    texts = list(leaves(value))
    whole = " ".join(texts)
    if len(whole) <= 80:
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()[:20]
    return f"{digest} of {len(texts)}: {' '.join(texts[:3])}"[:100]


def rows_of(fitted: Fitted) -> Iterator[tuple[str, Any]]:
    """All that a model holds and answers."""
    for words, read in FACTS.items():
        try:
            yield words, read(fitted.model)
        except AttributeError:
            continue
    for words, answer in ANSWERS.items():
        try:
            yield words, answer(fitted.model, fitted.data)
        except ValueError:
            yield words, "refused"
        except (AttributeError, TypeError):
            continue


def computed(only: str, verbose: bool) -> dict[str, str]:
    """All rows of the models whose names contain a text."""
    rows: dict[str, str] = {}
    for name, make in {**MODELS, **VALUES}.items():
        if only not in name:
            continue
        begun = time.process_time()
        try:
            with warnings.catch_warnings(action="ignore"):
                pairs = make().items() if name in VALUES else rows_of(make())
                rows.update((f"{name}: {words}", written(value)) for words, value in pairs)
        except Exception:
            traceback.print_exc()
            rows[f"{name}: {FAILED}"] = FAILED
        if verbose:
            print(f"{time.process_time() - begun:6.1f} s  {name}", file=sys.stderr, flush=True)
    return rows


def taken(path: Path, only: str) -> tuple[dict[str, str], dict[str, str]]:
    """The rows of a file whose models have a text in their names, and the other rows."""
    saved = json.loads(path.read_text(encoding="utf8")) if path.exists() else {}
    chosen = {name: text for name, text in saved.items() if only in name.split(": ")[0]}
    return chosen, {name: text for name, text in saved.items() if name not in chosen}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.frozen", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--save", nargs="?", const=FILE, type=Path, metavar="FILE")
    action.add_argument("--compare", nargs="?", const=FILE, type=Path, metavar="FILE")
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    with threadpool_limits(1):  # the order of sums depends on the number of threads
        rows = computed(given.only, given.verbose)
    if failed := [name for name in rows if name.endswith(FAILED)]:
        print(*failed, sep="\n")
        return 1
    saved, others = taken(given.save or given.compare, given.only)
    if given.save:
        text = json.dumps(dict(sorted({**others, **rows}.items())), indent=0, ensure_ascii=False)
        given.save.write_text(text + "\n", encoding="utf8")
        print(f"{len(rows)} rows written to {given.save}")
        return 0
    wrong = [name for name, text in saved.items() if rows.get(name) != text]
    for name in wrong:
        print(f"{name}\n    was {saved[name]}\n    is  {rows.get(name, 'missing')}")
    print(f"{len(wrong)} of {len(saved)} rows differ.")
    print(f"{len(rows.keys() - saved.keys())} rows are new.")
    return 1 if wrong or not saved else 0


if __name__ == "__main__":
    sys.exit(main())
