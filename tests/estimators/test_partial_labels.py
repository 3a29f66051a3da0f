"""Alternation, for sequences and tables: its objective, cuts, resuming, and what it teaches."""

import itertools
import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_iris

import metriclearn as ml
from metriclearn.datasets import make_change_points
from metriclearn.estimators.learners.alternation import Turns
from metriclearn.oracles.change_points import PenalizedSegmentation
from metriclearn.problem.joint_features import Samples
from metriclearn.problem.regions import KINDS
from metriclearn.problem.risk import HingeTerms, StructuredHinge
from metriclearn.solvers.base import Problem
from metriclearn.solvers.mahalanobis import MetricCone
from tests.exhaustive import all_segmentations, allows_clusters
from tests.training import PAIRS, XS, YS, assert_never_rises, assert_same, learn

DATA = make_change_points(6, 150, 12, 3, (3, 5), jump=1.5, random_state=3)
IRIS, SPECIES = load_iris(return_X_y=True)
STARTS = [ml.estimators.KnownStart(), ml.estimators.PrincipalStart(3)]


def masked(fraction: float) -> list[np.ndarray]:
    """A stretch of so much of the labels of every sequence."""
    rng, size, known = np.random.default_rng(0), int(fraction * 150), []
    for labels in DATA.labels:
        start = int(rng.integers(0, 151 - size))
        known.append(np.where((np.arange(150) - start) % 150 < size, labels, -1))
    return known


def fit(y, **parameters) -> ml.ChangePointMetricLearner:
    defaults = {"solver": ml.BundleDual(tolerance=1e-4), "verbose": False}
    return ml.ChangePointMetricLearner(**{**defaults, **parameters}).fit(DATA.sequences, y)


def table_learner(**parameters) -> ml.ClusteringMetricLearner:
    return ml.ClusteringMetricLearner(random_state=0, verbose=False, **parameters)


