"""Members, parts of the recordings, and the views that members share in each part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from threading import RLock
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GroupKFold

from metriclearn.estimators.reading.given import Given
from metriclearn.views.plain import says, sharing
from metriclearn.views.whiten import LinearView

_ROWS = 4  # labels with fewer rows per segment tell where boundaries are, not what segments are


class Member(NamedTuple):
    """A learner, the family in which it is counted, and the view before it.

    Attributes
    ----------
    family : str
    learner : estimator
    view : view or None
        Turns recordings into the rows that the learner sees. All members with the same view share
        it. If it is fitted to labels, its ``n_folds`` is 1, because whole parts are held out.
    cost : float
        The time of a fit, relative to other members.
    every : int or None
        The learner is fitted to every ``every``-th row of the view. None stands for m/16, where m
        is the median length of a labeled segment, because neighboring rows say nearly the same; but
        about 8000 labeled rows or more are kept. Penalties are tuned, and answers given, on all
        rows.
    gain : float
        What it brings, relative to other members. With a time limit, the members of views with the
        largest gain per cost are fitted first.

    See Also
    --------
    metriclearn.Segmenter : fits members.

    Examples
    --------
    >>> from metriclearn import ChangePointMetricLearner
    >>> from metriclearn.estimators import Member
    >>> Member("diagonal", ChangePointMetricLearner()).family
    'diagonal'
    """

    family: str
    learner: Any
    view: Any = None
    cost: float = 1.0
    every: int | None = 1
    gain: float = 1.0


@dataclass(frozen=True)
class Parts:
    """Folds of whole groups, and a last part that leaves nothing out.

    Attributes
    ----------
    left_out : list of int arrays
        The recordings that each fold leaves out.
    groups : int array (N,)
        The group of every recording.
    used : int array, optional
        The recordings to which models are fitted; by default all. Others are never left out.
    """

    left_out: list[NDArray]
    groups: NDArray
    used: NDArray | None = None

    @classmethod
    def of(cls, groups: NDArray, n_folds: int, used: NDArray | None = None) -> Self:
        """Divide the recordings that are used into at most ``n_folds`` folds of whole groups."""
        places = np.arange(len(groups)) if used is None else used
        splitter = GroupKFold(min(n_folds, len(np.unique(groups[places]))))
        folds = [places[test] for _, test in splitter.split(places, groups=groups[places])]
        return cls(folds, groups, used)

    def __iter__(self) -> Iterator[NDArray]:
        """Yield the training recordings of every part."""
        every = np.arange(len(self.groups)) if self.used is None else self.used
        yield from (np.setdiff1d(every, places) for places in self.left_out)
        yield every

    def __len__(self) -> int:
        return len(self.left_out) + 1


class FitData(NamedTuple):
    """What a learner is fitted to: recordings, or labeled spans of them, which have weights.

    Attributes
    ----------
    rows : list of arrays (T_i, P)
    labels : list
    groups : int array (N,)
    weights : array (N,), optional
        The part of its recording that a span is.
    """

    rows: Sequence[Any]
    labels: Sequence[Any]
    groups: NDArray
    weights: NDArray | None = None


def reads_rows_alone(learner: Any) -> bool:
    """Tell whether the parts of a learner read every row alone, or all rows by their mean only."""
    parts = [getattr(learner, name, None) for name in ("view", "emissions", "penalty")]
    reaches = [getattr(part, "reach", (0, 0)) for part in parts]
    return all(reach == (0, 0) or isinstance(one, LinearView) for reach, one in zip(reaches, parts))


def labeled_spans(
    truths: Sequence[Any], margin: int = 0, context: float = 0.0
) -> list[list[tuple[int, int]]] | None:
    """Return for each recording the spans (start, stop) of rows that labels cover.

    Members learn from these rows. Completing the labels of all others takes most of the time if
    they are many, and gave about the same loss on eight data sets. Spans are joined if no more rows
    are between them than a labeled segment has (the median), and extended by ``margin`` rows and
    by ``context`` times this number.

    A recording with annotated regions stays whole, and so does one that joined spans cover by more
    than half: its labels have to be completed in any case. So do all, and None is returned, if
    spans would be little to learn from: if none or fewer boundaries are inside them than between
    them, or if segments have fewer than four rows on average.
    """
    if all(truth.is_whole for truth in truths):
        return None
    sizes = [np.diff(e, prepend=start) for t in truths for start, e in t.pieces.stretches]
    segments = np.concatenate([*sizes, np.zeros(0)])
    inside, between, found = len(segments) - len(sizes), 0, []
    if not sizes or segments.mean() < _ROWS:
        return None
    usual = float(np.median(segments))
    margin += int(context * usual)
    for truth in truths:
        stretches = [(start, int(ends[-1])) for start, ends in truth.pieces.stretches]
        gaps = {(stop - 1, start + 1) for (_, stop), (start, _) in pairwise(stretches)}
        if any((one.start, one.stop) not in gaps for one in truth.pieces.regions):
            found.append([(0, truth.n_samples)])
            continue
        spans: list[tuple[int, int]] = []
        for start, stop in stretches:
            if spans and start - spans[-1][1] <= max(usual, 2 * margin):
                start = spans.pop()[0]
            spans.append((start, stop))
        covered = sum(stop - start for start, stop in spans)
        if len(spans) < len(stretches) and covered > truth.n_samples / 2:
            found.append([(0, truth.n_samples)])
            continue
        starts = {start for start, _ in spans}
        between += sum(one.stop - 1 in starts for one in truth.pieces.regions)
        T = truth.n_samples
        found.append([(max(0, a - margin), min(T, b + margin)) for a, b in spans])
    cut = any(spans != [(0, truth.n_samples)] for spans, truth in zip(found, truths))
    return found if cut and inside >= max(between, 1) else None


class PartViews:
    """A view that is fitted to each part, and the rows that it gives to members.

    The rows of each recording left out come from the view that was fitted without it. If the view
    is fitted to labels, so do training rows.

    Attributes
    ----------
    view : view or None
        None passes the recordings on.
    parts : Parts
    given : Given or None
        The recordings, or None if only the fitted views are kept.
    known : dict, optional
        Rows of recordings that equal views have computed.
    """

    def __init__(
        self, view: Any, parts: Parts, given: Given | None, known: dict[Any, NDArray] | None = None
    ) -> None:
        self.view, self.parts, self.given = view, parts, given
        self._sharing = {} if known is None else sharing(view, known)
        self.arrays = () if given is None else given.data.arrays
        self._places = list(parts)
        self._locks = [RLock() for _ in self._places]
        self._fitted: dict[int, Any] = {}
        self._left_out: dict[int, list[NDArray]] = {}
        self._training: dict[int, list[NDArray]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the locks, which cannot be pickled."""
        return vars(self) | {"_locks": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make new locks."""
        self.__dict__.update(state, _locks=[RLock() for _ in state["_places"]])

    def fitted(self, k: int) -> Any:
        """Return the view that was fitted to part k."""
        with self._locks[k]:
            if self.view is not None and k not in self._fitted:
                places = self._places[k]
                labels = None if self.given is None else self.given.known.subset(places)
                groups, arrays = self.parts.groups[places], [self.arrays[i] for i in places]
                self._fitted[k] = clone(self.view).fit(arrays, labels, groups, **self._sharing)
            return self._fitted.get(k)

    def left_out(self, k: int) -> list[NDArray]:
        """Return the rows of the recordings that part k leaves out."""
        with self._locks[k]:
            if k not in self._left_out:
                arrays = [self.arrays[i] for i in self.parts.left_out[k]]
                self._left_out[k] = self.fitted(k).transform(arrays, **self._sharing)
            return self._left_out[k]

    def training(self, k: int) -> list[NDArray]:
        """Return the rows of the training recordings of part k."""
        places = self._places[k]
        if self.view is None:
            return [self.arrays[i] for i in places]
        if says(self.view, "held_out") and self.parts.left_out:
            rows: dict[int, NDArray] = {}
            for j, some in enumerate(self.parts.left_out):
                rows.update(zip(some.tolist(), self.left_out(j)))
            return [rows[i] for i in places.tolist()]
        with self._locks[k]:
            if k not in self._training:
                arrays = [self.arrays[i] for i in places]
                self._training[k] = self.fitted(k).transform(arrays, **self._sharing)
            return self._training[k]

    def task(self, k: int, every: int = 1, margin: int | None = 0) -> FitData:
        """Return what members are fitted to in part k: every ``every``-th row of labeled spans.

        See :func:`labeled_spans`, which adds ``margin`` rows; with None, recordings stay whole.
        """
        assert self.given is not None
        rows, places = self.training(k), self._places[k]
        truths = [self.given.truths[i] for i in places]
        spans = None if margin is None else labeled_spans(truths, margin)
        groups = self.parts.groups[places]
        if spans is None:
            labels = [self.given.labels[i] for i in places]
            if every > 1:
                kept = [np.arange(0, len(one), every) for one in rows]
                labels, rows = self.given.at(kept, places), [one[::every] for one in rows]
            return FitData(rows, labels, groups, None)
        cuts = [(j, *span) for j, some in enumerate(spans) for span in some]
        owners = [j for j, *_ in cuts]
        # a span of a few rows keeps them all
        kept = [np.arange(a, b, every if b - a > every else 1) for _, a, b in cuts]
        labels = self.given.at(kept, places[owners])
        weights = np.array([(b - a) / len(rows[j]) for j, a, b in cuts])
        return FitData(
            [rows[j][at] for j, at in zip(owners, kept)], labels, groups[owners], weights
        )

    def seen(self, k: int, i: int) -> dict[Any, NDArray]:
        """Return the rows of a recording for models of part k, by the fitted view, if stored.

        If a view is fitted to labels, its training rows are held-out rows.
        """
        if self.view is None:
            return {}
        j = k
        if k == len(self.parts.left_out) or i not in self.parts.left_out[k]:
            if not says(self.view, "held_out"):
                return {}
            j = next(j for j, some in enumerate(self.parts.left_out) if i in some)
        place = self.parts.left_out[j].tolist().index(i)
        return {self.fitted(k): self.left_out(j)[place]}

    def without_data(self) -> PartViews:
        """Return the fitted views alone, without rows of the caller's recordings."""
        alone = PartViews(self.view, self.parts, None)
        alone._fitted = dict(self._fitted)
        return alone

    def forget_rows(self) -> None:
        """Give back the memory of rows that can be computed again in little time."""
        if self.view is None or not says(self.view, "held_out"):
            self._left_out.clear()

    def forget(self, k: int) -> None:
        """Give back the memory of the training rows of part k."""
        self._training.pop(k, None)
