"""Callbacks of solvers: a progress bar, early stopping, a time limit, a log of scalars."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from tqdm import tqdm

from metriclearn.running.parameters import Needs, check_parameters, number

_SECONDS = number()


def is_interrupt(error: BaseException) -> bool:
    """Whether an error was caused by Ctrl-C.

    In compiled code, or while it is loaded, Ctrl-C becomes the cause of a SystemError.
    """
    while error.__cause__ is not None:
        error = error.__cause__
    return isinstance(error, KeyboardInterrupt)


@dataclass(frozen=True)
class Progress:
    """The state that a callback gets after each round.

    ``estimator`` is missing if a solver runs without a learner.
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
        """objective − lower_bound, divided by the objective with no metric."""
        return (self.objective - self.lower_bound) / max(self.scale, 1e-300)


@runtime_checkable
class Callback(Protocol):
    """Watches a solver."""

    def on_round(self, progress: Progress) -> bool | None:
        """Called after every round; True asks the solver to stop."""

    def on_end(self, solution: Any) -> None:
        """Called once, with the solver's :class:`~metriclearn.solvers.base.Solution`."""
        return None


class ProgressBar(Callback):
    """Show rounds, objective and relative gap with tqdm.

    Parameters
    ----------
    title : str
    shown : bool or None
        True shows the bar at once, False never, and None in a terminal after a few seconds.
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
        """End the bar."""
        self._bar.close()


@dataclass(eq=False, repr=False)
class EarlyStopping(Callback, BaseEstimator):
    """Stop when the score on held-out data sets has not improved for a while.

    The learner keeps the metric with the lowest training objective, not with the best score.

    Parameters
    ----------
    X, y : data sets and labels, as for the learner's ``score``
    patience : int
        Number of scores without improvement before it stops.
    every : int
        Rounds between two scores.
    min_improvement : float
        Least increase of the score that counts.

    Attributes
    ----------
    scores_ : list of float
        One per evaluation.
    rounds_ : list of int

    Raises
    ------
    ValueError
        If a parameter is out of range, or a solver runs without a learner.

    References
    ----------
    Prechelt, Early stopping, but when?, in Neural Networks: Tricks of the Trade, 1998.
    """

    PARAMETERS: ClassVar[Mapping[str, Needs]] = {
        "patience": number(1, whole=True),
        "every": number(1, whole=True),
        "min_improvement": number(),
    }

    X: Any
    y: Any
    patience: int = 5
    every: int = 1
    min_improvement: float = 0.0

    def __post_init__(self) -> None:
        check_parameters(self)

    def on_round(self, progress: Progress) -> bool:
        """Score the best metric so far; True if the last ``patience`` scores did not improve."""
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
    """Stop a run after some seconds; the gap of the solution bounds its distance to the optimum.

    The clock starts at the end of the first round and is read after every other round.

    Parameters
    ----------
    seconds : float
        Time for every run, that is, for every strength of a path, and for every alternation with
        partial labels.
    clock : callable () -> float
        Returns seconds since any fixed moment: ``time.perf_counter``, or ``time.process_time`` for
        processor time.
    """

    seconds: float
    clock: Callable[[], float] = time.perf_counter
    _begun: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        _SECONDS.check("TimeLimit", "seconds", self.seconds)

    def on_round(self, progress: Progress) -> bool:
        """True after the time limit."""
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
        For instance TensorBoard's ``SummaryWriter().add_scalar`` or ``mlflow.log_metric``.
    prefix : str
        Prefix of every name.

    Raises
    ------
    Exception
        Any error that ``log`` raises; it ends the training.

    See Also
    --------
    EarlyStopping : a callback that ends the training.

    Examples
    --------
    >>> rows = []
    >>> log = ScalarLog(lambda name, value, step: rows.append((name, value, step)))
    """

    def __init__(self, log: Callable[[str, float, int], Any], prefix: str = "metriclearn/") -> None:
        self.log, self.prefix = log, prefix

    def on_round(self, progress: Progress) -> None:
        """Log one round."""
        for name in ("objective", "lower_bound", "relative_gap", "oracle_calls", "cache_hits"):
            self.log(self.prefix + name, float(getattr(progress, name)), progress.round)

    def on_end(self, solution: Any) -> None:
        """Log the rank of the solution."""
        self.log(self.prefix + "rank", float(solution.rank), len(solution.trace))
