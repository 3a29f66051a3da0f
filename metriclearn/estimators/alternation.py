"""Learning from partial labels: complete the labels, learn the metric, repeat (section 5.2).

With known_i what is known of data set i, H_i a completion (a partition that agrees with it) and
s_w(M) = (1/T)[⟨A_w, M⟩ − λ Tr M] the score, alternation minimizes

    F(w, H) = Σ_i s_i { max_M [ α ℓ(M, known_i) + s_w(M) ] − s_w(H_i) } + Ω(w)

over w = (B, λ) and the completions. ℓ(M, known) charges M only where something is known (for
segmentations :class:`~metriclearn.problem.known_loss.KnownLoss`, for clusterings the rows of
labeled samples, :class:`~metriclearn.problem.losses.FrobeniusLoss`), so that missing labels cost
nothing: where nothing is known, the hinge only asks that H_i be as good as the best M. Given H, F
is convex in w and is Eq. (9) when everything is known; given w, the best H_i is the partition of
highest score that agrees with known_i. This is the concave-convex procedure for the latent
structured hinge max_M [α ℓ + s_w(M)] − max_H s_w(H) (Yu & Joachims 2009), of which F is an upper
bound.

Both steps lower F: the first one exactly when the completion oracle is exact, as it is for
change-points; a completion that does not raise the score is not taken, and a step that would
raise F, which only a loss that looks at the completions can cause, ends the alternation. The
second starts from the w it has, with all its cuts moved to the new completions (they stay valid,
as only the linear part −s_w(H) changes).

References: R. Lajugie, S. Arlot, F. Bach, section 5.2; C.-N. Yu and T. Joachims, Learning
structural SVMs with latent variables, ICML 2009.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from metriclearn.estimators.first_completion import FirstMetric, KnownStart
from metriclearn.problem.partition import Partition
from metriclearn.problem.risk import StructuredHinge, move_cuts
from metriclearn.running.parameters import Needs, component, number
from metriclearn.solvers.base import CutMemory, Solution, Trace
from metriclearn.solvers.checkpoint import Checkpoint

__all__ = [
    "Alternation",
    "AlternationTrace",
    "alternate",
]

_LOGGER = logging.getLogger(__name__)


class Alternation(BaseEstimator):
    """How to alternate between completing labels and learning the metric.

    Parameters
    ----------
    max_alternations : int
        Metric steps at most; 1 learns from the first completion only.
    start : FirstMetric
        The metric of the first completion: ``KnownStart()``, or ``PrincipalStart()`` as in the
        paper.
    checkpoint : str or None
        File that keeps the state after every metric step; an interrupted run of the same problem
        goes on from there, with the same result.
    """

    PARAMETERS: ClassVar[Mapping[str, Needs]] = {
        "max_alternations": number(1, whole=True),
        "start": component(FirstMetric, "KnownStart()"),
    }

    def __init__(
        self,
        max_alternations: int = 20,
        start: FirstMetric = KnownStart(),  # noqa: B008  # has no state
        checkpoint: str | None = None,
    ) -> None:
        self.max_alternations = max_alternations
        self.start = start
        self.checkpoint = checkpoint


@dataclass
class AlternationTrace:
    """What happened, one entry per metric step.

    Attributes
    ----------
    completed, learned : list of float
        F after completing (before the first step, of the first completion with no metric) and
        after learning: completed[0] ≥ learned[0] ≥ completed[1] ≥ …
    changed : list of int
        How many completions differ from the ones before.
    reason : str
        "settled" (completions repeat), "stalled" (completing does not lower F),
        "max_alternations", or the solver's "interrupted" or "callback".
    """

    completed: list[float] = field(default_factory=list)
    learned: list[float] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)
    reason: str = "max_alternations"

    def __len__(self) -> int:
        return len(self.learned)


def alternate(
    problem: Any, solve: Callable[[Any], Solution], settings: Alternation
) -> tuple[Solution, StructuredHinge, AlternationTrace]:
    """Learn from the completions of a risk, complete, and so on until completions repeat.

    Parameters
    ----------
    problem : Problem
        Whose risk, a :class:`StructuredHinge`, has the first completions and one function per data
        set.
    solve : callable (Problem) -> Solution
        Minimizes the problem with other completions, from an earlier solution where it has one.
    settings : Alternation

    Returns
    -------
    the last solution, the hinge with its completions, and the trace
    """
    hinge, omega = problem.risk, problem.regularizer.terms(problem.cone)
    file = Checkpoint(settings.checkpoint, "Alternation")
    zero = np.zeros(hinge.cone.size)
    if settings.checkpoint:
        file.identify(*hinge(zero), hinge.identity, *(truth.labels for truth in hinge.truths))
    trace, state = AlternationTrace(), file.load()
    if state is None:
        trace.changed.append(len(hinge.truths))
        solution = solve(problem)
        trace.completed.append(solution.scale)
        trace.learned.append(solution.objective)
    else:
        solution, hinge, trace = _restored(state, hinge)
    seen = {tuple(hinge.truths)}
    while len(trace) < settings.max_alternations and solution.reason not in _STOPPED:
        file.save(_state(solution, hinge, trace) if settings.checkpoint else {})
        truths = hinge.complete(solution.w)
        after = hinge.completed(truths)
        objective = after(solution.w).mean + omega(solution.w)
        if tuple(truths) in seen or objective > solution.objective + 1e-12 * solution.scale:
            trace.reason = "settled" if tuple(truths) in seen else "stalled"
            break
        seen.add(tuple(truths))
        trace.changed.append(sum(a != b for a, b in zip(truths, hinge.truths)))
        memory = None
        if solution.cuts is not None and hinge.completion_free:
            memory = move_cuts(solution.cuts, hinge, after)
        solution = solve(replace(problem, risk=after, warm=replace(solution, cuts=memory)))
        hinge = after
        trace.completed.append(objective)
        trace.learned.append(solution.objective)
        _LOGGER.info("metric step %d: F %.6g, %d completions new", *_facts(trace))
    if solution.reason in _STOPPED:
        trace.reason = solution.reason
    return solution, hinge, trace


_STOPPED = ("interrupted", "callback")


def _facts(trace: AlternationTrace) -> tuple[int, float, int]:
    return len(trace), trace.learned[-1], trace.changed[-1]


def _state(
    solution: Solution, hinge: StructuredHinge, trace: AlternationTrace
) -> dict[str, NDArray]:
    """Everything :func:`_restored` needs, as arrays."""
    state = {
        "w": solution.w,
        "numbers": np.array([solution.objective, solution.lower_bound, solution.scale]),
        "reason": np.array(solution.reason),
        "rank": np.array(solution.rank),
        "steps": np.array([trace.completed, trace.learned, trace.changed]),
        "solver": np.array(
            [getattr(solution.trace, name) for name in type(solution.trace).__dataclass_fields__]
        ),
        "labels": np.concatenate([truth.labels for truth in hinge.truths]),
    }
    if solution.cuts is not None:
        offset, slope = solution.cuts.anchor
        arrays = {f"cut_{k}": v for k, v in solution.cuts._asdict().items() if k != "anchor"}
        state |= arrays | {"anchor_offset": np.array(offset), "anchor_slope": slope}
    return state


def _restored(
    state: dict[str, NDArray], hinge: StructuredHinge
) -> tuple[Solution, StructuredHinge, AlternationTrace]:
    rows = state["solver"].tolist()
    cuts = None
    if "anchor_slope" in state:
        anchor = (float(state["anchor_offset"]), state["anchor_slope"])
        names = [name for name in CutMemory._fields if name != "anchor"]
        cuts = CutMemory(**{name: state[f"cut_{name}"] for name in names}, anchor=anchor)
    objective, lower_bound, scale = state["numbers"].tolist()
    solution = Solution(
        state["w"],
        objective,
        lower_bound,
        scale,
        str(state["reason"]),
        Trace(*rows[:3], *([int(value) for value in row] for row in rows[3:])),
        int(state["rank"]),
        cuts,
    )
    sizes = [truth.n_samples for truth in hinge.truths]
    parts = np.split(state["labels"], np.cumsum(sizes)[:-1])
    truths = [
        truth.with_completion(Partition.from_labels(labels))
        for labels, truth in zip(parts, hinge.truths)
    ]
    completed, learned, changed = state["steps"].tolist()
    trace = AlternationTrace(completed, learned, [int(number) for number in changed])
    return solution, hinge.completed(truths), trace
