"""Fits: members fitted to all parts of the recordings. Each view is fitted once to each part."""

from __future__ import annotations

import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any, NamedTuple, Self

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GroupKFold
from sklearn.utils.validation import has_fit_parameter

from metriclearn.estimators.reading.given import Given
from metriclearn.running.callbacks import TimeLimit
from metriclearn.running.progress import share_done
from metriclearn.views.plain import FittedViews
from metriclearn.views.windows import known_stretches, typical_length

_ENOUGH = 8000  # labeled rows that determine a metric: thinned recordings keep so many, or more


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
        The time of a fit, relative to that of other members.
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


class PartViews:
    """A view that is fitted to each part, and the rows that it gives to members.

    The rows of a recording that is left out come from the view that was fitted without it. If the
    view is fitted to labels, so do training rows.

    Attributes
    ----------
    view : view or None
        None passes the recordings on.
    parts : Parts
    given : Given or None
        The recordings, or None if only the fitted views are kept.
    """

    def __init__(self, view: Any, parts: Parts, given: Given | None) -> None:
        self.view, self.parts, self.given = view, parts, given
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
                self._fitted[k] = clone(self.view).fit(arrays, labels, groups)
            return self._fitted.get(k)

    def left_out(self, k: int) -> list[NDArray]:
        """Return the rows of the recordings that part k leaves out."""
        with self._locks[k]:
            if k not in self._left_out:
                arrays = [self.arrays[i] for i in self.parts.left_out[k]]
                seen = arrays if self.view is None else self.fitted(k).transform(arrays)
                self._left_out[k] = seen
            return self._left_out[k]

    def training(self, k: int) -> list[NDArray]:
        """Return the rows of the training recordings of part k."""
        places = self._places[k]
        if self.view is None:
            return [self.arrays[i] for i in places]
        if getattr(self.view, "held_out", False):
            rows = {
                int(i): one
                for j, some in enumerate(self.parts.left_out)
                for i, one in zip(some, self.left_out(j))
            }
            return [rows[int(i)] for i in places]
        with self._locks[k]:
            if k not in self._training:
                self._training[k] = self.fitted(k).transform([self.arrays[i] for i in places])
            return self._training[k]

    def task(self, k: int, every: int = 1) -> tuple[list[NDArray], list[Any], NDArray]:
        """Return what members are fitted to in part k: every ``every``-th row, labels, groups."""
        assert self.given is not None
        rows, places = self.training(k), self._places[k]
        labels = [self.given.labels[i] for i in places]
        if every > 1:
            labels = self.given.at([np.arange(0, len(one), every) for one in rows], places)
            rows = [one[::every] for one in rows]
        return rows, labels, self.parts.groups[places]

    def known_rows(self, k: int, i: int) -> NDArray | None:
        """Return the rows of a recording for models of part k, or None if they are not stored.

        Training rows of a view that is fitted to labels are those that were held out.
        """
        j = k
        if k == len(self.parts.left_out) or i not in self.parts.left_out[k]:
            if not getattr(self.view, "held_out", False):
                return None
            j = next(j for j, some in enumerate(self.parts.left_out) if i in some)
        return self.left_out(j)[self.parts.left_out[j].tolist().index(i)]

    def without_data(self) -> PartViews:
        """Return the fitted views alone, without rows of the caller's recordings."""
        alone = PartViews(self.view, self.parts, None)
        alone._fitted = dict(self._fitted)
        return alone

    def forget_rows(self) -> None:
        """Give back the memory of rows that can be computed again in little time."""
        if not getattr(self.view, "held_out", False):
            self._left_out.clear()

    def forget(self, k: int) -> None:
        """Give back the memory of the training rows of part k."""
        self._training.pop(k, None)


class Tables(NamedTuple):
    """The data sets of each part, their labels and groups; members see them as they are."""

    parts: Sequence[tuple[Sequence[Any], Sequence[Any], NDArray]]

    def task(self, k: int, every: int = 1) -> tuple[Sequence[Any], Sequence[Any], NDArray]:
        """Return what members are fitted to in part k."""
        return self.parts[k]

    def forget(self, k: int) -> None:
        """Do nothing: nothing was computed."""


