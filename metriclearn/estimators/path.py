"""Solutions along the strengths of regularization, each certified, each begun from the last."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from metriclearn.estimators.alternation import PartialHinge
from metriclearn.estimators.large_margin import LargeMarginLearner, LearningProblem
from metriclearn.solvers.base import Solution

__all__ = ["RegularizationPath", "regularization_path", "strengths_of"]


@dataclass(frozen=True)
class RegularizationPath:
    """What :func:`regularization_path` returns; rows go from strong to weak regularization.

    Attributes
    ----------
    strengths : array (S,)
        Decreasing.
    solutions : list of Solution
        Objective, lower bound and gap at every strength.
    learners : list
        Fitted learners, one per strength.
    weights : array (S, P)
        Weights of the features (diagonal metrics), or eigenvalues of B in decreasing order, in
        the units in which the regularizer sees them.
    validation_loss : array (S,), array (S, F) or None
        Mean loss ℓ on the validation data, or on those of every fold.
    diagonal : bool
        Whether ``weights`` are of features.
    """

    strengths: NDArray
    solutions: list[Solution]
    learners: list[Any]
    weights: NDArray
    validation_loss: NDArray | None
    diagonal: bool

    def __len__(self) -> int:
        return len(self.strengths)

    @property
    def best(self) -> int:
        """Index of the least validation loss, the strongest regularization among equals."""
        if self.validation_loss is None:
            raise ValueError(
                "RegularizationPath needs validation data to choose a strength, got none; pass "
                "validation=(X, y) to regularization_path."
            )
        losses = self.validation_loss.reshape(len(self), -1)
        return int(np.argmin(losses.mean(axis=1)))

    def plot(self, ax: Any = None, feature_names: Sequence[str] | None = None) -> Any:
        """Weights against strength, over the validation loss where there is one."""
        from metriclearn.plots import plot_regularization_path

        if not self.diagonal:
            feature_names = [f"eigenvalue {i + 1}" for i in range(self.weights.shape[1])]
        return plot_regularization_path(
            self.strengths,
            self.weights,
            self.validation_loss,
            feature_names,
            ax,
            noun="features" if self.diagonal else "eigenvalues",
        )


def regularization_path(
    learner: LargeMarginLearner,
    X: Any,
    y: Any,
    strengths: int | ArrayLike = 20,
    *,
    validation: tuple[Any, Any] | None = None,
    sample_weight: ArrayLike | None = None,
    ratio: float = 1e-3,
) -> RegularizationPath:
    """Fit a learner at decreasing strengths, each from the point and the cuts of the one before.

    Cuts of the risk do not depend on the regularizer, so a warm start needs few oracle calls;
    every solution has its own gap.

    Parameters
    ----------
    learner : a large-margin learner
        Not changed; its regularizer's own strength is not used.
    X, y, sample_weight
        As for its ``fit``.
    strengths : int or array (S,)
        Strengths, or how many, see Notes.
    validation : (X, y), optional
        Data sets on which every learner's loss is measured, with ``score``.
    ratio : float
        Least over greatest strength of a grid.

    Returns
    -------
    RegularizationPath

    Notes
    -----
    A grid is a geometric progression from a strength at which L1 and trace give B = 0. Every
    subgradient of the risk is at least −H with H = Σ s_i Xᵢᵀ N_i Xᵢ / T_i, because XᵀMX ⪰ 0. So
    with μ at the largest eigenvalue (or diagonal entry) of H no B ≠ 0 can pay for μ Tr B.

    With partial labels every strength completes and learns in turns from its own start, as ``fit``
    with that strength does, and its solution is the one of the last metric step; nothing is
    handed on from the strength before, and the grid comes from first completions. That costs, per
    strength, what a ``fit`` does.
    """
    callbacks = learner.callbacks  # used as they are: a copy would log elsewhere
    learner = _prepared(learner)
    problem = learner._problem(X, y, sample_weight)
    values = strengths_of(strengths, problem, ratio)
    solutions, learners, losses = [], [], []
    warm: Solution | None = None
    for strength in values:
        step = clone(learner).set_params(regularizer__strength=float(strength))
        step.__dict__.update({k: v for k, v in vars(learner).items() if k.endswith("_in_")})
        step.callbacks = callbacks
        if isinstance(problem.risk, PartialHinge):  # begins with completions of its own strength
            problem = step._problem(X, y, sample_weight)
        else:
            problem = replace(problem, regularizer=step.regularizer, warm=warm)
        warm = step._learn(problem)
        step.callbacks = ()
        step._accept(problem, warm)
        solutions.append(step.solution_)
        learners.append(step)
        if validation is not None:
            losses.append(-step.score(*validation))
        if warm.reason == "interrupted":
            break
    _warn([solution for solution in solutions if not solution.converged])
    return RegularizationPath(
        values[: len(solutions)],
        solutions,
        learners,
        np.array([_weights(problem, solution) for solution in solutions]),
        np.array(losses) if losses else None,
        bool(learner.metric.polyhedral),
    )


def _grid(problem: LearningProblem, count: int, ratio: float) -> NDArray:
    """``count`` strengths in geometric progression, see the notes of the path."""
    if count < 1 or not 0.0 < ratio < 1.0:
        raise ValueError(
            "regularization_path needs at least one strength and a ratio between 0 and 1, got "
            f"{count} and {ratio!r}."
        )
    greatest = -problem.cone.metric.least(-problem.risk.truth_slope)
    if not greatest > 1e-12 * problem.cone.n_features:
        raise ValueError(
            "regularization_path needs labels that the data tell apart, but no segment's mean "
            "differs from that of its data set; pass strengths, or other labels."
        )
    return np.geomspace(greatest, ratio * greatest, count) if count > 1 else np.array([greatest])


def _prepared(learner: LargeMarginLearner) -> LargeMarginLearner:
    """A copy without callbacks, which can be fitted at several strengths."""
    if not hasattr(learner.regularizer, "strength") or not hasattr(learner.regularizer, "terms"):
        raise ValueError(
            "regularization_path needs a regularizer with a strength, such as L1(), got "
            f"{learner.regularizer!r}."
        )
    if getattr(learner.solver, "checkpoint", None) is not None:
        raise ValueError(
            "regularization_path needs a solver without checkpoint, because every strength is a "
            f"problem of its own, got {learner.solver.checkpoint!r}; set it to None."  # type: ignore[attr-defined]
        )
    parameters = {**learner.get_params(deep=False), "callbacks": ()}
    return clone(type(learner)(**parameters))


def _warn(unfinished: Sequence[Solution]) -> None:
    if unfinished:
        worst = max(solution.relative_gap for solution in unfinished)
        warnings.warn(
            f"regularization_path stopped {len(unfinished)} of its solutions early, at relative "
            f"gaps of up to {worst:.2g}; raise the solver's max_rounds or its tolerance.",
            ConvergenceWarning,
            stacklevel=3,
        )


def strengths_of(strengths: int | ArrayLike, problem: LearningProblem, ratio: float) -> NDArray:
    """Strengths as given, decreasing, or a grid of so many."""
    if (
        isinstance(strengths, str)
        or np.ndim(strengths) > 1
        or (np.ndim(strengths) == 0 and not isinstance(strengths, (int, np.integer)))
    ):
        raise ValueError(
            f"regularization_path needs a number of strengths or positive ones, got {strengths!r}."
        )
    if isinstance(strengths, (int, np.integer)):
        return _grid(problem, int(strengths), ratio)
    values = np.unique(np.asarray(strengths, dtype=np.float64))[::-1]
    if len(values) == 0 or not np.all(values > 0):
        raise ValueError(
            f"regularization_path needs a number of strengths or positive ones, got {strengths!r}."
        )
    return values


def _weights(problem: LearningProblem, solution: Solution) -> NDArray:
    coordinates, _ = problem.cone.split(solution.w)
    matrix = problem.cone.metric.matrix(coordinates)
    if problem.cone.metric.polyhedral:
        return np.diag(matrix)
    values = np.linalg.eigvalsh(matrix)[::-1]
    return np.where(np.arange(len(values)) < solution.rank, values, 0.0)  # the rest is rounding
