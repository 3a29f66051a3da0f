"""What a refactoring must not move: numbers of every learner, oracle, clusterer and index.

    python -m experiments.benchmarks.unchanged store FILE [--only SECTION ...]
    python -m experiments.benchmarks.unchanged compare FILE [--only SECTION ...]

``store`` computes them on fixed data; ``compare`` computes them again, and exits 1 if anything
moved. FILE is ``unchanged.npz`` beside this file by default, the numbers of the code
before it was refactored. Only names that ``metriclearn`` and its packages export are used.

An exact entry may move by 1e-9 of its largest value. What a solver found is known up to its
certified relative gap g, which is stored beside it. Objectives F and F′ whose bounds lie below the
same optimum differ by at most max(g, g′) of the objective with no metric; g + g′ is allowed, and a
gap may grow up to the solver's tolerance. Coefficients and the penalty may move by 10(√g + √g′) of
the largest: with Ω(B) = (μ/2)‖B‖² the objective F is strongly convex, so ‖B − B*‖² is at most
2g F(0)/μ = g ‖B*‖² F(0)/Ω(B*), and 10 is the root of F(0)/Ω(B*) where Ω is a hundredth of F(0). For
the other regularizers this is a rule; other ways of the solver to the optimum were seen to obey it.
Predictions and scores are exact, because so small a gap settles them. What stops after a few rounds
or has no lower bound is deterministic, so that its gap is 0 and it must be equal to 1e-9, too.
``OPTIMIZED_ANEW`` names what another algorithm finds since the numbers were stored.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from itertools import chain, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

import metriclearn as ml
from metriclearn import baselines, datasets, indices

Entries = Iterator[tuple[str, Any]]
Choices = Mapping[str, dict[str, Any]]  # name -> parameters
TOLERANCE = 1e-7  # relative gap at which solvers stop here
# The full metric of MMC was stored as projected gradient steps left it. L-BFGS comes to a better
# objective, by 5e-8 of it, and a smaller tolerance moves it no further: the optimum is flat there.
OPTIMIZED_ANEW = {"clustering/MMC 4: coefficients": 5e-4}
KINDS: Choices = {
    "diagonal": {"metric": ml.DiagonalMetric(), "regularizer": ml.L1(1e-2)},
    "full": {"metric": ml.FullMetric(), "regularizer": ml.SquaredFrobenius(0.1)},
    "trace": {"metric": ml.FullMetric(), "regularizer": ml.Trace(1e-2)},
}
SEGMENTER = ml.ChangePointMetricLearner(solver=ml.BundleDual(TOLERANCE))


def fitted(name: str, learner: Any, train: Any, test: Any) -> Entries:
    """The certificate, the metric, and what it does on test data."""
    (X, y), parameters = test, learner.fit(*train).get_params()
    yield from certified(name, [learner.solution_])
    yield f"{name}: coefficients", learner.get_mahalanobis_matrix()
    yield f"{name}: penalty", getattr(learner, "penalty_", None)
    predict = getattr(learner, "predict_change_points", learner.predict)
    counts = [[len(set(labels)) for labels in y]] if parameters.get("n_segments") else []
    predicted = predict(X, *counts)  # of label maps, a sample of the pixels is enough
    yield f"{name}: predictions", [p[::8, ::8] if p.ndim == 2 else p for p in predicted]
    yield f"{name}: score", learner.score(X, y)
    yield f"{name}: completions", getattr(learner, "completions_", None)


def certified(name: str, solutions: Sequence[Any]) -> Entries:
    """Objectives and lower bounds, over the objective with no metric, and gaps."""
    pairs = [(s.objective / s.scale, s.lower_bound / s.scale) for s in solutions]
    yield f"{name}: objective and bound", pairs
    bounded = [s.converged and 0 < s.lower_bound <= s.objective for s in solutions]
    gaps = [s.relative_gap if b else 0.0 for s, b in zip(solutions, bounded)]
    yield f"{name}: gap", gaps


def grid(base: Any, train: Any, test: Any, *axes: Choices) -> Entries:
    """Everything of the learners with one choice of parameters from every axis."""
    for choice in product(*(axis.items() for axis in axes)):
        parameters = {key: value for _, part in choice for key, value in part.items()}
        learner = clone(base).set_params(**parameters)
        yield from fitted(", ".join(name for name, _ in choice), learner, train, test)


def choices(parameter: str, *values: Any) -> Choices:
    """One parameter's values, by the names of their types."""
    return {type(value).__name__: {parameter: value} for value in values}


