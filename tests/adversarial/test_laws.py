"""Changes that alter no result: unit, offset, names, order of features, samples, data sets.

Every public estimator is tried with default parameters, except for those in ``MADE``.
"""

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, clone

import metriclearn as ml
from metriclearn import baselines, clusterers
from metriclearn.views.whiten import LinearView
from tests.adversarial.callables import arguments, public
from tests.adversarial.outcome import CASES, Wrong, in_ci, watched
from tests.conformance.learners import COUNTED, SHAPED

SOLVER = ml.BundleDual(1e-5, max_rounds=40)
FULL: dict[str, Any] = {"metric": ml.FullMetric(), "solver": SOLVER, "verbose": False}
SQUARED = ml.ChangePointMetricLearner(regularizer=ml.SquaredFrobenius(), **FULL)
# Estimators that need parameters, have some in the unit of the data, or are slow by default
MADE: dict[str, Callable[[float], Any]] = {
    "ChangePointMetricLearner": lambda _: ml.ChangePointMetricLearner(solver=SOLVER, verbose=False),
    "with a squared norm": lambda _: SQUARED,
    "with a trace": lambda _: ml.ChangePointMetricLearner(regularizer=ml.Trace(1e-2), **FULL),
    "with known K": lambda _: ml.ChangePointMetricLearner(
        solver=SOLVER, n_segments="given", verbose=False
    ),
    "penalties by counts": lambda _: ml.PenaltyLearner(SHAPED, COUNTED),
    "some columns": lambda _: clone(SQUARED).set_params(view=ml.views.Columns(0, 3)),
    "Segmenter": lambda _: ml.Segmenter(
        {"l1": [ml.ChangePointMetricLearner(solver=SOLVER)], "pca": [baselines.TunedSegmenter()]}
    ),
    "RelevantComponents": lambda _: public()["RelevantComponents"](contiguous=False),
    "DPMeans": lambda unit: ml.clusterers.DPMeans(penalty=8.0 * unit**2),
    "GibbsDPMixture": lambda unit: clusterers.GibbsDPMixture(
        variance=unit**2, prior_variance=9.0 * unit**2, penalty=8.0 * unit**2, n_sweeps=10
    ),
    "EvidenceAccumulation": lambda _: clusterers.EvidenceAccumulation(n_runs=4, max_clusters=4),
}
# They need numbers of clusters to predict, or scikit-learn's own transformer sets their limits
LEFT_OUT = {"Clusterer"}
LEFT_OUT |= set(ml.views.__all__)  # tests/conformance/test_views.py
# They do not read tables of samples, or take random steps that depend on the order
LEFT_OUT |= {"Encoder", "ImageFeatures", "IntervalRegression"}
LEFT_OUT |= {"FrozenFeatures"}
LEFT_OUT |= {"FeaturePenalty", "SegmentCounts"}
# Local optima, or rounds without a bound: rounding may lead to another result
UNCERTAIN = (ml.estimators.WhitenedClusteringLearner, ml.NormalizedCutMetricLearner, baselines.MMC)
UNCERTAIN += (baselines.NeighborhoodComponents, baselines.MetricKMeans)
UNCERTAIN += (ml.PenaltyLearner,)
# (data sets, labels, weights, random) -> the changed problem, and the change of new data
Change = Callable[[list, list, np.ndarray, np.random.Generator], tuple]


def scaled(Xs: list, ys: list, w: np.ndarray, random: np.random.Generator) -> tuple:
    unit = 2.0 ** int(random.integers(-40, 41))
    return [unit * X for X in Xs], ys, w, lambda X: unit * X


def shifted(Xs: list, ys: list, w: np.ndarray, random: np.random.Generator) -> tuple:
    offset = 2.0 ** int(random.integers(0, 12))
    return [X + offset for X in Xs], ys, w, lambda X: X + offset


def features(Xs: list, ys: list, w: np.ndarray, random: np.random.Generator) -> tuple:
    order = random.permutation(Xs[0].shape[1])
    return [X[:, order] for X in Xs], ys, w, lambda X: X[:, order]


def data_sets(Xs: list, ys: list, w: np.ndarray, random: np.random.Generator) -> tuple:
    order = random.permutation(len(Xs))
    return [Xs[i] for i in order], [ys[i] for i in order], w[order], lambda X: X


