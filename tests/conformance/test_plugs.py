"""The seams of the house: a new regularizer, loss, oracle and similarity, each learned with.

Each is a few lines over public names, without a subclass of anything that learns.
"""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.linalg import norm
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform
from sklearn.base import BaseEstimator, clone

import metriclearn as ml
from metriclearn.problem.joint_features import Samples
from metriclearn.problem.risk import HingeTerms, StructuredHinge
from metriclearn.similarities.operators import Operator
from metriclearn.solvers.base import Problem
from metriclearn.solvers.mahalanobis import MetricCone
from metriclearn.solvers.regularizers import Norm, Quadratic
from metriclearn.solvers.subgradient import DecreasingStep
from tests.solvers.bounds import assert_bounds
from tests.solvers.complete_problem import CompleteProblem
from tests.training import XS, YS

# two tables of two groups, which the first of their two features tells apart
GROUPS = [np.repeat([0, 1], 20)] * 2
NOISE = np.random.default_rng(0).normal(size=(2, 40, 2))
TABLES = [noise + 4.0 * np.outer(y, (1, 0)) for noise, y in zip(NOISE, GROUPS)]


class ElasticNet(BaseEstimator):
    """Ω(b) = μ(Σ b + ‖b‖²/2)."""

    def __init__(self, strength: float = 1e-2) -> None:
        self.strength = strength

    def terms(self, cone: MetricCone) -> Quadratic:
        ones = cone.metric.identity(cone.n_features)
        return Quadratic(cone, self.strength, self.strength * ones)


def test_a_new_regularizer() -> None:
    learner = ml.ChangePointMetricLearner(regularizer=ElasticNet(), verbose=False).fit(XS, YS)
    assert learner.solution_.converged
    assert learner.score(XS, YS) > -0.1
    with pytest.warns(UserWarning, match=r"ElasticNet\(strength=1000.0\) is too strong"):
        learner.set_params(regularizer__strength=1e3).fit(XS, YS)
    assert len(learner.components_) == 0


class GroupLasso(BaseEstimator):
    """Ω(b) = μ Σ_g √|g| ‖b_g‖: the features of a group are kept or dropped together."""

    def __init__(self, groups: Any, strength: float = 1e-2) -> None:
        self.groups, self.strength = groups, strength

    def terms(self, cone: MetricCone) -> Norm:
        return Norm(cone, self.value, self.subgradient, self.polar)

    def parts(self, v: Any) -> list[tuple[list[int], float, Any]]:
        return [(g, self.strength * len(g) ** 0.5, v[g]) for g in self.groups]

    def value(self, b: NDArray) -> float:
        return sum(weight * norm(part) for _, weight, part in self.parts(b))

    def subgradient(self, b: NDArray) -> NDArray:
        slope = np.zeros_like(b)
        for g, weight, part in self.parts(b):
            slope[g] = weight * part / max(norm(part), 1e-300)
        return slope

    def polar(self, v: NDArray) -> float:
        return max(norm(part) / weight for _, weight, part in self.parts(np.maximum(v, 0.0)))

    def expression(self, B: Any) -> Any:
        import cvxpy as cp

        return sum(weight * cp.norm(part) for _, weight, part in self.parts(cp.diag(B)))


class WeightedL1(GroupLasso):
    """Ω(b) = μ ⟨κ, b⟩ with κ = (50, 1, 1), as a norm."""

    def parts(self, v: Any) -> list[tuple[list[int], float, Any]]:
        return [([i], self.strength * (50.0, 1.0, 1.0)[i], v[[i]]) for i in range(3)]


NORMS = [GroupLasso([[0, 1], [2]], 0.3), WeightedL1(None, 0.1)]


@pytest.mark.parametrize("omega", NORMS)
def test_bounds_of_a_new_norm_are_below_the_optimum(omega: GroupLasso) -> None:
    cone = MetricCone(ml.DiagonalMetric(), 3, learns_penalty=True)
    assert_bounds(cone, omega.terms(cone), omega.expression)


@pytest.mark.parametrize("omega", NORMS)
@pytest.mark.parametrize(("mode", "most"), [("known", 0.03), ("learned", 0.6)])
def test_a_new_norm_is_certified_and_agrees_with_cvxpy(omega: Any, mode: str, most: float) -> None:
    """By subgradients, and by cutting planes on its expression. BundleDual refuses it."""
    problem = CompleteProblem(ml.DiagonalMetric(), clone(omega).set_params(strength=0.02), mode, 2)
    rough = ml.solvers.ProjectedSubgradient(DecreasingStep(), tolerance=most, max_rounds=600)
    for solver in (rough, ml.solvers.CuttingPlane(tolerance=1e-5)):
        solution = solver.minimize(problem.stated())
        problem.check(solution)
        assert solution.converged
    with pytest.raises(ValueError, match=r"BundleDual needs .* Quadratic.* ProjectedSubgradient"):
        ml.BundleDual().minimize(problem.stated())


