"""Names and consensus on small random cases: against enumeration, and with odd data and labels."""

import warnings
from itertools import product
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import metriclearn as ml
from metriclearn.baselines import TunedSegmenter
from metriclearn.estimators import Viterbi
from metriclearn.problem.named_segments import NamedPartition
from tests.adversarial.outcome import CASES, NonFinite, Wrong, has_nan, in_ci, is_ours, watched
from tests.adversarial.test_hostile import ERRORS, OBSCURE
from tests.exhaustive import equivalence_matrix
from tests.oracles.test_names import named_segmentations

SEEDS = st.integers(0, 2**32)
SOLVER = ml.BundleDual(max_rounds=8)
NAMES = [["sit", "walk", "run"], [3, 5, 9], [0.5, 1.5, 2.5], [False, True], ["", "é", " "]]
CLASSIFIERS = [GaussianNB(), LogisticRegression(), DecisionTreeClassifier(random_state=0)]


def recordings(rng: np.random.Generator) -> tuple[list[Any], list[Any], Any]:
    """Data, labels and groups that users have, or should not have."""
    names = np.array(NAMES[rng.integers(len(NAMES))], dtype=object)
    n, P = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    X, y = [], []
    for _ in range(n):
        T = int(rng.choice([1, 2, 6, 12], p=[0.1, 0.1, 0.4, 0.4]))
        codes = rng.integers(0, len(names), T)[np.sort(rng.integers(0, 3, T)).clip(0, T - 1)]
        rows = rng.normal(size=(T, P)) + codes[:, None]
        labels = names[codes] if rng.random() < 0.9 else np.full(T, names[0], dtype=object)
        known = rng.random(T) < rng.choice([1.0, 0.7, 0.0], p=[0.7, 0.2, 0.1])
        X.append(rows)
        y.append(np.where(known, labels, -1) if not known.all() else labels)
    odd = rng.random()
    if odd < 0.1:
        X[0][:, 0] = 7.0
    elif odd < 0.2:
        X = [2.0 ** int(rng.integers(-300, 300)) * one for one in X]
    elif odd < 0.3:
        X = [np.round(one) for one in X]
    elif odd < 0.35:
        y[0] = y[0][:-1]
    elif odd < 0.45:  # boundaries without names
        T, k = len(X[0]), int(rng.integers(1, len(X[0]) + 1))
        regions = [ml.Region(0, T, ml.problem.EXACTLY_ONE)] if T > 2 else []
        y[0] = [
            [k, T] if k < T else [T],
            ml.Partition.from_change_points([T]),
            ml.PartialPartition(T, regions=regions),
            ml.PartialPartition(T, change_points=[k] if k < T else []),
        ][rng.integers(4)]
    groups = [None, None, None, rng.integers(0, 2, n), np.arange(n) % 3, ["a"] * n]
    return X, y, groups[rng.integers(len(groups))]


def learner(rng: np.random.Generator, kind: str) -> Any:
    """A learner of names, a classifier of samples, or a consensus with a member that is bad."""
    context, folds = int(rng.integers(0, 4)), int(rng.integers(2, 4))
    classifier = CLASSIFIERS[rng.integers(len(CLASSIFIERS))]
    if kind == "frames":
        chosen: Any = ["tuned", 0.0, 1.0, 4][rng.integers(4)]
        return Viterbi(ml.views.Posteriors(classifier, context, folds), penalty=chosen)
    if kind == "names":
        emissions: Any = ml.views.Neighbors(context)
        if rng.random() < 0.5:
            emissions = ml.views.Posteriors(classifier, context, folds)
        penalty: Any = ["learned", 0.0, 0.3][rng.integers(3)]
        loss: Any = [None, 0.0, 1.0][rng.integers(3)]
        return ml.NamedSegmentLearner(
            solver=SOLVER, emissions=emissions, penalty=penalty, name_loss=loss, verbose=False
        )
    worst = ml.ChangePointMetricLearner(regularizer=ml.L1(1e6), solver=SOLVER)
    members = {"plain": [TunedSegmenter()], "frames": [learner(rng, "frames")], "worst": [worst]}
    chosen = rng.choice(sorted(members), int(rng.integers(1, 4)), replace=False)
    combine, named = str(rng.choice(["consensus", "uniform", "best"])), [None, True, False]
    return ml.Segmenter(
        {name: members[name] for name in chosen.tolist()},
        combine=combine,
        names=named[rng.integers(3)],
        n_folds=folds,
        verbose=False,
    )


