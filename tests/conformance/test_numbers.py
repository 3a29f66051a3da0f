"""Golden numbers: what thirty learners find in small data must stay as it is.

A change of the method changes them on purpose. Then ``python -m tests.conformance.test_numbers``
writes them again, and the commit says why.
"""

import json
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import metriclearn as ml
from metriclearn import baselines
from metriclearn.datasets import load_example, make_change_points
from metriclearn.estimators import Viterbi

FILE = Path(__file__).parents[1] / "data" / "golden.json"
MADE = make_change_points(6, 120, 8, 2, (3, 5), jump=1.5, random_state=0)
X, Y, NEW = list(MADE.sequences[:-1]), list(MADE.labels[:-1]), MADE.sequences[-1]
NAMES = [np.array(["a", "b"])[labels % 2] for labels in Y]
SOME = [np.where(np.arange(120) % 50 < 30, labels, -1) for labels in Y]
REGIONS = [(5, 40, ml.problem.AT_LEAST_ONE), (50, 60, ml.problem.NO_CHANGE)]
PARTLY = [*SOME[:3], ml.PartialPartition(120, regions=REGIONS), Y[4]]
HOLED = [np.where(np.arange(120)[:, None] // 6 == 7, np.nan, one) for one in X]
IRIS = load_example("iris")
FLOWERS, SPECIES = IRIS.X[::2], IRIS.y[::2]
SQUARED, FULL = ml.SquaredFrobenius(0.1), ml.FullMetric()
SEGMENTS = partial(ml.ChangePointMetricLearner, verbose=False)
POSTERIORS = ml.views.Posteriors(LogisticRegression(), 1, n_folds=2)
BOUNDARIES = ml.FeaturePenalty((ml.views.BoundaryFeatures((3, 8)),), nonnegative=True)
MEMBERS = {"diagonal": [SEGMENTS()], "full": [SEGMENTS(FULL, SQUARED)]}
CLUSTERS = partial(ml.ClusteringMetricLearner, n_init=2, random_state=0, verbose=False)
CUTS = partial(ml.NormalizedCutMetricLearner, starts=(1e-2,), verbose=False)
Learner = tuple[Callable[[], Any], Any, Any]
LEARNERS: dict[str, Learner] = {
    "diagonal, L1": (SEGMENTS, X, Y),
    "diagonal, squared norm": (partial(SEGMENTS, regularizer=SQUARED), X, Y),
    "full, trace": (partial(SEGMENTS, FULL, ml.Trace(1e-2)), X, Y),
    "full, squared norm": (partial(SEGMENTS, FULL, SQUARED), X, Y),
    "segments of 6 samples": (partial(SEGMENTS, min_size=6), X, Y),
    "given penalty": (partial(SEGMENTS, penalty=4.0), X, Y),
    "scaled loss": (partial(SEGMENTS, loss_scale=0.3, standardize=False), X, Y),
    "the paper": (partial(SEGMENTS.func.paper, verbose=False), X, Y),
    "penalty of the boundary": (partial(SEGMENTS, penalty=BOUNDARIES), X, Y),
    "some columns": (partial(SEGMENTS, view=ml.views.Columns(1, 5)), X, Y),
    "rows left out": (partial(SEGMENTS, view=ml.views.LeaveOut()), HOLED, Y),
    "gaps filled": (partial(SEGMENTS, view=ml.views.Fill()), HOLED, Y),
    "partial labels": (partial(SEGMENTS, regularizer=SQUARED, min_size=4), X, PARTLY),
    "whitened": (ml.WhitenedMetricLearner, X, Y),
    "whitened, penalty tuned": (
        partial(ml.WhitenedMetricLearner, view=ml.views.Whiten(0.3, 4), retune=True),
        X,
        Y,
    ),
    "names": (
        partial(ml.NamedSegmentLearner, min_size=3, emissions=ml.views.Neighbors(2)),
        X,
        NAMES,
    ),
    "names, transitions": (
        partial(ml.NamedSegmentLearner, transitions=True, emissions=POSTERIORS),
        X,
        NAMES,
    ),
    "Viterbi": (partial(Viterbi, POSTERIORS), X, NAMES),
    "Euclidean": (baselines.TunedSegmenter, X, Y),
    "relevant components": (
        partial(baselines.TunedSegmenter, baselines.RelevantComponents()),
        X,
        Y,
    ),
    "penalty by regression": (ml.PenaltyLearner, X, Y),
    "Bayesian criterion": (baselines.BayesianCriterion, X, Y),
    "consensus": (partial(ml.Segmenter, MEMBERS, n_folds=2, verbose=False), X, Y),
    "consensus of partial labels": (
        partial(ml.Segmenter, MEMBERS, n_folds=2, verbose=False),
        X,
        PARTLY,
    ),
    "best of the members": (
        partial(ml.Segmenter, MEMBERS, combine="best", n_folds=2, verbose=False),
        X,
        Y,
    ),
    "clusters": (CLUSTERS, FLOWERS, SPECIES),
    "clusters, local search": (
        partial(CLUSTERS, n_clusters=None, oracle=ml.oracles.LocalSearch()),
        FLOWERS,
        SPECIES,
    ),
    "whitened clusters": (ml.estimators.WhitenedClusteringLearner, FLOWERS, SPECIES),
    "cuts": (CUTS, [one[:40] for one in X], [labels[:40] > 0 for labels in Y]),
    "cuts, balanced": (
        partial(CUTS, normalized=True, loss_scale=0.1),
        [one[:40] for one in X],
        [labels[:40] > 0 for labels in Y],
    ),
}


def numbers(name: str) -> dict[str, Any]:
    """What a learner has learned, and what it answers on a recording that it has not seen."""
    make, rows, labels = LEARNERS[name]
    with warnings.catch_warnings(action="ignore"):
        model = make().fit(rows, labels)
        new = IRIS.X[1::2] if rows is FLOWERS else NEW[:40] if "cuts" in name else NEW
        segments = hasattr(model, "predict_change_points")
        answer = model.predict_change_points(new) if segments else model.predict(new, 2)
        found = {"answer": answer.tolist(), "score": float(model.score(rows, labels))}
    solution = getattr(model, "solution_", None)
    if solution is not None:
        found |= {"objective": solution.objective, "bound": solution.lower_bound}
    if getattr(model, "penalty_", None) is not None:
        found["penalty"] = float(model.penalty_)
    if hasattr(model, "agreement_"):
        found["weights"] = model.agreement_.weights.tolist()
        found["losses"] = np.nanmean(model.cross_fit_.losses, axis=1).tolist()
    return found


@pytest.mark.parametrize("name", LEARNERS)
def test_numbers_are_those_of_the_table(name: str) -> None:
    """Up to what other processors and versions of libraries round otherwise."""
    expected = json.loads(FILE.read_text("utf-8"))[name]
    found = numbers(name)
    assert found.keys() == expected.keys()
    assert found.pop("answer") == expected.pop("answer")
    for key, value in found.items():
        assert value == pytest.approx(expected[key], rel=1e-4, abs=1e-9), key


if __name__ == "__main__":
    rows = [f"{json.dumps(name)}: {json.dumps(numbers(name))}" for name in LEARNERS]
    FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