def samples(Xs: list, ys: list, w: np.ndarray, random: np.random.Generator) -> tuple:
    orders = [random.permutation(len(y)) for y in ys]
    shuffled = [X[order] for X, order in zip(Xs, orders)]
    return shuffled, [y[order] for y, order in zip(ys, orders)], w, lambda X: X


def names(Xs: list, ys: list, w: np.ndarray, random: np.random.Generator) -> tuple:
    return Xs, [np.array(list("xyzabc"))[y] for y in ys], w, lambda X: X


def split(Xs: list, ys: list, w: np.ndarray, random: np.random.Generator) -> tuple:
    share = random.choice([0.25, 0.5, 0.75])
    heavy = np.append(w, w[0] * (1 - share)) * [share, *[1.0] * len(w)]
    return [*Xs, Xs[0]], [*ys, ys[0]], heavy, lambda X: X


def weights(Xs: list, ys: list, w: np.ndarray, random: np.random.Generator) -> tuple:
    return Xs, ys, 4.0 * w, lambda X: X


def again(Xs: list, ys: list, w: np.ndarray, random: np.random.Generator) -> tuple:
    """No change but the number of threads: results are equal bit for bit."""
    return Xs, ys, w, lambda X: X


CHANGES: list[Change] = [scaled, shifted, features, data_sets, samples, names, split, weights]
CHANGES.append(again)
EXACT = (scaled, names, weights, again)


def learners() -> dict[str, Callable[[float], Any]]:
    """Every public estimator that learns from tables, as a function of the unit of the data."""
    found = dict(MADE)
    for name, kind in public().items():
        fits = isinstance(kind, type) and issubclass(kind, BaseEstimator) and hasattr(kind, "fit")
        if fits and name not in MADE and name not in LEFT_OUT:
            found[name] = lambda _, kind=kind: kind(**arguments(kind.__name__, kind))
    return found


LEARNERS = learners()


def _fit(learner: Any, Xs: list, ys: list, w: np.ndarray) -> Any:
    """Fit to all data sets, with weights if accepted; clusterers are fitted to the first one."""
    seeded = {name: 0 for name in learner.get_params() if name.endswith("random_state")}
    learner = clone(learner).set_params(**seeded)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if hasattr(learner, "fit_predict"):
            return learner.fit(Xs[0])
        weighed = "sample_weight" in inspect.signature(learner.fit).parameters
        return learner.fit(Xs, ys, **({"sample_weight": w} if weighed else {}))


