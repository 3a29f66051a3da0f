"""Chains and unions: several views as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import TransformerMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from metriclearn.running.components import ComponentParameters
from metriclearn.running.parameters import Each, Of, check_parameters
from metriclearn.running.values import real_array, shown
from metriclearn.views.plain import is_one, says, widest

# The rows that the first view of a chain has computed, by the id of the recording, which must stay
# in memory, and by the view's ``rows_key``: chains that begin alike compute them once.
Known: TypeAlias = dict[Any, NDArray] | None


@dataclass(eq=False, repr=False)
class _Composed(TransformerMixin, ComponentParameters):
    """Several views as one. ``views_`` holds a fitted copy of each.

    A subclass fits copies of the views, computes rows and numbers rows that are kept: ``_learn(X,
    views, known, y, groups, rows)``, ``_rows(X, views, known)`` and ``_kept(X)`` of a list of
    recordings.
    """

    shares_rows: ClassVar[bool] = True  # has the option ``known``
    views: Annotated[
        Sequence[Any], Each(Of("fit_transform", "OwnScale()"), "a list of {name}", least=1)
    ]

    _learn: ClassVar[Callable[..., list[Any]]]
    _rows: ClassVar[Callable[..., list[NDArray]]]
    _kept: ClassVar[Callable[..., list[NDArray[np.int64]]]]

    @property
    def held_out(self) -> bool:
        """Whether the rows of a recording are to come from a view fitted without its group."""
        return any(says(view, "held_out") for view in self.views)

    @property
    def keeps_all(self) -> bool:
        """Whether there is a row for every row of a recording."""
        return all(says(view, "keeps_all") for view in self.views)

    @property
    def n_features_in_(self) -> int:
        """The number of columns of the training recordings."""
        check_is_fitted(self, "views_")
        return self.views_[0].n_features_in_

    def fit(
        self, X: Any, y: Any = None, groups: ArrayLike | None = None, known: Known = None
    ) -> Self:
        """Fit all views. The rows of the last one in a chain are not computed.

        ``known`` keeps rows of the first view for other chains that begin with an equal one.
        """
        self._fitted(X, y, groups, known, rows=False)
        return self

    def transform(self, X: Any, known: Known = None) -> Any:
        """Compute the rows of every recording."""
        if not hasattr(self, "views_"):
            check_is_fitted(self, "views_")
        return self._applied(self._rows, X, self.views_, known)

    def fit_transform(self, X: Any, y: Any = None, groups: ArrayLike | None = None) -> Any:
        """Fit all views, and compute the rows of the training recordings."""
        return self._fitted(X, y, groups, None, rows=True)

    def _fitted(self, X: Any, y: Any, groups: Any, known: Known, rows: bool) -> Any:
        check_parameters(self)
        views = [clone(view) for view in self.views]
        found = self._applied(self._learn, X, views, known, y, groups, rows)
        self.views_ = views
        return found

    @available_if(lambda self: not self.keeps_all)
    def kept(self, X: Any) -> Any:
        """Return the numbers of the rows that all views keep, for every recording."""
        check_is_fitted(self, "views_")
        return self._applied(self._kept, X)

    def _applied(self, function: Callable[..., list[Any]], X: Any, *more: Any) -> Any:
        """Apply a function of a list of recordings to such a list, or to a single one."""
        if not is_one(X):
            return function(list(X), *more)
        real_array(type(self).__name__, "X", X, allow=("missing",))
        return function([X], *more)[0]


class Chain(_Composed):
    """One view after another.

    If a view leaves rows out, the labels follow. Views that read neighbors cannot stand behind it,
    because they would read across gaps.

    Parameters
    ----------
    views : sequence of views
        The first one reads the recordings, and each of the others reads the rows of the one before.

    Attributes
    ----------
    views_ : list of fitted views
    n_features_in_ : int

    Raises
    ------
    ValueError
        If a view that reads neighbors follows one that leaves rows out, or if a view cannot use the
        rows or the labels.

    See Also
    --------
    Union : views side by side.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.views import Chain, OwnScale, Windows
    >>> chain = Chain([OwnScale(), Windows((2, 5))]).fit([np.arange(20.0).reshape(10, 2)])
    >>> chain.transform([np.arange(8.0).reshape(4, 2)])[0].shape
    (4, 10)
    """

    @classmethod
    def of_fitted(cls, *views: Any) -> Self:
        """Chain views that have already been fitted."""
        chain = cls(views)
        chain.views_ = list(views)
        return chain

    @property
    def missing(self) -> bool:
        """Whether recordings may contain NaN."""
        return says(self.views[0], "missing")

    @property
    def running(self) -> bool:
        """Whether rows are running sums, that is, whether the rows of the last view are."""
        return says(self.views[-1], "running")

    @property
    def reach(self) -> tuple[int, int] | None:
        """The sum of the reaches of the views; None if one reach is None, or if a view reads the
        running sums of another."""
        *first, last = getattr(self, "views_", self.views)
        reaches = [view.reach for view in (*first, last)]
        if None in reaches or any(says(view, "running") for view in first):
            return None
        return sum(r[0] for r in reaches), sum(r[1] for r in reaches)

    @property
    def matrix_(self) -> NDArray[np.float64]:
        """The product of the matrices, if all views are linear."""
        return reduce(lambda product, W: W @ product, [view.matrix_ for view in self.views_])

    def _learn(
        self, X: list[Any], views: list[Any], known: Known, y: Any, groups: Any, rows: bool
    ) -> list[Any]:
        gaps = None  # the view that has left rows out
        for view in views:
            _check_gaps(gaps, view)
            if view is views[-1] and not rows:
                _check_gaps(gaps, view.fit(X, y, groups), fitted=True)
                break
            if known is not None and view is views[0] and hasattr(type(view), "rows_key"):
                view.fit(X, y, groups)
                found = self._rows(X, [view], known)
            else:
                found = view.fit_transform(X, y, groups)
            _check_gaps(gaps, view, fitted=True)
            if not says(view, "keeps_all"):
                gaps, kept = view, view.kept(X)
                y = None if y is None else y.at(kept)
            X = found
        return X

    def _rows(self, X: list[Any], views: list[Any], known: Known) -> list[NDArray]:
        first, *others = views
        if known is None or not hasattr(first, "rows_key"):
            X = first.transform(X)
        else:
            keys = [(id(one), first.rows_key) for one in X]
            new = {key: one for key, one in zip(keys, X) if key not in known}
            if new:
                known.update(zip(new, first.transform([*new.values()])))
            X = [known[key] for key in keys]
        for view in others:
            X = view.transform(X)
        return X

    def _kept(self, X: list[Any]) -> list[NDArray[np.int64]]:
        kept = [np.arange(len(one)) for one in X]
        for view in self.views_:
            if not says(view, "keeps_all"):
                kept = [before[now] for before, now in zip(kept, view.kept(X))]
            X = view.transform(X)
        return kept


class Union(_Composed):
    """The columns of several views of the same recordings, side by side.

    Only rows that all views keep are kept.

    Parameters
    ----------
    views : sequence of views

    Attributes
    ----------
    views_ : list of fitted views
    n_features_in_ : int

    Raises
    ------
    ValueError
        If a view cannot use the recordings or the labels.

    See Also
    --------
    Chain : one view after another.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.views import Columns, OwnScale, Union
    >>> union = Union([Columns(0, 1), OwnScale()]).fit([np.arange(20.0).reshape(10, 2)])
    >>> union.transform([np.arange(8.0).reshape(4, 2)])[0].shape
    (4, 3)
    """

    @property
    def missing(self) -> bool:
        """Whether recordings may contain NaN."""
        return all(says(view, "missing") for view in self.views)

    @property
    def running(self) -> bool:
        """Whether rows are running sums, that is, whether the rows of all views are."""
        return all(says(view, "running") for view in self.views)

    @property
    def reach(self) -> tuple[int, int] | None:
        """The largest reach of the views; None if one reach is None, or if only some are running
        sums."""
        reaches = [view.reach for view in getattr(self, "views_", self.views)]
        mixed = len({says(view, "running") for view in self.views}) > 1
        return None if mixed else widest(reaches)

    @property
    def matrix_(self) -> NDArray[np.float64]:
        """The matrices of the views, one above the other, if all views are linear."""
        return np.vstack([view.matrix_ for view in self.views_])

    def _learn(
        self, X: list[Any], views: list[Any], known: Known, y: Any, groups: Any, rows: bool
    ) -> list[Any]:
        found = [view.fit_transform(X, y, groups) for view in views]
        return _side_by_side(views, X, found)

    def _rows(self, X: list[Any], views: list[Any], known: Known) -> list[NDArray]:
        return _side_by_side(views, X, [view.transform(X) for view in views])

    def _kept(self, X: list[Any]) -> list[NDArray[np.int64]]:
        return [reduce(np.intersect1d, one) for one in zip(*_kept_by(self.views_, X))]


def _check_gaps(gaps: Any, view: Any, *, fitted: bool = False) -> None:
    """Refuse a view that reads other rows behind one that leaves rows out."""
    far = view.reach not in ((0, 0), None)
    far = far or (fitted and view.reach is None and not hasattr(view, "matrix_"))
    if gaps is not None and far:
        raise ValueError(
            f"Chain needs views of single rows behind {shown(gaps)}, which leaves rows out, but "
            f"{shown(view)} would read across gaps; take Fill, or put this view first."
        )


def _kept_by(views: list[Any], X: list[Any]) -> list[list[NDArray[np.int64]]]:
    """Return the numbers of the rows that each view keeps of every recording."""
    whole = [np.arange(len(one)) for one in X]
    return [whole if says(view, "keeps_all") else view.kept(X) for view in views]


def _side_by_side(views: list[Any], X: list[Any], rows: list[list[NDArray]]) -> list[NDArray]:
    """Join the columns of the views, in the rows that all of them keep."""
    tables = []
    for kept, parts in zip(zip(*_kept_by(views, X)), zip(*rows)):
        common = reduce(np.intersect1d, kept)
        tables.append(np.hstack([part[np.searchsorted(k, common)] for k, part in zip(kept, parts)]))
    return tables
