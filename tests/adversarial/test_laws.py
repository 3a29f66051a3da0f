"""What changes no result: the unit, an offset, the order of features and data sets, names."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import metriclearn as ml
from metriclearn.baselines import MMC, ClosedFormMetric, MetricKMeans, TunedSegmenter
from tests.adversarial.outcome import CASES, Wrong, in_ci, watched

SOLVER = ml.BundleDual(max_rounds=40)
LEARNERS: list[Any] = [
    ml.ChangePointMetricLearner(solver=SOLVER, verbose=False),
    ml.ChangePointMetricLearner(ml.FullMetric(), ml.Trace(1e-2), SOLVER, verbose=False),
    ml.ChangePointMetricLearner(ml.FullMetric(), ml.SquaredFrobenius(), SOLVER, verbose=False),
    ml.ClusteringMetricLearner(solver=SOLVER, verbose=False),
    ml.WhitenedMetricLearner(),
    ml.WhitenedClusteringLearner(),
    TunedSegmenter(),
    MetricKMeans(random_state=0),
    ClosedFormMetric(),
    MMC(max_iter=20, random_state=0),
]
# data sets, labels, weights -> the same problem told differently, and what predicts on new data
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


def names(Xs: list, ys: list, w: np.ndarray, random: np.random.Generator) -> tuple:
    return Xs, [np.array(list("xyzabc"))[y] for y in ys], w, lambda X: X


def halves(Xs: list, ys: list, w: np.ndarray, random: np.random.Generator) -> tuple:
    return [*Xs, Xs[0]], [*ys, ys[0]], np.append(w, w[0]) * [0.5, *w[1:] * 0 + 1, 0.5], lambda X: X


def weights(Xs: list, ys: list, w: np.ndarray, random: np.random.Generator) -> tuple:
    return Xs, ys, 4.0 * w, lambda X: X


CHANGES: list[Change] = [scaled, shifted, features, data_sets, names, halves, weights]


def _fit(learner: Any, Xs: list, ys: list, w: np.ndarray | None) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weighed = {} if w is None else {"sample_weight": w}
        return clone(learner).fit(Xs, ys, **weighed)


@in_ci(50)
@given(st.integers(0, len(LEARNERS) - 1), st.sampled_from(CHANGES), st.integers(0, 2**32))
def test_laws(place: int, change: Change, seed: int) -> None:
    """Bounds and objectives are of one problem; where nothing rounds, so are all numbers."""
    CASES["laws"] += 1
    learner = LEARNERS[place]
    random = np.random.default_rng(seed)
    ys = [np.repeat([0, 1, 2], random.integers(4, 9, 3)) for _ in range(3)]
    means = 2.0 * random.normal(size=(3, 3))
    Xs = [means[y] + random.normal(size=(len(y), 3)) for y in ys]
    # whitening counts data sets alike, whatever they weigh
    weighed = hasattr(learner, "loss_scale")
    if change in (halves, weights) and not weighed:
        return
    w = np.ones(3)
    with watched():
        first = _fit(learner, Xs, ys, w if weighed else None)
        told, named, heavy, new = change(Xs, ys, w, random)
        second = _fit(learner, told, named, heavy if weighed else None)
        solutions = [getattr(one, "solution_", None) for one in (first, second)]
    # half of the answers of its oracle are found by local search: no bound for them
    certified = not isinstance(learner, ml.WhitenedClusteringLearner)
    if certified and None not in solutions:
        (a, b), rounding = solutions, 1e-7 * solutions[0].scale
        if a.lower_bound > b.objective + rounding or b.lower_bound > a.objective + rounding:
            raise Wrong(f"{learner} {change.__name__}: gaps {a} and {b} do not meet")
    exact = change in (scaled, names, weights)
    if exact and hasattr(first, "transform"):
        ours, theirs = (one.transform(X) for one, X in ((first, Xs[0]), (second, new(Xs[0]))))
        if not np.allclose(np.linalg.norm(ours, axis=1), np.linalg.norm(theirs, axis=1), rtol=1e-6):
            raise Wrong(f"{learner} {change.__name__}: other lengths under the metric")
