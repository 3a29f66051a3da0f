"""Callbacks of solvers: a progress bar, early stopping, a time limit, a log of scalars."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol, runtime_checkable

from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from tqdm import tqdm

from metriclearn.running.parameters import Each, Of, Real, Whole, check_parameters


@dataclass(frozen=True)
class Progress:
    """The state of a solver that a callback gets after each round.

    If the solver runs without a learner, ``estimator`` is None.
    """

    round: int
    objective: float
    lower_bound: float
    scale: float
    w: NDArray
    oracle_calls: int = 0
    cache_hits: int = 0
    estimator: Callable[[], Any] | None = None

    @property
    def relative_gap(self) -> float:
        """The gap objective − lower_bound, divided by ``scale``."""
        return (self.objective - self.lower_bound) / max(self.scale, 1e-300)


@runtime_checkable
class Callback(Protocol):
    """Protocol of objects that are called while a solver runs."""

    def on_round(self, progress: Progress) -> bool | None:
        """Called after every round. If it returns True, the solver stops."""

    def on_end(self, solution: Any) -> None:
        """Called once at the end, with the :class:`~metriclearn.solvers.base.Solution`."""
        return None


Callbacks = Annotated[
    Sequence[Callback],
    Each(Of(Callback, "EarlyStopping"), "callbacks with the methods on_round and on_end"),
]


class ProgressBar(Callback):
    """Show rounds, objective and relative gap with tqdm.

    Parameters
    ----------
    title : str
        Text in front of the bar.
    shown : bool or None
        If True, the bar is shown at once; if False, never. With None, a terminal shows the bar
        after a few seconds.
    """

    def __init__(self, title: str, shown: bool | None = True) -> None:
        disable = None if shown is None else not shown
        self._bar = tqdm(desc=title, disable=disable, delay=3 if shown is None else 0, unit="round")

    def on_round(self, progress: Progress) -> None:
        """Advance by one round."""
        gap = f"{progress.relative_gap:.1e}"
        self._bar.set_postfix(objective=f"{progress.objective:.4g}", gap=gap, refresh=False)
        self._bar.update()

    def close(self) -> None:
        """Close the progress bar."""
        self._bar.close()


@dataclass(eq=False, repr=False)
class EarlyStopping(Callback, BaseEstimator):
    """Stop when the score on held-out data sets has not improved for a while.

    The learner keeps the metric with the lowest training objective, not the one with the best
    score.

    Parameters
    ----------
    X, y : data sets and labels, as for the learner's ``score``
        The held-out data.
    patience : int
        The learner stops after this number of scores without an improvement.
    every : int
        Number of rounds from one score to the next.
    min_improvement : float
        Smallest increase of the score that is considered an improvement.

    Attributes
    ----------
    scores_ : list of float
        All scores.
    rounds_ : list of int
        The round after which each score was computed.

    Raises
    ------
    ValueError
        If a parameter is out of range, or a solver runs without a learner.

    References
    ----------
    Prechelt, Early stopping, but when?, in Neural Networks: Tricks of the Trade, 1998.
    """

    X: Any
    y: Any
    patience: Annotated[int, Whole(1)] = 5
    every: Annotated[int, Whole(1)] = 1
    min_improvement: Annotated[float, Real()] = 0.0

    def __post_init__(self) -> None:
        check_parameters(self)

    def on_round(self, progress: Progress) -> bool:
        """Score the best metric so far. Stop if the last ``patience`` scores did not improve."""
        if progress.estimator is None:
            raise ValueError(
                "EarlyStopping needs a learner to score, got a bare solver; pass it as a "
                "learner's callback."
            )
        if progress.round <= 1 or not hasattr(self, "scores_"):
            self.scores_: list[float] = []
            self.rounds_: list[int] = []
        if progress.round % self.every:
            return False
        self.scores_.append(float(progress.estimator().score(self.X, self.y)))
        self.rounds_.append(progress.round)
        earlier, recent = self.scores_[: -self.patience], self.scores_[-self.patience :]
        return bool(earlier) and max(recent) <= max(earlier) + self.min_improvement


@dataclass(eq=False, repr=False)
class TimeLimit(Callback, BaseEstimator):
    """Stop a solver after some seconds.

    The objective of the solution then exceeds the optimum by at most the gap, objective − lower
    bound. The time is counted from the end of the first round, and is checked at the end of each
    following round.

    Parameters
    ----------
    seconds : float
        Time limit of one run of the solver. A regularization path starts the solver once for every
        strength. Training from partial labels starts the solver again after each completion of the
        labels.
    clock : callable () -> float
        Function that returns seconds since some fixed moment, such as ``time.perf_counter``, or
        ``time.process_time`` for CPU time.
    """

    seconds: Annotated[float, Real()]
    clock: Callable[[], float] = time.perf_counter
    _begun: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_parameters(self)

    def on_round(self, progress: Progress) -> bool:
        """Stop the solver if the time limit has passed."""
        now = self.clock()
        if self._begun is None or progress.round <= 1:  # a failed run may have left the clock on
            self._begun = now
        return now - self._begun >= self.seconds

    def on_end(self, solution: Any) -> None:
        """Reset the clock."""
        self._begun = None


class ScalarLog(Callback):
    """Pass objective, lower bound, gap and oracle counts to a function after every round.

    Parameters
    ----------
    log : callable (name, value, step)
        The function, such as TensorBoard's ``SummaryWriter().add_scalar`` or
        ``mlflow.log_metric``.
    prefix : str
        Prefix of every name.

    Raises
    ------
    Exception
        If ``log`` raises an error. The error ends the training.

    See Also
    --------
    EarlyStopping : a callback that can end the training.

    Examples
    --------
    >>> rows = []
    >>> log = ScalarLog(lambda name, value, step: rows.append((name, value, step)))
    """

    def __init__(self, log: Callable[[str, float, int], Any], prefix: str = "metriclearn/") -> None:
        self.log, self.prefix = log, prefix

    def on_round(self, progress: Progress) -> None:
        """Pass the values of this round to the function ``log``."""
        for name in ("objective", "lower_bound", "relative_gap", "oracle_calls", "cache_hits"):
            self.log(self.prefix + name, float(getattr(progress, name)), progress.round)

    def on_end(self, solution: Any) -> None:
        """Pass the rank of the solution to the function ``log``."""
        self.log(self.prefix + "rank", float(solution.rank), len(solution.trace))