def random_sequences(rng: np.random.Generator) -> tuple[list, list]:
    """Of each a random part of the truth: scattered labels, or annotated regions."""
    X, knowns = [], []
    for _ in range(3):
        truth = np.repeat(np.arange(5), rng.integers(6, 12, 5))
        signal = rng.normal(size=(5, 3))[truth] * rng.uniform(0.2, 3.0) * [1.0, 0.5, 0.0]
        X.append(signal + rng.normal(size=signal.shape))
        T = len(truth)
        regions = []
        for a in map(int, rng.integers(0, T - 6, 4)):
            possible = [kind for kind in KINDS.values() if kind.allows(truth[a + 5] - truth[a])]
            regions.append(ml.Region(a, a + 6, possible[rng.integers(len(possible))]))
        scattered = np.where(rng.random(T) < rng.uniform(0.1, 0.9), truth, -1)
        parts = ({"regions": regions}, {"labels": scattered})
        knowns.append(ml.PartialPartition(T, **parts[rng.integers(2)]))
    knowns[0] = ml.PartialPartition(len(X[0]), change_points=[len(X[0]) // 2])
    return X, knowns


def random_tables(rng: np.random.Generator) -> tuple[list, list]:
    """Scattered labels of three clusters, each of which is seen."""
    X, knowns = [], []
    for _ in range(3):
        truth = rng.permutation(np.repeat(np.arange(3), rng.integers(6, 12, 3)))
        means = rng.normal(size=(3, 3)) * rng.uniform(0.5, 4.0) * [1.0, 1.0, 0.0]
        X.append(means[truth] + rng.normal(size=(len(truth), 3)))
        keep = rng.random(len(truth)) < rng.uniform(0.2, 0.9)
        keep[[np.flatnonzero(truth == k)[0] for k in range(3)]] = True
        keep[-1] = False
        knowns.append(ml.PartialPartition(len(truth), np.where(keep, truth, -1)))
    return X, knowns


def test_labeled_parts_share_the_weight_of_their_recording() -> None:
    """In proportion to their lengths, whatever the number of parts."""
    known = np.full((2, 150), -1)
    for i, start, stop, label in ((0, 0, 10, 0), (0, 20, 50, 1), (1, 0, 40, 0)):
        known[i, start:stop] = label + (np.arange(start, stop) >= start + 5)
    learner = ml.ChangePointMetricLearner()
    parts = learner.task.labeled_parts(learner.read(DATA.sequences[:2], list(known))).training
    assert [len(part) for part in parts.data.arrays] == [10, 30, 40]
    np.testing.assert_allclose(parts.weights, [0.25, 0.75, 1.0])


@pytest.mark.parametrize("kind", KINDS.values())
def test_one_segment_is_best_at_the_start_even_where_regions_overlap(kind) -> None:
    """So the first cut does not fall with the penalty, and bounds it from above."""
    regions = [(10, 90, kind), (60, 150, kind)]
    known = [ml.PartialPartition(150, change_points=[5], regions=regions)] * 6
    learner = ml.ChangePointMetricLearner()
    problem = learner.stated(learner.read(DATA.sequences, known)).problem
    assert problem.risk(problem.start).slope[-1] > 0.0


@pytest.mark.parametrize("draw", [random_sequences, random_tables])
@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(PAIRS), st.sampled_from(STARTS), st.integers(1, 2))
def test_objective_never_rises_and_completions_agree(draw, seed, pair, start, min_size) -> None:
    X, knowns = draw(np.random.default_rng(seed))
    tables = draw is random_tables
    learner: Any = table_learner() if tables else ml.ChangePointMetricLearner(min_size=min_size)
    learner.set_params(metric=pair[0], regularizer=pair[1], solver=ml.BundleDual(1e-2, 25))
    learner.set_params(alternation=ml.estimators.Alternation(4, start), verbose=False).fit(
        X, knowns
    )
    assert_never_rises(learner.alternation_)
    for known, labels in zip(knowns, learner.completions_):
        if tables:
            assert allows_clusters(known, ml.Partition.from_labels(labels))
        else:
            assert known.allows(ml.Partition.from_runs(labels))


def test_objective_is_the_one_of_the_docstring() -> None:
    """F by enumeration of all segmentations of short sequences, at the learned w."""
    rng = np.random.default_rng(0)
    X = [np.repeat(rng.normal(size=(4, 2)), 2, axis=0) + 0.3 * rng.normal(size=(8, 2))] * 3
    y = [[0, 0, 1, 1, -1, -1, -1, -1], [-1, -1, -1, 1, 1, 2, 2, -1], [0, 0, -1, -1, -1, 3, 3, 3]]
    learner = ml.ChangePointMetricLearner(verbose=False, standardize=False).fit(X, y)
    B, penalty = learner.get_mahalanobis_matrix(), learner.penalty_
    total = 1e-3 * np.abs(B).sum()
    for array, labels, completed in zip(X, y, learner.completions_):
        completion = ml.Partition.from_runs(completed)
        known, Z = ml.PartialPartition(8, labels), array - array.mean(axis=0)

        def score(partition, Z=Z):
            M = partition.to_array()
            return (np.sum(B * (Z.T @ M @ Z)) - penalty * partition.n_clusters) / 8

        every = [ml.Partition.from_change_points(ends) for ends in all_segmentations(8)]
        hinge = max(ml.problem.KnownLoss()(p, known) + score(p) for p in every) - score(completion)
        total += hinge / 3
        best = max(score(partition) for partition in every if known.allows(partition))
        assert score(completion) == pytest.approx(best, abs=1e-9)
    assert learner.solution_.objective == pytest.approx(total, abs=1e-9)


def test_full_labels_are_the_convex_problem() -> None:
    """As partial labels in which nothing is missing, the same metric and objective."""
    knowns = [ml.PartialPartition.from_partition(ml.Partition.from_runs(y)) for y in YS]
    same = learn(y=knowns)
    assert_same(same, learn())
    assert same.alternation_ is None
    forced = learn(y=[*YS[:-1], ml.PartialPartition(120)])  # the last one says nothing
    assert forced.alternation_ is not None
    assert forced.solution_.objective <= learn(XS[:-1], YS[:-1]).solution_.objective
    table = table_learner().fit(IRIS, SPECIES)
    assert table.alternation_ is None
    everything = table_learner().fit(IRIS, ml.PartialPartition(150, SPECIES))
    np.testing.assert_array_equal(everything.components_, table.components_)


def stated_problem(completion: Any) -> Problem:
    """Sequences with partial labels, completed so that nothing else is right; no metric yet."""
    cone = MetricCone(ml.DiagonalMetric(), 12, learns_penalty=True)
    oracle, truths = ml.oracles.ConstrainedChangePoints(), []
    for X, labels in zip(DATA.sequences, masked(0.4)):
        known = ml.PartialPartition(150, labels)
        truths.append(
            known.with_completion(oracle(ml.problem.LowRankForm(X, shift=-20.0), None, known))
        )
    features = ml.problem.LinearFeatures(cone.metric)
    terms = HingeTerms(features, ml.problem.KnownLoss(), oracle, cone, completion=completion)
    risk = StructuredHinge(terms, [Samples(X) for X in DATA.sequences], truths)
    return Problem(risk, ml.SquaredFrobenius(1e-2), cone, cone.join(np.zeros(12), 1.0))


def test_moved_cuts_stay_valid_and_tight() -> None:
    """Cuts of F for one completion become cuts of F for the next, tight at the present point."""
    problem, steps = stated_problem(ml.oracles.ConstrainedChangePoints()), []

    def solve(stated: Problem) -> Any:
        steps.append(stated)
        return ml.BundleDual(1e-3).minimize(stated)

    Turns(problem, solve, ml.estimators.Alternation()).run(2)
    before, after = (stated.risk for stated in steps)
    assert list(after.truths) != list(before.truths)
    solution = steps[1].warm
    table, group = solution.cuts.table, solution.cuts.table["group"]
    rng = np.random.default_rng(0)
    for _ in range(20):
        w = solution.w * rng.uniform(0, 2, len(solution.w))
        heights = after(w).values
        assert np.all(table["offset"] + table["slope"] @ w <= heights[group] + 1e-10)
        anchor = solution.cuts.anchor_offset + solution.cuts.anchor_slope @ w
        assert anchor <= after(w).mean + 1e-10
    # The anchor touches the risk where the solver first began, before and after.
    touched = solution.cuts.anchor_offset + solution.cuts.anchor_slope @ problem.start
    assert touched == pytest.approx(after(problem.start).mean, rel=1e-10)
    best = np.full(len(before.truths), -np.inf)
    np.maximum.at(best, group, table["offset"] + table["slope"] @ solution.w)
    gap = after.weights @ (after(solution.w).values - best)
    assert gap < 0.05 * solution.scale  # the old cuts know most of the new risk


def coarsest(
    form: ml.problem.LowRankForm, n_clusters: int | None = None, known: Any = None
) -> ml.Partition:
    """A heuristic completion oracle that answers badly."""
    return ml.Partition(ends=PenalizedSegmentation(form, known=known).extremes[0].ends)


@pytest.mark.parametrize("completion", [ml.oracles.ConstrainedChangePoints(), coarsest])
def test_bad_completions_are_not_taken(completion) -> None:
    problem = stated_problem(completion)
    turns = Turns(problem, ml.BundleDual(1e-3).minimize, ml.estimators.Alternation())
    turns.run(20)
    assert_never_rises(turns.trace)
    changed = [sum(map(operator.ne, *pair)) for pair in itertools.pairwise(turns.seen)]
    assert turns.trace.changed == [len(turns.seen[0]), *changed]
    assert all(truth.partial_labels.allows(truth) for truth in turns.problem.risk.truths)


def test_a_resumed_run_is_the_whole_one_also_after_its_last_step(tmp_path) -> None:
    """Then it still knows that it has settled."""
    y = masked(0.3)
    alternation = ml.estimators.Alternation(start=ml.estimators.PrincipalStart(4))
    whole = fit(y, alternation=alternation)
    assert whole.alternation_.reason == "settled"
    assert len(whole.alternation_) >= 3
    for steps in (2, len(whole.alternation_)):
        kept = clone(alternation).set_params(checkpoint=str(tmp_path / f"{steps}.npz"))
        stopped = fit(y, alternation=clone(kept).set_params(max_alternations=steps)).alternation_
        assert stopped.reason == "max_alternations"
        resumed = fit(y, alternation=kept)
        assert resumed.alternation_ == whole.alternation_
        np.testing.assert_allclose(resumed.components_, whole.components_, atol=1e-10)
        np.testing.assert_array_equal(resumed.completions_, whole.completions_)
