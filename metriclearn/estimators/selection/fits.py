"""Fits: members fitted to all parts of the recordings, which make the table of a cross-fit.

``Fits.choose`` tries settings that improve the model that the table chooses.
"""

from __future__ import annotations

import re
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from metriclearn.estimators.penalties.feature_penalty import FeaturePenalty
from metriclearn.estimators.reading.given import Given
from metriclearn.estimators.selection.cross_fit import CrossFit, is_better
from metriclearn.estimators.selection.parts import (
    FitData,
    Member,
    Parts,
    PartViews,
    reads_rows_alone,
)
from metriclearn.estimators.selection.rules import Rules
from metriclearn.problem.partition import Partition
from metriclearn.running.callbacks import TimeLimit
from metriclearn.running.executors import jobs, one_blas_thread
from metriclearn.running.notes import note
from metriclearn.running.progress import share_done
from metriclearn.views.boundary import BoundaryFeatures
from metriclearn.views.plain import FittedViews
from metriclearn.views.sequence import SequenceFeatures
from metriclearn.views.windows import typical_length

_ENOUGH = 8000  # labeled rows that determine a metric: thinned recordings keep so many, or more


@dataclass(frozen=True, eq=False)
class Choice:
    """The candidates that were compared on recordings left out, and the chosen candidate.

    Attributes
    ----------
    names : list of str
        One name per candidate: the family, the settings in which its members differ, and the rule
        for the penalty.
    losses : array (candidates, groups)
        Mean ‖M − N‖²_F over the recordings of a group, after learning from other groups. For
        partial labels it is T times the loss on the labeled parts.
    chosen : int
        Index of the chosen candidate.
    late : list of str
        Families of members for which there was not enough time.
    """

    names: list[str]
    losses: NDArray[np.float64]
    chosen: int
    late: list[str]

    def __str__(self) -> str:
        means = self.losses.mean(axis=1)
        lines = [
            f"{'→' if i == self.chosen else ' '} {means[i]:9.4g}  {self.names[i]}"
            for i in np.argsort(means, kind="stable")
        ]
        return "\n".join(["     loss  candidate, on groups left out", *lines])