def _answer(fitted: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distances under the metric, divided by their mean, and the predicted partition."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if hasattr(fitted, "fit_predict"):
            return np.ones(1), ml.Partition.from_labels(fitted.labels_).labels
        lengths = np.ones(len(X))
        if hasattr(fitted, "transform"):
            Z = fitted.transform(X)
            lengths = np.linalg.norm(Z[1:] - Z[:-1], axis=1)
        given = getattr(fitted, "n_segments", None) == "given"
        labels = np.zeros(len(X))
        if hasattr(fitted, "predict"):
            cuts = given or isinstance(fitted, ml.NormalizedCutMetricLearner)
            labels = fitted.predict(X, 3) if cuts else fitted.predict(X)
        if isinstance(fitted, ml.Segmenter):  # texts are names, but 0, 1, 2 may count segments
            labels = ml.Partition(ends=fitted.predict_change_points(X)).labels
        return lengths / max(lengths.mean(), 1e-300), ml.Partition.from_labels(labels).labels


def assert_law_holds(name: str, change: Change, seed: int) -> None:
    """Bounds and objectives fit one problem; where nothing rounds, all numbers are equal."""
    random = np.random.default_rng(seed)
    ys = [np.repeat([0, 1, 2], random.integers(4, 9, 3)) for _ in range(3)]
    means = 2.0 * random.normal(size=(3, 3))
    Xs = [means[y] + random.normal(size=(len(y), 3)) for y in ys]
    changed, named, heavy, new = change(Xs, ys, np.ones(3), random)
    unit = float(new(1.0)) if change is scaled else 1.0
    learner, other = LEARNERS[name](1.0), LEARNERS[name](unit)
    of_table, weighed = hasattr(learner, "fit_predict"), hasattr(learner, "loss_scale")
    of_segments = hasattr(learner, "predict_change_points")
    if (
        (change in (split, weights) and not weighed)  # whitening counts data sets alike
        or (change is samples and (of_segments or of_table))
        or (change is data_sets and of_table)
    ):
        return
    if change is again and "n_jobs" in other.get_params():
        other = clone(other).set_params(n_jobs=int(random.integers(2, 4)))
    CASES[f"laws: {name}"] += 1
    with watched():
        first, second = _fit(learner, Xs, ys, np.ones(3)), _fit(other, changed, named, heavy)
        (ours, labels), (theirs, others) = _answer(first, Xs[0]), _answer(second, new(Xs[0]))
    a, b = (getattr(one, "solution_", None) for one in (first, second))
    closed = a is None and not of_table
    if a is not None and not isinstance(learner, UNCERTAIN):
        rounding = 1e-7 * a.scale
        if a.lower_bound > b.objective + rounding or b.lower_bound > a.objective + rounding:
            raise Wrong(f"{name} {change.__name__}: gaps {a} and {b} do not meet")
    if isinstance(learner, ml.NormalizedCutMetricLearner) and a is not None and b is not None:
        apart = abs(a.objective - b.objective)
        if apart > 1e-9 * a.objective or not np.array_equal(labels, others):
            raise Wrong(f"{name} {change.__name__}: objectives {apart} apart, {labels}, {others}")
    if learner is SQUARED and change is not features:
        apart = first.get_mahalanobis_matrix() * np.outer(first.scale_, first.scale_)
        apart -= second.get_mahalanobis_matrix() * np.outer(second.scale_, second.scale_)
        most = sum(np.sqrt(2.0 * max(one.gap, 1e-12) / 0.1) for one in (a, b))
        if np.linalg.norm(apart) > most:
            raise Wrong(f"{name} {change.__name__}: coefficients {apart} apart")
    if change in EXACT or (closed and not isinstance(learner, UNCERTAIN)):
        if not np.allclose(ours, theirs, rtol=0.0 if change is again else 1e-6, atol=0.0):
            raise Wrong(f"{name} {change.__name__}: other lengths under the metric")
        if change in EXACT and not np.array_equal(labels, others):
            raise Wrong(f"{name} {change.__name__}: {labels} and {others}")


@in_ci(100)
@given(st.sampled_from(sorted(LEARNERS)), st.sampled_from(CHANGES), st.integers(0, 2**32))
def test_laws(name: str, change: Change, seed: int) -> None:
    assert_law_holds(name, change, seed)


# Exponents of units up to which fourth powers, of squared regularizers, are within float64, and
# squares within what parameters may be
FARTHEST = dict.fromkeys(("some columns", "with a squared norm", "ClusteringMetricLearner"), 200)


# One strength regularizes the metric and the scores of names, which have no unit of the data.
@pytest.mark.parametrize("name", sorted(LEARNERS.keys() - {"NamedSegmentLearner"}))
def test_any_unit_without_standardization(name: str) -> None:
    """From 1e-99 to 1e99, data times 2^k give the metric divided by 2^k, bit for bit."""
    farthest, random = FARTHEST.get(name, 329), np.random.default_rng(0)
    units = (1.0, 2.0**-farthest, 2.0**farthest)
    ys = [np.repeat([0, 1, 2], random.integers(4, 9, 3)) for _ in range(3)]
    Xs = [2.0 * random.normal(size=(3, 3))[y] + 0.5 * random.normal(size=(len(y), 3)) for y in ys]
    fitted = []
    for size in units:
        learner = clone(LEARNERS[name](size))
        parameters = learner.get_params()
        if "standardize" in parameters:
            learner.set_params(standardize=False)
        whitened = isinstance(parameters.get("view"), LinearView)  # whose rows have no unit
        if "regularizer" in parameters and not whitened:
            power = 4 if isinstance(learner.regularizer, ml.SquaredFrobenius) else 2
            strength = learner.regularizer.strength * size**power
            learner.set_params(regularizer__strength=strength)
        fitted.append(_fit(learner, [size * X for X in Xs], ys, np.ones(3)))
    answers = [_answer(one, size * Xs[0]) for one, size in zip(fitted, units)]
    rounded = hasattr(fitted[0], "strengths")  # their grid is a geometric series
    for other, answer, unit in zip(fitted[1:], answers[1:], units[1:]):
        for ours, theirs in zip(answers[0], answer):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9 if rounded else 1e-12)
        if hasattr(other, "solution_") and not rounded:
            np.testing.assert_array_equal(fitted[0].components_, other.components_ * unit)
