"""Alternation: its objective, its cuts, resuming, and what it is when all is known."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from metriclearn import (
    EXACTLY_ONE,
    L1,
    NO_CHANGE,
    Alternation,
    BundleDual,
    ChangePointMetricLearner,
    KnownLoss,
    PartialPartition,
    Partition,
    PrincipalStart,
    ProjectedSubgradient,
    Region,
    SquaredFrobenius,
    load,
    save,
)
from metriclearn.baselines import TunedSegmenter
from metriclearn.datasets import make_change_points
from metriclearn.estimators.alternation import KnownStart, alternate
from metriclearn.oracles.change_points import PricedSegmentation
from metriclearn.problem.losses import known_loss
from metriclearn.problem.risk import move_cuts
from metriclearn.solvers.base import values
from tests.exhaustive import all_segmentations
from tests.training import XS, YS, assert_same, learn

DATA = make_change_points(6, 150, 12, 3, (3, 5), jump=1.5, random_state=3)
TEST = make_change_points(6, 150, 12, 3, (3, 5), jump=1.5, random_state=4)


def masked(labels, fraction: float, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    found = []
    for full in labels:
        size = int(fraction * len(full))
        start = int(rng.integers(0, len(full) - size + 1))
        known = np.full(len(full), -1)
        known[start : start + size] = full[start : start + size]
        found.append(known)
    return found


def fit(y, **parameters) -> ChangePointMetricLearner:
    defaults = {"solver": BundleDual(tolerance=1e-4), "verbose": False}
    return ChangePointMetricLearner(**{**defaults, **parameters}).fit(DATA.sequences, y)


STARTS = [KnownStart(), PrincipalStart(4)]


@pytest.mark.parametrize("start", STARTS, ids=["known", "principal"])
@pytest.mark.parametrize("regularizer", [L1(1e-3), SquaredFrobenius(1e-1)], ids=["l1", "l2"])
def test_objective_never_rises(start, regularizer) -> None:
    """Completing and learning both lower F, and completions agree with the labels."""
    y = masked(DATA.labels, 0.5)
    learner = fit(y, regularizer=regularizer, alternation=Alternation(start=start))
    trace = learner.alternation_
    steps = [f for pair in zip(trace.completed, trace.learned) for f in pair]
    assert np.all(np.diff(steps) <= 1e-12)
    assert trace.learned[-1] < trace.completed[0]
    assert trace.reason == "settled"
    assert len(trace) == len(trace.changed) >= 1
    assert learner.solution_.objective == trace.learned[-1]
    for labels, completion in zip(y, learner.completions_):
        assert PartialPartition(150, labels).allows(Partition.from_runs(completion))


def test_objective_is_the_one_of_the_docstring() -> None:
    """F by enumeration of all segmentations of short sequences, at the learned w."""
    rng = np.random.default_rng(0)
    X = [np.repeat(rng.normal(size=(4, 2)), 2, axis=0) + 0.3 * rng.normal(size=(8, 2))] * 3
    y = [[0, 0, 1, 1, -1, -1, -1, -1], [-1, -1, -1, 1, 1, 2, 2, -1], [0, 0, -1, -1, -1, 3, 3, 3]]
    learner = ChangePointMetricLearner(verbose=False, standardize=False).fit(X, y)
    B, price = learner.get_mahalanobis_matrix(), learner.penalty_
    total = 1e-3 * np.abs(B).sum()
    for array, labels, completed in zip(X, y, learner.completions_):
        completion = Partition.from_runs(completed)
        known, Z = PartialPartition(8, labels), array - array.mean(axis=0)

        def score(partition, Z=Z):
            M = partition.to_array()
            return (np.sum(B * (Z.T @ M @ Z)) - price * partition.n_clusters) / 8

        every = [Partition.from_change_points(ends) for ends in all_segmentations(8)]
        agreeing = [partition for partition in every if known.allows(partition)]
        hinge = max(known_loss(p, known) + score(p) for p in every) - score(completion)
        total += hinge / 3
        best = max(score(partition) for partition in agreeing)
        assert score(completion) == pytest.approx(best, abs=1e-9)
    assert learner.solution_.objective == pytest.approx(total, abs=1e-9)


def test_unlabeled_samples_cost_nothing() -> None:
    known = PartialPartition(9, labels=[0, 0, 1, -1, -1, -1, -1, -1, -1])
    for ends in all_segmentations(9):
        partition = Partition.from_change_points(ends)
        loss = KnownLoss()(partition, partition.completing(known))
        right = 2 in ends and 1 not in ends
        assert (loss == 0) == right


def test_full_labels_are_the_convex_problem() -> None:
    """As partial labels in which nothing is missing, the same metric and objective."""
    knowns = [PartialPartition.from_partition(Partition.from_runs(y)) for y in YS]
    plain = learn()
    assert_same(learn(y=knowns), plain)
    assert learn(y=knowns).alternation_ is None
    forced = learn(y=[*YS[:-1], PartialPartition(120)])  # the last one says nothing
    assert forced.alternation_ is not None
    dropped = learn(XS[:-1], YS[:-1])
    assert forced.solution_.objective <= dropped.solution_.objective


def test_moved_cuts_stay_valid_and_tight() -> None:
    """A cut of F for one completion, moved, is a cut of F for another, tight at its point."""
    learner = ChangePointMetricLearner(verbose=False, alternation=Alternation(max_alternations=1))
    problem = learner._problem(DATA.sequences, masked(DATA.labels, 0.4))
    before = problem.risk
    solution = learner._solve(problem)
    dearer = solution.w * np.append(np.ones(len(solution.w) - 1), 1.1)  # the price is last
    after = before.replaced(truths=before.complete(dearer))
    assert list(after.truths) != list(before.truths)
    moved = move_cuts(solution.cuts, before, after)
    rng = np.random.default_rng(0)
    gaps = []
    for _ in range(20):
        w = solution.w * rng.uniform(0, 2, len(solution.w))
        heights = after(w).values
        cuts = values(moved.table, w)
        assert np.all(cuts <= heights[moved.table["group"]] + 1e-10)
        assert moved.anchor_offset + moved.anchor_slope @ w <= after(w).mean + 1e-10
    best = np.full(len(before.truths), -np.inf)
    np.maximum.at(best, moved.table["group"], values(moved.table, solution.w))
    gaps = after.weights @ (after(solution.w).values - best)
    assert gaps < 0.05 * solution.scale  # the old cuts know most of the new risk


class _Stopping:
    """A solver that is interrupted in its n-th metric step."""

    def __init__(self, solver, stop: int) -> None:
        self.solver, self.left = solver, stop

    def minimize(self, problem):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return self.solver.minimize(problem)


def test_interrupted_runs_resume_with_the_same_result(tmp_path) -> None:
    y = masked(DATA.labels, 0.3)
    alternation = Alternation(start=PrincipalStart(4))
    whole = fit(y, alternation=alternation)
    assert len(whole.alternation_) >= 3
    file = str(tmp_path / "state.npz")
    stored = Alternation(start=PrincipalStart(4), checkpoint=file)
    with pytest.warns(ConvergenceWarning):
        stopped = fit(y, alternation=stored, solver=_Stopping(BundleDual(tolerance=1e-4), 2))
    assert (stopped.alternation_.reason, len(stopped.alternation_)) == ("interrupted", 2)
    resumed = fit(y, alternation=stored)
    np.testing.assert_allclose(resumed.components_, whole.components_, atol=1e-10)
    assert resumed.alternation_ == whole.alternation_
    for one, other in zip(resumed.completions_, whole.completions_):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="Alternation needs a checkpoint of this problem"):
        fit(masked(DATA.labels, 0.6), alternation=stored)


def test_bad_completions_are_not_taken() -> None:
    """A heuristic completion oracle that answers badly: F still never rises."""

    def coarsest(form, n_clusters=None, known=None):
        return Partition(ends=PricedSegmentation(form, known=known).coarsest.ends)

    learner = ChangePointMetricLearner(verbose=False)
    problem = learner._problem(DATA.sequences, masked(DATA.labels, 0.4))
    terms = replace(problem.risk.terms, completion=coarsest)
    problem = replace(problem, risk=problem.risk.replaced(terms=terms))
    _, _, trace = alternate(problem, learner._solve, Alternation())
    steps = [f for pair in zip(trace.completed, trace.learned) for f in pair]
    assert np.all(np.diff(steps) <= 1e-12)


def test_regions_alone_teach() -> None:
    """Annotated regions around changes and between them; test segmentations become right."""
    knowns = []
    for labels in DATA.labels:
        ends = Partition.from_runs(labels).change_points[:-1]
        regions = [Region(int(t) - 5, int(t) + 5, EXACTLY_ONE) for t in ends]
        borders = [0, *map(int, ends), 150]
        regions += [
            Region(a + 5, b - 5, NO_CHANGE) for a, b in itertools.pairwise(borders) if b - a > 12
        ]
        knowns.append(PartialPartition(150, regions=regions))
    learner = fit(knowns)
    euclidean = TunedSegmenter().fit(DATA.sequences, DATA.labels)
    ours = learner.score(TEST.sequences, TEST.labels)
    assert ours > 0.75 * euclidean.score(TEST.sequences, TEST.labels)
    partial = [learner.score(X, known) for X, known in zip(DATA.sequences, knowns)]
    assert np.mean(partial) > -1e-3


def test_few_labels_beat_none() -> None:
    """A third of the labels: better on test data than the Euclidean metric with a tuned penalty."""
    learner = fit(masked(DATA.labels, 0.34))
    euclidean = TunedSegmenter().fit(DATA.sequences, DATA.labels)
    ours = learner.score(TEST.sequences, TEST.labels)
    assert ours > 0.5 * euclidean.score(TEST.sequences, TEST.labels)


def test_saved_and_loaded(tmp_path) -> None:
    learner = fit(masked(DATA.labels, 0.5))
    copy = load(save(learner, tmp_path / "model.npz"))
    assert copy.alternation_ == learner.alternation_
    np.testing.assert_array_equal(np.array(copy.completions_), np.array(learner.completions_))
    np.testing.assert_array_equal(copy.components_, learner.components_)


def test_errors() -> None:
    y = masked(DATA.labels, 0.5)
    with pytest.raises(ValueError, match="n_segments=None"):
        fit(y, n_segments="given")
    with pytest.raises(ValueError, match="alternation__checkpoint"):
        fit(y, solver=BundleDual(checkpoint="state.npz"))
    with pytest.raises(ValueError, match="nothing is known"):
        fit([np.full(150, -1)] * 6)
    for alternation, message in (
        (None, "needs an alternation such as Alternation.., got None"),
        (Alternation(0), "max_alternations of at least 1, got 0"),
        (Alternation(1.5), "max_alternations of at least 1, got 1.5"),
        (Alternation(start=None), "needs a start such as KnownStart.., got None"),
        (Alternation(start=PrincipalStart(0)), "n_components of at least 1, got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            fit(y, alternation=alternation)


def test_other_solvers_and_parameters() -> None:
    """No cuts to hand on: the subgradient method goes on from its point; F still never rises."""
    y = masked(DATA.labels, 0.5)
    with pytest.warns(UserWarning, match="relative gap"):
        learner = fit(y, solver=ProjectedSubgradient(max_rounds=30))
    steps = [
        f for p in zip(learner.alternation_.completed, learner.alternation_.learned) for f in p
    ]
    assert np.all(np.diff(steps) <= 1e-12)
    assert fit(y).set_params(alternation__max_alternations=1).alternation.max_alternations == 1
