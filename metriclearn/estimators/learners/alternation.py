"""Learning from partial labels: complete the labels, learn the metric, repeat.

Let known_i be the partial labels of data set i, H_i a completion (a partition that agrees with
them), and s_w(M) = (1/T)[⟨A_w, M⟩ − λ Tr M] the score. Alternation minimizes

    F(w, H) = Σ_i s_i { max_M [ α ℓ(M, known_i) + s_w(M) ] − s_w(H_i) } + Ω(w)

over w = (B, λ) and the completions. The loss ℓ(M, known) is zero on unlabeled parts. For
segmentations it is :class:`~metriclearn.problem.losses.KnownLoss`; for clusterings it is
:class:`~metriclearn.problem.losses.FrobeniusLoss`, which sums only the rows of M − H_i that belong
to labeled samples. On unlabeled stretches the hinge has no margin: it only requires that no M has a
higher score than H_i. Given H, F is convex in w. If all labels are known, F is the objective of
Eq. (9). Given w, the best H_i is the partition with the highest score that agrees with known_i.
This alternation is the concave-convex procedure of Yu & Joachims (2009) for the latent structured
hinge

    max_M [α ℓ + s_w(M)] − max_H s_w(H).

F is an upper bound on the objective with this hinge.

The completion step finds the best H_i if its oracle is exact, as for change-points. A new
completion replaces the old one only if its score is higher. If the loss does not depend on the
completions, neither step raises F. Otherwise new completions may raise F. The alternation then
ends, and the old completions are kept. The metric step starts from the present w. If the loss does
not depend on the completions, the metric step also reuses its earlier cuts, in which only the
linear part −s_w(H) changes.

References: R. Lajugie, S. Arlot, F. Bach, Large-Margin Metric Learning for Partitioning Problems,
section 5.2; C.-N. Yu and T. Joachims, Learning structural SVMs with latent variables, ICML 2009.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from metriclearn.problem.named_segments import NamedPartition
from metriclearn.problem.partial_labels import PartialPartition
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import CheckpointPath, Of, Whole
from metriclearn.solvers.base import CutMemory, Problem, Solution, Trace
from metriclearn.solvers.iteration import Iteration, Stop
from metriclearn.views.whiten import principal_components

_LOGGER = logging.getLogger(__name__)


Piece = tuple[NDArray, Partition | PartialPartition]


@runtime_checkable
class FirstMetric(Protocol):
    """Computes the metric under which partial labels are completed for the first time."""

    def components(self, arrays: Sequence[NDArray], learned: Callable[[], NDArray]) -> NDArray:
        """Return the components Lᵀ, (r, P), of the first metric for the rows of all data sets.

        ``learned()`` returns the components that the learner learns from the labeled parts alone.
        There are none (r = 0) if these parts contain no change.
        """
        ...


@dataclass(eq=False, repr=False)
class PrincipalStart(BaseEstimator):
    """Start from principal components of the standardized data, as in section 5.2 of the paper.

    Parameters
    ----------
    n_components : int
        Number of components; all of them if there are fewer features.

    Raises
    ------
    ValueError
        From the learner's ``fit``, for parameters that cannot be used.
    """

    n_components: Annotated[int, Whole(1)] = 10

    def components(self, arrays: Sequence[NDArray], *_: Any) -> NDArray:
        """Compute the leading eigenvectors of the pooled correlation matrix.

        The entries of the eigenvectors are divided by the standard deviations of the features.
        """
        return principal_components(arrays, self.n_components)[1]


class KnownStart(BaseEstimator):
    """Start from a metric that is learned from the labeled parts only.

    The labeled parts of a sequence are its annotated stretches, and each stretch becomes a separate
    data set. All labeled samples of a table together become one data set. If all labels in these
    data sets are known, learning from them is the convex problem for full labels, so wrong
    completions cannot affect the metric. A stretch may contain annotated regions in which the
    positions of changes are unknown. The labels of such a stretch are first completed under the
    metric of principal components. If the labeled parts contain no changes, principal components
    are used instead of a learned metric. On one draw of the synthetic data with 30 % of the labels,
    three regularizers had the validation losses 0.25, 0.44 and 1.11. With principal components, the
    losses were 1.32, 1.04 and 1.69.

    See Also
    --------
    Alternation : where it is used.
    PrincipalStart : the first metric of the paper.

    Examples
    --------
    >>> from metriclearn import ChangePointMetricLearner
    >>> from metriclearn.estimators import Alternation, KnownStart
    >>> learner = ChangePointMetricLearner(alternation=Alternation(start=KnownStart()))
    """

    def components(self, arrays: Sequence[NDArray], learned: Callable[[], NDArray]) -> NDArray:
        """Return the learned components, or principal components if there are none."""
        found = learned()
        return found if len(found) else PrincipalStart().components(arrays)


def labeled_samples(array: NDArray, known: PartialPartition) -> list[Piece]:
    """Return the labeled samples of a table as one piece in a list.

    The list is empty if fewer than two samples are labeled.
    """
    rows = np.flatnonzero(known.labels >= 0)
    return [(array[rows], Partition.from_labels(known.labels[rows]))] if len(rows) > 1 else []


@dataclass(eq=False, repr=False)
class Alternation(BaseEstimator):
    """Settings for the alternation between completing labels and learning the metric.

    Parameters
    ----------
    max_alternations : int
        Largest number of metric steps. With 1, the metric is learned from the first completion
        only.
    start : FirstMetric
        The metric for the first completion: ``KnownStart()``, or ``PrincipalStart()`` as in the
        paper.
    checkpoint : str or None
        A file in which the state is saved after every metric step. After an interruption, a new run
        of the same problem resumes from this file, and gives the same result.

    Raises
    ------
    ValueError
        From the learner's ``fit``, for parameters that cannot be used.

    References
    ----------
    Lajugie, Arlot & Bach, Large-Margin Metric Learning for Partitioning Problems,
    arXiv:1303.1280, section 5.2.
    """

    max_alternations: Annotated[int, Whole(1)] = 20
    start: Annotated[FirstMetric, Of(FirstMetric, "KnownStart()")] = KnownStart()  # noqa: RUF009  # has no state
    checkpoint: CheckpointPath = None


@dataclass
class AlternationTrace:
    """The progress of the alternation, with one entry for each metric step.

    Attributes
    ----------
    completed, learned : list of float
        F after completing and after learning: completed[0] ≥ learned[0] ≥ completed[1], and so on.
        The first value, completed[0], is F of the first completion under the metric at which the
        solver starts. This metric is zero or small.
    changed : list of int
        Number of data sets that got a different completion in this step. The first entry counts all
        data sets.
    reason : str
        "settled" (completions repeat), "stalled" (new completions would raise F),
        "max_alternations", or the solver's "interrupted" or "callback".
    """

    completed: list[float] = field(default_factory=list)
    learned: list[float] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)
    reason: str = "max_alternations"

    def __len__(self) -> int:
        return len(self.learned)


@dataclass(eq=False, repr=False)
class Turns(Iteration):
    """Alternate between completing labels and learning the metric until completions repeat.

    Every round except the first completes the labels anew, and every round learns the metric. After
    ``run``, the risk of ``problem`` has the last completions, and ``trace`` holds all
    steps.

    Parameters
    ----------
    problem : Problem
        Its risk is a :class:`StructuredHinge` with the first completions. The hinge does not group
        data sets, so there are cuts for every data set.
    solve : callable (Problem) -> Solution
        Minimizes the problem for the present completions. If the problem has a solution for earlier
        completions, the search starts from it.
    settings : Alternation
    """

    kept = (*Iteration.kept, "rows")
    problem: Problem
    solve: Callable[[Problem], Solution]
    settings: Alternation
    last: Solution = field(init=False)
    # Columns: F after completing, F after learning, changed labels.
    rows: NDArray = field(default_factory=partial(np.empty, (0, 3)), init=False)

    def identity(self) -> Sequence[Any]:
        """Return the values that identify the problem of a checkpoint.

        The values are the cuts at w = 0, the settings of the hinge, and the first completions.
        """
        hinge = self.problem.risk
        cuts = hinge(np.zeros(self.problem.cone.size))
        labels = [truth.labels for truth in hinge.truths]
        return *cuts, hinge.identity, *labels, *_names(hinge.truths)

    def begin(self) -> None:
        """Store the first completions, so that later rounds can detect a repetition."""
        self.seen = [list(self.problem.risk.truths)]

    def step(self) -> None:
        """Complete the labels, except in the first round, and learn the metric."""
        problem, before = self.problem, self.problem.risk
        changed = len(before.truths)
        if self.round > 0:
            last = self.last
            truths, slopes = before.complete(last.w)
            if truths in self.seen:
                raise Stop("settled")
            after = replace(before, truths=truths)
            completed = after(last.w).mean + problem.terms(last.w)
            if completed > last.objective + 1e-12 * last.scale:
                raise Stop("stalled")
            self.seen.append(truths)
            cuts = None
            if last.cuts is not None and getattr(before.terms.loss, "completion_free", False):
                # Every hinge changes by a linear function. Added to its cuts, it keeps them valid.
                table = last.cuts.table.copy()
                table["slope"] += slopes[table["group"]]
                anchor = last.cuts.anchor_slope + after.weights @ slopes
                cuts = last.cuts._replace(table=table, anchor_slope=anchor)
            problem = replace(problem, risk=after, warm=replace(last, cuts=cuts))
            changed = sum(map(operator.ne, truths, before.truths))
        self.last, self.problem = self.solve(problem), problem
        self.objective = self.last.objective
        if self.round == 0:
            completed = self.last.scale
        self.rows = np.vstack([self.rows, [completed, self.objective, changed]])
        if self.last.reason in ("interrupted", "callback"):
            raise Stop(self.last.reason)

    def record(self) -> None:
        """Log the step, and return None, because the solver has already reported its rounds."""
        _, learned, changed = self.rows[-1]
        _LOGGER.info("metric step %d: F %.6g, %d new completions", self.round, learned, changed)

    def solved(self) -> bool:
        """Return False: only the next completion shows whether the alternation has converged."""
        return False

    def solution(self, reason: str) -> Solution:
        """Return the solution of the last metric step.

        If the alternation was interrupted, the reason of the solution is "interrupted".
        """
        completed, learned = self.rows[:, :2].T.tolist()
        changed = self.rows[:, 2].astype(int).tolist()
        reason = "max_alternations" if reason == "max_rounds" else reason
        self.trace = AlternationTrace(completed, learned, changed, reason)
        return replace(self.last, reason=reason) if reason == "interrupted" else self.last

    def state(self) -> dict[str, Any]:
        """Return the steps, the completions and the last solution with its trace and cuts."""
        truths = self.problem.risk.truths
        solution = vars(self.last) | {"trace": self.last.trace.rows}
        solution["labels"] = np.concatenate([truth.labels for truth in truths])
        if names := _names(truths):
            solution["names"] = np.concatenate(names)
        cuts = solution.pop("cuts")
        return super().state() | solution | ({} if cuts is None else cuts._asdict())

    def restore(self, state: Mapping[str, NDArray]) -> None:
        """Restore the steps, the completions and the last solution from a :meth:`state`."""
        super().restore(state)
        values: dict[str, Any] = {k: v if v.ndim else v.item() for k, v in state.items()}
        values["trace"] = Trace.of(values["trace"])
        values["cuts"] = None
        if "table" in values:
            values["cuts"] = CutMemory(**{name: values[name] for name in CutMemory._fields})
        self.last = Solution(**{name: values[name] for name in Solution.__dataclass_fields__})
        risk = self.problem.risk
        stops = np.cumsum([truth.n_samples for truth in risk.truths])[:-1]
        found = list(map(Partition.from_labels, np.split(values["labels"], stops)))
        if "names" in values:
            names = np.split(values["names"], stops)
            ends = [one.change_points for one in found]
            found = [NamedPartition(at, row[at - 1]) for at, row in zip(ends, names)]
        truths = list(risk.truths)
        for i, truth in enumerate(truths):
            if (known := truth.partial_labels) is not None:
                truths[i] = known.with_completion(found[i])
        self.problem = replace(self.problem, risk=replace(risk, truths=truths))
        self.seen = [truths]


def _names(truths: Sequence[Any]) -> list[NDArray]:
    """List the names of the samples of every data set; empty if segments have no names."""
    return [truth.sample_names for truth in truths if isinstance(truth, NamedPartition)]