def refinements(learner: Any, truths: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """Return the settings to try: for each description, the parameters and their values."""
    changes: dict[str, dict[str, Any]] = {}
    given = learner.get_params(deep=False)
    if isinstance(truths[0], Partition) and "min_size" in given:
        shortest = min(int(truth.sizes.min()) for truth in truths)
        if shortest > 3:
            changes[f"min_size {shortest // 2}"] = {"min_size": shortest // 2}
    if given.get("penalty") == "learned" and given.get("view") is None and "emissions" not in given:
        sizes = np.concatenate([getattr(truth, "sizes", [truth.n_samples]) for truth in truths])
        typical = max(4, int(np.median(sizes)))
        boundary = BoundaryFeatures((max(1, typical // 4), typical))
        penalties = {"recording": (SequenceFeatures(),), "boundary": (boundary,)}
        for words, features in penalties.items():
            changes[f"penalties of the {words}"] = {"penalty": FeaturePenalty(features)}
    return changes


class Tables(NamedTuple):
    """The data sets of each part, their labels and groups; members see them as they are."""

    parts: Sequence[tuple[Sequence[Any], Sequence[Any], NDArray]]

    def task(self, k: int, every: int = 1, margin: int | None = 0) -> FitData:
        """Return what members are fitted to in part k."""
        return FitData(*self.parts[k])

    def forget(self, k: int) -> None:
        """Do nothing, because there is no earlier result."""


@dataclass(frozen=True)
class Fits:
    """How members are fitted.

    Attributes
    ----------
    who : str
        The name in front of the progress bar.
    may_fail : bool
        Whether to continue without a member if one of its fits fails. Some families need more
        names, or more recordings, than a part has.
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
        self, members: Sequence[Member], views: Any, bar: Any, first: bool = True
    ) -> tuple[list[Member], list[list[Any]], tuple[float, ...], dict[str, Exception]]:
        """Fit members with the same view to every one of ``views.parts``.

        ``views.task(k, every, margin)`` are the data sets of part k, see
        :class:`~metriclearn.estimators.selection.parts.FitData`. If ``first``,
        the first member is fitted however late it is. Returns the members that could be fitted,
        their models, and the processor seconds of all fits of each; the first member with a view
        pays for this view. Also returns the families of the others, with an error or :class:`Late`.
        """
        n_parts, stores = len(views.parts), defaultdict[Any, FittedViews](FittedViews)
        places = [(k, m) for k in range(n_parts) for m in range(len(members))]
        fitted, seconds = joblib.delayed(self._fitted), np.zeros(len(members))
        calls = [fitted(members[m], views, k, stores, first and m == 0) for k, m in places]
        fits = joblib.Parallel(self.n_jobs, prefer="threads", return_as="generator")(calls)
        rows: list[list[Any]] = [[None] * n_parts for _ in members]
        with warnings.catch_warnings():
            if n_parts > 1:  # warnings would recur in every part; all threads share the filter
                warnings.simplefilter("ignore", UserWarning)
            for (k, m), (model, taken) in zip(places, fits):
                rows[m][k], seconds[m] = model, seconds[m] + taken
                bar(members[m].cost)
                if m == len(members) - 1:
                    views.forget(k)
        kept, missing = [], dict[str, Exception]()
        for m, row in enumerate(rows):
            if failed := [one for one in row if isinstance(one, (ValueError, Late))]:
                missing[members[m].family] = failed[0]
            else:
                kept.append(m)
        timed = tuple(seconds[kept].tolist())
        return [members[m] for m in kept], [rows[m] for m in kept], timed, missing

    def table(self, given: Given, parts: Parts, rules: Rules, members: list[Member]) -> CrossFit:
        """Fit members to all parts, those with equal views together, and add candidates by rules.

        After an interruption, the finished members are kept, with a warning. If members may fail,
        the error of a member is raised only if all fail.
        """
        table, missing, known = None, dict[str, Exception](), dict[Any, NDArray]()
        members = thinned(members, given, parts)
        # The last bits depend on the number of BLAS threads, and must not depend on ``n_jobs``.
        single = one_blas_thread(given.data.arrays[0].shape[1])
        with single, jobs(self.n_jobs), self.bar(members, len(parts)) as bar:
            for group in by_view(members, self.seconds is not None):
                views = PartViews(group[0].view, parts, given, known)
                try:
                    kept, models, seconds, failed = self.run(group, views, bar, table is None)
                    missing |= failed
                    if not kept:
                        continue
                    shared = (views,) * len(kept)
                    more = CrossFit(kept, parts, models, given, views=shared, seconds=seconds)
                    with warnings.catch_warnings(action="ignore", category=UserWarning):
                        more = more.with_rules(rules)
                except KeyboardInterrupt:
                    if table is None:
                        raise
                    note(
                        f"the fit was interrupted; the {len(table.members)} of {len(members)} "
                        "members that are finished are used."
                    )
                    break
                except ValueError as error:  # from the view, or from penalties
                    if not self.may_fail:
                        raise
                    missing |= dict.fromkeys((one.family for one in group), error)
                    continue
                views.forget_rows()
                table = more if table is None else table.joined(more)
        known.clear()
        if table is None:
            raise next(iter(missing.values()))
        if not any(one.classes is not None for row in table.scores for one in row):
            table = replace(table, given=given._replace(classes=None, codes=None))
        return replace(table, missing=missing)

    @property
    def is_over(self) -> bool:
        """Whether there is no time to begin with another member."""
        return self.seconds is not None and time.monotonic() - self.begun > 2 / 3 * self.seconds

    def choose(
        self, table: CrossFit, table_of: Callable[[list[Member]], CrossFit]
    ) -> tuple[CrossFit, Choice]:
        """Choose the best candidate of a table, then try other settings of its learner.

        The first setting is half the length of the shortest labeled segment as ``min_size``. The
        others are penalties that depend on the recording or on the boundary
        (:class:`~metriclearn.FeaturePenalty`). A setting is kept if it lowers the loss by more than
        one standard error. ``table_of`` fits members to all parts.
        """
        best, missing = table.best(), dict(table.missing)
        learner = table.members[table.candidates[best].member].learner
        for words, changes in refinements(learner, table.given.truths).items():
            m = table.candidates[best].member
            family = table.named(m)
            if "penalty" in changes:  # replaces the penalty of an earlier change
                family = re.sub(r" with penalties of the \w+", "", family)
            family, member = f"{family} with {words}", table.members[m]
            learner = clone(member.learner).set_params(**changes)
            if self.is_over:
                missing[family] = Late()
                continue
            try:
                more = table_of([Member(family, learner, member.view)])
            except ValueError as error:
                if not self.may_fail:
                    raise
                missing[family] = error
                continue
            first, table = len(table.candidates), table.joined(more)
            losses = table.group_losses()
            for c in range(first, len(table.candidates)):
                best = c if is_better(losses[c], losses[best]) else best
        late = [family for family, why in missing.items() if isinstance(why, Late)]
        table = replace(table, missing=missing)
        return table, Choice(table.names, table.group_losses(), best, late)

    def _fitted(
        self, member: Member, views: Any, k: int, stores: Any, however_late: bool
    ) -> tuple[Any, float]:
        """Fit a copy of a learner to part k of the recordings.

        Returns the model, or why there is none, and the processor seconds.
        """
        if self.is_over and not however_late:
            return Late(), 0.0
        begun, every = time.thread_time(), member.every or 1
        learner = clone(member.learner)
        given = learner.get_params(deep=False)
        ours = hasattr(learner, "fit_among")  # other learners may read rows together
        # A segment that is labeled in part may be shorter than the smallest one. ``fit`` checks it.
        size: Any = given.get("min_size", 1)
        rows = max(0, int(size) - 1) * every if isinstance(size, Integral) else 0
        margin = rows if ours and reads_rows_alone(learner) else None
        data, labels, groups, weights = views.task(k, every, margin)
        for name, value in (("verbose", False), ("n_jobs", 1)):
            if name in given:
                learner.set_params(**{name: value})
        if self.seconds is not None and "callbacks" in given:
            limit = TimeLimit(self.seconds / 20)
            learner.set_params(callbacks=[*given["callbacks"], limit])
        several = len(np.unique(groups)) > 1 and has_fit_parameter(learner, "groups")
        options: dict[str, Any] = {"groups": groups} if several else {}
        if weights is not None and has_fit_parameter(learner, "sample_weight"):
            options["sample_weight"] = weights
        fit = learner.fit
        if ours:
            fit, options = learner.fit_among, {**options, "views": stores[k, every, margin]}
        try:
            model = fit(data, labels, **options)
        except ValueError as error:
            if self.may_fail:
                return error, time.thread_time() - begun
            raise
        # A comparison that was interrupted chooses nothing.
        if getattr(getattr(model, "solution_", None), "reason", "") == "interrupted":
            raise KeyboardInterrupt
        if self.seconds is not None and "callbacks" in given:
            model.set_params(callbacks=given["callbacks"])
        return model, time.thread_time() - begun


class Late(Exception):
    """There was no time to fit a member."""

    def __str__(self) -> str:
        return "there was no time; allow more seconds."


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
    sizes = [int(ends[-1]) - start for one in truths for start, ends in one.pieces.stretches]
    every = 1  # also of regions, without any stretch
    if sizes:
        every = max(1, int(min(typical_length(given, truths) / 16, sum(sizes) / _ENOUGH)))
    return [one._replace(every=one.every or every) for one in members]
