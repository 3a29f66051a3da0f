"""A small training problem together with its exact optimum, from cuts of *all* segmentations."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import metriclearn as ml
from metriclearn.problem.joint_features import Samples
from metriclearn.problem.risk import HingeTerms, StructuredHinge
from metriclearn.solvers.base import Problem, Solution
from metriclearn.solvers.mahalanobis import MetricCone
from tests.exhaustive import all_segmentations, equivalence_matrix, labels_of

FIXED_PENALTY = 0.5


def hinge_of(
    Xs: Sequence[np.ndarray],
    truths: Sequence[ml.Partition],
    metric: Any,
    mode: str,
    *,
    scale: float = 1.0,
    min_size: int = 1,
    oracle: Any = None,
    **options: Any,
) -> StructuredHinge:
    """The hinge of sequences, as a learner would build it, with the oracle that is given."""
    terms = HingeTerms(
        ml.problem.LinearFeatures(metric),
        ml.problem.FrobeniusLoss(),
        oracle or ml.oracles.ChangePoints(min_size),
        MetricCone(metric, Xs[0].shape[1], mode == "learned"),
        loss_scale=scale,
        penalty=FIXED_PENALTY if mode == "fixed" else 0.0,
        count_known=mode == "known",
    )
    samples = [Samples(X, truth=N if oracle else None) for X, N in zip(Xs, truths)]
    return StructuredHinge(terms, samples, truths, **options)


@dataclass(frozen=True)
class CompleteProblem:
    """Three sequences of 6 to 8 samples in three dimensions, of which the first is informative.

    Parameters
    ----------
    metric, regularizer
    mode : "learned", "fixed" or "known"
        What inference knows of the number of segments.
    seed : int
    noise : float
        Standard deviation; at 0 the data are separable.
    """

    metric: Any
    regularizer: Any
    mode: str
    seed: int = 0
    noise: float = 1.0
    scale: float = 1.0

    @cached_property
    def data(self) -> list[tuple[np.ndarray, ml.Partition]]:
        rng = np.random.default_rng(self.seed)
        pairs = []
        for T in (6, 7, 8):
            cuts = rng.choice(np.arange(1, T), 2, replace=False)
            truth = ml.Partition.from_change_points(cuts, T)
            X = self.noise * rng.normal(size=(T, 3))
            X[:, 0] += 3.0 * np.array([0.0, 1.0, -1.0])[truth.labels]
            pairs.append((X, truth))
        return pairs

    @property
    def cone(self) -> MetricCone:
        return MetricCone(self.metric, 3, self.mode == "learned")

    @property
    def start(self) -> np.ndarray:
        return self.cone.join(np.zeros(self.cone.n_metric), self.scale)

    def risk(self) -> StructuredHinge:
        """As a learner would build it."""
        return hinge_of(*zip(*self.data), self.metric, self.mode, scale=self.scale)

    def check(self, solution: Solution) -> None:
        """Bounds enclose the optimum in every round; the objective is the value at the solution."""
        trace, rounding = solution.trace, 1e-6 * solution.scale
        assert max(trace.lower_bound) <= self.optimum + rounding
        assert min(trace.objective) >= self.optimum - rounding
        assert np.all(np.diff(trace.objective) <= 0.0)
        assert np.all(np.diff(trace.lower_bound) >= 0.0)
        assert np.all(np.diff(trace.seconds) >= 0.0)
        assert (trace.objective[-1], trace.lower_bound[-1]) == (
            solution.objective,
            solution.lower_bound,
        )
        assert trace.gap[-1] == solution.gap == solution.objective - solution.lower_bound
        value = self.risk()(solution.w).mean + self._omega_at(solution.w)
        assert abs(solution.objective - value) <= 1e-10 * abs(value)
        np.testing.assert_allclose(self.cone.project(solution.w), solution.w, atol=1e-10)
        assert abs(solution.scale - self.risk()(self.start).mean) <= 1e-10 * solution.scale

    def stated(self, risk: Any = None, callbacks: Sequence[Any] = ()) -> Problem:
        """What a solver is asked, with its own risk or another."""
        risk = self.risk() if risk is None else risk
        return Problem(risk, self.regularizer, self.cone, self.start, callbacks)

    @cached_property
    def optimum(self) -> float:
        """min over (B, λ) of the mean hinge plus Ω(B), by cvxpy on every cut there is."""
        import cvxpy as cp

        full = isinstance(self.metric, ml.FullMetric)
        B = cp.Variable((3, 3), PSD=True) if full else cp.diag(cp.Variable(3, nonneg=True))
        penalty = cp.Variable(nonneg=True) if self.mode == "learned" else FIXED_PENALTY
        slack = cp.Variable(len(self.data))
        constraints = []
        for i, (X, truth) in enumerate(self.data):
            offsets, slopes, more = self._cuts(X, truth)
            values = offsets + slopes.reshape(len(slopes), -1) @ cp.vec(B, order="C")
            if self.mode != "known":
                values = values - more * penalty
            constraints.append(slack[i] >= values)
        objective = cp.sum(slack) / len(self.data) + self._omega(B)
        return float(cp.Problem(cp.Minimize(objective), constraints).solve(solver="CLARABEL"))

    def _cuts(
        self, X: np.ndarray, truth: ml.Partition
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Per segmentation M: α‖M − N‖²/T, Xᵀ(M − N)X/T and (Tr M − Tr N)/T."""
        T, X = len(X), X - X.mean(axis=0)
        N = equivalence_matrix(truth.labels)
        count = truth.n_clusters if self.mode == "known" else None
        every = all_segmentations(T, count)
        D = np.array([equivalence_matrix(labels_of(ends)) - N for ends in every])
        offsets = self.scale * np.sum(D * D, axis=(1, 2)) / T
        more = np.array([len(ends) - truth.n_clusters for ends in every]) / T
        return offsets, X.T @ D @ X / T, more

    def _omega(self, B: Any) -> Any:
        """Ω as an expression of cvxpy."""
        import cvxpy as cp

        omega = self.regularizer
        if hasattr(omega, "expression"):
            return omega.expression(B)
        if isinstance(omega, ml.SquaredFrobenius):
            return 0.5 * omega.strength * cp.sum_squares(B - omega.center * np.eye(3))
        return omega.strength * cp.trace(B)

    def _omega_at(self, w: np.ndarray) -> float:
        import cvxpy as cp

        if hasattr(self.regularizer, "terms"):
            return self.regularizer.terms(self.cone)(w)
        B = self.metric.matrix(self.cone.split(w)[0])
        return float(self.regularizer.expression(cp.Constant(B)).value)


class Watcher:
    """A callback from a function of the progress; keeps the solutions it was shown."""

    def __init__(self, on_round) -> None:
        self.on_round, self.solutions = on_round, []

    def on_end(self, solution) -> None:
        self.solutions.append(solution)


def watched_by(on_round) -> list[Watcher]:
    """Callbacks for ``minimize``; none without a function."""
    return [] if on_round is None else [Watcher(on_round)]