def sequences(seed: int, n: int = 4) -> tuple[list[NDArray], list[NDArray]]:
    """Sequences of 150 samples with 8 features, 3 of which change where the labels do."""
    data = datasets.make_change_points(n, 150, 8, 3, (3, 5), random_state=seed)
    return data.sequences, data.labels


def change_points() -> Entries:
    """Metrics by penalties, other parameters, and sequences on disk."""
    train, test, full = sequences(0), sequences(1), KINDS["full"]
    fixed, given = {"penalty": 1.0, "loss_scale": 0.5}, {"n_segments": "given"}
    yield from grid(SEGMENTER, train, test, KINDS, {"learned": {}, "fixed": fixed, "given": given})
    others = {"min_size": 4, "standardize": False, "oracle": ml.SummedArea()}
    yield from grid(SEGMENTER, train, test, {name: {**full, name: others[name]} for name in others})
    weights = [1.0, 2.0, 0.0, 3.0]
    yield from grid(SEGMENTER, (*train, weights), test, {"weights": {**full, "n_jobs": 2}})
    with TemporaryDirectory() as folder:
        packed = datasets.pack_sequences(*train, Path(folder, "packed"))
        yield from grid(SEGMENTER, (packed.sequences, packed.labels), test, {"packed": full})


def solvers() -> Entries:
    """Every solver on one problem for each kind of metric and regularizer."""
    axis: Choices = {
        "bundle, no memory": {"solver": ml.BundleDual(TOLERANCE, keep_inactive=1, cache_size=0)},
        "cutting planes": {"solver": ml.CuttingPlane(tolerance=1e-4)},
        "cutting planes, one slack": {"solver": ml.CuttingPlane(n_slack=False)},
        "subgradient": {"solver": ml.ProjectedSubgradient(max_rounds=20)},
        "stochastic": {"solver": ml.ProjectedSubgradient(batch_size=1, max_rounds=5)},
        "factor descent": {"solver": ml.FactorDescent()},
    }
    yield from grid(SEGMENTER, sequences(2, 3), sequences(3, 3), axis, KINDS)


def around() -> Entries:
    """What chooses a strength, or learns in other coordinates; paths."""
    train, test = sequences(4, 6), sequences(5)
    cv = ml.ChangePointMetricLearnerCV(solver=SEGMENTER.solver, strengths=4, cv=3)
    yield from fitted("cross-validation", cv, train, test)
    yield "cross-validation: chosen", [cv.strength_, cv.strengths_, cv.loss_path_]
    inside: Choices = {"inside": {"learner__solver": SEGMENTER.solver}}
    yield from grid(ml.WhitenedMetricLearner(retune=True), train, test, inside)
    metrics = choices("reference", baselines.PrincipalComponents(3), baselines.RelevantComponents())
    yield from grid(ml.ReferenceMetricLearner(), train, test, inside, metrics)
    for name, kind in KINDS.items():
        learner = clone(SEGMENTER).set_params(**kind)
        path = ml.regularization_path(learner, *train, 4, validation=test)
        yield from certified(f"path, {name}", path.solutions)
        yield f"path, {name}: coefficients", path.weights
        yield f"path, {name}: losses", [path.strengths, path.validation_loss]
    forms, truths = map(ml.LowRankForm, train[0]), map(ml.Partition.from_runs, train[1])
    yield "best penalty", ml.best_penalty(list(forms), list(truths), min_size=2)
    for size, components in ((1, None), (3, np.eye(8)[:3])):
        segmentations = ml.segmentation_path(test[0][0], components=components, min_size=size)
        yield f"segmentations {size}", list(vars(segmentations).values())


