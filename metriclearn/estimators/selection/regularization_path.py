"""Solutions for a series of strengths.

Each solution is certified. The search for it starts from the previous solution.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from metriclearn.estimators.learners.large_margin import LargeMarginLearner
from metriclearn.running.notes import note
from metriclearn.running.parameters import Needs, Of, Positive, Real, Whole, needs
from metriclearn.running.values import real_array
from metriclearn.solvers.base import Problem, Solution

_COUNT, _STRENGTH = Whole(1), Positive(1e250)
_Strengths = Annotated[
    int | ArrayLike,
    Needs(
        "a number of strengths or positive ones",
        lambda given: (
            _COUNT.accepts(given)
            or (np.ndim(given) == 1 and len(given) > 0 and all(map(_STRENGTH.accepts, given)))
        ),
    ),
]
_Ratio = Annotated[float, Real(1e-12, 1.0 - 1e-12)]
_PAIR = Needs(
    "{name}=None or a pair (X, y)",
    lambda pair: pair is None or (isinstance(pair, tuple) and len(pair) == 2),
)
_SCALED = Of("strength", "L1(), which has a strength")
_WITHOUT_CHECKPOINT = Needs(
    "a solver without checkpoint, because every strength is a problem of its own",
    lambda solver: getattr(solver, "checkpoint", None) is None,
    "; set it to None",
)


@dataclass(frozen=True)
class RegularizationPath:
    """The result of :func:`regularization_path`, from strong to weak regularization.

    Attributes
    ----------
    strengths : array (S,)
        The strengths in decreasing order.
    solutions : list of Solution
        Objective, lower bound and gap at every strength.
    learners : list
        One fitted learner for each strength.
    weights : array (S, P)
        Weights of the features if the metric is diagonal, else eigenvalues of B in decreasing
        order. Both are in the units to which the regularizer applies.
    validation_loss : array (S,) or None
        Mean loss ℓ on the validation data at every strength.
    diagonal : bool
        Whether ``weights`` holds weights of features, not eigenvalues.
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
        """Index of the strength with the least validation loss. Ties go to the largest strength."""
        if self.validation_loss is None:
            raise ValueError(
                "RegularizationPath needs validation data to choose a strength, got none; pass "
                "validation=(X, y) to regularization_path."
            )
        return int(np.argmin(self.validation_loss))

    def plot(self, ax: Any = None, feature_names: Sequence[str] | None = None) -> Any:
        """Plot the weights and, if it is known, the validation loss against the strength."""
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