def best_value(model: Any, X: np.ndarray) -> tuple[float, float]:
    """The value of the prediction, and the largest one of all, from what a fitted model shows."""
    classes, found = model.classes_, model.predict(X)
    codes = np.searchsorted(classes, found)
    if isinstance(model, Viterbi):
        logs = np.log(np.maximum(model.predict_proba(X), 1e-300))

        def value(names: Any) -> float:
            switches = 1 + np.count_nonzero(np.diff(names))
            return float(logs[np.arange(len(X)), names].sum() - model.penalty_ * switches)

        return value(codes), max(value(c) for c in product(range(len(classes)), repeat=len(X)))
    centered = X - X.mean(axis=0)
    Z, scores = centered @ model.components_.T, model.name_weights_.scores(X)

    def total(one: NamedPartition) -> float:
        M, names = equivalence_matrix(one.labels), one.sample_names
        inner = np.sum((M @ Z) * Z) - model.penalty_ * one.n_clusters
        return float(inner + scores[np.arange(len(X)), names].sum())

    ends = model.predict_change_points(X)
    answer = NamedPartition(ends, codes[ends - 1])
    every = named_segmentations(len(X), len(classes), None, 1)
    return total(answer), max(map(total, every))


def assert_answers_are_right(model: Any, X: np.ndarray) -> None:
    """Labels are of the training, boundaries are where they change, nothing is better."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, ends = model.predict(X), model.predict_change_points(X)
    if has_nan(model):
        raise NonFinite(f"{model} has NaN")
    classes = model.classes_
    changes = np.flatnonzero(found[1:] != found[:-1]) + 1
    if len(found) != len(X) or ends[-1] != len(X) or np.any(np.diff(ends, prepend=0) < 1):
        raise Wrong(f"{model} gives {ends} for {len(X)} samples")
    if not np.isin(changes, ends).all() or (
        classes is not None and not np.isin(found, classes).all()
    ):
        raise Wrong(f"{model} gives labels {found} and change-points {ends}")
    if not isinstance(model, Viterbi):
        count = min(2, len(X))
        if len(model.predict_change_points(X, count)) != count:
            raise Wrong(f"{model} gives other than {count} segments")
    if isinstance(model, ml.Segmenter):
        shares, loss = model.boundary_shares(X), model.expected_loss(X)
        if not (loss >= 0.0 and np.all((shares >= 0.0) & (shares <= 1.0 + 1e-9))):
            raise Wrong(f"{model} has shares {shares} and an expected loss of {loss}")
    elif getattr(model, "penalty_", None) is not None and len(X) <= 6 and np.abs(X).max() < 1e6:
        value, best = best_value(model, X)
        if value < best - 1e-7 * (1.0 + abs(best)):
            raise Wrong(f"{model} predicts {value}, where {best} is possible")


@in_ci(60)
@given(st.sampled_from(["frames", "names", "consensus"]), SEEDS)
def test_models(kind: str, seed: int) -> None:
    """Learners of names and consensuses answer rightly, or say what is wrong with the data."""
    CASES[f"models: {kind}"] += 1
    rng = np.random.default_rng(seed)
    (X, y, groups), model = recordings(rng), learner(rng, kind)
    with watched(), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model.fit(X, y, groups=groups)
        except Exception as error:
            ERRORS[is_ours(error)] += 1
            if not is_ours(error):
                OBSCURE[f"{kind}, {seed}: {type(error).__name__}: {str(error)[:100]}"] += 1
            return
        assert_answers_are_right(model, X[-1])