class TooManyClusters:
    """ℓ(M, N) = ‖M − N‖²_F / T + (Tr M − Tr MN) / T: finer clusters cost twice."""

    def __call__(self, partition: Any, truth: ml.Partition) -> float:
        finer = partition.n_clusters - partition.inner(truth)
        return ml.problem.FrobeniusLoss()(partition, truth) + finer / truth.n_samples

    def augment(self, form: Any, truth: ml.Partition, scale: float) -> tuple[Any, float]:
        augmented, constant = ml.problem.FrobeniusLoss().augment(form, truth, scale)
        return augmented.plus(truth, scale).shifted(scale), constant


def test_a_new_loss() -> None:
    """The hinge that is learned with bounds the new loss of the predictions from above."""
    metric, truths = ml.DiagonalMetric(), [ml.Partition.from_runs(y) for y in YS]
    cone, samples = MetricCone(metric, 6, learns_penalty=True), [Samples(X) for X in XS]
    features, loss = ml.problem.LinearFeatures(metric), TooManyClusters()
    risk = StructuredHinge(
        HingeTerms(features, loss, ml.oracles.ChangePoints(), cone), samples, truths
    )
    start = cone.join(np.zeros(6), 2.0)
    solution = ml.BundleDual(1e-4).minimize(Problem(risk, ml.SquaredFrobenius(0.01), cone, start))
    assert solution.converged
    weights, penalty = cone.split(solution.w)
    forms = [features.at(weights)(one).shifted(-penalty) for one in samples]
    losses = [loss(ml.oracles.ChangePoints()(form), truth) for form, truth in zip(forms, truths)]
    assert np.all(losses <= risk(solution.w).values + 1e-9)
    assert np.mean(losses) < 0.5 * risk(start).mean


class Exhaustive(BaseEstimator):
    """Every segmentation into at most three segments; slow, and easy to believe."""

    def __call__(self, form: Any, n_clusters: int | None = None) -> ml.Partition:
        T, sizes = form.n_samples, [1, 2, 3] if n_clusters is None else [n_clusters]
        cuts = (cut for K in sizes for cut in combinations(range(1, T), K - 1))
        return max((ml.Partition.from_change_points(cut, T) for cut in cuts), key=form.at)


def test_a_new_oracle() -> None:
    rng = np.random.default_rng(0)
    y = [np.arange(10) // 4, np.arange(10) // 5]
    X = [3.0 * labels[:, None] * [1, 0] + rng.normal(size=(10, 2)) for labels in y]
    mine = ml.ChangePointMetricLearner(oracle=Exhaustive(), verbose=False).fit(X, y)
    assert mine.solution_.converged
    for labels, expected in zip(mine.predict(X), y):
        np.testing.assert_array_equal(labels, expected)


class CauchyOperator(Operator):
    """1 / (1 + ‖Lᵀ(x − y)‖²) of all pairs, scaled by the root on both sides."""

    def __init__(self, X: NDArray, components: NDArray, root: NDArray) -> None:
        self.X, self.components, self.root = X, components, root
        self.W = 1.0 / (1.0 + squareform(pdist(X @ components.T, "sqeuclidean")))

    def product(self, V: NDArray) -> NDArray:
        return self.W @ V

    def unscaled_slope(self, F: NDArray) -> NDArray:
        G = (F @ F.T) * self.W**2
        return 2.0 * self.X.T @ (G - np.diag(G.sum(axis=1))) @ self.X

    def restricted(self, kept: NDArray) -> "CauchyOperator":
        return CauchyOperator(self.X[kept], self.components, self.root[kept])


class CauchySimilarity(ml.similarities.GaussianSimilarity):
    """A heavier tail than that of the Gaussian similarity."""

    def operator(self, nodes: Any, components: NDArray) -> CauchyOperator:
        return CauchyOperator(nodes.features, components, nodes.root)


def test_a_new_similarity() -> None:
    learner = ml.NormalizedCutMetricLearner(similarity=CauchySimilarity(), verbose=False)
    assert learner.fit(TABLES, GROUPS).score(TABLES, GROUPS) > -0.5
    B = learner.get_mahalanobis_matrix()
    assert B[0, 0] > B[1, 1]