@dataclass(frozen=True)
class Fits:
    """How members are fitted.

    Attributes
    ----------
    who : str
        The name in front of the progress bar.
    may_fail : bool
        Whether a member is left out if a fit fails. Some families need more names, or more
        recordings, than a part has.
    seconds : float or None
        Time limit of all fits. Each stops after a twentieth, and no member is begun after two
        thirds, except the first.
    begun : float
        When this time began, by ``time.monotonic()``.
    n_jobs : int or None
        Number of fits that run at the same time, as in joblib.
    verbose : bool or None
        Show a progress bar always, never, or in a terminal (None).
    """

    who: str
    may_fail: bool = False
    seconds: float | None = None
    begun: float = 0.0
    n_jobs: int | None = None
    verbose: bool | None = None

    def bar(self, members: Sequence[Member], n_parts: int) -> Any:
        """Make a context with a progress bar, which counts what fits cost."""
        hidden = None if self.verbose is None else not self.verbose
        total = n_parts * sum(member.cost for member in members)
        return share_done(self.who, total, disable=hidden)

    def run(
        self,
        members: Sequence[Member],
        views: Any,
        bar: Any,
        first: bool = True,
    ) -> tuple[list[Member], list[list[Any]], tuple[float, ...], dict[str, Exception]]:
        """Fit members with the same view to every one of ``views.parts``.

        ``views.task(k, every)`` are the data sets of part k, their labels and groups. If ``first``,
        the first member is fitted however late it is. Returns the members that could be fitted,
        their models, and the processor seconds of all fits of each; the first member with a view
        pays for this view. Also returns the families of the others, with an error or :class:`Late`.
        """
        n_parts = len(views.parts)
        stores, open_ = defaultdict[Any, FittedViews](FittedViews), Counter[int]()
        seconds = np.zeros(len(members))

        def fitted(k: int, m: int) -> Any:
            begun = time.thread_time()
            try:
                if self.is_over and not (first and m == 0):
                    return Late()
                every = members[m].every or 1
                return self._fitted(members[m].learner, views.task(k, every), stores[k, every])
            finally:
                seconds[m] += time.thread_time() - begun
                open_[k] += 1
                if open_[k] == len(members):
                    views.forget(k)

        places = [(k, m) for k in range(n_parts) for m in range(len(members))]
        calls = [joblib.delayed(fitted)(*place) for place in places]
        fits = joblib.Parallel(self.n_jobs, prefer="threads", return_as="generator")(calls)
        rows: list[list[Any]] = [[None] * n_parts for _ in members]
        # Warnings would recur in every part. The filter applies to all threads.
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            for (k, m), model in zip(places, fits):
                rows[m][k] = model
                bar(members[m].cost)
        kept, missing = [], dict[str, Exception]()
        for m, row in enumerate(rows):
            if failed := [one for one in row if isinstance(one, (ValueError, Late))]:
                missing[members[m].family] = failed[0]
            else:
                kept.append(m)
        timed = tuple(seconds[kept].tolist())
        return [members[m] for m in kept], [rows[m] for m in kept], timed, missing

    @property
    def is_over(self) -> bool:
        """Whether there is no time to begin with another member."""
        return self.seconds is not None and time.monotonic() - self.begun > 2 / 3 * self.seconds

    def _fitted(self, member: Any, task: Any, store: FittedViews) -> Any:
        """Fit a copy of a learner to a part of the recordings."""
        data, labels, groups = task
        learner = clone(member)
        given = learner.get_params(deep=False)
        for name, value in (("verbose", False), ("n_jobs", 1)):
            if name in given:
                learner.set_params(**{name: value})
        if self.seconds is not None and "callbacks" in given:
            limit = TimeLimit(self.seconds / 20)
            learner.set_params(callbacks=[*given["callbacks"], limit])
        several = len(np.unique(groups)) > 1 and has_fit_parameter(learner, "groups")
        options: dict[str, Any] = {"groups": groups} if several else {}
        fit = learner.fit
        if hasattr(learner, "fit_among"):
            fit, options = learner.fit_among, {**options, "views": store}
        try:
            model = fit(data, labels, **options)
        except ValueError as error:
            if self.may_fail:
                return error
            raise
        if is_interrupted(model):
            raise KeyboardInterrupt
        if self.seconds is not None and "callbacks" in given:
            model.set_params(callbacks=given["callbacks"])
        return model


class Late(Exception):
    """There was no time to fit a member."""

    def __str__(self) -> str:
        return "there was no time; allow more seconds."


def is_interrupted(model: Any) -> bool:
    """Tell whether a fit was interrupted. A comparison that was interrupted chooses nothing."""
    return getattr(getattr(model, "solution_", None), "reason", "") == "interrupted"


def by_view(members: Sequence[Member], by_gain: bool = False) -> list[list[Member]]:
    """Return lists of members with equal views, in the order in which the views come first.

    If ``by_gain``, views with a member of large gain per cost come first.
    """
    groups: dict[Any, list[Member]] = {}
    for member in members:
        groups.setdefault(joblib.hash(member.view), []).append(member)
    if not by_gain:
        return list(groups.values())
    return sorted(groups.values(), key=lambda some: -max(one.gain / one.cost for one in some))


def thinned(members: Sequence[Member], given: Given, parts: Parts) -> list[Member]:
    """Return members with a number for ``every``, see :class:`Member`."""
    if all(member.every is not None for member in members):
        return list(members)
    truths = [given.truths[i] for i in list(parts)[-1].tolist()]
    sizes = [int(ends[-1]) - start for one in truths for start, ends in known_stretches(one)]
    every = 1  # also of regions, without any stretch
    if sizes:
        every = max(1, int(min(typical_length(given, truths) / 16, sum(sizes) / _ENOUGH)))
    return [one._replace(every=one.every or every) for one in members]
