"""SegmentScore: the frozen value with which every fitted segmenter predicts.

Prediction, given counts, known labels, margins, tuned penalties and streams are functions of this
value. A fit makes it, and nothing changes it: another penalty is another value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from metriclearn.estimators.reading.labels import refuse_unlabeled
from metriclearn.oracles.change_points import (
    ChangePoints,
    ConstrainedChangePoints,
    segmentation_oracle,
)
from metriclearn.oracles.change_points.margins import BoundaryMargins, boundary_margins
from metriclearn.oracles.penalty_search import best_penalty
from metriclearn.problem.forms import LowRankForm, cumulative_sums
from metriclearn.problem.losses import ChargedForm
from metriclearn.problem.named_segments import NamedPartition, NameScores
from metriclearn.problem.partition import Partition
from metriclearn.views.chain import Chain
from metriclearn.views.gaps import placed
from metriclearn.views.plain import leaves_out, rows_of, says, widest

Form = LowRankForm | ChargedForm


class Reading(NamedTuple):
    """The parts of a recording that a score sees.

    Attributes
    ----------
    rows : array (T, Q)
        The rows of the metric.
    names : array (T, C) or None
        The score of every name in every sample, if names were learned.
    boundaries : array (T + 1,) or None
        The penalty of a change at every position, if such penalties were learned.
    """

    rows: NDArray
    names: NDArray | None
    boundaries: NDArray | None


@dataclass(frozen=True, eq=False)
class SegmentScore:
    """The score of a segmentation into segments (s, u] with names c.

    The score is Σ [‖S_u − S_s‖²_B / (u−s) + Σ_{t in (s,u]} ⟨W_c, φ_t⟩ − λ] minus the learned
    penalties of changes. S are the cumulative sums of the rows that ``view`` gives.

    Attributes
    ----------
    components : array (r, Q)
        Lᵀ of the metric B = LLᵀ.
    penalty : float or None
        λ; None if the number of segments has to be given.
    unit : None or "variance"
        With None, the penalty is a squared distance. With "variance", it is multiplied by the
        variance of each recording under the metric. Names, and penalties of changes, need None.
    min_size : int
        Smallest number of samples in a segment.
    names : NameWeights or None
        The scores of names, if names were learned.
    boundaries : FeaturePenalty or None
        The penalties of changes, if they were learned.
    view : fitted view or None
        Converts a recording to the rows of the metric.
    oracle : Oracle or None
        Replaces the exact search for segmentations that need not agree with labels.

    Raises
    ------
    ValueError
        For a unit together with names or penalties of changes. These are in the unit of the data.
        In a recording that varies little, they would outweigh its penalty, and every row would be a
        segment.

    See Also
    --------
    metriclearn.ChangePointMetricLearner : learns a score; it is the attribute ``score_``.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.estimators import SegmentScore
    >>> score, X = SegmentScore(np.eye(1), 1.0), np.repeat([[0.0], [3.0]], 4, axis=0)
    >>> score.segment(X).change_points.tolist()
    [4, 8]
    >>> score.at(100.0).segment(X).change_points.tolist()
    [8]
    """

    components: NDArray
    penalty: float | None
    unit: str | None = None
    min_size: int = 1
    names: Any = None
    boundaries: Any = None
    view: Any = None
    oracle: Any = None

    def __post_init__(self) -> None:
        if self.unit is not None and self.units == (None,):
            raise ValueError(
                "SegmentScore needs a penalty in the unit of the data beside names or penalties of "
                f"positions, got unit={self.unit!r}; pass unit=None."
            )

    @property
    def units(self) -> tuple[str | None, ...]:
        """The units that the penalty may have."""
        alone = self.names is not None or self.boundaries is not None
        return (None,) if alone else (None, "variance")

    def at(self, penalty: float | None, unit: str | None = None) -> Self:
        """Return the same score with another penalty."""
        return replace(self, penalty=penalty, unit=unit)

    def through(self, view: Any) -> Self:
        """Return the same score for recordings, from which a fitted view computes the rows.

        The components of a linear view are in the units of the recordings.
        """
        if not hasattr(view, "matrix_") or self.names or self.boundaries:
            return replace(self, view=view)
        if hasattr(view, "composed"):
            return replace(self, components=view.composed(self.components))
        return replace(self, components=self.components @ view.matrix_)

    def behind(self, view: Any) -> Self:
        """Return the same score for recordings from which a fitted view computes its rows."""
        return replace(self, view=view if self.view is None else Chain.of_fitted(view, self.view))

    def agrees_with(self, other: SegmentScore) -> bool:
        """Tell whether both scores have the same metric, names and penalty."""
        coefs: Any = [None if one.names is None else one.names.coef for one in (self, other)]
        return (
            (self.penalty, self.unit) == (other.penalty, other.unit)
            and np.array_equal(self.components, other.components)
            and np.array_equal(*coefs)
        )

    @property
    def classes(self) -> NDArray | None:
        """The names that were learned, or None."""
        return None if self.names is None else self.names.classes

    @property
    def has_choice(self) -> bool:
        """Whether the penalty can be tuned: there is a metric, or one that is 0 on purpose."""
        return len(self.components) > 0

    @property
    def is_of_names_alone(self) -> bool:
        """Whether the metric is 0 on purpose, as for :class:`~metriclearn.estimators.Viterbi`."""
        return self.names is not None and self.has_choice and not self.components.any()

    def rows(self, X: NDArray, seen: dict[Any, NDArray] | None = None) -> NDArray:
        """Compute the rows that the metric sees, see :func:`~metriclearn.views.plain.rows_of`."""
        return rows_of(self.view, X, seen)

    def kept(self, X: NDArray) -> NDArray[np.int64] | None:
        """Return the numbers of the rows that the view keeps; None if it keeps all rows."""
        return self.view.kept([X])[0] if leaves_out(self.view) else None

    def read(
        self, X: NDArray, seen: dict[Any, NDArray] | None = None, rows: NDArray | None = None
    ) -> Reading:
        """Compute scores of names and penalties of changes from the ``rows`` that the metric sees.

        By default these are the rows of the view.
        """
        rows = rows_of(self.view, X, seen) if rows is None else rows
        names = None if self.names is None else self.names.scores(rows, seen)
        penalties = None if self.boundaries is None else self.boundaries.penalties(rows)
        return Reading(rows, names, penalties)

    def form(self, X: NDArray) -> Form:
        """Return the form A of a recording in the unit of the penalty, without the penalty λ."""
        return self.form_of(self.read(X))

    def form_of(self, reading: Reading) -> Form:
        """Return the form of a recording that has been read."""
        sums = cumulative_sums(reading.rows, self.components)
        if self.unit is not None:
            power, variance = _spread(sums)
            sums /= power
            sums /= variance**0.5
        form = LowRankForm(cumulative=sums)
        if reading.boundaries is not None:
            return ChargedForm(form, penalties=reading.boundaries)
        if reading.names is not None:
            names = NameScores.of(reading.names, None, self.names.transitions)
            return ChargedForm(form, names=names)
        return form

    def segment(self, X: NDArray, count: int | None = None, known: Any = None) -> Partition:
        """Find the best segmentation of a recording, see :meth:`best`.

        A change between kept rows is placed in the middle of the gap.
        """
        if (kept := self.kept(X)) is None:
            return self.best(self.form(X), count, known)
        found: Any = self.best(self.form(X), count, None if known is None else known.at(kept))
        ends = placed(found.change_points, kept, len(X))
        return NamedPartition(ends, found.names) if self.names else Partition(ends=ends)

    def best(self, form: Form, count: int | None = None, known: Any = None) -> Partition:
        """Find the best segmentation of a form.

        Parameters
        ----------
        form : LowRankForm or ChargedForm
            The form of a recording, without the penalty.
        count : int, optional
            Number of segments; by default it follows from the penalty.
        known : PartialPartition, optional
            Only segmentations that agree with these labels are candidates.
        """
        form, count, min_size = self._posed(form, count)
        if known is not None:
            return ConstrainedChangePoints(min_size)(form, count, known)
        oracle = segmentation_oracle(None if min_size < self.min_size else self.oracle, min_size)
        return oracle(form) if count is None else oracle(form, count)

    def margins(
        self, X: NDArray, count: int | None = None, known: Any = None, tolerance: int = 0
    ) -> BoundaryMargins:
        """Compute how certain every change of the best segmentation is, by an exact search.

        ``count`` and ``known`` are as for :meth:`best`. Changes at most ``tolerance`` samples apart
        count as the same.
        """
        if self.kept(X) is not None:
            raise ValueError(
                f"Margins need a view that keeps all rows, got {self.view!r}; take Fill instead."
            )
        form, count, min_size = self._posed(self.form(X), count)
        if min_size < self.min_size and known is None:
            ends = np.array([form.n_samples])
            impossible = np.append(0.0, np.full(form.n_samples - 1, -np.inf))
            return BoundaryMargins(ends, np.zeros(0), impossible)
        return boundary_margins(form, count, known, min_size=min_size, tolerance=tolerance)

    def _posed(self, form: Form, count: int | None) -> tuple[Form, int | None, int]:
        """Return the form with the penalty, the number of segments, and their smallest size.

        A recording that is shorter than ``min_size`` is one segment at any penalty.
        """
        if count is not None:
            return form, int(count), self.min_size
        if form.n_samples < self.min_size:
            return form, 1, 1
        assert self.penalty is not None
        return form.shifted(-self.penalty), None, self.min_size

    @property
    def reach(self) -> tuple[int, int] | None:
        """Samples before and after a sample that its reading depends on; None: all samples."""
        first = (0, 0) if self.view is None else self.view.reach
        parts = (self.names, self.boundaries)
        later = widest([part.reach for part in parts if part is not None])
        if first is None or later is None:
            return None
        return first[0] + later[0], first[1] + later[1]

    def refusal_of_streams(self) -> str | None:
        """Return what this score lacks for a stream and the remedy; None if it lacks nothing."""
        if self.penalty is None:
            return (
                "a penalty for a stream, whose number of segments is unknown, got none; call "
                "tune_penalty, or fit with a penalty."
            )
        if self.unit is not None:
            return (
                "a penalty in the unit of the data for a stream, as the variance of a sequence is "
                "not known before its end; call tune_penalty without unit, or fit a Segmenter with "
                "for_streams=True."
            )
        if not isinstance(self.oracle, (ChangePoints, type(None))):
            return f"ChangePoints() or None as oracle for a stream, got {self.oracle!r}."
        if self.names is not None and self.names.transitions is not None:
            return "transitions=False for a stream, as its search has no state for each name."
        if self.view is not None and (self.view.reach is None or not says(self.view, "keeps_all")):
            known = "a view that keeps all rows and reads a known number of neighbors for a stream"
            return f"{known}, got {self.view!r}."
        for part in (self.names, self.boundaries):
            if part is not None and part.reach is None:
                return part.refusal_of_streams()
        return None


def tuned_penalty(
    who: str,
    score: SegmentScore,
    arrays: Sequence[NDArray],
    truths: Sequence[Any],
    unit: str | None = None,
) -> tuple[float, float]:
    """Find the penalty of a score with the least mean loss on labeled recordings.

    The minimum is exact, except in rare cases with partial labels, see
    :func:`~metriclearn.oracles.best_penalty`.

    Returns
    -------
    penalty, loss : float

    Raises
    ------
    ValueError
        If all recordings are too short, or if no label is known.
    """
    forms, known = labeled_forms(who, [score], [(arrays, truths)], unit=unit)
    return best_penalty(forms, known, min_size=score.min_size)


def labeled_forms(
    who: str,
    scores: Sequence[SegmentScore],
    parts: Sequence[tuple[Sequence[NDArray], Sequence[Any]]],
    seen: Sequence[Sequence[dict[Any, NDArray]]] | None = None,
    unit: str | None = None,
) -> tuple[list[Any], list[Any]]:
    """Return the forms of recordings in a unit of the penalty, and their labels on kept rows.

    Parameters
    ----------
    who : str
        Name used in errors.
    scores : sequence of SegmentScore
    parts : sequence of (arrays, truths)
        The recordings that each score segments, and their labels. Recordings that are shorter than
        the smallest segment are ignored.
    seen : sequence of sequences of dict, optional
        For each recording of each part, the rows that views have computed.
    unit : None or "variance"
        The unit of the penalty.

    Raises
    ------
    ValueError
        If all recordings are too short, or if no label is known.
    """
    min_size = scores[0].min_size
    forms, known = [], []
    for k, (score, (arrays, truths)) in enumerate(zip(scores, parts)):
        for i, (array, truth) in enumerate(zip(arrays, truths)):
            kept = score.kept(array)
            if len(array if kept is None else kept) >= min_size:
                reading = score.read(array, None if seen is None else seen[k][i])
                forms.append(score.at(None, unit).form_of(reading))
                known.append(truth if kept is None else truth.at(kept))
    if not forms:
        raise ValueError(
            f"{who} needs a sequence of at least min_size={min_size} samples to tune its penalty, "
            "but all are shorter; pass others."
        )
    refuse_unlabeled(who, known)
    return forms, known


def penalty_units(forms: Sequence[Form], unit: str | None) -> NDArray[np.float64]:
    """Return the unit of the penalty in every recording, whose form is in the unit of the data."""
    if unit is None:
        return np.ones(len(forms))
    spreads = [_spread(form.cumulative) for form in forms]
    return np.array([power**2 * variance for power, variance in spreads])


def _spread(sums: NDArray) -> tuple[float, float]:
    """Return p and v, where p²v is the variance of rows with these running sums, or p² if it is 0.

    The squares of rows may overflow, so p is a power of 2 near the largest sum.
    """
    power = np.ldexp(1.0, np.frexp(np.abs(sums).max())[1] - 1)
    return power, np.square(np.diff(sums / power, axis=0)).sum() / (len(sums) - 1) or 1.0