def figure1() -> Entries:
    """One draw of Figure 1: the first metric from 30 % of the labels, one stretch per sequence."""
    draws = [datasets.make_change_points(feature_seed=0, random_state=i) for i in (0, 2)]
    (X, labels), test = [(draw.sequences, draw.labels) for draw in draws]
    starts, t = np.random.default_rng(0).integers(0, 420, size=10), np.arange(600)
    known = [np.where((i <= t) & (t < i + 180), y, -1) for i, y in zip(starts, labels)]
    draw = {**KINDS["diagonal"], "alternation": ml.Alternation(1), "solver__tolerance": 1e-6}
    yield from grid(SEGMENTER, (X, known), test, {"draw": draw})


def hapt() -> Entries:
    """Recordings of five users for training, of three others for test."""
    data = datasets.load_hapt(unlabeled="keep")
    users = np.unique(data.groups, return_inverse=True)[1]
    parts = [data.select(np.flatnonzero(rows)) for rows in (users < 5, (users >= 5) & (users < 8))]
    train, test = [(part.sequences, part.labels) for part in parts]
    yield "features", [X[::500] for X in train[0]]
    yield from grid(SEGMENTER, train, test, KINDS, {"users": {"solver__tolerance": 1e-6}})


def tables() -> Entries:
    """Iris and Wine, without their ties: metrics, oracles, numbers of clusters known or not."""
    rng, solver = np.random.default_rng(0), ml.BundleDual(1e-5)
    for table in (datasets.load_iris(), datasets.load_wine()):
        X, name = table.X + 1e-2 * rng.normal(size=table.X.shape), table.name
        data = [X[::2], X[1::2]], [table.y[::2], table.y[1::2]]
        learner = ml.ClusteringMetricLearner(solver=solver, n_init=3, random_state=0)
        kinds: Choices = {f"{name}, full": {}, f"{name}, diagonal": KINDS["diagonal"]}
        counts: Choices = {"K given": {}, "K unknown": {"n_clusters": None}}
        yield from grid(learner, data, data, kinds, counts)
        searching = choices("oracle", ml.LocalSearch(), ml.Averaged())  # these certify nothing
        learner.set_params(solver__max_rounds=4)
        yield from grid(learner, data, data, kinds, counts, searching)
        few = {"learner__solver__max_rounds": 4, "learner__random_state": 0}
        yield from grid(ml.WhitenedClusteringLearner(), data, data, {f"{name}, whitened": few})


def horses() -> Entries:
    """Ten horses in few superpixels: metrics, similarities, inner solvers."""
    data = datasets.load_weizmann_horses().select(range(10))
    features = ml.ImageFeatures().set_params(segmenter__n_segments=60)
    nodes = [features.nodes(image) for image in data.images]
    yield "features", [image.features[::20] for image in nodes]
    train, test = (nodes[:6], data.labels[:6]), (nodes, data.labels)
    solver = ml.CCCP(ml.FactorDescent(8), max_rounds=2)
    learner = ml.NormalizedCutMetricLearner(solver=solver, starts=(1e-2, 1e-1))
    metrics = choices("metric", ml.DiagonalMetric(), ml.FullMetric())
    similarities = choices("similarity", ml.GaussianSimilarity(), ml.FourierSimilarity(60))
    yield from grid(learner, train, test, metrics, similarities)
    yield from grid(learner, train, test, choices("solver__solver", ml.BundleDual(max_rounds=3)))


def partial() -> Entries:
    """Labels that are known in part: of sequences, a table, graphs."""
    (X, labels), test, rng = sequences(12), sequences(7), np.random.default_rng(0)
    learner = clone(SEGMENTER).set_params(alternation=ml.Alternation(6))
    starts = choices("alternation__start", ml.KnownStart(), ml.PrincipalStart(3))
    stretches = [np.where(np.arange(150) % 60 < 35, y, -1) for y in labels]
    regions = [known_of(ml.Partition.from_runs(y), rng) for y in labels]
    for name, known in (("labels", stretches), ("regions", regions)):
        kinds = {f"{name}, {kind}": KINDS[kind] for kind in ("diagonal", "full")}
        yield from grid(learner, (X, known), test, kinds, starts)
    iris = datasets.load_iris()
    classes = np.unique(iris.y, return_inverse=True)[1]
    table = ml.ClusteringMetricLearner(solver=ml.BundleDual(1e-5), n_init=3, random_state=0)
    known = [np.where(rng.random(150) < 0.3, classes, -1)]
    yield from fitted("table", table, ([iris.X], known), ([iris.X], [classes]))
    truth = np.arange(40) // 20
    blobs = [rng.normal(size=(40, 3)) + np.outer(truth, (2, 0, 0)) for _ in range(2)]
    kernels = [np.exp(-((Z.T[:, :, None] - Z.T[:, None]) ** 2)) for Z in blobs]
    known = [np.where(rng.random(40) < 0.5, truth, -1) for _ in range(2)]
    for graphs, similarity in ((blobs, ml.GaussianSimilarity()), (kernels, ml.GivenSimilarities())):
        cut, axis = ml.NormalizedCutMetricLearner(), choices("similarity", similarity)
        yield from grid(cut, (graphs, known), (graphs, [truth] * 2), axis)