@needs
def regularization_path(
    learner: Annotated[LargeMarginLearner, Of(LargeMarginLearner, "ChangePointMetricLearner()")],
    X: Any,
    y: Any,
    strengths: _Strengths = 20,
    *,
    validation: Annotated[tuple[Any, Any] | None, _PAIR] = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    ratio: _Ratio = 1e-3,
) -> RegularizationPath:
    """Fit a learner at decreasing strengths. Each fit starts from the previous solution.

    The cuts of the risk do not depend on the regularizer. A fit therefore starts with the cuts of
    the previous solution, too, and needs few oracle calls. Every solution has a certified gap.

    Parameters
    ----------
    learner : a large-margin learner
        The learner is not changed. The strength of its regularizer is ignored.
    X, y, sample_weight, groups
        As for the ``fit`` of the learner.
    strengths : int or array (S,)
        The strengths, or the number of strengths in the grid of the notes.
    validation : (X, y), optional
        Data sets on which the loss of every learner is measured by its method ``score``.
    ratio : float
        Ratio of the least to the greatest strength of a grid.

    Returns
    -------
    RegularizationPath

    Raises
    ------
    ValueError
        For a learner without a strength, and for strengths or data that cannot be used.

    Notes
    -----
    A grid is a geometric progression from a strength for which L1 and trace give B = 0. Let N_i be
    the matrix of the true partition of data set i, T_i its number of samples, and s_i its weight
    divided by the sum of all weights. Every subgradient G of the risk satisfies G ⪰ −H with
    H = Σ s_i Xᵢᵀ N_i Xᵢ / T_i, because XᵢᵀMXᵢ ⪰ 0 for every M. Let μ be the largest eigenvalue of H
    or, for diagonal metrics, its largest diagonal entry. Then no B ≠ 0 lowers the risk by more than
    μ Tr B.

    With partial labels, steps that complete the labels alternate with steps that learn the metric,
    at every strength, as in ``fit``. The last metric step gives the solution. A fit does not start
    from the previous solution, so each strength costs as much as a ``fit``. The grid is computed
    from the first completions.

    References
    ----------
    Teo, Vishwanathan, Smola & Le, Bundle methods for regularized risk minimization, Journal of
    Machine Learning Research 11, 2010 (cuts do not depend on the strength).
    """
    _SCALED.check("regularization_path", "regularizer", learner.regularizer)
    _WITHOUT_CHECKPOINT.check("regularization_path", "solver", learner.solver)
    training = learner.read(X, y, sample_weight, groups)
    statement = learner.stated(training)
    values = _strengths(strengths, statement.problem, ratio)
    learners: list[Any] = []
    losses = []
    warm: Solution | None = None
    for strength in values:
        step = copy.copy(learner).set_params(regularizer__strength=float(strength))
        if statement.training is not training:
            # The first completions depend on the strength.
            statement = step.stated(training)
        else:
            problem = replace(statement.problem, regularizer=step.regularizer, warm=warm)
            statement = replace(statement, problem=problem)
        step, learned = step.solved(statement)
        warm = learned.solution
        step.callbacks = ()
        learners.append(step)
        if validation is not None:
            losses.append(-step.score(*validation))
        if warm.reason == "interrupted":
            break
    solutions = [step.solution_ for step in learners]
    _note_unfinished(solutions, len(values))
    return RegularizationPath(
        values[: len(solutions)],
        solutions,
        learners,
        np.array([_weights(statement.problem, solution) for solution in solutions]),
        np.array(losses) if losses else None,
        bool(learner.metric.polyhedral),
    )


def _note_unfinished(solutions: Sequence[Solution], wanted: int) -> None:
    """Warn if some solutions of a path of ``wanted`` strengths stopped before their tolerance."""
    unfinished = [solution.relative_gap for solution in solutions if not solution.converged]
    if unfinished:
        remedy = "raise the solver's max_rounds or its tolerance"
        if solutions[-1].reason == "interrupted":
            remedy = f"call it again, it was interrupted at {len(solutions)} of {wanted}"
        early = f"{len(unfinished)} of its solutions early, at relative gaps up to"
        sentence = f"regularization_path stopped {early} {max(unfinished):.2g}; {remedy}."
        note(sentence, ConvergenceWarning)


def _strengths(strengths: int | ArrayLike, problem: Problem, ratio: float) -> NDArray:
    """Return the strengths in decreasing order, or a grid if ``strengths`` is a number.

    See the notes of :func:`regularization_path`.
    """
    if np.ndim(strengths) == 1:
        return np.unique(real_array("regularization_path", "strengths", strengths, 1))[::-1]
    greatest = -problem.cone.metric.least(-problem.risk.truth_slope)
    if not greatest > 1e-12 * problem.cone.n_features:
        raise ValueError(
            "regularization_path needs labels that the data tell apart, but no segment's mean "
            "differs from that of its data set; pass strengths, or other labels."
        )
    grid = np.geomspace(greatest, ratio * greatest, int(strengths))  # type: ignore[arg-type]
    # A power of two changes no digit.
    return grid * problem.cone.unit**2


def _weights(problem: Problem, solution: Solution) -> NDArray:
    """Return the weights of the features, or the eigenvalues of B in decreasing order, (P,)."""
    metric, _ = problem.cone.split(solution.w)
    matrix = problem.cone.metric.matrix(metric / problem.cone.unit**2)
    if problem.cone.metric.polyhedral:
        return np.diag(matrix)
    values = np.linalg.eigvalsh(matrix)[::-1]
    # Eigenvalues beyond the rank are rounding.
    return np.where(np.arange(len(values)) < solution.rank, values, 0.0)