def known_of(truth: Any, rng: np.random.Generator) -> Any:
    """Labels, a change-point, a span and regions that agree with a segmentation."""
    T, ends = truth.n_samples, truth.change_points
    kinds, regions = (ml.NO_CHANGE, ml.EXACTLY_ONE, ml.AT_LEAST_ONE), []
    for start, stop in np.sort([rng.choice(T, 2, False) for _ in range(4)]):
        count = int(np.sum((start < ends) & (ends < stop)))
        regions.append((int(start), int(stop), kinds[min(count, 2)]))
    labels = np.where(np.arange(T) < T // 4, truth.labels, -1)
    return ml.PartialPartition(T, labels, ends[-2:-1], [(T - 2, T)], regions)


def oracles() -> Entries:
    """Answers for random forms, and their values."""
    exact = (ml.ChangePoints, ml.SummedArea, ml.ConstrainedChangePoints)
    chosen = [kind(min_size) for kind in exact for min_size in (1, 3)]
    chosen += [ml.SpectralRelaxation(keep_constant=keep) for keep in (False, True)]
    chosen += [ml.LocalSearch(), ml.Averaged()]
    for (i, oracle), K, weight in product(enumerate(chosen), ("given", "unknown"), (0.0, 1.5)):
        answers = [answer_of(oracle, seed, K == "given", weight) for seed in range(12)]
        yield f"{type(oracle).__name__} {i}, K {K}, weight {weight}", answers


def answer_of(oracle: Any, seed: int, given: bool, weight: float) -> list[Any]:
    """The answer for one form, its value, its trace and its overlap with the truth."""
    T, options = 15 + 4 * seed, {"min_size": 3, "random_state": seed}
    draw = datasets.make_change_points(1, T, 3, 2, (2, 4), **options)  # type: ignore[arg-type]
    Z, truth = draw.sequences[0], ml.Partition.from_runs(draw.labels[0])
    dense = seed % 2 == 0 and isinstance(oracle, (ml.SummedArea, ml.SpectralRelaxation))
    form: Any = ml.DenseForm(Z @ Z.T) if dense else ml.LowRankForm(Z)
    form = (form.plus(truth, weight) if weight else form).shifted(-2.5)
    if isinstance(oracle, ml.ConstrainedChangePoints):
        known = known_of(truth, np.random.default_rng(seed))
        answer = oracle(form, truth.n_clusters if given else None, known)
    else:
        answer = oracle(form, 2 + seed % 3 if given else None)
    content = answer.labels if isinstance(answer, ml.Partition) else Z.T @ answer.project(Z)
    return [content, form.at(answer), answer.n_clusters, answer.inner(truth)]


def measures() -> Entries:
    """Every index, by the names of its first two parameters, on random partitions and points."""
    rng = np.random.default_rng(0)
    pairs = [rng.integers(0, K, size=(2, 50)) for K in (2, 3, 5, 8)]
    ends = [np.sort(rng.choice(99, (2, 4), False) + 1) for _ in pairs]
    X, means = rng.normal(size=(50, 3)), ml.DPMeans(6.0, random_state=0)
    graphs = [indices.knn_graph(X, 4), indices.epsilon_graph(X, 1.5), indices.grid_graph((5, 10))]
    on_graphs = [(S, *pair) for S, pair in product(graphs, pairs)]
    arguments: dict[tuple[str, ...], Any] = {
        ("true", "pred"): [(*pair, 100) for pair in ends],
        ("X", "labels"): [(X, labels) for labels, _ in pairs],
        ("index", "labels_true"): [(indices.rand_score, *pair) for pair in pairs],
        ("change_points", "regions"): [(a, [(0, 30, 0), (30, 70, 1)], 100) for a, _ in ends],
        ("row_sizes", "column_sizes"): [(np.array([9, 7, 4]), np.array([12, 8]))],
        ("u", "n1"): [(9, 6, 7), (20, 6, 7)],
        ("n1", "n2"): [(4, 7), (6, 7)],
        ("labelings", "distance"): [(list(chain(*pairs)),)],
        ("reference", "labelings"): [(a, [b, b[::-1]]) for a, b in pairs],
        ("estimator", "X"): [(means, X[:20])],
        **dict.fromkeys([("labels_true", "labels_pred"), ("a", "b"), ("x", "y")], pairs),
        **dict.fromkeys([("S", "labels_true"), ("A", "labels_true")], on_graphs),
    }
    for name in vars(indices)["__all__"]:
        index = getattr(indices, name)
        first = tuple(inspect.signature(index).parameters)[:2]
        if first in arguments and not name.startswith("plot"):
            yield name, [index(*given) for given in arguments[first]]
    cuts = [[ml.Partition.from_change_points(a, 100) for a in pair] for pair in ends]
    for index in (indices.rand_score, indices.partition_loss, indices.variation_of_information):
        yield f"{index.__name__} of change-points", [index(*pair) for pair in cuts]


def clustering() -> Entries:
    """Clusterers, and metrics to compare with, on three clusters."""
    seed: Any = {"random_state": 0}
    X, y = np.random.default_rng(0).normal(size=(120, 3)), np.arange(120) % 3
    X[:, 0] += 4.0 * y
    chosen: list[Any] = [ml.GibbsDPMixture(8.0, n_sweeps=10, **seed)]
    chosen += [ml.EvidenceAccumulation(20, threshold=share, **seed) for share in (0.5, None)]
    orders: Any = ("given", "random", "farthest-first")
    chosen += [ml.DPMeans(8.0, order=order, n_init=2, **seed) for order in orders]
    for i, clusterer in enumerate(chosen):
        yield f"{type(clusterer).__name__} {i}", clusterer.fit(X).labels_
    metrics = [
        baselines.Euclidean(),
        baselines.PrincipalComponents(2, whiten=True),
        baselines.RelevantComponents(contiguous=False),
        baselines.ClosedFormMetric(0.1),
        baselines.MMC(max_pairs=300, **seed),
        baselines.MMC(diagonal=True, max_pairs=300, **seed),
        baselines.NeighborhoodComponents(2, max_samples=60, max_iter=5, **seed),
    ]
    for i, metric in enumerate(metrics):
        means = baselines.MetricKMeans(metric, n_init=3, **seed).fit(X, y)
        yield f"{type(metric).__name__} {i}: coefficients", means.get_mahalanobis_matrix()
        yield f"{type(metric).__name__} {i}: predictions", means.predict(X)


def penalties() -> Entries:
    """Penalties that are learned from regions, tuned, or of a criterion; a folder of files."""
    (X, labels), test, rng = sequences(8, 8), sequences(9), np.random.default_rng(0)
    known = [known_of(ml.Partition.from_runs(y), rng) for y in labels]
    parameters = {"learner__solver": SEGMENTER.solver, "learner__regularizer__strength": 1e-2}
    both = ml.DataPenaltyMetricLearner(n_turns=2).set_params(**parameters)
    chosen: list[Any] = [ml.PenaltyLearner(ml.HermiteMoments(2)), ml.PenaltyLearner(own_weight=1.0)]
    for i, learner in enumerate([*chosen, baselines.BayesianCriterion(), both]):
        name, labels = f"{type(learner).__name__} {i}", learner.fit(X, known).predict(test[0])
        yield f"{name}: gap", TOLERANCE if learner is both else 0.0
        yield f"{name}: penalty", learner.predict_penalties(test[0])
        yield f"{name}: predictions", [labels, learner.predict_change_points(X, known)]
    for baseline in (baselines.Euclidean(), baselines.PrincipalComponents(2)):
        tuned = baselines.TunedSegmenter(baseline).fit(*test)
        yield f"tuned {type(baseline).__name__}", [tuned.penalty_, tuned.predict(X)]
    with TemporaryDirectory() as folder:
        draw = datasets.make_change_points(6, 90, 4, 2, (3, 4), random_state=0)
        datasets.save_files(draw, folder)
        data = datasets.load_files(folder, "label")
    model = ml.RecordingSegmenter(rate=2.0, n_folds=2).fit(data, progress=False)
    segments = [(a, b, int(label)) for a, b, label in model.segment_features(data.sequences[0])]
    yield "recordings", [segments, model.label_weights_, model.validation_loss_]


LEARNERS = (change_points, solvers, around, figure1, hapt, tables, horses, partial, penalties)
SECTIONS = {part.__name__: part for part in (*LEARNERS, oracles, measures, clustering)}


def flat(value: Any) -> NDArray:
    """All numbers in nested lists, mappings and records, in one array; None is NaN."""
    value = asdict(value) if is_dataclass(value) else value  # type: ignore[arg-type]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        numbers = [flat(item) for item in value if not isinstance(item, str)]
        return np.concatenate([np.zeros(0), *numbers])
    return np.asarray(np.nan if value is None else value, dtype=np.float64).ravel()


def computed(only: Sequence[str]) -> dict[str, NDArray]:
    """The entries of some sections, those without a value left out."""
    entries: dict[str, NDArray] = {}
    for section in only:
        for name, value in SECTIONS[section]():
            array = flat(value)
            whole = np.array_equal(array, np.round(array))
            if value is not None:
                entries[f"{section}/{name}"] = array.astype(np.int32) if whole else array
        print(f"computed {section}", file=sys.stderr, flush=True)
    return entries


def judged(key: str, *sides: Mapping[str, NDArray]) -> tuple[float, float]:
    """Greatest difference between two sides, relative, and how much of it is allowed."""
    if any(key not in side for side in sides) or sides[0][key].shape != sides[1][key].shape:
        return np.inf, 0.0
    case, _, field = key.rpartition(": ")
    gaps = [float(np.max(side.get(f"{case}: gap", 0.0))) for side in sides]
    old, new = [side[key].astype(np.float64) for side in sides]
    finite = np.isfinite(old)
    if field == "gap":
        return abs(gaps[1] - gaps[0]), max(9.0 * gaps[0], TOLERANCE)
    if not np.array_equal(old[~finite], new[~finite], equal_nan=True):
        return np.inf, 0.0
    size, allowed = np.max(np.abs(old), where=finite, initial=1e-9), OPTIMIZED_ANEW.get(key, 1e-9)
    if field == "objective and bound":
        size, allowed = 1.0, max(1e-9, sum(gaps))
    if field in ("coefficients", "penalty"):
        allowed = max(allowed, 10.0 * float(np.sum(np.sqrt(gaps))))
    return float(np.max(np.abs(old - new), where=finite, initial=0.0) / size), allowed


def main() -> int:
    """Store, or compare and say what moved."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("action", choices=["store", "compare"], nargs="?", default="compare")
    beside = Path(__file__).with_suffix(".npz")
    parser.add_argument("file", type=Path, nargs="?", default=beside)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # some solvers are stopped early, on purpose
    new = computed(options.only)
    if options.action == "store":
        np.savez_compressed(options.file, **new)  # type: ignore[arg-type]
        return 0
    old, moved = dict(np.load(options.file)), 0
    keys = [key for key in {**old, **new} if key.partition("/")[0] in options.only]
    for key in keys:
        difference, allowed = judged(key, old, new)
        word = "same" if difference == 0 else "within"
        if difference > allowed:
            word = "MOVED"
            moved += 1
        print(f"{word:6} {difference:9.2g} {allowed:9.2g}  {key}")
    print(f"{moved} of {len(keys)} entries moved")
    return int(moved > 0)


if __name__ == "__main__":
    sys.exit(main())
